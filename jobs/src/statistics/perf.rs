//! What the nodes of a job used of their hosts, from `logs/perf/`, over time: of each bucket of time the least, the mean and the most
//! of all nodes that are asked for.

use futures_util::{StreamExt, TryStreamExt};
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
    ("disk_write", "bytes"),
    ("net_in", "bytes"),
    ("net_out", "bytes"),
    ("gpu", "percent"),
    ("gpu_memory", "bytes"),
];
/// Nodes that are read side by side.
const READS_AT_ONCE: usize = 16;
/// Nodes with the most of a figure that are named.
const MOST_HIGHEST: usize = 3;
/// Nodes whose figures one call reads.
const MOST_NODES: usize = 64;
/// Bytes at the end of the figures of a node that are read.
const MOST_BYTES: u64 = 1 << 20;
/// A megabyte of the figures.
const MB: f64 = 1_048_576.0;

/// Which figures are asked for.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Those of these nodes.
    pub nodes: Vec<u32>,
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
    /// Nodes that were left out, for there are too many: it is of some from all over the job.
    pub nodes_left_out: usize,
    /// The nodes with the most of it, three of several at most, the highest first.
    pub highest: Vec<NodeSeries>,
}

/// A figure of one node over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeSeries {
    /// The node.
    pub node_id: u32,
    /// Its points, the oldest first.
    pub points: Vec<Point>,
}

/// A point: when, the least, the mean, the most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point(pub String, pub f64, pub f64, pub f64);

/// A value at a time.
type Value = (u64, f64);

/// The figures named in `metrics`; empty where nobody looked at the hosts. The tables of nodes are read side by side.
pub async fn perf(home: &dyn JobHome, metrics: &[&str], window: &Window) -> Result<Vec<Series>, Failure> {
    let storage = &**home.storage();
    let nodes = spread(&window.nodes, MOST_NODES);
    let asked: Vec<_> = METRICS.into_iter().filter(|(name, _)| metrics.contains(name)).collect();
    let (from, to) = (window.from_us.unwrap_or(0), window.to_us.unwrap_or(u64::MAX));
    let read_one = |node: u32| {
        let asked = &asked;
        async move {
            let (host, disks) = futures_util::future::try_join(
                read(home, storage, node, "node_resource_usage"),
                read(home, storage, node, "node_disk_usage"),
            )
            .await?;
            let values = |metric: &str| {
                let mut values = values_of(metric, &host, &disks);
                values.retain(|(at, _)| (from..=to).contains(at));
                values
            };
            Ok::<_, Failure>((node, asked.iter().map(|(metric, _)| values(metric)).collect::<Vec<_>>()))
        }
    };
    let reads: Vec<_> = nodes.into_iter().map(read_one).collect();
    let reads = futures_util::stream::iter(reads).buffered(READS_AT_ONCE);
    let found: Vec<(u32, Vec<Vec<Value>>)> = reads.try_collect().await?;
    let points = window.points.max(1);
    let series = asked.iter().enumerate().map(|(at, (metric, unit))| {
        let told: Vec<(u32, &Vec<Value>)> = found
            .iter()
            .map(|(node, values)| (*node, &values[at]))
            .filter(|(_, values)| !values.is_empty())
            .collect();
        Series {
            metric,
            unit,
            points: reduced(told.iter().flat_map(|(_, values)| values.iter().copied()).collect(), points),
            nodes: told.len(),
            nodes_left_out: window.nodes.len().saturating_sub(found.len()),
            highest: highest(&told, points),
        }
    });
    Ok(series.filter(|series| !series.points.is_empty()).collect())
}

/// So many of all at most, from all over the list.
fn spread(all: &[u32], most: usize) -> Vec<u32> {
    let each = all.len().max(1).div_ceil(most.max(1));
    if each == 1 { all.to_vec() } else { (0..most).map(|at| all[at * all.len() / most]).collect() }
}

/// The nodes with the highest mean, where there are several.
fn highest(told: &[(u32, &Vec<Value>)], points: usize) -> Vec<NodeSeries> {
    if told.len() < 2 {
        return Vec::new();
    }
    let mean = |values: &[Value]| values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
    let mut by_mean: Vec<_> = told.iter().map(|(node, values)| (mean(values), *node, values)).collect();
    by_mean.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let series = |(_, node_id, values): (f64, u32, &&Vec<Value>)| NodeSeries {
        node_id,
        points: reduced((*values).clone(), points),
    };
    by_mean.into_iter().take(MOST_HIGHEST).map(series).collect()
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
        "net_in" => sums(host, is("Network Received MB"), MB),
        "net_out" => sums(host, is("Network Sent MB"), MB),
        "disk_read" => sums(disks, is("Read MB"), MB),
        "disk_write" => sums(disks, is("Written MB"), MB),
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
    fn of_too_many_nodes_some_from_all_over_are_looked_at() {
        let all: Vec<u32> = (0..500).collect();
        let some = spread(&all, 64);
        assert!(some.len() == 64 && some[0] == 0 && some[63] > 480, "{some:?}");
        assert!(some.is_sorted_by(|one, other| one < other), "{some:?}");
        assert_eq!(spread(&[3, 9], 64), [3, 9]);
        assert_eq!(spread(&[], 64), [0; 0]);
    }

    #[test]
    fn the_three_highest_are_named() {
        let (low, high, most, middle) =
            (vec![(0, 1.0)], vec![(0, 7.0)], vec![(0, 6.0), (1, 10.0)], vec![(0, 5.0)]);
        let told = [(4, &low), (5, &high), (6, &most), (7, &middle)];
        let named: Vec<u32> = highest(&told, 9).into_iter().map(|one| one.node_id).collect();
        assert_eq!(named, [6, 5, 7]);
        assert_eq!(highest(&told[..1], 9), [], "of one node there is nothing to name");
    }
}
