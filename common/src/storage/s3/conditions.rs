//! Writes on a condition: which ones a server heeds, and what is done where it heeds none.
//!
//! A server that knows no `If-None-Match` or `If-Match` refuses a request with it, or ignores it, which only a probe
//! tells. Where it does not decide by itself, this looks first and then writes.
//!
//! A write whose answer was lost is made again, and then finds its own object. So that it is told from another's, such an
//! object carries a mark in its metadata.

use std::sync::OnceLock;

use bytes::Bytes;

use super::failure::{NO_UPLOAD, S3Failure};
use super::{S3Storage, etag_of, version};
use crate::storage::PutMode;
use crate::storage::StorageErrorKind::{AlreadyExists, NotFound};

/// Which conditions a server heeds; what is not known yet is found out.
#[derive(Debug, Default)]
pub(super) struct Heeds {
    /// `If-None-Match`.
    create: OnceLock<bool>,
    /// `If-Match`.
    update: OnceLock<bool>,
}

impl Heeds {
    fn of(&self, mode: &PutMode) -> &OnceLock<bool> {
        if *mode == PutMode::Create { &self.create } else { &self.update }
    }
}

impl S3Storage {
    /// Writes the object by means of `write`, which asks the server for the condition it is given, when the object is as
    /// `mode` wants it. Where the server knows no condition, this looks first: of several who do so at once, more than one
    /// may believe to be the first. An object with this `mark` is the one that `write` made. Returns the object's etag.
    /// What a write of this kind shows of the server holds for others where it `teaches`: a server may know the conditions of
    /// a put and not those of a completion.
    pub(super) async fn conditionally<F: Future<Output = Result<String, S3Failure>> + Send>(
        &self,
        full: &str,
        mode: &PutMode,
        mark: &str,
        teaches: bool,
        write: impl Fn(PutMode) -> F,
    ) -> Result<String, S3Failure> {
        let heeded = self.bucket.heeds.of(mode);
        let asked = match (mode, heeded.get()) {
            (PutMode::Overwrite, _) | (_, Some(true)) | (PutMode::Create, None) => mode.clone(),
            // A server that ignores the condition of a new object is found out by the probe alone: of an update all hangs
            // on it, and it is rare.
            (PutMode::Update(_), None) => self.must_be(full, mode).await.map(|()| mode.clone())?,
            (_, Some(false)) => self.must_be(full, mode).await.map(|()| PutMode::Overwrite)?,
        };
        let mut written = write(asked.clone()).await;
        if asked != PutMode::Overwrite && written.as_ref().is_err_and(S3Failure::may_be_over_headers) {
            self.must_be(full, mode).await?;
            written = write(PutMode::Overwrite).await;
            if written.is_ok() && teaches {
                // It was the condition that was refused.
                let _ = heeded.set(false);
            }
        }
        let failure = match written {
            // What the server does not know any more it may have put together.
            Err(failure) if failure.kind == AlreadyExists || failure.code == NO_UPLOAD => failure,
            written => return written,
        };
        if failure.attempts > 1 {
            // An attempt whose answer was lost may have written it.
            match self.look_up(full).await {
                Ok((seen, theirs)) if theirs.as_deref() == Some(mark) => {
                    return Ok(etag_of(&seen.version).to_owned());
                }
                Err(unseen) if unseen.kind != NotFound => return Err(unseen),
                _ => {}
            }
        }
        Err(match (failure.kind, mode) {
            (AlreadyExists, PutMode::Update(_)) => S3Failure::replaced(),
            (AlreadyExists, _) => exists(),
            _ => failure,
        })
    }

    /// Looks whether the object is as `mode` wants it.
    pub(super) async fn must_be(&self, full: &str, mode: &PutMode) -> Result<(), S3Failure> {
        match (mode, self.look_up(full).await) {
            (PutMode::Create, Ok(_)) => Err(exists()),
            (PutMode::Create, Err(failure)) if failure.kind == NotFound => Ok(()),
            (PutMode::Update(wanted), Ok((seen, _))) if seen.version != *wanted => Err(S3Failure::replaced()),
            (_, seen) => seen.map(drop),
        }
    }

    /// Finds out which conditions the server heeds, with an object that may be replaced; whether it heeds all.
    pub(super) async fn probe_conditions(&self, full: &str) -> Result<bool, S3Failure> {
        let (body, heeds) = (Bytes::from_static(b"probe"), &self.bucket.heeds);
        self.put_object(full, &body, &PutMode::Overwrite, "").await?;
        let forbidden = [PutMode::Create, PutMode::Update(version("\"prs-no-such-version\"", 0))];
        for mode in forbidden {
            if heeds.of(&mode).get().is_none() {
                let is_refused = match self.put_object(full, &body, &mode, "").await {
                    Ok(_) => false,
                    Err(failure) if failure.kind == AlreadyExists => true,
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
fn exists() -> S3Failure {
    S3Failure::of(AlreadyExists, "the object exists already")
}
