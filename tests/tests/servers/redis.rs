//! The ledger in Redis passes what the embedded one passes, and stands what servers do: refuse, die, come
//! back, forget.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use prs_common::ledger::{
    Blame, Checkpoint, Conclusion, Duty, FailedTry, JobState, Ledger, LedgerError, LedgerErrorKind,
    MiniBatchOutcome, NodeInfo, NodeReport, ObstacleKind, Offer, RedisLedger, TryLimits, Verdict,
};
use prs_tests::deadline::{eventually, stays_pending};
use prs_tests::harness::Redis;
use tokio::task::block_in_place;

mod conformance {
    use prs_common::ledger::RedisLedger;
    use prs_tests::harness::Redis;

    prs_tests::ledger_conformance!((RedisLedger::connect(&Redis::shared().url()).await.unwrap(), ()));
}

const LIMITS: TryLimits = TryLimits { run_max_try: 3, max_node_losses: 3 };
/// Tells the test that a child runs which server is meant.
const TLS_URL: &str = "PRS_TEST_REDISS_URL";

async fn ledger(server: &Redis) -> RedisLedger {
    RedisLedger::connect(&server.url()).await.unwrap()
}

fn succeeded(indexes: std::ops::Range<u64>) -> Vec<MiniBatchOutcome> {
    indexes.map(|index| MiniBatchOutcome { index, succeeded: true, items: 3, items_succeeded: 2 }).collect()
}

/// The error of connecting to `url`, which must come soon and keep the password for itself.
async fn refused(url: &str, kind: LedgerErrorKind, part: &str) -> String {
    let start = Instant::now();
    let error = RedisLedger::connect(url).await.expect_err("the connection must fail");
    assert!(start.elapsed() < Duration::from_secs(15), "it took {:?}", start.elapsed());
    let said = format!("{error} {error:?}");
    assert!(!said.contains("hush"), "{said}");
    assert_eq!(error.kind, kind, "{said}");
    assert_eq!(error.is_retryable(), kind == LedgerErrorKind::Unavailable);
    assert!(said.contains(part), "{part:?} is not in: {said}");
    said
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    use LedgerErrorKind::Unavailable;
    let server = Redis::start();
    let gone = server.url().replace("localhost", "ana:hush@localhost");
    drop(server);
    let said = refused(&gone, Unavailable, "connection refused").await;
    assert!(said.contains(&gone.replace(":hush", "")), "it names the server: {said}");
    refused("redis://ana:hush@no-such-host.invalid", Unavailable, "name of the host is not known").await;
    refused("unix:///no/such/redis.sock?pass=hush", Unavailable, "no such socket").await;

    // One that takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://ana:hush@{}", silent.local_addr().unwrap());
    refused(&url, Unavailable, "in time").await;
    // A Redis without TLS is as silent towards a client that begins with it.
    refused(&url.replace("redis:", "rediss:"), Unavailable, "rediss://").await;
}

#[tokio::test]
async fn a_server_that_does_not_want_us_refuses() {
    use LedgerErrorKind::Refused;
    let server = Redis::start_with(&[
        "requirepass hush",
        "user ana on >hush ~prs:* &prs:* +@all",
        "user open on nopass ~prs:* &prs:* +@all",
        "user reader on >hush ~prs:* &prs:* +@read +@connection +eval +evalsha",
        "user elsewhere on >hush ~other:* +@all",
        "user nothing on >hush +@connection",
        "user off off >hush ~* +@all",
    ]);
    let at = |login: &str, database: &str| format!("redis://{login}localhost:{}{database}", server.port());
    refused(&at("", ""), Refused, "wants a password").await;
    refused(&at(":nohush@", ""), Refused, "password is wrong").await;
    refused(&at("ana:nohush@", ""), Refused, "password is wrong").await;
    refused(&at("nobody:hush@", ""), Refused, "password is wrong").await;
    refused(&at("off:hush@", ""), Refused, "password is wrong").await;
    refused(&at("reader:hush@", ""), Refused, "lacks a right").await;
    refused(&at("elsewhere:hush@", ""), Refused, "lacks a right").await;
    refused(&at("nothing:hush@", ""), Refused, "lacks a right").await;
    refused(&at(":hush@", "/99"), Refused, "no database of this number").await;
    refused(&at(":hush@", "/many"), Refused, "cannot be read").await;
    refused("http://ana:hush@localhost", Refused, "cannot be read").await;
    refused("ana:hush@localhost:6379", Refused, "cannot be read").await;

    for login in [":hush@", "ana:hush@", "open@", "open:@"] {
        let ledger = RedisLedger::connect(&at(login, "/3")).await.unwrap();
        assert!(!format!("{ledger} {ledger:?}").contains("hush"));
        ledger.job(login).create(LIMITS).await.unwrap();
    }
}

