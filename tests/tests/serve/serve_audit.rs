//! Who changed what at a server: a line for each change and for each that was refused, without bodies and without secrets.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Job, NAMES, Web};
use rustix::process::Signal;
use serde_json::Value;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const FORM: [(&str, &str); 2] =
    [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];

fn job() -> Job {
    let job = Job::new(NAMES).with_files(1);
    job.with_runtime_folder()
}

/// A server of the jobs, and its secret, which requests have.
fn served(job: &Job) -> (Web, String) {
    let mut web = Web::start(job, &["--write-rate", "1000"]);
    let path = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    let told: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let secret = told["token"].as_str().unwrap().to_owned();
    web.set_token(&secret);
    (web, secret)
}

/// A token with this role: its id, and the secret.
fn token(job: &Job, role: &str) -> (String, String) {
    let made = job.command(&["token", "create", role, "--role", role, "-o", "json"]).json();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// All bytes of the audit.
fn stored(job: &Job) -> String {
    let mut folders = vec![job.path("prs-runs/.registry/audit")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                all.push_str(&fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    all
}

#[test]
fn every_change_has_its_line_and_so_has_each_that_was_refused() {
    let job = job();
    let (mut web, own) = served(&job);
    let (reader, secret) = token(&job, "read");
    let numbered = [JSON, ("X-Request-Id", "asked-by-reader")];
    let made = web.send(
        "POST",
        "/api/v1/tokens",
        &[JSON],
        br#"{"name": "ci", "role": "invoke", "endpoints": ["*"]}"#,
    );
    let made = made.json(201);
    let (id, whole) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    web.set_token(&secret);
    assert_eq!(web.send("POST", "/api/v1/tokens", &numbered, b"{\"hush\": 1}").status, 403);
    assert_eq!(web.send("POST", "/api/v1/jobs", &numbered, b"{}").status, 403);
    assert_eq!(web.get("/api/v1/audit").status, 403);
    web.set_token(&own);
    // An address takes a whole token, which no line may have.
    assert_eq!(web.send("DELETE", &format!("/api/v1/tokens/{whole}"), &[], b"").status, 204);
    let bad = web.send("POST", "/api/v1/jobs", &[JSON], br#"{"yaml": "name: hush"}"#);
    assert_eq!(bad.status, 422);
    web.set_token("prs_wrong");
    assert_eq!(web.send("POST", "/api/v1/jobs", &[JSON], b"{}").status, 401);
    web.set_token("");
    let entered = web.ask_with("POST", "/login", &FORM, &format!("token={secret}&next=/jobs"));
    assert_eq!(entered.status, 303);
    assert_eq!(web.ask_with("POST", "/login", &FORM, "token=prs_hush").status, 200);
    let foreign = [("Host", "evil.example.org"), JSON];
    assert_eq!(web.ask_with("POST", "/endpoints/e/jobs", &foreign, "{}").status, 421);
    web.set_token(&own);
    assert_eq!(web.send("DELETE", "/nowhere", &[], b"").status, 404);

    let lines = web.get("/api/v1/audit?limit=100").json(200);
    let lines = lines["value"].as_array().unwrap();
    let told: Vec<(&str, u64, Option<&str>, Option<&str>)> = lines
        .iter()
        .rev()
        .map(|line| {
            let text = |key: &str| line[key].as_str();
            (text("action").unwrap(), line["result"].as_u64().unwrap(), text("problem"), text("principal"))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("token.create", 201, None, Some("local")),
            ("token.create", 403, Some("forbidden"), Some("read")),
            ("job.submit", 403, Some("forbidden"), Some("read")),
            ("token.revoke", 204, None, Some("local")),
            ("job.submit", 422, Some("job-file"), Some("local")),
            ("job.submit", 401, Some("wrong-credentials"), None),
            ("session.create", 303, None, Some("read")),
            ("session.create", 200, Some("not-done"), None),
            ("job.submit", 421, Some("unknown-host"), None),
            ("address.delete", 404, Some("not-found"), Some("local")),
        ]
    );
    let of = |query: &str| {
        let found = web.get(&format!("/api/v1/audit?{query}")).json(200);
        found["value"].as_array().unwrap().clone()
    };
    assert_eq!(of("principal=read").len(), 3);
    assert_eq!(of(&format!("principal={reader}")).len(), 3, "by the id of the token");
    assert_eq!(of("action=token.").len(), 3);
    assert_eq!(of("action=job.submit&result=4").len(), 4);
    assert_eq!(of("request_id=asked-by-reader").len(), 2);
    assert_eq!(of("until=2001-01-01T00:00:00Z&since=2000-12-31T00:00:00Z").len(), 0);
    let created = &of("action=token.create&result=201")[0];
    assert_eq!(created["made"], format!("/api/v1/tokens/{id}"), "{created}");
    assert!(created["address"] == "127.0.0.1" && created["role"] == "admin", "{created}");
    // In pages.
    let first = web.get("/api/v1/audit?limit=7").json(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = web.get(&format!("/api/v1/audit?limit=7&cursor={cursor}")).json(200);
    assert_eq!((rest["value"].as_array().unwrap().len(), &rest["next_cursor"]), (3, &Value::Null));
    assert_eq!(web.get(&format!("/api/v1/audit?principal=read&cursor={cursor}")).status, 400);

    let stored = stored(&job);
    assert_eq!(stored.lines().count(), told.len(), "{stored}");
    let part = |secret: &str| secret.split('_').nth(2).unwrap().to_owned();
    for hidden in ["hush", &part(&secret), &part(whole), &own] {
        assert!(!stored.contains(hidden), "{hidden}: {stored}");
    }
    // The newest are written when the server ends, and gc keeps what is young.
    assert!(web.program.signal(Signal::TERM));
    let log = web.program.wait().stderr;
    for hidden in ["hush", &part(&secret), &part(whole)] {
        assert!(!log.contains(hidden), "{hidden}: {log}");
    }
    job.command(&["gc", "--yes"]).expect_code(0);
    let old = job.path("prs-runs/.registry/audit/2001/02/03");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("host.1-0000000000000001.jsonl"), "{}\n").unwrap();
    let found = job.command(&["gc", "-o", "json"]).json();
    assert_eq!(found["audit"], 1, "{found}");
    job.command(&["gc", "--yes"]).expect_code(0);
    assert!(!old.join("host.1-0000000000000001.jsonl").exists());
}

#[test]
fn without_room_for_lines_nothing_is_changed() {
    let job = job();
    let (web, _) = served(&job);
    // Where the lines belong stands a file.
    fs::create_dir_all(job.path("prs-runs/.registry")).unwrap();
    let place = job.path("prs-runs/.registry/audit");
    fs::write(&place, "in the way").unwrap();
    let body = br#"{"name": "ci", "role": "read"}"#;
    assert_eq!(web.send("POST", "/api/v1/tokens", &[JSON], body).status, 201);
    wait_for("the server says that it cannot audit", Duration::from_secs(90), || {
        (web.get("/readyz").status == 503).then_some(())
    });
    let refused = web.send("POST", "/api/v1/tokens", &[JSON], body).json(503);
    assert!(refused["detail"].as_str().unwrap().contains("who changed what"), "{refused}");
    let metrics = web.get("/metrics").text();
    let lag = metrics.lines().find_map(|line| line.strip_prefix("prs_audit_lag_seconds ")).unwrap();
    assert!(lag.parse::<f64>().unwrap() > 60.0, "{lag}");
    fs::remove_file(&place).unwrap();
    wait_for("it goes on", Duration::from_secs(30), || (web.get("/readyz").status == 200).then_some(()));
    assert_eq!(web.send("POST", "/api/v1/tokens", &[JSON], body).status, 201);
}
