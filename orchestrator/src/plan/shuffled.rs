//! Mini-batches of groups that a shuffle has put together (`partition_keys` over columns of the data, spec D3): one a group,
//! in the order of their first rows.
//!
//! The step that groups has left two files a bucket: rows, and which groups there are, in order
//! (`azureml_user.parallel_run.shuffle_group`). The lists of groups are read side by side, a line of each at a time, so that
//! any number of groups costs no memory. No rows are read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use prs_common::bytes_of;
use prs_common::dataset::listing::{Listing, ListingOptions};
use prs_common::file_version::FileVersion;
use prs_common::job::Input;
use prs_common::job::shuffle::{GROUPS_SUFFIX, ROWS_SUFFIX};
use prs_common::message_pack;
use prs_common::mini_batch::{PathColumn, PathValue, SliceRef, StoreRef, Work};
use prs_common::near_name::nearest;
use prs_common::storage::{DiskError, StorageExt, TransferError};
use prs_common::tree;
use prs_tabular::{ColumnTypes, TableReader};
use serde::Deserialize;

use super::partitions::Keys;
use super::{PlanContext, PlanError, Sink};
use crate::inputs::manifest::{File as Listed, ManifestReader, ObjectReader, Source};

/// Why a list cannot be used.
const UNKNOWN_READER: &str = "it does not say how rows are read";
/// Names of columns that a message has.
const NAMED: usize = 20;

/// Plans the groups of one input.
pub(super) fn plan(
    manifest: Option<ManifestReader<ObjectReader>>,
    keys: Keys<'_>,
    position: u32,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let scratch = Scratch(context.work.join(format!("shuffled/{position}")));
    let buckets = match manifest {
        None => local_buckets(keys.input, sink)?,
        Some(manifest) => stored_buckets(manifest, keys.input, context, &scratch.0)?,
    };
    let mut lists = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        lists.push(List::open(bucket)?);
    }
    check_keys(&lists, keys)?;
    let mut readers = Readers::of(&lists);
    let mut next = BinaryHeap::new();
    for (number, list) in lists.iter_mut().enumerate() {
        if let Some(group) = list.next()? {
            next.push(Reverse((group.first, number, group)));
        }
    }
    while let Some(Reverse((_, number, group))) = next.pop() {
        hand_over(&lists[number], &group, &mut readers, (keys, position), sink)?;
        if sink.is_stopped() {
            return Ok(());
        }
        if let Some(group) = lists[number].next()? {
            next.push(Reverse((group.first, number, group)));
        }
    }
    Ok(())
}

/// Refuses a key that no record of the input has, which records of JSON lines may lack.
fn check_keys(lists: &[List], keys: Keys<'_>) -> Result<(), PlanError> {
    let is_absent = |key: &&String| !lists.is_empty() && lists.iter().all(|list| list.absent.contains(key));
    let Some(key) = keys.names.iter().find(is_absent) else { return Ok(()) };
    let seen: BTreeSet<&str> = lists.iter().flat_map(|list| &list.seen).map(String::as_str).collect();
    let seen: Vec<&str> = seen.into_iter().collect();
    let (input, key) = (keys.input.name.clone(), key.clone());
    let hint = match nearest(&key, &seen) {
        Some(near) => format!("did you mean {near:?}?"),
        None if seen.is_empty() => "they have no names at all".to_owned(),
        None => {
            let named: Vec<String> = seen.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
            let more = if seen.len() > NAMED { ", …" } else { "" };
            format!("they have {}{more}: name some of these", named.join(", "))
        }
    };
    Err(PlanError::KeyNowhere { input, key, hint })
}

/// Readers of groups: a group has the columns and the types of all files of the input together.
#[derive(Default)]
struct Readers {
    /// The types of all files. None after `infer: sampled`, with which each file keeps its own.
    together: Option<ColumnTypes>,
    /// Encoded readers of groups by those of their files, as a cache.
    recent: HashMap<Vec<u8>, Vec<u8>>,
}

impl Readers {
    /// Bounds the cache.
    const RECENT: usize = 64;

