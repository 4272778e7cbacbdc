//! The servers behind calls on jobs, as their operators see them: storage, ledger and broker of a fleet, or the folder of the
//! runs of this machine. Nothing is written, and passwords are left out of places.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use prs_common::queue::{DEAD_LETTERS, Queue, QueueErrorKind};
use prs_common::servers::{ServerUrls, broker_place, ledger_place, open_broker};
use prs_common::storage::{LocalStorage, Room, Storage, StorageErrorKind};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::failure::Failure;
use crate::homes::Whereabouts;
use crate::homes::fleet::Reader;

/// How long a server may take for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// An object that need not be there: a store that says so answers.
const PROBE: &str = ".prs-probe-read";

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dependency {
    /// It holds what lasts.
    Storage,
    /// It knows what happens.
    Ledger,
    /// It carries mini-batches.
    Broker,
}

impl Dependency {
    /// All of a fleet.
    pub const ALL: [Self; 3] = [Self::Storage, Self::Ledger, Self::Broker];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Ledger => "ledger",
            Self::Broker => "broker",
        }
    }
}

/// A server as it was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerView {
    /// What it is for.
    pub dependency: Dependency,
    /// What it is: `s3`, `folder`, `redis` or `rabbitmq`.
    pub kind: &'static str,
    /// Where it is, without its password; nothing of a URL that cannot be read.
    pub place: Option<String>,
    /// Whether it answers.
    pub reachable: bool,
    /// Why it does not.
    pub problem: Option<String>,
    /// How long its answer took, seconds.
    pub latency_seconds: Option<f64>,
    /// Its version, where it tells.
    pub version: Option<String>,
    /// What it has room for, where it tells.
    pub room: ServerRoom,
}

/// What a server has room for. What does not apply to it, and what it does not tell, is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerRoom {
    /// Bytes of memory that a ledger uses.
    pub memory_bytes: Option<u64>,
    /// Bytes that it may use.
    pub memory_limit_bytes: Option<u64>,
    /// Messages of a broker that no node understood.
    pub dead_messages: Option<u64>,
    /// Bytes that are free where a folder is.
    pub free_bytes: Option<u64>,
    /// Uploads to a bucket that were begun and not finished, those under way among them.
    pub incomplete_uploads: Option<u64>,
}

/// What one answer of a server said, beside that it came.
#[derive(Default)]
struct Said {
    version: Option<String>,
    room: ServerRoom,
}

/// The servers behind calls, and the connection to the broker between two looks.
#[derive(Debug)]
pub struct Servers {
    whereabouts: Whereabouts,
    broker: Mutex<Option<Arc<dyn Queue>>>,
}

impl Servers {
    /// Those of `whereabouts`. Asks nobody yet.
    pub fn new(whereabouts: Whereabouts) -> Self {
        Self { whereabouts, broker: Mutex::default() }
    }

    /// Looks at all of them side by side, for three seconds or so at most.
    pub async fn look(&self) -> Vec<ServerView> {
        let Some(urls) = &self.whereabouts.urls else { return vec![self.folder().await] };
        let (storage, ledger, broker) =
            tokio::join!(self.storage(urls), self.ledger(urls), self.broker(urls));
        vec![storage, ledger, broker]
    }

    /// What the storage of a fleet has room for. That costs a store some requests, and changes slowly.
    ///
    /// # Errors
    /// The storage does not say.
    pub async fn storage_room(&self) -> Result<Room, Failure> {
        let Some(reader) = Reader::connect(&self.whereabouts).await? else { return Ok(Room::default()) };
        let room = timeout(ANSWER, reader.storage().room()).await;
        room.map_err(|_| Failure::server(anyhow::anyhow!("{}", no_answer())))?.map_err(Failure::server)
    }

    /// The folder of the runs of this machine.
    async fn folder(&self) -> ServerView {
        let storage = LocalStorage::new(&self.whereabouts.runs);
        let look = async {
            let Room { free_bytes, .. } = storage.room().await.map_err(words)?;
            Ok(Said { version: None, room: ServerRoom { free_bytes, ..ServerRoom::default() } })
        };
        seen((Dependency::Storage, "folder"), Some(storage.to_string()), look).await
    }

    async fn storage(&self, urls: &ServerUrls) -> ServerView {
        let kind = if urls.storage.starts_with("s3:") { "s3" } else { "folder" };
        // A URL of a storage holds no password; one that is malformed may.
        let place = Some(urls.storage.clone()).filter(|url| !url.contains('@'));
        let look = async {
            let reader = Reader::connect(&self.whereabouts).await.map_err(words)?;
            let Some(reader) = reader else { return Ok(Said::default()) };
            match reader.storage().head(PROBE).await {
                Err(error) if error.kind != StorageErrorKind::NotFound => Err(words(error)),
                _ => Ok(Said::default()),
            }
        };
        Box::pin(seen((Dependency::Storage, kind), place, look)).await
    }

