//! The mini-batches of a job and their tries: lists with filters, one of them with all its tries.

use std::str::FromStr;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use prs_common::mini_batch::id_of;
use prs_common::segment::TryStatus;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::Failure;
use prs_jobs::homes::Home;
use prs_jobs::looks::brief;
use prs_jobs::mini_batches::{
    CSV_COLUMNS, Cursor, FoundTry, Order, RUNS_IN, State as Of, Told, TryPage, Wanted, known, list, narrowed,
    open_ranges,
};
use prs_jobs::records::Item;
use prs_jobs::statistics::{ListedTry, OpenRange, RunningMiniBatch, published_parts, running, slowest};
use prs_orchestrator::JobRecord;
use serde::Serialize;

use super::logs::home;
use crate::app::App;
use crate::auth::MayRead;
use crate::http::cursor;
use crate::http::page::with_next;
use crate::http::params::{Params, bad};
use crate::problem::{Kind, Problem};

/// The parameters that filter tries.
pub(crate) const FILTERS: [&str; 9] =
    ["index", "node", "process", "group", "from", "to", "min_seconds", "status", "sort"];
/// Rows of a piece of a table as CSV, at most.
const CSV_ROWS: usize = 8_192;

/// What stands in a list of mini-batches or of tries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Listed {
    /// A try, as the tables of tries have it.
    Found(Box<FoundTry>),
    /// One that took long, as the statistics have it.
    Slow(ListedTry),
    /// A mini-batch that runs.
    Running(RunningMiniBatch),
    /// Mini-batches without an outcome.
    Open(OpenRange),
}

/// A page of mini-batches or of tries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TriesPage {
    value: Vec<Listed>,
    next_cursor: Option<String>,
    /// Nobody counts them.
    total: Option<u64>,
    /// When the tables, or the statistics, were written; null where there are none.
    as_of: Option<String>,
    /// Parts of the tables that were read for the page.
    scanned_parts: usize,
    /// Those that can have what is asked for.
    fitting_parts: usize,
    /// Whether the order is that of all, and not within parts alone.
    order_is_exact: bool,
    /// Whether the tables have all tries up to `as_of`, and all parts could be read; of what the statistics list, whether there are any.
    complete: bool,
}

/// A try of a mini-batch, with its error.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TriedOnce {
    #[serde(flatten)]
    found: FoundTry,
    /// Its traceback, or that of another try with the same error; null where none is kept.
    traceback: Option<String>,
    /// The line of the code where that ends.
    frame: Option<String>,
}

/// Commands about a mini-batch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Commands {
    /// Runs it in a terminal.
    #[serde(rename = "try")]
    trial: String,
}

/// A mini-batch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MiniBatch {
    index: u64,
    /// The same as the reports have it.
    id: String,
    /// `succeeded`, `failed`; without an outcome `running`, or `open` where it waits or has just begun.
    state: &'static str,
    /// What it consists of; empty where nobody has told.
    detail: String,
    /// Where it runs now, as far as nodes tell: several where a copy runs beside it.
    running: Vec<RunningMiniBatch>,
    /// Its items, where items of it are missing; null where none is, and where an older prs ran it.
    items: Option<Vec<Item>>,
    /// Its tries that have ended, the first one first.
    tries: Vec<TriedOnce>,
    commands: Commands,
    /// Whether all parts that can have tries of it were read.
    complete: bool,
    as_of: String,
}

fn refused(failure: &Failure) -> Problem {
    Problem::of(failure, Kind::REFUSED)
}

/// What is asked for of the tries of a job.
pub(crate) fn wanted(params: &Params) -> Result<Wanted, Problem> {
    let now = now_us();
    let mut statuses = Vec::new();
    for word in params.all("status") {
        let known = TryStatus::ALL.into_iter().find(|status| status.as_str() == word);
        statuses.push(known.ok_or_else(|| {
            bad(
                "status",
                format_args!("{word:?} is none of {}", TryStatus::ALL.map(TryStatus::as_str).join(", ")),
            )
        })?);
    }
    let least: Option<f64> = params.value("min_seconds", "a number of seconds")?;
    if least.is_some_and(|least| !(0.0..1e9).contains(&least)) {
        return Err(bad("min_seconds", "it is not a number of seconds from 0 on"));
    }
    let sort = params.one("sort")?.unwrap_or("index");
    let order = Order::ALL.into_iter().find(|(word, _)| *word == sort).map(|(_, order)| order);
    let known = Order::ALL.map(|(word, _)| word).join(", ");
    Ok(Wanted {
        states: Vec::new(),
        statuses,
        index: params.one("index")?.map(range).transpose()?,
        nodes: nodes(params)?,
        processes: params.texts("process"),
        groups: params.texts("group"),
        from_us: params.moment("from", now)?,
        to_us: params.moment("to", now)?,
        least_us: least.map(|seconds| (seconds * 1e6).round() as u64),
        order: order.ok_or_else(|| bad("sort", format_args!("{sort:?} is none of {known}")))?,
    })
}

