//! Job files written for Azure Machine Learning, each in a folder of `tests/compat` with its script and its data: they run
//! as they are, and their results are compared with what the data say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prs_tests::harness::{Ended, Job, python};
use serde_json::json;

/// A job in a fresh copy of a folder of `tests/compat`.
fn job_of(case: &str) -> Job {
    let job = Job::new("");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat").join(case);
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(source.join(&folder)).unwrap() {
            let below = folder.join(entry.unwrap().file_name());
            let target = job.path(below.to_str().unwrap());
            if source.join(&below).is_dir() {
                fs::create_dir_all(target).unwrap();
                open.push(below);
            } else {
                fs::copy(source.join(&below), target).unwrap();
            }
        }
    }
    job
}

/// Submits a file of the job's folder with the tests' Python, under this key.
fn submit(job: &Job, file: &str, python_key: &str, more: &[&str]) -> Ended {
    let python = format!("{python_key}={}", python().display());
    job.command(&[&["submit", file, "--run-dir", "run", "-o", "json", "--set", &python], more].concat())
}

/// The text of each file of the data, by its path below their folder.
fn data(job: &Job) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let mut open = vec![job.path("data")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let below = path.strip_prefix(job.path("data")).unwrap().to_str().unwrap().to_owned();
                texts.insert(below, fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

#[test]
fn a_parallel_job_runs_as_it_is() {
    let job = job_of("parallel");
    let ended = submit(&job, "job.yml", "task.environment", &[]);
    let printed = job.has_completed(&ended);
    assert_eq!(printed["name"], "line-sums-v2");
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 3, "succeeded": 3, "failed": 0 }));
    let row = |(path, text): (&String, &String)| {
        let sum: u64 = text.lines().map(|line| line.parse::<u64>().unwrap()).sum();
        format!("{}|{}|sum of lines|True|one word # no comment|5|1|True\n", file_name(path), sum * 3)
    };
    let expected: String = data(&job).iter().map(row).collect();
    assert_eq!(fs::read_to_string(job.path("published/sums.txt")).unwrap(), expected);

    let result = job.run().text("logs/job_result.txt");
    for note in [
        "job.yml:7: identity: has no meaning here; ignored",
        "job.yml:23: resources.instance_type: has no meaning here; ignored",
        "job.yml:29: compute: azureml:cpu-cluster is a compute of Azure; the job is for the fleet `default`",
        "did you mean --resource_monitor_interval?",
    ] {
        assert!(
            ended.stderr.lines().any(|line| line.starts_with("note: ") && line.contains(note)),
            "{}",
            ended.stderr
        );
        assert_eq!(result.matches(note).count(), 1, "{result}");
    }
    let shown = job.command(&["show", "run"]);
    for line in
        ["display_name: Sums of lines\n", "run_max_try: 2  # max_retries 1\n", "allowed_failed_count: 2\n"]
    {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
}

#[test]
fn what_is_set_changes_the_document() {
    let job = job_of("parallel");
    let more =
        ["--set", "inputs.numbers.path=data/deep", "--set", "inputs.factor=2", "--set", "run_max_try=5"];
    let more = [&more[..], &["--set", "error_threshold=9", "--set", "outputs.sums.path=elsewhere/"]].concat();
    let ended = submit(&job, "job.yml", "task.environment", &more);
    job.has_completed(&ended);
    let expected = format!(
        "part-8.txt|{}|sum of lines|True|one word # no comment|9|1|True\n",
        (50..=55).sum::<u32>() * 2
    );
    assert_eq!(fs::read_to_string(job.path("elsewhere/sums")).unwrap(), expected);
    assert!(job.command(&["show", "run"]).stdout.contains("run_max_try: 5  # max_retries 4\n"));
}

#[test]
fn without_an_output_for_rows_the_script_writes_its_own_files() {
    let job = job_of("summary");
    let printed = job.has_completed(&submit(&job, "job.yml", "task.environment", &[]));
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 7, "succeeded": 7, "failed": 0 }));
    for (name, text) in data(&job) {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.reverse();
        assert_eq!(job.run().text(&format!("output/{name}")), lines.join("\n") + "\n");
    }
}

