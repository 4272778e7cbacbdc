//! The parts of the statistics for programs. Each carries its own resolution: the seconds of a bucket, the mini-batches of a cell.

use prs_common::segment::TryStatus;
use prs_common::statistics::{
    Activity, Bucket, Histogram, Lane, LaneKind, Live, Marks, RunningOn, Summary, TryRow,
};
use prs_common::timestamp::format_us;
use prs_portal::view::Published;
use serde::Serialize;

use super::nodes::{NodeOrder, NodeRecord, nodes};

/// The names of the parts. All but `nodes` are given where none is named.
pub const PARTS: [&str; 9] =
    ["timeline", "activity", "durations", "plan_map", "slowest", "recent", "running", "shares", "nodes"];

/// What is published of a job. A part is null where it was not published yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Its outcomes over time.
    pub timeline: Option<Timeline>,
    /// Its nodes over time.
    pub activity: Option<ActivityPart>,
    /// How long its tries took.
    pub durations: Option<Durations>,
    /// Its mini-batches, many of them in a cell.
    pub plan_map: Option<PlanMap>,
    /// The tries that took longest, the longest first.
    pub slowest: Option<Vec<ListedTry>>,
    /// The tries that ended last.
    pub recent: Option<Vec<ListedTry>>,
    /// The mini-batches that run longest.
    pub running: Option<Vec<RunningMiniBatch>>,
    /// What the time of its slots went into.
    pub shares: Option<SharesPart>,
    /// Its nodes.
    pub nodes: Option<Vec<NodeRecord>>,
}

impl Parts {
    /// The parts that are `wanted`, by their names; of others nothing is told.
    pub fn of(published: &Published, wanted: &[&str]) -> Self {
        let live = |name: &str| published.live.as_ref().filter(|_| wanted.contains(&name));
        let summary = |name: &str| published.summary.as_ref().filter(|_| wanted.contains(&name));
        let activity = published.activity.as_ref().filter(|_| wanted.contains(&"activity"));
        let known = published.nodes.as_ref().filter(|_| wanted.contains(&"nodes"));
        Self {
            timeline: live("timeline").map(Timeline::of),
            activity: activity.map(ActivityPart::of),
            durations: summary("durations").map(|summary| Durations {
                run: Duration::of(&summary.run),
                load: Duration::of(&summary.load),
                all: Duration::of(&summary.whole),
            }),
            plan_map: summary("plan_map").map(PlanMap::of),
            slowest: summary("slowest").map(slowest_of),
            recent: live("recent").map(|live| live.recent.iter().map(ListedTry::of).collect()),
            running: live("running").map(running_of),
            shares: summary("shares").map(SharesPart::of),
            nodes: known.map(|known| nodes(known, NodeOrder::default(), published.has_ended())),
        }
    }
}

fn slowest_of(summary: &Summary) -> Vec<ListedTry> {
    summary.slowest.iter().map(ListedTry::of).collect()
}

fn running_of(live: &Live) -> Vec<RunningMiniBatch> {
    live.running.iter().map(RunningMiniBatch::of).collect()
}

/// The tries that took longest, the longest first; none where nothing is published.
pub fn slowest(published: &Published) -> Vec<ListedTry> {
    published.summary.as_ref().map(slowest_of).unwrap_or_default()
}

/// The mini-batches that run longest; none where nothing is published.
pub fn running(published: &Published) -> Vec<RunningMiniBatch> {
    published.live.as_ref().map(running_of).unwrap_or_default()
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Outcomes over time, in buckets of equal length.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Length of a bucket, seconds.
    pub step_seconds: u64,
    /// The buckets, the oldest first.
    pub buckets: Vec<TimeBucket>,
}

/// What happened within a bucket of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeBucket {
    /// When it begins.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub at: String,
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed.
    pub failed: u64,
    /// Tries that failed.
    pub failed_tries: u64,
    /// Tries that were lost with their nodes.
    pub node_losses: u64,
    /// Items of the mini-batches that ended.
    pub items: u64,
    /// Rows that they returned.
    pub rows: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Within `run()`.
    pub run_seconds: f64,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Making the arguments of `run()`.
    pub load_seconds: f64,
    /// What else tries took.
    pub other_seconds: f64,
    /// Time of all slots.
    pub slots_seconds: f64,
    /// Of these, with a try.
    pub busy_seconds: f64,
    /// Of these, until processes were ready.
    pub init_seconds: f64,
    /// The rest of them.
    pub idle_seconds: f64,
    /// Mini-batches that waited; null where nobody looked.
    pub waiting: Option<u64>,
    /// Mini-batches that nodes had in hand; null where nobody looked.
    pub in_flight: Option<u64>,
    /// Nodes; null where nobody looked.
    pub nodes: Option<u64>,
    /// Processes that were up; null where nobody looked.
    pub processes: Option<u64>,
}

