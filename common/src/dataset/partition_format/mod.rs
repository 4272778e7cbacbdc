//! `partition_format`: columns from the path of a file (spec D3), such as `{store}/{day:yyyy/MM/dd}/*.csv`.
//!
//! A format is read once and becomes a regular expression over whole segments of a path, the parts between slashes. It
//! is looked for at the end of the path first, and then, below the folder of the dataset, at the first place from the
//! left. Nothing here looks at a file.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use regex_automata::meta::Regex;
use serde::{Deserialize, Serialize};

use super::path_columns::{PathColumn, PathValue};

/// Longest format that is read, bytes: as long as a path.
const LONGEST: usize = 4096;
/// What stands in a date for digits of the path, the longest first.
const DATE_PARTS: [(&str, Part); 7] = [
    ("yyyy", Part::Year),
    ("yy", Part::YearOfCentury),
    ("MM", Part::Month),
    ("dd", Part::Day),
    ("HH", Part::Hour),
    ("mm", Part::Minute),
    ("ss", Part::Second),
];

/// How columns are read from the path of a file. Two are equal when their texts are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartitionFormat {
    text: String,
    fields: Vec<Field>,
    /// Segments of a path that it spans.
    segments: usize,
    /// Whether it names folders alone, as a `/` at its end says.
    is_of_folders: bool,
    /// Matches that many segments, with a group for each value.
    pattern: Regex,
}

/// A column.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    /// Number of its first group in the pattern.
    group: usize,
    /// The parts of a date, one group each; none for text.
    date: Vec<Part>,
}

/// A part of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Year,
    YearOfCentury,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// Why a path has no columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is not made as the format says.
    #[error("its path does not match partition_format {format}")]
    Other {
        /// The format.
        format: String,
    },
    /// It is, and the digits are no date.
    #[error(
        "its path matches partition_format {format}, but what it has for {field} is no date from 1677-09-22 to 2262-04-11"
    )]
    NoDate {
        /// The format.
        format: String,
        /// Name of the field.
        field: String,
    },
}

impl PartitionFormat {
    /// The names of the columns, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// The columns of a file. Its `name` is an absolute path or a URL, as the user knows the file; from byte `below` on
    /// it is the name below the dataset.
    pub fn columns<'a>(&'a self, name: &'a str, below: usize) -> Result<Vec<PathColumn<'a>>, Mismatch> {
        let path = path_of(name);
        let below = below.saturating_sub(name.len() - path.len());
        let below = path.get(below..).unwrap_or(path);
        let mut mismatch = None;
        for segments in self.at_end(path).into_iter().chain(self.below_folder(below)) {
            match self.read(segments) {
                Ok(Some(columns)) => return Ok(columns),
                Ok(None) => {}
                Err(no_date) => mismatch = mismatch.or(Some(no_date)),
            }
        }
        Err(mismatch.unwrap_or_else(|| Mismatch::Other { format: self.text.clone() }))
    }

    /// The last segments of a path, as many as the format has.
    fn at_end<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.is_of_folders {
            return None;
        }
        match path.rmatch_indices('/').nth(self.segments - 1) {
            Some((slash, _)) => path.get(slash + 1..),
            None => Some(path).filter(|path| path.matches('/').count() + 1 == self.segments),
        }
    }

    /// Every place of that many segments, from the left; none has the name of the file, which is looked at before.
    fn below_folder<'a>(&self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        let starts = std::iter::once(0).chain(folders.match_indices('/').map(|(slash, _)| slash + 1));
        let count = self.segments;
        starts.map_while(move |start| {
            let rest = folders.get(start..).filter(|rest| !rest.is_empty())?;
            match rest.match_indices('/').nth(count - 1) {
                Some((end, _)) => rest.get(..end),
                None => Some(rest).filter(|rest| rest.matches('/').count() + 1 == count),
            }
        })
    }

    /// What the format makes of these segments; nothing where it does not match.
    fn read<'a>(&'a self, segments: &'a str) -> Result<Option<Vec<PathColumn<'a>>>, Mismatch> {
        let mut found = self.pattern.create_captures();
        self.pattern.captures(segments, &mut found);
        if !found.is_match() {
            return Ok(None);
        }
        let group = |number: usize| found.get_group(number).map_or("", |place| &segments[place.range()]);
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let value = if field.date.is_empty() {
                PathValue::Text(group(field.group))
            } else {
                let digits = (field.group..).map(group);
                PathValue::Time(time(field.date.iter().copied().zip(digits)).ok_or_else(|| {
                    Mismatch::NoDate { format: self.text.clone(), field: field.name.clone() }
                })?)
            };
            columns.push(PathColumn { name: &field.name, value });
        }
        Ok(Some(columns))
    }
}

/// The path in the name of a file: of a URL what follows its host, and without a `/` at its beginning.
fn path_of(name: &str) -> &str {
    let path = match name.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.split_once('/').map_or("", |(_, path)| path),
        _ => name,
    };
    path.trim_start_matches('/')
}

