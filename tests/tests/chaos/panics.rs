//! The orchestrator panics: the job goes on under the next one, or fails with the panic's words, and holds no worker.

use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};

use crate::oracle::is_printed;
use crate::scene::{END, Expected, Plot, Scene};

/// What a job may take until it has failed, beyond what it does before it panics.
const SOON: Duration = Duration::from_secs(30);
/// As many panics as end a job.
const ENOUGH: u32 = 10;

/// The only worker panics once at `place`, and takes the job over from itself.
pub(crate) fn once(fleet: &mut Fleet, place: &str) {
    let mut scene = Scene::new(fleet, Plot { mini_batches: 40, nodes: 1, ..Plot::default() });
    scene.hire(&[("PRS_FAILPOINT", &format!("{place}:1:panic"))]);
    scene.submit(&[]);
    scene.ends(&Expected { panics: true, ..Expected::default() });
}

/// The only worker panics at `place` as often as it takes: the job fails with the words, and the worker serves the next job.
pub(crate) fn always(fleet: &mut Fleet, place: &str) {
    let plot = Plot { mini_batches: 20, nodes: 1, ..Plot::default() };
    let mut scene = Scene::new(fleet, plot.clone());
    scene.hire(&[("PRS_FAILPOINT", &format!("{place}:{ENOUGH}:panics"))]);
    let began = Instant::now();
    scene.submit(&[]);
    let ended = scene.forget_submit().wait();
    assert_eq!(ended.code, Some(42), "{}\n{}", ended.stderr, scene.story());
    assert!(began.elapsed() < SOON, "{:?}\n{}", began.elapsed(), scene.story());
    let reason = format!("a fault of prs ended the job: PRS_FAILPOINT says so at {place}");
    assert_eq!(
        (&ended.json()["state"], &ended.json()["reason"]),
        (&"failed".into(), &reason.as_str().into())
    );
    let result = scene.result().expect("it has ended");
    is_printed(&result, &ended.json());
    let told = scene.fleet.stored(&scene.id()).text("logs/job_result.txt");
    assert!(told.starts_with(&format!("failed: {reason}\n")), "{told}");
    wait_for("the job to be tidied up", END, || scene.fleet.active().is_empty().then_some(()));

    let crew = std::mem::take(&mut scene.crew);
    let mut next = Scene::new(scene.fleet, plot);
    next.crew = crew;
    next.submit(&[]);
    next.ends(&Expected::default());
}

/// The job is canceled while everybody who watches over it panics, the command that cancels it among them.
pub(crate) fn canceled(fleet: &mut Fleet, _: &mut Random) {
    let mut scene = Scene::new(fleet, Plot { nodes: 1, ..Plot::default() });
    let always = [("PRS_FAILPOINT", "watches:1000:panics")];
    scene.hire(&always);
    scene.submit_detached();
    let id = scene.id();
    wait_for("the first panic", END, || scene.fleet.story().contains("panicked").then_some(()));
    let began = Instant::now();
    scene.job = scene.job.with_own_variable("PRS_FAILPOINT", "watches:1000:panics");
    let ended = scene.job.command(&["cancel", &id, "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, scene.story());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let result = scene.result().expect("it has ended");
    assert_eq!(result["state"], "canceled", "{result}");
    wait_for("the job to be tidied up", END, || scene.fleet.active().is_empty().then_some(()));
    scene.dismiss();
    scene.job.soon_leaves_nothing();
}
