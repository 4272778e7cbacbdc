//! A page about a job, which stands for itself.

use std::collections::HashMap;
use std::time::SystemTime;

use prs_common::job::pipeline::{Pipeline, Step, step_id};
use prs_common::statistics::NAMES;
use prs_common::tree::{self, Held};
use prs_common::{layout, statistics};
use prs_orchestrator::job::record::StepResult;
use prs_orchestrator::report::error_list::ErrorList;
use prs_orchestrator::report::page::{self, PageLocation};
use prs_portal::view::{Facts, report};

use crate::attention::fleet;
use crate::failure::Failure;
use crate::homes::{self, JobHome, Seen, Whereabouts};
use crate::looks::{Looked, Looks, brief};

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
    let steps = is_among_logs.then_some(("../steps/", "/logs/report.html"));
    let (_, facts) = facts(home, whereabouts, &NAMES, is_among_logs, steps).await?;
    let has_statistics = !facts.statistics.is_empty();
    Ok(Page { html: report(&facts), has_statistics, job_id: facts.job_id })
}

/// What is known of a job now, for a page that shows these parts of its statistics, [`Live`](statistics::Live) among them, and `is_among_logs`
/// of the run or is not. The reports of steps are between both of `steps`, seen from it.
pub async fn facts(
    home: &dyn JobHome,
    whereabouts: &Whereabouts,
    names: &'static [&'static str],
    is_among_logs: bool,
    steps: Option<(&str, &str)>,
) -> Result<(Seen, Facts), Failure> {
    facts_again(&mut Looks::new(names), home, whereabouts, is_among_logs, steps).await
}

/// The same from these parts of its statistics alone, without its steps and its list of errors.
pub async fn facts_of_parts(home: &dyn JobHome, names: &[&'static str]) -> Result<(Seen, Facts), Failure> {
    let (seen, statistics) = brief(home, home.record().await?, names).await?;
    let errors = ErrorList { errors: seen.result.findings.errors.clone(), ..ErrorList::default() };
    let place = PageLocation { called: &home.called(), is_among_logs: false, steps: None };
    let mut facts = page::facts(&seen.record, &seen.result, &errors, statistics, place);
    facts.fleet = fleet(&seen);
    Ok((seen, facts))
}

/// The same of a job that is looked at again and again.
pub async fn facts_again(
    looks: &mut Looks,
    home: &dyn JobHome,
    whereabouts: &Whereabouts,
    is_among_logs: bool,
    steps: Option<(&str, &str)>,
) -> Result<(Seen, Facts), Failure> {
    let Looked { mut seen, errors, statistics } = looks.look(home).await?;
    let called = home.called();
    if let Some(plan) = seen.record.pipeline.as_deref().filter(|_| seen.result.steps.is_empty()) {
        seen.result.steps = steps_so_far(&seen.result.job_id, &plan.pipeline, &called, whereabouts).await?;
    }
    let place = PageLocation { called: &called, is_among_logs, steps };
    let mut facts = page::facts(&seen.record, &seen.result, &errors, statistics, place);
    facts.fleet = fleet(&seen);
    Ok((seen, facts))
}

/// Says that the job is watched: one of this machine then tells its statistics more often. Who looks at one of
/// a fleet says so by reading.
pub fn tell_watched(home: &dyn JobHome) {
    let Some(folder) = home.run_folder() else { return };
    let path = folder.join(layout::LOGS).join(statistics::FOLDER).join(statistics::WATCHED);
    let say = || {
        let _held = Held::open(folder)?;
        tree::append(path)?.set_modified(SystemTime::now())
    };
    // Where it cannot be said, what is seen is some seconds older.
    let _ = say();
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
