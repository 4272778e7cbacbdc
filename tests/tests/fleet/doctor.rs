//! `doctor`: what it finds, its exit codes, and that it leaves nothing behind.

use prs_tests::harness::servers::free_port;
use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::Value;

/// A folder to look around in, with an interpreter that has pandas.
fn anywhere() -> Job {
    let python = prs_tests::harness::python();
    let home = python.parent().and_then(|bin| bin.parent()).unwrap().display().to_string();
    Job::new("").with_own_variable("VIRTUAL_ENV", &home)
}

/// The check of this name.
#[track_caller]
fn check(ended: &Ended, name: &str) -> Value {
    let report = ended.json();
    assert_eq!(report["schema"], 1);
    let found = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {report}")).clone()
}

#[test]
fn a_machine_without_a_fleet_is_looked_at() {
    let job = anywhere();
    let ended = job.command(&["doctor", "-o", "json"]);
    ended.expect_code(0);
    for name in ["interpreter", "extension", "packages"] {
        assert_eq!(check(&ended, name)["verdict"], "ok", "{}", ended.stdout);
    }
    assert!(check(&ended, "configuration")["finding"].as_str().unwrap().contains("no fleet"));

    let text = job.command(&["doctor"]);
    text.expect_code(0);
    assert!(text.stdout.contains("ok    interpreter"), "{}", text.stdout);
}

#[test]
fn an_interpreter_of_no_use_is_a_failure_of_this_machine() {
    let job = anywhere();
    let missing = job.command(&["doctor", "--environment", "/no/such/python", "-o", "json"]);
    let useless = job.command(&["doctor", "--environment", "/bin/false", "-o", "json"]);
    for ended in [missing, useless] {
        ended.expect_code(2);
        let found = check(&ended, "interpreter");
        assert!(found["verdict"] == "fail" && found["remedy"].is_string(), "{found}");
    }
}

#[test]
fn a_fleet_is_tried_and_nothing_is_left_in_it() {
    let fleet = Fleet::apart();
    let job = fleet.job(anywhere());
    let objects = || fleet.s3.objects(fleet.bucket()).len();
    let before = (objects(), fleet.redis_cli(&["dbsize"]));
    let ended = job.command(&["doctor", "-o", "json"]);
    ended.expect_code(0);
    for name in ["redis", "clock", "storage"] {
        assert_eq!(check(&ended, name)["verdict"], "ok", "{}", ended.stdout);
    }
    // A broker before 3.12 has a limit of its own, of which it warns.
    assert_ne!(check(&ended, "broker")["verdict"], "fail", "{}", ended.stdout);
    assert!(!ended.stdout.contains("guest:guest"), "{}", ended.stdout);
    assert_eq!((objects(), fleet.redis_cli(&["dbsize"])), before);

    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let ended = job.command(&["doctor", "--redis", &nobody, "-o", "json"]);
    ended.expect_code(3);
    let found = check(&ended, "redis");
    assert!(found["verdict"] == "fail" && found["remedy"] == "start it, or correct its URL", "{found}");
    assert_eq!(check(&ended, "storage")["verdict"], "ok", "the others are looked at");
    let ended = job.command(&["doctor", "--storage", "s3://no-such-bucket/x", "-o", "json"]);
    ended.expect_code(3);
}

#[test]
fn servers_that_are_no_fleet_are_told() {
    let job = anywhere().with_own_variable("PRS_REDIS_URL", "redis://localhost");
    let ended = job.command(&["doctor", "-o", "json"]);
    ended.expect_code(2);
    let found = check(&ended, "servers");
    assert!(found["finding"].as_str().unwrap().contains("--broker (PRS_BROKER_URL)"), "{found}");
}

#[test]
fn a_folder_as_storage_is_left_as_it_was() {
    let job = anywhere();
    let folder = job.path("storage");
    std::fs::create_dir(&folder).unwrap();
    let nobody = free_port();
    let (broker, redis) = (format!("amqp://127.0.0.1:{nobody}"), format!("redis://127.0.0.1:{nobody}"));
    let storage = format!("file://{}", folder.display());
    let arguments = ["doctor", "--broker", &broker, "--redis", &redis, "--storage", &storage, "-o", "json"];
    let ended = job.command(&arguments);
    ended.expect_code(3);
    assert_eq!(check(&ended, "storage")["verdict"], "ok", "{}", ended.stdout);
    let left = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    // The folder for files that are being written stays, as with every use of such a storage.
    assert_eq!(left.collect::<Vec<_>>(), [".tmp"]);
}
