//! `sys/job_report/process_summary.csv` and `node_summary.csv`: sums over the tries of a process, of a node, and which
//! processes were replaced.

use std::collections::{BTreeMap, BTreeSet};
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

    fn push(&self, line: &mut String, replaced: usize) {
        for count in self.counts {
            let _ = write!(line, ",{count}");
        }
        push_durations(line, self.durations_us);
        let _ = writeln!(line, ",{replaced}");
    }
}

const SUM_COLUMNS: &str = "Tries,Tries Succeeded,Tries Failed,Items,Items Succeeded,Items Failed,\
Elapsed Seconds,Process Seconds,Run Method Seconds,Replaced\n";

/// The sums of all processes and nodes.
#[derive(Debug, Default)]
pub struct Summaries {
    nodes: BTreeMap<u32, BTreeMap<String, Sums>>,
    /// Node and name of each process that made room for another one, because mini-batches failed in it.
    replaced: BTreeSet<(u32, String)>,
}

impl Summaries {
    /// Adds a try.
    pub fn add(&mut self, node_id: u32, process: &str, record: &TryRecord) {
        if let Some(number) = record.in_place_of {
            self.replaced.insert((node_id, format!("process{number:03}")));
        }
        let (processes, one) = (self.nodes.entry(node_id).or_default(), Sums::of(record));
        // Few processes, many tries: no key is allocated for a known one.
        if let Some(sums) = processes.get_mut(process) {
            sums.add(&one);
        } else {
            processes.insert(process.to_owned(), one);
        }
    }

    /// How many processes made room for another one, because mini-batches failed in them.
    pub fn replaced_processes(&self) -> u64 {
        self.replaced.len() as u64
    }

    /// The text of `process_summary.csv`.
    pub fn by_process(&self) -> String {
        let mut text = format!("Node Id,Process,{SUM_COLUMNS}");
        for (node_id, processes) in &self.nodes {
            for (process, sums) in processes {
                let _ = write!(text, "{node_id},{process}");
                let is_replaced = self.replaced.contains(&(*node_id, process.clone()));
                sums.push(&mut text, usize::from(is_replaced));
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
            let replaced = self.replaced.iter().filter(|(of, _)| of == node_id).count();
            node.push(&mut text, replaced);
        }
        text
    }
}
