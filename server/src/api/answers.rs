//! The schemas of answers in the `OpenAPI` document: those of the records that commands print (`docs/schema`, made from the same types), and of
//! pages of them.

use serde_json::{Map, Value, json};

/// What an address answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A record, by its name.
    Record(&'static str),
    /// A page of these.
    Page(&'static str),
    /// Text, or bytes.
    Bytes,
    /// Server-sent events.
    Events,
    /// Nothing.
    Nothing,
}

/// The records whose schemas are documented, by their names.
const RECORDS: [(&str, &str); 4] = [
    ("Job", include_str!("../../../docs/schema/job.json")),
    ("Errors", include_str!("../../../docs/schema/errors.json")),
    ("FailedItems", include_str!("../../../docs/schema/failed-items.json")),
    ("Shown", include_str!("../../../docs/schema/shown.json")),
];

/// What the addresses of jobs answer; others answer JSON of their own.
const ANSWERS: &[(&str, &str, Answer)] = &[
    ("get", "/api/v1/jobs", Answer::Page("JobSummary")),
    ("post", "/api/v1/jobs", Answer::Record("JobObject")),
    ("get", "/api/v1/jobs/{job}", Answer::Record("JobObject")),
    ("patch", "/api/v1/jobs/{job}", Answer::Record("JobObject")),
    ("delete", "/api/v1/jobs/{job}", Answer::Nothing),
    ("post", "/api/v1/jobs/{job}/cancel", Answer::Record("JobObject")),
    ("post", "/api/v1/jobs/{job}/resume", Answer::Record("JobObject")),
    ("post", "/api/v1/jobs/{job}/resubmit", Answer::Record("JobObject")),
    ("get", "/api/v1/jobs/{job}/spec", Answer::Record("Shown")),
    ("get", "/api/v1/jobs/{job}/steps", Answer::Page("JobObject")),
    ("get", "/api/v1/jobs/{job}/code", Answer::Page("CodeFile")),
    ("get", "/api/v1/jobs/{job}/code/{path}", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/code.tar.gz", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/report.html", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/errors", Answer::Record("Errors")),
    ("get", "/api/v1/jobs/{job}/errors/{group}/items", Answer::Record("FailedItems")),
    ("get", "/api/v1/jobs/{job}/failed-items", Answer::Record("FailedItems")),
    ("get", "/api/v1/jobs/{job}/events", Answer::Events),
    ("get", "/api/v1/events", Answer::Events),
    ("get", "/api/v1/jobs/{job}/logs/{path}", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/logs.tar.gz", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/outputs/{path}", Answer::Bytes),
    ("get", "/api/v1/jobs/{job}/result", Answer::Bytes),
    ("get", "/api/v1/servers", Answer::Page("Server")),
    ("get", "/metrics", Answer::Bytes),
    ("get", "/livez", Answer::Bytes),
    ("get", "/readyz", Answer::Bytes),
];

/// The answer of an address that succeeds, as `OpenAPI` has it.
pub(super) fn answer(method: &str, path: &str) -> Value {
    let found = ANSWERS.iter().find(|(each, at, _)| *each == method && *at == path);
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let of_json = |schema: Value| json!({ "application/json": { "schema": schema } });
    let content = match found.map(|(.., answer)| *answer) {
        Some(Answer::Nothing) => return json!({ "description": "It is done, or goes on." }),
        Some(Answer::Events) => json!({ "text/event-stream": {} }),
        Some(Answer::Record(name)) => of_json(reference(name)),
        Some(Answer::Page(name)) => of_json(json!({
            "type": "object",
            "required": ["value", "next_cursor", "total", "as_of"],
            "properties": {
                "value": { "type": "array", "items": reference(name) },
                "next_cursor": { "type": ["string", "null"] },
                "total": { "type": ["integer", "null"], "minimum": 0 },
                "as_of": { "type": "string", "format": "date-time" },
            },
        })),
        Some(Answer::Bytes) | None => json!({ "*/*": {} }),
    };
    json!({ "description": "What was asked for.", "content": content })
}

/// The schemas that answers refer to, by their names.
pub(super) fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    for (name, text) in RECORDS {
        // Its own definitions stay below it.
        let text = text.replace("\"#/$defs/", &format!("\"#/components/schemas/{name}/$defs/"));
        let mut schema: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("$schema");
        }
        schemas.insert(name.to_owned(), schema);
    }
    schemas.insert("AttentionLine".to_owned(), attention());
    schemas.insert("JobSummary".to_owned(), summary());
    schemas.insert("JobObject".to_owned(), object());
    schemas.insert("Server".to_owned(), server());
    schemas.insert(
        "CodeFile".to_owned(),
        json!({
            "type": "object",
            "required": ["path", "bytes"],
            "properties": { "path": { "type": "string" }, "bytes": { "type": "integer", "minimum": 0 } },
        }),
    );
    schemas
}

