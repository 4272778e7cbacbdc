//! Offers of jobs to the workers of a target, and seats for nodes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use prs_common::ledger::{
    Conclusion, Duty, HISTORY_STEP, JobState, KnownJob, Ledger, NodeReport, Offer, Offered, Seats, Signal,
    TargetCounts,
};

use super::{LIMITS, fresh, succeeded, unique, worker};
use crate::deadline::{eventually, stays_pending, within};

const MINUTE: Duration = Duration::from_mins(1);

fn offer(run: &str) -> Offer {
    Offer {
        job_id: format!("job of {run}"),
        incarnation: 2,
        run: run.to_owned(),
        prs_version: "1.2.3".to_owned(),
        nodes: 2,
        started_us: 1_763_776_000_000_123,
    }
}

fn seats(count: u32) -> Seats {
    Seats { count, quiet: MINUTE }
}

async fn offered(ledger: &dyn Ledger, target: &str) -> Vec<Offered> {
    ledger.offers(target, None, MINUTE).await.unwrap().offered
}

pub(super) async fn offer_is_seen_until_it_is_withdrawn(ledger: &dyn Ledger) {
    let (target, run) = (unique("target"), unique("run"));
    assert_eq!(offered(ledger, &target).await, []);
    for _ in 0..2 {
        ledger.offer(&target, &offer(&run)).await.unwrap();
        let seen = Offered { offer: offer(&run), nodes: 0, known: None, unmoved: None };
        assert_eq!(offered(ledger, &target).await, [seen], "of a job that the ledger does not know");
    }
    for _ in 0..2 {
        ledger.withdraw(&target, &run).await.unwrap();
        assert_eq!(offered(ledger, &target).await, []);
    }
}

pub(super) async fn offers_show_who_serves_what(ledger: &dyn Ledger) {
    let (target, name) = (unique("target"), unique("offered"));
    let run = ledger.job(&name);
    run.create(LIMITS).await.unwrap();
    ledger.offer(&target, &offer(&name)).await.unwrap();
    let shown =
        async || offered(ledger, &target).await.pop().map(|offered| (offered.nodes, offered.known.unwrap()));
    let known = KnownJob { state: JobState::Queued, is_concluded: false, is_watched: false };
    assert_eq!(shown().await, Some((0, known)));
    let node = run.join(&worker("a"), None).await.unwrap();
    run.join(&worker("b"), None).await.unwrap();
    let fence = run.lease(Duty::Watch, "a", MINUTE).await.unwrap().expect("it is free");
    run.set_state(JobState::Running, fence).await.unwrap();
    let known = KnownJob { state: JobState::Running, is_concluded: false, is_watched: true };
    assert_eq!(shown().await, Some((2, known)));
    run.leave(node).await.unwrap();
    // A last word that comes late.
    run.heartbeat(node, "a", &NodeReport::default()).await.unwrap();
    run.release(Duty::Watch, "a").await.unwrap();
    let canceled = Conclusion { state: JobState::Canceled, reason: "by a test".to_owned() };
    run.conclude(&canceled).await.unwrap();
    let known = KnownJob { state: JobState::Running, is_concluded: true, is_watched: false };
    assert_eq!(shown().await, Some((1, known)));
    run.remove().await.unwrap();
    let left = offered(ledger, &target).await;
    assert_eq!(
        left,
        [Offered { offer: offer(&name), nodes: 0, known: None, unmoved: None }],
        "the offer stays"
    );
}

