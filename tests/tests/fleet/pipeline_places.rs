//! Outputs of steps that have places of their own: on this machine, in a bucket, and what is there already.

use std::fs;
use std::os::unix::fs::symlink;

use prs_tests::harness::{Ended, Fleet, Job};
use rustix::process::Signal;

/// `make` brings a folder and a file, `read` reads the folder from `make`, and the pipeline has a file.
const JOBS: &str = "\
type: pipeline
name: placed
outputs: {total: {type: uri_file, path: TOTAL}}
jobs:
  make:
    command: 'mkdir ${{outputs.parts}}/deep; echo a > ${{outputs.parts}}/a; echo b > ${{outputs.parts}}/deep/b; echo 2 > ${{outputs.count}}'
    outputs: {parts: {path: 'PARTS'}, count: {type: uri_file, path: COUNT}}
  read:
    command: 'cat ${{inputs.parts}}/a ${{inputs.parts}}/deep/b > ${{outputs.total}}'
    inputs: {parts: '${{parent.jobs.make.outputs.parts}}'}
    outputs: {total: '${{parent.outputs.total}}'}
";

fn write(job: &Job, total: &str, parts: &str, count: &str) {
    let text = JOBS.replace("TOTAL", total).replace("PARTS", parts).replace("COUNT", count);
    fs::write(job.path("pipeline.yml"), text).unwrap();
}

fn submit(job: &Job, run: &str) -> Ended {
    job.command(&["submit", "pipeline.yml", "--run-dir", run, "-o", "json"])
}

fn read(job: &Job, path: &str) -> String {
    fs::read_to_string(job.path(path)).unwrap()
}

#[test]
fn outputs_are_put_to_their_places_and_over_nothing() {
    let job = Job::new("");
    write(&job, "there/total.txt", "there/${{name}}/parts", "counts/");
    let ended = submit(&job, "run");
    ended.expect_code(0);
    let id = ended.json()["steps"]["make"]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(read(&job, "there/total.txt"), "a\nb\n");
    assert_eq!(read(&job, &format!("there/{id}/parts/a")), "a\n");
    assert_eq!(read(&job, &format!("there/{id}/parts/deep/b")), "b\n");
    assert_eq!(read(&job, "counts/count"), "2\n");
    assert_eq!(job.run().text("output/total"), "a\nb\n", "the output of the pipeline has it, too");
    assert!(!job.path("there/.tmp").exists() || fs::read_dir(job.path("there/.tmp")).unwrap().count() == 0);

    // What is there refuses before anything runs.
    let again = submit(&job, "run-2");
    again.expect_code(2);
    assert!(again.stderr.contains("there/total.txt exists already"), "{}", again.stderr);
    assert!(!job.path("run-2").exists());
    write(&job, "other/total.txt", "counts", "other/count.txt");
    let taken = submit(&job, "run-2");
    taken.expect_code(2);
    assert!(taken.stderr.contains("counts is not empty"), "{}", taken.stderr);
    symlink("/nowhere", job.path("link")).unwrap();
    write(&job, "link", "other/parts", "other/count.txt");
    let linked = submit(&job, "run-2");
    linked.expect_code(2);
    assert!(linked.stderr.contains("link exists already"), "{}", linked.stderr);
    write(&job, "run-2/total", "other/parts", "other/count.txt");
    let within = submit(&job, "run-2");
    within.expect_code(2);
    assert!(within.stderr.contains("is within the run folder"), "{}", within.stderr);
}

#[test]
fn a_component_says_where_its_outputs_go() {
    let job = Job::new("");
    fs::create_dir(job.path("parts")).unwrap();
    let component = "type: command\nname: count\nversion: 1\ncommand: echo 3 > ${{outputs.n}}\n\
                     outputs: {n: {type: uri_file, path: counted/n.txt}}\n";
    fs::write(job.path("parts/count.yml"), component).unwrap();
    fs::write(
        job.path("pipeline.yml"),
        "type: pipeline\nname: counts\njobs: {count: {component: parts/count.yml}}\n",
    )
    .unwrap();
    submit(&job, "run").expect_code(0);
    assert_eq!(read(&job, "parts/counted/n.txt"), "3\n");
    let again = submit(&job, "run-2");
    again.expect_code(2);
    assert!(again.stderr.contains("parts/counted/n.txt exists already"), "{}", again.stderr);
    // A registered one is used on any machine.
    let create = job.command(&["component", "create", "-f", "parts/count.yml"]);
    create.expect_code(2);
    let said = "outputs.n.path: counted/n.txt is on this machine, and a job that uses the component may run on another";
    assert!(create.stderr.contains(said), "{}", create.stderr);
}

