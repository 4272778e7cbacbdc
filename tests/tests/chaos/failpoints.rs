//! Programs that die at the one place where it hurts most.

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// One of two workers dies at a failpoint, a random number of times after it was first there.
pub(crate) fn worker_dies_at(fleet: &mut Fleet, random: &mut Random, place: &str) {
    let count = if place == "joined" { 1 } else { 1 + random.below(8) };
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 200, ..ChaosJob::default() });
    chaos.hire(&[("PRS_FAILPOINT", &format!("{place}:{count}"))]);
    chaos.hire(&[]);
    chaos.submit(&[]);
    chaos.dies(0);
    chaos.hire(&[]);
    chaos.ends(&Expected::default());
}

/// A result that grows while the job runs has megabytes.
fn padding(place: &str) -> usize {
    if place == "result_grows" { 60_000 } else { 0 }
}

/// The orchestrator dies at a failpoint while another node could take over.
pub(crate) fn orchestrator_dies_at(fleet: &mut Fleet, random: &mut Random, place: &str) {
    // Long enough that some of its log is in storage when it dies.
    let mini_batches = 180 + random.below(60) as usize;
    let mut chaos =
        ChaosRun::new(fleet, ChaosJob { mini_batches, padding: padding(place), ..ChaosJob::default() });
    chaos.hire(&[("PRS_FAILPOINT", place)]);
    chaos.submit(&[]);
    let id = chaos.id();
    let owner = chaos.orchestrator();
    chaos.hire(&[]);
    chaos.dies(0);
    chaos.ends_with(&Expected::default(), |chaos| {
        let told = chaos.fleet.stored(&id).text("logs/sys/master_role.txt");
        assert!(told.contains(&owner), "{owner} never watched:\n{told}");
    });
}

/// The orchestrator is stopped at a failpoint until another worker has ended the job and tidied up behind it, and goes on
/// then: it changes nothing.
pub(crate) fn orchestrator_sleeps_at(fleet: &mut Fleet, _: &mut Random, place: &str) {
    let shape = ChaosJob { mini_batches: 200, pause: 20, padding: padding(place), ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    chaos.hire(&[("PRS_FAILPOINT", &format!("{place}:1:stop"))]);
    chaos.submit(&[]);
    wait_for("the orchestrator to come to the place", END, || chaos.crew[0].live.is_stopped().then_some(()));
    chaos.hire(&[]);
    chaos.until_ended(|_| {});
    wait_for("the other worker to tidy up", END, || chaos.fleet.active().is_empty().then_some(()));
    let id = chaos.id();
    let left = |fleet: &Fleet| {
        let stored = fleet.stored(&id);
        let mut keys = stored.keys();
        keys.retain(|key| !key.starts_with("logs/"));
        (keys, stored.text("job.json"), stored.result(), stored.text("logs/job_result.txt"))
    };
    let before = left(chaos.fleet);
    assert!(chaos.crew[0].live.signal(Signal::CONT));
    chaos.crew[0].live.wait_until_said("this worker stops serving the job");
    assert_eq!(left(chaos.fleet), before, "{}", chaos.story());
    chaos.ends(&Expected::default());
}

/// The only worker is asked to leave while it writes the result.
pub(crate) fn orchestrator_leaves_at(fleet: &mut Fleet, _: &mut Random, place: &str) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 40, nodes: 1, ..ChaosJob::default() });
    chaos.hire(&[("PRS_FAILPOINT", &format!("{place}:1:stop"))]);
    chaos.submit(&[]);
    wait_for("the worker to come to the place", END, || chaos.crew[0].live.is_stopped().then_some(()));
    let mut leaving = chaos.crew.remove(0);
    chaos.hire(&[]);
    assert!(leaving.live.signal(Signal::TERM) && leaving.live.signal(Signal::CONT));
    let ended = leaving.live.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("this worker leaves, and the job goes on"),
        "it did not leave before the end\n{}",
        ended.stderr
    );
    chaos.ends(&Expected::default());
}

/// `submit` dies with the plan half published.
pub(crate) fn producer_dies(fleet: &mut Fleet, random: &mut Random) {
    // A batch of the planner holds some hundred mini-batches.
    let shape = ChaosJob { mini_batches: 3000, pause: 2, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    let at = format!("published:{}", 1 + random.below(2));
    chaos.job = chaos.job.with_own_variable("PRS_FAILPOINT", &at);
    chaos.hire(&[]);
    chaos.hire(&[]);
    chaos.submit(&[]);
    let mut submit = chaos.forget_submit();
    submit.signal(Signal::CONT);
    let ended = submit.wait();
    assert_eq!(ended.code, None, "the producer did not die at {at}\n{}\n{}", ended.stdout, ended.stderr);
    chaos.ends(&Expected::default());
}
