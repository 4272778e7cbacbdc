//! A server in front of the jobs of this machine: who may ask, what programs get, what people see.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Live, NAMES, Web};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

/// Every second file fails.
const FAILS: &str = r#"
import os

def run(mini_batch):
    for path in mini_batch:
        if int(os.path.basename(path).split(".")[0].strip("f-")[-1]) % 2:
            raise ValueError("odd <b>" + os.path.basename(path) + "</b>")
    print("seen", mini_batch)
    return mini_batch
"#;

const SLOW: &str = r"
import time

def run(mini_batch):
    time.sleep(0.2)
    return mini_batch
";

/// So many files that a job of [`SLOW`] is not done before a test is.
const ENDLESS: usize = 3000;

const PATIENCE: Duration = Duration::from_mins(2);

/// A job whose servers tell of themselves in a folder of its own.
fn job(script: &str, files: usize) -> Job {
    let job = Job::new(script).with_files(files).with("mini_batch_size", 1).with("run_max_try", 1);
    job.with_runtime_folder()
}

/// Submits it among the runs of its folder, and gives its id.
fn submitted(job: &Job) -> String {
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    ended.json()["job_id"].as_str().unwrap().to_owned()
}

fn started(job: &Job) -> (Live, String) {
    let file = job.write_job_file().display().to_string();
    let id_file = job.path("id");
    let program = job.start(&["submit", &file, "-o", "json", "--id-file", &id_file.display().to_string()]);
    let id = wait_for("the job has an id", PATIENCE, || {
        fs::read_to_string(&id_file).ok().filter(|text| text.ends_with('\n'))
    });
    (program, id.trim().to_owned())
}

/// A server of the jobs, asked by a program of the same user.
fn served(job: &Job) -> Web {
    let mut web = Web::start(job, &[]);
    let token = told(job, &web)["token"].as_str().unwrap().to_owned();
    web.set_token(&token);
    web
}

/// What the server says of itself to programs of its user.
fn told(job: &Job, web: &Web) -> Value {
    let path = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) -> Value {
    let problem = answer.json(status);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{problem}");
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
    assert_eq!(problem["request_id"].as_str(), answer.header("x-request-id"));
    problem
}

#[test]
fn jobs_are_listed_and_shown_as_the_commands_show_them() {
    let job = job(NAMES, 3);
    let (first, second) = (submitted(&job), submitted(&job));
    let web = served(&job);
    let list = web.get("/api/v1/jobs?limit=1").json(200);
    let newest = list["value"][0]["job_id"].as_str().unwrap();
    assert_eq!((list["total"].as_u64(), list["counts"]["completed"].as_u64()), (Some(2), Some(2)), "{list}");
    let next = web.get(&format!("/api/v1/jobs?limit=1&cursor={}", list["next_cursor"].as_str().unwrap()));
    let next = next.json(200);
    let other = next["value"][0]["job_id"].as_str().unwrap();
    assert!(next["next_cursor"].is_null());
    let mut both = [newest, other];
    both.sort_unstable();
    let mut expected = [first.as_str(), &second];
    expected.sort_unstable();
    assert_eq!(both, expected);
    assert_eq!(web.get("/api/v1/jobs?state=failed").json(200)["total"], 0);
    assert_eq!(web.get(&format!("/api/v1/jobs?q={first}")).json(200)["total"], 1);
    is_problem(&web.get("/api/v1/jobs?sate=failed"), 400, "bad-parameter");
    is_problem(&web.get("/api/v1/jobs?state=odd"), 400, "bad-parameter");
    is_problem(
        &web.get(&format!("/api/v1/jobs?state=failed&cursor={}", list["next_cursor"].as_str().unwrap())),
        400,
        "bad-cursor",
    );

    let address = format!("/api/v1/jobs/{first}");
    let shown = web.get(&address);
    let object = shown.json(200);
    let status = job.command(&["status", &first, "-o", "json"]).json();
    for (key, value) in status.as_object().unwrap() {
        match value {
            // A server adds what was published of them.
            Value::Object(counts) if key == "tries" => {
                assert!(counts.iter().all(|(name, count)| object[key][name] == *count), "{}", object[key]);
            }
            value => assert_eq!(&object[key], value, "{key}"),
        }
    }
    let tag = shown.header("etag").unwrap();
    assert_eq!(web.ask_with("GET", &address, &[("If-None-Match", tag)], "").status, 304);
    let few = web.get(&format!("{address}?fields=state,colour")).json(400);
    assert!(few["detail"].as_str().unwrap().contains("colour"), "{few}");
    assert_eq!(web.get(&format!("{address}?fields=state")).json(200).as_object().unwrap().len(), 1);
    is_problem(&web.get("/api/v1/jobs/nobody-20260101-000000-aaaa"), 404, "job-not-found");
    is_problem(&web.get("/api/v1/jobs/%2Fetc"), 404, "job-not-found");
    for path in ["/api/v1/jobs/..%2F..%2Fetc", "/api/v1/jobs/a%5Cb", "/api/v1/jobs/."] {
        is_problem(&web.get(path), 400, "bad-request");
    }
}

