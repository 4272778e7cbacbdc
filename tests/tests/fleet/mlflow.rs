//! Deployments of `MLflow` models without a scoring script: from `prs model create` to rows, embedded, on a fleet and over HTTP. The
//! interpreter of the tests has `MLflow`, so no environment is made.

use std::fs;
use std::process::Command;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Ended, Fleet, Job, Web, bin_dir, expected_by_python, host_of, python};
use serde_json::{Value, json};

/// Stores a model that doubles the column `x`, and raises where that is negative.
const STORE: &str = r#"
import logging
import mlflow.pyfunc
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema

logging.getLogger("mlflow").setLevel(logging.ERROR)

class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        if (model_input["x"] < 0).any():
            raise ValueError("x is negative")
        return model_input["x"] * 2

signature = ModelSignature(inputs=Schema([ColSpec("long", "x"), ColSpec("string", "name")]))
mlflow.pyfunc.save_model("model", python_model=Model(), signature=signature, pip_requirements=["pandas"])
"#;
const ROWS: &str = "0,2,a.csv\n1,4,a.csv\n0,6,deep/c.csv\n0,8,z.CSV\n";
const WITHOUT_BAD: &str = "0,2,a.csv\n1,4,a.csv\n0,6,deep/c.csv\n";
const PATIENCE: Duration = Duration::from_mins(2);

