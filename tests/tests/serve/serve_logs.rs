//! Logs as they grow: who follows one is told its lines as they are written, as programs read them and as a page shows them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Job, Live, Web};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(2);
/// Runs until there is a file `go` beside the job.
const WAITS: &str = r#"
import os, time

def run(mini_batch):
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
    return mini_batch
"#;
/// The same, and then it fails.
const FAILS: &str = r#"
import os, time

def run(mini_batch):
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
    raise ValueError("no luck")
"#;

/// A job that runs, its logs, and a server.
struct Running {
    job: Job,
    id: String,
    logs: PathBuf,
    web: Web,
}

impl Running {
    fn start() -> (Live, Self) {
        Self::with(WAITS)
    }

    fn with(script: &str) -> (Live, Self) {
        let job = Job::new(script).with_files(1).with_runtime_folder();
        let go = job.path("go").display().to_string();
        let job = job.with("environment_variables", serde_json::json!({ "GO": go }));
        let (file, id_file) = (job.write_job_file(), job.path("id"));
        let (file, named) = (file.display().to_string(), id_file.display().to_string());
        let program = job.start(&["submit", &file, "-o", "json", "--id-file", &named]);
        let id = wait_for("the job has an id", PATIENCE, || {
            fs::read_to_string(&id_file).ok().filter(|text| text.ends_with('\n'))
        });
        let id = id.trim().to_owned();
        let logs = job.path("prs-runs").join(&id).join("logs/user/stdout/0");
        wait_for("the job writes logs", PATIENCE, || logs.is_dir().then_some(()));
        let web = Web::of_user(&job, &[]);
        (program, Self { job, id, logs, web })
    }

    /// Writes `text` behind what a log has.
    fn say(&self, name: &str, text: &str) {
        let mut log = fs::OpenOptions::new().create(true).append(true).open(self.logs.join(name)).unwrap();
        log.write_all(text.as_bytes()).unwrap();
    }

    /// The events at an address, each with its id, its name and its data.
    fn events(
        &self,
        path: &str,
        last: Option<&str>,
    ) -> impl Iterator<Item = (String, String, Value)> + use<> {
        let mut stream = self.web.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let (port, token) = (self.web.port(), self.token());
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{last}\r\n"
        )
        .unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        std::iter::from_fn(move || {
            let (mut id, mut name) = (String::new(), String::new());
            loop {
                let line = lines.next()?;
                if let Some(found) = line.strip_prefix("id: ") {
                    found.clone_into(&mut id);
                } else if let Some(found) = line.strip_prefix("event: ") {
                    found.clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    return Some((id, name, serde_json::from_str(data).unwrap()));
                }
            }
        })
    }

    fn token(&self) -> String {
        let path = self.job.path("runtime").join(format!("prs/serve-{}.json", self.web.port()));
        let told: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        told["token"].as_str().unwrap().to_owned()
    }
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, why: &str) {
    let problem = answer.json(status);
    assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
}