    fn of(lists: &[List]) -> Self {
        // By the first slice of each, which is the order of the files; one may have rows in many lists.
        let mut files = BTreeMap::new();
        for Reader { types, first, .. } in lists.iter().flat_map(|list| &list.readers) {
            let Some(types) = types else { return Self::default() };
            files.entry(*first).or_insert(types);
        }
        Self { together: Some(ColumnTypes::together(files.into_values())), recent: HashMap::new() }
    }

    /// Returns the encoded reader of a group for rows of this file.
    fn encoded(&mut self, reader: &Reader) -> Option<Vec<u8>> {
        let together = match &self.together {
            Some(together) if reader.is_arrow || reader.types.as_ref() != Some(together) => together,
            _ => return Some(reader.encoded.clone()),
        };
        if let Some(known) = self.recent.get(&reader.encoded) {
            return Some(known.clone());
        }
        let of_file = Box::new(message_pack::decode(&reader.encoded).ok()?);
        let encoded = message_pack::encode(&TableReader::Among(of_file, together.clone()));
        if self.recent.len() >= Self::RECENT {
            self.recent.clear();
        }
        self.recent.insert(reader.encoded.clone(), encoded.clone());
        Some(encoded)
    }
}

/// The folder of lists that were brought, removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = tree::remove_tree(&self.0);
    }
}

/// Where the rows of a bucket are, and its list of groups.
struct Bucket {
    /// The list, on this host.
    list: PathBuf,
    /// The store of the rows, as a descriptor has it.
    store: OwnedStore,
    /// The file of the rows there.
    key: String,
    version: String,
}

/// A [`StoreRef`] with its text.
enum OwnedStore {
    Local,
    Shared,
    Url(String),
}

impl OwnedStore {
    fn of(store: StoreRef<'_>) -> Self {
        match store {
            StoreRef::Shared => Self::Shared,
            StoreRef::Url(url) => Self::Url(url.to_owned()),
            StoreRef::Local | StoreRef::Job => Self::Local,
        }
    }

    fn describe(&self) -> StoreRef<'_> {
        match self {
            Self::Local => StoreRef::Local,
            Self::Shared => StoreRef::Shared,
            Self::Url(url) => StoreRef::Url(url),
        }
    }
}

/// The buckets below a folder of this host.
fn local_buckets(input: &Input, sink: &mut Sink<'_>) -> Result<Vec<Bucket>, PlanError> {
    let failed = |source| PlanError::Listing { input: input.name.clone(), source };
    let mut listing = Listing::of_input(input, ListingOptions { versions: true }).map_err(failed)?;
    let mut entries = Vec::new();
    while listing.next_batch(1024, &mut entries).map_err(failed)? > 0 {}
    let mut buckets = Vec::new();
    for entry in &entries {
        sink.listed.push(&entry.relative, entry.state, || entry.path());
        let path = entry.path();
        let Some(rows) = rows_of(&path.to_string_lossy()) else { continue };
        let version = fs::metadata(&rows).map(|metadata| FileVersion::of(&metadata).to_string());
        let version = version.map_err(DiskError::about(Path::new(&rows))).map_err(PlanError::Scratch)?;
        buckets.push(Bucket { list: path, store: OwnedStore::Local, key: rows, version });
    }
    Ok(buckets)
}

/// The buckets of a listing, with their lists brought to `folder`.
fn stored_buckets(
    mut manifest: ManifestReader<ObjectReader>,
    input: &Input,
    context: &PlanContext<'_>,
    folder: &Path,
) -> Result<Vec<Bucket>, PlanError> {
    let unread = |source| PlanError::Manifest { input: input.name.clone(), source };
    let mut files: Vec<(Source, Listed)> = Vec::new();
    while let Some(block) = manifest.next_block().map_err(unread)? {
        let sources = manifest.sources();
        files.extend(block.into_iter().map(|file| (sources[file.source as usize].clone(), file)));
    }
    let mut buckets = Vec::new();
    for (source, file) in &files {
        let Some(rows) = rows_of(&file.relative) else { continue };
        let found = files.iter().find(|(_, other)| other.relative == rows);
        let (_, rows) = found.ok_or_else(|| damaged(&file.relative, "the rows beside it are missing"))?;
        let described = source.describe(0);
        let list = match described.store {
            StoreRef::Local => PathBuf::from(format!("{}{}", source.origin, file.relative)),
            store => {
                tree::make_folders(folder).map_err(DiskError::about(folder)).map_err(PlanError::Scratch)?;
                let copy = folder.join(buckets.len().to_string());
                let failed = |error| PlanError::of_transfer(&input.name, error);
                let brought = context.handle.block_on(async {
                    let store = context.stores.get(store).await.map_err(TransferError::Store)?;
                    let version = Some(file.version.as_str()).filter(|version| !version.is_empty());
                    store.download(&key_of(source, file), &copy, version).await
                });
                brought.map_err(failed)?;
                copy
            }
        };
        let is_local = described.store == StoreRef::Local;
        buckets.push(Bucket {
            list,
            store: OwnedStore::of(described.store),
            key: if is_local { format!("{}{}", source.origin, rows.relative) } else { key_of(source, rows) },
            version: rows.version.clone(),
        });
    }
    Ok(buckets)
}

