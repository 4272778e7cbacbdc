//! The logs of a job: which there are, and a window of one. A window is plain text, so the search of the browser works in it.

use askama::Template;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::text::json::{Piece as JsonPiece, pieces as json_pieces};
use crate::text::{bytes, count, counted};
use crate::view::frames::{Piece, foreign, pieces};

/// A path as it stands in an address.
fn in_address(path: &str) -> String {
    utf8_percent_encode(path, NON_ALPHANUMERIC).to_string()
}

/// A log in the list.
#[derive(Debug, Clone, Default)]
pub struct LogEntry {
    /// Its path below the logs.
    pub path: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether it grows.
    pub grows: bool,
}

impl LogEntry {
    fn size(&self) -> String {
        let grows = if self.grows { ", grows" } else { "" };
        format!("{}{grows}", bytes(self.bytes))
    }
}

/// A folder in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFolder {
    /// Its path below the logs, with `/` at its end.
    pub path: String,
    /// Tries that failed on the node whose folder it is.
    pub failed: u64,
}

impl LogFolder {
    fn in_address(&self) -> String {
        in_address(&self.path)
    }

    fn says(&self) -> String {
        if self.failed > 0 { counted(self.failed, "failed try") } else { String::new() }
    }
}

/// Which logs a search reads, as its form offers it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogScope {
    /// What the form sends for it.
    pub value: String,
    /// What it is called.
    pub name: String,
    /// Whether it is chosen.
    pub is_chosen: bool,
}

/// Logs that are followed together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowedLogs {
    /// The address that follows them on a page; empty where this is the page.
    pub link: String,
    /// The stream of them.
    pub stream: String,
    /// How many they are.
    pub count: u64,
    /// Whether there are more, which are left out.
    pub has_more: bool,
}

impl FollowedLogs {
    fn says(&self) -> String {
        let all = counted(self.count, "log");
        if self.has_more { format!("{all}; choose a kind and a node for the others") } else { all }
    }
}

/// A window of a log.
#[derive(Debug, Clone, Default)]
pub struct LogLines {
    /// Which log.
    pub path: String,
    /// Its size, bytes.
    pub total: u64,
    /// Where the window begins and ends, bytes.
    pub window: (u64, u64),
    /// The lines, each with where it begins.
    pub lines: Vec<(u64, String)>,
    /// Whether the last of them has its end.
    pub is_whole: bool,
    /// Where the windows before and behind begin; nothing where there are none.
    pub neighbours: (Option<u64>, Option<u64>),
}

/// A line as a page shows it, or what stands between lines.
#[derive(Debug)]
enum Shown {
    /// Text with its colours, and places that lead to the code.
    Plain(Vec<Piece>),
    /// An object of JSON, which can be folded open.
    Json(Vec<JsonPiece>),
    /// From here on frames of other code than the job's are folded: so many.
    Fold(u64),
    /// No more.
    Unfold,
}

/// Lines of a log, each with where it begins: what a window holds, and what comes behind it as the log grows.
#[derive(Debug, Template)]
#[template(path = "site/log_lines.html")]
pub struct LogRows {
    /// How much before them is left out; empty where nothing is.
    left_out: String,
    /// The log, where the lines of several stand below one another; such lines have no address of their own.
    log: String,
    lines: Vec<(u64, Shown)>,
}

impl LogRows {
    /// Of these lines, each with where it begins; `code` is the address of the code of the job.
    pub fn new(lines: &[(u64, String)], code: &str) -> Self {
        let shown = |text: &str| match json_pieces(text) {
            Some(pieces) => Shown::Json(pieces),
            None => Shown::Plain(pieces(text, Some(code))),
        };
        let (mut rows, mut at) = (Vec::new(), 0);
        while at < lines.len() {
            let (frames, end) = foreign_frames(&lines[at..]);
            let end = at + end;
            if frames > 0 {
                rows.push((lines[at].0, Shown::Fold(frames)));
                rows.extend(lines[at..end].iter().map(|(at, text)| (*at, shown(text))));
                rows.push((lines[at].0, Shown::Unfold));
                at = end;
            } else {
                rows.push((lines[at].0, shown(&lines[at].1)));
                at += 1;
            }
        }
        Self { left_out: String::new(), log: String::new(), lines: rows }
    }

