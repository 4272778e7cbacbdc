//! What of a job is shown while it runs: its phase, how long it has been going on, counts, rates, failures.

use std::time::Duration;

use prs_common::ledger::{JobProgress, JobState, OF_MODEL, OF_SIDE_INPUT, PrintedLine};
use prs_jobs::standing::Shown;
use prs_orchestrator::job::record::Status;
use prs_orchestrator::report::progress_overview::{duration, rate};

use crate::terminal::fit::{Part, fit};

/// What a job does, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No worker serves it.
    Waiting,
    /// Processes import the script and are in `init()`; none is ready.
    Loading,
    /// Mini-batches run.
    Running,
    /// The result is written.
    Ending,
}

impl Phase {
    /// The phase of a job; nothing while it is not known.
    pub(super) fn of(shown: &Shown) -> Option<Self> {
        let (state, status) = (shown.state?, &shown.status);
        let ends = state == JobState::Finalizing || state.is_final() || shown.conclusion().is_some();
        Some(match () {
            () if ends || status.progress.is_complete() => Self::Ending,
            () if !shown.is_served() => Self::Waiting,
            () if !status.is_ready => Self::Loading,
            () => Self::Running,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Ending => "ending",
        }
    }
}

/// What is shown of a job at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// The phase.
    pub(super) phase: Option<Phase>,
    head: String,
    /// The share of mini-batches that have their outcome, where that says something.
    fraction: Option<f64>,
    parts: Vec<Part>,
    /// What changes when something happens, and not with the time.
    pub(super) mark: (u64, u64, u64, u64, u32),
}

impl Facts {
    /// What is shown of a job that has been going on for so long.
    pub(super) fn of(shown: &Shown, elapsed: Duration) -> Self {
        let phase = Phase::of(shown);
        let shown = shown.clone().honest();
        let remark = shown.remark_in_short();
        let status = &shown.status;
        let mut parts = match phase {
            Some(Phase::Running) => counts(status),
            Some(Phase::Loading) => vec![loading(status)],
            Some(Phase::Ending) if status.progress.is_complete() => vec![Part::kept("writing the result")],
            _ => Vec::new(),
        };
        parts.extend(failures(status).filter(|_| phase != Some(Phase::Ending)));
        parts.extend(remark.map(Part::kept));
        if let (Some(Phase::Loading), Some(printed)) = (phase, &status.printed) {
            parts.push(Part::kept(describe_printed(printed, status.nodes)).or(printed.line.clone()));
        }
        let JobProgress { checkpoint, succeeded, failed, .. } = &status.progress;
        let ended = succeeded + failed;
        let fraction = (phase == Some(Phase::Running) && checkpoint.complete)
            .then(|| ended as f64 / checkpoint.scheduled.max(1) as f64);
        let name = phase.map_or("starting", Phase::as_str);
        Self {
            phase,
            head: format!("{name} {}", clock(elapsed)),
            fraction,
            parts,
            mark: (checkpoint.scheduled, ended, *failed, status.failed_tries, status.init_failures),
        }
    }

    /// One line of at most so many columns.
    pub(super) fn fit(&self, width: usize) -> String {
        fit(&self.head, self.fraction, self.parts.clone(), width)
    }

    /// One line of any length.
    pub(super) fn line(&self) -> String {
        fit(&self.head, None, self.parts.clone(), usize::MAX)
    }
}

fn counts(status: &Status) -> Vec<Part> {
    let JobProgress { checkpoint, items, .. } = &status.progress;
    let (ended, more) = (status.progress.ended(), if checkpoint.complete { "" } else { "+" });
    let counted = format!("{ended}/{}{more}", checkpoint.scheduled);
    let mut parts = vec![Part::kept(format!("{counted} mini-batches")).or(counted)];
    // Where a mini-batch is one item, both are the same.
    if checkpoint.items != checkpoint.scheduled {
        parts.push(Part::ranked(1, format!("{items}/{}{more} items", checkpoint.items)));
    }
    parts.push(Part::ranked(2, rate(status.items_per_second, "items")));
    let left = status.eta_seconds.filter(|seconds| *seconds >= 1.0);
    let left = left.map(|seconds| format!("{} left", in_whole_seconds(seconds)));
    parts.extend(left.map(|left| Part::ranked(3, left)));
    parts.extend(status.waits_for_last().map(|(index, seconds)| {
        let seconds = in_whole_seconds(seconds);
        Part::kept(format!("waiting for mini-batch {index}, {seconds}")).or(format!("for {index}, {seconds}"))
    }));
    parts
}

