//! What a server changes of jobs that are there: what people say of them, and that they go, one by one and several at a time.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Live, NAMES, Web};
use serde_json::{Value, json};

const SLOW: &str = r"
import os, time

def run(mini_batch):
    while os.path.exists(os.environ['HOLD']):
        time.sleep(0.05)
    return mini_batch
";

const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");
const FIELDS: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A job whose servers tell of themselves in a folder of its own.
fn job(script: &str, files: usize) -> Job {
    let job = Job::new(script).with_files(files).with("mini_batch_size", 1).with("run_max_try", 1);
    let folder = job.path("runtime");
    fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    let hold = job.path("hold").display().to_string();
    job.with_own_variable("XDG_RUNTIME_DIR", &folder).with("environment_variables", json!({ "HOLD": hold }))
}

fn submitted(job: &Job) -> String {
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    ended.json()["job_id"].as_str().unwrap().to_owned()
}

fn started(job: &Job) -> (Live, String) {
    fs::write(job.path("hold"), "").unwrap();
    let file = job.write_job_file().display().to_string();
    let id_file = job.path("id");
    let program = job.start(&["submit", &file, "-o", "json", "--id-file", &id_file.display().to_string()]);
    let id = wait_for("the job has an id", PATIENCE, || {
        fs::read_to_string(&id_file).ok().filter(|text| text.ends_with('\n'))
    });
    (program, id.trim().to_owned())
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &["--write-rate", "1000"])
}

fn token(job: &Job, name: &str, role: &str) -> String {
    let made = job.command(&["token", "create", name, "--role", role, "-o", "json"]);
    made.json()["secret"].as_str().unwrap().to_owned()
}

fn patch(web: &Web, id: &str, body: &Value) -> Answer {
    web.ask_with("PATCH", &format!("/api/v1/jobs/{id}"), &[JSON], &body.to_string())
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) -> Value {
    let problem = answer.json(status);
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
    problem
}

#[test]
fn what_is_said_of_a_job_is_changed_and_what_it_is_stays() {
    let job = job(NAMES, 2).with("tags", json!({ "team": "vision" }));
    let id = submitted(&job);
    let web = served(&job);
    let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    assert!(object["submitted_by"].as_str().unwrap().contains('@'), "{object}");
    assert_eq!((&object["phase"], &object["resubmitted_from"]), (&Value::Null, &Value::Null));
    assert_eq!((&object["tries"]["failed"], &object["planned"]), (&json!(0), &json!(true)), "{object}");
    for key in
        ["started_at", "thresholds", "notes", "waiting", "retried", "attention", "as_of", "stale_seconds"]
    {
        assert!(object.get(key).is_some(), "{key}: {object}");
    }
    let tag = web.get(&format!("/api/v1/jobs/{id}")).header("etag").unwrap().to_owned();
    let changed = patch(
        &web,
        &id,
        &json!({"display_name": "nightly", "description": "of the night", "tags": {"why": "a test"}, "keep_until": "2100-01-01T00:00:00Z"}),
    );
    let changed = changed.json(200);
    assert_eq!((&changed["display_name"], &changed["tags"]), (&json!("nightly"), &json!({"why": "a test"})));
    assert_eq!(changed["keep_until"], "2100-01-01T00:00:00.000000Z");
    assert_eq!((&changed["items"], &changed["output"]), (&object["items"], &object["output"]));
    assert_eq!(
        web.ask_with("GET", &format!("/api/v1/jobs/{id}"), &[("If-None-Match", &tag)], "").status,
        200
    );
    assert_eq!(job.command(&["status", &id, "-o", "json"]).json()["keep_until"], changed["keep_until"]);
    assert_eq!(web.get("/api/v1/jobs?tag=why:a%20test").json(200)["total"], 1, "the list knows it at once");
    // Values of one key are any of them, keys all of them.
    assert_eq!(web.get("/api/v1/jobs?tag=why:a%20test&tag=why:other").json(200)["total"], 1);
    assert_eq!(web.get("/api/v1/jobs?tag=why:a%20test&tag=odd:other").json(200)["total"], 0);
    assert_eq!(web.get("/api/v1/jobs?name=none&name=&tag=why:a%20test").status, 400, "one is empty");
    let back = patch(&web, &id, &json!({"description": null, "keep_until": null})).json(200);
    assert_eq!(
        (&back["description"], &back["keep_until"], &back["display_name"]),
        (&Value::Null, &Value::Null, &json!("nightly"))
    );
    assert_eq!(patch(&web, &id, &json!({})).json(200)["display_name"], "nightly");

    is_problem(&patch(&web, &id, &json!({"node_count": 2})), 400, "bad-request");
    is_problem(&patch(&web, &id, &json!({"tags": {"a": 5}})), 400, "bad-request");
    is_problem(&patch(&web, &id, &json!([])), 400, "bad-request");
    let problem = is_problem(&patch(&web, &id, &json!({"keep_until": "soon"})), 422, "bad-field");
    assert_eq!(problem["errors"][0]["pointer"], "#/keep_until");
    is_problem(&patch(&web, &id, &json!({"keep_until": "2001-01-01T00:00:00Z"})), 422, "bad-field");
    is_problem(&patch(&web, &id, &json!({"display_name": "x".repeat(300)})), 422, "bad-field");
    is_problem(
        &patch(&web, "nobody-20260101-000000-aaaa", &json!({"display_name": "x"})),
        404,
        "job-not-found",
    );
    is_problem(&web.ask_with("PATCH", &format!("/api/v1/jobs/{id}"), &[], "{}"), 415, "wrong-media-type");

    let update = job.command(&[
        "job",
        "update",
        "-n",
        &id,
        "--set",
        "display_name=by hand",
        "tags.team=rows",
        "tags.why=",
    ]);
    update.expect_code(0);
    let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    assert_eq!((&object["display_name"], &object["tags"]), (&json!("by hand"), &json!({"team": "rows"})));
    job.command(&["job", "update", "-n", &id, "--set", "node_count=2"]).expect_code(2);
}

