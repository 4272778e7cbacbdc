//! Reading a file of an HTTP server, or a range of it, and looking it up.
//!
//! A read that breaks off continues where it broke, and only within the same state of the file: bytes of two states are never
//! put together, and fewer bytes than promised are never returned. A server that gives no parts of a file is asked for all
//! of it once, into the [`spool`](super::spool).

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::Inner;
use super::answer::{ContentRange, HttpFailure, check_encoding, may_be_over_head};
use super::client::Answer;
use super::spool::Copy;
use super::version::SeenState;
use crate::backoff::Backoff;
use crate::dataset::http_url::{key_shown, path_of};
use crate::storage::GetResult;
use crate::storage::StorageErrorKind::{Changed, Unavailable};

/// Requests made for one call at most, those that brought something not counted.
const ATTEMPTS: u32 = 6;
/// No further attempt starts after this without a byte.
const GIVE_UP: Duration = Duration::from_secs(150);
/// First and longest wait between attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Longest wait that a server may ask for.
const LONGEST_WAIT: u64 = 30;
/// Room made at once for the body of an answer.
const MOST_RESERVED: u64 = 64 << 20;

/// The attempts of one call.
struct Attempts {
    made: u32,
    started: Instant,
    backoff: Backoff,
}

impl Attempts {
    fn new() -> Self {
        Self { made: 0, started: Instant::now(), backoff: Backoff::new(WAITS.0, WAITS.1) }
    }

