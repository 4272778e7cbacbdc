//! Which refusals may pass: those of what the server accepted from the same credentials before.
//!
//! Two questions decide. Is everything refused? A read of the object that was asked for when the bucket was opened tells:
//! refused too, the credentials are meant (a token that ran out, a changed key, a wrong clock); accepted, this request is
//! meant alone. Then, was it accepted before? Writes, lists and deletes are allowed by place, so one that was accepted in
//! the same place may be accepted again; a read is allowed by object, and its refusal stands at once, so that an input
//! that a policy forbids fails its mini-batch and nothing waits for it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use super::{Bucket, retry};
use crate::refusals::Refusals;
use crate::storage::StorageErrorKind;

/// Refusals of one request, while others are accepted, before it stands that it alone is refused: the refusal of
/// everything may begin or end between the two.
const DOUBTS: u32 = 3;
/// Folders of a key, from the bucket on, that make its place.
const DEPTH: usize = 4;
/// Places that are remembered.
const MOST_PLACES: usize = 10_000;

/// What the server of a bucket accepted, and what it refuses.
#[derive(Debug)]
pub(super) struct Trust {
    /// Whether the credentials were good for everything when the bucket was opened.
    is_there: AtomicBool,
    /// Kinds of requests, and their places, that were accepted.
    accepted: Mutex<HashSet<(&'static str, String)>>,
    refusals: Refusals,
}

impl Trust {
    /// Nothing was accepted yet.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            is_there: AtomicBool::new(false),
            accepted: Mutex::default(),
            refusals: Refusals::new(patience),
        }
    }

    /// The bucket is open.
    pub(super) fn begin(&self) {
        self.is_there.store(true, Ordering::Relaxed);
    }

    /// Whether the bucket is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    fn was_accepted(&self, what: &'static str, key: &str) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.contains(&(kind(what), place(key).to_owned()))
    }
}

/// Requests that are allowed together.
fn kind(what: &'static str) -> &'static str {
    match what {
        "get" | "head" => "read",
        "list" | "list uploads" => "list",
        "delete" | "delete many" | "abort upload" => what,
        _ => "write",
    }
}

/// The folders that a key lies in, from the bucket on.
fn place(key: &str) -> &str {
    let end = key.match_indices('/').map(|(at, _)| at).take(DEPTH).last().unwrap_or(0);
    &key[..end]
}

impl Bucket {
    /// Notes that the server has done `what` to the object `key`.
    pub(super) fn has_accepted(&self, what: &'static str, key: &str) {
        let trust = &self.trust;
        if !trust.is_open() {
            return;
        }
        if kind(what) != "read" {
            let mut accepted = trust.accepted.lock().unwrap_or_else(PoisonError::into_inner);
            if accepted.len() >= MOST_PLACES {
                accepted.clear();
            }
            accepted.insert((kind(what), place(key).to_owned()));
        }
        self.tell_of_success(what, key);
    }

    /// The bucket and its server, for the log.
    fn whole_name(&self) -> String {
        format!("bucket {} of {}", self.name, self.server)
    }

    /// Notes an answer that only good credentials get: that there is no such object, for example.
    fn tell_of_success(&self, what: &'static str, key: &str) {
        self.trust.refusals.has_accepted(&self.whole_name(), || format!("{what} {key}"));
    }

    /// What it means that the server refuses `what` about the object `key`, for the `times`-th time in one call.
    pub(super) async fn judged(
        &self,
        what: &'static str,
        key: &str,
        failure: Failure,
        times: u32,
    ) -> Failure {
        if !failure.is_refusal {
            use StorageErrorKind::{AlreadyExists, Changed, NotFound};
            if matches!(failure.kind, NotFound | AlreadyExists | Changed) {
                self.tell_of_success(what, key);
            }
            return failure;
        }
        let trust = &self.trust;
        if !trust.is_open() {
            return failure;
        }
        let everything = self.refuses_everything().await;
        if !everything && (kind(what) == "read" || !trust.was_accepted(what, key)) {
            let kind = if times < DOUBTS { StorageErrorKind::Unavailable } else { failure.kind };
            return Failure { kind, ..failure };
        }
        let call = format!("{what} {key}");
        let (may_pass, message) =
            trust.refusals.judged(&self.whole_name(), call, everything, &failure.message);
        let kind = if may_pass { StorageErrorKind::Unavailable } else { failure.kind };
        Failure { kind, message, ..failure }
    }

    /// Whether what was accepted when the bucket was opened is refused now. No answer says nothing else.
    async fn refuses_everything(&self) -> bool {
        let asked = self.client.get_object().bucket(&self.name).key(&self.probe).send();
        let Ok(answer) = tokio::time::timeout(retry::STALL, Box::pin(asked)).await else { return true };
        match answer.map_err(Failure::from) {
            Err(failure) => failure.is_refusal || failure.kind == StorageErrorKind::Unavailable,
            Ok(_) => false,
        }
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