#[test]
fn results_outputs_and_logs_are_given_whole_and_in_ranges() {
    let job = job(NAMES, 3);
    let id = submitted(&job);
    let web = served(&job);
    let whole = web.get(&format!("/api/v1/jobs/{id}/result"));
    assert_eq!(whole.status, 200);
    assert_eq!(whole.text().lines().count(), 3);
    assert!(whole.header("content-disposition").unwrap().starts_with("attachment"));
    let part = web.ask_with("GET", &format!("/api/v1/jobs/{id}/result"), &[("Range", "bytes=1-3")], "");
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[1..4]));
    assert_eq!(part.header("content-range"), Some(format!("bytes 1-3/{}", whole.body.len()).as_str()));
    let behind = web.ask_with("GET", &format!("/api/v1/jobs/{id}/result"), &[("Range", "bytes=9999-")], "");
    is_problem(&behind, 416, "bad-range");
    let tag = whole.header("etag").unwrap();
    let again = web.ask_with("GET", &format!("/api/v1/jobs/{id}/result"), &[("If-None-Match", tag)], "");
    assert_eq!(again.status, 304);

    let outputs = web.get(&format!("/api/v1/jobs/{id}/outputs")).json(200);
    let name = outputs["value"][0]["path"].as_str().unwrap();
    let object = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    assert!(outputs["value"][0]["sha256"].is_string(), "{outputs}");
    assert_eq!(outputs["value"][0]["sha256"], object["output"]["sha256"]);
    let all = web.get(&format!("/api/v1/jobs/{id}/outputs?output=default")).json(200);
    assert_eq!(all["value"], outputs["value"]);
    let odd = is_problem(&web.get(&format!("/api/v1/jobs/{id}/outputs?output=odd")), 400, "bad-parameter");
    assert!(odd["detail"].as_str().unwrap().contains("has no output odd"), "{odd}");
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/outputs/{name}")).body, whole.body);
    for (path, status, kind) in [
        ("nothing.txt", 404, "file-not-found"),
        ("%2Fetc%2Fpasswd", 404, "file-not-found"),
        ("..%2Fjob.json", 400, "bad-request"),
        ("..%2F..%2F..%2Fetc%2Fpasswd", 400, "bad-request"),
    ] {
        is_problem(&web.get(&format!("/api/v1/jobs/{id}/outputs/{path}")), status, kind);
        is_problem(&web.get(&format!("/api/v1/jobs/{id}/logs/{path}")), status, kind);
    }

    let logs = web.get(&format!("/api/v1/jobs/{id}/logs?q=job_result")).json(200);
    assert_eq!(logs["value"][0]["path"], "job_result.txt", "{logs}");
    let log = web.get(&format!("/api/v1/jobs/{id}/logs/job_result.txt"));
    assert_eq!(log.header("content-type"), Some("text/plain; charset=utf-8"));
    let tail = web.get(&format!("/api/v1/jobs/{id}/logs/job_result.txt?tail=40")).text();
    assert!(tail.len() <= 40 && log.text().ends_with(&tail), "{tail:?}");
    let lines = web.get(&format!("/api/v1/jobs/{id}/log-lines?path=job_result.txt&bytes=60")).json(200);
    let texts = lines["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap());
    let begin = texts.collect::<Vec<_>>().join("\n");
    assert!(log.text().starts_with(&begin) && !begin.is_empty(), "{lines}");
    let spec = web.ask_with("GET", &format!("/api/v1/jobs/{id}/spec"), &[("Accept", "application/yaml")], "");
    assert!(spec.text().contains("entry_script: main.py"), "{}", spec.text());
}

