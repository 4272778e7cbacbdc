//! Ctrl-C and SIGTERM, for commands that end in their own way.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, remembered from the moment they are caught.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches the signals; to be called before anything exists that an interrupt would have to end.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let caught = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { interrupt: caught(SignalKind::interrupt())?, terminate: caught(SignalKind::terminate())? })
    }

    /// Waits for the next one and says which it is.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