/// The user that the documentation of the ledger asks for.
#[tokio::test]
async fn few_rights_are_enough() {
    let server = Redis::start_with(&["user default off", least_rights("prs").as_str()]);
    let url = format!("redis://prs:hush@localhost:{}", server.port());
    let ledger = RedisLedger::connect(&url).await.unwrap();
    every_verb(&ledger, "job").await.unwrap();
    ledger.job("job").remove().await.unwrap();
}

fn least_rights(user: &str) -> String {
    let probe = include_str!("../../../common/src/ledger/redis/lua/probe.lua");
    let called = probe.lines().filter_map(|line| line.strip_prefix("redis.call('")?.split('\'').next());
    let rights: Vec<String> = called.map(|command| format!("+{}", command.to_lowercase())).collect();
    format!(
        "user {user} on >hush ~prs:* &prs:* -@all +subscribe +eval +evalsha +ping +select {}",
        rights.join(" ")
    )
}

/// Makes a job and calls every verb that writes.
async fn every_verb(ledger: &RedisLedger, job: &str) -> Result<(), LedgerError> {
    ledger.job(job).create(LIMITS).await?;
    every_call(ledger, job).await
}

/// The same of a job that is there.
async fn every_call(ledger: &RedisLedger, job: &str) -> Result<(), LedgerError> {
    let failed = FailedTry { index: 7, id: "try".to_owned(), blame: Blame::Code };
    let info = NodeInfo { worker: "w".to_owned(), slots: 4, ..NodeInfo::default() };
    let job = ledger.job(job);
    let minute = Duration::from_mins(1);
    let watch = job.lease(Duty::Watch, "me", minute).await?.expect("it is free");
    let schedule = job.lease(Duty::Schedule, "me", minute).await?.expect("it is free");
    job.set_state(JobState::Running, watch).await?;
    let plan = Checkpoint { scheduled: 10, items: 30, descriptors: 7, complete: true, end: 0 };
    job.checkpoint(plan, schedule).await?;
    job.record_failure(&failed).await?;
    job.begin(8, "start").await?;
    job.begin(9, "start").await?;
    job.abandon(9, "start").await?;
    job.begin(7, "start").await?;
    job.pass_on(7, "start", "service").await?;
    job.noted_tries(7).await?;
    job.commit("a", 1, &succeeded(0..5)).await?;
    job.commit("b", 1, &succeeded(3..7)).await?;
    job.ended(&[0, 1]).await?;
    job.segments(0, usize::MAX).await?;
    let node_id = job.join(&info, None).await?;
    job.heartbeat(node_id, "w", &NodeReport::default()).await?;
    job.leave(node_id).await?;
    job.nodes().await?;
    job.release(Duty::Schedule, "me").await?;
    job.note_obstacle(Some((ObstacleKind::Broker, "why"))).await?;
    job.note_obstacle(None).await?;
    let end = Conclusion { state: JobState::Failed, reason: "why".to_owned() };
    job.conclude(&end).await?;
    job.progress().await?;
    Ok(())
}

#[tokio::test]
async fn a_removed_job_leaves_no_key() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    assert_eq!(server.cli(&["DBSIZE"]), "0", "the probe leaves nothing");
    every_verb(&ledger, "one").await.unwrap();
    every_verb(&ledger, "other").await.unwrap();
    let keys = |job: &str| server.cli(&["--raw", "KEYS", &format!("prs:{{{job}}}:*")]).lines().count();
    assert_eq!(keys("one"), 8, "every kind of key was used:\n{}", server.cli(&["KEYS", "*"]));
    // What did not go through at once is forgotten with its outcome.
    assert_eq!(server.cli(&["HLEN", "prs:{one}:tries"]), "2");
    ledger.job("one").commit("c", 1, &succeeded(7..9)).await.unwrap();
    assert_eq!(server.cli(&["HLEN", "prs:{one}:tries"]), "0");
    for _ in 0..2 {
        ledger.job("one").remove().await.unwrap();
        assert_eq!((keys("one"), keys("other")), (0, 8));
    }
    ledger.job("other").remove().await.unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

