//! The mini-batches of a job, and one of them with what it printed.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Html;
use axum::response::sse::Event;
use futures_util::future::{BoxFuture, join_all};
use prs_common::statistics::Live;
use prs_jobs::homes::Home;
use prs_jobs::mini_batches::{
    FoundTry, OneMiniBatch, Order, Range, State as Of, Told, TryPage, Wanted, known, list as list_tries,
    narrowed, open_ranges,
};
use prs_jobs::statistics::{LogPlace, RunningMiniBatch};
use prs_portal::chart::{SortLink, Table};
use prs_portal::view::{
    Choice, MiniBatchPage, MiniBatchesPage, PrintedText, RunFact, Tab, TryFact, TryLine, running_table,
    slow_table, waiting_table,
};

use tokio::time::Instant;

use super::tabs::{OnTabs, of_steps};
use crate::api::errors::line;
use crate::api::mini_batches::{FILTERS, absent, begins, listed, number, settle, wanted};
use crate::app::App;
use crate::auth::MayRead;
use crate::http::cursor;
use crate::http::params::{Params, bad};
use crate::live::{Streams, Tick};
use crate::problem::{Kind, Problem};

/// Mini-batches of a page.
const ROWS: usize = 50;
/// Bytes of what a try printed that are shown of each stream.
const PRINTED: u64 = 64 << 10;
/// Tries whose printed text is shown.
const MOST_PRINTED: usize = 8;
/// The streams of a process.
const STDOUT: &str = "Standard output";
const STDERR: &str = "Standard error";
/// Between two reads of one that has no outcome.
const AGAIN: Duration = Duration::from_secs(5);
/// What a list is of.
const STATES: &[Choice] = &[
    ("failed", "failed"),
    ("retried", "succeeded after a failure"),
    ("short", "succeeded, items missing"),
    ("succeeded", "succeeded"),
    ("all", "all with an outcome"),
    ("tries", "every try"),
    ("running", "running, the longest"),
    ("slow", "slowest tries"),
    ("waiting", "without an outcome"),
];
const ORDERS: &[Choice] = &[
    ("index", "input"),
    ("-seconds", "longest first"),
    ("started_at", "oldest first"),
    ("-started_at", "newest first"),
];

