//! Registered models, environments and components: `prs model`, `prs environment`, `prs component`, embedded and on a fleet.

use std::fs;
use std::path::Path;
use std::process::Command;

use prs_tests::harness::{Ended, Fleet, Job, bring_packages, host_of};
use serde_json::{Value, json};

/// Says what is in the folder of the model, and what its files hold.
const SCRIPT: &str = "
import os
from azureml.core import Model
def run(mini_batch):
    folder = os.environ['AZUREML_MODEL_DIR']
    name, = os.listdir(folder)
    path = os.path.join(folder, name)
    text = open(path if os.path.isfile(path) else path + '/weights.pt').read()
    return [f\"{name} {text} {Model.get_model_path('mnist-model') == path}\"]
";

fn job() -> Job {
    let job = Job::new(SCRIPT).with_files(1);
    fs::create_dir_all(job.path("out/model")).unwrap();
    fs::write(job.path("out/model/weights.pt"), "one").unwrap();
    fs::write(job.path("out/model.pkl"), "two").unwrap();
    let cache = job.path("cache").display().to_string();
    job.with_own_variable("XDG_CACHE_HOME", &cache)
}

fn ended(job: &Job, words: &str, more: &[&str]) -> Ended {
    let words: Vec<&str> = words.split_whitespace().collect();
    job.command(&[&words, more].concat())
}

fn made(job: &Job, words: &str) -> Value {
    let ended = ended(job, words, &["-o", "json"]);
    ended.expect_code(0);
    ended.json()
}

fn refused(job: &Job, words: &str, part: &str) {
    let ended = ended(job, words, &[]);
    ended.expect_code(2);
    assert!(
        ended.stderr.contains(part) && ended.stdout.is_empty(),
        "{words}: {part:?} is not said: {}",
        ended.stderr
    );
}

#[test]
fn a_job_has_the_registered_model_under_its_own_name() {
    let mut job = job();
    let first = made(&job, "model create --name mnist-model --path out/model --tags a=1 b=2 --set stage=new");
    assert_eq!(
        (&first["version"], &first["type"], &first["stage"]),
        (&json!("1"), &json!("custom_model"), &json!("new"))
    );
    assert_eq!(first["tags"], json!({ "a": "1", "b": "2" }));
    let second = made(&job, "model create -n mnist-model --path out/model.pkl");
    assert_eq!(second["version"], "2");
    fs::remove_dir_all(job.path("out")).unwrap();
    for (name, run, row) in
        [("mnist-model:1", "one", "model one True"), ("mnist-model@latest", "two", "model.pkl two True")]
    {
        job.set("model", format!("azureml:{name}"));
        let file = job.write_job_file().display().to_string();
        ended(&job, "submit", &[&file, "--run-dir", run]).expect_code(0);
        let rows = fs::read_to_string(job.path(run).join("output/parallel_run_step.txt")).unwrap();
        assert_eq!(rows, format!("{row}\n"));
    }
    let shown = ended(&job, "show two", &[]).stdout;
    assert!(shown.contains("# azureml:mnist-model@latest was version 2 of model mnist-model: "), "{shown}");

    let updated = made(&job, "model update -n mnist-model --version 1 --set tags.a=3 description=x");
    assert_eq!(
        (&updated["tags"]["a"], &updated["description"], &updated["path"]),
        (&json!("3"), &json!("x"), &first["path"])
    );
    refused(&job, "model update -n mnist-model --set path=y", "a version does not change");
    // As scripts for az say it.
    let shown = made(&job, "model show -n mnist-model -v 1 -g group -w space");
    assert_eq!((&shown["version"], &shown["path"]), (&json!("1"), &first["path"]));
    refused(&job, "model show -n mnist-model --registry-name azureml", "there is one registry");
    let copied = made(&job, "model download -n mnist-model --version 1 --download-path copy");
    assert!(copied["path"].as_str().unwrap().ends_with("copy/mnist-model/model"), "{copied}");
    assert_eq!(fs::read_to_string(job.path("copy/mnist-model/model/weights.pt")).unwrap(), "one");
    refused(&job, "model download -n mnist-model --version 1 --download-path copy", "is not overwritten");
    made(&job, "model download -n mnist-model --download-path copy");
    assert_eq!(fs::read_to_string(job.path("copy/mnist-model/model.pkl")).unwrap(), "two");

    // The same content under the same version changes nothing, other content is refused.
    let again = made(&job, "model create -n mnist-model --version 1 --path copy/mnist-model/model");
    assert_eq!((&again["content"], &again["description"]), (&first["content"], &json!("x")));
    refused(
        &job,
        "model create -n mnist-model --version 1 --path copy/mnist-model/model.pkl",
        "with other content",
    );
    let listed = made(&job, "model archive -n mnist-model --version 2");
    assert_eq!(listed["assets"][0]["archived"], true);
    assert_eq!(made(&job, "model show -n mnist-model")["version"], "1");
    assert_eq!(made(&job, "model list")["assets"][0]["version"], "1");
    made(&job, "model restore -n mnist-model");
    assert_eq!(made(&job, "model list --name mnist-model")["assets"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_no_model_is_refused_with_the_remedy() {
    let job = job();
    refused(&job, "model show -n mnist", "there is no model mnist in the registry");
    refused(&job, "model create --path out/model", "the name of the model is missing");
    refused(&job, "model create -n mnist", "the path of the model is missing");
    refused(&job, "model create -n mnist --path out/modle", "model");
    refused(&job, "model create -n a/b --path out/model", "is not the name of a model");
    refused(&job, "model create -n mnist --type mlflow_model --path out/model", "has no file MLmodel");
    refused(
        &job,
        "model create -n mnist --type onnx --path out/model",
        "custom_model, mlflow_model, triton_model",
    );
    refused(&job, "model create -n mnist --path runs:/x/model", "a run of an MLflow server");
    refused(&job, "model create -n mnist --path azureml://jobs/none/outputs/x", "none");
    fs::write(job.path("model.yml"), "name: mnist\npath: out/model\nstaeg: x\n").unwrap();
    refused(
        &job,
        "model create -f model.yml",
        "model.yml:3: staeg: there is no such key: did you mean `stage`?",
    );
    made(&job, "model create -n mnist --path out/model");
    refused(&job, "model show -n mnits", "did you mean mnist?");
    refused(&job, "model show -n mnist --version 7", "there is no version 7 of model mnist; there are: 1");
    // A name of one kind is none of another.
    refused(&job, "dataset show -n mnist", "there is no data mnist");
    let job = job.with("model", "azureml:mnits@latest");
    job.is_refused(&["model: there is no model mnits in the registry", "did you mean mnist?"]);
}

#[test]
fn what_a_job_brought_becomes_a_model_and_an_input() {
    let script = "
import os
def run(mini_batch):
    folder = os.path.join(os.environ['AZUREML_BI_OUTPUT_PATH'], 'trained', 'best')
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, 'weights.pt'), 'w').write('learnt')
    return ['x']
";
    let trained = Job::new(script).with_files(1).with("outputs", json!({ "model": "trained" }));
    trained.completes();
    let id = fs::read_to_string(trained.run().path().join("job.json")).unwrap();
    let id = serde_json::from_str::<Value>(&id).unwrap()["job_id"].as_str().unwrap().to_owned();
    let runs = trained.path("runs");
    fs::create_dir(&runs).unwrap();
    fs::rename(trained.run().path(), runs.join(&id)).unwrap();
    let output = format!("azureml://jobs/{id}/outputs");
    let made = made(&trained, &format!("model create -n best --path {output}/model/paths/best --runs runs"));
    assert!(made["path"].as_str().unwrap().ends_with("/best/"), "{made}");
    assert_eq!(made["given"], format!("{output}/model/paths/best"));
    assert_eq!(
        fs::read_to_string(Path::new(made["path"].as_str().unwrap()).join("weights.pt")).unwrap(),
        "learnt"
    );
    refused(
        &trained,
        &format!("model create -n best --path {output}/modle --runs runs"),
        "has no output modle; there are: model, default",
    );
    refused(
        &trained,
        &format!("model create -n best --path {output}/model/paths/.. --runs runs"),
        "leads out",
    );
}

/// A deployment whose model and environment are registered.
#[test]
fn a_deployment_names_what_is_registered() {
    let job = job();
    fs::write(job.path("environment.yml"), "name: plain\nimage: mcr.microsoft.com/x\n").unwrap();
    let environment = ended(&job, "environment create -f environment.yml -o json", &[]);
    environment.expect_code(0);
    assert!(environment.stderr.contains("containers are not run"), "{}", environment.stderr);
    made(&job, "model create -n mnist-model --path out/model");
    let deployment = "name: scoring\nendpoint_name: numbers\ntype: model\nmodel: azureml:mnist-model@latest\n\
                      code_configuration: {code: code, scoring_script: main.py}\nenvironment: azureml:plain@latest\n";
    fs::write(job.path("deployment.yml"), deployment).unwrap();
    ended(&job, "submit deployment.yml --input data --run-dir run", &[]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("run/output/predictions.csv")).unwrap(), "model one True\n");
    fs::write(job.path("out/model/MLmodel"), "flavors: {python_function: {}}\n").unwrap();
    made(&job, "model create -n mnist-model --path out/model --type mlflow_model");
    let bare = deployment.lines().filter(|line| !line.starts_with("code_")).collect::<Vec<_>>().join("\n");
    fs::write(job.path("bare.yml"), bare).unwrap();
    // It is taken, and the input has a text.
    refused(&job, "validate bare.yml --input data", "File type 'txt' is not supported.");
    fs::write(job.path("deployment.yml"), deployment.replace("plain@latest", "plian:1")).unwrap();
    refused(&job, "validate deployment.yml", "environment: there is no environment plian in the registry");
}

/// Needs a package that the environment brings.
const WITH_TINY: &str = "\
def run(mini_batch):
    import tiny
    return [tiny.VALUE for _ in mini_batch]
";

#[test]
fn set_takes_a_registered_environment_as_the_file_does() {
    let job = Job::new(WITH_TINY).with_files(1).with("run_max_try", 1).with("error_threshold", 0);
    let job = job.with("allow_reuse", false);
    bring_packages(&job, "tiny==1.0\n");
    let host = host_of(&job, &job.path("cache"));
    let job = host.into_iter().fold(job, |job, (name, value)| job.with_own_variable(&name, &value));
    fs::write(
        job.path("packages/tiny.yml"),
        "name: tiny\nconda_file: {dependencies: [{pip: ['tiny==1.0']}]}\n",
    )
    .unwrap();
    made(&job, "environment create -f packages/tiny.yml");
    let file = job.write_job_file().display().to_string();
    let submit = |environment: &str, run: &str| {
        ended(&job, &format!("submit {file} --set environment={environment} --run-dir {run}"), &[])
    };
    let rows = |run: &str| fs::read_to_string(job.path(run).join("output/parallel_run_step.txt")).unwrap();
    let tells = |run: &str, version: &str| {
        let shown = ended(&job, &format!("show {run}"), &[]).stdout;
        assert!(shown.contains(&format!("was version {version} of environment tiny")), "{shown}");
    };
    submit("azureml:tiny@latest", "latest").expect_code(0);
    submit("packages/requirements.txt", "of-file").expect_code(0);
    for run in ["latest", "of-file"] {
        assert_eq!(rows(run), "7\n", "{run}");
    }
    tells("latest", "1");
    assert!(!ended(&job, "show of-file", &[]).stdout.contains("of environment"));
    fs::write(job.path("packages/tiny.yml"), "name: tiny\nconda_file: {dependencies: [{pip: ['tiny']}]}\n")
        .unwrap();
    made(&job, "environment create -f packages/tiny.yml");
    ended(&job, "resubmit latest --set environment=azureml:tiny@latest --run-dir again", &[]).expect_code(0);
    tells("again", "2");

    // Without the package it fails; the next start has it.
    ended(&job, &format!("submit {file} --run-dir failed"), &[]).expect_code(42);
    ended(&job, "resume failed --set environment=azureml:tiny:1", &[]).expect_code(0);
    assert_eq!(rows("failed"), "7\n");
    tells("failed", "1");
    for (command, environment, part) in [
        (
            "resubmit latest --run-dir no".to_owned(),
            "azureml:tiny:9",
            "--set environment: there is no version 9 of environment tiny; there are: 2, 1",
        ),
        (format!("submit {file} --run-dir no"), "azureml:tniy@latest", "did you mean tiny?"),
        (
            "try latest".to_owned(),
            "azureml://registries/azureml/environments/x/versions/1",
            "is an environment in Azure's registry azureml",
        ),
    ] {
        refused(&job, &format!("{command} --set environment={environment}"), part);
    }
}

/// Copies the pipeline of a deployment whose component is registered.
fn pipeline(job: Job) -> Job {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("compat/deployment-pipeline");
    for name in ["components", "data", "deployment.yml"] {
        let copied = Command::new("cp").arg("-r").arg(source.join(name)).arg(job.path("")).status().unwrap();
        assert!(copied.success());
    }
    let cache = job.path("cache").display().to_string();
    job.with_own_variable("XDG_CACHE_HOME", &cache)
}

#[test]
fn a_component_is_registered_with_all_that_it_needs() {
    let job = pipeline(Job::new("def run(x): return x"));
    let first = made(&job, "component create -f components/pipeline.yml");
    assert_eq!(
        (&first["name"], &first["version"], &first["type"]),
        (&json!("prepare_and_score"), &json!("1"), &json!("pipeline"))
    );
    let step = made(&job, "component create -f components/prepare/prepare.yml --version one");
    assert_eq!((&step["name"], &step["type"]), (&json!("prepare"), &json!("command")));
    // Nothing of it is needed any more.
    fs::remove_dir_all(job.path("components/score")).unwrap();
    fs::remove_file(job.path("components/prepare/prepare.py")).unwrap();
    let file = fs::read_to_string(job.path("deployment.yml")).unwrap();
    let named = file.replace("components/pipeline.yml", "azureml:prepare_and_score@latest");
    fs::write(job.path("deployment.yml"), &named).unwrap();
    let submit = "submit deployment.yml --set inputs.input_data.path=data --run-dir run";
    ended(&job, submit, &[]).expect_code(0);
    let rows = "a-0 3\na-1 6\na-2 9\nb-0 120\nb-1 150\n";
    assert_eq!(fs::read_to_string(job.path("run/output/scores")).unwrap(), rows);
    let shown = ended(&job, "show run", &[]).stdout;
    assert!(shown.contains("was version 1 of component prepare_and_score"), "{shown}");

    // As a step, beside another.
    let text = "type: pipeline\njobs:\n  first:\n    component: azureml:prepare:one\n    inputs: {data: {type: uri_folder, path: ./data}}\n  \
                again:\n    component: azureml:prepare_and_score:1\n    inputs: {input_data: {type: uri_folder, path: ./data}}\n    \
                outputs: {scores: '${{parent.outputs.all}}'}\noutputs: {all: {type: uri_file}}\n";
    fs::write(job.path("pipeline.yml"), text).unwrap();
    ended(&job, "submit pipeline.yml --run-dir steps", &[]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("steps/output/all")).unwrap(), rows);

    for (from, to, part) in [
        ("prepare_and_score@latest", "prepare_and_scor@latest", "did you mean prepare_and_score?"),
        (
            "prepare_and_score@latest",
            "prepare_and_score:7",
            "there is no version 7 of component prepare_and_score; there are: 1",
        ),
        ("prepare_and_score@latest", "prepare_and_score", "does not say which version"),
    ] {
        fs::write(job.path("bad.yml"), named.replace(from, to)).unwrap();
        refused(&job, "validate bad.yml --set inputs.input_data.path=data", part);
    }
    refused(&job, "component create -f pipeline.yml", "the name of the component is missing");
    refused(&job, "component create -f pipeline.yml -n x", "register it (prs dataset create)");
    refused(&job, "component create -f deployment.yml -n x", "there is no such key");
    // Damage is found, whatever it is.
    let content = first["path"].as_str().unwrap();
    let body = fs::read(content).unwrap();
    fs::write(content, &body[..body.len() / 2]).unwrap();
    refused(
        &job,
        "validate deployment.yml --set inputs.input_data.path=data",
        "is damaged: create another version",
    );
}

