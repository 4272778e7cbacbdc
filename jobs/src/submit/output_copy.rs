//! The output of a job: whether it is there, and a copy of it on this machine: whole, checked, and in nobody's way.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::layout;
use prs_common::storage::{LocalStorage, ObjectMeta, Storage, StorageErrorKind, StorageExt, TEMPORARY};
use prs_common::timestamp::now_us;
use prs_common::tree;
use prs_orchestrator::job::record::Output;
use prs_orchestrator::publish::{Notes, checksum_of};
use prs_orchestrator::{JobRecord, JobResult};

use crate::failure::Failure;
use crate::homes::JobHome;

/// Name of the result file in the output.
pub(crate) fn file_name(output: &Output) -> String {
    output.uri.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Copies the whole output to `target`, which is claimed. All of it is here and checked before any of it gets its name.
/// What earlier starts of the job brought, by their `notes`, makes room; nothing else that is there does.
pub(crate) async fn fetch_output(
    source: &dyn Storage,
    target: &Path,
    output: &mut Output,
    notes: Option<&Notes>,
) -> Result<(), Failure> {
    let objects = source.list_all("").await.context("cannot list the output")?;
    if notes.is_none() {
        for object in &objects {
            check_free(target, &object.key)?;
        }
    }
    let staged = Staging::make(target).with_context(|| format!("cannot copy to {}", target.display()))?;
    for object in &objects {
        stage(source, object, staged.path()).await?;
    }
    let name = output.sha256.as_ref().map(|_| file_name(output));
    if let (Some(name), Some(wanted)) = (&name, &output.sha256) {
        let arrived =
            checksum_of(&LocalStorage::new(staged.path()), name).await.context("cannot read the copy")?;
        if arrived.as_ref() != Some(wanted) {
            let arrived = arrived.as_deref().unwrap_or("nothing");
            return Err(anyhow::anyhow!(
                "{} is not what the job wrote: its SHA-256 is {arrived} and should be {wanted}; nothing was copied",
                source.uri(name)
            )
            .into());
        }
    }
    place_all(&objects, staged.path(), target, notes).await?;
    if let Some(notes) = notes
        && objects.iter().all(|object| object.key != layout::FAILED_MINI_BATCHES)
    {
        withdraw_failures(target, notes).await?;
    }
    let place = name.map_or_else(|| target.to_owned(), |name| target.join(name));
    output.uri = std::path::absolute(&place).unwrap_or(place).display().to_string();
    Ok(())
}

/// Where copies are until all are here; removed when dropped.
struct Staging(PathBuf);

impl Staging {
    /// Makes it; what a program that was killed left is removed.
    fn make(target: &Path) -> io::Result<Self> {
        const PREFIX: &str = "fetch-";
        let folder = target.join(TEMPORARY);
        tree::make_folders(&folder)?;
        for entry in std::fs::read_dir(&folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                tree::remove_tree(entry.path())?;
            }
        }
        let path = folder.join(format!("{PREFIX}{}-{:x}", std::process::id(), now_us()));
        tree::make_folder(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = tree::remove_tree(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "copies are left behind");
        }
    }
}