/// `7`, or `7-12`: both included.
fn range_of<T: FromStr + PartialOrd>(text: &str) -> Option<(T, T)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    (from <= to).then_some((from, to))
}

fn range(text: &str) -> Result<(u64, u64), Problem> {
    range_of(text).ok_or_else(|| {
        bad("index", format_args!("{text:?} is neither the number of a mini-batch nor a range such as 7-12"))
    })
}

/// Nodes from one to another, as a parameter names them.
struct NodeRange(u32, u32);

impl FromStr for NodeRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        range_of(text).map(|(from, to)| Self(from, to)).ok_or(())
    }
}

/// The nodes that are asked for: any of several numbers and ranges.
fn nodes(params: &Params) -> Result<Vec<(u32, u32)>, Problem> {
    let ranges: Vec<NodeRange> = params.values("node", "the number of a node, or a range such as 8-15")?;
    Ok(ranges.into_iter().map(|NodeRange(from, to)| (from, to)).collect())
}

/// The states that can be asked for.
pub(super) fn states() -> impl Iterator<Item = &'static str> {
    states_of_tables().chain(Told::ALL.iter().map(|(word, _)| *word))
}

/// The state that is asked for.
pub(crate) fn state(params: &Params) -> Result<&str, Problem> {
    let state = params.one("state")?.unwrap_or("failed");
    let known: Vec<&str> = states().collect();
    if !known.contains(&state) {
        return Err(bad("state", format_args!("{state:?} is none of {}", known.join(", "))));
    }
    Ok(state)
}

/// The states that are asked for, one at least; of lists that the statistics have it is the only one.
fn states_of(params: &Params) -> Result<Vec<&str>, Problem> {
    let states = params.all("state");
    let alone = Told::ALL.map(|(word, _)| word);
    match states.as_slice() {
        [] | [_] => Ok(vec![state(params)?]),
        several => {
            let known: Vec<&str> = states_of_tables().collect();
            match several.iter().find(|state| !known.contains(state)) {
                Some(state) if alone.contains(state) => {
                    Err(bad("state", format_args!("{state} is a list of its own, and stands alone")))
                }
                Some(state) => Err(bad("state", format_args!("{state:?} is none of {}", known.join(", ")))),
                None => Ok(states),
            }
        }
    }
}

/// The states that stand beside each other.
fn states_of_tables() -> impl Iterator<Item = &'static str> {
    Of::ALL.iter().map(|(word, _)| *word)
}

/// The cursor of a list of tries.
pub(crate) fn begins(params: &Params, of: &str) -> Result<Option<Cursor>, Problem> {
    params.one("cursor")?.map(|text| cursor::read(of, text)).transpose()
}

/// What a cursor of such a list belongs to.
pub(crate) fn listed(what: &str, id: &str, params: &Params) -> String {
    format!("{what} of {id}?{}", params.without(&["limit", "cursor"]))
}

/// Refuses a job without tries of its own.
async fn with_tries(app: &App, id: &str) -> Result<(Home, JobRecord), Problem> {
    let home = home(app, id).await?;
    let record = home.record().await.map_err(|failure| refused(&failure))?;
    home.check_has_mini_batches(&record).map_err(|failure| refused(&failure))?;
    Ok((home, record))
}

/// Settles what is asked for of a list that the statistics have: its order where none is named; refuses filters that it cannot have.
pub(crate) fn settle(told: Told, wanted: &mut Wanted, params: &Params) -> Result<(), Problem> {
    if params.one("sort")?.is_none() {
        wanted.order = told.usual_order();
    }
    match told.unknown_filter(wanted) {
        Some(odd) => Err(bad(odd, format_args!("a list of state {} does not have it", told.word()))),
        None => Ok(()),
    }
}

/// The mini-batches of a job that its statistics list.
async fn told_of(
    (home, record): (&Home, &JobRecord),
    told: Told,
    wanted: &Wanted,
) -> Result<TriesPage, Failure> {
    let published = narrowed(published_parts(&**home, record, &Told::PARTS).await?, wanted);
    let has_parts = published.live.is_some() && (told == Told::Running || published.summary.is_some());
    let as_of_us = published.live.as_ref().map(|live| live.written_us);
    let value = match told {
        // What an orchestrator said last of a job that was stopped does not run any more.
        Told::Running if home.has_ended(record) => Vec::new(),
        Told::Running => running(&published).into_iter().map(Listed::Running).collect(),
        Told::Slow => slowest(&published).into_iter().map(Listed::Slow).collect(),
        Told::Waiting => open_ranges(&published, wanted).into_iter().map(Listed::Open).collect(),
    };
    Ok(TriesPage {
        value,
        next_cursor: None,
        total: None,
        as_of: as_of_us.map(format_us),
        scanned_parts: 0,
        fitting_parts: 0,
        order_is_exact: true,
        complete: has_parts,
    })
}

