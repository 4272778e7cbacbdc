//! That the caller wants a call to end early.

use async_trait::async_trait;

/// What the caller wants while a call works: nothing, or its end. What is done so far is kept.
#[async_trait]
pub trait Interrupts: Send + Sync {
    /// Waits until the caller wants the end, once more each time, and says how: `Ctrl-C`. It may be dropped while it waits.
    async fn next(&mut self) -> &'static str;
    /// What [`next`](Self::next) said last.
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
    async fn next(&mut self) -> &'static str {
        std::future::pending().await
    }

    fn seen(&self) -> Option<&'static str> {
        None
    }

    fn again(&mut self) {}
}
