//! Signing in with an identity provider. The programs have to be built with the feature `oidc` (`make test-oidc`), so the tests are
//! ignored elsewhere.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::identity::{CLIENT, IdentityProvider, SECRET, parameters};
use prs_tests::harness::{Answer, Job, Web};
use serde_json::{Value, json};

const SCRIPT: &str = "def run(mini_batch):\n    return mini_batch\n";
const PAGE: (&str, &str) = ("Accept", "text/html");

fn job() -> Job {
    let job = Job::new(SCRIPT).with_files(1);
    let folder = job.path("runtime");
    fs::create_dir(&folder).unwrap();
    fs::write(job.path("secret"), format!("{SECRET}\n")).unwrap();
    job.with_own_variable("XDG_RUNTIME_DIR", &folder.display().to_string())
}

fn served(job: &Job, provider: &IdentityProvider) -> Web {
    let (issuer, secret) = (provider.issuer(), job.path("secret").display().to_string());
    let map = "admin=prs-admins,submit=ml-*,invoke=apps";
    let options =
        ["--oidc-issuer", &issuer, "--oidc-client-id", CLIENT, "--oidc-client-secret-file", &secret];
    Web::start(job, &[&options[..], &["--oidc-name", "Example", "--role-map", map]].concat())
}

/// The name and value of the cookie that an answer sets.
fn cookie(answer: &Answer, name: &str) -> Option<String> {
    let sets = answer.headers.iter().filter(|(header, _)| header == "set-cookie");
    let mut pairs = sets.filter_map(|(_, set)| set.split(';').next());
    pairs.find(|pair| pair.starts_with(name) && !pair.ends_with('=')).map(str::to_owned)
}

/// A browser that was sent to the provider: its cookie, and what it has for it.
fn sent(web: &Web) -> (String, HashMap<String, String>) {
    let answer = web.page("/oidc/start?next=%2Fadmin%2Ftokens");
    assert_eq!(answer.status, 303, "{}", answer.text());
    let at = answer.header("location").unwrap().to_owned();
    let set = answer.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax") && set.contains("Max-Age=600"), "{set}");
    (cookie(&answer, "prs-oidc").unwrap(), parameters(at.split_once('?').unwrap().1))
}

/// The answer to a browser that comes back.
fn back(web: &Web, cookie: &str, code: &str, state: &str) -> Answer {
    let path = format!("/oidc/return?code={code}&state={state}");
    web.ask_with("GET", &path, &[("Cookie", cookie), PAGE, ("Sec-Fetch-Site", "cross-site")], "")
}

/// What becomes of a person who signs in.
fn sign_in(web: &Web, provider: &IdentityProvider) -> Answer {
    let (cookie, asked) = sent(web);
    let code = provider.sign_in(&asked);
    back(web, &cookie, &code, &asked["state"])
}

fn whoami(web: &Web, session: &str) -> Answer {
    web.ask_with("GET", "/api/v1/whoami", &[("Cookie", session)], "")
}

#[track_caller]
fn is_kept_out(answer: &Answer, says: &str) {
    let sets = answer.headers.iter().filter(|(name, _)| name == "set-cookie");
    assert!(sets.into_iter().all(|(_, set)| set.starts_with("prs-oidc-")), "{answer:?}");
    assert!(answer.status == 200 || answer.status >= 400, "{answer:?}");
    assert!(answer.text().contains(says), "{says}: {}", answer.text());
}