#[test]
fn a_pipeline_of_one_parallel_job_runs_as_that_job() {
    let job = job_of("pipeline");
    let ended = submit(&job, "pipeline.yml", "jobs.find_longest.task.environment", &[]);
    let printed = job.has_completed(&ended);
    assert_eq!(printed["name"], "longest-lines");
    assert_eq!(printed["mini_batches"]["scheduled"], 4);
    let longest = |text: &str| {
        let most = text.lines().map(str::len).max().unwrap();
        text.lines().find(|line| line.len() == most).unwrap().to_owned()
    };
    let texts = data(&job);
    let expected = texts.iter().map(|(path, text)| format!("{} {}", file_name(path), longest(text)));
    assert_eq!(job.run().text("output/longest").lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for note in [
        "pipeline.yml:6: settings.default_compute: azureml:batch-cluster",
        "jobs.find_longest.services: has no",
    ] {
        assert!(ended.stderr.contains(note), "{}", ended.stderr);
    }
}

#[test]
fn settings_among_the_arguments_of_a_native_job_count_and_reach_the_script() {
    let job = job_of("flags");
    let write = |text: String| fs::write(job.path("job.yml"), text).unwrap();
    let text = fs::read_to_string(job.path("job.yml")).unwrap();
    let text = format!("{text}environment: {}\n", python().display());
    write(text.replace("allowed_failed_count: 5", "allowed_failed_count: 6"));
    let refused = job.command(&["submit", "job.yml"]);
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("`allowed_failed_count: 6` and `--allowed_failed_count 5`"),
        "{}",
        refused.stderr
    );

    // One mini-batch of two files fails, which both thresholds allow.
    write(text.clone());
    let ended = job.command(&["submit", "job.yml", "--run-dir", "run", "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let printed = job.has_completed(&ended);
    assert_eq!(printed["items"], json!({ "total": 7, "succeeded": 5, "failed": 2 }));
    let texts = data(&job);
    let kept = texts.iter().filter(|(path, _)| !["part-3.txt", "part-4.txt"].contains(&path.as_str()));
    let expected = kept.map(|(path, text)| format!("{path} {} 4 5 compat\n", text.lines().count()));
    assert_eq!(job.run().text("output/parallel_run_step.txt"), expected.collect::<String>());
    assert!(
        ended.stderr.contains("(--metrics_name_prefix): has no meaning here; ignored"),
        "{}",
        ended.stderr
    );

    // The flag's threshold counts.
    write(text.replace("--error_threshold=4", "--error_threshold=1"));
    let failed = job.command(&["submit", "job.yml", "--run-dir", "second"]);
    failed.expect_code(42);
    assert!(failed.stdout.contains("more than error_threshold 1 allows"), "{}", failed.stdout);
}

#[test]
fn everything_wrong_with_a_parallel_job_is_said_at_once() {
    let job = job_of("parallel");
    let text = fs::read_to_string(job.path("job.yml")).unwrap();
    let text =
        text.replace("path: ./data", "path: azureml:numbers:1").replace("max_retries: 1", "max_retries: -1");
    let text = text.replace("entry_script: sums.py", "entry_scirpt: sums.py").replace("./code", "./cod");
    let text = text.replace("${{inputs.factor}}", "${{inputs.factr}}");
    let text = text.replace("--error_threshold 5", "--error_threshold five");
    fs::write(job.path("job.yml"), text).unwrap();
    let ended = job.command(&["validate", "job.yml"]);
    ended.expect_code(2);
    for part in [
        "job.yml:12: inputs.numbers.path: there is no data numbers in the registry",
        "job.yml:27: retry_settings.max_retries: -1 is out of range",
        "job.yml:34: task.code: cannot read",
        "job.yml:35: task.entry_scirpt: there is no such key: did you mean `entry_script`?",
        "job.yml:36: task.program_arguments: ${{inputs.factr}}: there is no input `factr`: did you mean `factor`?",
        "job.yml:37: task.program_arguments[7] (--error_threshold): \"five\" is not a whole number",
        "task.entry_script: the key is missing",
    ] {
        assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
    }
}

#[test]
fn side_inputs_and_outputs_of_a_step_are_where_it_says() {
    let job = job_of("side");
    let printed = job.has_completed(&submit(&job, "job.yml", "jobs.score.task.environment", &[]));
    assert_eq!(printed["mini_batches"], json!({ "scheduled": 3, "succeeded": 3, "failed": 0 }));
    let row = |number: u32| {
        let (label, fits) = (["even", "odd"][number as usize % 2], number * 2 <= 3);
        format!("{number}.txt {label} {}\n", if fits { "True" } else { "False" })
    };
    let at = |name: &str| fs::read_to_string(job.path("published").join(name)).unwrap();
    assert_eq!(at("scored.txt"), (0..5).map(row).collect::<String>());
    for number in 0..5_usize {
        assert_eq!(at(&format!("drawn/mini-batch-{}/{number}.txt", number / 2)), "*".repeat(number));
    }
    // The first in input order keeps the name.
    assert_eq!(at("notes"), "notes of 0");
    assert_eq!(at("notes.mb-0000000001"), "notes of 1");
    let folder = fs::read_dir(job.path("published/drawn")).unwrap();
    assert_eq!(folder.count(), 3, "nothing of a failed try is there");
}
