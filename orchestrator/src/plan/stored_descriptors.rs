//! Descriptors that are too long for a message travel as objects of the job's storage.
//!
//! Brokers take large messages badly. What is published instead names the object and has its checksum; the node that
//! takes it reads the descriptor before anything else. The same plan stores the same objects, so a plan that is made
//! again costs nothing but the writes.

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use prs_common::layout;
use prs_common::mini_batch::{MiniBatch, Work, checksum};
use prs_common::storage::{PutMode, Storage, StorageError};

/// Longest descriptor that is worth a message, bytes.
pub const LONGEST_MESSAGE: usize = 64 << 10;
/// Descriptors stored side by side.
const AT_ONCE: usize = 16;

/// Stores the descriptors of `bodies` that are longer than [`LONGEST_MESSAGE`] and puts what names them in their
/// places. Nothing is done, nor allocated, where none is.
pub async fn store_long(storage: &dyn Storage, bodies: &mut [Bytes]) -> Result<(), StorageError> {
    if bodies.iter().all(|body| body.len() <= LONGEST_MESSAGE) {
        return Ok(());
    }
    let mut storing = Vec::new();
    for body in bodies {
        if body.len() > LONGEST_MESSAGE {
            storing.push(store(storage, body));
        }
    }
    stream::iter(storing).buffer_unordered(AT_ONCE).try_collect().await
}

async fn store(storage: &dyn Storage, body: &mut Bytes) -> Result<(), StorageError> {
    // What cannot be read the node finds out that runs it.
    let Ok(mini_batch) = MiniBatch::decode(body) else { return Ok(()) };
    let (index, input, items) = (mini_batch.index, mini_batch.input, mini_batch.items());
    let (key, checksum) = (layout::stored_descriptor(index), checksum(body));
    storage.put(&key, body.clone().into(), PutMode::Overwrite).await?;
    *body = MiniBatch::new(index, input, Work::Stored { key: &key, items, checksum }).encode().into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, StorageExt};

    use super::*;

    #[tokio::test]
    async fn long_descriptors_are_stored_and_short_ones_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let path = "x".repeat(100);
        let body = |index, files| -> Bytes {
            let work =
                Work::Files { base: "/data", paths: vec![&path; files], versions: &[], names: Vec::new() };
            MiniBatch::new(index, 3, work).encode().into()
        };
        let bodies = vec![body(0, 1), body(1, 1_000), body(2, 2), body(3, 2_000)];
        let mut sent = bodies.clone();
        store_long(&storage, &mut sent).await.unwrap();
        for ((body, sent), items) in bodies.iter().zip(&sent).zip([1, 1_000, 2, 2_000]) {
            if items < 100 {
                assert_eq!(sent, body);
                continue;
            }
            let message = MiniBatch::decode(sent).unwrap();
            let Work::Stored { key, .. } = message.work else { panic!("{message:?}") };
            assert_eq!(checksum(sent), checksum(body));
            assert_eq!((message.input, message.items()), (3, items));
            assert_eq!(storage.get(key).await.unwrap(), body);
            assert_eq!(MiniBatch::peek_index(sent).unwrap(), MiniBatch::peek_index(body).unwrap());
        }
        assert_eq!(storage.list_all("plan/").await.unwrap().len(), 2);
    }
}
