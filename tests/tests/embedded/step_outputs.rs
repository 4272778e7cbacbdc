//! What a finished step brought is compared before it is used: what was damaged since is made again, or named.

use std::fs;
use std::path::{Path, PathBuf};

use prs_tests::harness::{Ended, Job};
use serde_json::json;

/// `make` brings two files, `stop` fails without a mark, `next` reads what `make` brought, which is an output of the pipeline, too.
const STEPS: &str = "type: pipeline
name: flow
outputs: {all: {type: uri_folder}}
jobs:
  make:
    command: 'echo >> HERE/made; mkdir ${{outputs.o}}/deep; echo one > ${{outputs.o}}/a; echo two > ${{outputs.o}}/deep/b'
    outputs: {o: '${{parent.outputs.all}}'}
  stop: {command: 'test -f HERE/go', depends_on: make}
  next:
    command: 'cat ${{inputs.i}}/a ${{inputs.i}}/deep/b > ${{outputs.r}}'
    inputs: {i: '${{parent.jobs.make.outputs.o}}'}
    outputs: {r: {type: uri_file}}
    depends_on: stop
";

fn pipeline(text: &str) -> Job {
    let job = Job::new("");
    let here = job.path("").display().to_string();
    fs::write(job.path("pipeline.yml"), text.replace("HERE/", &here)).unwrap();
    job
}

fn submit(job: &Job) -> Ended {
    job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"])
}

fn resume(job: &Job) -> Ended {
    job.command(&["resume", "run", "-o", "json"])
}

/// The folder of the job of a step.
fn folder_of(job: &Job, step: &str) -> PathBuf {
    let mut steps = fs::read_dir(job.path("run/steps")).unwrap().flatten();
    let of_step = steps.find(|entry| entry.file_name().to_string_lossy().ends_with(step));
    of_step.unwrap_or_else(|| panic!("there is no step {step}")).path()
}

/// How often `make` ran.
fn made(job: &Job) -> usize {
    fs::read_to_string(job.path("made")).unwrap().lines().count()
}

fn cut(file: &Path) {
    fs::write(file, &fs::read(file).unwrap()[1..]).unwrap();
}

/// Changes a byte, and nothing that a listing tells.
fn flip(file: &Path) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
    fs::File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
}

/// Puts a link to what is elsewhere in the place of a file or a folder, which is still what it was.
fn link(path: &Path) {
    let aside = path.ancestors().nth(5).unwrap().join("aside");
    fs::create_dir_all(&aside).unwrap();
    let moved = aside.join(path.file_name().unwrap());
    fs::rename(path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, path).unwrap();
}

/// A file or its suffix, and what is done to it.
type Damage = (&'static str, fn(&Path));

#[test]
fn a_step_whose_output_was_damaged_runs_again_before_the_next_one_reads_it() {
    let damages: [(Damage, &str); 5] = [
        (("a", |path| fs::remove_file(path).unwrap()), "o/a is gone"),
        (("deep/b", flip), "o/deep/b has other bytes"),
        (("a", cut), "o/a has 3 bytes in place of 4"),
        (("a", link), "o/a is a symbolic link"),
        (("", |path| fs::remove_dir_all(path).unwrap()), "o/a is gone"),
    ];
    for ((name, damage), told) in damages {
        let job = pipeline(STEPS);
        submit(&job).expect_code(42);
        damage(&folder_of(&job, "make").join("output/o").join(name));
        fs::write(job.path("go"), "").unwrap();
        let resumed = resume(&job);
        resumed.expect_code(0);
        assert!(resumed.stderr.contains(told), "{told}: {}", resumed.stderr);
        assert_eq!(made(&job), 2, "{told}");
        assert_eq!(fs::read_to_string(folder_of(&job, "next").join("output/r")).unwrap(), "one\ntwo\n");
        assert_eq!(job.run().text("output/all/deep/b"), "two\n");
        resume(&job).expect_code(0);
        assert_eq!(made(&job), 2);
    }
}

#[test]
fn what_is_no_file_of_the_step_is_named_and_stays() {
    let add: [Damage; 2] = [("more", |path| fs::write(path, "mine").unwrap()), ("deep", link)];
    for (name, add) in add {
        let job = pipeline(STEPS);
        submit(&job).expect_code(42);
        let path = folder_of(&job, "make").join("output/o").join(name);
        add(&path);
        fs::write(job.path("go"), "").unwrap();
        let resumed = resume(&job);
        resumed.expect_code(42);
        let reason = resumed.json()["reason"].as_str().unwrap().to_owned();
        let told = format!("output/o/{name}");
        assert!(reason.contains(&told) && reason.contains("move it away"), "{reason}");
        assert_eq!(made(&job), 1, "{reason}");
        if name == "deep" {
            assert_eq!(fs::read_to_string(job.path("run/aside/deep/b")).unwrap(), "two\n");
        }
        fs::rename(&path, job.path("moved")).unwrap();
        resume(&job).expect_code(0);
        assert_eq!(fs::read_to_string(folder_of(&job, "next").join("output/r")).unwrap(), "one\ntwo\n");
    }
}

#[test]
fn a_step_that_changes_what_another_one_brought_is_found_out_where_that_is_read() {
    let spoil = |next: &str| {
        let text = STEPS.replace("'test -f HERE/go'", "'printf X | dd conv=notrunc of=${{inputs.i}}/a'");
        let text = text.replace("depends_on: make}", "inputs: {i: '${{parent.jobs.make.outputs.o}}'}}");
        text.replace("cat ${{inputs.i}}/a ${{inputs.i}}/deep/b", next)
    };
    let job = pipeline(&spoil("cat ${{inputs.i}}/a ${{inputs.i}}/deep/b"));
    let ended = submit(&job);
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("output o of step make is not what the step brought: output/o/a has other bytes"),
        "{reason}"
    );
    assert!(reason.contains("prs resume runs step make again"), "{reason}");
    assert!(!job.path("run/output/all").exists(), "what is damaged is no output of the pipeline");
    resume(&job).expect_code(0);
    assert_eq!(made(&job), 2);
    assert_eq!(fs::read_to_string(folder_of(&job, "next").join("output/r")).unwrap(), "one\ntwo\n");
    assert_eq!(job.run().text("output/all/a"), "one\n");
}

