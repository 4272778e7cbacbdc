//! Jobs that are handed in to a server: what is taken, what is refused, and what becomes of them when the server is killed.

use std::fs;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, NAMES, Web};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Fails while the file `fail` is beside it.
const FAILS: &str = r#"
import os

def run(mini_batch):
    if os.path.exists(os.path.join(os.path.dirname(__file__), "fail")):
        raise ValueError("it is to fail")
    return [os.path.basename(path) for path in mini_batch]
"#;

const PATIENCE: Duration = Duration::from_mins(2);
const BOUNDARY: &str = "PartsOfAForm";
const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=PartsOfAForm");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const YAML: &str = "name: handed\nentry_script: main.py\ninputs: [{name: pictures, type: file, path: data}]\nmini_batch_size: 1\nrun_max_try: 1\nprocess_count_per_node: 1\nerror_threshold: 0\n";

fn job() -> Job {
    let job = Job::new(NAMES);
    job.with_runtime_folder()
}

/// A server of the jobs, asked by a program of the same user.
fn served(job: &Job, more: &[&str]) -> Web {
    // Who asks again at once is no limit to find here.
    Web::of_user(job, &[&["--write-rate", "1000"], more].concat())
}

fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        // As an attacker would write it.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// A form with these parts: name, name of the file, content.
fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        write!(body, "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"").unwrap();
        if let Some(file) = file {
            write!(body, "; filename=\"{file}\"\r\nContent-Type: application/octet-stream").unwrap();
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--{BOUNDARY}--\r\n").unwrap();
    body
}

/// A job with its code, and so many files as its input.
fn whole(script: &str, files: usize) -> Vec<u8> {
    let code = tar_gz(&[("main.py", script)]);
    let names: Vec<String> = (0..files).map(|number| format!("f{number}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "x")).collect();
    let data = tar_gz(&files);
    form(&[
        ("job", None, YAML.as_bytes()),
        ("code", Some("code.tar.gz"), &code),
        ("input.pictures", Some("pictures.tar.gz"), &data),
    ])
}

fn post(web: &Web, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    web.send("POST", path, headers, body)
}

fn ended(web: &Web, id: &str) -> Value {
    let path = format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60");
    wait_for("the job ends", PATIENCE, || {
        let object = web.get(&path).json(200);
        ["completed", "failed", "canceled"].contains(&object["state"].as_str().unwrap()).then_some(object)
    })
}

fn id_of(answer: &Answer, status: u16) -> String {
    answer.json(status)["job_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) -> Value {
    let problem = answer.json(status);
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
    problem
}

fn runs(job: &Job) -> Vec<String> {
    let entries = fs::read_dir(job.path("prs-runs")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// As browsers send one that is chosen.
#[test]
fn a_folder_comes_as_its_files() {
    let job = job();
    let web = served(&job, &[]);
    let yaml = YAML.as_bytes();
    let code = ("code_folder", Some("mine/main.py"), NAMES.as_bytes());
    let one = ("input_folder.pictures", Some("here/a/x.txt"), &b"x"[..]);
    let other = ("input_folder.pictures", Some("here/x.txt"), &b"x"[..]);
    // Nothing was chosen where browsers send a part without a name.
    let nothing = ("code", Some(""), &b""[..]);
    let whole = form(&[("job", None, yaml), nothing, code, one, other]);
    let object = ended(&web, &id_of(&post(&web, "/api/v1/jobs", &[FORM], &whole), 201));
    assert_eq!(
        (&object["state"], &object["items"]["succeeded"]),
        (&json!("completed"), &json!(2)),
        "{object}"
    );

    let archive = tar_gz(&[("main.py", NAMES)]);
    for (name, path, says) in [
        ("code_folder", "mine/../../evil.py", "leads out of its folder"),
        ("code_folder", "/etc/evil.py", "leads out of its folder"),
        ("code_folder", "mine/a\\\\..\\\\evil.py", "leads out of its folder"),
        ("code_folder", "mine/", "leads out of its folder"),
        ("code_folder", "mine/main.py", "came twice"),
        ("code_folder", "mine/main.py/below.py", "cannot be made beside what came before it"),
        ("input_folder.pictures", "here/../../evil", "leads out of its folder"),
        ("input_folder.../x", "here/a", "not the name of an input"),
    ] {
        let body = form(&[("job", None, yaml), code, (name, Some(path), b"x")]);
        let problem = is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "bad-upload");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{name} {path}: {problem}");
    }
    for parts in [[("code", Some("c.tar.gz"), &*archive), code], [code, ("code", Some("c.tar.gz"), &archive)]]
    {
        let body = form(&[&[("job", None, yaml)][..], &parts].concat());
        let problem = is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "bad-upload");
        assert!(problem["detail"].as_str().unwrap().contains("the code came twice"), "{problem}");
    }
}

/// A fleet gives the output of the first of two jobs that are alike, and says so with the status.
#[test]
fn a_fleet_answers_200_where_a_former_job_gives_its_output() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let _worker = fleet.worker(&job, &["--target", "alike"]);
    let web = served(&job, &[]);
    let code = tar_gz(&[("main.py", NAMES)]);
    for name in ["a", "b"] {
        fleet.s3.put_object(fleet.bucket(), &format!("alike/{name}.txt"), b"x");
    }
    // What comes with a request lies in a folder of its own, which scripts see in the names of items: it is never alike.
    let text = YAML.replace("path: data", &format!("path: 's3://{}/alike/'", fleet.bucket()));
    let text = format!("{text}compute_target: alike\nallow_reuse: true\n");
    let body = form(&[("job", None, text.as_bytes()), ("code", Some("code.tar.gz"), &code)]);
    let first = id_of(&post(&web, "/api/v1/jobs", &[FORM], &body), 201);
    assert_eq!(ended(&web, &first)["state"], "completed");
    // Found by others once what it needed no longer is removed, which comes after its end.
    let is_entered = |key: &str| key.contains("reuse/") && key.ends_with(&first);
    wait_for("others find it", PATIENCE, || {
        fleet.s3.objects(fleet.bucket()).iter().any(|(key, _)| is_entered(key)).then_some(())
    });
    let second = post(&web, "/api/v1/jobs", &[FORM], &body).json(200);
    let id = second["job_id"].as_str().unwrap();
    assert!(id != first && second["reused_from"] == *first, "{second}");
    let object = ended(&web, id);
    assert_eq!((&object["state"], &object["reused_from"]), (&json!("completed"), &json!(first)), "{object}");
    assert_eq!(fleet.stored(id).result(), fleet.stored(&first).result());
}

#[test]
fn a_job_is_handed_in_and_lives_on_without_the_server() {
    let job = job();
    let mut web = served(&job, &[]);
    let planned = post(&web, "/api/v1/jobs?dry_run=true", &[FORM], &whole(NAMES, 3)).json(200);
    assert_eq!(
        (&planned["mini_batches"], &planned["items"], &planned["planned"]),
        (&json!(3), &json!(3), &json!(true)),
        "{planned}"
    );
    assert_eq!(runs(&job), Vec::<String>::new(), "nothing of it is kept");
    let slow = "import time\n\ndef run(mini_batch):\n    time.sleep(0.05)\n    return mini_batch\n";
    let answer = post(&web, "/api/v1/jobs", &[FORM], &whole(slow, 40));
    let id = id_of(&answer, 201);
    assert_eq!(answer.header("location"), Some(&*format!("/api/v1/jobs/{id}")));
    assert!(id.starts_with("handed-"), "{id}");
    web.program.signal(Signal::KILL);
    web.program.wait();
    let next = served(&job, &[]);
    let object = ended(&next, &id);
    assert_eq!((&object["state"], &object["mini_batches"]["succeeded"]), (&json!("completed"), &json!(40)));
    // A user of the machine goes on with it as with any job.
    assert_eq!(job.command(&["status", &id, "-o", "json"]).json()["state"], "completed");
}

#[test]
fn one_key_is_one_job_however_often_it_comes() {
    let job = job();
    let web = served(&job, &[]);
    let body = whole(NAMES, 2);
    let headers = [FORM, ("Idempotency-Key", "8e03978e-40d5")];
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let sent: Vec<_> =
            (0..20).map(|_| scope.spawn(|| post(&web, "/api/v1/jobs", &headers, &body))).collect();
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 1);
    for answer in &answers {
        match answer.status {
            200 => assert_eq!(answer.header("idempotency-replayed"), Some("true")),
            201 => {}
            _ => {
                is_problem(answer, 409, "request-in-progress");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
        }
    }
    let first = id_of(answers.iter().find(|answer| answer.status == 201).unwrap(), 201);
    let again = post(&web, "/api/v1/jobs", &headers, &body);
    assert_eq!((id_of(&again, 200), again.header("idempotency-replayed")), (first.clone(), Some("true")));
    assert_eq!(runs(&job), std::slice::from_ref(&first));
    is_problem(&post(&web, "/api/v1/jobs", &headers, &whole(NAMES, 3)), 422, "idempotency-key-reused");
    let odd = [FORM, ("Idempotency-Key", "a b")];
    is_problem(&post(&web, "/api/v1/jobs", &odd, &body), 400, "bad-request");
    ended(&web, &first);
}

#[test]
fn a_retry_finishes_what_a_killed_server_began() {
    let job = job().with_own_variable("PRS_FAILPOINT", "handed_in:1");
    let web = served(&job, &[]);
    let body = whole(NAMES, 2);
    let headers = [FORM, ("Idempotency-Key", "once")];
    // It is killed with the job stored and not begun, and says nothing.
    assert!(web.try_send("POST", "/api/v1/jobs", &headers, &body).is_none());
    web.program.wait();
    let left = runs(&job);
    assert_eq!(left.len(), 1);
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    let next = served(&job, &[]);
    // Another server has those taken up that it finds; the retry is told of the same job.
    let id = wait_for("the retry is answered", PATIENCE, || {
        let answer = post(&next, "/api/v1/jobs", &headers, &body);
        (answer.status != 409).then(|| id_of(&answer, 201))
    });
    assert_eq!(id, left[0]);
    assert_eq!(ended(&next, &id)["state"], "completed");
    assert_eq!(runs(&job).len(), 1);
}

#[test]
fn what_leads_to_other_files_of_the_server_is_refused() {
    let job = job();
    fs::write(job.path("secret.txt"), "hush").unwrap();
    let web = served(&job, &[]);
    let secret = job.path("secret.txt").display().to_string();
    for path in ["/etc/passwd", "../../../secret.txt", &secret] {
        let spec =
            json!({"name": "x", "entry_script": "main.py", "inputs": [{"type": "file", "path": path}]});
        let body = json!({"spec": spec}).to_string();
        let problem =
            is_problem(&post(&web, "/api/v1/jobs", &[JSON], body.as_bytes()), 422, "upload-missing");
        assert_eq!(problem["errors"][0]["pointer"], "#/spec/inputs/0/path", "{problem}");
        assert!(!problem.to_string().contains("prs-runs"), "{problem}");
    }
    for name in ["../evil.py", "/elsewhere/prs-evil.py", "a/../../evil.py"] {
        let code = tar_gz(&[(name, "x")]);
        let body = form(&[("job", None, YAML.as_bytes()), ("code", Some("code.tgz"), &code)]);
        let problem = is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "bad-upload");
        assert!(problem["detail"].as_str().unwrap().contains(name), "{problem}");
    }
    let body = form(&[("job", None, YAML.as_bytes()), ("input.pictures", Some("../evil"), b"x")]);
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "bad-upload");
    let body = form(&[("job", None, YAML.as_bytes()), ("input.../evil", Some("x"), b"x")]);
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "bad-upload");
    assert_eq!(runs(&job), Vec::<String>::new());
    let staged = fs::read_dir(job.path("prs-runs/.registry/staging")).unwrap().count();
    assert_eq!(staged, 0, "nothing is left of what was refused");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let job = job();
    let web = served(&job, &[]);
    let yaml = "name: x\nentry_script: main.py\nnode_count: none\nerror_treshold: 3\ninputs: [{type: file, path: s3://b/k/}]\n";
    let code = tar_gz(&[("main.py", NAMES)]);
    let body = form(&[
        ("job", None, yaml.as_bytes()),
        ("code", Some("code.tar.gz"), &code),
        ("set", None, b"mini_batch_size=no"),
    ]);
    let problem = is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body), 422, "job-file");
    let errors = problem["errors"].as_array().unwrap();
    let places: Vec<(&str, Option<u64>)> =
        errors.iter().map(|one| (one["key"].as_str().unwrap(), one["line"].as_u64())).collect();
    assert!(places.contains(&("node_count", Some(3))), "{problem}");
    assert!(places.contains(&("error_treshold", Some(4))), "{problem}");
    assert!(errors.iter().any(|one| one["pointer"] == "#/set/mini_batch_size"), "{problem}");
    for (headers, body, status, kind) in [
        (JSON, "{\"yaml\": \"x\", \"nme\": 1}", 400, "bad-request"),
        (JSON, "{\"yaml\": \"x\", \"spec\": {}}", 400, "bad-request"),
        (JSON, "{", 400, "bad-request"),
        (("Content-Type", "text/plain"), "name: x", 415, "wrong-media-type"),
        (("Content-Type", "application/x-www-form-urlencoded"), "job=x", 415, "wrong-media-type"),
    ] {
        is_problem(&post(&web, "/api/v1/jobs", &[headers], body.as_bytes()), status, kind);
    }
    let packed = [JSON, ("Content-Encoding", "gzip")];
    is_problem(&post(&web, "/api/v1/jobs", &packed, b"{}"), 415, "wrong-media-type");
    let large = [JSON, ("Content-Length", "2000000")];
    is_problem(&post(&web, "/api/v1/jobs", &large, b"{"), 413, "too-large");
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &form(&[("jbo", None, b"x")])), 400, "bad-request");
    assert_eq!(runs(&job), Vec::<String>::new());
}

