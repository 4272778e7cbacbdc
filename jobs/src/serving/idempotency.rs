//! Requests that may come twice: who sends one under a key of their own gets one job for it, however often it is sent, by how many
//! servers it is served, and whenever one of them is killed.
//!
//! The registry has an object for each key, `registry/idempotency/<digest>` in the storage of a fleet and
//! `.registry/idempotency/<digest>` beside the runs of this machine. It is made, on condition that there is none, before anything
//! else is done; it tells what the request was, and then the id that was picked for its job. Who is at work on a request writes
//! again every `BEAT`. One that was not written for `DEAD` was left by a server that is gone, and the next request of the same
//! key goes on with the same id: every step behind may be repeated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use prs_common::failpoint;
use prs_common::hexadecimal;
use prs_common::storage::{PutMode, Storage, StorageErrorKind, StorageExt, Version};
use prs_common::timestamp::now_us;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};

/// What the keys of all objects begin with.
const FOLDER: &str = "idempotency/";
/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(2);
/// A request without a sign of life for so long is left.
const DEAD: Duration = Duration::from_secs(10);
/// How long a request is known.
pub const KEPT: Duration = Duration::from_hours(24);
/// Characters of a key at most.
const LONGEST: usize = 255;

/// What is known of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownRequest {
    /// SHA-256 of what was asked.
    fingerprint: String,
    /// When the request came first, microseconds since 1970.
    made_us: u64,
    /// The last sign of life of who is at work on it.
    seen_us: u64,
    /// The job that it is about.
    job_id: Option<String>,
    /// Which start of the job there was before.
    before: Option<u32>,
    /// Whether there was an answer.
    is_done: bool,
}

/// The requests that are known.
#[derive(Debug, Clone)]
pub struct Requests {
    storage: Arc<dyn Storage>,
    runs: Option<PathBuf>,
}

/// What a request is.
#[derive(Debug)]
pub enum Begun {
    /// New, or left by a server that is gone: the caller is to do it.
    Mine(Box<Held>),
    /// Done, about this job.
    Done(String),
    /// At work on, by another request of the same key.
    UnderWay,
    /// Another one than that which the key was used for.
    Other,
}

/// A request that the caller is at work on.
#[derive(Debug)]
pub struct Held {
    requests: Requests,
    key: String,
    entry: KnownRequest,
    version: Version,
}

