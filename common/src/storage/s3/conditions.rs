//! Writes on a condition: which ones a server heeds, and what is done where it heeds none.
//!
//! A server that knows no `If-None-Match` or `If-Match` refuses a request with it, or ignores it, which only a probe
//! tells. Where it does not decide by itself, this looks first and then writes.

use std::sync::OnceLock;

use bytes::Bytes;

use super::failure::Failure;
use super::{S3Storage, etag_of, version};
use crate::storage::{PutMode, StorageErrorKind};

/// Which conditions a server heeds; what is not known yet is found out.
#[derive(Debug, Default)]
pub(super) struct Heeds {
    /// `If-None-Match`.
    create: OnceLock<bool>,
    /// `If-Match`.
    update: OnceLock<bool>,
}

impl Heeds {
    pub(super) fn of(&self, mode: &PutMode) -> &OnceLock<bool> {
        if *mode == PutMode::Create { &self.create } else { &self.update }
    }
}

impl S3Storage {
    /// Looks whether the object is as `mode` wants it, unless the server is sure to do so, and gives back what the
    /// server is to be asked. A server that ignores the condition of a new object is found out by the probe alone: of an
    /// update all hangs on it, and it is rare.
    pub(super) async fn look_first(&self, full: &str, mode: &PutMode) -> Result<PutMode, Failure> {
        let heeded = self.bucket.heeds.of(mode).get().copied();
        match (mode, heeded) {
            (PutMode::Overwrite, _) | (_, Some(true)) | (PutMode::Create, None) => Ok(mode.clone()),
            (PutMode::Update(_), None) => self.must_be(full, mode).await.map(|()| mode.clone()),
            (_, Some(false)) => self.must_be(full, mode).await.map(|()| PutMode::Overwrite),
        }
    }

    /// Looks whether the object is as `mode` wants it.
    pub(super) async fn must_be(&self, full: &str, mode: &PutMode) -> Result<(), Failure> {
        match (mode, self.look_up(full).await) {
            (PutMode::Create, Ok(_)) => Err(exists()),
            (PutMode::Create, Err(failure)) if failure.kind == StorageErrorKind::NotFound => Ok(()),
            (PutMode::Update(wanted), Ok(seen)) if seen.version != *wanted => Err(Failure::replaced()),
            (_, seen) => seen.map(drop),
        }
    }

    /// Finds out which conditions the server heeds, with an object that may be replaced; whether it heeds all.
    pub(super) async fn probe_conditions(&self, full: &str) -> Result<bool, Failure> {
        let (body, heeds) = (Bytes::from_static(b"probe"), &self.bucket.heeds);
        self.put_object(full, &body, &PutMode::Overwrite, "").await?;
        let forbidden = [PutMode::Create, PutMode::Update(version("\"prs-no-such-version\"", 0))];
        for mode in forbidden {
            if heeds.of(&mode).get().is_none() {
                let is_refused = match self.put_object(full, &body, &mode, "").await {
                    Ok(_) => false,
                    Err(failure) if failure.kind == StorageErrorKind::AlreadyExists => true,
                    Err(failure) if failure.may_be_over_headers() => false,
                    Err(failure) => return Err(failure),
                };
                let _ = heeds.of(&mode).set(is_refused);
            }
        }
        Ok(heeds.create.get() == Some(&true) && heeds.update.get() == Some(&true))
    }
}

/// The headers `If-None-Match` and `If-Match` of a write.
pub(super) fn conditions(mode: &PutMode) -> (Option<String>, Option<String>) {
    match mode {
        PutMode::Overwrite => (None, None),
        PutMode::Create => (Some("*".to_owned()), None),
        PutMode::Update(version) => (None, Some(etag_of(version).to_owned())),
    }
}

/// The failure of a write that wanted a new object.
pub(super) fn exists() -> Failure {
    Failure::of(StorageErrorKind::AlreadyExists, "the object exists already")
}