#[test]
fn a_job_goes_on_with_other_code_and_runs_again_as_a_new_one() {
    let job = job();
    let web = served(&job, &[]);
    let code = tar_gz(&[("main.py", FAILS), ("fail", "")]);
    let data = tar_gz(&[("a.txt", "x"), ("b.txt", "x")]);
    let body = form(&[
        ("job", None, YAML.as_bytes()),
        ("code", Some("code.tar.gz"), &code),
        ("input.pictures", Some("pictures.tgz"), &data),
        ("name", None, b"flaky"),
        ("tag", None, b"team=vision"),
    ]);
    let id = id_of(&post(&web, "/api/v1/jobs", &[FORM], &body), 201);
    let failed = ended(&web, &id);
    assert_eq!(
        (&failed["state"], &failed["name"], &failed["tags"]["team"]),
        (&json!("failed"), &json!("flaky"), &json!("vision"))
    );
    let resume = format!("/api/v1/jobs/{id}/resume");
    let plan = json!({"set": {"mini_batch_size": 2}}).to_string();
    let problem = is_problem(&post(&web, &resume, &[JSON], plan.as_bytes()), 422, "job-file");
    assert_eq!(problem["errors"][0]["pointer"], "#/set/mini_batch_size", "{problem}");
    let fixed = form(&[
        ("code", Some("code.tar.gz"), &tar_gz(&[("main.py", FAILS)])),
        ("set", None, b"run_max_try=2"),
    ]);
    let keys = ["resume-1", "resume-2", "resume-3"];
    let ask = |key| post(&web, &resume, &[FORM, ("Idempotency-Key", key)], &fixed);
    // Of several at once one begins the start.
    let answers = std::thread::scope(|scope| {
        keys.map(|key| scope.spawn(move || ask(key))).map(|asked| asked.join().unwrap())
    });
    let statuses = answers.each_ref().map(|answer| answer.status);
    let first = statuses.iter().position(|status| *status == 202).expect("one goes on");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 2, "{statuses:?}");
    let goes_on = answers[first].json(202);
    assert_eq!(goes_on["incarnation"], 2, "{goes_on}");
    let object = ended(&web, &id);
    assert_eq!((&object["state"], &object["incarnation"]), (&json!("completed"), &json!(2)), "{object}");
    let again = ask(keys[first]);
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")));
    is_problem(&post(&web, &resume, &[JSON], b"{}"), 409, "nothing-to-resume");
    is_problem(&post(&web, "/api/v1/jobs/nobody/resume", &[JSON], b"{}"), 404, "job-not-found");

    let resubmit = format!("/api/v1/jobs/{id}/resubmit");
    let body = json!({"set": {"mini_batch_size": 2}, "name": "second", "tags": {"why": "again"}}).to_string();
    let answer = post(&web, &resubmit, &[JSON, ("Idempotency-Key", "second")], body.as_bytes());
    let second = id_of(&answer, 201);
    assert!(second.starts_with("second-"), "{second}");
    let object = ended(&web, &second);
    assert_eq!(
        (&object["state"], &object["mini_batches"]["succeeded"]),
        (&json!("completed"), &json!(1)),
        "{object}"
    );
    assert_eq!((&object["tags"]["why"], &object["tags"]["team"]), (&json!("again"), &json!("vision")));
    let same = post(&web, &resubmit, &[JSON, ("Idempotency-Key", "second")], body.as_bytes());
    assert_eq!(id_of(&same, 200), second);
}

