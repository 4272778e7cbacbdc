//! The first or the last rows of a file, as a table where it is one. A part of the file is looked at, whatever its size.

use prs_common::storage::{GetOptions, Storage, StorageError};
use serde::Serialize;
use serde_json::Value;

use crate::pictures::media_type;

/// Bytes that are looked at.
pub const MOST_BYTES: u64 = 256 << 10;
/// Letters of a cell, and of a line.
const LETTERS: usize = 2_000;
/// Columns of a table.
const MOST_COLUMNS: usize = 200;
/// What may stand between the cells of a row.
const DELIMITERS: [char; 5] = ['\t', ',', ';', '|', ' '];

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Rows of cells.
    Table,
    /// A JSON object on each line.
    JsonLines,
    /// Lines.
    Text,
    /// A picture, by its first bytes.
    Image,
    /// Anything else.
    Binary,
}

/// Rows of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    /// The file, below the output.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// What stands between the cells; null where it is no table of text.
    pub delimiter: Option<char>,
    /// Whether delimiter and header were guessed from the rows, in place of the settings of the job.
    pub is_guessed: bool,
    /// The names of the columns; null where nobody gave any.
    pub columns: Option<Vec<String>>,
    /// The rows: of a table lists of cells, of JSON lines the values of its columns, of text one line each. Of a file that is neither there
    /// are none.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Vec<Value>>"))]
    pub rows: Vec<Vec<Value>>,
    /// Whether the file has more rows.
    pub cut: bool,
}

/// What the settings of a job say of its result file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// What stands between the cells.
    pub delimiter: char,
    /// Whether the first row has the names of the columns.
    pub has_header: bool,
}

/// Up to `most` rows of the file `path` in `storage`, from its beginning, or from its end.
///
/// # Errors
/// There is no such file, or the storage fails.
pub async fn preview(
    storage: &dyn Storage,
    path: &str,
    form: Option<Form>,
    (from_end, most): (bool, usize),
) -> Result<Preview, StorageError> {
    let bytes = storage.head(path).await?.size;
    let head = GetOptions { range: Some(0..MOST_BYTES.min(bytes)), version: None };
    let head = if bytes == 0 { Vec::new() } else { storage.get_opts(path, head).await?.bytes.to_vec() };
    let from = if from_end { bytes.saturating_sub(MOST_BYTES) } else { 0 };
    let part = if from == 0 {
        head.clone()
    } else {
        storage.get_opts(path, GetOptions { range: Some(from..bytes), version: None }).await?.bytes.to_vec()
    };
    Ok(of(path, bytes, &head, (&part, from), form, (from_end, most)))
}

/// What a file says whose beginning is `head`, and of which `part` was read from so many bytes on.
fn of(
    path: &str,
    bytes: u64,
    head: &[u8],
    (part, from): (&[u8], u64),
    form: Option<Form>,
    (from_end, most): (bool, usize),
) -> Preview {
    let nothing = |kind| Preview {
        path: path.to_owned(),
        bytes,
        kind,
        delimiter: None,
        is_guessed: false,
        columns: None,
        rows: Vec::new(),
        cut: bytes > 0,
    };
    if media_type(head).is_some() {
        return nothing(Kind::Image);
    }
    if head.starts_with(b"PAR1")
        || head.contains(&0)
        || std::str::from_utf8(&head[..head.len().min(4096)]).is_err_and(|error| error.error_len().is_some())
    {
        return nothing(Kind::Binary);
    }
    let beginning = String::from_utf8_lossy(head);
    let text = String::from_utf8_lossy(part);
    let (all, mut cut) = lines(&text, from, from + part.len() as u64 >= bytes);
    let first = beginning.lines().next().unwrap_or_default();
    let json: Option<Vec<Value>> =
        all.iter().map(|line| serde_json::from_str(line).ok().filter(Value::is_object)).collect();
    if let Some(rows) = json.filter(|rows| !rows.is_empty() && form.is_none()) {
        let mut columns: Vec<String> = Vec::new();
        let rows = chosen(rows, from_end, most, &mut cut);
        for name in rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
            if columns.len() < MOST_COLUMNS && !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        let row =
            |row: &Value| columns.iter().map(|name| row.get(name).cloned().unwrap_or_default()).collect();
        let rows = rows.iter().map(row).collect();
        return Preview { rows, cut, columns: Some(columns), ..nothing(Kind::JsonLines) };
    }
    let is_guessed = form.is_none();
    let form = form.or_else(|| guessed(path, &beginning));
    let Some(Form { delimiter, has_header }) = form else {
        let rows = chosen(all, from_end, most, &mut cut);
        let rows = rows.into_iter().map(|line| vec![Value::from(shortened(line))]).collect();
        return Preview { rows, cut, ..nothing(Kind::Text) };
    };
    let mut rows: Vec<&str> = all;
    let columns = has_header.then(|| cells(first, delimiter));
    if has_header && from == 0 && !rows.is_empty() {
        rows.remove(0);
    }
    let rows = chosen(rows, from_end, most, &mut cut);
    let row = |line: &str| cells(line, delimiter).into_iter().map(Value::from).collect();
    let rows = rows.into_iter().map(row).collect();
    Preview { rows, cut, columns, delimiter: Some(delimiter), is_guessed, ..nothing(Kind::Table) }
}

