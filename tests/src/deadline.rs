//! Waiting for a condition, never for a time: each wait ends when its condition holds, or in a panic that says
//! what did not come. What is promised within a time is measured with a [`Stopwatch`].

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
    let watch = Stopwatch::start();
    loop {
        let answer = ask();
        // On a busy machine it comes later, and nothing is wrong.
        let waited = watch.began.elapsed();
        if answer.is_some() || (waited >= patience && (watch.elapsed() >= patience || waited >= 4 * patience))
        {
            return answer;
        }
        std::thread::sleep(POLL);
    }
}

/// Measures what is promised within a time. On a machine that is busy with other things a program waits for a core, which
/// breaks no promise: the time in which anything here did so, by the kernel's count, is left out. Where the kernel does
/// not count it, all time is measured.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    began: Instant,
    waited: Duration,
}

impl Stopwatch {
    /// Begins to measure.
    pub fn start() -> Self {
        Self { began: Instant::now(), waited: waited_for_a_core() }
    }

    /// The time since then in which nothing waited for a core.
    pub fn elapsed(&self) -> Duration {
        self.left_of(self.began.elapsed())
    }

    /// What is left of a time that began later, and is over, without the waits since then.
    pub fn left_of(&self, time: Duration) -> Duration {
        time.saturating_sub(waited_for_a_core().saturating_sub(self.waited))
    }
}

/// How long any program of this machine waited for a core, since the machine was started.
fn waited_for_a_core() -> Duration {
    // some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS
    let told = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total =
        told.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or_default())
}
