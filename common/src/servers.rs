//! The three servers of a fleet: named by URLs, connected to together.

use std::sync::Arc;

use crate::ledger::{Ledger, LedgerError, RedisLedger};
use crate::queue::{Queue, QueueError, RabbitMqQueue};
use crate::storage::{self, Storage, StorageError};

/// Where the servers are. Not to be shown: URLs may hold passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrls {
    /// RabbitMQ: `amqp://user:password@host/vhost` or `amqps://`.
    pub broker: String,
    /// Redis: `redis://user:password@host/0` or `rediss://`.
    pub redis: String,
    /// Storage: `s3://bucket/prefix` or `file:///folder`.
    pub storage: String,
}

/// Connections to the servers.
#[derive(Debug, Clone)]
pub struct Servers {
    /// RabbitMQ.
    pub queue: Arc<dyn Queue>,
    /// Redis.
    pub ledger: Arc<dyn Ledger>,
    /// Storage.
    pub storage: Arc<dyn Storage>,
}

/// Why a fleet cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Some servers are not named.
    #[error(
        "a fleet needs a broker, a Redis and a storage; missing: {}; the same as options of the command, as variables, or in a profile of the configuration (prs profiles shows what is used)",
        .0.join(", ")
    )]
    Missing(Vec<&'static str>),
    /// The broker.
    #[error("cannot use the broker: {0}")]
    Broker(#[source] QueueError),
    /// The ledger.
    #[error("cannot use Redis: {0}")]
    Redis(#[source] LedgerError),
    /// The store.
    #[error("cannot use the storage: {0}")]
    Storage(#[source] StorageError),
    /// Redis serves the fleet of another storage.
    #[error(
        "the servers do not belong together: Redis at {ledger} belongs to the storage {noted}, and {storage} is the storage {identity}; name the Redis (or the database in it) and the storage of one fleet, or delete the key prs:storage in Redis if the other storage no longer exists"
    )]
    Apart {
        /// The ledger.
        ledger: String,
        /// Identity of the storage that it belongs to.
        noted: String,
        /// The storage.
        storage: String,
        /// Its identity.
        identity: String,
    },
}

impl ConnectError {
    /// Whether the command line is at fault, and no server.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl ServerUrls {
    /// All three, or an error that names what is missing.
    pub fn all(
        broker: Option<String>,
        redis: Option<String>,
        storage: Option<String>,
    ) -> Result<Self, ConnectError> {
        let mut missing = Vec::new();
        let mut take = |url: Option<String>, name| {
            let url = url.filter(|url| !url.is_empty());
            if url.is_none() {
                missing.push(name);
            }
            url.unwrap_or_default()
        };
        let urls = Self {
            broker: take(broker, "--broker (PRS_BROKER_URL)"),
            redis: take(redis, "--redis (PRS_REDIS_URL)"),
            storage: take(storage, "--storage (PRS_STORAGE_URL)"),
        };
        if missing.is_empty() { Ok(urls) } else { Err(ConnectError::Missing(missing)) }
    }
}

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
