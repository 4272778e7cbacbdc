//! The report as a whole: what stands in it, how large it is, and that nothing of a user's gets out of its place.
//!
//! With `PRS_WRITE_REPORTS` set to a folder, the pages of these tests are written there, to be looked at.

use std::time::{Duration, Instant};

use prs_common::job::JobSpec;
use prs_common::ledger::JobState;
use prs_common::segment::TryStatus;
use prs_common::statistics::{
    Activity, Cells, InitState, Lane, LaneKind, Live, Marks, NodeRow, NodeState, Nodes, Rate, Summary,
    Timeline, TryRow,
};

use super::*;

pub(super) const NOON: u64 = 1_763_726_400_000_000;

/// A random number that is the same each time.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

pub(super) fn facts(name: &str) -> Facts {
    let mut spec = JobSpec::new(name, "/home/alice/score", "score.py", Vec::new());
    spec.description = Some("Scores each night what came in by day.".into());
    Facts {
        job_id: format!("{name}-20251121-120000-1a2b"),
        called: format!("{name}-20251121-120000-1a2b"),
        types_differ: Vec::new(),
        spec,
        state: JobState::Completed,
        reason: None,
        complete: true,
        reused: None,
        submitted_us: NOON,
        started_us: NOON,
        ended_us: Some(NOON + 4_200_000),
        seconds: 4.2,
        mini_batches: (10, 10, 0),
        items: (100, 100, 0),
        mini_batches_missing: 0,
        failed_tries: 0,
        output: OutputFact {
            uri: "/home/alice/prs-runs/score/output/parallel_run_step.txt".into(),
            is_file: true,
            rows: 100,
            bytes: 2_345,
            sha256: Some("5f".repeat(32)),
        },
        logs: "/home/alice/prs-runs/score/logs".into(),
        is_among_logs: true,
        version: "0.2.0".into(),
        starts: Vec::new(),
        errors: Vec::new(),
        other_tries: 0,
        failed_list: None,
        steps: Vec::new(),
        has_main_step: false,
        fleet: None,
        ends: String::new(),
        seen_error: String::new(),
        statistics: Published::default(),
        now_us: NOON + 5_000_000,
    }
}

fn error(number: usize, traceback: &str) -> ErrorFact {
    ErrorFact {
        status: "RUN_EXCEPTION".into(),
        category: "ConnectionError".into(),
        message: format!("upstream API returned {}", 503 + number),
        place: format!("flaky.py:{} in run", 5 + number),
        code: "raise ConnectionError(\"upstream API returned 503\")".into(),
        cost: "54 tries failed, 4 mini-batches lost (20 items)".into(),
        tries: 54,
        nodes: vec![3, 203],
        example: ErrorPlace {
            what: "mini-batch mb-0000000002 (0006.txt and 4 more), try 3, process001 of node 3".into(),
            log: "user/error/3/process001.txt".into(),
        },
        traceback: traceback.into(),
        ..ErrorFact::default()
    }
}

const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"flaky.py\", line 5, in run\n    raise ConnectionError(\"upstream API returned 503\")\n\u{1b}[31mConnectionError\u{1b}[0m: upstream API returned 503\n";

