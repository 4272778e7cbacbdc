//! What a server keeps to itself, whatever is asked for: files beside those of a job, secrets in its log, memory that it does not have; and
//! what each of its answers tells a browser to hold back.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use prs_tests::harness::{Answer, Job, Web, another_user_reads, as_another_user};
use serde_json::Value;

const NAMES: &str = r"
import os

def run(mini_batch):
    print('looking at', mini_batch)
    return [os.path.basename(path) for path in mini_batch]
";
const JSON: (&str, &str) = ("Content-Type", "application/json");
/// What stands in a file that no address leads to.
const HIDDEN: &str = "nobody-reads-this";
/// Bytes of memory that a server has at most.
const MEMORY: u64 = 300 << 20;

/// A job that has ended and another beside it, each with its id; what nobody is to read is beside and above them.
fn scene() -> (Job, [String; 2]) {
    let job = Job::new(NAMES).with_files(2).with_runtime_folder();
    let ids = [(); 2].map(|()| {
        let file = job.write_job_file().display().to_string();
        let ended = job.command(&["submit", &file, "-o", "json"]);
        ended.json()["job_id"].as_str().unwrap().to_owned()
    });
    for place in ["hidden.txt", "prs-runs/hidden.txt"] {
        fs::write(job.path(place), HIDDEN).unwrap();
    }
    for id in &ids {
        let run = job.path(&format!("prs-runs/{id}"));
        fs::write(run.join("hidden.txt"), HIDDEN).unwrap();
        for folder in ["output", "logs"] {
            std::os::unix::fs::symlink(job.path("hidden.txt"), run.join(folder).join("link.txt")).unwrap();
            std::os::unix::fs::symlink(job.path(""), run.join(folder).join("linked")).unwrap();
        }
    }
    (job, ids)
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &["--read-rate", "100000", "--write-rate", "100000"])
}

/// Ways to say a path that leads to `name`, `up` folders above where it begins.
fn ways(up: usize, name: &str) -> Vec<String> {
    let mut ways = Vec::new();
    for step in [
        "../",
        "..%2f",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%5c",
        "..\\",
        "....//",
        "..;/",
        "%252e%252e%252f",
        "..%c0%af",
    ] {
        ways.push(format!("{}{name}", step.repeat(up)));
        ways.push(format!("x/../{}{name}", step.repeat(up)));
    }
    ways
}

#[test]
fn no_path_leads_out_of_what_an_address_gives() {
    let (job, [id, other]) = scene();
    let web = served(&job);
    job.command(&["dataset", "create", "--name", "letters", "--path", "data"]).expect_code(0);
    let absolute = job.path("hidden.txt").display().to_string();
    let mut tried = 0;
    let places = [
        (format!("/api/v1/jobs/{id}/logs/"), 1),
        (format!("/api/v1/jobs/{id}/outputs/"), 1),
        (format!("/api/v1/jobs/{id}/code/"), 1),
        (format!("/api/v1/jobs/{id}/log-lines?path="), 1),
        (format!("/api/v1/jobs/{id}/output-preview?path="), 1),
        ("/api/v1/registry/data/letters/versions/1/files/".to_owned(), 5),
        ("/api/v1/blobs/".to_owned(), 3),
        (format!("/jobs/{id}/logs/"), 1),
        (format!("/jobs/{id}/code/"), 1),
        (format!("/jobs/{id}/output?path="), 1),
        ("/static/".to_owned(), 1),
    ];
    for (place, depth) in &places {
        let mut names: Vec<String> = (0..4).flat_map(|more| ways(depth + more, "hidden.txt")).collect();
        names.extend(ways(1, &format!("{other}/hidden.txt")));
        names.extend([absolute.clone(), absolute.replace('/', "%2f"), format!("/{absolute}")]);
        names.extend(
            ["link.txt", "linked/hidden.txt", "hidden.txt%00.txt", ".", "..", "", "%00"].map(str::to_owned),
        );
        for name in names {
            for answer in [web.get(&format!("{place}{name}")), web.page(&format!("{place}{name}"))] {
                tried += 1;
                let text = answer.text();
                assert!(!text.contains(HIDDEN), "{place}{name}: {} {text}", answer.status);
                assert!(answer.status < 500, "{place}{name}: {} {text}", answer.status);
            }
        }
    }
    for called in ["..", "%2e%2e", "../prs-runs", "..%2f..%2f", "/etc", "a%00b", &"a".repeat(5_000)] {
        for rest in ["", "/logs", "/outputs/hidden.txt", "/spec", "/report.html"] {
            let answer = web.get(&format!("/api/v1/jobs/{called}{rest}"));
            assert!(answer.status >= 300 && answer.status < 500, "{called}{rest}: {}", answer.text());
            assert!(!answer.text().contains(HIDDEN), "{called}{rest}");
        }
    }
    assert!(tried > 500, "{tried}");
    web.has_not_panicked();
}

