//! Server-sent events from what a watcher sees.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use prometheus_client::metrics::gauge::Gauge;
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::tokens::Tokens;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::{Tick, Watches};
use crate::auth::Principal;
use crate::http::rates::HeldPlace;
use crate::problem::{Kind, Problem};

/// Between two signs of life on a stream that says nothing.
const PING: Duration = Duration::from_secs(15);
/// Between two looks whether the watcher's token is taken still.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// What a client waits before it comes again where its connection broke.
const BROKEN: Duration = Duration::from_secs(3);
/// What a client waits before it comes again, at least and at most, milliseconds: not all at once.
const COMES_AGAIN: (u64, u64) = (1000, 4000);

impl Watches {
    /// The right of `who` to one stream of this kind, as long as it is kept.
    pub(crate) fn stream(&self, who: &Principal, kind: &str) -> Result<Permit, Problem> {
        let refused = |why| Problem::new(Kind::TOO_MANY_REQUESTS, why).retry_after(10);
        let of_one = self.of_one.take(who.id());
        let of_one =
            of_one.ok_or_else(|| refused("As many of your streams as the server keeps are open."))?;
        let of_all = Arc::clone(&self.streams).try_acquire_owned();
        let of_all = of_all.map_err(|_| refused("As many streams as the server has are open."))?;
        let open = self.open.iter().find(|(each, _)| *each == kind).map(|(_, open)| open.clone());
        if let Some(open) = &open {
            open.inc();
        }
        let until = tokio::time::Instant::now() + self.lasts;
        Ok(Permit { open, until, _of_one: of_one, _of_all: of_all })
    }
}

/// The right to a stream.
#[derive(Debug)]
pub(crate) struct Permit {
    /// Counts it.
    open: Option<Gauge>,
    /// When it ends.
    pub(crate) until: tokio::time::Instant,
    _of_one: HeldPlace,
    _of_all: OwnedSemaphorePermit,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.dec();
        }
    }
}

/// What one watcher is told of each look.
pub(crate) trait Streams: Send + 'static {
    /// The events of this look.
    fn events(&mut self, tick: &Tick) -> Vec<Event>;

    /// Waits for events between the looks. May be dropped and called again.
    fn more(&mut self) -> impl Future<Output = Vec<Event>> + Send {
        std::future::pending()
    }

    /// What is said with the end of the job, JSON.
    fn end(&self, _: &Tick) -> String {
        "{}".to_owned()
    }

    /// The events that are left once the job has ended.
    fn last(&mut self) -> impl Future<Output = Vec<Event>> + Send {
        std::future::ready(Vec::new())
    }
}

/// Who watches.
#[derive(Debug)]
pub(crate) struct Watcher {
    tokens: Tokens,
    /// The id of their token, where they have one.
    token_id: Option<String>,
    ask_at: tokio::time::Instant,
}

impl Watcher {
    /// The caller, as found when the stream began.
    pub(crate) fn new(tokens: &Tokens, who: &Principal) -> Self {
        let ask_at = tokio::time::Instant::now() + ASK_AGAIN;
        Self { tokens: tokens.clone(), token_id: who.token_id.clone(), ask_at }
    }

    /// Waits until their token is not taken any more. May be dropped and called again.
    pub(crate) async fn is_refused(&mut self) {
        let Some(id) = &self.token_id else { return std::future::pending().await };
        loop {
            tokio::time::sleep_until(self.ask_at).await;
            // What was read a moment ago is believed here, too; where the store is away nothing is known.
            let refused = self.tokens.of_id(id, now_us()).await.is_err_and(|refusal| !refusal.is_of_store());
            self.ask_at = tokio::time::Instant::now() + ASK_AGAIN;
            if refused {
                return;
            }
        }
    }
}

struct State<S> {
    ticks: watch::Receiver<Arc<Tick>>,
    told: S,
    watcher: Watcher,
    stop: CancellationToken,
    /// Whether a look was told of, fresh or not.
    has_begun: bool,
    is_first: bool,
    /// Why what was told is stale, as it was told; nothing where it is not.
    stale: Option<String>,
    has_ended: bool,
    until: tokio::time::Instant,
    _permit: Permit,
}

/// A stream of events of what `ticks` tell, until the job or the server ends, or `watcher` may not watch any more.
pub(crate) fn events<S: Streams>(
    ticks: watch::Receiver<Arc<Tick>>,
    told: S,
    watcher: Watcher,
    stop: CancellationToken,
    permit: Permit,
) -> Response {
    let state = State {
        ticks,
        told,
        watcher,
        stop,
        has_begun: false,
        is_first: true,
        stale: None,
        has_ended: false,
        until: permit.until,
        _permit: permit,
    };
    let events = stream::unfold(state, |mut state| async move {
        let events = state.next().await?;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), state))
    });
    answer(events.flatten())
}

/// These events as an answer. The first thing that is said is when a client comes again whose connection broke.
pub(crate) fn answer(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let first = stream::iter([Ok(Event::default().retry(BROKEN))]);
    let keep_alive = KeepAlive::new().interval(PING).text("ping");
    let mut response = Sse::new(first.chain(events)).keep_alive(keep_alive).into_response();
    // A proxy that collects answers would keep the events.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<S: Streams> State<S> {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.has_ended {
            return None;
        }
        // The look that is there serves the first time.
        if self.has_begun || self.ticks.borrow().number == 0 {
            tokio::select! {
                changed = self.ticks.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                // Before the first look it is not known what the job is.
                events = self.told.more(), if !self.is_first => return Some(events),
                () = self.stop.cancelled() => return Some(self.leave()),
                // Who comes again is asked who they are.
                () = self.watcher.is_refused() => return Some(self.leave()),
                () = tokio::time::sleep_until(self.until) => return Some(self.leave()),
            }
        }
        // Also where it says that nothing can be seen: the next one may take long.
        self.has_begun = true;
        let tick = Arc::clone(&self.ticks.borrow_and_update());
        let mut events = Vec::new();
        match (&tick.stale, &self.stale) {
            (Some((_, cause)), Some(told)) if cause == told => {}
            (Some((since_us, cause)), _) => {
                let data = serde_json::json!({ "since": format_us(*since_us), "cause": cause });
                events.push(Event::default().event("stale").data(data.to_string()));
            }
            (None, Some(_)) => events.push(Event::default().event("fresh").data("{}")),
            (None, None) => {}
        }
        self.stale = tick.stale.as_ref().map(|(_, cause)| cause.clone());
        if tick.stale.is_none() {
            events.extend(self.told.events(&tick));
            self.is_first = false;
        }
        if tick.is_last {
            self.has_ended = true;
            if tick.stale.is_none() {
                events.extend(self.told.last().await);
            }
            events.push(Event::default().event("end").data(self.told.end(&tick)));
        }
        Some(events)
    }

    /// The last event of a stream that the client opens again.
    fn leave(&mut self) -> Vec<Event> {
        self.has_ended = true;
        vec![bye()]
    }
}

/// That a stream ends, and is to be opened again after a while.
pub(crate) fn bye() -> Event {
    let (least, most) = COMES_AGAIN;
    let random = u64::from(u16::from_le_bytes(crate::auth::random::<2>()));
    let pause = Duration::from_millis(least + random * (most - least) / u64::from(u16::MAX));
    Event::default().event("bye").retry(pause).data("{}")
}
