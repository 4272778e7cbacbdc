//! What watchers of a job see. One task a watched job looks at it once a second and makes what changed, once for all watchers; who
//! reads slowly skips to the newest.

mod logs;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prs_common::statistics::NAMES;
use prs_common::timestamp::now_us;
use prs_jobs::homes::{self, Seen};
use prs_jobs::looks::Looks;
use prs_jobs::report::{facts_again, tell_watched};
use prs_jobs::{Failure, Whereabouts};
use prs_portal::view::{
    Chrome, Due, ERROR_ORDERS, ErrorsPage, GraphPage, JobPage, NodesPage, Published, sort_errors,
};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::code_lines::CodeLines;
use crate::http::rates::{Limits, Places};
use crate::metrics::{Metrics, STREAMS};

pub(crate) use logs::{LogWatches, News, Readers};
pub(crate) use stream::{Permit, Streams, Watcher, answer, bye, events};

/// Between two looks at a job.
const LOOK: Duration = Duration::from_secs(1);
/// How long a look may take, and how long looks may fail, before watchers are told that they see what was: a server that is away for a
/// moment is no news.
pub(crate) const LATE: Duration = Duration::from_secs(5);

/// How long a job is looked at that nobody watches any more: a page that is loaded again finds it watched.
const LEFT: Duration = Duration::from_secs(10);

/// How long after that it is given up, and the next one begins: what was asked while servers were away is answered late.
const GIVES_UP: Duration = Duration::from_secs(5);

/// A job as it was seen, and what pages show of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tick {
    /// How often it was looked at.
    pub(crate) number: u64,
    /// When, microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// The job; the last that was seen where nothing can be seen now, nothing before the first look.
    pub(crate) seen: Option<Arc<Seen>>,
    /// What its orchestrator published last.
    pub(crate) statistics: Arc<Published>,
    /// The parts of its page, HTML.
    pub(crate) parts: BTreeMap<&'static str, Arc<str>>,
    /// The title of its page.
    pub(crate) title: String,
    /// Since when it cannot be seen as it is, microseconds since the Unix epoch, and why.
    pub(crate) stale: Option<(u64, String)>,
    /// Whether nothing changes any more: it has ended, or is gone.
    pub(crate) is_last: bool,
}

