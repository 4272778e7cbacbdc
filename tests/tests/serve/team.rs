//! A server for a team: reached from other machines, by holders of a token.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::servers::{Certificates, free_port};
use prs_tests::harness::{Answer, Fleet, Job, NAMES, Web};
use serde_json::Value;

/// What a revoked token may be taken for at most, with what a slow machine adds.
const REVOKED: Duration = Duration::from_secs(20);

/// A job that has run, and its id.
fn ran() -> (Job, String) {
    let job = Job::new(NAMES).with_files(2).with("mini_batch_size", 1);
    let job = job.with_runtime_folder();
    let file = job.write_job_file().display().to_string();
    let id = job.command(&["submit", &file, "-o", "json"]).json()["job_id"].as_str().unwrap().to_owned();
    (job, id)
}

fn certificates(job: &Job) -> Certificates {
    let folder = job.path("certificates");
    fs::create_dir(&folder).unwrap();
    Certificates::make(&folder)
}

/// A token with this role: its id, and the secret.
fn token(job: &Job, role: &str) -> (String, String) {
    let mut arguments = vec!["token", "create", role, "--role", role, "-o", "json"];
    if role == "invoke" {
        arguments.extend(["--endpoint", "*"]);
    }
    let made = job.command(&arguments).json();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) {
    let problem = answer.json(status);
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
}

/// The cookie of a browser that logs in with this token.
fn log_in(web: &Web, secret: &str) -> Answer {
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    web.ask_with("POST", "/login", &form, &format!("token={secret}&next=/jobs"))
}

fn cookie_of(entered: &Answer) -> String {
    assert_eq!(entered.status, 303, "{}", entered.text());
    entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn a_server_for_others_wants_tls_a_name_and_a_token() {
    let (job, _) = ran();
    let files = certificates(&job);
    let (certificate, key) = (files.certificate.display().to_string(), files.key.display().to_string());
    let listen = format!("0.0.0.0:{}", free_port());
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let named = [&tls[..], &["--url", "https://localhost"]].concat();
    for (more, said) in [
        (vec![], "--tls-cert and --tls-key, or --insecure-http"),
        (vec!["--auth", "none", "--insecure-http", "--url", "http://prs.example.org"], "--auth none"),
        (tls.to_vec(), "give --url"),
        ([&tls[..], &["--url", "http://localhost"]].concat(), "reached by https, and --url says http"),
        (named.clone(), "prs token create NAME --role admin"),
        (vec!["--tls-cert", "/nowhere.pem", "--tls-key", &key, "--url", "https://localhost"], "/nowhere.pem"),
        (vec!["--tls-cert", &certificate], "--tls-key"),
        ([&tls[..], &["--insecure-http"]].concat(), "--insecure-http"),
    ] {
        let refused = job.command(&[&["serve", "--listen", &listen][..], &more].concat());
        refused.expect_code(2);
        assert!(refused.stderr.contains(said), "{more:?}: {}", refused.stderr);
    }
    // A token that is not taken any more lets nobody in.
    let (id, _) = token(&job, "admin");
    job.command(&["token", "revoke", &id]).expect_code(0);
    let refused = job.command(&[&["serve", "--listen", &listen][..], &named].concat());
    refused.expect_code(2);
    assert!(refused.stderr.contains("there is no token yet"), "{}", refused.stderr);
}

#[test]
fn servers_of_one_registry_share_their_sessions_until_the_token_is_revoked() {
    let (job, id) = ran();
    let files = certificates(&job);
    let (token_id, secret) = token(&job, "submit");
    let (one, other) = (Web::for_others(&job, Some(&files), &[]), Web::for_others(&job, Some(&files), &[]));
    is_problem(&one.get("/api/v1/jobs"), 401, "unauthenticated");
    assert!(one.get("/livez").header("strict-transport-security").is_some());
    // Nobody is told of a secret of this start.
    assert!(!job.path("runtime/prs").join(format!("serve-{}.json", one.port())).exists());

    let entered = log_in(&one, &secret);
    let set = entered.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-prs=") && set.contains("; Path=/; "), "{set}");
    assert!(set.contains("; Secure; HttpOnly; SameSite=Lax"), "{set}");
    assert!(!set.contains(secret.split('_').nth(2).unwrap()), "{set}");
    let cookie = cookie_of(&entered);
    let with_cookie = |web: &Web, method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], more].concat();
        web.ask_with(method, path, &headers, "")
    };
    for web in [&one, &other] {
        let who = with_cookie(web, "GET", "/api/v1/whoami", &[]).json(200);
        assert_eq!((&who["principal"], &who["how"]), (&"submit".into(), &"session".into()), "{who}");
        assert_eq!((&who["role"], &who["token_id"]), (&"submit".into(), &token_id.as_str().into()), "{who}");
        let page = with_cookie(web, "GET", &format!("/jobs/{id}"), &[("Accept", "text/html")]);
        assert!(page.status == 200 && page.text().contains("Log out"), "{}", page.text());
    }
    // A change comes from a page of the server.
    let cancel = format!("/api/v1/jobs/{id}/cancel");
    let asks = |more: &[(&str, &str)]| with_cookie(&other, "POST", &cancel, more);
    for foreign in [
        vec![],
        vec![("Sec-Fetch-Site", "cross-site")],
        vec![("Sec-Fetch-Site", "same-site")],
        vec![("Origin", "https://evil.example.org")],
        vec![("Origin", "null")],
    ] {
        is_problem(&asks(&foreign), 403, "cross-origin");
    }
    is_problem(&asks(&[("Sec-Fetch-Site", "same-origin")]), 409, "job-has-ended");
    is_problem(&asks(&[("Origin", &other.url)]), 409, "job-has-ended");

    job.command(&["token", "revoke", &token_id]).expect_code(0);
    for web in [&one, &other] {
        wait_for("the session ends with its token", REVOKED, || {
            (with_cookie(web, "GET", "/api/v1/whoami", &[]).status == 401).then_some(())
        });
    }
    let again = log_in(&one, &secret);
    assert!(again.status == 200 && again.text().contains("was revoked"), "{}", again.text());
    assert!(again.header("set-cookie").is_none());
    for stderr in [one.program.stderr(), other.program.stderr()] {
        assert!(!stderr.contains(secret.split('_').nth(2).unwrap()), "a secret is in the log");
    }
}

