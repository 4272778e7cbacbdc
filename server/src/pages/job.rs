//! A job: overview with its live parts, settings, cancel, remove.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::sse::Event;
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prs_common::statistics::{Live, NAMES, Part};
use prs_jobs::homes::Seen;
use prs_jobs::{report, show};
use prs_portal::text::count;
use prs_portal::view::{
    Chrome, ConfirmPage, Facts, JobPage, JobRow, LaneOrder, LogRows, RemovePage, SettingsPage,
    parts_of_picture,
};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::jobs::row;
use super::logs::FOLLOWED;
use super::mini_batches::OneLive;
use super::tabs::ON_TABS;
use crate::api::change::{check_removal, is_gone, may_remove, remove_seen};
use crate::api::job_object::is_canceling;
use crate::api::jobs::begin_to_cancel;
use crate::api::logs::{find, home};
use crate::api::mini_batches::number;
use crate::app::App;
use crate::auth::{May, MayRead, MaySubmit, Principal, Role};
use crate::http::conditional;
use crate::http::params::{Params, bad};
use crate::live::{News, Readers, Streams, Tick, Watcher, events};
use crate::metrics::PAGE;
use crate::problem::{Kind, Problem};

/// The word of an address for what the reader has just done: the page may be of a moment before.
const CANCEL: &str = "cancel";
/// What a browser calls the overview, percent-encoded: all that one that shows another page needs of it.
const TITLE: &str = "x-prs-title";
/// The address of the picture in its tab.
const ICON: &str = "x-prs-icon";

/// What the overview of the job says, and the job as it was seen.
async fn facts(app: &App, id: &str) -> Result<(Seen, Facts), Problem> {
    let home = app.home(id).await?;
    let facts = report::facts(&*home, &app.whereabouts, &NAMES, false, Some(("/jobs/", ""))).await;
    let (seen, mut facts) = facts.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    app.watches.code_lines().put(&*home, &seen, &mut facts).await;
    Ok((seen, facts))
}

/// What its title and its tag are made of.
async fn title_facts(app: &App, id: &str) -> Result<(Seen, Facts), Problem> {
    let home = app.home(id).await?;
    let found = report::facts_of_parts(&*home, &[Live::NAME]).await;
    found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))
}

/// `GET /jobs/{job}`. The tables of pictures stand in it that `table` names.
pub(crate) async fn overview(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["table", "activity", "told"])?;
    let tables = params.all("table");
    if let Some(unknown) = tables.iter().find(|id| !JobPage::is_picture(id)) {
        return Err(bad("table", format_args!("{unknown:?} is no picture of a job")));
    }
    let lanes = params.one("activity")?.map(|word| {
        LaneOrder::of(word)
            .ok_or_else(|| bad("activity", format_args!("{word:?} is none of slowest, failures")))
    });
    let lanes = lanes.transpose()?;
    let told = params.one("told")?;
    if let Some(unknown) = told.filter(|told| *told != CANCEL) {
        return Err(bad("told", format_args!("{unknown:?} is not {CANCEL}")));
    }
    // Who shows another page asks for no more than the title.
    let (seen, facts) =
        if method == Method::HEAD { title_facts(&app, &id).await? } else { facts(&app, &id).await? };
    // One that runs can be canceled, one that has ended removed.
    let is_canceling = is_canceling(&seen) || told.is_some() && !facts.state.is_final();
    let may_submit = who.role.allows(Role::Submit);
    let may_change =
        if facts.state.is_final() { may_remove(&who, &seen) } else { may_submit && !is_canceling };
    Ok(conditional::answer_lazily(&headers, &tag_of(&seen, &facts), || {
        let page = JobPage::new(&facts, &app.chrome, may_change, may_submit)
            .canceling(is_canceling)
            .with_lanes(&facts, lanes)
            .with_tables(&tables);
        let title = utf8_percent_encode(&page.title(), NON_ALPHANUMERIC).to_string();
        ([(TITLE, title), (ICON, page.icon().to_owned())], Html(page.html()))
    }))
}

/// The tag of the overview: it changes with what is published of the job, and with its record.
fn tag_of(seen: &Seen, facts: &Facts) -> String {
    let told_us = facts.statistics.live.as_ref().map(|live| live.written_us);
    let seen_us = told_us.unwrap_or(seen.record.status.updated_us);
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
    // A table needs the parts of its picture alone.
    let facts = match part.strip_prefix("table-").and_then(parts_of_picture) {
        Some(names) => {
            let home = app.home(&id).await?;
            let found = report::facts_of_parts(&*home, names).await;
            found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?.1
        }
        None => facts(&app, &id).await?.1,
    };
    let html = JobPage::new(&facts, &app.chrome, false, false).part(&part);
    let absent = || Problem::new(Kind::NOT_FOUND, "The page of the job has no such part, or not any more.");
    Ok(Html(html.ok_or_else(absent)?))
}

