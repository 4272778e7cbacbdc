//! The log of a Delta table, read once, when a job is submitted (MLTable's `read_delta_lake`, dialects B.2).
//!
//! What comes of it is pinned: the version, its columns, and its files, which become the manifest of the input. What is
//! written to the table later changes nothing. What is in the files of a log is read by `prs_tabular::delta`; here they are
//! found and fetched, from a folder or a bucket alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::dataset::mltable::{AsOf, DeltaColumn, DeltaTable};
use prs_common::dataset::names;
use prs_common::dataset::remote::RemotePath;
use prs_common::job::{Input, InputSource};
use prs_common::mini_batch::StoreRef;
use prs_common::storage::{LocalStorage, Storage, StorageExt};
use prs_common::timestamp::format_us;
use prs_tabular::delta::{
    DeltaError, LOG, Log, Replay, Snapshot, TimeSource, TimeTravelError, at_time, commit_name, in_commit_time,
};

use super::manifest::{Source, Store};
use super::resolve::ResolveCause;
use super::stores::InputStores;

/// Files of a log that are fetched side by side.
const FETCHED_AT_ONCE: usize = 8;

/// A version of a table, and where its files are.
pub(super) struct Table {
    /// What its log says.
    pub(super) snapshot: Snapshot,
    /// What its files have in common.
    pub(super) source: Source,
    /// As an MLTable has it.
    pub(super) described: DeltaTable,
}

/// What an input asks for whose log is still to be read.
pub(super) fn unread(input: &Input) -> Option<&DeltaTable> {
    let is_named = matches!(input.source, InputSource::Paths(_) | InputSource::Remote(_));
    input.mltable.as_ref()?.delta.as_ref().filter(|_| is_named)
}

/// Reads the log of the table that `input` names, as far as `asked` takes it.
pub(super) async fn read(
    input: &Input,
    asked: &DeltaTable,
    stores: &InputStores,
) -> Result<Table, ResolveCause> {
    let place = TableLocation::of(&input.source, stores).await?;
    let log = place.log().await?;
    let version = match &asked.as_of {
        AsOf::Version(version) => *version,
        AsOf::Timestamp { text, milliseconds } => place.version_at(&log, (text, *milliseconds)).await?,
    };
    let replay = place.replay(&log, version).await?;
    let snapshot = replay.finish(version).map_err(|error| place.wrong(&error))?;
    if snapshot.files.is_empty() {
        return Err(place.wrong(&format!(
            "version {version} of the table has no file, so there is nothing to run on: give another version"
        )));
    }
    let unusable = |path: &str| {
        names::unusable(path).map(|reason| ResolveCause::name(&format!("{}{path}", place.origin), reason))
    };
    if let Some(error) = snapshot.files.iter().find_map(|file| unusable(&file.path)) {
        return Err(error);
    }
    let snapshot = place.look_for_files(snapshot).await?;
    let columns = snapshot.columns.iter().cloned();
    let columns =
        columns.map(|one| DeltaColumn { name: one.name, kind: one.kind, is_partition: one.is_partition });
    let described =
        DeltaTable { as_of: asked.as_of.clone(), version: Some(version), columns: columns.collect() };
    let TableLocation { bucket, prefix, origin, .. } = place;
    let store = bucket.map_or(Store::Local, Store::Url);
    Ok(Table { snapshot, source: Source { store, prefix, origin, mixes: false }, described })
}

/// Where a table is.
struct TableLocation {
    store: Arc<dyn Storage>,
    /// The store as a manifest has it; nothing for a folder of this machine.
    bucket: Option<String>,
    /// What the keys of its files begin with.
    prefix: String,
    /// What their names begin with.
    origin: String,
}