fn key_of(source: &Source, file: &Listed) -> String {
    let rest = if file.key.is_empty() { &file.relative } else { &file.key };
    format!("{}{rest}", source.prefix)
}

/// The file with the rows of the bucket that this list is of; nothing where it is none.
fn rows_of(name: &str) -> Option<String> {
    Some(format!("{}{ROWS_SUFFIX}", name.strip_suffix(GROUPS_SUFFIX)?))
}

fn damaged(name: &str, what: &str) -> PlanError {
    PlanError::Groups(format!("{name}: {what}"))
}

/// The groups of a bucket, one after the other.
struct List {
    bucket: Bucket,
    readers: Vec<Reader>,
    /// The files that rows are of.
    files: Vec<Origin>,
    /// Keys that no record has whose rows may be here.
    absent: Vec<String>,
    /// Names that such records have.
    seen: Vec<String>,
    lines: BufReader<File>,
    line: String,
}

/// The first line of a list.
#[derive(Deserialize)]
struct First {
    readers: Vec<DescribedReader>,
    files: Vec<Origin>,
    absent: Vec<String>,
    seen: Vec<String>,
}

/// A file, as the user knows it, and where its name begins in that.
type Origin = (String, u32);

/// How rows are read, as a list has it.
#[derive(Deserialize)]
struct DescribedReader {
    kind: String,
    reader: String,
    columns: String,
    /// Names and types of the columns of a table.
    types: Vec<(String, String)>,
    /// The first slice that is read so.
    first: u64,
}

/// How rows are read, as a descriptor has it.
struct Reader {
    encoded: Vec<u8>,
    columns: Vec<u8>,
    /// The columns of the data, where their types are known.
    types: Option<ColumnTypes>,
    first: u64,
    is_arrow: bool,
}

/// A group of a list.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// The slice with its first row, and which row of that it is.
    first: (u64, u64),
    /// Its keys, in the order of the job file.
    keys: Vec<String>,
    pieces: Vec<Piece>,
}

/// Rows that are read in one way: number of the reader, first byte, one past the last, rows, checksum, the first files that
/// they are of, and how many more there are.
type Piece = (usize, u64, u64, u64, u32, Vec<usize>, u64);

impl List {
    fn open(bucket: Bucket) -> Result<Self, PlanError> {
        let opened = File::open(&bucket.list).map_err(DiskError::about(&bucket.list));
        let lines = BufReader::with_capacity(64 << 10, opened.map_err(PlanError::Scratch)?);
        let mut list = Self {
            bucket,
            readers: Vec::new(),
            files: Vec::new(),
            absent: Vec::new(),
            seen: Vec::new(),
            lines,
            line: String::new(),
        };
        let first: Option<First> = list.read()?;
        let First { readers, files, absent, seen } =
            first.ok_or_else(|| damaged(&list.name(), "it is empty"))?;
        (list.files, list.absent, list.seen) = (files, absent, seen);
        for DescribedReader { kind, reader, columns, types, first } in readers {
            let unknown = || damaged(&list.name(), UNKNOWN_READER);
            let (mut encoded, columns) = bytes_of(&reader).zip(bytes_of(&columns)).ok_or_else(unknown)?;
            let is_arrow = kind == "arrow";
            let types = if is_arrow {
                encoded = message_pack::encode(&TableReader::Arrow);
                Some(ColumnTypes::new(types))
            } else {
                let of_file: TableReader = message_pack::decode(&encoded).map_err(|_| unknown())?;
                of_file.column_types()
            };
            list.readers.push(Reader { encoded, columns, types, first, is_arrow });
        }
        Ok(list)
    }

