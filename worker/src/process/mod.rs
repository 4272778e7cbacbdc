//! A Python process: started, spoken to, watched to its end.
//!
//! The death of a process is data: its supervisor reports every frame it had written and then how it ended,
//! always in this order, and by then nothing that it started is left.

pub(crate) mod address_space;
mod frames;
pub(crate) mod import_failure;
pub(crate) mod launch;
pub(crate) mod log;
pub(crate) mod printed;
pub(crate) mod seen_errors;
mod spawn;
pub(crate) mod stack;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prs_common::process_page::ProcessPage;
use prs_common::wire::{ErrorInfo, FromProcess, ProtocolViolation, Stage, ToProcess, encode};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use frames::FrameReader;
pub(crate) use spawn::{ProcessSettings, Streams};
use spawn::{SpawnError, spawn};

use crate::host::descendants::Family;

/// How long the last frames of a dead process may take to arrive.
const LAST_FRAMES: Duration = Duration::from_secs(2);

/// Something a process said or did.
#[derive(Debug)]
pub(crate) struct Event {
    /// The slot it belongs to.
    pub(crate) slot: usize,
    /// Which process of the node it was, from 0.
    pub(crate) number: u32,
    /// What happened.
    pub(crate) kind: EventKind,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum EventKind {
    /// It said something, and these are the rows that it tells of.
    Said(FromProcess, Bytes),
    /// It sent bytes that are no message, and is killed.
    Violated(ProtocolViolation),
    /// It has ended, and nothing of it is left.
    Exited {
        /// As Python's `subprocess` says it: the exit code, or minus the signal.
        returncode: i32,
        /// Processes it had left behind, killed by now.
        left_behind: usize,
    },
    /// It was asked for its stack, and has written it, or does not.
    StackWritten,
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: u32,
    /// The shared words.
    pub(crate) page: Arc<ProcessPage>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    kill: CancellationToken,
    /// Whether its stack is wanted before it is killed.
    wants_stack: Arc<AtomicBool>,
    ask: Arc<Notify>,
}

/// What the processes of a node have in common.
#[derive(Debug, Clone)]
pub(crate) struct Tending {
    /// What they said and did: their supervisors write, the dispatcher reads.
    pub(crate) events_tx: mpsc::Sender<Event>,
    /// Holds their tasks.
    pub(crate) tasks: TaskTracker,
    /// Set when all of them end at once: what they left behind is then looked for once, not once for each.
    pub(crate) all_end: CancellationToken,
}

impl Process {
    /// Starts a process.
    pub(crate) fn start(
        settings: &ProcessSettings,
        slot: usize,
        number: u32,
        tending: &Tending,
    ) -> Result<Self, SpawnError> {
        let spawned = spawn(settings)?;
        let page = Arc::new(spawned.page);
        let pid = spawned.child.id().unwrap_or_default();
        let (read, write) = spawned.socket.into_split();
        let (frames, outbox) = mpsc::unbounded_channel();
        let kill = CancellationToken::new();
        let wants_stack = Arc::new(AtomicBool::new(false));
        let ask = Arc::new(Notify::new());
        tending.tasks.spawn(write_frames(write, outbox));
        let supervisor = Supervisor {
            slot,
            number,
            pid,
            family: Family::of_process(&settings.token, settings.mark),
            child: spawned.child,
            events_tx: tending.events_tx.clone(),
            all_end: tending.all_end.clone(),
            kill: kill.clone(),
            wants_stack: Arc::clone(&wants_stack),
            ask: Arc::clone(&ask),
            stack: settings.stack.clone(),
        };
        tending.tasks.spawn(supervisor.run(read));
        Ok(Self { pid, page, frames, kill, wants_stack, ask })
    }

    /// Says something to it.
    pub(crate) fn say(&self, message: &ToProcess) {
        self.send(encode(message, []));
    }

    /// Sends a frame. A process that is gone does not read it; its end is reported as an event.
    pub(crate) fn send(&self, frame: Vec<u8>) {
        let _ = self.frames.send(frame);
    }

    /// Asks it for its stack; an event tells when that is done.
    pub(crate) fn ask_stack(&self) {
        self.ask.notify_one();
    }

    /// Kills it as [`Process::kill`] does, after it has written its stack, which takes a moment.
    pub(crate) fn kill_with_stack(&self) {
        self.wants_stack.store(true, Ordering::Relaxed);
        self.kill();
    }

