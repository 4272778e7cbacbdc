//! Sums over the local files of a job: by these a later start, and other jobs, tell whether the files are the same.
//!
//! Summed up while a job is planned, and once more when a later submission or start compares. Names, sizes, times of change and
//! inodes cost a look at each file. Where these leave a question open, the contents decide: those that the job had are summed up
//! by the plan, of text, and by the processes, of all else.

use std::path::{Path, PathBuf};

use prs_common::dataset::listing::{EntryRef, Listing, ListingError, ListingOptions};
use prs_common::file_content::{ContentSum, FileState, Reading, checksum};
use prs_common::file_version::numbers_last;
use prs_common::job::{InputSource, JobSpec};
use prs_common::{hexadecimal, host_id};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Files visited at a time.
const VISITED_AT_ONCE: usize = 1_024;

/// Local files of a job, as a start listed them. Checksums are SHA-256, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Their number.
    files: u64,
    /// Checksum of names and sizes.
    sizes: String,
    /// The same with times of change.
    times: String,
    /// The same with inodes, where their file systems keep these.
    inodes: String,
    /// The host whose inodes they are.
    host: u64,
    /// Whether each was changed so long before that another change would show.
    is_certain: bool,
    /// Sum over those whose content is known.
    pub contents: ContentSum,
}

impl Listed {
    /// Tells whether the files are `now`, without a look into them, as they were.
    pub fn is_same(&self, now: &Self) -> bool {
        let has_inodes = self.host != now.host || self.inodes == now.inodes;
        self.is_certain && self.times == now.times && has_inodes
    }

    /// Tells whether a look into the files decides: they have the sizes they had, and all contents were known.
    pub fn asks_for_contents(&self, now: &Self) -> bool {
        self.sizes == now.sizes && self.contents.files == self.files
    }

    /// A name of what the files surely are on this host; nothing where another change need not show.
    pub fn surely(self) -> Option<String> {
        self.is_certain.then_some(self.inodes)
    }

    /// Takes over the contents of files that are the same.
    pub(crate) fn with_contents_of(self, former: &Self) -> Self {
        Self { contents: former.contents, ..self }
    }
}

/// The running sum of a listing.
#[derive(Debug, Clone)]
pub struct ListingSum {
    sizes: Sha256,
    times: Sha256,
    inodes: Sha256,
    files: u64,
    is_known: bool,
    is_certain: bool,
    /// Devices of the files, each with whether inodes last there.
    devices: Vec<(u64, bool)>,
    /// Contents that are known.
    contents: ContentSum,
}

impl Default for ListingSum {
    fn default() -> Self {
        let [sizes, times, inodes] = [(); 3].map(|()| Sha256::new());
        let (devices, contents) = (Vec::new(), ContentSum::default());
        Self { sizes, times, inodes, files: 0, is_known: true, is_certain: true, devices, contents }
    }
}

impl ListingSum {
    /// The files that follow are of the input at this position.
    pub fn begin(&mut self, position: u32) {
        // No file has so long a name.
        self.add(&u32::MAX.to_le_bytes());
        self.add(&position.to_le_bytes());
    }

    /// Adds an entry of a listing.
    pub fn push_entry(&mut self, entry: &EntryRef<'_>) {
        self.push(entry.relative, entry.state, || entry.path());
    }

    /// Adds a file; `state` is nothing where nobody knows.
    pub fn push(&mut self, name: &str, state: Option<FileState>, path: impl FnOnce() -> PathBuf) {
        self.files += 1;
        let Some(state) = state else {
            self.is_known = false;
            return;
        };
        self.is_certain &= !state.is_young();
        self.add(&(name.len() as u32).to_le_bytes());
        self.add(name.as_bytes());
        let version = state.seen.version;
        self.add(&version.size.to_le_bytes());
        for hasher in [&mut self.times, &mut self.inodes] {
            hasher.update(version.seconds.to_le_bytes());
            hasher.update(version.nanoseconds.to_le_bytes());
        }
        if self.keeps_inodes(state.seen.device, path) {
            let (number, seconds, nanoseconds) = state.inode();
            self.inodes.update(number.to_le_bytes());
            self.inodes.update(seconds.to_le_bytes());
            self.inodes.update(nanoseconds.to_le_bytes());
        }
    }

    /// Notes the content of a file of the input at this position that has been read just now.
    pub fn note_content(&mut self, position: u32, path: &Path) {
        let read = FileState::at(path).and_then(|state| Ok((state, checksum(path, &state, Reading::Whole)?)));
        if let Ok((state, Some(read))) = read {
            self.contents.add(position, &path.to_string_lossy(), state.seen.version.size, read);
        }
    }

    /// The sums; nothing where there was no file, or one that is not known.
    pub fn finish(self) -> Option<Listed> {
        let Self { sizes, times, inodes, files, is_known, is_certain, contents, .. } = self;
        let [sizes, times, inodes] = [sizes, times, inodes].map(|hasher| hexadecimal(&hasher.finalize()));
        let listed = Listed { files, sizes, times, inodes, host: host_id(), is_certain, contents };
        (is_known && files > 0).then_some(listed)
    }

    fn add(&mut self, bytes: &[u8]) {
        for hasher in [&mut self.sizes, &mut self.times, &mut self.inodes] {
            hasher.update(bytes);
        }
    }

    fn keeps_inodes(&mut self, device: u64, path: impl FnOnce() -> PathBuf) -> bool {
        let known = self.devices.iter().find(|(known, _)| *known == device).map(|(_, lasts)| *lasts);
        known.unwrap_or_else(|| {
            let lasts = numbers_last(&path());
            self.devices.push((device, lasts));
            lasts
        })
    }
}

