//! What the queue of a job's mini-batches is asked of its broker.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
