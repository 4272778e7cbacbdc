//! The servers behind a server, as administrators and others see them.

use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::{Fleet, Job, Web};
use serde_json::Value;

const SCRIPT: &str = "def run(mini_batch):\n    return mini_batch\n";
/// How long an outage may take to show.
const PATIENCE: Duration = Duration::from_mins(1);

fn job() -> Job {
    let job = Job::new(SCRIPT);
    job.with_runtime_folder()
}

/// The secret of a token with this role.
fn token(job: &Job, role: &str) -> String {
    job.command(&["token", "create", role, "--role", role, "-q"]).stdout.trim().to_owned()
}

fn servers(web: &Web) -> Vec<Value> {
    web.get("/api/v1/servers").json(200)["value"].as_array().unwrap().clone()
}

fn of<'a>(servers: &'a [Value], dependency: &str) -> &'a Value {
    servers.iter().find(|server| server["dependency"] == dependency).unwrap()
}

/// The page, as a browser that logged in with this token has it.
fn page(web: &mut Web, secret: &str) -> String {
    web.set_token(secret);
    web.page("/admin/servers").text()
}

#[test]
fn a_folder_is_told_with_its_room_to_administrators() {
    let job = job();
    let (admin, reader) = (token(&job, "admin"), token(&job, "read"));
    let mut web = Web::start(&job, &[]);
    web.set_token(&admin);
    let seen = servers(&web);
    assert_eq!(seen.len(), 1, "{seen:?}");
    let storage = &seen[0];
    assert_eq!((&storage["dependency"], &storage["kind"]), (&"storage".into(), &"folder".into()));
    assert!(storage["room"]["free_bytes"].as_u64().unwrap() > 0 && storage["place"].is_string(), "{storage}");
    let shown = page(&mut web, &admin);
    assert!(shown.contains("free") && shown.contains("/admin/audit"), "{shown}");
    web.set_token(&reader);
    let seen = &servers(&web)[0];
    assert!(seen["reachable"] == true && seen["latency_seconds"].is_number(), "{seen}");
    for hidden in ["place", "problem", "version"] {
        assert!(seen[hidden].is_null(), "{hidden}: {seen}");
    }
    assert!(seen["room"].as_object().unwrap().values().all(Value::is_null), "{seen}");
    let shown = page(&mut web, &reader);
    assert!(shown.contains("for administrators") && !shown.contains("/admin/audit"), "{shown}");
}

#[test]
fn a_fleet_is_told_with_what_is_away_and_without_passwords() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let way = TcpProxy::start(fleet.addresses()[0]);
    let broker = format!("amqp://guest:guest@{}/%2f", way.address());
    let admin = token(&job, "admin");
    let job = job.with_own_variable("PRS_BROKER_URL", &broker);
    let mut web = Web::start(&job, &[]);
    web.set_token(&admin);
    let seen = wait_for("all answer", PATIENCE, || {
        let seen = servers(&web);
        seen.iter().all(|server| server["reachable"] == true).then_some(seen)
    });
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(of(&seen, "storage")["kind"], "s3");
    assert!(of(&seen, "storage")["room"]["incomplete_uploads"].is_u64(), "{seen:?}");
    assert!(of(&seen, "ledger")["room"]["memory_bytes"].as_u64().unwrap() > 0, "{seen:?}");
    assert!(of(&seen, "broker")["room"]["dead_messages"].is_u64(), "{seen:?}");
    way.cut_off();
    let seen = wait_for("the outage shows", PATIENCE, || {
        let seen = servers(&web);
        (of(&seen, "broker")["reachable"] == false).then_some(seen)
    });
    let broker = of(&seen, "broker");
    assert!(broker["problem"].is_string() && broker["latency_seconds"].is_null(), "{broker}");
    assert_eq!(
        (&of(&seen, "ledger")["reachable"], &of(&seen, "storage")["reachable"]),
        (&true.into(), &true.into())
    );
    // No server is asked for what another one lacks.
    assert_eq!(web.get("/api/v1/jobs").status, 200);
    let scrape = web.get("/metrics").text();
    assert!(scrape.lines().any(|line| line == "prs_dependency_up{dependency=\"broker\"} 0"), "{scrape}");
    let shown = page(&mut web, &admin);
    assert!(shown.contains("no answer") && shown.contains("Jobs wait"), "{shown}");
    for text in [shown, format!("{seen:?}"), web.program.stderr()] {
        assert!(!text.contains(":guest@"), "{text}");
    }
    way.restore();
    wait_for("it is back", PATIENCE, || (of(&servers(&web), "broker")["reachable"] == true).then_some(()));
}
