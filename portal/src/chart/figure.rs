//! What stands around a picture: its name, the sentence that says what it shows, and the same as a table.

use askama::Template;

use crate::text::times::machine;

/// A picture with its sentence and its table.
#[derive(Debug, Template)]
#[template(path = "chart/figure.html")]
pub struct Figure {
    /// What it is called: letters and `-`.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// What it shows, in a sentence.
    pub sentence: String,
    /// The picture, by one of the templates of this folder; empty where the table says it all.
    pub picture: String,
    /// What its marks mean.
    pub legend: Vec<Legend>,
    /// The same as a table.
    pub table: Option<Table>,
    /// Whether the table is open from the beginning.
    pub is_open: bool,
    /// Whether a closed table is a part of its own, which is fetched when it is asked for; only on pages that a server sends.
    pub is_apart: bool,
    /// How keys and clicks walk it; nothing where they do not.
    pub walk: Option<Walk>,
}

/// How keys and clicks walk a picture: cell by cell in columns of the same width, or mark by mark. The script of the pages reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walk {
    /// `time` or `index`: cells, whose columns are stretches of time or of mini-batches. `bars`: marks in rows. `marks`: marks in one row.
    pub kind: &'static str,
    /// Where its places lead: an address below which they are; empty where they lead nowhere.
    pub open: String,
    /// Where the first column begins, microseconds since the Unix epoch, or a mini-batch.
    pub from: u64,
    /// How wide a column is, seconds or mini-batches.
    pub step: u64,
    /// The rows, from the top: name, what an address filters by, and what is in each column. That is a letter of `words`, or a number
    /// with a blank behind it where `unit` says of what.
    pub rows: Vec<(String, String, String)>,
    /// What the letters mean: each followed by its words, with `;` between them.
    pub words: String,
    /// What numbers are of.
    pub unit: &'static str,
}

impl Walk {
    /// A walk from mark to mark.
    pub fn of_marks(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Where the first column begins, seconds since the Unix epoch or a mini-batch.
    fn begins(&self) -> String {
        match self.kind {
            "time" => format!("{}.{:03}", self.from / 1_000_000, self.from / 1_000 % 1_000),
            _ => self.from.to_string(),
        }
    }

    /// The rows as the script takes them apart.
    fn cells(&self) -> String {
        let row = |(name, query, values): &(String, String, String)| {
            format!("{name}\t{query}\t{}", values.trim_end())
        };
        self.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// What a mark means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legend {
    /// Class of its fill.
    pub class: &'static str,
    /// What it means.
    pub text: String,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Template)]
#[template(path = "chart/table.html")]
pub struct Table {
    /// What it lists.
    pub caption: String,
    /// Its columns. The cells of the first head their rows.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// What is left out; empty where nothing is.
    pub rest: String,
}

/// A column that a list can be sorted by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SortLink {
    /// `ascending` or `descending`; empty where the list is sorted by another.
    pub sorted: &'static str,
    /// The address that sorts by it, or turns the order round.
    pub link: String,
}

impl SortLink {
    /// What shows the order to eyes, behind the heading.
    pub fn mark(&self) -> &'static str {
        match self.sorted {
            "ascending" => "<span aria-hidden=\"true\"> \u{2191}</span>",
            "descending" => "<span aria-hidden=\"true\"> \u{2193}</span>",
            _ => "",
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Whether it holds numbers.
    pub is_number: bool,
    /// What sorts the table by it; nothing where that cannot be.
    pub sort: Option<SortLink>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Text, or a number with its unit.
    Text(String),
    /// Text that is to be noticed.
    Bad(String),
    /// A name of the user's.
    Code(String),
    /// Text, and the address that it leads to.
    Link(String, String),
    /// A point in time: for people, and for programs.
    Time(String, String),
}

impl Cell {
    /// A point in time, microseconds since the Unix epoch; `shown` is how much of it is.
    pub fn time(us: u64, shown: fn(u64) -> String) -> Self {
        Self::Time(format!("{} UTC", shown(us)), machine(us))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Table {
    /// A table without rows. `columns` begin with `#` where they hold numbers.
    pub fn new(caption: impl Into<String>, columns: &[&'static str]) -> Self {
        let column = |name: &&'static str| match name.strip_prefix('#') {
            Some(name) => Column { name, is_number: true, sort: None },
            None => Column { name, is_number: false, sort: None },
        };
        Self { caption: caption.into(), columns: columns.iter().map(column).collect(), ..Self::default() }
    }

    /// Leaves out all but the first rows, and says so; `what` they are of, as a plural.
    #[must_use]
    pub fn cut(mut self, most: usize, what: &str) -> Self {
        let all = self.rows.len();
        if all > most {
            self.rows.truncate(most);
            let (most, all) = (crate::text::count(most as u64), crate::text::count(all as u64));
            self.rest = format!("{most} of {all} {what}.");
        }
        self
    }

    /// The same with what sorts it by these columns.
    #[must_use]
    pub fn sorted_by(mut self, heads: Vec<(&str, SortLink)>) -> Self {
        for (name, sort) in heads {
            if let Some(column) = self.columns.iter_mut().find(|column| column.name == name) {
                column.sort = Some(sort);
            }
        }
        self
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates hand in references")]
    fn is_number(&self, column: &usize) -> bool {
        self.columns.get(*column).is_some_and(|column| column.is_number)
    }
}
