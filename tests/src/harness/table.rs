//! CSV as the reports have it: quoted fields, with quotes doubled and line ends inside.

use std::collections::BTreeMap;

/// A row by its column names.
pub type Row = BTreeMap<String, String>;

/// The header and the rows below it. A row of another length than the header is a panic.
pub fn parse_csv(text: &str) -> (Vec<String>, Vec<Row>) {
    let mut records = records(text).into_iter();
    let header = records.next().expect("a header");
    let rows = records.map(|record| {
        assert_eq!(record.len(), header.len(), "fields of {record:?}");
        header.iter().cloned().zip(record).collect()
    });
    let rows = rows.collect();
    (header, rows)
}

fn records(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            other => field.push(other),
        }
    }
    assert!(!quoted && record.is_empty() && field.is_empty(), "the last row is torn: {record:?} {field:?}");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_read() {
        let (header, rows) = parse_csv("a,b\n1,\"x, \"\"y\"\"\nz\"\n,2\n");
        assert_eq!(header, ["a", "b"]);
        assert_eq!((rows[0]["a"].as_str(), rows[0]["b"].as_str()), ("1", "x, \"y\"\nz"));
        assert_eq!((rows[1]["a"].as_str(), rows[1]["b"].as_str()), ("", "2"));
    }
}
