//! Servers refuse what they accepted before, as after a changed password or with a token that ran out: for some seconds,
//! and the job goes on; or for good, and it fails and says so.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::{Fleet, Random};

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// Longer than one call repeats its requests.
const WHILE: Duration = Duration::from_secs(5);

/// A way to the store that spoils nothing by itself.
fn way(fleet: &Fleet) -> HttpProxy {
    HttpProxy::start(fleet.s3.address(), HttpFaults { percent: 0, ..HttpFaults::default() })
}

/// Whether a worker said that a server at such a URL refuses what it accepted before.
fn assert_refused(chaos: &ChaosRun<'_>, scheme: &str) {
    let (told, story) = ("the server refuses what it accepted before", chaos.fleet.story());
    let server = format!("server={scheme}");
    let mut lines = story.lines();
    assert!(lines.any(|line| line.contains(told) && line.contains(&server)), "{}", chaos.story());
}

/// The store refuses everything to two workers in mid-job.
pub(crate) fn the_store_for_some_seconds(fleet: &mut Fleet, random: &mut Random) {
    let proxy = way(fleet);
    let mut chaos = ChaosRun::new(fleet, ChaosJob::default());
    for _ in 0..2 {
        chaos.hire(&[("AWS_ENDPOINT_URL_S3", &proxy.endpoint())]);
    }
    chaos.submit(&[]);
    chaos.wait_for_work(20 + random.below(60) as usize);
    proxy.refuse("");
    chaos.pass(WHILE);
    assert!(chaos.result().is_none(), "the job is over before the fault");
    proxy.accept();
    chaos.ends_with(&Expected::default(), |chaos| {
        assert!(proxy.count(Fault::Refuse) > 5, "{} refusals\n{}", proxy.count(Fault::Refuse), chaos.story());
    });
}

/// A password appears in Redis, and all connections are closed.
pub(crate) fn redis_for_some_seconds(fleet: &mut Fleet, random: &mut Random) {
    let mut chaos = ChaosRun::begin(fleet, ChaosJob::default());
    chaos.wait_for_work(20 + random.below(60) as usize);
    chaos.fleet.redis.cli(&["config", "set", "requirepass", "another"]);
    let cli =
        |chaos: &ChaosRun<'_>, words: &[&str]| chaos.fleet.redis.cli(&[&["-a", "another"], words].concat());
    cli(&chaos, &["client", "kill", "type", "normal"]);
    chaos.pass(Duration::from_secs(8));
    assert!(chaos.result().is_none(), "the job is over before the fault");
    cli(&chaos, &["config", "set", "requirepass", ""]);
    chaos.ends_with(&Expected::default(), |chaos| assert_refused(chaos, "redis://"));
}

/// The rights on the broker are taken away, and all connections closed, while the plan is being published.
pub(crate) fn the_broker_for_some_seconds(fleet: &mut Fleet, random: &mut Random) {
    // More than the scheduler publishes at once.
    let shape = ChaosJob { mini_batches: 3000, pause: 30, ..ChaosJob::default() };
    let mut chaos = ChaosRun::begin(fleet, shape);
    chaos.wait_for_work(1 + random.below(100) as usize);
    chaos.fleet.broker.control(&["set_permissions", "guest", "^$", "^$", "^$"]);
    chaos.fleet.broker.control(&["close_all_connections", "told to"]);
    chaos.pass(Duration::from_secs(8));
    assert!(chaos.result().is_none(), "the job is over before the fault\n{}", chaos.story());
    chaos.fleet.broker.control(&["set_permissions", "guest", ".*", ".*", ".*"]);
    chaos.ends_with(&Expected::default(), |chaos| assert_refused(chaos, "amqp://"));
}

/// The store refuses everything for longer than the workers wait. How the job ends is decided in the ledger, and written
/// down as soon as the store accepts it.
pub(crate) fn the_store_for_good(fleet: &mut Fleet, random: &mut Random) {
    let proxy = way(fleet);
    let mut chaos = ChaosRun::new(fleet, ChaosJob::default());
    for _ in 0..2 {
        chaos.hire(&[("AWS_ENDPOINT_URL_S3", &proxy.endpoint()), ("PRS_REFUSAL_PATIENCE", "6")]);
    }
    chaos.submit(&[]);
    let id = chaos.id();
    chaos.wait_for_work(20 + random.below(60) as usize);
    proxy.refuse("");
    wait_for("how the job ends to be decided", END, || {
        let key = format!("prs:{{{id}}}:job");
        let end = chaos.fleet.redis.cli(&["hget", &key, "conclusion"]);
        (end == "failed").then_some(())
    });
    chaos.pass(WHILE);
    assert!(chaos.result().is_none(), "the store refuses it");
    proxy.accept();
    let ended = chaos.forget_submit().wait();
    assert_eq!(ended.code, Some(42), "{}\n{}", ended.stderr, chaos.story());
    let result = chaos.result().expect("it has ended");
    let reason = result["reason"].as_str().unwrap_or_default();
    assert!(result["state"] == "failed" && reason.contains("has been refused for"), "{result}");
    wait_for("the job to be tidied up", END, || chaos.fleet.active().is_empty().then_some(()));
    chaos.dismiss();
    chaos.job.soon_leaves_nothing();
}
