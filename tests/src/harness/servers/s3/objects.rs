//! Objects as files below one folder: `<bucket>/<id>.object`, each with a first line that says what it is.
//!
//! A file is never changed once it has its name, and an index in memory says which one is an object's now. So an
//! object is replaced in one step, a reader keeps the version it opened, and any name is possible. The index is
//! read from the folder again when a server starts there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const OBJECT: &str = "object";
const UPLOAD: &str = "upload";

/// Metadata that a client gave an object.
pub(super) type Marks = std::collections::HashMap<String, String>;

/// One version of an object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) size: u64,
    pub(super) etag: String,
    pub(super) marks: Marks,
    /// CRC32C of the content, where the client sent one.
    pub(super) checksum: Option<String>,
    pub(super) modified: SystemTime,
    path: PathBuf,
    /// Where the content starts in the file.
    start: u64,
}

/// An upload in parts that is neither complete nor aborted.
#[derive(Debug, Clone)]
pub(super) struct Incomplete {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) marks: Marks,
    pub(super) initiated: SystemTime,
    folder: PathBuf,
}

/// Why a write did not happen.
#[derive(Debug)]
pub(super) enum Refusal {
    NoBucket,
    NoKey,
    Exists,
    NoUpload,
    BadPart,
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Bucket = BTreeMap<String, Object>;

/// Everything a server keeps.
#[derive(Debug)]
pub(super) struct Objects {
    root: PathBuf,
    counter: AtomicU64,
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

impl Objects {
    /// The folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What lies in `root`; writes that were under way when the last server ended there are removed.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let mut buckets = BTreeMap::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string()) {
                buckets.insert(name, read_bucket(&entry.path())?);
            }
        }
        Ok(Self { root: root.to_owned(), counter: AtomicU64::new(0), buckets: Mutex::new(buckets) })
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        self.buckets.lock().unwrap()
    }

    pub(super) fn make_bucket(&self, bucket: &str) -> Result<(), Refusal> {
        let mut buckets = self.buckets();
        if buckets.contains_key(bucket) {
            return Err(Refusal::Exists);
        }
        fs::create_dir_all(self.root.join(bucket))?;
        buckets.insert(bucket.to_owned(), Bucket::new());
        Ok(())
    }

    pub(super) fn bucket_names(&self) -> Vec<String> {
        self.buckets().keys().cloned().collect()
    }

    pub(super) fn has_bucket(&self, bucket: &str) -> Result<(), Refusal> {
        if self.buckets().contains_key(bucket) { Ok(()) } else { Err(Refusal::NoBucket) }
    }

    /// The object as it is now, with its file open at the start of the content.
    pub(super) fn find(&self, bucket: &str, key: &str) -> Result<Option<(Object, File)>, Refusal> {
        let buckets = self.buckets();
        let Some(object) = buckets.get(bucket).ok_or(Refusal::NoBucket)?.get(key).cloned() else {
            return Ok(None);
        };
        // While nobody can replace and remove it.
        let mut file = File::open(&object.path)?;
        drop(buckets);
        file.seek(SeekFrom::Start(object.start))?;
        Ok(Some((object, file)))
    }

    /// Writes other content of the same length over an object's, without a new checksum or date.
    pub(super) fn overwrite(&self, bucket: &str, key: &str, content: &[u8]) -> Result<(), Refusal> {
        let buckets = self.buckets();
        let object = buckets.get(bucket).and_then(|objects| objects.get(key)).ok_or(Refusal::NoBucket)?;
        assert_eq!(object.size, content.len() as u64, "the length stays");
        let mut file = File::options().write(true).open(&object.path)?;
        file.seek(SeekFrom::Start(object.start))?;
        Ok(file.write_all(content)?)
    }

    /// Up to `most` objects whose names start with `prefix` and come after `after`.
    pub(super) fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: &str,
        most: usize,
    ) -> Result<Vec<(String, Object)>, Refusal> {
        let buckets = self.buckets();
        let objects = buckets.get(bucket).ok_or(Refusal::NoBucket)?;
        let from = prefix.max(after).to_owned();
        let below = objects.range(from..).skip_while(|(key, _)| !after.is_empty() && key.as_str() <= after);
        let below = below.take_while(|(key, _)| key.starts_with(prefix)).take(most);
        Ok(below.map(|(key, object)| (key.clone(), object.clone())).collect())
    }

    pub(super) fn delete(&self, bucket: &str, key: &str) -> Result<(), Refusal> {
        let removed = self.buckets().get_mut(bucket).ok_or(Refusal::NoBucket)?.remove(key);
        removed.map_or(Ok(()), |object| Ok(fs::remove_file(object.path)?))
    }

    /// A name that no other write has, on any day.
    fn fresh_id(&self) -> String {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        format!("{now:032x}{:08x}", self.counter.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts an object; nobody sees it before it is placed.
    pub(super) fn write(
        &self,
        bucket: &str,
        key: &str,
        marks: Marks,
        checksum: Option<String>,
    ) -> Result<Writing, Refusal> {
        self.has_bucket(bucket)?;
        let etag = self.fresh_id();
        let partial = self.root.join(bucket).join(format!("{etag}.partial"));
        let mut file = File::create_new(&partial)?;
        let mut line = json!({"key": key, "marks": marks, "checksum": checksum}).to_string();
        line.push('\n');
        file.write_all(line.as_bytes())?;
        let start = line.len() as u64;
        let modified = SystemTime::now();
        let object = Object { size: 0, etag, marks, checksum, modified, path: partial, start };
        Ok(Writing { bucket: bucket.to_owned(), key: key.to_owned(), object, file })
    }

    /// Makes a written object the one of its name.
    pub(super) fn place(&self, mut writing: Writing, condition: &Condition) -> Result<Object, Refusal> {
        let mut buckets = self.buckets();
        let objects = buckets.get_mut(&writing.bucket).ok_or(Refusal::NoBucket)?;
        match (condition, objects.get(&writing.key)) {
            (Condition::Absent, Some(_)) => return Err(Refusal::Exists),
            (Condition::Is(_), None) => return Err(Refusal::NoKey),
            (Condition::Is(etag), Some(object)) if object.etag != *etag => return Err(Refusal::Exists),
            _ => {}
        }
        let path = writing.object.path.with_extension(OBJECT);
        fs::rename(&writing.object.path, &path)?;
        writing.object.path = path;
        if let Some(former) = objects.insert(writing.key.clone(), writing.object.clone()) {
            fs::remove_file(former.path)?;
        }
        Ok(writing.object.clone())
    }

    pub(super) fn begin_upload(&self, bucket: &str, key: &str, marks: &Marks) -> Result<String, Refusal> {
        self.has_bucket(bucket)?;
        let id = self.fresh_id();
        let folder = self.root.join(bucket).join(format!("{id}.{UPLOAD}"));
        fs::create_dir(&folder)?;
        fs::write(folder.join("key"), json!({"key": key, "marks": marks}).to_string())?;
        Ok(id)
    }

    pub(super) fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<Incomplete, Refusal> {
        let uploads = self.uploads(bucket)?;
        uploads.into_iter().find(|upload| upload.id == id && upload.key == key).ok_or(Refusal::NoUpload)
    }

    /// The uploads that are neither complete nor aborted, by name and age.
    pub(super) fn uploads(&self, bucket: &str) -> Result<Vec<Incomplete>, Refusal> {
        self.has_bucket(bucket)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(self.root.join(bucket))?.flatten() {
            let folder = entry.path();
            if folder.extension().is_none_or(|extension| extension != UPLOAD) {
                continue;
            }
            // Aborted or completed at this moment otherwise.
            let Ok(line) = fs::read(folder.join("key")) else { continue };
            let Some((key, marks)) = parse_line(&line) else { continue };
            let Some(id) = folder.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else {
                continue;
            };
            let nanos = id.get(..32).and_then(|time| u64::from_str_radix(time, 16).ok()).unwrap_or_default();
            let initiated = UNIX_EPOCH + Duration::from_nanos(nanos);
            found.push(Incomplete { id, key, marks, initiated, folder });
        }
        found.sort_unstable_by(|a, b| (&a.key, &a.id).cmp(&(&b.key, &b.id)));
        Ok(found)
    }

    /// Starts one part of an upload.
    pub(super) fn write_part(&self, upload: &Incomplete, number: i32) -> Result<PartWriting, Refusal> {
        let etag = self.fresh_id();
        let path = upload.folder.join(format!("{number}-{etag}"));
        Ok(PartWriting { file: File::create_new(path).map_err(|_| Refusal::NoUpload)?, etag })
    }

    /// Puts the parts together: number and etag of each, in order. All but the last must be equal, as Cloudflare R2 wants
    /// them, and not too small; the last is no larger.
    pub(super) fn complete(
        &self,
        bucket: &str,
        upload: &Incomplete,
        parts: &[(i32, String)],
        condition: &Condition,
    ) -> Result<Object, Refusal> {
        const LEAST: u64 = 5 << 20;
        if parts.is_empty() || !parts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Refusal::BadPart);
        }
        let mut writing = self.write(bucket, &upload.key, upload.marks.clone(), None)?;
        let mut first = None;
        for (at, (number, etag)) in parts.iter().enumerate() {
            let name = upload.folder.join(format!("{number}-{etag}"));
            let mut part = File::open(name).map_err(|_| Refusal::BadPart)?;
            let size = io::copy(&mut part, &mut writing.file)?;
            let first = *first.get_or_insert(size);
            let is_last = at + 1 == parts.len();
            if size > first || (!is_last && (size < first || size < LEAST)) {
                return Err(Refusal::BadPart);
            }
            writing.object.size += size;
        }
        let object = self.place(writing, condition)?;
        fs::remove_dir_all(&upload.folder)?;
        Ok(object)
    }
}

