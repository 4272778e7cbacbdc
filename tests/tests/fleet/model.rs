//! What scripts of Azure find around them: the model, stand-ins for packages, a place for `MLflow`.

use std::fs;
use std::process::Command;

use prs_tests::harness::{Fleet, Job};
use serde_json::{Value, json};

/// Returns what the expressions of the public scripts give, and what of the environment is for them.
const SCRIPT: &str = "
import glob, json, os
from azureml.core import Model, Run
def run(mini_batch):
    folder = os.environ['AZUREML_MODEL_DIR']
    name, = os.listdir(folder)
    path = os.path.join(folder, name)
    files = sorted(os.path.basename(file) for file in glob.glob(folder + '/*/*'))
    return [json.dumps({
        'name': name, 'files': files, 'same': Model.get_model_path(name) == path == Model.get_model_path('mnist'),
        'text': open(path if os.path.isfile(path) else path + '/weights.pt').read(),
        'run': Run.get_context().id == os.environ['AZUREML_RUN_ID'],
        'uri': os.environ['MLFLOW_TRACKING_URI'], 'experiment': os.environ['MLFLOW_EXPERIMENT_NAME'],
    })]
";

fn job() -> Job {
    let job = Job::new(SCRIPT).with_files(1);
    fs::create_dir_all(job.path("models/mnist")).unwrap();
    fs::write(job.path("models/mnist/weights.pt"), "of a folder").unwrap();
    fs::write(job.path("models/mnist.pkl"), "of a file").unwrap();
    job
}

fn told(row: &str) -> Value {
    serde_json::from_str(row).unwrap()
}

#[test]
fn a_folder_or_a_file_is_the_one_entry_of_the_model_folder() {
    let job = job().with("model", "models/mnist.pkl");
    job.completes();
    let told = told(&job.run().rows()[0]);
    assert_eq!(
        (&told["name"], &told["files"], &told["text"]),
        (&json!("mnist.pkl"), &json!([]), &json!("of a file"))
    );
    assert_eq!(
        (&told["same"], &told["run"], &told["experiment"]),
        (&json!(true), &json!(true), &json!("test-job"))
    );
    let tracked = job.run().path().join("logs/user/mlruns/0/process000");
    let other = tracked.with_file_name("process001");
    let uris = [tracked, other].map(|path| format!("file://{}", path.display()));
    assert!(uris.contains(&told["uri"].as_str().unwrap().to_owned()), "{told}");
    let file = job.write_job_file().display().to_string();
    let tried = job.command(&["try", &file, "-o", "json"]);
    tried.expect_code(0);
    assert!(tried.stdout.contains("of a file"), "{}", tried.stdout);
}

#[test]
fn what_the_job_sets_counts() {
    let job = job().with("model", "models/mnist").with("experiment_name", "mine");
    let job = job.with_variable("MLFLOW_TRACKING_URI", "http://127.0.0.1:1");
    job.with_variable("MLFLOW_EXPERIMENT_NAME", "ours").completes();
}

#[test]
fn a_model_that_is_not_there_is_refused_before_anything_runs() {
    job().with("model", "models/absent").is_refused(&["model: cannot read", "models/absent"]);
    job()
        .with("model", "azureml:mnist:1")
        .is_refused(&["model: there is no model mnist in the registry", "prs model create"]);
    job()
        .with("model", json!({"path": "models/mnist", "made": 1}))
        .is_refused(&["model.made: there is no such key"]);
}

/// A job for the workers of `target`.
fn on_fleet(fleet: &Fleet, target: &str) -> Job {
    fleet.job(job()).with("name", target).with("compute_target", target)
}

/// What the one row of a job says.
fn row_of(fleet: &Fleet, ended: &Value) -> Value {
    told(&String::from_utf8(fleet.stored(ended["job_id"].as_str().unwrap()).result()).unwrap())
}