fn refused(failure: &prs_jobs::Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

/// `GET /jobs/{job}/mini-batches`.
pub(crate) async fn list(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[&FILTERS[..], &["state", "cursor"]].concat())?;
    let state = params.one("state")?.unwrap_or("failed");
    if !STATES.iter().any(|(word, _)| *word == state) {
        let known: Vec<_> = STATES.iter().map(|(word, _)| *word).collect();
        return Err(bad("state", format_args!("{state:?} is none of {}", known.join(", "))));
    }
    let mut wanted = wanted(&params)?;
    wanted.states = Of::ALL.into_iter().filter(|(word, _)| *word == state).map(|(_, of)| of).collect();
    let told = Told::ALL.into_iter().find(|(word, _)| *word == state).map(|(_, told)| told);
    if let Some(told) = told {
        settle(told, &mut wanted, &params)?;
    }
    let of = listed("mini-batches", &id, &params);
    let begins = begins(&params, &of)?;
    let (home, job) = OnTabs::at_work(&app, &id, if told.is_some() { &Told::MORE } else { &[] }).await?;
    if job.is_pipeline() {
        return of_steps(&app, &id, Tab::MiniBatches).await;
    }
    let grows = !job.seen.result.state.is_final();
    let counts = &job.seen.result.mini_batches;
    let ended = job.published.live.as_ref().map_or(counts.succeeded + counts.failed, Live::ended);
    let mut notes = Vec::new();
    let (table, as_of_us) = match told {
        Some(told) => {
            let (table, as_of_us) = table_of(told, &job, &id, &wanted, &mut notes);
            (Some(table), as_of_us)
        }
        None => (None, None),
    };
    let page = if table.is_some() {
        TryPage { complete: true, ..TryPage::default() }
    } else {
        let page = list_tries(&*home, &job.seen.record, &wanted, begins, ROWS).await;
        page.map_err(|failure| refused(&failure))?
    };
    if table.is_some() {
        // The statistics say themselves when they are of.
    } else if page.as_of_us.is_none() {
        notes.push(if grows {
            "The job has no list of its tries yet: it begins some seconds after the first of them.".to_owned()
        } else {
            "The job has no list of its tries: an older prs ran it, or it ended before any began.".to_owned()
        });
    } else if !page.complete {
        notes.push("Some of the list is not there yet, or was lost: tries are missing here.".to_owned());
    }
    if page.parts.1 > page.parts.0 {
        let (read, all) = page.parts;
        notes.push(format!(
            "This page is of {read} of {all} parts of the table that can have what is asked for; its order is that of these."
        ));
    }
    let path = |cursor: &str, below: &str, state: bool| {
        let rest = params.without(if state { &["cursor"] } else { &["cursor", "state"] });
        let joined =
            [rest.as_str(), cursor].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        format!("{below}?{}", joined.join("&"))
    };
    let next = page.next.map(|next| format!("cursor={}", cursor::write(&of, &next)));
    let api = if state == "tries" { "tries" } else { "mini-batches" };
    let order =
        Order::ALL.into_iter().find(|(_, order)| *order == wanted.order).map_or("index", |(word, _)| word);
    let text = |name: &str| params.all(name).first().copied().unwrap_or_default();
    let page = MiniBatchesPage {
        chrome: &app.chrome,
        tabs: job.tabs(&id, Tab::MiniBatches),
        job_id: &id,
        title: job.title(),
        states: (STATES, state),
        orders: (ORDERS, order),
        sorts: sorts(&params, &id, order),
        fields: vec![
            ("index", "Mini-batch, or range 7-12", text("index")),
            ("node", "Node, or range 8-15", text("node")),
            ("process", "Process", text("process")),
            ("min_seconds", "Seconds, at least", text("min_seconds")),
            ("from", "Ran since (time, or 15m)", text("from")),
            ("to", "Began until", text("to")),
            ("status", "Ended with", text("status")),
            ("group", "Error group", text("group")),
        ],
        tries: page.tries.into_iter().map(tried).collect(),
        table: table.flatten().map(|table| match told {
            Some(Told::Running | Told::Slow) => {
                let [index, seconds, started] = sorts(&params, &id, order);
                let long = if told == Some(Told::Running) { "Runs for" } else { "Took" };
                table.sorted_by(vec![("Mini-batch", index), (long, seconds), ("Began", started)])
            }
            _ => table,
        }),
        next: next.map(|next| path(&next, &format!("/jobs/{id}/mini-batches"), true)).unwrap_or_default(),
        api: path("", &format!("/api/v1/jobs/{id}/{api}"), state != "tries"),
        notes,
        as_of_us,
        is_filtered: !params
            .without(if told.is_some() { &["sort", "cursor", "state"] } else { &["sort", "cursor"] })
            .is_empty(),
        grows,
        ended,
    };
    Ok(Html(page.html()))
}

/// How the list is sorted, and the addresses that sort it otherwise: by mini-batch, by how long tries took, by when they began.
fn sorts(params: &Params, id: &str, order: &str) -> [SortLink; 3] {
    let rest = params.without(&["sort", "cursor"]);
    let link = |word: &str| {
        let joined = if rest.is_empty() { String::new() } else { format!("{rest}&") };
        format!("/jobs/{id}/mini-batches?{joined}sort={word}")
    };
    let of = |word: &'static str, sorted| SortLink {
        sorted: if order == word { sorted } else { "" },
        link: link(word),
    };
    let began = match order {
        "-started_at" => SortLink { sorted: "descending", link: link("started_at") },
        order => SortLink {
            sorted: if order == "started_at" { "ascending" } else { "" },
            link: link("-started_at"),
        },
    };
    [of("index", "ascending"), of("-seconds", "descending"), began]
}

