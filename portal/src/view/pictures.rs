//! The pictures of a page, from the statistics of a job.

use prs_common::ledger::JobState;
use prs_common::segment::TryStatus;
use prs_common::statistics::{
    Activity, Bucket, Cell as PlanCell, Histogram, Lane, LaneKind, Live, Marks, Part, Summary, TryRow,
};

use super::{Facts, nodes};
use crate::chart::{
    self, Cell, Durations, Figure, MOST_BUCKETS, Nodes, PlanMap, PlanState, Quantiles, Rate, RateBucket,
    Shares, Span, Table, Tries, TryBar, Walk,
};
use crate::text::count;
use crate::text::times::duration_us;

/// How much of everything a page shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detail {
    /// Nodes, and slowest mini-batches.
    pub(crate) rows: (usize, usize),
    /// Cards of errors.
    pub(crate) errors: usize,
    /// Tracebacks, bytes of HTML.
    pub(crate) tracebacks: usize,
    /// Ranges of the plan with failures.
    pub(crate) ranges: usize,
    /// Whether long pictures have a table.
    pub(crate) tables: bool,
    /// Whether there are pictures at all.
    pub(crate) pictures: bool,
}

/// What the pictures are called, in their order, and the part of a page that each is.
pub(crate) const IDS: [(&str, &str); 7] = [
    ("rate", "picture-rate"),
    ("shares", "picture-shares"),
    ("tries", "picture-tries"),
    ("activity", "picture-activity"),
    ("plan", "picture-plan"),
    ("durations", "picture-durations"),
    ("nodes", "picture-nodes"),
];

/// The parts of the statistics that a picture is made of; nothing for what is no picture.
pub fn parts_of_picture(id: &str) -> Option<&'static [&'static str]> {
    Some(match id {
        "rate" | "shares" | "tries" => &[Live::NAME],
        "activity" => &[Live::NAME, Activity::NAME],
        "plan" | "durations" => &[Live::NAME, Summary::NAME],
        "nodes" => &[Live::NAME, prs_common::statistics::Nodes::NAME],
        _ => return None,
    })
}

/// The order of the rows of the picture of activity, behind those that stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneOrder {
    /// Where `run()` takes longest.
    Slowest,
    /// Where most tries failed.
    Failing,
}

impl LaneOrder {
    /// The order that a word of an address names.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "slowest" => Some(Self::Slowest),
            "failures" => Some(Self::Failing),
            _ => None,
        }
    }
}

/// The pictures, in the order of the questions that they answer. On a page of a server their places lead to mini-batches `below` an
/// address; elsewhere nobody walks them.
pub(crate) fn pictures(facts: &Facts, detail: Detail, below: Option<&str>) -> Vec<Figure> {
    let published = &facts.statistics;
    let has_ended = facts.state.is_final();
    let mut figures = Vec::new();
    if !detail.pictures {
        return figures;
    }
    if let Some(live) = &published.live {
        let (step_s, buckets) = merged(live);
        figures.extend(rate(live, step_s, &buckets));
        figures.extend(shares(live, step_s, &buckets));
    }
    let bars = published.live.as_ref().and_then(tries);
    let is_small = bars.is_some();
    figures.extend(bars);
    if let Some(of) = published.activity.as_ref().filter(|_| !is_small) {
        figures.extend(activity(of, None));
    }
    if let Some(summary) = &published.summary {
        figures.extend(plan(summary, facts.mini_batches.0, facts.state, detail.ranges));
        figures.extend(durations(summary));
    }
    if let Some(of) = &published.nodes {
        let slow = nodes::slow(of);
        let served = below.map(|_| facts.job_id.as_str());
        let table = nodes::table(of, &slow, has_ended, None, (0, detail.rows.0), served);
        figures.extend(Nodes::figure(&nodes::dots(of, &slow), table));
    }
    if !detail.tables {
        for figure in figures.iter_mut().filter(|figure| ["rate", "shares", "tries"].contains(&figure.id)) {
            figure.table = None;
        }
    }
    for figure in &mut figures {
        figure.walk = figure.walk.take().and_then(|walk| {
            let below = below?;
            let open = match figure.id {
                "durations" => String::new(),
                "nodes" => format!("/jobs/{}/nodes", facts.job_id),
                _ => below.to_owned(),
            };
            Some(Walk { open, ..walk })
        });
    }
    figures
}

