//! Looking for text in the logs of a job: line by line, file by file, as far as a call may read; the next call goes on where it
//! stopped. What is counted is what was read, and the answer says how much that is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use prs_common::layout;
use prs_common::storage::{StorageErrorKind, StorageExt};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde::{Deserialize, Serialize};

use super::{LogChoice, all, find};
use crate::failure::Failure;
use crate::homes::JobHome;
use crate::records::Log;

/// Bytes that a call reads, and how long it takes, at most.
const MOST: (u64, Duration) = (64 << 20, Duration::from_secs(5));
/// Bytes read at a time.
const PIECE: u64 = 1 << 20;
/// Longest line that is given, bytes.
const LONGEST_LINE: usize = 4 << 10;
/// Letters of what is looked for.
const LONGEST_QUERY: usize = 200;
/// Memory that a pattern may take, compiled, bytes.
const PATTERN: usize = 1 << 20;

/// What is looked for, and where.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// The text, or the pattern.
    pub text: String,
    /// Whether it is a pattern; classes and capital letters of it are those of ASCII.
    pub is_regex: bool,
    /// Whether capital letters are told from small ones.
    pub is_exact: bool,
    /// Lines around a match that are given with it.
    pub context: usize,
    /// Matches at most.
    pub limit: usize,
    /// The one log to search.
    pub path: Option<String>,
    /// The logs to search.
    pub choice: LogChoice,
}

/// Where a search goes on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SearchCursor {
    rank: u8,
    file: String,
    at: u64,
}

/// A line with what is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogMatch {
    /// The log.
    pub path: String,
    /// Where the line begins, bytes.
    pub offset: u64,
    /// The line; of a long one its beginning.
    pub text: String,
    /// Where in it what is looked for is: the first letter and the one behind the last, counted in letters from 0.
    pub ranges: Vec<(usize, usize)>,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines behind it.
    pub after: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogMatches {
    /// The lines, in the order in which logs are read: those that tell of errors first.
    pub matches: Vec<LogMatch>,
    /// Bytes that this call read.
    pub scanned_bytes: u64,
    /// Bytes of all logs that are searched.
    pub total_bytes: u64,
    /// Logs that are searched.
    pub files: usize,
    /// Whether nothing is left.
    pub complete: bool,
    /// Where the search goes on.
    #[serde(skip)]
    pub next: Option<SearchCursor>,
}

/// What is looked for, made ready.
#[derive(Debug, Clone)]
enum Needle {
    Text { finder: Box<Finder<'static>>, is_exact: bool },
    Pattern(Box<Regex>),
}

impl Needle {
    fn new(query: &LogQuery) -> Result<Self, Failure> {
        let letters = query.text.chars().count();
        if !(1..=LONGEST_QUERY).contains(&letters) {
            return Err(Failure::wrong(format!(
                "what is looked for has 1 to {LONGEST_QUERY} letters, not {letters}"
            )));
        }
        if query.is_regex {
            let config = Regex::config().nfa_size_limit(Some(PATTERN)).onepass_size_limit(Some(PATTERN));
            let syntax = syntax::Config::new().case_insensitive(!query.is_exact).unicode(false).utf8(false);
            let built =
                Regex::builder().configure(config.utf8_empty(false)).syntax(syntax).build(&query.text);
            let built = built.map_err(|error| {
                let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
                Failure::wrong(format!("the pattern {:?} cannot be used: {why}", query.text))
            });
            return Ok(Self::Pattern(Box::new(built?)));
        }
        let text = if query.is_exact { query.text.clone() } else { query.text.to_ascii_lowercase() };
        Ok(Self::Text {
            finder: Box::new(Finder::new(text.as_bytes()).into_owned()),
            is_exact: query.is_exact,
        })
    }

