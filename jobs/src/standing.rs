//! What a fleet does for a job that has not ended, where that is not plain from the counts: nobody serves it, its end is
//! decided and not written down, a server is waited for.

use prs_common::ledger::{Conclusion, JobState, Obstacle, ObstacleKind};
use prs_orchestrator::job::membership::{Elsewhere, Workers};
use prs_orchestrator::job::record::Status;
use prs_orchestrator::report::progress_overview::{describe, duration};
use prs_orchestrator::watch::View;
use serde::Serialize;

/// A job as it is shown.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The state; nothing while it is not known.
    pub state: Option<JobState>,
    /// The counts, as they were seen last.
    pub status: Status,
    /// What a fleet does for it.
    pub standing: Standing,
}

/// What a fleet does for a job that has not ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// Who could serve it, where no node does.
    pub workers: Option<Workers>,
    /// The server that gives no answer to this program, which knows no more of the job meanwhile.
    pub waits_for: Option<WaitsFor>,
    /// What the workers of the job wait for, as they say.
    pub obstacle: Option<WaitsFor>,
    /// The compute target of the job; empty where it runs on this machine.
    pub target: String,
    /// When a user asked the program that runs it on this machine to cancel it, microseconds since the Unix epoch.
    pub cancel_asked_us: Option<u64>,
}

/// What a job waits for, or who looks at it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitsFor {
    /// The server that gives no answer: `Redis`, `RabbitMQ`, `storage`, or `inputs`, the store of an input; or `an orchestrator`,
    /// where no worker that tried can watch over the job.
    pub server: &'static str,
    /// For how long so far, seconds; null where this program has just come.
    pub seconds: Option<f64>,
    /// What it said, or did not say.
    pub reason: String,
}

impl WaitsFor {
    /// What the workers of a job wait for, as the ledger has it.
    pub(crate) fn of(obstacle: Option<&Obstacle>) -> Option<Self> {
        let Obstacle { kind, reason, lasts } = obstacle?;
        let server = match kind {
            ObstacleKind::Broker => "RabbitMQ",
            ObstacleKind::Storage => "storage",
            ObstacleKind::Inputs => "inputs",
            ObstacleKind::Watch => "an orchestrator",
        };
        Some(Self { server, seconds: Some(lasts.as_secs_f64()), reason: reason.clone() })
    }
}

impl Standing {
    /// What the job waits for, or who looks at it.
    pub fn waits_for(&self) -> Option<&WaitsFor> {
        self.waits_for.as_ref().or(self.obstacle.as_ref())
    }

    /// That a job which no node serves waits for a worker, in a few words.
    pub fn waits(&self) -> Option<String> {
        let workers = self.workers.as_ref().filter(|workers| workers.idle == 0 && !workers.watches)?;
        Some(match workers.busy {
            0 => format!("no worker serves the compute target {}", self.target),
            _ => format!("the workers of the compute target {} are busy", self.target),
        })
    }
}

impl From<View> for Shown {
    fn from(View { state, status }: View) -> Self {
        Self { state, status, standing: Standing::default() }
    }
}

impl Shown {
    /// How the job ends, where that is decided and it is no result.
    pub fn conclusion(&self) -> Option<&Conclusion> {
        self.status.progress.conclusion.as_ref().filter(|end| end.state != JobState::Completed)
    }

    /// Whether nodes serve it; a job of this machine always is.
    pub fn is_served(&self) -> bool {
        self.standing.target.is_empty() || self.status.nodes > 0
    }

    /// The same without an estimate of the end that nobody works towards.
    #[must_use]
    pub fn honest(mut self) -> Self {
        let works = self.is_served() && self.conclusion().is_none() && self.standing.waits_for().is_none();
        self.status.eta_seconds = self.status.eta_seconds.filter(|_| works);
        self
    }