/// The timeline in as many buckets as have room, up to the last in which something happened.
fn merged(live: &Live) -> (u32, Vec<Bucket>) {
    let buckets = live.timeline.buckets();
    let used = buckets.iter().rposition(|bucket| !bucket.is_empty()).map_or(0, |last| last + 1);
    let each = used.div_ceil(MOST_BUCKETS).max(1);
    let merged = buckets[..used].chunks(each).map(|chunk| {
        let mut sum = Bucket::default();
        for bucket in chunk {
            sum.merge(bucket);
        }
        sum
    });
    (live.timeline.step_s().saturating_mul(each as u32), merged.collect())
}

fn rate(live: &Live, step_s: u32, buckets: &[Bucket]) -> Option<Figure> {
    let buckets: Vec<RateBucket> = buckets
        .iter()
        .map(|bucket| RateBucket {
            items: bucket.items,
            mini_batches: bucket.succeeded + bucket.failed,
            failed_tries: bucket.failed_tries,
        })
        .collect();
    let lately = &live.lately;
    let strip = (!lately.items.is_empty()).then_some((lately.from_us, lately.step_s, &*lately.items));
    Rate::figure(live.timeline.origin_us(), step_s, &buckets, strip)
}

fn shares(live: &Live, step_s: u32, buckets: &[Bucket]) -> Option<Figure> {
    let buckets: Vec<[u64; 6]> = buckets.iter().map(bands).collect();
    Shares::figure(live.timeline.origin_us(), step_s, &buckets)
}

/// What slots did, microseconds: what nodes told, of which what was busy has the proportions of the tries.
pub(crate) fn bands(bucket: &Bucket) -> [u64; 6] {
    let cpu = bucket.cpu_us.min(bucket.run_us);
    let parts = [cpu, bucket.run_us - cpu, bucket.load_us, bucket.other_us];
    let all: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    // Before any of them ended, what is busy runs.
    let of_busy = |part: u64| match all {
        0 => 0,
        all => (u128::from(bucket.busy_us) * u128::from(part) / all) as u64,
    };
    let mut busy = parts.map(of_busy);
    if all == 0 {
        busy[1] = bucket.busy_us;
    }
    [busy[0], busy[1], busy[2], busy[3], bucket.init_us, bucket.idle_us()]
}

/// A bar for each try, where all tries of the job are known.
fn tries(live: &Live) -> Option<Figure> {
    if live.recent.len() as u64 != live.tries {
        return None;
    }
    let single = live.recent.windows(2).all(|pair| pair[0].node_id == pair[1].node_id);
    let bars: Vec<TryBar> = live.recent.iter().map(|row| bar(row, single)).collect();
    Tries::figure(&bars)
}

fn bar(row: &TryRow, single: bool) -> TryBar {
    let process = format!("process{:03}", row.process);
    TryBar {
        process: if single { process } else { format!("{} {process}", row.node_id) },
        index: row.index,
        number: row.number,
        started_us: row.started_us,
        elapsed_us: row.elapsed_us,
        failed: row.status() != Some(TryStatus::RunDone),
    }
}

/// The activity in such an order, whose places lead to mini-batches `below` an address.
pub(crate) fn sorted_activity(facts: &Facts, order: LaneOrder, below: &str) -> Option<Figure> {
    let figure = activity(facts.statistics.activity.as_ref()?, Some(order))?;
    let walk = figure.walk.map(|walk| Walk { open: below.to_owned(), ..walk });
    Some(Figure { walk, ..figure })
}

fn activity(of: &Activity, order: Option<LaneOrder>) -> Option<Figure> {
    let mut rest: Vec<&Lane> = of.lanes.iter().collect();
    match order {
        None => {}
        Some(LaneOrder::Slowest) => rest.sort_by_key(|lane| std::cmp::Reverse(lane.median_us)),
        Some(LaneOrder::Failing) => rest.sort_by_key(|lane| std::cmp::Reverse(lane.failed_tries)),
    }
    let lanes: Vec<chart::Lane> = of.named.iter().chain(rest).map(lane).collect();
    let from_us = of.origin_us;
    let to_us = from_us + u64::from(of.columns) * u64::from(of.step_s) * 1_000_000;
    chart::Activity::figure(Span { from_us, to_us }, &lanes)
}

