//! Tokens in a store, from creation to refusal.

use prs_common::storage::LocalStorage;
use tempfile::TempDir;

use super::*;
use crate::FailureKind;

const NOW: u64 = 1_795_262_400_000_000;
const DAY: u64 = 86_400_000_000;

fn room() -> (TempDir, Tokens) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = over(&folder);
    (folder, tokens)
}

/// As another process has them.
fn over(folder: &TempDir) -> Tokens {
    let storage = Arc::new(LocalStorage::new(folder.path()));
    Tokens { storage, runs: None, cache: Arc::default(), uses: Arc::default() }
}

fn new(role: Role, endpoints: &[&str], days: u64) -> NewToken {
    let endpoints = endpoints.iter().map(|one| (*one).to_owned()).collect();
    let lifetime = (days > 0).then(|| Duration::from_hours(24 * days));
    NewToken { name: "ci of vision".to_owned(), role, endpoints, lifetime }
}

#[tokio::test]
async fn a_token_is_somebody_until_it_expires() {
    let (folder, tokens) = room();
    let (token, secret) = tokens.create(&new(Role::Submit, &[], 2), "ana@lab", NOW).await.unwrap();
    let who = tokens.verify(secret.expose(), NOW).await.unwrap();
    assert_eq!((&*who.token_id, &*who.name, who.role), (&*token.id, "ci of vision", Role::Submit));
    assert_eq!(over(&folder).verify(secret.expose(), NOW + 2 * DAY - 1).await.unwrap(), who);
    let expired = tokens.verify(secret.expose(), NOW + 2 * DAY).await.unwrap_err();
    assert!(matches!(expired, Refusal::Expired { at_us, .. } if at_us == NOW + 2 * DAY), "{expired}");
    assert!(expired.to_string().contains("expired at 2026-11-23T"), "{expired}");

    let (_, secret) = tokens.create(&new(Role::Read, &[], 0), "ana@lab", NOW).await.unwrap();
    assert_eq!(tokens.verify(secret.expose(), u64::MAX / 2).await.unwrap().expires_us, None);
}