#[test]
fn other_names_are_kept_out_of_a_server_for_others() {
    let (job, _) = ran();
    let (_, secret) = token(&job, "read");
    let mut web = Web::for_others(&job, None, &["--allow-host", "prs-server.prs.svc"]);
    web.set_token(&secret);
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1234", 200),
        ("prs-server.prs.svc:8470", 200),
        ("prs-server.prs.svc.evil.example.org", 421),
        ("192.0.2.1", 421),
        ("evil.example.org", 421),
        ("", 421),
    ] {
        let answer = web.ask_with("GET", "/api/v1/jobs", &[("Host", host)], "");
        assert_eq!(answer.status, status, "{host}: {}", answer.text());
        let public = web.ask_with("GET", "/livez", &[("Host", host)], "");
        assert_eq!(public.status, 200, "{host}: it tells nothing");
    }
    // Without TLS the cookie cannot ask for it.
    web.set_token("");
    let set = log_in(&web, &secret).header("set-cookie").unwrap().to_owned();
    assert!(set.starts_with(&format!("prs-{}=", web.port())) && !set.contains("Secure"), "{set}");
    assert!(web.program.stderr().contains("in the clear"), "{}", web.program.stderr());
}

#[test]
fn a_new_certificate_is_taken_without_a_new_start() {
    let (job, _) = ran();
    let files = certificates(&job);
    token(&job, "read");
    let job = job.with_own_variable("PRS_LOG", "info");
    let mut web = Web::for_others(&job, Some(&files), &[]);
    assert_eq!(web.get("/livez").status, 200);
    let folder = job.path("new");
    fs::create_dir(&folder).unwrap();
    let new = Certificates::make(&folder);
    fs::copy(&new.key, &files.key).unwrap();
    fs::copy(&new.certificate, &files.certificate).unwrap();
    web.program.wait_until_said("the certificate is new");
    web.trust(&new);
    assert_eq!(web.get("/livez").status, 200);
}

#[test]
fn the_first_token_comes_by_a_variable() {
    let (job, _) = ran();
    let generated = job.command(&["token", "generate"]);
    generated.expect_code(0);
    let secret = generated.stdout.trim().to_owned();
    let job = job.with_own_variable("PRS_TOKEN", &secret);
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&secret);
    let who = web.get("/api/v1/whoami").json(200);
    assert_eq!((&who["principal"], &who["role"]), (&"PRS_TOKEN".into(), &"admin".into()));
    drop(web);
    // The next start finds it there. Who revoked it meant it.
    let found = job.command(&["token", "list", "-o", "json"]).json();
    assert_eq!(found["tokens"].as_array().unwrap().len(), 1, "{found}");
    job.command(&["token", "revoke", &secret]).expect_code(0);
    let listen = format!("0.0.0.0:{}", free_port());
    let start = ["serve", "--listen", &listen, "--insecure-http", "--url", "http://localhost"];
    let refused = job.command(&start);
    refused.expect_code(2);
    assert!(refused.stderr.contains("there is no token yet"), "{}", refused.stderr);
    assert!(!refused.stderr.contains(&secret), "{}", refused.stderr);
    let wrong = job.with_own_variable("PRS_TOKEN", "hunter2").command(&start);
    wrong.expect_code(2);
    assert!(
        wrong.stderr.contains("prs token generate") && !wrong.stderr.contains("hunter2"),
        "{}",
        wrong.stderr
    );
}

