//! A page about a job, which stands for itself.

use std::collections::HashMap;

use prs_common::job::pipeline::{Pipeline, Step, step_id};
use prs_orchestrator::job::record::StepResult;
use prs_orchestrator::report::page::{self, Place};
use prs_orchestrator::report::read_statistics;

use crate::errors::complete;
use crate::failure::Failure;
use crate::homes::{self, JobHome, Whereabouts};

/// A page about a job.
#[derive(Debug)]
pub struct Page {
    /// Id of the job.
    pub job_id: String,
    /// The page, HTML.
    pub html: String,
    /// Whether it has pictures: the job has statistics.
    pub has_statistics: bool,
}

/// The page about a job as it is now. Where it `is_among_logs` of the run, its links say so.
pub async fn page(
    home: &dyn JobHome,
    whereabouts: &Whereabouts,
    is_among_logs: bool,
) -> Result<Page, Failure> {
    let mut seen = home.look().await?;
    let errors = complete(home, &seen).await?;
    let called = home.called();
    if let Some(plan) = seen.record.pipeline.as_deref().filter(|_| seen.result.steps.is_empty()) {
        seen.result.steps = steps_so_far(&seen.result.job_id, &plan.pipeline, &called, whereabouts).await?;
    }
    let ledger = home.ledger(&seen.record).await?;
    let found = read_statistics(&**home.storage(), ledger.as_deref()).await;
    let found = found.map_err(home.cannot("read the statistics of the job"))?;
    let statistics = page::published(|name| found.get(name).cloned());
    let has_statistics = !statistics.is_empty();
    let steps = is_among_logs.then_some(("../steps/", "/logs/report.html"));
    let place = Place { called: &called, is_among_logs, steps };
    let html = page::html(&seen.record, &seen.result, &errors, statistics, place);
    Ok(Page { job_id: seen.result.job_id, html, has_statistics })
}

/// How the steps of a pipeline that has not ended stand.
async fn steps_so_far(
    pipeline_id: &str,
    plan: &Pipeline,
    called: &str,
    whereabouts: &Whereabouts,
) -> Result<Vec<StepResult>, Failure> {
    let mut seen = HashMap::new();
    for home in homes::steps_of(called, whereabouts).await? {
        let step = home.look().await?;
        // What waits for others has a record, and no start.
        if step.record.parent.as_ref().is_none_or(|parent| parent.start > 0) {
            seen.insert(step.result.job_id.clone(), step.result);
        }
    }
    let step = |step: &Step| {
        let job_id = step_id(pipeline_id, &step.name);
        StepResult { name: step.name.clone(), result: seen.remove(&job_id).map(Box::new), job_id }
    };
    Ok(plan.steps.iter().map(step).collect())
}
