//! Looking for text in the logs of a job: line by line, file by file, those that were written last first, as far as a call may read; the
//! next call goes on where it stopped. The counts are of what was read, and the answer says how much that is.
//!
//! Logs of a job that runs grow, and come, between two calls. None is left out for that: one that was written meanwhile and was not read
//! before is read at the end. What is added to one that was read is not looked for.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use prs_common::layout;
use prs_common::storage::{StorageErrorKind, StorageExt};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde::{Deserialize, Serialize};

use super::listed::written;
use super::{LogChoice, find};
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

/// The position at which a search goes on: a log, a byte in it, and the place of the log in the order of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchCursor {
    file: String,
    at: u64,
    /// When that log had been written when it had its turn, seconds since the Unix epoch.
    modified: u64,
    /// When the newest log had been written when the search began; nothing where logs do not change any more.
    newest: Option<u64>,
    /// Whether only logs are left that were written since.
    is_late: bool,
    /// The logs that were read, [`READ`] of them at most: checksums of their names, [`DIGITS`] hexadecimal digits each.
    read: String,
}

/// Logs that a cursor knows to be read, those that were written last. Of a job that runs and has more of them that grow, some may be read
/// twice.
const READ: usize = 128;
/// Digits of the checksum of a name, 48 bits: that one of a million logs has that of a known one is a matter of one search in two million.
const DIGITS: usize = 12;

impl SearchCursor {
    fn has_read(&self, file: &str) -> bool {
        let wanted = checksum(file);
        self.read.as_bytes().chunks(DIGITS).any(|known| known == wanted.as_bytes())
    }

    /// Notes that a log was read.
    fn note(&mut self, file: &str) {
        if self.newest.is_some() && self.read.len() < DIGITS * READ {
            self.read.push_str(&checksum(file));
        }
    }
}

fn checksum(file: &str) -> String {
    let whole = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, file.as_bytes());
    format!("{:012x}", whole >> 16)
}

/// When a log is read: the one in which the search stopped first, then those in their order, then those that were written meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Now,
    InOrder,
    Late,
}

/// Logs written last come first; of the same second those that tell of errors.
fn place(file: &str, modified: u64) -> (Reverse<u64>, u8, &str) {
    (Reverse(modified), rank(file), file)
}

