//! What lists of jobs say of a job: made by each program that changes it or looks at it, and kept in the index of the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use prs_common::job::NamedAsset;
use prs_common::ledger::{Conclusion, EndKind, EndedJob, IndexedJob, JobState, Ledger, LedgerError, Noted};
use prs_common::registry::Use;
use prs_common::statistics::Live;
use prs_common::timestamp::now_us;
use prs_portal::attention::{Attention, attention as sentences};
use prs_portal::view::{FleetFact, Published, signals};
use serde::{Deserialize, Serialize};

use super::error_list::{self, ErrorList};
use super::page::{self, PageLocation};
use crate::job::record::{ItemCounts, JobRecord, JobResult, MiniBatchCounts, Status};

/// Longest reason and longest remark in a summary, characters.
const MOST_TEXT: usize = 200;
/// How long a program that submits waits until the index has the job.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most tags in a summary: more than people give.
const MOST_TAGS: usize = 100;
/// Most registered versions in a summary.
const MOST_USES: usize = 100;

/// What is registered and the job uses, its steps too.
fn uses(record: &JobRecord) -> Vec<Use> {
    let steps = record.pipeline.iter().flat_map(|plan| &plan.pipeline.steps).map(|step| &step.spec);
    let named = steps.chain([&record.spec]).flat_map(|spec| &spec.named_data);
    let of = |named: &NamedAsset| Use {
        kind: named.kind,
        name: named.name.clone(),
        version: named.version.clone(),
    };
    let mut uses: Vec<Use> = named.map(of).collect();
    uses.sort_unstable();
    uses.dedup();
    uses.truncate(MOST_USES);
    uses
}

/// What lists say of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job.
    pub job_id: String,
    /// Its name in the job file.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Where it stands.
    pub state: JobState,
    /// Whether it completed with every item; nothing before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
    /// Why it failed or was canceled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its compute target.
    pub target: String,
    /// When it was submitted, microseconds since the Unix epoch.
    pub submitted_us: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_us: Option<u64>,
    /// Its tags, 100 at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The endpoint that was called, and the deployment that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed: Option<(String, String)>,
    /// Mini-batches.
    pub mini_batches: MiniBatchCounts,
    /// Items.
    pub items: ItemCounts,
    /// Seconds its last start took so far.
    pub seconds: f64,
    /// Mini-batches a second; 0 where it does not run.
    pub per_second: f64,
    /// Seconds until its end, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<f64>,
    /// What needs a person, the worst of it; nothing where all is well.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "attention_form")]
    pub attention: Option<Attention>,
    /// What it does at the moment; nothing once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When its last start was asked for, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Who handed it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<String>,
    /// Who called the endpoint, as servers know them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_by: Option<String>,
    /// The pipeline that it is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Which start of it this is, from 1.
    pub start: u32,
    /// What is registered and it uses, its steps too; 100 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Use>,
    /// When this was so, microseconds since the Unix epoch.
    pub as_of_us: u64,
}

impl JobSummary {
    /// What a list says of the job of `record` that stands so; `said` is what needs a person, and what it does.
    pub fn of(
        record: &JobRecord,
        state: JobState,
        status: &Status,
        result: Option<&JobResult>,
        said: (Option<Attention>, Option<String>),
    ) -> Self {
        let (runs, spec) = (!state.is_final(), &record.spec);
        let result = result.filter(|_| !runs);
        let progress = &status.progress;
        let ends = |end: &Conclusion| end.state != JobState::Completed;
        let is_decided = progress.conclusion.as_ref().is_some_and(ends);
        Self {
            job_id: record.job_id.clone(),
            name: spec.name.clone(),
            display_name: spec.display_name.clone(),
            state,
            complete: result.map(|result| result.findings.complete),
            reason: result.and_then(|result| result.reason.as_deref()).map(|reason| cut(reason, MOST_TEXT)),
            target: spec.compute_target.clone(),
            submitted_us: record.submitted_us,
            ended_us: result.and_then(|result| result.ended_us),
            tags: spec.tags.iter().take(MOST_TAGS).map(|(key, value)| (key.clone(), value.clone())).collect(),
            deployed: spec.deployed.as_ref().map(|it| (it.endpoint.clone(), it.deployment.clone())),
            mini_batches: result.map_or_else(|| progress.into(), |result| result.mini_batches),
            items: result.map_or_else(|| progress.into(), |result| result.items),
            seconds: result.map_or(status.seconds, |result| result.seconds),
            per_second: if runs { status.per_second } else { 0.0 },
            eta_seconds: status.eta_seconds.filter(|_| runs && !is_decided),
            attention: said.0,
            phase: said.1,
            started_us: record.started_us,
            submitted_by: spec.submitted_by.as_ref().map(|by| by.name.clone()),
            called_by: spec.deployed.as_ref().and_then(|it| it.called_by.clone()),
            parent: record.parent.as_ref().map(|parent| parent.job_id.clone()),
            start: record.incarnation,
            uses: uses(record),
            as_of_us: now_us(),
        }
    }

