//! Inputs that change while a job runs: a mini-batch works on what was planned, or fails and says what changed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::{Value, json};

/// Holds the first mini-batch, which has its data by then, until the mark `go`.
const TABLE: &str = "
from marks import mark, wait_for
def run(frame, context):
    if context.minibatch_index == 0:
        mark('begun')
        wait_for('go')
    return frame
";
/// The same for files. What is called `in-run` is changed while it is read.
const FILES: &str = "
import os
from marks import mark, wait_for
def run(mini_batch, context):
    if context.minibatch_index == 0:
        mark('begun')
        wait_for('go')
    path, = mini_batch
    with open(path) as file:
        row = f'{os.path.basename(path)} {file.read()}'
    if 'in-run-append' in path:
        with open(path, 'a') as file:
            file.write('more')
    if 'in-run-touch' in path:
        os.utime(path, (5, 5))
    if 'in-run-truncate' in path:
        os.truncate(path, 0)
        raise ValueError('nothing in it')
    if 'in-run-replace' in path:
        with open(path + '~', 'w') as file:
            file.write('text')
        status = os.stat(path)
        os.utime(path + '~', ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(path + '~', path)
    return [row]
";

/// Where a job runs, and reads its inputs where they are.
enum Host<'a> {
    Embedded,
    Fleet(&'a Fleet, &'a str),
}

