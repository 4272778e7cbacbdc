//! A job: overview with its live parts, settings, cancel, remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event;
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prs_jobs::homes::Seen;
use prs_jobs::{report, show};
use prs_portal::view::{ConfirmPage, Facts, JobPage, LogRows, RemovePage, SettingsPage};
use serde_json::json;

use crate::api::change::{check_removal, may_remove, remove_seen};
use crate::api::jobs::begin_to_cancel;
use crate::api::logs::{find, home};
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal, Role};
use crate::http::conditional;
use crate::http::params::{Params, bad};
use crate::live::{News, Readers, Streams, Tick, Watcher, events};
use crate::metrics::PAGE;
use crate::problem::{Kind, Problem};

/// What a browser calls the overview, percent-encoded: all that one that shows another page needs of it.
const TITLE: &str = "x-prs-title";

/// What the overview of the job says, and the job as it was seen.
async fn facts(app: &App, id: &str) -> Result<(Seen, Facts), Problem> {
    let home = app.home(id).await?;
    let facts = report::facts(&*home, &app.whereabouts, false, Some(("/jobs/", ""))).await;
    let (seen, mut facts) = facts.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    app.watches.code_lines().put(&*home, &seen, &mut facts).await;
    Ok((seen, facts))
}

/// `GET /jobs/{job}`. The tables of pictures stand in it that `table` names.
pub(crate) async fn overview(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["table"])?;
    let tables = params.all("table");
    if let Some(unknown) = tables.iter().find(|id| !JobPage::is_picture(id)) {
        return Err(bad("table", format_args!("{unknown:?} is no picture of a job")));
    }
    let (seen, facts) = facts(&app, &id).await?;
    // One that runs can be canceled, one that has ended removed.
    let may_submit = who.role.allows(Role::Submit);
    let may_change = if facts.state.is_final() { may_remove(&who, &seen) } else { may_submit };
    Ok(conditional::answer_lazily(&headers, &tag_of(&seen, &facts), || {
        let page = JobPage::new(&facts, &app.chrome, may_change, may_submit).with_tables(&tables);
        let title = utf8_percent_encode(&page.title(), NON_ALPHANUMERIC).to_string();
        ([(TITLE, title)], Html(page.html()))
    }))
}

/// The tag of the overview: it changes with what is published of the job, and with its record.
fn tag_of(seen: &Seen, facts: &Facts) -> String {
    let told_us = facts.statistics.live.as_ref().map_or(0, |live| live.written_us);
    let seen_us = seen.record.status.updated_us.max(told_us);
    format!("W/\"{}.{seen_us}.{}\"", seen.record.incarnation, facts.state.as_str())
}

/// `GET /jobs/{job}/part/{part}`.
pub(crate) async fn part(
    _: MayRead,
    State(app): State<App>,
    Path((id, part)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let (_, facts) = facts(&app, &id).await?;
    let html = JobPage::new(&facts, &app.chrome, false, false).part(&part);
    let absent = || Problem::new(Kind::NOT_FOUND, "The page of the job has no such part, or not any more.");
    Ok(Html(html.ok_or_else(absent)?))
}

/// The parts that other pages than the overview have.
const ELSEWHERE: [&str; 2] = ["graph", "groups"];

/// Tells the parts of a page that changed.
#[derive(Default)]
struct Parts {
    told: BTreeMap<&'static str, Arc<str>>,
    /// The parts that the page has; empty for those of the overview.
    wanted: Vec<String>,
}

impl Parts {
    fn has(&self, name: &str) -> bool {
        if self.wanted.is_empty() {
            !ELSEWHERE.contains(&name)
        } else {
            self.wanted.iter().any(|part| part == name)
        }
    }
}

impl Streams for Parts {
    fn events(&mut self, tick: &Tick) -> Vec<Event> {
        let is_new =
            |(name, html): &(&&'static str, &Arc<str>)| self.has(name) && self.told.get(**name) != Some(html);
        let changed: BTreeMap<&str, &str> =
            tick.parts.iter().filter(is_new).map(|(name, html)| (*name, &**html)).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let title = Some(&tick.title).filter(|_| self.wanted.is_empty());
        let data = json!({ "parts": changed, "title": title });
        let event = Event::default().event("parts").data(data.to_string());
        self.told.clone_from(&tick.parts);
        vec![event]
    }
}

/// `GET /jobs/{job}/live`.
pub(crate) async fn live(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["parts", "log", "at"])?;
    if let Some(path) = params.one("log")? {
        return lines(&app, &who, &id, path, params.number("at", (0, u64::MAX))?).await;
    }
    let wanted = params.one("parts")?.map(|parts| parts.split(',').map(str::to_owned).collect());
    let parts = Parts { wanted: wanted.unwrap_or_default(), ..Parts::default() };
    app.seen(&id).await?;
    let permit = app.watches.stream(&who, PAGE)?;
    let watcher = Watcher::new(&app.access.tokens, &who);
    Ok(events(app.watches.follow(&id), parts, watcher, app.stop.clone(), permit))
}

/// Tells what a log says as it grows, as a page shows it.
struct Lines(Readers);

impl Lines {
    fn event(news: &News) -> Event {
        let html = LogRows::new(&news.lines).behind(news.gap.map(|(from, to)| to - from)).html();
        let data = json!({ "html": html, "count": news.lines.len(), "at": news.window.1 });
        Event::default().event("lines").data(data.to_string())
    }
}

impl Streams for Lines {
    fn events(&mut self, _: &Tick) -> Vec<Event> {
        Vec::new()
    }

    async fn more(&mut self) -> Vec<Event> {
        vec![Self::event(&self.0.news().await)]
    }

    async fn last(&mut self) -> Vec<Event> {
        self.0.last().await.iter().map(Self::event).collect()
    }
}

/// The stream of a log.
async fn lines(
    app: &App,
    who: &Principal,
    id: &str,
    path: &str,
    at: Option<u64>,
) -> Result<Response, Problem> {
    let home = home(app, id).await?;
    let file = find(&home, path).await?;
    let reader = app.watches.logs().follow(id, (home.storage(), file.key()), file.name(), at);
    let lines = Lines(Readers::new(vec![reader?]));
    let permit = app.watches.stream(who, PAGE)?;
    let watcher = Watcher::new(&app.access.tokens, who);
    Ok(events(app.watches.follow(id), lines, watcher, app.stop.clone(), permit))
}

/// A path as it stands in an address.
pub(super) fn in_address(path: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS};
    const RESERVED: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'<')
        .add(b'>')
        .add(b'?')
        .add(b'`')
        .add(b'{')
        .add(b'}')
        .add(b'\\')
        .add(b'^')
        .add(b'|')
        .add(b'[')
        .add(b']');
    utf8_percent_encode(path, RESERVED).to_string()
}