/// Copies one object to the folder `staged`.
async fn stage(source: &dyn Storage, object: &ObjectMeta, staged: &Path) -> Result<(), Failure> {
    let (uri, path) = (source.uri(&object.key), staged.join(&object.key));
    let folder = path.parent().unwrap_or(staged);
    tree::make_folders(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let bytes =
        source.download(&object.key, &path, None).await.with_context(|| format!("cannot copy {uri}"))?;
    if bytes != object.size {
        return Err(anyhow::anyhow!(
            "{uri} changed while it was copied: it had {} bytes, and {bytes} came; nothing was copied",
            object.size
        )
        .into());
    }
    Ok(())
}

/// Gives all copies their names. Where one is taken, none of those that are new keeps its own.
async fn place_all(
    objects: &[ObjectMeta],
    staged: &Path,
    target: &Path,
    notes: Option<&Notes>,
) -> Result<(), Failure> {
    let mut replaced = HashSet::new();
    if let Some(notes) = notes {
        let (here, there) = (LocalStorage::new(staged), LocalStorage::new(target));
        for ObjectMeta { key, .. } in objects {
            let Some(earlier) = checksum_of(&there, key).await.context("cannot read the output")? else {
                continue;
            };
            let present = checksum_of(&here, key).await.context("cannot read the copy")?;
            if notes.brought(key, &earlier).is_some() || Some(earlier) == present {
                replaced.insert(key);
            } else {
                check_free(target, key)?;
            }
        }
    }
    let mut placed = Vec::new();
    for ObjectMeta { key, .. } in objects {
        let (from, to) = (staged.join(key), target.join(key));
        let folder = to.parent().unwrap_or(target);
        let place = || {
            tree::make_folders(folder)?;
            if replaced.contains(key) {
                return tree::rename(&from, &to);
            }
            tree::rename_new(&from, &to)
        };
        if let Err(error) = place() {
            for path in placed {
                // It was not there before; nobody heard of it yet.
                let _ = tree::remove_file(path);
            }
            if error.kind() == ErrorKind::AlreadyExists {
                check_free(target, key)?;
            }
            return Err(error).with_context(|| format!("cannot write {}", to.display()))?;
        }
        if !replaced.contains(key) {
            placed.push(to);
        }
    }
    Ok(())
}

/// Refuses a name that something has.
fn check_free(target: &Path, key: &str) -> Result<(), Failure> {
    let path = target.join(key);
    match path.symlink_metadata() {
        Ok(_) => Err(Failure::wrong(format!(
            "{} exists already and is not overwritten; give another folder",
            path.display()
        ))),
        Err(_) => Ok(()),
    }
}

/// Removes the list of failures that a former start of the job brought, now that nothing failed.
async fn withdraw_failures(target: &Path, notes: &Notes) -> Result<(), Failure> {
    let (name, path) = (layout::FAILED_MINI_BATCHES, target.join(layout::FAILED_MINI_BATCHES));
    let there = checksum_of(&LocalStorage::new(target), name).await.context("cannot read the output")?;
    if there.is_some_and(|there| notes.brought(name, &there).is_some()) {
        tree::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Looks whether the result is where the job put it, with the size it had then.
pub(crate) async fn check_there(
    home: &dyn JobHome,
    record: &JobRecord,
    result: &JobResult,
) -> Result<(), Failure> {
    let Output { bytes, sha256, .. } = &result.output;
    if sha256.is_none() {
        return Ok(());
    }
    let (id, name) = (&result.job_id, file_name(&result.output));
    let output = home.output(record);
    let uri = output.uri(&name);
    let remedy = format!("prs resubmit {id} runs the job again");
    let wrong = match output.head(&name).await {
        Ok(there) if there.size == *bytes => return Ok(()),
        Ok(there) => format!("was changed: {uri} has {} bytes and not {bytes}", there.size),
        Err(error) if error.kind == StorageErrorKind::NotFound => {
            format!("is gone: there is no {uri} any more")
        }
        Err(error) => return Err(home.cannot("look at the result")(error)),
    };
    Err(anyhow::anyhow!("the result of job {id} {wrong}; {remedy}").into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prs_common::hexadecimal;
    use prs_common::storage::PutMode;
    use sha2::{Digest, Sha256};
    use tempfile::TempDir;

    use super::*;

    struct Copying {
        folder: TempDir,
        source: LocalStorage,
        target: PathBuf,
    }

    impl Copying {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let source = LocalStorage::new(folder.path().join("from"));
            Self { source, target: folder.path().join("to"), folder }
        }

        async fn put(&self, key: &str, text: &'static str) {
            self.source.put(key, text.into(), PutMode::Overwrite).await.unwrap();
        }

        /// Notes of a job that brought these files before.
        async fn notes(&self, files: &[(&str, &str)]) -> Option<Notes> {
            let storage = LocalStorage::new(self.folder.path().join("job"));
            for (name, text) in files {
                let key = layout::published(1, &sum(text), name);
                storage.put(&key, "".into(), PutMode::Overwrite).await.unwrap();
            }
            Some(Notes::read(&storage).await.unwrap())
        }

        /// Fetches an output whose result is `rows`.
        async fn fetch(&self, rows: &str, notes: Option<&Notes>) -> Result<String, Failure> {
            let mut output = Output { uri: "s3://b/rows.txt".into(), ..Output::default() };
            output.sha256 = Some(sum(rows));
            fetch_output(&self.source, &self.target, &mut output, notes).await.map(|()| output.uri)
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.target.join(name)).ok()
        }
    }

    fn sum(text: &str) -> String {
        hexadecimal(&Sha256::digest(text))
    }

    #[tokio::test]
    async fn only_what_the_job_brought_before_is_replaced() {
        let copying = Copying::new();
        copying.put("rows.txt", "one\n").await;
        copying.put("a/part", "part").await;
        copying.put(layout::FAILED_MINI_BATCHES, "{}\n").await;
        let place = copying.fetch("one\n", None).await.unwrap();
        assert_eq!(place, copying.target.join("rows.txt").display().to_string());
        fs::write(copying.target.join("mine.txt"), "").unwrap();

        copying.put("rows.txt", "one\ntwo\n").await;
        copying.source.delete(layout::FAILED_MINI_BATCHES).await.unwrap();
        for notes in [None, copying.notes(&[]).await] {
            let refused = copying.fetch("one\ntwo\n", notes.as_ref()).await.unwrap_err();
            assert!(refused.is_usage() && refused.to_string().contains("exists already"), "{refused}");
            assert_eq!(copying.read("rows.txt").unwrap(), "one\n");
        }
        let notes = copying.notes(&[("rows.txt", "one\n"), (layout::FAILED_MINI_BATCHES, "{}\n")]).await;
        copying.fetch("one\ntwo\n", notes.as_ref()).await.unwrap();
        assert_eq!(copying.read("rows.txt").unwrap(), "one\ntwo\n");
        assert_eq!(copying.read("a/part").unwrap(), "part");
        assert_eq!(copying.read(layout::FAILED_MINI_BATCHES), None, "nothing failed any more");
        assert!(copying.read("mine.txt").is_some());
    }

    #[tokio::test]
    async fn a_list_of_failures_that_the_job_did_not_bring_stays() {
        let copying = Copying::new();
        copying.put("rows.txt", "one\n").await;
        fs::create_dir(&copying.target).unwrap();
        fs::write(copying.target.join(layout::FAILED_MINI_BATCHES), "precious").unwrap();
        let notes = copying.notes(&[(layout::FAILED_MINI_BATCHES, "{}\n")]).await;
        copying.fetch("one\n", notes.as_ref()).await.unwrap();
        assert_eq!(copying.read(layout::FAILED_MINI_BATCHES).unwrap(), "precious");
    }

    #[tokio::test]
    async fn nothing_half_copied_is_left() {
        let copying = Copying::new();
        copying.put("part", "part").await;
        copying.put("rows.txt", "one\n").await;
        let differs = copying.fetch("two\n", None).await.unwrap_err();
        assert!(!differs.is_usage());
        for part in ["rows.txt", &sum("one\n"), &sum("two\n"), "nothing was copied"] {
            assert!(differs.to_string().contains(part), "{differs}");
        }
        copying.source.delete("rows.txt").await.unwrap();
        let gone = copying.fetch("one\n", None).await.unwrap_err();
        assert!(gone.to_string().contains("rows.txt"), "{gone}");
        copying.put("rows.txt", "one\n").await;
        // A former start brought neither; the second of them is in the way.
        fs::write(copying.target.join("rows.txt"), "mine").unwrap();
        copying.fetch("one\n", copying.notes(&[]).await.as_ref()).await.unwrap_err();
        assert_eq!((copying.read("part"), copying.read("rows.txt").as_deref()), (None, Some("mine")));
        fs::remove_file(copying.target.join("rows.txt")).unwrap();
        // What came while it was copied, too.
        fs::write(copying.target.join("part"), "part").unwrap();
        fs::create_dir(copying.target.join("rows.txt")).unwrap();
        copying.fetch("one\n", copying.notes(&[]).await.as_ref()).await.unwrap_err();
        assert_eq!(copying.read("part").unwrap(), "part");
    }

    #[tokio::test]
    async fn what_a_killed_copy_left_is_removed() {
        let copying = Copying::new();
        copying.put("rows.txt", "one\n").await;
        fs::create_dir_all(copying.target.join(".tmp/fetch-dead/a")).unwrap();
        fs::write(copying.target.join(".tmp/fetch-dead/a/b"), "").unwrap();
        copying.fetch("one\n", None).await.unwrap();
        assert_eq!(fs::read_dir(copying.target.join(".tmp")).unwrap().count(), 0);
    }
}
