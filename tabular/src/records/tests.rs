//! Compares with a plain state machine, and tables of small texts.

use proptest::prelude::*;

use super::*;
use crate::field::unquote;

type Table = Vec<Vec<String>>;

fn rows(text: &str, columns: usize, block_bytes: usize) -> Result<Table, Malformed> {
    let mut records =
        Records::new(text.as_bytes(), Dialect::default(), columns).with_block_bytes(block_bytes);
    let mut table: Table = vec![];
    while let Some(block) = records.next_block()? {
        assert_eq!(block.first_record, table.len());
        let mut part: Table = vec![vec![]; block.records()];
        for column in 0..columns {
            for (row, field) in part.iter_mut().zip(block.column(column)) {
                row.push(String::from_utf8(unquote(field).into_owned()).unwrap());
            }
        }
        table.append(&mut part);
    }
    Ok(table)
}

/// What pandas' state machine says, written down plainly.
fn plain(text: &str, columns: usize) -> Result<Table, Malformed> {
    let mut table: Table = vec![];
    let (mut row, mut field, mut start) = (vec![], String::new(), 0);
    let (mut in_quotes, mut opened, mut begun, mut at_start) = (false, 0, false, true);
    let characters: Vec<(usize, char)> = text.char_indices().chain([(text.len(), '\n')]).collect();
    let mut index = 0;
    while index < characters.len() {
        let (offset, character) = characters[index];
        index += 1;
        if offset == text.len() && in_quotes {
            return Err(Malformed::UnterminatedQuote { offset: opened });
        }
        match character {
            '"' if in_quotes && characters[index].1 == '"' && index + 1 < characters.len() => {
                field.push('"');
                index += 1;
            }
            '"' if in_quotes => in_quotes = false,
            _ if in_quotes => field.push(character),
            '"' if at_start => {
                (in_quotes, at_start, begun, opened) = (true, false, true, offset as u64);
            }
            ',' => {
                row.push(std::mem::take(&mut field));
                (at_start, begun) = (true, true);
            }
            '\n' | '\r' => {
                if begun || !field.trim().is_empty() {
                    row.push(std::mem::take(&mut field));
                    if row.len() != columns {
                        let record = table.len() as u64;
                        return Err(Malformed::Ragged {
                            offset: start,
                            record,
                            expected: columns,
                            found: row.len(),
                        });
                    }
                    table.push(std::mem::take(&mut row));
                }
                field.clear();
                if character == '\r'
                    && characters.get(index).is_some_and(|next| next.1 == '\n' && next.0 < text.len())
                {
                    index += 1;
                }
                start = characters.get(index).map_or(0, |next| next.0 as u64);
                (at_start, begun) = (true, false);
            }
            _ => {
                field.push(character);
                at_start = false;
            }
        }
    }
    Ok(table)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn fields_are_those_of_the_state_machine(
        text in "([ab \"\r\n]{0,3},[ab \"\r\n]{0,3}\n|x{0,70},\"(y|\"\"|,|\n){0,9}\"\r\n|1,2\r|\n| |[ab,\"\n]{0,4}){0,20}",
        columns in 1usize..4,
        block in 1usize..3,
    ) {
        let expected = plain(&text, columns);
        prop_assert_eq!(&rows(&text, columns, BLOCK), &expected);
        // Small blocks find the same, but for what a cut inside an error may hand out before it.
        prop_assert_eq!(&rows(&text, columns, block * CHUNK), &expected);
    }

    #[test]
    fn good_records_are_read_in_blocks_of_any_size(
        table in prop::collection::vec(prop::collection::vec("[ab\n\r,\"]{0,12}", 3), 1..60),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        block in 1usize..4,
    ) {
        let text: String = table
            .iter()
            .map(|row| row.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect::<Vec<_>>().join(",") + line_end)
            .collect();
        prop_assert_eq!(rows(&text, 3, block * CHUNK), Ok(table));
    }
}

#[test]
fn ragged_records_are_told_with_their_place() {
    let ragged = |text, columns| match rows(text, columns, BLOCK) {
        Err(Malformed::Ragged { offset, record, expected, found }) => (offset, record, expected, found),
        other => panic!("{other:?}"),
    };
    assert_eq!(ragged("1,2\n\n3\n", 2), (5, 1, 2, 1));
    assert_eq!(ragged("1,2\r\n3,4,5\r\n", 2), (5, 1, 2, 3));
    assert_eq!(ragged("1,2\n3,4\n5", 2), (8, 2, 2, 1));
    assert_eq!(ragged("1,2\n,,", 2), (4, 1, 2, 3));
    assert_eq!(ragged("1\n2,3\n", 1), (2, 1, 1, 2));
    assert_eq!(
        rows("1,2\n3\n", 2, BLOCK).unwrap_err().to_string(),
        "ragged row: record 1 at byte 4 has 1 fields where 2 are expected"
    );
}