/// `GET /jobs/{job}/settings`.
pub(crate) async fn settings(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let absent = |failure| Problem::of(&failure, Kind::REFUSED);
    let home = app.home(&id).await?;
    let (_, facts) = report::facts(&*home, &app.whereabouts, false, None).await.map_err(absent)?;
    let file = show::show(&home.called(), &app.whereabouts).await.map_err(absent)?;
    let yaml = file.without_secrets().text();
    Ok(Html(SettingsPage::new(&app.chrome, &facts, &yaml).html()))
}

/// `GET /jobs/{job}/cancel`.
pub(crate) async fn ask_to_cancel(
    _: MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    app.seen(&id).await?;
    let page = ConfirmPage {
        chrome: &app.chrome,
        title: &format!("Cancel {id}?"),
        says: "What runs is stopped. What is done is kept, and prs resume goes on from there.",
        button: "Cancel the job",
        action: &format!("/jobs/{id}/cancel"),
        back: &format!("/jobs/{id}"),
    };
    Ok(Html(page.html()))
}

/// `POST /jobs/{job}/cancel`.
pub(crate) async fn cancel(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Redirect, Problem> {
    // Who presses twice, or too late, has what they wanted.
    match begin_to_cancel(&app, &id, &who.name, "").await {
        Err(problem) if problem.kind != Kind::JOB_HAS_ENDED => Err(problem),
        _ => Ok(Redirect::to(&format!("/jobs/{id}"))),
    }
}

/// `GET /jobs/{job}/remove`.
pub(crate) async fn ask_to_remove(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let (home, seen) = app.seen(&id).await?;
    Box::pin(check_removal(&app, &who, (&home, &seen), true)).await?;
    Ok(Html(removal(&app, &id, "").html()))
}

/// The question before a job is removed; `wrong` says what was not right with the answer.
fn removal<'a>(app: &'a App, id: &'a str, wrong: &'a str) -> RemovePage<'a> {
    RemovePage { chrome: &app.chrome, job_id: id, wrong }
}

/// What the form about a removal says.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Removal {
    /// The id of the job, typed once more.
    #[serde(default)]
    name: String,
    /// Whether its output stays: `keep` or `remove`.
    #[serde(default)]
    output: String,
}

/// `POST /jobs/{job}/remove`.
pub(crate) async fn remove(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(id): Path<String>,
    Form(form): Form<Removal>,
) -> Result<Response, Problem> {
    let (home, seen) = app.seen(&id).await?;
    if form.name.trim() != id {
        let page = removal(&app, &id, "What was typed is not the id of the job.").html();
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page)).into_response());
    }
    let keeps_output = form.output != "remove";
    Box::pin(check_removal(&app, &who, (&home, &seen), keeps_output)).await?;
    Box::pin(remove_seen(&app, home, keeps_output)).await?;
    Ok(Redirect::to("/jobs").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stand_in_addresses() {
        assert_eq!(in_address("a b/c#d?e%.txt"), "a%20b/c%23d%3Fe%25.txt");
        assert_eq!(in_address("grün.csv"), "gr%C3%BCn.csv");
    }
}
