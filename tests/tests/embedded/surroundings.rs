//! What a process of a job finds around it: arguments, environment, folders, `EntryScript`
//! (spec E11-E16).

use std::collections::BTreeSet;

use prs_tests::harness::Job;
use serde_json::{Value, json};

/// Returns what `$expression` gives as JSON, once for each mini-batch.
fn telling(preamble: &str, expression: &str) -> Job {
    let script = format!(
        r"
import json, os, sys
from azureml_user.parallel_run import EntryScript
from marks import mark, count, wait_for, is_marked
{preamble}

def run(mini_batch, context):
    return [json.dumps({expression})]
"
    );
    Job::new(&script).with_files(2)
}

fn told(job: &Job) -> Vec<Value> {
    job.completes();
    job.run().rows().iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

#[test]
fn arguments_follow_those_of_prs() {
    let arguments = json!(["--model", "a b", "--flag", "--number=5", "plain", "ünï"]);
    let job = telling("", "sys.argv").with("arguments", arguments.clone()).with("mini_batch_size", 7);
    let argv = told(&job).remove(0);
    let argv: Vec<&str> = argv.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(argv[0].ends_with("main.py"), "{argv:?}");
    let own: Vec<&str> = arguments.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let (before, after) = argv.split_at(argv.len() - own.len());
    assert_eq!(after, own, "the script's arguments are the last, untouched");
    let value = |name: &str| {
        let at = before
            .iter()
            .position(|one| *one == name)
            .unwrap_or_else(|| panic!("{name} is not in {before:?}"));
        before[at + 1]
    };
    assert_eq!(value("--mini_batch_size"), "7");
    assert_eq!(value("--logging_level"), "INFO");
    assert!(value("--output").starts_with('/'), "{before:?}");
}

#[test]
fn argparse_finds_both_kinds_of_arguments() {
    let preamble = r#"
import argparse

def init():
    global parsed
    parser = argparse.ArgumentParser()
    parser.add_argument("--mini_batch_size", type=int)
    parser.add_argument("--model")
    parsed, _ = parser.parse_known_args()
"#;
    let job = telling(preamble, "[parsed.mini_batch_size, parsed.model]")
        .with("arguments", json!(["--model", "m"]));
    assert_eq!(told(&job)[0], json!([2, "m"]));
}

#[test]
fn the_environment_is_the_jobs() {
    let job = telling("", "dict(os.environ)")
        .with_variable("MY_OWN", "with space = and \"quotes\"")
        .with_variable("EMPTY", "")
        .with_variable("OVERRIDDEN", "by the job")
        .with_own_variable("OVERRIDDEN", "by the shell")
        .with_own_variable("PYTHONPATH", "/somewhere/else");
    let job_id = job.completes()["job_id"].clone();
    let environment: Value = serde_json::from_str(&job.run().rows()[0]).unwrap();
    assert_eq!(environment["MY_OWN"], "with space = and \"quotes\"");
    assert_eq!(environment["EMPTY"], "");
    assert_eq!(environment["OVERRIDDEN"], "by the job");
    assert_eq!(environment["AZUREML_RUN_ID"], job_id);
    assert!(environment["AZUREML_BI_OUTPUT_PATH"].as_str().unwrap().starts_with('/'));
    assert_eq!(environment["AZ_BATCHAI_GPU_COUNT_FOUND"], "0");
    assert_eq!(environment.get("CUDA_VISIBLE_DEVICES"), None);
    assert!(
        environment["PYTHONPATH"].as_str().unwrap().contains("/somewhere/else"),
        "the user's path is kept"
    );
}

#[test]
fn each_process_has_folders_of_its_own() {
    let preamble = r#"
script = EntryScript()

def init():
    mark("started")
    while count("started") < 2:
        pass
    with open("mine", "w") as file:
        file.write(script.agent_name)
    facts = {"agent": script.agent_name, "node": script.node_id, "level": script.logging_level}
    facts["folders"] = [os.getcwd(), script.working_dir, script.log_dir, script.output_dir]
    facts["mine"] = open("mine").read()
    mark("facts", json.dumps(facts))
"#;
    let job = telling(preamble, "1");
    job.completes();
    let facts: Vec<Value> =
        job.marks("facts").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(facts.len(), 2);
    let mut agents = BTreeSet::new();
    let mut working = BTreeSet::new();
    let mut outputs = BTreeSet::new();
    for fact in &facts {
        assert_eq!((&fact["node"], &fact["level"]), (&json!(0), &json!("INFO")));
        assert_eq!(fact["mine"], fact["agent"], "the working directory is not shared");
        let folders: Vec<&str> =
            fact["folders"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        assert_eq!(folders[0], folders[1], "a process starts in its working directory");
        assert!(folders[2].ends_with("logs/user/entry_script_log/0"), "{folders:?}");
        agents.insert(fact["agent"].as_str().unwrap());
        working.insert(folders[1]);
        outputs.insert(folders[3]);
    }
    assert_eq!(agents, BTreeSet::from(["process000", "process001"]));
    assert_eq!((working.len(), outputs.len()), (2, 2));
    assert!(
        working.iter().all(|folder| !std::path::Path::new(folder).exists()),
        "they are gone after the job"
    );
}

#[test]
fn mini_batches_are_absolute_paths_that_keep_their_folders() {
    let job = telling("", "[mini_batch, [os.path.exists(path) for path in mini_batch]]")
        .with("mini_batch_size", 10);
    job.data("deep/er/file with space", "x");
    let rows = told(&job);
    let paths = ["0000.txt", "0001.txt", "deep/er/file with space"];
    let paths = paths.map(|name| job.path("data").join(name).display().to_string());
    assert_eq!(rows, [json!([paths, [true, true, true]])]);
}

#[test]
fn the_code_is_a_copy_that_the_script_cannot_spoil() {
    let preamble = "import sibling\n";
    let job = telling(preamble, "[sibling.WORD, os.path.dirname(sibling.__file__), sys.path[0]]");
    job.code("sibling.py", "WORD = 'beside'\n");
    let row = told(&job).remove(0);
    assert_eq!(row[0], "beside");
    assert_eq!(row[1], row[2], "the code directory is first on sys.path");
    assert_ne!(row[1], job.path("code").display().to_string());
    assert!(!job.path("code/__pycache__").exists(), "the user's own folder is not written to");
}

#[test]
fn the_active_virtual_environment_is_used_when_none_is_named() {
    let mut job = telling("", "sys.prefix");
    // A virtual environment of its own: told by its prefix.
    let venv = job.path("venv");
    let made = std::process::Command::new(prs_tests::harness::python())
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success());
    job.set("environment", Value::Null);
    let job = job.with_own_variable("VIRTUAL_ENV", &venv.display().to_string());
    assert_eq!(told(&job)[0], venv.display().to_string());
}

#[test]
fn profiling_writes_a_profile_for_each_process() {
    let job = telling("def work():\n    return sum(range(1000))\n", "work()")
        .with("arguments", json!(["--profiling_module", "cProfile"]));
    job.completes();
    let folder = job.run().path().join("logs/sys/node/0");
    let names: BTreeSet<_> = job.run().tries().into_iter().map(|row| row["Process"].clone()).collect();
    let profiles: Vec<_> = names.iter().map(|name| folder.join(format!("{name}.profile"))).collect();
    assert!(profiles.iter().all(|path| path.is_file()), "{:?}", job.run().files("logs/sys"));
    let code = profiles
        .iter()
        .map(|path| format!("pstats.Stats({:?}).print_stats('work')\n", path.display().to_string()));
    let code = format!("import pstats\n{}", code.collect::<Vec<_>>().concat());
    let text = prs_tests::harness::expected_by_python(&job.path("data"), &code);
    assert!(String::from_utf8_lossy(&text).contains("(work)"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn the_fault_handler_tells_where_a_process_crashed() {
    let preamble = "import ctypes\n";
    let job = telling(preamble, "ctypes.string_at(0)")
        .with_variable("PYTHONFAULTHANDLER", "true")
        .with("run_max_try", 1);
    job.fails(&["no row"]);
    let stderr = job.run().logs("user/stderr/0", ".txt");
    assert!(stderr.contains("Segmentation fault") && stderr.contains("main.py"), "{stderr}");
}