#[test]
#[ignore = "make test-oidc: it needs programs with the feature oidc"]
fn who_is_known_gets_the_role_of_their_groups() {
    let (job, provider) = (job(), IdentityProvider::start());
    let web = served(&job, &provider);
    let login = web.page("/login?next=%2Fadmin%2Ftokens").text();
    assert!(login.contains("Sign in with Example") && login.contains("/oidc/start?next="), "{login}");
    let (at, asked) = sent(&web);
    assert!(asked["redirect_uri"].ends_with("/oidc/return") && !at.contains(SECRET), "{asked:?}");
    provider.tell_the_truth(&["all", "ml-vision"]);
    let entered = sign_in(&web, &provider);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/admin/tokens")), "{entered:?}");
    let session = cookie(&entered, &format!("prs-{}=", web.port())).unwrap();
    let who = whoami(&web, &session).json(200);
    assert_eq!(
        (&who["principal"], &who["role"], &who["how"]),
        (&"ana".into(), &"submit".into(), &"session".into()),
        "{who}"
    );
    // A change comes from a page of the server alone.
    let body = r#"{"name": "mine", "role": "read"}"#;
    let create = |site: &str| {
        let headers = [("Cookie", &*session), ("Content-Type", "application/json"), ("Sec-Fetch-Site", site)];
        web.ask_with("POST", "/api/v1/tokens", &headers, body)
    };
    assert_eq!(create("cross-site").status, 403);
    let token = create("same-origin").json(201);
    assert_eq!(
        (&token["created_by"], &token["created_by_id"]),
        (&"ana".into(), &"oidc:0a1b".into()),
        "{token}"
    );
    provider.tell_the_truth(&["prs-admins"]);
    let admin = cookie(&sign_in(&web, &provider), &format!("prs-{}=", web.port())).unwrap();
    assert_eq!(whoami(&web, &admin).json(200)["role"], "admin");
    // One group may come as a text.
    provider.claim("groups", Some(json!("ml-a")));
    assert_eq!(sign_in(&web, &provider).status, 303);
    // Nobody gets in without a group that has a role, and programs sign in otherwise.
    for groups in [json!([]), json!(["all"]), json!(null), json!({ "ml-a": 1 })] {
        provider.claim("groups", Some(groups));
        is_kept_out(&sign_in(&web, &provider), "ana has no role here");
    }
    provider.claim("groups", None);
    is_kept_out(&sign_in(&web, &provider), "ana has no role here");
    provider.claim("groups", Some(json!(["apps"])));
    is_kept_out(&sign_in(&web, &provider), "opens no page");
    // The audit has who signed in.
    let lines =
        web.ask_with("GET", "/api/v1/audit?action=session.create", &[("Cookie", &admin)], "").json(200);
    let names: Vec<&Value> =
        lines["value"].as_array().unwrap().iter().map(|line| &line["principal"]).collect();
    assert!(names.contains(&&Value::from("ana")), "{lines}");
}

#[test]
#[ignore = "make test-oidc: it needs programs with the feature oidc"]
fn what_does_not_hold_lets_nobody_in() {
    let (job, provider) = (job(), IdentityProvider::start());
    let web = served(&job, &provider);
    let untrue = "does not hold";
    for (claim, value) in [
        ("nonce", json!("another")),
        ("aud", json!("another")),
        ("aud", json!([CLIENT, "another"])),
        ("iss", json!("https://evil.example.org")),
        ("exp", json!(1_000_000_000)),
        ("azp", json!("another")),
    ] {
        provider.tell_the_truth(&["prs-admins"]);
        provider.claim(claim, Some(value.clone()));
        is_kept_out(&sign_in(&web, &provider), untrue);
    }
    for claim in ["nonce", "aud", "iss", "exp"] {
        provider.tell_the_truth(&["prs-admins"]);
        provider.claim(claim, None);
        assert!(sign_in(&web, &provider).status != 303, "{claim}");
    }
    provider.tell_the_truth(&["prs-admins"]);
    // Of another browser, forged, given back late, or twice.
    let ((mine, asked), (other, _)) = (sent(&web), sent(&web));
    let code = provider.sign_in(&asked);
    is_kept_out(&back(&web, &other, &code, &asked["state"]), "Sign in again");
    is_kept_out(&back(&web, "a=b", &code, &asked["state"]), "Sign in again");
    is_kept_out(&back(&web, &mine.replace('~', "~A"), &code, &asked["state"]), "Sign in again");
    is_kept_out(&back(&web, &mine, &code, ""), "Sign in again");
    is_kept_out(&back(&web, &mine, "another", &asked["state"]), untrue);
    assert_eq!(back(&web, &mine, &code, &asked["state"]).status, 303);
    is_kept_out(&back(&web, &mine, &code, &asked["state"]), untrue);
    // It says itself that the user may not.
    let (mine, asked) = sent(&web);
    let path = format!("/oidc/return?error=access_denied&error_description=%3Cb%3E&state={}", asked["state"]);
    let told = web.ask_with("GET", &path, &[("Cookie", &mine), PAGE], "");
    is_kept_out(&told, "access_denied");
    assert!(!told.text().contains("<b>"), "{}", told.text());
    // Where it leads is a page of this server.
    let away = web.page("/oidc/start?next=%2F%2Fevil.example.org%2F");
    let (mine, at) = (cookie(&away, "prs-oidc").unwrap(), away.header("location").unwrap().to_owned());
    let asked = parameters(at.split_once('?').unwrap().1);
    let code = provider.sign_in(&asked);
    assert_eq!(back(&web, &mine, &code, &asked["state"]).header("location"), Some("/jobs"));
    // Why is in the log, and no secret is.
    let log = web.program.stderr();
    assert!(!log.contains(SECRET) && !log.contains(&code), "{log}");
}

