//! The output of a former job, given to another (spec P3): what files it is made of, and a copy of them that is checked.
//!
//! A copy has what the former job wrote, or it is none: the result has its SHA-256 in the record, the files of mini-batches
//! have their checksums in the list that was made when they were published, and the list has its SHA-256 in the record.
//! Nothing of a copy that failed is left.

use std::sync::Mutex;

use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::checksum::Crc32c;
use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::storage::{GetOptions, PutMode, Storage, StorageError, StorageErrorKind, StorageExt, pieces};
use prs_common::{hexadecimal, layout};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::NEW;
use crate::JobContext;
use crate::job::record::{JobRecord, JobRecordError};

/// Files copied side by side.
pub(super) const COPIED_AT_ONCE: usize = 16;
/// Bytes of a file that are read at a time.
const PIECE: u64 = 4 << 20;

/// A file that mini-batches brought to an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BroughtFile {
    /// Its name there.
    pub(super) name: String,
    /// Bytes.
    pub(super) size: u64,
    /// CRC32C.
    pub(super) crc: u32,
}

/// Lists the files that this start of the job brought, for whatever reads its output.
pub(super) async fn note(job: &JobContext, mut brought: Vec<BroughtFile>) -> Result<(), StorageError> {
    brought.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    put_list(&*job.storage, job.incarnation, &brought).await.map(drop)
}

async fn put_list(
    storage: &dyn Storage,
    incarnation: u32,
    brought: &[BroughtFile],
) -> Result<String, StorageError> {
    let body = serde_json::to_vec(brought).expect("names and numbers");
    let checksum = hexadecimal(&Sha256::digest(&body));
    storage.put(&layout::output_files(incarnation), body.into(), PutMode::Overwrite).await?;
    Ok(checksum)
}

/// Returns the checksum of the list of the files that this start of the job brought, if it brought any.
pub(crate) async fn list_of(job: &JobContext) -> Result<Option<String>, StorageError> {
    super::checksum_of(&*job.storage, &layout::output_files(job.incarnation)).await
}

/// Why a former job cannot give its output.
#[derive(Debug, thiserror::Error)]
pub enum FormerError {
    /// There is nothing in it: the script keeps its results elsewhere, where no other job can have them from.
    #[error("it has no files in its output")]
    Nothing,
    /// The list of its files is gone, or is not what the job wrote.
    #[error("{0}, the list of its files, is not what the job wrote")]
    List(String),
    /// A file is not there any more.
    #[error("{0} is gone")]
    Gone(String),
    /// A file is not what the job wrote.
    #[error("{0} is not what the job wrote")]
    Changed(String),
    /// Something has the name in the new output.
    #[error("{0} exists already")]
    Exists(String),
    /// A store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// What a file has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// This SHA-256, in hexadecimal, and size.
    Sha256(String, u64),
    /// This CRC32C, and size.
    Crc(u32, u64),
}

impl Content {
    /// Returns the bytes that it has.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Sha256(_, size) | Self::Crc(_, size) => *size,
        }
    }
}

/// The files of a former job's output, by their names there.
#[derive(Debug)]
pub struct FormerOutput(pub(super) Vec<(String, Content)>);

impl FormerOutput {
    /// Those of the job of `record`, which is in `storage`; of one whose rows were put together in steps, its last step is.
    pub async fn of(record: &JobRecord, storage: &dyn Storage) -> Result<Self, FormerError> {
        let files = Self::all_of(record, storage).await?;
        if files.0.is_empty() { Err(FormerError::Nothing) } else { Ok(files) }
    }

    /// The same, also where there are none.
    pub(super) async fn all_of(record: &JobRecord, storage: &dyn Storage) -> Result<Self, FormerError> {
        let step = match record.main_step() {
            // The step may have been started another number of times.
            Some(_) => Some(JobRecord::read(storage).await.map_err(|error| match error {
                JobRecordError::Storage(error) => FormerError::Storage(error),
                error => FormerError::Gone(error.to_string()),
            })?),
            None => None,
        };
        let record = step.as_ref().unwrap_or(record);
        let mut files = Vec::new();
        let output = record.result.as_ref().map(|result| &result.output);
        if let Some((output, sha256)) = output.and_then(|output| Some((output, output.sha256.clone()?))) {
            files.push((record.spec.append_row_file_name.clone(), Content::Sha256(sha256, output.bytes)));
        }
        let Some(checksum) = &record.brought else { return Ok(Self(files)) };
        let list = layout::output_files(record.result_start());
        let body = match storage.get(&list).await {
            Ok(body) if hexadecimal(&Sha256::digest(&body)) == *checksum => body,
            Ok(_) => return Err(FormerError::List(list)),
            Err(error) if error.is_damage() => return Err(FormerError::List(list)),
            Err(error) => return Err(error.into()),
        };
        let brought: Vec<BroughtFile> = serde_json::from_slice(&body).map_err(|_| FormerError::List(list))?;
        files.extend(brought.into_iter().map(|file| (file.name, Content::Crc(file.crc, file.size))));
        Ok(Self(files))
    }

