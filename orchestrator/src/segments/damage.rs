//! What becomes of segments that storage did not keep as they were written, or that hold what no plan has.
//!
//! Their outcomes cannot count. A damaged segment is set aside: it moves to a folder where nobody takes it for a
//! segment, and a note beside it tells why. The ledger is then filled anew from the segments that are left, as after its
//! loss, and what has no outcome runs again. The folders also count how often that happened: a store that damages
//! whatever it is given ends the job with the names of the keys.

use prs_common::layout;
use prs_common::storage::{IfExists, PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

/// How often the mini-batches of damaged segments run again, in one start of a job.
const MOST_ROUNDS: u32 = 8;
/// Segments that a reason names.
const NAMED: usize = 3;

/// A segment whose outcomes cannot count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Its key.
    pub segment: String,
    /// Why.
    pub reason: String,
}

/// One line about some damaged segments.
pub(crate) fn describe(damaged: &[Damaged]) -> String {
    let named: Vec<_> =
        damaged.iter().take(NAMED).map(|one| format!("{}: {}", one.segment, one.reason)).collect();
    let more = damaged.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("damaged in storage: {}{more}", named.join("; "))
}

/// Sets damaged segments of this start of a job aside. False when that has happened too often: running their
/// mini-batches again does not help.
pub(crate) async fn set_aside(
    storage: &dyn Storage,
    incarnation: u32,
    damaged: &[Damaged],
) -> Result<bool, StorageError> {
    let former = Former::read(storage, incarnation).await?;
    if damaged.iter().all(|one| layout::is_segment(&one.segment) && former.has(&one.segment)) {
        // Only the ledger did not hear of it yet.
        return Ok(true);
    }
    let round = former.last_round + 1;
    if round > MOST_ROUNDS {
        return Ok(false);
    }
    for Damaged { segment, reason } in damaged {
        let aside = layout::damaged_segment(incarnation, round, segment);
        // First the note: a segment that is gone leaves nothing else to count by.
        storage.put(&format!("{aside}.txt"), format!("{reason}\n").into(), PutMode::Overwrite).await?;
        if !layout::is_segment(segment) {
            continue;
        }
        match storage.copy(segment, &aside, IfExists::Overwrite).await {
            Ok(()) => storage.delete(segment).await?,
            // What is gone for the moment may come back, and then counts again.
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// What was set aside before in a start of the job.
struct Former {
    last_round: u32,
    /// Keys of all notes.
    notes: Vec<String>,
}

impl Former {
    async fn read(storage: &dyn Storage, incarnation: u32) -> Result<Self, StorageError> {
        let listed = storage.list_all(layout::DAMAGED).await?.into_iter();
        let of_this_start = listed.filter_map(|object| {
            let (of, round) = layout::round_of_damage(&object.key)?;
            (of == incarnation).then_some((round, object.key))
        });
        let (rounds, notes): (Vec<_>, Vec<_>) = of_this_start.unzip();
        Ok(Self { last_round: rounds.into_iter().max().unwrap_or(0), notes })
    }

    fn has(&self, segment: &str) -> bool {
        let name = format!("/{}.txt", segment.trim_start_matches(layout::SEGMENTS));
        self.notes.iter().any(|note| note.ends_with(&name))
    }
}

#[cfg(test)]
mod tests {
    use prs_common::storage::LocalStorage;

    use super::*;

    fn damaged(segment: &str) -> Damaged {
        Damaged { segment: segment.to_owned(), reason: "a bit".to_owned() }
    }

    #[tokio::test]
    async fn damaged_segments_move_aside_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        let (bad, good) = (layout::segment(1, 0, "5f", 7), layout::segment(1, 0, "5f", 8));
        for key in [&bad, &good] {
            storage.put(key, "rows".into(), PutMode::Overwrite).await.unwrap();
        }
        assert!(set_aside(&storage, 1, &[damaged(&bad), damaged("segments/1-gone.seg")]).await.unwrap());
        let left = storage.list_all("").await.unwrap();
        let segments = storage.list_all(layout::SEGMENTS).await.unwrap();
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].key, good);
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(set_aside(&storage, 1, &[damaged(&bad)]).await.unwrap(), "the ledger had not heard of it");
        assert_eq!(storage.list_all("").await.unwrap(), left);
        for round in 2..=MOST_ROUNDS {
            let segment = format!("segments/x-{round}.seg");
            assert!(set_aside(&storage, 1, &[damaged(&segment)]).await.unwrap(), "{round}");
        }
        assert!(!set_aside(&storage, 1, &[damaged("segments/x.seg")]).await.unwrap());
        assert!(set_aside(&storage, 2, &[damaged("segments/x.seg")]).await.unwrap(), "another start");
    }

    #[test]
    fn a_reason_names_some_of_the_keys() {
        let all: Vec<_> = (0..5).map(|number| damaged(&format!("s{number}"))).collect();
        assert_eq!(describe(&all[..1]), "damaged in storage: s0: a bit");
        assert_eq!(describe(&all), "damaged in storage: s0: a bit; s1: a bit; s2: a bit; and 2 more");
    }
}
