//! Batch endpoints: `prs endpoint`, `prs deployment`, `prs invoke` and the verbs of `az ml job`, embedded and on a fleet.

use std::fs;
use std::process::Command;

use prs_tests::harness::{Ended, Fleet, Job, bin_dir, host_of};
use serde_json::{Value, json};

/// Says which weights it has.
const SCRIPT: &str = "
import os
def init():
    global weights
    folder = os.environ['AZUREML_MODEL_DIR']
    name, = os.listdir(folder)
    weights = open(os.path.join(folder, name, 'weights')).read()
def run(mini_batch):
    return [f'{os.path.basename(path)},{weights},{len(mini_batch)}' for path in mini_batch]
";

const DEPLOYMENT: &str = "
$schema: https://azuremlschemas.azureedge.net/latest/modelBatchDeployment.schema.json
name: xgb
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
settings: {mini_batch_size: 2, environment_variables: {API_KEY: hidden}}
";

const PIPELINE: &str = "
type: pipeline
inputs: {data: {type: uri_folder}, word: {type: string, default: slow}}
jobs:
  say:
    type: parallel
    mini_batch_size: '10'
    inputs: {d: {type: uri_folder, path: '${{parent.inputs.data}}'}}
    input_data: ${{inputs.d}}
    task:
      type: run_function
      code: ../words
      entry_script: words.py
      program_arguments: --word ${{parent.inputs.word}}
      append_row_to: ${{outputs.rows}}
    outputs: {rows: {type: uri_file}}
outputs: {rows: {type: uri_file}}
";