/// A folder with a model, its deployment, and data of which one file makes the model raise where `has_bad`.
fn job(has_bad: bool) -> Job {
    let job = Job::new("").with_files(0);
    expected_by_python(&job.path("."), STORE);
    let write = |name: &str, text: &str| {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let deployment = format!(
        "type: model\nname: doubles\nmodel: azureml:doubles@latest\nenvironment: {}\nresources: {{instance_count: 1}}\n\
         settings:\n  mini_batch_size: 2\n  retry_settings: {{max_retries: 1}}\n  output_action: append_row\n  \
         output_file_name: predictions.csv\n",
        python().display()
    );
    write("deployment.yml", &deployment);
    write("scored/a.csv", "name,x,more\n01,1,y\n02,2,y\n");
    write("scored/deep/c.csv", "x,name\n3,z\n");
    if has_bad {
        write("scored/deep/bad.csv", "x,name\n-1,z\n");
    } else {
        write("scored/z.CSV", "x,name\n4,z\n");
    }
    fs::create_dir(job.path("runtime")).unwrap();
    let folder = |name: &str| job.path(name).display().to_string();
    let (cache, runtime) = (folder("cache"), folder("runtime"));
    job.with_own_variable("XDG_CACHE_HOME", &cache).with_own_variable("XDG_RUNTIME_DIR", &runtime)
}

fn ended(job: &Job, words: &str) -> Ended {
    job.command(&words.split_whitespace().collect::<Vec<_>>())
}

fn done(job: &Job, words: &str) -> String {
    let ended = ended(job, words);
    ended.expect_code(0);
    ended.stdout
}

fn refused(job: &Job, words: &str, part: &str) {
    let ended = ended(job, words);
    ended.expect_code(2);
    assert!(ended.stderr.contains(part), "{words}: {part:?} is not said: {}", ended.stderr);
}

fn deploy(job: &Job) {
    done(job, "model create --name doubles --type mlflow_model --path model");
    done(job, "endpoint create -n doubles");
    done(job, "deployment create -f deployment.yml -e doubles");
}

fn predictions(job: &Job, id: &str) -> String {
    fs::read_to_string(job.path(&format!("prs-runs/{id}/output/predictions.csv"))).unwrap()
}

#[test]
fn a_model_is_registered_deployed_and_called() {
    let job = job(false);
    deploy(&job);
    // What the registry has is enough.
    fs::remove_dir_all(job.path("model")).unwrap();
    let called: Value = serde_json::from_str(&done(&job, "invoke doubles --input scored -o json")).unwrap();
    assert_eq!(called["status"], "Completed", "{called}");
    assert_eq!(predictions(&job, called["name"].as_str().unwrap()), ROWS);
    // The file alone runs once, and over one file; the name of the file is all of its path then.
    done(&job, "submit deployment.yml --input scored/a.csv --job-name alone");
    assert_eq!(predictions(&job, "alone"), "0,2,a.csv\n1,4,a.csv\n");
    let shown = done(&job, "show alone");
    assert!(shown.contains("entry_script: azureml_user.parallel_run.score_mlflow\n"), "{shown}");

    // Files of other types fail the job before it runs anything.
    fs::write(job.path("scored/notes.txt"), "x").unwrap();
    fs::write(job.path("scored/b.avro"), "x").unwrap();
    let failed = ended(&job, "submit deployment.yml --input scored --job-name typed");
    assert_ne!(failed.code, Some(0));
    let path = job.path("scored/b.avro").display().to_string();
    let said = format!(
        "Error processing input file: '{path}'. File type 'avro' is not supported. 2 of 5 files have"
    );
    assert!(failed.stdout.contains(&said), "{}\n{}", failed.stderr, failed.stdout);
}

#[test]
fn a_file_that_fails_costs_its_own_rows_alone() {
    let job = job(true);
    deploy(&job);
    let arguments = ["invoke", "doubles", "--input", "scored", "--job-name", "some", "-o", "json"];
    let ended = job.command(&arguments);
    ended.expect_code(10);
    assert_eq!(predictions(&job, "some"), WITHOUT_BAD);
    let list = fs::read_to_string(job.path("prs-runs/some/output/failed_mini_batches.jsonl")).unwrap();
    let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [failed] = &lines[..] else { panic!("{list}") };
    assert_eq!((&failed["items_total"], &failed["items_missing"]), (&json!(2), &json!(1)));
    let tries = failed["tries"].as_array().unwrap();
    assert_eq!(tries.len(), 2, "{failed}");
    for told in tries {
        assert!(told.to_string().contains("deep/bad.csv: x is negative"), "{told}");
    }
    let errors = done(&job, "errors some");
    assert!(errors.contains("ValueError: ") && errors.contains("in predict"), "{errors}");
    // The threshold counts files.
    let set = "submit deployment.yml --input scored --set error_threshold=0 --job-name none";
    self::ended(&job, set).expect_code(42);
}

#[test]
fn what_cannot_be_scored_without_a_script_is_refused() {
    let job = job(false);
    done(&job, "endpoint create -n doubles");
    done(&job, "model create --name doubles --path model --type custom_model");
    let create = "deployment create -f deployment.yml -e doubles";
    refused(&job, create, "register it with --type mlflow_model");
    fs::create_dir(job.path("other")).unwrap();
    fs::write(job.path("other/MLmodel"), "flavors: {onnx: {}, keras: {}}\n").unwrap();
    done(&job, "model create --name other --path other --type mlflow_model");
    let said = "has no flavor python_function, which a deployment without a scoring script needs; it has onnx, keras";
    refused(&job, &format!("{create} --set model=azureml:other:1"), said);
    refused(&job, &format!("{create} --set model=other --set model.type=mlflow_model"), "model");
    fs::write(job.path("other/model.plan"), "x").unwrap();
    done(&job, "model create --name triton --path other/model.plan --type triton_model");
    refused(&job, &format!("{create} --set model=azureml:triton:1"), "it is a Triton model");
    done(&job, "model create --name doubles --path model --type mlflow_model");
    done(&job, create);
    let update = "deployment update -n doubles -e doubles --set model=azureml:other:1";
    refused(&job, update, said);
}

#[test]
fn a_model_of_a_fleet_is_scored_by_its_workers() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(false));
    deploy(&job);
    let _worker = fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache")));
    let ended = ended(&job, "invoke doubles --input scored --wait -o json");
    ended.expect_code(0);
    let id = ended.json()["name"].as_str().unwrap().to_owned();
    done(&job, &format!("job download -n {id} --output-name score -p copy"));
    let rows = fs::read_to_string(job.path("copy/named-outputs/score/predictions.csv")).unwrap();
    assert_eq!(rows, ROWS, "{}", fleet.story());
    // What would be uploaded is looked at before.
    fs::write(job.path("scored/b.avro"), "x").unwrap();
    refused(&job, "invoke doubles --input scored", "File type 'avro' is not supported. 1 of 4 files have");
}

