//! Ends what a process left behind: children that outlived it, also those that left its process group.
//!
//! Every process carries a token in its environment, which its children inherit; who has the token belongs to
//! it. Tokens are `<job>-<incarnation>-<node>-<process>.`: a prefix stands for all processes of a job or node.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable with the token of a process.
pub(crate) const TOKEN_VARIABLE: &str = "PRS_PROCESS_TOKEN";
/// How long to look for processes that are being born while others are killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(1);

/// Ends what former runs of a job left behind on this host: children that had left the group of a process whose
/// agent was killed. Blocks.
pub fn end_left_overs(job_id: &str) -> usize {
    kill_all(&format!("{job_id}-"))
}

/// Kills every process whose token starts with `prefix` and returns how many there were. Blocks.
pub(crate) fn kill_all(prefix: &str) -> usize {
    let wanted = format!("{TOKEN_VARIABLE}={prefix}");
    let deadline = Instant::now() + PATIENCE;
    let mut killed = HashSet::new();
    loop {
        let found = having(wanted.as_bytes());
        if found.is_empty() || Instant::now() > deadline {
            return killed.len();
        }
        for process in found {
            // It may have ended meanwhile, or take a moment to.
            if killed.insert(process) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        std::thread::sleep(AGAIN);
    }
}

fn having(variable: &[u8]) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            // Unreadable: somebody else's, or gone. A zombie has an empty environment.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            environment.split(|&byte| byte == 0).any(|entry| entry.starts_with(variable)).then_some(pid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_of_a_child_in_its_own_session_is_found() {
        let token = format!("test-{}", std::process::id());
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sleep 100 & echo started"])
            .env(TOKEN_VARIABLE, &token)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        shell.wait().unwrap();
        assert_eq!(kill_all(&token), 1);
        assert_eq!(kill_all(&token), 0);
    }
}
