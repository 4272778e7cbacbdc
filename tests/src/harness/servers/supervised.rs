//! Processes that end with the test process, however that ends.
//!
//! A static is not dropped when a test binary ends, and a binary that is killed drops nothing. So a watcher stands
//! beside each server: a shell that leads a process group and reads from a pipe whose other end only the test
//! process has. The server runs in that group; when the pipe closes, the watcher kills the group.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::deadline::wait_for;

/// Waits for the end of the pipe, then kills its group (itself with it) from outside, and removes the folder once
/// nobody is left who could write into it.
const WATCHER: &str = r#"
read -r _
exec setsid sh -c '
    kill -s KILL -- "-$1"
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 -- "-$1" || break; sleep 0.1; done
    [ -z "$2" ] || rm -rf -- "$2"
' sh "$$" "$1"
"#;

/// A running command and all that it starts, as long as that stays in its process group.
#[derive(Debug)]
pub struct Supervised {
    watcher: Child,
    // Closing it is the signal.
    pipe: Option<ChildStdin>,
    child: Child,
}

impl Supervised {
    /// Starts a command. `folder` is removed when the test process ends without having removed it.
    pub fn start(mut command: Command, folder: Option<&Path>) -> io::Result<Self> {
        let mut watcher = Command::new("sh")
            .args(["-c", WATCHER, "sh"])
            .arg(folder.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = watcher.stdin.take();
        let group = watcher.id().try_into().map_err(io::Error::other)?;
        match command.process_group(group).spawn() {
            Ok(child) => Ok(Self { watcher, pipe, child }),
            Err(error) => {
                drop(watcher.kill());
                drop(watcher.wait());
                Err(error)
            }
        }
    }

    /// The exit status of the command, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it was killed by [`Self::kill`].
    pub fn was_killed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Kills the command and all that it started, with SIGKILL, and waits until they are gone.
    pub fn kill(&mut self) {
        if self.pipe.is_none() {
            return;
        }
        let group = Pid::from_child(&self.watcher);
        // Its watcher is in the group, so the group is there.
        kill_process_group(group, Signal::KILL).unwrap();
        self.child.wait().unwrap();
        self.watcher.wait().unwrap();
        self.pipe = None;
        wait_for("the processes of a killed server to be gone", Duration::from_secs(10), || {
            test_kill_process_group(group).is_err().then_some(())
        });
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn alive(pid: &str) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.trim())) else { return false };
        // A zombie that nobody has waited for yet is dead.
        !stat.contains(") Z ")
    }

    /// A command that starts another and writes both process ids.
    fn two(folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $! >grandchild; echo $$ >child; wait"]).current_dir(folder);
        command
    }

    fn pids(folder: &Path) -> [String; 2] {
        let read =
            |name: &str| fs::read_to_string(folder.join(name)).ok().filter(|text| text.ends_with('\n'));
        wait_for("the process ids", Duration::from_secs(10), || Some([read("child")?, read("grandchild")?]))
    }

    #[test]
    fn all_that_a_command_started_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut supervised = Supervised::start(two(folder.path()), None).unwrap();
        let pids = pids(folder.path());
        assert!(supervised.ended().is_none());
        supervised.kill();
        assert!(!pids.iter().any(|pid| alive(pid)));
        supervised.kill();
    }

    #[test]
    fn all_is_killed_and_removed_when_the_pipe_closes() {
        let folder = tempfile::tempdir().unwrap();
        let mut supervised = Supervised::start(two(folder.path()), Some(folder.path())).unwrap();
        let pids = pids(folder.path());
        // What the end of this process would do.
        supervised.pipe = None;
        wait_for("the end of the command", Duration::from_secs(10), || {
            (!pids.iter().any(|pid| alive(pid)) && !folder.path().exists()).then_some(())
        });
        supervised.child.wait().unwrap();
        supervised.watcher.wait().unwrap();
    }

    #[test]
    fn absent_command_leaves_no_watcher() {
        let error = Supervised::start(Command::new("no-such-program"), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
