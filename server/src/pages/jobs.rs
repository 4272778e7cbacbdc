//! The list of jobs.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Html;
use prs_common::ledger::JobState;
use prs_portal::chart::SortLink;
use prs_portal::view::{JobRow, JobsPage, StateCount};

use crate::api::change::is_gone;
use crate::api::jobs::{Found, KNOWN, Wanted, snapshot};
use crate::app::App;
use crate::auth::{May, MayRead, Role};
use crate::http::params::Params;
use crate::http::search;
use crate::index::{Snapshot, Summary};
use crate::problem::Problem;

/// The states that stand above the list, and what they are called there.
const STATES: [(&str, &str); 6] = [
    ("", "all"),
    ("active", "active"),
    ("completed", "completed"),
    ("incomplete", "items missing"),
    ("failed", "failed"),
    ("canceled", "canceled"),
];

/// What is recent, microseconds.
const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// `GET /jobs`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[&KNOWN[..], &["part", "removed"]].concat())?;
    let removed = match params.one("removed")? {
        Some(job_id) => removed(&app, job_id).await?,
        None => String::new(),
    };
    // It is said once, and is no part of the list.
    let params = params.and(&["removed"], Vec::new());
    params.one("q")?;
    let (wanted, limit) = (Wanted::parse(&with_words(&params))?, params.limit()?);
    let snapshot = Box::pin(snapshot(&app, &wanted)).await?;
    let found = wanted.page(&snapshot, limit, params.one("cursor")?)?;
    let state = params.one("state").ok().flatten().unwrap_or_default().to_owned();
    let rest = params.without(&["cursor", "part"]);
    let rows = with(&params.without(&["part"]), "part=rows");
    let page = JobsPage {
        chrome: &app.chrome,
        rows: found.jobs.iter().map(|job| row(job)).collect(),
        states: states(&params, &found.counts, &state),
        query: params.one("q")?.unwrap_or_default().to_owned(),
        kept: kept(&params),
        saved: saved(&snapshot, &who.submitter().name),
        url: &app.url,
        total: found.total,
        partial: snapshot.partial,
        removed,
        is_filtered: !params.without(&["cursor", "part", "limit", "sort"]).is_empty(),
        pages: pages(&found, &rest, params.one("cursor")?.is_some()),
        sorts: sorts(&params, params.one("sort")?.unwrap_or("-submitted_at")),
        api: api(&params),
        rows_address: rows,
        at_us: snapshot.made_us,
        may_submit: who.role.allows(Role::Submit),
    };
    Ok(Html(match params.one("part")? {
        None => page.html(),
        Some("rows") => page.rows_html(),
        Some(other) => return Err(crate::http::params::bad("part", format_args!("{other:?} is not rows"))),
    }))
}

/// What became of a job that the reader has just removed.
async fn removed(app: &App, job_id: &str) -> Result<String, Problem> {
    match app.seen(job_id).await {
        Err(problem) if is_gone(&problem) => Ok(format!("{job_id} is removed.")),
        Err(problem) => Err(problem),
        Ok(_) => Ok(format!("{job_id} is being removed; that takes a while.")),
    }
}

/// The addresses of the first page, where this is another, and of the next one.
fn pages(found: &Found, rest: &str, is_behind: bool) -> (String, String) {
    let first = if is_behind { with(rest, "") } else { String::new() };
    let next = found.next.as_ref().map(|next| with(rest, &format!("cursor={next}")));
    (first, next.unwrap_or_default())
}

/// How the list is sorted, and the addresses that sort it otherwise.
fn sorts(params: &Params, sort: &str) -> [SortLink; 3] {
    let rest = params.without(&["sort", "cursor", "part"]);
    ["state", "submitted_at", "seconds"].map(|column| {
        let sorted = match sort.strip_prefix('-') {
            Some(by) if by == column => "descending",
            None if sort == column => "ascending",
            _ => "",
        };
        // What is newest and longest is asked for first.
        let is_first_down = column != "state";
        let down = if sorted.is_empty() { is_first_down } else { sorted == "ascending" };
        let sign = if down { "-" } else { "" };
        SortLink { sorted, link: with(&rest, &format!("sort={sign}{column}")) }
    })
}

/// The parameters with the words of the search among them; what stands in both is as the search has it.
fn with_words(params: &Params) -> Params {
    let found = search::words(params.all("q").first().copied().unwrap_or_default());
    let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).chain(["q".to_owned()]).collect();
    params.and(&names.iter().map(String::as_str).collect::<Vec<_>>(), found)
}

