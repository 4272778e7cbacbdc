//! What holds of statistics whatever the tries: sums in any order, bounded sizes, no trust in what is read.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Start since the origin, duration, `run()`: up to a day, and beyond what any job has.
fn stretch() -> impl Strategy<Value = (u64, u64, u64)> {
    let start = prop_oneof![0..3_000_000_u64, 0..90_000_000_000_u64, Just(u64::MAX / 2)];
    let long = prop_oneof![Just(0), 1..5_000_u64, 0..2_000_000_000_u64];
    (start, long, 0..u64::from(u32::MAX))
}

const ORIGIN: u64 = 1_790_000_000_123_456;

fn filled<'a>(stretches: impl IntoIterator<Item = &'a (u64, u64, u64)>) -> Timeline {
    let mut timeline = Timeline::new(ORIGIN);
    for (start, long, amount) in stretches {
        timeline.at(ORIGIN + start).succeeded += 1;
        timeline.spread(ORIGIN + start, *long, [*amount, *long], |bucket, [run, other]| {
            bucket.run_us += run;
            bucket.other_us += other;
        });
    }
    timeline
}

proptest! {
    #[test]
    fn a_timeline_depends_on_no_order_and_on_no_takeover(stretches in vec(stretch(), 0..40), at in 0..40_usize) {
        let once = filled(&stretches);
        prop_assert_eq!(&filled(stretches.iter().rev()), &once);
        let (first, second) = stretches.split_at(at.min(stretches.len()));
        let mut merged = filled(first);
        merged.merge(&filled(second));
        prop_assert_eq!(&merged, &once);
        let total = once.total();
        prop_assert_eq!(total.succeeded, stretches.len() as u64);
        prop_assert_eq!(total.run_us, stretches.iter().map(|one| one.2).sum::<u64>());
        prop_assert_eq!(total.other_us, stretches.iter().map(|one| one.1).sum::<u64>());
        prop_assert!(once.buckets().len() <= MOST_BUCKETS);
        let encoded = crate::message_pack::encode(&once);
        prop_assert_eq!(crate::message_pack::decode::<Timeline>(&encoded).unwrap(), once);
    }

    #[test]
    fn gauges_are_those_of_the_last_look(looks in vec((0..4_000_u64, 0..9_u64), 1..30)) {
        let mut timeline = Timeline::new(ORIGIN);
        let mut looks = looks;
        looks.sort_unstable();
        for (second, waiting) in &looks {
            let bucket = timeline.at(ORIGIN + second * 1_000_000);
            bucket.looks += 1;
            bucket.waiting = *waiting;
        }
        let total = timeline.total();
        prop_assert_eq!(Some(total.waiting), looks.last().map(|look| look.1));
        prop_assert_eq!(total.looks, looks.len() as u64);
    }

    #[test]
    fn quantiles_are_within_a_class(mut durations in vec(prop_oneof![0..10_u64, 0..5_000_000_u64, 0..1_000_000_000_u64], 1..200), share in 0..=100_u32) {
        let mut histogram = Histogram::default();
        for micros in &durations {
            histogram.add(*micros);
        }
        let share = f64::from(share) / 100.0;
        durations.sort_unstable();
        let rank = ((durations.len() as f64 * share).ceil() as usize).clamp(1, durations.len());
        let exact = durations[rank - 1];
        let found = histogram.quantile_us(share).unwrap();
        prop_assert!(Histogram::bin(found).abs_diff(Histogram::bin(exact)) <= 1, "{} {}", found, exact);
        prop_assert_eq!(histogram.count(), durations.len() as u64);
        prop_assert_eq!(histogram.sum_us(), durations.iter().sum::<u64>());
        let (first, second) = durations.split_at(rank - 1);
        let mut merged = Histogram::default();
        for part in [second, first] {
            let mut of = Histogram::default();
            for micros in part {
                of.add(*micros);
            }
            merged.merge(&of);
        }
        prop_assert_eq!(&merged, &histogram);
        let encoded = crate::message_pack::encode(&histogram);
        prop_assert_eq!(crate::message_pack::decode::<Histogram>(&encoded).unwrap(), histogram);
    }

    #[test]
    fn a_plan_map_depends_on_no_order(indices in vec(prop_oneof![0..2_000_u64, 0..u64::from(u32::MAX), any::<u64>()], 0..60), at in 0..60_usize) {
        let filled = |indices: &[u64]| {
            let mut map = PlanMap::default();
            for index in indices {
                map.at(*index).succeeded += 1;
            }
            map
        };
        let once = filled(&indices);
        let mut turned = indices.clone();
        turned.reverse();
        prop_assert_eq!(&filled(&turned), &once);
        let (first, second) = indices.split_at(at.min(indices.len()));
        let mut merged = filled(second);
        merged.merge(&filled(first));
        prop_assert_eq!(&merged, &once);
        prop_assert_eq!(once.cells().iter().map(|cell| cell.succeeded).sum::<u64>(), indices.len() as u64);
        prop_assert!(once.cells().len() <= MOST_CELLS);
        let encoded = crate::message_pack::encode(&once);
        prop_assert_eq!(crate::message_pack::decode::<PlanMap>(&encoded).unwrap(), once);
    }

    #[test]
    fn a_curve_keeps_all(times in vec(0..10_000_000_u64, 0..50)) {
        let mut curve = Curve::new(ORIGIN);
        for second in &times {
            curve.add(ORIGIN + second * 1_000_000);
        }
        let mut turned = Curve::new(ORIGIN);
        times.iter().rev().for_each(|second| turned.add(ORIGIN + second * 1_000_000));
        prop_assert_eq!(&turned, &curve);
        prop_assert_eq!(curve.bins().iter().sum::<u64>(), times.len() as u64);
        let encoded = crate::message_pack::encode(&curve);
        prop_assert_eq!(crate::message_pack::decode::<Curve>(&encoded).unwrap(), curve);
    }

    #[test]
    fn what_was_changed_never_panics(flips in vec((any::<prop::sample::Index>(), 0..8_u32), 1..4), cut in any::<prop::sample::Index>()) {
        fn damaged<P: Part + Clone>(part: &P, flips: &[(prop::sample::Index, u32)], cut: prop::sample::Index) {
            let mut bytes = encode(part);
            for (at, bit) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            let _ = decode::<P>(&bytes);
            let _ = decode::<P>(&bytes[..cut.index(bytes.len())]);
        }
        let parts = sample();
        damaged(&parts.0, &flips, cut);
        damaged(&parts.1, &flips, cut);
        damaged(&parts.2, &flips, cut);
        damaged(&parts.3, &flips, cut);
        damaged(&parts.4, &flips, cut);
    }
}