/// A folder with the files of a deployment, of a pipeline, and of data.
fn job() -> Job {
    let job = Job::new("").with_files(0);
    let write = |name: &str, text: &str| {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("src/score.py", SCRIPT);
    write("model/weights", "one");
    write("deployment.yml", DEPLOYMENT);
    write(
        "words/words.py",
        "import sys\ndef run(batch): return [sys.argv[sys.argv.index('--word') + 1] for _ in batch]\n",
    );
    write("pipe/pipeline.yml", PIPELINE);
    write("pipeline.yml", "type: pipeline\nname: words\ncomponent: pipe/pipeline.yml\n");
    for name in ["a", "b", "c"] {
        write(&format!("scored/{name}.txt"), name);
    }
    let cache = job.path("cache").display().to_string();
    job.with_own_variable("XDG_CACHE_HOME", &cache)
}

fn ended(job: &Job, words: &str) -> Ended {
    job.command(&words.split_whitespace().collect::<Vec<_>>())
}

fn made(job: &Job, words: &str) -> Value {
    let ended = ended(job, &format!("{words} -o json"));
    ended.expect_code(0);
    ended.json()
}

fn told(job: &Job, words: &str) -> String {
    let ended = ended(job, words);
    ended.expect_code(0);
    ended.stdout
}

fn refused(job: &Job, words: &str, part: &str) {
    let ended = ended(job, words);
    ended.expect_code(2);
    assert!(ended.stderr.contains(part), "{words}: {part:?} is not said: {}", ended.stderr);
    assert!(ended.stdout.is_empty(), "{words}: {}", ended.stdout);
}

#[test]
fn an_endpoint_is_called_with_data_and_keeps_its_name_over_its_deployments() {
    let job = job();
    let endpoint = made(&job, "endpoint create -n Heart --set tags.team=vision -g group -w space");
    assert_eq!((&endpoint["name"], &endpoint["tags"]["team"]), (&json!("Heart"), &json!("vision")));
    refused(&job, "invoke heart --input scored", "No deployment exists for this endpoint");
    let deployment = made(&job, "deployment create -f deployment.yml -e heart --set-default");
    assert_eq!((&deployment["revision"], &deployment["is_default"]), (&json!(1), &json!(true)));
    assert_eq!(deployment["definition"]["settings"]["environment_variables"]["API_KEY"], "***");
    // What it needs is kept: nothing of the folder is needed any more.
    fs::remove_dir_all(job.path("src")).unwrap();
    fs::remove_dir_all(job.path("model")).unwrap();

    let called = made(&job, "invoke heart --input scored");
    assert_eq!((&called["status"], &called["endpoint"]), (&json!("Completed"), &json!("Heart")));
    let id = called["name"].as_str().unwrap();
    assert!(called["id"].as_str().unwrap().ends_with(&format!("/jobs/{id}")));
    let rows =
        |id: &str| fs::read_to_string(job.path(&format!("prs-runs/{id}/output/predictions.csv"))).unwrap();
    assert_eq!(rows(id), "a.txt,one,2\nb.txt,one,2\nc.txt,one,1\n");

    // A change is a new revision; what ran keeps what it began with.
    let changed = made(&job, "deployment update -n xgb -e heart --set mini_batch_size=3");
    assert_eq!(
        (&changed["revision"], &changed["definition"]["code_configuration"]["code"]),
        (&json!(2), &json!("src"))
    );
    let id = told(&job, "endpoint invoke -n heart --input scored --job-name second --query name -o tsv");
    assert_eq!((id.as_str(), &*rows("second")), ("second\n", "a.txt,one,3\nb.txt,one,3\nc.txt,one,3\n"));
    refused(&job, "invoke heart --input scored --job-name second", "there is a job second already");
    assert_eq!(told(&job, "endpoint list-jobs -n heart --query [].status -o tsv"), "Completed\nCompleted\n");
    assert_eq!(told(&job, "deployment list-jobs -n XGB -e heart --query length(@)").trim(), "2");
    assert_eq!(told(&job, "job show -n second --query properties.status -o tsv"), "Completed\n");
    for (id, inputs) in [("json", "{\"data\":{\"path\":\"scored\"}}"), ("words", "data.path=scored")] {
        made(&job, &format!("invoke heart --job-name {id} --inputs {inputs}"));
        assert_eq!(rows(id), rows("second"));
    }
    refused(&job, "invoke heart --inputs data", "neither a mapping in JSON nor of the form NAME.KEY=VALUE");
    refused(&job, "compute create -n cpu --type amlcompute", "a fleet is made of prs worker processes");
    refused(&job, "job show -n second --web", "--web: no server is known");
    refused(&job, "job download -n second --web", "--web: no server is known");
    refused(&job, "job stream -n second --web", "--web: no server is known");
    told(&job, "job download -n second -p copy");
    assert_eq!(
        fs::read_to_string(job.path("copy/named-outputs/score/predictions.csv")).unwrap(),
        rows("second")
    );
    assert!(job.path("copy/artifacts/job_result.txt").is_file());

    refused(&job, "deployment create -f deployment.yml -e heart", "has a deployment xgb already");
    refused(&job, "invoke hearts --input scored", "did you mean Heart?");
    refused(&job, "invoke heart -d torch --input scored", "Deployment name torch not found");
    refused(&job, "invoke heart", "Input path can't be empty for batch endpoint invoke");
    refused(&job, "endpoint update -n heart --default torch", "Deployment name torch not found");
    refused(&job, "endpoint delete -n heart", "give --yes to delete endpoint Heart");
    told(&job, "endpoint delete -n heart --yes");
    refused(&job, "endpoint show -n heart --query name -o tsv", "does not exist");
    // The name is free at once, and its jobs are there.
    made(&job, "endpoint create -n heart");
    assert_eq!(told(&job, "list --endpoint heart --query jobs[].job_id -o tsv").lines().count(), 4);
}

#[test]
fn what_is_wrong_with_a_deployment_is_told_before_anything_is_kept() {
    let job = job();
    made(&job, "endpoint create -n heart");
    refused(&job, "deployment create -f deployment.yml", "give --endpoint-name");
    refused(&job, "deployment create -f deployment.yml -e hart", "endpoint hart does not exist");
    refused(&job, "deployment create -f deployment.yml -e heart -n x", "is not the name of a deployment");
    refused(
        &job,
        "deployment create -f deployment.yml -e heart --set settings.mini_batch_sice=3",
        "mini_batch_sice",
    );
    fs::write(job.path("src/score.py"), "def run(:").unwrap();
    refused(&job, "deployment create -f deployment.yml -e heart", "cannot be compiled");
    // An environment that is not made yet may have another Python, for which this is no Python either.
    let of_packages = DEPLOYMENT.replace("environment: local", "environment: {conda_file: conda.yml}");
    fs::write(job.path("packages.yml"), of_packages).unwrap();
    fs::write(job.path("conda.yml"), "dependencies: [python=3.12, pip, {pip: [six]}]\n").unwrap();
    refused(&job, "deployment create -f packages.yml -e heart", "cannot be compiled");
    fs::write(job.path("src/score.py"), "def init(): pass\ndef score(batch): pass\n").unwrap();
    for file in ["deployment.yml", "packages.yml"] {
        refused(&job, &format!("deployment create -f {file} -e heart"), "score.py has no function run()");
    }
    made(&job, "deployment create -f deployment.yml -e heart --skip-script-validation");
    fs::write(job.path("src/score.py"), SCRIPT).unwrap();
    assert_eq!(made(&job, "deployment create -f deployment.yml -e heart --overwrite")["revision"], 2);
    assert_eq!(told(&job, "model list --query length(@)").trim(), "1", "the same content is registered once");
    fs::write(job.path("model/weights"), "two").unwrap();
    made(&job, "deployment create -f deployment.yml -e heart -n other");
    assert_eq!(told(&job, "model list --query length(@)").trim(), "2");
    refused(&job, "invoke heart --input scored", "No valid deployments to route to");
    made(&job, "endpoint update -n heart --default other");
    refused(&job, "deployment delete -n other -e heart", "give --yes");
    told(&job, "deployment delete -n other -e heart --yes");
    assert_eq!(told(&job, "endpoint show -n heart --query deployments -o tsv"), "xgb\n");
}

#[test]
fn a_pipeline_is_called_with_inputs_by_their_names() {
    let job = job();
    made(&job, "endpoint create -n words-batch");
    made(&job, "deployment create -f pipeline.yml -e words-batch");
    fs::remove_dir_all(job.path("words")).unwrap();
    fs::write(
        job.path("call.yml"),
        "inputs:\n  data: {type: uri_folder, path: scored}\n  word: {type: string, default: fast}\n",
    )
    .unwrap();
    let called = made(&job, "invoke words-batch -f call.yml");
    assert_eq!(called["status"], "Completed", "{called}");
    refused(&job, "invoke words-batch -f call.yml -m 3", "it is for the deployment of a model");
    // A former job is a deployment, too.
    let id = called["name"].as_str().unwrap();
    fs::write(job.path("former.yml"), "type: pipeline\n").unwrap();
    let words =
        format!("deployment create -f former.yml -e words-batch -n former --set job_definition=azureml:{id}");
    assert_eq!(made(&job, &words)["definition"]["job_definition"], format!("azureml:{id}"));
    let again = made(&job, "invoke words-batch -d former -f call.yml --set inputs.word=new");
    assert_eq!(again["status"], "Completed", "{again}");
}

#[test]
fn an_endpoint_of_a_fleet_is_called_from_anywhere() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    made(&job, "endpoint create -n fleet-heart");
    made(&job, "deployment create -f deployment.yml -e fleet-heart");
    // Another machine has nothing of it but the data.
    let elsewhere = fleet.job(self::job());
    fs::remove_dir_all(elsewhere.path("src")).unwrap();
    let _worker = fleet.worker_with(&elsewhere, &[], &host_of(&elsewhere, &elsewhere.path("worker-cache")));
    let called = made(&elsewhere, "invoke fleet-heart --input scored --wait");
    assert_eq!((&called["status"], &called["deployment"]), (&json!("Completed"), &json!("xgb")));
    let id = called["name"].as_str().unwrap();
    told(&elsewhere, &format!("job download -n {id} --output-name score -p copy"));
    let rows = fs::read_to_string(elsewhere.path("copy/named-outputs/score/predictions.csv")).unwrap();
    assert_eq!(rows, "a.txt,one,2\nb.txt,one,2\nc.txt,one,1\n");
    // Nobody waits, unless that is asked for.
    let handed_in = made(&elsewhere, "invoke fleet-heart --input scored");
    let id = handed_in["name"].as_str().unwrap();
    told(&elsewhere, &format!("job stream -n {id}"));
    assert_eq!(told(&elsewhere, &format!("job show -n {id} --query status -o tsv")), "Completed\n");
}