    /// Lists the files of mini-batches among them for the job in `storage`, which was given them and may give them on; returns
    /// the checksum of the list.
    pub async fn note(&self, storage: &dyn Storage, incarnation: u32) -> Result<Option<String>, FormerError> {
        let brought: Vec<BroughtFile> = (self.0.iter())
            .filter_map(|(name, content)| match content {
                Content::Crc(crc, size) => Some(BroughtFile { name: name.clone(), size: *size, crc: *crc }),
                Content::Sha256(..) => None,
            })
            .collect();
        if brought.is_empty() {
            return Ok(None);
        }
        Ok(Some(put_list(storage, incarnation, &brought).await?))
    }

    /// Copies all of them from one store to another.
    pub async fn copy(&self, from: &dyn Storage, to: &dyn Storage) -> Result<(), FormerError> {
        self.bring(to, async |name: &str, content: &Content| {
            copy_checked((from, name), (to, name), content).await
        })
        .await
    }

    /// Copies all of them within `store`, from the folder `from` to the folder `to`, whose names end with `/`; the store
    /// does that itself, and what came of it is checked.
    pub async fn copy_within(&self, store: &dyn Storage, from: &str, to: &str) -> Result<(), FormerError> {
        let target = store.below(to.trim_end_matches('/'));
        let copy = async |name: &str, content: &Content| {
            store.copy(&format!("{from}{name}"), &format!("{to}{name}"), NEW).await?;
            let checked = check(&*target, name, content).await;
            if checked.is_err() {
                // It is ours.
                target.delete(name).await?;
            }
            checked
        };
        self.bring(&*target, copy).await
    }

    /// Copies the file `path`, or the files in the folder `path` (all of them where that is empty), to the file or folder `key`
    /// of another store. What is there and is the same stays; anything else that is there is an error, and stays, too. What
    /// was copied before it stays as well: the next call continues from there.
    pub async fn deliver(
        &self,
        from: &dyn Storage,
        path: &str,
        (to, key): (&dyn Storage, &str),
    ) -> Result<(), FormerError> {
        let one = async |(name, content): &(String, Content)| {
            let Some(below) = below(name, path) else { return Ok(()) };
            let target =
                [key, below].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            deliver_one((from, name), (to, &target), content).await
        };
        let ended: Vec<_> = stream::iter(&self.0).map(one).buffer_unordered(COPIED_AT_ONCE).collect().await;
        ended.into_iter().collect::<Result<(), FormerError>>()?;
        if path.is_empty() {
            deliver_failures(from, (to, key)).await?;
        }
        Ok(to.flush().await?)
    }

    /// Brings all of them to `to`, or none.
    async fn bring(
        &self,
        to: &dyn Storage,
        bring_one: impl AsyncFn(&str, &Content) -> Result<(), FormerError>,
    ) -> Result<(), FormerError> {
        let brought = Mutex::new(Vec::new());
        let one = async |(name, content): &(String, Content)| {
            let done = bring_one(name, content).await.map_err(|error| meaning(error, name));
            if done.is_ok() {
                brought.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(name.clone());
            }
            done
        };
        // All of them end, so that it is known what is there.
        let ended: Vec<_> = stream::iter(&self.0).map(one).buffer_unordered(COPIED_AT_ONCE).collect().await;
        let done: Result<(), FormerError> = ended.into_iter().collect();
        if done.is_err() {
            to.delete_all(&brought.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)).await?;
            return done;
        }
        Ok(to.flush().await?)
    }
}

/// What `name` is called in the folder `path`; nothing is left of the name of `path` itself.
pub(super) fn below<'a>(name: &'a str, path: &str) -> Option<&'a str> {
    if path.is_empty() {
        return Some(name);
    }
    let rest = name.strip_prefix(path)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Copies the list of the mini-batches that failed, where there is one, which says what is missing beside it.