impl Host<'_> {
    fn job(&self, job: Job) -> Job {
        let job = job.with("process_count_per_node", 1).with("run_max_try", 2);
        match self {
            Self::Embedded => job,
            Self::Fleet(fleet, target) => fleet.job(job).with("compute_target", *target),
        }
    }

    /// Runs `job` to its end; `change` is called while the first mini-batch has its data and the others have not.
    fn run(&self, job: &Job, change: impl FnOnce()) -> Outcome {
        let (_worker, mut submitted) = match self {
            Self::Embedded => (None, job.start_submit(&[])),
            Self::Fleet(fleet, target) => {
                (Some(fleet.worker(job, &["--target", target])), fleet.start_submit(job, &[]))
            }
        };
        submitted.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
        change();
        job.mark("go");
        let ended = submitted.wait();
        ended.expect_completed();
        Outcome { rows: self.output(job, &ended, "parallel_run_step.txt"), failed: self.failed(job, &ended) }
    }

    fn output(&self, job: &Job, ended: &Ended, name: &str) -> String {
        match self {
            Self::Embedded => job.run().text_so_far(&format!("output/{name}")),
            Self::Fleet(fleet, _) => {
                let result = ended.json();
                let stored = fleet.stored(result["job_id"].as_str().unwrap());
                stored.text(&format!("output/{name}"))
            }
        }
    }

    fn failed(&self, job: &Job, ended: &Ended) -> Vec<Value> {
        let text = self.output(job, ended, "failed_mini_batches.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

struct Outcome {
    rows: String,
    failed: Vec<Value>,
}

impl Outcome {
    /// What is said of the last try of the mini-batch at `index`, which failed with each of its tries.
    #[track_caller]
    fn message(&self, index: u64) -> String {
        let of = |one: &&Value| one["minibatch_index"] == index;
        let tries = self.failed.iter().find(of).expect("it failed")["tries"].as_array().unwrap().clone();
        assert_eq!(tries.len(), 2, "each costs a try: {tries:?}");
        for one in &tries {
            assert_eq!(
                (&one["status"], &one["category"]),
                (&json!("LOAD_EXCEPTION"), &json!("InputChanged"))
            );
        }
        tries[1]["message"].as_str().unwrap().to_owned()
    }
}

/// Runs a job over a table that `change` makes something else of.
fn table_changes(host: &Host<'_>, change: impl Fn(&Path, &str), says: &str) {
    let job = host.job(Job::new(TABLE).with_tables(&[1_000]).with("mini_batch_size", "1KB"));
    let job = job.with("inputs", json!([{ "type": "tabular", "path": "data", "mode": "direct" }]));
    let path = job.path("data/000.csv");
    let text = fs::read_to_string(&path).unwrap();
    let outcome = host.run(&job, || change(&path, &text));
    // Of the first mini-batch, and of no other, there are rows: those of the table as it was.
    let rows: Vec<&str> = outcome.rows.lines().collect();
    assert!((10..200).contains(&rows.len()), "{rows:?}");
    for (id, row) in rows.iter().enumerate() {
        assert_eq!(*row, format!("{id} \"name, {id}\" {}.5", id * 7 % 1_000));
    }
    assert!(outcome.failed.len() > 10);
    for index in 1..=outcome.failed.len() as u64 {
        let message = outcome.message(index);
        let expected = format!("{} changed since it was planned: {says}", path.display());
        assert!(message.starts_with(&expected), "{message}");
    }
}

fn in_place(path: &Path, text: &str) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(text.replace("name", "nome").as_bytes(), 0).unwrap();
}

fn shifted(path: &Path, text: &str) {
    fs::write(path, text.replacen("\n0,", "\n00,", 1)).unwrap();
}

fn renamed(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// The same size and the same time of change: nothing but the bytes tells.
fn kept_time(path: &Path, text: &str) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    in_place(path, text);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_table_that_is_written_in_place_gives_no_mixed_rows() {
    table_changes(&Host::Embedded, in_place, "it was last written at ");
}

#[test]
fn a_table_that_is_shifted_gives_no_torn_rows() {
    table_changes(&Host::Embedded, shifted, "it had ");
}

#[test]
fn a_table_that_is_replaced_is_another_one() {
    table_changes(&Host::Embedded, renamed, "it was last written at ");
}

#[test]
fn a_table_whose_bytes_alone_change_gives_no_mixed_rows() {
    table_changes(&Host::Embedded, kept_time, "its bytes ");
}

#[test]
fn a_table_that_is_removed_fails_what_was_not_read() {
    table_changes(&Host::Embedded, |path, _| fs::remove_file(path).unwrap(), "it is gone");
}

#[test]
fn the_nodes_of_a_fleet_compare_tables_with_the_plan_of_another_host() {
    let fleet = Fleet::shared();
    table_changes(&Host::Fleet(fleet, "changing-table"), in_place, "it was last written at ");
    table_changes(&Host::Fleet(fleet, "shifting-table"), shifted, "it had ");
}

fn files_change(host: &Host<'_>) {
    let names = [
        "0-begun",
        "1-early-append",
        "2-early-remove",
        "3-early-touch",
        "4-fine",
        "5-in-run-append",
        "6-in-run-replace",
        "7-in-run-touch",
        "8-in-run-truncate",
        "9-fine",
    ];
    let job = host.job(Job::new(FILES));
    for name in names {
        job.data(name, "text");
    }
    let inputs = json!([{ "type": "file", "path": "data", "mode": "direct" }]);
    let job = job.with("inputs", inputs).with("mini_batch_size", 1);
    let outcome = host.run(&job, || {
        job.data("1-early-append", "text and more");
        fs::remove_file(job.path("data/2-early-remove")).unwrap();
        let touched = fs::File::options().write(true).open(job.path("data/3-early-touch")).unwrap();
        touched.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    });
    assert_eq!(outcome.rows, "0-begun text\n4-fine text\n9-fine text\n");
    assert_eq!(outcome.failed.len(), 7);
    for (index, what) in [
        (1, "it had 4 bytes and has 13 now"),
        (2, "it is gone"),
        (3, "it was last written at "),
        // The second try meets what the first one left.
        (5, "it had 4 bytes and has 8 now"),
        (6, "another file has its name now"),
        (7, "it was last written at "),
        (8, "it had 4 bytes and has 0 now"),
    ] {
        let message = outcome.message(index);
        let name = job.path("data").join(names[index as usize]);
        let expected = format!("{} changed since it was planned: {what}", name.display());
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("leave the inputs of a job as they are"), "{message}");
    }
}

#[test]
fn files_that_change_before_or_while_they_are_read_fail_their_mini_batches() {
    files_change(&Host::Embedded);
}

#[test]
fn files_that_change_on_a_fleet_fail_their_mini_batches() {
    files_change(&Host::Fleet(Fleet::shared(), "changing-files"));
}

#[test]
fn what_failed_by_a_change_runs_again_as_it_is_then() {
    let job = Host::Embedded.job(Job::new(FILES));
    for name in ["0-begun", "1-early", "2-fine"] {
        job.data(name, "text");
    }
    let inputs = json!([{ "type": "file", "path": "data" }]);
    let job = job.with("inputs", inputs).with("mini_batch_size", 1);
    let outcome = Host::Embedded.run(&job, || job.data("1-early", "other text"));
    assert_eq!((outcome.rows.as_str(), outcome.failed.len()), ("0-begun text\n2-fine text\n", 1));
    job.has_completed(&job.resume());
    assert_eq!(job.run().rows(), ["0-begun text", "1-early other text", "2-fine text"]);
}

#[test]
fn the_lines_of_a_list_are_not_looked_at() {
    let job = Host::Embedded.job(Job::new(FILES));
    for name in ["0-begun", "1-early"] {
        job.data(name, "text");
    }
    fs::write(job.path("list"), "data/0-begun\ndata/1-early\n").unwrap();
    let job = job.with("inputs", json!([{ "type": "file", "list": "list" }])).with("mini_batch_size", 1);
    let outcome = Host::Embedded.run(&job, || job.data("1-early", "other text"));
    assert_eq!(outcome.rows, "0-begun text\n1-early other text\n");
}