/// What there must be under its name when an object is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// Anything.
    None,
    /// Nothing.
    Absent,
    /// The object with this etag.
    Is(String),
}

impl Incomplete {
    pub(super) fn abort(&self) -> Result<(), Refusal> {
        fs::remove_dir_all(&self.folder).map_err(|_| Refusal::NoUpload)
    }
}

/// An object that is being written; gone when it is dropped before it is placed.
#[derive(Debug)]
pub(super) struct Writing {
    bucket: String,
    key: String,
    object: Object,
    file: File,
}

impl Writing {
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.object.size += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    pub(super) fn append_file(&mut self, file: &mut File) -> io::Result<()> {
        self.object.size += io::copy(file, &mut self.file)?;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // After it is placed the name is gone already.
        if self.object.path.extension().is_some_and(|extension| extension == "partial") {
            let _ = fs::remove_file(&self.object.path);
        }
    }
}

/// A part that is being written. A broken one stays until its upload ends, under a name nobody will ask for.
#[derive(Debug)]
pub(super) struct PartWriting {
    file: File,
    pub(super) etag: String,
}

impl PartWriting {
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    pub(super) fn append_file(&mut self, file: &mut impl io::Read) -> io::Result<()> {
        io::copy(file, &mut self.file).map(drop)
    }
}

