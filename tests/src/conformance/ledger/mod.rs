//! What every ledger must do (the contracts are on [`Ledger`] and [`JobLedger`]).

mod commits;
mod copies;
mod index;
mod leases;
mod lifecycle;
mod membership;
mod nodes;
mod statistics;
mod tries;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use prs_common::ledger::{
    Blame, Duty, FailedTry, JobLedger, Ledger, LedgerError, MiniBatchOutcome, NodeInfo, TryLimits,
};

use super::unique;

/// Hands the list of cases to `$crate::$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __ledger_cases {
    ($expand:ident, $($context:tt)+) => {
        $crate::$expand! { $($context)+;
            lifecycle {
                new_job_is_empty
                job_of_the_same_id_is_refused
                unknown_job_is_not_found
                jobs_are_apart
                removed_job_is_forgotten
                job_is_reset_by_the_holder_of_its_watch_alone
                states_follow_each_other
                ended_job_never_changes
                one_of_many_final_states_wins
                checkpoint_only_grows
                names_may_hold_anything
                conclusion_reaches_every_node
                first_conclusion_is_remembered
                first_conclusion_has_its_date
                obstacle_lasts_from_its_first_note
                conclusion_of_a_completed_job_stops_nobody
                state_tells_the_nodes_what_to_do
            }
            commits {
                commit_is_seen_at_once
                commit_twice_counts_once
                first_commit_wins
                failed_outcome_wins_too
                outcome_that_the_plan_does_not_have_never_counts
                mini_batch_twice_in_a_commit_counts_once
                counts_are_exact
                racing_segments_share_every_mini_batch
                the_same_commit_racing_counts_once
                ended_answers_for_any_range
                ended_answers_in_the_order_asked
                segments_come_in_order_of_commit
                large_commit_goes_through
            }
            tries {
                failures_count_by_their_names
                limits_of_code_and_node_are_apart
                failure_after_the_outcome_changes_nothing
                racing_failures_give_up_once_the_limit_is_reached
                begin_blames_the_start_before
                begin_twice_blames_nobody
                begin_after_a_recorded_failure_blames_nobody
                begin_gives_up_at_the_limit
                begin_knows_the_outcome
                abandoned_start_blames_nobody
                last_try_that_is_passed_on_is_noted
            }
            copies {
                copy_is_wanted_once
                copy_is_offered_by_one_and_taken_by_one
                racing_workers_take_a_copy_once
                copy_of_what_has_its_outcome_is_none
            }
            statistics {
                statistics_are_read_as_they_were_published
                statistics_are_published_by_the_holder_of_the_watch_alone
                reader_of_statistics_is_told
                one_look_tells_what_the_verbs_tell_one_by_one
            }
            nodes {
                nodes_get_dense_ids
                worker_that_joins_again_keeps_its_id
                wished_id_is_given_where_it_is_free
                unknown_node_is_told_to_join_again
                racing_joins_get_different_ids
                heartbeat_is_seen_by_everyone
                node_that_leaves_stays_known
            }
            membership {
                offer_is_seen_until_it_is_withdrawn
                offers_show_who_serves_what
                offer_tells_when_its_job_moved_last
                changed_offer_replaces_the_former
                targets_are_apart
                idle_workers_are_counted
                one_at_a_time_fills_the_offers
                bell_rings_for_what_is_new
                seats_are_limited
                racing_workers_take_no_more_seats_than_there_are
                quiet_node_loses_its_seat
                worker_that_is_to_leave_is_told_so
                worker_that_ends_is_forgotten
                history_of_a_target_is_noted_once_a_step
                who_asks_for_targets_is_remembered
            }
            index {
                noted_jobs_are_asked_for_by_what_changed
                summary_that_is_out_of_date_changes_nothing
                job_that_was_found_replaces_nothing
                one_at_a_time_keeps_the_index
                jobs_of_the_index_are_counted
                end_of_a_start_is_counted_once
                end_of_an_unknown_job_counts_where_it_is_new
            }
            leases {
                lease_has_one_holder
                lease_of_any_length_is_given
                lease_changes_hands_after_it_ran_out
                racing_lease_has_one_winner
                released_lease_is_free_at_once
                superseded_holder_changes_nothing
                who_comes_again_keeps_the_number
                duties_have_leases_of_their_own
            }
        }
    };
}

/// One test for each case: `ledger_conformance!((ledger, kept))`.
#[macro_export]
macro_rules! ledger_conformance {
    ($factory:expr) => {
        $crate::__ledger_cases!(__expand_cases, tests ledger, $factory);
    };
}

__ledger_cases!(__expand_cases, run dyn Ledger);

const LIMITS: TryLimits = TryLimits { run_max_try: 3, max_node_losses: 10 };

async fn fresh(ledger: &dyn Ledger, case: &str) -> Arc<dyn JobLedger> {
    limited(ledger, case, LIMITS).await
}

/// The number of a lease to watch over `job`, which "me" has for no time.
async fn watching(job: &dyn JobLedger) -> u64 {
    job.lease(Duty::Watch, "me", Duration::ZERO).await.unwrap().expect("nobody else has it")
}

/// The same of a lease to publish its plan.
async fn publishing(job: &dyn JobLedger) -> u64 {
    job.lease(Duty::Schedule, "me", Duration::ZERO).await.unwrap().expect("nobody else has it")
}

async fn limited(ledger: &dyn Ledger, case: &str, limits: TryLimits) -> Arc<dyn JobLedger> {
    let job = ledger.job(&unique(case));
    job.create(limits).await.unwrap();
    job
}

fn succeeded(index: u64) -> MiniBatchOutcome {
    MiniBatchOutcome { index, succeeded: true, items: 10, items_succeeded: 9 }
}

fn failed(index: u64) -> MiniBatchOutcome {
    MiniBatchOutcome { index, succeeded: false, items: 10, items_succeeded: 0 }
}

fn failed_by_code(index: u64, id: &str) -> FailedTry {
    FailedTry { index, id: id.to_owned(), blame: Blame::Code }
}

fn worker(name: &str) -> NodeInfo {
    NodeInfo {
        worker: name.to_owned(),
        ip: "192.0.2.7".to_owned(),
        slots: 4,
        host: "the host".to_owned(),
        version: "1.2.3".to_owned(),
        instance: format!("instance of {name}"),
        ..NodeInfo::default()
    }
}

async fn ended(job: &dyn JobLedger, range: Range<u64>) -> Result<Vec<bool>, LedgerError> {
    job.ended(&range.collect::<Vec<_>>()).await
}
