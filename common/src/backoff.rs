//! The pauses between attempts at what may succeed later: one way for the whole workspace.
//!
//! Each pause is twice the one before, up to a longest one. Each is then cut by up to half of it at random, so that
//! programs that lost a server together do not come back to it together.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Pauses without an end. Made anew once an attempt has succeeded.
#[derive(Debug)]
pub struct Backoff(ExponentialBackoff);

impl Backoff {
    /// Pauses of about `first`, and longer ones up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        // The jitter adds up to as much again.
        let halves = ExponentialBuilder::new().with_min_delay(first / 2).with_max_delay(longest / 2);
        Self(halves.with_jitter().without_max_times().build())
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        self.0.next().expect("it is built without an end")
    }

    /// Waits for the next pause.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_are_spread() {
        let seconds = Duration::from_secs;
        let mut spread = 0;
        for _ in 0..20 {
            let mut backoff = Backoff::new(seconds(1), seconds(6));
            for whole in [1, 2, 4, 6, 6, 6].map(seconds) {
                let pause = backoff.pause();
                assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
                spread += u32::from(pause > whole * 3 / 4);
            }
        }
        assert!((10..110).contains(&spread), "{spread} of 120 are in the upper half");
    }

    #[test]
    fn pauses_have_no_end() {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(1));
        assert!((0..10_000).all(|_| backoff.pause() <= Duration::from_secs(1)));
    }
}