/// What people may open and press, with the least role; `any` where all do, empty where nobody needs one.
const PAGES: &[(&str, &str, &str)] = &[
    ("get", "/", "any"),
    ("get", "/jobs", "read"),
    ("post", "/selected", "submit"),
    ("get", "/jobs/{job}", "read"),
    ("get", "/jobs/{job}/live", "read"),
    ("get", "/jobs/{job}/part/{part}", "read"),
    ("get", "/jobs/{job}/errors", "read"),
    ("get", "/jobs/{job}/errors/{group}", "read"),
    ("get", "/jobs/{job}/logs", "read"),
    ("get", "/jobs/{job}/logs/{path}", "read"),
    ("get", "/jobs/{job}/mini-batches", "read"),
    ("get", "/jobs/{job}/mini-batches/{index}", "read"),
    ("get", "/jobs/{job}/nodes", "read"),
    ("get", "/jobs/{job}/nodes/{node}", "read"),
    ("get", "/jobs/{job}/nodes/{node}/part/{part}", "read"),
    ("get", "/jobs/{job}/errors/part/{part}", "read"),
    ("get", "/jobs/{job}/nodes/part/{part}", "read"),
    ("get", "/jobs/{job}/output", "read"),
    ("get", "/jobs/{job}/picture/{path}", "read"),
    ("get", "/jobs/{job}/settings", "read"),
    ("get", "/jobs/{job}/code", "read"),
    ("get", "/jobs/{job}/code/{path}", "read"),
    ("get", "/jobs/{job}/report.html", "read"),
    ("get", "/jobs/{job}/graph", "read"),
    ("get", "/compare", "read"),
    ("get", "/submit", "submit"),
    ("post", "/submit", "submit"),
    ("get", "/jobs/{job}/resume", "submit"),
    ("post", "/jobs/{job}/resume", "submit"),
    ("get", "/jobs/{job}/resubmit", "submit"),
    ("post", "/jobs/{job}/resubmit", "submit"),
    ("get", "/jobs/{job}/cancel", "submit"),
    ("post", "/jobs/{job}/cancel", "submit"),
    ("get", "/jobs/{job}/remove", "submit"),
    ("post", "/jobs/{job}/remove", "submit"),
    ("get", "/endpoints", "read"),
    ("get", "/endpoints/{endpoint}", "read"),
    ("get", "/endpoints/{endpoint}/invoke", "submit"),
    ("post", "/endpoints/{endpoint}/invoke", "submit"),
    ("post", "/endpoints", "submit"),
    ("get", "/endpoints/{endpoint}/edit", "submit"),
    ("post", "/endpoints/{endpoint}/edit", "submit"),
    ("post", "/endpoints/{endpoint}/default", "submit"),
    ("get", "/endpoints/{endpoint}/delete", "submit"),
    ("post", "/endpoints/{endpoint}/delete", "submit"),
    ("get", "/endpoints/{endpoint}/deployments/{deployment}/delete", "submit"),
    ("post", "/endpoints/{endpoint}/deployments/{deployment}/delete", "submit"),
    ("get", "/registry", "read"),
    ("get", "/registry/{kind}", "read"),
    ("get", "/registry/{kind}/{name}", "read"),
    ("get", "/registry/{kind}/{name}/{version}", "read"),
    ("post", "/registry/{kind}/{name}/{version}/archive", "submit"),
    ("get", "/registry/{kind}/{name}/{version}/delete", "admin"),
    ("post", "/registry/{kind}/{name}/{version}/delete", "admin"),
    ("get", "/fleet", "read"),
    ("get", "/fleet/{target}", "read"),
    ("get", "/workers/{worker}", "read"),
    ("get", "/workers/{worker}/drain", "admin"),
    ("post", "/workers/{worker}/drain", "admin"),
    ("get", "/admin/tokens", "read"),
    ("post", "/admin/tokens", "submit"),
    ("get", "/admin/tokens/{token}/revoke", "read"),
    ("post", "/admin/tokens/{token}/revoke", "read"),
    ("get", "/admin/audit", "admin"),
    ("get", "/admin/servers", "read"),
    ("get", "/login", ""),
    ("post", "/login", ""),
    ("post", "/logout", ""),
    ("get", "/display", ""),
    ("post", "/display", ""),
    ("get", "/help", ""),
    ("get", "/help/components", ""),
    ("get", "/api", ""),
    ("get", "/problems", ""),
    ("get", "/problems/{slug}", ""),
    ("get", "/static/{name}", ""),
];

