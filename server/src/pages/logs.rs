//! The logs of a job: the tree, a window of one, a search in them, and several that are followed together.

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use prs_common::ledger::JobState;
use prs_common::statistics::NodeState;
use prs_jobs::homes::Home;
use prs_jobs::logs::{self, LogChoice, LogCursor, LogFile, LogKind, LogMatch, LogName, LogQuery};
use prs_jobs::records::LogEntry as Listed;
use prs_portal::text::plain;
use prs_portal::view::{
    FollowedLogs, LogEntry, LogFolder, LogHit, LogLines, LogPage, LogScope, LogSearch, Tab,
};

use super::tabs::OnTabs;
use crate::api::files::SANDBOX;
use crate::api::logs::{At, WINDOW, Window, choice, find, log_query, matches, place, window};
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::cursor;
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Logs and folders of a page.
const MOST: usize = 500;
/// Matches of a search on a page.
const MATCHES: usize = 50;
/// Nodes with failures that a page names.
const FAILING: usize = 10;
/// Logs that are followed together.
pub(super) const FOLLOWED: usize = 32;
/// Bytes of the markup of a window, of which a line takes so many beside its text.
const MARKUP: (usize, usize) = (290_000, 40);
/// What says best how a job ended stands first.
const FIRST: [&str; 2] = ["job_result.txt", "job_error.txt"];
/// What the form of a search says of where, in one field.
const SCOPE: [&str; 3] = ["path", "kind", "node"];

/// `GET /jobs/{job}/logs`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[
        "name", "kind", "node", "in", "at", "q", "scope", "regex", "case", "path", "cursor", "more", "follow",
    ])?;
    let params = scoped(&params);
    let _place = if params.all("q").is_empty() { None } else { Some(app.counts.search(who.id())?) };
    let (home, job) = OnTabs::at_work(&app, &id, &[]).await?;
    let is_plain =
        ["name", "kind", "node", "in", "q", "more", "follow"].iter().all(|name| params.all(name).is_empty());
    let (open, listed) = if is_plain { explaining(&home, &job).await? } else { (None, None) };
    let listed = match listed {
        Some(listed) => listed,
        None => list_of(&home, &id, &params, open.as_ref()).await?,
    };
    page(&app, &id, (&home, &job), (open, listed), &params).await
}

/// `GET /jobs/{job}/logs/{path}`; with `download` the window alone.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["name", "kind", "node", "in", "at", "to", "download"])?;
    let (home, job) = OnTabs::at_work(&app, &id, &[]).await?;
    if params.flag("download")? {
        return piece(&home, &path, &params).await;
    }
    let log = find(&home, &path).await?;
    let listed = list_of(&home, &id, &params, Some(&log)).await?;
    Ok(page(&app, &id, (&home, &job), (Some(log), listed), &params).await?.into_response())
}

/// The bytes of a window, as a file.
async fn piece(home: &Home, path: &str, params: &Params) -> Result<Response, Problem> {
    let from = params.number("at", (0, u64::MAX))?.unwrap_or(0);
    let to = params.number("to", (from, from.saturating_add(2 * WINDOW.1)))?.unwrap_or(from + WINDOW.1);
    let log = find(home, path).await?;
    let failed = |failure| Problem::of(&failure, Kind::FILE_NOT_FOUND);
    let to = to.min(log.size().await.map_err(failed)?);
    let bytes =
        if from < to { log.read(from, to - from).await.map_err(failed)? } else { bytes::Bytes::new() };
    let name = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".txt");
    let name: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-".contains(*letter)).collect();
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}-{from}-{to}.txt\"")),
        (CONTENT_SECURITY_POLICY, SANDBOX.to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// The parameters with those that the field `scope` stands for in its place.
fn scoped(params: &Params) -> Params {
    let of_field = Params::at("", params.all("scope").first().copied().unwrap_or_default());
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let more =
        SCOPE.iter().flat_map(|name| of_field.all(name).into_iter().map(move |value| own(name, value)));
    params.and(&["scope"], more.collect())
}

/// The log that explains how the job stands: of one that runs the newest of what the script printed where a try began last, with the folder
/// that it is in; else what the job said last.
async fn explaining<'a>(
    home: &'a Home,
    job: &OnTabs,
) -> Result<(Option<LogFile<'a>>, Option<List>), Problem> {
    if !job.seen.result.state.is_final() {
        let folder = format!("user/stdout/{}/", busy_node(job));
        let listed = List::of_folder(home, folder, None).await?;
        let filled = listed.entries.iter().filter(|log| log.bytes.is_some_and(|bytes| bytes > 0));
        let newest = filled.max_by(|one, other| one.modified_at.cmp(&other.modified_at));
        if let Some(newest) = newest {
            return Ok((Some(find(home, &newest.path).await?), Some(listed)));
        }
    }
    for name in FIRST {
        if let Ok(log) = find(home, name).await
            && log.size().await.is_ok_and(|bytes| bytes > 0)
        {
            return Ok((Some(log), None));
        }
    }
    Ok((None, None))
}

