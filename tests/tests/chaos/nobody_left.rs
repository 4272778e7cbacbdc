//! Everybody who serves a job dies while the servers forget it, and workers come and go faster than anything ends: the
//! job ends as soon as a worker lives.

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// How long nobody is there.
const NOBODY: Duration = Duration::from_secs(10);
/// How many times longer than undisturbed a job may take while workers come and go.
const SLOWER: u32 = 3;
/// What a job may take beyond its work once a worker is there again.
const BEYOND: Duration = Duration::from_secs(30);

/// Kills everybody, and lets broker and ledger forget everything.
fn everybody_dies(chaos: &mut ChaosRun<'_>) {
    while !chaos.crew.is_empty() {
        chaos.kill(0);
    }
    chaos.fleet.redis.wipe_and_restart();
    chaos.fleet.broker.wipe_and_restart();
}

/// One worker comes back after a while; the job completes in the time that what was not begun takes, and a little more.
fn one_comes_back(mut chaos: ChaosRun<'_>) {
    let left = chaos.shape.mini_batches.saturating_sub(chaos.begun());
    let work = Duration::from_millis(left as u64 * chaos.shape.pause / u64::from(chaos.shape.processes));
    chaos.pass(NOBODY);
    assert!(chaos.result().is_none(), "the job is over without a worker");
    let came = Instant::now();
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    let took = came.elapsed();
    assert!(took < work + BEYOND, "{took:?} for {work:?} of work\n{}", chaos.story());
    chaos.ends(&Expected::default());
}

pub(crate) fn in_mid_job(fleet: &mut Fleet, random: &mut Random) {
    let shape = ChaosJob { mini_batches: 200, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.submit_detached();
    chaos.wait_for_work(20 + random.below(60) as usize);
    everybody_dies(&mut chaos);
    one_comes_back(chaos);
}

pub(crate) fn before_the_first(fleet: &mut Fleet, _: &mut Random) {
    let shape = ChaosJob { mini_batches: 80, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    chaos.submit_detached();
    everybody_dies(&mut chaos);
    one_comes_back(chaos);
}

pub(crate) fn while_finalizing(fleet: &mut Fleet, _: &mut Random) {
    let shape = ChaosJob { mini_batches: 40, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    chaos.hire(&[("PRS_FAILPOINT", "finalizing:1:stop")]);
    chaos.submit_detached();
    wait_for("the orchestrator to stop in its last act", Duration::from_mins(1), || {
        chaos.crew[0].live.is_stopped().then_some(())
    });
    everybody_dies(&mut chaos);
    one_comes_back(chaos);
}

/// A worker is killed and replaced every 0.5 to 1.5 s, to the end. `forget` happens once, after a while. The job takes no
/// more than three times what it takes undisturbed, and the time in which a server is away.
fn come_and_go(fleet: &mut Fleet, random: &mut Random, after: Duration, forget: impl FnOnce(&mut Fleet)) {
    let shape = ChaosJob { mini_batches: 900, pause: 80, nodes: 3, processes: 2, ..ChaosJob::default() };
    let quiet = undisturbed(fleet, shape.clone());
    let mut chaos = ChaosRun::begin(fleet, shape);
    chaos.wait_for_work(5);
    let begin = Instant::now();
    let mut away = Duration::ZERO;
    let mut forget = Some(forget);
    let mut next = begin;
    chaos.until_ended(|chaos| {
        let now = Instant::now();
        if now >= begin + after
            && let Some(forget) = forget.take()
        {
            forget(chaos.fleet);
            away = now.elapsed();
        }
        if now >= next {
            next = now + Duration::from_millis(500 + random.below(1000));
            let at = random.below(chaos.crew.len() as u64) as usize;
            chaos.kill(at);
            chaos.hire(&[]);
        }
    });
    let took = begin.elapsed();
    assert!(forget.is_none(), "the job was over before the fault");
    let most = quiet * SLOWER + away;
    assert!(
        took <= most,
        "{took:?}, and {quiet:?} undisturbed; a server was away for {away:?}\n{}",
        chaos.story()
    );
    chaos.note(&format!(
        "{took:?} with {} kills and a server away for {away:?}; {quiet:?} undisturbed",
        chaos.kills
    ));
    assert!(chaos.kills >= 5, "{} kills", chaos.kills);
    chaos.ends(&Expected::default());
}

/// What a job takes from its first mini-batch to its result when nothing happens.
fn undisturbed(fleet: &mut Fleet, shape: ChaosJob) -> Duration {
    let mut chaos = ChaosRun::begin(fleet, shape);
    chaos.wait_for_work(5);
    let begin = Instant::now();
    chaos.until_ended(|_| {});
    let took = begin.elapsed();
    chaos.ends(&Expected::default());
    took
}

pub(crate) fn churn(fleet: &mut Fleet, random: &mut Random) {
    come_and_go(fleet, random, Duration::ZERO, |_| {});
}

pub(crate) fn churn_and_no_broker(fleet: &mut Fleet, random: &mut Random) {
    come_and_go(fleet, random, Duration::from_secs(6), |fleet| fleet.broker.wipe_and_restart());
}

pub(crate) fn churn_and_no_redis(fleet: &mut Fleet, random: &mut Random) {
    come_and_go(fleet, random, Duration::from_secs(4), |fleet| fleet.redis.wipe_and_restart());
}