/// The activity of one node, which leads to mini-batches `below` an address; nothing where it has no row of its own.
pub(crate) fn activity_of(facts: &Facts, node_id: u32, below: &str) -> Option<Figure> {
    let of = facts.statistics.activity.as_ref()?;
    let is_its = |lane: &&Lane| lane.first_node == node_id && lane.kind != LaneKind::Group;
    // A slow one stands among the named ones as well.
    let has_processes = of.lanes.iter().any(|lane| is_its(&lane) && lane.kind == LaneKind::Process);
    let all = of.lanes.iter().chain(of.named.iter().take(if has_processes { 0 } else { usize::MAX }));
    let mut lanes: Vec<chart::Lane> = all.filter(is_its).map(lane).collect();
    lanes.dedup_by(|one, other| one.busy == other.busy);
    let to_us = of.origin_us + u64::from(of.columns) * u64::from(of.step_s) * 1_000_000;
    let figure = chart::Activity::figure(Span { from_us: of.origin_us, to_us }, &lanes)?;
    let walk = figure.walk.map(|walk| Walk { open: below.to_owned(), ..walk });
    Some(Figure { walk, ..figure })
}

fn lane(lane: &Lane) -> chart::Lane {
    let node = lane.first_node;
    let name = match lane.kind {
        LaneKind::Process => format!("{node} {}", lane.process),
        LaneKind::Node => format!("node {node}"),
        LaneKind::Group => format!("nodes {node}\u{2013}{}", lane.last_node),
        LaneKind::Slow => format!("node {node} slow"),
        LaneKind::Failing => format!("node {node} failed"),
    };
    chart::Lane {
        name,
        busy: lane.cells.columns().map(|(busy, _)| Some(busy)).collect(),
        failed: lane.cells.columns().map(|(_, marks)| marks != Marks::NONE).collect(),
        failed_tries: lane.failed_tries,
        query: match lane.kind {
            LaneKind::Group => format!("node={node}-{}", lane.last_node),
            LaneKind::Process => format!("node={node}&process={}", lane.process),
            LaneKind::Node | LaneKind::Slow | LaneKind::Failing => format!("node={node}"),
        },
    }
}

fn plan(summary: &Summary, scheduled: u64, state: JobState, most: usize) -> Option<Figure> {
    let (width, known) = (summary.plan.width(), summary.plan.cells());
    let all = (scheduled.div_ceil(width.max(1)) as usize).clamp(known.len(), 1_024.max(known.len()));
    let nothing = PlanCell::default();
    let cells: Vec<(PlanState, u64)> = (0..all)
        .map(|at| {
            let cell = known.get(at).unwrap_or(&nothing);
            let first = at as u64 * width;
            let size = width.min(scheduled.saturating_sub(first)).max(1);
            (plan_state(cell, size, state), cell.failed)
        })
        .collect();
    PlanMap::figure(&cells, width, scheduled, most)
}

/// The worst that is true of a cell of so many mini-batches.
fn plan_state(cell: &PlanCell, size: u64, state: JobState) -> PlanState {
    let ended = cell.succeeded + cell.failed;
    match () {
        () if cell.failed > 0 => PlanState::Failed,
        () if ended == 0 => PlanState::Waiting,
        () if ended < size && state != JobState::Completed => PlanState::Running,
        () if cell.retried > 0 => PlanState::Retried,
        () => PlanState::Done,
    }
}

fn durations(summary: &Summary) -> Option<Figure> {
    let edges: Vec<f64> =
        (0..=prs_common::statistics::BINS).map(|bin| Histogram::lower_us(bin) / 1e6).collect();
    let named = [("run()", &summary.run), ("loading data", &summary.load), ("all of a try", &summary.whole)];
    let quantiles: Vec<_> =
        named.into_iter().filter_map(|(name, histogram)| Some((name, quantiles(histogram)?))).collect();
    Durations::figure(&edges, summary.run.counts(), &quantiles)
}

fn quantiles(of: &Histogram) -> Option<Quantiles> {
    let share = |share: f64| of.quantile_us(share).map_or(0.0, |us| us as f64 / 1e6);
    let (min, max) = (of.min_us()? as f64 / 1e6, of.max_us()? as f64 / 1e6);
    Some(Quantiles { values: [min, share(0.25), share(0.5), share(0.75), share(0.95), share(0.99), max] })
}