    fn name(&self) -> String {
        self.bucket.list.display().to_string()
    }

    /// The files of a piece as messages name them, and where the name of the first one begins.
    fn origin(&self, files: &[usize], more: u64) -> Option<Origin> {
        let mut files = files.iter().map(|&file| self.files.get(file));
        let (first, name_at) = files.next()??;
        let mut origin = first.clone();
        let others: Vec<&Origin> = files.collect::<Option<_>>()?;
        for (at, (other, name_at)) in others.iter().enumerate() {
            let joint = if more == 0 && at + 1 == others.len() { " and " } else { ", " };
            origin.extend([joint, other.get(*name_at as usize..).unwrap_or(other)]);
        }
        match more {
            0 => {}
            1 => origin.push_str(" and 1 other file"),
            more => origin.extend([" and ", &more.to_string(), " other files"]),
        }
        Some((origin, *name_at))
    }

    fn next(&mut self) -> Result<Option<Group>, PlanError> {
        self.read()
    }

    /// The next line; nothing behind the last.
    fn read<T: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<T>, PlanError> {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line).map_err(DiskError::about(&self.bucket.list));
        if read.map_err(PlanError::Scratch)? == 0 {
            return Ok(None);
        }
        let parsed = serde_json::from_str(&self.line);
        parsed.map(Some).map_err(|error| damaged(&self.name(), &error.to_string()))
    }
}

