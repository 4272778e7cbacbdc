//! How long servers of the fleet were away, as this worker saw it: from the first call that failed until one succeeded.
//! Calls that wait side by side count once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

/// A server of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependency {
    Broker,
    Ledger,
    Storage,
}

/// Their names, in the order of [`Dependency`].
const SERVERS: [&str; 3] = ["broker", "ledger", "storage"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    dependency: &'static str,
}

/// Seconds, with their fractions.
type Seconds = Counter<f64, AtomicU64>;

/// The outages of all servers.
#[derive(Debug)]
pub(super) struct Outages {
    seconds: Family<Label, Seconds>,
    began: Instant,
    all: [Outage; 3],
}

/// The outage of one server.
#[derive(Debug, Default)]
struct Outage {
    /// When it began, microseconds since the beginning; 0 where there is none.
    began: AtomicU64,
    /// Since when it lasts and is not counted yet, as above.
    since: AtomicU64,
    seconds: Seconds,
}

impl Default for Outages {
    fn default() -> Self {
        let seconds = Family::<Label, Seconds>::default();
        let all = SERVERS.map(|dependency| Outage {
            began: AtomicU64::new(0),
            since: AtomicU64::new(0),
            seconds: seconds.get_or_create_owned(&Label { dependency }),
        });
        Self { seconds, began: Instant::now(), all }
    }
}

impl Outages {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "prs_worker_dependency_unavailable",
            "Time during which calls to a server failed, from the first that did until one succeeded",
            Unit::Seconds,
            self.seconds.clone(),
        );
    }

    /// Notes that a call to a server failed.
    pub(super) fn is_away(&self, server: Dependency) {
        let Outage { began, since, .. } = &self.all[server as usize];
        for time in [began, since] {
            let _ = time.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Notes that one succeeded.
    pub(super) fn answers(&self, server: Dependency) {
        let outage = &self.all[server as usize];
        outage.began.store(0, Ordering::Relaxed);
        if outage.since.load(Ordering::Relaxed) > 0 {
            outage.count(outage.since.swap(0, Ordering::Relaxed), self.now());
        }
    }

    /// Notes that nobody asks broker and storage: who does not ask does not wait.
    pub(super) fn are_not_asked(&self) {
        self.answers(Dependency::Broker);
        self.answers(Dependency::Storage);
    }

    /// Counts what lasts, so far.
    pub(super) fn settle(&self) {
        for outage in &self.all {
            let (since, now) = (outage.since.load(Ordering::Relaxed), self.now());
            // Where it has ended meanwhile, it is counted already.
            if since > 0
                && outage.since.compare_exchange(since, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                outage.count(since, now);
            }
        }
    }

    /// Those that last.
    pub(super) fn last(&self) -> impl Iterator<Item = &'static str> {
        let lasts = |outage: &Outage| outage.since.load(Ordering::Relaxed) > 0;
        SERVERS.into_iter().zip(&self.all).filter(move |(_, outage)| lasts(outage)).map(|(name, _)| name)
    }

    /// How long a server has not answered.
    pub(super) fn lasts(&self, server: Dependency) -> Duration {
        match self.all[server as usize].began.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began => Duration::from_micros(self.now().saturating_sub(began)),
        }
    }

    fn now(&self) -> u64 {
        (self.began.elapsed().as_micros() as u64).max(1)
    }
}

impl Outage {
    fn count(&self, since: u64, now: u64) {
        // Another who heard the same has counted it.
        if since > 0 {
            self.seconds.inc_by(now.saturating_sub(since) as f64 / 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_counted_once_and_also_while_it_lasts() {
        let outages = Outages::default();
        let pause = Duration::from_millis(20);
        let of = |server: Dependency| outages.all[server as usize].seconds.get();
        outages.is_away(Dependency::Storage);
        std::thread::sleep(pause);
        outages.is_away(Dependency::Storage);
        outages.settle();
        let first = of(Dependency::Storage);
        assert!(first >= 0.02, "{first}");
        std::thread::sleep(pause);
        assert!(outages.lasts(Dependency::Storage) >= 2 * pause, "what is counted so far ends nothing");
        outages.answers(Dependency::Storage);
        assert_eq!(outages.lasts(Dependency::Storage), Duration::ZERO);
        let whole = of(Dependency::Storage);
        assert!(whole >= 0.04, "{whole}");
        std::thread::sleep(pause);
        outages.answers(Dependency::Storage);
        outages.settle();
        assert!((of(Dependency::Storage) - whole).abs() < 1e-9, "it is over");
        assert_eq!(outages.last().count(), 0);
        outages.is_away(Dependency::Storage);
        outages.is_away(Dependency::Broker);
        assert_eq!(outages.last().collect::<Vec<_>>(), ["broker", "storage"]);
        for server in [Dependency::Storage, Dependency::Broker] {
            outages.answers(server);
        }
        assert!(of(Dependency::Ledger) < 1e-9);
    }
}
