//! Tables for people: columns side by side, of which some give way on a narrow terminal.

use console::{Term, measure_text_width, truncate_str};

/// Columns that a cut text needs at least: a count of missing items fits.
const LEAST_TEXT: usize = 32;
/// The same of a text that no other column can make room for any more.
const LEAST_LAST_TEXT: usize = 12;
/// Blanks between columns.
const GAP: usize = 2;

/// Headings, and rows of cells, which may have colours.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    has_text: bool,
}

impl Table {
    /// A table whose rows have a cell for each heading.
    pub(crate) fn new(headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        // A name with a line end is no second row.
        let rows =
            rows.into_iter().map(|row| row.into_iter().map(|cell| cell.replace('\n', "\\n")).collect());
        Self { headings: headings.to_vec(), rows: rows.collect(), has_text: false }
    }

    /// The table whose last column is a text: cut before any other column goes, and the last one to go.
    pub(crate) fn with_text(self) -> Self {
        Self { has_text: true, ..self }
    }

    /// The same, no wider than `terminal` where it is one: the columns with these headings give way, in this order. A text
    /// at the end, and a last column whose turn it is, are cut before they go.
    pub(crate) fn fit(self, terminal: &Term, yielding: &[&str]) -> Self {
        match terminal.size_checked().filter(|_| terminal.is_term()) {
            Some((_, columns)) => self.within(columns.into(), yielding),
            None => self,
        }
    }

    fn within(mut self, columns: usize, yielding: &[&str]) -> Self {
        let last = self.headings.last().copied();
        for heading in yielding.iter().copied().chain(last.filter(|_| self.has_text)) {
            let widths = self.widths();
            let wide = widths.iter().map(|width| width + GAP).sum::<usize>() - GAP;
            if wide <= columns {
                break;
            }
            let Some(at) = self.headings.iter().position(|known| *known == heading) else { continue };
            let room = (columns + widths[widths.len() - 1]).saturating_sub(wide);
            let is_last = at + 1 == self.headings.len();
            let needed = if self.has_text && is_last { LEAST_LAST_TEXT } else { LEAST_TEXT };
            if room >= needed && (self.has_text || is_last) {
                for cell in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
                    *cell = truncate_str(cell, room, "...").into_owned();
                }
                break;
            }
            self.headings.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        self
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| heading.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        widths
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let headings: Vec<String> = self.headings.iter().map(|&heading| heading.to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + GAP - measure_text_width(cell)));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and values, one a line. Further lines of a value stand below its first.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let below = format!("\n{:width$}  ", "");
    let lines = pairs.iter().map(|(name, value)| format!("{name:width$}  {}\n", value.replace('\n', &below)));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_way_does_so_in_its_order() {
        let reason = "a reason that is longer than there is room for";
        let table = [
            (
                80,
                "JOB    STATE   DONE  REASON\njob-1  failed  1/2   a reason that is longer than there is room for\n",
            ),
            (
                67,
                "JOB    STATE   DONE  REASON\njob-1  failed  1/2   a reason that is longer than there is room for\n",
            ),
            (
                66,
                "JOB    STATE   DONE  REASON\njob-1  failed  1/2   a reason that is longer than there is room...\n",
            ),
            (53, "JOB    STATE   DONE  REASON\njob-1  failed  1/2   a reason that is longer than ...\n"),
            (52, "JOB    STATE   REASON\njob-1  failed  a reason that is longer than there...\n"),
            (30, "JOB    STATE   REASON\njob-1  failed  a reason tha...\n"),
            (26, "JOB    STATE\njob-1  failed\n"),
            (10, "JOB    STATE\njob-1  failed\n"),
        ];
        for (columns, expected) in table {
            let row = ["job-1", "failed", "1/2", reason].map(str::to_owned).to_vec();
            let whole = Table::new(&["JOB", "STATE", "DONE", "REASON"], vec![row]).with_text();
            assert_eq!(whole.within(columns, &["DONE"]).text(), expected, "{columns}");
        }
    }

    #[test]
    fn a_last_column_that_is_no_text_goes_in_its_turn() {
        let row = || ["w-1", "idle", "default", "0.3 s ago"].map(str::to_owned).to_vec();
        let headings = ["WORKER", "STATE", "TARGET", "LAST SEEN"];
        let table = [
            (33, "WORKER  STATE  TARGET   LAST SEEN\nw-1     idle   default  0.3 s ago\n"),
            (32, "WORKER  STATE  TARGET\nw-1     idle   default\n"),
            (20, "WORKER  STATE\nw-1     idle\n"),
        ];
        for (columns, expected) in table {
            let whole = Table::new(&headings, vec![row()]);
            assert_eq!(whole.within(columns, &["LAST SEEN", "TARGET"]).text(), expected, "{columns}");
        }
    }
}