#[test]
fn what_is_put_to_its_place_later_is_compared_then() {
    let job = pipeline(&STEPS.replace("{o: '${{parent.outputs.all}}'}", "{o: {path: there}}"));
    fs::create_dir(job.path("there")).unwrap();
    let in_the_way = job.path("there/a");
    let make = fs::read_to_string(job.path("pipeline.yml")).unwrap();
    let blocked = make
        .replace("command: 'echo >>", &format!("command: 'echo mine > {}; echo >>", in_the_way.display()));
    fs::write(job.path("pipeline.yml"), blocked.replace("outputs: {all: {type: uri_folder}}\n", "")).unwrap();
    submit(&job).expect_code(42);
    fs::remove_dir_all(job.path("there")).unwrap();
    let file = folder_of(&job, "make").join("output/o/deep/b");
    flip(&file);
    fs::write(job.path("go"), "").unwrap();
    let resumed = resume(&job);
    // It ran again, and wrote into the way again.
    resumed.expect_code(42);
    assert!(resumed.stderr.contains("output/o/deep/b has other bytes"), "{}", resumed.stderr);
    assert_eq!(made(&job), 2);
    assert_eq!(fs::read_to_string(file).unwrap(), "two\n");
    fs::remove_dir_all(job.path("there")).unwrap();
    resume(&job).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("there/deep/b")).unwrap(), "two\n");
    assert_eq!(made(&job), 2);
}

/// Gives back each row; fails without the mark `go`.
const ROWS: &str = "
from marks import is_marked

def run(mini_batch):
    if not is_marked('go'):
        raise ValueError('not yet')
    return [str(row) for row in mini_batch.itertuples(index=False)]
";

fn shuffled() -> Job {
    let job = Job::new(ROWS);
    fs::create_dir_all(job.path("data")).unwrap();
    let line = |at: u32| format!("{},{at}\n", at * 7 % 11);
    let rows: String = (0..400).map(line).collect();
    fs::write(job.path("data/t.csv"), format!("key,number\n{rows}")).unwrap();
    let input = json!({ "type": "tabular", "path": "data" });
    job.with("inputs", json!([input])).with("partition_keys", json!(["key"]))
}

/// A file of the output of a step, with this suffix.
fn file_of(folder: &Path, suffix: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = file_of(&path, suffix) {
                return Some(found);
            }
        } else if path.to_string_lossy().ends_with(suffix) {
            return Some(path);
        }
    }
    None
}

#[test]
fn rows_that_a_shuffle_put_together_are_made_again_where_they_were_damaged() {
    let whole = shuffled();
    whole.mark("go");
    whole.submit().expect_code(0);
    let expected = whole.run().text("output/parallel_run_step.txt");
    assert_eq!(expected.lines().count(), 400);
    let damages: [(&str, Damage); 5] = [
        ("split", (".part", |path| fs::remove_file(path).unwrap())),
        ("split", (".part", flip)),
        ("split", (".part", cut)),
        ("group", (".rows", flip)),
        ("group", (".groups", flip)),
    ];
    for (number, (step, (suffix, damage))) in damages.into_iter().enumerate() {
        let job = shuffled();
        job.submit().expect_code(42);
        if step == "split" {
            // As if the program had died before the step began.
            let group = folder_of(&job, "group");
            fs::remove_file(group.join("job.json")).unwrap();
            fs::remove_dir_all(group.join("output")).unwrap();
        }
        let file = file_of(&folder_of(&job, step).join("output"), suffix).unwrap();
        damage(&file);
        job.mark("go");
        let resumed = job.resume();
        resumed.expect_code(0);
        let told = format!("step {step} runs again");
        assert!(resumed.stderr.contains(&told), "{step} {suffix} {number}: {}", resumed.stderr);
        assert!(job.run().text("output/parallel_run_step.txt") == expected, "{step} {suffix} {number}");
    }
}

#[test]
fn names_that_stores_keep_are_refused_in_a_folder_that_is_an_output() {
    let text = "type: pipeline
name: kept
jobs:
  make: {command: 'mkdir -p ${{outputs.o}}/FOLDER; touch ${{outputs.o}}/NAME', outputs: {o: {path: there}}}
";
    for (folder, name, says) in [
        (".tmp", ".tmp/a", Some("o/.tmp/a")),
        (".", ".prs-claim", Some("o/.prs-claim")),
        ("a/.tmp", "a/.tmp/b", None),
    ] {
        let job = pipeline(&text.replace("FOLDER", folder).replace("NAME", name));
        let ended = submit(&job);
        ended.expect_code(if says.is_some() { 42 } else { 0 });
        if let Some(says) = says {
            let reason = ended.json()["steps"]["make"]["reason"].as_str().unwrap().to_owned();
            assert!(reason.contains(says) && reason.contains("give it another one"), "{reason}");
        }
    }
}
