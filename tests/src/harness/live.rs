//! A command that is running.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::Ended;
use crate::deadline::wait_for;

/// Longer than any command of these tests takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running command; killed when dropped before its end was seen.
#[derive(Debug)]
pub struct Live {
    child: Child,
    arguments: Vec<String>,
    stdout: PathBuf,
    stderr: PathBuf,
    started: Instant,
    status: Option<ExitStatus>,
}

impl Live {
    /// Starts `command`, which has its standard input; its output goes to files below `folder`.
    pub(super) fn start(mut command: Command, folder: &std::path::Path, name: &str) -> Self {
        let (stdout, stderr) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        hear_signals();
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        let arguments = command.get_args().map(|one| one.to_string_lossy().into_owned()).collect();
        let started = Instant::now();
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        Self { child, arguments, stdout, stderr, started, status: None }
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Reads what it has written to standard output so far, also while something else has hold of the command.
    pub fn stdout_file(&self) -> impl Fn() -> String + use<> {
        let path = self.stdout.clone();
        move || read(&path)
    }

    /// Waits until this is on its standard output.
    #[track_caller]
    pub fn wait_until_printed(&mut self, part: &str) {
        let path = self.stdout.clone();
        self.wait_until(part, || read(&path).contains(part));
    }

    /// Waits for `condition`; the end of the command before that is a panic.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        wait_for(what, PATIENCE, || {
            if condition() {
                return Some(());
            }
            let ended = self.has_ended();
            // What it did last may have made the condition true.
            assert!(!ended || condition(), "the command ended before: {what}\n{}", self.stderr());
            ended.then_some(())
        });
    }

    /// Waits until this is on its standard error.
    #[track_caller]
    pub fn wait_until_said(&mut self, part: &str) {
        let path = self.stderr.clone();
        self.wait_until(part, || read(&path).contains(part));
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status.is_some()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it had so far, bytes; 0 once it has ended.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// Whether it is stopped, by `SIGSTOP`.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The state stands behind the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    /// Sends a signal; false when the command has ended.
    pub fn signal(&mut self, signal: Signal) -> bool {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        // Not waited for yet, so the id still is this command's.
        !self.has_ended() && kill_process(pid, signal).is_ok()
    }

    /// As Ctrl-C would.
    #[track_caller]
    pub fn interrupt(&mut self) {
        assert!(self.signal(Signal::INT), "it ended before it was interrupted\n{}", self.stderr());
    }

    /// As `kill -9` would; true when the command died of it.
    pub fn kill(mut self) -> bool {
        let _ = self.signal(Signal::KILL);
        let status = self.wait_status();
        status.signal() == Some(Signal::KILL.as_raw())
    }

    fn wait_status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() {
            if Instant::now() > deadline {
                let said = self.stderr();
                let _ = self.child.kill();
                panic!("the command did not end within {PATIENCE:?}\n{said}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.status.expect("it has ended")
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Ended {
        let status = self.wait_status();
        Ended {
            arguments: std::mem::take(&mut self.arguments),
            code: status.code(),
            at: SystemTime::now(),
            took: self.started.elapsed(),
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Has commands hear Ctrl-C where the tests do not: a shell that starts them in the background has them ignore it, and what
/// they start would ignore it, too. A signal that is caught is none that is ignored by what is started.
fn hear_signals() {
    static HEARD: OnceLock<Runtime> = OnceLock::new();
    HEARD.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        for number in [Signal::INT, Signal::HUP].map(Signal::as_raw) {
            if ignored & (1 << (number - 1)) != 0 {
                let _context = runtime.enter();
                drop(signal(SignalKind::from_raw(number)).unwrap());
            }
        }
        runtime
    });
}

fn read(path: &std::path::Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