    /// Returns when the next attempt is due, or gives the failure back when there is none.
    async fn after(&mut self, failure: HttpFailure, key: &str) -> Result<(), HttpFailure> {
        self.made += 1;
        if self.made == 1 && self.started.elapsed() >= GIVE_UP {
            // Nothing polled the call, as happens to what a stream reads ahead.
            self.started = Instant::now();
        }
        let elapsed = self.started.elapsed();
        if failure.kind != Unavailable {
            return Err(failure);
        }
        if self.made >= ATTEMPTS || elapsed >= GIVE_UP {
            let (made, seconds) = (self.made, elapsed.as_secs_f64());
            let message = format!("{} (given up after {made} attempts in {seconds:.1} s)", failure.message);
            return Err(HttpFailure { message, ..failure });
        }
        let wanted = Duration::from_secs(failure.retry_after.unwrap_or(0).min(LONGEST_WAIT));
        let wait = self.backoff.pause().max(wanted);
        tracing::debug!(
            key = %key_shown(key),
            attempt = self.made,
            error = failure.message,
            wait_ms = wait.as_millis() as u64,
            "request to an HTTP server failed, it is made again"
        );
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// A read, as far as it has come.
#[derive(Debug, Default)]
struct Reading {
    bytes: BytesMut,
    /// The state the bytes are of.
    seen: Option<SeenState>,
}

/// How far an attempt brought a read.
enum Step {
    /// Some bytes came, and more may be missing.
    Read,
    /// The file ends before the range starts.
    Beyond,
    /// The server does not give parts of the file.
    NoParts,
}

impl Inner {
    /// Reads `range`, cut at the end of the file; of the `wanted` state, where one is given.
    pub(super) async fn read(
        &self,
        key: &str,
        range: Range<u64>,
        wanted: Option<&SeenState>,
    ) -> Result<GetResult, HttpFailure> {
        if range.is_empty() {
            return self.read_nothing(key, wanted).await;
        }
        let is_whole = range == (0..u64::MAX);
        if !is_whole && self.spool.find(key).is_some() {
            return self.read_copy(key, range, wanted).await;
        }
        let (mut attempts, mut reading) = (Attempts::new(), Reading::default());
        loop {
            let before = reading.bytes.len();
            let step = self.read_on(key, &range, &mut reading, wanted).await;
            if step.is_err() && reading.seen.is_none() {
                // Of a file whose size nobody told; what comes next could be of another state.
                reading = Reading::default();
            }
            if reading.bytes.len() > before {
                // The line is slow or breaks now and then, and it gets there.
                attempts = Attempts::new();
            }
            match step {
                Ok(Step::NoParts) => return self.read_copy(key, range, wanted).await,
                Ok(Step::Beyond) => return self.read_nothing(key, wanted).await,
                Ok(Step::Read) => {
                    let seen = reading.seen.clone().unwrap_or_default();
                    let end = range.end.min(seen.size);
                    if range.start + reading.bytes.len() as u64 >= end {
                        return Ok(given(reading.bytes.freeze(), &seen));
                    }
                    if reading.bytes.len() == before {
                        attempts.after(HttpFailure::unanswered("the answer was empty"), key).await?;
                    }
                }
                Err(failure) if failure.kind == Changed && wanted.is_none() => {
                    reading = Reading::default();
                    let replaced = HttpFailure::unanswered("the file was replaced while it was read");
                    attempts.after(replaced, key).await?;
                }
                Err(failure) => attempts.after(failure, key).await?,
            }
        }
    }

    /// What a read gives that has no bytes.
    async fn read_nothing(&self, key: &str, wanted: Option<&SeenState>) -> Result<GetResult, HttpFailure> {
        let seen = self.look_up(key).await?;
        if wanted.is_some_and(|wanted| !wanted.agrees(&seen)) {
            return Err(HttpFailure::replaced());
        }
        Ok(given(Bytes::new(), &seen))
    }

    /// One attempt at the rest.
    async fn read_on(
        &self,
        key: &str,
        range: &Range<u64>,
        reading: &mut Reading,
        wanted: Option<&SeenState>,
    ) -> Result<Step, HttpFailure> {
        let start = range.start + reading.bytes.len() as u64;
        let wanted = wanted.or(reading.seen.as_ref()).cloned();
        let wanted = wanted.as_ref();
        let mut headers = Vec::new();
        match (start, range.end) {
            (0, u64::MAX) => {}
            (start, u64::MAX) => headers.push(("range", format!("bytes={start}-"))),
            (start, end) => headers.push(("range", format!("bytes={start}-{}", end - 1))),
        }
        headers.extend(wanted.and_then(SeenState::condition).map(|(name, value)| (name, value.to_owned())));
        let answer = self.server.ask("GET", key, &headers).await?;
        // What is still to come, and the size of the file; not known where the server does not tell.
        let (mut missing, size) = match answer.status {
            206 => match part(&answer)? {
                ContentRange { part: Some((first, end)), size } if first == start && end <= range.end => {
                    match size.or(wanted.map(|wanted| wanted.size)) {
                        None => return Ok(Step::NoParts),
                        Some(size) => (Some(end - start), Some(size)),
                    }
                }
                _ => {
                    return Err(HttpFailure::unanswered(
                        "the server gives another part of the file than was asked for",
                    ));
                }
            },
            200 if start == 0
                && (range.end == u64::MAX || answer.length().is_some_and(|size| size <= range.end)) =>
            {
                (answer.length(), answer.length())
            }
            200 => return Ok(Step::NoParts),
            416 if reading.bytes.is_empty() => return Ok(Step::Beyond),
            416 => return Err(HttpFailure::replaced()),
            _ => return Err(answer.failure()),
        };
        check_encoding(answer.header("content-encoding"), path_of(key))?;
        let mut seen = answer.seen(size.unwrap_or_default());
        if size.is_some() && wanted.is_some_and(|wanted| !wanted.agrees(&seen)) {
            return Err(HttpFailure::replaced());
        }
        if size.is_some() {
            reading.seen = Some(seen.clone());
        }
        reading.bytes.reserve(missing.unwrap_or(0).min(MOST_RESERVED) as usize);
        let mut body = answer.into_body();
        while let Some(bytes) = body.next().await? {
            if let Some(missing) = &mut missing {
                let left = missing.checked_sub(bytes.len() as u64);
                *missing =
                    left.ok_or_else(|| HttpFailure::unanswered("the answer is longer than it said"))?;
            }
            reading.bytes.extend_from_slice(&bytes);
        }
        if let Some(missing) = missing.filter(|missing| *missing > 0) {
            return Err(HttpFailure::unanswered(format!("the answer ended {missing} bytes too early")));
        }
        if size.is_none() {
            seen.size = reading.bytes.len() as u64;
            if wanted.is_some_and(|wanted| !wanted.agrees(&seen)) {
                return Err(HttpFailure::replaced());
            }
            reading.seen = Some(seen);
        }
        Ok(Step::Read)
    }

    /// Looks a file up.
    pub(super) async fn look_up(&self, key: &str) -> Result<SeenState, HttpFailure> {
        let mut attempts = Attempts::new();
        loop {
            match self.look_up_once(key).await {
                Ok(Some(seen)) => return Ok(seen),
                // How large it is shows once it is here.
                Ok(None) => return Ok(self.copy(key, None).await?.1),
                Err(failure) => attempts.after(failure, key).await?,
            }
        }
    }

    /// The state of a file; nothing where the server does not tell its size.
    async fn look_up_once(&self, key: &str) -> Result<Option<SeenState>, HttpFailure> {
        let answer = self.server.ask("HEAD", key, &[]).await?;
        let compressed = |answer: &Answer| check_encoding(answer.header("content-encoding"), path_of(key));
        match answer.status {
            // Some servers tell no length, or one of 0, with an answer that has no body.
            200 => {
                if let Some(size) = answer.length().filter(|size| *size > 0) {
                    compressed(&answer)?;
                    return Ok(Some(answer.seen(size)));
                }
            }
            status if may_be_over_head(status) => {}
            _ => return Err(answer.failure()),
        }
        let answer = self.server.ask("GET", key, &[("range", "bytes=0-0".to_owned())]).await?;
        let size = match answer.status {
            206 => part(&answer)?.size,
            200 => answer.length(),
            416 => answer
                .header("content-range")
                .and_then(ContentRange::parse)
                .map_or(Some(0), |range| range.size),
            _ => return Err(answer.failure()),
        };
        compressed(&answer)?;
        Ok(size.map(|size| answer.seen(size)))
    }

    /// Reads `range` of a copy of the file.
    async fn read_copy(
        &self,
        key: &str,
        range: Range<u64>,
        wanted: Option<&SeenState>,
    ) -> Result<GetResult, HttpFailure> {
        let (bytes, seen) = self.copy(key, Some((range, wanted))).await?;
        Ok(given(bytes, &seen))
    }

    /// Some bytes of the copy of the file, which is made where there is none of the wanted state.
    async fn copy(
        &self,
        key: &str,
        wanted: Option<(Range<u64>, Option<&SeenState>)>,
    ) -> Result<(Bytes, SeenState), HttpFailure> {
        let (range, wanted) = wanted.unwrap_or((0..0, None));
        for is_last in [false, true] {
            let made = self.spool.want(key);
            let copy = match made.get_or_try_init(|| self.fetch_copy(key)).await {
                Ok(copy) => copy,
                Err(failure) => {
                    self.spool.forget(key, &made);
                    return Err(failure);
                }
            };
            if wanted.is_none_or(|wanted| wanted.agrees(&copy.seen)) {
                return Ok((copy.read(range).await?, copy.seen.clone()));
            }
            // It may be of what was there before.
            self.spool.forget(key, &made);
            if is_last {
                break;
            }
        }
        Err(HttpFailure::replaced())
    }

    /// Reads a whole file into a copy of it.
    async fn fetch_copy(&self, key: &str) -> Result<Copy, HttpFailure> {
        tracing::debug!(server = self.server.url, key = %key_shown(key), "the server gives no parts of a file; all of it is read");
        let mut attempts = Attempts::new();
        loop {
            let read = async {
                let answer = self.server.ask("GET", key, &[]).await?;
                if answer.status != 200 {
                    return Err(answer.failure());
                }
                check_encoding(answer.header("content-encoding"), path_of(key))?;
                let (size, seen) = (answer.length(), answer.seen(0));
                Copy::of(answer.into_body(), size, seen).await
            };
            match read.await {
                Ok(copy) => return Ok(copy),
                Err(failure) => attempts.after(failure, key).await?,
            }
        }
    }
}

/// Which part of the file an answer says it has.
fn part(answer: &Answer) -> Result<ContentRange, HttpFailure> {
    let told = answer.header("content-range").and_then(ContentRange::parse);
    told.ok_or_else(|| HttpFailure::unanswered("the server does not say which part of the file it gives"))
}

fn given(bytes: Bytes, seen: &SeenState) -> GetResult {
    GetResult { bytes, size: seen.size, version: seen.to_string() }
}
