//! What is missing of a job, and why, in words: the same in `job_result.txt` and on the terminal.

use std::fmt::Write;

use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::ledger::{JobState, NodeInfo, NodeView};
use prs_common::segment::TryStatus;

use super::count;
use super::errors::ErrorGroup;
use super::findings::{Findings, LastStart, Surplus, TryCounts};
use super::record::JobResult;

/// How many mini-batches of a resumed job need not run again.
pub fn done_already(mini_batches: u64) -> String {
    let are = if mini_batches == 1 { "is" } else { "are" };
    format!("{} {are} done already", count(mini_batches, "mini-batch"))
}

/// How much of the result of a completed job is missing; nothing where it is whole.
pub fn missing(result: &JobResult) -> Option<String> {
    let (items, failed) = (&result.items, result.mini_batches.failed);
    if result.state != JobState::Completed || (items.failed == 0 && failed == 0) {
        return None;
    }
    Some(match items.failed {
        // Of what cannot be read nobody knows how many items there are.
        0 => format!(
            "{} of {} mini-batches are missing from the result",
            failed, result.mini_batches.scheduled
        ),
        1 => format!("1 of {} items is missing from the result", items.total),
        missing => format!("{missing} of {} items are missing from the result", items.total),
    })
}

/// In which mini-batches items are missing, and where these are listed; nothing where none is.
pub fn listed(result: &JobResult) -> Option<String> {
    let Findings { mini_batches_missing, mini_batches_unlisted, .. } = result.findings;
    if mini_batches_missing == 0 {
        return None;
    }
    let scheduled = count(result.mini_batches.scheduled, "mini-batch");
    let mut text = format!("items of {mini_batches_missing} of {scheduled}: {}", list_of_failures(result));
    if mini_batches_unlisted > 0 {
        let _ = write!(text, " (without {mini_batches_unlisted} of them)");
    }
    Some(text)
}

/// Where the list of failed mini-batches is.
fn list_of_failures(result: &JobResult) -> String {
    format!("{}/{FAILED_MINI_BATCHES}", result.output.folder())
}

/// What became of tries that failed; nothing where none did.
pub fn tries(counts: TryCounts) -> Option<String> {
    let TryCounts { failed, made_good } = counts;
    (failed > 0).then(|| match made_good {
        0 => format!("{failed} failed"),
        made_good if made_good == failed => format!("{failed} failed; later tries made all of them good"),
        made_good => format!("{failed} failed; later tries made {made_good} of them good"),
    })
}

/// Tells how many processes of a node see no GPU; nothing where it has none, or one for each.
pub(crate) fn gpu_shortage(info: &NodeInfo) -> Option<String> {
    let without = info.slots.checked_sub(info.gpus).filter(|without| info.gpus > 0 && *without > 0)?;
    let host = if info.host.is_empty() { &info.ip } else { &info.host };
    let (processes, gpus) = (count(info.slots.into(), "process"), count(info.gpus.into(), "GPU"));
    Some(format!("{processes} on {host} had {gpus}: {without} of them saw none"))
}

/// How a node was lost that had mini-batches in hand.
pub(crate) fn lost_node(node: &NodeView) -> String {
    let (info, in_hand) = (&node.info, count(node.report.in_hand, "mini-batch"));
    let host = if info.host.is_empty() { &info.ip } else { &info.host };
    format!(
        "worker {} on {host} was not heard of any more, with {in_hand} in hand: other nodes run what had no outcome",
        info.worker
    )
}

/// Tells how many processes were replaced, because mini-batches failed in them; `None` if none was.
pub fn replaced(processes: u64) -> Option<String> {
    (processes > 0).then(|| format!("{}, because mini-batches failed in them", count(processes, "process")))
}

/// Where the output of a job is from that never ran.
pub fn reused(result: &JobResult) -> Option<String> {
    let former = result.reused.as_ref()?;
    Some(format!("the output of job {former}, which had the same code, settings and inputs"))
}

/// How the last start of a job ended, where the result is that of a start before it.
pub fn last_start(result: &JobResult) -> Option<String> {
    let LastStart { start, result_of, state, reason } = result.findings.last_start.as_deref()?;
    Some(format!("start {start} {}: {reason}; what start {result_of} completed stands", state.as_str()))
}

/// That the script returned too much.
pub fn surplus(surplus: &Surplus) -> String {
    format!(
        "run() returned {} for {}, in {}; all of them are in the result",
        count(surplus.elements, "element"),
        count(surplus.items, "item"),
        count(surplus.mini_batches, "mini-batch")
    )
}

