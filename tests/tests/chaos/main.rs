//! Faults while a job runs: workers, servers and ways between them die, come back, lie. Real processes, a seed for
//! whatever is random, each fault asserted to have happened, and after each job the same oracle (`oracle.rs`).
//!
//! Plain `cargo test` runs a selection on four fleets. `make chaos` runs everything, `PRS_CHAOS_ROUNDS` rounds of each
//! scenario (3); `PRS_CHAOS_SEED` is the seed of the first round (1), the following ones count up.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod chaos_run;
mod cluster;
mod damage;
mod environments;
mod failpoints;
mod lanes;
mod long_run;
mod messages;
mod nobody_left;
mod oracle;
mod panics;
mod partition;
mod pipelines;
mod poison;
mod refusals;
mod rounds;
mod servers;
mod side_inputs;
mod speculation;
mod storage;
mod workers;

use lanes::Script;
use partition::{Unreached, Way};
use rounds::{round, rounds};
use speculation::What;

/// One fault of each kind that takes seconds, on one fleet: workers and orchestrators. Four selections run side by side.
#[test]
fn a_selection_on_one_fleet() {
    let fleet = &mut rounds::fleet(1);
    round("workers_and_processes_are_killed", fleet, workers::are_killed);
    round("workers_are_drained", fleet, workers::are_drained);
    round("between_commit_and_ack", fleet, |fleet, random| {
        failpoints::worker_dies_at(fleet, random, "committed");
    });
    round("the_orchestrator_dies_while_the_result_grows", fleet, |fleet, random| {
        failpoints::orchestrator_dies_at(fleet, random, "result_grows");
    });
    round("the_orchestrator_sleeps_after_the_result", fleet, |fleet, random| {
        failpoints::orchestrator_sleeps_at(fleet, random, "result_written");
    });
    round("the_orchestrator_dies_finalizing", fleet, |fleet, random| {
        failpoints::orchestrator_dies_at(fleet, random, "output_written");
    });
    round("the_orchestrator_panics_once", fleet, |fleet, _| panics::once(fleet, "watches"));
}

/// Faults of what a job uses beside its workers: side inputs, stragglers, processes with many items, steps of a pipeline.
#[test]
fn a_selection_on_a_second_fleet() {
    let fleet = &mut rounds::fleet(1);
    round("who_fetches_a_side_input_dies", fleet, side_inputs::fetchers_die);
    round("a_worker_of_a_straggler_sleeps", fleet, |fleet, random| {
        speculation::a_run_meets(fleet, random, What::WorkerStopped);
    });
    round("a_process_dies_with_fifty_in_hand", fleet, |fleet, random| {
        lanes::a_process_dies(fleet, random, Script::Async);
    });
    round("who_drives_a_pipeline_dies_before_a_step_is_handed_in", fleet, |fleet, random| {
        pipelines::driver_dies_at(fleet, random, "step_recorded");
    });
}

/// Faults of messages and of storage.
#[test]
fn a_selection_on_a_third_fleet() {
    let fleet = &mut rounds::fleet(1);
    round("messages_that_are_none", fleet, messages::that_are_none);
    round("messages_are_forged", fleet, messages::are_forged);
    round("messages_are_damaged", fleet, messages::are_damaged);
    round("the_store_flips_bits", fleet, storage::flips_bits);
    round("a_job_of_another_version", fleet, messages::of_another_version);
}

/// Faults of servers.
#[test]
fn a_selection_on_a_fourth_fleet() {
    let fleet = &mut rounds::fleet(1);
    round("nobody_is_left", fleet, nobody_left::in_mid_job);
    round("the_store_refuses_for_some_seconds", fleet, refusals::the_store_for_some_seconds);
    round("redis_is_wiped", fleet, servers::redis_is_wiped);
    round("the_broker_is_restarted", fleet, servers::broker_is_restarted);
    round("the_queue_is_deleted_by_hand", fleet, servers::queue_is_deleted);
}