/// The table that the server goes by. `PAGES` says the same a second time, so that a slip in one of them is found.
const SERVERS_TABLE: &str = include_str!("../../../server/src/pages/mod.rs");

#[test]
fn no_page_is_missing_from_the_table() {
    let entry = |line: &'static str| {
        let mut words = line.trim().strip_prefix("(\"")?.strip_suffix("\"),")?.split("\", \"");
        Some((words.next()?, words.next()?, words.next()?))
    };
    let all: Vec<_> = SERVERS_TABLE.lines().filter_map(entry).collect();
    assert!(all.len() > 70, "{}", all.len());
    // Without a provider there is nobody to sign in with: tests/oidc.rs.
    let unknown = |entry: &&(_, &str, _)| !PAGES.contains(entry) && !entry.1.starts_with("/oidc/");
    assert_eq!(all.iter().find(unknown), None);
    assert_eq!(PAGES.iter().find(|entry| !all.contains(entry)), None);
}

/// What a token of the role invoke sees of the jobs of its own calls, below the address of each.
const OF_OWN: [&str; 12] = [
    "",
    "/cancel",
    "/events",
    "/logs",
    "/logs/nothing",
    "/logs.tar.gz",
    "/log-lines",
    "/log-search",
    "/outputs",
    "/outputs/nothing",
    "/output-preview",
    "/result",
];

/// Which roles may do what an address asks of `least`.
fn may(role: &str, least: &str) -> bool {
    match least {
        "" => true,
        "any" => role != "nobody",
        "metrics" => matches!(role, "metrics" | "read" | "submit" | "admin"),
        "invoke" => matches!(role, "invoke" | "submit" | "admin"),
        "read" => matches!(role, "read" | "submit" | "admin"),
        "submit" => matches!(role, "submit" | "admin"),
        "admin" => role == "admin",
        other => panic!("{other} is no role"),
    }
}