/// The node on which a try began last, as far as the statistics tell; else one that is there.
fn busy_node(job: &OnTabs) -> u32 {
    let rows = || job.published.nodes.iter().flat_map(|nodes| &nodes.rows).filter(|row| row.of <= 1);
    let on_nodes = rows().flat_map(|row| row.longest.iter().map(|one| (one.since_us, row.node_id)));
    let running = job.published.live.iter().flat_map(|live| &live.running);
    let running = running.map(|one| (one.since_us, one.node_id)).chain(on_nodes).max();
    let present = || rows().find(|row| row.state == NodeState::Present);
    running.map(|(_, node_id)| node_id).or_else(|| present().map(|row| row.node_id)).unwrap_or_default()
}

/// The logs that a page lists.
struct List {
    folder: String,
    entries: Vec<Listed>,
    next: Option<LogCursor>,
    /// Whether those of all folders are listed that may have what is asked for.
    is_deep: bool,
}

impl List {
    /// What is in a folder, and in none below it.
    async fn of_folder(home: &Home, folder: String, from: Option<LogCursor>) -> Result<Self, Problem> {
        let wanted = LogChoice { prefix: folder, ..LogChoice::default() };
        Self::of(home, wanted, from, false).await
    }

    async fn of(
        home: &Home,
        wanted: LogChoice,
        from: Option<LogCursor>,
        is_deep: bool,
    ) -> Result<Self, Problem> {
        let page = logs::page(&**home, &wanted, !is_deep, from, MOST).await;
        let page = page.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
        Ok(Self { folder: wanted.prefix, entries: page.entries, next: page.next, is_deep })
    }
}

/// The name of a list of logs in the cursors of its pages.
fn name_of(id: &str, params: &Params) -> String {
    format!("list of logs of {id}?{}", params.without(&["more"]))
}

/// The logs that the filter leaves; without a filter what is in the folder that is asked for, or that `open` is in.
async fn list_of(
    home: &Home,
    id: &str,
    params: &Params,
    open: Option<&LogFile<'_>>,
) -> Result<List, Problem> {
    let of = name_of(id, params);
    let from = params.one("more")?.map(|text| cursor::read(&of, text)).transpose()?;
    let name = params.one("name")?.unwrap_or_default().to_owned();
    // Where logs are searched, `kind` and `node` say in which: the folder is listed as without them.
    let wanted = if params.all("q").is_empty() { choice(params)? } else { LogChoice::default() };
    let wanted = LogChoice { text: name, ..wanted };
    if wanted.is_filter() {
        return List::of(home, wanted, from, true).await;
    }
    let folder = match params.one("in")? {
        None => {
            let open = open.map(LogFile::name).unwrap_or_default();
            open.rfind('/').map(|at| open[..=at].to_owned()).unwrap_or_default()
        }
        // The one that all others are in.
        Some("/") => String::new(),
        Some(_) => place(params, "in")?,
    };
    List::of_folder(home, folder, from).await
}