/// The parts that other pages than the overview have.
const ELSEWHERE: [&str; 3] = ["graph", "groups", "node-list"];

/// Bytes of parts that a watcher is sent with a look, over time. A picture of a large job may have more: looks after it have less then.
const MOST_OF_LOOK: usize = 15 << 10;
/// Parts that are sent with each look: numbers and sentences.
const AT_ONCE: [&str; 5] = ["head", "now", "attention", "tab-errors", "tab-nodes"];

/// Tells the parts of a page that changed: no more with a look than a line takes easily, those that have waited longest first.
#[derive(Default)]
struct Parts {
    /// What was told of each part, and with which look.
    told: BTreeMap<&'static str, (Arc<str>, u64)>,
    /// The parts that the page has; empty for those of the overview.
    wanted: Vec<String>,
    /// Bytes that were sent ahead of time.
    ahead: usize,
    chrome: Chrome,
}

impl Parts {
    fn has(&self, name: &str) -> bool {
        if self.wanted.is_empty() {
            !ELSEWHERE.contains(&name)
        } else {
            self.wanted.iter().any(|part| part == name)
        }
    }

    /// The parts to send with this look.
    fn due<'a>(&mut self, tick: &'a Tick) -> BTreeMap<&'static str, &'a Arc<str>> {
        let known = |name: &str| self.told.get(name);
        let mut changed: Vec<(&'static str, &Arc<str>)> = tick
            .parts
            .iter()
            .map(|(name, html)| (*name, html))
            .filter(|(name, html)| self.has(name) && known(name).is_none_or(|(told, _)| told != *html))
            .collect();
        let waited = |name: &str| (!AT_ONCE.contains(&name), known(name).map_or(0, |(_, look)| *look));
        changed.sort_by_key(|(name, _)| waited(name));
        let mut room = MOST_OF_LOOK.saturating_sub(self.ahead);
        let has_all_room = self.ahead == 0;
        let mut due = BTreeMap::new();
        let mut sent = 0;
        for (name, html) in changed {
            // As it stands in an event.
            let bytes = html.len() + html.matches('"').count();
            // The first that fits nowhere goes when nothing was sent ahead of time.
            let is_large =
                bytes > MOST_OF_LOOK && has_all_room && due.keys().all(|name| AT_ONCE.contains(name));
            if AT_ONCE.contains(&name) || bytes <= room || is_large {
                due.insert(name, html);
                sent += bytes;
                room = room.saturating_sub(bytes);
            }
        }
        self.ahead = (self.ahead + sent).saturating_sub(MOST_OF_LOOK);
        due
    }
}

impl Streams for Parts {
    fn events(&mut self, tick: &Tick) -> Vec<Event> {
        let due = self.due(tick);
        if due.is_empty() {
            return Vec::new();
        }
        for (name, html) in &due {
            self.told.insert(*name, (Arc::clone(html), tick.number));
        }
        let due: BTreeMap<&str, &str> = due.into_iter().map(|(name, html)| (name, &**html)).collect();
        let mut data = json!({ "parts": due });
        if let Some(seen) = tick.seen.as_ref().filter(|_| self.wanted.is_empty()) {
            data["title"] = json!(tick.title);
            data["icon"] = json!(self.chrome.icon_of(seen.result.state, seen.result.findings.complete));
        }
        vec![Event::default().event("parts").data(data.to_string())]
    }
}

/// Tells who looks at a list how many mini-batches got their outcome since it was made.
struct Newer {
    from: u64,
    told: u64,
    again_at: u64,
}

impl Newer {
    fn new(from: u64) -> Self {
        Self { from, told: from, again_at: 0 }
    }
}

impl Streams for Newer {
    fn events(&mut self, tick: &Tick) -> Vec<Event> {
        let ended = tick.statistics.live.as_ref().map_or(0, Live::ended);
        if ended <= self.told || tick.number < self.again_at {
            return Vec::new();
        }
        (self.told, self.again_at) = (ended, tick.number + NEWER_EVERY);
        let newer = count(ended - self.from);
        let html = format!("<a class=\"button\" href=\"\">{newer} newer outcomes</a>");
        vec![Event::default().event("parts").data(json!({ "parts": { "newer": html } }).to_string())]
    }
}

/// Looks between two counts of what is newer than a list.
const NEWER_EVERY: u64 = 5;