    /// Kills the process and everything it started.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}

async fn write_frames(mut socket: OwnedWriteHalf, mut outbox: mpsc::UnboundedReceiver<Vec<u8>>) {
    use tokio::io::AsyncWriteExt;
    while let Some(frame) = outbox.recv().await {
        if let Err(error) = socket.write_all(&frame).await {
            tracing::debug!(%error, "a process no longer reads; its end will be reported");
            return;
        }
    }
}

struct Supervisor {
    slot: usize,
    number: u32,
    pid: u32,
    family: Family,
    child: Child,
    events_tx: mpsc::Sender<Event>,
    all_end: CancellationToken,
    kill: CancellationToken,
    wants_stack: Arc<AtomicBool>,
    ask: Arc<Notify>,
    stack: PathBuf,
}

impl Supervisor {
    async fn run(mut self, socket: OwnedReadHalf) {
        let mut reader = FrameReader::new(socket);
        let status = self.until_exit(&mut reader).await;
        // First end what may still hold the socket open, then read what the process had written.
        spawn::kill_group(self.pid);
        let family = self.family.clone();
        let left_behind = if self.all_end.is_cancelled() {
            0
        } else {
            tokio::task::spawn_blocking(move || family.kill()).await.unwrap_or(0)
        };
        let rest = async {
            while let Ok(Some((message, rows))) = reader.next().await {
                self.report(EventKind::Said(message, rows)).await;
            }
        };
        if tokio::time::timeout(LAST_FRAMES, rest).await.is_err() {
            tracing::warn!(
                pid = self.pid,
                "the socket of a dead process stays open; its last words are lost"
            );
        }
        let returncode = returncode(status);
        self.report(EventKind::Exited { returncode, left_behind }).await;
    }

    async fn until_exit(&mut self, reader: &mut FrameReader) -> Option<ExitStatus> {
        let mut reading = true;
        let mut killed = false;
        loop {
            tokio::select! {
                status = self.child.wait() => return status.ok(),
                message = reader.next(), if reading => match message {
                    Ok(Some((message, rows))) => {
                        if !self.report(EventKind::Said(message, rows)).await {
                            self.kill.cancel();
                        }
                    }
                    refused => {
                        // It closed its socket, or broke the protocol: it is of no use any more.
                        reading = false;
                        if let Err(violation) = refused {
                            self.report(EventKind::Violated(violation)).await;
                        }
                        self.kill.cancel();
                    }
                },
                () = self.ask.notified(), if !killed => {
                    stack::ask(self.pid, &self.stack).await;
                    self.report(EventKind::StackWritten).await;
                }
                () = self.kill.cancelled(), if !killed => {
                    killed = true;
                    if self.wants_stack.load(Ordering::Relaxed) {
                        stack::ask(self.pid, &self.stack).await;
                    }
                    spawn::kill_group(self.pid);
                    // One that has the terminal leads no group.
                    let _ = self.child.start_kill();
                }
            }
        }
    }

    /// Tells the dispatcher; false when that is gone.
    async fn report(&self, kind: EventKind) -> bool {
        let event = Event { slot: self.slot, number: self.number, kind };
        let is_told = self.events_tx.send(event).await.is_ok();
        if !is_told {
            tracing::debug!(pid = self.pid, "the node has left before its process ended");
        }
        is_told
    }
}

/// How a process ended, as Python's `subprocess` says it.
fn returncode(status: Option<ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.and_then(|status| status.code().or_else(|| status.signal().map(|signal| -signal))).unwrap_or(-1)
}

/// The error of a process whose socket is broken; `why` says how that shows.
pub(crate) fn broken_socket(stage: Stage, why: &str, during: &str) -> ErrorInfo {
    let message = format!(
        "the process was killed {during}, because its socket to prs is broken: {why}; the script, or what it uses, closes, \
         replaces or writes to a descriptor that it did not open: have it leave those alone"
    );
    ErrorInfo::new(stage, "ProcessDied", message)
}

/// The keys that help where memory runs out because a script keeps what it had.
pub(crate) const WHERE_IT_LEAKS: &str =
    "where the script leaks, max_memory_per_process or max_mini_batches_per_process";

/// The error of a process that ended without a word.
pub(crate) fn silent_death(stage: Stage, returncode: i32, during: &str) -> ErrorInfo {
    let how = match returncode {
        -9 => "was killed (returncode -9; the kernel does this when memory runs out)".to_owned(),
        code if code < 0 => format!("was killed by signal {} (returncode {code})", -code),
        code => format!("ended by itself (returncode {code})"),
    };
    let remedy = if returncode == -9 {
        format!(
            " (if it did, smaller mini-batches or a smaller process_count_per_node help; {WHERE_IT_LEAKS})"
        )
    } else {
        String::new()
    };
    let mut error = ErrorInfo::new(stage, "ProcessDied", format!("the process {how} {during}{remedy}"));
    address_space::name_limit(&mut error);
    error
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_end_of_a_process_is_told_as_python_tells_it() {
        for (status, code, how) in [
            (0, 0, "ended by itself (returncode 0)"),
            (7 << 8, 7, "ended by itself (returncode 7)"),
            (6, -6, "was killed by signal 6 (returncode -6)"),
            (9, -9, "was killed (returncode -9; the kernel does this when memory runs out)"),
            (11, -11, "was killed by signal 11 (returncode -11)"),
            // A signal that left a core behind.
            (0x0b | 0x80, -11, "was killed by signal 11 (returncode -11)"),
        ] {
            assert_eq!(returncode(Some(ExitStatus::from_raw(status))), code, "{status}");
            let told = silent_death(Stage::Run, code, "in run()");
            let message = format!("the process {how} in run()");
            assert_eq!(told.category, "ProcessDied");
            assert!(told.message.starts_with(&message), "{}", told.message);
            assert_eq!(told.message.contains("max_memory_per_process"), code == -9, "{}", told.message);
        }
        assert_eq!(returncode(None), -1);
    }
}
