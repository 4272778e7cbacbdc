//! The parts of the statistics as JSON. Each carries its own resolution: the seconds of a bucket, the mini-batches of a cell.

use prs_common::segment::TryStatus;
use prs_common::statistics::{
    Activity, Bucket, Histogram, Lane, LaneKind, Live, Marks, RunningOn, Summary, TryRow,
};
use prs_common::timestamp::format_us;
use prs_portal::view::Published;
use serde_json::{Map, Value, json};

use super::nodes::{NodeOrder, nodes};

/// The names of the parts. All but `nodes` are given where none is named.
pub const PARTS: [&str; 9] =
    ["timeline", "activity", "durations", "plan_map", "slowest", "recent", "running", "shares", "nodes"];

/// A part by its name; null where it was not published yet, or the name is none of [`PARTS`].
pub fn part(published: &Published, name: &str) -> Value {
    let (live, summary) = (published.live.as_ref(), published.summary.as_ref());
    match name {
        "timeline" => live.map_or(Value::Null, timeline),
        "recent" => live.map_or(Value::Null, |live| tries(&live.recent)),
        "running" => live.map_or(Value::Null, |live| live.running.iter().map(running).collect()),
        "activity" => published.activity.as_ref().map_or(Value::Null, activity),
        "durations" => summary.map_or(Value::Null, |summary| {
            json!({
                "run": histogram(&summary.run),
                "load": histogram(&summary.load),
                "all": histogram(&summary.whole),
            })
        }),
        "plan_map" => summary.map_or(Value::Null, plan_map),
        "slowest" => summary.map_or(Value::Null, |summary| tries(&summary.slowest)),
        "shares" => summary.map_or(Value::Null, shares),
        "nodes" => published.nodes.as_ref().map_or(Value::Null, |of| json!(nodes(of, NodeOrder::default()))),
        _ => Value::Null,
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn timeline(live: &Live) -> Value {
    let timeline = &live.timeline;
    let bucket = |(at, bucket): (usize, &Bucket)| {
        json!({
            "at": format_us(timeline.start_us(at)),
            "succeeded": bucket.succeeded,
            "failed": bucket.failed,
            "failed_tries": bucket.failed_tries,
            "node_losses": bucket.node_losses,
            "items": bucket.items,
            "rows": bucket.rows,
            "bytes": bucket.bytes,
            "run_seconds": seconds(bucket.run_us),
            "cpu_seconds": seconds(bucket.cpu_us),
            "load_seconds": seconds(bucket.load_us),
            "other_seconds": seconds(bucket.other_us),
            "slots_seconds": seconds(bucket.slots_us),
            "busy_seconds": seconds(bucket.busy_us),
            "init_seconds": seconds(bucket.init_us),
            "idle_seconds": seconds(bucket.idle_us()),
            // Where nobody looked, nothing is known of them.
            "waiting": (bucket.looks > 0).then_some(bucket.waiting),
            "in_flight": (bucket.looks > 0).then_some(bucket.in_flight),
            "nodes": (bucket.looks > 0).then_some(bucket.nodes),
            "processes": (bucket.looks > 0).then_some(bucket.processes),
        })
    };
    json!({
        "step_seconds": timeline.step_s(),
        "buckets": timeline.buckets().iter().enumerate().map(bucket).collect::<Vec<_>>(),
    })
}

fn activity(of: &Activity) -> Value {
    let lane = |lane: &Lane| {
        let kind = match lane.kind {
            LaneKind::Process => "process",
            LaneKind::Node => "node",
            LaneKind::Group => "group",
            LaneKind::Slow => "slow",
            LaneKind::Failing => "failing",
        };
        let columns: Vec<_> = lane.cells.columns().collect();
        let marked = |mark: Marks| columns.iter().map(|(_, marks)| marks.has(mark)).collect::<Vec<_>>();
        json!({
            "kind": kind,
            "process": (!lane.process.is_empty()).then_some(&lane.process),
            "first_node_id": lane.first_node,
            "last_node_id": lane.last_node,
            "slots": lane.slots,
            "failed_tries": lane.failed_tries,
            "median_seconds": (lane.median_us > 0).then(|| seconds(lane.median_us)),
            "busy": columns.iter().map(|(busy, _)| f64::from(*busy) / 250.0).collect::<Vec<_>>(),
            "failed": marked(Marks::FAILED),
            "lost": marked(Marks::LOST),
        })
    };
    json!({
        "from": format_us(of.origin_us),
        "step_seconds": of.step_s,
        "columns": of.columns,
        "lanes": of.lanes.iter().map(lane).collect::<Vec<_>>(),
        "named": of.named.iter().map(lane).collect::<Vec<_>>(),
    })
}

fn histogram(of: &Histogram) -> Value {
    let quantile = |share| of.quantile_us(share).map(seconds);
    let counted = of.counts().iter().enumerate().filter(|(_, count)| **count > 0);
    let bin = |(bin, count): (usize, &u64)| json!({ "from_seconds": Histogram::lower_us(bin) / 1e6, "to_seconds": Histogram::lower_us(bin + 1) / 1e6, "count": count });
    let quantiles: Map<String, Value> =
        [("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99)]
            .into_iter()
            .map(|(name, share)| (name.to_owned(), json!(quantile(share))))
            .collect();
    json!({
        "count": of.count(),
        "sum_seconds": seconds(of.sum_us()),
        "min_seconds": of.min_us().map(seconds),
        "max_seconds": of.max_us().map(seconds),
        "quantiles_seconds": quantiles,
        "bins": counted.map(bin).collect::<Vec<_>>(),
    })
}

fn plan_map(summary: &Summary) -> Value {
    let cell = |cell: &prs_common::statistics::Cell| json!({ "succeeded": cell.succeeded, "failed": cell.failed, "retried": cell.retried });
    json!({
        "mini_batches_of_a_cell": summary.plan.width(),
        "cells": summary.plan.cells().iter().map(cell).collect::<Vec<_>>(),
    })
}

/// Where mini-batches have no outcome yet: ranges of the plan, both ends included, with how many of each have none. They run, or wait.
pub fn waiting(published: &Published) -> Vec<Value> {
    let (Some(live), Some(summary)) = (&published.live, &published.summary) else { return Vec::new() };
    let (width, cells) = (summary.plan.width(), summary.plan.cells());
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    let known = (cells.len() as u64).saturating_mul(width).min(live.scheduled);
    let open = cells.iter().enumerate().map(|(at, cell)| {
        let from = at as u64 * width;
        let to = from.saturating_add(width).min(live.scheduled);
        (from, to, to.saturating_sub(from).saturating_sub(cell.succeeded.saturating_add(cell.failed)))
    });
    for (from, to, open) in open.chain([(known, live.scheduled, live.scheduled.saturating_sub(known))]) {
        match found.last_mut() {
            _ if open == 0 || from >= to => {}
            Some((_, end, sum)) if *end == from => (*end, *sum) = (to, *sum + open),
            _ => found.push((from, to, open)),
        }
    }
    let range = |(from, to, open): (u64, u64, u64)| json!({ "from": from, "to": to - 1, "open": open });
    found.into_iter().map(range).collect()
}

fn shares(summary: &Summary) -> Value {
    let of = &summary.shares;
    let idle_us = of.slots_us.saturating_sub(of.busy_us).saturating_sub(of.init_us);
    json!({
        "slots_seconds": seconds(of.slots_us),
        "busy_seconds": seconds(of.busy_us),
        "init_seconds": seconds(of.init_us),
        "idle_seconds": seconds(idle_us),
        "run_seconds": seconds(of.run_us),
        "cpu_seconds": seconds(of.cpu_us),
        "load_seconds": seconds(of.load_us),
        "other_seconds": seconds(of.other_us),
    })
}

fn tries(rows: &[TryRow]) -> Value {
    let row = |row: &TryRow| {
        json!({
            "index": row.index,
            "try": row.number,
            "status": row.status().map(TryStatus::as_str),
            "node_id": row.node_id,
            "process": format!("process{:03}", row.process),
            "started_at": format_us(row.started_us),
            "elapsed_seconds": seconds(row.elapsed_us),
            "run_seconds": seconds(row.run_us),
            "load_seconds": seconds(row.load_us),
        })
    };
    rows.iter().map(row).collect()
}

fn running(one: &RunningOn) -> Value {
    json!({ "index": one.index, "node_id": one.node_id, "since": format_us(one.since_us) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_there_once_it_is_published() {
        let nothing = Published::default();
        assert!(PARTS.iter().all(|name| part(&nothing, name).is_null()));
        let published = Published {
            live: Some(Live::default()),
            activity: Some(Activity::default()),
            summary: Some(Summary::default()),
            nodes: Some(prs_common::statistics::Nodes::default()),
            ..Published::default()
        };
        assert!(PARTS.iter().all(|name| !part(&published, name).is_null()));
        assert!(part(&published, "other").is_null());
    }

    #[test]
    fn what_has_no_outcome_is_told_as_ranges() {
        let mut summary = Summary::default();
        for index in [0, 1, 5] {
            summary.plan.at(index).succeeded += 1;
        }
        let live = Live { scheduled: 9, ..Live::default() };
        let published = Published { live: Some(live), summary: Some(summary), ..Published::default() };
        let range = |from: u64, to: u64, open: u64| json!({ "from": from, "to": to, "open": open });
        assert_eq!(waiting(&published), [range(2, 4, 3), range(6, 8, 3)]);
        assert!(waiting(&Published::default()).is_empty());
    }

    #[test]
    fn durations_have_their_classes() {
        let mut of = Histogram::default();
        of.add(1_000_000);
        let json = histogram(&of);
        assert_eq!((&json["count"], &json["max_seconds"]), (&json!(1), &json!(1.0)));
        assert_eq!(json["bins"].as_array().map(Vec::len), Some(1));
    }
}