    /// The same behind so many bytes that are left out.
    #[must_use]
    pub fn behind(self, left_out: Option<u64>) -> Self {
        Self { left_out: left_out.map(bytes).unwrap_or_default(), ..self }
    }

    /// The same of the log at `path`, among others.
    #[must_use]
    pub fn among_others(self, path: &str) -> Self {
        // Of `user/stdout/17/process003.stdout.txt` node and process say all.
        let parts: Vec<&str> = path.trim_end_matches(".txt").split('/').collect();
        Self { log: parts[parts.len().saturating_sub(2)..].join("/"), ..self }
    }

    /// All of them.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// How many frames of code that is not the job's stand one behind the other at the beginning of these lines, and in how many of them.
fn foreign_frames(lines: &[(u64, String)]) -> (u64, usize) {
    let (mut frames, mut at) = (0, 0);
    while let Some(depth) = lines.get(at).and_then(|(_, text)| foreign(text)) {
        frames += 1;
        at += 1;
        // The code of a frame is indented more than the frame.
        let is_code = |text: &str| !text.trim().is_empty() && text.len() - text.trim_start().len() > depth;
        while lines.get(at).is_some_and(|(_, text)| is_code(text)) {
            at += 1;
        }
    }
    (frames, at)
}

impl LogLines {
    fn size(&self) -> String {
        bytes(self.total)
    }

    fn rows(&self, job_id: &str) -> LogRows {
        LogRows::new(&self.lines, &format!("/jobs/{job_id}/code"))
    }

    /// From where on one follows the log: a last line that has no end comes once more, when it has.
    fn grows_from(&self) -> u64 {
        if self.is_whole { self.window.1 } else { self.lines.last().map_or(self.window.1, |(at, _)| *at) }
    }

    /// What downloads the window alone, behind the address of the log.
    fn window_link(&self) -> String {
        format!("?at={}&to={}&download=true", self.window.0, self.window.1)
    }

    fn in_address(&self) -> String {
        in_address(&self.path)
    }
}

/// A line that a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogHit {
    /// The log.
    pub path: String,
    /// Where the line begins, bytes.
    pub offset: u64,
    /// The line: what does not fit, and what fits behind it, in turns.
    pub parts: Vec<(String, String)>,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines behind it.
    pub after: Vec<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSearch {
    /// The lines.
    pub matches: Vec<LogHit>,
    /// Bytes that were read for this page.
    pub scanned: u64,
    /// Bytes of all logs that are searched.
    pub total: u64,
    /// How many these are.
    pub files: usize,
    /// The address that searches on; empty where nothing is left.
    pub next: String,
}

impl LogSearch {
    fn says(&self) -> String {
        format!(
            "{} on this page, in {} read of {} in {}.",
            counted(self.matches.len() as u64, "matching line"),
            bytes(self.scanned),
            bytes(self.total),
            counted(self.files as u64, "log")
        )
    }
}

/// The tab of the logs.
#[derive(Debug, Template)]
#[template(path = "site/logs.html")]
pub struct LogPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// The job.
    pub job_id: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// The folder that is listed; empty for all of it.
    pub folder: &'a str,
    /// The folders in it.
    pub folders: Vec<LogFolder>,
    /// The logs, those that the filter leaves.
    pub entries: Vec<LogEntry>,
    /// The address that lists on; empty where all are listed.
    pub next: String,
    /// Names that a page looks at, at most.
    pub most_names: u64,
    /// What is looked for in the names.
    pub query: &'a str,
    /// The kinds of logs, and whether each is chosen.
    pub kinds: Vec<(&'static str, bool)>,
    /// The node whose logs are chosen; empty for all.
    pub node: &'a str,
    /// Nodes with tries that failed, and how many of each; those with most first.
    pub failing: Vec<(u32, u64)>,
    /// What explains how the job stands: the error that cost most, and its address.
    pub explains: Option<(String, String)>,
    /// What is looked for in the logs.
    pub wanted: &'a str,
    /// Whether that is a pattern.
    pub is_regex: bool,
    /// In which logs it may be looked for; the first is all of them.
    pub scopes: Vec<LogScope>,
    /// The logs that are listed, to be followed together.
    pub followed: Option<FollowedLogs>,
    /// What was found.
    pub search: Option<LogSearch>,
    /// The window of the log that is open.
    pub open: Option<LogLines>,
    /// Whether logs may still grow.
    pub grows: bool,
}

impl LogPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// The address of the log that is open.
    fn here(&self) -> String {
        let path = self.open.as_ref().map_or("", |open| &open.path);
        format!("/jobs/{}/logs/{path}", self.job_id)
    }

