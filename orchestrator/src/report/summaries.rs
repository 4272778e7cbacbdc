//! `sys/job_report/process_summary.csv` and `node_summary.csv`: sums over the tries of a process, of a node.

use std::collections::BTreeMap;
use std::fmt::Write;

use prs_common::segment::{TryRecord, TryStatus};
use prs_common::timestamp::push_seconds;

/// Sums over tries.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    tries: u64,
    succeeded: u64,
    items: u64,
    items_succeeded: u64,
    elapsed_us: u64,
    cpu_us: u64,
    run_us: u64,
}

impl Sums {
    fn add(&mut self, record: &TryRecord) {
        self.tries += 1;
        self.succeeded += u64::from(record.status == TryStatus::RunDone);
        self.items += record.items;
        self.items_succeeded += record.succeeded;
        self.elapsed_us += record.elapsed_us;
        self.cpu_us += record.cpu_us;
        self.run_us += record.run_us;
    }

    fn push(&self, line: &mut String) {
        let _ = write!(
            line,
            "{},{},{},{},{},{},",
            self.tries,
            self.succeeded,
            self.tries - self.succeeded,
            self.items,
            self.items_succeeded,
            self.items - self.items_succeeded
        );
        push_seconds(line, self.elapsed_us);
        line.push(',');
        push_seconds(line, self.cpu_us);
        line.push(',');
        push_seconds(line, self.run_us);
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
        let processes = self.nodes.entry(node_id).or_default();
        // Few processes, many tries: no key is allocated for a known one.
        if let Some(sums) = processes.get_mut(process) {
            sums.add(record);
        } else {
            processes.entry(process.to_owned()).or_default().add(record);
        }
    }

    /// The text of `process_summary.csv`.
    pub fn by_process(&self) -> String {
        let mut text = format!("Node Id,Process,{SUM_COLUMNS}");
        for (node_id, processes) in &self.nodes {
            for (process, sums) in processes {
                let _ = write!(text, "{node_id},{process},");
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
                node.tries += sums.tries;
                node.succeeded += sums.succeeded;
                node.items += sums.items;
                node.items_succeeded += sums.items_succeeded;
                node.elapsed_us += sums.elapsed_us;
                node.cpu_us += sums.cpu_us;
                node.run_us += sums.run_us;
            }
            let _ = write!(text, "{node_id},{},", processes.len());
            node.push(&mut text);
        }
        text
    }
}
