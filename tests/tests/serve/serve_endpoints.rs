//! Endpoints that a server takes calls for, in prs's own shapes and in those of Azure's REST.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Web, host_of};
use serde_json::{Value, json};

const SCRIPT: &str = "
import os
def init():
    global weights
    folder = os.environ['AZUREML_MODEL_DIR']
    weights = open(os.path.join(folder, 'model', 'weights')).read()
def run(mini_batch):
    return [f'{os.path.basename(path)},{weights},{len(mini_batch)}' for path in mini_batch]
";
const DEPLOYMENT: &str = "
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
settings: {mini_batch_size: 1, retry_settings: {max_retries: 0}}
";
const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A folder with an endpoint `heart`, whose deployment has the name `xgb`, and registered data `hearts`.
fn job() -> Job {
    let job = Job::new("").with_files(3);
    let write = |name: &str, text: &str| {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("src/score.py", SCRIPT);
    write("model/weights", "one");
    write("deployment.yml", DEPLOYMENT);
    fs::create_dir(job.path("runtime")).unwrap();
    let (runtime, cache) =
        (job.path("runtime").display().to_string(), job.path("cache").display().to_string());
    job.with_own_variable("XDG_RUNTIME_DIR", &runtime).with_own_variable("XDG_CACHE_HOME", &cache)
}

fn run(job: &Job, words: &str) -> String {
    let ended = job.command(&words.split_whitespace().collect::<Vec<_>>());
    ended.expect_code(0);
    ended.stdout
}

fn deploy(job: &Job) {
    run(job, "endpoint create -n heart");
    run(job, "deployment create -f deployment.yml -e heart -n xgb");
    run(job, "dataset create --name hearts --path data --type uri_folder");
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

fn post(web: &Web, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    web.send("POST", path, &[&[JSON], headers].concat(), body.to_string().as_bytes())
}

/// The body of a call of Azure's, with registered data.
fn azure(name: Option<&str>) -> Value {
    let input = json!({ "JobInputType": "UriFolder", "Uri": "azureml:hearts:1" });
    let mut properties = json!({ "InputData": { "any": input }, "miniBatchSize": 3 });
    if let Some(name) = name {
        properties["name"] = json!(name);
    }
    json!({ "properties": properties })
}

fn completed(web: &Web, path: &str) -> Value {
    wait_for("the job ends", PATIENCE, || {
        let job = web.get(path).json(200);
        ["Completed", "Failed", "Canceled"].contains(&job["status"].as_str().unwrap()).then_some(job)
    })
}

#[test]
fn a_caller_of_azure_changes_the_address_and_nothing_else() {
    let job = job();
    deploy(&job);
    let web = served(&job);
    let shown = web.get("/api/v1/endpoints/heart").json(200);
    assert!(shown["scoring_uri"].as_str().unwrap().ends_with("/endpoints/heart/jobs"), "{shown}");
    let scoring = "/endpoints/heart/jobs";
    let at = format!("{scoring}?api-version=2023-10-01");
    let answer = post(&web, &at, &[("azureml-model-deployment", "XGB")], &azure(None));
    let called = answer.json(202);
    let id = called["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert!(answer.header("location").unwrap().ends_with(&format!("{scoring}/{id}")));
    let ended = completed(&web, &format!("{scoring}/{id}"));
    assert_eq!(
        (&ended["status"], &ended["properties"]["status"]),
        (&json!("Completed"), &json!("Completed"))
    );
    let rows = web.get(&format!("/api/v1/jobs/{id}/result")).text();
    assert_eq!(rows, "0000.txt,one,3\n0001.txt,one,3\n0002.txt,one,3\n");
    assert_eq!(web.get(scoring).json(200)["value"].as_array().unwrap().len(), 1);
    wait_for("the list of jobs, which is a second old at most, has it", PATIENCE, || {
        let listed = web.get("/api/v1/jobs?endpoint=Heart").json(200);
        (listed["value"][0]["deployment"] == "xgb").then_some(())
    });

    // Commas that JSON does not have, and a name: who asks twice gets one job, and another may not have its name.
    let body = azure(Some("second")).to_string().replace("}}}", "},}}");
    let twice = [0; 2].map(|_| web.send("POST", scoring, &[JSON], body.as_bytes()).json(202));
    assert_eq!((&twice[0]["name"], &twice[1]["name"]), (&json!("second"), &json!("second")));
    let mut other = azure(Some("second"));
    other["properties"]["miniBatchSize"] = json!(1);
    let error = post(&web, scoring, &[], &other).json(409);
    assert!(
        error["error"]["message"].as_str().unwrap().contains("There is a job \"second\" already"),
        "{error}"
    );
    completed(&web, &format!("{scoring}/second"));

    let named = json!({ "inputs": { "any": { "path": "azureml:hearts:1" } }, "name": "second" });
    let taken = post(&web, "/api/v1/endpoints/heart/invoke", &[], &named).json(409);
    assert_eq!(taken["type"], "/problems/name-taken");
    for wrong in ["../second", "/etc", "a/b"] {
        let named = json!({ "inputs": { "any": { "path": "azureml:hearts:1" } }, "name": wrong });
        let refused = post(&web, "/api/v1/endpoints/heart/invoke", &[], &named).json(422);
        assert!(refused["errors"][0]["detail"].is_string(), "{refused}");
    }

    for (path, body, status, part) in [
        ("/endpoints/hart/jobs", azure(None), 404, "did you mean heart?"),
        (scoring, json!({}), 422, "Input path can't be empty"),
        (scoring, json!({ "properties": { "InputData": { "any": { "Uri": "x" } } } }), 400, "JobInputType"),
        (
            scoring,
            json!({ "properties": { "InputData": { "any": { "JobInputType": "UriFolder", "Uri": "/etc" } } } }),
            422,
            "local path",
        ),
    ] {
        let error = post(&web, path, &[], &body).json(status);
        let told = error["error"].to_string();
        assert!(told.contains(part), "{path} {body}: {part:?} is not said: {error}");
    }
    let error = web.get("/endpoints/heart/jobs/none").json(404);
    assert_eq!(error["error"]["code"], "UserError");
    let page = web.page("/endpoints/heart/jobs");
    assert_eq!((page.status, page.header("location")), (303, Some("/jobs?endpoint=heart")));
}

#[test]
fn a_call_with_a_key_is_one_job_and_a_token_sees_its_own() {
    let job = job();
    deploy(&job);
    let mut web = served(&job);
    run(&job, "endpoint create -n other");
    let token =
        |words: &str| run(&job, &format!("token create app --role invoke {words} -q")).trim().to_owned();
    let (own, foreign) = (token("--endpoint heart"), token("--endpoint other"));
    let call =
        json!({ "inputs": { "any": { "path": "azureml:hearts@latest" } }, "set": { "mini_batch_size": 3 } });
    let key = [("Idempotency-Key", "call-1")];

    web.set_token(&own);
    let path = "/api/v1/endpoints/heart/invoke";
    let first = post(&web, path, &key, &call).json(202);
    let again = post(&web, path, &key, &call);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json(202)["job_id"], first["job_id"]);
    let id = first["job_id"].as_str().unwrap();
    assert_eq!((&first["endpoint"], &first["deployment"]), (&json!("heart"), &json!("xgb")));
    completed(&web, &format!("/endpoints/heart/jobs/{id}"));
    assert!(web.get(&format!("/api/v1/jobs/{id}/result")).text().contains("0000.txt,one,3"));
    assert_eq!(web.get("/api/v1/endpoints").json(200)["value"].as_array().unwrap().len(), 1);
    assert_eq!(web.get("/api/v1/endpoints/other").status, 404);
    assert_eq!(post(&web, "/api/v1/endpoints/other/invoke", &[], &call).status, 404);
    // It lists its own calls, and of them sees how they stand and what they brought.
    let ids = |path: &str| -> Vec<String> {
        let listed = web.get(path).json(200);
        listed["value"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["job_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let of_endpoint = "/api/v1/endpoints/heart/jobs";
    let lists = ["/api/v1/jobs", of_endpoint, "/api/v1/endpoints/heart/deployments/xgb/jobs"];
    for path in lists {
        assert_eq!(ids(path), [id], "{path}");
    }
    for rest in ["", "/logs", "/outputs", "/output-preview", "/log-search?q=x", "/logs.tar.gz"] {
        assert_eq!(web.get(&format!("/api/v1/jobs/{id}{rest}")).status, 200, "{rest}");
    }
    for rest in
        ["/spec", "/code", "/code.tar.gz", "/errors", "/nodes", "/perf", "/statistics", "/tries", "/steps"]
    {
        assert_eq!(web.get(&format!("/api/v1/jobs/{id}{rest}")).status, 403, "{rest}");
    }
    for path in ["/api/v1/workers", "/api/v1/events", "/api/v1/registry/data"] {
        assert_eq!(web.get(path).status, 403, "{path}");
    }
    assert_eq!(web.get("/api/v1/endpoints/other/jobs").status, 404);
    let shown = web.get("/api/v1/endpoints/heart");
    assert_eq!(shown.json(200)["jobs_24h"], 1);

    // Another's job is not there.
    web.set_token(&foreign);
    assert_eq!(web.get("/api/v1/jobs").json(200)["value"], json!([]));
    assert_eq!(web.get(of_endpoint).status, 404);
    for path in [
        format!("/api/v1/jobs/{id}"),
        format!("/api/v1/jobs/{id}/result"),
        format!("/endpoints/heart/jobs/{id}"),
    ] {
        assert_eq!(web.get(&path).status, 404, "{path}");
    }
    assert_eq!(post(&web, &format!("/api/v1/jobs/{id}/cancel"), &[], &json!({})).status, 404);

    // Who may see all jobs sees those of an endpoint by its address, also of one without any, and of none that is not there.
    web.set_token(run(&job, "token create reader --role read -q").trim());
    let listed = web.get(&format!("{of_endpoint}?limit=1")).json(200);
    assert_eq!((&listed["total"], &listed["value"][0]["job_id"]), (&json!(1), &json!(id)));
    assert_eq!(web.get("/api/v1/endpoints/other/jobs").json(200)["total"], 0);
    assert_eq!(web.get("/api/v1/endpoints/none/jobs").status, 404);
    assert_eq!(web.get("/api/v1/endpoints/heart/deployments/none/jobs").status, 404);
    let odd = web.get(&format!("{of_endpoint}?endpoint=other"));
    assert_eq!(odd.json(400)["type"], "/problems/bad-parameter");
    let first = web.get("/api/v1/endpoints?limit=1");
    let link = first.header("link").unwrap().to_owned();
    let next = link.trim_start_matches('<').split('>').next().unwrap();
    assert!(next.starts_with("/api/v1/endpoints?limit=1&cursor="), "{link}");
    let second = web.get(next);
    assert_eq!((second.header("link"), &second.json(200)["value"][0]["name"]), (None, &json!("other")));
}

#[test]
fn an_endpoint_is_changed_by_who_has_seen_it() {
    let job = job();
    deploy(&job);
    let web = served(&job);
    let path = "/api/v1/endpoints/heart";
    let put = |headers: &[(&str, &str)], body: &Value| {
        web.send("PUT", path, &[&[JSON], headers].concat(), body.to_string().as_bytes())
    };
    assert_eq!(put(&[], &json!({})).status, 428);
    assert_eq!(put(&[("If-None-Match", "*")], &json!({})).status, 412);
    let seen = web.get(path);
    let tag = seen.header("etag").unwrap().to_owned();
    let body = json!({ "description": "of hearts", "defaults": { "deployment_name": "xgb" } });
    let changed = put(&[("If-Match", &tag)], &body);
    assert_eq!(changed.json(200)["defaults"]["deployment_name"], "xgb");
    assert_eq!(put(&[("If-Match", &tag)], &json!({})).status, 412, "it is another now");
    for no_object in [json!({ "nam": 1 }), json!([])] {
        let answer = put(&[("If-Match", changed.header("etag").unwrap())], &no_object);
        assert_eq!(answer.status, 400, "{no_object}: {}", answer.text());
    }
    let wrong = json!({ "defaults": { "deployment_name": "torch" } });
    let change = |headers: &[(&str, &str)], body: &Value| {
        web.send("PATCH", path, &[&[JSON], headers].concat(), body.to_string().as_bytes())
    };
    let refused = change(&[("If-Match", "*")], &wrong);
    assert_eq!(refused.status, 404);
    let team = json!({ "tags": { "team": "vision" } });
    assert_eq!((change(&[], &team).status, change(&[("If-Match", &tag)], &team).status), (428, 412));
    let seen = web.get(path).header("etag").unwrap().to_owned();
    let changed = change(&[("If-Match", &seen)], &team);
    assert_eq!(changed.json(200)["tags"]["team"], "vision");
    assert_eq!(web.get(path).header("etag"), changed.header("etag"));
    assert_eq!(web.get(&format!("{path}/deployments")).json(200)["value"][0]["name"], "xgb");
    assert_eq!(web.get(&format!("{path}/deployments/XGB")).json(200)["revision"], 1);
    let delete = |path: &str, headers: &[(&str, &str)]| web.send("DELETE", path, headers, b"").status;
    let (one, all) = (format!("{path}/deployments/xgb"), format!("{path}?yes=true"));
    let of_one = web.get(&one).header("etag").unwrap().to_owned();
    assert_eq!((delete(&one, &[]), delete(&one, &[("If-Match", &seen)])), (428, 412));
    assert_eq!((delete(&all, &[]), delete(&all, &[("If-Match", &seen)])), (428, 412));
    assert_eq!(delete(&one, &[("If-Match", &of_one)]), 204);
    assert_eq!(delete(&one, &[("If-Match", "*")]), 404, "it is gone");
    let seen = web.get(path).header("etag").unwrap().to_owned();
    assert_eq!(delete(path, &[("If-Match", &seen)]), 409, "it is not said that all goes");
    assert_eq!(delete(&all, &[("If-Match", &seen)]), 202);
    // What is told of one that is gone names no place of the server.
    let gone = web.get(path).json(404);
    let place = job.path("").display().to_string();
    assert!(!gone.to_string().contains(&*place), "{gone}");
}

/// The archive of the code, as bytes.
fn code(job: &Job) -> Vec<u8> {
    let path = job.path("code.tar.gz");
    let made = std::process::Command::new("tar")
        .args(["czf", path.to_str().unwrap(), "-C", job.path("").to_str().unwrap(), "src", "model"])
        .status();
    assert!(made.unwrap().success());
    fs::read(path).unwrap()
}

fn form(file: &str, code: &[u8]) -> Vec<u8> {
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
    let next = "\r\n--b\r\nContent-Disposition: form-data; name=\"code\"; filename=\"code.tar.gz\"\r\n\r\n";
    [head.as_bytes(), file.as_bytes(), next.as_bytes(), code, b"\r\n--b--\r\n"].concat()
}

#[test]
fn a_deployment_is_put_and_changed_by_who_has_seen_it() {
    let job = job();
    run(&job, "endpoint create -n heart");
    run(&job, "dataset create --name hearts --path data --type uri_folder");
    let web = served(&job);
    let path = "/api/v1/endpoints/heart/deployments/xgb";
    let form_type = ("Content-Type", "multipart/form-data; boundary=b");
    let put = |query: &str, headers: &[(&str, &str)], file: &str| {
        let body = form(file, &code(&job));
        web.send("PUT", &format!("{path}{query}"), &[&[form_type], headers].concat(), &body)
    };
    let create = ("If-None-Match", "*");
    assert_eq!(put("", &[], DEPLOYMENT).status, 428);
    let made = put("?set_default=true", &[create], DEPLOYMENT);
    let tag = made.header("etag").unwrap().to_owned();
    assert_eq!(made.header("location"), Some(path));
    let made = made.json(201);
    assert_eq!((&made["revision"], &made["is_default"]), (&json!(1), &json!(true)));
    assert!(!made.to_string().contains("staging"), "{made}");
    assert_eq!(web.get(path).header("etag"), Some(&*tag));
    assert_eq!(put("", &[create], DEPLOYMENT).status, 412);
    let call =
        json!({ "inputs": { "any": { "path": "azureml:hearts:1" } }, "set": { "mini_batch_size": 3 } });
    let called = post(&web, "/api/v1/endpoints/heart/invoke", &[], &call).json(202);
    let id = called["job_id"].as_str().unwrap();
    completed(&web, &format!("/endpoints/heart/jobs/{id}"));
    assert!(web.get(&format!("/api/v1/jobs/{id}/result")).text().contains("0000.txt,one,3"));

    let change_it = |headers: &[(&str, &str)], body: &Value| {
        web.send("PATCH", path, &[&[JSON], headers].concat(), body.to_string().as_bytes())
    };
    let change = json!({ "description": "of hearts", "settings": { "mini_batch_size": 5 } });
    assert_eq!(change_it(&[], &change).status, 428);
    let changed = change_it(&[("If-Match", &tag)], &change).json(200);
    assert_eq!((&changed["revision"], &changed["description"]), (&json!(2), &json!("of hearts")));
    assert_eq!(changed["definition"]["settings"]["mini_batch_size"], 5);
    assert_eq!(change_it(&[("If-Match", &tag)], &change).status, 412);
    assert_eq!(put("", &[("If-Match", &tag)], DEPLOYMENT).status, 412);
    for (body, status, pointer) in [
        (json!({ "name": "other" }), 422, ""),
        (json!({ "settings": { "mini_batch_siz": 5 } }), 422, "#/settings/mini_batch_siz"),
        (json!({ "settings": { "mini_batch_size": "many" } }), 422, "#/settings/mini_batch_size"),
        (json!({ "code_configuration": { "code": "/etc" } }), 422, "#"),
        (json!({ "tags": null }), 400, ""),
    ] {
        let told = change_it(&[("If-Match", "*")], &body).json(status);
        assert!(!told.to_string().contains("cache") && !told.to_string().contains("--set"), "{told}");
        assert_eq!(told["errors"][0]["pointer"].as_str().unwrap_or_default(), pointer, "{told}");
    }
    let broken = DEPLOYMENT.replace("score.py", "nothing.py");
    for (file, query, status, kind) in [
        (&*broken, "", 422, ""),
        (&*DEPLOYMENT.replace("environment: local", ""), "", 422, "environment-missing"),
        (&*DEPLOYMENT.replace("path: model", "path: /etc"), "", 422, "upload-missing"),
        ("type: model\nmodl: x\n", "?skip_script_validation=true", 422, "asset-file"),
    ] {
        let told = put(query, &[("If-Match", "*")], file).json(status);
        let told_kind = told["type"].as_str().unwrap();
        assert!(kind.is_empty() || told_kind == format!("/problems/{kind}"), "{file}: {told}");
    }
    fs::write(job.path("src/score.py"), "def run(batch:\n").unwrap();
    let told = put("", &[("If-Match", "*")], DEPLOYMENT).json(422);
    assert_eq!(told["type"], "/problems/scoring-script");
    fs::write(job.path("src/score.py"), SCRIPT).unwrap();
    let again = put("", &[("If-Match", "*")], DEPLOYMENT).json(200);
    assert_eq!((&again["revision"], &again["is_default"]), (&json!(3), &json!(true)));
    // Two who saw the same change it at once.
    let tag = web.get(path).header("etag").unwrap().to_owned();
    let mut statuses = std::thread::scope(|scope| {
        let (change_it, tag) = (&change_it, &tag);
        let change = |text: &'static str| {
            scope.spawn(move || change_it(&[("If-Match", tag)], &json!({ "description": text })).status)
        };
        [change("one"), change("two")].map(|one| one.join().unwrap())
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    let absent = "/api/v1/endpoints/none/deployments/xgb";
    let body = form(DEPLOYMENT, &code(&job));
    assert_eq!(web.send("PUT", absent, &[form_type, create], &body).status, 404);
}

#[test]
fn a_fleet_takes_calls_over_http() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let name = "fleet-calls";
    run(&job, &format!("endpoint create -n {name}"));
    run(&job, &format!("deployment create -f deployment.yml -e {name} -n xgb"));
    run(&job, "dataset create --name fleet-hearts --path data --type uri_folder");
    let _worker = fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache")));
    let web = served(&job);
    let call = json!({ "inputs": { "any": { "path": "azureml:fleet-hearts@latest" } } });
    let called = post(&web, &format!("/api/v1/endpoints/{name}/invoke"), &[], &call).json(202);
    let id = called["job_id"].as_str().unwrap();
    let ended = completed(&web, &format!("/endpoints/{name}/jobs/{id}"));
    assert_eq!(ended["status"], "Completed", "{ended}");
    assert!(web.get(&format!("/api/v1/jobs/{id}/result")).text().starts_with("0000.txt,one,1\n"));
    // Workers have Pythons of their own; what no Python takes is refused all the same.
    let headers = [("Content-Type", "multipart/form-data; boundary=b"), ("If-None-Match", "*")];
    for (script, said) in
        [("def run(batch:\n", "cannot be compiled"), ("def init(): pass\n", "has no function run()")]
    {
        fs::write(job.path("src/score.py"), script).unwrap();
        let path = format!("/api/v1/endpoints/{name}/deployments/broken");
        let told = web.send("PUT", &path, &headers, &form(DEPLOYMENT, &code(&job))).json(422);
        assert_eq!(told["type"], "/problems/scoring-script", "{told}");
        assert!(told.to_string().contains(said), "{told}");
    }
}