    /// One line about where the job stands; nothing where nothing is known.
    pub fn line(&self) -> Option<String> {
        let shown = self.clone().honest();
        let unknown = self.standing.waits_for().map(|_| "not known".to_owned());
        let counts = shown.state.map(|state| describe(state, &shown.status)).or(unknown);
        let parts: Vec<_> = counts.into_iter().chain(self.remark()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// What there is to know beside the counts.
    pub fn remark(&self) -> Option<String> {
        let parts: Vec<_> = [self.away(), self.served()].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The same in a few words, for a line that is short.
    pub fn remark_in_short(&self) -> Option<String> {
        if let Some(away) = self.standing.waits_for() {
            return Some(format!("waiting for {}", away.server));
        }
        self.served()?;
        if let Some(conclusion) = self.conclusion() {
            return Some(format!("ends as {}", conclusion.state.as_str()));
        }
        self.standing.waits().or_else(|| Some(format!("for a worker of {}", self.standing.target)))
    }

    fn away(&self) -> Option<String> {
        let WaitsFor { server, seconds, reason } = self.standing.waits_for()?;
        let since = seconds.map(|seconds| format!(" for {} so far", duration(seconds))).unwrap_or_default();
        Some(format!("waiting for {server}{since}: {reason}"))
    }

    /// Who does what is to be done next.
    pub fn served(&self) -> Option<String> {
        let state = self.state.filter(|state| !state.is_final())?;
        let Standing { workers, target, .. } = &self.standing;
        if target.is_empty() {
            return None;
        }
        if let Some(Conclusion { state: end, reason }) = self.conclusion() {
            let reason = reason.lines().next().unwrap_or_default();
            let decided = format!("it is decided that the job ends as {}: {reason}", end.as_str());
            return Some(match workers {
                Some(workers) if !workers.watches && !self.is_served() => {
                    format!("{decided}; {}", who_comes(workers, target, "writes that down"))
                }
                _ => format!("{decided}; a worker writes that down"),
            });
        }
        if self.is_served() {
            return None;
        }
        match workers {
            None => Some(format!("waiting for a worker of the compute target {target}")),
            // Nodes leave before the result is written.
            Some(workers) if state == JobState::Finalizing && workers.watches => None,
            Some(workers) if state == JobState::Finalizing => {
                Some(format!("nobody writes the result; {}", who_comes(workers, target, "does")))
            }
            Some(workers) => Some(format!("waiting: {}", who_comes(workers, target, "takes the job"))),
        }
    }
}

/// Which worker does something next.
fn who_comes(workers: &Workers, target: &str, does: &str) -> String {
    match (workers.idle, workers.busy) {
        (0, 0) => format!(
            "no worker serves the compute target {target}{}; the first that starts {does}: prs worker --target {target}",
            elsewhere(&workers.elsewhere)
        ),
        (0, 1) => format!(
            "the one worker of the compute target {target} is busy with another job; when that is done, it {does}"
        ),
        (0, busy) => format!(
            "all {busy} workers of the compute target {target} are busy with other jobs; the first that is done {does}"
        ),
        (1, _) => format!("1 worker of the compute target {target} is idle; it {does} if it can"),
        (idle, _) => {
            format!("{idle} workers of the compute target {target} are idle; one of them {does} if it can")
        }
    }
}

/// ` (3 workers serve gpu, 1 serves big)`; nothing where there are none.
fn elsewhere(elsewhere: &[Elsewhere]) -> String {
    let of = |Elsewhere { target, workers }: &Elsewhere| match workers {
        1 => format!("1 worker serves {target}"),
        workers => format!("{workers} workers serve {target}"),
    };
    let told: Vec<String> = elsewhere.iter().map(of).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Checkpoint, JobProgress};

    use super::*;

    fn shown(state: JobState, nodes: u32, workers: Option<(u64, u64, bool)>) -> Shown {
        let checkpoint = Checkpoint { scheduled: 300, complete: true, ..Checkpoint::default() };
        let progress = JobProgress { checkpoint, succeeded: 45, items: 450, ..JobProgress::default() };
        let status =
            Status { progress, nodes, per_second: 0.6, eta_seconds: Some(420.0), ..Status::default() };
        let workers =
            workers.map(|(idle, busy, watches)| Workers { idle, busy, watches, elsewhere: Vec::new() });
        let standing = Standing { workers, target: "gpu".to_owned(), ..Standing::default() };
        Shown { state: Some(state), status, standing }
    }

    fn ends(mut shown: Shown, state: JobState, reason: &str) -> Shown {
        shown.status.progress.conclusion = Some(Conclusion { state, reason: reason.to_owned() });
        shown
    }

    fn waits(mut shown: Shown, server: &'static str, seconds: Option<f64>) -> Shown {
        shown.standing.waits_for =
            Some(WaitsFor { server, seconds, reason: "connection refused".to_owned() });
        shown
    }

    fn stands(mut shown: Shown, kind: ObstacleKind) -> Shown {
        let lasts = std::time::Duration::from_secs(12);
        let obstacle = Obstacle { kind, reason: "no room".to_owned(), lasts };
        shown.standing.obstacle = WaitsFor::of(Some(&obstacle));
        shown
    }

    const RUNNING: &str =
        "running: 45 of 300 mini-batches processed, 0 failed, 450 items, 0.6 mini-batches/s";
    const FINALIZING: &str =
        "finalizing: 45 of 300 mini-batches processed, 0 failed, 450 items, 0.6 mini-batches/s";

    #[test]
    fn a_line_says_what_is_true() {
        use JobState::{Canceled, Completed, Failed, Finalizing, Running};
        let table = [
            (shown(Running, 2, None), RUNNING, ", about 7 min 00 s left"),
            (shown(Running, 0, None), RUNNING, "; waiting for a worker of the compute target gpu"),
            (
                shown(Running, 0, Some((0, 0, false))),
                RUNNING,
                "; waiting: no worker serves the compute target gpu; the first that starts takes the job: prs worker --target gpu",
            ),
            (
                shown(Running, 0, Some((0, 3, false))),
                RUNNING,
                "; waiting: all 3 workers of the compute target gpu are busy with other jobs; the first that is done takes the job",
            ),
            (
                shown(Running, 0, Some((1, 3, true))),
                RUNNING,
                "; waiting: 1 worker of the compute target gpu is idle; it takes the job if it can",
            ),
            (
                shown(Running, 0, Some((2, 0, false))),
                RUNNING,
                "; waiting: 2 workers of the compute target gpu are idle; one of them takes the job if it can",
            ),
            (
                ends(shown(Running, 2, None), Failed, "no room"),
                RUNNING,
                "; it is decided that the job ends as failed: no room; a worker writes that down",
            ),
            (
                ends(shown(Running, 0, Some((0, 0, true))), Canceled, "canceled by ana"),
                RUNNING,
                "; it is decided that the job ends as canceled: canceled by ana; a worker writes that down",
            ),
            (
                ends(shown(Running, 0, Some((0, 0, false))), Failed, "no room"),
                RUNNING,
                "; it is decided that the job ends as failed: no room; no worker serves the compute target gpu; the first that starts writes that down: prs worker --target gpu",
            ),
            (shown(Finalizing, 0, Some((2, 0, true))), FINALIZING, ""),
            (ends(shown(Finalizing, 0, Some((2, 0, true))), Completed, ""), FINALIZING, ""),
            (
                shown(Finalizing, 0, Some((0, 1, false))),
                FINALIZING,
                "; nobody writes the result; the one worker of the compute target gpu is busy with another job; when that is done, it does",
            ),
            (
                waits(shown(Running, 2, None), "Redis", Some(12.3)),
                RUNNING,
                "; waiting for Redis for 12.3 s so far: connection refused",
            ),
            (
                waits(shown(Running, 0, None), "storage", None),
                RUNNING,
                "; waiting for storage: connection refused; waiting for a worker of the compute target gpu",
            ),
            (
                stands(shown(Running, 2, None), ObstacleKind::Watch),
                RUNNING,
                "; waiting for an orchestrator for 12.0 s so far: no room",
            ),
            (
                waits(stands(shown(Running, 2, None), ObstacleKind::Broker), "Redis", None),
                RUNNING,
                "; waiting for Redis: connection refused",
            ),
        ];
        for (shown, counts, more) in table {
            assert_eq!(shown.line().unwrap(), format!("{counts}{more}"));
        }
    }

    #[test]
    fn workers_of_other_targets_are_named() {
        let mut shown = shown(JobState::Running, 0, Some((0, 0, false)));
        let workers = shown.standing.workers.as_mut().unwrap();
        let of = |target: &str, workers| Elsewhere { target: target.to_owned(), workers };
        workers.elsewhere = vec![of("default", 3), of("big", 1)];
        assert_eq!(
            shown.remark().unwrap(),
            "waiting: no worker serves the compute target gpu (3 workers serve default, 1 worker serves big); the first that starts takes the job: prs worker --target gpu"
        );
        assert_eq!(shown.remark_in_short().unwrap(), "no worker serves the compute target gpu");
    }

    #[test]
    fn a_job_of_which_nothing_is_known_waits_for_a_server_or_says_nothing() {
        assert_eq!(Shown::default().line(), None);
        let line = waits(Shown::default(), "Redis", Some(61.0)).line().unwrap();
        assert_eq!(line, "not known; waiting for Redis for 1 min 01 s so far: connection refused");
    }

    #[test]
    fn a_job_of_this_machine_has_no_workers() {
        let view = View { state: Some(JobState::Running), status: Status::default() };
        let shown = ends(Shown::from(view), JobState::Canceled, "canceled by ana");
        assert_eq!(shown.remark(), None);
    }

    #[test]
    fn nothing_is_left_where_nobody_works() {
        let eta = |shown: Shown| shown.honest().status.eta_seconds;
        assert_eq!(eta(shown(JobState::Running, 1, None)), Some(420.0));
        assert_eq!(eta(shown(JobState::Running, 0, None)), None);
        assert_eq!(eta(ends(shown(JobState::Running, 1, None), JobState::Failed, "")), None);
        assert_eq!(eta(waits(shown(JobState::Running, 1, None), "Redis", None)), None);
    }
}
