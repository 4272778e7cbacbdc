//! Hosts that see the others badly: cut off for a while, or with another idea of the time.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::{Fleet, Random};

use crate::scene::{Expected, Plot, Scene};

/// Libraries that shift the clock of the program they are loaded into.
const FAKETIME: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/// A worker loses all three servers in mid-job, is thought lost, and comes back.
pub(crate) fn a_worker_is_cut_off(fleet: &mut Fleet, random: &mut Random) {
    let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let proxies =
        [local(fleet.broker.port()), local(fleet.redis.port()), fleet.s3.address()].map(TcpProxy::start);
    let [broker, redis, s3] = proxies.each_ref().map(TcpProxy::address);
    let mut scene = Scene::new(fleet, Plot { mini_batches: 400, pause: 200, ..Plot::default() });
    let url = format!("amqp://guest:guest@{broker}/%2f?heartbeat=5");
    scene.hire(&[
        ("PRS_BROKER_URL", &url),
        ("PRS_REDIS_URL", &format!("redis://{redis}")),
        ("AWS_ENDPOINT_URL_S3", &format!("http://{s3}")),
    ]);
    scene.hire(&[]);
    scene.submit(&[]);
    scene.wait_for_work(20);
    scene.pass(Duration::from_millis(random.below(2000)));
    proxies.iter().for_each(TcpProxy::cut_off);
    assert!(scene.result().is_none(), "the job was over before");
    scene.pass(Duration::from_secs(10 + random.below(15)));
    proxies.iter().for_each(TcpProxy::restore);
    scene.ends(&Expected::default());
}

/// The clock of one worker is a minute ahead, that of another a minute behind.
pub(crate) fn clocks_differ(fleet: &mut Fleet, _: &mut Random) {
    let library = FAKETIME.into_iter().find(|path| Path::new(path).exists());
    let library = library.expect("libfaketime is needed by this test: apt-get install faketime");
    let mut scene = Scene::new(fleet, Plot { nodes: 3, ..Plot::default() });
    for shift in ["+60s", "-60s"] {
        // What measures spans of time goes right.
        scene.hire(&[("LD_PRELOAD", library), ("FAKETIME", shift), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    }
    scene.hire(&[]);
    scene.submit(&[]);
    scene.wait_for_work(20);
    scene.kill(0);
    scene.hire(&[]);
    scene.ends(&Expected::default());
}
