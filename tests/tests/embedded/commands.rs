//! The other commands: what they print where, and their exit codes (spec section 7, S12).

use std::fs;
use std::time::Duration;

use prs_tests::deadline::Stopwatch;
use prs_tests::harness::{HOLDS, Job, RunFolder};
use serde_json::{Value, json};

const ECHO: &str =
    "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";

fn job() -> Job {
    Job::new(ECHO).with_files(5)
}

#[test]
fn validate_plans_and_runs_nothing() {
    let job = Job::new("from marks import mark\nmark('imported')\ndef run(mini_batch):\n    return []\n")
        .with_files(5);
    job.write_job_file();
    let ended = job.command(&["validate", "job.yml", "-o", "json"]);
    ended.expect_code(0);
    let planned = ended.json();
    assert_eq!((&planned["mini_batches"], &planned["items"]), (&json!(3), &json!(5)));
    assert_eq!((&planned["ok"], job.marks("imported").len()), (&json!(true), 1));
    assert!(!job.path("prs-runs").exists() && !job.run().path().exists());
    let ended = job.command(&["validate", "job.yml", "--set", "mini_batch_size=1", "-o", "json"]);
    assert_eq!(ended.json()["mini_batches"], 5);

    job.script("def run(mini_batch)\n");
    let ended = job.command(&["validate", "job.yml"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("SyntaxError") && ended.stdout.is_empty(), "{}", ended.stderr);
}

#[test]
fn keys_of_a_job_file_are_explained() {
    let job = job();
    for (key, parts) in [
        ("node_count", &["a whole number from 1", "default", "resume --set", "--node_count"][..]),
        ("inputs[0].path", &["inputs.path", "s3:// or https:// URL"]),
        ("delimiter", &["inputs.delimiter", "output_format.delimiter"]),
        ("side_inputs", &["a mapping of names to paths", "before `init()`"]),
        ("partition_keys", &["a list of columns", "--partition_keys"]),
    ] {
        let ended = job.command(&["explain", key]);
        ended.expect_code(0);
        for part in parts {
            assert!(ended.stdout.contains(part), "{key}: {part:?} is not in\n{}", ended.stdout);
        }
    }
    let one = job.command(&["explain", "keep", "-o", "json"]).json();
    assert_eq!((&one["keys"][0]["key"], one["keys"].as_array().unwrap().len()), (&json!("keep"), 1));
    assert_eq!(
        one["keys"][0]["set_by"],
        json!(["job file", "submit --set", "resubmit --set", "resume --set"])
    );
    let all = job.command(&["explain", "-o", "json"]).json();
    let listed = job.command(&["explain"]);
    for key in all["keys"].as_array().unwrap() {
        assert!(listed.stdout.contains(key["key"].as_str().unwrap()), "{key}");
    }
    for (key, remedy) in [("node_cout", "`node_count`?"), ("x", "prs explain lists")] {
        let ended = job.command(&["explain", key]);
        ended.expect_code(2);
        assert!(ended.stderr.contains(remedy) && ended.stdout.is_empty(), "{}", ended.stderr);
    }
}

#[test]
fn logs_for_a_pipeline_that_there_is_not_are_noted() {
    let job = job().with("copy_logs_to_parent", true);
    let ended = job.submit();
    job.has_completed(&ended);
    let file = job.write_job_file();
    let text = fs::read_to_string(&file).unwrap();
    let line = text.lines().position(|line| line.starts_with("copy_logs_to_parent")).unwrap() + 1;
    let note = format!("{}:{line}: copy_logs_to_parent: the job is no step of a pipeline", file.display());
    assert!(ended.stderr.contains(&format!("note: {note}")), "{}", ended.stderr);
    let result = job.run().text_so_far("logs/job_result.txt");
    assert!(result.contains(&format!("note          {note}")), "{result}");
}

#[test]
fn bad_usage_is_exit_code_2_with_a_hint_and_no_data() {
    let job = job();
    for arguments in [
        vec![],
        vec!["submit"],
        vec!["submit", "job.yml", "--no-such-flag"],
        vec!["no-such-command"],
        vec!["status", "no-such-job"],
        vec!["logs", "no-such-job"],
        vec!["result", "no-such-job", "--output-path", "x"],
        vec!["resume", "no-such-job"],
        vec!["resubmit", "no-such-job"],
        vec!["show", "no-such-job"],
        vec!["stream", "no-such-job"],
        vec!["cancel", "no-such-job"],
        vec!["submit", "job.yml", "-o", "xml"],
        vec!["submit", "job.yml", "--redis", "redis://localhost"],
    ] {
        let ended = job.command(&arguments);
        ended.expect_code(2);
        assert!(ended.stdout.is_empty() && !ended.stderr.trim().is_empty(), "{arguments:?}: {ended:?}");
    }
    let ended = job.command(&["resume", "no-such-job"]);
    assert!(ended.stderr.contains("no-such-job"), "{}", ended.stderr);
}

#[test]
fn a_run_folder_that_python_cannot_search_is_refused() {
    let job = job();
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "--run-dir", "r:1"]);
    ended.expect_code(2);
    for part in ["r:1", "colon", "--run-dir"] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    assert!(!job.path("r:1").exists() && !job.path("prs-runs").exists());
}

