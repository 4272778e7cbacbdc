//! What pages show of a job, with as few calls as that takes: one who looks once a second reads what changes as fast.
//!
//! While a job runs on a fleet its orchestrator says in the ledger where it stands, with the statistics, for those who read them. So one
//! call to the ledger is a look; its nodes, its errors and its record, which change more slowly, are read every few seconds. Where no
//! orchestrator says anything, or it said it a while ago, the ledger is asked for the counts themselves, and storage for the rest.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::{Checkpoint, Conclusion, JobProgress, JobState};
use prs_common::statistics::{self, Activity, Live, Part, Summary};
use prs_common::timestamp::now_us;
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::record::Status;
use prs_orchestrator::report::error_list::ErrorList;
use prs_orchestrator::report::{page, read_published};
use prs_portal::view::Published;

use crate::errors::complete;
use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::standing::Standing;
use crate::statistics::stored_parts;

/// Between two reads of what changes slowly.
const SLOWLY: Duration = Duration::from_secs(5);
/// What an orchestrator said longer ago does not tell where the job stands, microseconds; clocks differ a little.
const OLD: u64 = 10_000_000;
/// The parts that change all the time.
const QUICK: [&str; 3] = [Live::NAME, Activity::NAME, Summary::NAME];

/// A job that is looked at, once or again and again.
#[derive(Debug)]
pub struct Looks {
    /// The parts of the statistics that are looked at.
    names: &'static [&'static str],
    slow: Option<Slow>,
}

/// What changes slowly.
#[derive(Debug)]
struct Slow {
    read: Instant,
    /// The record as it was seen, with what nodes said.
    record: JobRecord,
    errors: ErrorList,
    /// The parts of the statistics that are none of [`QUICK`].
    parts: HashMap<&'static str, Bytes>,
}

/// A job at one moment, and what is known of its tries.
#[derive(Debug)]
pub struct Looked {
    /// The job.
    pub seen: Seen,
    /// Its errors, with their tracebacks.
    pub errors: ErrorList,
    /// Its statistics.
    pub statistics: Published,
}

impl Looks {
    /// Of those who see the errors of a job and these parts of its statistics, [`Live`] among them.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self { names, slow: None }
    }

    /// Looks at the job.
    ///
    /// # Errors
    /// A server fails, or there is no such job.
    pub async fn look(&mut self, home: &dyn JobHome) -> Result<Looked, Failure> {
        let names = self.names;
        if let Some(slow) = self.slow.take_if(|slow| slow.read.elapsed() < SLOWLY)
            && let Some(looked) = slow.quick_look(home).await?
        {
            self.slow = Some(slow);
            return Ok(looked);
        }
        let record = home.record().await?;
        // It has no mini-batches, and no orchestrator that says anything.
        let ledger = if record.pipeline.is_some() { None } else { home.ledger(&record).await? };
        let parts = match ledger {
            Some(ledger) => read_published(&*ledger, names).await,
            None => None,
        };
        let told = parts.as_ref().and_then(|parts| told(&record, parts));
        let seen = match told {
            Some((state, status)) => seen(home, JobRecord { state, status, ..record }),
            None => home.settled(record).await?,
        };
        let parts = async {
            match parts {
                Some(parts) => Ok(parts),
                None => stored_parts(home, &seen.record, names).await,
            }
        };
        let (errors, parts) = tokio::try_join!(complete(home, &seen), parts)?;
        let statistics = page::published(|name| parts.get(name));
        let mut slowly = parts;
        slowly.retain(|name, _| !QUICK.contains(name));
        let record = seen.record.clone();
        self.slow = Some(Slow { read: Instant::now(), record, errors: errors.clone(), parts: slowly });
        Ok(Looked { seen, errors, statistics })
    }
}