/// What is left of a job whose first key is gone does not become part of a new one.
#[tokio::test]
async fn a_job_of_a_former_version_is_seen_and_left_alone() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    ledger.job("new").create(LIMITS).await.unwrap();
    assert_eq!(ledger.job_of_a_former_version().await.unwrap(), None);
    server.cli(&["hset", "prs:{old}:job", "state", "running"]);
    assert_eq!(ledger.job_of_a_former_version().await.unwrap().as_deref(), Some("prs:{old}:job"));
    assert_eq!(server.cli(&["hget", "prs:{old}:job", "state"]).trim(), "running");
    // Who may not look is told nothing.
    server.cli(&["acl", "setuser", "plain", "on", ">word", "~prs:*", "&prs:*", "+@all", "-scan"]);
    let url = format!("redis://plain:word@localhost:{}", server.port());
    let plain = RedisLedger::connect(&url).await.unwrap();
    assert_eq!(plain.job_of_a_former_version().await.unwrap(), None);
}

#[tokio::test]
async fn a_job_is_created_clean() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    every_verb(&ledger, "job").await.unwrap();
    server.cli(&["DEL", "prs:{job}:job"]);
    assert_eq!(ledger.job("job").progress().await.unwrap_err().kind, LedgerErrorKind::NotFound);
    ledger.job("job").create(LIMITS).await.unwrap();
    assert_eq!(ledger.job("job").ended(&[0, 1]).await.unwrap(), [false, false]);
    assert!(ledger.job("job").segments(0, usize::MAX).await.unwrap().is_empty());
    assert!(ledger.job("job").nodes().await.unwrap().is_empty());
}

/// Keys that were deleted or replaced are a ledger that lost the job, not a server that refuses.
#[tokio::test]
async fn a_job_that_is_lost_in_part_is_not_found_and_an_early_end_of_it_stays() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    let damages: [&[&str]; 4] = [
        &["DEL", "prs:{job}:segments"],
        &["LPOP", "prs:{job}:segments"],
        &["SET", "prs:{job}:segments", "none"],
        &["HSET", "prs:{job}:job", "succeeded", "many"],
    ];
    let canceled = Conclusion { state: JobState::Canceled, reason: "canceled by ana".to_owned() };
    for (damage, is_canceled) in damages.into_iter().flat_map(|damage| [(damage, false), (damage, true)]) {
        let job = ledger.job("job");
        job.create(LIMITS).await.unwrap();
        job.commit("a", 1, &succeeded(0..3)).await.unwrap();
        job.commit("b", 1, &succeeded(3..5)).await.unwrap();
        if is_canceled {
            job.conclude(&canceled).await.unwrap();
        }
        server.cli(damage);
        // One that is new, and where that is taken, one that was known.
        let mut committed = job.commit("c", 1, &succeeded(5..6)).await;
        if committed.is_ok() {
            committed = job.commit("a", 1, &succeeded(0..3)).await;
        }
        let lost = committed.expect_err("the damage is found");
        assert_eq!(lost.kind, LedgerErrorKind::NotFound, "{damage:?} {lost}");
        if is_canceled {
            let progress = job.progress().await.unwrap();
            assert_eq!((progress.conclusion.as_ref(), progress.segments), (Some(&canceled), 0), "{damage:?}");
            assert!(progress.concluded_us.is_some());
            job.commit("a", 1, &succeeded(0..3)).await.unwrap();
            assert_eq!(job.progress().await.unwrap().succeeded, 3, "it is filled anew");
            job.remove().await.unwrap();
        } else {
            assert_eq!(server.cli(&["KEYS", "prs:{job}:*"]), "", "{damage:?}");
        }
    }
}

