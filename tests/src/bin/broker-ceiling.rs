//! How fast a broker is when nothing is done with the messages: the bound of every job on a fleet, for benchmarks.
//!
//! ```text
//! broker-ceiling COUNT
//! ```
//!
//! Publishes COUNT messages of 600 bytes to a quorum queue of the broker at `PRS_BROKER_URL`, each confirmed, then
//! consumes and acknowledges all of them: the same client and the same kind of queue as prs, and nothing besides.
//! Prints one JSON line, as the peers of the benchmarks do.

#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use prs_common::queue::{Queue, QueueOptions, RabbitMqQueue, ack_all};

/// A descriptor of ten paths has about so many.
const SIZE: usize = 600;
/// Messages handed over at a time.
const BATCH: usize = 4_096;
/// Deliveries that may be unacknowledged.
const PREFETCH: usize = 2_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).ok_or("usage: broker-ceiling COUNT")?.parse()?;
    let broker = RabbitMqQueue::connect(&std::env::var("PRS_BROKER_URL")?).await?;
    let queue = format!("broker-ceiling-{}", std::process::id());
    broker.declare(&queue, QueueOptions::default()).await?;
    let message = Bytes::from(vec![b'x'; SIZE]);

    let start = Instant::now();
    for first in (0..count).step_by(BATCH) {
        broker.publish(&queue, vec![message.clone(); BATCH.min(count - first)]).await?;
    }
    let published = start.elapsed().as_secs_f64();

    let mut deliveries = broker.consume(&queue, PREFETCH).await?;
    let mut consumed = 0;
    while consumed < count {
        let taken = deliveries.next(PREFETCH / 4).await;
        if taken.is_empty() {
            return Err("the queue is gone".into());
        }
        consumed += taken.len();
        ack_all(taken)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(deliveries);
    broker.delete(&queue).await?;
    broker.close().await;

    println!(
        r#"{{"peer": "broker ceiling", "work": "W2", "n": {count}, "seconds": {seconds:.3}, "per_second": {:.1}, "publish_seconds": {published:.3}}}"#,
        count as f64 / seconds
    );
    Ok(())
}