/// A job at one moment, and these parts of its statistics. Nobody is waited for: where its orchestrator has published nothing for those who
/// read now, storage has what it wrote last.
///
/// # Errors
/// A server fails, or there is no such job.
pub async fn brief(
    home: &dyn JobHome,
    record: JobRecord,
    names: &[&'static str],
) -> Result<(Seen, Published), Failure> {
    let asks = if record.pipeline.is_some() { &[][..] } else { names };
    let (seen, mut parts) = home.settled_with(record, asks).await?;
    let missing: Vec<_> = asks.iter().copied().filter(|name| !parts.contains_key(name)).collect();
    if !missing.is_empty() {
        parts.extend(stored_parts(home, &seen.record, &missing).await?);
    }
    Ok((seen, page::published(|name| parts.get(name))))
}

impl Slow {
    /// One call to the ledger; nothing where that does not tell.
    async fn quick_look(&self, home: &dyn JobHome) -> Result<Option<Looked>, Failure> {
        if self.record.pipeline.is_some() {
            return Ok(None);
        }
        let Some(ledger) = home.ledger(&self.record).await? else { return Ok(None) };
        let Some(parts) = read_published(&*ledger, &QUICK).await else { return Ok(None) };
        let Some((state, status)) = told(&self.record, &parts) else { return Ok(None) };
        let statistics = page::published(|name| parts.get(name).or_else(|| self.parts.get(name)));
        let seen = seen(home, JobRecord { state, status, ..self.record.clone() });
        Ok(Some(Looked { seen, errors: self.errors.clone(), statistics }))
    }
}

fn seen(home: &dyn JobHome, record: JobRecord) -> Seen {
    let result = home.result_so_far(&record);
    let standing = Standing { target: record.spec.compute_target.clone(), ..Standing::default() };
    Seen { record, result, standing }
}

/// Where the job stands, as its orchestrator said in these parts; nothing where it said nothing of use. What nodes say before they work, and
/// that there are none, only the ledger tells.
fn told(record: &JobRecord, parts: &HashMap<&'static str, Bytes>) -> Option<(JobState, Status)> {
    let live: Live = statistics::decode(parts.get(Live::NAME)?).ok()?;
    let state = JobState::ALL.into_iter().find(|state| state.as_str() == live.state)?;
    let is_useful = live.incarnation == record.incarnation
        && now_us().abs_diff(live.written_us) < OLD
        && live.nodes > 0
        && live.init.is_ready
        && !state.is_final();
    if !is_useful {
        return None;
    }
    let before = &record.status;
    let end = JobState::ALL.into_iter().find(|state| state.as_str() == live.ends_as);
    let end = end.map(|state| Conclusion { state, reason: live.ends_why.clone() });
    let progress = JobProgress {
        checkpoint: Checkpoint {
            scheduled: live.scheduled,
            items: live.items,
            complete: live.is_planned,
            ..before.progress.checkpoint
        },
        succeeded: live.succeeded,
        failed: live.failed,
        items: live.items_succeeded.saturating_add(live.items_failed),
        items_succeeded: live.items_succeeded,
        segments: live.committed,
        conclusion: end.or_else(|| before.progress.conclusion.clone()),
        ..before.progress.clone()
    };
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let mut status = Status {
        updated_us: live.written_us,
        seconds: live.seconds,
        nodes: small(live.nodes),
        processes: small(live.processes),
        starting: small(live.starting),
        is_ready: true,
        per_second: 0.0,
        items_per_second: 0.0,
        eta_seconds: None,
        init_failures: small(live.init.failures),
        failed_tries: before.failed_tries.max(live.failed_tries.saturating_sub(live.node_losses)),
        at_work: Box::default(),
        progress,
        ..before.clone()
    };
    if record.incarnation == 1 {
        status.set_rate(status.progress.ended(), status.progress.items, status.seconds);
    } else if let Some(rate) = live.rates.last() {
        // What was done before this start counts among the outcomes.
        let of = |per_second: f64| (per_second * status.seconds).round() as u64;
        status.set_rate(of(rate.per_second), of(rate.items_per_second), status.seconds);
    }
    Some((state, status))
}

#[cfg(test)]
mod tests {
    use prs_common::job::JobSpec;
    use prs_common::statistics::{InitState, Rate};

    use super::*;

    fn live() -> Live {
        Live {
            incarnation: 1,
            written_us: now_us(),
            state: "running".to_owned(),
            scheduled: 100,
            is_planned: true,
            succeeded: 40,
            failed: 2,
            items_succeeded: 80,
            items_failed: 4,
            nodes: 3,
            seconds: 21.0,
            failed_tries: 9,
            node_losses: 2,
            init: InitState { is_ready: true, ..InitState::default() },
            ..Live::default()
        }
    }

    fn told_of(live: &Live) -> Option<(JobState, Status)> {
        told_in(1, live)
    }

    /// What is told in this start of the job.
    fn told_in(start: u32, live: &Live) -> Option<(JobState, Status)> {
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        record.incarnation = start;
        told(&record, &[(Live::NAME, Bytes::from(statistics::encode(live)))].into())
    }

    #[test]
    fn the_orchestrator_tells_where_a_job_stands() {
        let (state, status) = told_of(&live()).unwrap();
        let progress = &status.progress;
        assert_eq!((state, progress.ended(), progress.items_failed()), (JobState::Running, 42, 4));
        assert_eq!((status.per_second, status.eta_seconds), (2.0, Some(29.0)));
        assert_eq!((status.nodes, status.failed_tries), (3, 7));
        let rates = vec![Rate { over_s: 20.0, per_second: 1.0, items_per_second: 4.0 }];
        let resumed = Live { incarnation: 2, rates, ..live() };
        let status = told_in(2, &resumed).unwrap().1;
        assert_eq!((status.per_second, status.items_per_second), (1.0, 4.0), "of this start alone");
        assert_eq!(status.progress.conclusion, None);
        let ends = Live { ends_as: "canceled".into(), ends_why: "canceled by ana".into(), ..live() };
        let end = told_of(&ends).unwrap().1.progress.conclusion.unwrap();
        assert_eq!((end.state, &*end.reason), (JobState::Canceled, "canceled by ana"));
    }

    #[test]
    fn what_it_said_long_ago_or_of_another_start_tells_nothing() {
        let of = |change: fn(&mut Live)| {
            let mut live = live();
            change(&mut live);
            told_of(&live).is_some()
        };
        assert!(of(|_| ()));
        let useless: [fn(&mut Live); 6] = [
            |live| live.written_us -= OLD,
            |live| live.incarnation = 2,
            |live| live.nodes = 0,
            |live| live.init.is_ready = false,
            |live| live.state = "failed".to_owned(),
            |live| live.state = "odd".to_owned(),
        ];
        assert!(useless.into_iter().all(|change| !of(change)));
    }
}
