//! The mini-batch: the unit of work, and its descriptor as it travels through the queue.
//!
//! A descriptor is encoded once, by the planner, and forwarded as it is from the queue to the process that
//! runs it; what needs to look inside borrows from the encoded bytes. It says first where the data is, and which
//! mini-batch of which input it is, as a MessagePack value of its own: so much is read without the rest. It holds no row and no file content, but it
//! says what it was planned for: versions of files and objects, checksums of slices. Whatever reads the data compares.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use rmp_serde::decode::Error;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use crate::checksum::crc32c;
use crate::dataset::names::without_detours;
use crate::message_pack;
use crate::split_mix::split_mix;

pub use crate::dataset::path_columns::{PathColumn, PathValue};

/// Position of a mini-batch in the plan of its job, dense from 0 (spec D6).
pub type MiniBatchIndex = u64;

/// Where the data of a mini-batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Location {
    /// On this host, or nothing is read: a process can run it.
    Local,
    /// In stores: a node fetches it first.
    Stores,
    /// What is to be run is a descriptor in storage.
    Stored,
}

/// The beginning of an encoded descriptor; [`Work`] follows.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    location: Location,
    index: MiniBatchIndex,
    input: u32,
    #[serde(borrow, with = "serde_bytes", default, skip_serializing_if = "is_empty")]
    keys: &'a [u8],
    /// Present beside keys alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_group: bool,
}

fn is_empty(bytes: &&[u8]) -> bool {
    bytes.is_empty()
}

/// What one mini-batch consists of, as the planner wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MiniBatch<'a> {
    /// Position in the plan.
    pub index: MiniBatchIndex,
    /// Position of the input in the job's list of inputs.
    pub input: u32,
    /// What the files of it have in common, where the job has `partition_keys`: encoded [`PathColumn`]s in the order of
    /// the keys.
    pub keys: &'a [u8],
    /// Whether it is a group of rows with the same `keys`, and as such one item.
    pub is_group: bool,
    /// The data.
    pub work: Work<'a>,
}