    /// Whether it says the same, whenever it was so.
    pub fn says_as(&self, other: &Self) -> bool {
        Self { as_of_us: other.as_of_us, ..self.clone() } == *other
    }

    /// Whether it completed and items are missing.
    pub fn is_incomplete(&self) -> bool {
        self.state == JobState::Completed && self.complete == Some(false)
    }

    /// The same as the index of the ledger keeps it.
    pub fn indexed(&self) -> IndexedJob {
        let position = JobState::ALL.into_iter().position(|state| state == self.state).unwrap_or_default();
        // How a job ended is decided once: all ends are one.
        let position = position.min(JobState::ALL.len() - 3) as u64;
        let summary = serde_json::to_vec(self).expect("a summary holds only plain values");
        let ends = self.ended_us.filter(|_| self.state.is_final());
        let ended = ends.map(|ended_us| {
            let is_complete = self.state == JobState::Completed && self.complete == Some(true);
            let kind = EndKind { target: self.target.clone(), state: self.state, is_complete };
            EndedJob { kind, ended_us }
        });
        IndexedJob {
            job_id: self.job_id.clone(),
            order: u64::from(self.start) * JobState::ALL.len() as u64 + position,
            summary: summary.into(),
            ended,
        }
    }

    /// The summary that the index keeps as these bytes; nothing where another program has put something else there.
    pub fn read(summary: &[u8]) -> Option<Self> {
        serde_json::from_slice(summary).ok()
    }

    /// Notes it in the index.
    ///
    /// # Errors
    /// The ledger does not take it: the keeper of the index notes it later.
    pub async fn note(&self, ledger: &dyn Ledger, noted: Noted) -> Result<bool, LedgerError> {
        ledger.note_job(&self.indexed(), noted).await
    }
}

/// What lists say of a job as its record, or the program that watches over it, has it; `live` is what that would publish now.
pub(crate) fn of_record(
    record: &JobRecord,
    state: JobState,
    status: &Status,
    live: Option<Live>,
) -> JobSummary {
    let result = record.result.as_ref();
    let attention = if let Some(result) = result.filter(|_| state.is_final()) {
        attention(record, result, live)
    } else {
        let record = JobRecord { state, status: status.clone(), ..record.clone() };
        attention(&record, &record.result_so_far(), live)
    };
    JobSummary::of(record, state, status, result, (attention, phase(state, status)))
}

/// Notes a job in the index as its record has it, which was just written; where that fails, the keeper of the index finds it in storage.
pub async fn note_new(ledger: &dyn Ledger, record: &JobRecord) {
    let summary = of_record(record, record.state, &record.status, None);
    match tokio::time::timeout(PATIENCE, summary.note(ledger, Noted::Now)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(job = record.job_id, %error, "lists show the job a little later"),
        Err(_) => tracing::debug!(job = record.job_id, "lists show the job a little later: no answer"),
    }
}

/// What needs a person about a job; the worst of it. Made as on its page, which has more.
fn attention(record: &JobRecord, result: &JobResult, live: Option<Live>) -> Option<Attention> {
    let errors = ErrorList {
        schema: error_list::SCHEMA,
        errors: result.findings.errors.clone(),
        ..ErrorList::default()
    };
    let place = PageLocation { called: &record.job_id, is_among_logs: false, steps: None };
    let statistics = Published { live, ..Published::default() };
    let mut facts = page::facts(record, result, &errors, statistics, place);
    // A program that watches over it knows of its nodes.
    let has_nodes = !result.state.is_final() && record.pipeline.is_none();
    facts.fleet =
        has_nodes.then(|| FleetFact { nodes: u64::from(record.status.nodes), ..FleetFact::default() });
    sentences(&signals(&facts)).into_iter().next()
}

/// What it does at the moment, as its orchestrator sees it.
pub(crate) fn phase(state: JobState, status: &Status) -> Option<String> {
    let phase = match state {
        _ if state.is_final() => return None,
        JobState::Finalizing => "assembling",
        _ if status.nodes == 0 => "waiting_for_nodes",
        _ if status.starting > 0 && !status.is_ready => "init",
        JobState::Queued | JobState::Scheduling if status.progress.ended() == 0 => "planning",
        _ => "processing",
    };
    Some(phase.to_owned())
}

/// How [`Attention`] stands in the index. What another version says that this one does not know is a note.
mod attention_form {
    use prs_portal::attention::{Attention, Severity, known_word};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Form {
        code: String,
        severity: u8,
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        command: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        part: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_us: Option<u64>,
    }

