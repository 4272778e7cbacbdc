//! The queues of a fleet: their names, their options, and the tickets that invite workers to a job.

use std::time::Duration;

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::queue::{QueueError, QueueErrorKind, QueueOptions};
use prs_common::seal::{self, Seal};
use serde::{Deserialize, Serialize};

use crate::JobContext;

/// A broker may take a message back that was not settled for so long, seconds. A ticket is held as long as a worker
/// serves the job.
const TICKET_TIMEOUT: u64 = 365 * 24 * 3600;
/// Least such time for a mini-batch, seconds: the usual limit of brokers.
const LEAST_TIMEOUT: u64 = 1800;

/// Name of the queue with the tickets of a compute target.
pub fn ticket_queue(target: &str) -> String {
    format!("prs.fleet.{target}")
}

/// Makes the queue with the tickets to `job`, where there is none.
async fn declare_tickets(job: &JobContext) -> Result<(), QueueError> {
    let options = QueueOptions { consumer_timeout: Some(TICKET_TIMEOUT) };
    job.queue.declare(&ticket_queue(&job.spec.compute_target), options).await
}

/// Invites so many workers to `job`.
pub async fn invite(job: &JobContext, workers: u32) -> Result<(), QueueError> {
    declare_tickets(job).await?;
    let tickets = vec![Ticket::to(job).encode(); workers as usize];
    job.queue.publish(&ticket_queue(&job.spec.compute_target), tickets).await
}

/// How many tickets wait for workers of the job's target, to this job or another; `None` when the broker has lost
/// them all.
pub async fn tickets_waiting(job: &JobContext) -> Result<Option<u64>, QueueError> {
    match job.queue.depth(&ticket_queue(&job.spec.compute_target)).await {
        Ok(depth) => Ok(Some(depth.ready)),
        Err(error) if error.kind == QueueErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Options of the queue of a job's mini-batches. One may wait for another that takes its full time, be loaded,
/// run, and wait for its commit.
pub fn job_queue_options(spec: &JobSpec) -> QueueOptions {
    let one = spec.run_invocation_timeout + spec.task_overhead_timeout;
    QueueOptions { consumer_timeout: Some((4 * one).max(LEAST_TIMEOUT)) }
}

/// What somebody who submits `spec` should know of the broker.
pub fn reservation(spec: &JobSpec, unsettled_limit: Option<Duration>) -> Option<String> {
    let one = Duration::from_secs(spec.run_invocation_timeout + spec.task_overhead_timeout);
    let limit = unsettled_limit.filter(|limit| one * 2 > *limit)?;
    Some(format!(
        "the broker takes back what is not settled within {} min, and a mini-batch of this job may take {} min: it may run twice (its first outcome counts); use RabbitMQ 3.12 or newer, or raise consumer_timeout there",
        limit.as_secs() / 60,
        one.as_secs().div_ceil(60)
    ))
}

/// An invitation: whoever takes it may join the job as a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Version of prs that the job was submitted with; workers of another one leave it alone.
    pub prs_version: String,
    /// The job.
    pub job_id: String,
    /// Which start of it.
    pub incarnation: u32,
}

impl Ticket {
    /// A ticket to `job`, for workers of this version.
    pub fn to(job: &JobContext) -> Self {
        Self {
            prs_version: env!("CARGO_PKG_VERSION").to_owned(),
            job_id: job.id.clone(),
            incarnation: job.incarnation,
        }
    }

    /// The message.
    pub fn encode(&self) -> Bytes {
        let text = serde_json::to_string_pretty(self).expect("a ticket holds only text and a number");
        seal::seal(text).into()
    }

    /// Reads a message; the error says why it is no ticket.
    pub fn decode(body: &[u8]) -> Result<Self, String> {
        if seal::check(body) == Seal::Broken {
            return Err("its checksum is another than when it was sent".to_owned());
        }
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_leads_to_its_job_or_nowhere() {
        let ticket = Ticket { prs_version: "1.2.3".into(), job_id: "job-1".into(), incarnation: 7 };
        let body = ticket.encode();
        assert_eq!(Ticket::decode(&body).as_ref(), Ok(&ticket));
        for bit in 0..body.len() * 8 {
            let mut other = body.to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Ticket::decode(&other).is_ok_and(|read| read == ticket) || Ticket::decode(&other).is_err()
            );
        }
    }

    #[test]
    fn only_long_mini_batches_are_too_long_for_an_old_broker() {
        let spec =
            |timeout| JobSpec { run_invocation_timeout: timeout, ..JobSpec::new("job", "/", "x.py", vec![]) };
        let limit = Some(Duration::from_mins(30));
        assert_eq!(reservation(&spec(60), limit), None);
        assert_eq!(reservation(&spec(86_400), None), None);
        let said = reservation(&spec(3_600), limit).unwrap();
        assert!(said.contains("within 30 min") && said.contains("may take 70 min"), "{said}");
    }
}