/// The jobs that are watched.
#[derive(Debug)]
pub(crate) struct Watches {
    whereabouts: Whereabouts,
    jobs: Arc<Mutex<HashMap<String, watch::Receiver<Arc<Tick>>>>>,
    streams: Arc<Semaphore>,
    of_one: Places,
    /// How long each lasts.
    lasts: Duration,
    /// How many are open, by who reads them.
    open: [(&'static str, Gauge); 2],
    /// How long looks take.
    renders: Histogram,
    code_lines: CodeLines,
    logs: LogWatches,
}

impl Watches {
    /// None yet; within these limits. Streams are counted in `metrics`.
    pub(crate) fn new(whereabouts: Whereabouts, limits: &Limits, metrics: &Metrics) -> Self {
        let (most, of_one) = limits.streams;
        Self {
            whereabouts,
            jobs: Arc::default(),
            streams: Arc::new(Semaphore::new(most.max(1) as usize)),
            of_one: Places::new(of_one),
            lasts: limits.times.stream,
            open: STREAMS.map(|kind| (kind, metrics.streams(kind))),
            renders: metrics.renders(),
            code_lines: CodeLines::default(),
            logs: LogWatches::default(),
        }
    }

    /// The lines of code that errors came from, as far as they were read.
    pub(crate) fn code_lines(&self) -> &CodeLines {
        &self.code_lines
    }

    /// The logs that are followed.
    pub(crate) fn logs(&self) -> &LogWatches {
        &self.logs
    }

    /// How many jobs are watched.
    pub(crate) fn watched(&self) -> usize {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Watches the job with this id, together with all who do.
    pub(crate) fn follow(&self, id: &str) -> watch::Receiver<Arc<Tick>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose task has ended says nothing any more.
        if let Some(known) = jobs.get(id).filter(|known| known.has_changed().is_ok()) {
            return known.clone();
        }
        let (sender, receiver) = watch::channel(Arc::default());
        jobs.insert(id.to_owned(), receiver.clone());
        let (id, whereabouts, jobs) = (id.to_owned(), self.whereabouts.clone(), Arc::clone(&self.jobs));
        let (renders, code_lines) = (self.renders.clone(), self.code_lines.clone());
        tokio::spawn(async move {
            Box::pin(look(&id, &whereabouts, &code_lines, &sender, &renders)).await;
            let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            // The list's own does not count as a watcher, and one who came meanwhile gets a new task.
            if jobs.get(&id).is_some_and(|known| known.same_channel(&sender.subscribe())) {
                jobs.remove(&id);
            }
        });
        receiver
    }
}

/// Looks at the job until it has ended, or nobody but the list of watched jobs has had a receiver for a while.
async fn look(
    id: &str,
    whereabouts: &Whereabouts,
    code_lines: &CodeLines,
    sender: &watch::Sender<Arc<Tick>>,
    renders: &Histogram,
) {
    let (mut number, mut looks) = (0, Looks::new(&NAMES));
    let (mut fresh_at, mut left_at) = (None, None);
    // What came while nothing could be seen is shown at once.
    let mut is_all_due = true;
    loop {
        let began = Instant::now();
        number += 1;
        let before = Arc::clone(&sender.borrow());
        let due = if is_all_due { Due::ALL } else { Due::at(number) };
        let seen = {
            let mut seeing = pin!(see(&mut looks, id, (whereabouts, code_lines), due));
            if let Ok(seen) = timeout(LATE, &mut seeing).await {
                seen
            } else {
                sender.send_replace(Arc::new(stale(&before, number, Late.to_string())));
                timeout(GIVES_UP, seeing).await.unwrap_or_else(|_| Err(Failure::server(Late)))
            }
        };
        renders.observe(began.elapsed().as_secs_f64());
        let (news, is_last) = match seen {
            Ok((seen, statistics, title, parts)) => {
                let is_last = seen.result.state.is_final();
                let news = away(&seen).map_or(Ok(()), Err).map(|()| Tick {
                    number,
                    at_us: now_us(),
                    is_last,
                    seen: Some(Arc::new(seen)),
                    statistics: Arc::new(statistics),
                    parts: shared(&before, parts),
                    title,
                    stale: None,
                });
                (news, is_last)
            }
            Err(failure) => (Err(failure.to_string()), failure.is_usage()),
        };
        is_all_due = news.is_err() || began.elapsed() >= LATE;
        match news {
            Ok(tick) => {
                fresh_at = Some(Instant::now());
                sender.send_replace(Arc::new(tick));
            }
            // What was new a moment ago is as good as new.
            Err(_) if !is_last && fresh_at.is_some_and(|at| at.elapsed() < LATE) => {}
            Err(cause) => {
                sender.send_replace(Arc::new(Tick { is_last, ..stale(&before, number, cause) }));
            }
        }
        let is_watched = sender.receiver_count() > 1;
        left_at = if is_watched { None } else { left_at.or(Some(Instant::now())) };
        if is_last || left_at.is_some_and(|at| at.elapsed() >= LEFT) {
            return;
        }
        sleep_until(began + LOOK).await;
    }
}

/// Why a job is not seen, though no server refuses.
#[derive(Debug, thiserror::Error)]
#[error("storage or ledger did not answer within {} s", LATE.as_secs())]
pub(crate) struct Late;

/// What was seen before, which is not as the job is now.
fn stale(before: &Tick, number: u64, cause: String) -> Tick {
    let since_us = match &before.stale {
        Some((since_us, _)) => *since_us,
        None if before.at_us > 0 => before.at_us,
        None => now_us(),
    };
    Tick { number, stale: Some((since_us, cause)), ..before.clone() }
}

/// Why the job is not as it was seen: its ledger is away, and storage is behind it.
fn away(seen: &Seen) -> Option<String> {
    let away = seen.standing.waits_for.as_ref()?;
    Some(format!("waiting for {}: {}", away.server, away.reason))
}

/// The parts of a page, by their names.
type NamedParts = Vec<(&'static str, String)>;

/// The job now, what its orchestrator published last, the title of its page and the parts that are due.
async fn see(
    looks: &mut Looks,
    id: &str,
    (whereabouts, code_lines): (&Whereabouts, &CodeLines),
    due: Due,
) -> Result<(Seen, Published, String, NamedParts), Failure> {
    let home = homes::of_id(id, whereabouts).await?;
    tell_watched(&*home);
    let (seen, mut facts) = facts_again(looks, &*home, whereabouts, false, Some(("/jobs/", ""))).await?;
    let due = if facts.state.is_final() { Due::ALL } else { due };
    if due.has_lists() {
        code_lines.put(&*home, &seen, &mut facts).await;
    }
    let (mut parts, title) = JobPage::parts_due(&facts, due);
    let chrome = Chrome::default();
    if !facts.steps.is_empty() {
        parts.push(("graph", GraphPage::new(&facts, &chrome).part()));
    }
    if due.has_lists() {
        sort_errors(&mut facts.errors, ERROR_ORDERS[0].0);
        if facts.statistics.nodes.is_some() {
            parts.push(("node-list", NodesPage::new(&chrome, &facts, (None, 0), None).part()));
        }
        parts.push(("groups", ErrorsPage::new(&facts, &chrome, (ERROR_ORDERS[0].0, 0), &[], false).part()));
    }
    Ok((seen, facts.statistics, title, parts))
}

/// All parts: those that did not change, or were not due, as they were.
fn shared(before: &Tick, parts: NamedParts) -> BTreeMap<&'static str, Arc<str>> {
    let mut all = before.parts.clone();
    for (name, html) in parts {
        if all.get(name).is_none_or(|known| **known != *html) {
            all.insert(name, html.into());
        }
    }
    all
}
