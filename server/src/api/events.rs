//! What happens to a job, as it happens: `status` with the job as it is now, first at once and then when it changed; `statistics` with what is
//! published of its tries; `error`, `mini_batch_failed` and `node` with what came since the stream began; `log` with what its logs say, as they
//! grow; `stale` and `fresh` where it cannot be seen and can be seen again; `end` with the job after the last.

use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use prs_jobs::homes::Home;
use prs_jobs::logs::{self, LogFile};
use prs_jobs::statistics;
use prs_portal::view::Published;
use serde::Serialize;
use serde_json::{Value, json};

use super::job_object::JobObject;
use super::list_events::events_of_jobs;
use super::logs::{choice, find, home};
use super::statistics::{told, wanted_parts};
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::{Params, bad};
use crate::live::{News, Readers, Streams, Tick, Watcher, events};
use crate::metrics::API;
use crate::problem::{Kind, Problem};

/// What a stream tells of a job where nothing else is asked for; how it ends it always tells.
pub(super) const TYPES: [&str; 7] =
    ["status", "statistics", "error", "mini_batch_failed", "node", "log", "end"];
/// Between two events with statistics.
const STATISTICS: Duration = Duration::from_secs(2);
/// What tells of lists.
const OTHERS: [&str; 3] = ["error", "mini_batch_failed", "node"];
/// Logs that are named one by one, and those that kind and node choose, at most.
const MOST_NAMED: usize = 8;
const MOST_CHOSEN: usize = 32;

/// Tells the job where it changed, and what its logs say.
struct Told {
    /// The job as it was told last; nothing before the first time.
    status: Option<Value>,
    has_status: bool,
    statistics: Option<ToldStatistics>,
    /// Which of the others are told.
    others: Vec<&'static str>,
    news: statistics::News,
    logs: Readers,
    /// Which start of the job, and which look at it.
    seen: (u64, u64),
}

/// The statistics that are told.
struct ToldStatistics {
    /// The parts of them.
    parts: Vec<String>,
    /// When those were written that were told last, microseconds since the Unix epoch, and when that was.
    last: Option<(u64, Instant)>,
}

impl ToldStatistics {
    /// What is new; the last of it whenever that comes.
    fn event(&mut self, of: &Published, is_last: bool) -> Option<Event> {
        let written_us = of.live.as_ref()?.written_us;
        let is_due =
            |(last_us, at): (u64, Instant)| last_us != written_us && (is_last || at.elapsed() >= STATISTICS);
        if !self.last.is_none_or(is_due) {
            return None;
        }
        self.last = Some((written_us, Instant::now()));
        Some(event("statistics", &told(of, &self.parts)?))
    }
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event(name).data(data)
}

impl Told {
    /// What came since the last look.
    fn others(&mut self, of: &Published) -> Vec<Event> {
        let (mut events, has) = (Vec::new(), |name: &str| self.others.contains(&name));
        if has("error") {
            events.extend(self.news.errors(of).iter().map(|error| event("error", error)));
        }
        if has("mini_batch_failed") {
            events.extend(self.news.failed(of).iter().map(|failed| event("mini_batch_failed", failed)));
        }
        if has("node") {
            events.extend(self.news.nodes(of).iter().map(|node| event("node", node)));
        }
        events
    }

    /// What a client that comes again names: up to where it has everything.
    fn id(&self) -> String {
        let place = |(number, at): (usize, Option<u64>)| Some(format!(";{number}:{}", at?));
        let places: String = self.logs.places().enumerate().filter_map(place).collect();
        format!("{}.{}{places}", self.seen.0, self.seen.1)
    }

    fn of_log(&self, news: News) -> Vec<Event> {
        let News { path, gap, window: (from, to), lines } = news;
        let gap = gap.map(|(from, to)| {
            Event::default().event("gap").data(json!({ "path": path, "from": from, "to": to }).to_string())
        });
        let lines: Vec<Value> =
            lines.into_iter().map(|(offset, text)| json!({ "offset": offset, "text": text })).collect();
        let data = json!({ "path": path, "from": from, "to": to, "lines": lines });
        let lines = Event::default().event("log").id(self.id()).data(data.to_string());
        gap.into_iter().chain([lines]).collect()
    }
}

impl Streams for Told {
    fn events(&mut self, tick: &Tick) -> Vec<Event> {
        let Some(seen) = tick.seen.as_deref() else { return Vec::new() };
        let object = JobObject::with(seen, tick.statistics.live.as_ref());
        let now = object.lasting();
        self.seen = (seen.record.incarnation.into(), tick.number);
        let mut events = Vec::new();
        if self.has_status && self.status.as_ref() != Some(&now) {
            events.push(event("status", &object.whole()).id(self.id()));
            self.status = Some(now);
        }
        events.extend(self.statistics.as_mut().and_then(|told| told.event(&tick.statistics, tick.is_last)));
        events.extend(self.others(&tick.statistics));
        events
    }

    fn end(&self, tick: &Tick) -> String {
        let seen = tick.seen.as_deref();
        let object = seen.map(|seen| JobObject::with(seen, tick.statistics.live.as_ref()).whole());
        object.map_or_else(|| "{}".to_owned(), |object| object.to_string())
    }

