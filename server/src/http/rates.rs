//! How often a caller may ask.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::addresses::network;
use crate::problem::{Kind, Problem};

/// After so many checks a limiter forgets callers that have not asked for a while.
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
    /// Requests of one token or session that are under way together.
    pub at_once_of_one: u32,
    /// Searches in logs of one token or session that are under way together.
    pub searches: u32,
    /// Streams that are open together, of all and of one token or session.
    pub streams: (u32, u32),
    /// Connections that are open together.
    pub connections: u32,
    /// How long the answer to a request that changes nothing may take to begin.
    pub read_time: Duration,
    /// The same of one that changes something.
    pub write_time: Duration,
}

impl Limits {
    /// Where nobody says otherwise.
    pub const DEFAULT: Self = Self {
        reads: 200,
        writes: 10,
        at_once: 1024,
        at_once_of_one: 64,
        searches: 2,
        streams: (2000, 20),
        connections: 4096,
        read_time: Duration::from_secs(15),
        write_time: Duration::from_secs(30),
    };
}

/// How many of something each of many has at once.
#[derive(Debug)]
pub(crate) struct Places {
    most: u32,
    taken: Arc<Mutex<HashMap<String, u32>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    who: String,
    taken: Arc<Mutex<HashMap<String, u32>>>,
}

impl Places {
    /// So many for each.
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most.max(1), taken: Arc::default() }
    }

    /// A place of `who`; nothing where all are taken.
    pub(crate) fn take(&self, who: &str) -> Option<HeldPlace> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(who.to_owned()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(HeldPlace { who: who.to_owned(), taken: Arc::clone(&self.taken) })
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
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
    of_one: Places,
    searches: Places,
    read_time: Duration,
    write_time: Duration,
}

impl Counts {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { reads, writes, at_once, at_once_of_one, searches, read_time, write_time, .. } = *limits;
        Self {
            reads: Rate::a_second(reads, reads.saturating_mul(2)),
            writes: Rate::a_second(writes, writes.saturating_mul(4)),
            strangers: Rate::a_second(STRANGERS.0, STRANGERS.1),
            under_way: Semaphore::new(at_once.max(1) as usize),
            of_one: Places::new(at_once_of_one),
            searches: Places::new(searches),
            read_time,
            write_time,
        }
    }

    /// How long the answer to a request that changes nothing may take to begin, and that to one that changes something.
    pub(crate) fn times(&self) -> (Duration, Duration) {
        (self.read_time, self.write_time)
    }

    /// A place for a request, until its answer begins.
    pub(crate) fn begin(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.under_way.try_acquire().map_err(|_| {
            Problem::new(Kind::BUSY, "As many requests as the server takes at once are under way.")
                .retry_after(1)
        })
    }

    /// A place among the requests of `who`, until its answer begins.
    pub(crate) fn begin_of(&self, who: &str) -> Result<HeldPlace, Problem> {
        self.of_one.take(who).ok_or_else(|| {
            Problem::new(Kind::BUSY, "As many of your requests as the server takes at once are under way.")
                .retry_after(1)
        })
    }

    /// A place among the searches of `who`.
    pub(crate) fn search(&self, who: &str) -> Result<HeldPlace, Problem> {
        self.searches.take(who).ok_or_else(|| {
            Problem::new(
                Kind::TOO_MANY_REQUESTS,
                "As many of your searches as the server does at once are under way.",
            )
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
        let counts =
            Counts::new(&Limits { reads: 1, writes: 1, at_once: 2, at_once_of_one: 1, ..Limits::DEFAULT });
        let address = IpAddr::from([192, 0, 2, 1]);
        let ask = |method: Method, who: Option<&str>| counts.check(&method, who, address);
        assert!(ask(Method::GET, Some("a")).is_ok() && ask(Method::HEAD, Some("a")).is_ok());
        let refused = ask(Method::GET, Some("a")).unwrap_err();
        assert_eq!((refused.kind.status, refused.retry_after), (429, Some(1)));
        assert!(ask(Method::GET, Some("b")).is_ok() && ask(Method::POST, Some("a")).is_ok());
        assert!(ask(Method::GET, None).is_ok());
        let (_one, _other) = (counts.begin().unwrap(), counts.begin().unwrap());
        assert_eq!(counts.begin().unwrap_err().kind.status, 503);
        let mine = counts.begin_of("a").unwrap();
        assert_eq!(counts.begin_of("a").unwrap_err().kind.status, 503);
        assert!(counts.begin_of("b").is_ok());
        drop(mine);
        assert!(counts.begin_of("a").is_ok());
        let _searches = (counts.search("a").unwrap(), counts.search("a").unwrap());
        assert_eq!(counts.search("a").unwrap_err().kind.status, 429);
    }
}
