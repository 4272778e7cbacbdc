//! Waiting for the end of a job of a fleet: the ledger says how it stands, its record has the last word.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::ledger::{JobLook, JobState, Ledger, LedgerError, LedgerErrorKind, NodeReport};
use prs_common::storage::Storage;
use prs_common::timestamp::now_us;
use prs_orchestrator::job::record::{Rates, Status};
use prs_orchestrator::{JobRecord, JobResult, Policy, run_name};
use tokio::sync::watch::Sender;

use super::workers::{note_unused, wants_more, workers};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::standing::{Shown, Standing, WaitsFor};

/// Between two looks at the ledger.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(150);
/// Between two looks at the record, while the ledger does not say that the job has ended.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks at who could serve a job that no node serves.
const WORKERS_INTERVAL: Duration = Duration::from_secs(1);

/// Free workers that a job does not use are told once it has been served for so long: a quick one needs no more.
const UNUSED_AFTER: Duration = Duration::from_secs(6);

/// What the servers are called to a person who waits for them.
pub(crate) const LEDGER: &str = "Redis";
pub(crate) const STORAGE: &str = "storage";

/// How long the last logs of a job that has ended are waited for.
const REPORTS_PATIENCE: Duration = Duration::from_secs(10);

/// Looks at a job until its record has the result; tells `view` what it sees. Without a ledger only the end is seen.
pub(crate) async fn until_ended(
    ledger: Option<&dyn Ledger>,
    storage: &dyn Storage,
    record: &JobRecord,
    view: Sender<Shown>,
    caller: &dyn Caller,
) -> Result<JobResult, Failure> {
    let mut looks = Looks::new(record, view, caller);
    let mut read_at = Instant::now();
    let mut was_known = false;
    loop {
        let state = match ledger {
            Some(ledger) => looks.look(ledger).await,
            None => None,
        };
        // The record has the last word. The ledger says when there is one, and forgets the job soon after.
        let ended = state.map_or(was_known, JobState::is_final);
        was_known = state.is_some();
        if ended || Instant::now() >= read_at {
            read_at = Instant::now() + RECORD_INTERVAL;
            let read = JobRecord::read(storage).await;
            looks.heard(STORAGE, read.as_ref().err());
            match read {
                Ok(present) if present.incarnation != record.incarnation => {
                    return Err(Failure::wrong(format!("job {} was resumed elsewhere", record.job_id)));
                }
                Ok(JobRecord { result: Some(result), .. }) => {
                    if let Some(ledger) = ledger {
                        until_reports_are_finished(ledger, record).await;
                    }
                    return Ok(result);
                }
                // No program is at work with it that could write it anew.
                Err(error) if error.is_for_good() && state.is_none() => return Err(Failure::usage(error)),
                Ok(_) | Err(_) => {}
            }
        }
        let is_ending =
            looks.shown.state == Some(JobState::Finalizing) || looks.shown.status.is_nearly_done();
        tokio::time::sleep(if is_ending { FOLLOW_INTERVAL / 3 } else { FOLLOW_INTERVAL }).await;
    }
}

/// Waits until the last logs of a job that has ended are in storage, for a person reads them next; never for long.
async fn until_reports_are_finished(ledger: &dyn Ledger, record: &JobRecord) {
    let job = ledger.job(&run_name(&record.job_id, record.incarnation));
    let finished = async {
        // The ledger forgets the job when they are.
        while job.state().await.is_ok() {
            tokio::time::sleep(FOLLOW_INTERVAL / 3).await;
        }
    };
    if tokio::time::timeout(REPORTS_PATIENCE, finished).await.is_err() {
        tracing::info!("the last logs of the job come to storage a little later");
    }
}

/// What was seen of a job from look to look.
struct Looks<'a> {
    record: &'a JobRecord,
    rates: Rates,
    /// Servers that give no answer, since when, and why.
    away: Vec<(&'static str, Instant, String)>,
    workers_at: Instant,
    /// Since when as many nodes serve the job as it takes, until that is told.
    full_since: Option<Instant>,
    is_unused_told: bool,
    shown: Shown,
    view: Sender<Shown>,
    caller: &'a dyn Caller,
}

impl<'a> Looks<'a> {
    fn new(record: &'a JobRecord, view: Sender<Shown>, caller: &'a dyn Caller) -> Self {
        let standing = Standing { target: record.spec.compute_target.clone(), ..Standing::default() };
        let shown = Shown { standing, ..Shown::default() };
        let (rates, workers_at) = (Rates::default(), Instant::now());
        Self {
            record,
            rates,
            away: Vec::new(),
            workers_at,
            full_since: None,
            is_unused_told: false,
            shown,
            view,
            caller,
        }
    }

    /// One look at the ledger; nothing when it does not know.
    async fn look(&mut self, ledger: &dyn Ledger) -> Option<JobState> {
        let asked = ask(ledger, self.record, &[]).await;
        let away = asked.as_ref().err().filter(|error| error.kind != LedgerErrorKind::NotFound);
        self.heard(LEDGER, away);
        let (state, mut status, _) = asked.ok()?;
        self.rates.apply(&mut status);
        self.shown.standing.obstacle = WaitsFor::of(status.progress.obstacle.as_ref());
        // Workers serve the steps of a pipeline; it has no node itself.
        let is_served = status.nodes > 0 || self.record.pipeline.is_some();
        if is_served || state.is_final() {
            self.shown.standing.workers = None;
        } else if Instant::now() >= self.workers_at {
            self.workers_at = Instant::now() + WORKERS_INTERVAL;
            self.shown.standing.workers = workers(ledger, self.record).await;
        }
        let has_all = self.record.pipeline.is_none() && status.nodes >= self.record.spec.node_count;
        if has_all && wants_more(state) && !self.is_unused_told {
            let since = *self.full_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= UNUSED_AFTER {
                self.is_unused_told = true;
                note_unused(ledger, self.record, self.caller).await;
            }
        } else {
            self.full_since = None;
        }
        self.shown.state = Some(state);
        self.shown.status = status;
        self.view.send_replace(self.shown.clone());
        Some(state)
    }