    async fn more(&mut self) -> Vec<Event> {
        let news = self.logs.news().await;
        self.of_log(news)
    }

    async fn last(&mut self) -> Vec<Event> {
        let news = self.logs.last().await;
        news.into_iter().flat_map(|news| self.of_log(news)).collect()
    }
}

/// `GET /events`.
pub(crate) async fn of_jobs(
    May(who): MayRead,
    State(app): State<App>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["types"])?;
    if let Some(other) = params.one("types")?.filter(|types| *types != "job") {
        return Err(bad("types", format_args!("{other:?} is not job; a job has events of its own")));
    }
    let permit = app.watches.stream(&who, API)?;
    let watcher = Watcher::new(&app.access.tokens, &who);
    Ok(events_of_jobs(app, watcher, permit))
}

/// `GET /jobs/{job}/events`.
pub(crate) async fn of_job(
    May(who): MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&["types", "parts", "path", "kind", "node", "process", "prefix"])?;
    let types: Vec<&str> = params.one("types")?.map_or(vec!["status"], |types| types.split(',').collect());
    if let Some(other) = types.iter().find(|word| !TYPES.contains(word)) {
        return Err(bad("types", format_args!("{other:?} is none of {}", TYPES.join(", "))));
    }
    let has = |name: &&str| types.contains(name);
    if !has(&"statistics") && !params.all("parts").is_empty() {
        return Err(bad("parts", "it chooses parts of the statistics: add statistics to types"));
    }
    let parts = wanted_parts(&params)?;
    app.seen(&id).await?;
    let logs = if types.contains(&"log") {
        followed(&app, &id, &params, places_of(&headers)).await?
    } else if let Some(name) =
        ["path", "kind", "node", "process", "prefix"].into_iter().find(|name| !params.all(name).is_empty())
    {
        return Err(bad(name, "it chooses logs: add log to types"));
    } else {
        Readers::default()
    };
    let permit = app.watches.stream(&who, API)?;
    let watcher = Watcher::new(&app.access.tokens, &who);
    let told = Told {
        status: None,
        has_status: has(&"status"),
        statistics: has(&"statistics").then_some(ToldStatistics { parts, last: None }),
        others: OTHERS.into_iter().filter(has).collect(),
        news: statistics::News::default(),
        logs,
        seen: (0, 0),
    };
    Ok(events(app.watches.follow(&id), told, watcher, app.stop.clone(), permit))
}

/// The logs that a request names, or chooses by kind and node, each from where its client had it.
async fn followed(
    app: &App,
    id: &str,
    params: &Params,
    places: Vec<(usize, u64)>,
) -> Result<Readers, Problem> {
    let home = home(app, id).await?;
    let named = params.all("path");
    if named.len() > MOST_NAMED {
        return Err(bad("path", format_args!("{MOST_NAMED} logs are the most")));
    }
    let mut found = Vec::new();
    if named.is_empty() {
        for file in chosen(&home, params).await? {
            found.push((file.key().to_owned(), file.name().to_owned()));
        }
    }
    for path in named {
        let file = find(&home, path).await?;
        found.push((file.key().to_owned(), file.name().to_owned()));
    }
    let mut readers = Vec::new();
    for (number, (key, name)) in found.iter().enumerate() {
        let at = places.iter().find(|(known, _)| *known == number).map(|(_, at)| *at);
        readers.push(app.watches.logs().follow(id, (home.storage(), key), name, at)?);
    }
    Ok(Readers::new(readers))
}

/// The logs of a kind and a node.
async fn chosen<'a>(home: &'a Home, params: &Params) -> Result<Vec<LogFile<'a>>, Problem> {
    let wanted = choice(params)?;
    if wanted.kinds.is_empty() || wanted.nodes.is_empty() {
        return Err(bad("types", "log needs path, or kind and node: it follows logs, and they say which"));
    }
    let found = logs::all(&**home, &wanted).await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
    if found.len() > MOST_CHOSEN {
        let why = format_args!(
            "{} logs are of this kind and node, and {MOST_CHOSEN} the most: name some as path",
            found.len()
        );
        return Err(bad("kind", why));
    }
    Ok(found.iter().map(|log| LogFile::of(&**home, log)).collect())
}

/// Up to where a client that comes again has each log: `<start>.<look>;<number>:<bytes>;...`.
fn places_of(headers: &HeaderMap) -> Vec<(usize, u64)> {
    let id = headers.get("last-event-id").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let place = |part: &str| {
        let (number, at) = part.split_once(':')?;
        Some((number.parse().ok()?, at.parse().ok()?))
    };
    id.split(';').skip(1).filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_again_says_up_to_where_it_has_each_log() {
        let of = |id: &str| {
            places_of(&HeaderMap::from_iter([("last-event-id".parse().unwrap(), id.parse().unwrap())]))
        };
        for (id, expected) in [
            ("1.7", &[][..]),
            ("1.7;0:81;1:0", &[(0, 81), (1, 0)]),
            ("1.7;1:5", &[(1, 5)]),
            ("1.7;0:x;y", &[]),
            ("", &[]),
        ] {
            assert_eq!(of(id), expected, "{id}");
        }
        assert!(places_of(&HeaderMap::new()).is_empty());
    }
}
