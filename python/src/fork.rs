//! Forked children: a script may fork, and the child must never speak for the process.
//!
//! A child that returns out of `run()` into the loop is ended before it touches the connection.

use rustix::process::{Pid, getpid};

/// Exit code of a forked child that came back from the script into the loop.
const STRAY_CHILD: i32 = 70;

/// Remembers which process this is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Original(Pid);

impl Original {
    pub(crate) fn here() -> Self {
        Self(getpid())
    }

    /// Ends a forked child at once: no exit handlers, no flushing of buffers it shares with its parent.
    #[expect(unsafe_code, reason = "`_exit` is the only exit a forked child may take")]
    #[inline]
    pub(crate) fn end_stray_child(self) {
        if getpid() != self.0 {
            // SAFETY: `_exit` takes any number and never returns.
            unsafe { exit_at_once(STRAY_CHILD) }
        }
    }
}

#[expect(unsafe_code, reason = "rustix has `_exit` only for its own runtime")]
unsafe extern "C" {
    #[link_name = "_exit"]
    fn exit_at_once(status: i32) -> !;
}
