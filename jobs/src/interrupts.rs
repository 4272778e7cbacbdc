//! That the caller wants a call to end early.

use std::fmt;

use async_trait::async_trait;

/// A wish for the end. It displays as its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupt {
    /// Its name, such as `Ctrl-C` or `SIGTERM`.
    pub name: &'static str,
    /// Whether a key may have been hit by mistake: where the end costs something, a person is told what once more does.
    pub may_be_a_slip: bool,
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What the caller wants while a call works: nothing, or its end. What is done so far is kept.
#[async_trait]
pub trait Interrupts: Send + Sync {
    /// Waits until the caller wants the end, once more each time. It may be dropped while it waits.
    async fn next(&mut self) -> Interrupt;
    /// The name of what [`next`](Self::next) gave last.
    fn seen(&self) -> Option<&'static str>;
    /// The caller wanted it again while a run of this process was ending. What runs goes with the process: the caller may end
    /// that here, or wait.
    fn again(&mut self);
}

/// Nobody interrupts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uninterrupted;

#[async_trait]
impl Interrupts for Uninterrupted {
    async fn next(&mut self) -> Interrupt {
        std::future::pending().await
    }

    fn seen(&self) -> Option<&'static str> {
        None
    }

    fn again(&mut self) {}
}