/// Asserts that an answer tells a browser all that it is to hold back.
#[track_caller]
fn is_fenced(what: &str, answer: &Answer) {
    let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{what}: no {name}"));
    let policy = header("content-security-policy");
    // The report of a job has its colours in it, and may do nothing else.
    let is_report =
        policy.contains("sandbox") && policy.replacen("style-src 'unsafe-inline'", "", 1) != policy;
    let is_strict = policy.contains("default-src 'none'") && !policy.contains('*');
    assert!(is_report || !policy.contains("unsafe"), "{what}: {policy}");
    assert!(is_strict, "{what}: {policy}");
    assert_eq!(header("x-content-type-options"), "nosniff", "{what}");
    assert_eq!(header("referrer-policy"), "same-origin", "{what}");
    assert_eq!(header("cross-origin-opener-policy"), "same-origin", "{what}");
    assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{what}");
    assert!(header("permissions-policy").contains("camera=()"), "{what}");
    assert!(!header("x-request-id").is_empty(), "{what}");
    assert!(answer.header("access-control-allow-origin").is_none(), "{what}");
    let kept = header("cache-control");
    assert!(kept.contains("no-store") || kept.contains("immutable"), "{what}: {kept}");
}

#[test]
fn each_answer_tells_the_browser_what_to_hold_back() {
    let (job, [id, _]) = scene();
    let mut web = served(&job);
    let document = web.get("/openapi.json").json(200);
    let put_in = |path: &str| {
        path.replace("{job}", &id).replace("{index}", "0").replace("{kind}", "data").replace("{path}", "x")
    };
    let addresses: Vec<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| !path.ends_with("/events"))
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys().filter(|method| method.len() < 7);
            methods.map(|method| (method.to_uppercase(), put_in(path))).collect::<Vec<_>>()
        })
        .collect();
    assert!(addresses.len() > 80, "{}", addresses.len());
    let mut statuses = std::collections::BTreeSet::new();
    let secret = web.token().to_owned();
    // What would change something is refused for its body, or for who asks.
    for token in [&secret, ""] {
        web.set_token(token);
        // Nobody but strangers deletes anything here.
        for (method, path) in addresses.iter().filter(|(method, _)| token.is_empty() || method != "DELETE") {
            let body: &[u8] = if method == "GET" || method == "HEAD" { b"" } else { b"{" };
            let answer = web.send(method, path, &[JSON], body);
            is_fenced(&format!("{method} {path} {}", answer.status), &answer);
            statuses.insert(answer.status);
        }
    }
    web.set_token(&secret);
    for path in [
        "/",
        "/jobs",
        "/submit",
        "/fleet",
        "/endpoints",
        "/registry",
        "/admin/tokens",
        "/admin/audit",
        "/help",
        "/api",
        "/problems",
        "/login",
        "/nowhere",
        "/compare",
        "/jobs/absent",
        "/display",
    ] {
        let page = web.page(path);
        is_fenced(path, &page);
        statuses.insert(page.status);
    }
    for tab in ["", "/errors", "/nodes", "/mini-batches", "/logs", "/output", "/settings", "/code", "/graph"]
    {
        is_fenced(tab, &web.page(&format!("/jobs/{id}{tab}")));
    }
    // Files of a user are never a page of this server.
    let text = web.page("/jobs").text();
    let assets = text.split('"').filter(|part| part.starts_with("/static/"));
    for asset in assets.collect::<std::collections::BTreeSet<_>>() {
        is_fenced(asset, &web.get(asset));
    }
    let result = web.get(&format!("/api/v1/jobs/{id}/result"));
    assert_eq!(result.status, 200, "{}", result.text());
    let policy = result.header("content-security-policy").unwrap();
    assert!(policy.contains("sandbox") && result.header("content-disposition").is_some(), "{policy}");
    let wrong = [
        web.ask_with("GET", "/api/v1/jobs", &[("Host", "evil.example.org")], ""),
        web.ask_with("BREW", "/api/v1/jobs", &[], ""),
        web.ask_with("POST", "/api/v1/jobs", &[("Content-Type", "text/plain")], "x"),
        web.ask_with("POST", "/api/v1/tokens", &[JSON], &"x".repeat(2 << 20)),
        web.get(&format!("/api/v1/jobs?q={}", "a".repeat(9 << 10))),
        web.get("/api/v1/jobs?nonsense=1"),
    ];
    for answer in &wrong {
        is_fenced("what is refused", answer);
        statuses.insert(answer.status);
    }
    for status in [200, 400, 401, 404, 405, 413, 414, 415, 421] {
        assert!(statuses.contains(&status), "{status}: {statuses:?}");
    }
    web.has_not_panicked();
}

