//! When failures end a job (spec S7): the thresholds of the job against its counts.

use prs_common::end_reason::EndReason;
use prs_common::job::JobSpec;
use prs_common::ledger::JobProgress;

use crate::job::count;

/// The reason to abort, where a threshold is exceeded.
pub(crate) fn exceeded(spec: &JobSpec, progress: &JobProgress) -> Option<EndReason> {
    let items = progress.items_failed();
    if spec.error_threshold >= 0 && items > spec.error_threshold as u64 {
        let items = count(items, "item");
        return Some(EndReason::TooManyItems { items, allowed: spec.error_threshold });
    }
    let failed = progress.failed;
    if spec.allowed_failed_count >= 0 && failed > spec.allowed_failed_count as u64 {
        let mini_batches = count(failed, "mini-batch");
        return Some(EndReason::TooManyMiniBatches { mini_batches, allowed: spec.allowed_failed_count });
    }
    // Judged once all are scheduled: before, the share of what failed early means nothing.
    let scheduled = progress.checkpoint.scheduled;
    if progress.checkpoint.complete && scheduled > 0 {
        let percent = failed as f64 * 100.0 / scheduled as f64;
        if percent > spec.allowed_failed_percent {
            let allowed = spec.allowed_failed_percent;
            return Some(EndReason::TooManyPercent { failed, scheduled, percent, allowed });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prs_common::ledger::Checkpoint;

    use super::*;

    fn progress(failed: u64, items_failed: u64, scheduled: u64, complete: bool) -> JobProgress {
        JobProgress {
            checkpoint: Checkpoint { scheduled, complete, ..Checkpoint::default() },
            failed,
            items: items_failed + 5,
            items_succeeded: 5,
            ..JobProgress::default()
        }
    }

    #[test]
    fn only_what_is_exceeded_aborts() {
        let table = [
            // error_threshold, allowed_failed_count, allowed_failed_percent, failed, items, complete, aborts
            ((-1, -1, 100.0), (10, 100, true), None),
            ((0, -1, 100.0), (0, 0, true), None),
            ((0, -1, 100.0), (0, 1, false), Some("error_threshold 0")),
            ((5, -1, 100.0), (1, 5, false), None),
            ((5, -1, 100.0), (1, 6, false), Some("error_threshold 5")),
            ((-1, 0, 100.0), (1, 1, false), Some("allowed_failed_count 0")),
            ((-1, 1, 100.0), (1, 1, false), None),
            ((-1, -1, 10.0), (1, 1, true), None),
            ((-1, -1, 9.9), (1, 1, false), None),
            ((-1, -1, 9.9), (1, 1, true), Some("allowed_failed_percent 9.9")),
            ((-1, -1, 0.0), (0, 0, true), None),
            ((-1, -1, 100.0), (9, 9, true), None),
            ((3, -1, 100.0), (3, 3, true), None),
            ((-1, 3, 100.0), (3, 3, true), None),
            ((-1, -1, 30.0), (3, 3, true), None),
            ((2, -1, 100.0), (3, 3, true), Some("error_threshold 2")),
            ((0, -1, 100.0), (3, 3, true), Some("error_threshold 0")),
            ((-1, 2, 100.0), (3, 3, true), Some("allowed_failed_count 2")),
            ((-1, 0, 100.0), (3, 3, true), Some("allowed_failed_count 0")),
            ((-1, -1, 29.9), (3, 3, true), Some("allowed_failed_percent 29.9")),
        ];
        for ((items, count, percent), (failed, items_failed, complete), expected) in table {
            let mut spec = JobSpec::new("job", "/", "x.py", vec![]);
            (spec.error_threshold, spec.allowed_failed_count, spec.allowed_failed_percent) =
                (items, count, percent);
            let reason = exceeded(&spec, &progress(failed, items_failed, 10, complete));
            let reason = reason.map(|reason| reason.to_string());
            match expected {
                None => assert_eq!(reason, None),
                Some(part) => {
                    let said = |reason: &str| reason.contains(part) && reason.contains("more than");
                    assert!(reason.as_deref().is_some_and(said), "{part}: {reason:?}");
                }
            }
        }
    }
}
