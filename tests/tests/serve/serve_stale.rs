//! Who watches a job whose ledger is away is told so, and why, and that it is there again; nothing that was shown goes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Job, SimulatedFleet, Simulation, Web};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(2);

/// A client of a stream, with the events that came: their names, and their data.
struct Watching(Arc<Mutex<Vec<(String, Value)>>>);

impl Watching {
    fn start(web: &Web, path: &str) -> Self {
        let address = web.url.trim_start_matches("http://").to_owned();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            web.token()
        );
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&events);
        std::thread::spawn(move || {
            let mut name = String::new();
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                if let Some(of) = line.strip_prefix("event: ") {
                    of.clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    let data = serde_json::from_str(data).unwrap();
                    noted.lock().unwrap().push((std::mem::take(&mut name), data));
                }
            }
        });
        Self(events)
    }

    /// Waits for an event of this name, forgets those before, and gives its data.
    #[track_caller]
    fn hears(&self, name: &str) -> Value {
        wait_for(&format!("the watcher hears {name}"), PATIENCE, || {
            let mut events = self.0.lock().unwrap();
            let at = events.iter().position(|(event, _)| event == name)?;
            events.drain(..=at).next_back().map(|(_, data)| data)
        })
    }

    /// The names of the events that came since.
    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(name, _)| name.clone()).collect()
    }
}

#[test]
fn a_ledger_that_is_away_makes_what_is_shown_stale_until_it_is_back() {
    let job = Job::new("").with_runtime_folder();
    let fleet = SimulatedFleet::start();
    let folder = job.path("running");
    fs::create_dir(&folder).unwrap();
    let made = Simulation { mini_batches: 1_000, nodes: 4, is_running: true }.write("running", &folder);
    fleet.bring("running", &folder);
    fleet.enter(&made);
    fleet.hear_nodes(&made).unwrap();
    // What is entered stands on the disk of the ledger.
    fleet.redis.cli(&["config", "set", "appendfsync", "always"]);
    let job = fleet.variables().iter().fold(job, |job, (name, value)| job.with_own_variable(name, value));
    let web = Web::of_user(&job, &[]);
    let page = Watching::start(&web, "/jobs/running/live");
    let program = Watching::start(&web, "/api/v1/jobs/running/events");
    assert!(page.hears("parts")["parts"]["head"].is_string());
    assert_eq!(program.hears("status")["state"], "running");

    fleet.redis.kill();
    for watching in [&page, &program] {
        let stale = watching.hears("stale");
        let cause = stale["cause"].as_str().unwrap();
        assert!(cause.contains("Redis") || cause.contains("ledger"), "{stale}");
        assert!(stale["since"].as_str().unwrap().ends_with('Z'), "{stale}");
        assert!(!watching.names().contains(&"fresh".to_owned()));
    }
    // What storage knows is there, and one who comes now is told at once what it is.
    let shown = web.page("/jobs/running");
    assert_eq!(shown.status, 200);
    assert!(shown.text().contains("nightly scoring"));
    let late = Watching::start(&web, "/jobs/running/live");
    assert!(late.hears("stale")["cause"].is_string());
    assert!(!late.names().contains(&"parts".to_owned()));
    // What is away for less than a second may have been a moment, which began at no time.
    wait_for("when that began", PATIENCE, || {
        let object = web.get("/api/v1/jobs/running").json(200);
        let away = object["attention"].as_array().unwrap().iter().find(|one| one["code"] == "server-away");
        let away = away.unwrap_or_else(|| panic!("{object}"));
        away["since"].is_string().then_some(())
    });

    fleet.redis.restart();
    fleet.hear_nodes(&made).unwrap();
    for watching in [&page, &program, &late] {
        watching.hears("fresh");
    }
    assert!(late.hears("parts")["parts"]["head"].is_string());

    // One that takes commands and answers none is no better.
    fleet.redis.cli(&["client", "pause", "20000", "ALL"]);
    for watching in [&page, &program] {
        assert!(watching.hears("stale")["since"].is_string());
        watching.hears("fresh");
    }
    let said = web.program.stderr();
    assert!(!said.contains("panicked"), "{said}");
}
