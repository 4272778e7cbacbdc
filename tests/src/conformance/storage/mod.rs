//! What every storage must do (the contract is on [`Storage`]).

mod large_objects;
mod listing;
mod names;
mod objects;
mod races;

use bytes::Bytes;
use prs_common::storage::{Payload, PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

/// Hands the list of cases to `$crate::$expand`.
#[doc(hidden)]
#[macro_export]
macro_rules! __storage_cases {
    ($expand:ident, $($context:tt)+) => {
        $crate::$expand! { $($context)+;
            objects {
                object_comes_back_as_it_was_put
                put_replaces_an_object
                absent_object_is_not_found
                folder_of_objects_is_not_an_object
                if_absent_keeps_the_first
                update_replaces_its_version_and_no_other
                put_tells_the_version
                probe_leaves_nothing
                a_look_whether_writes_are_taken_leaves_nothing
                ranges_are_cut_at_the_end
                copy_is_an_object_of_its_own
                copy_of_an_absent_object_is_not_found
                copy_replaces_its_target
                new_copy_keeps_what_came_first
                head_is_what_a_listing_says
                deleting_twice_succeeds
                many_objects_are_deleted_together
                everything_below_a_folder_is_deleted
                download_is_the_object
                version_changes_with_the_object
                one_version_is_read_and_no_other
            }
            races {
                racing_writers_of_a_new_object_have_one_winner
                racing_updates_of_one_version_have_one_winner
                many_who_count_lose_no_step
                racing_uploads_of_a_new_object_have_one_winner
                racing_writers_of_one_object_never_mix
                reader_never_meets_a_part
                racing_uploads_of_one_object_never_mix
            }
            large_objects {
                parts_are_one_object
                large_object_by_parts
                file_is_moved_into_the_store
                file_that_is_absent_moves_nothing
                upload_is_seen_when_finished
                upload_that_is_dropped_leaves_nothing
                new_upload_keeps_what_came_first
                upload_of_nothing_is_an_empty_object
            }
            listing {
                listing_is_sorted_bytewise
                listing_is_of_one_folder
                listing_shows_what_was_written_before
                listing_of_many_objects_is_whole
                listing_goes_on_where_it_stopped
                listing_of_a_folder_has_its_folders
            }
            names {
                names_of_any_letters
                malformed_keys_are_refused
                longest_key_is_the_longest
                uri_names_the_object
                part_of_a_store_is_a_store
            }
        }
    };
}

/// One test for each case: `storage_conformance!((storage, kept))`.
#[macro_export]
macro_rules! storage_conformance {
    ($factory:expr) => {
        $crate::__storage_cases!(__expand_cases, tests storage, $factory);
    };
}

__storage_cases!(__expand_cases, run dyn Storage);

async fn put(storage: &dyn Storage, key: &str, payload: impl Into<Payload>) {
    storage.put(key, payload.into(), PutMode::Overwrite).await.unwrap();
}

async fn get(storage: &dyn Storage, key: &str) -> Bytes {
    storage.get(key).await.unwrap()
}

async fn keys(storage: &dyn Storage, prefix: &str) -> Vec<String> {
    storage.list_all(prefix).await.unwrap().into_iter().map(|object| object.key).collect()
}

fn kind<T>(outcome: Result<T, StorageError>) -> StorageErrorKind {
    outcome.err().expect("the call must fail").kind
}

/// The content of writer `number`: its length and its bytes tell it from all others.
fn written_by(number: usize) -> Bytes {
    vec![b'a' + number as u8; 300_000 + number].into()
}
