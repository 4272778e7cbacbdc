//! The queue of a job's mini-batches, and the next one where the broker does not serve it.
//!
//! A queue without its leader, or without the majority of its hosts, gives no answers and may come back with all it
//! held. It is nobody's to delete then. The job leaves it: a note in storage says how many queues were left, the
//! scheduler goes on with the next one, and consumers follow. What the left queue held and has no outcome is found
//! missing and published again; should it be served again, what is in it runs twice at most and counts once. All queues
//! of a job are deleted when it has ended.

use std::time::Duration;

use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::queue::{QueueError, QueueOptions};
use prs_common::storage::{PutMode, StorageError, StorageExt};
use tokio::time::{Instant, sleep};

use crate::JobContext;

/// Least such time for a mini-batch, seconds: the usual limit of brokers.
const LEAST_TIMEOUT: u64 = 1800;
/// How long deleting the queues of a job that has ended is tried again. One that takes longer is not served: nobody waits.
const DELETING: Duration = Duration::from_secs(10);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Options of the queue of a job's mini-batches. One may wait for another that takes its full time, be loaded,
/// run, and wait for its commit. Each further try, which a node makes without giving the message back, may wait for another
/// mini-batch, too, and run; so may the parts of one that is split run.
pub fn job_queue_options(spec: &JobSpec) -> QueueOptions {
    let one = spec.run_invocation_timeout + spec.task_overhead_timeout;
    let further = u64::from(spec.run_max_try.saturating_sub(1));
    let parts = if spec.split_failed { JobSpec::MOST_TRIES_OF_PARTS as u64 } else { 0 };
    let all =
        one.saturating_mul(4 + 2 * further).saturating_add(parts.saturating_mul(spec.run_invocation_timeout));
    QueueOptions { consumer_timeout: Some(all.max(LEAST_TIMEOUT)) }
}

/// Name of the queue `number` of a job, from 0.
pub fn name(job: &JobContext, number: u32) -> String {
    match number {
        0 => job.queue_name(),
        number => format!("{}~{number}", job.queue_name()),
    }
}

/// Number of the queue that the job is at.
pub async fn present(job: &JobContext) -> Result<u32, StorageError> {
    let listed = job.storage.list_all(layout::LEFT_QUEUES).await?;
    let left = listed.iter().filter_map(|object| layout::left_queue_parts(&object.key));
    let of_this_start = left.filter(|(incarnation, _)| *incarnation == job.incarnation);
    Ok(of_this_start.map(|(_, number)| number + 1).max().unwrap_or(0))
}

/// Leaves the queue `number`, which the broker does not serve, for the next one, where the broker makes that: without the
/// majority of its hosts it may do neither, and the job waits for them. Where that fails, the next attempt to publish comes
/// to the same point.
pub(crate) async fn leave(job: &JobContext, number: u32) {
    let (left, next) = (name(job, number), name(job, number + 1));
    if let Err(error) = job.queue.declare(&next, job_queue_options(&job.spec)).await {
        tracing::warn!(job = job.id, queue = left, %error, "the queue is not served, nor is another one made; the job waits");
        return;
    }
    let note = layout::left_queue(job.incarnation, number);
    if let Err(error) = job.storage.put(&note, "".into(), PutMode::Overwrite).await {
        tracing::warn!(job = job.id, queue = left, %error, "the queue is not served, and cannot be left for now");
        return;
    }
    tracing::warn!(
        job = job.id,
        queue = left,
        next,
        "the broker does not serve the queue; the job goes on with another"
    );
}

/// Deletes all queues of the job; the last error, after all were tried.
pub(crate) async fn delete_all(job: &JobContext) -> Result<(), QueueError> {
    let last = match present(job).await {
        Ok(last) => last,
        Err(error) => {
            tracing::warn!(job = job.id, %error, "queues that the job has left may be left behind");
            0
        }
    };
    let mut outcome = Ok(());
    // And the next one, which may have been made before the job came to leave for it.
    for number in 0..=last + 1 {
        outcome = job.queue.delete(&name(job, number)).await.and(outcome);
    }
    outcome
}

