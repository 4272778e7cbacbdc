//! What holds of the aggregates whatever the tries: the same in any order of segments, bounded, and equal to plain sums.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::ledger::{JobState, NodeInfo, NodeReport, NodeView, ProcessExit, ProcessView, TryUnderWay};
use prs_common::segment::{ErrorDetail, ProcessRef, SegmentIndex, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::statistics::{
    Activity, Errors, LaneKind, Live, MOST_GROUPS, MOST_LANES, NAMES, Nodes, Part, Summary, decode,
};

use super::*;
use crate::OrchestratorMetrics;
use crate::job::status::Status;

const ORIGIN: u64 = 1_790_000_000_000_000;

/// A try: mini-batch, status, start since the origin, duration, node, process, kind of error.
type Tried = (u64, usize, u64, u64, u32, u32, u32);

fn tried() -> impl Strategy<Value = Tried> {
    let start = prop_oneof![0..5_000_000_u64, 0..40_000_000_000_u64];
    let long = prop_oneof![0..3_000_u64, 0..1_000_000_000_u64];
    (0..3_000_u64, 0..TryStatus::ALL.len(), start, long, 0..90_u32, 0..3_u32, 0..6_u32)
}

fn record((index, status, start, long, _, _, error): Tried) -> TryRecord {
    let status = TryStatus::ALL[status];
    let succeeded = status == TryStatus::RunDone;
    TryRecord {
        number: 1 + (start % 2) as u32,
        last: succeeded || start.is_multiple_of(3),
        started_us: ORIGIN + start,
        elapsed_us: long,
        run_us: long / 2,
        load_us: long / 4,
        cpu_us: long / 3,
        items: 4,
        succeeded: if succeeded { 4 } else { 0 },
        returned: if succeeded { 4 } else { 0 },
        length: 10,
        category: "ValueError".to_owned(),
        message: format!("item {start} of kind {error} is bad"),
        error: (error > 2).then_some(0),
        ..TryRecord::new(index, b"", status)
    }
}

fn segment(tried: Tried, incarnation: u32) -> SegmentIndex {
    let (node_id, process, error) = (tried.4, tried.5, tried.6);
    let frame = SourceLine { file: "a.py".into(), line: error, function: "run".into(), text: "x".into() };
    SegmentIndex {
        key: String::new(),
        incarnation,
        node_id,
        ip: String::new(),
        processes: vec![ProcessRef { name: format!("process{process:03}"), pid: 1 }],
        tries: vec![record(tried)],
        errors: vec![ErrorDetail::new("ValueError", Some(frame), "Traceback\n")],
    }
}

fn filled<'a>(tries: impl IntoIterator<Item = &'a Tried>) -> Statistics {
    let mut statistics = Statistics::new(2, ORIGIN);
    for tried in tries {
        let incarnation = if tried.2.is_multiple_of(7) { 1 } else { 2 };
        statistics.add(&segment(*tried, incarnation), |record| record.last);
    }
    statistics
}

fn with_standing<T>(state: JobState, nodes: &[NodeView], then: impl FnOnce(&Standing) -> T) -> T {
    let (spec, status) = (JobSpec::new("job", "/", "x.py", Vec::new()), Status::default());
    let now_us = ORIGIN + 50_000_000_000;
    then(&Standing { spec: &spec, state, reason: "", status: &status, nodes, started_us: ORIGIN, now_us })
}