#[test]
fn a_fleet_gets_jobs_that_are_handed_in_and_a_retry_finishes_a_killed_submission() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let worker = fleet.worker(&job, &[]);
    let body = whole(NAMES, 3);
    for failpoint in ["uploaded:1", "job_listed:1"] {
        let fatal = fleet.job(self::job()).with_own_variable("PRS_FAILPOINT", failpoint);
        let killed = served(&fatal, &[]);
        let headers = [FORM, ("Idempotency-Key", failpoint)];
        assert!(killed.try_send("POST", "/api/v1/jobs", &headers, &body).is_none(), "{failpoint}");
        killed.program.wait();
        let web = served(&job, &[]);
        let id = wait_for("the retry is answered", PATIENCE, || {
            let answer = post(&web, "/api/v1/jobs", &headers, &body);
            (answer.status != 409).then(|| id_of(&answer, 201))
        });
        let object = ended(&web, &id);
        assert_eq!(
            (&object["state"], &object["items"]["succeeded"]),
            (&json!("completed"), &json!(3)),
            "{object}"
        );
        assert_eq!(id_of(&post(&web, "/api/v1/jobs", &headers, &body), 200), id);
        let resubmitted = post(&web, &format!("/api/v1/jobs/{id}/resubmit"), &[JSON], b"{}");
        assert_eq!(ended(&web, &id_of(&resubmitted, 201))["state"], "completed");
    }
    let web = served(&job, &[]);
    let code = tar_gz(&[("main.py", FAILS), ("fail", "")]);
    let data = tar_gz(&[("a.txt", "x")]);
    let parts = [
        ("job", None, YAML.as_bytes()),
        ("code", Some("code.tar.gz"), &*code),
        ("input.pictures", Some("pictures.tgz"), &*data),
    ];
    let id = id_of(&post(&web, "/api/v1/jobs", &[FORM], &form(&parts)), 201);
    assert_eq!(ended(&web, &id)["state"], "failed");
    let fixed = form(&[("code", Some("code.tar.gz"), &tar_gz(&[("main.py", FAILS)]))]);
    let resume = format!("/api/v1/jobs/{id}/resume");
    // Of several at once one begins the start.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..5).map(|_| scope.spawn(|| post(&web, &resume, &[FORM], &fixed))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    let said: Vec<_> = answers.iter().map(Answer::text).collect();
    assert_eq!(statuses, [202, 409, 409, 409, 409], "{said:#?}");
    let completed = ended(&web, &id);
    assert_eq!((&completed["state"], &completed["incarnation"]), (&json!("completed"), &json!(2)));
    drop(worker);
}

