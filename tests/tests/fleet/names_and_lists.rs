//! What a job may be called, and the list of jobs.

use prs_tests::harness::{Fleet, Job};
use serde_json::{Value, json};

const ECHO: &str =
    "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
const FAILS: &str =
    "def run(mini_batch):\n    raise ValueError('every mini-batch fails, and says so at some length')\n";

/// Submits the job under a name; returns its id.
fn submit(job: Job, name: &str, script: &str, code: i32) -> (Job, String) {
    let job = job.with("name", name);
    job.script(script);
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "-o", "json"]);
    ended.expect_code(code);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    (job, id)
}

fn ids(list: &Value) -> Vec<&str> {
    list["jobs"].as_array().unwrap().iter().map(|one| one["job_id"].as_str().unwrap()).collect()
}

/// Asserts what `status` finds under other names than ids.
fn finds(job: &Job, names: &[(&str, &str)]) {
    for (name, id) in names {
        let ended = job.command(&["status", name, "-o", "json"]);
        ended.expect_code(0);
        assert_eq!(ended.json()["job_id"], **id, "{name}");
        assert!(ended.stderr.contains(&format!("{name} is {id}")), "{}", ended.stderr);
    }
}

/// Asserts that `text` names no one job, and why.
fn is_refused(job: &Job, text: &str, parts: &[&str]) {
    let ended = job.command(&["status", text]);
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{text}: {part:?} is not said: {}", ended.stderr);
    }
}

#[test]
fn a_job_is_found_by_its_name_a_beginning_and_as_the_latest() {
    let job = Job::new(ECHO).with_files(5);
    is_refused(&job, "@latest", &["there is no job yet"]);
    let (job, first) = submit(job, "rows", ECHO, 0);
    let (job, second) = submit(job, "rows", ECHO, 0);
    let (job, broken) = submit(job, "broken", FAILS, 42);
    let (job, last) = submit(job, "last", ECHO, 0);

    let beginning = &broken[..broken.len() - 2];
    finds(&job, &[("rows", &second), (beginning, &broken), ("@latest", &last), ("@failed", &broken)]);
    is_refused(&job, "row", &["2 jobs begin with \"row\"", &first, &second]);
    is_refused(&job, "@newest", &["@latest", "@failed"]);
    is_refused(&job, "nothing", &["there is no job \"nothing\"", "prs list"]);
    let result = job.command(&["result", "rows", "--output-path", "fetched"]);
    result.expect_code(0);
    assert!(job.path("fetched/parallel_run_step.txt").is_file());

    // Elsewhere, and in the folder itself.
    let moved = job.path("elsewhere");
    std::fs::rename(job.path("prs-runs"), &moved).unwrap();
    let ended = job.command(&["status", "broken", "--runs", "elsewhere", "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(ended.json()["job_id"], broken);
}

#[test]
fn the_newest_jobs_are_listed_first_with_the_reason_they_failed_for() {
    let job = Job::new(ECHO).with_files(2).with("run_max_try", 1);
    let (job, first) = submit(job, "rows", ECHO, 0);
    let (job, broken) = submit(job, "broken", FAILS, 42);
    let (job, second) = submit(job, "rows", ECHO, 0);
    let listed = |arguments: &[&str]| {
        let ended = job.command(&[&["list", "-o", "json"], arguments].concat());
        ended.expect_code(0);
        ended.json()
    };
    let table: &[(&[&str], &[&str])] = &[
        (&[], &[&second, &broken, &first]),
        (&["-n", "1"], &[&second]),
        (&["--state", "failed"], &[&broken]),
        (&["--state", "failed", "--state", "completed", "-n", "2"], &[&second, &broken]),
        (&["--name", "rows"], &[&second, &first]),
        (&["--sort", "name"], &[&broken, &second, &first]),
        (&["--sort", "state"], &[&second, &first, &broken]),
        (&["--since", "1h"], &[&second, &broken, &first]),
        (&["--since", "0s"], &[]),
    ];
    for (arguments, expected) in table {
        assert_eq!(ids(&listed(arguments)), *expected, "{arguments:?}");
    }
    assert!(listed(&[])["jobs"][0]["submitted_at"].as_str().unwrap().ends_with('Z'));

    let ended = job.command(&["list", "-n", "2"]);
    ended.expect_code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].ends_with("REASON"), "{}", ended.stdout);
    assert!(lines[2].contains("ValueError"), "a reader that is no terminal gets all of it: {}", ended.stdout);
    assert!(ended.stderr.contains("1 more; --all"), "{}", ended.stderr);
    for (arguments, part) in [
        (&["--state", "broken"][..], "queued, scheduling"),
        (&["--since", "2w"], "as in 2d"),
        (&["--watch"], "terminal"),
        (&["--all", "-n", "1"], "--limit"),
    ] {
        let ended = job.command(&[&["list"], arguments].concat());
        ended.expect_code(2);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn the_same_on_a_fleet() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(ECHO).with_files(2));
    let job = job.with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]));
    let _worker = fleet.worker(&job, &[]);
    let (job, first) = submit(job, "rows", ECHO, 0);
    let (job, broken) = submit(job, "broken", FAILS, 42);
    let (job, second) = submit(job, "rows", ECHO, 0);
    let beginning = &broken[..broken.len() - 2];
    finds(&job, &[("rows", &second), (beginning, &broken), ("@latest", &second), ("@failed", &broken)]);
    let list = job.command(&["list", "-o", "json", "-n", "2"]);
    list.expect_code(0);
    assert_eq!(ids(&list.json()), [&second, &broken]);
    let list = job.command(&["list", "-o", "json", "--name", "rows"]);
    assert_eq!(ids(&list.json()), [&second, &first]);
    is_refused(&job, "row", &["2 jobs begin with"]);
    is_refused(&job, "nothing", &["there is no job \"nothing\""]);
}
