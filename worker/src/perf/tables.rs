//! A look as text: rows of CSV with a time each, and a list of processes for people.

use std::fmt::Write;

use prs_common::timestamp::format_us;

use super::look::Look;

/// Header of `node_disk_usage.csv`.
pub(super) const DISKS: &str = "Time,Mount,Device,File System,Total MB,Available MB,Read MB,Written MB\n";
/// Header of `processes_resource_usage.csv`.
pub(super) const PROCESSES: &str =
    "Time,Process,Process Id,Processes,CPU Percent,CPU Seconds,Memory MB,Read MB,Written MB\n";

/// Header of `node_resource_usage.csv` of a host with so many GPUs.
pub(super) fn host_header(gpus: u32) -> String {
    let mut header = "Time,Cores,CPU Percent,Load,Memory Total MB,Memory Used MB,Swap Used MB,\
                      Network Received MB,Network Sent MB"
        .to_owned();
    for gpu in 0..gpus {
        let _ = write!(header, ",GPU {gpu} Percent,GPU {gpu} Memory Used MB,GPU {gpu} Memory Total MB");
    }
    header.push('\n');
    header
}

/// The row of the host, with its GPUs.
pub(super) fn host(look: &Look) -> String {
    let Some(host) = &look.host else { return String::new() };
    let mut row = format!(
        "{},{},{:.1},{:.2},{},{},{},{},{}",
        format_us(look.at_us),
        host.cores,
        host.cpu_percent,
        host.load,
        mb(host.memory_total),
        mb(host.memory_used),
        mb(host.swap_used),
        mb(host.received),
        mb(host.sent)
    );
    for gpu in &look.gpus {
        let percent = gpu.percent.map(|percent| percent.to_string()).unwrap_or_default();
        let _ = write!(row, ",{percent},{},{}", size(gpu.memory_used), size(gpu.memory_total));
    }
    row.push('\n');
    row
}

/// A row for each device.
pub(super) fn disks(look: &Look) -> String {
    let time = format_us(look.at_us);
    let rows = look.disks.iter().map(|disk| {
        format!(
            "{time},{},{},{},{},{},{},{}\n",
            cell(&disk.mount),
            cell(&disk.device),
            cell(&disk.file_system),
            mb(disk.total),
            mb(disk.available),
            size(disk.read),
            size(disk.written)
        )
    });
    rows.collect()
}

/// A row for this program and each process of the node.
pub(super) fn processes(look: &Look) -> String {
    let time = format_us(look.at_us);
    let rows = look.processes.iter().map(|process| {
        format!(
            "{time},{},{},{},{:.1},{:.2},{},{},{}\n",
            process.name,
            process.pid,
            process.count,
            process.cpu_percent,
            process.cpu_ms as f64 / 1000.0,
            mb(process.memory),
            mb(process.read),
            mb(process.written)
        )
    });
    rows.collect()
}

/// All processes of the host, by their ids.
pub(super) fn all_processes(look: &Look) -> String {
    let mut text = format!(
        "{}\n{:>8} {:>8} {:<10} {:>7} {:>10} NAME\n",
        format_us(look.at_us),
        "PID",
        "PARENT",
        "STATE",
        "CPU %",
        "MEMORY MB"
    );
    for process in &look.all {
        // One line each, whatever a process calls itself.
        let name: String =
            process.name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        let _ = writeln!(
            text,
            "{:>8} {:>8} {:<10} {:>7.1} {:>10} {name}",
            process.pid,
            process.parent,
            process.state,
            process.cpu_percent,
            mb(process.memory)
        );
    }
    text
}

/// Megabytes of 2^20 bytes, with one decimal.
fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// The same; nothing where it is not known.
fn size(bytes: Option<u64>) -> String {
    bytes.map(mb).unwrap_or_default()
}

/// A text as a field of CSV.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::{DiskUse, GpuUse, HostUse, ListedProcess, ProcessUse};
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn a_look_is_a_row_a_thing() {
        let look = Look {
            at_us: 1_000_000,
            host: Some(HostUse {
                cores: 8,
                cpu_percent: 51.26,
                load: 3.456,
                memory_total: 100 * MB,
                memory_used: 40 * MB,
                swap_used: 0,
                received: MB / 2,
                sent: 3 * MB,
            }),
            gpus: vec![
                GpuUse { percent: Some(97), memory_used: Some(5 * MB), memory_total: Some(80 * MB) },
                GpuUse::default(),
            ],
            disks: vec![DiskUse {
                mount: "/a, b".into(),
                device: "/dev/vda".into(),
                file_system: "ext4".into(),
                total: 10 * MB,
                available: 4 * MB,
                read: Some(MB),
                written: None,
            }],
            processes: vec![ProcessUse {
                name: "process001".into(),
                pid: 7,
                count: 2,
                cpu_percent: 99.95,
                cpu_ms: 1234,
                memory: 3 * MB,
                read: 0,
                written: MB,
            }],
            all: vec![ListedProcess {
                pid: 7,
                parent: 1,
                state: "Runnable".into(),
                cpu_percent: 1.0,
                memory: MB,
                name: "py\nthon".into(),
            }],
        };
        let time = "1970-01-01T00:00:01.000000Z";
        assert_eq!(host(&look), format!("{time},8,51.3,3.46,100.0,40.0,0.0,0.5,3.0,97,5.0,80.0,,,\n"));
        assert_eq!(host_header(2).split(',').count(), host(&look).split(',').count());
        assert_eq!(disks(&look), format!("{time},\"/a, b\",/dev/vda,ext4,10.0,4.0,1.0,\n"));
        assert_eq!(DISKS.split(',').count(), 8);
        assert_eq!(processes(&look), format!("{time},process001,7,2,100.0,1.23,3.0,0.0,1.0\n"));
        assert_eq!(PROCESSES.split(',').count(), processes(&look).split(',').count());
        let listed = all_processes(&look);
        assert_eq!(listed.lines().count(), 3, "{listed}");
        assert!(listed.lines().nth(2).unwrap().ends_with("py?thon"), "{listed}");
    }
}
