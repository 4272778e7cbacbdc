//! The spans of a job. Each is told when it is over, by the program that saw it end; ids and most times follow from the record, so one that is
//! told by two programs is the same span.

use prs_common::ledger::JobState;
use prs_common::traces::{self, Failure, Span, TraceParent};

use crate::{JobContext, JobRecord};

/// Tells a step of the job, which took from and to these microseconds since the Unix epoch.
pub(crate) fn step(job: &JobContext, name: &'static str, time_us: (u64, u64)) {
    traces::send(|| {
        let root = TraceParent::of_job(&job.id, job.incarnation);
        Span::new(root.trace, name, time_us).within(root.span).with("prs.job_id", job.id.as_str())
    });
}

/// Tells the job, which has ended by its record.
pub(crate) fn whole(record: &JobRecord) {
    let Some(result) = &record.result else { return };
    traces::send(|| {
        let root = TraceParent::of_job(&record.job_id, record.incarnation);
        let ended_us = result.ended_us.unwrap_or(record.started_us);
        let span = Span::new(root.trace, "job", (record.started_us, ended_us))
            .with("prs.job_id", record.job_id.as_str())
            .with("prs.job_name", record.spec.name.as_str())
            .with("prs.target", record.spec.compute_target.as_str())
            .with("prs.start", record.incarnation)
            .with("prs.state", result.state.as_str())
            .with("prs.mini_batches", result.mini_batches.scheduled)
            .with("prs.failed_mini_batches", result.mini_batches.failed);
        let failure = (result.state != JobState::Completed)
            .then(|| Failure { class: String::new(), message: result.reason.clone().unwrap_or_default() });
        let link = record.traceparent.as_deref().and_then(TraceParent::parse);
        Span { id: root.span, link, failure, ..span }
    });
}