async fn page(
    app: &App,
    id: &str,
    (home, job): (&Home, &OnTabs),
    (open, listed): (Option<LogFile<'_>>, List),
    params: &Params,
) -> Result<Html<String>, Problem> {
    let grows = !job.seen.result.state.is_final();
    let of = name_of(id, params);
    let List { folder, entries, next, is_deep } = listed;
    let followed = followed(id, params, &entries, next.is_some()).filter(|_| grows && is_deep);
    let failing = failing(job);
    let (folders, mut found) = folders(entries, &failing);
    found.sort_by_key(|log| (!FIRST.contains(&&*log.path), log.path.clone()));
    let open = match open {
        Some(log) => Some(opened(&log, params, grows).await?),
        None => None,
    };
    let search = if params.all("q").is_empty() { None } else { Some(searched(home, id, params).await?) };
    let node_id = open.as_ref().and_then(|open| LogName::of(&open.path).node_id);
    let text = |name: &str| params.all(name).first().copied().unwrap_or_default();
    let at = |more: &str| {
        let rest = params.without(&["more", "cursor"]);
        format!("/jobs/{id}/logs?{rest}{}more={more}", if rest.is_empty() { "" } else { "&" })
    };
    let page = LogPage {
        chrome: &app.chrome,
        tabs: job.tabs(id, Tab::Logs),
        job_id: id,
        title: job.title(),
        folder: &folder,
        folders,
        entries: found,
        next: next.map(|next| at(&cursor::write(&of, &next))).unwrap_or_default(),
        most_names: logs::LOOKED_AT as u64,
        query: params.one("name")?.unwrap_or_default(),
        kinds: LogKind::ALL.map(|kind| (kind.as_str(), text("kind") == kind.as_str())).to_vec(),
        node: text("node"),
        failing: failing.into_iter().take(FAILING).collect(),
        explains: explains(id, job),
        wanted: text("q"),
        is_regex: text("regex") == "true",
        scopes: scopes(params, open.as_ref().map(|open| &*open.path), node_id),
        followed,
        search,
        open,
        grows,
    };
    Ok(Html(page.html()))
}

/// The window of a log that is asked for: without a word of where, of one that grows the end, else the beginning.
async fn opened(log: &LogFile<'_>, params: &Params, grows: bool) -> Result<LogLines, Problem> {
    let at = At::parse(params)?.unwrap_or(if grows { At::End } else { At::Byte(0) });
    let mut window = window(log, at, WINDOW.1).await?;
    fit(&mut window, matches!(at, At::End));
    let line = |line: crate::api::logs::Line| {
        let rest = if line.cut { "\u{2026} the line goes on: raw has all of it" } else { "" };
        (line.offset, format!("{}{rest}", line.text))
    };
    Ok(LogLines {
        path: window.path,
        total: window.total_bytes,
        window: (window.from, window.to),
        is_whole: window.is_whole,
        lines: window.lines.into_iter().map(line).collect(),
        neighbours: (
            (window.from > 0).then(|| window.from.saturating_sub(WINDOW.1)),
            (!window.at_end).then_some(window.to),
        ),
    })
}

/// Leaves out lines of a window whose markup is too long: at its beginning where the end is wanted, else at its end.
fn fit(window: &mut Window, wants_end: bool) {
    let mut left = MARKUP.0;
    let mut fits = |line: &crate::api::logs::Line| {
        let needed = line.text.len() + MARKUP.1;
        let does = needed <= left;
        left = left.saturating_sub(needed);
        does
    };
    let all = window.lines.len();
    if wants_end {
        let kept = window.lines.iter().rev().take_while(|line| fits(line)).count().max(1);
        let left_out = all.saturating_sub(kept);
        window.lines.drain(..left_out);
        window.from = window.lines.first().map_or(window.from, |line| line.offset);
        return;
    }
    let kept = window.lines.iter().take_while(|line| fits(line)).count().max(1);
    if let Some(next) = window.lines.get(kept) {
        (window.to, window.at_end, window.is_whole) = (next.offset, false, true);
        window.lines.truncate(kept);
    }
}

/// What a search finds.
async fn searched(home: &Home, id: &str, params: &Params) -> Result<LogSearch, Problem> {
    let query = LogQuery { context: 2, limit: MATCHES, ..log_query(params)? };
    let (found, next) = matches(home, id, params, &query).await?;
    let rest = params.without(&["cursor"]);
    Ok(LogSearch {
        matches: found.matches.into_iter().map(shown).collect(),
        scanned: found.scanned_bytes,
        total: found.total_bytes,
        files: found.files,
        next: next.map(|next| format!("/jobs/{id}/logs?{rest}&cursor={next}")).unwrap_or_default(),
    })
}

/// Where a search may look: everywhere, in what is chosen now, in the log that is open, in those of its node.
fn scopes(params: &Params, open: Option<&str>, node_id: Option<u32>) -> Vec<LogScope> {
    let of = |pairs: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    };
    let given = |name: &'static str| params.all(name).into_iter().map(move |value| (name, value));
    let chosen: Vec<(&str, &str)> = SCOPE.into_iter().flat_map(given).collect();
    let now = of(&chosen);
    let says = |(name, value): &(&str, &str)| match *name {
        "path" => (*value).to_owned(),
        name => format!("{name} {value}"),
    };
    let mut scopes =
        vec![LogScope { name: "all logs".to_owned(), is_chosen: now.is_empty(), ..LogScope::default() }];
    if !now.is_empty() {
        let name = chosen.iter().map(says).collect::<Vec<_>>().join(", ");
        scopes.push(LogScope { value: now.clone(), name, is_chosen: true });
    }
    let node = node_id.map(|node| (of(&[("node", &node.to_string())]), format!("all logs of node {node}")));
    let open = open.map(|path| (of(&[("path", path)]), format!("the open log, {path}")));
    let others = open.into_iter().chain(node).filter(|(value, _)| *value != now);
    scopes.extend(others.map(|(value, name)| LogScope { value, name, is_chosen: false }));
    scopes
}

