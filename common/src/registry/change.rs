//! One object that every change replaces by one conditional write (V2).

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::RegistryError;
use crate::backoff::Backoff;
use crate::storage::{PutMode, Storage, StorageErrorKind, StorageExt, Version};

/// Attempts at a change while others change the same object.
const ATTEMPTS: usize = 200;
/// First and longest pause before the next attempt, shortened at random: programs that are refused together come back apart.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// What a change came to.
#[derive(Debug)]
pub(super) struct Changed<R> {
    /// What was decided beside the new state.
    pub(super) told: R,
    /// The version of the object that holds it; empty where there is none.
    pub(super) version: Version,
}

/// Does one change of the object at `key`, again where another program did one at the same time: `decide` is given what is there,
/// with its version, and gives what is to be there, and something beside it, which is given back once that is stored. The same
/// state is not stored again, and nothing in its place leaves what is there.
pub(super) async fn change<T: Serialize + Clone + PartialEq, R>(
    storage: &dyn Storage,
    key: &str,
    called: impl Fn() -> String,
    read: impl Fn(&[u8]) -> Result<T, RegistryError>,
    decide: impl Fn(Option<(T, &Version)>) -> Result<(Option<T>, R), RegistryError>,
) -> Result<Changed<R>, RegistryError> {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    for _ in 0..ATTEMPTS {
        let there = find(storage, key, &read).await?;
        let former = there.clone();
        let (state, told) = decide(there.as_ref().map(|(state, version)| (state.clone(), version)))?;
        let (state, mode) = match (state, former) {
            (None, former) => {
                let version = former.map(|(_, version)| version).unwrap_or_default();
                return Ok(Changed { told, version });
            }
            (Some(state), Some((former, version))) if former == state => {
                return Ok(Changed { told, version });
            }
            (Some(state), Some((_, version))) => (state, PutMode::Update(version)),
            (Some(state), None) => (state, PutMode::Create),
        };
        let body = Bytes::from(serde_json::to_vec_pretty(&state).expect("it holds plain values only"));
        match storage.put(key, body.into(), mode).await {
            Ok(version) => return Ok(Changed { told, version }),
            Err(error) if is_conflict(error.kind) => backoff.wait().await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(RegistryError::Refused(format!(
        "other programs change {} all the time: try again when they are done",
        called()
    )))
}

/// What the object at `key` holds, and its version.
pub(super) async fn find<T>(
    storage: &dyn Storage,
    key: &str,
    read: impl Fn(&[u8]) -> Result<T, RegistryError>,
) -> Result<Option<(T, Version)>, RegistryError> {
    match storage.get_versioned(key).await {
        Ok((body, version)) => Ok(Some((read(&body)?, version))),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether another program changed the object meanwhile.
fn is_conflict(kind: StorageErrorKind) -> bool {
    matches!(kind, StorageErrorKind::AlreadyExists | StorageErrorKind::Changed | StorageErrorKind::NotFound)
}