impl Timeline {
    fn of(live: &Live) -> Self {
        let timeline = &live.timeline;
        let bucket = |(at, bucket): (usize, &Bucket)| {
            // Where nobody looked, nothing is known of them.
            let looked = |count: u64| (bucket.looks > 0).then_some(count);
            TimeBucket {
                at: format_us(timeline.start_us(at)),
                succeeded: bucket.succeeded,
                failed: bucket.failed,
                failed_tries: bucket.failed_tries,
                node_losses: bucket.node_losses,
                items: bucket.items,
                rows: bucket.rows,
                bytes: bucket.bytes,
                run_seconds: seconds(bucket.run_us),
                cpu_seconds: seconds(bucket.cpu_us),
                load_seconds: seconds(bucket.load_us),
                other_seconds: seconds(bucket.other_us),
                slots_seconds: seconds(bucket.slots_us),
                busy_seconds: seconds(bucket.busy_us),
                init_seconds: seconds(bucket.init_us),
                idle_seconds: seconds(bucket.idle_us()),
                waiting: looked(bucket.waiting),
                in_flight: looked(bucket.in_flight),
                nodes: looked(bucket.nodes),
                processes: looked(bucket.processes),
            }
        };
        Self {
            step_seconds: timeline.step_s().into(),
            buckets: timeline.buckets().iter().enumerate().map(bucket).collect(),
        }
    }
}

/// How busy nodes were over time, in columns of equal length.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityPart {
    /// When the first column begins.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub from: String,
    /// Length of a column, seconds.
    pub step_seconds: u64,
    /// Columns that there are.
    pub columns: u64,
    /// Processes, nodes or groups of nodes, so that all are there.
    pub lanes: Vec<ActivityLane>,
    /// Nodes that stand out, likewise.
    pub named: Vec<ActivityLane>,
}

/// A process, a node, or several nodes, over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityLane {
    /// `process`, `node`, `group`, `slow` or `failing`.
    pub kind: &'static str,
    /// The process, where it is one.
    pub process: Option<String>,
    /// The first of its nodes.
    pub first_node_id: u32,
    /// The last of them.
    pub last_node_id: u32,
    /// Its slots.
    pub slots: u64,
    /// Tries of it that failed.
    pub failed_tries: u64,
    /// Median of `run()`; null where nothing is known of it.
    pub median_seconds: Option<f64>,
    /// For each column the share of its slots that had a try, 0 to 1.
    pub busy: Vec<f64>,
    /// For each column whether a try failed.
    pub failed: Vec<bool>,
    /// For each column whether a node was lost.
    pub lost: Vec<bool>,
}

impl ActivityPart {
    fn of(of: &Activity) -> Self {
        Self {
            from: format_us(of.origin_us),
            step_seconds: of.step_s.into(),
            columns: of.columns.into(),
            lanes: of.lanes.iter().map(ActivityLane::of).collect(),
            named: of.named.iter().map(ActivityLane::of).collect(),
        }
    }
}

impl ActivityLane {
    fn of(lane: &Lane) -> Self {
        let kind = match lane.kind {
            LaneKind::Process => "process",
            LaneKind::Node => "node",
            LaneKind::Group => "group",
            LaneKind::Slow => "slow",
            LaneKind::Failing => "failing",
        };
        let columns: Vec<_> = lane.cells.columns().collect();
        let marked = |mark: Marks| columns.iter().map(|(_, marks)| marks.has(mark)).collect();
        Self {
            kind,
            process: (!lane.process.is_empty()).then(|| lane.process.clone()),
            first_node_id: lane.first_node,
            last_node_id: lane.last_node,
            slots: lane.slots.into(),
            failed_tries: lane.failed_tries,
            median_seconds: (lane.median_us > 0).then(|| seconds(lane.median_us)),
            busy: columns.iter().map(|(busy, _)| f64::from(*busy) / 250.0).collect(),
            failed: marked(Marks::FAILED),
            lost: marked(Marks::LOST),
        }
    }
}

/// How long tries took.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Durations {
    /// Within `run()`.
    pub run: Duration,
    /// Making its argument.
    pub load: Duration,
    /// All of a try.
    pub all: Duration,
}

