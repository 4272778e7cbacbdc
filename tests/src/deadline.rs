//! Waiting for a condition, never for a time: each wait ends when its condition holds, or in a panic that says
//! what did not come.

use std::time::{Duration, Instant};

/// How long a case waits for something that takes milliseconds when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often a condition that nobody announces is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long an event must stay away to count as held back.
const QUIET: Duration = Duration::from_millis(150);

/// Waits for `work`, for [`PATIENCE`] at most.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain: {what}"))
}

/// Asserts that `work` does not end while others have time to go wrong.
pub async fn stays_pending<T>(what: &str, work: impl Future<Output = T>) {
    assert!(tokio::time::timeout(QUIET, work).await.is_err(), "came, and must not: {what}");
}

/// Asks again and again until the answer is there.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    within(what, async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await
}

/// Asks again and again until the answer is there, on a plain thread and for `patience` at most.
#[track_caller]
pub fn wait_for<T>(what: &str, patience: Duration, ask: impl FnMut() -> Option<T>) -> T {
    comes_within(patience, ask).unwrap_or_else(|| panic!("waited {patience:?} in vain: {what}"))
}

/// The same; nothing when the answer does not come.
pub fn comes_within<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || start.elapsed() >= patience {
            return answer;
        }
        std::thread::sleep(POLL);
    }
}
