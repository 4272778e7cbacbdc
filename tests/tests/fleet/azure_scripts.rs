//! Scripts for `az ml` in the shape that Azure's samples have, each in a folder of `tests/samples`, run with nothing changed but the words
//! that docs/endpoints.md tells to change; on this machine, and on a fleet.

use std::fs;
use std::path::Path;
use std::process::Command;

use prs_tests::harness::{Fleet, Job, bin_dir, copy_folder};

/// What a sample's script needs to be one for prs.
const SUBSTITUTION: &str = r"s/az ml batch-endpoint/prs endpoint/g; s/az ml batch-deployment/prs deployment/g; s/az ml \(job\|model\|data\|environment\|component\)/prs \1/g";

/// Runs the script of a sample in a folder with its files.
fn runs(sample: &str, job: &Job) {
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(sample), &job.path("."));
    let path = std::env::var("PATH").unwrap_or_default();
    let ended = Command::new("bash")
        .args(["-c", &format!("sed '{SUBSTITUTION}' deploy-and-run.sh > script.sh && bash script.sh")])
        .current_dir(job.path("."))
        .env("PATH", format!("{}:{path}", bin_dir().display()))
        .envs(job.own_variables())
        .output()
        .unwrap();
    let (out, told) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{out}\n{told}");
    assert!(!fs::read_to_string(job.path("script.sh")).unwrap().contains("az ml"));
}

fn read(job: &Job, name: &str) -> String {
    fs::read_to_string(job.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn is_mnist(job: &Job) {
    runs("mnist", job);
    assert_eq!(read(job, "named.csv"), "1.txt,1,2\n2.txt,2,2\n3.txt,3,1\n");
    assert_eq!(read(job, "fetched/named-outputs/score/predictions.csv"), "1.txt,2\n2.txt,4\n3.txt,6\n");
}

fn is_custom_outputs(job: &Job) {
    runs("custom-outputs", job);
    let score = "fetched/named-outputs/score";
    let scored = r#"[{"age": "50", "pressure": "100", "prediction": 400}, {"age": "60", "pressure": "110", "prediction": 450}]"#;
    assert_eq!(read(job, &format!("{score}/a.json")), scored);
    assert_eq!(read(job, &format!("{score}/c.json")), "[]");
    assert!(!job.path(&format!("{score}/predictions.csv")).exists(), "summary_only has no rows");
}

fn is_hello_batch(job: &Job) {
    runs("hello-batch", job);
    assert_eq!(read(job, "fetched/named-outputs/greeting/greeting.txt"), "hello, batch\n");
    assert_eq!(read(job, "fetched-other/named-outputs/greeting/greeting.txt"), "good evening, batch\n");
}

/// A folder without anything.
fn empty() -> Job {
    let job = Job::new("").with_files(0);
    let cache = job.path("cache").display().to_string();
    job.with_own_variable("XDG_CACHE_HOME", &cache)
}

#[test]
fn mnist_runs_on_this_machine() {
    is_mnist(&empty());
}

#[test]
fn custom_outputs_run_on_this_machine() {
    is_custom_outputs(&empty());
}

#[test]
fn hello_batch_runs_on_this_machine() {
    is_hello_batch(&empty());
}

#[test]
fn the_same_scripts_run_on_a_fleet() {
    let fleet = Fleet::apart();
    let job = fleet.job(empty());
    let _worker = fleet.worker(&job, &[]);
    is_mnist(&job);
    let other = fleet.job(empty());
    is_custom_outputs(&other);
}
