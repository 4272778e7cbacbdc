//! Server-sent events of all jobs: what changes in their list.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{StreamExt, stream};
use prs_common::timestamp::{format_us, now_us};
use prs_jobs::Failure;
use serde_json::json;

use tokio::time::{Instant, sleep_until, timeout};

use super::job_object::JobSummary;
use crate::app::App;
use crate::index::{Snapshot, Summary};
use crate::live::{LATE, Late, Permit, Watcher, answer, bye};

/// Between two looks at the list.
const LOOK: Duration = Duration::from_secs(2);

struct State {
    app: App,
    watcher: Watcher,
    /// The jobs as they were told, by their ids; nothing before the first look.
    told: Option<HashMap<String, Arc<Summary>>>,
    /// When the list was seen last, or asked for first, microseconds since the Unix epoch.
    seen_us: u64,
    is_stale: bool,
    has_ended: bool,
    next: Instant,
    until: Instant,
    _permit: Permit,
}

/// A stream of what changes in the list of jobs, until the server ends, or `watcher` may not watch any more. The first event says how
/// many there are; the list itself has them.
pub(crate) fn events_of_jobs(app: App, watcher: Watcher, permit: Permit) -> Response {
    let now = Instant::now();
    let state = State {
        app,
        watcher,
        told: None,
        seen_us: now_us(),
        is_stale: false,
        has_ended: false,
        next: now,
        until: permit.until,
        _permit: permit,
    };
    let events = stream::unfold(state, |mut state| async move {
        let events = state.next().await?;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), state))
    });
    answer(events.flatten())
}

impl State {
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.has_ended {
            return None;
        }
        let stop = self.app.stop.clone();
        tokio::select! {
            () = sleep_until(self.next) => {}
            () = stop.cancelled() => return Some(self.leave()),
            () = self.watcher.is_refused() => return Some(self.leave()),
            () = sleep_until(self.until) => return Some(self.leave()),
        }
        self.next = Instant::now() + LOOK;
        let snapshot = tokio::select! {
            snapshot = timeout(LATE, self.app.index.snapshot()) => snapshot,
            () = stop.cancelled() => return Some(self.leave()),
        };
        let snapshot = match snapshot.unwrap_or_else(|_| Err(Failure::server(Late))) {
            Ok(snapshot) => snapshot,
            Err(failure) => {
                let was_stale = std::mem::replace(&mut self.is_stale, true);
                let since = format_us(self.seen_us);
                let data = json!({ "since": since, "cause": failure.to_string() });
                let stale = Event::default().event("stale").data(data.to_string());
                return Some(if was_stale { Vec::new() } else { vec![stale] });
            }
        };
        self.seen_us = now_us();
        let mut events = Vec::new();
        if std::mem::replace(&mut self.is_stale, false) {
            events.push(Event::default().event("fresh").data("{}"));
        }
        let Some(told) = &mut self.told else {
            let data = json!({ "jobs": snapshot.jobs.len() }).to_string();
            events.push(Event::default().event("list").data(data));
            self.told = Some(by_id(&snapshot));
            return Some(events);
        };
        let (changed, gone) = changes(told, &snapshot);
        for job in changed {
            let data = serde_json::to_string(&JobSummary::from(&*job)).unwrap_or_default();
            events.push(Event::default().event("job").data(data));
        }
        for job_id in gone {
            events.push(Event::default().event("gone").data(json!({ "job_id": job_id }).to_string()));
        }
        Some(events)
    }

    fn leave(&mut self) -> Vec<Event> {
        self.has_ended = true;
        vec![bye()]
    }
}

fn by_id(snapshot: &Snapshot) -> HashMap<String, Arc<Summary>> {
    snapshot.jobs.iter().map(|job| (job.job_id.clone(), Arc::clone(job))).collect()
}

/// The jobs that are new or changed since they were told, and the ids of those that are gone; from now on they are told.
fn changes(
    told: &mut HashMap<String, Arc<Summary>>,
    snapshot: &Snapshot,
) -> (Vec<Arc<Summary>>, Vec<String>) {
    let is_as_told = |job: &&Arc<Summary>| {
        told.get(&job.job_id).is_some_and(|known| Arc::ptr_eq(known, job) || known.says_as(job))
    };
    let changed: Vec<_> = snapshot.jobs.iter().filter(|job| !is_as_told(job)).cloned().collect();
    let now = by_id(snapshot);
    let gone = told.keys().filter(|job_id| !now.contains_key(*job_id)).cloned().collect();
    *told = now;
    (changed, gone)
}
