//! Pipelines of several steps and commands: their results, what a failed step means, and going on with them.

use std::fs;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Ended, Fleet, Job, copy_compat};
use rustix::process::Signal;
use serde_json::Value;

/// The result of `pipeline-steps`.
const JOINED: &str = "ONE\nTWO\nTHREE\nFOUR\nFIVE\neno\nowt\neerht\nruof\nevif\nit's $HOME\n";

/// A fresh copy of the folder of `tests/compat`.
fn steps() -> Job {
    let job = Job::new("");
    copy_compat("pipeline-steps", &job.path("."));
    job
}

/// A pipeline of commands alone, in the folder of the job.
fn commands(jobs: &str) -> Job {
    let job = Job::new("");
    fs::write(job.path("pipeline.yml"), format!("type: pipeline\nname: flow\n{jobs}")).unwrap();
    job
}

fn submit(job: &Job) -> Ended {
    job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"])
}

/// The state of each step, in the order of their names.
fn states(printed: &Value) -> Vec<(String, String)> {
    let steps = printed["steps"].as_object().unwrap();
    let state = |step: &Value| step["state"].as_str().unwrap_or("not run").to_owned();
    steps.iter().map(|(name, step)| (name.clone(), state(step))).collect()
}

#[track_caller]
fn has_states(printed: &Value, expected: &[(&str, &str)]) {
    let states = states(printed);
    let states: Vec<_> = states.iter().map(|(name, state)| (&**name, &**state)).collect();
    assert_eq!(states, expected, "{printed}");
}

#[test]
fn steps_get_what_others_brought() {
    let job = steps();
    let graph = job.command(&["validate", "pipeline.yml"]);
    graph.expect_code(0);
    let line = graph.stdout.lines().find(|line| line.starts_with("join")).unwrap();
    assert!(line.contains("command") && line.contains("upper, reverse"), "{}", graph.stdout);

    let ended = submit(&job);
    ended.expect_code(0);
    let printed = ended.json();
    assert_eq!((&printed["state"], &printed["name"]), (&"completed".into(), &"two-ways".into()));
    assert_eq!(printed["mini_batches"]["succeeded"], 3 + 5);
    has_states(
        &printed,
        &[("join", "completed"), ("prep", "completed"), ("reverse", "completed"), ("upper", "completed")],
    );
    assert_eq!(job.run().text("output/joined"), JOINED);
    let id = printed["job_id"].as_str().unwrap();
    assert_eq!(printed["steps"]["prep"]["job_id"], format!("{id}-prep"));

    let listed = job.command(&["list", "--parent", "run", "-o", "json"]).json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 4, "{listed}");
    let shown = job.command(&["show", "run"]).stdout;
    assert!(shown.contains(&format!("\n#   prs show {id}-prep  # completed\n")), "{shown}");
    assert!(shown.contains(&format!("{id}-join  # completed, after upper, reverse\nname: ")), "{shown}");
    let text = job.run().text("logs/job_result.txt");
    assert!(text.starts_with("completed\n") && text.matches("\nstep ").count() == 4, "{text}");
    let stdout = job.run().text(&format!("steps/{id}-prep/logs/user/stdout/0/process000.stdout.txt"));
    assert_eq!(stdout, "note: it's $HOME\n");
    // Data that hold the folder of the pipeline change while it runs.
    let whole = "type: pipeline\nname: flow\njobs: {a: {command: 'true', inputs: {i: {path: .}}}}\n";
    fs::write(job.path("whole.yml"), whole).unwrap();
    let refused = job.command(&["submit", "whole.yml", "--run-dir", "whole"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("step a: side input i holds the run folder"), "{}", refused.stderr);
    assert!(!job.path("whole").exists());
    // A pipeline that has completed has nothing to resume.
    job.command(&["resume", "run"]).expect_code(0);
}