pub(super) async fn offer_tells_when_its_job_moved_last(ledger: &dyn Ledger) {
    let (target, name) = (unique("target"), unique("moves"));
    let run = ledger.job(&name);
    run.create(LIMITS).await.unwrap();
    ledger.offer(&target, &offer(&name)).await.unwrap();
    let unmoved = async || offered(ledger, &target).await.pop().unwrap().unmoved;
    let until_some_time_is_over = async || {
        while unmoved().await.unwrap() < Duration::from_millis(5) {}
    };
    assert_eq!(unmoved().await, None, "no node came");
    let node = run.join(&worker("a"), None).await.unwrap();
    let (came, first) = (Instant::now(), unmoved().await.unwrap());
    until_some_time_is_over().await;
    // Another node is no news.
    run.take_seat(&worker("b"), seats(2)).await.unwrap().unwrap();
    let before = came.elapsed();
    assert!(first < MINUTE && unmoved().await.unwrap() >= before);
    let began = Instant::now();
    run.commit("s/1", 1, &[succeeded(1)]).await.unwrap();
    let committed = Instant::now();
    assert!(unmoved().await.unwrap() <= began.elapsed());
    until_some_time_is_over().await;
    // Neither is what is known already.
    run.commit("s/2", 1, &[succeeded(1)]).await.unwrap();
    let before = committed.elapsed();
    assert!(unmoved().await.unwrap() >= before);
    // All nodes go, and one comes.
    for node in [node, node + 1] {
        run.leave(node).await.unwrap();
    }
    let began = Instant::now();
    run.join(&worker("c"), None).await.unwrap();
    assert!(unmoved().await.unwrap() <= began.elapsed());
}

pub(super) async fn changed_offer_replaces_the_former(ledger: &dyn Ledger) {
    let (target, run) = (unique("target"), unique("run"));
    ledger.offer(&target, &offer(&run)).await.unwrap();
    let more = Offer { nodes: 7, ..offer(&run) };
    ledger.offer(&target, &more).await.unwrap();
    assert_eq!(
        offered(ledger, &target).await,
        [Offered { offer: more, nodes: 0, known: None, unmoved: None }]
    );
}

pub(super) async fn targets_are_apart(ledger: &dyn Ledger) {
    let (one, other, run) = (unique("target"), unique("target"), unique("run"));
    ledger.offer(&one, &offer(&run)).await.unwrap();
    ledger.begin_to_fill(&one, MINUTE).await.unwrap();
    ledger.offers(&one, Some(&worker("w")), MINUTE).await.unwrap();
    assert_eq!(offered(ledger, &other).await, []);
    assert!(!ledger.offers(&other, None, MINUTE).await.unwrap().are_filled);
    assert_eq!(ledger.idle(&other, MINUTE).await.unwrap(), 0);
    assert_eq!(ledger.idle_workers(&other, MINUTE).await.unwrap(), []);
    let targets = ledger.targets().await.unwrap();
    assert!(targets.contains(&one) && !targets.contains(&other), "{targets:?}");
    ledger.withdraw(&other, &run).await.unwrap();
    assert_eq!(offered(ledger, &one).await.len(), 1);
}

pub(super) async fn idle_workers_are_counted(ledger: &dyn Ledger) {
    let target = unique("target");
    for name in ["a", "b", "a"] {
        ledger.offers(&target, Some(&worker(name)), MINUTE).await.unwrap();
    }
    assert_eq!(ledger.idle(&target, MINUTE).await.unwrap(), 2);
    let idle = ledger.idle_workers(&target, MINUTE).await.unwrap();
    let told: Vec<_> = idle.iter().map(|idle| &idle.info).collect();
    assert_eq!(told, [&worker("b"), &worker("a")], "the longest ago first");
    assert!(idle.iter().all(|idle| idle.silent < MINUTE), "{idle:?}");
    assert!(ledger.targets().await.unwrap().contains(&target));
    eventually("who looked a while ago to be no longer idle", || async {
        ledger.offers(&target, Some(&worker("b")), MINUTE).await.unwrap();
        (ledger.idle(&target, Duration::from_millis(100)).await.unwrap() == 1).then_some(())
    })
    .await;
}