fn attention() -> Value {
    json!({
        "type": "object",
        "required": ["code", "severity", "since", "text", "link", "command"],
        "properties": {
            "code": { "type": "string" },
            "severity": { "enum": ["note", "warning", "error"] },
            "since": { "type": ["string", "null"], "format": "date-time" },
            "text": { "type": "string" },
            "link": { "type": "string" },
            "command": { "type": ["string", "null"] },
        },
    })
}

/// A server behind this one.
fn server() -> Value {
    let count_or_null = json!({ "type": ["integer", "null"], "minimum": 0 });
    let room = ["memory_bytes", "memory_limit_bytes", "dead_messages", "free_bytes", "incomplete_uploads"];
    let of_room: Map<String, Value> =
        room.iter().map(|key| ((*key).to_owned(), count_or_null.clone())).collect();
    json!({
        "type": "object",
        "required": ["dependency", "kind", "place", "reachable", "problem", "latency_seconds", "version", "room"],
        "properties": {
            "dependency": { "enum": ["storage", "ledger", "broker"] },
            "kind": { "enum": ["s3", "folder", "redis", "rabbitmq"] },
            "place": text_or_null(),
            "reachable": { "type": "boolean" },
            "problem": text_or_null(),
            "latency_seconds": { "type": ["number", "null"], "minimum": 0 },
            "version": text_or_null(),
            "room": { "type": "object", "required": room, "properties": of_room },
        },
    })
}

fn text_or_null() -> Value {
    json!({ "type": ["string", "null"] })
}

fn moment_or_null() -> Value {
    json!({ "type": ["string", "null"], "format": "date-time" })
}

/// A job as a list has it.
fn summary() -> Value {
    let number = json!({ "type": "number" });
    let mut properties = json!({
        "schema": { "const": prs_jobs::records::SCHEMA },
        "job_id": { "type": "string" },
        "name": { "type": "string" },
        "state": { "type": "string" },
        "complete": { "type": ["boolean", "null"] },
        "target": { "type": "string" },
        "submitted_at": { "type": "string", "format": "date-time" },
        "started_at": { "type": "string", "format": "date-time" },
        "ended_at": moment_or_null(),
        "tags": { "type": "object", "additionalProperties": { "type": "string" } },
        "mini_batches": { "type": "object" },
        "items": { "type": "object" },
        "seconds": number,
        "per_second": number,
        "eta_seconds": { "type": ["number", "null"] },
        "attention": { "anyOf": [{ "$ref": "#/components/schemas/AttentionLine" }, { "type": "null" }] },
        "incarnation": { "type": "integer", "minimum": 1 },
        "links": { "type": "object", "additionalProperties": { "type": "string" } },
    });
    for key in
        ["display_name", "phase", "reason", "canceled_by", "submitted_by", "endpoint", "deployment", "parent"]
    {
        properties[key] = text_or_null();
    }
    let required: Vec<String> =
        properties.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// A job: the record of the commands, and what a server adds.
fn object() -> Value {
    let count_or_null = json!({ "type": ["integer", "null"], "minimum": 0 });
    let mut properties = json!({
        "started_at": { "type": "string", "format": "date-time" },
        "tags": { "type": "object", "additionalProperties": { "type": "string" } },
        "target": { "type": "string" },
        "incarnation": { "type": "integer", "minimum": 1 },
        "planned": { "type": "boolean" },
        "waiting": count_or_null,
        "in_flight": count_or_null,
        "retried": count_or_null,
        "rows": { "type": "integer", "minimum": 0 },
        "nodes_wanted": { "type": "integer", "minimum": 1 },
        "items_per_second": { "type": "number" },
        "thresholds": { "type": "array", "items": {
            "type": "object",
            "required": ["name", "limit", "used"],
            "properties": {
                "name": { "type": "string" }, "limit": { "type": "integer" }, "used": { "type": "integer" },
            },
        } },
        "notes": { "type": "array", "items": { "type": "string" } },
        "attention": { "type": "array", "maxItems": 9, "items": { "$ref": "#/components/schemas/AttentionLine" } },
        "links": { "type": "object", "additionalProperties": { "type": "string" } },
        "as_of": { "type": "string", "format": "date-time" },
        "stale_seconds": { "type": "number" },
    });
    for key in [
        "display_name",
        "description",
        "experiment_name",
        "phase",
        "canceled_by",
        "submitted_by",
        "endpoint",
        "deployment",
        "parent",
        "resubmitted_from",
    ] {
        properties[key] = text_or_null();
    }
    // With fields only those that are named are there.
    json!({ "allOf": [{ "$ref": "#/components/schemas/Job" }, { "type": "object", "properties": properties }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ROUTES;

    #[test]
    fn each_answer_is_of_an_address_and_refers_to_what_is_there() {
        let schemas = schemas();
        for (method, path, answer) in ANSWERS {
            assert!(
                ROUTES.iter().any(|route| route.method == *method && route.path == *path),
                "{method} {path}"
            );
            if let Answer::Record(name) | Answer::Page(name) = answer {
                assert!(schemas.contains_key(*name), "{name}");
            }
        }
        let document = json!({ "components": { "schemas": schemas } });
        let text = document.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
