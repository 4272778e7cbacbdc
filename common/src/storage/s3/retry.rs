//! When a failed request is made again, after how long, and how long one may take.
//!
//! The decisions are pure functions; [`Retry`] only keeps the count and sleeps. They are made here and not in
//! the SDK, whose own retries do not reach into the body of an answer and share a budget between calls that an
//! outage of some seconds uses up.

use std::time::{Duration, Instant};

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::Bucket;
use super::failure::Failure;
use crate::storage::StorageErrorKind;

/// Requests made for one call at most.
const ATTEMPTS: u32 = 6;
/// An answer, or the next bytes of it, that stay away for so long will not come.
pub(super) const STALL: Duration = Duration::from_secs(10);
/// No further attempt at a small request starts after this.
const GIVE_UP: Duration = Duration::from_secs(30);
/// First and longest wait between attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Bytes a second that the first attempt must reach; each further one is content with half.
const RATE: u64 = 1 << 20;
/// Bytes a second below which a call gives up.
const LEAST_RATE: u64 = 64 << 10;

/// The attempts of one call.
pub(super) struct Retry<'a> {
    what: &'static str,
    /// The bucket and the object that it is about: what was accepted before may be accepted again.
    about: Option<(&'a Bucket, &'a str)>,
    /// Attempts that were refused.
    refusals: u32,
    bytes: u64,
    attempts: u32,
    most: u32,
    started: Instant,
}

impl<'a> Retry<'a> {
    /// A call that sends `bytes`, or lets the server handle so many.
    pub(super) fn new(what: &'static str, bytes: u64) -> Self {
        Self { what, about: None, refusals: 0, bytes, attempts: 0, most: ATTEMPTS, started: Instant::now() }
    }

    /// A call about the object `key`, or about those with this prefix, in an open bucket.
    pub(super) fn about(mut self, bucket: &'a Bucket, key: &'a str) -> Self {
        self.about = Some((bucket, key));
        self
    }

    /// With fewer attempts than usual, where somebody waits for the answer.
    pub(super) fn at_most(mut self, attempts: u32) -> Self {
        self.most = attempts;
        self
    }

    /// Waits for one attempt as long as is sensible.
    pub(super) fn limit<T, E: ProvideErrorMetadata + std::error::Error + 'static>(
        &self,
        request: impl Future<Output = Result<T, SdkError<E>>> + Send,
    ) -> impl Future<Output = Result<T, Failure>> + Send {
        let allowed = allowance(self.attempts, self.bytes);
        // A request of the SDK is many kilobytes of state.
        let request = tokio::time::timeout(allowed, Box::pin(request));
        let (what, about) = (self.what, self.about);
        async move {
            match request.await {
                Ok(Ok(answer)) => {
                    if let Some((bucket, key)) = about {
                        bucket.has_accepted(what, key);
                    }
                    Ok(answer)
                }
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Failure::unanswered(format!("no answer within {} s", allowed.as_secs()))),
            }
        }
    }

    /// Returns when the next attempt is due, or gives the failure back when there is none.
    pub(super) async fn after(&mut self, failure: Failure) -> Result<(), Failure> {
        self.attempts += 1;
        let mut failure = Failure { attempts: self.attempts, ..failure };
        self.refusals += u32::from(failure.is_refusal);
        if let Some((bucket, key)) = self.about {
            failure = bucket.judged(self.what, key, failure, self.refusals).await;
        }
        let elapsed = self.started.elapsed();
        if failure.kind != StorageErrorKind::Unavailable {
            return Err(failure);
        }
        if self.attempts >= self.most || elapsed >= give_up_after(self.bytes) {
            let message = format!(
                "{} (given up after {} attempts in {:.1} s)",
                failure.message,
                self.attempts,
                elapsed.as_secs_f64()
            );
            return Err(Failure { message, ..failure });
        }
        let wait = backoff(self.attempts, random());
        tracing::debug!(
            request = self.what,
            attempt = self.attempts,
            error = failure.message,
            wait_ms = wait.as_millis() as u64,
            "request to object storage failed, it is made again"
        );
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Makes requests until one succeeds or there is no use in another.
pub(super) async fn retried<T, E, F>(retry: Retry<'_>, request: impl FnMut() -> F) -> Result<T, Failure>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    F: Future<Output = Result<T, SdkError<E>>> + Send,
{
    confirmed(retry, request, Ok).await
}

/// The same, where a success counts only once `confirm` finds in it what an S3 server answers: a proxy, a captive
/// portal or a server of web pages also answers 200.
pub(super) async fn confirmed<T, U, E, F>(
    mut retry: Retry<'_>,
    mut request: impl FnMut() -> F,
    confirm: impl Fn(T) -> Result<U, Failure>,
) -> Result<U, Failure>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    F: Future<Output = Result<T, SdkError<E>>> + Send,
{
    loop {
        match retry.limit(request()).await.and_then(&confirm) {
            Ok(answer) => return Ok(answer),
            Err(failure) => retry.after(failure).await?,
        }
    }
}

/// How long an attempt may take after `failed` others: little at first, so that a connection that died is left
/// soon, and more each time, so that a slow line gets there.
fn allowance(failed: u32, bytes: u64) -> Duration {
    STALL + Duration::from_millis(bytes.saturating_mul(1000 << failed.min(10)) / RATE)
}

fn give_up_after(bytes: u64) -> Duration {
    GIVE_UP + Duration::from_secs(bytes / LEAST_RATE)
}

/// The wait after `failed` attempts: doubling, of which `random` leaves between the half and all, so that many
/// who failed together do not come back together.
fn backoff(failed: u32, random: u64) -> Duration {
    let whole = WAITS.0.saturating_mul(1 << (failed - 1).min(10)).min(WAITS.1);
    whole.mul_f64(0.5 + (random % 1024) as f64 / 2048.0)
}

fn random() -> u64 {
    // Without randomness the waits are only less spread.
    getrandom::u64().unwrap_or(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_spread() {
        let waits: Vec<_> = (1..6).map(|failed| backoff(failed, 0).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800]);
        assert_eq!(backoff(1, 1023).as_millis(), 99);
        assert_eq!(backoff(40, 0).as_millis(), 2500);
    }

    #[test]
    fn a_small_request_is_left_soon_and_a_large_one_gets_its_time() {
        const PART: u64 = 8 << 20;
        for (failed, bytes, seconds) in [(0, 0, 10), (5, 0, 10), (0, PART, 18), (1, PART, 26), (4, PART, 138)]
        {
            assert_eq!(allowance(failed, bytes).as_secs(), seconds, "{failed} {bytes}");
        }
        assert_eq!(give_up_after(10_000).as_secs(), 30);
        assert_eq!(give_up_after(PART).as_secs(), 158);
    }

    #[tokio::test]
    async fn attempts_end() {
        let mut retry = Retry::new("test", 0).at_most(2);
        retry.after(Failure::unanswered("cut")).await.unwrap();
        let last = retry.after(Failure::unanswered("cut")).await.unwrap_err();
        assert_eq!(last.attempts, 2);
        assert!(last.message.contains("given up after 2 attempts"), "{}", last.message);
        let refused = Failure { kind: StorageErrorKind::PermissionDenied, ..Failure::unanswered("no") };
        assert_eq!(Retry::new("test", 0).after(refused).await.unwrap_err().attempts, 1);
    }
}
