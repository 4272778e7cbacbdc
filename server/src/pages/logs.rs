//! The logs of a job.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_jobs::homes::Home;
use prs_jobs::logs::{LogMatch, LogQuery};
use prs_jobs::records::Log;
use prs_portal::text::plain;
use prs_portal::view::{LogEntry, LogFolder, LogHit, LogLines, LogPage, LogSearch, Tab};

use super::tabs::OnTabs;
use crate::api::logs::{At, WINDOW, all, find, log_query, matches, window};
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::Params;
use crate::problem::Problem;

/// Logs that a page lists.
const MOST: usize = 500;
/// Logs of a job up to which all stand in one list; of more there are folders.
const FEW: usize = 60;
/// Matches of a search on a page.
const MATCHES: usize = 50;
/// What a job says last stands first.
const FIRST: [&str; 2] = ["job_result.txt", "job_error.txt"];

/// `GET /jobs/{job}/logs`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["name", "in", "at", "q", "regex", "case", "path", "cursor"])?;
    let _place = if params.all("q").is_empty() { None } else { Some(app.counts.search(who.id())?) };
    let (home, job) = OnTabs::at_work(&app, &id, &[]).await?;
    let found = all(&home).await?;
    // What explains how the job stands.
    let open = FIRST.into_iter().find(|name| found.iter().any(|log| log.file == *name && log.bytes > 0));
    let open = open.filter(|_| params.all("name").is_empty() && params.all("q").is_empty());
    page(&app, &id, (&home, &job), open.map(str::to_owned), &params).await
}

/// `GET /jobs/{job}/logs/{path}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["name", "in", "at"])?;
    let (home, job) = OnTabs::at_work(&app, &id, &[]).await?;
    page(&app, &id, (&home, &job), Some(path), &params).await
}

async fn page(
    app: &App,
    id: &str,
    (home, job): (&Home, &OnTabs),
    open: Option<String>,
    params: &Params,
) -> Result<Html<String>, Problem> {
    let query = params.one("name")?.unwrap_or_default();
    let grows = !job.seen.result.state.is_final();
    let mut found = all(home).await?;
    found.retain(|log| log.bytes > 0 && log.file.contains(query));
    found.sort_by_key(|log| (!FIRST.contains(&&*log.file), log.file.clone()));
    let folder = match (params.one("in")?, &open) {
        (Some(folder), _) => folder,
        (None, Some(open)) => open.rfind('/').map_or("", |at| &open[..=at]),
        (None, None) => "",
    };
    let folder = if found.len() <= FEW || !query.is_empty() { "" } else { folder }.to_owned();
    let folders =
        if found.len() <= FEW || !query.is_empty() { Vec::new() } else { folders(&mut found, &folder) };
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    let open = match open {
        Some(path) => {
            // Of what still grows the end is new.
            let at = At::parse(params)?.unwrap_or(if grows { At::End } else { At::Byte(0) });
            let log = find(home, &path).await?;
            let window = window(&log, at, WINDOW.1).await?;
            let last = window.total_bytes.saturating_sub(WINDOW.1);
            Some(LogLines {
                path: window.path,
                total: window.total_bytes,
                window: (window.from, window.to),
                is_whole: window.is_whole,
                lines: window.lines.into_iter().map(|line| (line.offset, line.text)).collect(),
                neighbours: (
                    (window.from > 0).then(|| window.from.saturating_sub(WINDOW.1)),
                    (!window.at_end).then_some(window.to),
                ),
                last,
            })
        }
        None => None,
    };
    let search = if params.all("q").is_empty() {
        None
    } else {
        let query = LogQuery { context: 2, limit: MATCHES, ..log_query(params)? };
        let (found, next) = matches(home, id, params, &query).await?;
        let rest = params.without(&["cursor"]);
        Some(LogSearch {
            matches: found.matches.into_iter().map(shown).collect(),
            scanned: found.scanned_bytes,
            total: found.total_bytes,
            files: found.files,
            next: next.map(|next| format!("/jobs/{id}/logs?{rest}&cursor={next}")).unwrap_or_default(),
        })
    };
    let text = |name: &str| params.all(name).first().copied().unwrap_or_default();
    let page = LogPage {
        chrome: &app.chrome,
        tabs: job.tabs(id, Tab::Logs),
        job_id: id,
        title: job.title(),
        folder: &folder,
        folders,
        entries: found.into_iter().map(|log| LogEntry { path: log.file, bytes: log.bytes }).collect(),
        more,
        query,
        wanted: text("q"),
        is_regex: text("regex") == "true",
        within: text("path"),
        search,
        open,
        grows,
    };
    Ok(Html(page.html()))
}

/// The folders in `folder`; of the logs those that lie in it are left.
fn folders(found: &mut Vec<Log>, folder: &str) -> Vec<LogFolder> {
    let mut folders: Vec<LogFolder> = Vec::new();
    found.retain(|log| {
        let Some(below) = log.file.strip_prefix(folder) else { return false };
        let Some((name, _)) = below.split_once('/') else { return true };
        let path = format!("{folder}{name}/");
        let known = folders.iter_mut().rfind(|known| known.path == path);
        match known {
            Some(known) => {
                known.logs += 1;
                known.bytes += log.bytes;
            }
            None => folders.push(LogFolder { path, logs: 1, bytes: log.bytes }),
        }
        false
    });
    // The node 9 stands before the node 10.
    let number =
        |path: &str| path.trim_end_matches('/').rsplit('/').next().and_then(|name| name.parse::<u64>().ok());
    folders.sort_by_cached_key(|each| (number(&each.path), each.path.clone()));
    folders
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

    #[test]
    fn many_logs_stand_in_folders() {
        let log = |file: &str| Log { file: file.to_owned(), bytes: 2 };
        let all = ["job_result.txt", "user/error/10/a.txt", "user/error/9/a.txt", "user/error/9/b.txt"];
        let mut found: Vec<Log> = all.map(log).into();
        let names = |folders: Vec<LogFolder>| {
            folders.into_iter().map(|each| (each.path, each.logs, each.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(names(folders(&mut found, "")), [("user/".to_owned(), 3, 6)]);
        assert_eq!(found.iter().map(|log| &*log.file).collect::<Vec<_>>(), ["job_result.txt"]);
        let mut found: Vec<Log> = all.map(log).into();
        let expected = [("user/error/9/".to_owned(), 2, 4), ("user/error/10/".to_owned(), 1, 2)];
        assert_eq!(names(folders(&mut found, "user/error/")), expected);
        assert!(found.is_empty());
    }

    #[test]
    fn what_fits_is_marked() {
        let found =
            LogMatch { text: "a gr\u{fc}n b".to_owned(), ranges: vec![(2, 6)], ..LogMatch::default() };
        let parts = shown(found).parts;
        assert_eq!(parts, [("a ".to_owned(), "gr\u{fc}n".to_owned()), (" b".to_owned(), String::new())]);
    }
}
