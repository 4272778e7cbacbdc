//! The footer of a Parquet file: which row groups there are, where the data of their columns lies and how much it is.
//!
//! It is read for a plan, so no type and no statistics are looked at but those that decide on the types of columns in pandas
//! (`doubt`): whether the data can be read is for the reader in the process to say, which knows more codecs and types than this
//! would. What is kept does not grow with the number of row
//! groups. The `parquet` crate does not serve here: it allocates what a damaged footer claims, which would end the
//! orchestrator, and refuses whole files over encodings that are new to it.

use std::ops::Range;

use crc_fast::CrcAlgorithm;

use super::dictionaries::dictionaries;
use super::doubt::{DecidedBy, Element};
use super::split::coalesced;
use super::thrift::{Broken, Kind, Thrift};

/// Bytes at the end of a file that tell where its footer begins.
pub const TAIL: u64 = 8;
/// Bytes of a footer at most.
const LARGEST: u64 = 256 << 20;
/// What a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// What one ends with whose footer is encrypted.
const MAGIC_OF_ENCRYPTED: &[u8] = b"PARE";
/// Groups of columns within groups at most.
const DEEPEST: usize = 256;
/// Columns that an error names at most.
const NAMED: usize = 20;

/// Why a file has no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FooterError {
    /// It does not end as Parquet does.
    #[error("it is not a Parquet file, or is cut off: its last bytes are not those of Parquet")]
    NotParquet,
    /// Its end says what cannot be.
    #[error("its footer is damaged: it would be {0} bytes, more than the file has")]
    TooLong(u64),
    /// Its footer would take too much memory.
    #[error("its footer has {0} bytes, more than the {LARGEST} that are read: give it larger row groups")]
    TooLarge(u64),
    /// It cannot be read without a key.
    #[error("it is encrypted, which is not supported: decrypt it first")]
    Encrypted,
    /// Its footer does not say what a footer does.
    #[error("its footer is damaged: {0}")]
    Damaged(&'static str),
    /// A row group does not say what a row group does.
    #[error("its footer is damaged: row group {0} {1}")]
    DamagedGroup(u64, &'static str),
    /// A row group would be split into more parts than it can have.
    #[error(
        "row group {group} is said to have {bytes} bytes of data, and the file has {stored} of it: split_row_groups would make \
         {parts} mini-batches of it; write the file again where that is wrong, else give a larger mini_batch_size"
    )]
    TooManyParts {
        /// Which row group.
        group: u32,
        /// What the footer says of its size, bytes.
        bytes: u64,
        /// What the file has of it, bytes.
        stored: u64,
        /// The parts.
        parts: u64,
    },
    /// The job asks for a column that the file does not have.
    #[error("it has no column {0:?}: its columns are {1}")]
    NoColumn(String, String),
    /// The job asks for a column, and the file has several of that name.
    #[error("it has several columns {0:?}: give them names of their own, or leave out `columns`")]
    SameName(String),
}

impl From<Broken> for FooterError {
    fn from(_: Broken) -> Self {
        Self::Damaged("it is not what its format says")
    }
}

/// A footer, and which columns of its file are read.
#[derive(Debug, Clone)]
pub struct Footer<'a> {
    /// The row groups, behind the beginning of their list.
    groups: Thrift<'a>,
    group_count: u64,
    /// Where the footer lies in the file, with the [`TAIL`]: no data lies behind.
    pub(super) place: Range<u64>,
    /// CRC32C of these bytes.
    pub(super) checksum: u32,
    /// The columns without columns of their own, in their order.
    leaves: Vec<Leaf>,
    /// The columns to read, as pyarrow takes them; all of them without.
    columns: Option<Vec<String>>,
}

/// What a plan has to know of a row group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowGroup {
    /// Its rows.
    pub rows: u64,
    /// Size of the columns that are read when they are not compressed, bytes.
    pub bytes: u64,
    /// Where these columns lie, bytes of the file.
    pub chunks: Vec<Range<u64>>,
    /// The same of those whose data decides on their types, for the footer does not tell.
    in_doubt: Vec<Range<u64>>,
    /// The numbers of the columns with missing values.
    missing: Vec<usize>,
}

/// Types that columns have in pandas, by the footer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundTypes {
    /// Where the data lies, in all row groups, of the columns to read whose types only data decides, in their order.
    pub in_doubt: Vec<Range<u64>>,
    /// The columns to read, each with its type; about that where the data decides.
    pub columns: Vec<(String, &'static str)>,
}