fn texts(data: &Value) -> Vec<&str> {
    data["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

#[test]
fn who_follows_logs_is_told_each_line_once_also_after_a_break() {
    let (program, running) = Running::start();
    let path = "user/stdout/0/own.stdout.txt";
    running.say("own.stdout.txt", "before\nbeg");
    let below = format!("/api/v1/jobs/{}/events", running.id);
    let mut events = running.events(&format!("{below}?types=status,log&path={path}"), None);
    assert_eq!(events.next().unwrap().1, "status", "how the job stands comes first");
    let mut next = |name: &str| events.by_ref().find(|(_, found, _)| found == name).unwrap();
    let (id, _, data) = next("log");
    assert_eq!((texts(&data), &data["path"]), (vec!["before"], &Value::from(path)));
    assert!(id.ends_with(";0:7"), "{id}");
    running.say("own.stdout.txt", "un\nafter\n");
    let (id, _, data) = next("log");
    assert_eq!(
        (texts(&data), data["from"].as_u64(), data["to"].as_u64()),
        (vec!["begun", "after"], Some(7), Some(19))
    );
    // A client that comes again goes on where it was.
    running.say("own.stdout.txt", "more\n");
    let mut again = running.events(&format!("{below}?types=log&path={path}"), Some(&id));
    assert_eq!(texts(&again.next().unwrap().2), ["more"]);
    // All logs of a kind and a node, with what the end of the job leaves without the end of a line.
    let mut of_node = running.events(&format!("{below}?types=log,end&kind=stdout&node=0"), None);
    assert!(
        of_node.any(|(_, name, data)| name == "log" && texts(&data) == ["before", "begun", "after", "more"])
    );
    running.say("own.stdout.txt", "last");
    fs::write(running.job.path("go"), "").unwrap();
    program.wait().expect_completed();
    let rest: Vec<_> = again.map(|(_, name, data)| (name, data)).collect();
    assert!(rest.iter().any(|(name, data)| name == "log" && texts(data) == ["last"]), "{rest:?}");
    assert_eq!(rest.last().unwrap().0, "end");
}

#[test]
fn a_stream_of_logs_says_what_it_cannot_follow() {
    let (program, running) = Running::start();
    let below = format!("/api/v1/jobs/{}/events", running.id);
    let nine = "&path=a".repeat(9);
    for (query, status, why) in [
        ("types=odd", 400, "none of status, statistics, error"),
        ("types=log", 400, "needs path, or kind and node"),
        ("types=log&kind=stdout", 400, "needs path, or kind and node"),
        ("types=log&kind=odd&node=0", 400, "none of result"),
        ("types=log&path=none.txt", 404, "none.txt"),
        ("types=log&path=none.txt&path=none.txt", 404, "none.txt"),
        ("path=job_result.txt", 400, "add log to types"),
        ("parts=shares", 400, "add statistics to types"),
        ("types=statistics&parts=odd", 400, "none of timeline"),
        (&format!("types=log{nine}"), 400, "8 logs are the most"),
    ] {
        is_refused(&running.web.get(&format!("{below}?{query}")), status, why);
    }
    for number in 0..33 {
        running.say(&format!("p{number:02}.stdout.txt"), "x\n");
    }
    let many = running.web.get(&format!("{below}?types=log&kind=stdout&node=0"));
    is_refused(&many, 400, "32 the most");
    fs::write(running.job.path("go"), "").unwrap();
    program.wait().expect_completed();
}

#[test]
fn a_stream_tells_what_comes_of_errors_and_nodes_and_how_the_job_ended() {
    let (program, running) = Running::with(FAILS);
    let below = format!("/api/v1/jobs/{}/events", running.id);
    let types = "types=status,statistics,error,mini_batch_failed,node,end&parts=recent,running";
    let mut events = running.events(&format!("{below}?{types}"), None);
    assert_eq!(events.next().unwrap().1, "status");
    fs::write(running.job.path("go"), "").unwrap();
    let rest: Vec<_> = events.map(|(_, name, data)| (name, data)).collect();
    drop(program.wait());
    let of = |wanted: &str| {
        rest.iter().filter(|(name, _)| name == wanted).map(|(_, data)| data).collect::<Vec<_>>()
    };
    let statistics = of("statistics");
    assert!(!statistics.is_empty(), "{rest:?}");
    for one in statistics {
        assert!(
            one["as_of"].is_string() && one["recent"].is_array() && one.get("timeline").is_none(),
            "{one}"
        );
    }
    let error = *of("error").last().unwrap();
    assert_eq!(
        (&error["category"], &error["mini_batches_lost"]),
        (&"ValueError".into(), &1.into()),
        "{rest:?}"
    );
    let failed = of("mini_batch_failed");
    assert_eq!(failed.len(), 1, "{rest:?}");
    assert_eq!((&failed[0]["index"], &failed[0]["status"]), (&0.into(), &"RUN_EXCEPTION".into()));
    let (last, end) = rest.last().unwrap();
    let now = running.web.get(&format!("/api/v1/jobs/{}", running.id)).json(200);
    assert_eq!(
        (&**last, &end["mini_batches"]["failed"], &end["complete"]),
        ("end", &1.into(), &false.into())
    );
    for key in ["job_id", "state", "reason", "ended_at", "output"] {
        assert_eq!(end[key], now[key], "{key}");
    }
    assert!(end["ended_at"].is_string(), "{end}");
}

#[test]
fn logs_are_listed_folder_by_folder_or_by_what_they_are() {
    let (program, running) = Running::start();
    running.say("process007.stdout.txt", "one\ntwo\nthree\n");
    let below = format!("/api/v1/jobs/{}", running.id);
    let list = |query: &str| running.web.get(&format!("{below}/logs?{query}")).json(200);
    let paths = |list: &Value| -> Vec<String> {
        list["value"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    assert!(paths(&list("")).contains(&"user/".to_owned()));
    assert!(
        !paths(&list("")).iter().any(|path| path.trim_end_matches('/').contains('/')),
        "one folder alone"
    );
    let nodes = list("prefix=user/stdout/");
    assert_eq!(
        (paths(&nodes), &nodes["value"][0]["node_id"]),
        (vec!["user/stdout/0/".to_owned()], &0.into())
    );
    assert_eq!((&nodes["value"][0]["bytes"], &nodes["total"]), (&Value::Null, &1.into()));
    let name = "user/stdout/0/process007.stdout.txt";
    let chosen = list("kind=stdout&kind=error&node=0&process=process007");
    assert_eq!(paths(&chosen), [name]);
    let log = &chosen["value"][0];
    assert_eq!(
        (&log["kind"], &log["process"], &log["growing"]),
        (&"stdout".into(), &"process007".into(), &true.into())
    );
    assert!(log["bytes"].as_u64().unwrap() >= 14 && log["modified_at"].is_string(), "{log}");
    assert_eq!(paths(&list("delimiter=/&kind=stdout")), ["user/"]);
    assert!(paths(&list("delimiter=none")).contains(&name.to_owned()));
    // The page of a job that runs opens the newest of what was printed, in its folder.
    let page = |rest: &str| running.web.page(&format!("/jobs/{}/logs{rest}", running.id));
    let html = page("").text();
    assert!(
        html.contains(&format!("<code>{name}</code>")) && html.contains(">process007.stdout.txt</a>"),
        "{html}"
    );
    assert!(html.contains("logs?in=user%2Fstdout%2F\">stdout</a> / 0</p>"), "{html}");
    let html = page("?in=%2F").text();
    assert!(
        html.contains("logs?in=user%2F\">user/</a>") && !html.contains("user/stdout"),
        "one folder alone: {html}"
    );
    assert!(page("?name=process007").text().contains(&format!(">{name}</a>")));
    assert_eq!(page("?in=..%2F").status, 400);
    // Page by page the same.
    (0..5).for_each(|number| running.say(&format!("own{number}.stdout.txt"), "x"));
    let own = "delimiter=none&prefix=user/stdout/0/own";
    let (all, mut found, mut cursor) = (paths(&list(own)), Vec::new(), String::new());
    loop {
        let page = list(&format!("{own}&limit=2{cursor}"));
        found.extend(paths(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((found.len(), found), (5, all));
    let matches = |query: &str| running.web.get(&format!("{below}/log-search?q=three&{query}")).json(200);
    assert_eq!(matches("kind=stdout")["matches"][0]["path"], name);
    assert_eq!(matches("kind=stderr")["matches"], Value::Array(vec![]));
    let lines = running.web.get(&format!("{below}/log-lines?path={name}&around=9&bytes=8")).json(200);
    assert_eq!((texts(&lines), &lines["lines"][0]["offset"]), (vec!["three"], &8.into()), "{lines}");
    for (path, why) in [
        ("logs?kind=odd", "none of result, error"),
        ("logs?node=x", "not the number of a node"),
        ("logs?delimiter=-", "neither / nor none"),
        ("logs?prefix=..%2F", "not how the name of a log begins"),
        ("log-lines?path=job_error.txt&at=0&around=0", "at says already"),
    ] {
        is_refused(&running.web.get(&format!("{below}/{path}")), 400, why);
    }
    let kept = running.web.get(&format!("{below}/logs/{name}?download=1"));
    assert!(kept.header("content-disposition").unwrap().starts_with("attachment"), "{kept:?}");
    fs::write(running.job.path("go"), "").unwrap();
    program.wait().expect_completed();
    assert_eq!(list("kind=result")["value"][0]["growing"], false);
}

#[test]
fn a_page_of_a_log_grows_with_it_and_folds_json() {
    let (program, running) = Running::start();
    let json = r#"{"level": "info", "of": {"rows": [1, 2]}}"#;
    running.say("own.stdout.txt", &format!("{json}\nplain <b>\nhal"));
    let page = format!("/jobs/{}/logs/user/stdout/0/own.stdout.txt", running.id);
    let html = running.web.page(&page).text();
    let folded = "<details class=\"l\" id=\"b0\"><summary>{<i>&#34;level&#34;: &#34;info&#34;, </i>";
    assert!(html.contains(folded), "{html}");
    assert!(
        html.contains("plain &#60;b&#62;") && html.matches("<details class=\"l\"").count() == 1,
        "{html}"
    );
    // It is followed from its last line on, which has no end yet.
    let at = json.len() + 1 + "plain <b>\n".len();
    assert!(html.contains(&format!("data-at=\"{at}\"")), "{html}");
    let live = format!("/jobs/{}/live?log=user%2Fstdout%2F0%2Fown%2Estdout%2Etxt&at={at}", running.id);
    let mut events = running.events(&live, None);
    running.say("own.stdout.txt", "f\n{\"a\":1}\n");
    let mut html = String::new();
    while !html.contains("<i>&#34;a&#34;:1</i>") {
        let (_, name, data) = events.next().unwrap();
        assert_eq!(name, "lines", "{data}");
        html.push_str(data["html"].as_str().unwrap());
    }
    assert!(html.starts_with(&format!("<div class=\"l\" id=\"b{at}\">half\n</div>")), "{html}");
    fs::write(running.job.path("go"), "").unwrap();
    program.wait().expect_completed();
    assert_eq!(events.last().unwrap().1, "end");
}