#[test]
fn some_servers_given_and_some_not_is_an_error_that_names_what_is_missing() {
    let job = job().with_own_variable("PRS_REDIS_URL", "redis://user:secret@localhost");
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "--storage", "s3://key:secret@bucket"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("broker") && ended.stderr.contains("PRS_BROKER_URL"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "no password is ever said: {}", ended.stderr);
}

#[test]
fn help_and_version_are_data() {
    let job = job();
    for flag in ["--help", "--version"] {
        let ended = job.command(&[flag]);
        ended.expect_code(0);
        assert!(ended.stdout.contains("prs "), "{}", ended.stdout);
        assert!(!ended.stdout.is_empty() && ended.stderr.is_empty());
    }
}

#[test]
fn a_job_runs_in_its_own_folder_and_every_command_finds_it_by_its_id() {
    let job = job();
    job.write_job_file();
    let submitted = job.command(&["submit", "job.yml", "-o", "json"]);
    submitted.expect_code(0);
    let printed = submitted.json();
    let id = printed["job_id"].as_str().unwrap();
    assert!(id.starts_with("test-job"), "{id}");
    let run = RunFolder::new(job.path("prs-runs").join(id));
    assert_eq!(run.rows().len(), 5);

    let status = job.command(&["status", id, "-o", "json"]);
    status.expect_code(0);
    let status = status.json();
    for (key, value) in printed.as_object().unwrap() {
        assert_eq!(&status[key], value, "status tells what submit told: {key}");
    }
    for key in ["nodes", "processes", "per_second", "eta_seconds"] {
        assert!(status.get(key).is_some(), "{key} is part of the status");
    }

    let list = job.command(&["list", "-o", "json"]);
    list.expect_code(0);
    assert_eq!(
        list.json()["jobs"].as_array().unwrap().iter().map(|one| &one["job_id"]).collect::<Vec<_>>(),
        [id]
    );

    let logs = job.command(&["logs", id, "-o", "json"]);
    logs.expect_code(0);
    let names: Vec<Value> =
        logs.json()["logs"].as_array().unwrap().iter().map(|log| log["file"].clone()).collect();
    assert!(
        names.contains(&json!("job_result.txt")) && names.contains(&json!("sys/node/0/_main.txt")),
        "{names:?}"
    );
    for name in names {
        let log = job.command(&["logs", id, "--file", name.as_str().unwrap()]);
        log.expect_code(0);
        assert_eq!(log.stdout, run.text_so_far(&format!("logs/{}", name.as_str().unwrap())));
    }
    for name in ["../job.json", "no-such.txt", "/etc/passwd"] {
        job.command(&["logs", id, "--file", name]).expect_code(2);
    }

    let fetched = job.command(&["result", id, "--output-path", "fetched/here", "-o", "json"]);
    fetched.expect_code(0);
    let copy = job.path("fetched/here/parallel_run_step.txt");
    assert_eq!(fs::read(&copy).unwrap(), run.result());
    assert_eq!(fetched.json()["output"]["sha256"], printed["output"]["sha256"]);
    let again = job.command(&["result", id, "--output-path", "fetched/here"]);
    again.expect_code(2);
    assert!(
        again.stderr.contains("parallel_run_step.txt"),
        "what is there is not overwritten: {}",
        again.stderr
    );
}

