//! Statistics of a job: what is published says the same as the record, the reports and the commands, also after the
//! orchestrator died.

use std::time::Duration;

use prs_common::statistics::{
    Activity, ErrorGroup, Errors, Live as Standing, NAMES, Nodes, Part, Summary, TryRow, decode,
};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Row, parse_csv};
use serde_json::{Value, json};

/// Fails the second of the files always, the third one once.
const FLAKY: &str = r#"
import os
import marks
def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    if name == "0001.txt":
        raise ValueError("no good: " + name)
    if name == "0002.txt" and not marks.is_marked("once"):
        marks.mark("once")
        raise KeyError("once")
    return [open(path).read() for path in mini_batch]
"#;
/// Waits before the last mini-batch until it is told to go on.
const WAITS: &str = "
import marks
def run(mini_batch):
    if mini_batch[0].endswith('0019.txt'):
        marks.mark('last')
        marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The parts of an ended job, of which `bytes` gives each.
struct Parts {
    live: Standing,
    activity: Activity,
    summary: Summary,
    errors: Errors,
    nodes: Nodes,
}

impl Parts {
    fn read(bytes: impl Fn(&str) -> Vec<u8>) -> Self {
        fn part<P: Part>(bytes: &impl Fn(&str) -> Vec<u8>) -> P {
            decode(&bytes(&format!("logs/sys/statistics/{}", P::NAME))).unwrap()
        }
        Self {
            live: part(&bytes),
            activity: part(&bytes),
            summary: part(&bytes),
            errors: part(&bytes),
            nodes: part(&bytes),
        }
    }

    /// Asserts that they say what the record that commands print says, and the report of tries.
    fn agree_with(&self, printed: &Value, tries: &[Row]) {
        let live = &self.live;
        let counts =
            json!({ "scheduled": live.scheduled, "succeeded": live.succeeded, "failed": live.failed });
        assert_eq!(printed["mini_batches"], counts);
        let items = live.items_succeeded + live.items_failed;
        let counts =
            json!({ "total": items, "succeeded": live.items_succeeded, "failed": live.items_failed });
        assert_eq!(printed["items"], counts);
        assert_eq!(printed["tries"]["failed"], live.failed_tries);
        assert_eq!(printed["state"], live.state);
        assert_eq!((live.waiting, live.in_flight, &*live.phase), (0, 0, ""));

        let failed = tries.iter().filter(|row| row["Status"] != "RUN_DONE").count() as u64;
        assert_eq!((live.tries, live.failed_tries), (tries.len() as u64, failed));
        assert_eq!(self.summary.by_status.iter().sum::<u64>(), tries.len() as u64);
        let of = |column: &str| tries.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>();
        let total = live.timeline.total();
        for (column, micros) in [
            ("Run Method Seconds", total.run_us),
            ("Process Seconds", total.cpu_us),
            ("Elapsed Seconds", total.run_us + total.load_us + total.other_us),
        ] {
            let seconds = micros as f64 / 1e6;
            assert!((of(column) - seconds).abs() < 1e-3, "{column}: {} {seconds}", of(column));
        }
        let cells = self.summary.plan.cells().iter();
        let (succeeded, failed) =
            cells.fold((0, 0), |sums, cell| (sums.0 + cell.succeeded, sums.1 + cell.failed));
        assert_eq!((succeeded, failed), (live.succeeded, live.failed));
        assert_eq!(self.nodes.rows.iter().map(|row| row.tries).sum::<u64>(), live.tries);
        assert_eq!(self.summary.slowest.len() as u64, live.tries);
        assert!(self.activity.lanes.iter().any(|lane| lane.cells.columns().any(|(busy, _)| busy > 0)));
        assert!(
            live.recent.iter().all(|row: &TryRow| row.status().is_some() && row.load_us <= row.elapsed_us)
        );
    }
}

