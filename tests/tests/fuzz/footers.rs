//! Footers of Parquet files: rubbish, cut, or with a bit that is another. What is read of them lies in the file, and is
//! no more than their bytes can say.

use std::ops::ControlFlow;

use prs_tabular::parquet::{Footer, Rows, TAIL, locate, split};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;

/// Where the footers begin; all data lies before it.
const START: u64 = 100_000;
/// Slices that are looked at: a row group is split into as many as it claims to have rows.
const MOST: usize = 1_000;
/// What pyarrow wrote, with the last bytes of the file: columns of numbers and text; lists, structs and maps; a
/// `DataFrame` with an index; no rows; as little as it writes.
const WRITTEN: [&[u8]; 5] = [
    include_bytes!("footers/flat"),
    include_bytes!("footers/nested"),
    include_bytes!("footers/pandas"),
    include_bytes!("footers/empty"),
    include_bytes!("footers/plain"),
];
/// Columns that a job may ask for.
const ASKED: [&[&str]; 6] = [&[], &["id"], &["a", "l"], &["v"], &["a.c"], &["nothing", "id"]];

/// A byte that says what is asked for and how it is cut, and a footer.
pub(crate) struct Footers;

impl Target for Footers {
    const LONGEST: usize = 16 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b"PAR1",
        b"PARE",
        b"pandas",
        b"{\"index_columns\": [\"k\"]}",
        b"\x15\x02",
        b"\x19\xfc",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x1c",
        b"\x2c",
        b"\x18",
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\0",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let written = WRITTEN[random.below(WRITTEN.len() as u64) as usize];
        [&[random.below(256) as u8], written].concat()
    }

    /// The length of a footer that is another now.
    fn mend(&mut self, input: &mut Vec<u8>, random: &mut Random) {
        if input.len() <= TAIL as usize || random.below(8) == 0 {
            return;
        }
        let end = input.len() - TAIL as usize;
        let length = (end - 1) as u32;
        input[end..end + 4].copy_from_slice(&length.to_le_bytes());
        input[end + 4..].copy_from_slice(b"PAR1");
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Some((&how, bytes)) = input.split_first() else { return "nothing".to_owned() };
        let size = START + bytes.len() as u64;
        match locate(bytes, size) {
            Ok(place) => assert!(place.start >= 4 && place.start < place.end && place.end == size),
            Err(error) => return kind_of(error),
        }
        let columns: Vec<String> =
            ASKED[usize::from(how) % ASKED.len()].iter().map(ToString::to_string).collect();
        let columns = (!columns.is_empty()).then_some(&columns[..]);
        let footer = match Footer::read(bytes, START, columns) {
            Ok(footer) => footer,
            // What the columns are called is another input's, not another outcome.
            Err(error) => {
                return kind_of(error.to_string().split(": its columns").next().unwrap_or_default());
            }
        };
        let (mut rows, mut groups, mut damage) = (0_u64, 0, None);
        for group in footer.row_groups() {
            assert!(damage.is_none(), "nothing follows an error");
            match group {
                Ok(group) => {
                    assert!(group.chunks.len() <= bytes.len());
                    assert!(group.chunks.iter().all(|chunk| chunk.start <= chunk.end && chunk.end <= START));
                    rows = rows.saturating_add(group.rows);
                    groups += 1;
                }
                Err(error) => damage = Some(kind_of(error)),
            }
        }
        assert!(groups <= bytes.len());
        let size = [1, 100, 4_000, 1 << 20][usize::from(how / 6) % 4];
        let (whole, slices) = cut(&footer, size, how >= 128, rows);
        if whole && damage.is_none() {
            assert_eq!(slices, rows, "every row is in a slice");
        }
        damage.unwrap_or_else(|| format!("{} groups, {}", groups.min(5), if whole { "cut" } else { "many" }))
    }
}

/// Cuts the row groups, which claim to have `rows`: whether that came to its end, and how many rows are in the slices.
fn cut(footer: &Footer<'_>, size: u64, splits: bool, rows: u64) -> (bool, u64) {
    let (mut slices, mut records, mut before) = (0, 0_u64, 0);
    let ended = split(footer, size, splits, &mut { Rows::ALL }, |slice, groups| {
        assert!(slice.records > 0 && slice.start <= slice.end && slice.end <= START);
        assert!(groups.data.iter().all(|range| !range.is_empty() && range.end <= START));
        assert!(groups.data.windows(2).all(|pair| pair[0].end < pair[1].start));
        assert!(!groups.groups.is_empty() && groups.groups.start >= before);
        before = if groups.rows.is_some() { groups.groups.start } else { groups.groups.end };
        records = records.saturating_add(slice.records);
        slices += 1;
        if slices == MOST { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(records <= rows);
    (ended.is_ok() && slices < MOST, records)
}