#[test]
fn the_folder_of_the_rows_has_the_list_of_what_failed() {
    let job = Job::new("");
    let text = "type: pipeline\nname: listed\noutputs: {rows: {type: uri_folder}}\njobs:\n  score:\n    type: parallel\n    \
                inputs: {lines: {type: uri_folder, path: lines}}\n    outputs: {rows: {type: uri_folder, path: there}}\n    \
                input_data: '${{inputs.lines}}'\n    mini_batch_size: '1'\n    retry_settings: {max_retries: 0}\n    \
                task: {code: own, entry_script: s.py, append_row_to: '${{outputs.rows}}'}\n";
    fs::write(job.path("pipeline.yml"), text).unwrap();
    for folder in ["own", "lines"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    fs::write(
        job.path("own/s.py"),
        "def run(mini_batch):\n    return [int(open(path).read()) for path in mini_batch]\n",
    )
    .unwrap();
    fs::write(job.path("lines/a"), "1").unwrap();
    fs::write(job.path("lines/b"), "x").unwrap();
    // Something is missing, and nobody said that it may be.
    submit(&job, "run").expect_code(10);
    assert_eq!(read(&job, "there/parallel_run_step.txt"), "1\n");
    let listed = read(&job, "there/failed_mini_batches.jsonl");
    assert!(listed.lines().count() == 1 && listed.contains("/lines/b"), "{listed}");
}

#[test]
fn what_comes_into_the_way_fails_the_step_and_resume_goes_on() {
    let job = Job::new("");
    let jobs = "\
type: pipeline
name: placed
jobs:
  make:
    command: 'date +%N > ${{outputs.o}}; echo mine > HERE/out.txt'
    outputs: {o: {type: uri_file, path: out.txt}}
  next: {command: 'cat ${{inputs.i}}', inputs: {i: '${{parent.jobs.make.outputs.o}}'}}
";
    let text = jobs.replace("HERE", job.path("").to_str().unwrap());
    fs::write(job.path("pipeline.yml"), text).unwrap();
    let ended = submit(&job, "run");
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("step make of the pipeline failed: the step completed, and its output o cannot"),
        "{reason}"
    );
    assert!(reason.contains("out.txt exists already"), "{reason}");
    assert_eq!(read(&job, "out.txt"), "mine\n");
    assert_eq!(ended.json()["steps"]["next"]["state"], serde_json::Value::Null, "{}", ended.stdout);
    fs::remove_file(job.path("out.txt")).unwrap();
    let resumed = job.command(&["resume", "run", "-o", "json"]);
    resumed.expect_code(0);
    let id = resumed.json()["steps"]["make"]["job_id"].as_str().unwrap().to_owned();
    let brought = job.run().text(&format!("steps/{id}/output/o"));
    assert_eq!(read(&job, "out.txt"), brought, "the step did not run again");
}

#[test]
fn a_fleet_fills_a_bucket_and_the_command_that_waits_this_machine() {
    let fleet = Fleet::apart();
    fleet.s3.make_bucket("placed");
    let job = fleet.job(Job::new(""));
    let mut worker = fleet.worker(&job, &[]);
    write(&job, "s3://placed/total/t.txt", "s3://placed/parts", "here/count.txt");
    let submit = |more: &[&str]| job.command(&[&["submit", "pipeline.yml", "-o", "json"][..], more].concat());
    submit(&[]).expect_code(0);
    let object = |key: &str| fleet.s3.object("placed", key).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(object("total/t.txt").unwrap(), "a\nb\n");
    assert_eq!(object("parts/a").unwrap(), "a\n");
    assert_eq!(object("parts/deep/b").unwrap(), "b\n");
    assert_eq!(read(&job, "here/count.txt"), "2\n");
    let again = submit(&[]);
    again.expect_code(2);
    assert!(again.stderr.contains("s3://placed/total/t.txt exists already"), "{}", again.stderr);
    // Nobody waits: what is on this machine is left, and said.
    write(&job, "s3://placed/second/t.txt", "s3://placed/second-parts", "here/second.txt");
    let detached = submit(&["--detach"]);
    detached.expect_code(0);
    assert!(
        detached.stderr.contains("here/second.txt is not filled; once step make has completed"),
        "{}",
        detached.stderr
    );
    let id = detached.json()["job_id"].as_str().unwrap().to_owned();
    job.command(&["stream", &id]).expect_code(0);
    assert_eq!(object("second/t.txt").unwrap(), "a\nb\n");
    assert!(!job.path("here/second.txt").exists());
    worker.signal(Signal::TERM);
    worker.wait();
}
