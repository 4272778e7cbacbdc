//! The mark: an object that tells whether a collection is under way, and whether one was.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prs_common::failpoint;
use prs_common::storage::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt, Version};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::GcError;
use crate::job::record::is_conflict;

/// Key of the mark in the storage of a fleet.
const MARK: &str = "gc.json";
/// How often a collection writes the mark while it works.
pub(super) const BEAT: Duration = Duration::from_secs(10);
/// How long one removal may take.
pub(super) const REMOVAL: Duration = Duration::from_secs(45);
/// A collection whose mark was not written for so long is dead. A removal that was begun has ended by then.
pub(super) const DEAD: Duration = Duration::from_mins(2);
/// How long after a mark was written a removal may begin.
pub(super) const PROMPT: Duration = Duration::from_secs(10);
/// How often the mark is written before a removal, while that takes longer.
const ROUNDS: usize = 6;
/// Between two looks at the mark of another collection.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

/// The content of the mark.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Mark {
    /// Grows with every write, so that no two marks are alike.
    number: u64,
    /// Whether a collection is under way.
    collects: bool,
    /// Whose.
    by: String,
}

/// The mark at a time when nobody collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet(Option<Version>);

impl Quiet {
    /// Whether no collection has begun since.
    pub async fn lasts(&self, storage: &dyn Storage) -> Result<bool, StorageError> {
        Ok(read(storage).await?.1 == self.0)
    }
}

/// Waits until nobody collects; `tell` hears of who does.
pub async fn until_quiet(storage: &dyn Storage, tell: &(dyn Fn(&str) + Sync)) -> Result<Quiet, StorageError> {
    Ok(Quiet(quiet_mark(storage, tell).await?.1))
}

async fn read(storage: &dyn Storage) -> Result<(Mark, Option<Version>), StorageError> {
    match storage.get_versioned(MARK).await {
        // What cannot be understood is of another version of prs, and may mean that a program collects.
        Ok((body, version)) => {
            let unknown = Mark { collects: true, by: "another version of prs".to_owned(), ..Mark::default() };
            Ok((serde_json::from_slice(&body).unwrap_or(unknown), Some(version)))
        }
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok((Mark::default(), None)),
        Err(error) => Err(error),
    }
}

/// Writes `mark` over the one with this version; nothing where there is another one by now.
async fn write(
    storage: &dyn Storage,
    mark: &Mark,
    over: Option<Version>,
) -> Result<Option<Version>, StorageError> {
    let body = Bytes::from(serde_json::to_vec(mark).expect("a mark holds only plain values"));
    match storage.put(MARK, body.into(), over.map_or(PutMode::Create, PutMode::Update)).await {
        Ok(version) => Ok(Some(version)),
        Err(error) if is_conflict(error.kind) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn quiet_mark(
    storage: &dyn Storage,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<(Mark, Option<Version>), StorageError> {
    let mut watched: Option<(Option<Version>, Instant)> = None;
    loop {
        let (mark, version) = read(storage).await?;
        if !mark.collects {
            return Ok((mark, version));
        }
        match &watched {
            Some((seen, since)) if *seen == version => {
                if since.elapsed() > DEAD {
                    let idle = Mark { number: mark.number + 1, ..Mark::default() };
                    write(storage, &idle, version).await?;
                }
            }
            _ => {
                if watched.is_none() {
                    tell(&mark.by);
                }
                watched = Some((version, Instant::now()));
            }
        }
        sleep(MARK_INTERVAL).await;
    }
}

/// A collection under way, of this program.
pub(super) struct Collecting {
    storage: Arc<dyn Storage>,
    mark: Mark,
    version: Version,
    /// When the mark was last written.
    written: Instant,
}

impl Collecting {
    /// Begins a collection, once no other is under way.
    pub(super) async fn begin(
        storage: Arc<dyn Storage>,
        by: &str,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, GcError> {
        loop {
            let (before, over) = quiet_mark(&*storage, tell).await?;
            let mark = Mark { number: before.number + 1, collects: true, by: by.to_owned() };
            if let Some(version) = write(&*storage, &mark, over).await? {
                failpoint::pass("gc_begun");
                return Ok(Self { storage, mark, version, written: Instant::now() });
            }
        }
    }

    /// Does `work`, which removes nothing, and shows that this program lives.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, GcError> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                // A mark that is due comes before work that is done at once, however often that is asked for.
                biased;
                () = sleep_until(self.written + BEAT) => self.beat().await?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Removes objects, if this program still is the one that collects.
    pub(super) async fn remove(&mut self, keys: Vec<String>) -> Result<(), GcError> {
        if keys.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let began = Instant::now();
            self.beat().await?;
            failpoint::pass("gc_removes");
            if began.elapsed() < PROMPT {
                let removed = timeout(REMOVAL, self.storage.delete_all(&keys)).await;
                return removed.map_err(|_| GcError::Unanswered)?.map_err(GcError::Removal);
            }
        }
        Err(GcError::Slow)
    }

    /// Says that nobody collects any more.
    pub(super) async fn end(mut self) -> Result<(), GcError> {
        self.mark.collects = false;
        self.beat().await
    }

    async fn beat(&mut self) -> Result<(), GcError> {
        self.mark.number += 1;
        let written = write(&*self.storage, &self.mark, Some(self.version.clone())).await?;
        self.version = written.ok_or(GcError::TakenOver)?;
        self.written = Instant::now();
        Ok(())
    }
}