/// What the statistics of a job list, as a table, and when they are of while it runs; notes what there is to know of it.
fn table_of(
    told: Told,
    job: &OnTabs,
    id: &str,
    wanted: &Wanted,
    notes: &mut Vec<String>,
) -> (Option<Table>, Option<u64>) {
    let has_ended = job.seen.result.state.is_final();
    let published = narrowed(job.published.clone(), wanted);
    if published.live.is_none() {
        notes.push("The job has no statistics: it begins to write them some seconds after its first node came, or an older prs ran it.".to_owned());
    }
    let live = published.live.as_ref().filter(|_| !has_ended);
    let table = match told {
        Told::Running => live.and_then(|live| running_table(live, id)),
        Told::Slow => published.summary.as_ref().and_then(|summary| slow_table(summary, id)),
        Told::Waiting => {
            let ranges = open_ranges(&published, wanted);
            let ranges: Vec<_> = ranges.into_iter().map(|range| (range.from, range.to, range.open)).collect();
            waiting_table(&ranges, id)
        }
    };
    (table, live.map(|live| live.written_us))
}

/// A try as a page shows it.
fn tried(of: FoundTry) -> TryLine {
    let error = match (&of.category, &of.message) {
        (Some(category), Some(message)) => format!("{category}: {message}"),
        (category, message) => category.clone().or(message.clone()).unwrap_or_default(),
    };
    TryLine {
        index: of.index,
        number: of.number,
        incarnation: of.incarnation,
        has_failed: of.has_failed(),
        status: of.status.to_owned(),
        is_outcome: of.is_outcome,
        node_id: of.node_id,
        process: of.process,
        times_us: of.times_us,
        items: (of.items, of.succeeded_items),
        error,
        group: of.group.unwrap_or_default(),
        detail: of.detail,
    }
}

/// `GET /jobs/{job}/mini-batches/{index}`.
pub(crate) async fn one(
    _: MayRead,
    State(app): State<App>,
    Path((id, index)): Path<(String, String)>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&[])?;
    let index = number(&index)?;
    Box::pin(shown(&app, &id, index, true)).await.map(|(html, _)| Html(html))
}

/// The page of a mini-batch, all of it or what changes; and whether it changes still.
async fn shown(app: &App, id: &str, index: u64, is_whole: bool) -> Result<(String, bool), Problem> {
    // The parts that every tab reads tell where it runs.
    let (home, job) = OnTabs::at_work(app, id, &[]).await?;
    home.check_has_mini_batches(&job.seen.record).map_err(|failure| refused(&failure))?;
    let found = known(&*home, &job.seen, &job.published, index).await.map_err(|failure| refused(&failure))?;
    let found = found.ok_or_else(|| absent(index))?;
    let (state, detail) = (found.state(), found.detail());
    let OneMiniBatch { tries, errors, items, complete, runs, .. } = found;
    let tries = tries.into_iter().enumerate().map(async |(at, one)| {
        let error = one.group.as_ref().and_then(|group| errors.get(group));
        let ranges = one.printed.as_ref().filter(|_| at < MOST_PRINTED);
        let stdout = ranges.and_then(|ranges| ranges.stdout.as_ref());
        let stderr = ranges.and_then(|ranges| ranges.stderr.as_ref());
        TryFact {
            traceback: error.map(|error| error.traceback.trim_end().to_owned()).unwrap_or_default(),
            frame: error.and_then(|error| error.frame.as_ref()).map(ToString::to_string).unwrap_or_default(),
            why_not: match (&one.printed, one.has_failed()) {
                (Some(_), _) => "What it printed is in the logs of its process, and not here yet, or too much to be shown.",
                (None, true) => "It printed nothing.",
                (None, false) => "It printed nothing, or took less than 10 ms: what so short tries print is in the logs of their process alone.",
            },
            printed: both(text_of(&home, STDOUT, stdout), text_of(&home, STDERR, stderr)).await,
            line: tried(one),
        }
    });
    let runs = runs.iter().map(async |one| {
        let told = RunningMiniBatch::of(one);
        let (stdout, stderr) = told.printed.map(|printed| (printed.stdout, printed.stderr)).unzip();
        RunFact {
            number: one.number,
            node_id: one.node_id,
            process: told.process.unwrap_or_default(),
            since_us: one.since_us,
            printed: both(text_since(&home, STDOUT, stdout), text_since(&home, STDERR, stderr)).await,
        }
    });
    let (tries, runs) = futures_util::future::join(join_all(tries), join_all(runs)).await;
    let called = home.called();
    let page = MiniBatchPage {
        chrome: &app.chrome,
        tabs: job.tabs(id, Tab::MiniBatches),
        job_id: id,
        title: job.title(),
        index,
        state,
        detail: &detail,
        items: items.unwrap_or_default().iter().map(line).collect(),
        runs,
        grows: !job.seen.result.state.is_final(),
        tries,
        commands: vec![
            (format!("prs try {called} --mini-batch {index}"), "runs it here, in this terminal"),
            (
                format!("prs try {called} --mini-batch {index} --pdb"),
                "the same, in a debugger where it fails",
            ),
        ],
        complete,
    };
    let html = if is_whole { page.html() } else { page.part() };
    Ok((html, page.is_live()))
}