/// Each key that a job has, and each field of it, is deleted or replaced: the offers of its target tell of the others as
/// before, and each call finds the job as it was or lost.
#[tokio::test]
async fn a_job_with_damaged_keys_hides_no_other_and_is_filled_anew() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    let offer = |run: &str| Offer {
        job_id: run.to_owned(),
        incarnation: 1,
        run: run.to_owned(),
        prs_version: String::new(),
        nodes: 1,
        started_us: 1,
    };
    every_verb(&ledger, "good").await.unwrap();
    every_verb(&ledger, "bad").await.unwrap();
    for run in ["good", "bad"] {
        ledger.offer("cpu", &offer(run)).await.unwrap();
    }
    let keys: Vec<String> =
        server.cli(&["--raw", "KEYS", "prs:{bad}:*"]).lines().map(str::to_owned).collect();
    let kinds = ["copies", "open_copies", "statistics", "heard"].map(|kind| format!("prs:{{bad}}:{kind}"));
    let mut damages: Vec<Vec<String>> = Vec::new();
    let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    for key in keys.iter().chain(&kinds) {
        damages.push(command(&["DEL", key]));
        damages.push(command(&["SET", key, "rubbish"]));
        damages.push(command(&[
            "EVAL",
            "redis.call('DEL', KEYS[1]); return redis.call('SADD', KEYS[1], 'x')",
            "1",
            key,
        ]));
        damages.push(command(&[
            "EVAL",
            "redis.call('DEL', KEYS[1]); return redis.call('HSET', KEYS[1], '0', 'x')",
            "1",
            key,
        ]));
        damages.push(command(&[
            "EVAL",
            "redis.call('DEL', KEYS[1]); return redis.call('RPUSH', KEYS[1], 'x')",
            "1",
            key,
        ]));
        if server.cli(&["TYPE", key]).trim() == "hash" {
            for field in server.cli(&["--raw", "HKEYS", key]).lines() {
                // A lease of another program runs out by itself.
                if !field.ends_with(":owner") {
                    damages.push(command(&["HSET", key, field, "rubbish"]));
                }
                damages.push(command(&["HDEL", key, field]));
            }
        }
    }
    assert!(damages.len() > 100, "{damages:?}");
    let found = async |run: &str| {
        let offers = ledger.offers("cpu", None, Duration::from_mins(1)).await.unwrap();
        offers.offered.into_iter().find(|offered| offered.offer.run == run)
    };
    let good = found("good").await.unwrap().known;
    let mut stuck = Vec::new();
    for damage in damages {
        let job = ledger.job("bad");
        job.remove().await.unwrap();
        every_verb(&ledger, "bad").await.unwrap();
        server.cli(&damage.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(found("bad").await.is_some(), "{damage:?}");
        assert_eq!(found("good").await.unwrap().known, good, "{damage:?}");
        let index = 1_000;
        match job.record_failure(&FailedTry { index, id: "a".to_owned(), blame: Blame::Code }).await {
            // A try that failed is no outcome, whatever is known of the job.
            Ok(verdict) => assert!(!matches!(verdict, Verdict::Done), "{damage:?}"),
            Err(error) => assert_eq!(error.kind, LedgerErrorKind::NotFound, "{damage:?} {error}"),
        }
        if let Err(error) = every_call(&ledger, "bad").await {
            assert_eq!(error.kind, LedgerErrorKind::NotFound, "{damage:?} {error}");
        }
        // What is left of it fits together.
        for _ in 0..2 {
            let lost = every_call(&ledger, "bad").await;
            let created = job.create(LIMITS).await.map_err(|error| error.kind);
            let is_there = lost.is_ok() && created == Err(LedgerErrorKind::AlreadyExists);
            if !is_there && created.is_err() {
                stuck.push(format!("{damage:?} {lost:?} {created:?}"));
            }
        }
    }
    assert!(stuck.is_empty(), "{stuck:#?}");
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    ledger.job("job").create(LIMITS).await.unwrap();
    server.cli(&["SCRIPT", "FLUSH"]);
    every_verb(&ledger, "another").await.unwrap();
}

/// What the clients of a server do.
#[derive(Default)]
struct Calls {
    begun: AtomicU64,
    /// With the ledger's word, good or bad.
    answered: AtomicU64,
    given_up: AtomicU64,
    /// How many commits each client may make for now.
    allowed: AtomicU64,
}

impl Calls {
    fn on_their_way(&self) -> u64 {
        // The answers first: there are never more of them than of calls.
        let answered = self.answered.load(Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) - answered
    }

