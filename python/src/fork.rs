//! Forked children: a script may fork, and the child must never speak for the process.
//!
//! A child that returns out of `run()` into the loop is ended before it touches the connection; one that left
//! by `sys.exit` gets the exit code it asked for, since its parent may be waiting for that.

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
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
    pub(crate) fn end_stray_child(self, py: Python<'_>, error: Option<&PyErr>) {
        if getpid() != self.0 {
            let status = exit_code(py, error).unwrap_or(STRAY_CHILD);
            // SAFETY: `_exit` takes any number and never returns.
            unsafe { exit_at_once(status) }
        }
    }
}

/// What `sys.exit` was called with, if that is how the script ended.
fn exit_code(py: Python<'_>, error: Option<&PyErr>) -> Option<i32> {
    let error = error.filter(|error| error.is_instance_of::<PySystemExit>(py))?;
    let code = error.value(py).getattr("code").ok()?;
    if code.is_none() { Some(0) } else { Some(code.extract().unwrap_or(1)) }
}

#[expect(unsafe_code, reason = "rustix has `_exit` only for its own runtime")]
unsafe extern "C" {
    #[link_name = "_exit"]
    fn exit_at_once(status: i32) -> !;
}
