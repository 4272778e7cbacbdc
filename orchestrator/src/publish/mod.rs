//! Publishing: how what a job made gets to its output without replacing what it did not bring itself.
//!
//! Before a file gets its name in the output, a note in the job's own storage says which bytes the job brings under
//! that name. What is found there and was noted is of a former start of the job, or of an orchestrator that died over
//! it, and makes room. Everything else stays where it is: the job fails with the name and the remedy, keeps its
//! segments, and needs to run nothing again once the name is free.

mod files;
pub mod former;
pub(crate) mod intact;
mod notes;
mod place;

use futures_util::TryStreamExt;
use prs_common::hexadecimal;
use prs_common::storage::{
    GetOptions, IfExists, Payload, PutMode, Storage, StorageError, StorageErrorKind, StorageExt,
};
use sha2::{Digest, Sha256};

pub(crate) use self::files::publish as files;
pub use self::notes::Notes;
pub use self::place::open_folder;
pub(crate) use self::place::{deliver, take_back_unfinished, there, withdraw_delivered};
use crate::JobContext;

/// Replaces nothing.
pub(crate) const NEW: IfExists = IfExists::Fail;
/// Bytes of an object that are read at a time: many are read side by side.
const FILE_PIECE: u64 = 1 << 20;

/// What there is at a name of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing.
    Free,
    /// What is to get the name.
    Filled,
}

/// Makes room in the output for a file with this checksum under this name.
pub(crate) async fn make_room(job: &JobContext, name: &str, sha256: &str) -> Result<Room, StorageError> {
    let noted = notes::note(job, name, sha256);
    let ((), there) = tokio::try_join!(noted, checksum_of(&*job.output, name))?;
    match there {
        None => Ok(Room::Free),
        Some(there) if there == sha256 => Ok(Room::Filled),
        Some(there) => {
            must_be_ours(job, name, &there).await?;
            job.output.delete(name).await?;
            Ok(Room::Free)
        }
    }
}

/// Looks whether there could be room for `name`.
pub(crate) async fn check_room(job: &JobContext, name: &str) -> Result<(), StorageError> {
    match checksum_of(&*job.output, name).await? {
        None => Ok(()),
        Some(there) => must_be_ours(job, name, &there).await,
    }
}

/// What it means that a file with this checksum was `placed` where there was room.
pub(crate) async fn placed(
    job: &JobContext,
    name: &str,
    sha256: &str,
    placed: Result<(), StorageError>,
) -> Result<(), StorageError> {
    match placed {
        Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
        placed => return placed,
    }
    match checksum_of(&*job.output, name).await? {
        Some(there) if there == sha256 => Ok(()),
        Some(there) => {
            must_be_ours(job, name, &there).await?;
            Err(error(
                job,
                StorageErrorKind::Unavailable,
                name,
                "another node of the job wrote it at this moment",
            ))
        }
        // A folder, or a link to nothing.
        None => Err(taken(job, name)),
    }
}

/// Puts a file of prs's own, which has this checksum, into the output.
pub(crate) async fn put(
    job: &JobContext,
    name: &str,
    body: Payload,
    sha256: &str,
) -> Result<(), StorageError> {
    match make_room(job, name, sha256).await? {
        Room::Free => {
            let put = job.output.put(name, body, PutMode::Create).await;
            placed(job, name, sha256, put.map(drop)).await
        }
        Room::Filled => Ok(()),
    }
}

/// Removes a file of prs's own from the output, where the job brought it.
pub(crate) async fn withdraw(job: &JobContext, name: &str) -> Result<(), StorageError> {
    let Some(there) = checksum_of(&*job.output, name).await? else { return Ok(()) };
    if Notes::read(&*job.storage).await?.brought(name, &there).is_some() {
        return job.output.delete(name).await;
    }
    tracing::warn!(job = job.id, name, "the job did not bring this file of its output; it stays");
    Ok(())
}

/// Checks that the job, in this start or a former one, brought what has the name and this checksum.
async fn must_be_ours(job: &JobContext, name: &str, there: &str) -> Result<(), StorageError> {
    match Notes::read(&*job.storage).await?.brought(name, there) {
        Some(incarnation) if incarnation <= job.incarnation => Ok(()),
        Some(_) => {
            Err(error(job, StorageErrorKind::Unavailable, name, "a later start of the job brought it"))
        }
        None => Err(taken(job, name)),
    }
}