#[test]
fn a_failed_step_stops_what_needs_it_and_resume_goes_on() {
    let job = commands(
        "outputs: {all: {type: uri_folder}}\njobs:\n  \
         first: {command: 'date +%N > ${{outputs.o}}/t', outputs: {o: '${{parent.outputs.all}}'}}\n  \
         bad: {command: 'echo why >&2; test -f GO', inputs: {i: '${{parent.jobs.first.outputs.o}}'}, outputs: {o: {}}}\n  \
         next: {command: 'ls ${{inputs.i}}', inputs: {i: '${{parent.jobs.bad.outputs.o}}'}}\n  \
         other: {command: 'true'}\n",
    );
    let text = fs::read_to_string(job.path("pipeline.yml")).unwrap();
    let go = job.path("go").display().to_string();
    fs::write(job.path("pipeline.yml"), text.replace("GO'", &format!("{go} && touch ${{{{outputs.o}}}}/x'")))
        .unwrap();
    let ended = submit(&job);
    ended.expect_code(42);
    let printed = ended.json();
    has_states(
        &printed,
        &[("bad", "failed"), ("first", "completed"), ("next", "not run"), ("other", "completed")],
    );
    let reason = printed["reason"].as_str().unwrap();
    assert!(
        reason.contains("step bad of the pipeline failed") && reason.contains("exit code 1: why"),
        "{reason}"
    );
    assert!(job.run().text("logs/job_result.txt").contains("next   not run"));
    let errors = job.command(&["errors", "run"]).stdout;
    assert!(errors.contains("-bad <==\n") && errors.contains("exit code 1: why"), "{errors}");
    let errors = job.command(&["errors", "run", "-o", "json"]).json();
    let ids: Vec<_> = errors["steps"].as_array().unwrap().iter().map(|step| &step["job_id"]).collect();
    assert_eq!(ids.len(), 3, "a step that was not run has no job: {ids:?}");
    let refused = job.command(&["try", "run", "--failed"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("name the job of a step ("), "{}", refused.stderr);
    let first = job.run().text("output/all/t");
    let refused = job.command(&["resume", "run", "--set", "mini_batch_size=1"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("this is a pipeline: its settings are those"), "{}", refused.stderr);

    fs::write(&go, "").unwrap();
    let resumed = job.command(&["resume", "run", "-o", "json"]);
    resumed.expect_code(0);
    has_states(
        &resumed.json(),
        &[("bad", "completed"), ("first", "completed"), ("next", "completed"), ("other", "completed")],
    );
    assert_eq!(job.run().text("output/all/t"), first, "a completed step does not run again");
}

/// Two steps with the same code, the second of which fails.
const SCRIPTED: &str = "jobs:\n  \
    good: {command: 'sh run.sh good', code: code}\n  \
    bad: {command: 'sh run.sh bad', code: code, depends_on: good}\n";

/// The mended code of `SCRIPTED` runs the step that failed, once that is said. `name` is that of the pipeline, which ran once.
#[track_caller]
fn runs_mended_once_that_is_said(job: &Job, name: &str) {
    job.code("run.sh", &format!("echo new >> {}\n", job.path("seen").display()));
    let refused = job.command(&["resume", name]);
    refused.expect_code(2);
    for said in [
        "step bad: code/run.sh differs from the code of the job; say which code runs the rest",
        &format!("prs resume {name} --code new   with code as it is now"),
    ] {
        assert!(refused.stderr.contains(said), "{said:?} is not said:\n{}", refused.stderr);
    }
    let old = job.command(&["resume", name, "--code", "old", "-o", "json"]);
    old.expect_code(42);
    let new = job.command(&["resume", name, "--code", "new", "-o", "json"]);
    new.expect_code(0);
    let said = "step bad: code/run.sh differs from the code of the job; the rest runs with it as it is now";
    assert!(new.stderr.contains(said), "{}", new.stderr);
    has_states(&new.json(), &[("bad", "completed"), ("good", "completed")]);
    let seen = fs::read_to_string(job.path("seen")).unwrap();
    assert_eq!(seen, "good\nbad\nbad\nnew\n", "a completed step does not run again");
}

/// Writes the code of `SCRIPTED` as it fails.
fn scripted(job: &Job) {
    let seen = job.path("seen");
    job.code("run.sh", &format!("echo $1 >> {}\ntest $1 != bad\n", seen.display()));
}

#[test]
fn a_mended_script_of_a_step_runs_once_that_is_said() {
    let job = commands(SCRIPTED);
    scripted(&job);
    submit(&job).expect_code(42);
    runs_mended_once_that_is_said(&job, "run");
}

#[test]
fn a_mended_script_of_a_step_runs_on_a_fleet_once_that_is_said() {
    let fleet = Fleet::apart();
    let job = marked(&fleet, SCRIPTED);
    scripted(&job);
    let mut worker = fleet.worker(&job, &[]);
    let ended = job.command(&["submit", "pipeline.yml", "-o", "json"]);
    ended.expect_code(42);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    runs_mended_once_that_is_said(&job, &id);
    worker.signal(Signal::TERM);
    worker.wait();
}

/// What the steps of a pipeline write, in the order in which they run, and a step with its id in the path of its output.
const ORDERED: &str = "jobs:\n  \
    late: {command: 'ls MARKS > MARKS/seen', depends_on: [second, named]}\n  \
    second: {command: 'touch MARKS/second', depends_on: first}\n  \
    first: {command: 'touch MARKS/first'}\n  \
    named: {command: 'touch ${{outputs.o}}/x', outputs: {o: {path: 'azureml://datastores/d/paths/${{name}}/deep'}}}\n";

/// Steps with `ORDERED` ran in their order, and the output of the last has the id of its job.
fn ran_in_order(job: &Job) {
    let seen = fs::read_to_string(job.path("marks/seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["first", "second", "seen"]);
}

#[test]
fn steps_wait_for_what_they_depend_on_and_outputs_have_the_id_of_the_job() {
    let job = Job::new("");
    let marks = job.path("marks");
    fs::create_dir_all(&marks).unwrap();
    let jobs = ORDERED.replace("MARKS", marks.to_str().unwrap());
    fs::write(job.path("pipeline.yml"), format!("type: pipeline\nname: flow\n{jobs}")).unwrap();
    let ended = submit(&job);
    ended.expect_code(0);
    ran_in_order(&job);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(job.run().text(&format!("steps/{id}-named/output/{id}-named/deep/x")), "");

    fs::write(
        job.path("wait.yml"),
        "type: pipeline\njobs: {a: {command: exit 3}, b: {command: 'true', depends_on: a}}\n",
    )
    .unwrap();
    let failed = job.command(&["submit", "wait.yml", "--run-dir", "failed", "-o", "json"]);
    failed.expect_code(42);
    has_states(&failed.json(), &[("a", "failed"), ("b", "not run")]);
}

#[test]
fn the_id_of_a_job_is_in_the_path_of_its_output_and_another_one_when_it_is_submitted_again() {
    let job = Job::new("def run(mini_batch):\n    return [1]\n").with("output", "${{name}}/out");
    let job = job.with("inputs", serde_json::json!([{ "type": "file", "path": "data" }]));
    let job = job.with("append_row_file_name", "rows-${{ name }}.txt");
    job.data("a.txt", "x");
    let ids: Vec<String> = ["submit", "resubmit"]
        .into_iter()
        .map(|verb| {
            let named = if verb == "submit" {
                job.write_job_file().display().to_string()
            } else {
                "submit".to_owned()
            };
            let ended = job.command(&[verb, &named, "--run-dir", verb, "-o", "json"]);
            ended.expect_code(0);
            ended.json()["job_id"].as_str().unwrap().to_owned()
        })
        .collect();
    for id in &ids {
        let rows = fs::read_to_string(job.path(&format!("{id}/out/rows-{id}.txt"))).unwrap();
        assert_eq!(rows, "1\n");
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn nothing_new_starts_behind_a_failed_step_where_that_is_said() {
    let job = commands(
        "settings: {continue_on_step_failure: false}\njobs:\n  bad: {command: exit 3}\n  other: {command: 'true'}\n",
    );
    let ended = submit(&job);
    ended.expect_code(42);
    has_states(&ended.json(), &[("bad", "failed"), ("other", "not run")]);
}

#[test]
fn a_pipeline_is_canceled_interrupted_and_killed() {
    let slow = "jobs:\n  slow: {command: 'touch MARK; sleep 60'}\n  next: {command: 'true'}\n";
    let start = |job: &Job| {
        let text = fs::read_to_string(job.path("pipeline.yml")).unwrap();
        fs::write(job.path("pipeline.yml"), text.replace("MARK", job.path("mark").to_str().unwrap()))
            .unwrap();
        let live = job.start(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"]);
        wait_for("the step to run", Duration::from_secs(30), || job.path("mark").exists().then_some(()));
        live
    };
    let job = commands(slow);
    let live = start(&job);
    let asked = Instant::now();
    let canceled = job.command(&["cancel", "run", "-o", "json"]);
    canceled.expect_code(0);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    has_states(&canceled.json(), &[("next", "not run"), ("slow", "canceled")]);
    assert!(canceled.json()["reason"].as_str().unwrap().starts_with("canceled by "), "{}", canceled.stdout);
    live.wait().expect_code(130);

    let job = commands(slow);
    let mut live = start(&job);
    live.signal(Signal::INT);
    let ended = live.wait();
    ended.expect_code(130);
    assert_eq!(ended.json()["reason"], "interrupted (Ctrl-C)");

    let job = commands(slow);
    let live = start(&job);
    live.kill();
    fs::remove_file(job.path("mark")).unwrap();
    let status = job.command(&["status", "run", "-o", "json"]).json();
    assert_eq!(status["state"], "failed", "{status}");
    let mut resuming = job.start(&["resume", "run", "-o", "json"]);
    wait_for("the step to run again", Duration::from_secs(30), || job.path("mark").exists().then_some(()));
    resuming.signal(Signal::INT);
    resuming.wait().expect_code(130);
}

#[test]
fn a_command_by_itself_brings_its_outputs() {
    let job = Job::new("");
    let yaml = "type: command\nname: one\ncode: code\ninputs: {texts: {path: data}, n: 2}\n\
                outputs: {dir: {}, file: {type: uri_file}}\n\
                command: >-\n  ls main.py && head -n ${{inputs.n}} ${{inputs.texts}}/a.txt > ${{outputs.file}} &&\n  \
                cp -r ${{inputs.texts}} ${{outputs.dir}}/copy && touch here\n";
    job.data("a.txt", "1\n2\n3\n");
    fs::write(job.path("c.yml"), yaml).unwrap();
    let ended = job.command(&["submit", "c.yml", "--run-dir", "run", "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(job.run().text("output/file"), "1\n2\n");
    assert_eq!(job.run().text("output/dir/copy/a.txt"), "1\n2\n3\n");
    assert!(!job.path("code/here").exists(), "a command writes beside a copy of the code");

    fs::write(
        job.path("c.yml"),
        "command: 'touch ${{outputs.o}}/x; sleep 60'\noutputs: {o: {}}\nlimits: {timeout: 1}\n",
    )
    .unwrap();
    let failed = job.command(&["submit", "c.yml", "--run-dir", "second", "-o", "json"]);
    failed.expect_code(42);
    assert!(!job.path("second/output/o/x").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let job = commands(
        "jobs:\n  a: {command: x, inputs: {i: '${{parent.jobs.b.outputs.o}}'}, outputs: {o: {}}}\n  b: {command: x, inputs: {i: '${{parent.jobs.a.outputs.o}}'}, outputs: {o: {}}}\n",
    );
    let ended = submit(&job);
    ended.expect_code(2);
    assert!(ended.stderr.contains("the steps need each other: a needs b needs a"), "{}", ended.stderr);
    let job = commands("jobs:\n  a: {component: absent.yml}\n");
    let ended = submit(&job);
    ended.expect_code(2);
    assert!(
        ended.stderr.contains("pipeline.yml:4: jobs.a.component: there is no component"),
        "{}",
        ended.stderr
    );
    assert!(!job.path("run").exists());
}

/// The result of the pipeline in the storage of the fleet.
fn joined(job: &Job, id: &str) -> String {
    let fetched = job.path("fetched");
    job.command(&["result", id, "--output-path", fetched.to_str().unwrap()]).expect_code(0);
    fs::read_to_string(fetched.join("joined")).unwrap()
}

#[test]
fn a_fleet_runs_a_pipeline_whoever_dies() {
    let fleet = Fleet::apart();
    let job = fleet.job(steps());
    let first = fleet.worker(&job, &[]);
    let submitted = job.command(&["submit", "pipeline.yml", "--detach", "-o", "json"]);
    submitted.expect_code(0);
    let id = submitted.json()["job_id"].as_str().unwrap().to_owned();
    let state = || job.command(&["status", &format!("{id}-prep"), "-o", "json"]).json()["state"].clone();
    wait_for("the first step", Duration::from_mins(1), || (state() != "queued").then_some(()));
    first.kill();
    let mut second = fleet.worker(&job, &[]);
    let ended = job.command(&["resume", &id, "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(ended.json()["state"], "completed", "{}", ended.stdout);
    assert_eq!(joined(&job, &id), JOINED);
    let listed = job.command(&["list", "-o", "json"]).json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1, "{listed}");
    let listed = job.command(&["list", "--parent", &id, "-o", "json"]).json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 4, "{listed}");
    job.command(&["rm", &id, "--yes"]).expect_code(0);
    assert!(job.command(&["status", &format!("{id}-prep")]).stderr.contains("there is no job"));
    second.signal(Signal::TERM);
    second.wait();
}

/// A pipeline of commands on a fleet, which wait for marks.
fn marked(fleet: &Fleet, jobs: &str) -> Job {
    let job = fleet.job(Job::new(""));
    let jobs = jobs.replace("MARKS", job.path("marks").to_str().unwrap());
    fs::write(job.path("pipeline.yml"), format!("type: pipeline\nname: flow\n{jobs}")).unwrap();
    job
}

fn hand_in(job: &Job) -> String {
    let submitted = job.command(&["submit", "pipeline.yml", "--detach", "-o", "json"]);
    submitted.expect_code(0);
    submitted.json()["job_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn until_marked(job: &Job, name: &str) {
    let mark = job.path("marks").join(name);
    wait_for(name, Duration::from_mins(1), || mark.exists().then_some(()));
}

#[test]
fn steps_of_a_fleet_wait_for_what_they_depend_on() {
    let fleet = Fleet::apart();
    let job = marked(&fleet, ORDERED);
    fs::create_dir_all(job.path("marks")).unwrap();
    let _worker = fleet.worker(&job, &[]);
    let ended = job.command(&["submit", "pipeline.yml", "-o", "json"]);
    ended.expect_code(0);
    ran_in_order(&job);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let fetched = job.path("fetched");
    let named = format!("{id}-named");
    job.command(&["result", &named, "--output-path", fetched.to_str().unwrap()]).expect_code(0);
    assert!(fetched.join(&named).join("deep/x").exists());
}

#[test]
fn a_busy_worker_of_any_step_drives_the_pipeline() {
    let fleet = Fleet::apart();
    let job = marked(
        &fleet,
        "jobs:\n  first: {command: 'touch MARKS/first', compute: one}\n  \
         second: {command: 'touch MARKS/second', compute: two, depends_on: first}\n",
    );
    let marks = job.path("marks");
    fs::create_dir_all(&marks).unwrap();
    let wait = format!("touch {0}/busy; while ! test -f {0}/go; do sleep 0.1; done", marks.display());
    fs::write(job.path("busy.yml"), format!("type: command\nname: busy\ncompute: two\ncommand: '{wait}'\n"))
        .unwrap();
    let two = fleet.worker(&job, &["--target", "two"]);
    job.command(&["submit", "busy.yml", "--detach"]).expect_code(0);
    until_marked(&job, "busy");
    let id = hand_in(&job);
    // No worker of the first step's target is there, and the other one is busy.
    let is_handed_in = || fleet.active().iter().any(|active| active.contains(&format!("{id}-first")));
    wait_for("the first step", Duration::from_mins(1), || is_handed_in().then_some(()));
    let one = fleet.worker(&job, &["--target", "one"]);
    until_marked(&job, "first");
    fs::write(marks.join("go"), "").unwrap();
    until_marked(&job, "second");
    let completed = || job.command(&["status", &id, "-o", "json"]).json()["state"] == "completed";
    wait_for("the end", Duration::from_mins(1), || completed().then_some(()));
    wait_for("nothing is left to serve", Duration::from_mins(1), || fleet.active().is_empty().then_some(()));
    drop((one, two));
}

#[test]
fn a_pipeline_outlives_everything_but_storage() {
    let fleet = Fleet::apart();
    let job = marked(
        &fleet,
        "jobs:\n  first: {command: 'touch MARKS/first; while ! test -f MARKS/go; do sleep 0.1; done; echo 1 > ${{outputs.o}}', outputs: {o: {type: uri_file}}}\n  \
         second: {command: 'cat ${{inputs.i}} > MARKS/second', inputs: {i: '${{parent.jobs.first.outputs.o}}'}}\n",
    );
    let worker = fleet.worker(&job, &[]);
    let live = job.start(&["submit", "pipeline.yml"]);
    until_marked(&job, "first");
    live.kill();
    worker.kill();
    fleet.redis_cli(&["FLUSHDB"]);
    fs::write(job.path("marks/go"), "").unwrap();
    let mut other = fleet.worker(&job, &[]);
    until_marked(&job, "second");
    let id = fleet.id_of("flow").unwrap();
    let completed = || job.command(&["status", &id, "-o", "json"]).json()["state"] == "completed";
    wait_for("the end", Duration::from_mins(1), || completed().then_some(()));
    wait_for("nothing is left to serve", Duration::from_mins(1), || fleet.active().is_empty().then_some(()));
    other.signal(Signal::TERM);
    other.wait();
}

#[test]
fn a_pipeline_of_a_fleet_is_canceled_and_resumed() {
    let fleet = Fleet::apart();
    let job = marked(
        &fleet,
        "jobs:\n  slow: {command: 'touch MARKS/slow; while ! test -f MARKS/go; do sleep 0.1; done; touch ${{outputs.o}}/x', outputs: {o: {}}}\n  \
         bad: {command: 'ls ${{inputs.i}}; test -f MARKS/good', inputs: {i: '${{parent.jobs.slow.outputs.o}}'}}\n",
    );
    let mut worker = fleet.worker(&job, &[]);
    let id = hand_in(&job);
    until_marked(&job, "slow");
    let asked = Instant::now();
    let canceled = job.command(&["cancel", &id, "-o", "json"]);
    canceled.expect_code(0);
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    has_states(&canceled.json(), &[("bad", "not run"), ("slow", "canceled")]);

    fs::write(job.path("marks/go"), "").unwrap();
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(42);
    has_states(&resumed.json(), &[("bad", "failed"), ("slow", "completed")]);
    fs::write(job.path("marks/good"), "").unwrap();
    let resumed = job.command(&["resume", &id, "-o", "json"]);
    resumed.expect_code(0);
    has_states(&resumed.json(), &[("bad", "completed"), ("slow", "completed")]);
    wait_for("nothing is left to serve", Duration::from_mins(1), || fleet.active().is_empty().then_some(()));
    worker.signal(Signal::TERM);
    worker.wait();
}