/// The whole lines of `text`, which begins at a byte of the file and ends with it or before; and whether the file has others.
fn lines(text: &str, from: u64, is_to_end: bool) -> (Vec<&str>, bool) {
    let mut text = text;
    if from > 0 {
        // The first is the end of one.
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
    if !is_to_end {
        text = text.rsplit_once('\n').map_or(text, |(whole, _)| whole);
    }
    (text.lines().collect(), from > 0 || !is_to_end)
}

/// The first, or the last, `most` of them.
fn chosen<T>(mut all: Vec<T>, from_end: bool, most: usize, cut: &mut bool) -> Vec<T> {
    if all.len() > most {
        *cut = true;
        if from_end {
            return all.split_off(all.len() - most);
        }
        all.truncate(most);
    }
    all
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LETTERS) {
        Some((at, _)) => format!("{}\u{2026}", &text[..at]),
        None => text.to_owned(),
    }
}

/// The cells of a line; a delimiter within quotation marks is a part of its cell.
fn cells(line: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell) = (Vec::new(), String::new());
    let mut letters = line.chars().peekable();
    let mut is_quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if is_quoted || cell.is_empty() => is_quoted = !is_quoted,
            letter if letter == delimiter && !is_quoted => cells.push(shortened(&std::mem::take(&mut cell))),
            letter => cell.push(letter),
        }
    }
    cells.push(shortened(&cell));
    cells.truncate(MOST_COLUMNS);
    cells
}

/// How a table seems to be written: with what splits its first lines into the same number of cells, several of them.
fn guessed(path: &str, text: &str) -> Option<Form> {
    let lines: Vec<&str> = text.lines().take(20).filter(|line| !line.is_empty()).collect();
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_csv = ending.eq_ignore_ascii_case("csv") || ending.eq_ignore_ascii_case("tsv");
    if lines.len() < 2 && !is_csv {
        return None;
    }
    let splits = |delimiter: &&char| {
        let counts: Vec<usize> = lines.iter().map(|line| cells(line, **delimiter).len()).collect();
        counts.first().is_some_and(|first| *first > 1 && counts.iter().all(|count| count == first))
    };
    // Text has spaces, too.
    let delimiter = DELIMITERS.iter().filter(|one| is_csv || **one != ' ').find(splits)?;
    let is_number = |cell: &String| cell.trim().parse::<f64>().is_ok();
    let first = cells(lines.first()?, *delimiter);
    let second = lines.get(1).map(|line| cells(line, *delimiter)).unwrap_or_default();
    let has_header = !first.iter().any(is_number) && (is_csv || second.iter().any(is_number));
    Some(Form { delimiter: *delimiter, has_header })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(path: &str, text: &str, form: Option<Form>, from_end: bool, most: usize) -> Preview {
        of(path, text.len() as u64, text.as_bytes(), (text.as_bytes(), 0), form, (from_end, most))
    }

    #[test]
    fn a_file_is_what_its_rows_say() {
        let own = |text: &str| vec![Value::from(text)];
        let found = whole("a.txt", "one two\nthree\n", None, false, 10);
        assert_eq!(
            (found.kind, found.rows, found.cut),
            (Kind::Text, vec![own("one two"), own("three")], false)
        );
        let found = whole("a.csv", "name,size\n\"a,b\",1\nc,\"2\"\"\"\n", None, false, 1);
        assert_eq!(
            (found.kind, found.delimiter, found.is_guessed, found.cut),
            (Kind::Table, Some(','), true, true)
        );
        assert_eq!(found.columns.unwrap(), ["name", "size"]);
        assert_eq!(found.rows, [[Value::from("a,b"), Value::from("1")]]);
        let form = Some(Form { delimiter: ' ', has_header: false });
        let found = whole("rows.txt", "a 1\nb 2\n", form, true, 1);
        assert_eq!(
            (found.rows, found.columns, found.is_guessed),
            (vec![vec![Value::from("b"), Value::from("2")]], None, false)
        );
        let found = whole("a.jsonl", "{\"a\":1}\n{\"b\":[2]}\n", None, false, 9);
        assert_eq!(
            (found.kind, found.columns.unwrap()),
            (Kind::JsonLines, vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(found.rows[1], [Value::Null, serde_json::json!([2])]);
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\nxx"[..], Kind::Image),
            (b"RIFF0000WEBPVP8", Kind::Image),
            (b"PAR1....", Kind::Binary),
            (b"a\0b", Kind::Binary),
            (b"\xff\xfe\xfd", Kind::Binary),
            (b"", Kind::Text),
        ] {
            let found = of("x", bytes.len() as u64, bytes, (bytes, 0), None, (false, 5));
            assert_eq!((found.kind, found.rows.len()), (kind, 0), "{bytes:?}");
        }
    }

    #[test]
    fn of_a_part_only_whole_lines_count() {
        assert_eq!(lines("b\nc\nd", 5, false), (vec!["c"], true));
        assert_eq!(lines("a\nb", 0, true), (vec!["a", "b"], false));
        assert_eq!(lines("half", 5, true), (vec![], true));
    }
}
