//! Footers that a small writer makes, whole and damaged, and the slices that come of them.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::thrift::Broken;
use super::*;
use crate::Slice;

/// Where the footers of these tests begin.
const START: u64 = 100_000_000;

/// Writes Thrift's compact protocol.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// The last field of each struct that is open.
    last: Vec<i64>,
}

impl Writer {
    fn count(&mut self, mut value: u64) {
        while value > 0x7f {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.count((value << 1 ^ value >> 63) as u64);
    }

    fn field(&mut self, id: i64, kind: u8) {
        let last = self.last.last_mut().unwrap();
        let step = id - std::mem::replace(last, id);
        if (1..16).contains(&step) {
            self.out.push((step as u8) << 4 | kind);
        } else {
            self.out.push(kind);
            self.zigzag(id);
        }
    }

    fn integer(&mut self, id: i64, value: i64) {
        self.field(id, 6);
        self.zigzag(value);
    }

    fn binary(&mut self, id: i64, value: &[u8]) {
        self.field(id, 8);
        self.count(value.len() as u64);
        self.out.extend(value);
    }

    fn list(&mut self, id: i64, count: usize) {
        self.field(id, 9);
        self.out.push(0xfc);
        self.count(count as u64);
    }

    fn structure(&mut self, write: impl FnOnce(&mut Self)) {
        self.last.push(0);
        write(self);
        self.last.pop();
        self.out.push(0);
    }
}

/// A column chunk: where it begins, its size, and its size when it is not compressed.
type ChunkOf = (i64, i64, i64);

/// What a footer says. A column whose name has dots is a group of groups.
#[derive(Clone, Default)]
struct File {
    columns: Vec<&'static str>,
    groups: Vec<(i64, Vec<ChunkOf>)>,
    index: &'static str,
    /// Where the dictionaries of all chunks lie.
    dictionary: Option<i64>,
    /// The file that has the data.
    elsewhere: &'static str,
    is_encrypted: bool,
    /// The repetition of all columns and groups; required where it is 0.
    repetition: i64,
    /// How many values are missing in each chunk, where that is told.
    nulls: Option<i64>,
    /// The schema of Arrow, as text.
    arrow: &'static str,
}

impl File {
    /// `columns`, and row groups of so many rows in which each column takes `bytes`, one behind the other.
    fn of(columns: &[&'static str], rows: &[i64], bytes: i64) -> Self {
        let mut at = 4 - bytes;
        let mut chunk = || {
            at += bytes;
            (at, bytes, bytes)
        };
        let groups = rows.iter().map(|rows| (*rows, columns.iter().map(|_| chunk()).collect())).collect();
        Self { columns: columns.to_vec(), groups, ..Self::default() }
    }

    fn footer(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.structure(|writer| {
            writer.integer(1, 2);
            let elements: usize = self.columns.iter().map(|name| name.split('.').count()).sum();
            writer.list(2, elements + 1);
            writer.structure(|writer| {
                writer.binary(4, b"schema");
                writer.integer(5, self.columns.len() as i64);
            });
            for column in &self.columns {
                let mut parts = column.split('.').peekable();
                while let Some(part) = parts.next() {
                    let is_leaf = parts.peek().is_none();
                    writer.structure(|writer| {
                        if is_leaf {
                            writer.integer(1, 2);
                        }
                        writer.integer(3, self.repetition);
                        writer.binary(4, part.as_bytes());
                        if !is_leaf {
                            writer.integer(5, 1);
                        }
                    });
                }
            }
            writer.integer(3, self.groups.iter().map(|(rows, _)| rows).sum());
            writer.list(4, self.groups.len());
            for (rows, chunks) in &self.groups {
                writer.structure(|writer| {
                    writer.list(1, chunks.len());
                    for chunk in chunks {
                        self.chunk(writer, *chunk);
                    }
                    writer.integer(2, chunks.iter().map(|chunk| chunk.2).sum());
                    writer.integer(3, *rows);
                });
            }
            writer.list(5, 2);
            for (name, value) in [("pandas", self.index), ("ARROW:schema", self.arrow)] {
                writer.structure(|writer| {
                    writer.binary(1, name.as_bytes());
                    writer.binary(2, value.as_bytes());
                });
            }
            if self.is_encrypted {
                writer.field(8, 12);
                writer.structure(|_| ());
            }
        });
        let length = writer.out.len() as u32;
        [&writer.out, &length.to_le_bytes()[..], b"PAR1"].concat()
    }

    fn chunk(&self, writer: &mut Writer, (start, compressed, uncompressed): ChunkOf) {
        writer.structure(|writer| {
            if !self.elsewhere.is_empty() {
                writer.binary(1, self.elsewhere.as_bytes());
            }
            writer.integer(2, 0);
            writer.field(3, 12);
            writer.structure(|writer| {
                writer.integer(6, uncompressed);
                writer.integer(7, compressed);
                // An empty list without a type, as fastparquet writes it.
                writer.field(8, 9);
                writer.out.push(0);
                writer.integer(9, start);
                if let Some(dictionary) = self.dictionary {
                    writer.integer(11, dictionary);
                }
                writer.field(12, 12);
                writer.structure(|writer| {
                    if let Some(nulls) = self.nulls {
                        writer.integer(3, nulls);
                    }
                    writer.field(7, 1);
                    writer.binary(8, b"what nobody reads");
                });
            });
        });
    }
}

#[test]
fn data_decides_on_types_where_the_footer_does_not() {
    let (required, optional, repeated) = (0, 1, 2);
    // The columns are whole numbers.
    for (column, repetition, nulls, is_in_doubt) in [
        ("a", required, None, false),
        ("a", optional, None, true),
        ("a", optional, Some(0), false),
        ("a", optional, Some(7), false),
        ("a", repeated, None, true),
        ("a", repeated, Some(0), false),
        // It may be a list that is missing.
        ("a.list", repeated, Some(7), true),
        // What is in structs has no type of its own.
        ("a.b", optional, None, false),
    ] {
        let file = File { repetition, nulls, ..File::of(&[column], &[10, 10], 100) };
        let footer = file.footer();
        let found = Footer::read(&footer, START, None).unwrap().types().in_doubt;
        let both = Some(4..204).filter(|_| is_in_doubt);
        assert_eq!(found, Vec::from_iter(both), "{column} {repetition} {nulls:?}");
    }
    // Columns that nobody reads decide nothing.
    let footer = File { repetition: optional, ..File::of(&["a", "b"], &[10], 100) }.footer();
    let chosen = ["b".to_owned()];
    let types = Footer::read(&footer, START, Some(&chosen)).unwrap().types();
    assert_eq!((types.in_doubt.first(), types.in_doubt.len()), (Some(&(104..204)), 1));
}

#[test]
fn columns_have_the_types_of_pandas() {
    let nullable = r#"{"index_columns":[],"columns":[{"field_name":"a","numpy_type":"Int64"}]}"#;
    for (columns, repetition, nulls, index, expected) in [
        (&["a"][..], 0, None, "", &[("a", "int64")][..]),
        (&["a", "b"], 1, Some(0), "", &[("a", "int64"), ("b", "int64")]),
        (&["a"], 1, Some(1), "", &[("a", "float64")]),
        (&["a"], 1, Some(1), nullable, &[("a", "int64")]),
        (&["a"], 1, None, "", &[("a", "int64")]),
        (&["a"], 2, Some(1), "", &[("a", "object")]),
        (&["g.a", "g.b", "c"], 1, Some(1), "", &[("g", "object"), ("g", "object"), ("c", "float64")]),
    ] {
        let footer = File { index, repetition, nulls, ..File::of(columns, &[10, 10], 100) }.footer();
        let found = Footer::read(&footer, START, None).unwrap().types();
        let found: Vec<_> = found.columns.iter().map(|(name, of_type)| (&**name, *of_type)).collect();
        let mut expected = expected.to_vec();
        expected.dedup();
        assert_eq!(found, expected, "{columns:?} {repetition} {nulls:?}");
        assert!(index.is_empty() || Footer::read(&footer, START, None).unwrap().types().in_doubt.is_empty());
    }
}

/// The schema that pyarrow leaves for `pyarrow.table({"a": [1], "b": pyarrow.array(["x"]).dictionary_encode()})`.
#[cfg(feature = "parquet")]
const WITH_DICTIONARY: &str = "/////9AAAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAEAAAAuP///wQAAAACAAAAcAAAABQAAAAQABgACAAGAAcADAAQABQAEAAAAAAAAQUUAAAAOAAAABwAAAAEAAAAAAAAAAEAAABiAAAACAAIAAAABAAIAAAABAAAALz///8AAAABIAAAAAQABAAEAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAAECEAAAABwAAAAEAAAAAAAAAAEAAABhAAAACAAMAAgABwAIAAAAAAAAAUAAAAAAAAAA";

#[cfg(feature = "parquet")]
#[test]
fn categories_are_all_values_of_their_file() {
    for (arrow, expected) in
        [(WITH_DICTIONARY, "category"), ("", "int64"), ("bm9uZQ==", "int64"), ("!", "int64")]
    {
        let footer = File { arrow, ..File::of(&["a", "b"], &[10], 100) }.footer();
        let found = Footer::read(&footer, START, None).unwrap().types();
        assert_eq!(found.columns, [("a".to_owned(), "int64"), ("b".to_owned(), expected)], "{arrow}");
        let categories = Some(104..204).filter(|_| expected == "category");
        assert_eq!(found.in_doubt, Vec::from_iter(categories));
    }
}

/// The slices of a file, as far as they come.
fn slices(
    footer: &[u8],
    columns: Option<&[&str]>,
    size: u64,
    splits: bool,
) -> (Vec<(Slice, RowGroups)>, Result<(), FooterError>) {
    let columns: Option<Vec<String>> = columns.map(|names| names.iter().map(ToString::to_string).collect());
    let mut found = Vec::new();
    let ended = Footer::read(footer, START, columns.as_deref()).and_then(|footer| {
        split(&footer, size, splits, &mut { Rows::ALL }, |slice, row_groups| {
            found.push((slice, row_groups));
            ControlFlow::Continue(())
        })
    });
    (found, ended)
}

/// The same in words: row groups, records, and places of the data.
fn told(
    footer: &[u8],
    columns: Option<&[&str]>,
    size: u64,
    splits: bool,
) -> Vec<(String, u64, Vec<Range<u64>>)> {
    let (found, ended) = slices(footer, columns, size, splits);
    ended.unwrap();
    found.into_iter().map(|(slice, groups)| (groups.to_string(), slice.records, groups.data)).collect()
}

#[test]
fn a_footer_is_found_by_the_end_of_its_file() {
    let tail = |length: u32, magic: &[u8]| [&length.to_le_bytes()[..], magic].concat();
    for (tail, size, expected) in [
        (tail(20, b"PAR1"), 1_000, Ok(972..1_000)),
        (tail(988, b"PAR1"), 1_000, Ok(4..1_000)),
        (tail(989, b"PAR1"), 1_000, Err(FooterError::TooLong(989))),
        (tail(u32::MAX, b"PAR1"), 1_000, Err(FooterError::TooLong(u64::from(u32::MAX)))),
        (tail(1 << 29, b"PAR1"), 1 << 40, Err(FooterError::TooLarge(1 << 29))),
        (tail(20, b"PARE"), 1_000, Err(FooterError::Encrypted)),
        (tail(20, b"1,2\n"), 1_000, Err(FooterError::NotParquet)),
        (b"PAR1".to_vec(), 4, Err(FooterError::NotParquet)),
        (Vec::new(), 0, Err(FooterError::NotParquet)),
    ] {
        assert_eq!(locate(&tail, size), expected, "{tail:?} {size}");
    }
}

#[test]
fn rows_that_are_wanted_are_cut_out_of_their_row_groups() {
    let footer = File::of(&["a", "b"], &[10, 20, 30, 40, 0, 50], 100).footer();
    let within = |size, splits, skip, most| {
        let (mut found, mut rows) = (Vec::new(), Rows { skip, most });
        let ended = Footer::read(&footer, START, None).and_then(|footer| {
            split(&footer, size, splits, &mut rows, |slice, groups| {
                found.push((groups.to_string(), slice.records));
                ControlFlow::Continue(())
            })
        });
        ended.unwrap();
        (found, rows)
    };
    let parts = |parts: &[(&str, u64)]| {
        parts.iter().map(|(groups, rows)| ((*groups).to_owned(), *rows)).collect::<Vec<_>>()
    };
    let left = |skip, most| Rows { skip, most };
    for ((size, splits, skip, most), expected) in [
        ((10_000, false, 0, 150), (parts(&[("row groups 0-5", 150)]), left(0, 0))),
        ((10_000, false, 10, 20), (parts(&[("row group 1", 20)]), left(0, 0))),
        (
            (10_000, false, 15, 30),
            (parts(&[("rows 5-20 of row group 1", 15), ("rows 0-15 of row group 2", 15)]), left(0, 0)),
        ),
        (
            (10_000, false, 15, 60),
            (
                parts(&[
                    ("rows 5-20 of row group 1", 15),
                    ("row group 2", 30),
                    ("rows 0-15 of row group 3", 15),
                ]),
                left(0, 0),
            ),
        ),
        ((10_000, false, 12, 3), (parts(&[("rows 2-5 of row group 1", 3)]), left(0, 0))),
        ((10_000, false, 148, 9), (parts(&[("rows 48-50 of row group 5", 2)]), left(0, 7))),
        ((10_000, false, 151, 9), (parts(&[]), left(1, 9))),
        (
            (100, true, 5, 15),
            (parts(&[("rows 5-10 of row group 0", 5), ("rows 0-10 of row group 1", 10)]), left(0, 0)),
        ),
    ] {
        assert_eq!(within(size, splits, skip, most), expected, "{size} {splits} {skip} {most}");
    }
}

#[test]
fn neighbours_go_together_up_to_the_size() {
    let footer = File::of(&["a", "b"], &[10, 20, 30, 40, 0, 50], 100).footer();
    let all = |size| told(&footer, None, size, false);
    let one = |from: u64, to: u64| Vec::from_iter(Some(4 + from * 200..4 + to * 200));
    assert_eq!(all(10_000), [("row groups 0-5".to_owned(), 150, one(0, 6))]);
    let in_twos = [
        ("row groups 0-1".to_owned(), 30, one(0, 2)),
        ("row groups 2-3".to_owned(), 70, one(2, 4)),
        ("row group 5".to_owned(), 50, one(5, 6)),
    ];
    assert_eq!(all(400), in_twos);
    assert_eq!(all(599), in_twos);
    // One that is larger is whole all the same.
    let alone: Vec<_> = all(1).into_iter().map(|(groups, records, _)| (groups, records)).collect();
    let number = |number: u32| format!("row group {number}");
    assert_eq!(alone, [(number(0), 10), (number(1), 20), (number(2), 30), (number(3), 40), (number(5), 50)]);
    let (found, _) = slices(&footer, None, 400, false);
    for (slice, groups) in &found {
        assert_eq!((slice.start, slice.end), (groups.data[0].start, groups.data.last().unwrap().end));
        assert_eq!(slice.checksum, crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &footer) as u32);
        assert_eq!(groups.footer, START..START + footer.len() as u64);
    }
}

#[test]
fn row_groups_are_split_where_that_is_asked_for() {
    let footer = File::of(&["a"], &[5, 10, 7], 300).footer();
    let parts: Vec<_> =
        told(&footer, None, 100, true).into_iter().map(|(groups, rows, _)| (groups, rows)).collect();
    let part = |from: u64, to: u64, group: u32| (format!("rows {from}-{to} of row group {group}"), to - from);
    assert_eq!(
        parts,
        [
            part(0, 2, 0),
            part(2, 4, 0),
            part(4, 5, 0),
            part(0, 4, 1),
            part(4, 8, 1),
            part(8, 10, 1),
            part(0, 3, 2),
            part(3, 6, 2),
            part(6, 7, 2),
        ]
    );
    // No part is empty, however small the size.
    let parts = told(&File::of(&["a"], &[3], 300).footer(), None, 1, true);
    assert_eq!(parts.iter().map(|(_, rows, _)| *rows).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(told(&footer, None, 600, true)[0].0, "row groups 0-1");
}

#[test]
fn what_has_no_rows_is_no_slice() {
    for file in [File::of(&["a"], &[], 0), File::of(&["a"], &[0, 0], 9), File::of(&[], &[], 0)] {
        assert_eq!(told(&file.footer(), None, 100, true), []);
    }
    assert_eq!(
        told(&File::of(&[], &[3], 0).footer(), None, 100, false),
        [("row group 0".to_owned(), 3, vec![])]
    );
}

#[test]
fn columns_that_are_not_asked_for_count_for_nothing() {
    let far = 3 << 20;
    let file = File {
        index: r#"{"index_columns": ["k", {"kind": "range"}]}"#,
        ..File::of(&["a", "s.list.x", "k", "c"], &[1, 1], far)
    };
    let footer = file.footer();
    let far = far as u64;
    let chunk = |number: u64| 4 + number * far..4 + (number + 1) * far;
    let read = |columns: &[&str], size| {
        let (found, ended) = slices(&footer, Some(columns), size, false);
        ended.unwrap();
        found.into_iter().map(|(_, groups)| (groups.columns.unwrap(), groups.data)).collect::<Vec<_>>()
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    // The index goes along, once.
    assert_eq!(
        read(&["c", "a"], 3 * far),
        [
            (names(&["c", "a", "k"]), vec![chunk(0), chunk(2).start..chunk(3).end]),
            (names(&["c", "a", "k"]), vec![chunk(4), chunk(6).start..chunk(7).end]),
        ]
    );
    assert_eq!(read(&["k"], 2 * far), [(names(&["k"]), vec![chunk(2), chunk(6)])]);
    assert_eq!(read(&["s"], 9 * far)[0].1, [chunk(1).start..chunk(2).end, chunk(5).start..chunk(6).end]);
    for (columns, expected) in [
        (&["a", "x"][..], "it has no column \"x\": its columns are a, s, k, c"),
        (&["list"], "it has no column \"list\": its columns are a, s, k, c"),
        (&["s.list"], "it has no column \"s.list\": its columns are a, s, k, c"),
    ] {
        assert_eq!(slices(&footer, Some(columns), 1, false).1.unwrap_err().to_string(), expected);
    }
    let twins = File::of(&["a", "a"], &[1], 1).footer();
    assert_eq!(slices(&twins, Some(&["a"]), 1, false).1, Err(FooterError::SameName("a".to_owned())));
    assert_eq!(told(&twins, None, 1, false).len(), 1);
    let many: Vec<&'static str> =
        "abcdefghijklmnopqrstuvwxyz".split("").filter(|name| !name.is_empty()).collect();
    let told = slices(&File::of(&many, &[1], 1).footer(), Some(&["?"]), 1, false).1.unwrap_err().to_string();
    assert!(told.ends_with("s, t, 6 more"), "{told}");
}

#[test]
fn a_chunk_begins_with_its_dictionary() {
    let file = |dictionary| File {
        dictionary,
        groups: vec![(1, vec![(500, 100, 100)])],
        ..File::of(&["a"], &[], 0)
    };
    for (dictionary, expected) in
        [(None, 500), (Some(400), 400), (Some(0), 500), (Some(600), 500), (Some(-1), 500)]
    {
        assert_eq!(told(&file(dictionary).footer(), None, 1, false)[0].2[0], expected..expected + 100);
    }
}

#[test]
fn a_footer_that_lies_is_refused() {
    let with = |chunk: ChunkOf| File { groups: vec![(1, vec![chunk])], ..File::of(&["a"], &[], 0) };
    let beyond = "its footer is damaged: row group 0 has data beyond the end of the file";
    let start = START as i64;
    let rows = |rows| File::of(&["a"], &[1, rows], 1);
    for (file, expected) in [
        (with((start - 9, 9, 9)), ""),
        (with((start - 9, 10, 9)), beyond),
        (with((-1, 9, 9)), beyond),
        (with((9, -1, 9)), beyond),
        (with((i64::MAX, i64::MAX, 9)), beyond),
        (with((9, 9, -1)), "its footer is damaged: row group 0 has a size below zero"),
        (rows(-1), "its footer is damaged: row group 1 has no number of rows"),
        (
            File { columns: vec!["a", "b"], ..with((9, 9, 9)) },
            "its footer is damaged: row group 0 has fewer columns than the file",
        ),
        (
            File { columns: vec![], ..with((9, 9, 9)) },
            "its footer is damaged: row group 0 has more columns than the file",
        ),
        (
            File { elsewhere: "part-1.parquet", ..with((9, 9, 9)) },
            "its footer is damaged: row group 0 has its data in another file, which is not supported",
        ),
        (
            File { is_encrypted: true, ..with((9, 9, 9)) },
            "it is encrypted, which is not supported: decrypt it first",
        ),
    ] {
        let ended = slices(&file.footer(), None, 1, false).1;
        assert_eq!(ended.err().map(|error| error.to_string()).unwrap_or_default(), expected);
    }
    // The row groups before it are whole.
    let (found, ended) = slices(&rows(-1).footer(), None, 1_000, false);
    assert!(ended.is_err());
    assert_eq!(found.iter().map(|(slice, _)| slice.records).collect::<Vec<_>>(), [1]);
    assert_eq!(slices(&[], None, 1, false).1, Err(Broken.into()));
    assert_eq!(slices(&[0], None, 1, false).1, Err(FooterError::Damaged("it has no row groups")));
    // A list of more structs than there is memory for.
    let mut writer = Writer::default();
    writer.structure(|writer| writer.list(4, usize::MAX));
    assert!(slices(&writer.out, None, 1, false).1.is_err());
    // Structs in structs, as deep as there are bytes.
    let deep = vec![0x9c; 1 << 20];
    assert!(slices(&deep, None, 1, false).1.is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_a_slice_that_cannot_be(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
        size in 1u64..100_000,
    ) {
        let index = r#"{"index_columns": ["k"]}"#;
        let mut footer = File { index, ..File::of(&["a", "s.list.x", "k"], &[10, 0, 30, 5], 1_000) }.footer();
        for (place, byte) in places {
            let place = place.index(footer.len());
            footer[place] = byte;
        }
        if is_cut {
            footer.truncate(cut.index(footer.len()));
        }
        for columns in [None, Some(&["a"][..])] {
            let (found, _) = slices(&footer, columns, size, false);
            for (slice, groups) in found {
                prop_assert!(slice.records > 0 && slice.start <= slice.end && slice.end <= START);
                prop_assert!(!groups.groups.is_empty() && groups.data.iter().all(|range| !range.is_empty()));
            }
        }
    }
}

#[test]
fn a_row_group_that_claims_more_than_it_can_have_is_not_split_without_end() {
    let of = |rows: i64, stored: i64, bytes: i64| {
        let groups = vec![(rows, vec![(4, stored, bytes)])];
        File { columns: vec!["a"], groups, ..File::default() }.footer()
    };
    let honest = of(1 << 30, 1 << 20, 1 << 30);
    assert_eq!(slices(&honest, None, 1 << 20, true).0.len(), 1 << 10);
    let lying = of(i64::MAX, 1 << 20, 1 << 60);
    let (found, ended) = slices(&lying, None, 1 << 20, true);
    assert!(found.is_empty());
    let told = ended.unwrap_err().to_string();
    let expected =
        "row group 0 is said to have 1152921504606846976 bytes of data, and the file has 1048576 of it";
    assert!(told.starts_with(expected), "{told}");
    // Whole, it is one slice.
    assert_eq!(slices(&lying, None, 1 << 20, false).0.len(), 1);
}
