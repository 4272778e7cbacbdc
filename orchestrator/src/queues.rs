//! What the queue of a job's mini-batches is asked of its broker.

use prs_common::job::JobSpec;
use prs_common::queue::QueueOptions;

/// Least such time for a mini-batch, seconds: the usual limit of brokers.
const LEAST_TIMEOUT: u64 = 1800;

/// Options of the queue of a job's mini-batches. One may wait for another that takes its full time, be loaded,
/// run, and wait for its commit.
pub fn job_queue_options(spec: &JobSpec) -> QueueOptions {
    let one = spec.run_invocation_timeout + spec.task_overhead_timeout;
    QueueOptions { consumer_timeout: Some((4 * one).max(LEAST_TIMEOUT)) }
}