/// What an error cost.
pub fn cost(group: &ErrorGroup) -> String {
    let tries = if group.is_failure() {
        format!("{} failed", count(group.tries, "try"))
    } else {
        count(group.tries, "try")
    };
    let is_of_nodes = group.status == TryStatus::NodeLost.as_str() && group.example.mini_batch_id.is_empty();
    match (group.items_lost, group.mini_batches_lost) {
        (0, 0) if group.status.starts_with("INIT") => {
            format!("{} did not start", count(group.tries, "process"))
        }
        // Of a node, and of no mini-batch.
        (0, 0) if is_of_nodes => {
            let were = if group.tries == 1 { "was" } else { "were" };
            format!("{} {were} lost", count(group.tries, "node"))
        }
        (0, 0) => format!("{tries}, nothing lost"),
        (0, lost) => format!("{tries}, {} lost", count(lost, "mini-batch")),
        (items, lost) if group.is_failure() => {
            format!("{tries}, {} lost ({})", count(lost, "mini-batch"), count(items, "item"))
        }
        (items, lost) => format!("{} missing in {}", count(items, "item"), count(lost, "mini-batch")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::record::{ItemCounts, MiniBatchCounts, Output};

    #[test]
    fn processes_without_a_gpu_are_told_where_there_are_some() {
        let of =
            |slots, gpus| gpu_shortage(&NodeInfo { slots, gpus, host: "h".into(), ..NodeInfo::default() });
        assert_eq!(of(4, 2).as_deref(), Some("4 processes on h had 2 GPUs: 2 of them saw none"));
        assert_eq!((of(4, 0), of(2, 2), of(1, 4)), (None, None, None));
    }

    fn result(state: JobState, failed: u64, items: (u64, u64)) -> JobResult {
        JobResult {
            job_id: String::new(),
            name: String::new(),
            submitted_us: 0,
            ended_us: None,
            kept_until_us: None,
            state,
            reason: None,
            reused: None,
            output: Output { uri: "/o/rows.txt".into(), sha256: Some(String::new()), ..Output::default() },
            logs: String::new(),
            mini_batches: MiniBatchCounts { scheduled: 80, succeeded: 80 - failed, failed },
            items: ItemCounts { total: items.0, succeeded: items.0 - items.1, failed: items.1 },
            seconds: 1.0,
            waited_seconds: 0.0,
            starts: Vec::new(),
            findings: Findings { mini_batches_missing: failed, ..Findings::default() },
            steps: Vec::new(),
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let table = [
            (JobState::Completed, 0, (400, 0), None),
            (JobState::Failed, 3, (400, 20), None),
            (JobState::Completed, 4, (400, 20), Some("20 of 400 items are missing from the result")),
            (JobState::Completed, 1, (400, 1), Some("1 of 400 items is missing from the result")),
            (JobState::Completed, 2, (0, 0), Some("2 of 80 mini-batches are missing from the result")),
        ];
        for (state, failed, items, expected) in table {
            assert_eq!(missing(&result(state, failed, items)).as_deref(), expected);
        }
        let mut result = result(JobState::Completed, 4, (400, 20));
        assert_eq!(listed(&result).unwrap(), "items of 4 of 80 mini-batches: /o/failed_mini_batches.jsonl");
        (result.output.sha256, result.output.uri) = (None, "/o/".into());
        result.findings.mini_batches_unlisted = 1;
        let expected = "items of 4 of 80 mini-batches: /o/failed_mini_batches.jsonl (without 1 of them)";
        assert_eq!(listed(&result).unwrap(), expected);
    }

    #[test]
    fn tries_and_their_cost_are_told() {
        let said = |failed, made_good| tries(TryCounts { failed, made_good });
        assert_eq!(said(0, 0), None);
        assert_eq!(said(3, 0).unwrap(), "3 failed");
        assert_eq!(said(3, 2).unwrap(), "3 failed; later tries made 2 of them good");
        assert_eq!(said(3, 3).unwrap(), "3 failed; later tries made all of them good");
        for (status, tries, lost, items, expected) in [
            ("RUN_EXCEPTION", 1, 0, 0, "1 try failed, nothing lost"),
            ("RUN_EXCEPTION", 6, 2, 9, "6 tries failed, 2 mini-batches lost (9 items)"),
            ("LOAD_EXCEPTION", 3, 1, 0, "3 tries failed, 1 mini-batch lost"),
            ("RUN_DONE", 2, 2, 3, "3 items missing in 2 mini-batches"),
            ("INIT_EXCEPTION", 1, 0, 0, "1 process did not start"),
        ] {
            let group = ErrorGroup {
                status: status.to_owned(),
                tries,
                mini_batches_lost: lost,
                items_lost: items,
                ..ErrorGroup::default()
            };
            assert_eq!(cost(&group), expected);
        }
        let more = Surplus { mini_batches: 1, items: 30, elements: 60 };
        assert_eq!(
            surplus(&more),
            "run() returned 60 elements for 30 items, in 1 mini-batch; all of them are in the result"
        );
    }
}
