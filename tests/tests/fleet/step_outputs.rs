//! What a finished step brought to storage is compared before it is used: what was damaged since is made again, or named.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Stored};
use serde_json::{Value, json};

/// A pipeline of so many pairs of steps, and one step between: `makeN` brings two files, which are an output of the pipeline, too,
/// and `nextN` reads them once `stop` completed.
fn pipeline(fleet: &Fleet, target: &str, pairs: usize, stop: &str) -> Job {
    let job = fleet.job(Job::new(""));
    let mut text = "type: pipeline\nname: flow\noutputs:\n".to_owned();
    for at in 0..pairs {
        writeln!(text, "  all{at}: {{type: uri_folder}}").unwrap();
    }
    let makes: Vec<_> = (0..pairs).map(|at| format!("make{at}")).collect();
    let makes = makes.join(", ");
    writeln!(
        text,
        "settings: {{default_compute: {target}}}
jobs:
  stop: {{command: 'touch HERE/stopped; {stop}', depends_on: [{makes}]}}"
    )
    .unwrap();
    for at in 0..pairs {
        writeln!(
            text,
            "  make{at}:
    command: 'echo >> HERE/made{at}; mkdir ${{{{outputs.o}}}}/deep; echo one > ${{{{outputs.o}}}}/a; echo two > ${{{{outputs.o}}}}/deep/b'
    outputs: {{o: '${{{{parent.outputs.all{at}}}}}'}}
  next{at}:
    command: 'cat ${{{{inputs.i}}}}/a ${{{{inputs.i}}}}/deep/b > ${{{{outputs.r}}}}'
    inputs: {{i: '${{{{parent.jobs.make{at}.outputs.o}}}}'}}
    outputs: {{r: {{type: uri_file}}}}
    depends_on: stop"
        )
        .unwrap();
    }
    let here = job.path("").display().to_string();
    fs::write(job.path("pipeline.yml"), text.replace("HERE/", &here)).unwrap();
    job
}

fn made(job: &Job, at: usize) -> usize {
    fs::read_to_string(job.path(&format!("made{at}"))).unwrap().lines().count()
}

fn cut(stored: &Stored<'_>, key: &str) {
    let bytes = stored.bytes(key);
    stored.replace(key, &bytes[..bytes.len() - 1]);
}

/// As a disk does: nothing that a listing tells is another.
fn flip(stored: &Stored<'_>, key: &str) {
    stored.damage(key, |bytes| bytes[0] ^= 1);
}

type Damage = (fn(&Stored<'_>), &'static str);
const DAMAGES: [Damage; 4] = [
    (|make| make.delete("output/o/a"), "output/o/a is gone"),
    (|make| flip(make, "output/o/deep/b"), "output/o/deep/b has other bytes"),
    (|make| cut(make, "output/o/a"), "output/o/a has 3 bytes in place of 4"),
    (
        |make| flip(make, "output-files/0001.json"),
        "output-files/0001.json, the list of its files, is gone or damaged",
    ),
];

#[test]
fn a_step_of_a_former_start_whose_output_was_damaged_runs_again() {
    let fleet = Fleet::shared();
    let job = pipeline(fleet, "whole-again", DAMAGES.len(), "test -f HERE/go");
    let _worker = fleet.worker(&job, &["--target", "whole-again"]);
    let ended = job.command(&["submit", "pipeline.yml", "-o", "json"]);
    ended.expect_code(42);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let make = |at: usize| fleet.stored(&format!("{id}-make{at}"));
    for (at, (damage, _)) in DAMAGES.into_iter().enumerate() {
        damage(&make(at));
    }
    fs::write(job.path("go"), "").unwrap();
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    // Of the last one nobody knows which files are the step's.
    resumed.expect_code(42);
    let reason = resumed.json()["steps"]["next3"]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("output o of step make3 is not what the step brought: output/o/a is a file"),
        "{reason}"
    );
    assert!(reason.contains("that is not of the job; move it away from "), "{reason}");
    for key in ["output/o/a", "output/o/deep/b"] {
        make(3).delete(key);
    }
    job.command(&["resume", &id]).expect_code(0);
    for (at, (_, told)) in DAMAGES.into_iter().enumerate() {
        assert_eq!(made(&job, at), 2, "{told}");
        assert_eq!(fleet.stored(&format!("{id}-next{at}")).text("output/r"), "one\ntwo\n");
        assert_eq!(fleet.stored(&id).text(&format!("output/all{at}/deep/b")), "two\n");
    }
}

