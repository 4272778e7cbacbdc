//! Ends what a process left behind: children that outlived it, also those that left its process group.
//!
//! Every process carries a token in its environment, which its children inherit; who has the token belongs to
//! it.

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

/// Kills every process with `token` in its environment and returns how many there were. Blocks.
pub(crate) fn kill_all(token: &str) -> usize {
    let wanted = format!("{TOKEN_VARIABLE}={token}");
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
            environment.split(|&byte| byte == 0).any(|entry| entry == variable).then_some(pid)
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