#[test]
fn another_user_of_the_machine_gets_nothing() {
    let (job, [id, _]) = scene();
    let web = served(&job);
    let file = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert!(!another_user_reads(&file));
    // They reach the port, and have no secret.
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n");
        let line =
            format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf '{request}' >&3; head -c 12 <&3", web.port());
        let said = as_another_user(&format!("bash -c \"{line}\"")).unwrap();
        said.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("/livez"), "200");
    for path in ["/api/v1/jobs".to_owned(), format!("/api/v1/jobs/{id}/result"), "/metrics".to_owned()] {
        assert_eq!(ask(&path), "401", "{path}");
    }
    // A folder that is not the server's own is none to tell secrets in.
    let foreign = tempfile::tempdir().unwrap();
    fs::set_permissions(foreign.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let place = foreign.path().join("prs");
    as_another_user(&format!("mkdir -m 777 {}", place.display())).unwrap();
    let job = job.with_own_variable("XDG_RUNTIME_DIR", &foreign.path().display().to_string());
    let refused = job.command(&["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains(&place.display().to_string()), "{}", refused.stderr);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn no_secret_is_logged_whatever_is_asked_and_however_much_is_logged() {
    let (job, [id, _]) = scene();
    let made = job.command(&["token", "create", "logged", "--role", "admin", "-o", "json"]).json();
    let secret = made["secret"].as_str().unwrap().to_owned();
    let part = secret.split('_').nth(2).unwrap().to_owned();
    let job = job.with_own_variable("PRS_LOG", "trace");
    let mut web = Web::start(&job, &["--write-rate", "1000"]);
    let code = web.link.split("code=").nth(1).unwrap().to_owned();
    let file = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    let told: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let own = told["token"].as_str().unwrap().to_owned();
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    let entered = web.ask_with("POST", "/login", &form, &format!("token={secret}&next=/jobs"));
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let session = cookie.split_once('=').unwrap().1.to_owned();
    web.ask_with("POST", "/login", &form, &format!("code={code}&next=/jobs"));
    for (header, value) in [
        ("Authorization", format!("Bearer {secret}")),
        ("Authorization", format!("Bearer {own}")),
        ("Authorization", format!("Bearer {}x", &secret[..secret.len() - 1])),
        ("Cookie", cookie.clone()),
    ] {
        for path in [
            "/api/v1/jobs".to_owned(),
            format!("/api/v1/jobs/{id}"),
            "/api/v1/nowhere".to_owned(),
            format!("/api/v1/jobs?q={secret}"),
            format!("/api/v1/jobs/{secret}"),
            format!("/login?code={code}"),
        ] {
            web.ask_with("GET", &path, &[(header, &value)], "");
        }
        web.ask_with(
            "POST",
            "/api/v1/tokens",
            &[(header, &value), JSON],
            &format!("{{\"name\": \"{secret}\"}}"),
        );
        web.ask_with("DELETE", &format!("/api/v1/tokens/{secret}"), &[(header, &value)], "");
    }
    web.set_token(&own);
    let audit = web.get("/api/v1/audit?limit=500").text();
    let metrics = web.get("/metrics").text();
    let log = web.program.stderr();
    assert!(log.contains("answered"), "{log}");
    for (what, text) in [("log", &log), ("audit", &audit), ("metrics", &metrics)] {
        for (which, hidden) in [("token", &part), ("own", &own), ("session", &session), ("code", &code)] {
            assert!(!text.contains(hidden), "{which} in the {what}: {text}");
        }
    }
}

#[test]
fn what_is_large_stays_within_the_memory_of_a_server() {
    let (job, [id, _]) = scene();
    let web = served(&job);
    let run = job.path(&format!("prs-runs/{id}"));
    let line = [vec![b'x'; 1 << 20], b"\n".to_vec()].concat();
    let large: Vec<u8> = line.iter().copied().cycle().take(400 << 20).collect();
    fs::write(run.join("logs/large.txt"), &large).unwrap();
    fs::write(run.join("output/large.txt"), &large).unwrap();
    drop(large);
    // Some who read nothing of what they asked for, and some who ask for all windows of it.
    let mut slow = Vec::new();
    for _ in 0..50 {
        use std::io::Write;
        let mut stream = web.connect();
        let request = format!(
            "GET /api/v1/jobs/{id}/outputs/large.txt HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
            web.port(),
            web.token()
        );
        stream.write_all(request.as_bytes()).unwrap();
        slow.push(stream);
    }
    for path in [
        format!("/api/v1/jobs/{id}/log-lines?path=large.txt&from=end"),
        format!("/api/v1/jobs/{id}/log-search?q=y"),
        format!("/api/v1/jobs/{id}/output-preview?path=large.txt"),
        format!("/jobs/{id}/logs/large.txt"),
        format!("/jobs/{id}/output?path=large.txt"),
    ] {
        let answer = web.page(&path);
        assert!(answer.status < 500 && answer.body.len() < 16 << 20, "{path}: {}", answer.status);
    }
    for (path, body) in [
        ("/api/v1/jobs", format!("{{\"spec\": {{\"name\": \"{}\"}}}}", "a".repeat(900 << 10))),
        ("/api/v1/jobs", format!("{{\"spec\": {{\"tags\": {{{}}}}}}}", vec!["\"a\": 1"; 100_000].join(","))),
        ("/api/v1/tokens", format!("{{\"name\": \"{}\"}}", "[".repeat(900 << 10))),
    ] {
        let answer = web.send("POST", path, &[JSON], body.as_bytes());
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
    }
    let used = web.program.peak_memory();
    assert!(used < MEMORY, "{used} bytes");
    assert_eq!(web.get("/api/v1/jobs").status, 200);
}

#[test]
fn a_socket_is_for_the_user_of_its_server_alone() {
    let job = Job::new(NAMES).with_files(1).with_runtime_folder();
    let path = job.path("runtime/prs.sock");
    let listen = format!("unix:{}", path.display());
    let mut server = job.start(&["serve", "--listen", &listen, "-o", "json"]);
    server.wait_until_printed("\n");
    let record: Value = serde_json::from_str(&server.stdout()).unwrap();
    assert_eq!(record["url"], "http://localhost");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |path_of_request: &str, host: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = format!("GET {path_of_request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("/livez", "localhost"), "200");
    assert_eq!(ask("/api/v1/jobs", "localhost"), "401", "a secret is needed here, too");
    assert_eq!(ask("/api/v1/jobs", "evil.example.org"), "421");
    assert_eq!(ask("/livez", "10.0.0.7:8470"), "200", "a probe asks by the address");
    assert_eq!(ask("/livez", "localhost\r\nHost: localhost"), "400");
    let second = job.command(&["serve", "--listen", &listen]);
    second.expect_code(2);
    assert!(second.stderr.contains("another program listens there"), "{}", second.stderr);
    let link = job.command(&["serve", "--link", "--listen", &listen]);
    link.expect_code(0);
    assert!(link.stdout.starts_with("http://localhost/login?code="), "{}", link.stdout);
    server.interrupt();
    server.wait();
    assert!(!path.exists(), "it goes with its server");
    // What is not a socket of this user stays.
    fs::write(&path, "mine").unwrap();
    job.command(&["serve", "--listen", &listen]).expect_code(2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn pages_of_named_origins_ask_with_a_token_and_no_others_do() {
    let job = Job::new(NAMES).with_files(1).with_runtime_folder();
    let web = Web::of_user(&job, &["--cors-origin", "https://dash.example.org"]);
    let from = |origin: &'static str, more: &[(&'static str, &'static str)]| {
        [&[("Origin", origin), ("Sec-Fetch-Site", "cross-site")], more].concat()
    };
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    let known = Some("https://dash.example.org".to_owned());
    let ours = "https://dash.example.org";
    let asks =
        [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")];
    let asked = web.ask_with("OPTIONS", "/api/v1/jobs", &from(ours, &asks), "");
    assert_eq!((asked.status, allowed(&asked)), (204, known.clone()));
    assert!(asked.header("access-control-allow-headers").unwrap().contains("authorization"));
    let listed = web.ask_with("GET", "/api/v1/jobs", &from(ours, &[]), "");
    assert_eq!((listed.status, allowed(&listed)), (200, known.clone()));
    assert_eq!(listed.header("access-control-allow-credentials"), None, "no cookie is of use");
    assert!(
        listed.headers.iter().any(|(name, value)| name == "vary" && value.contains("origin")),
        "{listed:?}"
    );
    let absent = web.ask_with("GET", "/api/v1/jobs/none", &from(ours, &[]), "");
    assert_eq!((absent.status, allowed(&absent)), (404, known.clone()), "a problem is read, too");
    // A change with a token, which is refused for what it says alone.
    let changed = web.ask_with("POST", "/api/v1/tokens", &from(ours, &[JSON]), "{}");
    assert_eq!((changed.status, allowed(&changed)), (400, known));
    for (origin, path) in
        [("https://evil.example.org", "/api/v1/jobs"), (ours, "/jobs"), ("null", "/api/v1/jobs")]
    {
        let listed = web.ask_with("GET", path, &from(origin, &[]), "");
        assert_eq!(allowed(&listed), None, "{origin} {path}");
        let asked = web.ask_with("OPTIONS", path, &from(origin, &asks), "");
        assert_eq!((asked.status, allowed(&asked)), (405, None), "{origin} {path}");
    }
    let foreign = web.ask_with("POST", "/api/v1/tokens", &from("https://evil.example.org", &[JSON]), "{}");
    assert_eq!(foreign.json(403)["type"], "/problems/cross-origin");
    job.command(&["serve", "--cors-origin", "*"]).expect_code(2);
}

#[test]
fn a_path_that_wants_to_lead_out_is_refused_as_such() {
    let (job, [id, other]) = scene();
    let web = served(&job);
    for path in [
        format!("/api/v1/jobs/{id}/logs/..%2f..%2fhidden.txt"),
        format!("/api/v1/jobs/{id}/outputs/a%5cb"),
        format!("/api/v1/jobs/{id}/outputs/a%00"),
        format!("/api/v1/jobs/{id}/log-lines?path=../hidden.txt"),
        format!("/api/v1/jobs/{id}/output-preview?path=a%5Cb"),
    ] {
        assert_eq!(web.get(&path).json(400)["type"], "/problems/bad-request", "{path}");
    }
    let page = web.get(&format!("/api/v1/jobs/{id}/outputs?cursor=x"));
    assert_eq!(page.json(400)["type"], "/problems/bad-cursor");
    let listed = web.get(&format!("/api/v1/jobs/{other}/logs?limit=1"));
    let link = listed.header("link").unwrap().trim_start_matches('<');
    let next = link.split('>').next().unwrap();
    assert_eq!(web.get(next).status, 200, "{link}");
    assert_eq!(web.send("DELETE", &format!("/api/v1/jobs/{other}"), &[], b"").status, 202);
    assert_eq!(web.get(next).json(410)["type"], "/problems/cursor-gone");
    let result = web.get(&format!("/api/v1/jobs/{id}/result"));
    let digest = result.header("repr-digest").unwrap();
    let told = web.get(&format!("/api/v1/jobs/{id}")).json(200);
    let sha256 = told["output"]["sha256"].as_str().unwrap();
    assert!(digest.starts_with("sha-256=:") && digest.len() == 54 && sha256.len() == 64, "{digest}");
}