/// The data of a mini-batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work<'a> {
    /// Files of a file dataset.
    Files {
        /// Absolute folder all paths are below; empty when the paths are absolute themselves.
        #[serde(borrow)]
        base: &'a str,
        /// Paths relative to `base`, in listing order.
        #[serde(borrow)]
        paths: Vec<&'a str>,
        /// [Packed](crate::file_version::PackedVersions) versions of all of them, in the same order; empty where
        /// they are not known, as for the lines of a list.
        #[serde(borrow, with = "serde_bytes")]
        versions: &'a [u8],
        /// Their names below the dataset, in the same order; empty where these are `paths`.
        #[serde(borrow)]
        names: Vec<&'a str>,
    },
    /// A slice of a table: whole records, without a header record.
    Slice(#[serde(borrow)] SliceRef<'a>),
    /// Slices of several tables, one behind the other: those of all files with the same `partition_keys`.
    Slices(#[serde(borrow)] Vec<SliceRef<'a>>),
    /// Files of a file dataset that the node fetches first; a process gets them as [`Work::Files`].
    Objects {
        /// Where they are; nearly always one place.
        #[serde(borrow)]
        sources: Vec<ObjectSource<'a>>,
        /// The files, in listing order.
        #[serde(borrow)]
        files: Vec<ObjectRef<'a>>,
    },
    /// The whole descriptor is an object of the job's storage: it is too long for a message.
    Stored {
        /// Its key.
        #[serde(borrow)]
        key: &'a str,
        /// Input items in it.
        items: u64,
        /// [Checksum](checksum) of the whole descriptor.
        checksum: u32,
    },
    /// A part of a file that cannot be split into records; running it fails with this reason (spec D5).
    Unreadable {
        /// The file.
        #[serde(borrow)]
        origin: &'a str,
        /// Where the trouble starts, bytes (in the plain text of a compressed file).
        offset: u64,
        /// What is wrong.
        #[serde(borrow)]
        reason: &'a str,
    },
}

/// The store that an object is in. Nodes know where it is and with which credentials; a descriptor does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoreRef<'a> {
    /// The node's own file system: nothing is fetched, the name of a file is its path.
    Local,
    /// What all jobs of a fleet share: files uploaded at submission, named by their content.
    Shared,
    /// The job's own prefix.
    Job,
    /// Another one, such as `s3://bucket`.
    Url(#[serde(borrow)] &'a str),
}

/// A slice of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceRef<'a> {
    /// The store that has the plain text.
    #[serde(borrow)]
    pub store: StoreRef<'a>,
    /// The object in it. In [`StoreRef::Local`] it is the path of the file: absolute, or, for a decompressed copy, relative
    /// to the scratch folder of the job.
    #[serde(borrow)]
    pub key: &'a str,
    /// The file as the user named it. A local one is `key` itself, unless that is a copy: of a compressed file, or of what
    /// a node fetched.
    #[serde(borrow)]
    pub origin: &'a str,
    /// Where its name below the dataset begins in `origin`, bytes; 0 for a file that a list names.
    pub name_at: u32,
    /// Version of `origin` when it was planned: a changed file is another mini-batch. Of a local file it is a
    /// [`FileVersion`](crate::file_version::FileVersion); empty where the key changes with the content.
    #[serde(borrow)]
    pub version: &'a str,
    /// First byte of the slice.
    pub start: u64,
    /// One past the last byte of the slice.
    pub end: u64,
    /// Records the planner counted in the slice.
    pub records: u64,
    /// CRC32C of the bytes of the slice; of Parquet, of which planning reads no more, that of the footer.
    pub checksum: u32,
    /// How the slice is read: an encoded `TableReader` of `prs-tabular`, the same for all slices of a text.
    #[serde(borrow, with = "serde_bytes")]
    pub reader: &'a [u8],
    /// Columns from the path of the file, which go behind those of the data: encoded [`PathColumn`]s.
    #[serde(borrow, with = "serde_bytes")]
    pub columns: &'a [u8],
    /// How many records of its file are before the first one of the slice: a sample is drawn by the numbers of records.
    pub first_record: u64,
    /// Of the rows that the slice has where its table counts them behind a filter, the first that is taken and the one
    /// behind the last; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<(u64, u64)>,
}

/// What files of a mini-batch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectSource<'a> {
    /// Number of the source in its input: nodes keep the files of each below a folder of its own.
    pub number: u32,
    /// The store.
    #[serde(borrow)]
    pub store: StoreRef<'a>,
    /// What the keys begin with.
    #[serde(borrow)]
    pub prefix: &'a str,
    /// What the names begin with, as the user knows the files: `/data/pictures/`, `s3://bucket/pictures/`.
    #[serde(borrow)]
    pub origin: &'a str,
    /// Whether a list names its files: then the whole name of each is its name in the dataset.
    pub is_listed: bool,
}

/// A file of a mini-batch, in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef<'a> {
    /// Position of its source in the mini-batch.
    pub source: u32,
    /// The rest of its name: its path below the folder that the input names.
    #[serde(borrow)]
    pub relative: &'a str,
    /// The rest of its key; empty where that is `relative`.
    #[serde(borrow)]
    pub key: &'a str,
    /// Bytes, where they are known.
    pub size: Option<u64>,
    /// Changes with its content; empty where the key does, or where it is not known.
    #[serde(borrow)]
    pub version: &'a str,
}

impl<'a> Work<'a> {
    /// The slices of tables that it consists of.
    pub fn slices(&self) -> &[SliceRef<'a>] {
        match self {
            Self::Slice(slice) => std::slice::from_ref(slice),
            Self::Slices(slices) => slices,
            _ => &[],
        }
    }

    fn location(&self) -> Location {
        match self {
            Self::Files { .. } | Self::Unreadable { .. } => Location::Local,
            Self::Slice(slice) if slice.store == StoreRef::Local => Location::Local,
            Self::Slices(slices) if slices.iter().all(|slice| slice.store == StoreRef::Local) => {
                Location::Local
            }
            Self::Objects { .. } | Self::Slice(_) | Self::Slices(_) => Location::Stores,
            Self::Stored { .. } => Location::Stored,
        }
    }
}