    #[expect(clippy::ref_option, reason = "serde hands in a reference")]
    pub(super) fn serialize<S: Serializer>(of: &Option<Attention>, serializer: S) -> Result<S::Ok, S::Error> {
        let form = of.as_ref().map(|of| Form {
            code: of.code.to_owned(),
            severity: of.severity as u8,
            text: super::cut(&of.text, super::MOST_TEXT),
            command: of.command.clone(),
            part: of.part.to_owned(),
            path: of.path.clone(),
            since_us: of.since_us,
        });
        form.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Attention>, D::Error> {
        let form: Option<Form> = Option::deserialize(from)?;
        Ok(form.map(|form| Attention {
            code: known_word(&form.code).unwrap_or("note"),
            severity: match form.severity {
                0 => Severity::Note,
                1 => Severity::Warning,
                _ => Severity::Error,
            },
            text: form.text,
            command: form.command,
            part: known_word(&form.part).unwrap_or_default(),
            path: form.path,
            since_us: form.since_us,
        }))
    }
}

/// The beginning of a text that is longer than so many characters, with an ellipsis.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::{Checkpoint, JobProgress};
    use prs_common::statistics::{Signs, SlowOn};

    use super::*;
    use crate::job::record::tests::{end, record};

    fn running() -> Status {
        let checkpoint = Checkpoint { scheduled: 10, complete: true, ..Checkpoint::default() };
        let progress = JobProgress {
            checkpoint,
            succeeded: 4,
            items: 40,
            items_succeeded: 40,
            ..JobProgress::default()
        };
        Status { progress, nodes: 1, per_second: 2.0, eta_seconds: Some(3.0), ..Status::default() }
    }

    #[test]
    fn a_summary_goes_to_the_index_and_back() {
        let mut record = record();
        record.spec.tags.insert("team".to_owned(), "vision".to_owned());
        let summary = of_record(&record, JobState::Running, &running(), None);
        assert_eq!(
            (summary.mini_batches.scheduled, summary.mini_batches.succeeded, summary.eta_seconds),
            (10, 4, Some(3.0))
        );
        let indexed = summary.indexed();
        assert!(indexed.summary.len() <= 700, "{}", indexed.summary.len());
        assert_eq!(JobSummary::read(&indexed.summary).unwrap(), summary);
        assert_eq!(JobSummary::read(b"something else"), None);
    }

    #[test]
    fn lists_say_of_a_job_that_runs_what_its_page_does() {
        let (record, now_us) = (record(), now_us());
        let live = |change: fn(&mut Live, u64)| {
            let mut live = Live { started_us: record.started_us, written_us: now_us, ..Live::default() };
            change(&mut live, now_us);
            let attention = of_record(&record, JobState::Running, &running(), Some(live)).attention;
            attention.map(|said| (said.code, said.path))
        };
        assert_eq!(live(|_, _| ()), None);
        assert_eq!(
            live(|live, now_us| live.last_outcome_us = now_us - 61_000_000),
            Some(("stalled", "mini-batches?state=running".to_owned()))
        );
        let slow = |live: &mut Live, _| {
            let one = SlowOn { node_id: 17, factor: 3.1, since_us: 7 };
            live.signs = Signs { is_known: true, slowest: Some(one), slow_nodes: 1, ..Signs::default() };
        };
        assert_eq!(live(slow), Some(("slow-node", "nodes/17".to_owned())));
    }

    #[test]
    fn a_later_state_and_a_later_start_come_after() {
        let order = |start, state| {
            let mut record = record();
            record.incarnation = start;
            of_record(&record, state, &Status::default(), None).indexed().order
        };
        let in_order = [
            (1, JobState::Queued),
            (1, JobState::Scheduling),
            (1, JobState::Running),
            (1, JobState::Finalizing),
            (1, JobState::Failed),
            (2, JobState::Queued),
        ];
        assert!(in_order.is_sorted_by(|one, other| order(one.0, one.1) < order(other.0, other.1)));
        assert_eq!(order(1, JobState::Completed), order(1, JobState::Canceled));
    }

    #[test]
    fn nothing_is_promised_of_a_job_whose_end_is_decided() {
        let mut status = running();
        let end = Conclusion { state: JobState::Canceled, reason: "asked".to_owned() };
        status.progress.conclusion = Some(end);
        let summary = of_record(&record(), JobState::Running, &status, None);
        assert_eq!(summary.eta_seconds, None);
    }

    #[test]
    fn long_reasons_are_cut() {
        let mut record = record();
        end(&mut record);
        record.state = JobState::Failed;
        let mut result = record.result.clone().unwrap();
        (result.state, result.reason) = (JobState::Failed, Some("ä".repeat(5_000)));
        record.result = Some(result);
        let summary = of_record(&record, JobState::Failed, &Status::default(), None);
        let indexed = summary.indexed();
        assert!(indexed.summary.len() < 2_000, "{}", indexed.summary.len());
        let read = JobSummary::read(&indexed.summary).unwrap();
        let attention = read.attention.unwrap();
        assert_eq!((attention.code, attention.part), ("failed", "errors"));
        assert!(attention.text.ends_with("..."), "{}", attention.text);
    }
}