#[test]
fn a_model_is_called_over_http() {
    let job = job(false);
    deploy(&job);
    done(&job, "dataset create --name scored --path scored --type uri_folder");
    let mut web = Web::start(&job, &[]);
    let path = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    let told: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    web.set_token(told["token"].as_str().unwrap());
    let input = json!({ "JobInputType": "UriFolder", "Uri": "azureml:scored:1" });
    let body = json!({ "properties": { "InputData": { "any": input } } }).to_string();
    let headers = [("Content-Type", "application/json")];
    let called = web.send("POST", "/endpoints/doubles/jobs", &headers, body.as_bytes()).json(202);
    let id = called["name"].as_str().unwrap();
    let status = wait_for("the job ends", PATIENCE, || {
        let job = web.get(&format!("/endpoints/doubles/jobs/{id}")).json(200);
        let status = job["status"].as_str().unwrap().to_owned();
        ["Completed", "Failed", "Canceled"].contains(&&*status).then_some(status)
    });
    assert_eq!(status, "Completed");
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/result")).text(), ROWS);
}

/// A script for `az ml`, in the shape of the samples that deploy a classifier of `MLflow`.
const AZURE_SCRIPT: &str = r#"
set -euo pipefail
ENDPOINT_NAME="heart-classifier"
DEPLOYMENT_NAME="classifier-xgboost-mlflow"
MODEL_NAME='heart-classifier-mlflow'
az ml model create --name $MODEL_NAME --type "mlflow_model" --path "model"
az ml batch-endpoint create -n $ENDPOINT_NAME
az ml batch-endpoint show -n $ENDPOINT_NAME
az ml batch-deployment create --file deployment.yml --name $DEPLOYMENT_NAME --endpoint-name $ENDPOINT_NAME --set model=azureml:$MODEL_NAME@latest --set-default
az ml batch-deployment show --name $DEPLOYMENT_NAME --endpoint-name $ENDPOINT_NAME
az ml data create --name heart-dataset-unlabeled --type uri_folder --path scored
DATASET=$(az ml data show -n heart-dataset-unlabeled --label latest --query name -o tsv)
JOB_NAME=$(az ml batch-endpoint invoke -n $ENDPOINT_NAME --input azureml:heart-dataset-unlabeled@latest --query name -o tsv)
az ml job show -n $JOB_NAME
az ml job stream -n $JOB_NAME
az ml job download --name $JOB_NAME --output-name score --download-path ./
JOB_NAME=$(az ml batch-endpoint invoke -n $ENDPOINT_NAME --deployment-name $DEPLOYMENT_NAME --input scored/a.csv --input-type uri_file --output-path ./mine --set output_file_name=mine.csv --query name -o tsv)
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
echo "of $DATASET: $STATUS"
az ml batch-endpoint delete --name $ENDPOINT_NAME --yes
"#;

#[test]
fn a_script_for_az_ml_deploys_a_model_without_code() {
    let job = job(false);
    fs::write(job.path("deploy-and-run.sh"), AZURE_SCRIPT).unwrap();
    let renamed = r"sed 's/az ml batch-endpoint/prs endpoint/; s/az ml batch-deployment/prs deployment/
        s/az ml \(job\|model\|data\|environment\|component\)/prs \1/' deploy-and-run.sh | bash";
    let path = std::env::var("PATH").unwrap_or_default();
    let ended = Command::new("bash")
        .args(["-c", renamed])
        .current_dir(job.path("."))
        .env("PATH", format!("{}:{path}", bin_dir().display()))
        .envs(job.own_variables())
        .output()
        .unwrap();
    let (out, told) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains(": Completed\n"), "{out}\n{told}");
    let read = |name: &str| fs::read_to_string(job.path(name)).unwrap();
    assert_eq!(read("named-outputs/score/predictions.csv"), ROWS);
    assert_eq!(read("mine/mine.csv"), "0,2,a.csv\n1,4,a.csv\n");
}