#[test]
fn what_was_damaged_or_added_while_the_pipeline_goes_on_is_named() {
    let fleet = Fleet::shared();
    let add: Damage = (
        |make| make.replace("output/o/more", b"mine"),
        "output/o/more is a file that is not of the job; move it away",
    );
    let damages: Vec<Damage> = DAMAGES.into_iter().chain([add]).collect();
    let stop = "while ! test -f HERE/go; do sleep 0.1; done";
    let job = pipeline(fleet, "whole-named", damages.len(), stop);
    let worker = fleet.worker(&job, &["--target", "whole-named"]);
    let submitted = job.command(&["submit", "pipeline.yml", "--detach", "-o", "json"]);
    submitted.expect_code(0);
    let id = submitted.json()["job_id"].as_str().unwrap().to_owned();
    wait_for("the step between", Duration::from_mins(2), || job.path("stopped").exists().then_some(()));
    worker.kill();
    for (at, (damage, _)) in damages.iter().enumerate() {
        damage(&fleet.stored(&format!("{id}-make{at}")));
    }
    // Another worker drives on.
    let _worker = fleet.worker(&job, &["--target", "whole-named"]);
    fs::write(job.path("go"), "").unwrap();
    let state = || job.command(&["status", &id, "-o", "json"]).json();
    let ended = |state: Value| (state["state"] == "failed").then_some(state);
    let ended = wait_for("the end", Duration::from_mins(2), || ended(state()));
    for (at, (_, told)) in damages.iter().enumerate() {
        let reason = ended["steps"][format!("next{at}")]["reason"].as_str().unwrap().to_owned();
        let named = format!("output o of step make{at} is not what the step brought: {told}");
        assert!(reason.contains(&named), "{reason}");
        assert_eq!(made(&job, at), 1);
    }
    let keys = fleet.stored(&id).keys();
    assert!(!keys.iter().any(|key| key.contains("output/all")), "{keys:?}");
}

/// Suffix of a file, and what is done to it.
type DamageOfFile = (&'static str, fn(&Stored<'_>, &str));

/// Gives back each row; fails without the mark `go`.
const ROWS: &str = "
from marks import is_marked

def run(mini_batch):
    if not is_marked('go'):
        raise ValueError('not yet')
    return [str(row) for row in mini_batch.itertuples(index=False)]
";

#[test]
fn groups_of_a_shuffle_are_made_again_where_they_were_damaged() {
    let fleet = Fleet::shared();
    let shuffled = || {
        let job = fleet.job(Job::new(ROWS));
        let line = |at: u32| format!("{},{at}\n", at * 7 % 11);
        let rows: String = (0..400).map(line).collect();
        fs::create_dir_all(job.path("data")).unwrap();
        fs::write(job.path("data/t.csv"), format!("key,number\n{rows}")).unwrap();
        let input = json!({ "type": "tabular", "path": "data" });
        job.with("inputs", json!([input]))
            .with("partition_keys", json!(["key"]))
            .with("compute_target", "whole-groups")
    };
    let whole = shuffled();
    let _worker = fleet.worker(&whole, &["--target", "whole-groups"]);
    let damages: [DamageOfFile; 3] = [(".rows", flip), (".groups", flip), (".rows", cut)];
    for (suffix, damage) in damages {
        let job = shuffled();
        let ended = fleet.submit(&job);
        ended.expect_code(42);
        let id = ended.json()["job_id"].as_str().unwrap().to_owned();
        let groups = fleet.stored(&format!("{id}-group"));
        let key = groups.keys().into_iter().find(|key| key.ends_with(suffix)).unwrap();
        damage(&groups, &key);
        job.mark("go");
        let resumed = job.command(&["resume", &id, "-o", "json"]);
        resumed.expect_code(0);
        let result = String::from_utf8(fleet.stored(&format!("{id}-run")).result()).unwrap();
        assert_eq!(
            (resumed.json()["items"]["failed"].as_u64(), result.lines().count()),
            (Some(0), 400),
            "{suffix}"
        );
    }
}
