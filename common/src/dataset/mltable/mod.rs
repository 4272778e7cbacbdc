//! What a file `MLTable` says of its data: which files they are, how these are read, and what is done with their rows.
//!
//! Plain data, as `job.json` has it and a process gets it. The file is read and judged once, by `job/mltable`, at submission,
//! or, where another step of a pipeline writes it, when the step starts that gets it; nobody opens it later. The planner uses [`Window`], [`Header`] and [`Encoding`]; the rest is
//! for processes, which do the [`Step`]s on each slice that they have read.

mod delta;
mod filter;
mod sample;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use delta::{AsOf, DeltaColumn, DeltaTable};
pub use filter::{Expression, FilterError, Operand, Operator, parse};
pub use sample::Sample;

/// An input that an MLTable describes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MlTable {
    /// The absolute path of the file `MLTable`, which is no data itself.
    pub path: String,
    /// Whether another step of the pipeline writes it, so that nothing else is known yet: it is read when the step starts
    /// that gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unread: bool,
    /// Which of the records of the whole table are taken; of a file dataset, which of the files.
    #[serde(default, skip_serializing_if = "Window::is_everything")]
    pub window: Window,
    /// Of a file dataset, which files are taken of those that the sample leaves.
    #[serde(default, skip_serializing_if = "Window::is_everything")]
    pub sample_window: Window,
    /// Of a file dataset, the sample that is drawn of the files in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Which records of delimited text name the columns.
    #[serde(default)]
    pub header: Header,
    /// How text is encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// Whether an empty field of delimited text is text, and not missing.
    #[serde(default)]
    pub empty_as_text: bool,
    /// Whether all columns of delimited text are text.
    #[serde(default)]
    pub all_text: bool,
    /// Whether a line that holds no JSON object is left out.
    #[serde(default)]
    pub drops_invalid: bool,
    /// The Delta table that its data is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<DeltaTable>,
    /// What processes do with each slice.
    #[serde(default)]
    pub work: TableWork,
}

/// What a process does with each slice of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableWork {
    /// The name of a column with the file's path, which becomes the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_column: Option<String>,
    /// Whether an empty text is missing once it gets another type; what an empty field is where it is no text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_is_missing: bool,
    /// In their order.
    #[serde(default)]
    pub steps: Vec<Step>,
}

impl TableWork {
    /// Whether a slice is given to the script as it is read.
    pub fn is_nothing(&self) -> bool {
        self.path_column.is_none() && self.steps.is_empty()
    }

    /// The first type that the column `name` gets, where no filter names it before.
    pub fn first_conversion(&self, name: &str) -> Option<&ColumnType> {
        for step in &self.steps {
            match step {
                Step::ConvertColumnTypes(conversions) => {
                    let names_it = |one: &&Conversion| one.columns.iter().any(|column| column == name);
                    if let Some(conversion) = conversions.iter().find(names_it) {
                        return Some(&conversion.to);
                    }
                }
                Step::Filter { expression, .. } if expression.names(name) => return None,
                Step::Filter { .. }
                | Step::KeepColumns(_)
                | Step::DropColumns(_)
                | Step::ExtractColumns(_)
                | Step::Sample(_)
                | Step::Window(_)
                | Step::Count {} => {}
            }
        }
        None
    }

    /// The records that are taken of those that the steps before leave, and which step that is; nothing where records
    /// are counted as the files have them.
    pub fn counted_window(&self) -> Option<(usize, Window)> {
        self.steps.iter().enumerate().find_map(|(at, step)| match step {
            Step::Window(window) => Some((at, *window)),
            _ => None,
        })
    }

    /// As processes read it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("it has only texts, numbers and truth values")
    }
}

/// The records from `skip` on, `take` of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Records that are left out at the beginning.
    pub skip: u64,
    /// Records that are taken behind them; all of them without.
    #[serde(default)]
    pub take: Option<u64>,
}

impl Window {
    /// Which of the next `count` records are of it; what is left is that behind them.
    pub fn takes(&mut self, count: u64) -> Range<u64> {
        let first = self.skip.min(count);
        let end = self.take.map_or(count, |take| count.min(first.saturating_add(take)));
        self.skip -= first;
        self.take = self.take.map(|take| take - (end - first));
        first..end
    }

    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// What is left of it without its first `count` records.
    #[must_use]
    pub fn skipping(self, count: u64) -> Self {
        Self { skip: self.skip.saturating_add(count), take: self.take.map(|take| take.saturating_sub(count)) }
    }

    /// Whether the next record is one of it; what is left is that behind it.
    pub fn takes_next(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let takes = self.take != Some(0);
        self.take = self.take.map(|take| take.saturating_sub(1));
        takes
    }

