//! `prs token`: created, listed and revoked in the registry of this machine and of a fleet. Who has a secret is told once.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::{Value, json};

fn job() -> Job {
    Job::new("def run(mini_batch):\n    return []\n")
}

fn token(job: &Job, words: &str) -> Ended {
    job.command(&[&["token"], &*words.split_whitespace().collect::<Vec<_>>()].concat())
}

#[track_caller]
fn record(job: &Job, words: &str) -> Value {
    let ended = token(job, &format!("{words} -o json"));
    ended.expect_code(0);
    ended.json()
}

#[track_caller]
fn refused(job: &Job, words: &str, part: &str) -> Ended {
    let ended = token(job, words);
    ended.expect_code(2);
    assert!(ended.stderr.contains(part), "{words}: {part:?} is not said: {}", ended.stderr);
    ended.has_no_data();
    ended
}

/// The part of a token that nobody else may see.
fn secret_of(text: &str) -> &str {
    let parts: Vec<&str> = text.split('_').collect();
    assert!(
        matches!(parts[..], ["prs", id, secret, sum] if (id.len(), secret.len(), sum.len()) == (12, 64, 8)),
        "{text}"
    );
    parts[2]
}

/// What every command says of tokens, wherever their registry is.
fn are_created_listed_and_revoked(job: &Job) -> Vec<String> {
    let created = token(job, "create ci --role submit");
    created.expect_code(0);
    let text = created.stdout.trim_end();
    let (secret, id) = (secret_of(text), text.split('_').nth(1).unwrap());
    assert_eq!(created.stdout.lines().count(), 1, "{}", created.stdout);
    assert!(
        created.stderr.contains("it is shown this once") && created.stderr.contains(id),
        "{}",
        created.stderr
    );
    assert!(!created.stderr.contains(secret));

    let made = record(job, "create heart --role invoke --endpoint heart --endpoint iris --days 0");
    assert_eq!(
        made,
        json!({
            "schema": 1,
            "id": made["id"],
            "name": "heart",
            "role": "invoke",
            "endpoints": ["heart", "iris"],
            "state": "active",
            "created_at": made["created_at"],
            "created_by": made["created_by"],
            "created_by_id": null,
            "last_used_on": null,
            "expires_at": null,
            "revoked_at": null,
            "secret": made["secret"]
        })
    );
    let other = secret_of(made["secret"].as_str().unwrap()).to_owned();

    let revoked = record(job, &format!("revoke {id}"));
    assert_eq!((&revoked["id"], &revoked["state"]), (&json!(id), &json!("revoked")));
    // Once more, and by the whole token, of which nothing is said but its id.
    let again = token(job, &format!("revoke {text}"));
    again.expect_code(0);
    assert!(again.stderr.contains("was revoked before"), "{}", again.stderr);

    let listed = record(job, "list");
    let tokens = listed["tokens"].as_array().unwrap();
    let seen: Vec<_> =
        tokens.iter().map(|one| (one["name"].as_str().unwrap(), one["state"].as_str().unwrap())).collect();
    assert_eq!(seen, [("heart", "active"), ("ci", "revoked")]);
    assert_eq!(tokens[1]["revoked_at"], revoked["revoked_at"], "the first revocation counts");
    assert!(tokens.iter().all(|one| one.get("secret").is_none() && one.get("sha256").is_none()), "{listed}");
    let table = token(job, "list");
    for part in ["ROLE", "invoke heart, iris", "never", "revoked"] {
        assert!(table.stdout.contains(part), "{part}: {}", table.stdout);
    }

    let mut said = vec![again.stderr, listed.to_string(), table.stdout];
    for (words, part) in [
        (format!("revoke {}", &text[17..81]), "12 hexadecimal digits"),
        ("revoke 0123456789ab".to_owned(), "there is no token 0123456789ab"),
        ("create x --role root".to_owned(), "metrics, invoke, read, submit, admin"),
        ("create x --role invoke".to_owned(), "--endpoint '*' for all"),
        ("create x --role admin --days 4000".to_owned(), "1 to 3650 days"),
    ] {
        said.push(refused(job, &words, part).stderr);
    }
    for said in &said {
        assert!(!said.contains(secret) && !said.contains(&other), "{said}");
    }
    vec![secret.to_owned(), other]
}

#[test]
fn tokens_of_this_machine_are_beside_its_runs() {
    let job = job();
    let empty = token(&job, "list");
    empty.expect_code(0);
    assert!(empty.stdout.is_empty() && empty.stderr.contains("there is no token"), "{}", empty.stderr);
    let secrets = are_created_listed_and_revoked(&job);
    let folder = job.path("prs-runs/.registry");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let mut count = 0;
    for file in fs::read_dir(folder.join("tokens")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn tokens_of_a_fleet_are_in_its_storage() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let secrets = are_created_listed_and_revoked(&job);
    let objects = fleet.s3.objects(fleet.bucket()).into_iter();
    let keys: Vec<String> =
        objects.map(|(key, _)| key).filter(|key| key.starts_with("prs/registry/tokens/")).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        let text = String::from_utf8(fleet.s3.object(fleet.bucket(), &key).unwrap()).unwrap();
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}
