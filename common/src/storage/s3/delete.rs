//! Deleting objects: one in a request, or a thousand.
//!
//! Not every server takes many at a time, and one that does may refuse some of them: whatever it does not confirm is
//! deleted by a request of its own, whose answer counts.

use std::sync::atomic::Ordering;

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::S3Storage;
use super::answers::AnswersWithoutBody;
use super::failure::S3Failure;
use crate::storage::{StorageError, StorageErrorKind};

/// Objects that one request deletes at most.
const MANY: usize = 1000;
/// Such requests on their way together.
const REQUESTS: usize = 8;
/// Requests for single objects on their way together.
const SINGLE_REQUESTS: usize = 32;
/// What a request for many counts as, when it is decided how long it may take.
const DELETE_MANY: u64 = 20 << 20;

impl S3Storage {
    async fn delete_one(&self, key: &str) -> Result<(), StorageError> {
        let full = self.full(key)?;
        let request = || {
            let request = self.bucket.client.delete_object().bucket(&self.bucket.name).key(&full);
            request.customize().interceptor(AnswersWithoutBody).send()
        };
        match self.bucket.call(("delete", &full, 0), request, Ok).await {
            Err(failure) if failure.code == "NoSuchKey" => Ok(()),
            deleted => deleted.map(drop).map_err(|failure| self.error(key, failure)),
        }
    }

    pub(super) async fn delete_many(&self, keys: &[String]) -> Result<(), StorageError> {
        for key in keys {
            self.full(key)?;
        }
        let requests: Vec<_> = keys.chunks(MANY).map(|keys| self.delete_together(keys)).collect();
        stream::iter(requests).buffer_unordered(REQUESTS).try_collect::<()>().await
    }

    /// Deletes no more than [`MANY`] objects.
    async fn delete_together(&self, keys: &[String]) -> Result<(), StorageError> {
        let refuses = &self.bucket.refuses_deletes;
        let (mut left, mut why_not) = (keys.iter().collect(), None);
        if keys.len() > 1 && !refuses.load(Ordering::Relaxed) {
            match self.request_deletes(keys).await {
                Ok(unconfirmed) => left = unconfirmed,
                Err(failure) if failure.kind == StorageErrorKind::Unavailable => {
                    return Err(self.error(&keys[0], failure));
                }
                // The server does not know the request, wants it otherwise, or refuses this one: single requests tell.
                Err(failure) => why_not = Some(failure.message),
            }
        }
        let requests: Vec<_> = left.into_iter().map(|key| self.delete_one(key)).collect();
        stream::iter(requests).buffer_unordered(SINGLE_REQUESTS).try_collect::<()>().await?;
        if let Some(error) = why_not.filter(|_| !refuses.swap(true, Ordering::Relaxed)) {
            tracing::info!(storage = %self, error, "the server deletes no objects together; one at a time");
        }
        Ok(())
    }

    /// Asks the server to delete all of `keys`, and gives back those it does not say it has deleted.
    async fn request_deletes<'a>(&self, keys: &'a [String]) -> Result<Vec<&'a String>, S3Failure> {
        let named = keys.iter().map(|key| {
            let named = ObjectIdentifier::builder().key(format!("{}{key}", self.prefix)).build();
            named.expect("an object with its key")
        });
        let objects = Delete::builder().set_objects(Some(named.collect())).quiet(false).build();
        let objects = objects.expect("a list of objects");
        let request = || {
            let request = self.bucket.client.delete_objects().bucket(&self.bucket.name);
            request.delete(objects.clone()).send()
        };
        self.bucket
            .call(("delete many", &self.prefix, DELETE_MANY), request, |answer| {
                let (deleted, errors) = (answer.deleted(), answer.errors());
                if deleted.is_empty() && errors.is_empty() {
                    return Err(S3Failure::no_s3_answer("it says of no object what became of it"));
                }
                let gone = deleted.iter().filter_map(|object| object.key());
                let absent = errors.iter().filter(|error| error.code() == Some("NoSuchKey"));
                let gone = gone.chain(absent.filter_map(|error| error.key()));
                let gone = gone.filter_map(|key| key.strip_prefix(&self.prefix));
                let gone: std::collections::HashSet<&str> = gone.collect();
                Ok(keys.iter().filter(|key| !gone.contains(key.as_str())).collect())
            })
            .await
    }
}
