//! What a server takes of one client and of all: long addresses, deep bodies, slow clients, many connections, many requests at once.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use prs_tests::deadline::{comes_within, wait_for};
use prs_tests::harness::{Job, Web};
use serde_json::Value;

const NAMES: &str = "def run(mini_batch):\n    return mini_batch\n";

fn served(more: &[&str]) -> (Job, Web, String) {
    let job = Job::new(NAMES).with_files(1);
    let job = job.with_runtime_folder();
    let mut web = Web::start(&job, more);
    let path = job.path("runtime").join(format!("prs/serve-{}.json", web.port()));
    let told: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let secret = told["token"].as_str().unwrap().to_owned();
    web.set_token(&secret);
    (job, web, secret)
}

#[test]
fn two_thousand_slow_clients_hold_nothing_up() {
    let (_job, web, _) = served(&[]);
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..2000)
        .map(|number| {
            let mut stream = web.connect();
            // Some say nothing, some begin a request and never end it.
            if number % 2 == 0 {
                stream.write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0").unwrap();
            }
            stream
        })
        .collect();
    let asked = Instant::now();
    assert_eq!(web.get("/api/v1/jobs").status, 200);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let used = web.program.peak_memory();
    assert!(used < 300 << 20, "{used} bytes");
    // All of them are left soon.
    let deadline = Duration::from_secs(40);
    for stream in &mut slow {
        stream.set_read_timeout(Some(deadline)).unwrap();
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        assert!(
            ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        );
    }
    assert!(began.elapsed() < deadline, "{:?}", began.elapsed());
}

#[test]
fn there_are_so_many_connections_and_requests_and_no_more() {
    let (_job, web, secret) = served(&["--max-connections", "6", "--max-requests-of-one", "2"]);
    // Two requests wait for what does not come.
    let wait = format!(
        "GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {secret}\r\n",
        web.port()
    );
    assert_eq!(web.get("/api/v1/jobs").status, 200);
    // A body that does not come holds a request up.
    let held = wait.replace("GET /api/v1/jobs ", "POST /api/v1/tokens ");
    let held = format!("{held}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{{");
    let begin = || {
        let mut stream = web.connect();
        stream.write_all(held.as_bytes()).unwrap();
        stream
    };
    let mut open: Vec<TcpStream> = Vec::new();
    let refused = wait_for("a third request is refused", Duration::from_secs(20), || {
        // A look at the jobs that comes first takes the place of one of the two, which is then refused: both begin anew.
        open.clear();
        open.extend([begin(), begin()]);
        comes_within(Duration::from_secs(2), || {
            let answer = web.get("/api/v1/jobs");
            (answer.status == 503).then_some(answer)
        })
    });
    assert_eq!(refused.header("retry-after"), Some("1"), "{}", refused.text());
    open.clear();
    wait_for("there is room again", Duration::from_secs(20), || {
        (web.get("/api/v1/jobs").status == 200).then_some(())
    });
    // A connection that ended a moment ago may hold its place still, so the seventh is not always the first refused.
    wait_for("a connection more is refused", Duration::from_secs(20), || {
        let mut stream = web.connect();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        let refused = said.starts_with("HTTP/1.1 503");
        open.push(stream);
        refused.then_some(())
    });
    open.clear();
    wait_for("there is a place again", Duration::from_secs(20), || {
        let answer = web.try_send("GET", "/api/v1/jobs", &[], b"")?;
        (answer.status == 200).then_some(())
    });
}

#[test]
fn long_addresses_and_deep_bodies_are_refused() {
    let (_job, web, _) = served(&[]);
    let long = web.get(&format!("/api/v1/jobs?q={}", "a".repeat(9 << 10)));
    assert_eq!(long.json(414)["type"], "/problems/address-too-long");
    assert_eq!(web.get(&format!("/api/v1/jobs?q={}", "a".repeat(7 << 10))).status, 200);
    let header = "a".repeat(40 << 10);
    assert_eq!(web.ask_with("GET", "/api/v1/jobs", &[("X-Long", &header)], "").status, 431);
    let json = [("Content-Type", "application/json")];
    let deep = |times: usize| format!("{{\"spec\": {}{}}}", "[".repeat(times), "]".repeat(times));
    for (method, path) in [
        ("POST", "/api/v1/jobs"),
        ("POST", "/api/v1/tokens"),
        ("POST", "/api/v1/workers/one/drain"),
        ("POST", "/api/v1/uploads/missing"),
        ("POST", "/api/v1/registry/data/versions/versions"),
        ("POST", "/endpoints/heart/jobs"),
        ("POST", "/api/v1/endpoints/heart/invoke"),
    ] {
        for times in [64, 100, 5000] {
            let told = web.send(method, path, &json, deep(times).as_bytes());
            assert_eq!(told.status, 400, "{path}: {}", told.text());
            assert!(told.text().contains("nested deeper than 64"), "{path}: {}", told.text());
        }
    }
}

/// The head of the next answer on a connection that may go on, in lower case; its body is read, too.
fn next_answer(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    let head = String::from_utf8(said).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    head
}