/// `GET /jobs/{job}/live`.
pub(crate) async fn live(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["parts", "log", "at", "mini-batch", "newer"])?;
    let logs = params.all("log");
    if !logs.is_empty() {
        return lines(&app, &who, &id, &logs, params.one("at")?.unwrap_or_default()).await;
    }
    if let Some(index) = params.one("mini-batch")? {
        let one = OneLive::new(&app, &id, number(index)?);
        return stream(&app, &who, &id, one).await;
    }
    if let Some(from) = params.number("newer", (0, u64::MAX))? {
        return stream(&app, &who, &id, Newer::new(from)).await;
    }
    let wanted = params.one("parts")?.map(|parts| parts.split(',').map(str::to_owned).collect());
    let chrome = app.chrome.clone();
    let parts = Parts { wanted: wanted.unwrap_or_default(), chrome, ..Parts::default() };
    stream(&app, &who, &id, parts).await
}

/// The stream of a page of a job, which `told` tells what is new.
async fn stream(app: &App, who: &Principal, id: &str, told: impl Streams) -> Result<Response, Problem> {
    app.seen(id).await?;
    let permit = app.watches.stream(who, PAGE)?;
    let watcher = Watcher::new(&app.access.tokens, who);
    Ok(events(app.watches.follow(id), told, watcher, app.stop.clone(), permit))
}

/// Lines that a page keeps of the logs that it follows.
const MOST_LINES: usize = 2_000;
/// Between two times that several logs are told of.
const JOINED: Duration = Duration::from_secs(1);

/// Tells what logs say as they grow, as a page shows it: several together each second.
struct Lines {
    readers: Readers,
    /// The address of the code of the job.
    code: String,
    /// How many logs are followed.
    count: usize,
    /// What was heard since the page was told last, and when it is told.
    heard: Vec<News>,
    due: Instant,
}

impl Lines {
    /// The news as one event, with where each log was read up to.
    fn event(&self, news: &[News]) -> Event {
        let (mut html, mut count) = (String::new(), 0);
        for one in news {
            let left_out = one.lines.len().saturating_sub(MOST_LINES / self.count);
            let lines = &one.lines[left_out..];
            let gap = one.gap.map(|(from, to)| to - from);
            let cut = lines.first().filter(|_| left_out > 0).map(|(at, _)| at - one.window.0);
            let gap = gap.into_iter().chain(cut).reduce(|one, other| one + other);
            let rows = LogRows::new(lines, &self.code).behind(gap);
            html += &if self.count > 1 { rows.among_others(&one.path) } else { rows }.html();
            count += lines.len();
        }
        let places = self.readers.places().map(|at| at.map(|at| at.to_string()).unwrap_or_default());
        let data = json!({ "html": html, "count": count, "at": places.collect::<Vec<_>>().join("-") });
        Event::default().event("lines").data(data.to_string())
    }
}

impl Streams for Lines {
    fn events(&mut self, _: &Tick) -> Vec<Event> {
        Vec::new()
    }

    async fn more(&mut self) -> Vec<Event> {
        if self.heard.is_empty() {
            let news = self.readers.news().await;
            self.heard.push(news);
            self.due = Instant::now() + JOINED;
        }
        while self.count > 1 {
            let Ok(news) = timeout_at(self.due, self.readers.news()).await else { break };
            self.heard.push(news);
        }
        let heard = std::mem::take(&mut self.heard);
        vec![self.event(&heard)]
    }

    async fn last(&mut self) -> Vec<Event> {
        let mut heard = std::mem::take(&mut self.heard);
        heard.extend(self.readers.last().await);
        if heard.is_empty() { Vec::new() } else { vec![self.event(&heard)] }
    }
}

/// The stream of logs, each from a place on: `at` has these with `-` between them, in the order of the logs; where one is empty, or all are,
/// its last lines come first.
async fn lines(app: &App, who: &Principal, id: &str, paths: &[&str], at: &str) -> Result<Response, Problem> {
    if paths.len() > FOLLOWED {
        return Err(bad("log", format_args!("{FOLLOWED} are followed at once, at most")));
    }
    let places: Vec<&str> = if at.is_empty() { Vec::new() } else { at.split('-').collect() };
    if !places.is_empty() && places.len() != paths.len() {
        return Err(bad("at", format_args!("{at:?} has not a place for each log")));
    }
    let home = home(app, id).await?;
    let mut readers = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let place = places.get(number).filter(|place| !place.is_empty());
        let place = place.map(|place| place.parse::<u64>());
        let place = place
            .transpose()
            .map_err(|_| bad("at", format_args!("{at:?} is not where logs were read to")))?;
        let file = find(&home, path).await?;
        readers.push(app.watches.logs().follow(id, (home.storage(), file.key()), file.name(), place)?);
    }
    let lines = Lines {
        readers: Readers::new(readers),
        code: format!("/jobs/{id}/code"),
        count: paths.len(),
        heard: Vec::new(),
        due: Instant::now(),
    };
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

/// Jobs of the same name before a job, and after it, that its settings stand beside.
const BESIDE: usize = 5;