/// Statistics of a job of so many mini-batches on so many nodes, that took so many seconds.
fn statistics(mini_batches: u64, nodes: u32, seconds: u64, failing: u64) -> Published {
    let mut seed = mini_batches + u64::from(nodes);
    let slots = 8_u64;
    let mut timeline = Timeline::new(NOON);
    let mut summary =
        Summary { written_us: NOON, by_status: vec![0; TryStatus::ALL.len()], ..Summary::default() };
    let samples = mini_batches.min(100_000);
    let each = mini_batches / samples;
    let run_us = seconds * 1_000_000 * u64::from(nodes) * slots / mini_batches * 6 / 10;
    let mut slowest = Vec::new();
    let mut recent = Vec::new();
    for sample in 0..samples {
        let index = sample * each;
        let at = NOON + seconds * 1_000_000 * sample / samples + random(&mut seed) % 700_000;
        let shape = 60 + random(&mut seed) % 80 + if random(&mut seed).is_multiple_of(97) { 500 } else { 0 };
        let (run, load) = (run_us * shape / 100, run_us * (8 + random(&mut seed) % 9) / 100);
        let fails = failing > 0 && random(&mut seed).is_multiple_of(failing);
        let lost = fails && random(&mut seed).is_multiple_of(3);
        let bucket = timeline.at(at);
        bucket.items += 10 * each;
        bucket.succeeded += u64::from(!lost) * each;
        bucket.failed += u64::from(lost);
        bucket.failed_tries += u64::from(fails);
        bucket.run_us += run * each;
        bucket.cpu_us += run * 8 / 10 * each;
        bucket.load_us += load * each;
        bucket.other_us += run / 20 * each;
        for _ in 0..each {
            summary.run.add(run);
            summary.load.add(load);
            summary.whole.add(run + load + run / 20);
        }
        for next in index..index + each {
            let cell = summary.plan.at(next);
            cell.succeeded += u64::from(!(lost && next == index));
            cell.failed += u64::from(lost && next == index);
            cell.retried += u64::from(fails && next == index);
        }
        let row = TryRow {
            index,
            number: 1,
            status: u8::from(lost),
            node_id: (random(&mut seed) % u64::from(nodes)) as u32,
            process: (sample % slots.min(4)) as u32,
            started_us: at,
            elapsed_us: run + load,
            run_us: run,
            load_us: load,
            is_outcome: true,
        };
        if mini_batches <= 400 {
            recent.push(row.clone());
        }
        slowest.push(row);
    }
    slowest.sort_by_key(|row| std::cmp::Reverse(row.elapsed_us));
    slowest.truncate(200);
    summary.slowest = slowest;
    let looks = seconds.div_ceil(u64::from(timeline.step_s()));
    for look in 0..looks {
        let step_us = timeline.step_us();
        let bucket = timeline.at(NOON + look * step_us);
        bucket.looks = 1;
        bucket.slots_us = step_us * u64::from(nodes) * slots;
        bucket.init_us = if look < looks.div_ceil(12) { bucket.slots_us / 2 } else { 0 };
        bucket.busy_us = (bucket.slots_us - bucket.init_us) * (70 + random(&mut seed) % 25) / 100;
    }
    let lane = |kind, first: u32, last: u32, seed: &mut u64| {
        let mut cells = Cells::default();
        let mut failed_tries = 0;
        for column in 0..96_u64 {
            let failed = failing > 0 && random(seed).is_multiple_of(23);
            failed_tries += u64::from(failed);
            let busy = if column < 8 { 20 } else { 60 + random(seed) % 40 };
            cells.push(busy, 100, if failed { Marks::FAILED } else { Marks::NONE });
        }
        Lane { kind, first_node: first, last_node: last, slots: 8, failed_tries, cells, ..Lane::default() }
    };
    let width = nodes.div_ceil(64);
    let mut lanes: Vec<Lane> = (0..nodes.div_ceil(width))
        .map(|at| {
            let kind = if width == 1 { LaneKind::Node } else { LaneKind::Group };
            lane(kind, at * width, (at * width + width - 1).min(nodes - 1), &mut seed)
        })
        .collect();
    if nodes == 1 {
        lanes = (0..8)
            .map(|process| Lane {
                process: format!("process{process:03}"),
                ..lane(LaneKind::Process, 0, 0, &mut seed)
            })
            .collect();
    }
    let named = if nodes > 64 {
        vec![lane(LaneKind::Slow, 17, 17, &mut seed), lane(LaneKind::Failing, 203, 203, &mut seed)]
    } else {
        Vec::new()
    };
    let rows = (0..nodes).map(|node_id| {
        let median = run_us * (95 + random(&mut seed) % 12) / 100 * if node_id == 17 { 31 } else { 10 } / 10;
        NodeRow {
            node_id,
            state: if node_id == 5 { NodeState::Lost } else { NodeState::Left },
            worker: format!("worker-{node_id:04x}"),
            host: format!("host-{node_id}"),
            slots: 8,
            tries: mini_batches / u64::from(nodes),
            failed_tries: if failing > 0 { random(&mut seed) % 3 } else { 0 },
            run_us: 1_000_000,
            cpu_us: 810_000,
            median_us: median,
            p95_us: median * 14 / 10,
            of: 1,
            ..NodeRow::default()
        }
    });
    let nodes_part = Nodes { written_us: NOON, rows: rows.collect() };
    let live = Live {
        written_us: NOON + seconds * 1_000_000,
        seconds: seconds as f64,
        scheduled: mini_batches,
        succeeded: mini_batches,
        tries: mini_batches,
        nodes: u64::from(nodes),
        nodes_wanted: u64::from(nodes),
        init: InitState { is_ready: true, ..InitState::default() },
        rates: vec![Rate { over_s: 5.0, per_second: 813.0, items_per_second: 8_130.0 }],
        recent,
        timeline,
        ..Live::default()
    };
    Published {
        errors: None,
        live: Some(live),
        activity: Some(Activity {
            written_us: NOON,
            origin_us: NOON,
            step_s: (seconds as u32).div_ceil(96).next_power_of_two(),
            columns: 96,
            lanes,
            named,
        }),
        summary: Some(summary),
        nodes: Some(nodes_part),
        lacking: String::new(),
    }
}

