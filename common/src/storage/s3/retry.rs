//! When a failed request is made again, after how long, and how long one may take.
//!
//! The decisions are pure functions; [`Retry`] only keeps the count and sleeps. They are made here and not in the SDK,
//! whose retries would stand beside this loop and not in its place: they do not reach into the body of an answer, which
//! `read` goes on with; a classifier of theirs cannot ask the server whether a refusal may pass (`trust`); and all attempts
//! have one time-out, whatever the size of the request.

use std::time::{Duration, Instant};

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::Bucket;
use super::failure::S3Failure;
use crate::backoff::Backoff;
use crate::storage::StorageErrorKind;

/// Requests made for one call at most.
const ATTEMPTS: u32 = 6;
/// The same while a bucket is opened, which a user waits for.
const ATTEMPTS_TO_OPEN: u32 = 3;
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
    pub(super) bucket: &'a Bucket,
    pub(super) what: &'static str,
    /// The object that it is about, or the beginning of those.
    pub(super) key: &'a str,
    bytes: u64,
    attempts: u32,
    /// Attempts that were refused.
    pub(super) refusals: u32,
    started: Instant,
    backoff: Backoff,
}

impl<'a> Retry<'a> {
    /// A call about the object `key`, or about those with this prefix, that sends `bytes` or lets the server handle so
    /// many.
    pub(super) fn new(bucket: &'a Bucket, what: &'static str, key: &'a str, bytes: u64) -> Self {
        let (started, backoff) = (Instant::now(), Backoff::new(WAITS.0, WAITS.1));
        Self { bucket, what, key, bytes, attempts: 0, refusals: 0, started, backoff }
    }

    /// Waits for one attempt as long as is sensible.
    pub(super) async fn attempt<T, E: ProvideErrorMetadata + std::error::Error + 'static>(
        &self,
        request: impl Future<Output = Result<T, SdkError<E>>> + Send,
    ) -> Result<T, S3Failure> {
        let allowed = allowance(self.attempts, self.bytes);
        // A request of the SDK is many kilobytes of state.
        let answer = tokio::time::timeout(allowed, Box::pin(request)).await;
        let answer = answer
            .map_err(|_| S3Failure::unanswered(format!("no answer within {} s", allowed.as_secs())))??;
        self.has_been_accepted();
        Ok(answer)
    }

    /// Returns when the next attempt is due, or gives the failure back when there is none.
    pub(super) async fn after(&mut self, failure: S3Failure) -> Result<(), S3Failure> {
        self.attempts += 1;
        if self.attempts == 1 && self.started.elapsed() >= give_up_after(self.bytes) {
            // One attempt never takes so long: nothing polled the call, as happens to what a stream reads ahead.
            self.started = Instant::now();
        }
        self.refusals += u32::from(failure.is_refusal);
        let failure = S3Failure { attempts: self.attempts, ..failure };
        let failure = self.judged(failure).await;
        let elapsed = self.started.elapsed();
        if failure.kind != StorageErrorKind::Unavailable {
            return Err(failure);
        }
        let most = if self.bucket.trust.is_open() { ATTEMPTS } else { ATTEMPTS_TO_OPEN };
        if self.attempts >= most || elapsed >= give_up_after(self.bytes) {
            let message = format!(
                "{} (given up after {} attempts in {:.1} s)",
                failure.message,
                self.attempts,
                elapsed.as_secs_f64()
            );
            return Err(S3Failure { message, ..failure });
        }
        let wait = self.backoff.pause();
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

impl Bucket {
    /// Makes requests until one succeeds or there is no use in another; `what`, `key` and `bytes` as [`Retry::new`] has
    /// them. A success counts only once `confirm` finds in it what an S3 server answers: a proxy, a captive portal or a
    /// server of web pages also answers 200.
    pub(super) async fn call<T, U, E, F>(
        &self,
        (what, key, bytes): (&'static str, &str, u64),
        mut request: impl FnMut() -> F,
        confirm: impl Fn(T) -> Result<U, S3Failure>,
    ) -> Result<U, S3Failure>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>> + Send,
    {
        let mut retry = Retry::new(self, what, key, bytes);
        loop {
            match retry.attempt(request()).await.and_then(&confirm) {
                Ok(answer) => return Ok(answer),
                Err(failure) => retry.after(failure).await?,
            }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        // Nobody has opened it yet.
        let options = crate::storage::S3Options {
            region: Some("us-east-1".to_owned()),
            credentials: Some(crate::storage::S3Credentials {
                access_key: "a".to_owned(),
                secret_key: "b".to_owned(),
            }),
            ..Default::default()
        };
        let bucket = Bucket::new("bucket", "", &options).await.unwrap();
        let mut retry = Retry::new(&bucket, "test", "", 0);
        for _ in 1..ATTEMPTS_TO_OPEN {
            retry.after(S3Failure::unanswered("cut")).await.unwrap();
        }
        let last = retry.after(S3Failure::unanswered("cut")).await.unwrap_err();
        assert_eq!(last.attempts, ATTEMPTS_TO_OPEN);
        assert!(last.message.contains("given up after 3 attempts"), "{}", last.message);
        let refused = S3Failure::of(StorageErrorKind::PermissionDenied, "no");
        assert_eq!(Retry::new(&bucket, "test", "", 0).after(refused).await.unwrap_err().attempts, 1);
    }
}