#[test]
fn what_is_said_while_a_job_runs_is_there_at_its_end() {
    let job = job(SLOW, 3);
    let (program, id) = started(&job);
    let web = served(&job);
    wait_for("it runs", PATIENCE, || {
        let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
        (object["phase"] == "processing").then_some(())
    });
    patch(&web, &id, &json!({"display_name": "said meanwhile", "keep_until": "2100-01-01T00:00:00Z"}))
        .json(200);
    fs::remove_file(job.path("hold")).unwrap();
    program.wait().expect_completed();
    let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    assert_eq!((&object["state"], &object["display_name"]), (&json!("completed"), &json!("said meanwhile")));
    assert_eq!(object["keep_until"], "2100-01-01T00:00:00.000000Z", "{object}");
    assert_eq!(object["items"]["succeeded"], 3);
}

#[test]
fn own_jobs_are_removed_with_the_role_submit_and_those_of_others_are_not() {
    let job = job(NAMES, 1);
    let other = submitted(&job);
    let mut web = served(&job);
    web.set_token(&token(&job, "ana", "submit"));
    let again = web.ask_with("POST", &format!("/api/v1/jobs/{other}/resubmit"), &[JSON], "{}").json(201);
    let own = again["job_id"].as_str().unwrap();
    assert_eq!((&again["submitted_by"], &again["resubmitted_from"]), (&json!("ana"), &json!(other)));
    web.get(&format!("/api/v1/jobs/{own}?wait_for=ended&timeout=60"));
    let listed = web.get("/api/v1/jobs?submitted_by=ana").json(200);
    assert_eq!((&listed["total"], &listed["value"][0]["job_id"]), (&json!(1), &json!(own)), "{listed}");
    assert_eq!(listed["value"][0]["attention"], Value::Null);
    is_problem(&web.ask_with("DELETE", &format!("/api/v1/jobs/{other}"), &[], ""), 403, "forbidden");
    is_problem(
        &web.ask_with("DELETE", &format!("/api/v1/jobs/{own}?output=no"), &[], ""),
        400,
        "bad-parameter",
    );
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/jobs/{own}"), &[], "").status, 202);
    is_problem(&web.get(&format!("/api/v1/jobs/{own}")), 404, "job-not-found");
    is_problem(&web.ask_with("DELETE", &format!("/api/v1/jobs/{own}"), &[], ""), 404, "job-not-found");
    let left = job.path("prs-runs").join(own);
    assert!(left.join("output/parallel_run_step.txt").is_file(), "its output stays");
    assert!(!left.join("job.json").exists() && !left.join("logs").exists());
    web.set_token(&token(&job, "root", "admin"));
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/jobs/{other}?output=remove"), &[], "").status, 202);
    assert!(!job.path("prs-runs").join(&other).exists());
}

#[test]
fn an_output_that_is_registered_stays() {
    let job = job(NAMES, 1);
    let id = submitted(&job);
    let web = served(&job);
    let uri = web.get(&format!("/api/v1/jobs/{id}")).json(200)["output"]["uri"].as_str().unwrap().to_owned();
    let url = format!("file://{uri}");
    let made = job.command(&["dataset", "create", "--name", "rows", "--path", &url, "-o", "json"]);
    // What is local is copied into the registry, and needs the output no more.
    let stays =
        made.code == Some(0) && made.json()["path"].as_str().is_some_and(|path| path.starts_with(&uri));
    let removed = web.ask_with("DELETE", &format!("/api/v1/jobs/{id}?output=remove"), &[], "");
    if stays {
        is_problem(&removed, 409, "output-in-use");
    } else {
        assert_eq!(removed.status, 202);
    }
}