/// What touches storage most, over a server that prs did not write.
#[test]
#[ignore = "needs MinIO: make test-minio"]
fn a_selection_over_minio() {
    let _alone = rounds::alone();
    let fleet = &mut rounds::fleet_on_minio();
    round("workers_and_processes_are_killed", fleet, workers::are_killed);
    round("between_put_and_commit", fleet, |fleet, random| {
        failpoints::worker_dies_at(fleet, random, "segment_put");
    });
    round("the_orchestrator_dies_while_the_result_grows", fleet, |fleet, random| {
        failpoints::orchestrator_dies_at(fleet, random, "result_grows");
    });
    round("the_orchestrator_sleeps_after_the_output", fleet, |fleet, random| {
        failpoints::orchestrator_sleeps_at(fleet, random, "output_written");
    });
    round("the_store_is_restarted", fleet, servers::store_is_restarted);
    round("the_store_fails_now_and_then", fleet, storage::fails_now_and_then);
    round("the_store_flips_bits", fleet, storage::flips_bits);
    round("the_store_refuses_for_some_seconds", fleet, refusals::the_store_for_some_seconds);
    round("redis_is_wiped", fleet, servers::redis_is_wiped);
    round("nobody_is_left", fleet, nobody_left::in_mid_job);
}

/// Jobs in a row under `PRS_LONG_RUN_KILLS` kills (1,000) and what else comes with them, one seed.
#[test]
#[ignore = "takes the better part of an hour: make long-run"]
fn the_long_run() {
    rounds::long_run("the_long_run", "PRS_LONG_RUN_KILLS", long_run::kills);
}

