//! A worker: takes tickets, serves the jobs they invite it to, one after the other.
//!
//! It never ends because a server went away: every wait is repeated. How it ends is said by its [`NodeEnd`], by
//! `idle_limit`, or by the one job it was started for.

mod service;
mod tickets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prs_common::queue::Answer;
use prs_orchestrator::Fleet;
use prs_orchestrator::queues::{Ticket, ticket_queue};
use tokio::time::Instant;

use crate::{Host, NodeEnd, WorkFolder};
use service::{Served, Service};
use tickets::{Taken, Tickets};

pub use service::Parting;

/// Pause before the next ticket is taken, when this one was of no use here.
const USELESS_PAUSE: Duration = Duration::from_secs(1);

/// What a worker is run with.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Name of the worker, for people; it need not be unique.
    pub name: String,
    /// Compute targets it works for.
    pub targets: Vec<String>,
    /// Most processes it runs at a time.
    pub slots: Option<u32>,
    /// Folder for what need not outlive a job.
    pub work_folder: Arc<WorkFolder>,
    /// The extension that processes load.
    pub extension: PathBuf,
    /// The host.
    pub host: Host,
    /// Most bytes of inputs that are kept here at a time.
    pub cache_bytes: u64,
    /// How long to wait for a ticket before the worker ends.
    pub idle_limit: Option<Duration>,
}

/// Serves jobs until it is asked to end, or had nothing to do for `idle_limit`.
pub async fn serve_tickets(fleet: &Fleet, settings: &WorkerSettings, end: &NodeEnd) {
    let tickets = Tickets { fleet, targets: &settings.targets };
    let mut idle_since = Instant::now();
    loop {
        let idle = async {
            match settings.idle_limit {
                Some(limit) => tokio::time::sleep_until(idle_since + limit).await,
                None => std::future::pending().await,
            }
        };
        let taken = tokio::select! {
            biased;
            () = end.drain.cancelled() => return,
            taken = tickets.next() => taken,
            () = idle => {
                tracing::info!("no ticket came for as long as the worker waits; it ends");
                return;
            }
        };
        if use_ticket(fleet, settings, taken, end).await {
            idle_since = Instant::now();
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(USELESS_PAUSE) => {}
            () = end.drain.cancelled() => return,
        }
    }
}

/// Serves the job of a ticket and answers for it; false when the ticket was of no use here.
async fn use_ticket(fleet: &Fleet, settings: &WorkerSettings, taken: Taken, end: &NodeEnd) -> bool {
    let Taken { delivery, target, deliveries } = taken;
    let ticket = match Ticket::decode(&delivery.body) {
        Ok(ticket) => ticket,
        Err(error) => {
            tracing::error!(target, %error, "a message that is no ticket goes to the dead letters");
            let _ = delivery.settle(Answer::Reject).await;
            return false;
        }
    };
    let own_version = env!("CARGO_PKG_VERSION");
    let served = if ticket.prs_version == own_version {
        let service = Service { fleet, settings, end };
        service.serve(&ticket.job_id, Some(ticket.incarnation)).await
    } else {
        tracing::error!(
            job = ticket.job_id,
            submitted_with = ticket.prs_version,
            worker = own_version,
            "a job of another version of prs is left to a worker of that version; update one of the two"
        );
        Served::OtherVersion
    };
    tracing::info!(job = ticket.job_id, ?served, "the ticket is settled");
    let answered = match served {
        Served::Over(_) | Served::Useless => delivery.settle(Answer::Ack).await,
        Served::Left | Served::Again => delivery.settle(Answer::Requeue).await,
        Served::NotHere | Served::OtherVersion => {
            // To the end of the queue: other tickets have their turn first.
            match fleet.queue.publish(&ticket_queue(&target), vec![ticket.encode()]).await {
                Ok(()) => delivery.settle(Answer::Ack).await,
                Err(_) => delivery.settle(Answer::Requeue).await,
            }
        }
    };
    if let Err(error) = answered {
        tracing::debug!(%error, "the broker gives the ticket to others by itself");
    }
    drop(deliveries);
    !matches!(served, Served::NotHere | Served::OtherVersion)
}

/// Serves one job, without a ticket, until the job is over or the worker is asked to end.
pub async fn serve_job(fleet: &Fleet, settings: &WorkerSettings, job_id: &str, end: &NodeEnd) -> Parting {
    loop {
        let service = Service { fleet, settings, end };
        match service.serve(job_id, None).await {
            // Its result is being written by another node: how it ends shows then.
            Served::Over(Parting::JobGoesOn) | Served::Again | Served::NotHere => {}
            Served::Over(parting) => return parting,
            Served::OtherVersion => return Parting::OtherVersion,
            Served::Left | Served::Useless => return Parting::JobGoesOn,
        }
        tokio::select! {
            () = tokio::time::sleep(USELESS_PAUSE) => {}
            () = end.drain.cancelled() => return Parting::JobGoesOn,
        }
    }
}