/// The same for a job that has ended: again for a moment where it fails. RabbitMQ closes the connection when it fails to
/// delete a queue that it does not serve, and what was asked next on it fails with that.
pub(crate) async fn delete_all_at_last(job: &JobContext) -> Result<(), QueueError> {
    let deadline = Instant::now() + DELETING;
    loop {
        match delete_all(job).await {
            Err(error) if error.is_retryable() && Instant::now() + PAUSE < deadline => {
                tracing::info!(job = job.id, %error, "the queues of the job are deleted again");
                sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use prs_common::queue::{Deliveries, Depth, EmbeddedQueue, Queue, QueueErrorKind, QueueOptions};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::fixtures::Fixture;
    use crate::orchestrate::clean_up;
    use crate::plan::schedule::{Assignment, Scheduled, schedule};

    /// A broker that does not serve the first queue of a job.
    #[derive(Debug, Default)]
    struct Broker {
        inner: EmbeddedQueue,
        /// Refusals until it serves them again.
        refusals: AtomicUsize,
        /// Whether it makes no queue.
        makes_none: AtomicBool,
        /// Failures until it deletes one.
        failures: AtomicUsize,
    }

    fn told_to_fail(name: &str) -> QueueError {
        let (name, message) = (name.to_owned(), "told to fail".to_owned());
        QueueError { kind: QueueErrorKind::NotServed, name, message }
    }

    impl Broker {
        fn refusing(times: usize) -> Arc<Self> {
            Arc::new(Self { refusals: times.into(), ..Self::default() })
        }
    }

    impl fmt::Display for Broker {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.inner.fmt(f)
        }
    }

    #[async_trait]
    impl Queue for Broker {
        async fn declare(&self, name: &str, options: QueueOptions) -> Result<(), QueueError> {
            if self.makes_none.load(Ordering::SeqCst) {
                return Err(told_to_fail(name));
            }
            self.inner.declare(name, options).await
        }
        async fn publish(&self, name: &str, bodies: Vec<Bytes>) -> Result<(), QueueError> {
            if !name.contains('~') && is_one_of(&self.refusals) {
                return Err(told_to_fail(name));
            }
            self.inner.publish(name, bodies).await
        }
        async fn consume(&self, name: &str, prefetch: usize) -> Result<Box<dyn Deliveries>, QueueError> {
            self.inner.consume(name, prefetch).await
        }
        async fn depth(&self, name: &str) -> Result<Depth, QueueError> {
            self.inner.depth(name).await
        }
        async fn delete(&self, name: &str) -> Result<(), QueueError> {
            if is_one_of(&self.failures) {
                let (name, message) = (name.to_owned(), "INTERNAL_ERROR".to_owned());
                return Err(QueueError { kind: QueueErrorKind::Unavailable, name, message });
            }
            self.inner.delete(name).await
        }
    }

    fn is_one_of(times: &AtomicUsize) -> bool {
        times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// A job with 20 mini-batches whose queue is there.
    async fn fixture(broker: &Arc<Broker>) -> Fixture {
        let mut fixture = Fixture::new(20).await;
        fixture.job.queue = Arc::clone(broker) as _;
        fixture
            .job
            .queue
            .declare(&name(&fixture.job, 0), job_queue_options(&fixture.job.spec))
            .await
            .unwrap();
        fixture
    }

    async fn scheduled(fixture: &Fixture, again: bool) -> Scheduled {
        let assignment = Assignment { again, ..Assignment::default() };
        schedule(&fixture.job, "a", assignment, &CancellationToken::new()).await
    }

    async fn waiting(fixture: &Fixture, number: u32) -> Option<u64> {
        fixture.job.queue.depth(&name(&fixture.job, number)).await.ok().map(|depth| depth.ready)
    }

    #[tokio::test]
    async fn a_queue_that_is_not_served_for_long_is_left_and_not_deleted() {
        let fixture = fixture(&Broker::refusing(usize::MAX)).await;
        assert!(matches!(scheduled(&fixture, false).await, Scheduled::Interrupted { .. }));
        assert_eq!(present(&fixture.job).await.unwrap(), 1);
        assert_eq!(scheduled(&fixture, true).await, Scheduled::Complete);
        assert_eq!((waiting(&fixture, 0).await, waiting(&fixture, 1).await), (Some(0), Some(20)));
        // Who comes late to that point changes nothing.
        leave(&fixture.job, 0).await;
        assert_eq!(present(&fixture.job).await.unwrap(), 1);

        let mut record = fixture.record().await;
        record.start_again();
        let mut later = fixture.job.clone();
        later.incarnation = record.incarnation;
        assert_eq!(present(&later).await.unwrap(), 0, "another start has queues of its own");
        clean_up(&fixture.job).await.unwrap();
        assert_eq!((waiting(&fixture, 0).await, waiting(&fixture, 1).await), (None, None));
    }

    #[tokio::test]
    async fn a_broker_that_makes_no_other_queue_is_waited_for() {
        let broker = Broker::refusing(usize::MAX);
        let fixture = fixture(&broker).await;
        broker.makes_none.store(true, Ordering::SeqCst);
        assert!(matches!(scheduled(&fixture, false).await, Scheduled::Interrupted { .. }));
        assert_eq!(present(&fixture.job).await.unwrap(), 0);
        broker.refusals.store(0, Ordering::SeqCst);
        assert_eq!(scheduled(&fixture, true).await, Scheduled::Complete);
        assert_eq!(waiting(&fixture, 0).await, Some(20));
    }

    #[tokio::test]
    async fn a_queue_that_is_not_served_for_a_moment_is_kept() {
        let mut fixture = fixture(&Broker::refusing(3)).await;
        // Three pauses of a thirtieth: a moment also on a machine that is busy with other things.
        fixture.job.policy.not_served = Duration::from_secs(10);
        assert_eq!(scheduled(&fixture, false).await, Scheduled::Complete);
        assert_eq!(present(&fixture.job).await.unwrap(), 0);
        assert_eq!((waiting(&fixture, 0).await, waiting(&fixture, 1).await), (Some(20), None));
    }

    #[tokio::test]
    async fn queues_of_a_job_that_has_ended_are_deleted_again_where_that_failed() {
        let fixture = fixture(&Arc::new(Broker { failures: 2.into(), ..Broker::default() })).await;
        leave(&fixture.job, 0).await;
        assert_eq!((waiting(&fixture, 0).await, waiting(&fixture, 1).await), (Some(0), Some(0)));
        clean_up(&fixture.job).await.unwrap();
        assert_eq!((waiting(&fixture, 0).await, waiting(&fixture, 1).await), (None, None));
    }
}