#[test]
fn a_program_asks_what_to_pack() {
    let job = job();
    fs::create_dir_all(job.path("shared/data")).unwrap();
    let web = served(&job, &["--allow-path", job.path("shared").to_str().unwrap()]);
    let ask = |path: &str, body: Value| post(&web, path, &[JSON], body.to_string().as_bytes());
    let yaml = "name: a\nsource_directory: ../code\nentry_script: main.py\ninputs:\n- {name: pictures, type: file, path: data}\n\
                side_inputs: {m: /elsewhere/model}\noutput: results\n";
    let found = ask("/api/v1/job-paths", json!({ "yaml": yaml })).json(200);
    let mut lines: Vec<String> = found["value"].as_array().unwrap().iter().map(Value::to_string).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            r#"{"input":"m","is_code":false,"key":"side_inputs.m","line":6,"path":"/elsewhere/model"}"#,
            r#"{"input":"pictures","is_code":false,"key":"inputs[0].path","line":5,"path":"data"}"#,
            r#"{"input":null,"is_code":true,"key":"source_directory","line":2,"path":"../code"}"#,
        ]
    );
    assert_eq!(found["ignore_files"], json!([".prsignore", ".amlignore", ".gitignore"]));
    let shared = job.path("shared/data").display().to_string();
    let spec =
        json!({ "spec": { "entry_script": "main.py", "inputs": [{ "type": "file", "path": shared }] } });
    let found = ask("/api/v1/job-paths", spec).json(200);
    assert_eq!(found["value"].as_array().unwrap().len(), 1, "the server has the other one: {found}");
    // What a component names is told once the component is known.
    let flow = "type: pipeline\njobs: {a: {type: parallel, component: ../part.yml}}\n";
    let part = "type: parallel\ntask: {code: ./src, entry_script: s.py}\n";
    let found = ask("/api/v1/job-paths", json!({ "yaml": flow, "files": { "../part.yml": part } })).json(200);
    let has = |path: &str| found["value"].as_array().unwrap().iter().any(|one| one["path"] == path);
    assert!(has("../part.yml") && has("../src"), "{found}");

    let rules = json!({ "ignore_file": ".prsignore", "text": "*.bin\n!a.bin\n/data/\n",
        "paths": ["a.bin", "b.bin", "data/", "data", "pkg/data/", "pkg/b.bin"] });
    let kept_out = ask("/api/v1/kept-out", rules).json(200);
    assert_eq!(kept_out["kept_out"], json!(["b.bin", "data/", "pkg/b.bin"]));

    for (path, body, status, kind) in [
        ("/api/v1/job-paths", json!({}), 400, "bad-request"),
        ("/api/v1/job-paths", json!({ "yaml": "a", "spec": {} }), 400, "bad-request"),
        ("/api/v1/job-paths", json!({ "yaml": "a", "files": { "/etc/passwd": "" } }), 400, "bad-request"),
        (
            "/api/v1/job-paths",
            json!({ "yaml": "a", "files": { "../../../../../../../../../../x": "" } }),
            400,
            "bad-request",
        ),
        ("/api/v1/job-paths", json!({ "yaml": "a", "files": { "": "" } }), 400, "bad-request"),
        ("/api/v1/kept-out", json!({ "text": "{a", "ignore_file": ".gitignore" }), 422, "job-file"),
        ("/api/v1/kept-out", json!({ "paths": ["/etc"] }), 400, "bad-request"),
        ("/api/v1/kept-out", json!({ "paths": ["a/../b"] }), 400, "bad-request"),
        ("/api/v1/kept-out", json!({ "path": "a" }), 400, "bad-request"),
    ] {
        is_problem(&ask(path, body), status, kind);
    }
    assert!(runs(&job).is_empty());
}

