//! The logs of a job: list, one, a window of one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use prs_common::storage::is_valid_key;
use prs_jobs::FailureKind;
use prs_jobs::homes::{self, Home};
use prs_jobs::logs::{self, LogChoice, LogCursor, LogFile, LogKind, LogMatches, LogQuery, log_kinds};
use serde::Serialize;

use super::files::{File, absent};
use super::jobs::Page;
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::cursor;
use crate::http::page::with_next;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// Bytes at the end of a log that may be asked for.
const LONGEST_TAIL: u64 = 4 << 20;
/// Bytes of a window, by default and at most.
pub(crate) const WINDOW: (u64, u64) = (64 << 10, 256 << 10);
/// A longer line is cut.
const LONGEST_LINE: usize = 16 << 10;

/// The job whose logs are meant: of one whose data is put together first, its step at work.
pub(crate) async fn home(app: &App, id: &str) -> Result<Home, Problem> {
    let home = app.home(id).await?;
    let at_work = homes::find_at_work(&home.called(), &app.whereabouts).await;
    at_work.map_err(|failure| Problem::of(&failure, Kind::REFUSED))
}

/// The log of this name.
pub(crate) async fn find<'a>(home: &'a Home, path: &str) -> Result<LogFile<'a>, Problem> {
    logs::find(&**home, path).await.map_err(|failure| {
        if failure.kind == FailureKind::NotFound {
            absent(path)
        } else {
            Problem::of(&failure, Kind::FILE_NOT_FOUND)
        }
    })
}

/// `GET /jobs/{job}/logs`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["q", "prefix", "delimiter", "kind", "node", "process", "limit", "cursor"])?;
    let limit = params.limit()?;
    let wanted = LogChoice { text: params.one("q")?.unwrap_or_default().to_owned(), ..choice(&params)? };
    let is_flat = match params.one("delimiter")? {
        // Who looks for logs looks for them wherever they are.
        None => !wanted.is_filter(),
        Some("/") => true,
        Some("none") => false,
        Some(other) => return Err(bad("delimiter", format_args!("{other:?} is neither / nor none"))),
    };
    let of = format!("logs of {id}?{}", params.without(&["limit", "cursor"]));
    let begins: Option<LogCursor> = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let is_first = begins.is_none();
    let home = home(&app, &id).await?;
    let page = logs::page(&*home, &wanted, is_flat, begins, limit).await;
    let page = page.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let next_cursor = page.next.as_ref().map(|next| cursor::write(&of, next));
    let total = (is_first && next_cursor.is_none()).then_some(page.entries.len() as u64);
    Ok(Page::now(page.entries, next_cursor, total).answer(&params))
}

/// How the names of logs begin, as a parameter says: a folder, or a beginning of names in it.
pub(crate) fn place(params: &Params, name: &str) -> Result<String, Problem> {
    let place = params.one(name)?.unwrap_or_default().to_owned();
    let folder = place.trim_end_matches('/');
    if !folder.is_empty() && !is_valid_key(folder)
        || place.ends_with("//")
        || folder.is_empty() && !place.is_empty()
    {
        return Err(bad(name, format_args!("{place:?} is not how the name of a log begins")));
    }
    Ok(place)
}

/// The logs that a request chooses by where they are, by their kinds, nodes and processes; of each of these it may name several.
pub(crate) fn choice(params: &Params) -> Result<LogChoice, Problem> {
    let kind = |word: &&str| {
        let known = LogKind::parse(word);
        known.ok_or_else(|| bad("kind", format_args!("{word:?} is none of {}", log_kinds())))
    };
    let node = |text: &&str| {
        text.parse().map_err(|_| bad("node", format_args!("{text:?} is not the number of a node")))
    };
    Ok(LogChoice {
        kinds: params.all("kind").iter().map(kind).collect::<Result<_, _>>()?,
        nodes: params.all("node").iter().map(node).collect::<Result<_, _>>()?,
        processes: params.texts("process"),
        prefix: place(params, "prefix")?,
        text: String::new(),
    })
}

