//! Rounds of a scenario: which seeds, one at a time, and a failure that names its seed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prs_tests::harness::{Fleet, FleetSettings, Random};

/// A scenario.
pub(crate) type Scenario = fn(&mut Fleet, &mut Random);

/// Lets one scenario of `make chaos` run at a time: each measures how long its job takes.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fleet whose broker has so many nodes; with `PRS_CHAOS_DISTANCE=1` its servers are far away.
pub(crate) fn fleet(broker_nodes: usize) -> Fleet {
    Fleet::start_with(FleetSettings {
        broker_nodes,
        distant: number("PRS_CHAOS_DISTANCE", 0) > 0,
        ..FleetSettings::default()
    })
}

/// A fleet whose storage is MinIO.
pub(crate) fn fleet_on_minio() -> Fleet {
    Fleet::start_with(FleetSettings { on_minio: true, ..FleetSettings::default() })
}

/// Runs every round of a scenario on a fleet of its own.
pub(crate) fn rounds(name: &str, scenario: Scenario) {
    rounds_on(1, name, scenario);
}

/// The same on a fleet whose broker has so many nodes.
pub(crate) fn rounds_on(broker_nodes: usize, name: &str, scenario: Scenario) {
    let _alone = alone();
    let mut fleet = fleet(broker_nodes);
    let first = number("PRS_CHAOS_SEED", 1);
    for seed in first..first + number("PRS_CHAOS_ROUNDS", 3) {
        seeded(name, seed, &mut fleet, scenario);
    }
}

/// Runs the first round of a scenario on a fleet that others use, too.
pub(crate) fn round(name: &str, fleet: &mut Fleet, scenario: Scenario) {
    seeded(name, number("PRS_CHAOS_SEED", 1), fleet, scenario);
}

/// Runs one long scenario once, on a fleet of its own; the variable says how long (1,000).
pub(crate) fn long_run(name: &str, variable: &str, scenario: fn(&mut Fleet, &mut Random, u64)) {
    let _alone = alone();
    let length = number(variable, 1000);
    seeded(name, number("PRS_CHAOS_SEED", 1), &mut fleet(1), |fleet, random| {
        scenario(fleet, random, length);
    });
}

#[expect(clippy::print_stdout, reason = "which scenario takes how long is of interest when all pass, too")]
fn seeded(name: &str, seed: u64, fleet: &mut Fleet, scenario: impl FnOnce(&mut Fleet, &mut Random)) {
    let mut random = Random::new(seed);
    let began = Instant::now();
    let played = catch_unwind(AssertUnwindSafe(|| scenario(fleet, &mut random)));
    if let Err(panic) = played {
        panic!("{name} with PRS_CHAOS_SEED={seed}: {}", said(&*panic));
    }
    println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text:?}")),
        Err(_) => default,
    }
}
