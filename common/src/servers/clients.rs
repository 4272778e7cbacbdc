//! The clients of RabbitMQ and Redis: no crate above names them.

use std::sync::Arc;

use super::{ConnectError, ServerUrls, Servers};
use crate::calls::Calls;
use crate::ledger::{Ledger, LedgerError, RedisLedger};
use crate::queue::{Queue, QueueError, RabbitMqQueue};
use crate::storage;

/// Whether this program has them.
pub(super) const ARE_HERE: bool = true;

/// Connects to all three side by side; the first that fails says why. They must be those of one fleet.
pub async fn connect(urls: &ServerUrls) -> Result<Servers, ConnectError> {
    let queue = async { RabbitMqQueue::connect(&urls.broker).await.map_err(ConnectError::Broker) };
    let ledger = async { RedisLedger::connect(&urls.redis).await.map_err(ConnectError::Redis) };
    let storage = async { storage::open(&urls.storage).await.map_err(ConnectError::Storage) };
    let (queue, ledger, storage) = tokio::try_join!(queue, ledger, storage)?;
    let identity = storage::identity(&*storage).await.map_err(ConnectError::Storage)?;
    let noted = ledger.belongs_to(&identity).await.map_err(ConnectError::Redis)?;
    if noted != identity {
        let (ledger, storage) = (ledger.to_string(), storage.to_string());
        return Err(ConnectError::Apart { ledger, noted, storage, identity });
    }
    if let Some(key) = ledger.job_of_a_former_version().await.map_err(ConnectError::Redis)? {
        tracing::warn!(
            %ledger,
            key,
            "the ledger has jobs of a version of prs before 0.2.0; they are left alone, and served by workers of that version: \
             delete their keys when none is needed any more"
        );
    }
    Ok(Servers { queue: Arc::new(queue), ledger: Arc::new(ledger), storage })
}

/// Connects to RabbitMQ at `url` alone, as [`RabbitMqQueue::connect`] does.
pub async fn open_broker(url: &str) -> Result<Arc<dyn Queue>, QueueError> {
    Ok(Arc::new(RabbitMqQueue::connect(url).await?))
}

/// Connects to Redis at `url` alone, as [`RedisLedger::connect`] does; `calls` hears of what it is asked from then on.
pub async fn open_ledger(url: &str, calls: Option<Arc<dyn Calls>>) -> Result<Arc<dyn Ledger>, LedgerError> {
    let ledger = RedisLedger::connect(url).await?;
    Ok(Arc::new(match calls {
        Some(calls) => ledger.counted_by(calls),
        None => ledger,
    }))
}

/// Where RabbitMQ at `url` is, without its password; nothing of a URL that cannot be read.
pub fn broker_place(url: &str) -> Option<String> {
    RabbitMqQueue::place(url)
}

/// Where Redis at `url` is, likewise.
pub fn ledger_place(url: &str) -> Option<String> {
    RedisLedger::place(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let url = || Some("x://".to_owned());
        assert!(ServerUrls::all(url(), url(), url()).is_ok());
        let error = ServerUrls::all(url(), None, Some(String::new())).err().unwrap();
        assert!(error.is_usage());
        let text = error.to_string();
        assert!(text.contains("--redis (PRS_REDIS_URL), --storage (PRS_STORAGE_URL)"), "{text}");
    }
}
