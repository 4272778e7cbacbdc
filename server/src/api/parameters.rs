//! What the parameters and headers of the addresses take, and which problems addresses answer, for the `OpenAPI` document.

use prs_common::ledger::JobState;
use prs_common::segment::TryStatus;
use prs_jobs::fleet::WORKER_STATES;
use prs_jobs::logs::LogKind;
use prs_jobs::mini_batches::Order;
use prs_jobs::statistics::NodeOrder;
use serde_json::{Value, json};

use super::Route;
use super::answers::{Answer, success, takes};
use super::azure::is_of_azure;
use super::azure_objects::OfAzure;
use super::events::TYPES;
use super::jobs::{GROUPS, SORTS};
use super::registry::KINDS;

/// Whether an address cannot do without a parameter.
pub(super) fn is_required(path: &str, name: &str) -> bool {
    (path.ends_with("/log-lines") && name == "path") || (path.ends_with("/log-search") && name == "q")
}

/// Whether a parameter may stand several times.
pub(super) fn is_repeatable(path: &str, name: &str) -> bool {
    let several: &[&str] = match path.rsplit('/').next().unwrap_or_default() {
        "events" => &["path", "parts", "kind", "node", "process"],
        "logs" | "log-search" | "logs.tar.gz" => &["kind", "node", "process"],
        "jobs" => &["state", "name", "q", "target", "endpoint", "deployment", "submitted_by", "tag"],
        "mini-batches" | "tries" => &["node", "process", "group", "status"],
        "workers" => &["target", "state", "job"],
        _ => &["tag"],
    };
    several.contains(&name)
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    json!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

fn number(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

/// What a parameter of the path is.
pub(super) fn of_path(path: &str, name: &str) -> Value {
    let is_of_azure = is_of_azure(path);
    match name {
        "kind" if is_of_azure => words(OfAzure::ALL.map(|one| one.word)),
        "kind" => words(KINDS.map(|(word, _)| word)),
        "index" | "node_id" => json!({ "type": "integer", "minimum": 0 }),
        "sha256" => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

/// What a parameter of the query takes.
pub(super) fn of_query(path: &str, name: &str) -> Value {
    let with_reverse = |sorts: &[&'static str]| -> Value {
        let both = sorts.iter().flat_map(|sort| [(*sort).to_owned(), format!("-{sort}")]);
        json!({ "type": "string", "enum": both.collect::<Vec<_>>() })
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    match (last, name) {
        ("log-search", "limit") => number(1, 200),
        (_, "timeout") => number(0, 60),
        (_, "limit" | "rows" | "points") => number(1, 500),
        (_, "tail") => number(1, 4 << 20),
        ("log-lines", "bytes") => number(1, 256 << 10),
        ("log-lines", "at") => json!({ "type": "string", "pattern": "^(end|[0-9]{1,15})$" }),
        (_, "context") => number(0, 5),
        ("mini-batches" | "tries", "node") | (_, "index") => {
            json!({ "type": "string", "pattern": "^[0-9]{1,9}$" })
        }
        (_, "node" | "$top" | "$skipToken") => number(0, u64::from(u32::MAX)),
        (_, "min_seconds") => json!({ "type": "number", "minimum": 0, "maximum": 100_000_000 }),
        (
            _,
            "dry_run"
            | "live"
            | "download"
            | "regex"
            | "lost"
            | "case"
            | "archived"
            | "yes"
            | "set_default"
            | "skip_script_validation"
            | "verbose",
        ) => json!({ "type": "boolean" }),
        ("jobs", "state") => words(JobState::ALL.map(JobState::as_str).into_iter().chain(GROUPS)),
        ("workers", "state") => words(WORKER_STATES),
        ("mini-batches", "state") => words(super::mini_batches::states()),
        ("jobs", "sort") => with_reverse(&SORTS),
        ("errors", "sort") => words(super::errors::SORTS),
        ("nodes", "sort") => words(NodeOrder::ALL.map(|(word, _)| word)),
        (_, "sort") => words(Order::ALL.map(|(word, _)| word)),
        (_, "status") => words(TryStatus::ALL.map(TryStatus::as_str)),
        (_, "wait_for") => words(["ended", "changed"]),
        ("{job}", "output") => words(["keep", "remove"]),
        ("output-preview", "from") => words(["start", "end"]),
        ("events", "types") if path.contains("{job}") => {
            let types = TYPES.join("|");
            json!({ "type": "string", "pattern": format!("^({types})(,({types}))*$") })
        }
        ("events", "types") => words(["job"]),
        ("logs" | "logs.tar.gz" | "log-search" | "events", "kind") => {
            words(LogKind::ALL.map(LogKind::as_str))
        }
        ("logs", "delimiter") => words(["/", "none"]),
        ("log-lines", "around") => number(0, 1 << 50),
        ("log-search", "q") => json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
        _ => json!({ "type": "string" }),
    }
}

/// The headers that an address takes, with the form of each and what it is for.
pub(super) fn headers(method: &str, path: &str) -> Vec<(&'static str, Value, &'static str)> {
    let mut headers = Vec::new();
    let is_call = path == "/endpoints/{endpoint}/jobs";
    let is_once = method == "post"
        && [
            "/api/v1/jobs",
            "/api/v1/jobs/{job}/resume",
            "/api/v1/jobs/{job}/resubmit",
            "/api/v1/endpoints/{endpoint}/invoke",
            "/endpoints/{endpoint}/jobs",
            "/api/v1/registry/{kind}/{name}/versions",
        ]
        .contains(&path);
    if is_once {
        let key = json!({ "type": "string", "pattern": "^[!-~]{1,255}$" });
        headers.push(("Idempotency-Key", key, "a text of its own for each request that is meant once"));
    }
    if is_call && method == "post" {
        headers.push((
            "azureml-model-deployment",
            json!({ "type": "string" }),
            "the deployment that answers",
        ));
    }
    if says_what_it_expects(method, path) {
        headers.push(("If-Match", json!({ "type": "string" }), "the ETag of what is to change"));
        let star = json!({ "type": "string", "enum": ["*"] });
        if method == "put" {
            headers.push(("If-None-Match", star, "to create what is not there"));
        }
    }
    headers
}

/// Whether a request says which version it changes.
fn says_what_it_expects(method: &str, path: &str) -> bool {
    if !path.starts_with("/api/") {
        return false;
    }
    let is_version = path.ends_with("/versions/{version}");
    match method {
        "put" => path.ends_with("/{endpoint}") || path.ends_with("/{deployment}"),
        "patch" | "delete" => path.ends_with("/{endpoint}") || path.ends_with("/{deployment}") || is_version,
        _ => false,
    }
}

/// The statuses of the problems that an address may answer.
pub(super) fn problems(route: &Route) -> Vec<u16> {
    let Route { method, path, role, .. } = route;
    let changes = *method != "get";
    // Of some parameters alone it asks who asks.
    let tells_more = *path == "/readyz";
    let has_body = takes(method, path).is_some();
    let success = success(method, path);
    let gives_ranges = success.is_some_and(|success| success.statuses.contains(&206));
    let cuts = success.is_some_and(|success| matches!(success.answer, Answer::Bytes(_)));
    let all = [
        (400, true),
        // Wrong credentials are told wherever they are shown.
        (401, true),
        (403, !role.is_empty() || changes || tells_more),
        (404, path.contains('{')),
        (409, changes || path.contains("{job}") || path.contains("/files")),
        (410, path.contains("{job}") && route.parameters.iter().any(|(name, _)| *name == "cursor")),
        (411, *path == "/api/v1/blobs/{sha256}" && changes),
        (412, says_what_it_expects(method, path)),
        (413, has_body || cuts),
        (414, true),
        (415, has_body && path.starts_with("/api/")),
        (416, gives_ranges),
        (421, true),
        (422, has_body),
        (428, says_what_it_expects(method, path)),
        (429, true),
        (500, true),
        (502, true),
        (503, true),
        (507, has_body),
    ];
    all.into_iter().filter(|(_, may)| *may).map(|(status, _)| status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ROUTES;
    use crate::problem::ALL;

    #[test]
    fn problems_have_kinds() {
        for route in ROUTES {
            for status in problems(route) {
                assert!(ALL.iter().any(|kind| kind.status == status), "{status}");
            }
        }
    }

    #[test]
    fn what_must_be_said_is_a_header_of_the_address() {
        let names = |method, path| -> Vec<&str> {
            headers(method, path).into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names("post", "/api/v1/jobs"), ["Idempotency-Key"]);
        assert_eq!(names("put", "/api/v1/endpoints/{endpoint}"), ["If-Match", "If-None-Match"]);
        assert_eq!(names("delete", "/api/v1/registry/{kind}/{name}/versions/{version}"), ["If-Match"]);
        assert!(names("get", "/api/v1/jobs").is_empty());
    }
}