/// The logs of a list that may be followed together: those with the words of processes.
fn followed(id: &str, params: &Params, entries: &[Listed], has_more: bool) -> Option<FollowedLogs> {
    let is_of_script =
        |log: &&Listed| matches!(log.kind, Some("stdout" | "stderr" | "entry_script" | "error"));
    let all: Vec<&Listed> = entries.iter().filter(is_of_script).collect();
    let is_chosen =
        !params.all("node").is_empty() || !params.all("kind").is_empty() || !params.all("name").is_empty();
    if all.is_empty() || !is_chosen || !params.all("q").is_empty() {
        return None;
    }
    let logs = all.iter().take(FOLLOWED).map(|log| ("log", &*log.path));
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(logs).finish();
    let rest = params.without(&["follow", "more"]);
    let is_here = !params.all("follow").is_empty();
    Some(FollowedLogs {
        link: if is_here { String::new() } else { format!("/jobs/{id}/logs?{rest}&follow=true#follow") },
        stream: format!("/jobs/{id}/live?{query}"),
        count: all.len().min(FOLLOWED) as u64,
        has_more: has_more || all.len() > FOLLOWED,
    })
}

/// Nodes with tries that failed, those with most first.
fn failing(job: &OnTabs) -> Vec<(u32, u64)> {
    let rows = job.published.nodes.iter().flat_map(|nodes| &nodes.rows);
    let mut failing: Vec<(u32, u64)> = rows
        .filter(|row| row.of <= 1 && row.failed_tries > 0)
        .map(|row| (row.node_id, row.failed_tries))
        .collect();
    failing.sort_by_key(|(node_id, failed)| (std::cmp::Reverse(*failed), *node_id));
    failing
}

/// The error that cost most of a job that failed, or misses items, and its page.
fn explains(id: &str, job: &OnTabs) -> Option<(String, String)> {
    let result = &job.seen.result;
    let is_bad = result.state == JobState::Failed
        || (result.state == JobState::Completed && !result.findings.complete);
    let live = job.published.live.as_ref().filter(|_| is_bad)?;
    let first = live.top_errors.first()?;
    let says = match (&*first.category, &*first.message) {
        ("", message) => message.to_owned(),
        (category, message) => format!("{category}: {message}"),
    };
    Some((plain(&says), format!("/jobs/{id}/errors/{}", first.id)))
}

/// The folders among what was listed, and the logs. Folders of nodes that failed stand first, and the node 9 before the node 10.
fn folders(found: Vec<Listed>, failing: &[(u32, u64)]) -> (Vec<LogFolder>, Vec<LogEntry>) {
    let (mut folders, mut logs) = (Vec::new(), Vec::new());
    for each in found {
        match each.bytes {
            None => {
                let failed = failing.iter().find(|(node_id, _)| Some(*node_id) == each.node_id);
                let failed = failed.map_or(0, |(_, failed)| *failed);
                let key = (failed == 0, each.node_id, each.path.clone());
                folders.push((key, LogFolder { path: each.path, failed }));
            }
            Some(0) => {}
            Some(bytes) => logs.push(LogEntry { path: each.path, bytes, grows: each.growing }),
        }
    }
    folders.sort_by(|(one, _), (other, _)| one.cmp(other));
    (folders.into_iter().map(|(_, folder)| folder).collect(), logs)
}

