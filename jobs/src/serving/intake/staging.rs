//! The folder for what came with a job. Of a job of this machine it becomes the folder of the run; of one for a fleet it goes once
//! all of it is in storage.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::private_folder::PrivateFolder;
use prs_common::storage::is_valid_key;
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::tree::{self, remove_tree};

use super::unpack::{MOST, is_archive, place_in, unpack};
use crate::blobs::{BlobError, Blobs, Listed};
use crate::failure::Failure;
use crate::homes::{Whereabouts, registry, run_folder};

/// Folder of what came along, in that of the run.
pub(super) const SENT: &str = run_folder::SENT;
const CODE: &str = "code";
const INPUTS: &str = "inputs";
const FILES: &str = "files";
/// Where they are made, beside the runs of this machine.
pub(super) const STAGING: &str = "staging";

/// What came with a job so far; removed when dropped, unless it has become the folder of a run.
#[derive(Debug)]
pub struct Staging {
    folder: PathBuf,
    /// Holds the folder, where it is no place among runs.
    _temporary: Option<TemporaryFolder>,
    /// By the names of inputs, how many files came, and the path of the first.
    inputs: BTreeMap<String, Vec<PathBuf>>,
    has_code: bool,
    /// Whether the code comes as the files of a folder.
    has_code_files: bool,
    files: usize,
}

