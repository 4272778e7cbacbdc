//! The processes that belong to one job of a test, wherever they hide.
//!
//! Every command of a job gets a token of its own in its environment, which all its children inherit, whatever
//! they do with groups, sessions and parents.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable with the token.
pub(super) const TOKEN: &str = "PRS_TEST_TOKEN";

/// A running process.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its id.
    pub pid: i32,
    /// Its command line, for people.
    pub command: String,
}

impl Found {
    /// Whether it is one of the processes that host the entry script.
    pub fn hosts_the_script(&self) -> bool {
        self.command.contains("azureml_user.parallel_run.process")
    }

    /// Kills it; false when it was gone already.
    pub fn kill(&self) -> bool {
        Pid::from_raw(self.pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }
}

/// Whether a process runs. A zombie does not.
pub fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which is in parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Every process with this token. A zombie has no environment and is not found: it runs no more.
pub fn having_token(token: &str) -> Vec<Found> {
    let wanted = format!("{TOKEN}={token}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // Unreadable: it has ended meanwhile.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()).then(|| {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                Found { pid, command: String::from_utf8_lossy(&command).replace('\0', " ") }
            })
        })
        .collect()
}