/// Whether `key` has the form of one: 1 to 255 visible characters of ASCII.
pub fn is_key(key: &str) -> bool {
    (1..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Requests {
    /// Those of the fleet, or those beside the runs of this machine.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn open(whereabouts: &Whereabouts) -> Result<Self, Failure> {
        let storage = registry::storage_of(whereabouts).await?;
        Ok(Self { storage, runs: whereabouts.urls.is_none().then(|| whereabouts.runs.clone()) })
    }

    /// Begins the request `key` in `scope` (who asks, for what), which is to be told from others by `fingerprint`.
    ///
    /// # Errors
    /// The store fails.
    pub async fn begin(&self, scope: &str, key: &str, fingerprint: &str) -> Result<Begun, Failure> {
        if let Some(runs) = &self.runs {
            registry::make(runs)?;
        }
        let digest = Sha256::new().chain_update(scope).chain_update([0]).chain_update(key).finalize();
        let key = format!("{FOLDER}{}", hexadecimal(&digest));
        let now = now_us();
        let new = KnownRequest {
            fingerprint: fingerprint.to_owned(),
            made_us: now,
            seen_us: now,
            job_id: None,
            before: None,
            is_done: false,
        };
        let (entry, mode) = match self.put(&key, &new, PutMode::Create).await? {
            Some(version) => {
                failpoint::pass("request_begun");
                return Ok(self.held(key, new, version));
            }
            None => match self.storage.get_versioned(&key).await {
                // It was forgotten at this moment.
                Err(error) if error.kind == StorageErrorKind::NotFound => (new, PutMode::Create),
                Err(error) => return Err(Failure::server(error)),
                Ok((body, version)) => match serde_json::from_slice::<KnownRequest>(&body).ok() {
                    Some(entry) if now.saturating_sub(entry.made_us) < micros(KEPT) => {
                        if entry.fingerprint != fingerprint {
                            return Ok(Begun::Other);
                        }
                        if entry.is_done
                            && let Some(job_id) = entry.job_id
                        {
                            return Ok(Begun::Done(job_id));
                        }
                        if now.saturating_sub(entry.seen_us) < micros(DEAD) {
                            return Ok(Begun::UnderWay);
                        }
                        (KnownRequest { seen_us: now, ..entry }, PutMode::Update(version))
                    }
                    // Too old, or damaged.
                    _ => (new, PutMode::Update(version)),
                },
            },
        };
        Ok(match self.put(&key, &entry, mode).await? {
            Some(version) => self.held(key, entry, version),
            // Another request was first.
            None => Begun::UnderWay,
        })
    }

    fn held(&self, key: String, entry: KnownRequest, version: Version) -> Begun {
        Begun::Mine(Box::new(Held { requests: self.clone(), key, entry, version }))
    }

    /// Writes an entry; nothing where it is another's meanwhile.
    async fn put(&self, key: &str, entry: &KnownRequest, mode: PutMode) -> Result<Option<Version>, Failure> {
        let body = serde_json::to_vec(entry).map_err(|error| Failure::from(anyhow::Error::from(error)))?;
        match self.storage.put(key, body.into(), mode).await {
            Ok(version) => Ok(Some(version)),
            Err(error)
                if matches!(
                    error.kind,
                    StorageErrorKind::AlreadyExists | StorageErrorKind::Changed | StorageErrorKind::NotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::server(error)),
        }
    }

    /// Removes what is known of requests that are older than [`KEPT`], and tells how many these were.
    ///
    /// # Errors
    /// The store fails.
    pub async fn sweep(&self) -> Result<u64, Failure> {
        let limit = (now_us() / 1_000_000).saturating_sub(KEPT.as_secs());
        let listed: Vec<_> = self.storage.list(FOLDER, "").try_collect().await.map_err(Failure::server)?;
        let is_old = |modified: Option<u64>| modified.is_some_and(|modified| modified <= limit);
        let old: Vec<String> =
            listed.into_iter().filter(|one| is_old(one.modified)).map(|one| one.key).collect();
        self.storage.delete_all(&old).await.map_err(Failure::server)?;
        Ok(old.len() as u64)
    }
}

impl Held {
    /// The job that was picked for it before, by a server that is gone.
    pub fn job_id(&self) -> Option<&str> {
        self.entry.job_id.as_deref()
    }

    /// Which start of that job there was when the request came first.
    pub fn before(&self) -> Option<u32> {
        self.entry.before
    }

    /// Notes which job it is about, before anything of that is made; `before` is its last start where it is there already.
    ///
    /// # Errors
    /// Another request of the key went on in the place of this one, or the store fails.
    pub async fn pick(&mut self, job_id: &str, before: Option<u32>) -> Result<(), Failure> {
        self.entry.job_id = Some(job_id.to_owned());
        self.entry.before = before;
        self.beat().await?;
        failpoint::pass("job_picked");
        Ok(())
    }

    /// Does `work`, and tells others meanwhile that it is at work.
    ///
    /// # Errors
    /// Those of `work`; or another request of the key went on in the place of this one.
    pub async fn keep<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(BEAT) => match self.beat().await {
                    // A store that fails for a moment: the work will notice if it matters.
                    Err(failure) if !failure.is_usage() => {}
                    beaten => beaten?,
                }
            }
        }
    }

    async fn beat(&mut self) -> Result<(), Failure> {
        self.entry.seen_us = now_us();
        let mode = PutMode::Update(self.version.clone());
        match self.requests.put(&self.key, &self.entry, mode).await? {
            Some(version) => {
                self.version = version;
                Ok(())
            }
            None => Err(Failure::wrong(
                "another request with the same Idempotency-Key went on in the place of this one: send it again",
            )),
        }
    }

    /// Notes that it is done, about this job.
    ///
    /// # Errors
    /// As of [`Self::pick`].
    pub async fn done(mut self, job_id: &str) -> Result<(), Failure> {
        failpoint::pass("request_done");
        self.entry.is_done = true;
        self.entry.job_id = Some(job_id.to_owned());
        self.beat().await
    }

    /// Forgets it: nothing came of it, and it may be sent again.
    pub async fn forget(self) {
        // The server that took it over keeps it.
        let current = self.requests.storage.head(&self.key).await;
        if current.is_ok_and(|current| current.version == self.version) {
            let _ = self.requests.storage.delete_all(std::slice::from_ref(&self.key)).await;
        }
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use prs_common::storage::LocalStorage;

    use super::*;

    fn requests(folder: &tempfile::TempDir) -> Requests {
        Requests { storage: Arc::new(LocalStorage::new(folder.path())), runs: None }
    }

    #[tokio::test]
    async fn of_many_one_does_it_and_all_get_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let requests = requests(&folder);
        let begin = |fingerprint: &'static str| requests.begin("a POST /jobs", "k", fingerprint);
        let Begun::Mine(mut held) = begin("x").await.unwrap() else { panic!("it is new") };
        assert!(matches!(begin("x").await.unwrap(), Begun::UnderWay));
        assert!(matches!(begin("y").await.unwrap(), Begun::Other));
        let other = requests.begin("b POST /jobs", "k", "y").await.unwrap();
        assert!(matches!(other, Begun::Mine(_)), "a key belongs to who sends it");
        held.pick("job-1", None).await.unwrap();
        held.done("job-1").await.unwrap();
        let again = begin("x").await.unwrap();
        assert!(matches!(again, Begun::Done(job_id) if job_id == "job-1"));
    }

    #[tokio::test]
    async fn what_a_server_left_is_gone_on_with_under_the_same_id() {
        let folder = tempfile::tempdir().unwrap();
        let requests = requests(&folder);
        let begin = || requests.begin("s", "k", "x");
        let Begun::Mine(mut held) = begin().await.unwrap() else { panic!("it is new") };
        held.pick("job-1", Some(3)).await.unwrap();
        held.entry.seen_us -= micros(DEAD);
        let left = PutMode::Update(held.version.clone());
        held.version = requests.put(&held.key, &held.entry, left).await.unwrap().unwrap();
        let Begun::Mine(next) = begin().await.unwrap() else { panic!("it was left") };
        assert_eq!((next.job_id(), next.before()), (Some("job-1"), Some(3)));
        let lost = held.keep(async {
            tokio::time::sleep(BEAT * 2).await;
            Ok(())
        });
        assert!(lost.await.unwrap_err().to_string().contains("in the place of this one"));
        next.forget().await;
        assert!(matches!(begin().await.unwrap(), Begun::Mine(held) if held.job_id().is_none()));
    }

    #[test]
    fn keys_are_visible() {
        for (key, expected) in [
            ("a", true),
            ("8e03978e-40d5", true),
            ("", false),
            ("a b", false),
            ("\u{e4}", false),
            ("a\n", false),
        ] {
            assert_eq!(is_key(key), expected, "{key:?}");
        }
        assert!(is_key(&"k".repeat(255)) && !is_key(&"k".repeat(256)));
    }
}