/// One of each part with something in all of its fields.
fn sample() -> (Live, Activity, Summary, Errors, Nodes) {
    let group = ErrorGroup {
        id: group_id("RUN_EXCEPTION", "ValueError", None, "bad <...>"),
        message: "bad 17.csv in it".to_owned(),
        common_start: 4,
        common_end: 6,
        curve: Curve::new(ORIGIN),
        nodes: vec![(3, 2)],
        examples: vec![ErrorExample {
            index: 7,
            process: "process001".to_owned(),
            ..ErrorExample::default()
        }],
        ..ErrorGroup::default()
    };
    let row =
        TryRow { index: 7, number: 2, status: 1, started_us: ORIGIN, elapsed_us: 5, ..TryRow::default() };
    let live = Live {
        state: "running".to_owned(),
        rates: vec![Rate { over_s: 5.0, per_second: 2.5, items_per_second: 25.0 }],
        eta_s: -1.0,
        thresholds: vec![Threshold { name: "error_threshold".to_owned(), limit: -1, used: 3, near_us: 0 }],
        top_errors: vec![group.clone()],
        timeline: filled(&[(0, 5_000_000, 7), (90_000_000, 3, 1)]),
        former: vec![FormerStart { incarnation: 1, tries: 9, ..FormerStart::default() }],
        recent: vec![row.clone()],
        running: vec![RunningOn {
            index: 9,
            node_id: 1,
            since_us: ORIGIN,
            number: 2,
            process: Some(3),
            detail: "a.txt".into(),
            printed_from: Some((7, 8)),
        }],
        ..Live::default()
    };
    let mut cells = Cells::default();
    cells.push(500_000, 1_000_000, Marks::FAILED | Marks::LOST);
    let lane = Lane { slots: 1, cells, ..Lane::default() };
    let activity = Activity {
        step_s: 1,
        columns: 1,
        lanes: vec![lane.clone()],
        named: vec![lane],
        ..Activity::default()
    };
    let mut summary = Summary { slowest: vec![row], by_status: vec![1, 2, 3], ..Summary::default() };
    summary.run.add(17);
    summary.plan.at(5_000).failed += 1;
    let errors = Errors { groups: vec![group], other_tries: 4, ..Errors::default() };
    let node = NodeRow { node_id: 1, bins: vec![0, 4], clock_us: -7, of: 1, ..NodeRow::default() };
    (live, activity, summary, errors, Nodes { written_us: 1, rows: vec![node] })
}

