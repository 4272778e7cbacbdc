//! Batch deployments with `submit`: scripts of the shapes of Azure's samples, each in a folder `tests/compat/deployment-*`
//! with what plain Python says of its result, `expected.py`; and what the command line adds for one run.

use std::fs;
use std::path::{Path, PathBuf};

use prs_tests::harness::{Ended, Fleet, Job, copy_compat, expected_by_python, made_once, python};
use serde_json::json;

/// The cases, and how many mini-batches each has. The last one is given its model on the command line.
const CASES: [(&str, u64, &[&str]); 7] = [
    ("own-parquet", 3, &[]),
    ("sibling-module", 3, &[]),
    ("generator", 3, &[]),
    ("base-name", 3, &[]),
    ("listdir", 5, &[]),
    ("mlflow-folder", 2, &[]),
    ("one-file", 2, &["--set", "model.path=made/model.pkl"]),
];

/// A fresh copy of a case, with its model and with what is expected of it in `expected/`.
fn case(name: &str) -> Job {
    let job = Job::new("");
    let name = format!("deployment-{name}");
    made_once(&name, &job.path("."), |case| make(&name, case));
    job
}

fn make(name: &str, case: &Path) {
    copy_compat(name, case);
    for folder in ["model", "made"] {
        let make = case.join(folder).join("make.py");
        if make.is_file() {
            expected_by_python(case, &fs::read_to_string(&make).unwrap());
            fs::remove_file(make).unwrap();
        }
    }
    let expected = case.join("expected.py");
    if expected.is_file() {
        fs::create_dir_all(case.join("expected")).unwrap();
        expected_by_python(case, &fs::read_to_string(expected).unwrap());
    }
}

fn environment() -> String {
    format!("environment={}", python().display())
}

fn submit(job: &Job, more: &[&str]) -> Ended {
    let environment = environment();
    let begin = ["submit", "deployment.yml", "-o", "json", "--set", &environment];
    job.command(&[&begin[..], more].concat())
}