/// A match as the page shows it: the line cut into what fits and what does not.
fn shown(found: LogMatch) -> LogHit {
    let letters: Vec<char> = found.text.chars().collect();
    let part = |from: usize, to: usize| {
        plain(&letters[from.min(letters.len())..to.min(letters.len())].iter().collect::<String>())
    };
    let lines = |lines: Vec<String>| lines.iter().map(|line| plain(line)).collect();
    let (mut parts, mut at) = (Vec::new(), 0);
    for (from, to) in found.ranges {
        parts.push((part(at, from.max(at)), part(from.max(at), to.max(at))));
        at = to.max(at);
    }
    parts.push((part(at, letters.len()), String::new()));
    LogHit {
        path: found.path,
        offset: found.offset,
        parts,
        before: lines(found.before),
        after: lines(found.after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::logs::Line;

    #[test]
    fn folders_of_nodes_that_failed_stand_first() {
        let of = |path: &str, node_id, bytes| Listed {
            path: path.to_owned(),
            node_id,
            bytes,
            ..Listed::default()
        };
        let found = vec![
            of("user/error/10/", Some(10), None),
            of("user/error/9/", Some(9), None),
            of("user/error/17/", Some(17), None),
            of("user/error.txt", None, Some(3)),
            of("user/empty.txt", None, Some(0)),
        ];
        let (folders, logs) = folders(found, &[(17, 4)]);
        let seen: Vec<_> = folders.iter().map(|folder| (&*folder.path, folder.failed)).collect();
        assert_eq!(seen, [("user/error/17/", 4), ("user/error/9/", 0), ("user/error/10/", 0)]);
        assert_eq!(logs.iter().map(|log| &*log.path).collect::<Vec<_>>(), ["user/error.txt"]);
    }

    #[test]
    fn a_field_says_where_a_search_looks() {
        let params = scoped(&Params::parse("q=x&scope=path%3Da%252Fb.txt&node=3"));
        assert_eq!((params.all("path"), params.all("node")), (vec!["a/b.txt"], vec!["3"]));
        let params = scoped(&Params::parse("q=x&scope=node%3D17%26kind%3Dstderr%26cursor%3Dy"));
        assert!(params.all("cursor").is_empty());
        let scopes = scopes(&params, Some("user/stdout/17/a.txt"), Some(17));
        let seen: Vec<_> = scopes.iter().map(|scope| (&*scope.name, scope.is_chosen)).collect();
        let expected = [
            ("all logs", false),
            ("kind stderr, node 17", true),
            ("the open log, user/stdout/17/a.txt", false),
            ("all logs of node 17", false),
        ];
        assert_eq!(seen, expected);
        assert_eq!(scopes[3].value, "node=17");
    }

    #[test]
    fn a_window_of_short_lines_has_fewer_of_them() {
        let lines =
            |count: u64| (0..count).map(|at| Line { offset: at * 2, text: "x".to_owned(), cut: false });
        let window = |count| Window {
            path: String::new(),
            total_bytes: 2 * count,
            from: 0,
            to: 2 * count,
            at_end: true,
            lines: lines(count).collect(),
            is_whole: true,
        };
        let most = (MARKUP.0 / (1 + MARKUP.1)) as u64;
        let mut long = window(100_000);
        fit(&mut long, false);
        assert_eq!((long.lines.len() as u64, long.to, long.at_end), (most, 2 * most, false));
        let mut long = window(100_000);
        fit(&mut long, true);
        assert_eq!(
            (long.lines.len() as u64, long.from, long.to, long.at_end),
            (most, 2 * (100_000 - most), 200_000, true)
        );
        let mut short = window(9);
        fit(&mut short, false);
        assert_eq!((short.lines.len(), short.to, short.at_end), (9, 18, true));
    }

    #[test]
    fn what_fits_is_marked() {
        let found =
            LogMatch { text: "a gr\u{fc}n b".to_owned(), ranges: vec![(2, 6)], ..LogMatch::default() };
        let parts = shown(found).parts;
        assert_eq!(parts, [("a ".to_owned(), "gr\u{fc}n".to_owned()), (" b".to_owned(), String::new())]);
    }
}