#[tokio::test]
async fn what_is_kept_is_no_secret() {
    let (folder, tokens) = room();
    let (token, secret) =
        tokens.create(&new(Role::Invoke, &["heart", "iris"], 90), "ana@lab", NOW).await.unwrap();
    let text = std::fs::read_to_string(folder.path().join("tokens").join(&token.id)).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sha256 = kept["sha256"].as_str().unwrap();
    assert_eq!(
        kept,
        serde_json::json!({
            "sha256": sha256,
            "name": "ci of vision",
            "role": "invoke",
            "endpoints": ["heart", "iris"],
            "created_at": "2026-11-21T12:00:00.000000Z",
            "created_by": "ana@lab",
            "expires_at": "2027-02-19T12:00:00.000000Z",
            "revoked_at": null
        })
    );
    let shown = format!("{:?} {token:?} {secret:?}", tokens.list().await.unwrap());
    for text in [text, shown] {
        assert!(!text.contains(secret.expose()) && !text.contains(&secret.expose()[17..81]), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_refused_within_ten_seconds_everywhere() {
    let (folder, tokens) = room();
    let other = over(&folder);
    let (token, secret) = tokens.create(&new(Role::Admin, &[], 1), "ana@lab", NOW).await.unwrap();
    for each in [&tokens, &other] {
        each.verify(secret.expose(), NOW).await.unwrap();
    }
    // Other programs may revoke it at the same moment; the first counts.
    let third = over(&folder);
    let (one, two) = tokio::join!(tokens.revoke(&token.id, NOW + 1), third.revoke(secret.expose(), NOW + 2));
    let at = one.unwrap().revoked_us;
    assert_eq!(two.unwrap().revoked_us, at);
    assert_eq!(tokens.revoke(&token.id, NOW + 3).await.unwrap().revoked_us, at, "once more");
    let refused = |refusal: Refusal| matches!(refusal, Refusal::Revoked { at_us, .. } if Some(at_us) == at);
    assert!(refused(tokens.verify(secret.expose(), NOW).await.unwrap_err()), "at once where it was revoked");
    assert!(other.verify(secret.expose(), NOW).await.is_ok(), "what was read is believed for a while");
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(refused(other.verify(secret.expose(), NOW).await.unwrap_err()));
    assert_eq!(tokens.list().await.unwrap().0[0].state(NOW), TokenState::Revoked);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_believed_for_long_when_the_store_is_gone() {
    let (folder, tokens) = room();
    let (token, secret) = tokens.create(&new(Role::Admin, &[], 1), "ana@lab", NOW).await.unwrap();
    tokens.verify(secret.expose(), NOW).await.unwrap();
    let object = folder.path().join("tokens").join(&token.id);
    std::fs::write(&object, "{").unwrap();
    assert!(tokens.verify(secret.expose(), NOW).await.is_ok());
    tokio::time::advance(Duration::from_secs(9)).await;
    let damaged = tokens.verify(secret.expose(), NOW).await.unwrap_err();
    assert!(damaged.is_of_store() && damaged.to_string().contains(&token.id), "{damaged}");
    let (listed, wrong) = tokens.list().await.unwrap();
    assert!(listed.is_empty() && wrong.len() == 1, "{wrong:?}");
    assert!(tokens.revoke(&token.id, NOW).await.unwrap_err().is_usage());
}

#[tokio::test]
async fn tokens_of_others_and_false_ones_are_refused() {
    let ((_ours, tokens), (_theirs, other)) = (room(), room());
    let (token, secret) = tokens.create(&new(Role::Read, &[], 1), "ana@lab", NOW).await.unwrap();
    let refused = other.verify(secret.expose(), NOW).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused}");
    // The right id, and another secret with its own checksum.
    let (_, false_one) = Secret::make();
    let text = false_one.expose().replace(id_in(false_one.expose()).unwrap(), &token.id);
    let text = text::with_checksum(&text[..text.len() - 9]);
    let refused = tokens.verify(&text, NOW).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused}");
    assert!(!refused.to_string().contains(&text[17..81]));
    assert!(matches!(tokens.verify("prs_x", NOW).await.unwrap_err(), Refusal::Malformed));

    let failure = other.revoke(&token.id, NOW).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
    let failure = tokens.revoke(&secret.expose()[17..81], NOW).await.unwrap_err();
    assert!(failure.is_usage() && !failure.to_string().contains(&secret.expose()[17..81]), "{failure}");
}

#[tokio::test]
async fn what_does_not_fit_together_is_no_token() {
    let (folder, tokens) = room();
    let named = |name: &str| NewToken { name: name.to_owned(), ..new(Role::Read, &[], 1) };
    let long = "x".repeat(65);
    for (wrong, told) in [
        (new(Role::Invoke, &[], 1), "--endpoint '*' for all"),
        (new(Role::Read, &["heart"], 1), "leave --endpoint out"),
        (new(Role::Invoke, &["a/b"], 1), "\"a/b\" is not the name of an endpoint"),
        (new(Role::Read, &[], 3651), "1 to 3650 days"),
        (named(""), "1 to 64 characters"),
        (named(" a"), "1 to 64 characters"),
        (named(&long), "1 to 64 characters"),
        (named("a\nb"), "control characters"),
    ] {
        let failure = tokens.create(&wrong, "ana@lab", NOW).await.unwrap_err();
        assert!(failure.is_usage() && failure.to_string().contains(told), "{failure}");
    }
    assert!(!folder.path().join("tokens").exists());
}

#[tokio::test]
async fn a_principal_invokes_what_its_token_names() {
    let (_folder, tokens) = room();
    let table: [(Role, &[&str], [bool; 2]); 5] = [
        (Role::Invoke, &["heart"], [true, false]),
        (Role::Invoke, &["*"], [true, true]),
        (Role::Read, &[], [false, false]),
        (Role::Submit, &[], [true, true]),
        (Role::Metrics, &[], [false, false]),
    ];
    for (role, endpoints, expected) in table {
        let (_, secret) = tokens.create(&new(role, endpoints, 1), "ana@lab", NOW).await.unwrap();
        let who = tokens.verify(secret.expose(), NOW).await.unwrap();
        assert_eq!(
            ["heart", "iris"].map(|endpoint| who.may_invoke(endpoint)),
            expected,
            "{role} {endpoints:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_was_made_elsewhere_is_entered_once() {
    let (_folder, tokens) = room();
    assert!(!tokens.is_any_active(NOW).await.unwrap());
    let secret = Secret::generate();
    let entered = tokens.enter(secret.expose(), "PRS_TOKEN", "ana@lab", NOW).await.unwrap();
    assert_eq!((entered.role, entered.expires_us), (Role::Admin, None));
    assert_eq!(tokens.enter(secret.expose(), "PRS_TOKEN", "ben@lab", NOW + DAY).await.unwrap(), entered);
    assert_eq!(tokens.verify(secret.expose(), NOW).await.unwrap().token_id, entered.id);
    assert_eq!(tokens.of_id(&entered.id, NOW).await.unwrap().role, Role::Admin);
    assert!(tokens.is_any_active(NOW).await.unwrap());
    // Who revoked it meant it.
    tokens.revoke(&entered.id, NOW).await.unwrap();
    let again = tokens.enter(secret.expose(), "PRS_TOKEN", "ana@lab", NOW).await.unwrap();
    assert_eq!(again.revoked_us, Some(NOW));
    assert!(matches!(tokens.of_id(&entered.id, NOW).await, Err(Refusal::Revoked { .. })));
    assert!(!tokens.is_any_active(NOW).await.unwrap());
    let wrong = tokens.enter("hunter2", "PRS_TOKEN", "ana@lab", NOW).await.unwrap_err();
    assert!(wrong.is_usage() && !wrong.to_string().contains("hunter2"), "{wrong}");
}