fn read_bucket(folder: &Path) -> io::Result<Bucket> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    // Names begin with the time: of two files for one object the later is right.
    paths.sort_unstable();
    let mut objects = Bucket::new();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != OBJECT) {
            if path.is_file() {
                fs::remove_file(path)?;
            }
            continue;
        }
        let mut line = Vec::new();
        BufReader::new(File::open(&path)?).read_until(b'\n', &mut line)?;
        let (Some((key, marks)), Some(etag)) = (parse_line(&line), path.file_stem()) else { continue };
        let checksum = parse_checksum(&line);
        let etag = etag.to_string_lossy().into_owned();
        let (meta, start) = (fs::metadata(&path)?, line.len() as u64);
        let (size, modified) = (meta.len() - start, meta.modified()?);
        let former = objects.insert(key, Object { size, etag, marks, checksum, modified, path, start });
        former.map_or(Ok(()), |former| fs::remove_file(former.path))?;
    }
    Ok(objects)
}

fn parse_checksum(line: &[u8]) -> Option<String> {
    serde_json::from_slice::<Value>(line).ok()?["checksum"].as_str().map(str::to_owned)
}

fn parse_line(line: &[u8]) -> Option<(String, Marks)> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let marks = value["marks"].as_object()?.iter();
    let marks = marks.filter_map(|(name, mark)| Some((name.clone(), mark.as_str()?.to_owned()))).collect();
    Some((value["key"].as_str()?.to_owned(), marks))
}
