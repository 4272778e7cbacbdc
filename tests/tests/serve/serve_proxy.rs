//! A server behind a proxy that says who asks and where requests began.

use prs_tests::harness::servers::free_port;
use prs_tests::harness::{Answer, Job, Web};
use serde_json::Value;

const SCRIPT: &str = "def run(mini_batch):\n    return mini_batch\n";
/// Where the proxy is.
const PROXY: &str = "127.0.0.2";
/// Where everybody else is.
const ELSEWHERE: &str = "127.0.0.3";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const OWN_PAGE: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

fn job() -> Job {
    let job = Job::new(SCRIPT).with_files(1);
    job.with_runtime_folder()
}

fn served(job: &Job) -> Web {
    let map = "admin=prs-admins,submit=ml-*,invoke=apps";
    Web::start(job, &["--auth", "proxy", "--trust-proxy", PROXY, "--role-map", map])
}

fn user<'a>(name: &'a str, groups: &'a str) -> [(&'static str, &'a str); 2] {
    [("X-Forwarded-User", name), ("X-Forwarded-Groups", groups)]
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) {
    let problem = answer.json(status);
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
}

#[test]
fn a_proxy_says_who_asks_and_nobody_else_does() {
    let job = job();
    let web = served(&job);
    let whoami =
        |source: &str, headers: &[(&str, &str)]| web.ask_from(source, "GET", "/api/v1/whoami", headers, "");
    let ana = whoami(PROXY, &user("ana", "all, ml-vision")).json(200);
    assert_eq!(
        (&ana["principal"], &ana["role"], &ana["how"]),
        (&"ana".into(), &"submit".into(), &"proxy".into()),
        "{ana}"
    );
    assert_eq!(whoami(PROXY, &user("bo", "ml-vision,prs-admins")).json(200)["role"], "admin");
    let app = whoami(PROXY, &user("app", "apps")).json(200);
    assert_eq!((&app["role"], &app["endpoints"]), (&"invoke".into(), &serde_json::json!(["*"])));
    // A user without a role hears so, and a page says it, too.
    let nobody = user("eve", "all");
    let told = whoami(PROXY, &nobody);
    is_problem(&told, 403, "forbidden");
    assert!(told.text().contains("eve has no role"), "{}", told.text());
    let page = [&nobody[..], &[("Accept", "text/html")]].concat();
    let page = web.ask_from(PROXY, "GET", "/jobs", &page, "");
    assert!(page.status == 403 && page.text().contains("eve has no role"), "{}", page.text());
    assert_eq!(web.ask_from(PROXY, "GET", "/livez", &nobody, "").status, 200);
    // The same headers from elsewhere say nothing.
    for source in [ELSEWHERE, "127.0.0.1"] {
        is_problem(&whoami(source, &user("root", "prs-admins")), 401, "unauthenticated");
    }
    let twice = [&user("ana", "all")[..], &[("X-Forwarded-Groups", "prs-admins")]].concat();
    is_problem(&whoami(PROXY, &twice), 400, "bad-request");
    is_problem(&whoami(PROXY, &[("X-Forwarded-Groups", "prs-admins")]), 401, "unauthenticated");
    // What a proxy has in Authorization for itself is no token; a token counts for more than it.
    let basic = [&user("ana", "ml-vision")[..], &[("Authorization", "Basic YTpi")]].concat();
    assert_eq!(whoami(PROXY, &basic).json(200)["principal"], "ana");
    let secret = job.command(&["token", "create", "ci", "--role", "read", "-q"]).stdout.trim().to_owned();
    let bearer = format!("Bearer {secret}");
    let token = [&user("ana", "prs-admins")[..], &[("Authorization", &*bearer)]].concat();
    let who = whoami(PROXY, &token).json(200);
    assert_eq!(
        (&who["principal"], &who["role"], &who["how"]),
        (&"ci".into(), &"read".into(), &"token".into())
    );
}