fn written(name: &str, facts: &Facts) -> String {
    let html = report(facts);
    if let Some(folder) = std::env::var_os("PRS_WRITE_REPORTS") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.html")), &html).unwrap();
    }
    assert!(html.len() <= MOST_BYTES, "{name}: {}", html.len());
    // Nothing that the policy of the page forbids, or that fetches something.
    for word in ["<script", " style=", "<img", "<iframe", "<link", "javascript:", "@import"] {
        assert!(!html.contains(word), "{name}: {word}");
    }
    assert_eq!(html.matches("<section").count(), html.matches("</section>").count());
    // Every part that is named is there once.
    for part in html.split(" href=\"#").skip(1).map(|rest| &rest[..rest.find('"').unwrap()]) {
        assert_eq!(html.matches(&format!(" id=\"{part}\"")).count(), 1, "{name}: {part}");
    }
    html
}

fn with_failures(mut of: Facts) -> Facts {
    of.complete = false;
    of.mini_batches = (10_000, 9_996, 4);
    of.items = (100_000, 99_980, 20);
    of.mini_batches_missing = 4;
    of.failed_tries = 57;
    of.seconds = 724.0;
    of.ended_us = Some(NOON + 724_000_000);
    of.errors = vec![error(0, TRACEBACK), error(1, TRACEBACK)];
    of.failed_list =
        Some(FailedList { uri: "/home/alice/prs-runs/score/output/failed_mini_batches.jsonl".into() });
    of
}

#[test]
fn a_small_job_has_its_tries_and_no_more_than_it_needs() {
    let mut of = facts("score");
    of.statistics = statistics(10, 1, 4, 0);
    let html = written("small", &of);
    assert!(
        html.contains("id=\"tries\"") && !html.contains("id=\"activity\""),
        "bars where there is room for bars"
    );
    assert!(html.contains("10 tries by 4 processes"));
    assert!(html.len() < 60_000, "{}", html.len());
}

#[test]
fn a_job_with_failures_says_what_is_missing_and_what_to_do() {
    let mut of = with_failures(facts("flaky"));
    of.statistics = statistics(10_000, 12, 724, 400);
    let html = written("failures", &of);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is not there"));
    let missing = at("20 items are missing from the result: ConnectionError: upstream API returned 503");
    assert!(missing < at("id=\"errors\"") && at("id=\"errors\"") < at("id=\"rate\""));
    assert!(at("id=\"rate\"") < at("id=\"shares\"") && at("id=\"shares\"") < at("id=\"activity\""));
    assert!(html.contains("<span class=\"ansi-1\">ConnectionError</span>"));
    assert!(html.contains("prs resume flaky-20251121-120000-1a2b"));
}

#[test]
fn a_job_that_failed_in_init_says_why_without_statistics() {
    let mut of = facts("vision");
    (of.state, of.complete) = (JobState::Failed, false);
    of.reason =
        Some("init() failed 6 times in a row: ModuleNotFoundError: No module named 'torchvision'".into());
    (of.mini_batches, of.items) = ((30, 0, 0), (0, 0, 0));
    of.output = OutputFact { uri: "/home/alice/prs-runs/vision/output".into(), ..OutputFact::default() };
    of.errors = vec![ErrorFact {
        status: "INIT_EXCEPTION".into(),
        category: "ModuleNotFoundError".into(),
        message: "No module named 'torchvision'".into(),
        cost: "6 processes did not start".into(),
        place: "score.py:3".into(),
        code: "import torchvision".into(),
        nodes: vec![0],
        example: ErrorPlace {
            what: "process000 of node 0".into(),
            log: "user/error/0/process000.txt".into(),
        },
        ..ErrorFact::default()
    }];
    let html = written("init", &of);
    assert!(html.contains("There are no statistics of this job"));
    assert!(html.contains("import torchvision") && html.contains("href=\"user/error/0/process000.txt\""));
    assert!(!html.contains("id=\"rate\""));
}