#[test]
#[ignore = "make test-oidc: it needs programs with the feature oidc"]
fn keys_change_and_a_provider_may_be_away() {
    let (job, provider) = (job(), IdentityProvider::start());
    provider.tell_the_truth(&["ml-a"]);
    let web = served(&job, &provider);
    assert_eq!(sign_in(&web, &provider).status, 303);
    assert_eq!(provider.asked("/keys"), 1, "what it said is believed for a while");
    // A key that nobody tells is none; one that is told is found.
    let (mine, asked) = sent(&web);
    provider.take_another_key("two", false);
    is_kept_out(&back(&web, &mine, &provider.sign_in(&asked), &asked["state"]), "does not hold");
    provider.take_another_key("three", true);
    // Keys are asked for once in ten seconds at most, whatever comes.
    wait_for("the new key is known", Duration::from_mins(1), || {
        std::thread::sleep(Duration::from_millis(500));
        (sign_in(&web, &provider).status == 303).then_some(())
    });
    let (mine, asked) = sent(&web);
    let code = provider.sign_in(&asked);
    provider.is_away(true);
    let away = back(&web, &mine, &code, &asked["state"]);
    assert!(away.status == 503 && away.text().contains("identity provider"), "{}", away.text());
    // Who is in stays in, and tokens go on.
    assert_eq!(web.page("/login").status, 200);
    let secret = job.command(&["token", "create", "ci", "--role", "read", "-q"]).stdout.trim().to_owned();
    let bearer = format!("Bearer {secret}");
    assert_eq!(web.ask_with("GET", "/api/v1/jobs", &[("Authorization", &bearer)], "").status, 200);
    // One that was away at the start is asked when a person signs in.
    let other = served(&job, &provider);
    assert_eq!(other.page("/oidc/start").status, 503);
    provider.is_away(false);
    assert_eq!(sign_in(&other, &provider).status, 303);
}

#[test]
#[ignore = "make test-oidc: it needs programs with the feature oidc"]
fn a_provider_needs_a_name_for_the_server_and_roles() {
    let job = job();
    let issuer = ["--oidc-issuer", "https://id.example.org"];
    let client = ["--oidc-client-id", "prs"];
    for (more, says) in [
        (issuer.to_vec(), "--oidc-client-id"),
        ([issuer, client].concat(), "--role-map"),
        ([["--oidc-issuer", "http://id.example.org"], client, ["--role-map", "read=*"]].concat(), "https"),
        (
            [&issuer[..], &client, &["--role-map", "read=*", "--oidc-client-secret-file", "/nowhere"]]
                .concat(),
            "/nowhere",
        ),
    ] {
        let refused = job.command(&[&["serve", "--listen", "127.0.0.1:0"], &more[..]].concat());
        refused.expect_code(2);
        assert!(refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
    }
}