/// Nanoseconds from the epoch to the date of these digits. A part that is not there is the first; one that is there twice
/// is twice the same, or there is no date.
fn time<'a>(digits: impl Iterator<Item = (Part, &'a str)>) -> Option<i64> {
    let mut known: [Option<i16>; 6] = [None; 6];
    let mut of_century = None;
    for (part, digits) in digits {
        let number = digits.parse().ok()?;
        let known = if part == Part::YearOfCentury { &mut of_century } else { &mut known[part.position()] };
        if known.replace(number).is_some_and(|before| before != number) {
            return None;
        }
    }
    let [year, month, day, hour, minute, second] = known;
    let year = year?;
    if of_century.is_some_and(|of_century| of_century != year % 100) {
        return None;
    }
    let small = |number: Option<i16>, first: i8| number.map_or(Some(first), |number| number.try_into().ok());
    let date = DateTime::new(
        year,
        small(month, 1)?,
        small(day, 1)?,
        small(hour, 0)?,
        small(minute, 0)?,
        small(second, 0)?,
        0,
    );
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    i64::try_from(date.ok()?.duration_since(epoch).as_nanos()).ok()
}

impl Part {
    /// Its place among the parts of a time, from the largest on.
    fn position(self) -> usize {
        match self {
            Self::Year | Self::YearOfCentury => 0,
            Self::Month => 1,
            Self::Day => 2,
            Self::Hour => 3,
            Self::Minute => 4,
            Self::Second => 5,
        }
    }
}

impl FromStr for PartitionFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let inner = text.strip_prefix("./").unwrap_or(text).trim_start_matches('/');
        let (inner, is_of_folders) = match inner.strip_suffix('/') {
            Some(folders) => (folders, true),
            None => (inner, false),
        };
        let mut building = Building::default();
        let mut rest = inner;
        while let Some(next) = rest.chars().next() {
            let behind = &rest[next.len_utf8()..];
            rest = match next {
                '{' => {
                    let (field, behind) =
                        behind.split_once('}').ok_or("a { has no } behind it: write a field as {name}")?;
                    building.field(field)?;
                    behind
                }
                '}' => return Err("a } has no { before it: write a field as {name}".to_owned()),
                '*' => {
                    building.pattern.push_str("[^/]*");
                    building.shape.push('*');
                    behind
                }
                other => {
                    building.literal(other);
                    behind
                }
            };
        }
        let Building { pattern, shape, fields, .. } = building;
        if fields.is_empty() {
            return Err("it has no field: name a part of the path as {name}".to_owned());
        }
        if shape.split('/').any(str::is_empty) {
            return Err("it has an empty segment: write one / between two".to_owned());
        }
        let pattern = Regex::new(&format!(r"\A(?:{pattern})\z"))
            .map_err(|_| "it is too long for a pattern: name fewer fields".to_owned())?;
        let segments = shape.matches('/').count() + 1;
        Ok(Self { text: text.to_owned(), fields, segments, is_of_folders, pattern })
    }
}

/// A format that is being read.
#[derive(Default)]
struct Building {
    /// The regular expression so far.
    pattern: String,
    /// Slashes, and something else for whatever stands between them.
    shape: String,
    fields: Vec<Field>,
    /// Groups of the regular expression.
    groups: usize,
}

impl Building {
    fn literal(&mut self, one: char) {
        use fmt::Write;
        let _ = write!(self.pattern, "\\x{{{:x}}}", u32::from(one));
        self.shape.push(if one == '/' { '/' } else { 'x' });
    }

    fn group(&mut self, of: &str) {
        self.groups += 1;
        self.pattern.push_str(of);
        self.shape.push('x');
    }

    /// What stands between braces.
    fn field(&mut self, text: &str) -> Result<(), String> {
        let (name, date) = match text.split_once(':') {
            Some((name, date)) => (name, Some(date)),
            None => (text, None),
        };
        if name.is_empty() || name.trim() != name || name.contains(['{', '/']) {
            return Err(format!("{{{text}}} is no field: write {{name}}, or {{name:yyyy/MM/dd}} for a date"));
        }
        if self.fields.iter().any(|field| field.name == name) {
            return Err(format!("the field {{{name}}} is there twice: give each its own name"));
        }
        let mut field = Field { name: name.to_owned(), group: self.groups + 1, date: Vec::new() };
        match date {
            None => self.group("([^/]+)"),
            Some(date) => self.date(date, &mut field.date)?,
        }
        self.fields.push(field);
        Ok(())
    }

    /// The pattern of a date.
    fn date(&mut self, text: &str, parts: &mut Vec<Part>) -> Result<(), String> {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let known = DATE_PARTS.into_iter().find(|(letters, _)| rest.starts_with(letters));
            rest = &rest[known.map_or(next.len_utf8(), |(letters, _)| letters.len())..];
            match known {
                None => self.literal(next),
                Some((letters, part)) => {
                    parts.push(part);
                    self.group(&format!("([0-9]{{{}}})", letters.len()));
                }
            }
        }
        if parts.contains(&Part::Year) {
            return Ok(());
        }
        Err(format!(
            "{text:?} has no yyyy, and a date has a year: write a date as yyyy/MM/dd, yyyy-MM or alike"
        ))
    }
}

impl TryFrom<String> for PartitionFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PartitionFormat> for String {
    fn from(format: PartitionFormat) -> Self {
        format.text
    }
}

impl fmt::Display for PartitionFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for PartitionFormat {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PartitionFormat {}

#[cfg(test)]
mod tests;
