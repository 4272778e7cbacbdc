//! The servers of a fleet as commands see them that only read: storage, and the ledger when somebody asks for it.
//!
//! The broker is never needed. A ledger that cannot be reached is said, and storage has to do.

use std::fmt;
use std::sync::Arc;

use prs_common::ledger::{Ledger, LedgerErrorKind, RedisLedger};
use prs_common::servers::{ConnectError, ServerUrls};
use prs_common::storage::{self, Storage};
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::fleet::{job_ids, job_storage};
use tokio::sync::OnceCell;

use super::follow::{LEDGER, ask};
use super::unreadable;
use super::workers::workers;
use crate::failure::Failure;
use crate::output;
use crate::standing::{Standing, WaitsFor};

/// The servers, for reading.
pub(crate) struct Reader {
    urls: ServerUrls,
    storage: Arc<dyn Storage>,
    /// Connected to when it is asked for; holds nothing when it cannot be reached.
    ledger: OnceCell<Option<RedisLedger>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the storage of the fleet a command is for; nothing when it is for this machine alone.
    pub(crate) async fn connect(urls: Option<ServerUrls>) -> Result<Option<Self>, Failure> {
        let Some(urls) = urls else { return Ok(None) };
        let storage = storage::open(&urls.storage).await.map_err(ConnectError::Storage)?;
        Ok(Some(Self { urls, storage, ledger: OnceCell::new() }))
    }

    /// The storage of the fleet.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The same, to be kept.
    pub(crate) fn shared(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    /// The prefix of a job.
    pub(crate) fn job_storage(&self, job_id: &str) -> Arc<dyn Storage> {
        job_storage(&*self.storage, job_id)
    }

    /// The ids of all jobs.
    pub(crate) async fn job_ids(&self) -> Result<Vec<String>, Failure> {
        job_ids(&*self.storage).await.map_err(Failure::server)
    }

    /// The ledger; nothing when it cannot be reached for now.
    pub(crate) async fn ledger(&self) -> Result<Option<&dyn Ledger>, Failure> {
        let connect = async || match RedisLedger::connect(&self.urls.redis).await {
            Ok(ledger) => Ok(Some(ledger)),
            Err(error) if error.kind == LedgerErrorKind::Unavailable => {
                output::say(format_args!("{}; shown is what storage knows", ConnectError::Redis(error)));
                Ok(None)
            }
            Err(error) => Err(Failure::from(ConnectError::Redis(error))),
        };
        let ledger = self.ledger.get_or_try_init(connect).await?;
        Ok(ledger.as_ref().map(|ledger| ledger as &dyn Ledger))
    }

    /// What is true of `record`, as it was just read from `storage`, and what the fleet does for it.
    pub(crate) async fn look(
        &self,
        storage: &dyn Storage,
        record: JobRecord,
    ) -> Result<(JobRecord, Standing), Failure> {
        let mut standing = Standing { target: record.spec.compute_target.clone(), ..Standing::default() };
        if record.result.is_some() {
            return Ok((record, standing));
        }
        let away = |reason: String| Some(WaitsFor { server: LEDGER, seconds: None, reason });
        let Some(ledger) = self.ledger().await? else {
            standing.waits_for = away("it gives no answer; shown is what storage knows".to_owned());
            return Ok((record, standing));
        };
        match ask(ledger, &record).await {
            Ok((state, status)) if !state.is_final() => {
                if status.nodes == 0 {
                    standing.workers = workers(ledger, &record).await;
                }
                Ok((JobRecord { state, status, ..record }, standing))
            }
            Err(error) if error.kind == LedgerErrorKind::Unavailable => {
                output::say(format_args!("cannot use Redis: {error}; shown is what storage knows"));
                standing.waits_for = away(error.to_string());
                Ok((record, standing))
            }
            Err(error) if error.kind != LedgerErrorKind::NotFound => Err(Failure::server(error)),
            // It has ended meanwhile, was never handed in, or its books are lost.
            _ => {
                let read = JobRecord::read(storage).await;
                let read = read.map_err(|error| unreadable(&*self.storage, &record.job_id, error))?;
                if read.result.is_none() {
                    standing.workers = workers(ledger, &record).await;
                }
                Ok((read, standing))
            }
        }
    }
}
