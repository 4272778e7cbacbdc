//! `sys/job_report/process_summary.csv` and `node_summary.csv`: sums over the tries of a process, of a node.

use std::collections::BTreeMap;
use std::fmt::Write;

use prs_common::segment::{TryRecord, TryStatus};

use super::push_durations;

/// Sums over tries, in the order of [`SUM_COLUMNS`].
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    counts: [u64; 6],
    durations_us: [u64; 3],
}

impl Sums {
    fn of(record: &TryRecord) -> Self {
        let (tries, succeeded) = (1, u64::from(record.status == TryStatus::RunDone));
        let (items, items_succeeded) = (record.items, record.succeeded);
        let (failed, items_failed) = (tries - succeeded, items - items_succeeded);
        Self {
            counts: [tries, succeeded, failed, items, items_succeeded, items_failed],
            durations_us: [record.elapsed_us, record.cpu_us, record.run_us],
        }
    }

    fn add(&mut self, more: &Self) {
        self.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
        self.durations_us.iter_mut().zip(more.durations_us).for_each(|(sum, more)| *sum += more);
    }

    fn push(&self, line: &mut String) {
        for count in self.counts {
            let _ = write!(line, ",{count}");
        }
        push_durations(line, self.durations_us);
        line.push('\n');
    }
}

const SUM_COLUMNS: &str = "Tries,Tries Succeeded,Tries Failed,Items,Items Succeeded,Items Failed,\
Elapsed Seconds,Process Seconds,Run Method Seconds\n";

/// The sums of all processes and nodes.
#[derive(Debug, Default)]
pub struct Summaries {
    nodes: BTreeMap<u32, BTreeMap<String, Sums>>,
}

impl Summaries {
    /// Adds a try.
    pub fn add(&mut self, node_id: u32, process: &str, record: &TryRecord) {
        let (processes, one) = (self.nodes.entry(node_id).or_default(), Sums::of(record));
        // Few processes, many tries: no key is allocated for a known one.
        if let Some(sums) = processes.get_mut(process) {
            sums.add(&one);
        } else {
            processes.insert(process.to_owned(), one);
        }
    }

    /// The text of `process_summary.csv`.
    pub fn by_process(&self) -> String {
        let mut text = format!("Node Id,Process,{SUM_COLUMNS}");
        for (node_id, processes) in &self.nodes {
            for (process, sums) in processes {
                let _ = write!(text, "{node_id},{process}");
                sums.push(&mut text);
            }
        }
        text
    }

    /// The text of `node_summary.csv`.
    pub fn by_node(&self) -> String {
        let mut text = format!("Node Id,Processes,{SUM_COLUMNS}");
        for (node_id, processes) in &self.nodes {
            let mut node = Sums::default();
            for sums in processes.values() {
                node.add(sums);
            }
            let _ = write!(text, "{node_id},{}", processes.len());
            node.push(&mut text);
        }
        text
    }
}
