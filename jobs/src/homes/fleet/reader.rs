//! The servers of a fleet as calls see them that only read: storage, and the ledger when they ask for it.
//!
//! The broker is never needed. A ledger that cannot be reached is said once, storage has to do meanwhile, and the ledger is
//! asked again later. So one reader does for a process, however long it lives: its calls share one client of the store and
//! one connection to Redis.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prs_common::ledger::{Ledger, LedgerError, LedgerErrorKind};
use prs_common::servers::{ConnectError, ServerUrls};
use prs_common::storage::{self, CountedStorage, Storage};
use prs_orchestrator::job::fleet::{job_ids, job_storage};

use super::connection::LedgerConnection;
use super::ended::EndedObjects;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::Whereabouts;

/// What is shorter than that is not told as an outage.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Says that another program removes what no job names.
pub fn note_gc(caller: &dyn Caller, by: &str) {
    caller.note(&format_args!("waiting for prs gc of {by} to end"));
}

/// The servers, for reading.
pub struct Reader {
    urls: ServerUrls,
    storage: Arc<dyn Storage>,
    ledger: LedgerConnection,
    ended: EndedObjects,
    /// Whether storage was seen with its identity.
    had_identity: AtomicBool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl Reader {
    /// The reader of the fleet a call is for, which all clones of `whereabouts` share; nothing when the call is for this
    /// machine alone. The first one opens the storage.
    ///
    /// # Errors
    /// The storage cannot be used; the next call tries again.
    pub async fn connect(whereabouts: &Whereabouts) -> Result<Option<Arc<Self>>, Failure> {
        let Some(urls) = &whereabouts.urls else { return Ok(None) };
        let open = async || {
            let storage = storage::open(&urls.storage).await.map_err(ConnectError::Storage)?;
            let calls = whereabouts.calls.clone();
            let storage = match &calls {
                Some(calls) => Arc::new(CountedStorage::new(storage, Arc::clone(calls))),
                None => storage,
            };
            let ledger = LedgerConnection::new(urls.redis.clone(), calls);
            Ok::<_, Failure>(Arc::new(Self {
                urls: urls.clone(),
                storage,
                ledger,
                ended: EndedObjects::default(),
                had_identity: AtomicBool::new(false),
            }))
        };
        whereabouts.reader.get_or_try_init(open).await.map(|reader| Some(Arc::clone(reader)))
    }

    /// Where the servers are.
    pub(crate) fn urls(&self) -> &ServerUrls {
        &self.urls
    }

    /// The storage of the fleet.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// What was read of jobs that have ended.
    pub(super) fn ended(&self) -> &EndedObjects {
        &self.ended
    }

    /// Refuses a storage that has lost its identity: what is not there may lie where its folder was mounted.
    ///
    /// # Errors
    /// It has none, or does not answer.
    pub(crate) async fn check_identity(&self) -> Result<(), Failure> {
        if storage::has_identity(&*self.storage).await.map_err(Failure::server)? {
            self.had_identity.store(true, Ordering::Relaxed);
            return Ok(());
        }
        Err(Failure::server(anyhow::anyhow!(
            "{} has nothing of what prs keeps there: it was emptied, or a folder is not mounted",
            self.storage
        )))
    }

    /// The same where it is known to have had one.
    ///
    /// # Errors
    /// As of [`Self::check_identity`].
    pub(crate) async fn check_identity_again(&self) -> Result<(), Failure> {
        if self.had_identity.load(Ordering::Relaxed) { self.check_identity().await } else { Ok(()) }
    }

    /// The prefix of a job.
    pub fn job_storage(&self, job_id: &str) -> Arc<dyn Storage> {
        job_storage(&*self.storage, job_id)
    }

    /// The ids of all jobs.
    pub async fn job_ids(&self) -> Result<Vec<String>, Failure> {
        job_ids(&*self.storage).await.map_err(Failure::server)
    }

    /// The ledger; nothing while it cannot be reached, which `caller` hears once. It is asked again now and then.
    ///
    /// # Errors
    /// It refuses this program.
    pub async fn ledger(&self, caller: &dyn Caller) -> Result<Option<Arc<dyn Ledger>>, Failure> {
        Ok(self.ledger.open(caller).await.map_err(ConnectError::Redis)?)
    }

    /// For how long the ledger has given no answer; nothing where it does, or did a moment ago.
    pub(crate) fn ledger_away_for(&self) -> Option<Duration> {
        self.ledger.away_for().filter(|away| *away >= A_MOMENT)
    }

    /// What is to be thought of a call to the ledger that failed with `error`: where the ledger is away, that is remembered, so
    /// that the next calls do not wait for it, and storage has to do.
    ///
    /// # Errors
    /// It is not away: the failure is what the call says.
    pub fn without_ledger(&self, error: LedgerError, caller: &dyn Caller) -> Result<(), Failure> {
        if error.kind != LedgerErrorKind::Unavailable {
            return Err(Failure::server(error));
        }
        self.ledger.is_away(error, caller);
        Ok(())
    }
}
