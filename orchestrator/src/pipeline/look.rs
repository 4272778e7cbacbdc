//! How the steps of a pipeline stand, by their records.

use std::sync::Arc;

use prs_common::job::pipeline::{StepState, step_id};
use prs_common::ledger::JobState;
use prs_common::storage::Storage;

use crate::job::record::{JobRecord, JobRecordError, PipelinePlan};

/// A step at one moment.
#[derive(Debug, Clone)]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// Id of its job.
    pub id: String,
    /// The record of its job; nothing where there is none.
    pub record: Option<JobRecord>,
    /// How it stands in this start of the pipeline.
    pub state: StepState,
}

impl StepView {
    /// Starts the job of `former` again, a record of this step of `plan`. What the main step completed stands until another start
    /// of it has a result, as of a job that stands alone. Any other step that completed is started because that is damaged.
    pub fn start_again(&self, former: &mut JobRecord, plan: &PipelinePlan) {
        if plan.pipeline.main.as_ref() == Some(&self.name) && self.state == StepState::Waiting {
            former.start_again();
        } else {
            former.start_anew();
        }
        let corrected = plan.corrected.get(&self.name).filter(|plan| plan.start == former.incarnation);
        former.corrected = corrected.copied().or(former.corrected);
    }
}

/// Looks at the steps of the pipeline that `record` is about. `storage` gives the prefix of a job.
pub async fn look(
    record: &JobRecord,
    storage: &(dyn Fn(&str) -> Arc<dyn Storage> + Sync),
) -> Result<Vec<StepView>, JobRecordError> {
    let mut views = Vec::new();
    let main = record.pipeline.as_ref().and_then(|plan| plan.pipeline.main.as_deref());
    for step in record.pipeline.iter().flat_map(|plan| &plan.pipeline.steps) {
        let id = step_id(&record.job_id, &step.name);
        let found = match JobRecord::read(&*storage(&id)).await {
            Ok(found) => Some(found),
            Err(JobRecordError::Absent { removed: false, .. }) => None,
            Err(error) => return Err(error),
        };
        let state = state(found.as_ref(), record.incarnation, main == Some(&*step.name));
        views.push(StepView { name: step.name.clone(), id, record: found, state });
    }
    Ok(views)
}

/// How a step stands with this record of its job, in the start `start` of its pipeline. What an earlier start brought to
/// its end counts when it completed; all else is to be done again. Of the `main` step, as of a job that stands alone, what
/// lacks items is, too.
fn state(record: Option<&JobRecord>, start: u32, is_main: bool) -> StepState {
    let Some(record) = record else { return StepState::Waiting };
    let is_of_start = record.parent.as_ref().is_some_and(|parent| parent.start == start);
    match record.result.as_ref().map(|result| result.last_end().0) {
        Some(JobState::Completed) if is_of_start || !is_main || record.is_done_with() => StepState::Completed,
        _ if !is_of_start => StepState::Waiting,
        None => StepState::Running,
        Some(JobState::Canceled) => StepState::Canceled,
        Some(_) => StepState::Failed,
    }
}

/// The states of steps, in the order of the pipeline.
pub fn states(views: &[StepView]) -> Vec<StepState> {
    views.iter().map(|view| view.state).collect()
}

#[cfg(test)]
mod tests {
    use prs_common::job::pipeline::Parent;

    use super::*;
    use crate::job::record::tests::{end, record};

    #[test]
    fn a_step_stands_as_its_record_says() {
        use JobState::{Canceled, Completed, Failed};
        let of = |start: u32, ended: Option<JobState>| {
            let mut record = record();
            record.parent = Some(Parent { job_id: "p".to_owned(), step: "s".to_owned(), start });
            if let Some(state) = ended {
                end(&mut record);
                record.result.as_mut().unwrap().state = state;
            }
            Some(record)
        };
        let table = vec![
            (None, StepState::Waiting),
            (of(2, None), StepState::Running),
            (of(2, Some(Completed)), StepState::Completed),
            (of(2, Some(Failed)), StepState::Failed),
            (of(2, Some(Canceled)), StepState::Canceled),
            // Of the start before.
            (of(1, Some(Completed)), StepState::Completed),
            (of(1, Some(Failed)), StepState::Waiting),
            (of(1, Some(Canceled)), StepState::Waiting),
            (of(1, None), StepState::Waiting),
        ];
        for (record, expected) in table {
            assert_eq!(state(record.as_ref(), 2, false), expected, "{record:?}");
        }
        // What the user sees as the job goes on where items are missing.
        let mut lacking = of(1, Some(Completed));
        lacking.as_mut().unwrap().result.as_mut().unwrap().items.failed = 1;
        assert_eq!(state(lacking.as_ref(), 2, true), StepState::Waiting);
        assert_eq!(state(lacking.as_ref(), 1, true), StepState::Completed);
        assert_eq!(state(of(1, Some(Completed)).as_ref(), 2, true), StepState::Completed);
        // A start that failed left what one before it completed.
        let mut record = lacking.unwrap();
        record.start_again();
        let mut failed = record.former_end.as_ref().unwrap().result.clone();
        failed.state = Failed;
        record.end_with(failed);
        assert_eq!(record.state, Completed);
        for (start, expected) in [(1, StepState::Failed), (2, StepState::Waiting)] {
            assert_eq!(state(Some(&record), start, true), expected);
        }
    }
}
