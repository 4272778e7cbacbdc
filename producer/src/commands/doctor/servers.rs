//! Whether the servers of the fleet can be reached, and let this program do what prs does with them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::queue::{Queue, QueueError, QueueErrorKind, QueueOptions};
use prs_common::servers::{ServerUrls, open_broker, open_ledger};
use prs_common::storage::{self, PutMode, Storage, StorageError, StorageErrorKind, StorageExt};
use prs_common::timestamp::now_us;

use super::{Check, Subject, Verdict};

/// How long a message may take through the broker.
const DELIVERY: Duration = Duration::from_secs(10);
/// A difference of clocks that leads to refused requests sooner or later, and makes logs hard to read.
const CLOCK: Duration = Duration::from_secs(30);
const CONTENT: &[u8] = b"prs doctor";

/// Looks at the three side by side.
pub(super) async fn look(urls: &ServerUrls) -> Vec<Check> {
    let (broker, redis, storage) =
        tokio::join!(broker(&urls.broker), redis(&urls.redis), storage(&urls.storage));
    let checks = broker.into_iter().chain(redis).chain(storage);
    checks.map(|check| Check { subject: Subject::Server, ..check }).collect()
}

async fn broker(url: &str) -> Vec<Check> {
    let failed = |error: QueueError| {
        let rights = "a user of prs needs to configure, write and read queues in its vhost";
        let remedy = remedy(error.is_retryable(), rights);
        vec![Check::new("broker", Verdict::Fail, error.to_string(), remedy)]
    };
    let queue = match open_broker(url).await {
        Ok(queue) => queue,
        Err(error) => return failed(error),
    };
    let began = Instant::now();
    let name = format!("prs.doctor.{}", unique());
    let tried = through(&*queue, &name).await;
    let deleted = queue.delete(&name).await;
    let took = began.elapsed();
    queue.close().await;
    if let Err(error) = tried.and(deleted) {
        return failed(error);
    }
    let finding = format!("{queue}; a queue and a message in {} ms", took.as_millis());
    vec![Check::new("broker", Verdict::Ok, finding, "")]
}

/// Sends a message through a queue of its own.
async fn through(queue: &dyn Queue, name: &str) -> Result<(), QueueError> {
    queue.declare(name, QueueOptions::default()).await?;
    queue.publish(name, vec![Bytes::from_static(CONTENT)]).await?;
    let mut deliveries = queue.consume(name, 1).await?;
    let delivered = tokio::time::timeout(DELIVERY, deliveries.next(1)).await.unwrap_or_default();
    match delivered.into_iter().next() {
        Some(delivery) => delivery.ack(),
        None => Err(QueueError {
            kind: QueueErrorKind::Unavailable,
            name: name.to_owned(),
            message: format!("a message was not delivered within {} s", DELIVERY.as_secs()),
        }),
    }
}

async fn redis(url: &str) -> Vec<Check> {
    // It tries every command that prs needs.
    let ledger = match open_ledger(url, None).await {
        Ok(ledger) => ledger,
        Err(error) => {
            let rights = "a user of prs needs scripts (eval), and the keys and channels prs:*";
            let remedy = remedy(error.is_retryable(), rights);
            return vec![Check::new("redis", Verdict::Fail, error.to_string(), remedy)];
        }
    };
    let asked = now_us();
    let (time, version) = match ledger.clock().await {
        Ok(answer) => answer,
        Err(error) => {
            let remedy = remedy(error.is_retryable(), "a user of prs needs the command TIME");
            return vec![Check::new("redis", Verdict::Fail, error.to_string(), remedy)];
        }
    };
    let answered = now_us();
    let version = if version.is_empty() { String::new() } else { format!(", Redis {version}") };
    let took = (answered - asked) as f64 / 1e3;
    let found = Check::new("redis", Verdict::Ok, format!("{ledger}{version}; an answer in {took:.1} ms"), "");
    vec![found, clock(time, asked, answered)]
}

/// Compares the clock of the server with that of this host, which it was `asked` and had `answered` by, microseconds.
fn clock(time: u64, asked: u64, answered: u64) -> Check {
    let (early, late) = (asked.saturating_sub(time), time.saturating_sub(answered));
    let differs = Duration::from_micros(early.max(late));
    let (verdict, finding) = if differs < CLOCK {
        (Verdict::Ok, format!("within {:.1} s of the clock of Redis", differs.as_secs_f64().max(0.1)))
    } else {
        let which = if early > late { "ahead of" } else { "behind" };
        (Verdict::Warn, format!("{:.0} s {which} that of Redis", differs.as_secs_f64()))
    };
    Check::new("clock", verdict, finding, "have both set by NTP: S3 refuses requests with a wrong time")
}

async fn storage(url: &str) -> Vec<Check> {
    let failed = |error: &StorageError| {
        let rights =
            "a user of prs needs to list the bucket, and to put, get and delete objects below its prefix";
        let remedy = remedy(error.is_retryable(), rights);
        vec![Check::new("storage", Verdict::Fail, error.to_string(), remedy)]
    };
    let storage = match storage::open(url).await {
        Ok(storage) => storage,
        Err(error) => return failed(&error),
    };
    let began = Instant::now();
    let key = format!(".prs-doctor-{}", unique());
    let used = used(&*storage, &key).await;
    let deleted = storage.delete(&key).await;
    let took = began.elapsed();
    let is_conditional = match used.and_then(|is| deleted.map(|()| is)) {
        Ok(is_conditional) => is_conditional,
        Err(error) => return failed(&error),
    };
    let finding = format!("{storage}; put, get and delete in {} ms", took.as_millis());
    let verdict = if is_conditional { Verdict::Ok } else { Verdict::Warn };
    let remedy = "it does not heed conditional writes: where two commands write at the same moment, the later one wins; \
                  use a store that knows If-Match and If-None-Match";
    vec![Check::new("storage", verdict, finding, remedy)]
}

/// Does what prs does with a storage that was opened, and so has let itself be listed; whether it heeds conditions.
async fn used(storage: &dyn Storage, key: &str) -> Result<bool, StorageError> {
    let is_conditional = storage.probe(key).await?;
    storage.put(key, Bytes::from_static(CONTENT).into(), PutMode::Create).await?;
    let wrong = |message: &str| StorageError {
        kind: StorageErrorKind::Damaged,
        place: storage.to_string(),
        key: key.to_owned(),
        message: message.to_owned(),
    };
    if storage.get(key).await? != CONTENT {
        return Err(wrong("it returns something other than what was written"));
    }
    if storage.head(key).await?.size != CONTENT.len() as u64 {
        return Err(wrong("it reports a size other than that of what was written"));
    }
    Ok(is_conditional)
}

/// What to do about a server that cannot be reached, or does not let this program do what it needs.
fn remedy(is_unreachable: bool, rights: &str) -> String {
    if is_unreachable { "start it, or correct its URL".to_owned() } else { rights.to_owned() }
}

/// Part of a name that nobody else has.
fn unique() -> String {
    format!("{}-{:x}", std::process::id(), now_us())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_what_the_answer_took() {
        let second = 1_000_000;
        for (time, verdict) in [
            (100 * second, Verdict::Ok),
            (90 * second, Verdict::Ok),
            (131 * second, Verdict::Ok),
            (10 * second, Verdict::Warn),
            (200 * second, Verdict::Warn),
        ] {
            assert_eq!(clock(time, 99 * second, 102 * second).verdict, verdict, "{time}");
        }
        assert_eq!(clock(0, 99 * second, 99 * second).finding, "99 s ahead of that of Redis");
    }
}
