//! How often a caller may ask.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Extensions, Method};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use prs_jobs::blobs::LARGEST;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::addresses::network;
use crate::problem::{Kind, Problem};

/// After so many checks a limiter forgets callers that have not asked for a while.
const TIDY_AFTER: u32 = 1024;
/// How long wrong credentials are counted.
const MINUTE: Duration = Duration::from_mins(1);

/// How many requests a server takes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests a second of one token or session that change nothing; twice as many at once.
    pub reads: u32,
    /// The same for requests that change something; four times as many at once.
    pub writes: u32,
    /// Requests a second of an address that does not say who asks; three times as many at once.
    pub strangers: u32,
    /// Wrong tokens and logins of an address in a minute, behind which no more of them are looked at.
    pub guesses: u32,
    /// Requests that are under way together.
    pub at_once: u32,
    /// Requests of one token or session that are under way together.
    pub at_once_of_one: u32,
    /// Searches in logs of one token or session that are under way together.
    pub searches: u32,
    /// Looks into files of output, likewise.
    pub previews: u32,
    /// Streams that are open together, of all and of one token or session.
    pub streams: (u32, u32),
    /// Connections that are open together.
    pub connections: u32,
    /// How long things may take.
    pub times: Times,
    /// How large requests may be.
    pub sizes: Sizes,
}

/// How long a server waits.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// How long the answer to a request that changes nothing may take to begin.
    pub read: Duration,
    /// The same of one that changes something.
    pub write: Duration,
    /// The same of one that may name code or files which came before.
    pub handing_in: Duration,
    /// How long no byte of a body may come, and how long a client may take no byte of an answer.
    pub idle: Duration,
    /// How long a stream of events lasts: load balancers end long ones anyhow, and who asks is asked again who they are.
    pub stream: Duration,
}

/// How many bytes a server takes of a request.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Of a body of JSON.
    pub json: usize,
    /// Of a body of YAML, and of a field of a form that is no file.
    pub yaml: usize,
    /// Of a form with files.
    pub form: usize,
    /// Of a blob.
    pub blob: u64,
    /// Of an address, with its query.
    pub address: usize,
    /// Of all headers.
    pub headers: usize,
}

impl Limits {
    /// Where nobody says otherwise.
    pub const DEFAULT: Self = Self {
        reads: 200,
        writes: 10,
        strangers: 20,
        guesses: 5,
        at_once: 1024,
        at_once_of_one: 64,
        searches: 2,
        previews: 4,
        streams: (2000, 20),
        connections: 4096,
        times: Times {
            read: Duration::from_secs(15),
            write: Duration::from_secs(30),
            handing_in: Duration::from_secs(75),
            idle: Duration::from_mins(1),
            stream: Duration::from_hours(1),
        },
        sizes: Sizes {
            json: 1 << 20,
            yaml: 4 << 20,
            form: 512 << 20,
            blob: LARGEST,
            address: 8 << 10,
            headers: 32 << 10,
        },
    };
}

impl Sizes {
    /// What the server takes of a request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Limits::DEFAULT.sizes)
    }
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

/// Wrong credentials, by where they come from: after so many of them within a minute no more are looked at for the rest of it.
#[derive(Debug)]
pub(crate) struct Guesses {
    most: u32,
    /// How many came from where, and when the first of them did.
    seen: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Guesses {
    /// So many a minute.
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most.max(1), seen: Mutex::default() }
    }

    /// Refuses more credentials from `address` where too many were wrong.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Problem> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = seen
            .get(&network(address))
            .filter(|(count, _)| *count >= self.most)
            .and_then(|(_, first)| MINUTE.checked_sub(first.elapsed()));
        rest.map_or(Ok(()), |rest| {
            let problem = Problem::new(Kind::TOO_MANY_REQUESTS, "Wrong credentials came too often.");
            Err(problem.retry_after(rest.as_secs() as u32 + 1))
        })
    }

    /// Counts wrong credentials from `address`, and refuses more of them for a while.
    pub(crate) fn count(&self, address: IpAddr) -> Result<(), Problem> {
        self.check(address)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= TIDY_AFTER as usize {
            seen.retain(|_, (_, first)| first.elapsed() < MINUTE);
        }
        let (count, first) = seen.entry(network(address)).or_insert_with(|| (0, Instant::now()));
        if first.elapsed() >= MINUTE {
            (*count, *first) = (0, Instant::now());
        }
        *count += 1;
        Ok(())
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
    previews: Places,
}

impl Counts {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { reads, writes, strangers, at_once, at_once_of_one, searches, previews, .. } = *limits;
        Self {
            reads: Rate::a_second(reads, reads.saturating_mul(2)),
            writes: Rate::a_second(writes, writes.saturating_mul(4)),
            strangers: Rate::a_second(strangers, strangers.saturating_mul(3)),
            under_way: Semaphore::new(at_once.max(1) as usize),
            of_one: Places::new(at_once_of_one),
            searches: Places::new(searches),
            previews: Places::new(previews),
        }
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
        place(&self.searches, who, "searches")
    }

    /// A place among the looks of `who` into files of output.
    pub(crate) fn preview(&self, who: &str) -> Result<HeldPlace, Problem> {
        place(&self.previews, who, "previews")
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

/// A place of `who` for what is called so.
fn place(places: &Places, who: &str, what: &str) -> Result<HeldPlace, Problem> {
    places.take(who).ok_or_else(|| {
        let detail = format_args!("As many of your {what} as the server does at once are under way.");
        Problem::new(Kind::TOO_MANY_REQUESTS, detail).retry_after(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_network_has_its_own_count() {
        let guesses = Guesses::new(2);
        let at = |text: &str| guesses.count(text.parse().unwrap());
        assert!(at("192.0.2.1").is_ok() && at("::ffff:192.0.2.1").is_ok());
        tokio::time::advance(Duration::from_secs(20)).await;
        let refused = at("192.0.2.1").unwrap_err();
        assert_eq!((refused.kind.status, refused.retry_after), (429, Some(41)));
        assert!(guesses.check("192.0.2.1".parse().unwrap()).is_err(), "before it is looked at");
        assert!(at("192.0.2.2").is_ok());
        assert!(at("2001:db8::1").is_ok() && at("2001:db8::2").is_ok() && at("2001:db8::3").is_err());
        assert!(at("2001:db8:0:1::1").is_ok());
        tokio::time::advance(MINUTE).await;
        assert!(at("192.0.2.1").is_ok() && at("192.0.2.1").is_ok() && at("192.0.2.1").is_err());
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
        let _previews: Vec<_> = (0..4).map(|_| counts.preview("a").unwrap()).collect();
        let refused = counts.preview("a").unwrap_err();
        assert!(
            refused.detail.contains("your previews") && counts.preview("b").is_ok(),
            "{}",
            refused.detail
        );
    }
}