    /// Commits until the ledger has said so.
    async fn commit(&self, ledger: &RedisLedger, key: &str, entries: &[MiniBatchOutcome]) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let said = ledger.job("job").commit(key, 1, entries).await;
            self.answered.fetch_add(1, Ordering::SeqCst);
            let Err(error) = said else { return };
            assert!(error.is_retryable() && Instant::now() < deadline, "{error}");
            self.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_count_once_whatever_happens_to_the_server() {
    const CLIENTS: u64 = 4;
    const COMMITS: u64 = 500;
    const EACH: u64 = 20;
    const DEATHS: u32 = 4;
    // What a commit was told is on the disk.
    let server = Redis::start_with(&["appendfsync always"]);
    let first = ledger(&server).await;
    first.job("job").create(LIMITS).await.unwrap();
    let calls = Arc::new(Calls::default());
    // Halfway from one death to the next: however late that comes, there is work left.
    let allow = |death: u32| {
        let allowed = COMMITS * u64::from(2 * death + 1) / u64::from(2 * (DEATHS + 1));
        calls.allowed.store(allowed, Ordering::SeqCst);
    };
    allow(1);
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (ledger, calls) = (ledger(&server).await, Arc::clone(&calls));
        // Each commit overlaps half of the one before: some are lost in each.
        clients.push(tokio::spawn(async move {
            for number in 0..COMMITS {
                while number >= calls.allowed.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let start = (client * COMMITS + number) * EACH;
                let entries = succeeded(start.saturating_sub(EACH / 2)..start + EACH);
                calls.commit(&ledger, &format!("{client}/{number}"), &entries).await;
            }
        }));
    }
    let all = CLIENTS * COMMITS;
    for death in 1..=DEATHS {
        // At a fifth, two fifths, ... of the work: in its middle, whatever the machine does.
        let due = all * u64::from(death) / u64::from(DEATHS + 1);
        while first.job("job").progress().await.unwrap().segments < due {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        block_in_place(|| server.kill());
        allow(death + 1);
        eventually("a call while the server is down", async || (calls.on_their_way() > 0).then_some(()))
            .await;
        if death == 1 {
            let given_up = async || (calls.given_up.load(Ordering::SeqCst) > 0).then_some(());
            eventually("a call that is given up", given_up).await;
        }
        block_in_place(|| server.restart());
    }
    join_all(clients).await.into_iter().for_each(Result::unwrap);
    let begun = calls.begun.load(Ordering::SeqCst);
    assert!(begun > all, "{begun} calls for {all} commits: none met the outage");

    let all = CLIENTS * COMMITS * EACH;
    let counts = first.job("job").progress().await.unwrap();
    assert_eq!((counts.succeeded, counts.failed, counts.segments), (all, 0, CLIENTS * COMMITS));
    assert_eq!((counts.items, counts.items_succeeded), (3 * all, 2 * all));
    let lost: usize = first
        .job("job")
        .segments(0, usize::MAX)
        .await
        .unwrap()
        .iter()
        .map(|segment| segment.duplicates.len())
        .sum();
    assert_eq!(lost as u64, (CLIENTS * COMMITS - 1) * EACH / 2, "what overlaps was lost once");
    assert!(
        first.job("job").ended(&(0..all).collect::<Vec<_>>()).await.unwrap().into_iter().all(|ended| ended)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_is_waited_for_and_a_long_one_is_told() {
    let server = Redis::start_with(&["appendfsync always"]);
    let ledger = ledger(&server).await;
    ledger.job("job").create(LIMITS).await.unwrap();
    server.kill();
    let start = Instant::now();
    let error = ledger.job("job").state().await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() > Duration::from_secs(4) && start.elapsed() < Duration::from_secs(15));
    let mut waiting = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.job("job").state().await }
    });
    stays_pending("an answer of a server that is down", &mut waiting).await;
    block_in_place(|| server.restart());
    assert_eq!(waiting.await.unwrap().unwrap(), JobState::Queued);
}

#[tokio::test]
async fn a_server_that_answers_no_more_is_left() {
    let server = Redis::start_with(&["appendfsync always"]);
    let ledger = ledger(&server).await;
    ledger.job("job").create(LIMITS).await.unwrap();
    server.cli(&["CLIENT", "PAUSE", "600000", "ALL"]);
    let start = Instant::now();
    let error = ledger.job("job").state().await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    server.kill();
    server.restart();
    assert_eq!(ledger.job("job").state().await.unwrap(), JobState::Queued);
}

#[tokio::test]
async fn a_wiped_ledger_knows_nothing_and_works() {
    let server = Redis::start();
    let ledger = ledger(&server).await;
    every_verb(&ledger, "job").await.unwrap();
    server.wipe_and_restart();
    assert_eq!(ledger.job("job").state().await.unwrap_err().kind, LedgerErrorKind::NotFound);
    let late = ledger.job("job").commit("z", 1, &succeeded(0..5)).await;
    assert_eq!(late.unwrap_err().kind, LedgerErrorKind::NotFound);
    every_verb(&ledger, "job").await.unwrap();
    assert_eq!(ledger.job("job").progress().await.unwrap().succeeded, 7);
}

