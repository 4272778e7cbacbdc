//! What the nodes of a job used of their hosts, from `logs/perf/`, over time: of each bucket of time the least, the mean and the most
//! of all nodes that are asked for.

use prs_common::layout;
use prs_common::storage::{Storage, StorageErrorKind, StorageExt};
use prs_common::timestamp::format_us;
use serde::Serialize;

use crate::failure::Failure;
use crate::homes::JobHome;

/// What can be asked for, with the unit of each.
pub const METRICS: [(&str, &str); 8] = [
    ("cpu", "percent"),
    ("memory", "bytes"),
    ("disk_read", "bytes"),
    ("disk_written", "bytes"),
    ("net_received", "bytes"),
    ("net_sent", "bytes"),
    ("gpu", "percent"),
    ("gpu_memory", "bytes"),
];
/// Nodes whose figures one call reads.
const MOST_NODES: usize = 64;
/// Bytes at the end of the figures of a node that are read.
const MOST_BYTES: u64 = 1 << 20;
/// A megabyte of the figures.
const MB: f64 = 1_048_576.0;

/// Which figures are asked for.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Those of this node; of all, where none is named.
    pub node_id: Option<u32>,
    /// Since then, microseconds since the Unix epoch.
    pub from_us: Option<u64>,
    /// Until then.
    pub to_us: Option<u64>,
    /// Points of a series, at most.
    pub points: usize,
}

/// A figure over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Which one: see [`METRICS`].
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its points, the oldest first.
    pub points: Vec<Point>,
    /// Nodes that it is of.
    pub nodes: usize,
    /// Nodes that were left out, for there are too many.
    pub nodes_left_out: usize,
}

/// A point: when, the least, the mean, the most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point(pub String, pub f64, pub f64, pub f64);

/// A value at a time.
type Value = (u64, f64);

/// The figures named in `metrics`; empty where nobody looked at the hosts.
pub async fn perf(home: &dyn JobHome, metrics: &[&str], window: &Window) -> Result<Vec<Series>, Failure> {
    let storage = &**home.storage();
    let listed = storage.list_all(&format!("{}perf/", layout::LOGS)).await;
    let listed = listed.map_err(home.cannot("list what nodes used of their hosts"))?;
    let mut nodes: Vec<u32> = listed.iter().filter_map(|object| node_of(&object.key)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.retain(|node| window.node_id.is_none_or(|wanted| wanted == *node));
    let left_out = nodes.len().saturating_sub(MOST_NODES);
    nodes.truncate(MOST_NODES);
    let asked = METRICS.into_iter().filter(|(name, _)| metrics.contains(name));
    let mut series: Vec<(&str, &str, Vec<Value>)> =
        asked.map(|(name, unit)| (name, unit, Vec::new())).collect();
    for node in &nodes {
        let host = read(home, storage, *node, "node_resource_usage").await?;
        let disks = read(home, storage, *node, "node_disk_usage").await?;
        for (metric, _, values) in &mut series {
            values.extend(values_of(metric, &host, &disks));
        }
    }
    let (from, to) = (window.from_us.unwrap_or(0), window.to_us.unwrap_or(u64::MAX));
    let series = series.into_iter().map(|(metric, unit, mut values)| {
        values.retain(|(at, _)| (from..=to).contains(at));
        let points = reduced(values, window.points.max(1));
        Series { metric, unit, points, nodes: nodes.len(), nodes_left_out: left_out }
    });
    Ok(series.filter(|series| !series.points.is_empty()).collect())
}

/// The node whose figures stand under a key.
fn node_of(key: &str) -> Option<u32> {
    let (_, below) = key.split_once("perf/")?;
    let (node, file) = below.split_once('/')?;
    file.starts_with("node_").then(|| node.parse().ok())?
}

/// The end of a table of a node, with its header; empty where there is none.
async fn read(home: &dyn JobHome, storage: &dyn Storage, node: u32, name: &str) -> Result<String, Failure> {
    let key = format!("{}perf/{node}/{name}.csv", layout::LOGS);
    let cannot = home.cannot("read what a node used of its host");
    let size = match storage.head(&key).await {
        Ok(there) => there.size,
        Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(cannot(error)),
    };
    let from = size.saturating_sub(MOST_BYTES);
    let tail = storage.get_range(&key, from..size).await.map_err(&cannot)?;
    let tail = String::from_utf8_lossy(&tail).into_owned();
    if from == 0 {
        return Ok(tail);
    }
    let head = storage.get_range(&key, 0..(4 << 10)).await.map_err(&cannot)?;
    let head = String::from_utf8_lossy(&head);
    let header = head.lines().next().unwrap_or_default();
    let whole = tail.split_once('\n').map_or("", |(_, whole)| whole);
    Ok(format!("{header}\n{whole}"))
}

/// The values of a figure in the tables of a node. Bytes of disks and networks are those since the look before, as in the tables.
fn values_of(metric: &str, host: &str, disks: &str) -> Vec<Value> {
    let is = |name: &'static str| move |column: &str| column == name;
    match metric {
        "cpu" => sums(host, is("CPU Percent"), 1.0),
        "memory" => sums(host, is("Memory Used MB"), MB),
        "net_received" => sums(host, is("Network Received MB"), MB),
        "net_sent" => sums(host, is("Network Sent MB"), MB),
        "disk_read" => sums(disks, is("Read MB"), MB),
        "disk_written" => sums(disks, is("Written MB"), MB),
        "gpu" => {
            let is_percent = |column: &str| column.starts_with("GPU ") && column.ends_with(" Percent");
            let gpus = host
                .lines()
                .next()
                .unwrap_or_default()
                .split(',')
                .filter(|column| is_percent(column))
                .count();
            let all = sums(host, is_percent, 1.0).into_iter();
            all.map(|(at, sum)| (at, sum / gpus.max(1) as f64)).collect()
        }
        "gpu_memory" => {
            sums(host, |column| column.starts_with("GPU ") && column.ends_with(" Memory Used MB"), MB)
        }
        _ => Vec::new(),
    }
}

/// The sum of the columns that are `wanted`, by time; times without a value are left out.
fn sums(table: &str, wanted: impl Fn(&str) -> bool, unit: f64) -> Vec<Value> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let columns: Vec<usize> =
        header.split(',').enumerate().filter(|(_, name)| wanted(name)).map(|(at, _)| at).collect();
    let mut found: Vec<Value> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let at = cells.first().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let Some(at) = at.and_then(|at| u64::try_from(at.as_microsecond()).ok()) else { continue };
        let values = columns.iter().filter_map(|column| cells.get(*column)?.parse::<f64>().ok());
        let Some(sum) = values.reduce(|sum, value| sum + value) else { continue };
        match found.last_mut() {
            // Of several disks each has a row.
            Some((last, all)) if *last == at => *all += sum * unit,
            _ => found.push((at, sum * unit)),
        }
    }
    found
}