/// All parts, without what is about the order of commits.
fn parts(statistics: &Statistics) -> (Live, Activity, Summary, Errors, Nodes) {
    with_standing(JobState::Completed, &[], |standing| {
        let part = |name| statistics.part(name, standing).unwrap();
        let mut live: Live = decode(&part(Live::NAME)).unwrap();
        live.recent.clear();
        (
            live,
            decode(&part(Activity::NAME)).unwrap(),
            decode(&part(Summary::NAME)).unwrap(),
            decode(&part(Errors::NAME)).unwrap(),
            decode(&part(Nodes::NAME)).unwrap(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_segments_does_not_matter(tries in vec(tried(), 0..60), seed in any::<u64>()) {
        let once = parts(&filled(&tries));
        let mut turned: Vec<_> = tries.iter().collect();
        turned.sort_by_key(|one| (one.0 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        prop_assert_eq!(parts(&filled(turned)), once);
    }

    #[test]
    fn sums_are_those_of_the_tries(tries in vec(tried(), 0..60)) {
        let (live, _, summary, errors, nodes) = parts(&filled(&tries));
        let present = || tries.iter().filter(|one| !one.2.is_multiple_of(7));
        let records: Vec<_> = tries.iter().map(|one| record(*one)).collect();
        let failed = records.iter().filter(|one| one.status != TryStatus::RunDone).count() as u64;
        prop_assert_eq!((live.tries, live.failed_tries), (tries.len() as u64, failed));
        prop_assert_eq!(summary.by_status.iter().sum::<u64>(), tries.len() as u64);
        let sum = |of: fn(&TryRecord) -> u64| present().map(|one| of(&record(*one))).sum::<u64>();
        let total = live.timeline.total();
        prop_assert_eq!(total.run_us, sum(|one| one.run_us));
        prop_assert_eq!(total.cpu_us, sum(|one| one.cpu_us));
        prop_assert_eq!(total.load_us, sum(|one| one.load_us));
        prop_assert_eq!(total.run_us + total.load_us + total.other_us, sum(|one| one.elapsed_us));
        prop_assert_eq!(nodes.rows.iter().map(|row| row.tries).sum::<u64>(), present().count() as u64);
        prop_assert_eq!(nodes.rows.iter().map(|row| row.busy_us).sum::<u64>(), sum(|one| one.elapsed_us));
        let former: u64 = live.former.iter().map(|former| former.tries).sum();
        prop_assert_eq!(former, (tries.len() - present().count()) as u64);
        prop_assert_eq!(errors.groups.iter().map(|group| group.tries).sum::<u64>() + errors.other_tries, failed);
        let outcomes = records.iter().filter(|one| one.last).count() as u64;
        let cells = summary.plan.cells().iter().map(|cell| cell.succeeded + cell.failed).sum::<u64>();
        prop_assert_eq!(cells, outcomes);
    }
}

fn view(node_id: u32, report: NodeReport) -> NodeView {
    let info = NodeInfo {
        worker: format!("worker-{node_id}-{}", "w".repeat(200)),
        host: "h".repeat(200),
        slots: 4,
        ..NodeInfo::default()
    };
    NodeView { node_id, info, report, silent: Duration::ZERO, left: false }
}

/// So many processes, every other of which was killed for that.
fn processes(count: u32, killed_for: &str) -> Vec<ProcessView> {
    let exit = ProcessExit { at_us: ORIGIN, returncode: -9, killed_for: killed_for.to_owned() };
    let process = |number: u32| ProcessView {
        number,
        pid: 4_000_000,
        exit: (number % 2 == 1).then(|| exit.clone()),
        ..ProcessView::default()
    };
    (0..count).map(process).collect()
}

#[test]
fn of_many_nodes_each_tells_of_a_few_processes() {
    let processes_of = |nodes: u32| {
        let report = NodeReport { each_process: processes(100, "memory"), ..NodeReport::default() };
        let nodes: Vec<_> = (0..nodes).map(|node| view(node, report.clone())).collect();
        let mut statistics = Statistics::new(1, ORIGIN);
        statistics.observe(&nodes, Seen::default(), ORIGIN + 1);
        let (.., nodes) = parts(&statistics);
        nodes.rows.into_iter().map(|row| row.each_process).collect::<Vec<_>>()
    };
    for (nodes, most) in [(1, 64), (512, 8), (4_000, 1)] {
        let told = processes_of(nodes);
        assert!(told.len() == nodes as usize && told.iter().all(|one| one.len() == most), "{nodes}");
        assert!(told.iter().all(|one| one.iter().any(|process| process.exit.is_some())), "{nodes}");
    }
}

#[test]
fn sizes_are_bounded_whatever_comes() {
    let mut statistics = Statistics::new(1, ORIGIN);
    let nodes: Vec<_> = (0..10_000)
        .map(|node| {
            let longest = vec![
                TryUnderWay {
                    index: u64::MAX,
                    age_ms: 5_000,
                    detail: "é".repeat(4_000),
                    ..TryUnderWay::default()
                };
                4
            ];
            let fatal = Some("é".repeat(4_000));
            let each_process = processes(100, &"é".repeat(4_000));
            let said = NodeReport { longest, fatal, each_process, ..NodeReport::default() };
            view(node, NodeReport { busy: 4, in_hand: 9, now_us: 1, ..said })
        })
        .collect();
    statistics.observe(&nodes, Seen::default(), ORIGIN + 1);
    statistics.observe(&nodes, Seen::default(), ORIGIN + 1_000_001);
    for number in 0..12_000_u64 {
        let mut index = segment((number << 20, 1, 0, 1_000_000_000, number as u32 % 10_000, 2, 3), 1);
        let hours = (number % 50) * 3_600_000_000;
        index.tries[0].started_us = if number.is_multiple_of(2) { ORIGIN + hours } else { ORIGIN - hours };
        index.tries[0].detail = "d".repeat(5_000);
        index.tries[0].message = format!("{number} {}", "é".repeat(3_000));
        let frame = SourceLine { file: "f".repeat(2_000), line: number as u32, ..SourceLine::default() };
        index.errors[0] = ErrorDetail::new("E", Some(frame), &"t".repeat(20_000));
        statistics.add(&index, |_| true);
    }
    for state in [JobState::Running, JobState::Failed] {
        with_standing(state, &nodes, |standing| {
            for name in NAMES {
                let part = statistics.part(name, standing).unwrap();
                let most = match name {
                    Live::NAME => Live::MOST_BYTES,
                    Activity::NAME => Activity::MOST_BYTES,
                    Summary::NAME => Summary::MOST_BYTES,
                    Errors::NAME if state == JobState::Running => 256 << 10,
                    Errors::NAME => Errors::MOST_BYTES,
                    _ => Nodes::MOST_BYTES,
                };
                assert!(part.len() <= most, "{name} {} {state:?}", part.len());
            }
            let (live, activity, summary, errors, nodes) = parts(&statistics);
            assert_eq!((live.tries, summary.by_status[1]), (12_000, 12_000));
            assert!(
                activity.lanes.len() == MOST_LANES && activity.named.len() == 8,
                "{}",
                activity.named.len()
            );
            assert_eq!(
                errors.groups.iter().map(|group| group.tries).sum::<u64>() + errors.other_tries,
                12_000
            );
            assert!(errors.groups.len() <= MOST_GROUPS && !errors.groups[0].traceback.is_empty());
            assert_eq!(nodes.rows.iter().map(|row| row.tries).sum::<u64>(), 12_000);
            assert_eq!(nodes.rows.iter().map(|row| row.failed_tries).sum::<u64>(), 12_000);
        });
    }
}

#[test]
fn what_nodes_say_is_in_the_timeline_and_goes_on_with_a_successor() {
    let report = NodeReport { processes: 4, starting: 1, busy: 2, in_hand: 7, ..NodeReport::default() };
    let nodes = [view(0, report)];
    let seen = Seen { scheduled: 100, ended: 20, items: 40 };
    let mut first = Statistics::new(1, ORIGIN);
    for second in 0..=30 {
        first.observe(&nodes, seen, ORIGIN + second * 1_000_000);
    }
    let total = first.timeline.total();
    let seconds = 1_000_000;
    assert_eq!((total.slots_us, total.busy_us, total.init_us), (120 * seconds, 60 * seconds, 30 * seconds));
    assert_eq!((total.waiting, total.in_flight, total.nodes, total.processes), (73, 7, 1, 4));
    assert_eq!(total.idle_us(), 30 * seconds);

    let logs = tempfile::tempdir().unwrap();
    let mut files =
        StatisticsFiles::new(logs.path(), logs.path(), Pace::default(), OrchestratorMetrics::default());
    with_standing(JobState::Running, &nodes, |standing| files.write_all(&first, standing));
    let mut next = Statistics::new(1, ORIGIN);
    next.restore(logs.path());
    assert_eq!(next.timeline, first.timeline);
    for (incarnation, origin) in [(2, ORIGIN), (1, ORIGIN + 1)] {
        let mut other = Statistics::new(incarnation, origin);
        other.restore(logs.path());
        assert_eq!(other.timeline.total().looks, 0, "another start");
    }
    std::fs::write(logs.path().join("sys/statistics/live"), b"rubbish").unwrap();
    let mut next = Statistics::new(1, ORIGIN);
    next.restore(logs.path());
    assert_eq!(next.timeline.total().looks, 0);
}

#[test]
fn what_was_carried_over_is_an_outcome_and_no_second_try() {
    let failed = (7, 1, 3_000_000, 2_000_000, 4, 1, 1);
    let mut statistics = Statistics::new(2, ORIGIN);
    statistics.add(&segment(failed, 1), |_| false);
    let mut carried = segment(failed, 2);
    carried.key = layout::segment(2, 4, layout::CARRIED, 0);
    statistics.add(&carried, |_| true);
    let (live, _, summary, errors, nodes) = parts(&statistics);
    assert_eq!((live.tries, live.failed_tries, summary.by_status.iter().sum::<u64>()), (1, 1, 1));
    assert_eq!((errors.groups[0].tries, errors.groups[0].mini_batches_lost), (1, 1));
    assert_eq!(errors.groups[0].nodes, [(4, 1)]);
    assert_eq!(summary.plan.cells().iter().map(|cell| cell.failed).sum::<u64>(), 1);
    assert!(nodes.rows.is_empty() && live.timeline.total().failed_tries == 0, "it ran before this start");
}

#[test]
fn clocks_of_nodes_do_not_move_the_timeline() {
    let hour = 3_600_000_000;
    let mut statistics = Statistics::new(1, ORIGIN);
    let ahead = NodeReport { now_us: ORIGIN + hour, ..NodeReport::default() };
    statistics.observe(&[view(3, ahead)], Seen::default(), ORIGIN);
    let mut index = segment((1, 0, 0, 2_000_000, 3, 0, 0), 1);
    index.tries[0].started_us = ORIGIN + hour + 5_000_000;
    statistics.add(&index, |_| true);
    assert_eq!(statistics.timeline.buckets().len(), 8);
    assert_eq!(statistics.timeline.buckets()[7].succeeded, 1);
}

#[test]
fn few_processes_have_lanes_and_many_nodes_share_them() {
    let kinds = |nodes: u32, processes: u32| {
        let tries =
            (0..nodes).flat_map(|node| (0..processes).map(move |process| (1, 0, 1, 1_000, node, process, 0)));
        let activity = parts(&filled(&tries.collect::<Vec<_>>())).1;
        let first = activity.lanes[0].clone();
        (activity.lanes.len(), first.kind, (first.first_node, first.last_node))
    };
    assert_eq!(kinds(2, 8), (16, LaneKind::Process, (0, 0)));
    assert_eq!(kinds(40, 2), (40, LaneKind::Node, (0, 0)));
    assert_eq!(kinds(500, 1), (63, LaneKind::Group, (0, 7)));
}

#[test]
fn an_error_tells_what_its_messages_have_in_common() {
    let tries: Vec<Tried> = [11, 12, 25].map(|start| (start, 1, start, 5, 3, 0, 4)).into();
    let errors = parts(&filled(&tries)).3;
    assert_eq!(errors.groups.len(), 1);
    let group = &errors.groups[0];
    assert_eq!(group.pattern(), "item <...> of kind 4 is bad");
    assert_eq!((group.tries, &*group.nodes, group.examples.len()), (3, &[(3, 3)][..], 3));
    assert!(group.examples[0].is_lost && group.traceback == "Traceback\n");
    assert_eq!(group.frame().unwrap().to_string(), "a.py:4 in run");
}

#[test]
fn since_when_a_limit_is_nearly_reached_goes_on_with_a_successor() {
    let logs = tempfile::tempdir().unwrap();
    let mut statistics = Statistics::new(1, ORIGIN);
    let mut spec = JobSpec::new("job", "/", "x.py", Vec::new());
    spec.allowed_failed_count = 10;
    let near = |statistics: &mut Statistics, failed, now_us| {
        let mut status = Status::default();
        status.progress.failed = failed;
        let standing = Standing {
            spec: &spec,
            state: JobState::Running,
            reason: "",
            status: &status,
            nodes: &[],
            started_us: ORIGIN,
            now_us,
        };
        statistics.note_limits(&standing);
        let mut files =
            StatisticsFiles::new(logs.path(), logs.path(), Pace::default(), OrchestratorMetrics::default());
        files.write_all(statistics, &standing);
        let live: Live = decode(&statistics.part(Live::NAME, &standing).unwrap()).unwrap();
        live.thresholds.iter().map(|limit| limit.near_us).collect::<Vec<_>>()
    };
    assert_eq!(near(&mut statistics, 8, ORIGIN + 1), [0, 0, 0]);
    assert_eq!(near(&mut statistics, 9, ORIGIN + 2), [0, ORIGIN + 2, 0]);
    assert_eq!(near(&mut statistics, 10, ORIGIN + 3), [0, ORIGIN + 2, 0]);
    let mut next = Statistics::new(1, ORIGIN);
    next.restore(logs.path());
    assert_eq!(near(&mut next, 9, ORIGIN + 4), [0, ORIGIN + 2, 0]);
    assert_eq!(near(&mut next, 8, ORIGIN + 5), [0, 0, 0]);
}
