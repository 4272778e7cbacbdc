//! Where slices end, and that it does not depend on how the file comes.

use super::*;
use proptest::prelude::*;

/// Start, end and records of a slice.
type Bounds = (u64, u64, u64);
type Outcome = Result<(Vec<Bounds>, Option<Range<u64>>), u64>;

fn split(text: &[u8], has_header: bool, target: u64, block: impl Fn(usize) -> usize) -> Outcome {
    let mut splitter = Splitter::new(Dialect::new(b',', has_header).unwrap(), target);
    let mut out = vec![];
    let mut at = 0;
    while at < text.len() {
        let end = text.len().min(at + block(at).max(1));
        splitter.feed(&text[at..end], &mut out);
        at = end;
    }
    match splitter.finish(&mut out) {
        Ok(header) => {
            for slice in &out {
                let bytes = &text[slice.start as usize..slice.end as usize];
                assert_eq!(slice.checksum, crc_fast::crc32_iscsi(bytes), "{slice:?} of {text:?}");
            }
            let bounds = out.iter().map(|slice| (slice.start, slice.end, slice.records)).collect();
            Ok((bounds, header.range))
        }
        Err(SplitError::UnterminatedQuote { offset }) => Err(offset),
        Err(SplitError::Io(error)) => panic!("{error}"),
    }
}

fn whole(text: &str, has_header: bool, target: u64) -> Outcome {
    split(text.as_bytes(), has_header, target, |_| usize::MAX / 2)
}

fn slice(start: u64, end: u64, records: u64) -> Bounds {
    (start, end, records)
}

#[test]
fn slices_end_at_the_first_boundary_at_or_after_the_target() {
    let text = "a,b\n1,2\n3,4\n5,6\n";
    assert_eq!(
        whole(text, true, 4),
        Ok((vec![slice(4, 8, 1), slice(8, 12, 1), slice(12, 16, 1)], Some(0..3)))
    );
    assert_eq!(whole(text, true, 5), Ok((vec![slice(4, 12, 2), slice(12, 16, 1)], Some(0..3))));
    assert_eq!(whole(text, true, 100), Ok((vec![slice(4, 16, 3)], Some(0..3))));
    assert_eq!(whole(text, false, 100), Ok((vec![slice(0, 16, 4)], None)));
    assert_eq!(whole(text, false, 0).unwrap().0.len(), 4);
}

#[test]
fn line_ends_of_every_kind_end_records() {
    assert_eq!(
        whole("a\r\nb\rc\nd", false, 1),
        Ok((vec![slice(0, 3, 1), slice(3, 5, 1), slice(5, 7, 1), slice(7, 8, 1)], None))
    );
    assert_eq!(whole("a\r", false, 1), Ok((vec![slice(0, 2, 1)], None)));
    assert_eq!(whole("h\r\na\r\n", true, 9), Ok((vec![slice(3, 6, 1)], Some(0..1))));
    // The line feed of the pair reaches the target, the carriage return alone does not.
    assert_eq!(whole("a\r\nb\r\n", false, 3).unwrap().0, [slice(0, 3, 1), slice(3, 6, 1)]);
}

#[test]
fn blank_lines_are_no_records() {
    assert_eq!(
        whole("\n \t\nx,y\n\n1,2\n\n \n3,4\n\n  ", true, 4).unwrap(),
        (vec![slice(8, 13, 1), slice(13, 20, 1)], Some(4..7))
    );
    assert_eq!(whole("", true, 4), Ok((vec![], None)));
    assert_eq!(whole("\n\n", false, 4), Ok((vec![], None)));
    assert_eq!(whole("a\n\"\"\n", true, 4), Ok((vec![slice(2, 5, 1)], Some(0..1))));
}

#[test]
fn the_byte_order_mark_belongs_to_no_slice() {
    assert_eq!(whole("\u{feff}a\n1\n", true, 4), Ok((vec![slice(5, 7, 1)], Some(3..4))));
    assert_eq!(whole("\u{feff}1\n", false, 4), Ok((vec![slice(3, 5, 1)], None)));
    assert_eq!(whole("\u{feff}\"a\n\"\n1", true, 4), Ok((vec![slice(8, 9, 1)], Some(3..7))));
    assert_eq!(whole("\u{feff}", true, 4), Ok((vec![], None)));
    assert_eq!(whole("a\n1", true, 4), Ok((vec![slice(2, 3, 1)], Some(0..1))));
}

