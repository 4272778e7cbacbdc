//! What a node uses of its host, below `perf/<node_id>/` of the job's logs (spec section 5).
//!
//! The first look at the host is taken 10 s after the node begins to serve; each pause is twice the one before, up to
//! `resource_monitor_interval`. So a job of a minute has some looks, one of a second has none, and one of a day has no
//! more than it asks for. `look` takes a look, `tables` makes text of it. What the host does not tell is left empty.
//! `memory` sees when the container has too little of it, `load` tells the heartbeat what is used.
//!
//! Looks have a thread of their own that nobody waits for: a file system or a driver that hangs costs looks, and not the
//! end of a job.

pub(crate) mod family;
pub(crate) mod load;
mod look;
pub(crate) mod memory;
mod tables;

use std::fs::read_to_string;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use prs_common::log_file::LogFile;
use prs_common::timestamp::{format_day, now_us};

use look::Observer;

/// Until the first look, where the interval is not shorter.
const FIRST: Duration = Duration::from_secs(10);
/// All processes of the host are listed in one look a minute, however many there are.
const MINUTE_US: u64 = 60_000_000;

/// Looks at the host for one node until it is dropped.
pub(crate) struct Monitor {
    /// Nothing is sent: the thread sees that it is gone.
    _stop_tx: Sender<()>,
}

impl Monitor {
    /// Begins to look for node `node_id`, whose processes carry tokens that start with `token_prefix`, and to write below the
    /// job's folder of `logs`; `None` where the interval is zero: nobody looks.
    pub(crate) fn start(logs: &Path, node_id: u32, token_prefix: String, interval: Duration) -> Option<Self> {
        if interval.is_zero() {
            return None;
        }
        let (stop_tx, stop_rx) = channel();
        let folder = logs.join(format!("perf/{node_id}"));
        let looking = move || run(&folder, token_prefix, interval, &stop_rx);
        if let Err(error) = thread::Builder::new().name("perf".to_owned()).spawn(looking) {
            tracing::warn!(%error, "nobody looks at what the host does");
        }
        Some(Self { _stop_tx: stop_tx })
    }
}

fn run(folder: &Path, token_prefix: String, interval: Duration, stop_rx: &Receiver<()>) {
    // A short job pays nothing for looks that it does not have.
    let mut waited = interval.min(FIRST) / 2;
    if stop_rx.recv_timeout(waited) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let mut observer = Observer::new(token_prefix);
    let gpus = observer.begin();
    let mut host = Table::new(folder, "node_resource_usage", tables::host_header(gpus));
    let mut disks = Table::new(folder, "node_disk_usage", tables::DISKS.to_owned());
    let mut processes = Table::new(folder, "processes_resource_usage", tables::PROCESSES.to_owned());
    let mut last_minute = 0;
    for pause in pauses(interval) {
        let pause = pause.saturating_sub(std::mem::take(&mut waited));
        if stop_rx.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let look = observer.look(now_us());
        // The node may have left meanwhile.
        if stop_rx.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        host.append(&tables::host(&look));
        disks.append(&tables::disks(&look));
        processes.append(&tables::processes(&look));
        let minute = look.at_us / MINUTE_US;
        if minute != last_minute {
            last_minute = minute;
            let (day, hour) = (format_day(look.at_us), minute / 60 % 24);
            let list = folder.join(format!("os/{day}{hour:02}/processes_{:02}", minute % 60));
            LogFile::new(list).append(&tables::all_processes(&look));
        }
    }
}

/// The pauses before the looks.
fn pauses(interval: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(interval.min(FIRST)), move |pause| Some(interval.min(2 * *pause)))
}

/// A file of CSV that is gone on with by another start of the node.
struct Table {
    log: LogFile,
    /// What is still to be written above the rows.
    header: String,
}