/// Where the footer lies, with the [`TAIL`], in a file of `size` bytes whose last ones are `tail`.
pub fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, FooterError> {
    let tail: &[u8; TAIL as usize] = tail.last_chunk().ok_or(FooterError::NotParquet)?;
    let (length, magic) = tail.split_at(4);
    if magic == MAGIC_OF_ENCRYPTED {
        return Err(FooterError::Encrypted);
    }
    if magic != MAGIC {
        return Err(FooterError::NotParquet);
    }
    let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    let start = size.checked_sub(TAIL + length).filter(|start| *start >= MAGIC.len() as u64);
    let start = start.ok_or(FooterError::TooLong(length))?;
    if length > LARGEST { Err(FooterError::TooLarge(length)) } else { Ok(start..size) }
}

impl<'a> Footer<'a> {
    /// Reads a footer with its [`TAIL`], which begins at `start` of its file, for these columns, or for all of them.
    pub fn read(bytes: &'a [u8], start: u64, columns: Option<&[String]>) -> Result<Self, FooterError> {
        let (mut schema, mut groups, mut metadata, mut is_encrypted) =
            (None, None, Metadata::default(), false);
        Thrift::new(bytes).fields(|thrift, id, kind| -> Result<bool, FooterError> {
            match (id, kind) {
                (2, Kind::List) => schema = Some(*thrift),
                (4, Kind::List) => groups = Some(*thrift),
                (5, Kind::List) => {
                    metadata = Metadata::read(thrift)?;
                    return Ok(true);
                }
                (8, _) => is_encrypted = true,
                _ => {}
            }
            Ok(false)
        })?;
        if is_encrypted {
            return Err(FooterError::Encrypted);
        }
        let mut groups = groups.ok_or(FooterError::Damaged("it has no row groups"))?;
        let schema = schema.ok_or(FooterError::Damaged("it has no schema"))?;
        let group_count = structs(&mut groups)?;
        let columns = columns.map(|columns| {
            let more = metadata.index.iter().filter(|name| !columns.contains(name)).cloned();
            (columns.len(), columns.iter().cloned().chain(more).collect::<Vec<_>>())
        });
        let wanted = columns.as_ref().map(|(asked, names)| (*asked, names.as_slice()));
        let leaves = leaves(schema, wanted, &metadata)?;
        let place = start..start + bytes.len() as u64;
        let checksum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32;
        let columns = columns.map(|(_, names)| names);
        Ok(Self { groups, group_count, place, checksum, leaves, columns })
    }

    /// The columns to read, with those that pandas made the index of; all of them without.
    pub fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    /// Number of row groups.
    pub fn group_count(&self) -> u64 {
        self.group_count
    }

