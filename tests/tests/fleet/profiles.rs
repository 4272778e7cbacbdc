//! Profiles of servers: who counts before whom, what is shown, and that every command and the worker use them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use prs_tests::harness::servers::s3::Rights;
use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::Value;

const ECHO: &str = "
import os
def run(mini_batch):
    return [os.path.basename(path) for path in mini_batch]
";

const TWO: &str = "\
default_profile: near
profiles:
  near: {broker: 'amqp://me:hush@near', redis: 'redis://near', storage: 'file:///near'}
  far: {broker: 'amqp://me:${FAR}@far', redis: 'redis://far', storage: 's3://far'}
";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn used(ended: &Ended) -> Vec<String> {
    ended.expect_code(0);
    let used = &ended.json()["used"];
    let shown =
        |server: &Value| format!("{} {}", server["from"].as_str().unwrap(), server["url"].as_str().unwrap());
    ["broker", "redis", "storage"].iter().map(|key| shown(&used[*key])).collect()
}

#[test]
fn the_folder_counts_before_the_user_and_the_command_line_before_both() {
    let job = Job::new(ECHO);
    let home = job.path("home").display().to_string();
    let job = job.with_own_variable("XDG_CONFIG_HOME", &home).with_own_variable("FAR", "hush");
    write(&job.path("home/prs/config.yaml"), &TWO.replace("near", "home"));
    let profiles = |more: &[&str]| job.command(&[&["profiles", "-o", "json"], more].concat());
    assert_eq!(
        used(&profiles(&[])),
        ["profile home amqp://me:***@home", "profile home redis://home", "profile home file:///home"]
    );
    write(&job.path("prs.yaml"), TWO);
    assert_eq!(used(&profiles(&[]))[1], "profile near redis://near");
    // A profile that the file of the folder lacks.
    assert_eq!(used(&profiles(&["--profile", "home"]))[1], "profile home redis://home");
    assert_eq!(
        used(&profiles(&["--profile", "far", "--redis", "redis://option"])),
        ["profile far amqp://me:***@far", "--redis redis://option", "profile far s3://far"]
    );
    let named = job.path("home/prs/config.yaml").display().to_string();
    assert_eq!(used(&profiles(&["--config", &named]))[1], "profile home redis://home");

    let shown = job.command(&["profiles"]);
    assert!(!shown.stdout.contains("hush") && shown.stdout.contains("${FAR}"), "{}", shown.stdout);
    let line = "used here: profile near, named by default_profile in prs.yaml:1";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_keeps_nobody_from_working_locally() {
    let job = Job::new(ECHO).with_files(2);
    write(&job.path("prs.yaml"), "profile: x\nprofiles: {a: {broker: 1}}\n");
    let refused = job.command(&["list"]);
    refused.expect_code(2);
    for part in [
        "prs.yaml:1: profile: there is no such key: did you mean `profiles`?",
        "prs.yaml:2: profiles.a.broker",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let file = job.write_job_file().display().to_string();
    job.command(&["submit", &file, "--local", "--run-dir", "run"]).expect_code(0);
    job.command(&["status", "run", "--local"]).expect_code(0);
    for more in [["--profile", "a"], ["--broker", "amqp://h"]] {
        let refused = job.command(&[&["list", "--local"][..], &more].concat());
        refused.expect_code(2);
        assert!(refused.stderr.contains("cannot be used with"), "{}", refused.stderr);
    }
    let refused = job.command(&["submit", &file, "--local", "--detach"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("--detach is for jobs on a fleet"), "{}", refused.stderr);
}

#[test]
fn a_password_that_others_may_read_is_noted() {
    let job = Job::new(ECHO);
    write(&job.path("prs.yaml"), TWO);
    let note = "note: prs.yaml holds a password, and others may read it: chmod 600 prs.yaml";
    assert!(!job.command(&["profiles"]).stderr.contains(note));
    fs::set_permissions(job.path("prs.yaml"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(job.command(&["profiles"]).stderr.contains(note));
}

#[test]
fn one_profile_leads_commands_and_worker_to_the_same_fleet() {
    let fleet = Fleet::apart();
    let [_, _, s3] = fleet.addresses();
    let (broker, redis) = (fleet.broker_url(), fleet.redis_url());
    let (_, broker) = broker.split_once('@').unwrap();
    let (_, redis) = redis.split_once("://").unwrap();
    let (key, secret) = fleet.s3.key(Rights::All);
    let script = format!(
        "{ECHO}\nfor name in ('MQ_PASSWORD', 'OTHER_PASSWORD'):\n    assert name not in os.environ, name\nassert \
         os.environ['REDIS_AT']\n"
    );
    let job = Job::new(&script).with_files(5).with_own_variable("MQ_PASSWORD", "guest");
    let job = job.with_own_variable("OTHER_PASSWORD", "hush").with_own_variable("REDIS_AT", redis);
    write(
        &job.path("aws"),
        &format!("[team]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"),
    );
    let credentials = job.path("aws").display().to_string();
    let job = job.with_own_variable("AWS_SHARED_CREDENTIALS_FILE", &credentials);
    let bucket = fleet.bucket();
    let profile = format!(
        "default_profile: team\nprofiles:\n  team:\n    broker: amqp://guest:${{MQ_PASSWORD}}@{broker}\n    redis: \
         redis://${{REDIS_AT}}\n    storage: s3://{bucket}/prs\n    s3: {{endpoint: 'http://{s3}', aws_profile: team}}\n  \
         other: {{broker: 'amqp://me:${{OTHER_PASSWORD}}@h'}}\n"
    );
    write(&job.path("prs.yaml"), &profile);

    let file = job.write_job_file().display().to_string();
    let handed_in = job.command(&["submit", &file, "--detach"]);
    handed_in.expect_code(0);
    let id = handed_in.stdout.trim().to_owned();
    job.command(&["worker", "--work-dir", "work", "--job", &id]).expect_code(0);
    let status = job.command(&["status", &id, "-o", "json"]);
    status.expect_code(0);
    assert_eq!(status.json()["state"], "completed");
    assert_eq!(fleet.stored(&id).result(), b"0000.txt\n0001.txt\n0002.txt\n0003.txt\n0004.txt\n");

    // A run of this machine beside it.
    job.command(&["submit", &file, "--local", "--run-dir", "run"]).expect_code(0);
    let refused = job.command(&["status", "run"]);
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("run is a job of this machine") && refused.stderr.contains("--local"),
        "{}",
        refused.stderr
    );
    job.command(&["status", "run", "--local"]).expect_code(0);
    let refused = job.command(&["submit", &file, "--run-dir", "other"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("add --local"), "{}", refused.stderr);
}
