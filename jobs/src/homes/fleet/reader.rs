//! The servers of a fleet as commands see them that only read: storage, and the ledger when they ask for it.
//!
//! The broker is never needed. A ledger that cannot be reached is said, and storage has to do.

use std::fmt;
use std::sync::Arc;

use prs_common::ledger::{Ledger, LedgerErrorKind, RedisLedger};
use prs_common::servers::{ConnectError, ServerUrls};
use prs_common::storage::{self, Storage};
use prs_orchestrator::job::fleet::{job_ids, job_storage};
use tokio::sync::OnceCell;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::Whereabouts;

/// Says that another program removes what no job names.
pub fn note_gc(caller: &dyn Caller, by: &str) {
    caller.note(&format_args!("waiting for prs gc of {by} to end"));
}

/// The servers, for reading.
pub struct Reader {
    urls: ServerUrls,
    storage: Arc<dyn Storage>,
    /// Connected to when it is asked for; holds nothing when it cannot be reached.
    ledger: OnceCell<Option<RedisLedger>>,
    caller: Arc<dyn Caller>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the storage of the fleet a command is for; nothing when it is for this machine alone.
    pub async fn connect(whereabouts: &Whereabouts) -> Result<Option<Self>, Failure> {
        let Some(urls) = whereabouts.urls.clone() else { return Ok(None) };
        let storage = storage::open(&urls.storage).await.map_err(ConnectError::Storage)?;
        let caller = Arc::clone(&whereabouts.caller);
        Ok(Some(Self { urls, storage, ledger: OnceCell::new(), caller }))
    }

    /// Where the servers are.
    pub(crate) fn urls(&self) -> &ServerUrls {
        &self.urls
    }

    /// Hears what there is to say.
    pub(crate) fn caller(&self) -> &dyn Caller {
        &*self.caller
    }

    /// The storage of the fleet.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The prefix of a job.
    pub fn job_storage(&self, job_id: &str) -> Arc<dyn Storage> {
        job_storage(&*self.storage, job_id)
    }

    /// The ids of all jobs.
    pub async fn job_ids(&self) -> Result<Vec<String>, Failure> {
        job_ids(&*self.storage).await.map_err(Failure::server)
    }

    /// The ledger; nothing when it cannot be reached for now.
    pub async fn ledger(&self) -> Result<Option<&dyn Ledger>, Failure> {
        let connect = async || match RedisLedger::connect(&self.urls.redis).await {
            Ok(ledger) => Ok(Some(ledger)),
            Err(error) if error.kind == LedgerErrorKind::Unavailable => {
                self.caller
                    .note(&format_args!("{}; shown is what storage knows", ConnectError::Redis(error)));
                Ok(None)
            }
            Err(error) => Err(Failure::from(ConnectError::Redis(error))),
        };
        let ledger = self.ledger.get_or_try_init(connect).await?;
        Ok(ledger.as_ref().map(|ledger| ledger as &dyn Ledger))
    }
}
