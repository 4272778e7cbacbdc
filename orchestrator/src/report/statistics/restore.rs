//! What a successor takes over that no segment has: how busy slots were, and how far clocks are.

use std::path::Path;

use prs_common::statistics::{FOLDER, Live, Nodes, Part, Timeline, decode};
use prs_common::tree;

use super::Statistics;

impl Statistics {
    /// Takes over what an orchestrator of the same start of the job published last, below the folder of the logs. What of it
    /// is of tries comes from the segments again.
    pub(crate) fn restore(&mut self, logs: &Path) {
        if let Some(live) = read::<Live>(logs)
            && live.incarnation == self.incarnation
            && live.timeline.origin_us() == self.timeline.origin_us()
        {
            let mut observed = Timeline::new(live.timeline.origin_us());
            for (at, bucket) in live.timeline.buckets().iter().enumerate() {
                *observed.at(live.timeline.start_us(at)) = bucket.observed();
            }
            self.timeline.merge(&observed);
            for (near_us, limit) in self.near_us.iter_mut().zip(&live.thresholds) {
                *near_us = limit.near_us;
            }
            if let Some(nodes) = read::<Nodes>(logs) {
                for row in nodes.rows {
                    self.nodes.set_clock(row.node_id, &row.worker, row.clock_us);
                }
            }
        }
    }
}

/// A part as it was published; nothing where there is none, or it cannot be read.
fn read<P: Part>(logs: &Path) -> Option<P> {
    let path = logs.join(FOLDER).join(P::NAME);
    if std::fs::metadata(&path).ok()?.len() > P::MOST_BYTES as u64 {
        return None;
    }
    decode(&tree::read(&path).ok()?).ok()
}