/// `GET /jobs/{job}/logs/{path}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["tail", "download"])?;
    let tail = params.number("tail", (1, LONGEST_TAIL))?;
    let is_text = !params.flag("download")?;
    let home = home(&app, &id).await?;
    let key = find(&home, &path).await?.key().to_owned();
    File { storage: Arc::clone(home.storage()), key, is_text, tail, sha256: None }.answer(&headers).await
}

/// A window of a log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Window {
    pub(crate) path: String,
    pub(crate) total_bytes: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) at_end: bool,
    pub(crate) lines: Vec<Line>,
    /// Whether the last line has its end.
    #[serde(skip)]
    pub(crate) is_whole: bool,
}

/// A line of a log.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    /// Where it begins, bytes.
    pub(crate) offset: u64,
    pub(crate) text: String,
    /// Whether the rest of it is left out.
    pub(crate) cut: bool,
}

/// Where a window begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// At the first line that begins here or later.
    Byte(u64),
    /// So that half of it lies before this byte.
    Around(u64),
    /// So that it ends where the log ends.
    End,
}

impl At {
    /// As the parameters `at` and `around` say.
    pub(crate) fn parse(params: &Params) -> Result<Option<Self>, Problem> {
        let parse = |text: &str| match text {
            "end" => Ok(Self::End),
            text => text
                .parse()
                .map(Self::Byte)
                .map_err(|_| bad("at", format_args!("{text:?} is neither a number of bytes nor end"))),
        };
        let at = params.one("at")?.map(parse).transpose()?;
        let around = params.value("around", "a number of bytes")?.map(Self::Around);
        if at.is_some() && around.is_some() {
            return Err(bad("around", "at says already where the window begins"));
        }
        Ok(at.or(around))
    }
}

/// The lines of a log that begin at a place, as many as fit `bytes`.
pub(crate) async fn window(log: &LogFile<'_>, at: At, bytes: u64) -> Result<Window, Problem> {
    let failed = |failure| Problem::of(&failure, Kind::FILE_NOT_FOUND);
    let total = log.size().await.map_err(failed)?;
    let from = match at {
        At::Byte(from) => from.min(total),
        At::Around(byte) => byte.saturating_sub(bytes / 2).min(total),
        At::End => total.saturating_sub(bytes),
    };
    // One byte more in front tells whether a line begins here.
    let read_from = from.saturating_sub(1);
    let read = if read_from < total {
        log.read(read_from, bytes + from - read_from).await.map_err(failed)?
    } else {
        bytes::Bytes::new()
    };
    let at_end = read_from + read.len() as u64 >= total;
    let (from, lines, to) = lines_of(&read, read_from, from, at_end);
    let is_whole = to.checked_sub(read_from + 1).and_then(|at| read.get(at as usize)) == Some(&b'\n');
    Ok(Window { path: log.name().to_owned(), total_bytes: total, from, to, at_end, lines, is_whole })
}

/// The lines in what was `read` from `read_from` on, that begin at `from` or later; where the first begins, and where the last ends.
/// The last one may be without its end, where the log has no more.
fn lines_of(read: &[u8], read_from: u64, from: u64, at_end: bool) -> (u64, Vec<Line>, u64) {
    let mut begin = (from - read_from) as usize;
    if begin > 0 && read.get(begin - 1) != Some(&b'\n') {
        // A line that is longer than the window is shown from here on.
        begin = read[begin.min(read.len())..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(begin, |at| begin + at + 1);
    }
    let mut lines = Vec::new();
    let first = read_from + begin as u64;
    let mut at = begin;
    while at < read.len() {
        let end = read[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end);
        let is_whole = end.is_some();
        if !is_whole && !at_end && !lines.is_empty() {
            break;
        }
        let end = end.unwrap_or(read.len());
        let shown = &read[at..end.min(at + LONGEST_LINE)];
        let text = String::from_utf8_lossy(shown);
        lines.push(Line {
            offset: read_from + at as u64,
            text: text.trim_end_matches('\r').to_owned(),
            cut: shown.len() < end - at,
        });
        at = end + usize::from(is_whole);
    }
    (first, lines, read_from + at as u64)
}

/// `GET /jobs/{job}/log-lines`.
pub(crate) async fn lines(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["path", "at", "around", "bytes"])?;
    let path = params.one("path")?.ok_or_else(|| bad("path", "it is missing: name a log"))?;
    let bytes = params.number("bytes", (1, WINDOW.1))?.unwrap_or(WINDOW.0);
    let at = At::parse(&params)?.unwrap_or(At::Byte(0));
    let home = home(&app, &id).await?;
    let log = find(&home, path).await?;
    Ok(Json(window(&log, at, bytes).await?).into_response())
}