/// The mini-batches that took longest.
pub(crate) fn slowest(summary: &Summary, most: usize) -> Option<Table> {
    if summary.slowest.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "The tries that took longest",
        &["Mini-batch", "#Try", "#Took", "#In run()", "#Loading", "Node", "Process", "Ended"],
    );
    for row in summary.slowest.iter().take(most) {
        let status = row.status();
        let word = status.map_or("unknown", TryStatus::as_str).to_owned();
        table.rows.push(vec![
            count(row.index).into(),
            row.number.to_string().into(),
            duration_us(row.elapsed_us).into(),
            duration_us(row.run_us).into(),
            duration_us(row.load_us).into(),
            row.node_id.to_string().into(),
            format!("process{:03}", row.process).into(),
            if status == Some(TryStatus::RunDone) {
                Cell::Text("succeeded".to_owned())
            } else {
                Cell::Bad(word)
            },
        ]);
    }
    Some(table)
}

/// The mini-batches that run longest at the moment.
pub(crate) fn running(live: &Live, now_us: u64) -> Option<Table> {
    if live.running.is_empty() {
        return None;
    }
    let mut table = Table::new("The mini-batches that run longest", &["Mini-batch", "#Runs since", "Node"]);
    for row in &live.running {
        let since = now_us.min(live.written_us.max(row.since_us)).saturating_sub(row.since_us);
        table.rows.push(vec![
            count(row.index).into(),
            duration_us(since).into(),
            row.node_id.to_string().into(),
        ]);
    }
    Some(table.cut(20, "mini-batches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_busy_has_the_proportions_of_the_tries() {
        let bucket = Bucket {
            run_us: 600,
            cpu_us: 400,
            load_us: 300,
            other_us: 100,
            slots_us: 2_000,
            busy_us: 500,
            init_us: 100,
            ..Bucket::default()
        };
        assert_eq!(bands(&bucket), [200, 100, 150, 50, 100, 1_400]);
        let young = Bucket { slots_us: 100, busy_us: 60, ..Bucket::default() };
        assert_eq!(bands(&young), [0, 60, 0, 0, 0, 40]);
        assert_eq!(bands(&Bucket::default()), [0; 6]);
    }

    #[test]
    fn rows_of_activity_stand_in_the_order_that_is_asked_for_and_lead_to_their_nodes() {
        let lane = |first_node, median_us, failed_tries| Lane {
            kind: LaneKind::Group,
            first_node,
            last_node: first_node + 7,
            median_us,
            failed_tries,
            cells: prs_common::statistics::Cells([250, 0].repeat(4)),
            ..Lane::default()
        };
        let of = Activity {
            step_s: 1,
            columns: 4,
            lanes: vec![lane(0, 10, 1), lane(8, 30, 0), lane(16, 20, 9)],
            ..Activity::default()
        };
        let rows = |order| -> Vec<String> {
            let walk = activity(&of, order).unwrap().walk.unwrap();
            walk.rows.into_iter().map(|(_, query, _)| query).collect()
        };
        let query = |nodes: &str| format!("state=tries&node={nodes}");
        assert_eq!(rows(None), ["0-7", "8-15", "16-23"].map(query));
        assert_eq!(rows(LaneOrder::of("slowest")), ["8-15", "16-23", "0-7"].map(query));
        assert_eq!(rows(LaneOrder::of("failures")), ["16-23", "0-7", "8-15"].map(query));
        assert_eq!(LaneOrder::of("odd"), None);
    }

    #[test]
    fn the_worst_of_a_cell_wins() {
        let cell = |succeeded, failed, retried| PlanCell { succeeded, failed, retried };
        for (cell, size, state, expected) in [
            (cell(0, 0, 0), 4, JobState::Running, PlanState::Waiting),
            (cell(1, 0, 0), 4, JobState::Running, PlanState::Running),
            (cell(4, 0, 0), 4, JobState::Running, PlanState::Done),
            (cell(3, 0, 1), 4, JobState::Running, PlanState::Running),
            (cell(4, 0, 1), 4, JobState::Running, PlanState::Retried),
            (cell(1, 1, 1), 4, JobState::Running, PlanState::Failed),
            (cell(2, 0, 0), 4, JobState::Completed, PlanState::Done),
        ] {
            assert_eq!(plan_state(&cell, size, state), expected, "{cell:?}");
        }
    }
}