impl Table {
    /// The first file `stem.csv`, `stem.2.csv`, ... that has this header or none: another host may have other columns.
    fn new(folder: &Path, stem: &str, header: String) -> Self {
        for number in 1.. {
            let suffix = if number == 1 { String::new() } else { format!(".{number}") };
            let path = folder.join(format!("{stem}{suffix}.csv"));
            let text = read_to_string(&path).unwrap_or_default();
            if text.is_empty() {
                return Self { log: LogFile::new(path), header };
            }
            if text.starts_with(&header) {
                return Self { log: LogFile::new(path), header: String::new() };
            }
        }
        unreachable!("there are more numbers than files")
    }

    fn append(&mut self, rows: &str) {
        if !rows.is_empty() {
            self.log.append(&format!("{}{rows}", std::mem::take(&mut self.header)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;
    use std::time::Instant;

    use super::*;

    #[test]
    fn pauses_grow_up_to_the_interval() {
        for (interval, expected) in
            [(600, [10, 20, 40, 80, 160, 320, 600, 600]), (5, [5; 8]), (15, [10, 15, 15, 15, 15, 15, 15, 15])]
        {
            let seconds: Vec<_> =
                pauses(Duration::from_secs(interval)).map(|pause| pause.as_secs()).take(8).collect();
            assert_eq!(seconds, expected, "{interval}");
        }
    }

    /// Lines of a file of the node.
    fn lines(logs: &Path, name: &str) -> usize {
        read_to_string(logs.join("perf/3").join(name)).unwrap_or_default().lines().count()
    }

    /// Looks until the file about the host has so many lines, and what is written behind it is there.
    fn looks(logs: &Path, host: &str, count: usize) {
        let monitor = Monitor::start(logs, 3, "job-1-3-x-".into(), Duration::from_millis(100));
        let deadline = Instant::now() + Duration::from_mins(1);
        while lines(logs, host) < count || lines(logs, "processes_resource_usage.csv") < count {
            assert!(Instant::now() < deadline, "{host} has {} lines", lines(logs, host));
            thread::sleep(Duration::from_millis(10));
        }
        drop(monitor);
        // A look may be under way.
        thread::sleep(Duration::from_millis(100));
    }

    #[test]
    fn another_start_of_a_node_goes_on_in_its_files() {
        let logs = tempfile::tempdir().unwrap();
        looks(logs.path(), "node_resource_usage.csv", 2);
        let folder = logs.path().join("perf/3");
        let before = lines(logs.path(), "node_resource_usage.csv");
        looks(logs.path(), "node_resource_usage.csv", before + 1);
        let host = read_to_string(folder.join("node_resource_usage.csv")).unwrap();
        assert_eq!(host.matches("Time,").count(), 1, "{host}");
        let columns = |line: &str| line.split(',').count();
        assert!(host.lines().all(|line| columns(line) == columns(host.lines().next().unwrap())), "{host}");
        let processes = read_to_string(folder.join("processes_resource_usage.csv")).unwrap();
        assert!(processes.lines().nth(1).unwrap().contains(",prs,"), "{processes}");
        assert!(read_to_string(folder.join("node_disk_usage.csv")).unwrap().starts_with(tables::DISKS));
        let hour = folder.join("os").read_dir().unwrap().next().unwrap().unwrap();
        assert!(hour.path().read_dir().unwrap().next().is_some());

        // A host with other columns begins another file.
        std::fs::write(folder.join("node_resource_usage.csv"), "Time,GPU\n1,2\n").unwrap();
        looks(logs.path(), "node_resource_usage.2.csv", 2);
        assert_eq!(lines(logs.path(), "node_resource_usage.csv"), 2);
    }

    #[test]
    fn nobody_looks_where_nobody_asks_or_the_job_is_short() {
        let logs = tempfile::tempdir().unwrap();
        assert!(Monitor::start(logs.path(), 0, String::new(), Duration::ZERO).is_none());
        let monitor = Monitor::start(logs.path(), 3, String::new(), Duration::from_mins(10));
        thread::sleep(Duration::from_millis(100));
        drop(monitor);
        assert!(!logs.path().join("perf").exists());
    }
}