#[test]
fn errors_and_failed_items_are_told_and_nothing_of_a_user_is_markup() {
    let job = job(FAILS, 4).with("error_threshold", 10);
    let id = submitted(&job);
    let web = served(&job);
    let errors = web.get(&format!("/api/v1/jobs/{id}/errors")).json(200);
    assert_eq!(errors["value"][0]["category"], "ValueError", "{errors}");
    let items =
        web.ask_with("GET", &format!("/api/v1/jobs/{id}/failed-items"), &[("Accept", "text/plain")], "");
    assert_eq!(items.text().lines().count(), 2, "{}", items.text());
    assert_eq!(web.get("/api/v1/jobs?state=incomplete").json(200)["total"], 1);
    for path in [
        "/jobs".to_owned(),
        format!("/jobs/{id}"),
        format!("/jobs/{id}/logs/job_error.txt"),
        format!("/jobs/{id}/output"),
        format!("/jobs/{id}/settings"),
    ] {
        let page = web.page(&path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        let text = page.text();
        assert!(text.contains("</html>") && !text.contains("<b>f") && !text.contains(" style="), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    }
    assert!(web.page(&format!("/jobs/{id}")).text().contains("odd &#60;b&#62;"));
}

#[test]
fn only_who_is_let_in_sees_anything() {
    let job = job(NAMES, 1);
    let id = submitted(&job);
    let mut web = Web::start(&job, &[]);
    is_problem(&web.get("/api/v1/jobs"), 401, "unauthenticated");
    let to_login = web.page(&format!("/jobs/{id}?x=1"));
    assert_eq!(
        (to_login.status, to_login.header("location")),
        (303, Some(format!("/login?next=%2Fjobs%2F{id}%3Fx%3D1").as_str()))
    );
    for path in
        ["/livez", "/readyz", "/api/v1/version", "/openapi.json", "/api", "/problems", "/problems/forbidden"]
    {
        assert_eq!(web.get(path).status, 200, "{path}");
        assert_eq!(web.get(&format!("{path}?odd=1")).status, 400, "{path}: a parameter that is not known");
    }
    assert_eq!(web.get("/readyz").json(200)["not_ready"], serde_json::json!([]));
    assert_eq!(web.get("/readyz?verbose").status, 401, "what was looked at is for who may read");
    web.set_token("wrong");
    is_problem(&web.get("/api/v1/jobs"), 401, "wrong-credentials");
    for _ in 0..20 {
        web.get("/api/v1/jobs");
    }
    is_problem(&web.get("/api/v1/jobs"), 429, "too-many-requests");
    web.set_token("");
    // The link logs in once. Looking at it does not use it up.
    let code = web.link.split("code=").nth(1).unwrap().to_owned();
    let look = web.page(&format!("/login?code={code}"));
    assert!(look.status == 200 && look.header("set-cookie").is_none());
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    let body = format!("code={code}&next=/jobs/{id}");
    let entered = web.ask_with("POST", "/login", &form, &body);
    assert_eq!((entered.status, entered.header("location")), (303, Some(format!("/jobs/{id}").as_str())));
    let set = entered.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_eq!(
        web.ask_with("GET", &format!("/jobs/{id}"), &[("Cookie", cookie), ("Accept", "text/html")], "")
            .status,
        200
    );
    assert!(web.ask_with("POST", "/login", &form, &body).header("set-cookie").is_none(), "a second time");
    // Another link, as the user of the server asks for it.
    let link = job.command(&["serve", "--link", "--listen", &format!("127.0.0.1:{}", web.port())]);
    link.expect_code(0);
    let code = link.stdout.trim().split("code=").nth(1).unwrap().to_owned();
    let entered = web.ask_with("POST", "/login", &form, &format!("code={code}"));
    assert!(entered.header("set-cookie").is_some(), "{}", entered.text());
}

#[test]
fn a_token_may_what_its_role_says_until_it_is_revoked() {
    let job = job(NAMES, 1);
    let id = submitted(&job);
    let mut web = served(&job);
    let made = job.command(&["token", "create", "viewer", "--role", "read", "-o", "json"]);
    let made = made.json();
    web.set_token(made["secret"].as_str().unwrap());
    let who = web.get("/api/v1/whoami").json(200);
    assert_eq!(
        (&who["principal"], &who["role"], &who["how"]),
        (&"viewer".into(), &"read".into(), &"token".into())
    );
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}")).status, 200);
    for (method, path) in [("POST", "/cancel"), ("DELETE", "")] {
        let refused = web.ask_with(method, &format!("/api/v1/jobs/{id}{path}"), &[], "");
        is_problem(&refused, 403, "forbidden");
    }
    assert!(
        !web.page(&format!("/jobs/{id}")).text().contains("Remove"),
        "what may not be done is not offered"
    );
    job.command(&["token", "revoke", made["id"].as_str().unwrap()]).expect_code(0);
    wait_for("the token is refused", Duration::from_secs(20), || {
        (web.get("/api/v1/whoami").status == 401).then_some(())
    });
}

#[test]
fn other_sites_and_other_names_are_kept_out() {
    let job = job(SLOW, ENDLESS);
    let (mut program, id) = started(&job);
    let mut web = served(&job);
    for host in ["evil.example.org", "localhost.evil.example.org", "127.0.0.1.nip.io:80"] {
        is_problem(&web.ask_with("GET", "/api/v1/jobs", &[("Host", host)], ""), 421, "unknown-host");
    }
    let cancel = format!("/api/v1/jobs/{id}/cancel");
    let foreign = web.ask_with("POST", &cancel, &[("Sec-Fetch-Site", "cross-site")], "");
    is_problem(&foreign, 403, "cross-origin");
    let foreign = web.ask_with("POST", &cancel, &[("Origin", "https://evil.example.org")], "");
    is_problem(&foreign, 403, "cross-origin");
    assert_eq!(web.get(&format!("/jobs/{id}/cancel")).status, 200, "a question changes nothing");
    assert!(!program.has_ended());
    web.set_token(&web_token(&job, &web));
    let canceled = web.ask_with("POST", &cancel, &[], "");
    assert_eq!(canceled.status, 202, "{}", canceled.text());
    let ended = web.get(&format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60")).json(200);
    assert_eq!(ended["state"], "canceled", "{ended}");
    // Once more changes nothing.
    assert_eq!(web.ask_with("POST", &cancel, &[], "").json(200)["state"], "canceled");
    program.wait().expect_code(130);
    // What has ended can be removed.
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/jobs/{id}"), &[], "").status, 202);
    is_problem(&web.get(&format!("/api/v1/jobs/{id}")), 404, "job-not-found");
}

fn web_token(job: &Job, web: &Web) -> String {
    told(job, web)["token"].as_str().unwrap().to_owned()
}

#[test]
fn the_document_names_what_the_server_answers() {
    let job = job(NAMES, 1);
    let web = served(&job);
    let document = web.get("/openapi.json").json(200);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15, "{document}");
    // A stream of all jobs has no end of its own.
    for (path, methods) in paths.iter().filter(|(path, _)| *path != "/api/v1/events") {
        for method in methods.as_object().unwrap().keys() {
            let asked = path.replace("{job}", "nobody").replace("{path}", "nothing").replace("{index}", "7");
            let answer = web.ask_with(&method.to_uppercase(), &asked, &[], "");
            // Whatever it says of a job that is not there, the address is one, and so is the method.
            let text = answer.text();
            assert!(answer.status < 500 && answer.status != 405, "{method} {path}: {text}");
            let is_nowhere = text.starts_with("{\"type\":\"/problems/not-found\"");
            assert!(!is_nowhere || text.contains("There is no worker"), "{method} {path}: {text}");
        }
    }
    is_problem(&web.ask_with("PUT", "/api/v1/jobs", &[], ""), 405, "method-not-allowed");
    is_problem(&web.get("/api/v1/nothing"), 404, "not-found");
    let listed: Vec<&str> = document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind.as_str().unwrap())
        .collect();
    for kind in listed {
        assert_eq!(web.page(kind).status, 200, "{kind}");
    }
}