    /// The ranges of a line that fit, bytes.
    fn ranges(&self, line: &[u8], lowered: &mut Vec<u8>, most: usize) -> Vec<(usize, usize)> {
        match self {
            Self::Text { finder, is_exact } => {
                let line = if *is_exact {
                    line
                } else {
                    lowered.clear();
                    lowered.extend(line.iter().map(u8::to_ascii_lowercase));
                    lowered
                };
                let long = finder.needle().len();
                finder.find_iter(line).take(most).map(|at| (at, at + long)).collect()
            }
            Self::Pattern(regex) => {
                regex.find_iter(line).take(most).map(|found| (found.start(), found.end())).collect()
            }
        }
    }
}

/// The state of a search within a log.
#[derive(Debug)]
struct Scan {
    needle: Needle,
    context: usize,
    limit: usize,
    path: String,
    found: Vec<LogMatch>,
    /// Matches of this log that want lines behind them.
    open: Vec<usize>,
    before: VecDeque<String>,
    lowered: Vec<u8>,
}

impl Scan {
    /// Takes in a piece that begins at `at`. Returns where the search goes on: behind its last whole line, or behind all of it where
    /// `is_last` or no line ends in it; less where there are enough matches.
    fn piece(&mut self, piece: &[u8], at: u64, is_last: bool) -> u64 {
        let whole = memchr::memrchr(b'\n', piece).map_or(0, |end| end + 1);
        let end = if is_last || whole == 0 { piece.len() } else { whole };
        let mut from = 0;
        let mut goes_on = None;
        while from < end {
            let until = memchr::memchr(b'\n', &piece[from..end]).map_or(end, |length| from + length + 1);
            let line = piece[from..until].trim_ascii_end();
            if goes_on.is_some() && self.open.is_empty() {
                break;
            }
            self.line(line, at + from as u64, goes_on.is_none());
            if goes_on.is_none() && self.found.len() >= self.limit {
                goes_on = Some(at + until as u64);
            }
            from = until;
        }
        goes_on.unwrap_or(at + end as u64)
    }

    fn line(&mut self, line: &[u8], offset: u64, may_match: bool) {
        let shown = || {
            let cut = &line[..line.len().min(LONGEST_LINE)];
            String::from_utf8_lossy(cut).into_owned()
        };
        let ranges = if may_match { self.needle.ranges(line, &mut self.lowered, 1) } else { Vec::new() };
        if self.context > 0 && (!self.open.is_empty() || !ranges.is_empty() || may_match) {
            let text = shown();
            for at in &self.open {
                self.found[*at].after.push(text.clone());
            }
            let (found, context) = (&self.found, self.context);
            self.open.retain(|at| found[*at].after.len() < context);
        }
        if !ranges.is_empty() {
            let text = shown();
            let bytes = self.needle.ranges(text.as_bytes(), &mut self.lowered, 100);
            let letters = |at: usize| text[..text.floor_char_boundary(at)].chars().count();
            let ranges = bytes.into_iter().map(|(from, to)| (letters(from), letters(to))).collect();
            let before = self.before.iter().cloned().collect();
            let path = self.path.clone();
            self.found.push(LogMatch { path, offset, text, ranges, before, after: Vec::new() });
            if self.context > 0 {
                self.open.push(self.found.len() - 1);
            }
        }
        if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(shown());
        }
    }
}

/// What tells of errors is read first.
fn rank(file: &str) -> u8 {
    let first = ["user/error", "job_", "user/stderr/", "user/stdout/", "user/"];
    first.iter().position(|start| file.starts_with(start)).unwrap_or(first.len()) as u8
}

impl LogQuery {
    /// The logs that are searched.
    async fn logs(&self, home: &dyn JobHome) -> Result<Vec<Log>, Failure> {
        let Some(path) = &self.path else { return all(home, &self.choice).await };
        let log = find(home, path).await?;
        let of = Log { file: log.name().to_owned(), bytes: log.size().await? };
        Ok(if self.choice.fits(&of.file) { vec![of] } else { Vec::new() })
    }
}

