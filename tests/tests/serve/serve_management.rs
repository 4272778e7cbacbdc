//! Endpoints, deployments and versions that scripts create by Azure's management REST, and a call of what came of it.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Job, Web};
use serde_json::{Value, json};

const SCRIPT: &str = "
import os
from weights import weights_in
def init():
    global weights
    weights = weights_in(os.path.join(os.environ['AZUREML_MODEL_DIR'], 'model'))
def run(mini_batch):
    return [f'{os.path.basename(path)},{weights}' for path in mini_batch]
";
const BESIDE: &str = "
import os
def weights_in(folder): return open(os.path.join(folder, 'weights')).read()
";
const PATIENCE: Duration = Duration::from_mins(2);
/// What scripts have before each address.
const WORKSPACE: &str =
    "/subscriptions/0-1/resourceGroups/rg/providers/Microsoft.MachineLearningServices/workspaces/ws";
const VERSION: &str = "?api-version=2023-10-01";

fn job() -> Job {
    let job = Job::new("").with_files(3);
    let write = |name: &str, text: &str| {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("src/score.py", SCRIPT);
    write("src/weights.py", BESIDE);
    write("model/weights", "one");
    fs::create_dir(job.path("runtime")).unwrap();
    let (runtime, cache) =
        (job.path("runtime").display().to_string(), job.path("cache").display().to_string());
    job.with_own_variable("XDG_RUNTIME_DIR", &runtime).with_own_variable("XDG_CACHE_HOME", &cache)
}

/// A server that the folder is shared with.
fn served(job: &Job) -> Web {
    let folder = job.path(".").canonicalize().unwrap().display().to_string();
    Web::of_user(job, &["--allow-path", &folder])
}

fn put(web: &Web, path: &str, body: &Value) -> Answer {
    let json = [("Content-Type", "application/json")];
    web.send("PUT", &format!("{path}{VERSION}"), &json, body.to_string().as_bytes())
}

fn error(answer: &Answer, status: u16, part: &str) {
    let error = answer.json(status);
    assert_eq!(error["error"]["code"], "UserError", "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains(part), "{part}: {error}");
}

#[test]
fn a_script_of_the_management_rest_deploys_and_calls() {
    let job = job();
    let web = served(&job);
    let at = |what: &str| format!("{WORKSPACE}/{what}");
    let folder = |name: &str| job.path(name).canonicalize().unwrap().display().to_string();

    let model = json!({ "properties": { "modelType": "CustomModel", "modelUri": folder("model"), "description": "one" } });
    let made = put(&web, &at("models/weights/versions/1"), &model).json(201);
    assert_eq!((&made["name"], &made["id"]), (&json!("1"), &json!(at("models/weights/versions/1"))));
    assert_eq!(made["properties"]["modelType"], "CustomModel", "{made}");
    put(&web, &at("models/weights/versions/1"), &model).json(200);
    let code = json!({ "properties": { "codeUri": folder("src") } });
    put(&web, &at("codes/score/versions/3"), &code).json(201);
    let data = json!({ "properties": { "dataType": "uri_folder", "dataUri": folder("data") } });
    put(&web, "/data/hearts/versions/1", &data).json(201);
    let shown = web.get(&at("data/hearts/versions/1")).json(200);
    assert_eq!(shown["properties"]["dataType"], "uri_folder", "{shown}");

    let endpoint = at("batchEndpoints/heart");
    let body = json!({ "location": "eastus", "tags": { "team": "vision" }, "properties": { "authMode": "aadToken" } });
    let made = put(&web, &endpoint, &body).json(201);
    assert!(made["properties"]["scoringUri"].as_str().unwrap().ends_with("/endpoints/heart/jobs"), "{made}");
    assert_eq!(
        (&made["tags"]["team"], &made["properties"]["authMode"]),
        (&json!("vision"), &json!("aadToken"))
    );
    let operation = made["properties"]["properties"]["AzureAsyncOperationUri"].as_str().unwrap();
    let operation = operation.strip_prefix(&web.url).unwrap();
    assert_eq!(web.get(&format!("{operation}{VERSION}")).json(200)["status"], "Succeeded");

    let deployment = format!("{endpoint}/deployments/xgb");
    let body = json!({ "location": "eastus", "properties": {
        "model": { "referenceType": "Id", "assetId": at("models/weights/versions/1") },
        "codeConfiguration": { "codeId": at("codes/score/versions/3"), "scoringScript": "score.py" },
        "environmentId": "local", "compute": at("computes/batch-cluster"), "resources": { "instanceCount": 1 },
        "maxConcurrencyPerInstance": "1", "miniBatchSize": "2", "errorThreshold": "10", "loggingLevel": "Info",
        "outputAction": "AppendRow", "retrySettings": { "maxRetries": 0, "timeout": "PT30S" },
    } });
    let made = put(&web, &deployment, &body).json(201);
    assert_eq!(made["properties"]["provisioningState"], "Succeeded", "{made}");
    let shown = web.get(&deployment).json(200);
    assert_eq!(shown["properties"]["codeConfiguration"]["scoringScript"], "score.py", "{shown}");
    assert_eq!(shown["properties"]["outputAction"], "AppendRow", "{shown}");
    put(&web, &deployment, &body).json(200);
    let body = json!({ "properties": { "defaults": { "deploymentName": "xgb" } } });
    assert_eq!(put(&web, &endpoint, &body).json(200)["properties"]["defaults"]["deploymentName"], "xgb");

    let input = json!({ "JobInputType": "UriFolder", "Uri": "azureml:hearts:1" });
    let body = json!({ "properties": { "InputData": { "any": input } } }).to_string();
    let json = [("Content-Type", "application/json")];
    let called = web.send("POST", "/endpoints/heart/jobs", &json, body.as_bytes()).json(202);
    let id = called["name"].as_str().unwrap();
    let ended = wait_for("the job ends", PATIENCE, || {
        let job = web.get(&format!("/endpoints/heart/jobs/{id}")).json(200);
        ["Completed", "Failed", "Canceled"].contains(&job["status"].as_str().unwrap()).then_some(job)
    });
    assert_eq!(ended["status"], "Completed", "{ended}");
    let rows = web.get(&format!("/api/v1/jobs/{id}/result")).text();
    assert_eq!(rows, "0000.txt,one\n0001.txt,one\n0002.txt,one\n");

    assert_eq!(web.ask_with("DELETE", &deployment, &[], "").status, 200);
    assert_eq!(web.ask_with("DELETE", &deployment, &[], "").status, 204);
    assert_eq!(web.ask_with("DELETE", &endpoint, &[], "").status, 200);
    error(&web.get(&endpoint), 404, "heart");
}

#[test]
fn what_it_refuses_it_refuses_in_azures_shape() {
    let job = job();
    let web = served(&job);
    let properties = |of: Value| json!({ "properties": of });
    error(&put(&web, "/batchEndpoints/heart", &json!({})), 400, "no properties");
    error(
        &put(&web, "/batchEndpoints/heart", &properties(json!({ "authMode": "key" }))),
        400,
        "is not known here",
    );
    error(&put(&web, "/models/m/versions/1", &properties(json!({ "modelUri": "/etc" }))), 422, "");
    error(&put(&web, "/computes/m/versions/1", &properties(json!({}))), 404, "no kind");
    error(&web.get("/codes/absent/versions/1"), 404, "absent");
    put(&web, "/batchEndpoints/heart", &properties(json!({}))).json(201);
    let code = json!({ "codeId": "/codes/absent/versions/1", "scoringScript": "score.py" });
    let body = properties(json!({ "codeConfiguration": code }));
    error(&put(&web, "/batchEndpoints/heart/deployments/xgb", &body), 404, "absent");
}
