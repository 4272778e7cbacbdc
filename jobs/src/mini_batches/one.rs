//! One mini-batch with all its tries.

use std::collections::HashMap;

use prs_common::layout::FAILED_MINI_BATCHES;
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::ErrorDetail;
use prs_common::try_table::{Extent, Row, Which};

use super::found::FoundTry;
use super::parts;
use super::wanted::Wanted;
use crate::errors::failed_mini_batches;
use crate::failure::Failure;
use crate::homes::JobHome;
use crate::records::Item;

/// Parts of each table that are read, the newest first.
const MOST_READ: usize = 16;

/// The longest list of failed mini-batches that is looked into for the items of one, bytes.
const LONGEST_LIST: u64 = 4 << 20;

/// A mini-batch.
#[derive(Debug)]
pub struct OneMiniBatch {
    /// Its tries, the first one first.
    pub tries: Vec<FoundTry>,
    /// What more is known of their errors, by the ids of their groups: a traceback of one try of each.
    pub errors: HashMap<String, ErrorDetail>,
    /// Its items, where items of it are missing and the list of these is not too long; else what the tries say of them is all.
    pub items: Option<Vec<Item>>,
    /// Whether all parts that can have tries of it were read.
    pub complete: bool,
    /// When the directory was written, microseconds since the Unix epoch.
    pub as_of_us: u64,
}

/// The mini-batch with this index; nothing where the job has no table of tries (yet).
pub async fn one(home: &dyn JobHome, index: MiniBatchIndex) -> Result<Option<OneMiniBatch>, Failure> {
    let Some(directory) = parts::directory(home).await? else { return Ok(None) };
    let wanted = Wanted { index: Some((index, index)), ..Wanted::default() };
    let mut found = OneMiniBatch {
        tries: Vec::new(),
        errors: HashMap::new(),
        items: None,
        complete: !directory.lacks_rows,
        as_of_us: directory.written_us,
    };
    for which in [Which::All, Which::Troubled] {
        if which == Which::Troubled && found.tries.iter().all(|one| one.group.is_none()) {
            break;
        }
        let extents = directory.extents(which).iter().enumerate().rev();
        let fitting: Vec<(usize, &Extent)> = extents.filter(|(_, extent)| wanted.may_be_in(extent)).collect();
        let read = &fitting[..fitting.len().min(MOST_READ)];
        found.complete &= read.len() == fitting.len();
        for blocks in parts::read(home, which, read).await? {
            let Some(blocks) = blocks else {
                found.complete = false;
                continue;
            };
            let has_tries = blocks.iter().any(|block| block.rows.iter().any(|row| row.index == index));
            for mut block in blocks {
                let rows: Vec<Row> = std::mem::take(&mut block.rows);
                // The traceback of a group stands once in a part.
                if has_tries {
                    found.errors.extend(block.errors.drain(..));
                }
                if which == Which::All {
                    let own = rows.into_iter().filter(|row| row.index == index);
                    found.tries.extend(own.map(|row| FoundTry::new(&block, row)));
                }
            }
        }
    }
    let groups: Vec<&String> = found.tries.iter().filter_map(|one| one.group.as_ref()).collect();
    found.errors.retain(|group, _| groups.contains(&group));
    found.tries.sort_by_key(|one| (one.incarnation, one.number, one.times_us[0]));
    if found.tries.iter().any(|one| one.is_outcome && one.succeeded_items < one.items) {
        found.items = missing_items(home, index).await?;
    }
    Ok(Some(found))
}

/// The items of a mini-batch of which some are missing, as the list beside the output of an ended job has them.
async fn missing_items(home: &dyn JobHome, index: MiniBatchIndex) -> Result<Option<Vec<Item>>, Failure> {
    let record = home.record().await?;
    let is_listed = match home.output(&record).head(FAILED_MINI_BATCHES).await {
        Ok(there) => record.result.is_some() && there.size <= LONGEST_LIST,
        Err(_) => false,
    };
    if !is_listed {
        return Ok(None);
    }
    let mut listed = failed_mini_batches(home, &record).await?.into_iter();
    Ok(listed.find(|one| one.minibatch_index == index).map(|one| one.items))
}
