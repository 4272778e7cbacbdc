//! The orchestrator panics: the job goes on under the next one, or fails with the panic's words, and holds no worker.

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};
use crate::oracle::is_printed;

/// What a job may take until it has failed, beyond what it does before it panics.
const SOON: Duration = Duration::from_secs(30);
/// As many panics as end a job.
const ENOUGH: u32 = 10;

/// The only worker panics once at `place`, and takes the job over from itself.
pub(crate) fn once(fleet: &mut Fleet, place: &str) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 40, nodes: 1, ..ChaosJob::default() });
    chaos.hire(&[("PRS_FAILPOINT", &format!("{place}:1:panic"))]);
    chaos.submit(&[]);
    chaos.ends(&Expected { panics: true, ..Expected::default() });
}

/// The only worker panics at `place` as often as it takes: the job fails with the words, and the worker serves the next job.
pub(crate) fn always(fleet: &mut Fleet, place: &str) {
    let shape = ChaosJob { mini_batches: 20, nodes: 1, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape.clone());
    chaos.hire(&[("PRS_FAILPOINT", &format!("{place}:{ENOUGH}:panics"))]);
    let began = Instant::now();
    chaos.submit(&[]);
    let ended = chaos.forget_submit().wait();
    assert_eq!(ended.code, Some(42), "{}\n{}", ended.stderr, chaos.story());
    assert!(began.elapsed() < SOON, "{:?}\n{}", began.elapsed(), chaos.story());
    let reason = format!("a fault of prs ended the job: PRS_FAILPOINT says so at {place}");
    assert_eq!(
        (&ended.json()["state"], &ended.json()["reason"]),
        (&"failed".into(), &reason.as_str().into())
    );
    let result = chaos.result().expect("it has ended");
    is_printed(&result, &ended.json());
    let told = chaos.fleet.stored(&chaos.id()).text("logs/job_result.txt");
    assert!(told.starts_with(&format!("failed: {reason}\n")), "{told}");
    wait_for("the job to be tidied up", END, || chaos.fleet.active().is_empty().then_some(()));

    let crew = std::mem::take(&mut chaos.crew);
    let mut next = ChaosRun::new(chaos.fleet, shape);
    next.crew = crew;
    next.submit(&[]);
    next.ends(&Expected::default());
}

/// The job is canceled while everybody who watches over it panics, the command that cancels it among them.
pub(crate) fn canceled(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { nodes: 1, ..ChaosJob::default() });
    let always = [("PRS_FAILPOINT", "watches:1000:panics")];
    chaos.hire(&always);
    chaos.submit_detached();
    let id = chaos.id();
    wait_for("the first panic", END, || chaos.fleet.story().contains("panicked").then_some(()));
    let began = Instant::now();
    chaos.job = chaos.job.with_own_variable("PRS_FAILPOINT", "watches:1000:panics");
    let ended = chaos.job.command(&["cancel", &id, "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, chaos.story());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let result = chaos.result().expect("it has ended");
    assert_eq!(result["state"], "canceled", "{result}");
    wait_for("the job to be tidied up", END, || chaos.fleet.active().is_empty().then_some(()));
    chaos.dismiss();
    chaos.job.soon_leaves_nothing();
}
