//! One mini-batch with all its tries.

use std::collections::HashMap;

use prs_common::mini_batch::MiniBatchIndex;
use prs_common::segment::ErrorDetail;
use prs_common::statistics::{Live, Nodes, Part, RunningOn};
use prs_common::try_table::{Extent, Row, Which};
use prs_orchestrator::JobRecord;
use prs_portal::view::Published;

use super::found::FoundTry;
use super::narrowed::under_way;
use super::parts;
use super::wanted::Wanted;
use crate::failure::Failure;
use crate::homes::{JobHome, Seen};
use crate::records::Item;

/// Parts of each table that are read, the newest first.
const MOST_READ: usize = 16;

/// A mini-batch.
#[derive(Debug, Default)]
pub struct OneMiniBatch {
    /// Its tries, the first one first.
    pub tries: Vec<FoundTry>,
    /// What more is known of their errors, by the ids of their groups: a traceback of one try of each.
    pub errors: HashMap<String, ErrorDetail>,
    /// Its items, where items of it are missing; else what the tries say of them is all.
    pub items: Option<Vec<Item>>,
    /// Whether all parts that can have tries of it were read.
    pub complete: bool,
    /// When that was so, microseconds since the Unix epoch.
    pub as_of_us: u64,
    /// Where it runs now, as far as nodes tell: several where a copy runs beside it.
    pub runs: Vec<RunningOn>,
}

impl OneMiniBatch {
    /// `succeeded`, `failed`; without an outcome `running`, or `open` where it waits or has just begun.
    pub fn state(&self) -> &'static str {
        let outcome = self.tries.iter().find(|one| one.is_outcome).and_then(|one| one.state);
        outcome.unwrap_or(if self.runs.is_empty() { "open" } else { "running" })
    }

    /// What it consists of; empty where nobody has told.
    pub fn detail(&self) -> String {
        let told = self.tries.iter().map(|one| &one.detail).chain(self.runs.iter().map(|one| &one.detail));
        told.into_iter().find(|detail| !detail.is_empty()).cloned().unwrap_or_default()
    }

    /// Notes where it runs, of what runs in this start of the job: not what has ended since that was told.
    fn runs_in(&mut self, incarnation: u32, runs: Vec<RunningOn>) {
        let tries = &self.tries;
        let has_ended = |one: &RunningOn| {
            tries.iter().any(|ended| {
                ended.is_outcome && ended.incarnation == incarnation
                    || (ended.incarnation, ended.number, ended.node_id)
                        == (incarnation, one.number, one.node_id)
            })
        };
        self.runs = runs.into_iter().filter(|one| !has_ended(one)).collect();
    }
}

/// The parts of the statistics that tell where mini-batches run.
pub const RUNS_IN: [&str; 2] = [Live::NAME, Nodes::NAME];

/// What is known of the mini-batch with this index of a job that was seen so, with [`RUNS_IN`] of what is published of it; nothing where none
/// of this index is planned.
pub async fn known(
    home: &dyn JobHome,
    seen: &Seen,
    published: &Published,
    index: MiniBatchIndex,
) -> Result<Option<OneMiniBatch>, Failure> {
    let has_ended = home.has_ended(&seen.record);
    let live = published.live.as_ref().filter(|_| !has_ended);
    let mut found = one(home, &seen.record, index).await?.unwrap_or_else(|| OneMiniBatch {
        complete: !has_ended,
        as_of_us: live.map_or(seen.record.status.updated_us, |live| live.written_us),
        ..OneMiniBatch::default()
    });
    if let Some(live) = live.filter(|live| live.incarnation == seen.record.incarnation) {
        let mut runs = under_way(published);
        runs.retain(|one| one.index == index);
        found.runs_in(live.incarnation, runs);
    }
    let planned = seen.result.mini_batches.scheduled.max(live.map_or(0, |live| live.scheduled));
    let planned = planned.max(seen.record.status.progress.checkpoint.end);
    let is_known = !found.tries.is_empty() || !found.runs.is_empty() || index < planned;
    Ok(is_known.then_some(found))
}

/// The mini-batch with this index; nothing where the job has no table of tries (yet).
async fn one(
    home: &dyn JobHome,
    record: &JobRecord,
    index: MiniBatchIndex,
) -> Result<Option<OneMiniBatch>, Failure> {
    let Some(directory) = parts::directory(home, record).await? else { return Ok(None) };
    let wanted = Wanted { index: Some((index, index)), ..Wanted::default() };
    let mut found = OneMiniBatch {
        tries: Vec::new(),
        errors: HashMap::new(),
        items: None,
        complete: !directory.lacks_rows,
        as_of_us: directory.written_us,
        ..OneMiniBatch::default()
    };
    for which in [Which::All, Which::Troubled] {
        if which == Which::Troubled && found.tries.iter().all(|one| one.group.is_none()) {
            break;
        }
        let extents = directory.extents(which).iter().enumerate().rev();
        let fitting: Vec<(usize, &Extent)> = extents.filter(|(_, extent)| wanted.may_be_in(extent)).collect();
        let read = &fitting[..fitting.len().min(MOST_READ)];
        found.complete &= read.len() == fitting.len();
        for blocks in parts::read(home, record, which, read).await? {
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
                let mut own = rows.into_iter().filter(|row| row.index == index);
                if which == Which::All {
                    found.tries.extend(own.map(|row| FoundTry::new(&block, row)));
                } else if let Some(row) = own.find(|row| !row.named.is_empty()) {
                    found.items = Item::named_in(&row.named).map(|(_, items)| items);
                }
            }
        }
    }
    let groups: Vec<&String> = found.tries.iter().filter_map(|one| one.group.as_ref()).collect();
    found.errors.retain(|group, _| groups.contains(&group));
    found.tries.sort_by_key(|one| (one.incarnation, one.number, one.times_us[0]));
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(number: u32, is_outcome: bool, incarnation: u32) -> FoundTry {
        let block = prs_common::try_table::Block { incarnation, node_id: 1, ..Default::default() };
        let row = Row { index: 7, number, is_outcome, detail: "a.txt".to_owned(), ..Row::default() };
        FoundTry::new(&block, row)
    }

    #[test]
    fn what_runs_is_told_until_its_try_has_ended() {
        let runs = |number, detail: &str| RunningOn {
            index: 7,
            node_id: 1,
            number,
            detail: detail.to_owned(),
            ..RunningOn::default()
        };
        for (tries, running, expected) in [
            (vec![], vec![], ("open", "", 0)),
            (vec![], vec![runs(1, "b.txt")], ("running", "b.txt", 1)),
            (vec![tried(1, false, 2)], vec![runs(1, "")], ("open", "a.txt", 0)),
            (vec![tried(1, false, 2)], vec![runs(2, "")], ("running", "a.txt", 1)),
            (vec![tried(1, false, 2), tried(2, true, 2)], vec![runs(3, "")], ("succeeded", "a.txt", 0)),
            // It failed in a former start.
            (vec![tried(1, false, 1)], vec![runs(1, "")], ("running", "a.txt", 1)),
        ] {
            let mut one = OneMiniBatch { tries, ..OneMiniBatch::default() };
            one.runs_in(2, running);
            assert_eq!((one.state(), &*one.detail(), one.runs.len()), expected, "{one:?}");
        }
    }
}