/// The names of all files below `folder`, but those that prs has there for itself.
fn files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below)).unwrap() {
            let name = below.join(entry.unwrap().file_name());
            if folder.join(&name).is_dir() {
                open.push(name);
            } else {
                files.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

#[track_caller]
fn is_as_expected(job: &Job, output: &str) {
    let (expected, output) = (job.path("expected"), job.path(output));
    assert_eq!(files(&output), files(&expected));
    for name in files(&expected) {
        let [came, expected] = [&output, &expected].map(|folder| fs::read(folder.join(&name)).unwrap());
        let text = String::from_utf8_lossy(&came);
        assert!(came == expected, "{name}: {text}\n--\n{}", String::from_utf8_lossy(&expected));
    }
}

#[test]
fn scripts_of_samples_run_as_they_are() {
    for (name, mini_batches, more) in CASES {
        let job = case(name);
        let arguments = ["--input", "data", "--output-path", "out", "--run-dir", "run"];
        let ended = submit(&job, &[&arguments[..], more].concat());
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
        let printed = job.has_completed(&ended);
        assert_eq!(printed["mini_batches"]["succeeded"], mini_batches, "{name}: {printed}");
        is_as_expected(&job, "out");
    }
}

#[test]
fn scripts_of_samples_run_on_a_fleet() {
    let fleet = Fleet::apart();
    // The worker is ended with it.
    let host = fleet.job(Job::new(""));
    let _worker = fleet.worker(&host, &["--target", "deployments"]);
    // Files in the output, a model that is a folder, and one that is a file.
    let differ = ["own-parquet", "mlflow-folder", "one-file"];
    for (name, mini_batches, more) in CASES.into_iter().filter(|(name, ..)| differ.contains(name)) {
        let job = fleet.job(case(name));
        let arguments = ["--input", "data", "--output-path", "out", "--set", "compute=deployments"];
        let ended = submit(&job, &[&arguments[..], more].concat());
        assert_eq!(ended.code, Some(0), "{name}: {}\n{}", ended.stderr, fleet.story());
        assert_eq!(ended.json()["mini_batches"]["succeeded"], mini_batches);
        is_as_expected(&job, "out");
    }
}

#[test]
fn what_the_deployment_does_not_say_is_as_azure_has_it() {
    let job = case("one-file");
    let more = ["--input", "data", "--run-dir", "run", "--set", "model=./made/model.pkl"];
    let ended = submit(&job, &more);
    job.has_completed(&ended);
    is_as_expected_rows(&job);
    let shown = job.command(&["show", "run"]).stdout;
    for line in [
        "process_count_per_node: 1\n",
        "mini_batch_size: 10\n",
        "run_max_try: 4  # max_retries 3\n",
        "run_invocation_timeout: 30\n",
        "append_row_file_name: \"predictions.csv\"\n",
    ] {
        assert!(shown.contains(line) || shown.contains(&line.replace('"', "")), "{line}{shown}");
    }
}

/// The rows are those of the case, in the output of the run.
#[track_caller]
fn is_as_expected_rows(job: &Job) {
    assert_eq!(
        job.run().text("output/predictions.csv"),
        fs::read_to_string(job.path("expected/predictions.csv")).unwrap()
    );
}

#[test]
fn one_run_may_have_other_settings() {
    let job = case("sibling-module");
    let more =
        ["--input", "data/image-3.txt", "--input-type", "uri_file", "--run-dir", "run", "-m", "1", "-c", "1"];
    let set = ["--set", "retry_settings.max_retries=0", "--set", "retry_settings.timeout=55"];
    let set = [&set[..], &["--set", "output_file_name=other.csv", "--set", "max_concurrency_per_instance=3"]]
        .concat();
    let named = ["--job-name", "Nightly_Run", "--experiment-name", "nights", "--set", "logging_level=debug"];
    let ended = submit(&job, &[&more[..], &set, &named].concat());
    let printed = job.has_completed(&ended);
    assert_eq!((&printed["name"], &printed["items"]["total"]), (&json!("nightly-run"), &json!(1)));
    assert_eq!(job.run().text("output/other.csv"), "image-3.txt 0 4.285714285714286\n");
    let shown = job.command(&["show", "run"]).stdout;
    for line in [
        "mini_batch_size: 1\n",
        "run_max_try: 1  # max_retries 0\n",
        "run_invocation_timeout: 55\n",
        "process_count_per_node: 3\n",
        "logging_level: DEBUG\n",
        "experiment_name: nights\n",
    ] {
        assert!(shown.contains(line), "{line}{shown}");
    }
    // The data by name, and the file of the rows itself.
    let more = ["--set", "inputs.anything.path=data", "--set", "outputs.score.path=there/rows.csv"];
    let ended =
        submit(&job, &[&more[..], &["--set", "outputs.score.type=uri_file", "--run-dir", "run-2"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let rows = fs::read(job.path("there/rows.csv")).unwrap();
    assert_eq!(rows, fs::read(job.path("expected/predictions.csv")).unwrap());
    // What is there already is not replaced; a call of a deployment is never given a former output.
    let again =
        submit(&job, &[&more[..], &["--set", "outputs.score.type=uri_file", "--run-dir", "run-3"]].concat());
    again.expect_code(2);
    let anew = submit(&job, &["--input", "data", "--run-dir", "run-4"]);
    assert_eq!(anew.code, Some(0), "{}", anew.stderr);
    assert!(!anew.stderr.contains("former"), "{}", anew.stderr);
    assert!(job.path("run-4/output/predictions.csv").is_file());
}

#[test]
fn a_deployment_is_validated_and_tried() {
    let job = case("listdir");
    let environment = environment();
    let validated = job.command(&["validate", "deployment.yml", "--set", &environment]);
    validated.expect_code(0);
    assert!(validated.stdout.contains("not planned: no --input is given"), "{}", validated.stdout);
    let validated =
        job.command(&["validate", "deployment.yml", "--set", &environment, "--input", "data", "-o", "json"]);
    assert_eq!(validated.json()["mini_batches"], 5, "{}", validated.stderr);
    let tried =
        job.command(&["try", "deployment.yml", "--set", &environment, "--input", "data", "--item", "b.csv"]);
    tried.expect_code(0);
    assert!(tried.stdout.contains("\"of, b.csv\""), "{}", tried.stdout);
    let without = job.command(&["try", "deployment.yml", "--set", &environment]);
    without.expect_code(2);
    assert!(
        without.stderr.contains("--input: Input path can't be empty for batch endpoint invoke"),
        "{}",
        without.stderr
    );
}

#[test]
fn what_fails_is_counted_in_files_and_listed() {
    let job = case("one-file");
    fs::write(job.path("data/05.txt"), [0xff]).unwrap();
    let more = ["--input", "data", "--run-dir", "run", "--set", "model.path=made/model.pkl", "-m", "2"];
    let retries = ["--set", "retry_settings.max_retries=1", "--set", "error_threshold=1"];
    let ended = submit(&job, &[&more[..], &retries].concat());
    job.has_failed(&ended, &["more than error_threshold 1 allows"]);
    let listed = job.command(&["errors", "run"]);
    assert!(listed.stdout.contains("UnicodeDecodeError"), "{}\n{}", listed.stdout, listed.stderr);
}

#[test]
fn the_pipeline_of_a_deployment_runs_with_inputs_by_name() {
    let job = case("pipeline");
    let submit = |more: &[&str]| job.command(&[&["submit", "deployment.yml", "-o", "json"], more].concat());
    let ended = submit(&["--set", "inputs.input_data.path=data", "--run-dir", "run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["name"], "uci-classifier-prepare");
    assert_eq!(job.run().text("output/scores"), "a-0 3\na-1 6\na-2 9\nb-0 120\nb-1 150\n");
    let ended =
        submit(&["--set", "inputs.input_data.path=data", "--set", "inputs.factor=2", "--run-dir", "run-2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        fs::read_to_string(job.path("run-2/output/scores")).unwrap(),
        "a-0 2\na-1 4\na-2 6\nb-0 80\nb-1 100\n"
    );
    for (more, part) in [
        (&["--input", "data"][..], "--input: a pipeline has its inputs by name"),
        (
            &["-m", "3", "--set", "inputs.input_data.path=data"],
            "--mini-batch-size: it is for the deployment of a model",
        ),
        (&[], "the input is missing"),
        (
            &["--set", "job_definition=azureml:x"],
            "job_definition: component says what runs already: give one of the two",
        ),
    ] {
        let ended = submit(more);
        ended.expect_code(2);
        assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
    }
}

#[test]
fn data_that_a_deployment_cannot_take_are_refused() {
    let job = case("base-name");
    for (more, part) in [
        (&["--input", "absent"][..], "--input: cannot read absent: No such file"),
        (&["--input", "heart@latest"], "--input: there is no data heart in the registry"),
        (
            &["--input", "data", "--output-path", "abfss://secret@b/x"],
            "--output-path: an output cannot be put into abfss",
        ),
    ] {
        let ended = submit(&job, more);
        ended.expect_code(2);
        assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
        ended.has_no_data();
    }
    assert!(!job.path("prs-runs").exists());
    // A server is asked when there is a folder for what it lists.
    let ended = submit(&job, &["--input", "https://user:secret@127.0.0.1:1/x"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("https://127.0.0.1:1: x: no answer"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    // Options of a deployment are for deployments.
    fs::write(job.path("job.yml"), "name: job-1\nentry_script: x.py\ninputs: []\n").unwrap();
    let ended = job.command(&["submit", "job.yml", "--input", "data"]);
    ended.expect_code(2);
    assert!(ended.stderr.contains("--input: it is for batch deployments"), "{}", ended.stderr);
}