#[test]
fn a_job_that_runs_is_followed_to_its_end() {
    let job = job(SLOW, 10);
    let (program, id) = started(&job);
    let web = served(&job);
    let early = is_problem(&web.get(&format!("/api/v1/jobs/{id}/result")), 409, "no-result-yet");
    assert!(early["detail"].as_str().unwrap().contains("it is not done yet"), "{early}");
    let events = web.get(&format!("/api/v1/jobs/{id}/events")).text();
    let first = events.lines().find(|line| line.starts_with("event:")).unwrap();
    assert_eq!(first, "event: status", "{events}");
    assert!(
        events.trim_end().lines().last().is_some_and(|end| end.contains("\"state\":\"completed\""))
            && events.contains("event: end\n"),
        "{events}"
    );
    program.wait().expect_completed();
    let live = web.get(&format!("/jobs/{id}/live")).text();
    assert!(live.contains("event: parts") && live.contains("\"head\""), "{live}");
}

#[test]
fn jobs_of_a_fleet_are_served() {
    let fleet = Fleet::apart();
    let job = fleet.job(job(SLOW, 20));
    let worker = fleet.worker(&job, &[]);
    let id = fleet.hand_in(&job);
    let web = served(&job);
    let list = web.get(&format!("/api/v1/jobs?q={id}")).json(200);
    assert_eq!(list["total"], 1, "{list}");
    let running = web.get(&format!("/api/v1/jobs/{id}?wait_for=changed&timeout=30")).json(200);
    assert_eq!(running["job_id"], id.as_str(), "{running}");
    assert_eq!(web.page(&format!("/jobs/{id}")).status, 200);
    let ended = wait_for("it ends", PATIENCE, || {
        let seen = web.get(&format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60")).json(200);
        (seen["ended_at"] != Value::Null).then_some(seen)
    });
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(web.get(&format!("/api/v1/jobs/{id}/result")).text().lines().count(), 20);
    assert_eq!(web.page(&format!("/jobs/{id}/logs")).status, 200);
    assert_eq!(web.page(&format!("/jobs/{id}/output")).status, 200);
    // The list has its end, too, and asks no more for what has ended.
    wait_for("the list says so", PATIENCE, || {
        let list = web.get(&format!("/api/v1/jobs?q={id}&state=completed")).json(200);
        (list["total"] == 1).then_some(())
    });
    is_problem(&web.get("/api/v1/jobs/nobody-20260101-000000-aaaa"), 404, "job-not-found");
    drop(worker);
}

#[test]
fn a_damaged_job_is_told_once_and_hides_no_other() {
    let job = job(NAMES, 1);
    let id = submitted(&job);
    fs::create_dir(job.path("prs-runs/broken")).unwrap();
    fs::write(job.path("prs-runs/broken/job.json"), "{").unwrap();
    let web = served(&job);
    let moment = || web.get("/api/v1/jobs").json(200)["as_of"].as_str().unwrap().to_owned();
    let first = moment();
    // The folder is looked at again and again.
    wait_for("the list is of another moment", PATIENCE, || (moment() != first).then_some(()));
    assert_eq!(web.get("/api/v1/jobs").json(200)["value"][0]["job_id"], id.as_str());
    let said = web.program.stderr();
    assert_eq!(said.matches("broken").count(), 1, "{said}");
}

#[test]
fn what_cannot_be_read_is_a_problem_too() {
    let job = job(NAMES, 1);
    let web = served(&job);
    is_problem(
        &web.ask_with("POST", "/login", &[("Content-Type", "text/plain")], "x"),
        415,
        "wrong-media-type",
    );
    is_problem(&web.get("/api/v1/jobs/%ff"), 400, "bad-request");
    is_problem(&web.ask_with("GET", "/static/app.js", &[], ""), 404, "not-found");
}

#[test]
fn a_server_ends_when_it_is_told_to_and_leaves_nothing() {
    let job = job(SLOW, ENDLESS);
    let (mut program, id) = started(&job);
    let mut web = served(&job);
    let file = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    assert!(file.exists());
    // A stream that is open does not hold it up.
    let address = web.url.trim_start_matches("http://").to_owned();
    let token = web_token(&job, &web);
    let (heard, news) = std::sync::mpsc::channel();
    let stream = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        let request = format!(
            "GET /api/v1/jobs/{id}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut said = String::new();
        while !said.contains("event: status") {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
        }
        heard.send(()).unwrap();
        lines.read_to_string(&mut said).unwrap();
        said
    });
    news.recv_timeout(PATIENCE).unwrap();
    assert!(web.program.signal(Signal::TERM));
    web.program.wait().expect_code(0);
    let said = stream.join().unwrap();
    assert!(said.contains("event: bye") && said.contains("retry:"), "{said}");
    assert!(!file.exists(), "the file goes with the server");
    program.interrupt();
    program.wait().expect_code(130);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let job = job(NAMES, 1);
    let open = job.command(&["serve", "--listen", "0.0.0.0:0"]);
    open.expect_code(2);
    assert!(open.stderr.contains("reached from other machines"), "{}", open.stderr);
    let web = Web::start(&job, &["--auth", "none"]);
    assert_eq!(web.get("/api/v1/jobs").json(200)["total"], 0);
    assert!(web.page("/jobs").text().contains("Everybody who reaches this server"));
    let taken = job.command(&["serve", "--listen", &format!("127.0.0.1:{}", web.port())]);
    taken.expect_code(2);
    assert!(taken.stderr.contains("--listen takes another address"), "{}", taken.stderr);
    let none = job.command(&["serve", "--link", "--listen", "127.0.0.1:1"]);
    none.expect_code(2);
    assert!(none.stderr.contains("no server of yours runs at port 1"), "{}", none.stderr);
    let long = format!("GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(70_000), "localhost");
    let refused = String::from_utf8_lossy(&web.exchange(long.as_bytes())).into_owned();
    assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
}