impl Staging {
    /// An empty one.
    ///
    /// # Errors
    /// There can be no folder.
    pub fn make(whereabouts: &Whereabouts) -> Result<Self, Failure> {
        let failed = "cannot make a folder for what came with the job";
        let (folder, temporary) = if whereabouts.urls.is_some() {
            let made = TemporaryFolder::make("prs-handed-in-").context(failed)?;
            (made.path().to_owned(), Some(made))
        } else {
            registry::make(&whereabouts.runs)?;
            // On the file system of the runs, among which it is to be moved.
            let parent = registry::folder_of_runs(&whereabouts.runs)?.join(STAGING);
            let parent = PrivateFolder::make(&parent).context(failed)?;
            (PrivateFolder::fresh(parent.path(), "").context(failed)?.path().to_owned(), None)
        };
        let staging = Self {
            folder,
            _temporary: temporary,
            inputs: BTreeMap::new(),
            has_code: false,
            has_code_files: false,
            files: 0,
        };
        for part in [staging.code(), staging.sent().join(INPUTS)] {
            tree::make_folders(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        Ok(staging)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    fn sent(&self) -> PathBuf {
        self.folder.join(SENT)
    }

    /// The folder that the paths of the job file begin in.
    pub fn code(&self) -> PathBuf {
        self.sent().join(CODE)
    }

    /// Whether code came along.
    pub fn has_code(&self) -> bool {
        self.has_code
    }

    /// A place for a file that is received.
    pub fn file(&mut self) -> PathBuf {
        self.files += 1;
        self.folder.join(format!("received-{}", self.files))
    }

    /// Takes the archive `file`, which came as the code.
    ///
    /// # Errors
    /// It is none, holds what it may not, or there was code before.
    pub fn take_code(&mut self, file: &Path) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_code, true) {
            return Err(Failure::wrong("the code came twice: send one archive"));
        }
        unpack(file, &self.code()).map_err(|error| Failure::usage(error).and("it came as the code"))?;
        forget(file);
        Ok(())
    }

    /// Takes `file`, one of a folder that comes as the code; `path` begins with the name of that folder.
    ///
    /// # Errors
    /// There was an archive before, the folder has the file twice or too many of them, or the path leads out of it.
    pub fn take_code_file(&mut self, path: &str, file: &Path) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_code, true) && !self.has_code_files {
            return Err(Failure::wrong("the code came twice: send an archive, or a folder"));
        }
        self.has_code_files = true;
        self.take_of_folder(path, file, &self.code())
    }

    /// Takes `file`, one of a folder that comes as the input or side input `name`; `path` begins with the name of that folder.
    ///
    /// # Errors
    /// As of [`take_code_file`](Self::take_code_file), or no input can have the name.
    pub fn take_input_of_folder(&mut self, name: &str, path: &str, file: &Path) -> Result<(), Failure> {
        if !is_plain(name) {
            return Err(Failure::wrong(format!("{name:?} is not the name of an input")));
        }
        let folder = self.sent().join(INPUTS).join(name);
        self.take_of_folder(path, file, &folder)?;
        let files = self.inputs.entry(name.to_owned()).or_default();
        // A folder also where it has one file.
        files.resize(files.len().max(2), folder);
        Ok(())
    }

    fn take_of_folder(&self, path: &str, file: &Path, folder: &Path) -> Result<(), Failure> {
        let below = path.split_once('/').map_or(path, |(_, below)| below);
        let place = place_in(folder, below).filter(|place| place != folder && !path.starts_with('/'));
        let Some(place) = place else {
            return Err(Failure::wrong(format!(
                "the folder holds {path:?}, which has a name that leads out of its folder, or that no file can have: leave it out"
            )));
        };
        if self.files > MOST {
            return Err(Failure::wrong(format!("more than {MOST} files came: send an archive, or less")));
        }
        if place.symlink_metadata().is_ok() {
            return Err(Failure::wrong(format!("{path} came twice: leave one out")));
        }
        let parent = place.parent().unwrap_or(folder);
        tree::make_folders(parent)
            .and_then(|()| tree::rename(file, &place))
            .with_context(|| format!("{path} cannot be made beside what came before it"))
            .map_err(Failure::usage)
    }

    /// The folder for code that is brought from elsewhere, in the place of code that came along.
    ///
    /// # Errors
    /// There is code already.
    pub fn brings_code(&mut self) -> Result<PathBuf, Failure> {
        if std::mem::replace(&mut self.has_code, true) {
            return Err(Failure::wrong("there is code already: name it, or send it along"));
        }
        Ok(self.code())
    }

    /// Takes `file`, which came as the input or side input `name` under the name `own`. An archive is unpacked.
    ///
    /// # Errors
    /// It has a name that no file can have, or is an archive that holds what it may not.
    pub fn take_input(&mut self, name: &str, own: &str, file: &Path) -> Result<(), Failure> {
        if !is_plain(name) {
            return Err(Failure::wrong(format!("{name:?} is not the name of an input")));
        }
        let own = if own.is_empty() { name } else { own };
        if !is_plain(own) {
            return Err(Failure::wrong(format!(
                "{own:?} is not the name of a file: give one without a folder before it"
            )));
        }
        let folder = self.sent().join(INPUTS).join(name);
        tree::make_folders(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        if is_archive(own) {
            unpack(file, &folder)
                .map_err(|error| Failure::usage(error).and(format_args!("it came as the input {name}")))?;
            forget(file);
            self.inputs.entry(name.to_owned()).or_default().extend([folder.clone(), folder]);
            return Ok(());
        }
        let place = folder.join(own);
        tree::rename(file, &place).with_context(|| format!("cannot move to {}", place.display()))?;
        self.inputs.entry(name.to_owned()).or_default().push(place);
        Ok(())
    }

    /// Takes the blob `digest`, an archive, as the code.
    ///
    /// # Errors
    /// As of [`take_code`](Self::take_code), or the blob is not there.
    pub async fn take_code_blob(&mut self, blobs: &Blobs, digest: &str) -> Result<(), BlobError> {
        let file = self.file();
        blobs.place(digest, &file).await?;
        let taken = tokio::task::block_in_place(|| self.take_code(&file));
        taken.map_err(BlobError::Failed)
    }

    /// Takes the files of a manifest as code, beside those of an archive.
    ///
    /// # Errors
    /// The archive has one of them, or they cannot be made.
    pub async fn take_code_files(&mut self, blobs: &Blobs, files: &[Listed]) -> Result<(), BlobError> {
        self.has_code = true;
        self.place(blobs, files, &self.code()).await
    }

    /// Takes the blob `digest`, an archive, as the input or side input `name`.
    ///
    /// # Errors
    /// As of [`take_input`](Self::take_input), or the blob is not there.
    pub async fn take_input_blob(
        &mut self,
        blobs: &Blobs,
        name: &str,
        digest: &str,
    ) -> Result<(), BlobError> {
        let file = self.file();
        blobs.place(digest, &file).await?;
        let taken = tokio::task::block_in_place(|| self.take_input(name, "sent.tar.gz", &file));
        taken.map_err(BlobError::Failed)
    }

    /// Takes the one file of a manifest as the input or side input `name`.
    ///
    /// # Errors
    /// As of [`take_input`](Self::take_input), or the blob is not there.
    pub async fn take_input_file(
        &mut self,
        blobs: &Blobs,
        name: &str,
        listed: &Listed,
    ) -> Result<(), BlobError> {
        if !is_plain(name) || !is_plain(&listed.path) {
            let message = format!("the input {name:?} or its file {:?} has a folder before it", listed.path);
            return Err(BlobError::Failed(Failure::wrong(message)));
        }
        let folder = self.sent().join(INPUTS).join(name);
        self.place(blobs, std::slice::from_ref(listed), &folder).await?;
        self.inputs.entry(name.to_owned()).or_default().push(folder.join(&listed.path));
        Ok(())
    }

    /// Takes the files of a manifest as the input or side input `name`: a folder.
    ///
    /// # Errors
    /// It has a name that no file can have, or the files cannot be made.
    pub async fn take_manifest(
        &mut self,
        blobs: &Blobs,
        name: &str,
        files: &[Listed],
    ) -> Result<(), BlobError> {
        if !is_plain(name) {
            return Err(BlobError::Failed(Failure::wrong(format!("{name:?} is not the name of an input"))));
        }
        let folder = self.sent().join(INPUTS).join(name);
        self.place(blobs, files, &folder).await?;
        self.inputs.entry(name.to_owned()).or_default().extend([folder.clone(), folder]);
        Ok(())
    }

    /// Makes the files of a manifest in a folder called `name`, and gives that.
    ///
    /// # Errors
    /// The files cannot be made.
    pub async fn take_files(
        &mut self,
        blobs: &Blobs,
        name: &str,
        files: &[Listed],
    ) -> Result<PathBuf, BlobError> {
        self.files += 1;
        let folder = self.sent().join(FILES).join(self.files.to_string()).join(name);
        self.place(blobs, files, &folder).await?;
        Ok(folder)
    }

    /// Makes files in a folder, where there may be others.
    async fn place(&self, blobs: &Blobs, files: &[Listed], folder: &Path) -> Result<(), BlobError> {
        if let Some(file) = files.iter().find(|file| folder.join(&file.path).symlink_metadata().is_ok()) {
            let message = format!("{} came twice: in the archive, and in the manifest", file.path);
            return Err(BlobError::Failed(Failure::wrong(message)));
        }
        tree::make_folders(folder)
            .with_context(|| format!("cannot make {}", folder.display()))
            .map_err(Failure::from)?;
        blobs.place_all(files, folder).await
    }

    /// The name of the file that is all there is of the input `name`.
    pub(super) fn only_file(&self, name: &str) -> Option<std::ffi::OsString> {
        let mut entries = fs::read_dir(self.sent().join(INPUTS).join(name)).ok()?;
        let only = entries.next()?.ok()?;
        (entries.next().is_none() && only.path().is_file()).then(|| only.file_name())
    }

    /// The folder with all that came as the input `name`, where the folder of it all is `folder`.
    pub(super) fn folder_of_input(name: &str, folder: &Path) -> PathBuf {
        folder.join(SENT).join(INPUTS).join(name)
    }

    /// What takes the place of which input, where the folder of it all is `folder`.
    pub fn inputs(&self, folder: &Path) -> BTreeMap<String, PathBuf> {
        let place = |(name, files): (&String, &Vec<PathBuf>)| {
            let all = self.sent().join(INPUTS).join(name);
            let own = if let [file] = files.as_slice() { file } else { &all };
            let below = own.strip_prefix(&self.folder).unwrap_or(own);
            (name.clone(), folder.join(below))
        };
        self.inputs.iter().map(place).collect()
    }

    /// Makes it the folder `run`; false where there is one already.
    ///
    /// # Errors
    /// It cannot be moved there.
    pub(super) fn become_run(mut self, run: &Path) -> Result<bool, Failure> {
        match tree::rename(&self.folder, run) {
            Ok(()) => {
                self.folder = PathBuf::new();
                Ok(true)
            }
            Err(_) if run.symlink_metadata().is_ok() => Ok(false),
            Err(error) => Err(anyhow::Error::from(error)
                .context(format!("cannot make the run folder {}", run.display()))
                .into()),
        }
    }

    /// Moves the code to `place`, below the folder of a run.
    pub(super) fn move_code(&self, place: &Path) -> Result<(), Failure> {
        let parent = place.parent().unwrap_or(place);
        PrivateFolder::make(parent).context("cannot use the run folder").map_err(Failure::usage)?;
        tree::rename(self.code(), place).with_context(|| format!("cannot make {}", place.display()))?;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.folder.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = remove_tree(&self.folder) {
            tracing::warn!(path = %self.folder.display(), %error, "what came with a request is left behind");
        }
    }
}