async fn deliver_failures(from: &dyn Storage, (to, folder): (&dyn Storage, &str)) -> Result<(), FormerError> {
    let (mut crc, mut size) = (Crc32c::new(), 0);
    let mut read = pieces(from, FAILED_MINI_BATCHES.to_owned(), GetOptions::default(), PIECE);
    loop {
        match read.try_next().await {
            Ok(Some(bytes)) => {
                crc.update(&bytes);
                size += bytes.len() as u64;
            }
            Ok(None) => break,
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    let target = [folder, FAILED_MINI_BATCHES];
    let target: Vec<&str> = target.into_iter().filter(|part| !part.is_empty()).collect();
    deliver_one((from, FAILED_MINI_BATCHES), (to, &target.join("/")), &Content::Crc(crc.finish(), size)).await
}

/// Copies a file under another name, unless it is there.
async fn deliver_one(
    (from, name): (&dyn Storage, &str),
    (to, target): (&dyn Storage, &str),
    content: &Content,
) -> Result<(), FormerError> {
    let is_there = match to.head(target).await {
        Ok(_) => true,
        Err(error) if error.kind == StorageErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if !is_there {
        match copy_checked((from, name), (to, target), content).await {
            Err(FormerError::Storage(error)) if error.kind == StorageErrorKind::AlreadyExists => {}
            Err(FormerError::Storage(error)) if error.kind == StorageErrorKind::NotFound => {
                return Err(FormerError::Gone(from.uri(name)));
            }
            Err(FormerError::Storage(error)) if error.kind == StorageErrorKind::Damaged => {
                return Err(FormerError::Changed(from.uri(name)));
            }
            copied => return copied,
        }
    }
    match check(to, target, content).await {
        Err(FormerError::Changed(_)) => Err(FormerError::Exists(to.uri(target))),
        checked => checked,
    }
}

/// What it means that a store fails over the file `name`.
fn meaning(error: FormerError, name: &str) -> FormerError {
    match error {
        FormerError::Storage(error) => match error.kind {
            StorageErrorKind::NotFound => FormerError::Gone(name.to_owned()),
            StorageErrorKind::Changed | StorageErrorKind::Damaged => FormerError::Changed(name.to_owned()),
            StorageErrorKind::AlreadyExists => FormerError::Exists(name.to_owned()),
            _ => FormerError::Storage(error),
        },
        error => error,
    }
}

/// Copies a file, which gets its name when what was read is what it has to be.
pub(super) async fn copy_checked(
    (from, name): (&dyn Storage, &str),
    (to, target): (&dyn Storage, &str),
    content: &Content,
) -> Result<(), FormerError> {
    let mut sum = Sum::of(content);
    let mut read = pieces(from, name.to_owned(), GetOptions::default(), PIECE);
    // Nothing is begun for a file that is not there.
    let mut piece = read.try_next().await?;
    let mut writer = to.writer(target, NEW).await?;
    while let Some(bytes) = piece {
        sum.update(&bytes);
        writer.write(bytes).await?;
        piece = read.try_next().await?;
    }
    if sum.finish() != *content {
        return Err(FormerError::Changed(name.to_owned()));
    }
    Ok(writer.finish().await?)
}

/// Checks that a file is what it has to be.
pub(super) async fn check(storage: &dyn Storage, name: &str, content: &Content) -> Result<(), FormerError> {
    let mut sum = Sum::of(content);
    let mut read = pieces(storage, name.to_owned(), GetOptions::default(), PIECE);
    while let Some(bytes) = read.try_next().await? {
        sum.update(&bytes);
    }
    if sum.finish() == *content { Ok(()) } else { Err(FormerError::Changed(name.to_owned())) }
}

/// The running sum of a file.
enum Sum {
    Sha256(Box<Sha256>, u64),
    Crc(Box<Crc32c>, u64),
}

impl Sum {
    /// One that tells such a content.
    fn of(content: &Content) -> Self {
        match content {
            Content::Sha256(..) => Self::Sha256(Box::default(), 0),
            Content::Crc(..) => Self::Crc(Box::new(Crc32c::new()), 0),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher, size) => {
                hasher.update(bytes);
                *size += bytes.len() as u64;
            }
            Self::Crc(sum, size) => {
                sum.update(bytes);
                *size += bytes.len() as u64;
            }
        }
    }

    fn finish(self) -> Content {
        match self {
            Self::Sha256(hasher, size) => Content::Sha256(hexadecimal(&hasher.finalize()), size),
            Self::Crc(sum, size) => Content::Crc(sum.finish(), size),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::checksum::crc32c;
    use prs_common::storage::LocalStorage;
    use tempfile::TempDir;

    use super::*;
    use crate::job::record::tests::{end, record};

    struct Scene {
        _folder: TempDir,
        store: LocalStorage,
        former: JobRecord,
    }

    impl Scene {
        /// A former job whose output has a result and a file that a mini-batch wrote.
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = LocalStorage::new(folder.path());
            let mut former = record();
            end(&mut former);
            let output = &mut former.result.as_mut().unwrap().output;
            (output.bytes, output.sha256) = (4, Some(hexadecimal(&Sha256::digest("rows"))));
            let brought = vec![BroughtFile { name: "a/part".into(), size: 4, crc: crc32c(b"part") }];
            let list = serde_json::to_vec(&brought).unwrap();
            former.brought = Some(hexadecimal(&Sha256::digest(&list)));
            for (key, body) in [
                ("a/output/parallel_run_step.txt".to_owned(), b"rows".to_vec()),
                ("a/output/a/part".to_owned(), b"part".to_vec()),
                ("a/output/mine.txt".to_owned(), b"of the user".to_vec()),
                (format!("a/{}", layout::output_files(1)), list),
            ] {
                store.put(&key, body.into(), PutMode::Create).await.unwrap();
            }
            Self { _folder: folder, store, former }
        }

        fn below(&self, prefix: &str) -> Arc<dyn Storage> {
            self.store.below(prefix)
        }

        async fn put(&self, key: &str, body: &'static str) {
            self.store.put(key, body.into(), PutMode::Overwrite).await.unwrap();
        }

        /// What a copy says, both ways, and what is there then.
        async fn copies(&self) -> Vec<(Option<String>, Vec<String>)> {
            let files = FormerOutput::of(&self.former, &*self.below("a")).await.unwrap();
            let mut ended = Vec::new();
            for within in [false, true] {
                let target = self.below("b/output");
                let done = if within {
                    files.copy_within(&self.store, "a/output/", "b/output/").await
                } else {
                    files.copy(&*self.below("a/output"), &*target).await
                };
                let there = target.list_all("").await.unwrap();
                ended.push((
                    done.err().map(|error| error.to_string()),
                    there.iter().map(|one| one.key.clone()).collect(),
                ));
                for object in there.iter().filter(|object| object.key != "taken") {
                    target.delete(&object.key).await.unwrap();
                }
            }
            ended
        }
    }

    #[tokio::test]
    async fn a_copy_has_what_the_job_wrote_and_nothing_else() {
        let scene = Scene::new().await;
        for copied in scene.copies().await {
            assert_eq!(copied, (None, vec!["a/part".to_owned(), "parallel_run_step.txt".to_owned()]));
        }
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_copy_that_failed() {
        let scene = Scene::new().await;
        let nothing = |why: &str| (Some(why.to_owned()), Vec::<String>::new());
        scene.put("a/output/a/part", "tarp").await;
        let changed = nothing("a/part is not what the job wrote");
        assert_eq!(scene.copies().await, [changed.clone(), changed]);
        scene.store.delete("a/output/a/part").await.unwrap();
        let gone = nothing("a/part is gone");
        assert_eq!(scene.copies().await, [gone.clone(), gone]);
        scene.put("a/output/a/part", "part").await;
        scene.put("a/output/parallel_run_step.txt", "rows and more").await;
        let changed = nothing("parallel_run_step.txt is not what the job wrote");
        assert_eq!(scene.copies().await, [changed.clone(), changed]);
    }

    #[tokio::test]
    async fn what_is_in_the_new_output_stays() {
        let scene = Scene::new().await;
        let files = FormerOutput::of(&scene.former, &*scene.below("a")).await.unwrap();
        scene.put("b/output/a/part", "of the user").await;
        for within in [false, true] {
            let target = scene.below("b/output");
            let done = if within {
                files.copy_within(&scene.store, "a/output/", "b/output/").await
            } else {
                files.copy(&*scene.below("a/output"), &*target).await
            };
            assert_eq!(done.unwrap_err().to_string(), "a/part exists already");
            assert_eq!(target.list_all("").await.unwrap().len(), 1);
            assert_eq!(target.get("a/part").await.unwrap(), "of the user");
        }
    }

    #[tokio::test]
    async fn a_list_that_is_not_that_of_the_record_is_none() {
        let scene = Scene::new().await;
        let key = format!("a/{}", layout::output_files(1));
        scene.put(&key, "[]").await;
        let told = "output-files/0001.json, the list of its files, is not what the job wrote";
        let of = async || FormerOutput::of(&scene.former, &*scene.below("a")).await.unwrap_err().to_string();
        assert_eq!(of().await, told);
        scene.store.delete(&key).await.unwrap();
        assert_eq!(of().await, told);
    }

    #[tokio::test]
    async fn a_job_without_files_gives_nothing() {
        let scene = Scene::new().await;
        let mut former = scene.former.clone();
        former.result.as_mut().unwrap().output.sha256 = None;
        former.brought = None;
        let nothing = FormerOutput::of(&former, &*scene.below("a")).await.unwrap_err();
        assert!(matches!(nothing, FormerError::Nothing));
    }
}
