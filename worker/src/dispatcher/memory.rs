//! What is done when the memory of the container runs out: the largest process is killed, and its mini-batch blamed.
//!
//! As the kernel does it where it may kill one process: by size alone. One at a time, for the memory of one that was killed comes back with
//! its end. Where most of the memory is of others, killing processes of the job would not help, and nobody is killed.

use std::fmt;

use prs_common::wire::{ErrorInfo, Stage};

use super::Dispatcher;
use crate::dispatcher::slot::{Kill, running};
use crate::perf::memory::{Shortage, Usage};
use crate::process::WHERE_IT_LEAKS;

/// A process that was the largest when memory ran out; bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Largest {
    size: u64,
    usage: Usage,
}

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { used, limit } = self.usage;
        let [size, used, limit] = [self.size, used, limit].map(|bytes| bytes >> 20);
        write!(
            f,
            "{size} MiB, when {used} of the {limit} MiB of memory that the container may have were in use"
        )
    }
}

impl Largest {
    /// Why its mini-batch has failed, or its `init()`.
    pub(super) fn explain(self, stage: Stage, during: &str) -> ErrorInfo {
        let message = format!(
            "the process was killed {during}: it was the largest, with {self} (smaller mini-batches, a smaller process_count_per_node or a higher limit helps; {WHERE_IT_LEAKS})"
        );
        ErrorInfo::new(stage, "OutOfMemory", message)
    }
}

/// Which process must go, by its place; `sizes` has the bytes of each.
fn largest(usage: Usage, sizes: impl Iterator<Item = (usize, u64)>) -> Option<(usize, Largest)> {
    let sizes: Vec<(usize, u64)> = sizes.collect();
    let ours: u64 = sizes.iter().map(|(_, size)| size).sum();
    let (position, size) = sizes.into_iter().max_by_key(|(_, size)| *size)?;
    (usage.is_too_much() && ours >= usage.used / 2).then_some((position, Largest { size, usage }))
}

impl Dispatcher<'_> {
    /// Kills the largest process, unless one that was killed for its memory is still there.
    pub(super) fn relieve(&mut self, shortage: &Shortage) {
        if running(&self.slots).any(|one| matches!(one.killed, Some(Kill::Memory(_)))) {
            return;
        }
        let up = self.slots.iter().enumerate().filter_map(|(position, slot)| {
            let running = slot.running.as_ref().filter(|one| one.killed.is_none())?;
            Some((position, *shortage.sizes.get(&running.process.pid)?))
        });
        let Some((position, largest)) = largest(shortage.usage, up) else { return };
        let Some(running) = &mut self.slots[position].running else { return };
        self.pending.extend(running.take_back());
        running.kill(Kill::Memory(largest));
        let name = &running.who.name;
        self.with.main_log.line(format_args!("{name} is killed: it was the largest process, with {largest}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in use, sizes by place; who goes, with its size.
    type Case<'a> = (u64, &'a [(usize, u64)], Option<(usize, u64)>);

    #[test]
    fn the_largest_goes_where_that_helps() {
        let table: [Case<'_>; 7] = [
            (951, &[(0, 300), (1, 400), (2, 100)], Some((1, 400))),
            (951, &[(3, 476)], Some((3, 476))),
            (950, &[(0, 900)], None),
            (951, &[(0, 100), (1, 374)], None),
            // Many small ones that are too many.
            (960, &[(0, 30); 16], Some((0, 30))),
            (1200, &[(0, 0), (1, 900)], Some((1, 900))),
            (1000, &[], None),
        ];
        for (used, sizes, expected) in table {
            let found = largest(Usage { used, limit: 1000 }, sizes.iter().copied());
            assert_eq!(found.map(|(place, largest)| (place, largest.size)), expected, "{used} {sizes:?}");
        }
    }
}