/// What there is of two texts, which are read side by side.
async fn both(
    one: impl Future<Output = Option<PrintedText>>,
    other: impl Future<Output = Option<PrintedText>>,
) -> Vec<PrintedText> {
    let (one, other) = futures_util::future::join(one, other).await;
    one.into_iter().chain(other).collect()
}

/// What stands in a range of a log; nothing where that is not there (yet).
async fn text_of(home: &Home, name: &'static str, range: Option<&Range>) -> Option<PrintedText> {
    let range = range?;
    let log = prs_jobs::logs::find(&**home, &range.path).await.ok()?;
    let read = log.read(range.from, (range.to - range.from).min(PRINTED)).await.ok()?;
    (!read.is_empty()).then(|| PrintedText {
        name,
        path: range.path.clone(),
        from: range.from,
        left_out: (range.to - range.from).saturating_sub(read.len() as u64),
        text: String::from_utf8_lossy(&read).into_owned(),
    })
}

/// What stands in a log from a place on, the end of it where that is much; nothing where it is not there (yet).
async fn text_since(home: &Home, name: &'static str, place: Option<LogPlace>) -> Option<PrintedText> {
    let LogPlace { path, from } = place?;
    let log = prs_jobs::logs::find(&**home, &path).await.ok()?;
    let shown_from = log.size().await.ok()?.saturating_sub(PRINTED).max(from);
    let read = log.read(shown_from, PRINTED).await.ok()?;
    (!read.is_empty()).then(|| PrintedText {
        name,
        path,
        from: shown_from,
        left_out: shown_from - from,
        text: String::from_utf8_lossy(&read).into_owned(),
    })
}

/// Tells what is new of a mini-batch until it has an outcome. What tells of the job alone is read with each look; this takes reads of its own.
pub(super) struct OneLive {
    app: App,
    id: String,
    index: u64,
    told: String,
    due: Instant,
    /// What is being read; it goes on where nobody waits for it for a moment.
    reading: Option<BoxFuture<'static, Result<(String, bool), Problem>>>,
    is_over: bool,
}

impl OneLive {
    pub(super) fn new(app: &App, id: &str, index: u64) -> Self {
        let (app, id) = (app.clone(), id.to_owned());
        let due = Instant::now();
        Self { app, id, index, told: String::new(), due, reading: None, is_over: false }
    }

    /// Reads it once; the part of the page where it is another one.
    async fn read(&mut self) -> Option<Event> {
        let reading = self.reading.get_or_insert_with(|| {
            let (app, id, index) = (self.app.clone(), self.id.clone(), self.index);
            Box::pin(async move { Box::pin(shown(&app, &id, index, false)).await })
        });
        let read = reading.await;
        self.reading = None;
        self.due = Instant::now() + AGAIN;
        let (part, is_live) = read.ok()?;
        self.is_over = !is_live;
        if part == self.told {
            return None;
        }
        let data = serde_json::json!({ "parts": { "one": &part } });
        self.told = part;
        Some(Event::default().event("parts").data(data.to_string()))
    }
}

impl Streams for OneLive {
    fn events(&mut self, _: &Tick) -> Vec<Event> {
        Vec::new()
    }

    async fn more(&mut self) -> Vec<Event> {
        loop {
            if self.is_over {
                return std::future::pending().await;
            }
            if self.reading.is_none() {
                tokio::time::sleep_until(self.due).await;
            }
            if let Some(event) = self.read().await {
                return vec![event];
            }
        }
    }
}