/// How long something took, of all times together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Duration {
    /// Times that were measured.
    pub count: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// The least; null where nothing was measured.
    pub min_seconds: Option<f64>,
    /// The most; null where nothing was measured.
    pub max_seconds: Option<f64>,
    /// What a share of them took at most.
    pub quantiles_seconds: Quantiles,
    /// The classes with times in them, the shortest first.
    pub bins: Vec<DurationBin>,
}

/// What a share of times is at most, seconds; null where nothing was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// 25 of 100.
    pub p25: Option<f64>,
    /// 50 of 100.
    pub p50: Option<f64>,
    /// 75 of 100.
    pub p75: Option<f64>,
    /// 95 of 100.
    pub p95: Option<f64>,
    /// 99 of 100.
    pub p99: Option<f64>,
}

/// A class of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DurationBin {
    /// The least that is in it.
    pub from_seconds: f64,
    /// The least that is in the next one.
    pub to_seconds: f64,
    /// Times in it.
    pub count: u64,
}

impl Duration {
    fn of(of: &Histogram) -> Self {
        let quantile = |share| of.quantile_us(share).map(seconds);
        let counted = of.counts().iter().enumerate().filter(|(_, count)| **count > 0);
        let bin = |(bin, count): (usize, &u64)| DurationBin {
            from_seconds: Histogram::lower_us(bin) / 1e6,
            to_seconds: Histogram::lower_us(bin + 1) / 1e6,
            count: *count,
        };
        Self {
            count: of.count(),
            sum_seconds: seconds(of.sum_us()),
            min_seconds: of.min_us().map(seconds),
            max_seconds: of.max_us().map(seconds),
            quantiles_seconds: Quantiles {
                p25: quantile(0.25),
                p50: quantile(0.5),
                p75: quantile(0.75),
                p95: quantile(0.95),
                p99: quantile(0.99),
            },
            bins: counted.map(bin).collect(),
        }
    }
}

/// The mini-batches of a job, as many in each cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanMap {
    /// Mini-batches that a cell stands for.
    pub mini_batches_of_a_cell: u64,
    /// The cells, in the order of the plan.
    pub cells: Vec<PlanCell>,
}

/// Outcomes of the mini-batches of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanCell {
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those of which a try failed.
    pub retried: u64,
}

impl PlanMap {
    fn of(summary: &Summary) -> Self {
        let cell = |cell: &prs_common::statistics::Cell| PlanCell {
            succeeded: cell.succeeded,
            failed: cell.failed,
            retried: cell.retried,
        };
        Self {
            mini_batches_of_a_cell: summary.plan.width(),
            cells: summary.plan.cells().iter().map(cell).collect(),
        }
    }
}

/// A range of the plan, both ends included, with mini-batches that have no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenRange {
    /// The first mini-batch of it.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// How many have no outcome.
    pub open: u64,
}

/// Where mini-batches have no outcome yet: ranges of the plan, both ends included, with how many of each have none. They run, or wait.
pub fn waiting(published: &Published) -> Vec<OpenRange> {
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
    let range = |(from, to, open): (u64, u64, u64)| OpenRange { from, to: to - 1, open };
    found.into_iter().map(range).collect()
}

/// What the time of the slots of a job went into.
#[expect(clippy::struct_field_names, reason = "names of durations say their unit")]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharesPart {
    /// Time of all slots.
    pub slots_seconds: f64,
    /// Of these, with a try.
    pub busy_seconds: f64,
    /// Of these, until processes were ready.
    pub init_seconds: f64,
    /// The rest of them.
    pub idle_seconds: f64,
    /// Of tries, within `run()`.
    pub run_seconds: f64,
    /// CPU time of tries.
    pub cpu_seconds: f64,
    /// Of tries, making the argument of `run()`.
    pub load_seconds: f64,
    /// What else tries took.
    pub other_seconds: f64,
}

impl SharesPart {
    fn of(summary: &Summary) -> Self {
        let of = &summary.shares;
        let idle_us = of.slots_us.saturating_sub(of.busy_us).saturating_sub(of.init_us);
        Self {
            slots_seconds: seconds(of.slots_us),
            busy_seconds: seconds(of.busy_us),
            init_seconds: seconds(of.init_us),
            idle_seconds: seconds(idle_us),
            run_seconds: seconds(of.run_us),
            cpu_seconds: seconds(of.cpu_us),
            load_seconds: seconds(of.load_us),
            other_seconds: seconds(of.other_us),
        }
    }
}