fn taken(job: &JobContext, name: &str) -> StorageError {
    let message = "something is there that the job did not bring, and it is not overwritten: move it away and resume the \
                   job, which then needs to run nothing again";
    error(job, StorageErrorKind::AlreadyExists, name, message)
}

fn error(job: &JobContext, kind: StorageErrorKind, name: &str, message: &str) -> StorageError {
    StorageError { kind, place: job.output.to_string(), key: name.to_owned(), message: message.to_owned() }
}

/// The checksum (SHA-256, in hexadecimal) of an object; nothing where there is none.
pub async fn checksum_of(storage: &dyn Storage, key: &str) -> Result<Option<String>, StorageError> {
    let mut hasher = Sha256::new();
    let mut object = storage.stream(key, GetOptions::default());
    loop {
        match object.try_next().await {
            Ok(Some(piece)) => hasher.update(&piece),
            Ok(None) => return Ok(Some(hexadecimal(&hasher.finalize()))),
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::fixtures::Fixture;

    const NAME: &str = "rows.txt";

    fn sum(text: &str) -> String {
        hexadecimal(&Sha256::digest(text))
    }

    async fn put(job: &JobContext, name: &str, text: &'static str) -> Result<(), StorageError> {
        super::put(job, name, text.into(), &sum(text)).await
    }

    async fn there(fixture: &Fixture) -> Option<Bytes> {
        fixture.job.output.get(NAME).await.ok()
    }

    #[tokio::test]
    async fn what_a_former_start_brought_makes_room_and_nothing_else_does() {
        let mut fixture = Fixture::new(1).await;
        put(&fixture.job, NAME, "first").await.unwrap();
        put(&fixture.job, NAME, "first").await.unwrap();
        fixture.job.incarnation = 2;
        put(&fixture.job, NAME, "second").await.unwrap();
        assert_eq!(there(&fixture).await.unwrap(), "second");

        fixture.job.output.put(NAME, "another's".into(), PutMode::Overwrite).await.unwrap();
        let taken = put(&fixture.job, NAME, "second").await.unwrap_err();
        assert_eq!((taken.kind, &*taken.key), (StorageErrorKind::AlreadyExists, NAME));
        assert!(taken.message.contains("move it away"), "{taken}");
        assert_eq!(check_room(&fixture.job, NAME).await.unwrap_err().kind, StorageErrorKind::AlreadyExists);
        withdraw(&fixture.job, NAME).await.unwrap();
        assert_eq!(there(&fixture).await.unwrap(), "another's");

        fixture.job.output.delete(NAME).await.unwrap();
        put(&fixture.job, NAME, "second").await.unwrap();
        check_room(&fixture.job, NAME).await.unwrap();
        for _ in 0..2 {
            withdraw(&fixture.job, NAME).await.unwrap();
            assert_eq!(there(&fixture).await, None);
        }
    }

    /// An orchestrator of a former start that slept goes on.
    #[tokio::test]
    async fn what_a_later_start_brought_stays() {
        let mut fixture = Fixture::new(1).await;
        fixture.job.incarnation = 2;
        put(&fixture.job, NAME, "later").await.unwrap();
        fixture.job.incarnation = 1;
        let late = put(&fixture.job, NAME, "sooner").await.unwrap_err();
        assert!(late.is_retryable(), "the next attempt finds that the job is another's: {late}");
        assert_eq!(there(&fixture).await.unwrap(), "later");
    }

    /// Something came between the look and the write.
    #[tokio::test]
    async fn a_name_that_was_free_a_moment_ago_is_looked_at_again() {
        let fixture = Fixture::new(1).await;
        let (job, exists) =
            (&fixture.job, || Err(error(&fixture.job, StorageErrorKind::AlreadyExists, NAME, "")));
        assert_eq!(make_room(job, NAME, &sum("ours")).await.unwrap(), Room::Free);
        let put = async |text: &'static str| {
            job.output.put(NAME, text.into(), PutMode::Overwrite).await.unwrap();
            placed(job, NAME, &sum("ours"), exists()).await.map_err(|error| error.kind)
        };
        assert_eq!(put("ours").await, Ok(()));
        assert_eq!(put("another's").await, Err(StorageErrorKind::AlreadyExists));
        notes::note(job, NAME, &sum("another try's")).await.unwrap();
        assert_eq!(put("another try's").await, Err(StorageErrorKind::Unavailable));
    }
}
