//! Which refusals may pass: those of what the server accepted from the same credentials before.
//!
//! Two questions decide. Is everything refused? A read of the object that was asked for when the bucket was opened tells:
//! refused too, the credentials are meant (a token that ran out, a changed key, a wrong clock); accepted, this request is
//! meant alone. Then, was it accepted before? Writes, lists and deletes are allowed by place, so one that was accepted in
//! the same place may be accepted again; a read is allowed by object, and its refusal stands at once, so that an input
//! that a policy forbids fails its mini-batch and nothing waits for it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Bucket;
use super::failure::S3Failure;
use super::retry::{Retry, STALL};
use crate::refusals::Refusals;
use crate::storage::StorageErrorKind::{AlreadyExists, Changed, NotFound, Unavailable};

/// Refusals of one request, while others are accepted, before it stands that it alone is refused: the refusal of
/// everything may begin or end between the two.
const DOUBTS: u32 = 3;
/// Requests whose acceptance says nothing of others.
const READ: &str = "read";
/// Folders of a key, from the bucket on, that make its place.
const DEPTH: usize = 4;
/// Places that are remembered.
const MOST_PLACES: usize = 10_000;

/// What the server of a bucket accepted, and what it refuses.
#[derive(Debug)]
pub(super) struct Trust {
    /// Whether the bucket is open: the credentials were good for everything then.
    pub(super) is_open: AtomicBool,
    /// Kinds of requests, and their places, that were accepted.
    accepted: Mutex<HashSet<(&'static str, String)>>,
    refusals: Refusals,
}

impl Trust {
    /// Nothing was accepted yet.
    pub(super) fn new(patience: Duration) -> Self {
        let refusals = Refusals::new(patience);
        Self { is_open: AtomicBool::new(false), accepted: Mutex::default(), refusals }
    }

    /// Whether the bucket is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn accepted(&self) -> MutexGuard<'_, HashSet<(&'static str, String)>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that are allowed together.
fn kind(what: &'static str) -> &'static str {
    match what {
        "get" | "head" => READ,
        // Of these, each is a right of its own.
        "list" | "list uploads" | "delete" | "delete many" | "abort upload" => what,
        _ => "write",
    }
}

/// The folders that a key lies in, from the bucket on.
fn place(key: &str) -> &str {
    let end = key.match_indices('/').map(|(at, _)| at).take(DEPTH).last().unwrap_or(0);
    &key[..end]
}

impl Retry<'_> {
    /// Notes that the server has done what was asked.
    pub(super) fn has_been_accepted(&self) {
        let trust = &self.bucket.trust;
        if !trust.is_open() {
            return;
        }
        if kind(self.what) != READ {
            let mut accepted = trust.accepted();
            if accepted.len() >= MOST_PLACES {
                accepted.clear();
            }
            accepted.insert((kind(self.what), place(self.key).to_owned()));
        }
        self.has_been_answered();
    }

    /// Notes an answer that only good credentials get: that there is no such object, for example.
    fn has_been_answered(&self) {
        let call = || format!("{} {}", self.what, self.key);
        self.bucket.trust.refusals.has_accepted(&self.bucket.whole_name(), call);
    }

    /// What `failure` means, which this call has met.
    pub(super) async fn judged(&self, failure: S3Failure) -> S3Failure {
        let trust = &self.bucket.trust;
        if !failure.is_refusal {
            if matches!(failure.kind, NotFound | AlreadyExists | Changed) {
                self.has_been_answered();
            }
            return failure;
        }
        if !trust.is_open() {
            return failure;
        }
        let everything = self.bucket.refuses_everything().await;
        if !everything && !trust.accepted().contains(&(kind(self.what), place(self.key).to_owned())) {
            let kind = if self.refusals < DOUBTS { Unavailable } else { failure.kind };
            return S3Failure { kind, ..failure };
        }
        let call = format!("{} {}", self.what, self.key);
        let server = self.bucket.whole_name();
        let (may_pass, message) = trust.refusals.judged(&server, call, everything, &failure.message);
        let kind = if may_pass { Unavailable } else { failure.kind };
        S3Failure { kind, message, ..failure }
    }
}

impl Bucket {
    /// The bucket and its server, for the log.
    fn whole_name(&self) -> String {
        format!("bucket {} of {}", self.name, self.server)
    }

    /// Whether what was accepted when the bucket was opened is refused now. No answer says nothing else.
    async fn refuses_everything(&self) -> bool {
        let asked = self.client.get_object().bucket(&self.name).key(&self.probe).send();
        let answer = tokio::time::timeout(STALL, Box::pin(asked)).await;
        let failure = answer.map(|answer| answer.err().map(S3Failure::from));
        failure.map_or(true, |failure| {
            failure.is_some_and(|failure| failure.is_refusal || failure.kind == Unavailable)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_near_the_bucket() {
        for (key, expected) in [
            ("prs/jobs/job-1/segments/a.seg", "prs/jobs/job-1/segments"),
            ("prs/jobs/job-1/segments/files/try/a/b", "prs/jobs/job-1/segments"),
            ("prs/jobs/job-1/job.json", "prs/jobs/job-1"),
            ("prs/active/default/", "prs/active/default"),
            ("a", ""),
            ("", ""),
        ] {
            assert_eq!(place(key), expected, "{key}");
        }
    }
}