impl SliceRef<'static> {
    /// A slice of no file, of which others are made that say a few things alone.
    pub const EMPTY: Self = Self {
        store: StoreRef::Local,
        key: "",
        origin: "",
        name_at: 0,
        version: "",
        start: 0,
        end: 0,
        records: 0,
        checksum: 0,
        reader: &[],
        columns: &[],
        first_record: 0,
        taken: None,
    };
}

impl<'a> SliceRef<'a> {
    /// The name of its file below the dataset, as it stands in `origin`.
    fn name(&self) -> &'a str {
        self.origin.get(self.name_at as usize..).unwrap_or(self.origin)
    }
}

impl ObjectSource<'_> {
    /// The key of `file` in the store.
    pub fn key(&self, file: &ObjectRef<'_>) -> String {
        let rest = if file.key.is_empty() { file.relative } else { file.key };
        [self.prefix, rest].concat()
    }

    /// The name of `file`, as the user knows it.
    pub fn name(&self, file: &ObjectRef<'_>) -> String {
        [self.origin, file.relative].concat()
    }
}

impl<'a> MiniBatch<'a> {
    /// One whose files have no keys in common.
    pub fn new(index: MiniBatchIndex, input: u32, work: Work<'a>) -> Self {
        Self { index, input, keys: &[], is_group: false, work }
    }

    /// Reads a descriptor, borrowing from `body`.
    pub fn decode(body: &'a [u8]) -> Result<Self, Error> {
        let mut body = message_pack::reader(body);
        let Head { location, index, input, keys, is_group } = Head::deserialize(&mut body)?;
        let work = Work::deserialize(&mut body)?;
        if work.location() != location {
            return Err(Error::custom("a mini-batch whose data is not where it says first"));
        }
        Ok(Self { index, input, keys, is_group, work })
    }

    /// The index alone, from an encoded descriptor.
    pub fn peek_index(body: &[u8]) -> Result<MiniBatchIndex, Error> {
        message_pack::decode(body).map(|Head { index, .. }| index)
    }

    /// Whether an encoded descriptor holds nothing that a node fetches first. Looks at its first bytes only,
    /// and allocates nothing.
    pub fn is_local(body: &[u8]) -> bool {
        // What cannot be read is refused where it is decoded.
        message_pack::decode(body).is_ok_and(|Head { location, .. }| location == Location::Local)
    }

    /// Writes the descriptor.
    pub fn encode(&self) -> Vec<u8> {
        let Self { index, input, keys, is_group, ref work } = *self;
        let head = Head { location: work.location(), index, input, keys, is_group };
        let mut body = Vec::new();
        rmp_serde::encode::write(&mut body, &head)
            .and_then(|()| rmp_serde::encode::write(&mut body, &self.work))
            .expect("a descriptor holds only integers, strings and bytes");
        body
    }

    /// The id the entry script and the reports see.
    pub fn id(&self) -> String {
        id_of(self.index)
    }

    /// Input items as far as the plan knows: files, records, or a group.
    pub fn items(&self) -> u64 {
        match &self.work {
            _ if self.is_group => 1,
            Work::Files { paths, .. } => paths.len() as u64,
            Work::Objects { files, .. } => files.len() as u64,
            Work::Slice(slice) => slice.records,
            Work::Slices(slices) => slices.iter().fold(0, |sum, slice| slice.records.saturating_add(sum)),
            Work::Stored { items, .. } => *items,
            Work::Unreadable { .. } => 1,
        }
    }

    /// One line that tells a person what the mini-batch consists of ("Mini-batch Detail" of the report).
    pub fn detail(&self) -> String {
        match &self.work {
            Work::Files { paths, .. } => first_and_more(paths.first().copied(), paths.len()),
            Work::Objects { files, .. } => {
                first_and_more(files.first().map(|file| file.relative), files.len())
            }
            Work::Unreadable { origin, offset, .. } => format!("{origin} from byte {offset}"),
            Work::Slice(SliceRef { origin, start, end, .. }) => format!("{origin} bytes {start}-{end}"),
            Work::Slices(slices) => first_and_more(slices.first().map(|slice| slice.origin), slices.len()),
            Work::Stored { key, .. } => (*key).to_owned(),
        }
    }