    /// Notes whether a server gave an answer; who waits for it is told once, and once that it is there again.
    fn heard<E: std::fmt::Display>(&mut self, server: &'static str, error: Option<&E>) {
        let known = self.away.iter().position(|(of, ..)| *of == server);
        match (known, error) {
            (None, None) => return,
            (None, Some(error)) => {
                self.caller.note(&format_args!("waiting for {server}: {error}"));
                self.away.push((server, Instant::now(), error.to_string()));
            }
            (Some(at), Some(error)) => self.away[at].2 = error.to_string(),
            (Some(at), None) => {
                let (server, since, _) = self.away.remove(at);
                let seconds = since.elapsed().as_secs();
                self.caller.note(&format_args!("{server} answers again, after {seconds} s"));
            }
        }
        self.shown.standing.waits_for = self.away.first().map(|(server, since, reason)| WaitsFor {
            server,
            seconds: Some(since.elapsed().as_secs_f64()),
            reason: reason.clone(),
        });
        self.view.send_replace(self.shown.clone());
    }
}

/// Where a running job stands, as the ledger has it, and these parts of its statistics, in one call. Its rate
/// counts the outcomes that the nodes of this start brought.
pub(crate) async fn ask(
    ledger: &dyn Ledger,
    record: &JobRecord,
    parts: &[&str],
) -> Result<(JobState, Status, Vec<Option<Bytes>>), LedgerError> {
    let job = ledger.job(&run_name(&record.job_id, record.incarnation));
    let JobLook { state, progress, nodes, statistics } = job.look(parts).await?;
    let age = Duration::from_micros(now_us().saturating_sub(record.started_us));
    let mut status = Status::now(progress, &nodes, &Policy::fleet(), age);
    if record.pipeline.is_some() {
        // It has no node that it could wait for.
        (status.seconds, status.waited_seconds) = (age.as_secs_f64(), 0.0);
    }
    let sum = |of: fn(&NodeReport) -> u64| nodes.iter().map(|node| of(&node.report)).sum();
    status.set_rate(sum(|report| report.ended), sum(|report| report.ended_items), status.seconds);
    Ok((state, status, statistics))
}

#[cfg(test)]
mod tests {
    use prs_common::job::JobSpec;
    use prs_common::ledger::{EmbeddedLedger, MiniBatchOutcome, NodeInfo, TryLimits};

    use super::*;
    use crate::caller::Unattended;

    #[tokio::test]
    async fn the_rate_of_a_start_is_that_of_what_its_own_nodes_brought() {
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("job-1".into(), String::new(), spec);
        (record.incarnation, record.started_us) = (2, now_us() - 30_000_000);
        let ledger = EmbeddedLedger::default();
        let job = ledger.job(&run_name("job-1", 2));
        job.create(TryLimits { run_max_try: 3, max_node_losses: 3 }).await.unwrap();
        let done = |index| MiniBatchOutcome { index, succeeded: true, items: 10, items_succeeded: 10 };
        job.commit("former", 1, &(0..1_000).map(done).collect::<Vec<_>>()).await.unwrap();
        let now_us = now_us();
        let info = NodeInfo { worker: "w".into(), since_us: now_us - 10_000_000, ..NodeInfo::default() };
        let node_id = job.join(&info, None).await.unwrap();
        let report = NodeReport { now_us, ended: 20, ended_items: 200, ..NodeReport::default() };
        job.heartbeat(node_id, "w", &report).await.unwrap();
        let (_, status, _) = ask(&ledger, &record, &[]).await.unwrap();
        assert_eq!(status.progress.succeeded, 1_000);
        assert!((1.9..2.01).contains(&status.per_second), "{status:?}");
        assert!((19.0..20.1).contains(&status.items_per_second), "{status:?}");
        assert!((19.9..21.0).contains(&status.waited_seconds), "{status:?}");
    }

    #[test]
    fn a_server_is_waited_for_until_it_answers() {
        let record =
            JobRecord::new("job-1".into(), String::new(), JobSpec::new("job", "/code", "main.py", vec![]));
        let (view, seen) = tokio::sync::watch::channel(Shown::default());
        let mut looks = Looks::new(&record, view, &Unattended);
        let steps = [
            (LEDGER, None, None),
            (LEDGER, Some("refused"), Some((LEDGER, "refused"))),
            (STORAGE, Some("no answer"), Some((LEDGER, "refused"))),
            (LEDGER, Some("no route"), Some((LEDGER, "no route"))),
            (LEDGER, None, Some((STORAGE, "no answer"))),
            (STORAGE, None, None),
        ];
        for (server, error, expected) in steps {
            looks.heard(server, error.as_ref());
            let shown = seen.borrow().standing.waits_for.clone();
            let shown = shown.as_ref().map(|waits| (waits.server, &*waits.reason));
            assert_eq!(shown, expected, "{server} {error:?}");
        }
    }
}