/// The jobs of the same name that came before the job and after it, and itself among them, the newest first.
async fn of_its_name(app: &App, facts: &Facts) -> Result<Vec<JobRow>, Problem> {
    let snapshot = app.index.snapshot().await.map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let all: Vec<_> = snapshot.jobs.iter().filter(|job| job.name == facts.spec.name).collect();
    let Some(own) = all.iter().position(|job| job.job_id == facts.job_id) else { return Ok(Vec::new()) };
    let around = own.saturating_sub(BESIDE)..(own + BESIDE + 1).min(all.len());
    Ok(all[around].iter().map(|job| row(job)).collect())
}

/// `GET /jobs/{job}/settings`.
pub(crate) async fn settings(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let absent = |failure| Problem::of(&failure, Kind::REFUSED);
    let home = app.home(&id).await?;
    let found = report::facts(&*home, &app.whereabouts, &ON_TABS, false, None).await;
    let (seen, facts) = found.map_err(absent)?;
    let file = show::show(&home.called(), &app.whereabouts).await.map_err(absent)?;
    let yaml = file.without_secrets().text();
    let jobs = of_its_name(&app, &facts).await?;
    let parent = seen.record.parent.as_ref().map(|parent| &*parent.job_id);
    let may_submit = who.role.allows(Role::Submit);
    Ok(Html(SettingsPage::new(&app.chrome, &facts, &yaml, (parent, jobs), may_submit).html()))
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
        _ => Ok(Redirect::to(&format!("/jobs/{id}?told={CANCEL}"))),
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
    // Who presses twice has what they wanted.
    let told = || Redirect::to(&format!("/jobs?removed={id}")).into_response();
    let (home, seen) = match app.seen(&id).await {
        Err(problem) if is_gone(&problem) && form.name.trim() == id => return Ok(told()),
        found => found?,
    };
    if form.name.trim() != id {
        let page = removal(&app, &id, "What was typed is not the id of the job.").html();
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page)).into_response());
    }
    let keeps_output = form.output != "remove";
    Box::pin(check_removal(&app, &who, (&home, &seen), keeps_output)).await?;
    match Box::pin(remove_seen(&app, home, keeps_output)).await {
        Err(problem) if !is_gone(&problem) => Err(problem),
        _ => Ok(told()),
    }
}

#[cfg(test)]
mod tests {
    use prs_portal::view::Published;

    use super::*;

    fn tick(number: u64, parts: &[(&'static str, usize)]) -> Tick {
        let part = |(name, bytes): &(&'static str, usize)| (*name, format!("{number:0bytes$}").into());
        Tick { number, parts: parts.iter().map(part).collect(), ..Tick::default() }
    }

    #[test]
    fn a_look_sends_no_more_than_a_line_takes_and_leaves_nothing_out() {
        const KB: usize = 1 << 10;
        let parts =
            [("head", 2 * KB), ("activity", 29 * KB), ("rate", 6 * KB), ("shares", 9 * KB), ("plan", 5 * KB)];
        let mut told = Parts::default();
        let (mut sent, mut times) = (0, BTreeMap::<&str, u32>::new());
        for number in 1..=30 {
            let tick = tick(number, &parts);
            let due: Vec<_> = told.due(&tick).into_keys().collect();
            assert!(due.contains(&"head"), "numbers are always new: {due:?}");
            for name in due {
                told.told.insert(name, (Arc::clone(&tick.parts[name]), number));
                sent += tick.parts[name].len();
                *times.entry(name).or_default() += 1;
            }
        }
        assert!(sent <= 30 * MOST_OF_LOOK + 31 * KB, "{sent}");
        assert!(parts.iter().all(|(name, _)| times[name] >= 5), "{times:?}");
        // Of what does not change nothing is sent.
        let still = Tick { number: 31, ..tick(30, &parts) };
        assert!((0..9).map(|_| told.events(&still).len()).sum::<usize>() <= 6);
        assert_eq!(told.events(&still).len(), 0);
    }

    #[test]
    fn a_list_hears_how_much_is_newer_now_and_then() {
        let mut newer = Newer::new(4);
        let mut of = |number, succeeded| {
            let live = Some(Live { succeeded, ..Live::default() });
            let statistics = Arc::new(Published { live, ..Published::default() });
            newer.events(&Tick { number, statistics, ..Tick::default() }).len()
        };
        assert_eq!([of(1, 4), of(2, 5), of(3, 9), of(7, 9), of(12, 9)], [0, 1, 0, 1, 0]);
    }

    #[test]
    fn names_of_files_stand_in_addresses() {
        assert_eq!(in_address("a b/c#d?e%.txt"), "a%20b/c%23d%3Fe%25.txt");
        assert_eq!(in_address("grün.csv"), "gr%C3%BCn.csv");
    }
}