    /// Tells the types of the columns, from the row groups before the first damaged one.
    pub fn types(&self) -> FoundTypes {
        let mut in_doubt = Vec::new();
        let mut have_missing = vec![false; self.leaves.len()];
        for group in self.row_groups().map_while(Result::ok) {
            in_doubt.extend(group.in_doubt);
            group.missing.into_iter().for_each(|column| have_missing[column] = true);
        }
        let mut columns = Vec::<(String, &'static str)>::new();
        for (leaf, has_missing) in self.leaves.iter().zip(have_missing) {
            // Those of a group come together.
            if leaf.is_read && columns.last().is_none_or(|(name, _)| *name != leaf.column) {
                columns.push((leaf.column.clone(), leaf.decided.type_name(leaf.type_name, has_missing)));
            }
        }
        FoundTypes { in_doubt: coalesced(in_doubt), columns }
    }

    /// The row groups, in their order; nothing follows an error.
    pub fn row_groups(&self) -> impl Iterator<Item = Result<RowGroup, FooterError>> {
        let mut thrift = self.groups;
        let mut is_over = false;
        (0..self.group_count).map_while(move |number| {
            let group = (!is_over).then(|| self.row_group(&mut thrift, number));
            is_over = group.as_ref().is_some_and(Result::is_err);
            group
        })
    }

    fn row_group(&self, thrift: &mut Thrift<'_>, number: u64) -> Result<RowGroup, FooterError> {
        let damaged = |what| FooterError::DamagedGroup(number, what);
        let mut group = RowGroup::default();
        let (mut rows, mut columns) = (None, 0);
        thrift.fields(|thrift, id, kind| -> Result<bool, FooterError> {
            match (id, kind) {
                (1, Kind::List) => {
                    columns = structs(thrift)?;
                    for column in 0..columns {
                        let chunk = chunk(thrift)?;
                        let leaf = self.leaves.get(column as usize);
                        let leaf = leaf.ok_or_else(|| damaged("has more columns than the file"))?;
                        if !leaf.is_read {
                            continue;
                        }
                        let (range, bytes) = chunk.place(self.place.start).map_err(damaged)?;
                        if leaf.decided.is_in_doubt(chunk.nulls) {
                            group.in_doubt.push(range.clone());
                        }
                        if chunk.nulls.is_some_and(|nulls| nulls > 0) {
                            group.missing.push(column as usize);
                        }
                        group.bytes = group.bytes.saturating_add(bytes);
                        group.chunks.push(range);
                    }
                }
                (3, Kind::Integer) => rows = Some(thrift.integer()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if columns < self.leaves.len() as u64 {
            return Err(damaged("has fewer columns than the file"));
        }
        let rows = rows.and_then(|rows| u64::try_from(rows).ok());
        group.rows = rows.ok_or_else(|| damaged("has no number of rows"))?;
        Ok(group)
    }
}

/// What the footer says of the data of one column in one row group.
#[derive(Debug, Default)]
struct Chunk {
    is_elsewhere: bool,
    is_encrypted: bool,
    uncompressed: i64,
    compressed: i64,
    data: i64,
    dictionary: Option<i64>,
    /// How many values are missing.
    nulls: Option<i64>,
}

impl Chunk {
    /// Where it lies, in front of the footer, and its size when it is not compressed; or what is wrong with it.
    fn place(&self, footer: u64) -> Result<(Range<u64>, u64), &'static str> {
        if self.is_elsewhere {
            return Err("has its data in another file, which is not supported");
        }
        if self.is_encrypted {
            return Err("is encrypted, which is not supported");
        }
        // Some writers give 0 for a dictionary that is not there.
        let first = self.dictionary.filter(|at| (1..self.data).contains(at)).unwrap_or(self.data);
        let range = u64::try_from(first).ok().zip(u64::try_from(self.compressed).ok());
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let range = range.filter(|range| range.end <= footer).ok_or("has data beyond the end of the file")?;
        let bytes = u64::try_from(self.uncompressed).map_err(|_| "has a size below zero")?;
        Ok((range, bytes))
    }
}

fn chunk(thrift: &mut Thrift<'_>) -> Result<Chunk, Broken> {
    // Without this part the chunk is encrypted.
    let mut chunk = Chunk { is_encrypted: true, ..Chunk::default() };
    thrift.fields(|thrift, id, kind| {
        match (id, kind) {
            (1, Kind::Binary) => chunk.is_elsewhere = !thrift.binary()?.is_empty(),
            (3, Kind::Struct) => {
                chunk.is_encrypted = false;
                thrift.fields(|thrift, id, kind| {
                    match (id, kind) {
                        (6, Kind::Integer) => chunk.uncompressed = thrift.integer()?,
                        (7, Kind::Integer) => chunk.compressed = thrift.integer()?,
                        (9, Kind::Integer) => chunk.data = thrift.integer()?,
                        (11, Kind::Integer) => chunk.dictionary = Some(thrift.integer()?),
                        (12, Kind::Struct) => chunk.nulls = null_count(thrift)?,
                        _ => return Ok(false),
                    }
                    Ok::<_, Broken>(true)
                })?;
            }
            _ => return Ok(false),
        }
        Ok::<_, Broken>(true)
    })?;
    Ok(chunk)
}

/// What the statistics of a chunk say of missing values.
fn null_count(thrift: &mut Thrift<'_>) -> Result<Option<i64>, Broken> {
    let mut count = None;
    thrift.fields(|thrift, id, kind| {
        if (id, kind) == (3, Kind::Integer) {
            count = Some(thrift.integer()?);
        }
        Ok::<_, Broken>((id, kind) == (3, Kind::Integer))
    })?;
    Ok(count)
}

/// The beginning of a list of structs: how many there are, as it claims.
fn structs(thrift: &mut Thrift<'_>) -> Result<u64, Broken> {
    let (count, kind) = thrift.list()?;
    if count > 0 && kind != Kind::Struct { Err(Broken) } else { Ok(count) }
}

/// Metadata that programs leave in a file for themselves.
#[derive(Default)]
struct Metadata<'a> {
    /// The columns that pandas made the index of; those that it makes anew, such as a range, are none.
    index: Vec<String>,
    /// The columns of types that have a place for missing values.
    nullable: Vec<String>,
    /// The schema of Arrow, as Arrow writes it.
    arrow: &'a [u8],
}

impl<'a> Metadata<'a> {
    fn read(thrift: &mut Thrift<'a>) -> Result<Self, Broken> {
        let mut metadata = Self::default();
        for _ in 0..structs(thrift)? {
            let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
            thrift.fields(|thrift, id, kind| {
                match (id, kind) {
                    (1, Kind::Binary) => name = thrift.binary()?,
                    (2, Kind::Binary) => value = thrift.binary()?,
                    _ => return Ok(false),
                }
                Ok::<_, Broken>(true)
            })?;
            match name {
                b"pandas" => (metadata.index, metadata.nullable) = of_pandas(value),
                b"ARROW:schema" => metadata.arrow = value,
                _ => {}
            }
        }
        Ok(metadata)
    }
}

/// The columns of the index, and those of nullable types.
fn of_pandas(metadata: &[u8]) -> (Vec<String>, Vec<String>) {
    #[derive(serde::Deserialize)]
    struct OfPandas {
        index_columns: Vec<serde_json::Value>,
        #[serde(default)]
        columns: Vec<serde_json::Value>,
    }
    // The reader says what it thinks of other metadata of this name.
    let Ok(OfPandas { index_columns, columns }) = serde_json::from_slice(metadata) else {
        return Default::default();
    };
    let index = index_columns.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
    let is_nullable = |column: &&serde_json::Value| {
        let of_numpy = column["numpy_type"].as_str().unwrap_or_default();
        of_numpy == "boolean" || of_numpy.ends_with("[pyarrow]") || of_numpy.starts_with(char::is_uppercase)
    };
    let nullable = columns.iter().filter(is_nullable).filter_map(|column| column["field_name"].as_str());
    (index, nullable.map(str::to_owned).collect())
}

/// A column without columns of its own.
#[derive(Debug, Clone)]
struct Leaf {
    is_read: bool,
    /// The column of the table that it is, or is in.
    column: String,
    /// Its type in pandas where no value is missing.
    type_name: &'static str,
    /// What decides on it.
    decided: DecidedBy,
}

/// The columns without columns of their own. All of them are read, or those of these names, of which the first so many have to be
/// there.
fn leaves(
    mut schema: Thrift<'_>,
    wanted: Option<(usize, &[String])>,
    metadata: &Metadata<'_>,
) -> Result<Vec<Leaf>, FooterError> {
    let dictionaries = dictionaries(metadata.arrow);
    let (asked, wanted) = wanted.map_or((0, None), |(asked, names)| (asked, Some(names)));
    let mut leaves = Vec::new();
    let mut names: Vec<&[u8]> = Vec::new();
    // The groups that are open: their columns to come, the length of the path before them, and what they are.
    let mut open: Vec<(u64, usize, Element)> = Vec::new();
    let mut path = String::new();
    for number in 0..structs(&mut schema)? {
        let (mut name, mut children, mut element): (&[u8], _, _) = (&[], 0, Element::default());
        schema.fields(|thrift, id, kind| {
            match (id, kind) {
                (1, Kind::Integer) => element.physical = Some(thrift.integer()?),
                (3, Kind::Integer) => element.repetition = thrift.integer()?,
                (4, Kind::Binary) => name = thrift.binary()?,
                (5, Kind::Integer) => children = thrift.integer()?,
                (6, Kind::Integer) => element.converted = Some(thrift.integer()?),
                (10, Kind::Struct) => element.logical = thrift.variant()?,
                _ => return Ok(false),
            }
            Ok::<_, Broken>(true)
        })?;
        let children = u64::try_from(children).map_err(|_| Broken)?;
        if number == 0 {
            open.push((children, 0, element));
            continue;
        }
        let before = path.len();
        let Some((left, ..)) = open.last_mut().filter(|(left, ..)| *left > 0) else {
            return Err(Broken.into());
        };
        *left -= 1;
        if open.len() == 1 {
            names.push(name);
        } else {
            path.push('.');
        }
        path.push_str(&String::from_utf8_lossy(name));
        if element.physical.is_some() && children == 0 {
            // As pyarrow takes names: with all that is below one, and below a path.
            let is_of = |name: &String| {
                path.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let above = open.iter().skip(1).map(|(.., group)| group);
            let decided = if metadata.nullable.contains(&path) {
                DecidedBy::Schema
            } else {
                DecidedBy::of(above, &element, || dictionaries.contains(&path))
            };
            leaves.push(Leaf {
                is_read: wanted.is_none_or(|wanted| wanted.iter().any(is_of)),
                column: names
                    .last()
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .unwrap_or_default(),
                type_name: if open.len() == 1 { element.type_name() } else { "object" },
                decided,
            });
        }
        open.push((children, before, element));
        if open.len() > DEEPEST {
            return Err(FooterError::Damaged("its columns are nested too deep"));
        }
        while let Some((0, before, _)) = open.last() {
            path.truncate(*before);
            open.pop();
        }
    }
    for name in wanted.unwrap_or_default().iter().take(asked) {
        match names.iter().filter(|found| **found == name.as_bytes()).count() {
            0 => return Err(FooterError::NoColumn(name.clone(), first(&names))),
            1 => {}
            _ => return Err(FooterError::SameName(name.clone())),
        }
    }
    Ok(leaves)
}

/// The first names, in words.
fn first(names: &[&[u8]]) -> String {
    let mut told: Vec<_> = names.iter().take(NAMED).map(|name| String::from_utf8_lossy(name)).collect();
    if names.len() > NAMED {
        told.push(format!("{} more", names.len() - NAMED).into());
    }
    told.join(", ")
}