impl TableLocation {
    async fn of(source: &InputSource, stores: &InputStores) -> Result<Self, ResolveCause> {
        let InputSource::Remote(urls) = source else {
            let label = source.label();
            let folder = label.trim_end_matches('/');
            let store = Arc::new(LocalStorage::new(folder));
            return Ok(Self { store, bucket: None, prefix: String::new(), origin: format!("{folder}/") });
        };
        let url = urls.first().map(String::as_str).unwrap_or_default();
        let url = RemotePath::parse(url).map_err(|reason| ResolveCause::name(url, &reason))?;
        let store = stores.get(StoreRef::Url(&url.bucket)).await?;
        let folder = url.key.trim_end_matches('/');
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let origin = format!("{}/{prefix}", url.bucket);
        Ok(Self { store, bucket: Some(url.bucket), prefix, origin })
    }

    fn wrong(&self, reason: &dyn ToString) -> ResolveCause {
        let table = self.origin.trim_end_matches('/').to_owned();
        ResolveCause::Delta { table, reason: reason.to_string() }
    }

    /// The files of the log, and when each commit was written, milliseconds since 1970, in the order of their versions.
    async fn log(&self) -> Result<(Log, Vec<(u64, i64)>), ResolveCause> {
        let folder = format!("{}{LOG}", self.prefix);
        let (mut log, mut times) = (Log::default(), Vec::new());
        let mut objects = self.store.list(&folder, "");
        while let Some(object) = objects.try_next().await? {
            let Some(name) = object.key.strip_prefix(&folder) else { continue };
            if let Some(version) = log.add(name) {
                // Servers tell seconds.
                let seconds = object.modified.unwrap_or_default() as i64;
                times.push((version, self.written(name).unwrap_or(seconds.saturating_mul(1_000))));
            }
        }
        times.sort_unstable();
        Ok((log, times))
    }

    /// When a commit on this machine was written.
    fn written(&self, name: &str) -> Option<i64> {
        if self.bucket.is_some() {
            return None;
        }
        let path = PathBuf::from(format!("{}{LOG}{name}", self.origin));
        let modified = std::fs::metadata(path).ok()?.modified().ok()?;
        i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }

    /// The key of a file of the log.
    fn key(&self, name: &str) -> String {
        format!("{}{LOG}{name}", self.prefix)
    }

    /// What the log says up to `version`.
    async fn replay(&self, (log, _): &(Log, Vec<(u64, i64)>), version: u64) -> Result<Replay, ResolveCause> {
        let names = log.files_of(version).map_err(|error| self.wrong(&error))?;
        let fetch = |name: String| {
            let (store, key) = (Arc::clone(&self.store), self.key(&name));
            async move { store.get(&key).await.map(|bytes| (bytes, name)) }
        };
        let mut fetched = std::pin::pin!(stream::iter(names).map(fetch).buffered(FETCHED_AT_ONCE));
        let mut replay = Replay::default();
        while let Some((bytes, name)) = fetched.try_next().await? {
            // A checkpoint may be large.
            let read = tokio::task::spawn_blocking(move || {
                replay.add(&name, bytes)?;
                Ok::<_, DeltaError>(replay)
            });
            let read = read.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            replay = read.map_err(|error| self.wrong(&error))?;
        }
        Ok(replay)
    }