fn loading(status: &Status) -> Part {
    if let Some((does, short)) = describe_preparing(status) {
        return Part::kept(does).or(short);
    }
    match (status.starting, status.processes) {
        (0, _) => Part::kept("starting processes"),
        (starting, all) => {
            let processes = format!("{starting} of {all} processes");
            Part::kept(format!("import and init() in {processes}")).or(processes)
        }
    }
}

/// What a node does before it starts processes, and the same in fewer words; nothing where it does neither.
pub(crate) fn describe_preparing(status: &Status) -> Option<(String, &'static str)> {
    let preparing = status.preparing.as_ref().filter(|_| status.processes == 0)?;
    if [OF_SIDE_INPUT, OF_MODEL].iter().any(|label| preparing.starts_with(label)) {
        return Some((preparing.clone(), "waiting for a side input"));
    }
    Some((format!("preparing the environment: {preparing}"), "preparing the environment"))
}

/// What a process printed last, of a job that so many nodes serve.
pub(crate) fn describe_printed(printed: &PrintedLine, nodes: u32) -> String {
    let PrintedLine { node_id, process, line, .. } = printed;
    let node = if nodes > 1 { format!("node {node_id} ") } else { String::new() };
    format!("{node}{process}: {line}")
}

/// What failed so far.
fn failures(status: &Status) -> Option<Part> {
    let of = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let tries = of(status.failed_tries, "try", "tries");
    let lost = of(status.progress.failed, "mini-batch", "mini-batches");
    let inits = if status.is_ready { None } else { of(status.init_failures.into(), "process", "processes") };
    let failed: Vec<String> = [inits, tries, lost].into_iter().flatten().collect();
    (!failed.is_empty()).then(|| {
        let short = status.failed_tries.max(status.progress.failed).max(status.init_failures.into());
        Part::kept(format!("{} failed", failed.join(", "))).or(format!("{short} failed"))
    })
}

/// A time that is an estimate.
fn in_whole_seconds(seconds: f64) -> String {
    if seconds < 59.5 { format!("{seconds:.0} s") } else { duration(seconds) }
}

/// `0:07`, `12:34` or `1:02:03`.
pub(super) fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
pub(super) mod tests {
    use prs_common::ledger::Checkpoint;
    use prs_orchestrator::job::membership::Workers;
    use prs_orchestrator::job::record::ProcessAtWork;

    use super::*;
    use prs_jobs::standing::Standing;

    /// A job of this machine in its running phase: 12 of 30 mini-batches, 240 of 600 items.
    pub(crate) fn running() -> Shown {
        let checkpoint = Checkpoint { scheduled: 30, items: 600, complete: true, ..Checkpoint::default() };
        let progress = JobProgress { checkpoint, succeeded: 12, items: 240, ..JobProgress::default() };
        let status = Status {
            progress,
            nodes: 1,
            processes: 2,
            is_ready: true,
            items_per_second: 1.9,
            eta_seconds: Some(15.0),
            ..Status::default()
        };
        Shown { state: Some(JobState::Running), status, standing: Standing::default() }
    }

    /// One that no worker of a fleet serves.
    pub(crate) fn waiting() -> Shown {
        let standing =
            Standing { workers: Some(Workers::default()), target: "gpu".to_owned(), ..Standing::default() };
        let status = Status { seconds: 14.0, ..Status::default() };
        Shown { state: Some(JobState::Queued), status, standing }
    }

    fn line(shown: &Shown, width: usize) -> String {
        Facts::of(shown, Duration::from_secs(31)).fit(width)
    }