#[test]
fn a_refusal_of_what_is_not_read_says_whether_the_connection_goes_on() {
    let (_job, web, secret) = served(&[]);
    let host = format!("127.0.0.1:{}", web.port());
    let post = |path: &str, more: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{more}\r\n")
    };
    let alive = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let sized = |length: usize| format!("Content-Length: {length}\r\n");
    let connect = || {
        let stream = web.connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    // Nobody reads what strangers send. A little is passed over, also where it comes in pieces.
    let mut stream = connect();
    for length in [1, 1000, 100_000] {
        stream.write_all(post("/api/v1/tokens", &sized(length)).as_bytes()).unwrap();
        stream.write_all(&vec![b' '; length]).unwrap();
        let head = next_answer(&mut stream);
        assert!(head.starts_with("http/1.1 401") && !head.contains("connection: close"), "{length}: {head}");
        stream.write_all(alive.as_bytes()).unwrap();
        assert!(next_answer(&mut stream).starts_with("http/1.1 200"), "{length}");
    }
    stream.write_all(post("/api/v1/tokens", "Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    stream.write_all(b"3\r\nabc\r\n0\r\n\r\n").unwrap();
    assert!(!next_answer(&mut stream).contains("connection: close"));
    stream.write_all(alive.as_bytes()).unwrap();
    assert!(next_answer(&mut stream).starts_with("http/1.1 200"));
    // Of much more the answer says that it is the last; who waits for a word before the body gets none but that.
    let much = 600 << 20;
    let known = format!("Authorization: Bearer {secret}\r\n");
    for (what, request) in [
        ("large", post("/api/v1/tokens", &sized(much))),
        ("too large", post("/api/v1/tokens", &format!("{known}{}", sized(much)))),
        ("without its end", post("/api/v1/tokens", "Transfer-Encoding: chunked\r\n")),
        ("no address", post("/api/v1/nothing", &format!("{known}{}", sized(much)))),
        ("held back", post("/api/v1/tokens", &format!("Expect: 100-continue\r\n{}", sized(10)))),
    ] {
        let mut stream = connect();
        stream.write_all(request.as_bytes()).unwrap();
        let head = next_answer(&mut stream);
        assert!(head.starts_with("http/1.1 4") && head.contains("connection: close"), "{what}: {head}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{what}: it ends");
    }
}

#[test]
fn each_limit_is_an_option() {
    let words = [
        "--max-json",
        "64KiB",
        "--max-yaml",
        "64KiB",
        "--max-form",
        "128KiB",
        "--max-blob",
        "64KiB",
        "--max-address",
        "9KiB",
        "--max-headers",
        "16KiB",
        "--idle-timeout",
        "1",
        "--stream-timeout",
        "1",
        "--max-wrong-tokens",
        "2",
    ];
    let (job, web, secret) = served(&words);
    let json = [("Content-Type", "application/json")];
    let large = format!("{{\"spec\": \"{}\"}}", "a".repeat(80 << 10));
    let refused = web.ask_with("POST", "/api/v1/jobs", &json, &large).json(413);
    assert!(refused["detail"].as_str().unwrap().contains("65536"), "{refused}");
    let yaml = [("Content-Type", "application/yaml")];
    let refused = web.ask_with("POST", "/api/v1/registry/data/x/versions", &yaml, &large).json(413);
    assert!(refused["detail"].as_str().unwrap().contains("65536"), "{refused}");
    let form = [("Content-Type", "multipart/form-data; boundary=b")];
    let file = format!(
        "--b\r\nContent-Disposition: form-data; name=\"code\"; filename=\"c\"\r\n\r\n{}\r\n--b--\r\n",
        "a".repeat(200 << 10)
    );
    let refused = web.ask_with("POST", "/api/v1/jobs", &form, &file).json(413);
    assert!(refused["detail"].as_str().unwrap().contains("131072"), "{refused}");
    let blob = format!("{{\"blobs\": [{{\"sha256\": \"{}\", \"bytes\": 70000}}]}}", "0".repeat(64));
    assert_eq!(web.ask_with("POST", "/api/v1/uploads/missing", &json, &blob).status, 413);
    assert_eq!(web.get(&format!("/api/v1/jobs?q={}", "a".repeat(10 << 10))).status, 414);
    assert_eq!(web.ask_with("GET", "/livez", &[("X-Long", &"a".repeat(20 << 10))], "").status, 431);
    // A stream ends by itself, and who sends nothing of a body is left.
    let began = Instant::now();
    assert!(web.get("/api/v1/events").text().contains("event: bye"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let mut slow = web.connect();
    let head = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{",
        web.port()
    );
    slow.write_all(head.as_bytes()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut said = String::new();
    let _ = slow.read_to_string(&mut said);
    assert!(!said.is_empty() && !said.starts_with("HTTP/1.1 2"), "{said}");
    // Wrong tokens: no more of them are looked up, and those that were shown here before go on.
    let made = job.command(&["token", "create", "reader", "--role", "read", "-q"]);
    let (known, unknown) = (made.stdout.trim().to_owned(), "prs_no");
    let mut web = web;
    web.set_token(&known);
    assert_eq!(web.get("/api/v1/whoami").status, 200);
    // Whose token was revoked guesses nothing, and keeps nobody else out.
    let made = job.command(&["token", "create", "former", "--role", "read", "-q"]);
    let former = made.stdout.trim().to_owned();
    job.command(&["token", "revoke", &former]).expect_code(0);
    assert!((0..5).all(|_| web.ask_as(&former, "/api/v1/whoami").status == 401));
    let statuses: Vec<u16> = (0..3).map(|_| web.ask_as(unknown, "/api/v1/whoami").status).collect();
    assert_eq!(statuses, [401, 401, 429]);
    assert_eq!(web.get("/api/v1/whoami").status, 200);
    let other = job.command(&["token", "create", "other", "--role", "read", "-q"]).stdout.trim().to_owned();
    assert_eq!(web.ask_as(&other, "/api/v1/whoami").status, 429, "it was not looked up");
    for (option, value) in
        [("--max-json", "1KiB"), ("--max-headers", "5GiB"), ("--idle-timeout", "0"), ("--max-blob", "6GiB")]
    {
        job.command(&["serve", option, value]).expect_code(2);
    }
}
