//! What happens to a job, as it happens: `status` with the job as it is now, first at once and then when it changed; `stale` and
//! `fresh` where it cannot be seen and can be seen again; `end` after the last.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::Event;
use serde_json::Value;

use super::job_object::JobObject;
use super::list_events::events_of_jobs;
use crate::app::App;
use crate::auth::{May, MayRead};
use crate::http::params::{Params, bad};
use crate::live::{Streams, Tick, Watcher, events};
use crate::metrics::API;
use crate::problem::Problem;

/// Tells the job where it changed.
#[derive(Default)]
struct Status(Option<Value>);

impl Streams for Status {
    fn events(&mut self, tick: &Tick) -> Vec<Event> {
        let Some(seen) = tick.seen.as_deref() else { return Vec::new() };
        let object = JobObject::with(seen, tick.live.as_deref());
        let now = object.lasting();
        if self.0.as_ref() == Some(&now) {
            return Vec::new();
        }
        let event =
            Event::default().event("status").id(tick.number.to_string()).data(object.whole().to_string());
        self.0 = Some(now);
        vec![event]
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
    params: Params,
) -> Result<Response, Problem> {
    params.check(&[])?;
    app.seen(&id).await?;
    let permit = app.watches.stream(&who, API)?;
    let watcher = Watcher::new(&app.access.tokens, &who);
    Ok(events(app.watches.follow(&id), Status::default(), watcher, app.stop.clone(), permit))
}
