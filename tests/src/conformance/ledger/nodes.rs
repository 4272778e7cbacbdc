//! Nodes that join, are heard of, and leave.

use std::time::Duration;

use futures_util::future::join_all;
use prs_common::ledger::{
    Heard, HeldMiniBatch, InitFailure, Ledger, NodeInfo, NodeLoad, NodeReport, PrintedLine, ProcessExit,
    ProcessView, RunningTry, SeenError, Signal, TryUnderWay,
};
use prs_common::source_line::SourceLine;

use super::{failed, fresh, succeeded, worker};
use crate::deadline::eventually;

pub(super) async fn nodes_get_dense_ids(ledger: &dyn Ledger) {
    let job = fresh(ledger, "nodes").await;
    for (expected, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(job.join(&worker(name), None).await.unwrap() as usize, expected);
    }
    let nodes = job.nodes().await.unwrap();
    assert!(nodes.iter().map(|node| node.node_id).eq(0..3));
    assert_eq!(nodes[1].info, worker("b"));
    assert!(nodes.iter().all(|node| !node.left && node.report == NodeReport::default()));
    assert!(nodes.iter().all(|node| node.silent < Duration::from_secs(10)), "{nodes:?}");
}

pub(super) async fn worker_that_joins_again_keeps_its_id(ledger: &dyn Ledger) {
    let job = fresh(ledger, "rejoin").await;
    job.join(&worker("a"), None).await.unwrap();
    let node_id = job.join(&worker("b"), None).await.unwrap();
    job.leave(node_id).await.unwrap();
    let restarted = NodeInfo { slots: 8, ..worker("b") };
    for _ in 0..2 {
        assert_eq!(job.join(&restarted, None).await.unwrap(), node_id);
    }
    let nodes = job.nodes().await.unwrap();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[node_id as usize].info, restarted);
    assert!(!nodes[node_id as usize].left, "it is back");
}

pub(super) async fn wished_id_is_given_where_it_is_free(ledger: &dyn Ledger) {
    let job = fresh(ledger, "wish").await;
    assert_eq!(job.join(&worker("c"), Some(2)).await.unwrap(), 2);
    assert_eq!(job.join(&worker("a"), None).await.unwrap(), 0);
    assert_eq!(job.join(&worker("d"), Some(2)).await.unwrap(), 1, "2 is taken");
    assert_eq!(job.join(&worker("c"), Some(7)).await.unwrap(), 2, "it has an id already");
    assert_eq!(job.join(&worker("e"), None).await.unwrap(), 3);
    let nodes = job.nodes().await.unwrap();
    assert!(nodes.iter().map(|node| &*node.info.worker).eq(["a", "d", "c", "e"]), "{nodes:?}");
}

pub(super) async fn unknown_node_is_told_to_join_again(ledger: &dyn Ledger) {
    let job = fresh(ledger, "unknown").await;
    let report = NodeReport { processes: 9, ..NodeReport::default() };
    assert_eq!(job.heartbeat(0, "a", &report).await.unwrap().signal, Signal::Rejoin);
    job.join(&worker("b"), None).await.unwrap();
    assert_eq!(job.heartbeat(0, "a", &report).await.unwrap().signal, Signal::Rejoin, "0 is another's");
    assert_eq!(job.nodes().await.unwrap()[0].report, NodeReport::default());
}

pub(super) async fn racing_joins_get_different_ids(ledger: &dyn Ledger) {
    let job = fresh(ledger, "joins").await;
    let names: Vec<NodeInfo> = (0..16).map(|number| worker(&format!("w{number}"))).collect();
    let joined = join_all(names.iter().chain(&names).map(|info| job.join(info, None))).await;
    let ids: Vec<u32> = joined.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids[..16], ids[16..], "the same worker gets the same id");
    let mut dense = ids[..16].to_vec();
    dense.sort_unstable();
    assert!(dense.into_iter().eq(0..16));
    let nodes = job.nodes().await.unwrap();
    assert!(ids[..16].iter().zip(&names).all(|(id, info)| nodes[*id as usize].info == *info));
}