    /// The version that the table had at the time `wanted`.
    async fn version_at(
        &self,
        log: &(Log, Vec<(u64, i64)>),
        wanted: (&str, i64),
    ) -> Result<u64, ResolveCause> {
        let (first, last) = log.0.versions().map_err(|error| self.wrong(&error))?;
        let commits: Vec<(u64, i64)> =
            log.1.iter().copied().filter(|(version, _)| *version >= first).collect();
        let found = match self.replay(log, last).await?.times() {
            TimeSource::Files => at_time(&commits, wanted.1),
            TimeSource::Commits { since: Some((since, time)) } if wanted.1 < time => {
                let before: Vec<(u64, i64)> =
                    commits.into_iter().filter(|(version, _)| *version < since).collect();
                let found = at_time(&before, wanted.1);
                // What is later than these is before those that say their times.
                found.map(|found| {
                    found.or_else(|error| match error {
                        TimeTravelError::After(version, _) => Ok(version),
                        TimeTravelError::Before(..) => Err(error),
                    })
                })
            }
            TimeSource::Commits { since } => {
                let since = since.map_or(0, |(version, _)| version);
                let versions =
                    commits.into_iter().map(|(version, _)| version).filter(|version| *version >= since);
                self.at_own_time(&versions.collect::<Vec<_>>(), wanted.1).await?
            }
        };
        let (text, shown) =
            (wanted.0, |time: i64| format_us(u64::try_from(time).unwrap_or_default().saturating_mul(1_000)));
        match found {
            Some(Ok(version)) => Ok(version),
            Some(Err(TimeTravelError::Before(version, time))) => Err(self.wrong(&format!(
                "timestamp_as_of: {text} is before version {version}, the first that its log tells, which is of {}: give a \
                 time from then on, or version_as_of",
                shown(time)
            ))),
            Some(Err(TimeTravelError::After(version, time))) => Err(self.wrong(&format!(
                "timestamp_as_of: {text} is after version {version}, the last one, which is of {}, and the table may still get \
                 versions before that: give a time up to then, or version_as_of: {version}",
                shown(time)
            ))),
            None => Err(self.wrong(&format!(
                "timestamp_as_of: {text}: its log has no commit of that time any more: give version_as_of, {first} to {last}"
            ))),
        }
    }

    /// The same among `versions`, whose commits say their times, each a later one than that before.
    async fn at_own_time(
        &self,
        versions: &[u64],
        wanted: i64,
    ) -> Result<Option<Result<u64, TimeTravelError>>, ResolveCause> {
        let (Some(first), Some(last)) = (versions.first(), versions.last()) else { return Ok(None) };
        let time = self.own_time(*last).await?;
        if time <= wanted {
            return Ok(Some(if time == wanted {
                Ok(*last)
            } else {
                Err(TimeTravelError::After(*last, time))
            }));
        }
        let time = self.own_time(*first).await?;
        if time > wanted {
            return Ok(Some(Err(TimeTravelError::Before(*first, time))));
        }
        // The one at `from` is not later, the one at `to` is.
        let (mut from, mut to) = (0, versions.len() - 1);
        while to - from > 1 {
            let middle = usize::midpoint(from, to);
            if self.own_time(versions[middle]).await? <= wanted { from = middle } else { to = middle }
        }
        Ok(Some(Ok(versions[from])))
    }

    async fn own_time(&self, version: u64) -> Result<i64, ResolveCause> {
        let name = commit_name(version);
        let time = in_commit_time(&name, &self.store.get(&self.key(&name)).await?)
            .map_err(|error| self.wrong(&error))?;
        time.ok_or_else(|| {
            self.wrong(&format!(
                "the table keeps the times of its commits in them (delta.enableInCommitTimestamps), and _delta_log/{name} has no \
                 inCommitTimestamp: give version_as_of"
            ))
        })
    }

    /// Refuses files that the log names and this machine does not have. Those of a bucket are looked for when they are
    /// planned.
    async fn look_for_files(&self, snapshot: Snapshot) -> Result<Snapshot, ResolveCause> {
        if self.bucket.is_some() {
            return Ok(snapshot);
        }
        let origin = self.origin.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let missing =
                snapshot.files.iter().find(|file| !PathBuf::from(format!("{origin}{}", file.path)).is_file());
            match missing {
                Some(file) => Err((file.path.clone(), snapshot.version)),
                None => Ok(snapshot),
            }
        });
        let looked = looked.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        looked.map_err(|(path, version)| {
            self.wrong(&format!("version {version} has the file {path}, which is not there{VACUUMED}"))
        })
    }
}

/// What a file that is not there may mean.
pub(crate) const VACUUMED: &str = ": VACUUM removes files of former versions, so give a later one";