/// Where what comes with the parts of a job lies in the folder of its run.
pub(super) fn code_in(run: &Path) -> PathBuf {
    run.join(SENT).join(CODE)
}

fn forget(file: &Path) {
    let _ = tree::remove_file(file);
}

/// Whether it is the name of a file without a folder before it.
fn is_plain(name: &str) -> bool {
    is_valid_key(name) && !name.contains('/') && name.len() <= 255
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::job::Names;

    use super::*;
    use crate::caller::Unattended;

    #[test]
    fn inputs_take_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let whereabouts = Whereabouts::new(None, runs.clone(), Names::default(), Arc::new(Unattended));
        let mut staging = Staging::make(&whereabouts).unwrap();
        let take = |staging: &mut Staging, name: &str, own: &str| {
            let file = staging.file();
            fs::write(&file, "x").unwrap();
            staging.take_input(name, own, &file)
        };
        take(&mut staging, "one", "a.csv").unwrap();
        take(&mut staging, "two", "a.csv").unwrap();
        take(&mut staging, "two", "b.csv").unwrap();
        for (name, own) in [("..", "a"), ("a/b", "a"), ("x", "../a"), ("x", "/etc/passwd"), ("x", "..")] {
            assert!(take(&mut staging, name, own).unwrap_err().is_usage(), "{name} {own}");
        }
        let run = runs.join("job-1");
        let inputs = staging.inputs(&run);
        assert_eq!(inputs["one"], run.join("sent/inputs/one/a.csv"));
        assert_eq!(inputs["two"], run.join("sent/inputs/two"));
        let from = staging.path().to_owned();
        assert!(staging.become_run(&run).unwrap());
        assert!(run.join("sent/inputs/two/b.csv").is_file() && !from.exists());
        let other = Staging::make(&whereabouts).unwrap();
        let from = other.path().to_owned();
        assert!(!other.become_run(&run).unwrap(), "there is one");
        assert!(!from.exists());
    }
}
