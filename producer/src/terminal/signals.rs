//! Ctrl-C and SIGTERM, for commands that end in their own way.

use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use prs_jobs::Interrupts;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Code;

/// A SIGTERM that follows another so soon is the same one: the system may tell the death of a parent once for each thread of it.
const ECHO: Duration = Duration::from_secs(1);

const TERMINATE: &str = "SIGTERM";

/// Ctrl-C and SIGTERM, remembered from the moment they are caught.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    seen: Option<(&'static str, Instant)>,
}

impl Signals {
    /// Catches the signals; to be called before anything exists that an interrupt would have to end.
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let caught = |kind| signal(kind).context("cannot catch signals");
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: caught(SignalKind::terminate())?,
            seen: None,
        })
    }

    /// Waits for the next one and says which it is.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "Ctrl-C",
                _ = self.terminate.recv() => TERMINATE,
            };
            let again = |(before, at): (&str, Instant)| before == TERMINATE && at.elapsed() < ECHO;
            if name != TERMINATE || !self.seen.is_some_and(again) {
                self.seen = Some((name, Instant::now()));
                return name;
            }
        }
    }
}

#[async_trait]
impl Interrupts for Signals {
    async fn next(&mut self) -> &'static str {
        Signals::next(self).await
    }

    fn seen(&self) -> Option<&'static str> {
        self.seen.map(|(name, _)| name)
    }

    /// Ends the program.
    fn again(&mut self) {
        std::process::exit(Code::Interrupted as i32);
    }
}
