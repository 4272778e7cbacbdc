//! The list of jobs.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Html;
use prs_portal::view::{JobRow, JobsPage, SortLink, StateCount};

use crate::api::jobs::{Found, KNOWN, Wanted, snapshot};
use crate::app::App;
use crate::auth::{May, MayRead, Role};
use crate::http::params::Params;
use crate::http::search;
use crate::index::Summary;
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

/// `GET /jobs`.
pub(crate) async fn list(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[&KNOWN[..], &["part"]].concat())?;
    let found = search::words(params.one("q")?.unwrap_or_default());
    let (wanted, limit) = (Wanted::parse(&params.and(&["q"], found))?, params.limit()?);
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
        total: found.total,
        partial: snapshot.partial,
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

/// The address of the same list for programs, which knows no words.
fn api(params: &Params) -> String {
    let found = search::words(params.all("q").first().copied().unwrap_or_default());
    match params.and(&["q"], found).without(&["cursor", "part"]).as_str() {
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

fn row(job: &Summary) -> JobRow {
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
    }
}
