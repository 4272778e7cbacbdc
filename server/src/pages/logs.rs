//! The logs of a job.

use axum::extract::{Path, State};
use axum::response::Html;
use prs_jobs::homes::Home;
use prs_jobs::logs::{LogMatch, LogQuery};
use prs_portal::view::{LogEntry, LogHit, LogLines, LogPage, LogSearch, Tab};

use crate::api::logs::{At, WINDOW, all, find, home, log_query, matches, window};
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// Logs that a page lists.
const MOST: usize = 500;
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
    params.check(&["name", "at", "q", "regex", "case", "path", "cursor"])?;
    let _place = if params.all("q").is_empty() { None } else { Some(app.counts.search(who.id())?) };
    let home = home(&app, &id).await?;
    let found = all(&home).await?;
    // What explains how the job stands.
    let open = FIRST.into_iter().find(|name| found.iter().any(|log| log.file == *name && log.bytes > 0));
    let open = open.filter(|_| params.all("name").is_empty() && params.all("q").is_empty());
    page(&app, &id, &home, open.map(str::to_owned), &params).await
}

/// `GET /jobs/{job}/logs/{path}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, path)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["name", "at"])?;
    let home = home(&app, &id).await?;
    page(&app, &id, &home, Some(path), &params).await
}

async fn page(
    app: &App,
    id: &str,
    home: &Home,
    open: Option<String>,
    params: &Params,
) -> Result<Html<String>, Problem> {
    let seen = home.look().await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    let query = params.one("name")?.unwrap_or_default();
    let grows = !seen.result.state.is_final();
    let mut found = all(home).await?;
    found.retain(|log| log.bytes > 0 && log.file.contains(query));
    found.sort_by_key(|log| (!FIRST.contains(&&*log.file), log.file.clone()));
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
    let spec = &seen.record.spec;
    let page = LogPage {
        chrome: &app.chrome,
        tab: Tab::Logs,
        job_id: id,
        title: spec.display_name.as_deref().unwrap_or(&spec.name),
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

/// A match as the page shows it: the line cut into what fits and what does not.
fn shown(found: LogMatch) -> LogHit {
    let letters: Vec<char> = found.text.chars().collect();
    let part = |from: usize, to: usize| {
        letters[from.min(letters.len())..to.min(letters.len())].iter().collect::<String>()
    };
    let (mut parts, mut at) = (Vec::new(), 0);
    for (from, to) in found.ranges {
        parts.push((part(at, from.max(at)), part(from.max(at), to.max(at))));
        at = to.max(at);
    }
    parts.push((part(at, letters.len()), String::new()));
    LogHit { path: found.path, offset: found.offset, parts, before: found.before, after: found.after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_marked() {
        let found =
            LogMatch { text: "a gr\u{fc}n b".to_owned(), ranges: vec![(2, 6)], ..LogMatch::default() };
        let parts = shown(found).parts;
        assert_eq!(parts, [("a ".to_owned(), "gr\u{fc}n".to_owned()), (" b".to_owned(), String::new())]);
    }
}
