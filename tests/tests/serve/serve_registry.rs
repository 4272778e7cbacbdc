//! What is registered, over HTTP: versions of data, models, environments and components, and who uses them.

use std::fs;
use std::thread;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Web};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const YAML: (&str, &str) = ("Content-Type", "application/yaml");
const PATIENCE: Duration = Duration::from_mins(2);
const DEPLOYMENT: &str = "
type: model
model: {name: heart, path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
";
const COMPONENT: &str = "
name: prepare
type: command
inputs: {rows: {type: uri_folder}}
outputs: {out: {type: uri_folder}}
code: .
command: python prepare.py ${{inputs.rows}} ${{outputs.out}}
environment: azureml:sklearn@latest
";

/// A folder with data, a model and what a deployment needs.
fn job() -> Job {
    let job = Job::new("").with_files(3);
    let write = |name: &str, text: &str| {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("src/score.py", "def run(batch):\n    return batch\n");
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

fn served(job: &Job, options: &[&str]) -> Web {
    Web::of_user(job, options)
}

fn send(web: &Web, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let path = format!("/api/v1/registry/{path}");
    web.send(method, &path, &[&[JSON], headers].concat(), body.to_string().as_bytes())
}

fn get(web: &Web, path: &str) -> Answer {
    web.get(&format!("/api/v1/registry/{path}"))
}

/// A body of `multipart/form-data`.
fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--\r\n");
    body
}

#[test]
fn versions_are_created_seen_changed_and_deleted() {
    let job = job();
    let web = served(&job, &[]);
    let data = json!({ "type": "uri_folder", "path": "s3://bucket/hearts/", "tags": { "team": "vision" } });
    let at = "data/hearts/versions";
    let first = send(&web, "POST", at, &[], &data);
    assert_eq!(first.header("location"), Some("/api/v1/registry/data/hearts/versions/1"));
    let first = first.json(201);
    assert_eq!((&first["version"], &first["reference"]), (&json!("1"), &json!("azureml:hearts:1")));
    assert!(first["created_by"].is_string(), "{first}");
    assert_eq!(send(&web, "POST", at, &[], &data).json(200)["version"], "1", "the newest is the same");
    let next = json!({ "type": "uri_folder", "path": "s3://bucket/more/" });
    assert_eq!(send(&web, "POST", at, &[], &next).json(201)["version"], "2");
    let yaml = b"type: uri_folder\npath: s3://bucket/third/\n";
    assert_eq!(web.send("PUT", "/api/v1/registry/data/hearts/versions/third", &[YAML], yaml).status, 201);
    assert_eq!(web.send("PUT", "/api/v1/registry/data/hearts/versions/third", &[YAML], yaml).status, 200);
    let taken = send(&web, "PUT", "data/hearts/versions/third", &[], &next).json(409);
    assert_eq!(taken["type"], "/problems/version-exists");

    let names = get(&web, "data?tag=team:fraud").json(200);
    assert_eq!(names["value"], json!([]));
    let names = get(&web, "data?q=HEART").json(200);
    assert_eq!((&names["value"][0]["latest"], &names["value"][0]["versions"]), (&json!("third"), &json!(3)));
    let page = get(&web, "data/hearts?limit=2").json(200);
    assert_eq!((&page["value"][1]["version"], &page["total"]), (&json!("2"), &json!(3)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = get(&web, &format!("data/hearts?limit=2&cursor={cursor}")).json(200);
    assert_eq!((&rest["value"][0]["version"], &rest["next_cursor"]), (&json!("1"), &Value::Null));

    // What changes says what it expects.
    let one = "data/hearts/versions/1";
    let tag = get(&web, one).header("etag").unwrap().to_owned();
    let change = json!({ "labels": ["good"], "tags": { "team": null, "stage": "test" }, "archived": true });
    assert_eq!(send(&web, "PATCH", one, &[], &change).status, 428);
    let changed = send(&web, "PATCH", one, &[("If-Match", &tag)], &change);
    assert_eq!(changed.json(200)["tags"], json!({ "stage": "test" }));
    assert_eq!(send(&web, "PATCH", one, &[("If-Match", &tag)], &change).status, 412);
    assert_eq!(get(&web, "data/hearts/versions/@good").json(200)["version"], "1");
    let wrong = send(&web, "PATCH", one, &[("If-Match", "*")], &json!({ "path": "s3://b/x/" })).json(422);
    assert_eq!(wrong["type"], "/problems/immutable");
    let moved = json!({ "labels": ["good"] });
    send(&web, "PATCH", "data/hearts/versions/2", &[("If-Match", "*")], &moved).json(200);
    assert_eq!(get(&web, "data/hearts/versions/@good").json(200)["version"], "2");
    let latest = json!({ "labels": ["latest"] });
    assert_eq!(send(&web, "PATCH", one, &[("If-Match", "*")], &latest).status, 422);

    let absent = get(&web, "data/hearts/versions/9").json(404);
    assert!(absent["detail"].as_str().unwrap().contains("there are: third, 2, 1 (archived)"), "{absent}");
    assert!(get(&web, "data/heart").json(404)["detail"].as_str().unwrap().contains("did you mean hearts?"));
    assert_eq!(get(&web, "model").status, 404);
    for (body, status, part) in [
        (json!({ "type": "uri_folder", "path": "/etc" }), 422, "local path"),
        (json!({ "type": "uri_folder", "path": "../../../../x" }), 422, "local path"),
        (json!({ "type": "uri_folder" }), 422, "the path of the data is missing"),
        (json!({ "type": "uri_file", "path": "s3://bucket/a.csv" }), 422, "is of type uri_folder"),
        (json!({ "typ": "uri_folder", "path": "s3://b/x/" }), 422, "1 problem"),
        (json!({ "name": "other", "type": "uri_folder", "path": "s3://b/x/" }), 422, "other"),
        (json!([]), 400, "no object"),
    ] {
        let told = send(&web, "POST", at, &[], &body).json(status);
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains(part) && !detail.contains("staging"), "{body}: {told}");
    }

    // What a server fetches is within its reach.
    for path in ["s3://elsewhere/model/", "http://127.0.0.1:9/model.pkl"] {
        let told = send(&web, "POST", "models/far/versions", &[], &json!({ "path": path })).json(422);
        assert!(told["detail"].as_str().unwrap().contains("this server reads"), "{path}: {told}");
    }

    let delete = |headers: &[(&str, &str)]| {
        web.send("DELETE", &format!("/api/v1/registry/{one}"), headers, b"").status
    };
    assert_eq!((delete(&[]), delete(&[("If-Match", &tag)]), delete(&[("If-Match", "*")])), (428, 412, 204));
    assert_eq!(get(&web, one).status, 404);
    assert_eq!(send(&web, "PUT", one, &[], &data).json(409)["type"], "/problems/version-exists");
}

#[test]
fn a_version_in_use_stays_and_its_files_are_given() {
    let job = job();
    run(&job, "endpoint create -n hearts");
    run(&job, "deployment create -f deployment.yml -e hearts -n xgb");
    let mut web = served(&job, &[]);
    let version = "models/heart/versions/1";
    let shown = get(&web, version).json(200);
    assert_eq!(shown["used_by"]["deployments"], json!([{ "endpoint": "hearts", "deployment": "xgb" }]));
    let delete =
        |path: &str| web.send("DELETE", &format!("/api/v1/registry/{path}"), &[("If-Match", "*")], b"");
    let kept = delete(version).json(409);
    assert_eq!(kept["type"], "/problems/in-use");
    assert!(kept["detail"].as_str().unwrap().contains("deployment xgb of endpoint hearts"), "{kept}");
    let files = get(&web, &format!("{version}/files")).json(200);
    assert_eq!(files["value"][0]["path"], "model/weights");
    let path = format!("/api/v1/registry/{version}/files/model/weights");
    assert_eq!(web.get(&path).text(), "one");
    let part = web.send("GET", &path, &[("Range", "bytes=1-")], b"");
    assert_eq!((part.status, part.text()), (206, "ne".to_owned()));
    assert_eq!(get(&web, &format!("{version}/files/model/other")).status, 404);

    // A job that used data is told with it.
    run(&job, "dataset create --name rows --path data --type uri_folder");
    run(&job, "invoke hearts --input azureml:rows:1");
    wait_for("the list of jobs has it", PATIENCE, || {
        let used = get(&web, "data/rows/versions/1").json(200)["used_by"].clone();
        (used["jobs_total"] == 1).then_some(used)
    });

    let environment = json!({ "conda_file": { "dependencies": ["python=3.11", { "pip": ["six"] }] } });
    send(&web, "POST", "environments/sklearn/versions", &[], &environment).json(201);
    let code = job.path("code.tar.gz");
    fs::write(job.path("prepare.py"), "print('x')\n").unwrap();
    let tar = std::process::Command::new("tar")
        .args(["czf", code.to_str().unwrap(), "-C", job.path("").to_str().unwrap(), "prepare.py"])
        .status();
    assert!(tar.unwrap().success());
    let body = form(&[
        ("file", None, COMPONENT.as_bytes()),
        ("code", Some("code.tar.gz"), &fs::read(code).unwrap()),
    ]);
    let form_type = ("Content-Type", "multipart/form-data; boundary=b");
    let made =
        web.send("POST", "/api/v1/registry/components/prepare/versions", &[form_type], &body).json(201);
    assert_eq!(made["type"], "command");
    let without = form(&[("file", None, COMPONENT.replace("code: .", "code: ./elsewhere").as_bytes())]);
    let refused = web.send("POST", "/api/v1/registry/components/prepare/versions", &[form_type], &without);
    assert_eq!(refused.status, 422, "{}", refused.text());
    let uses = get(&web, "environments/sklearn/versions/1").json(200)["used_by"]["components"].clone();
    assert_eq!(uses, json!([{ "name": "prepare", "version": "1" }]));
    assert_eq!(delete("environments/sklearn/versions/1").status, 409);
    assert_eq!(
        (delete("components/prepare/versions/1").status, delete("environments/sklearn/versions/1").status),
        (204, 204)
    );

    // Who reads sees it all and changes nothing.
    let reader = run(&job, "token create reader --role read -q");
    web.set_token(reader.trim());
    assert_eq!(get(&web, version).status, 200);
    assert_eq!(send(&web, "POST", "data/x/versions", &[], &json!({})).status, 403);
    let submitter = run(&job, "token create submitter --role submit -q");
    web.set_token(submitter.trim());
    let deleted = web.send("DELETE", &format!("/api/v1/registry/{version}"), &[("If-Match", "*")], b"");
    assert_eq!(deleted.status, 403);
}

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const PAGE: (&str, &str) = ("Accept", "text/html");

#[test]
fn pages_show_what_is_registered_and_change_endpoints() {
    let job = job();
    run(&job, "endpoint create -n hearts");
    run(&job, "deployment create -f deployment.yml -e hearts -n xgb");
    run(&job, "deployment create -f deployment.yml -e hearts -n torch");
    let mut web = served(&job, &[]);
    let press = |web: &Web, path: &str, body: &str| web.send("POST", path, &[FORM, PAGE], body.as_bytes());
    let text = |web: &Web, path: &str| {
        let page = web.page(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        page.text()
    };
    assert!(text(&web, "/registry/models").contains("/registry/models/heart"));
    assert!(text(&web, "/registry/data").contains("prs dataset create"));
    assert!(text(&web, "/registry/models/heart").contains("@latest"));
    let version = text(&web, "/registry/models/heart/1");
    for part in ["deployment xgb", "azureml:heart:1", "files/model/weights", "Archive"] {
        assert!(version.contains(part), "{part} in {version}");
    }
    assert_eq!(web.page("/registry/models/none").status, 404);
    let tag = version.split("name=\"tag\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let archived = press(&web, "/registry/models/heart/1/archive", &format!("tag={tag}&archived=true"));
    assert_eq!(archived.header("location"), Some("/registry/models/heart/1"));
    assert_eq!(get(&web, "models/heart/versions/1").json(200)["archived"], true);
    let used = press(&web, "/registry/models/heart/1/delete", "typed=heart:1");
    assert!(used.status == 200 && used.text().contains("is used by"), "{}", used.text());

    // The default, what is said of it, and its end.
    press(&web, "/endpoints/hearts/default", "deployment=torch");
    let shown = web.get("/api/v1/endpoints/hearts").json(200);
    assert_eq!(shown["defaults"]["deployment_name"], "torch");
    let form = text(&web, "/endpoints/hearts/edit");
    let tag = form.split("name=\"tag\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let fields = |tag: &str| {
        let tag = tag.replace("&#34;", "%22").replace("&quot;", "%22");
        format!("tag={tag}&description=of+hearts&tags=team%3Dvision&default=xgb")
    };
    assert_eq!(press(&web, "/endpoints/hearts/edit", &fields(&tag)).status, 303);
    let again = press(&web, "/endpoints/hearts/edit", &fields(&tag));
    assert!(again.status == 200 && again.text().contains("meanwhile"), "{}", again.text());
    let shown = web.get("/api/v1/endpoints/hearts").json(200);
    assert_eq!(
        (&shown["tags"]["team"], &shown["defaults"]["deployment_name"]),
        (&json!("vision"), &json!("xgb"))
    );
    let kept = press(&web, "/endpoints/hearts/deployments/xgb/delete", "typed=xgb");
    assert!(kept.status == 200 && kept.text().contains("is the default"), "{}", kept.text());
    assert_eq!(press(&web, "/endpoints/hearts/deployments/torch/delete", "typed=torch").status, 303);
    assert_eq!(press(&web, "/endpoints/hearts/delete", "typed=heart").status, 200);
    // Who presses twice has what they wanted.
    for _ in 0..2 {
        assert_eq!(press(&web, "/endpoints/hearts/delete", "typed=hearts").status, 303);
    }
    assert_eq!(web.get("/api/v1/endpoints/hearts").status, 404);
    let made = press(&web, "/endpoints", "name=lungs&description=");
    assert_eq!(made.header("location"), Some("/endpoints/lungs"));
    let again = press(&web, "/endpoints", "name=lungs&description=");
    assert_eq!(again.header("location"), Some("/endpoints/lungs"));
    let twice = press(&web, "/endpoints", "name=lungs&description=others");
    assert!(twice.status == 200 && twice.text().contains("endpoint lungs exists"), "{}", twice.text());
    assert_eq!(press(&web, "/registry/models/heart/1/delete", "typed=heart:1").status, 303);

    let reader = run(&job, "token create reader --role read -q");
    web.set_token(reader.trim());
    assert!(!text(&web, "/endpoints/lungs").contains("Delete"));
    assert!(!text(&web, "/endpoints").contains("Create an endpoint"));
    assert_eq!(press(&web, "/endpoints", "name=other&description=").status, 403);
}

/// Creates versions of `name` from many sides at once, at these servers.
fn race(webs: &[&Web], name: &str) -> Vec<u64> {
    let path = format!("data/{name}/versions");
    let numbers = thread::scope(|scope| {
        let made: Vec<_> = (0..8)
            .map(|at| {
                let (web, path) = (webs[at % webs.len()], &path);
                let body = json!({ "type": "uri_folder", "path": format!("s3://bucket/{at}/") });
                scope.spawn(move || send(web, "POST", path, &[], &body).json(201)["version"].clone())
            })
            .collect();
        made.into_iter().map(|made| made.join().unwrap()).collect::<Vec<_>>()
    });
    let mut numbers: Vec<u64> = numbers.iter().map(|one| one.as_str().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn one_of_two_changes(web: &Web, path: &str) {
    let tag = get(web, path).header("etag").unwrap().to_owned();
    let statuses = thread::scope(|scope| {
        let tries = [0, 1].map(|at| {
            let (tag, body) = (tag.clone(), json!({ "description": format!("by {at}") }));
            scope.spawn(move || send(web, "PATCH", path, &[("If-Match", &tag)], &body).status)
        });
        let mut statuses = tries.map(|one| one.join().unwrap());
        statuses.sort_unstable();
        statuses
    });
    assert_eq!(statuses, [200, 412]);
}

#[test]
fn of_many_who_create_at_once_each_gets_a_version() {
    let job = job();
    let web = served(&job, &[]);
    assert_eq!(race(&[&web], "many"), (1..=8).collect::<Vec<_>>());
    one_of_two_changes(&web, "data/many/versions/3");
    let body = json!({ "type": "uri_folder", "path": "s3://bucket/keyed/" });
    let key = [("Idempotency-Key", "create-1")];
    let first = send(&web, "POST", "data/keyed/versions", &key, &body);
    let again = send(&web, "POST", "data/keyed/versions", &key, &body);
    assert_eq!((first.status, again.status, again.header("idempotency-replayed")), (201, 201, Some("true")));
    let other = json!({ "type": "uri_folder", "path": "s3://bucket/other/" });
    assert_eq!(send(&web, "POST", "data/keyed/versions", &key, &other).status, 422);
    assert_eq!(get(&web, "data/keyed").json(200)["total"], 1);
    let put = |path: &str| {
        let body = json!({ "type": "uri_folder", "path": path });
        send(&web, "PUT", "data/put/versions/3", &[], &body).status
    };
    let mut statuses = thread::scope(|scope| {
        let put = &put;
        ["s3://bucket/a/", "s3://bucket/b/"]
            .map(|path| scope.spawn(move || put(path)))
            .map(|one| one.join().unwrap())
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "one version 3");
}

#[test]
fn two_servers_of_a_fleet_share_what_is_registered() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let (one, other) = (served(&job, &[]), served(&job, &[]));
    assert_eq!(race(&[&one, &other], "of-two-servers"), (1..=8).collect::<Vec<_>>());
    one_of_two_changes(&other, "data/of-two-servers/versions/3");
    run(&job, "model create --name of-a-fleet --path model");
    let files = get(&other, "models/of-a-fleet/versions/@latest/files").json(200);
    assert_eq!(files["value"][0]["path"], "model/weights");
    let path = "/api/v1/registry/models/of-a-fleet/versions/1/files/model/weights";
    assert_eq!(one.get(path).text(), "one");
    let deleted =
        one.send("DELETE", "/api/v1/registry/models/of-a-fleet/versions/1", &[("If-Match", "*")], b"");
    assert_eq!((deleted.status, get(&other, "models/of-a-fleet").status), (204, 404));
}