#[test]
fn a_fleet_brings_the_model_to_its_workers() {
    let fleet = Fleet::apart();
    let mut job = on_fleet(&fleet, "model");
    fleet.s3.make_bucket("registry");
    fleet.s3.put_object("registry", "m/mnist.pkl", b"of an object");
    let worker = fleet.worker(&job, &["--target", "model"]);
    let mut ids = Vec::new();
    for (model, name, text) in
        [("models/mnist", "mnist", "of a folder"), ("s3://registry/m/mnist.pkl", "mnist.pkl", "of an object")]
    {
        job.set("model", model);
        let ended = fleet.completes(&job);
        let row = row_of(&fleet, &ended);
        assert_eq!((&row["name"], &row["text"], &row["same"]), (&json!(name), &json!(text), &json!(true)));
        ids.push(ended["job_id"].as_str().unwrap().to_owned());
    }
    assert!(fleet.stored(&ids[0]).text("logs/sys/node/0/_main.txt").contains("the model is here"));
    let shown = job.command(&["show", &ids[1]]).stdout;
    assert!(shown.contains("model: \"s3://registry/m/mnist.pkl\"\n"), "{shown}");

    // It stays as it was when the job was submitted, where this machine has another by now.
    fs::write(job.path("models/mnist/weights.pt"), "another").unwrap();
    let tried = job.command(&["try", &ids[0], "-o", "json"]);
    tried.expect_code(0);
    assert!(tried.stdout.contains("of a folder"), "{}", tried.stdout);
    let again = job.command(&["resubmit", &ids[0], "-o", "json"]).expect_completed();
    assert_eq!(row_of(&fleet, &again)["text"], "of a folder");
    worker.kill();
}

#[test]
fn a_fleet_has_the_model_where_the_job_says() {
    let fleet = Fleet::apart();
    let mut job = on_fleet(&fleet, "model-direct");
    let _worker = fleet.worker(&job, &["--target", "model-direct"]);
    job.set("model", json!({"path": job.path("models/mnist"), "mode": "direct"}));
    let ended = fleet.completes(&job);
    assert_eq!(row_of(&fleet, &ended)["text"], "of a folder");
    job.set("model", json!({"path": "models/absent", "mode": "direct"}));
    let ended = fleet.submit(&job);
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("the model ") && reason.contains("models/absent cannot be read: No such file"),
        "{reason}"
    );
}

#[test]
fn a_test_has_the_model_of_its_mini_batch() {
    let script = "
import os
from pathlib import Path
def run(mini_batch):
    return [Path(os.environ['AZUREML_MODEL_DIR'], 'mnist', 'weights.pt').read_text()] * len(mini_batch)
";
    let job = Job::new(script).with_files(1).with("model", "models/mnist");
    fs::create_dir_all(job.path("models/mnist")).unwrap();
    fs::write(job.path("models/mnist/weights.pt"), "weights").unwrap();
    job.write_job_file();
    let printed = job.command(&["try", "job.yml", "--pytest"]);
    printed.expect_code(0);
    let path = job.path("models/mnist").display().to_string();
    assert!(
        printed.stdout.contains(&format!("    testing.place_model({path:?}, tmp_path, monkeypatch)\n")),
        "{}",
        printed.stdout
    );
    fs::write(job.path("test_one.py"), printed.stdout).unwrap();
    let mut pytest = Command::new(prs_tests::harness::python());
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py"]).current_dir(job.path(""));
    let ended = pytest.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

#[test]
fn a_model_that_changed_ends_a_later_start_and_side_inputs_are_models_too() {
    let script = "
import os
from azureml.core import Model
def run(mini_batch):
    if '0000' in mini_batch[0] and os.path.exists(Model.get_model_path('switch') + '/fail'):
        raise ValueError('no')
    return [open(Model.get_model_path('mnist')).read()]
";
    let job = Job::new(script).with_files(2).with("mini_batch_size", 1).with("run_max_try", 1);
    let job = job.with("model", "mnist.pkl");
    fs::write(job.path("mnist.pkl"), "weights").unwrap();
    fs::create_dir(job.path("switch")).unwrap();
    fs::write(job.path("switch/fail"), "").unwrap();
    let job = job.with("side_inputs", json!({"switch": {"path": "switch", "mode": "direct"}}));
    assert_eq!(job.submit().code, Some(10));
    fs::remove_file(job.path("switch/fail")).unwrap();
    fs::write(job.path("mnist.pkl"), "other").unwrap();
    job.has_failed_again(&job.resume(), &["the model changed since the job was first started", "mnist.pkl"]);
}