#[test]
fn parts_come_back_as_they_were() {
    fn same<P: Part + Clone + PartialEq + std::fmt::Debug>(part: &P) {
        let bytes = encode(part);
        assert_eq!(decode::<P>(&bytes).unwrap(), *part);
        assert_eq!(bytes[0], VERSION);
        assert!(decode::<P>(&bytes[..bytes.len() - 1]).is_err());
    }
    let (live, activity, summary, errors, nodes) = sample();
    same(&live);
    same(&activity);
    same(&summary);
    same(&errors);
    same(&nodes);
    assert_eq!(NAMES, ["live", "activity", "summary", "errors", "nodes"]);
}

#[test]
fn what_is_no_part_is_told_with_the_reason() {
    let told = |bytes: &[u8]| decode::<Errors>(bytes).unwrap_err().to_string();
    assert_eq!(told(&[]), "the statistics \"errors\" are damaged: nothing is there");
    assert!(told(&[9, 0x90]).contains("are of version 9, this prs reads version 1"));
    let long = [&[VERSION][..], &vec![0xc0; Errors::MOST_BYTES]].concat();
    assert!(told(&long).contains("bytes long"), "{}", told(&long));
    let groups = vec![ErrorGroup::default(); MOST_GROUPS + 1];
    assert!(told(&encode(&Errors { groups, ..Errors::default() })).ends_with("too many errors"));
    // A list that claims to be longer than what is there.
    assert!(told(&[VERSION, 0x92, 0x00, 0xdd, 0xff, 0xff, 0xff, 0xff]).contains("damaged"));
    assert!(decode::<Live>(&[VERSION, 0x92]).is_err());
    let empty = decode::<Errors>(&[VERSION, 0x90]).unwrap();
    assert_eq!(empty, Errors::default());
}

#[test]
fn classes_of_durations_follow_each_other() {
    let mut last = 0;
    for micros in (0..70_000).chain((17..64).map(|shift| 1 << shift)) {
        let bin = Histogram::bin(micros);
        assert!(bin < BINS);
        if micros > 0 && bin + 1 < BINS {
            let within = Histogram::lower_us(bin)..Histogram::lower_us(bin + 1);
            assert!(within.contains(&(micros as f64)), "{micros} {within:?}");
        }
        assert!(bin >= last, "{micros}");
        last = bin;
    }
    assert_eq!([0, 1_023, 1_024, 2_048, u64::MAX].map(node_bin), [0, 0, 1, 2, NODE_BINS - 1]);
    assert_eq!(Histogram::default().quantile_us(0.5), None);
}

#[test]
fn an_error_has_an_id_and_a_pattern() {
    let frame = |line| crate::source_line::SourceLine { file: "a.py".into(), line, ..Default::default() };
    let id =
        |frame: Option<&crate::source_line::SourceLine>, pattern: &str| group_id("S", "E", frame, pattern);
    assert_eq!(id(Some(&frame(1)), "x"), id(Some(&frame(1)), "y"), "the line alone says what it is");
    assert_ne!(id(Some(&frame(1)), "x"), id(Some(&frame(2)), "x"));
    assert_ne!(id(None, "x"), id(None, "y"));
    assert_ne!(group_id("a", "bc", None, ""), group_id("ab", "c", None, ""));
    assert_eq!(id(None, "x").len(), 12);
    let group = |message: &str, common_start, common_end| {
        ErrorGroup { message: message.to_owned(), common_start, common_end, ..ErrorGroup::default() }
            .pattern()
    };
    assert_eq!(group("bad 17.csv in it", 4, 6), "bad <...> in it");
    assert_eq!(group("bad", 3, 3), "bad");
    assert_eq!(group("é17", 1, 0), "é17", "what is no character's bound is left alone");
}

#[test]
fn cells_tell_how_busy_and_what_failed() {
    let mut cells = Cells::default();
    cells.push(0, 0, Marks::NONE);
    cells.push(1, u64::MAX, Marks::FAILED);
    cells.push(u64::MAX, 1, Marks::FAILED | Marks::LOST);
    let told: Vec<_> = cells.columns().collect();
    assert_eq!(told, [(0, Marks::NONE), (1, Marks::FAILED), (Cells::FULL, Marks(3))]);
    assert!(told[2].1.has(Marks::LOST) && !told[1].1.has(Marks::LOST));
}