#[test]
fn a_fleet_keeps_what_is_said_and_the_output_of_a_job_that_is_removed() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(SLOW, 2));
    fs::write(job.path("hold"), "").unwrap();
    let worker = fleet.worker(&job, &[]);
    let id = fleet.hand_in(&job);
    let web = served(&job);
    patch(&web, &id, &json!({"display_name": "said meanwhile"})).json(200);
    fs::remove_file(job.path("hold")).unwrap();
    let ended = wait_for("it ends", PATIENCE, || {
        let seen = web.get(&format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60")).json(200);
        (seen["ended_at"] != Value::Null).then_some(seen)
    });
    assert_eq!((&ended["state"], &ended["display_name"]), (&json!("completed"), &json!("said meanwhile")));
    assert_eq!(ended["canceled_by"], Value::Null);
    patch(&web, &id, &json!({"display_name": "said later"})).json(200);
    let listed = web.get(&format!("/api/v1/jobs?q={id}")).json(200);
    assert_eq!(listed["value"][0]["display_name"], "said later", "{listed}");
    let output = ended["output"]["uri"].as_str().unwrap().to_owned();
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/jobs/{id}"), &[], "").status, 202);
    is_problem(&web.get(&format!("/api/v1/jobs/{id}")), 404, "job-not-found");
    let objects = fleet.stored(&id).keys();
    assert!(objects.iter().any(|key| key.ends_with("output/parallel_run_step.txt")), "{output}: {objects:?}");
    assert!(objects.iter().all(|key| key.starts_with("output/") || key == "kept"), "{objects:?}");
    drop(worker);
}

#[test]
fn the_search_field_takes_words_and_several_jobs_are_changed_at_once() {
    let job = job(NAMES, 1);
    let (first, second) = (submitted(&job), submitted(&job));
    let third = submitted(&job);
    let mut web = served(&job);
    // One is removed on its own page; who presses twice is told the same.
    let form = format!("name={third}&output=keep");
    for _ in 0..2 {
        let headers = [FIELDS, ("Sec-Fetch-Site", "same-origin")];
        let removed = web.ask_with("POST", &format!("/jobs/{third}/remove"), &headers, &form);
        let to = format!("/jobs?removed={third}");
        assert_eq!((removed.status, removed.header("location")), (303, Some(&*to)), "{}", removed.text());
        let told = web.page(&to).text();
        assert!(told.contains(&format!("{third} is removed.")), "{told}");
        assert_eq!(told.matches("removed=").count(), 0, "it is said once: {told}");
    }
    let page = web.page(&format!("/jobs?removed={first}")).text();
    assert!(!page.contains("is removed."), "{page}");
    for (words, count) in [
        ("state:completed", 2),
        ("state:failed", 0),
        ("name:test%20since:1d", 2),
        ("until:1d", 0),
        (first.as_str(), 1),
        ("by:nobody", 0),
    ] {
        let page = web.page(&format!("/jobs?q={words}")).text();
        assert_eq!(page.matches("<th scope=\"row\">").count(), count, "{words}");
    }
    assert_eq!(web.page("/jobs?q=state:odd").status, 400);
    assert_eq!(web.page("/jobs?q=since:soon").status, 400);

    let act = |web: &Web, body: &str| {
        web.ask_with("POST", "/selected", &[FIELDS, ("Sec-Fetch-Site", "same-origin")], body)
    };
    let asked = act(&web, &format!("verb=resubmit&job={first}&job={second}"));
    assert_eq!(asked.status, 200);
    let text = asked.text();
    assert!(text.contains("Resubmit 2 jobs?") && text.contains("everything again"), "{text}");
    let key =
        text.split("name=\"idempotency_key\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let body = format!("verb=resubmit&sure=yes&job={first}&job={second}&idempotency_key={key}");
    let done = act(&web, &body).text();
    assert_eq!(done.matches("It runs again as").count(), 2, "{done}");
    assert_eq!(act(&web, &body).text().matches("It runs again as").count(), 2, "the same again");
    let runs = fs::read_dir(job.path("prs-runs")).unwrap().flatten();
    let runs = runs.filter(|run| run.path().join("job.json").is_file()).count();
    assert_eq!(runs, 4, "and there is one of each");
    let resumed = act(&web, &format!("verb=resume&sure=yes&job={first}&job=nobody-1")).text();
    assert!(resumed.contains("no item of it is missing") && resumed.contains("there is no job"), "{resumed}");
    let counted = act(&web, &format!("verb=delete&sure=yes&count=3&job={first}&job={second}")).text();
    assert!(counted.contains("not the number of the jobs"), "{counted}");
    let removed = act(&web, &format!("verb=delete&sure=yes&count=2&job={first}&job={second}")).text();
    assert_eq!(removed.matches("It is removed").count(), 2, "{removed}");
    let again = act(&web, &format!("verb=delete&sure=yes&count=2&job={first}&job={second}")).text();
    assert_eq!(again.matches("It is removed").count(), 2, "{again}");
    assert!(!again.contains(&format!("/jobs/{first}\"")), "what is gone has no page: {again}");
    is_problem(&act(&web, "verb=odd"), 400, "bad-request");
    is_problem(&act(&web, "verb=cancel&x=1"), 400, "bad-request");
    assert!(act(&web, "verb=cancel").text().contains("No job is selected"));
    web.set_token(&token(&job, "viewer", "read"));
    is_problem(&act(&web, "verb=cancel&job=a"), 403, "forbidden");
    assert!(!web.page("/jobs").text().contains("type=\"checkbox\""), "what may not be done is not offered");
}
