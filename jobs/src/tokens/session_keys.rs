//! Keys with which servers sign the sessions of browsers: all servers over a registry have the same, so that any of them knows
//! who logged in at another.
//!
//! A key is an object, `keys/session-N`, where N counts months since 1970. Who needs that of this month first makes it; that of the
//! month before is valid still, and older ones go. A session lasts hours, so none of them outlives its key. A program that may read there
//! may make tokens anyway.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prs_common::hexadecimal::{bytes_of, hexadecimal};
use prs_common::storage::{PutMode, Storage, StorageErrorKind, StorageExt};
use tracing::warn;

use crate::failure::Failure;
use crate::homes::registry;

/// What the keys of all of these begin with.
const FOLDER: &str = "keys/";
/// For how long new sessions are signed with one key.
const MONTH: Duration = Duration::from_hours(30 * 24);

/// The keys of the sessions of a registry, those that were read remembered.
#[derive(Debug)]
pub struct SessionKeys {
    storage: Arc<dyn Storage>,
    /// The folder of runs beside which the registry is, where it is on this machine.
    runs: Option<PathBuf>,
    read: Mutex<HashMap<u64, Known>>,
}

/// A key, which is never shown.
#[derive(Clone, Copy)]
struct Known([u8; 32]);

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("key")
    }
}

impl SessionKeys {
    pub(super) fn new(storage: Arc<dyn Storage>, runs: Option<PathBuf>) -> Self {
        Self { storage, runs, read: Mutex::default() }
    }

    /// The number of the key for sessions that begin at `now_us`, and the key, 32 bytes, which is made where there is none.
    ///
    /// # Errors
    /// It can be neither read nor stored.
    pub async fn newest(&self, now_us: u64) -> Result<(u64, [u8; 32]), Failure> {
        let number = number(now_us);
        if let Some(key) = self.read(number).await? {
            return Ok((number, key));
        }
        if let Some(runs) = &self.runs {
            registry::make(runs)?;
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system gives random bytes");
        match self.storage.put(&name(number), hexadecimal(&key).into(), PutMode::Create).await {
            Ok(_) => self.remember(number, key),
            // Another server was first.
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => {
                let key = self.read(number).await?;
                let key =
                    key.ok_or_else(|| Failure::from(anyhow::anyhow!("a key of sessions comes and goes")))?;
                return Ok((number, key));
            }
            Err(error) => return Err(Failure::server(error)),
        }
        if let Some(old) = number.checked_sub(2)
            && let Err(error) = self.storage.delete(&name(old)).await
        {
            warn!(%error, "a key of sessions that is valid no longer stays in the registry");
        }
        Ok((number, key))
    }

    /// The key with this number; nothing where it is not valid at `now_us`.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn valid(&self, wanted: u64, now_us: u64) -> Result<Option<[u8; 32]>, Failure> {
        let newest = number(now_us);
        // That of the next month, where another server's clock is ahead.
        if !(newest.saturating_sub(1)..=newest + 1).contains(&wanted) {
            return Ok(None);
        }
        self.read(wanted).await
    }

    async fn read(&self, number: u64) -> Result<Option<[u8; 32]>, Failure> {
        if let Some(known) = self.known().get(&number) {
            return Ok(Some(known.0));
        }
        let body = match self.storage.get(&name(number)).await {
            Ok(body) => body,
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::server(error)),
        };
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let key: Option<[u8; 32]> = bytes_of(text.trim()).and_then(|bytes| bytes.try_into().ok());
        let key = key.ok_or_else(|| {
            Failure::wrong(format!(
                "{} is damaged: remove it, and everybody logs in again",
                self.storage.uri(&name(number))
            ))
        })?;
        self.remember(number, key);
        Ok(Some(key))
    }

    fn remember(&self, number: u64, key: [u8; 32]) {
        let mut known = self.known();
        known.retain(|other, _| other + 2 > number);
        known.insert(number, Known(key));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Known>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(now_us: u64) -> u64 {
    now_us / MONTH.as_micros() as u64
}

fn name(number: u64) -> String {
    format!("{FOLDER}session-{number}")
}

#[cfg(test)]
mod tests {
    use prs_common::storage::LocalStorage;

    use super::*;

    #[tokio::test]
    async fn servers_share_the_keys_of_two_months() {
        let folder = tempfile::tempdir().unwrap();
        let server = || SessionKeys::new(Arc::new(LocalStorage::new(folder.path())), None);
        let (one, other) = (server(), server());
        let month = MONTH.as_micros() as u64;
        let now = 700 * month;
        let (first, key) = one.newest(now).await.unwrap();
        assert_eq!(other.newest(now + month - 1).await.unwrap(), (first, key));
        assert_eq!(server().valid(first, now).await.unwrap(), Some(key));
        let (second, next) = other.newest(now + month).await.unwrap();
        assert!(second == first + 1 && next != key);
        assert_eq!(one.valid(first, now + month).await.unwrap(), Some(key), "a session of the month before");
        assert_eq!(one.valid(second, now).await.unwrap(), Some(next), "of a server whose clock is ahead");
        other.newest(now + 2 * month).await.unwrap();
        assert_eq!(one.valid(first, now + 2 * month).await.unwrap(), None);
        assert!(!folder.path().join(name(first)).exists(), "it is gone");
        assert_eq!(one.valid(u64::MAX / 2, now).await.unwrap(), None);
        assert!(!format!("{one:?}").contains(&hexadecimal(&next)));
    }
}