/// The answer to a request that comes as fast as the server takes them: it says how long to wait.
fn answer_in_time(ask: impl Fn() -> Answer) -> Answer {
    loop {
        let answer = ask();
        if answer.status != 429 {
            return answer;
        }
        let seconds = answer.header("retry-after").and_then(|text| text.parse().ok()).unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

#[test]
fn each_role_may_what_the_document_says_and_nothing_more() {
    let (job, _) = ran();
    let roles = ["nobody", "metrics", "invoke", "read", "submit", "admin"];
    let secrets = roles.map(|role| if role == "nobody" { String::new() } else { token(&job, role).1 });
    let fast = ["--read-rate", "100000", "--write-rate", "100000", "--stranger-rate", "100000"];
    let mut web = Web::for_others(&job, None, &fast);
    let document = web.get("/openapi.json").json(200);
    let mut asked = 0;
    // A stream of all jobs has no end of its own.
    let paths = document["paths"].as_object().unwrap();
    for (path, methods) in paths.iter().filter(|(path, _)| *path != "/api/v1/events") {
        for (method, operation) in methods.as_object().unwrap() {
            let says = operation["description"].as_str().unwrap_or_default();
            let least = match says.strip_prefix("Needs the role ").and_then(|rest| rest.split(' ').next()) {
                Some(role) => role,
                None if operation["security"] == Value::Null => "",
                None => "any",
            };
            let path = path.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
            let path = path.collect::<Vec<_>>().join("/");
            for (role, secret) in roles.iter().zip(&secrets) {
                web.set_token(secret);
                let answer = answer_in_time(|| web.ask_with(&method.to_uppercase(), &path, &[], ""));
                // A token of the role invoke sees the jobs of its own calls, and no others are there.
                let of_job = path.strip_prefix("/api/v1/jobs/nothing");
                let is_own =
                    of_job.is_some_and(|rest| OF_OWN.contains(&rest)) && ["get", "post"].contains(&&**method);
                let is_own_list = method == "get" && path.starts_with("/api/v1/") && path.ends_with("/jobs");
                if *role == "invoke" && (is_own || is_own_list) {
                    let expected = if path == "/api/v1/jobs" { 200 } else { 404 };
                    assert_eq!(answer.status, expected, "{method} {path}: {}", answer.text());
                    continue;
                }
                let expected = may(role, least);
                let refused = matches!(answer.status, 401 | 403);
                assert_eq!(
                    !refused,
                    expected,
                    "{role} asks {method} {path}, which needs {least:?}: {}",
                    answer.text()
                );
                assert!(!refused || (answer.status == 401) == (*role == "nobody"), "{role} {method} {path}");
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "{asked}");
    for (method, page, least) in PAGES {
        let path = page.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        for (role, secret) in roles.iter().zip(&secrets) {
            web.set_token(secret);
            let answer = answer_in_time(|| web.ask_with(&method.to_uppercase(), &path, &[], ""));
            let refused = matches!(answer.status, 401 | 403);
            assert_eq!(!refused, may(role, least), "{role} asks {method} {path}: {}", answer.text());
            assert!(!refused || (answer.status == 401) == (*role == "nobody"), "{role} {method} {path}");
        }
    }
    // Pages are for people who may read.
    for (role, secret) in roles.iter().zip(&secrets) {
        web.set_token("");
        let entered = answer_in_time(|| log_in(&web, secret));
        assert_eq!(entered.header("set-cookie").is_some(), may(role, "read"), "{role}: {}", entered.text());
    }
}

const SLOW: &str = r"
import marks

def run(mini_batch):
    marks.wait_for('go')
    return mini_batch
";

/// How long a job may take to begin, and to end.
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn an_autoscaler_hears_how_many_workers_a_fleet_wants() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(SLOW)).with_files(6).with("mini_batch_size", 1);
    let job = job.with("compute_target", "scaled").with("node_count", 3);
    let (_, secret) = token(&job, "metrics");
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&secret);
    let of_target = || web.get("/api/v1/targets/scaled").json(200);
    let none = web.get("/api/v1/targets/nobody-named-it");
    let tag = [("If-None-Match", none.header("etag").unwrap())];
    assert_eq!(web.ask_with("GET", "/api/v1/targets/nobody-named-it", &tag, "").status, 304);
    let figures = |seen: &Value, keys: &[&str]| -> Vec<u64> {
        keys.iter().map(|key| seen[*key].as_u64().unwrap_or_else(|| panic!("{key}: {seen}"))).collect()
    };
    let seen = of_target();
    assert_eq!(figures(&seen, &["wanted_nodes", "jobs", "idle_workers"]), [0, 0, 0], "{seen}");
    let id = fleet.hand_in(&job);
    // Nobody has planned it: no worker was ever there.
    let seen = wait_for("nodes are wanted", PATIENCE, || Some(of_target()).filter(|seen| seen["jobs"] == 1));
    let keys = ["wanted_nodes", "asked_nodes", "live_nodes", "workers_needed"];
    assert_eq!(figures(&seen, &keys), [3, 3, 0, 3], "{seen}");
    let worker = fleet.worker(&job, &["--target", "scaled", "--slots", "1"]);
    let seen = wait_for("a node is at work", PATIENCE, || {
        Some(of_target()).filter(|seen| seen["live_nodes"] == 1 && seen["jobs_by_state"]["running"] == 1)
    });
    assert_eq!(figures(&seen, &keys), [3, 3, 1, 2], "{seen}");
    let left = figures(&seen, &["waiting_mini_batches", "in_flight_mini_batches"]);
    assert_eq!(left.iter().sum::<u64>(), 6, "{seen}");
    let listed = web.get("/api/v1/targets").json(200);
    let names: Vec<_> = listed["value"].as_array().unwrap().iter().map(|one| &one["target"]).collect();
    assert!(names.contains(&&Value::from("scaled")), "{listed}");
    is_problem(&web.get("/api/v1/workers"), 403, "forbidden");
    let scrape = web.get("/metrics");
    assert_eq!(
        scrape.header("content-type").map(|kind| kind.split(';').next().unwrap()),
        Some("application/openmetrics-text")
    );
    let scrape = scrape.text();
    for line in [
        "prs_dependency_up{dependency=\"broker\"} 1",
        "prs_broker_dead_messages{} 0",
        "prs_target_ended_jobs_total{target=\"scaled\",state=\"failed\",complete=\"false\"} 0",
        "prs_target_wanted_nodes{target=\"scaled\"} 3",
        "prs_target_live_nodes{target=\"scaled\"} 1",
        "prs_target_jobs{target=\"scaled\",state=\"running\"} 1",
        "prs_dependency_up{dependency=\"ledger\"} 1",
    ] {
        assert!(scrape.lines().any(|found| found == line), "{line} is missing: {scrape}");
    }
    let value = |begin: &str| -> f64 {
        let line = scrape.lines().find_map(|line| line.strip_prefix(begin)?.strip_prefix(' '));
        line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{begin} is missing: {scrape}"))
    };
    let age = value("prs_target_progress_age_seconds{target=\"scaled\"}");
    assert!(age > 0.0 && age < PATIENCE.as_secs_f64(), "{age}");
    for at_least_one in [
        "prs_ledger_memory_bytes{}",
        "prs_ledger_requests_total{verb=\"offers\",result=\"ok\"}",
        "prs_ledger_request_duration_seconds_count{verb=\"offers\",result=\"ok\"}",
        "prs_storage_requests_total{operation=\"list\",result=\"ok\"}",
        "prs_storage_request_duration_seconds_count{operation=\"list\",result=\"ok\"}",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(value(at_least_one) > 0.0, "{at_least_one}: {scrape}");
    }
    are_documented(&scrape);

    let (_, reader) = token(&job, "read");
    web.set_token(&reader);
    let serving = web.get("/api/v1/workers?target=scaled&state=serving").json(200);
    assert_eq!(
        (&serving["total"], &serving["value"][0]["job_id"]),
        (&1.into(), &id.as_str().into()),
        "{serving}"
    );
    assert_eq!(web.get("/api/v1/workers?target=scaled&state=idle").json(200)["total"], 0);
    is_problem(&web.get("/api/v1/workers?state=lazy"), 400, "bad-parameter");

    job.mark("go");
    wait_for("nothing is wanted any more", PATIENCE, || {
        let seen = web.get("/api/v1/targets/scaled").json(200);
        (seen["wanted_nodes"] == 0 && seen["jobs"] == 0 && seen["idle_workers"] == 1).then_some(())
    });
    // Whichever program notes how it ended, it counts once.
    let ended = "prs_target_ended_jobs_total{target=\"scaled\",state=\"completed\",complete=\"true\"} 1";
    wait_for("its end is counted", PATIENCE, || {
        web.get("/metrics").text().lines().any(|line| line == ended).then_some(())
    });
    job.command(&["job", "update", "--name", &id, "--set", "description=seen"]).expect_code(0);
    assert!(web.get("/metrics").text().lines().any(|line| line == ended));
    drop(worker);
}

#[test]
fn without_its_ledger_a_server_has_no_figures() {
    let fleet = Fleet::apart();
    let job = fleet.job(Job::new(NAMES));
    let (_, secret) = token(&job, "metrics");
    let way = TcpProxy::start(fleet.addresses()[1]);
    let job = job.with_own_variable("PRS_REDIS_URL", &format!("redis://{}", way.address()));
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&secret);
    assert_eq!(web.get("/api/v1/targets/default").status, 200);
    way.cut_off();
    wait_for("the outage shows", PATIENCE, || {
        let answer = web.get("/api/v1/targets/default");
        (answer.status != 200).then(|| is_problem(&answer, 503, "servers-unreachable"))
    });
    assert!(web.get("/api/v1/targets/default").header("retry-after").is_some());
    let scrape = web.get("/metrics").text();
    assert!(scrape.lines().any(|line| line == "prs_dependency_up{dependency=\"ledger\"} 0"), "{scrape}");
    assert!(scrape.lines().any(|line| line == "prs_dependency_up{dependency=\"storage\"} 1"), "{scrape}");
    assert!(!scrape.contains("prs_target_wanted_nodes{"), "{scrape}");
    way.restore();
    wait_for("the figures are back", PATIENCE, || {
        (web.get("/api/v1/targets/default").status == 200).then_some(())
    });
}