#[test]
fn an_embedded_job_tells_the_same_everywhere() {
    let job = Job::new(FLAKY).with_files(8).with("mini_batch_size", "1").with("run_max_try", 2);
    job.submit();
    let printed = job.command(&["status", "-o", "json", &job.run().path().display().to_string()]).json();
    let parts = Parts::read(|name| job.run().bytes(name));
    parts.agree_with(&printed, &job.run().tries());
    assert_eq!((parts.live.failed, parts.live.failed_tries, parts.live.retried), (1, 3, 2));
    let text = job.run().text("logs/job_result.txt");
    let counts = format!("{} succeeded, {} failed", parts.live.succeeded, parts.live.failed);
    assert!(text.contains(&counts), "{text}");
    let group: &ErrorGroup = &parts.errors.groups[0];
    assert_eq!((&*group.category, group.tries, group.mini_batches_lost), ("ValueError", 2, 1));
    assert!(group.frame().is_some_and(|frame| frame.file.ends_with("main.py") && frame.function == "run"));
    assert!(group.traceback.contains("no good: 0001.txt"));
    assert_eq!(parts.errors.groups.len(), 2);
    let record: Value = serde_json::from_str(&job.run().text("job.json")).unwrap();
    assert_eq!(record["statistics"], "logs/sys/statistics/");
    let files = job.run().files("logs/sys/statistics");
    assert_eq!(files.len(), NAMES.len(), "nothing is left of how they were written: {files:?}");

    // What failed runs again in a start of its own, which has its own timeline.
    job.resume();
    let parts = Parts::read(|name| job.run().bytes(name));
    assert_eq!((parts.live.incarnation, parts.live.former.len()), (2, 1));
    assert_eq!(parts.live.former[0].tries + parts.live.timeline.total().failed_tries, parts.live.tries);
    assert_eq!(parts.live.tries, job.run().tries().len() as u64);
}

/// What storage has is some seconds old; the ledger has what is now, once the job is watched.
#[test]
fn a_report_of_a_running_job_is_of_now() {
    let fleet = Fleet::shared();
    let job = fleet
        .job(Job::new(WAITS))
        .with_files(20)
        .with("mini_batch_size", "1")
        .with("process_count_per_node", 2);
    let job = job.with("compute_target", "reported").with("run_invocation_timeout", 600);
    let id = fleet.hand_in(&job);
    let _worker = fleet.worker(&job, &["--target", "reported"]);
    wait_for("the last mini-batch", PATIENCE, || (!job.marks("last").is_empty()).then_some(()));
    let key = format!("prs:{{{id}}}:statistics");
    wait_for("nineteen outcomes", PATIENCE, || {
        let status = job.command(&["status", &id, "-o", "json"]).json();
        (status["mini_batches"]["succeeded"] == 19).then_some(())
    });
    assert_eq!(fleet.redis_cli(&["exists", &key]), "0", "nobody reads them yet");
    let made = job.command(&["report", &id, "-o", "json", "--file", "now.html"]).json();
    assert_eq!(made["has_statistics"], true);
    let names = fleet.redis_cli(&["hkeys", &key]);
    for name in NAMES {
        assert!(names.lines().any(|known| known == name), "{name} is not in {names}");
    }
    job.mark("go");
    job.command(&["stream", &id]).expect_code(0);
    wait_for("the ledger to forget the job", PATIENCE, || {
        (fleet.redis_cli(&["exists", &key]) == "0").then_some(())
    });
}

#[test]
fn a_successor_goes_on_with_the_same_sums() {
    let fleet = Fleet::shared();
    let job = fleet
        .job(Job::new(WAITS))
        .with_files(20)
        .with("mini_batch_size", "1")
        .with("process_count_per_node", 2);
    let job = job.with("compute_target", "statistics").with("run_invocation_timeout", 600);
    let id = fleet.hand_in(&job);
    let first = fleet.worker(&job, &["--target", "statistics"]);
    wait_for("the last mini-batch", PATIENCE, || (!job.marks("last").is_empty()).then_some(()));
    let live = format!("logs/sys/statistics/{}", Standing::NAME);
    let has_slots = || {
        let stored = fleet.stored(&id);
        let is_there = stored.keys().contains(&live);
        (is_there && decode::<Standing>(&stored.bytes(&live)).unwrap().timeline.total().slots_us > 0)
            .then_some(())
    };
    wait_for("statistics of the node in storage", PATIENCE, has_slots);
    assert!(first.kill());
    job.mark("go");
    let _second = fleet.worker(&job, &["--target", "statistics"]);
    job.command(&["stream", &id]).expect_code(0);
    let printed = job.command(&["status", &id, "-o", "json"]).json();
    let stored = fleet.stored(&id);
    let tries = parse_csv(&stored.text("logs/sys/job_report/processed_mini-batches.csv")).1;
    let parts = Parts::read(|name| stored.bytes(name));
    parts.agree_with(&printed, &tries);
    assert_eq!(parts.live.succeeded, 20);
    assert!(parts.live.timeline.total().slots_us > 0);
}