/// The logs that are left to read, in the order in which they are; each with when it was written last.
fn left(logs: Vec<(Log, u64)>, from: Option<&SearchCursor>) -> Vec<(Turn, Log, u64)> {
    let turn = |log: &Log, modified: u64| {
        let Some(from) = from else { return Some(Turn::InOrder) };
        let file = &*log.file;
        if file == from.file {
            return Some(Turn::Now);
        }
        if from.has_read(file) {
            return None;
        }
        if !from.is_late && place(file, modified) > place(&from.file, from.modified) {
            return Some(Turn::InOrder);
        }
        let is_new = from.newest.is_some_and(|newest| modified >= newest);
        (is_new && !(from.is_late && file < &*from.file)).then_some(Turn::Late)
    };
    let turns = logs.into_iter().filter_map(|(log, modified)| Some((turn(&log, modified)?, log, modified)));
    let mut left: Vec<_> = turns.collect();
    left.sort_by_cached_key(|(turn, log, modified)| {
        // Times of those that are late change from call to call.
        let (modified, rank) = if *turn == Turn::Late { (0, 0) } else { (*modified, rank(&log.file)) };
        (*turn, Reverse(modified), rank, log.file.clone())
    });
    left
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
    /// The lines, in the order in which logs are read: those that were written last first.
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

/// What tells of errors is read first, of logs that were written in the same second.
fn rank(file: &str) -> u8 {
    let first = ["user/error", "job_", "user/stderr/", "user/stdout/", "user/"];
    first.iter().position(|start| file.starts_with(start)).unwrap_or(first.len()) as u8
}

impl LogQuery {
    /// The logs that are searched, each with when it was written last.
    async fn logs(&self, home: &dyn JobHome) -> Result<Vec<(Log, u64)>, Failure> {
        let Some(path) = &self.path else { return written(home, &self.choice).await };
        let log = find(home, path).await?;
        let of = Log { file: log.name().to_owned(), bytes: log.size().await? };
        Ok(if self.choice.fits(&of.file) { vec![(of, 0)] } else { Vec::new() })
    }

    /// Where a search begins in these logs.
    async fn begin(&self, home: &dyn JobHome, logs: &[(Log, u64)]) -> Result<SearchCursor, Failure> {
        let grows = self.path.is_none() && home.record().await?.result.is_none();
        let newest = logs.iter().map(|(_, modified)| *modified).max().filter(|newest| grows && *newest > 0);
        Ok(SearchCursor { newest, ..SearchCursor::default() })
    }
}

/// Looks for text in the logs of a job, from a cursor on.
pub async fn search(
    home: &dyn JobHome,
    query: &LogQuery,
    cursor: Option<SearchCursor>,
) -> Result<LogMatches, Failure> {
    let needle = Needle::new(query)?;
    let mut logs = query.logs(home).await?;
    logs.retain(|(log, _)| log.bytes > 0);
    let mut answer = LogMatches {
        total_bytes: logs.iter().map(|(log, _)| log.bytes).sum(),
        files: logs.len(),
        complete: true,
        ..LogMatches::default()
    };
    let mut place = match &cursor {
        Some(cursor) => cursor.clone(),
        None => query.begin(home, &logs).await?,
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
    'files: for (turn, Log { file, bytes }, modified) in left(logs, cursor.as_ref()) {
        let mut at = 0;
        if turn == Turn::Now {
            at = place.at;
        } else {
            (place.modified, place.is_late) = (modified, turn == Turn::Late);
            place.file.clone_from(&file);
        }
        scan.path.clone_from(&file);
        scan.open.clear();
        scan.before.clear();
        let key = format!("{}{file}", layout::LOGS);
        while at < bytes {
            let is_over = answer.scanned_bytes >= MOST.0 || Instant::now() >= until;
            if is_over || scan.found.len() >= scan.limit {
                place.at = at;
                (answer.complete, answer.next) = (false, Some(place));
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
        place.note(&file);
    }
    answer.matches = scan.found;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;
    use std::time::SystemTime;

    use prs_common::job::JobSpec;
    use prs_common::storage::{LocalStorage, Storage};
    use prs_orchestrator::JobRecord;

    use super::*;
    use crate::homes;

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

    fn written_at(logs: &[(&str, u64)]) -> Vec<(Log, u64)> {
        logs.iter().map(|(file, at)| (Log { file: (*file).to_owned(), bytes: 1 }, *at)).collect()
    }

    #[test]
    fn logs_that_were_written_last_are_read_first_and_none_twice_or_never() {
        let first = [("sys/a", 50), ("user/stdout/b", 50), ("user/error/c", 50), ("old", 10), ("new", 90)];
        let names = |from: Option<&SearchCursor>, logs: &[(&str, u64)]| {
            let left = left(written_at(logs), from);
            left.into_iter().map(|(_, log, _)| log.file).collect::<Vec<_>>()
        };
        assert_eq!(names(None, &first), ["new", "user/error/c", "user/stdout/b", "sys/a", "old"]);
        // `new` was read, and a part of `user/error/c`; then all but `sys/a` grew, and a log came.
        let mut from = SearchCursor {
            file: "user/error/c".to_owned(),
            at: 7,
            modified: 50,
            newest: Some(90),
            ..SearchCursor::default()
        };
        from.note("new");
        let then = [
            ("sys/a", 50),
            ("user/stdout/b", 95),
            ("user/error/c", 95),
            ("old", 90),
            ("new", 96),
            ("came", 97),
        ];
        let late = ["user/error/c", "sys/a", "came", "old", "user/stdout/b"];
        assert_eq!(names(Some(&from), &then), late);
        // Late logs are read in the order of their names.
        let mut behind = SearchCursor { file: "old".to_owned(), is_late: true, modified: 90, ..from.clone() };
        behind.note("user/error/c");
        assert_eq!(names(Some(&behind), &then), ["old", "user/stdout/b"]);
        // Of a job that has ended nothing is late, whatever was noted.
        let ended = SearchCursor { newest: None, read: String::new(), ..from };
        assert_eq!(names(Some(&ended), &first), ["user/error/c", "user/stdout/b", "sys/a", "old"]);
    }

    #[test]
    fn a_cursor_knows_so_many_logs_and_stays_short() {
        let mut cursor = SearchCursor { newest: Some(1), ..SearchCursor::default() };
        (0..1_000).for_each(|number| cursor.note(&format!("user/stdout/{number}/process000.stdout.txt")));
        assert!(cursor.has_read("user/stdout/127/process000.stdout.txt"));
        assert!(!cursor.has_read("user/stdout/128/process000.stdout.txt"));
        assert!(serde_json::to_string(&cursor).unwrap().len() < 1_700);
    }

    #[tokio::test]
    async fn a_search_finds_each_line_once_while_logs_grow() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        JobRecord::new("job-1".to_owned(), String::new(), spec).write(&*storage).await.unwrap();
        let home = homes::in_folder(folder.path().to_owned());
        let logs = folder.path().join("logs/user/stdout/0");
        std::fs::create_dir_all(&logs).unwrap();
        let write = |number: u64, at: u64| {
            let mut log = std::fs::OpenOptions::new();
            let mut log = log.create(true).append(true).open(logs.join(format!("{number}.txt"))).unwrap();
            writeln!(log, "found in {number} at {at}").unwrap();
            log.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at)).unwrap();
        };
        (0..6).for_each(|number| write(number, 1_000 + number));
        let (mut found, mut cursor) = (Vec::new(), None);
        for at in 2_000..2_020 {
            let one = search(&*home, &LogQuery { limit: 1, ..query("found") }, cursor).await.unwrap();
            found.extend(one.matches.into_iter().map(|one| one.text));
            cursor = one.next;
            if cursor.is_none() {
                break;
            }
            if at < 2_003 {
                // One that was read and one that was not.
                write(5, at);
                write(1, at);
            }
        }
        assert_eq!(
            found[..5],
            [5, 4, 3, 2, 0].map(|number| format!("found in {number} at {}", 1_000 + number))
        );
        assert_eq!(found[5], "found in 1 at 1001");
        assert_eq!(found[6..], [2_000, 2_001, 2_002].map(|at| format!("found in 1 at {at}")));
    }
}