    /// The folders around the one that is listed, from that of all logs on, and the folder itself: what each is called, and its path in an
    /// address.
    fn way(&self) -> Vec<(&str, String)> {
        let names = self.folder.split_terminator('/');
        let ends = self.folder.match_indices('/').map(|(at, _)| in_address(&self.folder[..=at]));
        std::iter::once(("logs", in_address("/"))).chain(names.zip(ends)).collect()
    }

    fn folder_in_address(&self) -> String {
        in_address(self.folder)
    }

    /// What a log or a folder in the list is called: in the list of a folder without that.
    fn name_of<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.folder).unwrap_or(path)
    }

    /// Why nothing is listed.
    fn says_none(&self) -> String {
        match (self.is_filtered(), self.next.is_empty()) {
            (_, false) => format!(
                "None of the {} names that this page looked at is so: More logs looks on.",
                count(self.most_names)
            ),
            (true, true) => "No log is so.".to_owned(),
            _ if !self.folder.is_empty() => "There are no logs in this folder.".to_owned(),
            _ => {
                "The job has written no logs yet; on a fleet they arrive some seconds after they are written."
                    .to_owned()
            }
        }
    }

    /// Whether logs are chosen by more than their folder.
    fn is_filtered(&self) -> bool {
        !self.query.is_empty() || !self.node.is_empty() || self.kinds.iter().any(|(_, is_chosen)| *is_chosen)
    }

    /// Whether a search reads all logs.
    fn is_everywhere(&self) -> bool {
        self.scopes.iter().skip(1).all(|scope| !scope.is_chosen)
    }

    fn is_open(&self, path: &str) -> bool {
        self.open.as_ref().is_some_and(|open| open.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> String {
        let lines: Vec<_> = text.lines().enumerate().map(|(at, line)| (at as u64, line.to_owned())).collect();
        LogRows::new(&lines, "/jobs/j/code").html()
    }

    #[test]
    fn frames_lead_to_the_code_and_those_of_others_are_folded() {
        let html = rows(
            "Traceback (most recent call last):\n  File \"/w/code/flaky.py\", line 5, in run\n    go()\n\
             \u{20} File \"/usr/lib/python3/json.py\", line 7, in loads\n    raise\n    ^^^^\n\
             \u{20} File \"<frozen x>\", line 9, in y\nValueError: <b>\n",
        );
        assert!(html.contains("href=\"/jobs/j/code?frame=%2Fw%2Fcode%2Fflaky%2Epy&#38;line=5\""), "{html}");
        let folded = html.split("<details").nth(1).unwrap().split("</details>").next().unwrap();
        assert!(folded.contains("2 frames of other code"), "{folded}");
        assert!(
            folded.contains("json.py") && folded.contains("^^^^") && folded.contains("frozen"),
            "{folded}"
        );
        assert!(
            !folded.contains("ValueError") && html.contains("id=\"b5\"") && !html.contains("<b>"),
            "{html}"
        );
        assert!(!rows("no frame\n  of anything\n").contains("<details"));
    }

    #[test]
    fn lines_of_several_logs_say_which_log_they_are_of() {
        let rows =
            LogRows::new(&[(7, "x".to_owned())], "").among_others("user/stdout/17/process003.stdout.txt");
        let html = rows.behind(Some(2_000)).html();
        assert!(html.contains("17/process003.stdout") && !html.contains("id="), "{html}");
    }
}
