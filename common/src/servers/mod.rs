//! The three servers of a fleet: named by URLs, connected to together.

#[cfg_attr(not(feature = "fleet"), path = "no_clients.rs")]
mod clients;

use std::sync::Arc;

use crate::absent::absent;
use crate::ledger::{Ledger, LedgerError};
use crate::queue::{Queue, QueueError};
use crate::storage::{Storage, StorageError};

pub use clients::{broker_place, connect, ledger_place, open_broker, open_ledger};

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
    /// The program was built without what connects to them.
    #[error("{}", absent("fleet", "fleet"))]
    Absent,
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
        matches!(self, Self::Missing(_) | Self::Absent)
    }
}

impl ServerUrls {
    /// All three, or an error that names what is missing. A program without clients for them has none.
    pub fn all(
        broker: Option<String>,
        redis: Option<String>,
        storage: Option<String>,
    ) -> Result<Self, ConnectError> {
        if !clients::ARE_HERE {
            return Err(ConnectError::Absent);
        }
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