/// `GET /jobs/{job}/mini-batches`.
pub(crate) async fn of_job(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[&FILTERS[..], &["state", "limit", "cursor"]].concat())?;
    let (limit, states, mut wanted) = (params.limit()?, states_of(&params)?, wanted(&params)?);
    let of = listed("mini-batches", &id, &params);
    let begins = begins(&params, &of)?;
    let (home, record) = with_tries(&app, &id).await?;
    if let Some((_, told)) = Told::ALL.into_iter().find(|(word, _)| states[0] == *word) {
        settle(told, &mut wanted, &params)?;
        let page = told_of((&home, &record), told, &wanted).await.map_err(|failure| refused(&failure))?;
        return Ok(Json(page).into_response());
    }
    wanted.states =
        Of::ALL.into_iter().filter(|(word, _)| states.contains(word)).map(|(_, state)| state).collect();
    let page = list(&*home, &record, &wanted, begins, limit).await.map_err(|failure| refused(&failure))?;
    Ok(answer(&of, &params, page))
}

/// `GET /jobs/{job}/tries`.
pub(crate) async fn tries(
    _: MayRead,
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[&FILTERS[..], &["limit", "cursor"]].concat())?;
    let (limit, wanted) = (params.limit()?, wanted(&params)?);
    let of = listed("tries", &id, &params);
    let begins = begins(&params, &of)?;
    let (home, record) = with_tries(&app, &id).await?;
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/csv") {
        return Ok(csv(home, record, wanted, begins));
    }
    let page = list(&*home, &record, &wanted, begins, limit).await.map_err(|failure| refused(&failure))?;
    Ok(answer(&of, &params, page))
}

fn answer(of: &str, params: &Params, page: TryPage) -> Response {
    let next_cursor = page.next.map(|next| cursor::write(of, &next));
    let next = next_cursor.clone();
    let answer = TriesPage {
        value: page.tries.into_iter().map(|one| Listed::Found(Box::new(one))).collect(),
        next_cursor,
        total: None,
        as_of: page.as_of_us.map(format_us),
        scanned_parts: page.parts.0,
        fitting_parts: page.parts.1,
        order_is_exact: page.order_is_exact,
        complete: page.complete,
    };
    with_next(params, next.as_deref(), Json(answer))
}

/// All of the tries as CSV, a piece for each few parts.
fn csv(home: Home, record: JobRecord, wanted: Wanted, begins: Option<Cursor>) -> Response {
    let state = Some((home, record, wanted, begins, true));
    let pieces = futures_util::stream::try_unfold(state, |state| async move {
        let Some((home, record, wanted, begins, is_first)) = state else { return Ok(None) };
        let page = list(&*home, &record, &wanted, begins, CSV_ROWS).await.map_err(|failure| {
            tracing::warn!(%failure, "a table of tries breaks off");
            std::io::Error::other(failure.to_string())
        })?;
        let mut text = if is_first { CSV_COLUMNS.to_owned() } else { String::new() };
        page.tries.iter().for_each(|one| one.push_csv(&mut text));
        let next = page.next.map(|next| (home, record, wanted, Some(next), false));
        Ok::<_, std::io::Error>(Some((bytes::Bytes::from(text), next)))
    });
    ([(CONTENT_TYPE, "text/csv; charset=utf-8")], axum::body::Body::from_stream(pieces)).into_response()
}

/// `GET /jobs/{job}/mini-batches/{index}`.
pub(crate) async fn of_index(
    _: MayRead,
    State(app): State<App>,
    Path((id, index)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    let index = number(&index)?;
    let (home, record) = with_tries(&app, &id).await?;
    let parts = if home.has_ended(&record) { &[][..] } else { &RUNS_IN };
    let (seen, published) = brief(&*home, record, parts).await.map_err(|failure| refused(&failure))?;
    let found = known(&*home, &seen, &published, index).await.map_err(|failure| refused(&failure))?;
    let found = found.ok_or_else(|| absent(index))?;
    let (state, detail) = (found.state(), found.detail());
    let errors = found.errors;
    let tried = |one: FoundTry| {
        let error = one.group.as_ref().and_then(|group| errors.get(group));
        TriedOnce {
            traceback: error.map(|error| error.traceback.clone()).filter(|text| !text.is_empty()),
            frame: error.and_then(|error| error.frame.as_ref()).map(ToString::to_string),
            found: one,
        }
    };
    Ok(Json(MiniBatch {
        index,
        id: id_of(index),
        state,
        detail,
        running: found.runs.iter().map(RunningMiniBatch::of).collect(),
        items: found.items,
        commands: Commands { trial: format!("prs try {} --mini-batch {index} --pdb", home.called()) },
        complete: found.complete,
        as_of: format_us(found.as_of_us),
        tries: found.tries.into_iter().map(tried).collect(),
    })
    .into_response())
}

/// The number of a mini-batch in an address.
pub(crate) fn number(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| {
        Problem::new(Kind::NOT_FOUND, format_args!("{text:?} is not the number of a mini-batch."))
    })
}

/// The problem that nothing is known of a mini-batch.
pub(crate) fn absent(index: u64) -> Problem {
    Problem::new(
        Kind::MINI_BATCH_NOT_FOUND,
        format_args!("No mini-batch {index} is planned, so far as is known."),
    )
    .hint("mini-batches?state=all lists those with an outcome, state=running what runs longest")
}
