//! Hosts that see the others badly: cut off for a while, or with another idea of the time.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;

use crate::chaos_run::{ChaosJob, ChaosRun, END, Expected};

/// Libraries that shift the clock of the program they are loaded into.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// A variable that no program reads.
const NO_VARIABLE: (&str, &str) = ("PRS_TEST_NOTHING", "");
/// How long a job may take to its end from the moment on that its orchestrator is cut off: ten seconds until that gives way,
/// or thirty over a silent way to the storage.
const GIVES_WAY: Duration = Duration::from_secs(45);

/// A worker loses all three servers in mid-job, is thought lost, and comes back, perhaps after the end of the job.
pub(crate) fn a_worker_is_cut_off(fleet: &mut Fleet, random: &mut Random, seconds: u64) {
    let proxies = fleet.addresses().map(TcpProxy::start);
    let [broker, redis, s3] = proxies.each_ref().map(TcpProxy::address);
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 400, pause: 200, ..ChaosJob::default() });
    let url = format!("amqp://guest:guest@{broker}/%2f?heartbeat=5");
    let name = "is-cut-off";
    chaos.hire(&[
        ("PRS_WORKER_NAME", name),
        ("PRS_BROKER_URL", &url),
        ("PRS_REDIS_URL", &format!("redis://{redis}")),
        ("AWS_ENDPOINT_URL_S3", &format!("http://{s3}")),
    ]);
    chaos.hire(&[]);
    chaos.submit(&[]);
    chaos.wait_for_nodes(2);
    chaos.wait_for_work(20);
    chaos.pass(Duration::from_millis(random.below(2000)));
    proxies.iter().for_each(TcpProxy::cut_off);
    let cut_off = Timestamp::now();
    assert!(chaos.result().is_none(), "the job was over before");
    chaos.pass(Duration::from_secs(seconds));
    let restored = Timestamp::now();
    proxies.iter().for_each(TcpProxy::restore);
    chaos.ends_with(&Expected::default(), |chaos| {
        let decisions = chaos.decisions();
        let joined = decisions.iter().find_map(|(_, words)| {
            let (node, who) = words.split_once(" joined: ")?;
            who.starts_with(name).then_some(node)
        });
        let node = joined.unwrap_or_else(|| panic!("{name} never joined\n{}", chaos.story()));
        // The next orchestrator, after eight seconds, writes it down as well.
        let missed = decisions
            .iter()
            .any(|(time, words)| (cut_off..restored).contains(time) && *words == format!("{node} left"));
        assert!(missed, "{node} was not missed between {cut_off} and {restored}\n{}", chaos.story());
    });
}

/// A server that one worker does not reach any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreached {
    Broker,
    Ledger,
    Storage,
}

/// How a way ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Connections are refused.
    Refuses,
    /// Nothing arrives, and nobody is told.
    IsSilent,
}

/// Hires a worker whose way to one server can be cut, with a further variable. It is said to be ready.
fn hire_behind(chaos: &mut ChaosRun<'_>, server: Unreached, variable: (&str, &str)) -> TcpProxy {
    let [broker, redis, s3] = chaos.fleet.addresses();
    let proxy = TcpProxy::start(match server {
        Unreached::Broker => broker,
        Unreached::Ledger => redis,
        Unreached::Storage => s3,
    });
    let address = proxy.address();
    let way = match server {
        Unreached::Broker => ("PRS_BROKER_URL", format!("amqp://guest:guest@{address}/%2f?heartbeat=5")),
        Unreached::Ledger => ("PRS_REDIS_URL", format!("redis://{address}")),
        Unreached::Storage => ("AWS_ENDPOINT_URL_S3", format!("http://{address}")),
    };
    chaos.hire(&[("PRS_WORKER_NAME", "is-cut-off"), (way.0, &way.1), variable]);
    chaos.crew[0].live.wait_until_said("the worker is ready");
    proxy
}

/// Cuts a way for good; what comes back can restore it.
fn cut(proxy: TcpProxy, way: Way) -> Option<TcpProxy> {
    match way {
        Way::Refuses => drop(proxy),
        Way::IsSilent => {
            proxy.cut_off();
            return Some(proxy);
        }
    }
    None
}

