//! A process that reads jobs of a fleet for weeks: one connection for all its calls, also after Redis was away.

use std::fmt::Display;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prs_common::job::Names;
use prs_common::ledger::Ledger;
use prs_common::servers::ServerUrls;
use prs_jobs::homes::fleet::Reader;
use prs_jobs::{Caller, Whereabouts};
use prs_tests::harness::Redis;
use tempfile::TempDir;

/// Longer than any pause between two looks for a server that is away.
const PATIENCE: Duration = Duration::from_secs(40);
/// What waits for no server takes less.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Remembers what it hears.
#[derive(Debug, Default)]
struct Remembering(Mutex<Vec<String>>);

impl Remembering {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Caller for Remembering {
    fn note(&self, text: &dyn Display) {
        self.0.lock().unwrap().push(text.to_string());
    }
    fn error(&self, text: &dyn Display) {
        panic!("an error: {text}");
    }
}

struct Process {
    redis: Redis,
    caller: Arc<Remembering>,
    whereabouts: Whereabouts,
    _storage: TempDir,
}

impl Process {
    fn start() -> Self {
        let (redis, storage) = (Redis::start(), tempfile::tempdir().unwrap());
        let urls = ServerUrls {
            broker: "amqp://nobody.invalid".to_owned(),
            redis: redis.url(),
            storage: format!("file://{}", storage.path().display()),
        };
        let caller = Arc::new(Remembering::default());
        let heard = Arc::clone(&caller) as Arc<dyn Caller>;
        let whereabouts = Whereabouts::new(Some(urls), PathBuf::new(), Names::default(), heard);
        Self { redis, caller, whereabouts, _storage: storage }
    }

    async fn reader(&self) -> Arc<Reader> {
        Reader::connect(&self.whereabouts.clone()).await.unwrap().unwrap()
    }

    /// What one call gets.
    async fn ledger(&self) -> Option<Arc<dyn Ledger>> {
        self.reader().await.ledger(&*self.caller).await.unwrap()
    }

    /// What is noted once calls get the ledger again.
    async fn is_back(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        while self.ledger().await.is_none() {
            assert!(Instant::now() < deadline, "Redis is back and nobody asks it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.caller.take()
    }
}

#[tokio::test]
async fn a_ledger_that_was_away_from_the_beginning_is_found_when_it_comes() {
    let process = Process::start();
    process.redis.kill();
    assert!(process.ledger().await.is_none());
    let began = Instant::now();
    for _ in 0..20 {
        assert!(process.ledger().await.is_none());
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let notes = process.caller.take();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("cannot use Redis: ") && notes[0].ends_with("; shown is what storage knows")
    );
    assert!(process.reader().await.job_ids().await.unwrap().is_empty(), "storage does meanwhile");

    process.redis.restart();
    let notes = process.is_back().await;
    assert!(notes.len() == 1 && notes[0].starts_with("Redis answers again, after "), "{notes:?}");
    let reader = process.reader().await;
    assert!(Arc::ptr_eq(&reader, &process.reader().await), "all calls share one reader");
    let count = || process.redis.cli(&["client", "list"]).lines().count();
    let before = count();
    for _ in 0..5 {
        process.ledger().await.unwrap().clock().await.unwrap();
    }
    assert_eq!(count(), before, "all calls share one connection");
}

#[tokio::test]
async fn a_ledger_that_goes_is_left_alone_for_a_while() {
    let process = Process::start();
    let ledger = process.ledger().await.unwrap();
    assert!(process.caller.take().is_empty());
    process.redis.kill();
    let reader = process.reader().await;
    for _ in 0..2 {
        let error = ledger.clock().await.unwrap_err();
        reader.without_ledger(error, &*process.caller).unwrap();
    }
    assert_eq!(process.caller.take().len(), 1, "it is noted once");

    // A server that takes connections and says nothing costs one call its patience, and no other.
    let silent = TcpListener::bind(("127.0.0.1", process.redis.port())).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = Instant::now();
    let asking = process.ledger();
    let others = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..20 {
            assert!(process.ledger().await.is_none());
        }
        began.elapsed()
    };
    let (asked, others) = tokio::join!(asking, others);
    assert!(asked.is_none());
    assert!(others < AT_ONCE, "{others:?}");
    assert!((1..5).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    drop(silent);

    process.redis.restart();
    let notes = process.is_back().await;
    assert!(notes.len() == 1 && notes[0].starts_with("Redis answers again, after "), "{notes:?}");
}