/// Plans the mini-batch of a group.
fn hand_over(
    list: &List,
    group: &Group,
    readers: &mut Readers,
    (keys, position): (Keys<'_>, u32),
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let columns = keys.names.iter().zip(&group.keys);
    let columns: Vec<PathColumn<'_>> =
        columns.map(|(name, key)| PathColumn { name, value: PathValue::Data(key) }).collect();
    let Bucket { store, key, version, .. } = &list.bucket;
    let mut slices = Vec::with_capacity(group.pieces.len());
    let absent = || damaged(&list.name(), "a group has a reader or a file that is not there");
    let origins: Option<Vec<Origin>> =
        group.pieces.iter().map(|(.., files, more)| list.origin(files, *more)).collect();
    let origins = origins.ok_or_else(absent)?;
    let mut encoded = Vec::with_capacity(group.pieces.len());
    for (reader, ..) in &group.pieces {
        let reader = list.readers.get(*reader).ok_or_else(absent)?;
        encoded.push(readers.encoded(reader).ok_or_else(|| damaged(&list.name(), UNKNOWN_READER))?);
    }
    for ((&(reader, start, end, records, checksum, ..), (origin, name_at)), encoded) in
        group.pieces.iter().zip(&origins).zip(&encoded)
    {
        let Reader { columns, .. } = list.readers.get(reader).ok_or_else(absent)?;
        slices.push(SliceRef {
            store: store.describe(),
            key,
            origin,
            name_at: *name_at,
            version,
            start,
            end,
            records,
            // A sample was drawn before the rows were put together.
            first_record: 0,
            taken: None,
            checksum,
            reader: encoded,
            columns,
        });
    }
    let work = match slices.as_slice() {
        [only] => Work::Slice(*only),
        _ => Work::Slices(slices),
    };
    // The sink remembers that it was stopped.
    let _ = sink.push_with(position, &PathColumn::encode(&columns), work);
    Ok(())
}

#[cfg(test)]
mod tests {
    use prs_common::job::{InputKind, InputSource};
    use prs_tabular::LinesSchema;

    use super::*;

    fn list(folder: &Path, name: &str, text: &str) -> List {
        let list = folder.join(name);
        fs::write(&list, text).unwrap();
        let (key, version) = (String::new(), String::new());
        List::open(Bucket { list, store: OwnedStore::Local, key, version }).unwrap()
    }

    #[test]
    fn rows_are_of_the_files_that_their_piece_names() {
        let folder = tempfile::tempdir().unwrap();
        let files = r#"[["/in/a.csv",4],["/in/b/c.csv",4],["/in/d.csv",4]]"#;
        let text = format!(r#"{{"readers":[],"files":{files},"absent":[],"seen":[]}}"#);
        let list = list(folder.path(), "0.groups", &text);
        for (files, more, expected) in [
            (&[0][..], 0, Some("/in/a.csv")),
            (&[1, 2], 0, Some("/in/b/c.csv and d.csv")),
            (&[0, 1, 2], 0, Some("/in/a.csv, b/c.csv and d.csv")),
            (&[0, 1, 2], 1, Some("/in/a.csv, b/c.csv, d.csv and 1 other file")),
            (&[0, 1, 2], 7, Some("/in/a.csv, b/c.csv, d.csv and 7 other files")),
            (&[], 0, None),
            (&[3], 0, None),
        ] {
            let origin = list.origin(files, more);
            assert_eq!(origin.map(|(origin, _)| origin).as_deref(), expected, "{files:?} {more}");
        }
    }

    #[test]
    fn a_key_that_no_record_has_is_refused_with_the_names_that_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let text = |absent: &str, seen: &str| {
            format!(r#"{{"readers":[],"files":[],"absent":[{absent}],"seen":[{seen}]}}"#)
        };
        let input = Input::new("rows", InputKind::Tabular, InputSource::Paths(Vec::new()));
        let names = ["store".to_owned(), "day".to_owned()];
        let refused = |texts: &[String]| {
            let open = |(at, text): (usize, &String)| list(folder.path(), &at.to_string(), text);
            let lists: Vec<List> = texts.iter().enumerate().map(open).collect();
            let checked = check_keys(&lists, Keys { input: &input, names: &names });
            checked.map_err(|error| error.to_string()).err()
        };
        assert_eq!(refused(&[]), None);
        assert_eq!(refused(&[text(r#""store""#, r#""shop""#), text("", "")]), None);
        let told = refused(&[text(r#""store""#, r#""stores""#), text(r#""store","day""#, r#""n""#)]).unwrap();
        let expected =
            "input rows: no record has the key \"store\" of partition_keys: did you mean \"stores\"?";
        assert_eq!(told, expected);
        let told = refused(&[text(r#""day""#, r#""n","time""#)]).unwrap();
        assert!(
            told.ends_with(r#"the key "day" of partition_keys: they have "n", "time": name some of these"#),
            "{told}"
        );
    }

    #[test]
    fn groups_are_read_with_the_types_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let columns = |of_type: &str| ColumnTypes::new([("a".to_owned(), of_type.to_owned())]);
        let text = |of_type: &str| {
            let found = format!("[[\"a\",\"{of_type}\"]]");
            let reader = |first: u32| {
                format!(r#"{{"kind":"arrow","reader":"","columns":"","types":{found},"first":{first}}}"#)
            };
            format!(
                r#"{{"readers":[{}],"files":[],"absent":[],"seen":[]}}"#,
                reader(u32::from(of_type == "int64"))
            )
        };
        let lists = ["int64", "float64"].map(|of_type| list(folder.path(), of_type, &text(of_type)));
        let mut readers = Readers::of(&lists);
        let both = vec!["float64".to_owned(), "int64".to_owned()];
        let together = ColumnTypes(vec![("a".to_owned(), both)]);
        for list in &lists {
            let encoded = readers.encoded(&list.readers[0]).unwrap();
            let expected = TableReader::Among(Box::new(TableReader::Arrow), together.clone());
            assert_eq!(message_pack::decode::<TableReader>(&encoded).unwrap(), expected);
        }
        // What is as all files have it is read as its file is; so is all where one does not tell its types.
        let plain = message_pack::encode(&TableReader::JsonLines(LinesSchema::default()));
        let mut of_text = |types: Option<ColumnTypes>| {
            let columns = Vec::new();
            readers.encoded(&Reader { encoded: plain.clone(), columns, types, first: 0, is_arrow: false })
        };
        assert_eq!(of_text(Some(together.clone())).unwrap(), plain);
        assert_ne!(of_text(Some(columns("int64"))).unwrap(), plain);
        let of_sample =
            Reader { encoded: plain.clone(), columns: Vec::new(), types: None, first: 0, is_arrow: false };
        assert_eq!(Readers::default().encoded(&of_sample).unwrap(), plain);
    }
}