/// The first worker of a job does not reach the broker, and has the seat and the lease before anything is published. Another
/// worker comes.
pub(crate) fn one_has_no_broker_before_the_plan(fleet: &mut Fleet, way: Way) {
    let shape = ChaosJob { mini_batches: 40, nodes: 1, ..ChaosJob::default() };
    let mut chaos = ChaosRun::new(fleet, shape);
    let proxy = hire_behind(&mut chaos, Unreached::Broker, NO_VARIABLE);
    let _kept = cut(proxy, way);
    chaos.submit_detached();
    assert!(chaos.orchestrator().starts_with("is-cut-off"));
    let id = chaos.id();
    wait_for("the job to say what it waits for", END, || {
        let status = chaos.job.command(&["status", &id, "-o", "json"]).json();
        (status["waits_for"]["server"] == "RabbitMQ").then_some(())
    });
    chaos.hire(&[]);
    chaos.ends(&Expected::default());
}

/// One of two nodes does not reach a server any more in mid-job, and the other does.
pub(crate) fn one_is_cut_off_from(fleet: &mut Fleet, server: Unreached, way: Way) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob::default());
    let proxy = hire_behind(&mut chaos, server, NO_VARIABLE);
    chaos.submit(&[]);
    assert!(chaos.orchestrator().starts_with("is-cut-off"));
    chaos.hire(&[]);
    chaos.wait_for_nodes(2);
    chaos.wait_for_work(40);
    let kept = cut(proxy, way);
    assert!(chaos.result().is_none(), "the job was over before");
    chaos.until_ended(|_| {});
    if let Some(proxy) = kept {
        // It ends in order then.
        proxy.restore();
    }
    chaos.ends(&Expected::default());
}

/// The worker that writes the result does not reach a server any more, and the other one of the job does.
pub(crate) fn one_is_cut_off_finalizing(fleet: &mut Fleet, server: Unreached, way: Way) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { mini_batches: 200, ..ChaosJob::default() });
    let proxy = hire_behind(&mut chaos, server, ("PRS_FAILPOINT", "finalizing:1:stop"));
    chaos.submit(&[]);
    assert!(chaos.orchestrator().starts_with("is-cut-off"));
    chaos.hire(&[]);
    chaos.wait_for_nodes(2);
    wait_for("the orchestrator to stop in its last act", END, || {
        chaos.crew[0].live.is_stopped().then_some(())
    });
    let kept = cut(proxy, way);
    assert!(chaos.crew[0].live.signal(Signal::CONT));
    assert!(chaos.result().is_none(), "the job was over before");
    let cut_off = Instant::now();
    chaos.until_ended(|_| {});
    let took = cut_off.elapsed();
    assert!(took < GIVES_WAY, "{took:?}\n{}", chaos.story());
    chaos.note(&format!("{took:?} without {server:?}, {way:?}"));
    if server == Unreached::Ledger {
        // Nothing told it that the job is over.
        chaos.kill(0);
    } else if let Some(proxy) = kept {
        // It ends in order then.
        proxy.restore();
    }
    chaos.ends(&Expected::default());
}

/// The variables of a program whose clock is shifted. What measures spans of time goes right.
pub(crate) fn shifted_clock(shift: &str) -> [(&'static str, &str); 3] {
    let library = FAKETIME.into_iter().find(|path| Path::new(path).exists());
    let library = library.expect("libfaketime is needed by this test: apt-get install faketime");
    [("LD_PRELOAD", library), ("FAKETIME", shift), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]
}

/// The clock of one worker is a minute ahead, that of another a minute behind.
pub(crate) fn clocks_differ(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::new(fleet, ChaosJob { nodes: 3, ..ChaosJob::default() });
    for (shift, shown) in [("+60s", 30..i64::MAX), ("-60s", i64::MIN..-30)] {
        chaos.hire(&shifted_clock(shift));
        let live = &mut chaos.crew.last_mut().unwrap().live;
        live.wait_until_said("the worker is ready");
        // A library that cannot be loaded is left out without an error.
        let said = live.stderr();
        let time: Timestamp = said.split_whitespace().next().and_then(|time| time.parse().ok()).expect(&said);
        let off = time.as_second() - Timestamp::now().as_second();
        assert!(shown.contains(&off), "the clock is {off} s ahead, not {shift}\n{said}");
    }
    chaos.hire(&[]);
    chaos.submit(&[]);
    chaos.wait_for_work(20);
    chaos.kill(0);
    chaos.hire(&[]);
    chaos.ends(&Expected::default());
}
