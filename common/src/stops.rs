//! Time in which this program was stopped (SIGSTOP, a paused container, a host that swaps): no timeout counts it.
//!
//! A thread notes every tenth of a second that it lives. Where it did not for a second, nothing of the program ran; who asks first
//! after that finds the stop before the thread does. Suspended hosts need none of this: their monotonic clock stands still.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process_page::monotonic_ns;

/// Between two notes.
const BEAT: Duration = Duration::from_millis(100);
/// A longer time between two is a stop, nanoseconds.
const LATE: u64 = 1_000_000_000;
/// Stops that are remembered: the last ones.
const MOST: usize = 64;

/// Absent where there can be no thread.
static BEATS: LazyLock<Option<Mutex<Beats>>> = LazyLock::new(|| {
    let beat = || {
        loop {
            thread::sleep(BEAT);
            if let Some(beats) = &*BEATS {
                lock(beats).beat(monotonic_ns());
            }
        }
    };
    let thread = thread::Builder::new().name("stops".to_owned()).stack_size(64 << 10).spawn(beat);
    thread.is_ok().then(|| Mutex::new(Beats { last: monotonic_ns(), stops: VecDeque::new() }))
});

/// How long it was stopped since `since_ns`, by the monotonic clock; what was before the first call is not known.
pub fn stopped_since(since_ns: u64) -> Duration {
    let Some(beats) = &*BEATS else { return Duration::ZERO };
    let mut beats = lock(beats);
    beats.beat(monotonic_ns());
    beats.since(since_ns)
}

/// How much time has passed since then in which it was not stopped.
pub fn passed_since(since: Instant) -> Duration {
    let passed = since.elapsed();
    passed.saturating_sub(stopped_since(monotonic_ns().saturating_sub(passed.as_nanos() as u64)))
}

fn lock(beats: &Mutex<Beats>) -> std::sync::MutexGuard<'_, Beats> {
    beats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When it lived last, and when it did not.
#[derive(Debug)]
struct Beats {
    last: u64,
    stops: VecDeque<(u64, u64)>,
}

impl Beats {
    fn beat(&mut self, now: u64) {
        if now.saturating_sub(self.last) > LATE {
            self.stops.push_back((self.last, now));
            if self.stops.len() > MOST {
                self.stops.pop_front();
            }
        }
        self.last = self.last.max(now);
    }

    fn since(&self, since: u64) -> Duration {
        let of = |&(from, to): &(u64, u64)| to.saturating_sub(from.max(since));
        Duration::from_nanos(self.stops.iter().map(of).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_count_as_far_as_they_lie_behind_a_moment() {
        let second = |seconds: u64| seconds * 1_000_000_000;
        let mut beats = Beats { last: 0, stops: VecDeque::new() };
        for tenth in 1..=50 {
            beats.beat(tenth * second(1) / 10);
        }
        assert_eq!(beats.since(0), Duration::ZERO);
        beats.beat(second(9));
        beats.beat(second(10));
        beats.beat(second(30));
        for (since, expected) in [(0, 24), (5, 24), (6, 23), (9, 20), (10, 20), (29, 1), (30, 0), (40, 0)] {
            assert_eq!(beats.since(second(since)), Duration::from_secs(expected), "{since}");
        }
        // Two threads may read the clock in another order than they come here.
        beats.beat(second(29));
        assert_eq!((beats.last, beats.stops.len()), (second(30), 2));
    }

    #[test]
    fn who_is_not_stopped_loses_no_time() {
        let since = Instant::now();
        thread::sleep(Duration::from_millis(300));
        assert!(passed_since(since) >= Duration::from_millis(300));
        assert_eq!(stopped_since(monotonic_ns()), Duration::ZERO);
    }
}