/// A try as a short list has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedTry {
    /// The mini-batch, from 0.
    pub index: u64,
    /// Which try it was, from 1.
    #[serde(rename = "try")]
    pub number: u32,
    /// How it ended: `RUN_DONE`, `RUN_EXCEPTION`, ...; null where a later prs wrote it.
    pub status: Option<&'static str>,
    /// The node.
    pub node_id: u32,
    /// The process.
    pub process: String,
    /// When it began, by the clock of its node.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub started_at: String,
    /// All of it.
    pub elapsed_seconds: f64,
    /// Within `run()`.
    pub run_seconds: f64,
    /// Making the argument of `run()`.
    pub load_seconds: f64,
}

impl ListedTry {
    pub(super) fn of(row: &TryRow) -> Self {
        Self {
            index: row.index,
            number: row.number,
            status: row.status().map(TryStatus::as_str),
            node_id: row.node_id,
            process: format!("process{:03}", row.process),
            started_at: format_us(row.started_us),
            elapsed_seconds: seconds(row.elapsed_us),
            run_seconds: seconds(row.run_us),
            load_seconds: seconds(row.load_us),
        }
    }
}

/// A mini-batch that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningMiniBatch {
    /// The mini-batch, from 0.
    pub index: u64,
    /// The node that runs it.
    pub node_id: u32,
    /// Since when.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub since: String,
    /// Which try of it runs, from 1; null where the node tells only that it runs, as of those that do not run longest.
    #[serde(rename = "try")]
    pub number: Option<u32>,
    /// The process; null where several mini-batches share what tells that.
    pub process: Option<String>,
    /// What it consists of, as far as that is short; null where the node does not tell it.
    pub detail: Option<String>,
    /// Where what it has printed so far begins; null where that is not known. On a fleet logs arrive some seconds late.
    pub printed: Option<PrintedSoFar>,
}

/// Where what a try has printed so far begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrintedSoFar {
    /// On standard output.
    pub stdout: LogPlace,
    /// On standard error.
    pub stderr: LogPlace,
}

/// A place in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogPlace {
    /// The log, below `logs/`.
    pub path: String,
    /// Bytes in front of it.
    pub from: u64,
}

impl RunningMiniBatch {
    /// As it was told.
    pub fn of(one: &RunningOn) -> Self {
        let process = one.process.map(|number| format!("process{number:03}"));
        let printed = process.as_ref().zip(one.printed_from).map(|(process, (stdout, stderr))| {
            let place = |stream: &str, from| LogPlace {
                path: format!("user/{stream}/{}/{process}.{stream}.txt", one.node_id),
                from,
            };
            PrintedSoFar { stdout: place("stdout", stdout), stderr: place("stderr", stderr) }
        });
        Self {
            index: one.index,
            node_id: one.node_id,
            since: format_us(one.since_us),
            number: Some(one.number).filter(|number| *number > 0),
            process,
            detail: Some(one.detail.clone()).filter(|detail| !detail.is_empty()),
            printed,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_part_is_there_once_it_is_published() {
        let json = |published: &Published, wanted: &[&str]| {
            let Value::Object(parts) = json!(Parts::of(published, wanted)) else { panic!() };
            parts
        };
        let nothing = json(&Published::default(), &PARTS);
        assert!(PARTS.iter().all(|name| nothing[*name].is_null()));
        let published = Published {
            live: Some(Live::default()),
            activity: Some(Activity::default()),
            summary: Some(Summary::default()),
            nodes: Some(prs_common::statistics::Nodes::default()),
            ..Published::default()
        };
        let all = json(&published, &PARTS);
        assert!(PARTS.iter().all(|name| !all[*name].is_null()));
        let one = json(&published, &["shares", "other"]);
        assert!(PARTS.iter().all(|name| one[*name].is_null() == (*name != "shares")));
        assert_eq!((slowest(&published), running(&published)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_has_no_outcome_is_told_as_ranges() {
        let mut summary = Summary::default();
        for index in [0, 1, 5] {
            summary.plan.at(index).succeeded += 1;
        }
        let live = Live { scheduled: 9, ..Live::default() };
        let published = Published { live: Some(live), summary: Some(summary), ..Published::default() };
        let range = |from: u64, to: u64, open: u64| OpenRange { from, to, open };
        assert_eq!(waiting(&published), [range(2, 4, 3), range(6, 8, 3)]);
        assert!(waiting(&Published::default()).is_empty());
    }

    #[test]
    fn durations_have_their_classes() {
        let mut of = Histogram::default();
        of.add(1_000_000);
        let of = Duration::of(&of);
        assert_eq!((of.count, of.max_seconds, of.bins.len()), (1, Some(1.0), 1));
    }
}