    /// One line that tells a person what some of its items are, counted from 0: of files the first of them.
    pub fn detail_of(&self, items: &Range<u64>) -> String {
        let (first, count) = (items.start as usize, (items.end - items.start) as usize);
        let what = match &self.work {
            Work::Files { paths, .. } => first_and_more(paths.get(first).copied(), count),
            Work::Objects { files, .. } => first_and_more(files.get(first).map(|file| file.relative), count),
            _ => self.detail(),
        };
        match count {
            1 => format!("{what}, item {first}"),
            _ => format!("{what}, items {first} to {}", items.end.saturating_sub(1)),
        }
    }

    /// The names of the files, as the user knows them; none where the work is no list of files.
    pub fn file_names(&self) -> Vec<String> {
        match &self.work {
            Work::Files { base: "", paths, .. } => paths.iter().map(|&path| path.to_owned()).collect(),
            Work::Files { base, paths, .. } => paths.iter().map(|path| format!("{base}/{path}")).collect(),
            Work::Objects { sources, files } => {
                let name = |file: &ObjectRef<'_>| Some(sources.get(file.source as usize)?.name(file));
                files.iter().filter_map(name).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The names of the files below the dataset, which are the same on every host: a file of a folder by its path below
    /// that, one that a list names by its absolute path or URL, and for slices those of their files. None where nothing
    /// can be run.
    pub fn item_names(&self) -> Vec<Cow<'a, str>> {
        let listed = |path: &'a str| if path.starts_with('/') { without_detours(path) } else { path.into() };
        match &self.work {
            Work::Files { base: "", paths, names, .. } if names.is_empty() => {
                paths.iter().map(|&path| listed(path)).collect()
            }
            Work::Files { paths, names, .. } => {
                let names = if names.is_empty() { paths } else { names };
                names.iter().map(|&name| name.into()).collect()
            }
            Work::Objects { sources, files } => {
                let name = |file: &ObjectRef<'a>| match sources.get(file.source as usize) {
                    Some(source) if source.is_listed => Cow::from(source.name(file)),
                    _ => file.relative.into(),
                };
                files.iter().map(name).collect()
            }
            Work::Slice(slice) => vec![listed(slice.name())],
            Work::Slices(slices) => slices.iter().map(|slice| listed(slice.name())).collect(),
            Work::Stored { .. } | Work::Unreadable { .. } => Vec::new(),
        }
    }
}

fn first_and_more(first: Option<&str>, count: usize) -> String {
    match (first, count) {
        (None, _) => String::new(),
        (Some(only), 1) => only.to_owned(),
        (Some(first), _) => format!("{first} and {} more", count - 1),
    }
}

/// Checksum of an encoded descriptor: the same plan gives the same checksums (spec D6). A descriptor that is stored
/// and the message that names it have one checksum.
pub fn checksum(body: &[u8]) -> u32 {
    if message_pack::decode(body).is_ok_and(|head: Head| head.location == Location::Stored)
        && let Ok(MiniBatch { work: Work::Stored { checksum, .. }, .. }) = MiniBatch::decode(body)
    {
        return checksum;
    }
    crc32c(body)
}

/// What a mini-batch with this checksum of its descriptor adds to the sum over a plan. The sum is wrapping and tells two
/// sets of descriptors apart whatever the order they are met in, so what was run can be compared with what was planned.
pub fn fingerprint(index: MiniBatchIndex, checksum: u32) -> u64 {
    split_mix(index << 32 | u64::from(checksum))
}

/// The `mini_batch_id` of the mini-batch at `index`; fixed width, so that ids sort as the plan does.
pub fn id_of(index: MiniBatchIndex) -> String {
    format!("mb-{index:010}")
}
