//! Where a process was when it crashed, or took too long: the stack that `faulthandler` of Python wrote
//! for it, as a traceback for people and the line of the user's code.
//!
//! Python writes it at a signal of the agent, or when it crashes; nothing is done before.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prs_common::source_line::SourceLine;
use prs_common::tree;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// The signal that asks a process for its stack: a real-time one, which hardly any script uses.
pub(crate) const SIGNAL: i32 = 40;
/// How long a process has to write it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at it.
const STACK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of a stack that are read.
const LONGEST: usize = 32 << 10;
/// Signals by which a process dies after it has written its stack.
const CRASHES: [Signal; 5] = [Signal::SEGV, Signal::ABORT, Signal::BUS, Signal::ILL, Signal::FPE];
/// What stands before the stack of a crash.
const CRASH: &str = "Fatal Python error: ";
/// Part of the paths of prs's own Python.
const OWN: &str = "/azureml_user/parallel_run/";

/// The file that a process with this folder writes its stack to.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("stack.txt")
}

/// A stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// For people; empty where there is none.
    pub(crate) text: String,
    /// The innermost line of the user's code.
    pub(crate) frame: Option<SourceLine>,
}

/// Asks a process for its stack and waits until it is written, but not for long.
#[expect(unsafe_code, reason = "a real-time signal has no name")]
pub(crate) async fn ask(pid: u32, path: &Path) {
    // What a child of the script left there when it crashed is none of it.
    let emptied = tree::open_to_write(path).and_then(|file| file.set_len(0));
    let Some((pid, ())) = Pid::from_raw(pid as i32).zip(emptied.ok()) else { return };
    // SAFETY: no C library uses a signal of this number for itself, and another process gets it.
    let signal = unsafe { Signal::from_raw_unchecked(SIGNAL) };
    if kill_process(pid, signal).is_err() {
        return;
    }
    let (deadline, mut before) = (Instant::now() + PATIENCE, 0);
    while Instant::now() < deadline {
        tokio::time::sleep(STACK_INTERVAL).await;
        let size = fs::metadata(path).map_or(0, |file| file.len());
        if size > 0 && size == before {
            return;
        }
        before = size;
    }
}

/// The stack of a process that the agent [asked](ask) for it.
pub(crate) fn when_asked(path: &Path, code_dir: &Path) -> Stack {
    let written = read(path);
    if written.is_empty() { Stack::default() } else { tidy(&written, code_dir) }
}

/// The stack of a process that ended by itself, if it crashed.
pub(crate) fn when_died(path: &Path, returncode: i32, code_dir: &Path) -> Stack {
    if !CRASHES.iter().any(|signal| signal.as_raw() == -returncode) {
        return Stack::default();
    }
    let written = read(path);
    match written.rfind(CRASH) {
        Some(at) => tidy(&written[at..], code_dir),
        None => Stack::default(),
    }
}

fn read(path: &Path) -> String {
    let bytes = tree::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned()
}

/// Leaves out of `written` what is prs's own, and finds the innermost line of the code below `code_dir`: of the thread
/// that was running, else of any.
fn tidy(written: &str, code_dir: &Path) -> Stack {
    let mut text = String::new();
    let (mut frame, mut of_current, mut is_current) = (None, false, false);
    for line in written.lines() {
        if line.starts_with("Extension modules: ") {
            continue;
        }
        if line.starts_with("Thread ") || line.starts_with("Current thread ") {
            is_current = line.starts_with("Current");
        } else if let Some(found) = parse(line) {
            if found.file.contains(OWN) || found.file.starts_with("<frozen ") {
                continue;
            }
            let is_users =
                Path::new(&found.file).starts_with(code_dir) && !found.file.contains("/site-packages/");
            if is_users && (frame.is_none() || (is_current && !of_current)) {
                frame = Some(found);
                of_current = is_current;
            }
        }
        text.push_str(line);
        text.push('\n');
    }
    if let Some(frame) = &mut frame {
        frame.text = text_of(frame);
    }
    Stack { text, frame }
}

/// The frame in `  File "x.py", line 5 in run`.
fn parse(line: &str) -> Option<SourceLine> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    let function = Some(function.trim_end()).filter(|function| *function != "<module>").unwrap_or_default();
    let (file, function) = (file.to_owned(), function.to_owned());
    Some(SourceLine { file, line: line.parse().ok()?, function, text: String::new() })
}

/// The text of the line that a frame names.
fn text_of(frame: &SourceLine) -> String {
    let text = fs::read_to_string(&frame.file).unwrap_or_default();
    let line = text.lines().nth((frame.line as usize).saturating_sub(1)).unwrap_or_default();
    line.trim().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_shows_the_users_code() {
        let folder = tempfile::tempdir().unwrap();
        let code = folder.path().join("code");
        fs::create_dir(&code).unwrap();
        fs::write(code.join("main.py"), "import time\ndef wait():\n    time.sleep(9)\n").unwrap();
        let main = code.join("main.py").display().to_string();
        let written = format!(
            "Thread 0x01 (most recent call first):\n  File \"{main}\", line 1 in watch\n\n\
             Current thread 0x02 (most recent call first):\n  File \"/usr/lib/numpy.py\", line 7 in dot\n  \
             File \"{main}\", line 3 in wait\n  File \"/w/azureml_user/parallel_run/process.py\", line 9 in main\n  \
             File \"<frozen runpy>\", line 88 in _run_code\n"
        );
        let stack = tidy(&written, &code);
        let expected = format!(
            "Thread 0x01 (most recent call first):\n  File \"{main}\", line 1 in watch\n\n\
             Current thread 0x02 (most recent call first):\n  File \"/usr/lib/numpy.py\", line 7 in dot\n  \
             File \"{main}\", line 3 in wait\n"
        );
        assert_eq!(stack.text, expected);
        let frame = stack.frame.unwrap();
        assert_eq!((frame.line, &*frame.function, &*frame.text), (3, "wait", "time.sleep(9)"));
        assert_eq!(tidy("nothing\n", &code), Stack { text: "nothing\n".to_owned(), frame: None });
    }

    #[test]
    fn only_a_crash_has_a_stack_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        assert_eq!(when_died(&path, -11, folder.path()), Stack::default(), "nothing was written");
        fs::write(
            &path,
            "Fatal Python error: of a child\n\nFatal Python error: Aborted\n\nExtension modules: a\n",
        )
        .unwrap();
        assert_eq!(when_died(&path, -11, folder.path()).text, "Fatal Python error: Aborted\n\n");
        for returncode in [-9, 1, 0] {
            assert_eq!(when_died(&path, returncode, folder.path()), Stack::default(), "{returncode}");
        }
    }
}