#[test]
fn who_comes_through_a_proxy_changes_things_from_pages_of_the_server_alone() {
    let job = job();
    let web = served(&job);
    let ana = user("ana", "ml-vision");
    let make = |more: &[(&str, &str)]| {
        let headers = [&ana[..], &[JSON], more].concat();
        web.ask_from(PROXY, "POST", "/api/v1/tokens", &headers, r#"{"name": "mine", "role": "read"}"#)
    };
    let here = format!("http://127.0.0.1:{}", web.port());
    for foreign in [
        &[][..],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", "https://evil.example.org")],
    ] {
        is_problem(&make(foreign), 403, "cross-origin");
    }
    let token = make(&[("Origin", &here)]).json(201);
    assert_eq!(
        (&token["created_by"], &token["created_by_id"]),
        (&"ana".into(), &"proxy:ana".into()),
        "{token}"
    );
    // She sees and revokes her own, and nobody else does.
    let of = |name: &str| {
        let listed = web.ask_from(PROXY, "GET", "/api/v1/tokens", &user(name, "ml-vision"), "").json(200);
        listed["total"].as_u64().unwrap()
    };
    assert_eq!((of("ana"), of("bo")), (1, 0));
    let path = format!("/api/v1/tokens/{}", token["id"].as_str().unwrap());
    let revoke = |name: &str| {
        web.ask_from(PROXY, "DELETE", &path, &[&user(name, "ml-vision")[..], &[OWN_PAGE]].concat(), "").status
    };
    assert_eq!((revoke("bo"), revoke("ana")), (404, 204));
    let admin = [&ana[..], &[JSON, OWN_PAGE]].concat();
    let refused = web.ask_from(PROXY, "POST", "/api/v1/tokens", &admin, r#"{"name": "x", "role": "admin"}"#);
    is_problem(&refused, 403, "forbidden");
}

#[test]
fn rates_and_the_audit_have_the_address_behind_the_proxy() {
    let job = job();
    let web = served(&job);
    let wrong = |source: &str, client: &str| {
        let headers = [("Authorization", "Bearer prs_no"), ("X-Forwarded-For", client)];
        web.ask_from(source, "GET", "/api/v1/whoami", &headers, "").status
    };
    let until_refused = |source: &str, client: &str| (1..30).find(|_| wrong(source, client) == 429);
    // Each client has tries of its own, whatever it says before what the proxy adds.
    assert_eq!(until_refused(PROXY, "203.0.113.9"), Some(6));
    assert_eq!(wrong(PROXY, "198.51.100.1, 203.0.113.9"), 429);
    assert_eq!(wrong(PROXY, "203.0.113.10"), 401);
    // Who is not the proxy is counted as what it is.
    assert_eq!(until_refused(ELSEWHERE, "203.0.113.11"), Some(6));
    assert_eq!(wrong(ELSEWHERE, "203.0.113.12"), 429);
    assert_eq!(wrong(PROXY, "203.0.113.12"), 401);

    let headers =
        [&user("ana", "ml-vision")[..], &[JSON, OWN_PAGE, ("X-Forwarded-For", "203.0.113.20")]].concat();
    let body = r#"{"name": "mine", "role": "read"}"#;
    assert_eq!(web.ask_from(PROXY, "POST", "/api/v1/tokens", &headers, body).status, 201);
    let forged = [JSON, ("X-Forwarded-For", "203.0.113.21"), ("X-Forwarded-User", "root")];
    assert_eq!(web.ask_from(ELSEWHERE, "POST", "/api/v1/tokens", &forged, body).status, 401);
    let admin = user("bo", "prs-admins");
    let lines = web.ask_from(PROXY, "GET", "/api/v1/audit?action=token.create", &admin, "").json(200);
    let told: Vec<(&Value, &Value, &Value)> = lines["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (&line["principal"], &line["how"], &line["address"]))
        .collect();
    let expected = [
        (&Value::Null, &Value::Null, &Value::from(ELSEWHERE)),
        (&Value::from("ana"), &Value::from("proxy"), &Value::from("203.0.113.20")),
    ];
    assert_eq!(told, expected, "{lines}");
}

#[test]
fn a_proxy_needs_addresses_and_roles() {
    let job = job();
    for (more, says) in [
        (&["--auth", "proxy", "--role-map", "read=*"][..], "--trust-proxy"),
        (&["--auth", "proxy", "--trust-proxy", PROXY], "--role-map"),
        (
            &["--auth", "proxy", "--trust-proxy", "0.0.0.0/0", "--role-map", "read=*"],
            "every address there is",
        ),
        (&["--auth", "proxy", "--trust-proxy", PROXY, "--role-map", "boss=x"], "no role"),
        (&["--role-map", "read=*"], "--auth proxy"),
    ] {
        let refused = job.command(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
        refused.expect_code(2);
        assert!(refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
    }
    // For other machines it does with no token: the proxy knows who asks.
    let listen = format!("0.0.0.0:{}", free_port());
    let start =
        ["serve", "--listen", &listen, "--insecure-http", "--url", "https://prs.example.org", "-o", "json"];
    let refused = job.command(&start);
    refused.expect_code(2);
    assert!(refused.stderr.contains("there is no token yet"), "{}", refused.stderr);
    let proxy = ["--auth", "proxy", "--trust-proxy", "10.1.0.0/16", "--role-map", "read=*"];
    let mut program = job.start(&[&start[..], &proxy].concat());
    program.wait_until_printed("https://prs.example.org");
}