    /// Its first `count` records.
    #[must_use]
    pub fn taking(self, count: u64) -> Self {
        Self { take: Some(self.take.map_or(count, |take| take.min(count))), ..self }
    }
}

/// Which records of delimited text name the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// None: the columns are `Column1`, `Column2` and so on.
    NoHeader,
    /// The first record of the first file; all others are data.
    FromFirstFile,
    /// The first record of the first file; the first records of the others are no data either.
    #[default]
    AllFilesSameHeaders,
    /// The first record of each file names its columns. The table has those of all files, by their names.
    AllFilesDifferentHeaders,
}

/// How text is encoded. A byte order mark is never data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-8 without any byte beyond 127.
    Ascii,
    /// ISO 8859-1: a byte a character, of the same number.
    Latin1,
    /// Windows code page 1252.
    Windows1252,
    /// UTF-16; little-endian where no mark says otherwise.
    Utf16,
    /// UTF-32; little-endian where no mark says otherwise.
    Utf32,
}

impl Encoding {
    /// Whether it is the one that nobody need name.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether text is UTF-8 as it stands.
    pub fn is_utf8(self) -> bool {
        matches!(self, Self::Utf8 | Self::Ascii)
    }
}

/// What is done with the rows of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Only these columns stay, in the order of the data.
    KeepColumns(Vec<String>),
    /// These columns go.
    DropColumns(Vec<String>),
    /// These columns, which the path of the file has and the slice came with, stand last from here on: what is before
    /// has nothing to do with them.
    ExtractColumns(Vec<String>),
    /// Columns get other types.
    ConvertColumnTypes(Vec<Conversion>),
    /// Only rows stay that are drawn.
    Sample(Sample),
    /// Only these of the rows of the whole table stay, counted behind the steps before. A slice comes with what that
    /// means of its own rows.
    Window(Window),
    /// One row stays, which says how many there were. Never from a file: see `job/counting`.
    Count {},
    /// Only rows stay for which this holds.
    Filter {
        /// As the file has it.
        text: String,
        /// What it says.
        expression: Expression,
    },
}

/// A type that columns get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// The columns.
    pub columns: Vec<String>,
    /// The type.
    pub to: ColumnType,
}

/// A type of `convert_column_types`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Whole numbers.
    Int,
    /// Numbers.
    Float,
    /// Text.
    String,
    /// Truth values.
    Boolean {
        /// What stands for true; `true` in any case and `1` without.
        true_values: Option<Vec<String>>,
        /// What stands for false; `false` in any case and `0` without.
        false_values: Option<Vec<String>>,
        /// What anything else becomes; without, it fails its mini-batch.
        mismatch_as: Option<bool>,
    },
    /// Points in time.
    Datetime {
        /// How they are written, as `strptime` has it; the first that fits counts. ISO 8601 where there is none.
        formats: Vec<String>,
        /// The day, as YYYY-MM-DD, of what has a time alone.
        date_constant: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_what_is_left_by_one_after_the_other() {
        let all = Window::default();
        let window = |skip, take| Window { skip, take };
        for (made, expected) in [
            (all, window(0, None)),
            (all.skipping(3), window(3, None)),
            (all.taking(5), window(0, Some(5))),
            (all.skipping(3).taking(5), window(3, Some(5))),
            (all.taking(5).skipping(3), window(3, Some(2))),
            (all.taking(5).skipping(9), window(9, Some(0))),
            (all.taking(5).taking(9), window(0, Some(5))),
            (all.taking(9).taking(5).skipping(2).skipping(1), window(3, Some(2))),
            (all.skipping(u64::MAX).skipping(1), window(u64::MAX, None)),
        ] {
            assert_eq!(made, expected);
        }
        for (mut made, count, taken, left) in [
            (all, 7, 0..7, all),
            (window(3, None), 2, 2..2, window(1, None)),
            (window(3, None), 7, 3..7, window(0, None)),
            (window(3, Some(2)), 7, 3..5, window(0, Some(0))),
            (window(3, Some(9)), 7, 3..7, window(0, Some(5))),
            (window(0, Some(0)), 7, 0..0, window(0, Some(0))),
            (window(0, Some(u64::MAX)), 0, 0..0, window(0, Some(u64::MAX))),
            (window(9, Some(1)), 9, 9..9, window(0, Some(1))),
        ] {
            assert_eq!((made.takes(count), made), (taken, left));
        }
        assert!(all.is_everything() && !all.skipping(1).is_everything() && !all.taking(1).is_everything());
    }
}