#[test]
fn a_million_mini_batches_on_five_hundred_nodes_fit() {
    let mut of = with_failures(facts("large"));
    of.mini_batches = (1_000_000, 999_996, 4);
    of.statistics = statistics(1_000_000, 500, 3_600, 400);
    let long = "  File \"x.py\", line 5, in <module>\n".repeat(230);
    of.errors = (0..200).map(|number| error(number, &long)).collect();
    let began = Instant::now();
    let html = written("large", &of);
    let took = began.elapsed();
    println!("a report of 1,000,000 mini-batches on 500 nodes: {} bytes in {took:?}", html.len());
    // A build without optimization on a busy machine: what this finds is work that grows with the job.
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(html.contains("of 200 distinct errors"));
}

#[test]
fn what_is_hostile_stays_in_its_place() {
    let evil = "\"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\u{202e}\0";
    let mut of = with_failures(facts("evil"));
    of.spec.display_name = Some(evil.into());
    of.spec.description = Some(evil.into());
    of.spec.arguments = vec![evil.into(), "https://u:p@h/?sig=s3cret".into()];
    of.spec.notes = vec![evil.into()];
    of.reason = Some(evil.into());
    of.errors = vec![ErrorFact {
        category: evil.into(),
        message: evil.into(),
        place: evil.into(),
        code: evil.into(),
        example: ErrorPlace { what: evil.into(), log: evil.into() },
        traceback: evil.into(),
        ..ErrorFact::default()
    }];
    of.statistics = statistics(10_000, 3, 700, 40);
    let nodes = of.statistics.nodes.as_mut().unwrap();
    nodes.rows[0].worker = evil.into();
    let html = report(&of);
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("s3cret"));
    assert_eq!(html.matches('<').count(), html.matches('>').count(), "no mark of a text got through");
}

#[test]
fn a_pipeline_lists_its_steps_with_links() {
    let mut of = facts("nightly");
    let step = |name: &str, state, complete| StepFact {
        name: name.into(),
        job_id: format!("nightly-1-{name}"),
        state,
        complete,
        seconds: 12.0,
        items: (400, if complete { 0 } else { 7 }),
        report: Some(format!("../steps/nightly-1-{name}/logs/report.html")),
        ..StepFact::default()
    };
    of.steps = vec![
        step("prepare", Some(JobState::Completed), true),
        step("score", Some(JobState::Failed), false),
        step("publish", None, false),
    ];
    (of.state, of.complete) = (JobState::Failed, false);
    of.reason = Some("step score failed: 7 items failed, more than error_threshold 2 allows".into());
    let html = written("pipeline", &of);
    assert!(html.contains("<a href=\"../steps/nightly-1-prepare/logs/report.html\">prepare</a>"));
    assert!(html.contains("not run") && !html.contains("nightly-1-publish/logs"));
}

#[test]
fn numbers_are_due_at_each_look_pictures_at_every_other_and_lists_at_every_fourth() {
    let published = statistics(10_000, 40, 600, 3);
    let of = Facts { state: JobState::Running, statistics: published, ..with_failures(facts("watched")) };
    let made = |due| {
        let (parts, _) = JobPage::parts_due(&of, due);
        parts.into_iter().collect::<std::collections::BTreeMap<_, _>>()
    };
    let all = made(Due::ALL);
    assert!(all["errors"].contains("ConnectionError") && all["picture-rate"].contains("<svg"));
    assert_eq!(made(Due::at(1)), all);
    // The head, what runs, and what the tabs count.
    for (look, count) in [(2, 4), (3, all.len() - 2), (4, 4), (5, all.len())] {
        let due = made(Due::at(look));
        assert_eq!(due.len(), count, "look {look}");
        // What is made says what it says when all is made.
        assert!(due.iter().all(|(name, html)| all.get(name) == Some(html)), "look {look}");
    }
}