/// At most so many points of the values.
fn reduced(mut values: Vec<Value>, points: usize) -> Vec<Point> {
    values.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let (Some((begin, _)), Some((end, _))) = (values.first().copied(), values.last().copied()) else {
        return Vec::new();
    };
    let step = ((end - begin) / points as u64 + 1).max(1);
    let mut found: Vec<(u64, f64, f64, f64, u64)> = Vec::new();
    for (at, value) in values {
        let bucket = (at - begin) / step;
        match found.last_mut() {
            Some((of, least, sum, most, count)) if *of == bucket => {
                (*least, *sum, *most, *count) = (least.min(value), *sum + value, most.max(value), *count + 1);
            }
            _ => found.push((bucket, value, value, value, 1)),
        }
    }
    let point = |(bucket, least, sum, most, count): (u64, f64, f64, f64, u64)| {
        Point(format_us(begin + bucket * step), least, sum / count as f64, most)
    };
    found.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_values() {
        let host = "Time,Cores,CPU Percent,GPU 0 Percent,GPU 1 Percent\n\
                    2026-11-21T12:00:00.000000Z,2,50.0,10,30\n2026-11-21T12:00:01.000000Z,2,,,\nbroken";
        let values =
            |metric| values_of(metric, host, "").into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(values("cpu"), [50.0]);
        assert_eq!(values("gpu"), [20.0]);
        assert_eq!(values("memory"), [] as [f64; 0]);
        let disks = "Time,Mount,Read MB\n2026-11-21T12:00:00.000000Z,/,1\n2026-11-21T12:00:00.000000Z,/x,2\n";
        assert_eq!(values_of("disk_read", "", disks), [(1_795_262_400_000_000, 3.0 * MB)]);
    }

    #[test]
    fn many_values_become_few_points() {
        let values = (0..1000).map(|at| (at, at as f64)).collect();
        let points = reduced(values, 10);
        assert!(points.len() <= 10 && points[0].1 < points[0].2 && points[0].2 < points[0].3, "{points:?}");
        assert_eq!(reduced(Vec::new(), 10), []);
        assert_eq!(reduced(vec![(5, 1.0)], 1).len(), 1);
    }

    #[test]
    fn figures_are_found_by_their_names() {
        assert_eq!(node_of("logs/perf/3/node_resource_usage.csv"), Some(3));
        assert_eq!(node_of("logs/perf/3/os/2026112112/processes_01"), None);
    }
}