pub(super) async fn one_at_a_time_fills_the_offers(ledger: &dyn Ledger) {
    let target = unique("target");
    assert!(!ledger.offers(&target, None, MINUTE).await.unwrap().are_filled);
    let begun = join_all((0..8).map(|_| ledger.begin_to_fill(&target, MINUTE))).await;
    assert_eq!(begun.into_iter().filter(|begun| *begun.as_ref().unwrap()).count(), 1);
    ledger.filled(&target, MINUTE).await.unwrap();
    assert!(ledger.offers(&target, None, MINUTE).await.unwrap().are_filled);
    assert!(!ledger.begin_to_fill(&target, MINUTE).await.unwrap());
    ledger.filled(&target, Duration::from_millis(200)).await.unwrap();
    eventually("the next comparison", || async {
        ledger.begin_to_fill(&target, MINUTE).await.unwrap().then_some(())
    })
    .await;
}

pub(super) async fn bell_rings_for_what_is_new(ledger: &dyn Ledger) {
    let (target, run) = (unique("target"), unique("run"));
    let mut bell = ledger.bell(&[unique("other"), target.clone()]);
    // It listens as soon as it hears the first of these.
    let heard = async {
        loop {
            tokio::select! {
                () = bell.rings() => return,
                () = tokio::time::sleep(Duration::from_millis(50)) => ledger.ring(&target).await.unwrap(),
            }
        }
    };
    within("the bell rings", heard).await;
    // Some more rings may be under way.
    while tokio::time::timeout(Duration::from_millis(300), bell.rings()).await.is_ok() {}
    ledger.offer(&target, &offer(&run)).await.unwrap();
    within("an offer rings", bell.rings()).await;
    ledger.offer(&target, &offer(&run)).await.unwrap();
    stays_pending("the same offer is no news", bell.rings()).await;
}

pub(super) async fn seats_are_limited(ledger: &dyn Ledger) {
    let job = fresh(ledger, "seats").await;
    assert_eq!(job.take_seat(&worker("a"), seats(2)).await.unwrap(), Some(0));
    assert_eq!(job.take_seat(&worker("b"), seats(2)).await.unwrap(), Some(1));
    assert_eq!(job.take_seat(&worker("c"), seats(2)).await.unwrap(), None);
    assert_eq!(job.take_seat(&worker("a"), seats(2)).await.unwrap(), Some(0), "it has one");
    assert_eq!(job.join(&worker("b"), None).await.unwrap(), 1, "it has one");
    assert_eq!(job.nodes().await.unwrap().len(), 2);
    job.leave(0).await.unwrap();
    assert_eq!(job.take_seat(&worker("c"), seats(2)).await.unwrap(), Some(2), "a seat is free again");
    assert_eq!(job.take_seat(&worker("d"), seats(2)).await.unwrap(), None);
}

pub(super) async fn racing_workers_take_no_more_seats_than_there_are(ledger: &dyn Ledger) {
    let job = fresh(ledger, "race").await;
    let names: Vec<_> = (0..16).map(|number| worker(&format!("w{number}"))).collect();
    let taken = join_all(names.iter().map(|info| job.take_seat(info, seats(5)))).await;
    assert_eq!(taken.into_iter().filter_map(Result::unwrap).count(), 5);
}

pub(super) async fn quiet_node_loses_its_seat(ledger: &dyn Ledger) {
    let job = fresh(ledger, "quiet").await;
    let one = Seats { count: 1, quiet: Duration::from_millis(300) };
    let node = job.take_seat(&worker("a"), one).await.unwrap().unwrap();
    let patient = Seats { quiet: MINUTE, ..one };
    assert_eq!(job.take_seat(&worker("b"), patient).await.unwrap(), None);
    job.heartbeat(node, "a", &NodeReport::default()).await.unwrap();
    eventually("the seat to be free", || async { job.take_seat(&worker("b"), one).await.unwrap() }).await;
}

