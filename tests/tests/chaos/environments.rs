//! Environments of packages while those who make them die.

use std::path::Path;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random, bring_packages, host_of, installing, stop_in_installer};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// A job that needs its package, and the folder of packages.
fn with_packages(fleet: &mut Fleet) -> ChaosRun<'_> {
    let shape = ChaosJob {
        mini_batches: 80,
        first: "import sys, tiny\nassert tiny.VALUE == 7\nmark('prefix', sys.prefix)",
        ..ChaosJob::default()
    };
    let mut chaos = ChaosRun::new(fleet, shape);
    bring_packages(&chaos.job, "tiny\n");
    chaos.job = chaos.job.with("environment", "packages/requirements.txt");
    chaos
}

/// Hires a worker on the host whose user keeps things in `cache`.
fn hire(chaos: &mut ChaosRun<'_>, cache: &Path) {
    let variables = host_of(&chaos.job, cache);
    let variables: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    chaos.hire(&variables);
}

/// All mini-batches ran in one environment, below `cache`.
fn ends_in(chaos: ChaosRun<'_>, cache: &Path) {
    chaos.ends_with(&Expected::default(), |chaos| {
        let mut prefixes = chaos.job.marks("prefix");
        prefixes.sort();
        prefixes.dedup();
        assert_eq!(prefixes.len(), 1, "{prefixes:?}\n{}", chaos.story());
        assert!(Path::new(&prefixes[0]).starts_with(cache), "{prefixes:?}");
    });
}

/// The installer that runs, and where the worker is that started it.
fn installer(chaos: &ChaosRun<'_>, number: usize) -> usize {
    wait_for("a worker that installs", END, || {
        let begun = chaos.job.marks("installs").len() >= number;
        let mut workers = installing(&chaos.job).into_iter();
        workers.find_map(|worker| chaos.place_of(worker)).filter(|_| begun)
    })
}

/// Two nodes of a host need it at once. Who makes it is killed with the lock in hand, then its successor, then everybody.
pub(crate) fn makers_die(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = with_packages(fleet);
    stop_in_installer(&chaos.job);
    let cache = chaos.job.path("cache");
    for _ in 0..2 {
        hire(&mut chaos, &cache);
    }
    chaos.submit(&[]);
    for number in 1..=2 {
        let at = installer(&chaos, number);
        chaos.pass(Duration::from_millis(random.below(1500)));
        chaos.kill(at);
        hire(&mut chaos, &cache);
    }
    installer(&chaos, 3);
    while !chaos.crew.is_empty() {
        chaos.kill(0);
    }
    assert_eq!(chaos.begun(), 0, "no mini-batch may begin without its packages");
    for _ in 0..2 {
        hire(&mut chaos, &cache);
    }
    installer(&chaos, 4);
    chaos.job.mark("go");
    ends_in(chaos, &cache);
}