/// Looks for text in the logs of a job, from a cursor on.
pub async fn search(
    home: &dyn JobHome,
    query: &LogQuery,
    cursor: Option<SearchCursor>,
) -> Result<LogMatches, Failure> {
    let needle = Needle::new(query)?;
    let logs = query.logs(home).await?.into_iter();
    let mut files: Vec<(u8, String, u64)> =
        logs.filter(|log| log.bytes > 0).map(|log| (rank(&log.file), log.file, log.bytes)).collect();
    files.sort_unstable();
    let mut answer = LogMatches {
        total_bytes: files.iter().map(|(_, _, bytes)| bytes).sum(),
        files: files.len(),
        complete: true,
        ..LogMatches::default()
    };
    let until = Instant::now() + MOST.1;
    let mut scan = Scan {
        needle,
        context: query.context,
        limit: query.limit.max(1),
        path: String::new(),
        found: Vec::new(),
        open: Vec::new(),
        before: VecDeque::new(),
        lowered: Vec::new(),
    };
    'files: for (rank, file, bytes) in files {
        let mut at = match &cursor {
            Some(cursor) if (cursor.rank, &cursor.file) > (rank, &file) => continue,
            Some(cursor) if (cursor.rank, &cursor.file) == (rank, &file) => cursor.at,
            _ => 0,
        };
        scan.path.clone_from(&file);
        scan.open.clear();
        scan.before.clear();
        let key = format!("{}{file}", layout::LOGS);
        while at < bytes {
            let is_over = answer.scanned_bytes >= MOST.0 || Instant::now() >= until;
            if is_over || scan.found.len() >= scan.limit {
                (answer.complete, answer.next) = (false, Some(SearchCursor { rank, file, at }));
                break 'files;
            }
            let piece = match home.storage().get_range(&key, at..bytes.min(at + PIECE)).await {
                Ok(piece) => piece,
                // It went meanwhile.
                Err(error) if error.kind == StorageErrorKind::NotFound => break,
                Err(error) => return Err(home.cannot("read the log")(error)),
            };
            if piece.is_empty() {
                break;
            }
            answer.scanned_bytes += piece.len() as u64;
            let (from, is_last) = (at, at + piece.len() as u64 >= bytes);
            let scanned = tokio::task::spawn_blocking(move || {
                let next = scan.piece(&piece, from, is_last);
                (scan, next)
            });
            (scan, at) = scanned.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        }
    }
    answer.matches = scan.found;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(query: &LogQuery) -> Scan {
        Scan {
            needle: Needle::new(query).unwrap(),
            context: query.context,
            limit: query.limit,
            path: "a".to_owned(),
            found: Vec::new(),
            open: Vec::new(),
            before: VecDeque::new(),
            lowered: Vec::new(),
        }
    }

    fn query(text: &str) -> LogQuery {
        LogQuery { text: text.to_owned(), limit: 10, ..LogQuery::default() }
    }

    #[test]
    fn lines_are_found_with_those_around_them() {
        let log = "one\nTwo grün two\nthree\nfour\ntwo";
        let mut found = scan(&LogQuery { context: 1, ..query("TWO") });
        assert_eq!(found.piece(log.as_bytes(), 100, true), 100 + log.len() as u64);
        let [first, second] = &found.found[..] else { panic!("{found:?}") };
        assert_eq!((first.offset, &*first.text), (104, "Two grün two"));
        assert_eq!(first.ranges, [(0, 3), (9, 12)], "in letters");
        assert_eq!(
            (&first.before[..], &first.after[..]),
            (&["one".to_owned()][..], &["three".to_owned()][..])
        );
        assert_eq!((&second.before[..], second.after.len()), (&["four".to_owned()][..], 0));
        let mut exact = scan(&LogQuery { is_exact: true, ..query("two") });
        exact.piece(log.as_bytes(), 0, true);
        assert_eq!(exact.found.len(), 2);
        let mut pattern = scan(&LogQuery { is_regex: true, ..query("^t[a-z]+$") });
        pattern.piece(log.as_bytes(), 0, true);
        assert_eq!(pattern.found.iter().map(|one| &*one.text).collect::<Vec<_>>(), ["three", "two"]);
    }

    #[test]
    fn a_search_goes_on_where_it_stopped() {
        let log = b"a1\na2\na3\nrest";
        let mut few = scan(&LogQuery { limit: 2, ..query("a") });
        assert_eq!(few.piece(log, 0, true), 6, "behind the second match");
        let mut open = scan(&query("a"));
        assert_eq!(open.piece(log, 0, false), 9, "a line that goes on is read with the next piece");
        let mut endless = scan(&query("x"));
        assert_eq!(endless.piece(b"xxxx", 0, false), 4, "one that has no end is read in pieces");
    }

    #[test]
    fn what_cannot_be_looked_for_is_refused() {
        let pattern = |text: &str| LogQuery { is_regex: true, ..query(text) };
        for (query, told) in [
            (query(""), "1 to 200"),
            (query(&"x".repeat(201)), "1 to 200"),
            (pattern("(a"), "cannot be used"),
            (pattern("((a{100}){100}){100}"), "cannot be used"),
        ] {
            let refused = Needle::new(&query).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }

    #[test]
    fn what_tells_of_errors_is_read_first() {
        let files =
            ["user/error/0/process000.txt", "job_error.txt", "user/stdout/0/process000.stdout.txt", "sys/a"];
        assert!(files.map(rank).is_sorted(), "{files:?}");
    }
}