#[test]
fn newlines_inside_quotes_do_not_end_records() {
    assert_eq!(
        whole("\"a\nb\",c\nd,\"e\r\n\"\"f\"\n", false, 1).unwrap().0,
        [slice(0, 8, 1), slice(8, 19, 1)]
    );
    assert_eq!(whole("a\"b\nc\"\n", false, 1).unwrap().0.len(), 2);
}

#[test]
fn a_quote_left_open_is_an_error_at_its_offset() {
    assert_eq!(whole("a,b\n1,\"x\n\"\"3,4\n", true, 4), Err(6));
    let long = format!("a,b\n{}1,\"{}", "1,\"2\"\n".repeat(50), "3,4\n".repeat(50));
    assert_eq!(whole(&long, true, 4), Err(306));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn blocks_may_be_cut_anywhere(
        text in "(\u{feff})?([ab, \"\r\n]|\r\n|\"\"|,\"[^\"]{0,9}\"|1,22,333\n){0,80}",
        has_header: bool,
        target in 0u64..100,
        sizes in prop::collection::vec(1usize..90, 1..9),
    ) {
        let text = text.as_bytes();
        let expected = split(text, has_header, target, |_| text.len());
        prop_assert_eq!(&split(text, has_header, target, |_| 1), &expected);
        prop_assert_eq!(&split(text, has_header, target, |at| sizes[at % sizes.len()]), &expected);
        if let Ok((slices, _)) = expected {
            for pair in slices.windows(2) {
                prop_assert_eq!(pair[0].1, pair[1].0);
                prop_assert!(pair[0].1 - pair[0].0 >= target);
            }
            prop_assert!(slices.iter().all(|&(_, _, records)| records > 0));
        }
    }
}

proptest! {
    #[test]
    fn slices_within_bounds_have_the_records_between_them(
        text in "(\u{feff})?(x,y\r?\n|\"a\nb\",1\n|\n|  \r\n){0,40}(last)?",
        has_header: bool,
        target in 1u64..60,
        block in 1usize..90,
        skip in 0u64..30,
        most in 1u64..30,
    ) {
        let text = text.as_bytes();
        let dialect = Dialect::new(b',', has_header).unwrap();
        let mut all = vec![];
        let mut splitter = Splitter::new(dialect, 1);
        splitter.feed(text, &mut all);
        splitter.finish(&mut all).unwrap();
        let mut some = vec![];
        let mut splitter = Splitter::new(dialect, target).within(skip, most);
        for piece in text.chunks(block) {
            splitter.feed(piece, &mut some);
        }
        splitter.end(&mut some).unwrap();
        prop_assert_eq!(splitter.left_to_skip(), skip.saturating_sub(all.len() as u64));
        let mut left = most;
        let wanted: Vec<Slice> = some
            .into_iter()
            .take_while(|slice| {
                let is_wanted = left > 0;
                left = left.saturating_sub(slice.records);
                is_wanted
            })
            .collect();
        let bytes = |slices: &[Slice]| -> Vec<u8> {
            slices.iter().flat_map(|slice| text[slice.start as usize..slice.end as usize].to_vec()).collect()
        };
        for slice in &wanted {
            prop_assert_eq!(slice.checksum, crc_fast::crc32_iscsi(&bytes(std::slice::from_ref(slice))));
        }
        let first = (skip as usize).min(all.len());
        let end = all.len().min(first + most as usize);
        let lines = |text: Vec<u8>| String::from_utf8(text).unwrap().split_whitespace().collect::<String>();
        prop_assert_eq!(lines(bytes(&wanted)), lines(bytes(&all[first..end])));
        prop_assert_eq!(wanted.iter().map(|slice| slice.records).sum::<u64>(), (end - first) as u64);
    }
}