/// A script for `az ml`, in the shape that Azure's samples have: deploy, call, wait, fetch, call again with other settings, clean up.
const AZURE_SCRIPT: &str = r#"
set -euo pipefail
ENDPOINT_NAME="mnist-batch"
az ml batch-endpoint create --file endpoint.yml --name $ENDPOINT_NAME
az ml batch-endpoint show --name $ENDPOINT_NAME
az ml batch-deployment create --file deployment.yml --name mnist-torch --endpoint-name $ENDPOINT_NAME --set-default --set compute=azureml:batch-cluster
az ml batch-deployment show --name mnist-torch --endpoint-name $ENDPOINT_NAME

JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --input ./scored --input-type uri_folder --query name -o tsv)
az ml job stream -n $JOB_NAME
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
if [[ $STATUS == "Completed" ]]; then echo "the first job completed"; else exit 1; fi

JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --input ./scored --output-path ./elsewhere --set output_file_name=named.csv --mini-batch-size 3 --instance-count 1 --query name -o tsv)
az ml job stream -n $JOB_NAME
az ml batch-endpoint list-jobs --name $ENDPOINT_NAME --query "[].name"
az ml batch-deployment list-jobs --name mnist-torch --endpoint-name $ENDPOINT_NAME --query "[0].{Name:name, Status:status}"