#[test]
fn tables_are_for_people_and_hold_the_same() {
    let job = job();
    job.write_job_file();
    let submitted = job.command(&["submit", "job.yml"]);
    submitted.expect_code(0);
    let id = submitted.stdout.lines().find_map(|line| line.strip_prefix("job")).unwrap().trim().to_owned();
    for (arguments, parts) in [
        (vec!["status", &id], vec![id.as_str(), "completed", "3 scheduled, 3 succeeded, 0 failed"]),
        (vec!["list"], vec![&id, "completed", "3/3"]),
        (vec!["result", &id], vec!["parallel_run_step.txt"]),
        (vec!["logs", &id], vec!["job_result.txt"]),
    ] {
        let ended = job.command(&arguments);
        ended.expect_code(0);
        for part in parts {
            assert!(ended.stdout.contains(part), "{arguments:?}: {part:?} is not in\n{}", ended.stdout);
        }
    }
}

#[test]
fn a_running_job_is_told_as_such() {
    let script = "from marks import wait_for, mark\ndef run(mini_batch, context):\n    if context.minibatch_index == 2:\n        mark('on'); wait_for('go')\n    return mini_batch\n";
    let job = Job::new(script).with_files(6);
    let mut submit = job.start_submit(&[]);
    submit.wait_until("the last mini-batch running", || !job.marks("on").is_empty());
    let run = job.run().path().display().to_string();
    let mut status = Value::Null;
    submit.wait_until("a status with two mini-batches done", || {
        let ended = job.command(&["status", &run, "-o", "json"]);
        ended.expect_code(0);
        status = ended.json();
        status["mini_batches"]["succeeded"] == 2
    });
    assert_eq!((&status["state"], &status["reason"]), (&json!("running"), &Value::Null));
    assert_eq!((&status["mini_batches"]["scheduled"], &status["nodes"]), (&json!(3), &json!(1)));
    let result = job.command(&["result", &run]);
    result.expect_code(2);
    assert!(result.stderr.contains("running"), "{}", result.stderr);
    job.mark("go");
    job.has_completed(&submit.wait());
}

#[test]
fn the_result_of_a_failed_job_is_refused_with_its_reason() {
    let job = Job::new("def run(mini_batch):\n    return []\n").with_files(2);
    job.fails(&["no row"]);
    let run = job.run().path().display().to_string();
    let ended = job.command(&["result", &run, "--output-path", "fetched"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("failed") && ended.stderr.contains("no row"), "{}", ended.stderr);
    assert!(!job.path("fetched").exists());
    let status = job.command(&["status", &run, "-o", "json"]);
    status.expect_code(0);
    assert_eq!(status.json()["state"], "failed");
}

#[test]
fn a_list_of_no_runs_is_empty() {
    let job = job();
    let ended = job.command(&["list", "-o", "json"]);
    ended.expect_code(0);
    assert_eq!(ended.json()["jobs"], json!([]));
}

#[test]
fn a_run_is_canceled_from_another_terminal() {
    let job =
        Job::new(HOLDS).with_files(6).with("run_invocation_timeout", 600).with_own_variable("USER", "ana");
    let run = job.run().path().display().to_string();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("two held mini-batches", || job.marks("held").len() == 2);
    let watch = Stopwatch::start();
    let canceled = job.command(&["cancel", &run, "-o", "json"]);
    canceled.expect_code(0);
    assert!(watch.elapsed() < Duration::from_secs(2), "{:?}", watch.elapsed());
    let submitted = submit.wait();
    submitted.expect_code(130);
    assert_eq!(submitted.json(), canceled.json());
    let reason = canceled.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("canceled by ana@"), "{reason}");
    assert_eq!(job.run().first_line(), format!("canceled: {reason}"));
    assert!(!job.run().path().join("cancel").exists());
    job.has_left_nothing();

    let again = job.command(&["cancel", &run]);
    again.expect_code(2);
    assert!(again.stderr.contains("was canceled") && again.stdout.is_empty(), "{}", again.stderr);
    // A wish of long ago does not end what goes on.
    fs::write(job.run().path().join("cancel"), "bob@elsewhere").unwrap();
    job.mark("go");
    job.has_completed(&job.resume());
}