/// Lines around a match, and matches, at most.
const SEARCH: (u64, u64) = (5, 200);

/// What is looked for in the logs of a job.
pub(crate) fn log_query(params: &Params) -> Result<LogQuery, Problem> {
    Ok(LogQuery {
        text: params.one("q")?.ok_or_else(|| bad("q", "it is missing: say what to look for"))?.to_owned(),
        is_regex: params.flag("regex")?,
        is_exact: params.flag("case")?,
        context: params.number("context", (0, SEARCH.0))?.unwrap_or(0) as usize,
        limit: params.number("limit", (1, SEARCH.1))?.unwrap_or(50) as usize,
        path: params.one("path")?.map(str::to_owned),
        choice: choice(params)?,
    })
}

/// The matches of a search, from its cursor on, and where it goes on.
pub(crate) async fn matches(
    home: &Home,
    id: &str,
    params: &Params,
    query: &LogQuery,
) -> Result<(LogMatches, Option<String>), Problem> {
    let of = format!("search in logs of {id}?{}", params.without(&["limit", "cursor", "context"]));
    let begins = params.one("cursor")?.map(|text| cursor::read(&of, text)).transpose()?;
    let found = logs::search(&**home, query, begins).await;
    let found = found.map_err(|failure| match (failure.kind, &query.path) {
        (FailureKind::NotFound, Some(path)) => absent(path),
        _ => Problem::of(&failure, Kind::BAD_PARAMETER),
    })?;
    let next = found.next.as_ref().map(|next| cursor::write(&of, next));
    Ok((found, next))
}

/// What a search found, and where it goes on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogSearch {
    #[serde(flatten)]
    found: LogMatches,
    next_cursor: Option<String>,
}

/// `GET /jobs/{job}/log-search`.
pub(crate) async fn search(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[
        "q", "regex", "case", "context", "limit", "path", "prefix", "kind", "node", "process", "cursor",
    ])?;
    let query = log_query(&params)?;
    let _place = app.counts.search(who.id())?;
    let home = home(&app, &id).await?;
    let (found, next_cursor) = matches(&home, &id, &params, &query).await?;
    let next = next_cursor.clone();
    Ok(with_next(&params, next.as_deref(), Json(LogSearch { found, next_cursor })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(read: &[u8], from: u64, to: usize, at_end: bool) -> (u64, Vec<(u64, String)>, u64) {
        let read_from = from.saturating_sub(1);
        let piece = &read[read_from as usize..to];
        let (first, lines, end) = lines_of(piece, read_from, from, at_end);
        (first, lines.into_iter().map(|line| (line.offset, line.text)).collect(), end)
    }

    #[test]
    fn windows_hold_whole_lines_and_meet() {
        let log = b"one\ntwo\r\nthree";
        let own = |text: &str| text.to_owned();
        assert_eq!(
            shown(log, 0, 14, true),
            (0, vec![(0, own("one")), (4, own("two")), (9, own("three"))], 14)
        );
        // The third line is not whole, and there is more: it begins the next window.
        assert_eq!(shown(log, 0, 11, false), (0, vec![(0, own("one")), (4, own("two"))], 9));
        assert_eq!(shown(log, 9, 14, true), (9, vec![(9, own("three"))], 14));
        assert_eq!(shown(log, 2, 14, true).0, 4, "from the next line on");
        assert_eq!(shown(log, 14, 14, true).1, []);
        // A line that is longer than the window is given in pieces.
        assert_eq!(shown(b"aaaaaaaa", 0, 4, false), (0, vec![(0, own("aaaa"))], 4));
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        let long = vec![b'x'; LONGEST_LINE + 1];
        let (_, lines, to) = lines_of(&long, 0, 0, true);
        assert_eq!((lines[0].text.len(), lines[0].cut, to), (LONGEST_LINE, true, long.len() as u64));
    }
}
