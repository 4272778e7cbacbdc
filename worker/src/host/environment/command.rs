//! One program of an installer: run in a group of its own, its lines read as they come, gone when it is given up.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use prs_common::config::password_variables;
use prs_common::job::Secrets;
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use crate::host::descendants::TOKEN_VARIABLE;

/// Longest line that is told, characters.
const LONGEST_LINE: usize = 2_000;
/// Longest line that is read, bytes: secrets are looked for before it is cut.
const LONGEST_READ: usize = 64 << 10;
/// How long what the program started may write on after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Variables that would have an installer look into other environments.
const REMOVED: [&str; 8] = [
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
];

/// The group of a program; killed when dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody may be left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs `command` to its end; `line` hears each line of what it says, without `secrets`. A program whose future is dropped is
/// killed, with what it started. `token` is what it is known by when its agent was killed.
pub(super) async fn run(
    command: &mut Command,
    token: &str,
    secrets: &Secrets,
    mut line: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    for name in password_variables().chain(REMOVED) {
        command.env_remove(name);
    }
    let (reader, writer) = io::pipe()?;
    command.env("PYTHONUNBUFFERED", "1").env(TOKEN_VARIABLE, token).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    end_with_agent(command);
    let mut child = command.spawn()?;
    let group = Group(child.id().and_then(|pid| Pid::from_raw(pid as i32)));
    // The ends of the pipe for the child are still open here.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut line = |said: &str| line(&truncated(&secrets.hide(said)));
    let (mut bytes, mut lines) = (vec![0; 8 << 10], Lines::default());
    let mut ended = None;
    loop {
        tokio::select! {
            read = reader.read(&mut bytes) => match read? {
                0 => break,
                read => lines.take(&bytes[..read], &mut line),
            },
            status = child.wait(), if ended.is_none() => ended = Some(status?),
            () = tokio::time::sleep(LAST_WORDS), if ended.is_some() => break,
        }
    }
    lines.end(&mut line);
    let status = match ended {
        Some(status) => status,
        None => child.wait().await?,
    };
    drop(group);
    Ok(status)
}

/// Has the kernel end the program when the thread that started it ends: one that an agent leaves behind would go on
/// installing. What it started itself ends when nobody reads what it says.
#[expect(unsafe_code, reason = "a signal is asked for between fork and exec")]
fn end_with_agent(command: &mut Command) {
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec there is one system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

fn truncated(line: &str) -> String {
    line.chars().take(LONGEST_LINE).collect()
}

/// Bytes on their way to lines. A progress bar begins its line again and again: each time counts as one.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], line: &mut impl FnMut(&str)) {
        for &byte in bytes {
            if matches!(byte, b'\n' | b'\r') {
                self.end(line);
            } else if self.rest.len() < LONGEST_READ {
                self.rest.push(byte);
            }
        }
    }

    fn end(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        let plain = console::strip_ansi_codes(&text);
        if !plain.trim().is_empty() {
            line(&plain.replace(char::is_control, " "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_as_they_are_said_and_errors_among_them() {
        let mut said = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf 'thr\\033[1mee'; exit 3"]);
        let status =
            run(&mut command, "t", &Secrets::default(), |line| said.push(line.to_owned())).await.unwrap();
        assert_eq!((status.code(), said), (Some(3), vec!["one".into(), "two".into(), "three".into()]));
    }

    #[tokio::test]
    async fn a_program_that_is_given_up_is_gone_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep 600 & echo $! > {}; wait", file.display())]);
        let secrets = Secrets::default();
        let running = run(&mut command, "t", &secrets, |_| {});
        assert!(tokio::time::timeout(Duration::from_millis(500), running).await.is_err());
        let pid = std::fs::read_to_string(&file).unwrap();
        let stat = std::path::PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        // A zombie waits for the process that adopted it.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(std::time::Instant::now() < deadline, "{pid} runs on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