/// Lists the local files of a job, and sums them up; nothing where there are none. May block for long.
///
/// # Errors
/// They cannot be listed.
pub fn list(spec: &JobSpec, stop: &dyn Fn() -> bool) -> Result<Option<Listed>, ListingError> {
    let mut sum = ListingSum::default();
    let mut current = None;
    let is_whole = each(spec, |position, entry| {
        if current.replace(position) != Some(position) {
            sum.begin(position);
        }
        sum.push_entry(entry);
        !stop()
    })?;
    Ok(sum.finish().filter(|_| is_whole))
}

/// Reads the local files of a job, and sums up their contents; nothing where one has none that can be known, or on `stop`. May
/// block for long.
///
/// # Errors
/// They cannot be listed.
pub fn contents(spec: &JobSpec, stop: &dyn Fn() -> bool) -> Result<Option<ContentSum>, ListingError> {
    let mut sum = ContentSum::default();
    let is_whole = each(spec, |position, entry| {
        let path = entry.path();
        let state = entry.state.filter(|_| !stop());
        let read = state.and_then(|state| checksum(&path, &state, Reading::Whole).ok()?);
        let (Some(state), Some(read)) = (state, read) else { return false };
        sum.add(position, &path.to_string_lossy(), state.seen.version.size, read);
        true
    })?;
    Ok(is_whole.then_some(sum))
}

/// Hands the local files of a job to `take`, each with the position of its input, until that says stop; returns whether it
/// handed over all.
fn each(spec: &JobSpec, mut take: impl FnMut(u32, &EntryRef<'_>) -> bool) -> Result<bool, ListingError> {
    let mut goes_on = true;
    for (position, input) in (0..).zip(&spec.inputs) {
        if !matches!(input.source, InputSource::Paths(_)) {
            continue;
        }
        let mut listing = Listing::of_input(input, ListingOptions { versions: true })?;
        while goes_on
            && listing.visit(VISITED_AT_ONCE, |entry| goes_on = goes_on && take(position, &entry))? > 0
        {
        }
    }
    Ok(goes_on)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use prs_common::job::{Input, InputKind};

    use super::*;

    /// The listing of some file.
    pub(crate) fn any() -> Option<Listed> {
        now(&folder_with(&[("a", "one")])).into()
    }

    /// A folder with these files, last written long ago.
    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(&folder, name, text);
        }
        folder
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }

    fn spec(folder: &tempfile::TempDir) -> JobSpec {
        let source = InputSource::Paths(vec![folder.path().to_str().unwrap().to_owned()]);
        JobSpec::new("job", "/code", "main.py", vec![Input::new("input_1", InputKind::File, source)])
    }

    /// As it was listed a while ago, with all contents.
    fn listed(folder: &tempfile::TempDir) -> Listed {
        let mut sum = ListingSum::default();
        sum.begin(0);
        each(&spec(folder), |position, entry| {
            sum.push_entry(entry);
            sum.note_content(position, &entry.path());
            true
        })
        .unwrap();
        Listed { is_certain: true, ..sum.finish().unwrap() }
    }

    fn now(folder: &tempfile::TempDir) -> Listed {
        list(&spec(folder), &|| false).unwrap().unwrap()
    }

    /// Whether the files are surely the same after a change, and, where that is not sure and the contents decide, whether these are.
    fn compared(change: impl Fn(&tempfile::TempDir)) -> (bool, Option<bool>) {
        let folder = folder_with(&[("a", "one"), ("b", "two")]);
        let before = listed(&folder);
        change(&folder);
        let now = now(&folder);
        let asks = !before.is_same(&now) && before.asks_for_contents(&now);
        let contents = || contents(&spec(&folder), &|| false).unwrap().unwrap();
        (before.is_same(&now), asks.then(|| before.contents == contents()))
    }

    #[test]
    fn what_changed_is_seen_and_what_did_not_is_read() {
        assert_eq!(compared(|_| {}), (true, None));
        assert_eq!(compared(|folder| write(folder, "a", "six")), (false, Some(false)));
        assert_eq!(compared(|folder| write(folder, "a", "one")), (false, Some(true)));
        assert_eq!(
            compared(|folder| fs::write(folder.path().join("a"), "one").unwrap()),
            (false, Some(true))
        );
        assert_eq!(compared(|folder| write(folder, "a", "longer")), (false, None));
        assert_eq!(compared(|folder| write(folder, "c", "")), (false, None));
        assert_eq!(compared(|folder| fs::remove_file(folder.path().join("b")).unwrap()), (false, None));
        let renamed = |folder: &tempfile::TempDir| {
            fs::rename(folder.path().join("b"), folder.path().join("c")).unwrap();
        };
        assert_eq!(compared(renamed), (false, None));
    }

    #[test]
    fn what_is_not_known_for_certain_is_read() {
        let folder = folder_with(&[("a", "one")]);
        let before = listed(&folder);
        let young = Listed { is_certain: false, ..before.clone() };
        assert!(!young.is_same(&now(&folder)) && young.asks_for_contents(&now(&folder)));
        let unread = Listed { contents: ContentSum::default(), ..young };
        assert!(!unread.asks_for_contents(&now(&folder)));
        // Another host has other inodes, and the same times.
        let elsewhere = Listed { host: !before.host, inodes: String::new(), ..before };
        assert!(elsewhere.is_same(&now(&folder)));
        let mut unseen = ListingSum::default();
        unseen.push("a", None, || unreachable!());
        assert_eq!((unseen.finish(), ListingSum::default().finish()), (None, None));
    }
}