az ml model create --name registered --version 1 --path model --type custom_model
MODEL_NAME=$(az ml model list --name registered --query "[?version=='1'].name" -o tsv)
az ml batch-deployment create --file deployment.yml --name mnist-other --endpoint-name $ENDPOINT_NAME --set model=azureml:$MODEL_NAME:1
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --deployment-name mnist-other --input ./scored --query name -o tsv)
az ml job download --name $JOB_NAME --output-name score --download-path ./fetched
az ml batch-endpoint update --name $ENDPOINT_NAME --set defaults.deployment_name=mnist-other
DEFAULT=$(az ml batch-endpoint show --name $ENDPOINT_NAME --query "{Name:name, Default:defaults.deployment_name}" -o tsv)
echo "default: $DEFAULT"
az ml batch-deployment delete --name mnist-torch --endpoint-name $ENDPOINT_NAME --yes
az ml batch-endpoint delete --name $ENDPOINT_NAME --yes
if az ml model show --name absent --query id -o tsv; then exit 1; fi
"#;

#[test]
fn a_script_for_az_ml_runs_with_its_verbs_renamed() {
    let job = job();
    fs::write(job.path("endpoint.yml"), "auth_mode: aad_token\ndescription: digits\n").unwrap();
    let nouns = ["job", "model", "data", "environment", "component"];
    let script = AZURE_SCRIPT
        .replace("az ml batch-endpoint", "prs endpoint")
        .replace("az ml batch-deployment", "prs deployment");
    let script = nouns
        .iter()
        .fold(script, |script, noun| script.replace(&format!("az ml {noun}"), &format!("prs {noun}")));
    let path = std::env::var("PATH").unwrap_or_default();
    let ended = Command::new("bash")
        .args(["-c", &script])
        .current_dir(job.path("."))
        .env("PATH", format!("{}:{path}", bin_dir().display()))
        .envs(job.own_variables())
        .output()
        .unwrap();
    let (out, told) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{out}\n{told}");
    assert!(
        out.contains("the first job completed") && out.contains("default: mnist-other\tmnist-batch"),
        "{out}"
    );
    let read = |name: &str| fs::read_to_string(job.path(name)).unwrap();
    assert_eq!(read("elsewhere/named.csv"), "a.txt,one,3\nb.txt,one,3\nc.txt,one,3\n");
    assert_eq!(
        read("fetched/named-outputs/score/predictions.csv"),
        "a.txt,one,2\nb.txt,one,2\nc.txt,one,1\n"
    );
}