#[test]
fn a_run_is_followed_from_another_terminal() {
    let job = Job::new(HOLDS).with_files(6).with("run_invocation_timeout", 600);
    let run = job.run().path().display().to_string();
    let mut submit = job.start_submit(&[]);
    submit.wait_until("two held mini-batches", || job.marks("held").len() == 2);
    let mut left = job.start(&["stream", &run]);
    left.wait_until_said("] looking at 0");
    left.interrupt();
    let left = left.wait();
    left.expect_code(130);
    assert!(left.stdout.is_empty(), "{}", left.stdout);
    let mut stream = job.start(&["stream", &run, "-o", "json"]);
    stream.wait_until_said(".stdout] looking at 0");
    job.mark("go");
    let submitted = submit.wait();
    let streamed = stream.wait();
    let printed = job.has_completed(&submitted);
    streamed.expect_code(0);
    assert_eq!(streamed.json(), printed);
    assert!(streamed.stderr.contains("[master_role] "), "{}", streamed.stderr);
    let again = job.command(&["stream", &run, "-o", "json"]);
    again.expect_code(0);
    assert_eq!(again.json(), printed);
}

#[test]
fn a_former_run_is_run_again_with_changes() {
    let job = job().with("description", "five files");
    let printed = job.completes();
    let run = job.run().path().display().to_string();
    let shown = job.command(&["show", &run, "-o", "json"]);
    shown.expect_code(0);
    let shown = shown.json();
    assert_eq!((&shown["state"], &shown["spec"]["description"]), (&json!("completed"), &json!("five files")));
    let table = job.command(&["show", &run]);
    table.expect_code(0);
    assert!(table.stdout.contains("\ndescription: five files\n"), "{}", table.stdout);

    job.script("def run(mini_batch):\n    return ['changed']\n");
    let before = job.run().files("");
    let bad = job.command(&["resubmit", &run, "--set", "node_count=0", "--set", "run_max_tries=1"]);
    bad.expect_code(2);
    for part in ["--set node_count: \"0\" is out of range", "did you mean `run_max_try`?"] {
        assert!(bad.stderr.contains(part), "{part:?} is not said: {}", bad.stderr);
    }
    assert!(bad.stdout.is_empty() && !job.path("prs-runs").exists());
    job.command(&["resubmit", &run, "--detach"]).expect_code(2);
    job.command(&["resubmit", &run, "--run-dir", &run]).expect_code(2);
    let again =
        job.command(&["resubmit", &run, "--set", "mini_batch_size=1", "--run-dir", "again", "-o", "json"]);
    again.expect_code(0);
    let again = again.json();
    assert_ne!(again["job_id"], printed["job_id"]);
    assert_eq!(again["mini_batches"]["scheduled"], 5);
    assert_eq!(again["output"]["sha256"], printed["output"]["sha256"], "with the code of then");
    assert_eq!(job.run().files(""), before, "the former run is not touched");
    let third = job.command(&["resubmit", &run, "-o", "json"]);
    third.expect_code(0);
    let id = third.json()["job_id"].as_str().unwrap().to_owned();
    assert!(job.path("prs-runs").join(id).is_dir());
}

