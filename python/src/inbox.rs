//! What comes from the agent: a *reader* thread reads frames ahead of need.
//!
//! While the script runs, the next mini-batches arrive. The end of the stream means that the agent is gone;
//! the reader then ends the whole process group at once, whatever the script is doing, so that no orphan goes
//! on computing. The reader does not decode: frames are handed over as they are and borrowed from.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prs_common::wire::{Frame, Frames};
use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};

/// Longest a process lives on after it said its last word and the agent closed the connection.
const LAST_GRACE: Duration = Duration::from_secs(10);
/// Bytes read at a time.
const READ_BUFFER: usize = 64 * 1024;

/// Frames that were read and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    frames: Mutex<VecDeque<Frame>>,
    arrived: Condvar,
    /// The process has said its last word; the end of the stream is in order from now on.
    leaving: AtomicBool,
}

impl Inbox {
    fn frames(&self) -> MutexGuard<'_, VecDeque<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next frame if it is already here.
    pub(crate) fn take(&self) -> Option<Frame> {
        self.frames().pop_front()
    }

    /// The next frame; `None` when none came within `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Frame> {
        let (mut frames, _) = self
            .arrived
            .wait_timeout_while(self.frames(), timeout, |frames| frames.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        frames.pop_front()
    }

    /// True when no frame waits to be taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames().is_empty()
    }

    /// The last message is about to be written: the end of the stream no longer kills at once.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// Body of the reader thread: fills the inbox, and ends the process at the end of the stream.
    pub(crate) fn keep_reading(&self, socket: &UnixStream) {
        // The agent is gone in either case; it has nobody left to tell.
        let _: io::Result<()> = self.read_all(socket);
        if self.leaving.load(Ordering::SeqCst) {
            std::thread::sleep(LAST_GRACE);
        }
        end_process_group();
    }

    fn read_all(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut frames = Frames::default();
        let mut piece = vec![0; READ_BUFFER];
        loop {
            while let Some(frame) = frames.next_frame().map_err(io::Error::other)? {
                self.frames().push_back(frame);
                self.arrived.notify_one();
            }
            match socket.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => frames.buffer().extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Kills the process with everything it started. A process that does not lead a group of its own (tried by
/// hand in a shell) ends alone.
fn end_process_group() {
    let own = getpid();
    let sent = if getpgrp() == own {
        kill_process_group(own, Signal::KILL)
    } else {
        kill_process(own, Signal::KILL)
    };
    if sent.is_err() {
        std::process::abort();
    }
}