    async fn ledger(&self, urls: &ServerUrls) -> ServerView {
        let look = async {
            let away = || "it gives no answer; it is asked again now and then".to_owned();
            let reader = Reader::connect(&self.whereabouts).await.map_err(words)?;
            let Some(reader) = reader else { return Ok(Said::default()) };
            let ledger = reader.ledger(&*self.whereabouts.caller).await.map_err(words)?.ok_or_else(away)?;
            let (memory, version) = ledger.memory().await.map_err(words)?;
            let room = ServerRoom {
                memory_bytes: memory.map(|memory| memory.used),
                memory_limit_bytes: memory.and_then(|memory| memory.limit),
                ..ServerRoom::default()
            };
            Ok(Said { version: Some(version).filter(|version| !version.is_empty()), room })
        };
        Box::pin(seen((Dependency::Ledger, "redis"), ledger_place(&urls.redis), look)).await
    }

    async fn broker(&self, urls: &ServerUrls) -> ServerView {
        let look = async {
            let mut kept = self.broker.lock().await;
            let queue = match &*kept {
                Some(queue) => Arc::clone(queue),
                None => open_broker(&urls.broker).await.map_err(words)?,
            };
            *kept = Some(Arc::clone(&queue));
            drop(kept);
            let dead = match queue.depth(DEAD_LETTERS).await {
                Ok(depth) => depth.ready,
                // No job has made it yet.
                Err(error) if error.kind == QueueErrorKind::NotFound => 0,
                Err(error) => return Err(words(error)),
            };
            Ok(Said {
                version: None,
                room: ServerRoom { dead_messages: Some(dead), ..ServerRoom::default() },
            })
        };
        Box::pin(seen((Dependency::Broker, "rabbitmq"), broker_place(&urls.broker), look)).await
    }
}

fn words(error: impl Display) -> String {
    error.to_string()
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER.as_secs())
}

/// A server as `look` sees it.
async fn seen(
    (dependency, kind): (Dependency, &'static str),
    place: Option<String>,
    look: impl Future<Output = Result<Said, String>>,
) -> ServerView {
    let began = Instant::now();
    let looked = timeout(ANSWER, look).await.unwrap_or_else(|_| Err(no_answer()));
    let latency = began.elapsed().as_secs_f64();
    let (said, problem) = match looked {
        Ok(said) => (said, None),
        Err(problem) => (Said::default(), Some(problem)),
    };
    let (reachable, Said { version, room }) = (problem.is_none(), said);
    let latency_seconds = reachable.then_some(latency);
    ServerView { dependency, kind, place, reachable, problem, latency_seconds, version, room }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::job::Names;

    use super::*;
    use crate::caller::Unattended;

    fn servers(urls: Option<ServerUrls>, runs: &std::path::Path) -> Servers {
        Servers::new(Whereabouts::new(urls, runs.to_owned(), Names::default(), Arc::new(Unattended)))
    }

    #[tokio::test]
    async fn a_folder_is_a_storage_with_room() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let [seen] = &servers(None, &runs).look().await[..] else { panic!("one is there") };
        assert_eq!((seen.dependency, seen.kind, seen.reachable), (Dependency::Storage, "folder", true));
        assert!(seen.room.free_bytes.is_some_and(|bytes| bytes > 0) && seen.latency_seconds.is_some());
        assert!(!runs.exists(), "nothing is written");
    }

    #[tokio::test]
    async fn servers_that_are_away_are_told_without_their_passwords() {
        let folder = tempfile::tempdir().unwrap();
        let urls = ServerUrls {
            broker: "amqp://ana:hush@127.0.0.1:1/prs".to_owned(),
            redis: "redis://ana:hush@127.0.0.1:1/3".to_owned(),
            storage: format!("file://{}", folder.path().display()),
        };
        let seen = servers(Some(urls), folder.path()).look().await;
        let told: Vec<_> =
            seen.iter().map(|one| (one.dependency.as_str(), one.kind, one.reachable)).collect();
        let expected =
            [("storage", "folder", true), ("ledger", "redis", false), ("broker", "rabbitmq", false)];
        assert_eq!(told, expected);
        let text = serde_json::to_string(&seen).unwrap();
        assert!(text.contains("redis://ana@127.0.0.1:1/3") && !text.contains("hush"), "{text}");
        assert!(seen[1..].iter().all(|one| one.problem.is_some() && one.latency_seconds.is_none()), "{text}");
    }
}