#[test]
fn validate_tells_of_a_script_what_its_processes_would_meet() {
    let table = [
        ("import no_such_module\ndef run(mini_batch):\n    return []\n", "No module named 'no_such_module'"),
        (
            "import os\nos._exit(5)\n",
            "the script cannot be imported: ProcessDied: the process ended by itself (returncode 5) while it imported the script",
        ),
    ];
    for (script, told) in table {
        let job = Job::new(script).with_files(2);
        job.write_job_file();
        let ended = job.command(&["validate", "job.yml"]);
        ended.expect_code(2);
        assert!(ended.stderr.contains(told) && ended.stdout.is_empty(), "{told}: {}", ended.stderr);
    }
    // What it prints is no data, and what it leaves running goes.
    let script = "import subprocess\nprint('hello')\nsubprocess.Popen(['sleep', '600'])\ndef run(mini_batch):\n    return []\n";
    let job = Job::new(script).with_files(2);
    job.write_job_file();
    let ended = job.command(&["validate", "job.yml"]);
    ended.expect_code(0);
    assert_eq!(ended.stdout.lines().last(), Some("ok"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("hello"), "{}", ended.stdout);
    job.has_left_nothing();
}

#[test]
fn what_a_fleet_may_have_is_not_missed_here() {
    let servers =
        [("PRS_BROKER_URL", "amqp://h"), ("PRS_REDIS_URL", "redis://h"), ("PRS_STORAGE_URL", "file:///h")];
    for (script, environment) in [
        ("def run(mini_batch):\n    return []\n", Some("/no/such/python")),
        ("import no_such_module\ndef run(b):\n    return []\n", None),
    ] {
        let mut job = Job::new(script).with_files(2);
        if let Some(environment) = environment {
            job.set("environment", environment);
        }
        let job = servers.iter().fold(job, |job, (name, value)| job.with_own_variable(name, value));
        job.write_job_file();
        let ended = job.command(&["validate", "job.yml"]);
        ended.expect_code(0);
        assert!(ended.stderr.contains("the script was not checked here"), "{}", ended.stderr);
        job.command(&["validate", "job.yml", "--local"]).expect_code(2);
    }
}

#[test]
fn what_show_prints_can_be_submitted_and_gives_the_same_bytes() {
    let echo =
        "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
    let rows = "def run(mini_batch):\n    return mini_batch\n";
    let arguments = json!(["--progress_update_timeout", "700", "--rate", "1e-3", "a: b", "--flag=x y"]);
    let files = Job::new(echo)
        .with_files(5)
        .with("arguments", arguments)
        .with("description", "five: files # no comment")
        .with("error_threshold", 3)
        .with_variable("ON", "yes");
    let tables = Job::new(rows)
        .with_tables(&[30, 20])
        .with("mini_batch_size", 300)
        .with("run_max_try", 2)
        .with("append_row_file_name", "rows.txt");
    for (job, result) in [(files, "parallel_run_step.txt"), (tables, "rows.txt")] {
        let printed = job.completes();
        let run = job.run().path().display().to_string();
        let shown = job.command(&["show", &run]);
        shown.expect_code(0);
        // Paths are absolute: it may lie anywhere.
        fs::create_dir(job.path("elsewhere")).unwrap();
        fs::write(job.path("elsewhere/shown.yml"), &shown.stdout).unwrap();
        let again = job.command(&["submit", "elsewhere/shown.yml", "--run-dir", "again", "-o", "json"]);
        again.expect_code(0);
        let again = again.json();
        assert_eq!(again["output"]["sha256"], printed["output"]["sha256"]);
        assert_eq!(again["mini_batches"], printed["mini_batches"]);
        assert!(job.path("again/output").join(result).is_file());
        let spec = |run: &str| {
            let mut spec = job.command(&["show", run, "-o", "json"]).json()["spec"].clone();
            // The other file gave them.
            spec.as_object_mut().unwrap().remove("origins");
            spec
        };
        assert_eq!(spec(&run), spec("again"), "{}", shown.stdout);
    }
}