pub(super) async fn heartbeat_is_seen_by_everyone(ledger: &dyn Ledger) {
    let job = fresh(ledger, "heartbeat").await;
    let silent_node = job.join(&worker("a"), None).await.unwrap();
    let node_id = job.join(&worker("b"), None).await.unwrap();
    let report = NodeReport {
        processes: 3,
        starting: 1,
        init_failures: 2,
        fails_to_import: true,
        ever_ready: true,
        stuck_in_init: true,
        hung_in_init: true,
        gave_up: true,
        init_error: Some("ValueError: é".to_owned()),
        fatal: Some("no room on the disk".to_owned()),
        is_unfit: true,
        preparing: Some("Collecting numpy".to_owned()),
        fetched: 12,
        in_hand: 7,
        free_processes: 2,
        running: vec![RunningTry { index: 7, age_ms: 93_000 }],
        now_us: 1_763_776_000_000_456,
        busy: 2,
        longest: vec![TryUnderWay {
            index: 9,
            age_ms: 4,
            number: 2,
            process: Some(3),
            detail: "é.txt".to_owned(),
            printed_from: Some((7, 8)),
        }],
        failed_tries: 1_000_000,
        ended: 1 << 33,
        ended_items: 1 << 34,
        errors: vec![SeenError {
            at_us: 1_763_776_000_000_123,
            what: "mini-batch 7 (a.txt), try 1 of 3".to_owned(),
            category: "ValueError".to_owned(),
            message: "é".to_owned(),
            line: Some(SourceLine {
                file: "/code/main.py".to_owned(),
                line: 9,
                function: "run".to_owned(),
                text: "raise ValueError('é')".to_owned(),
            }),
        }],
        init_failure: Some(InitFailure { category: "ValueError".to_owned(), ..InitFailure::default() }),
        printed: Some(PrintedLine { line: "Downloading: 40 %".to_owned(), ..PrintedLine::default() }),
        load: Some(NodeLoad { memory: 3 << 30, cpu_percent: 350, gpu_percent: Some(97) }),
        unavailable: vec!["storage".to_owned()],
        each_process: vec![ProcessView {
            number: 3,
            pid: 4_711,
            tries: 9,
            failed_tries: 2,
            started_us: 1_763_776_000_000_456,
            exit: Some(ProcessExit { at_us: 1, returncode: -9, killed_for: "memory".to_owned() }),
            holds: Some(HeldMiniBatch { index: 1 << 33, since_us: 1_763_776_000_000_456, of: 2 }),
        }],
    };
    let silent = |node_id: u32| {
        let job = &job;
        async move { job.nodes().await.unwrap()[node_id as usize].silent }
    };
    eventually("a node that was silent for a while", || async {
        (silent(node_id).await > Duration::from_millis(100)).then_some(())
    })
    .await;
    let heard = job.heartbeat(node_id, "b", &report).await.unwrap();
    assert_eq!(heard, Heard { signal: Signal::Run, live_nodes: 2, has_succeeded: false });
    job.leave(silent_node).await.unwrap();
    job.commit("s", 1, &[failed(0), succeeded(1)]).await.unwrap();
    let heard = job.heartbeat(node_id, "b", &report).await.unwrap();
    assert_eq!(heard, Heard { signal: Signal::Run, live_nodes: 1, has_succeeded: true });
    let nodes = job.nodes().await.unwrap();
    assert_eq!(nodes[node_id as usize].report, report);
    assert_eq!(nodes[silent_node as usize].report, NodeReport::default());
    let (quiet, heard) = (nodes[silent_node as usize].silent, nodes[node_id as usize].silent);
    assert!(heard < quiet && quiet >= Duration::from_millis(100), "heard {heard:?}, quiet {quiet:?} ago");
}

pub(super) async fn node_that_leaves_stays_known(ledger: &dyn Ledger) {
    let job = fresh(ledger, "leave").await;
    let first = job.join(&worker("a"), None).await.unwrap();
    for _ in 0..2 {
        job.leave(first).await.unwrap();
    }
    let second = job.join(&worker("b"), None).await.unwrap();
    assert_ne!(first, second, "an id is never used again");
    job.leave(9).await.unwrap();
    let left: Vec<bool> = job.nodes().await.unwrap().into_iter().map(|node| node.left).collect();
    assert_eq!(left, [true, false]);
}
