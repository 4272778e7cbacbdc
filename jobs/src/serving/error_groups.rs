//! One error of a job: what is known of its tries, and the mini-batches that it cost, a page at a time. These are told by the table of tries,
//! of which a call reads a few parts whatever the size of the job.

use std::collections::HashMap;

use futures_util::future::join_all;
use prs_common::layout::{FAILED_MINI_BATCHES, LOGS};
use prs_common::mini_batch::{MiniBatchIndex, id_of};
use prs_common::statistics::ErrorExample;
use prs_common::storage::StorageExt;
use prs_orchestrator::JobRecord;

use crate::errors::{complete, failed_mini_batches, traceback_in};
use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::mini_batches::{Cursor, FoundTry, Wanted, lost};
use crate::records::{DistinctError, ErrorGroupRecord, FailedMiniBatch, FailedTry, Item};
use crate::statistics::published_parts;

/// Bytes of the log of a process that are looked into for the traceback of a try, at its beginning and at its end.
const LOOKED_INTO: u64 = 256 << 10;
/// The longest list of failed mini-batches that is read for the items of those whose table has none, bytes.
const LONGEST_LIST: u64 = 4 << 20;

/// An error of a job with all that is known of its tries; nothing where the job has no such group.
///
/// # Errors
/// The storage fails.
pub async fn error_group(
    home: &dyn JobHome,
    seen: Seen,
    group: &str,
) -> Result<Option<ErrorGroupRecord>, Failure> {
    let statistics = published_parts(home, &seen.record, &["live", "errors"]).await?;
    let list = complete(home, &seen).await?;
    let told = statistics.errors.as_ref().and_then(|told| told.groups.iter().find(|told| told.id == group));
    let known = list.errors.into_iter().map(DistinctError::from);
    let Some(error) = known.into_iter().find(|error| error.group.as_deref() == Some(group)) else {
        return Ok(None);
    };
    let examples = told.iter().flat_map(|told| &told.examples);
    let tracebacks = join_all(examples.map(|example| traceback_of(home, example))).await;
    Ok(Some(ErrorGroupRecord::new(seen.result.job_id, error, told, tracebacks)))
}

/// The traceback of a try in the log of its process; nothing where it is not at its beginning and not at its end.
async fn traceback_of(home: &dyn JobHome, example: &ErrorExample) -> Option<String> {
    let key = format!("{LOGS}user/error/{}/{}.txt", example.node_id, example.process);
    let heading = format!(" {} try {}: ", id_of(example.index), example.number);
    let storage = home.storage();
    let head = storage.get_range(&key, 0..LOOKED_INTO).await.ok()?;
    let found = traceback_in(&String::from_utf8_lossy(&head), &heading);
    if found.is_some() || (head.len() as u64) < LOOKED_INTO {
        return found;
    }
    let size = storage.head(&key).await.ok()?.size;
    let tail = storage.get_range(&key, size.saturating_sub(LOOKED_INTO)..size).await.ok()?;
    traceback_in(&String::from_utf8_lossy(&tail), &heading)
}

/// The mini-batches of a page that failed or lack items.
#[derive(Debug, Default)]
pub struct LostItems {
    /// The mini-batches, in the order of the plan; of their tries those that stand in the parts of the table that were read.
    pub mini_batches: Vec<FailedMiniBatch>,
    /// Where the next page begins; nothing behind the last.
    pub next: Option<Cursor>,
    /// Whether the table has all tries up to `as_of_us`, and the items of all of them are known.
    pub complete: bool,
    /// When the table was written, microseconds since the Unix epoch; nothing where there is none.
    pub as_of_us: Option<u64>,
}

/// The mini-batches that failed or lack items, or those that an error group cost, from a cursor on.
///
/// # Errors
/// The storage fails.
pub async fn lost_items(
    home: &dyn JobHome,
    record: &JobRecord,
    group: Option<&str>,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<LostItems, Failure> {
    let wanted = Wanted { groups: group.map(str::to_owned).into_iter().collect(), ..Wanted::default() };
    let found = lost(home, record, &wanted, cursor, limit).await?;
    let mut before: HashMap<MiniBatchIndex, Vec<FoundTry>> = HashMap::new();
    for one in found.before {
        before.entry(one.index).or_default().push(one);
    }
    let page = found.page;
    let mut known = HashMap::new();
    if page.tries.iter().any(|one| one.named.is_empty()) {
        // An older prs named no items in its table.
        let listed = listed(home, record).await?;
        known.extend(listed.into_iter().map(|one| (one.minibatch_index, one.items)));
    }
    let (mut mini_batches, mut complete) = (Vec::new(), page.complete);
    for outcome in page.tries {
        let named = Item::named_in(&outcome.named);
        let (input, items) = match named {
            Some((input, items)) => (record.spec.inputs.get(input).map(|input| input.name.clone()), items),
            None => (None, known.remove(&outcome.index).unwrap_or_default()),
        };
        complete &= !items.is_empty();
        let mut tries = before.remove(&outcome.index).unwrap_or_default();
        tries.push(outcome);
        tries.sort_by_key(|one| (one.incarnation, one.number));
        mini_batches.extend(lacking(tries, input, items));
    }
    Ok(LostItems { mini_batches, next: page.next, complete, as_of_us: page.as_of_us })
}

/// A mini-batch by its `tries` that failed, and its items; nothing where there is no try. The last try tells what is missing.
fn lacking(tries: Vec<FoundTry>, input: Option<String>, items: Vec<Item>) -> Option<FailedMiniBatch> {
    let last = tries.last()?;
    Some(FailedMiniBatch {
        mini_batch_id: last.id.clone(),
        minibatch_index: last.index,
        input,
        items,
        items_total: Some(last.items),
        items_missing: Some(last.items.saturating_sub(last.succeeded_items)),
        tries: tries.into_iter().map(failed).collect(),
    })
}

fn failed(one: FoundTry) -> FailedTry {
    FailedTry {
        r#try: one.number,
        status: one.status.to_owned(),
        category: one.category.unwrap_or_default(),
        message: one.message.unwrap_or_default(),
        node_id: one.node_id,
        process: one.process,
    }
}

/// The list beside the output of a job that has ended, where it is not too long.
async fn listed(home: &dyn JobHome, record: &JobRecord) -> Result<Vec<FailedMiniBatch>, Failure> {
    match home.output(record).head(FAILED_MINI_BATCHES).await {
        Ok(there) if record.result.is_some() && there.size <= LONGEST_LIST => {
            failed_mini_batches(home, record).await
        }
        _ => Ok(Vec::new()),
    }
}