pub(super) async fn worker_that_is_to_leave_is_told_so(ledger: &dyn Ledger) {
    let (target, run, name) = (unique("target"), unique("run"), unique("worker"));
    let info = worker(&name);
    let job = ledger.job(&run);
    job.create(LIMITS).await.unwrap();
    let node = job.join(&info, None).await.unwrap();
    let other = job.join(&worker(&unique("other")), None).await.unwrap();
    let beat = async || job.heartbeat(node, &name, &NodeReport::default()).await.unwrap().signal;
    assert!(!ledger.offers(&target, Some(&info), MINUTE).await.unwrap().leaves);
    assert_eq!(beat().await, Signal::Run);
    for reason in ["first", "the host is updated"] {
        ledger.drain(&info.instance, reason, MINUTE).await.unwrap();
    }
    assert!(ledger.offers(&target, Some(&info), MINUTE).await.unwrap().leaves);
    assert!(!ledger.offers(&target, None, MINUTE).await.unwrap().leaves);
    assert_eq!(beat().await, Signal::Leave);
    let told = job.nodes().await.unwrap().into_iter().find(|seen| seen.node_id == other).unwrap();
    let others = job.heartbeat(other, &told.info.worker, &NodeReport::default()).await.unwrap();
    assert_eq!(others.signal, Signal::Run, "nobody asked it");
    assert_eq!(ledger.draining().await.unwrap()[&info.instance], "the host is updated");
    // What the job wants of its nodes comes first.
    let canceled = Conclusion { state: JobState::Canceled, reason: "by a test".to_owned() };
    job.conclude(&canceled).await.unwrap();
    assert_eq!(beat().await, Signal::Stop);
}

pub(super) async fn worker_that_ends_is_forgotten(ledger: &dyn Ledger) {
    let (target, info) = (unique("target"), worker(&unique("worker")));
    ledger.offers(&target, Some(&info), MINUTE).await.unwrap();
    ledger.offers(&target, Some(&worker("stays")), MINUTE).await.unwrap();
    ledger.drain(&info.instance, "", MINUTE).await.unwrap();
    for _ in 0..2 {
        ledger.retire(&target, &info).await.unwrap();
    }
    let idle = ledger.idle_workers(&target, MINUTE).await.unwrap();
    assert_eq!(idle.iter().map(|idle| &*idle.info.worker).collect::<Vec<_>>(), ["stays"]);
    assert!(!ledger.draining().await.unwrap().contains_key(&info.instance));
}

pub(super) async fn history_of_a_target_is_noted_once_a_step(ledger: &dyn Ledger) {
    let (target, other) = (unique("target"), unique("target"));
    assert_eq!(ledger.history(&target).await.unwrap(), []);
    let counts = TargetCounts { wanted: 4, live: 2, idle: 1, waiting: 1 << 40 };
    assert!(ledger.note_history(&target, counts).await.unwrap());
    // A new step may begin meanwhile.
    let again = ledger.note_history(&target, TargetCounts::default()).await.unwrap();
    let history = ledger.history(&target).await.unwrap();
    assert_eq!((history.len(), history[0].1), (if again { 2 } else { 1 }, counts));
    assert_eq!(history[0].0 % HISTORY_STEP.as_micros() as u64, 0, "a step begins at a round time");
    assert_eq!(ledger.history(&other).await.unwrap(), []);
}

pub(super) async fn who_asks_for_targets_is_remembered(ledger: &dyn Ledger) {
    let (first, second) = (unique("first"), unique("second"));
    ledger.note_ask(&first).await.unwrap();
    ledger.note_ask(&second).await.unwrap();
    let is_past = async || {
        let ago = ledger.asks().await.unwrap()[&first];
        (ago > Duration::from_millis(20)).then_some(())
    };
    eventually("time passes", is_past).await;
    ledger.note_ask(&first).await.unwrap();
    let asks = ledger.asks().await.unwrap();
    assert!(asks[&first] < asks[&second] && asks[&second] < Duration::from_secs(30), "{asks:?}");
    assert!(!asks.contains_key(&unique("third")));
}