#[test]
fn a_fleet_has_models_environments_and_components_of_its_own() {
    let fleet = Fleet::apart();
    let mut job = fleet.job(job()).with("compute_target", "assets").with("name", "assets");
    let first = made(&job, "model create -n mnist-model --path out/model");
    assert!(first["path"].as_str().unwrap().contains("/registry/content/"), "{first}");
    fleet.s3.make_bucket("registered-models");
    fleet.s3.put_object("registered-models", "m/model/weights.pt", b"of a bucket");
    made(&job, "model create -n of-bucket --path s3://registered-models/m/model");
    refused(&job, "model create -n of-bucket --path s3://registered-models/m/none", "there is nothing at");
    // Two at once get versions of their own.
    let create = ["model", "create", "-n", "both", "--path", "out/model", "-o", "json"];
    let started = [job.start(&create), job.start(&create)];
    let versions: Vec<Value> = started.into_iter().map(|one| one.wait().json()["version"].clone()).collect();
    assert!(versions.contains(&json!("1")) && versions.contains(&json!("2")), "{versions:?}");
    fs::write(job.path("image.yml"), "name: plain\nimage: x\n").unwrap();
    made(&job, "environment create -f image.yml");
    fs::remove_dir_all(job.path("out")).unwrap();

    let _worker = fleet.worker(&job, &["--target", "assets"]);
    for (name, row) in [("mnist-model:1", "model one True"), ("of-bucket@latest", "model of a bucket False")]
    {
        job.set("model", format!("azureml:{name}"));
        job.script(&SCRIPT.replace(
            "Model.get_model_path('mnist-model') == path",
            "'mnist-model' in open(os.environ['PRS_MODELS']).read()",
        ));
        let told = fleet.completes(&job);
        let id = told["job_id"].as_str().unwrap();
        let rows = fleet.stored(id).text("output/parallel_run_step.txt");
        assert_eq!(rows, format!("{row}\n"));
        let again = format!("resubmit {id} --set allow_reuse=false --set environment=azureml:");
        ended(&job, &format!("{again}plain@latest"), &[]).expect_code(0);
        refused(&job, &format!("{again}plian@latest"), "there is no environment plian in the registry");
    }
    ended(&job, "model download -n of-bucket --download-path copy", &[]).expect_code(0);
    assert_eq!(fs::read_to_string(job.path("copy/of-bucket/model/weights.pt")).unwrap(), "of a bucket");

    let job = fleet.job(pipeline(Job::new("def run(x): return x")));
    made(&job, "component create -f components/pipeline.yml");
    fs::remove_dir_all(job.path("components")).unwrap();
    let text = fs::read_to_string(job.path("deployment.yml")).unwrap();
    let text = text.replace("components/pipeline.yml", "azureml:prepare_and_score@latest");
    fs::write(job.path("deployment.yml"), text.replace("batch-cluster", "assets")).unwrap();
    let done = ended(&job, "submit deployment.yml --set inputs.input_data.path=data -o json", &[]);
    done.expect_code(0);
    let id = done.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(fleet.stored(&id).text("output/scores"), "a-0 3\na-1 6\na-2 9\nb-0 120\nb-1 150\n");
}
