//! A job whose file is a text, as a server has it: handed in with what came with it, and nothing else of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use prs_common::job::{Called, Given, JobText, Names};
use prs_common::servers::ServerUrls;
use prs_jobs::submit::{Ended, Start, submit_text};
use prs_jobs::{Unattended, Whereabouts, homes};
use prs_tests::harness::Redis;
use prs_tests::harness::servers::RabbitMq;

#[tokio::test]
async fn a_text_is_handed_in_with_what_came_with_it() {
    let (broker, redis) = (RabbitMq::start(), Redis::start());
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name);
    fs::create_dir_all(path("came/data")).unwrap();
    fs::write(path("came/score.py"), "def run(mini_batch):\n    return []\n").unwrap();
    fs::write(path("came/data/a.txt"), "one").unwrap();
    // A program that runs here would leave a mark.
    let program = format!("#!/bin/sh\ntouch {}\n", path("ran").display());
    fs::write(path("came/python"), program).unwrap();
    fs::set_permissions(path("came/python"), fs::Permissions::from_mode(0o755)).unwrap();
    let urls = ServerUrls {
        broker: broker.url(),
        redis: redis.url(),
        storage: format!("file://{}", path("storage").display()),
    };
    let whereabouts = Whereabouts::new(Some(urls), PathBuf::new(), Names::default(), Arc::new(Unattended));
    let start = Start { whereabouts: &whereabouts, run_dir: None, id: None, is_picked: false, detach: true };
    let called = Called {
        name: Some("nightly".to_owned()),
        display_name: Some("nightly scoring".to_owned()),
        tags: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        ..Called::default()
    };
    let overrides = [("mini_batch_size".to_owned(), "3".to_owned())];
    let given = Given {
        overrides: &overrides,
        names: Some(&whereabouts.names),
        called: Some(&called),
        ..Given::default()
    };
    let (folder, yaml) = (path("came"), "name: score\nentry_script: score.py\nenvironment: ./python\n");
    let text = format!("{yaml}inputs: [{{type: file, path: data}}]\n");
    let job = JobText { text: &text, folder: &folder, root: &folder, allowed: &[], sent: None, reach: None };
    let Ended::HandedIn { job_id, .. } = Box::pin(submit_text(job, given, &start)).await.unwrap() else {
        panic!("nobody waits for it")
    };
    fs::remove_dir_all(&folder).unwrap();
    assert!(job_id.starts_with("nightly-"), "{job_id}");
    assert!(!path("ran").exists(), "a program of the job ran here");
    let home = Box::pin(homes::find(&job_id, &whereabouts)).await.unwrap();
    let record = Box::pin(home.record()).await.unwrap();
    let spec = &record.spec;
    assert_eq!((&*spec.name, spec.display_name.as_deref()), ("nightly", Some("nightly scoring")));
    assert_eq!(spec.tags["team"], "vision");
    assert_eq!(spec.stored()["mini_batch_size"], serde_json::json!({ "files": 3 }));
    Box::pin(home.code(&record, "")).await.unwrap();
    assert!(path("storage/inputs").is_dir(), "its input is in storage");

    let text = format!("{yaml}inputs: [{{type: file, path: ../storage}}]\n");
    fs::create_dir(&folder).unwrap();
    let job = JobText { text: &text, ..job };
    let refused = Box::pin(submit_text(job, given, &start)).await.unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("../storage is not among what came"),
        "{refused}"
    );
}