#[tokio::test]
async fn a_million_mini_batches_fit_into_little_memory() {
    const ALL: u64 = 1_000_000;
    const EACH: u64 = 4096;
    let server = Redis::start();
    let ledger = ledger(&server).await;
    ledger.job("job").create(LIMITS).await.unwrap();
    let used = || {
        let info = server.cli(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().to_owned();
        line.parse::<u64>().unwrap()
    };
    let before = used();
    for first in (0..ALL).step_by(EACH as usize) {
        let entries = succeeded(first..(first + EACH).min(ALL));
        assert!(
            ledger
                .job("job")
                .commit(&format!("segments/{first}"), 1 << 23, &entries)
                .await
                .unwrap()
                .is_empty()
        );
    }
    let keys: u64 = ["job", "ended", "segments", "segment_keys"]
        .map(|kind| server.cli(&["MEMORY", "USAGE", &format!("prs:{{job}}:{kind}"), "SAMPLES", "0"]))
        .iter()
        .map(|bytes| bytes.parse::<u64>().unwrap())
        .sum();
    let grown = used().saturating_sub(before);
    assert_eq!(ledger.job("job").progress().await.unwrap().succeeded, ALL);
    assert!(keys < 1 << 20, "{keys} bytes");
    assert!(grown < 20 << 20, "{grown} bytes");
}

#[tokio::test]
async fn tls_is_spoken_to_servers_that_can_be_trusted() {
    let server = Redis::start_with_tls();
    refused(&server.url(), LedgerErrorKind::Refused, "SSL_CERT_FILE").await;
    let plain = server.url().replace("rediss:", "redis:");
    let error = RedisLedger::connect(&plain).await.unwrap_err();
    assert!(error.to_string().contains("rediss://") || error.to_string().contains("protocol"), "{error}");

    // The variable is read by the process, so another one has to have it.
    let trusting = |url: String| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                &format!("{}::connects_by_tls", module_path!().replacen("servers::", "", 1)),
                "--ignored",
            ])
            .env("SSL_CERT_FILE", server.authority())
            .env(TLS_URL, url)
            .output()
            .unwrap()
    };
    let trusted = trusting(server.url());
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stdout));
    // The certificate is for another name.
    let other = trusting(server.url().replace("localhost", "127.0.0.1"));
    let said = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(!other.status.success() && said.contains("for the name in the URL"), "{said}");
}

#[tokio::test]
#[ignore = "run by tls_is_spoken_to_servers_that_can_be_trusted, in a process that trusts the server"]
async fn connects_by_tls() {
    let url = std::env::var(TLS_URL).unwrap();
    let ledger = RedisLedger::connect(&url).await.unwrap_or_else(|error| panic!("{error}"));
    every_verb(&ledger, "tls").await.unwrap();
}

#[tokio::test]
async fn a_log_in_that_was_good_may_be_good_again() {
    let server = Redis::start();
    let ledger = RedisLedger::connect(&server.url()).await.unwrap();
    ledger.job("job").create(LIMITS).await.unwrap();
    server.cli(&["config", "set", "requirepass", "another"]);
    server.cli(&["-a", "another", "client", "kill", "type", "normal"]);
    let error = ledger.job("job").state().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    for part in ["NOAUTH", "the same was accepted before"] {
        assert!(error.to_string().contains(part), "{part:?} is not said: {error}");
    }
    // A client that comes now was never accepted.
    refused(&server.url(), LedgerErrorKind::Refused, "wants a password").await;
    server.cli(&["-a", "another", "config", "set", "requirepass", ""]);
    assert_eq!(ledger.job("job").state().await.unwrap(), JobState::Queued);
}

#[tokio::test]
async fn a_right_that_was_there_may_come_back() {
    let server = Redis::start_with(&["user ana on >hush allkeys allchannels +@all"]);
    let url = server.url().replace("redis://", "redis://ana:hush@");
    let ledger = RedisLedger::connect(&url).await.unwrap();
    ledger.job("job").create(LIMITS).await.unwrap();
    server.cli(&["acl", "setuser", "ana", "-hmget", "-hget", "-hset", "-hgetall", "-exists"]);
    let error = ledger.job("job").progress().await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("the same was accepted before"), "{error}");
    server.cli(&["acl", "setuser", "ana", "+@all"]);
    ledger.job("job").progress().await.unwrap();
}
