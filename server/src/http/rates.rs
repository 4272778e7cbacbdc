//! How often somebody may ask.

use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::http::Method;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::addresses::network;
use crate::problem::{Kind, Problem};

/// After so many checks a limiter forgets whoever has not asked for a while.
const TIDY_AFTER: u32 = 1024;
/// Requests a second of an address that does not say who asks, and how many of them at once.
const STRANGERS: (u32, u32) = (20, 60);

/// How many requests a server takes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests a second of one token or session that change nothing; twice as many at once.
    pub reads: u32,
    /// The same for requests that change something; four times as many at once.
    pub writes: u32,
    /// Requests that are under way together.
    pub at_once: u32,
}

/// How often each of many may do something.
pub(crate) struct Rate<K: Hash + Eq + Clone> {
    limiter: RateLimiter<K, HashMapStateStore<K>, DefaultClock>,
    checks: AtomicU32,
}

impl<K: Hash + Eq + Clone> fmt::Debug for Rate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rate")
    }
}

impl<K: Hash + Eq + Clone> Rate<K> {
    /// So often a minute, at once or one after the other.
    pub(crate) fn a_minute(times: u32) -> Self {
        Self::of(Quota::per_minute(at_least_one(times)))
    }

    /// So often a second, and `burst` times at once.
    fn a_second(times: u32, burst: u32) -> Self {
        Self::of(Quota::per_second(at_least_one(times)).allow_burst(at_least_one(burst)))
    }

    fn of(quota: Quota) -> Self {
        Self { limiter: RateLimiter::hashmap(quota), checks: AtomicU32::new(0) }
    }

    /// Counts one of `who`; where that is too many, the seconds after which another may come.
    pub(crate) fn check(&self, who: &K) -> Result<(), u32> {
        if self.checks.fetch_add(1, Ordering::Relaxed) % TIDY_AFTER == TIDY_AFTER - 1 {
            self.limiter.retain_recent();
        }
        self.limiter
            .check_key(who)
            .map_err(|until| until.wait_time_from(DefaultClock::default().now()).as_secs() as u32 + 1)
    }
}

fn at_least_one(times: u32) -> NonZeroU32 {
    NonZeroU32::new(times).unwrap_or(NonZeroU32::MIN)
}

/// The limits of a server, and what was counted.
#[derive(Debug)]
pub(crate) struct Counts {
    reads: Rate<String>,
    writes: Rate<String>,
    strangers: Rate<IpAddr>,
    under_way: Semaphore,
}

impl Counts {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { reads, writes, at_once } = *limits;
        Self {
            reads: Rate::a_second(reads, reads.saturating_mul(2)),
            writes: Rate::a_second(writes, writes.saturating_mul(4)),
            strangers: Rate::a_second(STRANGERS.0, STRANGERS.1),
            under_way: Semaphore::new(at_once.max(1) as usize),
        }
    }

    /// A place for a request, until its answer begins.
    pub(crate) fn begin(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.under_way.try_acquire().map_err(|_| {
            Problem::new(Kind::BUSY, "As many requests as the server takes at once are under way.")
                .retry_after(1)
        })
    }

    /// Counts a request of `who`, or of this address where nobody says who asks.
    pub(crate) fn check(&self, method: &Method, who: Option<&str>, address: IpAddr) -> Result<(), Problem> {
        let checked = match who {
            Some(who) if method.is_safe() => self.reads.check(&who.to_owned()),
            Some(who) => self.writes.check(&who.to_owned()),
            None => self.strangers.check(&network(address)),
        };
        checked.map_err(|seconds| {
            Problem::new(Kind::TOO_MANY_REQUESTS, "Requests come faster than the server takes them.")
                .retry_after(seconds)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_its_own_count() {
        let rate = Rate::a_minute(2);
        let at = |text: &str| rate.check(&network(text.parse().unwrap()));
        assert!(at("192.0.2.1").is_ok() && at("::ffff:192.0.2.1").is_ok());
        let wait = at("192.0.2.1").unwrap_err();
        assert!((1..=31).contains(&wait), "{wait}");
        assert!(at("192.0.2.2").is_ok());
        assert!(at("2001:db8::1").is_ok() && at("2001:db8::2").is_ok() && at("2001:db8::3").is_err());
        assert!(at("2001:db8:0:1::1").is_ok());
    }

    #[test]
    fn who_asks_too_often_waits_and_nobody_else_does() {
        let counts = Counts::new(&Limits { reads: 1, writes: 1, at_once: 2 });
        let address = IpAddr::from([192, 0, 2, 1]);
        let ask = |method: Method, who: Option<&str>| counts.check(&method, who, address);
        assert!(ask(Method::GET, Some("a")).is_ok() && ask(Method::HEAD, Some("a")).is_ok());
        let refused = ask(Method::GET, Some("a")).unwrap_err();
        assert_eq!((refused.kind.status, refused.retry_after), (429, Some(1)));
        assert!(ask(Method::GET, Some("b")).is_ok() && ask(Method::POST, Some("a")).is_ok());
        assert!(ask(Method::GET, None).is_ok());
        let (_one, _other) = (counts.begin().unwrap(), counts.begin().unwrap());
        assert_eq!(counts.begin().unwrap_err().kind.status, 503);
    }
}