/// The part of docs/metrics.md about servers has what is exported, and nothing else.
#[track_caller]
fn are_documented(scrape: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let part = page.split("\n## A server\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `prs_") || line.starts_with("| `process_"));
    let documented: BTreeSet<(String, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`');
            (name.strip_suffix("_total").unwrap_or(name).to_owned(), cells[4].to_owned())
        })
        .collect();
    let helps = scrape.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let exported: BTreeSet<_> =
        helps.map(|(name, help)| (name.to_owned(), help.trim_end_matches('.').to_owned())).collect();
    // Redis of the tests has no limit.
    let is_there = |(name, _): &&(String, String)| *name != "prs_ledger_memory_limit_bytes";
    let documented: BTreeSet<_> = documented.iter().filter(is_there).cloned().collect();
    assert_eq!(documented, exported, "docs/metrics.md and /metrics of a server differ");
}

#[test]
fn figures_are_told_at_an_address_of_their_own_without_a_token() {
    let (job, _) = ran();
    token(&job, "read");
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut web = Web::for_others(&job, None, &["--metrics-listen", &address]);
    is_problem(&web.get("/metrics"), 401, "unauthenticated");
    web.ask_at(port);
    for (path, status) in
        [("/metrics", 200), ("/livez", 200), ("/readyz", 200), ("/api/v1/jobs", 404), ("/login", 404)]
    {
        // Who collects them has no name for the server.
        assert_eq!(web.ask_with("GET", path, &[("Host", "10.1.2.3")], "").status, status, "{path}");
    }
    let taken = job.command(&["serve", "--listen", "127.0.0.1:0", "--metrics-listen", &address]);
    taken.expect_code(2);
    assert!(taken.stderr.contains("--metrics-listen takes another address"), "{}", taken.stderr);
}

#[test]
fn who_says_nothing_keeps_nobody_from_an_answer() {
    let (job, _) = ran();
    let (_, secret) = token(&job, "read");
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&secret);
    let mut silent: Vec<_> = (0..200).map(|_| web.connect()).collect();
    for stream in silent.iter_mut().take(100) {
        stream.write_all(b"GET /api/v1/jobs HTTP/1.1\r\nHost: loc").unwrap();
    }
    assert_eq!(web.get("/api/v1/jobs").status, 200);
    // What did not come in time is not waited for.
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&said));
    }
    assert_eq!(web.get("/api/v1/jobs").status, 200);
}

#[test]
fn who_asks_too_often_is_told_to_wait_and_others_are_not() {
    let (job, _) = ran();
    let (busy, other) = (token(&job, "read").1, token(&job, "metrics").1);
    let mut web = Web::for_others(&job, None, &["--read-rate", "1"]);
    web.set_token(&busy);
    let refused = wait_for("a request is refused", PATIENCE, || {
        Some(web.get("/api/v1/whoami")).filter(|answer| answer.status != 200)
    });
    is_problem(&refused, 429, "too-many-requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    web.set_token(&other);
    assert_eq!(web.get("/api/v1/whoami").status, 200);
    let none = job.command(&["serve", "--read-rate", "0"]);
    none.expect_code(2);
}

#[test]
fn an_administrator_makes_tokens_and_ends_them() {
    let (job, _) = ran();
    let (boss_id, boss) = token(&job, "admin");
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&boss);
    let json = [("Content-Type", "application/json")];
    let post = |body: &str| web.ask_with("POST", "/api/v1/tokens", &json, body);
    let made = post(r#"{"name": "viewer", "role": "read", "expires_in_days": 7}"#);
    let record = made.json(201);
    let (id, secret) = (record["id"].as_str().unwrap(), record["secret"].as_str().unwrap().to_owned());
    assert_eq!(made.header("location"), Some(format!("/api/v1/tokens/{id}").as_str()));
    assert_eq!(made.header("cache-control"), Some("no-store"));
    assert_eq!((&record["created_by"], &record["state"]), (&"admin".into(), &"active".into()), "{record}");
    for (body, said) in [
        ("", "is not the JSON"),
        (r#"{"name": "x"}"#, "role"),
        (r#"{"name": "x", "role": "root"}"#, "root"),
        (r#"{"name": "x", "role": "read", "days": 1}"#, "days"),
        (r#"{"name": "", "role": "read"}"#, "1 to 64 characters"),
        (r#"{"name": "x", "role": "invoke"}"#, "endpoints"),
    ] {
        let refused = post(body);
        is_problem(&refused, 400, "bad-request");
        assert!(refused.text().contains(said), "{body}: {}", refused.text());
    }
    is_problem(&web.ask_with("POST", "/api/v1/tokens", &[], "{}"), 415, "wrong-media-type");
    let first = web.get("/api/v1/tokens?limit=1").json(200);
    assert_eq!((&first["total"], &first["value"][0]["id"]), (&2.into(), &id.into()), "{first}");
    assert!(first["value"][0].get("secret").is_none());
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = web.get(&format!("/api/v1/tokens?limit=1&cursor={cursor}")).json(200);
    assert_eq!((&second["value"][0]["id"], &second["next_cursor"]), (&boss_id.as_str().into(), &Value::Null));
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/tokens/{id}"), &[], "").status, 204);
    is_problem(&web.ask_with("DELETE", "/api/v1/tokens/0a1b2c3d4e5f", &[], ""), 404, "token-not-found");
    is_problem(&web.ask_with("DELETE", "/api/v1/tokens/nothing", &[], ""), 404, "token-not-found");
    // The server that ended it does not believe it for another moment.
    web.set_token(&secret);
    is_problem(&web.get("/api/v1/whoami"), 401, "wrong-credentials");
    assert!(!web.program.stderr().contains(&secret));
}

#[test]
fn a_stream_ends_with_the_token_that_opened_it() {
    let (job, _) = ran();
    job.script(SLOW);
    let (token_id, secret) = token(&job, "read");
    let mut web = Web::for_others(&job, None, &[]);
    web.set_token(&secret);
    let id_file = job.path("id");
    let file = job.write_job_file().display().to_string();
    let id_option = id_file.display().to_string();
    let mut program = job.start(&["submit", &file, "-o", "json", "--id-file", &id_option]);
    let id = wait_for("the job has an id", PATIENCE, || {
        fs::read_to_string(&id_file).ok().filter(|text| text.ends_with('\n'))
    });
    let mut stream = web.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /api/v1/jobs/{}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\r\n",
        id.trim()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&said).contains("event: status") {
        let read = stream.read(&mut part).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&part[..read]);
    }
    job.command(&["token", "revoke", &token_id]).expect_code(0);
    stream.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("event: bye"), "{}", String::from_utf8_lossy(&said));
    program.interrupt();
    program.wait().expect_code(130);
}

#[test]
fn who_logged_in_makes_tokens_for_themselves_and_sees_no_others() {
    let (job, _) = ran();
    let ((mine, secret), (other, _)) = (token(&job, "submit"), token(&job, "admin"));
    let mut web = Web::for_others(&job, None, &["--write-rate", "1000"]);
    let cookie = cookie_of(&log_in(&web, &secret));
    let browser = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let json = [&browser[..], &[("Content-Type", "application/json")]].concat();
    let post = |body: &str| web.ask_with("POST", "/api/v1/tokens", &json, body);
    for (body, said) in [
        (r#"{"name": "x", "role": "admin"}"#, "no token of the role admin"),
        (r#"{"name": "x", "role": "read", "expires_in_days": 91}"#, "90 days at most"),
        (r#"{"name": "x", "role": "read", "expires_in_days": 0}"#, "90 days at most"),
    ] {
        let refused = post(body);
        is_problem(&refused, 403, "forbidden");
        assert!(refused.text().contains(said), "{body}: {}", refused.text());
    }
    let made = post(r#"{"name": "notebook", "role": "read"}"#).json(201);
    let (id, child) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(made["created_by_id"], mine.as_str(), "{made}");
    let listed = web.ask_with("GET", "/api/v1/tokens", &browser, "").json(200);
    let ids: BTreeSet<&str> =
        listed["value"].as_array().unwrap().iter().map(|token| token["id"].as_str().unwrap()).collect();
    assert_eq!(ids, BTreeSet::from([mine.as_str(), id]), "{listed}");
    is_problem(
        &web.ask_with("DELETE", &format!("/api/v1/tokens/{other}"), &browser, ""),
        404,
        "token-not-found",
    );
    // The page says the same, and shows a secret once.
    let form =
        [&browser[..], &[("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "text/html")]];
    let form = form.concat();
    let fresh = web.ask_with("GET", "/admin/tokens", &form, "").text();
    let key = fresh.split("name=\"key\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let sent = format!("name=page&role=read&days=3&key={key}");
    let shown = web.ask_with("POST", "/admin/tokens", &form, &sent);
    assert!(shown.status == 200 && shown.text().contains("prs_"), "{}", shown.text());
    // Pressed again it makes no other, and shows the secret to nobody.
    let again = web.ask_with("POST", "/admin/tokens", &form, &sent);
    assert!(again.status == 200 && again.text().contains("was made already"), "{}", again.text());
    assert!(!again.text().contains("prs_"), "{}", again.text());
    let of_page = |tokens: &Value| {
        tokens["value"].as_array().unwrap().iter().filter(|token| token["name"] == "page").count()
    };
    assert_eq!(of_page(&web.ask_with("GET", "/api/v1/tokens", &browser, "").json(200)), 1);
    let other_form = web.ask_with("POST", "/admin/tokens", &form, &sent.replace("days=3", "days=4"));
    assert_eq!(other_form.status, 422, "the key was of another form: {}", other_form.text());
    // What was refused may be sent again with the same key.
    let (refused, right) =
        ("name=next&role=admin&days=3&key=0123456789", "name=next&role=read&days=3&key=0123456789");
    let refused = web.ask_with("POST", "/admin/tokens", &form, refused);
    assert!(refused.text().contains("no token of the role admin"), "{}", refused.text());
    assert!(web.ask_with("POST", "/admin/tokens", &form, right).text().contains("prs_"));
    let page = web.ask_with("GET", "/admin/tokens", &form, "");
    assert!(page.text().contains("notebook") && !page.text().contains("_secret"), "{}", page.text());
    assert!(!page.text().contains(&other) && !page.text().contains(child), "{}", page.text());
    let asked = web.ask_with("GET", &format!("/admin/tokens/{id}/revoke"), &form, "");
    assert!(asked.status == 200 && asked.text().contains("Revoke"), "{}", asked.text());
    let revoked = web.ask_with("POST", &format!("/admin/tokens/{id}/revoke"), &form, "");
    assert_eq!(revoked.status, 303, "{}", revoked.text());
    assert_eq!(web.ask_with("GET", "/admin/audit", &form, "").status, 403);
    wait_for("the use of the token is noted", REVOKED * 3, || {
        let list = job.command(&["token", "list", "-o", "json"]).json();
        let found = list["tokens"].as_array().unwrap().iter().find(|token| token["id"] == mine.as_str());
        found.unwrap()["last_used_on"].as_str().map(str::to_owned)
    });
    // A program makes no others of what it was given.
    web.set_token(&secret);
    let json = [("Content-Type", "application/json")];
    is_problem(
        &web.ask_with("POST", "/api/v1/tokens", &json, r#"{"name": "x", "role": "read"}"#),
        403,
        "forbidden",
    );
}
