//! What a job that has not ended does at the moment, in one word.

use prs_common::ledger::JobState;
use prs_common::statistics::Live;

use crate::homes::Seen;

/// The phase of a job as it was seen: `waiting_for_nodes`, `planning`, `init`, `processing`, `retrying`, `assembling` or `tidying`; nothing
/// once it has ended. Its orchestrator says it best, where `live` has what that said last.
pub fn phase(seen: &Seen, live: Option<&Live>) -> Option<String> {
    let said = live.map(|live| live.phase.as_str()).unwrap_or_default();
    let shown = seen.shown();
    of(seen.result.state, shown.is_served(), shown.status.starting > 0 && !shown.status.is_ready, {
        shown.status.progress.ended() > 0
    })
    .map(|phase| if said.is_empty() || !shown.is_served() { phase.to_owned() } else { said.to_owned() })
}

/// The phase as the state and the counts tell it.
fn of(state: JobState, is_served: bool, is_starting: bool, has_outcomes: bool) -> Option<&'static str> {
    Some(match state {
        _ if state.is_final() => return None,
        JobState::Finalizing => "assembling",
        _ if !is_served => "waiting_for_nodes",
        _ if is_starting => "init",
        JobState::Queued | JobState::Scheduling if !has_outcomes => "planning",
        _ => "processing",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_what_state_and_counts_say() {
        use JobState::{Canceled, Completed, Finalizing, Queued, Running, Scheduling};
        for (state, is_served, is_starting, has_outcomes, expected) in [
            (Queued, false, false, false, Some("waiting_for_nodes")),
            (Queued, true, false, false, Some("planning")),
            (Scheduling, true, true, false, Some("init")),
            (Scheduling, true, false, false, Some("planning")),
            (Scheduling, true, false, true, Some("processing")),
            (Running, true, false, false, Some("processing")),
            (Running, false, false, true, Some("waiting_for_nodes")),
            (Finalizing, false, false, true, Some("assembling")),
            (Completed, true, false, true, None),
            (Canceled, false, true, false, None),
        ] {
            assert_eq!(of(state, is_served, is_starting, has_outcomes), expected, "{state:?}");
        }
    }
}