macro_rules! scenarios {
    ($($(#[doc = $doc:literal])* $name:ident = $scenario:expr;)*) => {$(
        $(#[doc = $doc])*
        #[test]
        #[ignore = "takes minutes: make chaos"]
        fn $name() {
            rounds(stringify!($name), $scenario);
        }
    )*};
}

/// Three nodes of RabbitMQ are one broker.
#[test]
#[ignore = "takes minutes: make chaos"]
fn a_queue_loses_its_leader() {
    rounds::rounds_on(3, "a_queue_loses_its_leader", cluster::leader_dies);
}

/// The same.
#[test]
#[ignore = "takes minutes: make chaos"]
fn a_queue_loses_its_majority() {
    rounds::rounds_on(3, "a_queue_loses_its_majority", cluster::majority_dies);
}

scenarios! {
    workers_and_processes_are_killed = workers::are_killed;
    workers_are_stopped_and_go_on = workers::are_stopped;
    workers_are_drained = workers::are_drained;
    workers_have_one_name = workers::have_one_name;
    a_worker_dies_after_joining = |fleet, random| failpoints::worker_dies_at(fleet, random, "joined");
    a_worker_dies_between_put_and_commit = |fleet, random| failpoints::worker_dies_at(fleet, random, "segment_put");
    a_worker_dies_between_commit_and_ack = |fleet, random| failpoints::worker_dies_at(fleet, random, "committed");
    a_worker_dies_after_ack = |fleet, random| failpoints::worker_dies_at(fleet, random, "acknowledged");
    the_orchestrator_dies_while_the_result_grows =
        |fleet, random| failpoints::orchestrator_dies_at(fleet, random, "result_grows");
    the_orchestrator_sleeps_while_the_result_grows =
        |fleet, random| failpoints::orchestrator_sleeps_at(fleet, random, "result_grows");
    the_orchestrator_dies_before_finalizing =
        |fleet, random| failpoints::orchestrator_dies_at(fleet, random, "finalizing");
    the_orchestrator_dies_after_the_output =
        |fleet, random| failpoints::orchestrator_dies_at(fleet, random, "output_written");
    the_orchestrator_dies_after_the_result =
        |fleet, random| failpoints::orchestrator_dies_at(fleet, random, "result_written");
    the_orchestrator_dies_while_it_finishes_the_reports =
        |fleet, random| failpoints::orchestrator_dies_at(fleet, random, "reports_finish");
    the_orchestrator_sleeps_before_finalizing =
        |fleet, random| failpoints::orchestrator_sleeps_at(fleet, random, "finalizing");
    the_orchestrator_sleeps_after_the_output =
        |fleet, random| failpoints::orchestrator_sleeps_at(fleet, random, "output_written");
    the_orchestrator_sleeps_after_the_result =
        |fleet, random| failpoints::orchestrator_sleeps_at(fleet, random, "result_written");
    the_orchestrator_sleeps_while_it_finishes_the_reports =
        |fleet, random| failpoints::orchestrator_sleeps_at(fleet, random, "reports_finish");
    the_orchestrator_leaves_while_it_writes_the_result =
        |fleet, random| failpoints::orchestrator_leaves_at(fleet, random, "finalizing");
    the_producer_dies_while_it_schedules = failpoints::producer_dies;
    the_broker_is_restarted = servers::broker_is_restarted;
    the_broker_dies_with_what_it_was_just_told = servers::broker_dies_at_once;
    the_broker_is_wiped = servers::broker_is_wiped;
    redis_is_restarted = servers::redis_is_restarted;
    the_store_is_restarted = servers::store_is_restarted;
    redis_is_wiped = servers::redis_is_wiped;
    both_are_wiped = servers::both_are_wiped;
    the_queue_is_deleted_by_hand = servers::queue_is_deleted;
    the_list_of_segments_is_deleted_by_hand = servers::segments_are_deleted;
    keys_of_a_job_are_damaged_by_hand = servers::keys_are_damaged;
    the_queue_is_not_served = servers::queue_is_not_served;
    the_store_fails_now_and_then = storage::fails_now_and_then;
    the_store_flips_bits = storage::flips_bits;
    a_worker_is_cut_off_for_some_seconds = |fleet, random| {
        let seconds = 10 + random.below(15);
        partition::a_worker_is_cut_off(fleet, random, seconds);
    };
    a_worker_is_cut_off_for_a_minute = |fleet, random| partition::a_worker_is_cut_off(fleet, random, 60);
    one_has_no_broker_before_the_plan =
        |fleet, _| partition::one_has_no_broker_before_the_plan(fleet, Way::Refuses);
    one_has_a_silent_broker_before_the_plan =
        |fleet, _| partition::one_has_no_broker_before_the_plan(fleet, Way::IsSilent);
    one_is_refused_by_the_broker =
        |fleet, _| partition::one_is_cut_off_from(fleet, Unreached::Broker, Way::Refuses);
    one_hears_nothing_of_the_broker =
        |fleet, _| partition::one_is_cut_off_from(fleet, Unreached::Broker, Way::IsSilent);
    one_is_refused_by_the_store =
        |fleet, _| partition::one_is_cut_off_from(fleet, Unreached::Storage, Way::Refuses);
    one_hears_nothing_of_the_store =
        |fleet, _| partition::one_is_cut_off_from(fleet, Unreached::Storage, Way::IsSilent);
    one_is_refused_by_the_broker_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Broker, Way::Refuses);
    one_hears_nothing_of_the_broker_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Broker, Way::IsSilent);
    one_is_refused_by_redis_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Ledger, Way::Refuses);
    one_hears_nothing_of_redis_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Ledger, Way::IsSilent);
    one_is_refused_by_the_store_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Storage, Way::Refuses);
    one_hears_nothing_of_the_store_finalizing =
        |fleet, _| partition::one_is_cut_off_finalizing(fleet, Unreached::Storage, Way::IsSilent);
    clocks_differ = partition::clocks_differ;
    messages_that_are_none = messages::that_are_none;
    messages_are_forged = messages::are_forged;
    messages_are_damaged = messages::are_damaged;
    a_job_of_another_version = messages::of_another_version;
    nobody_is_left = nobody_left::in_mid_job;
    nobody_is_left_to_finalize = nobody_left::while_finalizing;
    nobody_was_there_yet = nobody_left::before_the_first;
    workers_come_and_go_and_the_broker_forgets = nobody_left::churn_and_no_broker;
    workers_come_and_go_and_redis_forgets = nobody_left::churn_and_no_redis;
    workers_come_and_go = nobody_left::churn;
    the_store_refuses_for_some_seconds = refusals::the_store_for_some_seconds;
    redis_wants_a_password_for_some_seconds = refusals::redis_for_some_seconds;
    the_broker_refuses_for_some_seconds = refusals::the_broker_for_some_seconds;
    the_store_refuses_until_the_job_has_failed = refusals::the_store_for_good;
    the_orchestrator_panics_once = |fleet, _| panics::once(fleet, "watches");
    the_orchestrator_panics_once_finalizing = |fleet, _| panics::once(fleet, "finalizing");
    the_orchestrator_always_panics = |fleet, _| panics::always(fleet, "watches");
    the_orchestrator_always_panics_finalizing = |fleet, _| panics::always(fleet, "finalizing");
    a_job_that_panics_is_canceled = panics::canceled;
    a_mini_batch_kills_its_worker = poison::kills_its_worker;
    a_mini_batch_breaks_its_processes = poison::breaks_its_processes;
    nodes_die_while_they_split_mini_batches = poison::nodes_die_while_they_split;
    who_fetches_a_side_input_dies = side_inputs::fetchers_die;
    the_copy_of_a_side_input_is_damaged = side_inputs::copies_are_damaged;
    a_side_input_is_damaged_in_storage = side_inputs::what_was_uploaded_is_damaged;
    who_makes_an_environment_dies = environments::makers_die;
    who_drives_a_pipeline_dies_before_a_step =
        |fleet, random| pipelines::driver_dies_at(fleet, random, "step_starts");
    who_drives_a_pipeline_dies_before_a_step_is_handed_in =
        |fleet, random| pipelines::driver_dies_at(fleet, random, "step_recorded");
    who_drives_a_pipeline_dies_at_its_end =
        |fleet, random| pipelines::driver_dies_at(fleet, random, "pipeline_ends");
    who_drives_a_pipeline_sleeps_before_a_step =
        |fleet, random| pipelines::driver_sleeps_at(fleet, random, "step_starts");
    who_drives_a_pipeline_sleeps_before_a_step_is_handed_in =
        |fleet, random| pipelines::driver_sleeps_at(fleet, random, "step_recorded");
    who_drives_a_pipeline_sleeps_at_its_end =
        |fleet, random| pipelines::driver_sleeps_at(fleet, random, "pipeline_ends");
    clocks_differ_over_a_pipeline = pipelines::drivers_clocks_differ;
    workers_are_stopped_in_a_pipeline = pipelines::workers_are_stopped;
    everybody_dies_in_each_step_of_a_pipeline = pipelines::everybody_dies;
    workers_come_and_go_in_a_pipeline = pipelines::workers_come_and_go;
    a_pipeline_is_canceled_and_resumed_in_each_step = pipelines::canceled_and_resumed;
    redis_is_away_between_steps = pipelines::redis_is_away_between_steps;
    who_waits_for_a_pipeline_dies = pipelines::submit_dies;
    the_store_flips_bits_of_a_pipeline = pipelines::the_store_flips_bits;
    a_process_of_a_straggler_dies =
        |fleet, random| speculation::a_run_meets(fleet, random, What::ProcessKilled);
    a_worker_of_a_straggler_dies =
        |fleet, random| speculation::a_run_meets(fleet, random, What::WorkerKilled);
    a_worker_of_a_straggler_sleeps =
        |fleet, random| speculation::a_run_meets(fleet, random, What::WorkerStopped);
    both_workers_of_a_straggler_die = speculation::both_nodes_die;
    redis_forgets_a_copy = speculation::redis_is_wiped;
    a_process_dies_with_fifty_in_hand = |fleet, random| lanes::a_process_dies(fleet, random, Script::Async);
    a_process_that_streams_dies_with_fifty_in_hand =
        |fleet, random| lanes::a_process_dies(fleet, random, Script::Streaming);
    workers_go_with_a_hundred_in_hand = |fleet, random| lanes::workers_go(fleet, random, Script::Async);
    workers_go_with_a_hundred_in_hand_that_stream =
        |fleet, random| lanes::workers_go(fleet, random, Script::Streaming);
}