#[test]
fn a_job_file_stands_in_a_folder_of_its_code() {
    let job = job();
    let web = served(&job, &[]);
    let code = tar_gz(&[("jobs/readme", ""), ("code/main.py", NAMES), ("data/a.txt", "x")]);
    let yaml = "name: below\nsource_directory: ../code\nentry_script: main.py\ninputs: [{type: file, path: ../data}]\n";
    let body = |folder: &str| {
        let code = ("code", Some("code.tar.gz"), &*code);
        form(&[("job", None, yaml.as_bytes()), ("job_folder", None, folder.as_bytes()), code])
    };
    let id = id_of(&post(&web, "/api/v1/jobs", &[FORM], &body("jobs/")), 201);
    assert_eq!(ended(&web, &id)["complete"], true);
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/result")).text(), "a.txt\n");
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body("../jobs")), 400, "bad-request");
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body("/jobs")), 400, "bad-request");
    // From the top `..` leads out of what came.
    is_problem(&post(&web, "/api/v1/jobs", &[FORM], &body("")), 422, "upload-missing");
    // A folder that did not come holds nothing.
    assert!(post(&web, "/api/v1/jobs", &[FORM], &body("absent")).status >= 400);
}

#[test]
fn what_lies_where_an_output_goes_is_not_overwritten() {
    let job = Job::new(NAMES).with_files(1).with_runtime_folder();
    let web = served(&job, &["--allow-path", job.path("").to_str().unwrap()]);
    let taken = job.path("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("rows.txt"), "mine").unwrap();
    let spec = json!({
        "name": "over", "source_directory": job.path("code"), "entry_script": "main.py", "output": taken,
        "append_row_file_name": "rows.txt", "inputs": [{"name": "pictures", "type": "file", "path": job.path("data")}],
        "mini_batch_size": 1, "process_count_per_node": 1, "error_threshold": 0,
    });
    let body = json!({ "spec": spec, "set": { "logging_level": "LOUD" } });
    let refused =
        is_problem(&post(&web, "/api/v1/jobs", &[JSON], body.to_string().as_bytes()), 422, "job-file");
    assert_eq!(refused["errors"][0]["allowed"], json!(["WARNING", "INFO", "DEBUG"]), "{refused}");
    let answer = post(&web, "/api/v1/jobs", &[JSON], json!({ "spec": spec }).to_string().as_bytes());
    is_problem(&answer, 409, "output-exists");
    assert_eq!(fs::read_to_string(taken.join("rows.txt")).unwrap(), "mine");

    // Where nothing lies it runs, as a part of the trace that the request is of.
    let mut elsewhere = spec;
    elsewhere["output"] = json!(job.path("free"));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({ "spec": elsewhere }).to_string();
    let id = id_of(&post(&web, "/api/v1/jobs", &[JSON, ("traceparent", trace)], body.as_bytes()), 201);
    ended(&web, &id);
    let record = fs::read(job.path(&format!("prs-runs/{id}/job.json"))).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&record).unwrap()["traceparent"], trace);
}