    #[test]
    fn a_job_that_runs_shows_what_fits() {
        let mut shown = running();
        assert_eq!(
            line(&shown, 117),
            "running 0:31  ████████████████░░░░░░░░░░░░░░░░░░░░░░░░  12/30 mini-batches  240/600 items  1.9 items/s  15 s left"
        );
        assert_eq!(
            line(&shown, 77),
            "running 0:31  12/30 mini-batches  240/600 items  1.9 items/s  15 s left"
        );
        assert_eq!(line(&shown, 37), "running 0:31  12/30  15 s left");
        shown.status.failed_tries = 2;
        assert_eq!(
            line(&shown, 77),
            "running 0:31  12/30  240/600 items  1.9 items/s  15 s left  2 tries failed"
        );
        assert_eq!(line(&shown, 37), "running 0:31  12/30  2 failed");
        shown.status.progress.failed = 1;
        let told = Facts::of(&shown, Duration::from_secs(4000)).line();
        let expected = "running 1:06:40  13/30 mini-batches  240/600 items  1.9 items/s  15 s left  2 tries, 1 mini-batch failed";
        assert_eq!(told, expected);
        let mut last = running();
        (last.status.updated_us, last.status.progress.succeeded, last.status.eta_seconds) =
            (11_400_000, 29, None);
        last.status.at_work = [ProcessAtWork { index: 0, of: 1, ..ProcessAtWork::default() }].into();
        assert_eq!(
            line(&last, 100),
            "running 0:31  29/30 mini-batches  240/600 items  1.9 items/s  waiting for mini-batch 0, 11 s"
        );
        assert_eq!(line(&last, 37), "running 0:31  29/30  for 0, 11 s");
        shown.status.progress.checkpoint = Checkpoint { scheduled: 30, items: 30, ..Checkpoint::default() };
        assert!(line(&shown, 120).contains("  13/30+ mini-batches  1.9 items/s"), "{}", line(&shown, 120));
    }

    #[test]
    fn the_phases_follow_each_other() {
        let mut shown = waiting();
        assert_eq!(line(&shown, 77), "waiting 0:31  no worker serves the compute target gpu");
        assert_eq!(line(&shown, 37), "waiting 0:31  no worker serves the c…");
        shown.status.nodes = 1;
        assert_eq!(line(&shown, 77), "loading 0:31  starting processes");
        shown.status.preparing = Some("Downloading torch".to_owned());
        assert_eq!(line(&shown, 77), "loading 0:31  preparing the environment: Downloading torch");
        assert_eq!(line(&shown, 40), "loading 0:31  preparing the environment");
        let text = format!("{OF_SIDE_INPUT}m: another worker of this host fetches it");
        shown.status.preparing = Some(text);
        assert_eq!(line(&shown, 77), "loading 0:31  side input m: another worker of this host fetches it");
        assert_eq!(line(&shown, 40), "loading 0:31  waiting for a side input");
        (shown.status.processes, shown.status.starting) = (2, 2);
        assert_eq!(line(&shown, 77), "loading 0:31  import and init() in 2 of 2 processes");
        shown.status.init_failures = 3;
        assert_eq!(
            line(&shown, 77),
            "loading 0:31  import and init() in 2 of 2 processes  3 processes failed"
        );
        let text = "Downloading shards: 40 %".to_owned();
        let printed = PrintedLine { node_id: 1, process: "process003".into(), line: text, at_us: 0 };
        shown.status.printed = Some(Box::new(printed.clone()));
        let told = "loading 0:31  import and init() in 2 of 2 processes  3 processes failed  process003: Downloading shards: 40 %";
        assert_eq!(line(&shown, 120), told);
        assert_eq!(line(&shown, 77), "loading 0:31  2 of 2 processes  3 failed  Downloading shards: 40 %");
        assert_eq!(line(&shown, 50), "loading 0:31  2 of 2 processes  3 failed  Downloa…");
        shown.status.nodes = 2;
        assert!(line(&shown, 150).ends_with("  node 1 process003: Downloading shards: 40 %"));
        let mut shown = running();
        shown.status.printed = Some(Box::new(printed));
        assert!(!line(&shown, 120).contains("Downloading"), "another process starts");
        shown.status.progress.succeeded = 30;
        assert_eq!(line(&shown, 77), "ending 0:31  writing the result");
        assert_eq!(line(&Shown::default(), 77), "starting 0:31");
    }

    #[test]
    fn what_happens_changes_the_mark_and_time_does_not() {
        let mark = |shown: &Shown, seconds| Facts::of(shown, Duration::from_secs(seconds)).mark;
        let shown = running();
        assert_eq!(mark(&shown, 1), mark(&shown, 2));
        let changes: [fn(&mut Status); 3] = [
            |status| status.progress.succeeded += 1,
            |status| status.failed_tries += 1,
            |status| status.init_failures += 1,
        ];
        for change in changes {
            let mut other = shown.clone();
            change(&mut other.status);
            assert_ne!(mark(&shown, 1), mark(&other, 1));
        }
    }
}