/// What a search keeps of the address: the state and the order that were chosen.
fn kept(params: &Params) -> Vec<(String, String)> {
    let kept = params.without(&["q", "cursor", "part"]);
    url::form_urlencoded::parse(kept.as_bytes()).into_owned().collect()
}

/// Searches that many come for, with how many jobs each finds.
fn saved(snapshot: &Snapshot, name: &str) -> Vec<StateCount> {
    let recent = |job: &Summary| job.submitted_us + DAY_US > snapshot.made_us;
    let of = |name: &str, query: &str, fits: &dyn Fn(&Summary) -> bool| StateCount {
        name: name.to_owned(),
        count: snapshot.jobs.iter().filter(|job| fits(job)).count() as u64,
        link: with(query, ""),
        is_shown: false,
    };
    let is_mine = |job: &Summary| job.submitted_by.as_deref() == Some(name);
    let mine =
        url::form_urlencoded::Serializer::new(String::new()).append_pair("submitted_by", name).finish();
    vec![
        of("mine", &mine, &is_mine),
        of("failed in 24 h", "state=failed&since=24h", &|job| job.state == JobState::Failed && recent(job)),
        of("items missing in 24 h", "state=incomplete&since=24h", &|job| job.is_incomplete() && recent(job)),
    ]
}

/// The address of the same list for programs, which knows no words.
fn api(params: &Params) -> String {
    match with_words(params).without(&["cursor", "part"]).as_str() {
        "" => "/api/v1/jobs".to_owned(),
        query => format!("/api/v1/jobs?{query}"),
    }
}

/// The address of the list with these parameters, and one more.
fn with(rest: &str, more: &str) -> String {
    match [rest, more].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&").as_str() {
        "" => "/jobs".to_owned(),
        query => format!("/jobs?{query}"),
    }
}

/// A row of the list.
pub(super) fn row(job: &Summary) -> JobRow {
    JobRow {
        job_id: job.job_id.clone(),
        title: job.display_name.clone().unwrap_or_else(|| job.name.clone()),
        state: Some(job.state),
        complete: job.complete,
        mini_batches: (job.mini_batches.scheduled, job.mini_batches.succeeded, job.mini_batches.failed),
        per_second: job.per_second,
        eta_seconds: job.eta_seconds,
        submitted_us: job.submitted_us,
        seconds: job.seconds,
        attention: job.attention.as_ref().map(|one| one.text.clone()).unwrap_or_default(),
    }
}

/// How many there are in each state, as links that show them with the other filters.
fn states(params: &Params, counts: &BTreeMap<&'static str, u64>, shown: &str) -> Vec<StateCount> {
    let of = |state: &str| counts.get(state).copied().unwrap_or(0);
    let rest = params.without(&["state", "cursor", "part"]);
    let count = |(state, name): (&str, &str)| StateCount {
        name: name.to_owned(),
        count: match state {
            "" => counts.iter().filter(|(state, _)| **state != "incomplete").map(|(_, count)| count).sum(),
            "active" => ["queued", "scheduling", "running", "finalizing"].into_iter().map(of).sum(),
            state => of(state),
        },
        link: match state {
            "" => with(&rest, ""),
            state => with(&rest, &format!("state={state}")),
        },
        is_shown: state == shown,
    };
    STATES.into_iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_sorts_and_turns_round() {
        let of =
            |query: &str, sort: &str| sorts(&Params::parse(query), sort).map(|one| (one.sorted, one.link));
        let link = |end: &str| format!("/jobs?q=a&sort={end}");
        assert_eq!(
            of("q=a&cursor=x&sort=-submitted_at", "-submitted_at"),
            [("", link("state")), ("descending", link("submitted_at")), ("", link("-seconds"))]
        );
        assert_eq!(of("q=a", "state")[0], ("ascending", link("-state")));
        assert_eq!(api(&Params::parse("q=state:failed+x&cursor=y")), "/api/v1/jobs?state=failed&q=x");
        assert_eq!(api(&Params::default()), "/api/v1/jobs");
        // What is typed counts more than what was chosen before.
        assert_eq!(
            api(&Params::parse("state=active&sort=name&q=state:failed")),
            "/api/v1/jobs?sort=name&state=failed"
        );
        let kept = kept(&Params::parse("state=active&sort=name&q=x&cursor=y"));
        assert_eq!(
            kept,
            [("state", "active"), ("sort", "name")].map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
