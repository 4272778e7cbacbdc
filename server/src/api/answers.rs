//! What the addresses answer and take, for the `OpenAPI` document. The schemas are in `schemas.json`, made from the types that are answered
//! and read: a test compares them, and writes them with `PRS_WRITE_SCHEMAS`.

use serde_json::{Map, Value, json};

/// What an address answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// JSON: one of these records, by their names.
    Json(&'static [&'static str]),
    /// This record; or, where the request accepts it, this media type.
    JsonOr(&'static str, &'static str),
    /// Text or bytes, of one of these media types.
    Bytes(&'static [&'static str]),
    /// Nothing.
    Nothing,
}

/// What an address takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// JSON: this record.
    Json(&'static str),
    /// The same, or nothing.
    JsonOrNothing(&'static str),
    /// JSON: an object with keys that depend on what it is of.
    Keys,
    /// A file as JSON or YAML, or a form with it and an archive of code.
    File,
    /// A record, or a form with files.
    JsonOrForm(&'static str),
    /// Bytes.
    Bytes,
}

/// What an address answers when it succeeds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Success {
    method: &'static str,
    path: &'static str,
    /// The statuses.
    pub(super) statuses: &'static [u16],
    pub(super) answer: Answer,
    /// Headers that each of these answers has.
    pub(super) headers: &'static [&'static str],
}

macro_rules! answers {
    ($($method:ident $path:literal: $statuses:expr, $answer:expr, $headers:expr;)*) => {
        /// What all addresses answer.
        const ANSWERS: &[Success] = &[$(Success {
            method: stringify!($method),
            path: $path,
            statuses: &$statuses,
            answer: $answer,
            headers: &$headers,
        }),*];
    };
}

const FILE: Answer = Answer::Bytes(&["application/octet-stream"]);
const TEXT: Answer = Answer::Bytes(&["text/plain"]);
const STREAM: Answer = Answer::Bytes(&["text/event-stream"]);
const OBJECT: Answer = Answer::Json(&["AzureObject"]);
const JOB: Answer = Answer::Json(&["JobObject"]);

answers! {
    get "/api/v1/jobs": [200], Answer::Json(&["JobsPage"]), [];
    post "/api/v1/jobs": [200, 201], Answer::Json(&["JobObject", "DryRun"]), [];
    post "/api/v1/job-paths": [200], Answer::Json(&["ToSend"]), [];
    post "/api/v1/kept-out": [200], Answer::Json(&["KeptOut"]), [];
    get "/api/v1/jobs/{job}": [200, 304], Answer::Json(&["JobObject", "SomeOfJob"]), ["ETag"];
    patch "/api/v1/jobs/{job}": [200], JOB, ["ETag"];
    delete "/api/v1/jobs/{job}": [202], Answer::Nothing, [];
    post "/api/v1/jobs/{job}/cancel": [200, 202], JOB, ["Location"];
    post "/api/v1/jobs/{job}/resume": [202], JOB, ["Location"];
    post "/api/v1/jobs/{job}/resubmit": [200, 201], JOB, ["Location"];
    get "/api/v1/jobs/{job}/spec": [200], Answer::JsonOr("Shown", "application/yaml"), [];
    get "/api/v1/jobs/{job}/code": [200], Answer::Json(&["CodeFiles"]), [];
    get "/api/v1/jobs/{job}/code.tar.gz": [200], Answer::Bytes(&["application/gzip"]), [];
    get "/api/v1/jobs/{job}/code/{path}": [200], TEXT, [];
    get "/api/v1/jobs/{job}/steps": [200], Answer::Json(&["PageOfStepObject"]), [];
    get "/api/v1/jobs/{job}/report.html": [200], Answer::Bytes(&["text/html"]), [];
    get "/api/v1/jobs/{job}/errors": [200], Answer::Json(&["ErrorsPage"]), [];
    get "/api/v1/jobs/{job}/errors/{group}": [200], Answer::Json(&["ErrorGroupRecord"]), [];
    get "/api/v1/jobs/{job}/errors/{group}/items": [200], Answer::JsonOr("LostPage", "text/plain"), [];
    get "/api/v1/jobs/{job}/failed-items": [200], Answer::JsonOr("LostPage", "text/plain"), [];
    get "/api/v1/jobs/{job}/statistics": [200, 304], Answer::Json(&["Statistics"]), ["ETag"];
    get "/api/v1/jobs/{job}/nodes": [200], Answer::Json(&["PageOfNodeRecord"]), [];
    get "/api/v1/jobs/{job}/nodes/{node_id}": [200], Answer::Json(&["NodeObject"]), [];
    get "/api/v1/jobs/{job}/perf": [200], Answer::Json(&["Hosts"]), [];
    get "/api/v1/jobs/{job}/mini-batches": [200], Answer::Json(&["TriesPage"]), [];
    get "/api/v1/jobs/{job}/mini-batches/{index}": [200], Answer::Json(&["MiniBatch"]), [];
    get "/api/v1/jobs/{job}/tries": [200], Answer::JsonOr("TriesPage", "text/csv"), [];
    get "/api/v1/jobs/{job}/events": [200], STREAM, [];
    get "/api/v1/jobs/{job}/logs": [200], Answer::Json(&["PageOfLogEntry"]), [];
    get "/api/v1/jobs/{job}/logs/{path}": [200, 206, 304], Answer::Bytes(&["text/plain", "application/octet-stream"]), ["ETag"];
    get "/api/v1/jobs/{job}/log-lines": [200], Answer::Json(&["Window"]), [];
    get "/api/v1/jobs/{job}/log-search": [200], Answer::Json(&["LogSearch"]), [];
    get "/api/v1/jobs/{job}/outputs": [200], Answer::Json(&["PageOfOutputFile"]), [];
    get "/api/v1/jobs/{job}/outputs/{path}": [200, 206, 304, 307], FILE, [];
    get "/api/v1/jobs/{job}/result": [200, 206, 304, 307], FILE, [];
    get "/api/v1/jobs/{job}/output-preview": [200], Answer::Json(&["Preview"]), [];
    get "/api/v1/jobs/{job}/logs.tar.gz": [200], Answer::Bytes(&["application/gzip"]), [];
    get "/api/v1/events": [200], STREAM, [];
    get "/api/v1/endpoints": [200], Answer::Json(&["PageOfEndpointInUse"]), [];
    get "/api/v1/endpoints/{endpoint}": [200, 304], Answer::Json(&["EndpointInUse"]), ["ETag"];
    put "/api/v1/endpoints/{endpoint}": [200, 201], Answer::Json(&["EndpointInUse"]), ["ETag"];
    patch "/api/v1/endpoints/{endpoint}": [200], Answer::Json(&["EndpointInUse"]), ["ETag"];
    delete "/api/v1/endpoints/{endpoint}": [202], Answer::Nothing, [];
    get "/api/v1/endpoints/{endpoint}/jobs": [200], Answer::Json(&["JobsPage"]), [];
    get "/api/v1/endpoints/{endpoint}/deployments/{deployment}/jobs": [200], Answer::Json(&["JobsPage"]), [];
    get "/api/v1/endpoints/{endpoint}/deployments": [200], Answer::Json(&["PageOfDeployment"]), [];
    get "/api/v1/endpoints/{endpoint}/deployments/{deployment}": [200, 304], Answer::Json(&["Deployment"]), ["ETag"];
    put "/api/v1/endpoints/{endpoint}/deployments/{deployment}": [200, 201], Answer::Json(&["Deployment"]), ["ETag", "Location"];
    patch "/api/v1/endpoints/{endpoint}/deployments/{deployment}": [200], Answer::Json(&["Deployment"]), ["ETag"];
    delete "/api/v1/endpoints/{endpoint}/deployments/{deployment}": [204], Answer::Nothing, [];
    post "/api/v1/endpoints/{endpoint}/invoke": [202], JOB, ["Location"];
    post "/endpoints/{endpoint}/jobs": [202], Answer::Json(&["AzureJob"]), ["Location"];
    get "/endpoints/{endpoint}/jobs": [200], Answer::Json(&["AzurePage"]), [];
    get "/endpoints/{endpoint}/jobs/{job}": [200], Answer::Json(&["AzureJob"]), [];
    post "/endpoints/{endpoint}/jobs/{job}/cancel": [202], Answer::Json(&["AzureJob"]), [];
    put "/batchEndpoints/{endpoint}": [200, 201], OBJECT, [];
    get "/batchEndpoints/{endpoint}": [200], OBJECT, [];
    delete "/batchEndpoints/{endpoint}": [200, 204], Answer::Nothing, [];
    put "/batchEndpoints/{endpoint}/deployments/{deployment}": [200, 201], OBJECT, [];
    get "/batchEndpoints/{endpoint}/deployments/{deployment}": [200], OBJECT, [];
    delete "/batchEndpoints/{endpoint}/deployments/{deployment}": [200, 204], Answer::Nothing, [];
    put "/{kind}/{name}/versions/{version}": [200, 201], OBJECT, [];
    get "/{kind}/{name}/versions/{version}": [200], OBJECT, [];
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}": [200, 201], OBJECT, [];
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}": [200], OBJECT, [];
    delete "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}": [200, 204], Answer::Nothing, [];
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}": [200, 201], OBJECT, [];
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}": [200], OBJECT, [];
    delete "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}": [200, 204], Answer::Nothing, [];
    put "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/{kind}/{name}/versions/{version}": [200, 201], OBJECT, [];
    get "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/{kind}/{name}/versions/{version}": [200], OBJECT, [];
    get "/azure/operations/{operation}": [200], Answer::Json(&["AzureOperation"]), [];
    post "/api/v1/uploads/missing": [200], Answer::Json(&["MissingBlobs"]), [];
    put "/api/v1/blobs/{sha256}": [200, 201], Answer::Nothing, [];
    get "/api/v1/blobs/{sha256}": [200, 206, 304], FILE, ["ETag"];
    get "/api/v1/registry/{kind}": [200], Answer::Json(&["PageOfRegisteredName"]), [];
    get "/api/v1/registry/{kind}/{name}": [200], Answer::Json(&["PageOfRegistered"]), [];
    get "/api/v1/registry/{kind}/{name}/versions": [200], Answer::Json(&["PageOfRegistered"]), [];
    post "/api/v1/registry/{kind}/{name}/versions": [200, 201], Answer::Json(&["Registered"]), ["ETag", "Location"];
    get "/api/v1/registry/{kind}/{name}/versions/{version}": [200, 304], Answer::Json(&["RegisteredAndUsed"]), ["ETag"];
    put "/api/v1/registry/{kind}/{name}/versions/{version}": [200, 201], Answer::Json(&["Registered"]), ["ETag", "Location"];
    patch "/api/v1/registry/{kind}/{name}/versions/{version}": [200], Answer::Json(&["Registered"]), ["ETag"];
    delete "/api/v1/registry/{kind}/{name}/versions/{version}": [204], Answer::Nothing, [];
    get "/api/v1/registry/{kind}/{name}/versions/{version}/files": [200], Answer::Json(&["PageOfOutputFile"]), [];
    get "/api/v1/registry/{kind}/{name}/versions/{version}/files/{path}": [200, 206, 304, 307], FILE, [];
    get "/api/v1/targets": [200], Answer::Json(&["PageOfTarget"]), [];
    get "/api/v1/targets/{target}": [200, 304], Answer::Json(&["Target"]), ["ETag"];
    get "/api/v1/workers": [200], Answer::Json(&["PageOfWorkerView"]), [];
    post "/api/v1/workers/{worker}/drain": [202], Answer::Json(&["Draining"]), [];
    get "/api/v1/servers": [200], Answer::Json(&["PageOfServerView"]), [];
    get "/metrics": [200], Answer::Bytes(&["application/openmetrics-text"]), [];
    get "/api/v1/tokens": [200], Answer::Json(&["PageOfToken"]), [];
    post "/api/v1/tokens": [201], Answer::Json(&["CreatedToken"]), ["Location"];
    delete "/api/v1/tokens/{token}": [204], Answer::Nothing, [];
    get "/api/v1/audit": [200], Answer::Json(&["PageOfAuditLine"]), [];
    get "/api/v1/whoami": [200], Answer::Json(&["Principal"]), [];
    get "/api/v1/version": [200], Answer::Json(&["Version"]), [];
    get "/livez": [200], TEXT, [];
    get "/readyz": [200], Answer::Json(&["Readiness"]), [];
    get "/openapi.json": [200], Answer::Json(&["OpenApi"]), [];
}

/// What addresses take in their bodies.
const TAKES: &[(&str, &str, Takes)] = &[
    ("post", "/api/v1/jobs", Takes::JsonOrForm("NewJob")),
    ("post", "/api/v1/job-paths", Takes::Json("PackedJob")),
    ("post", "/api/v1/kept-out", Takes::Json("CodePaths")),
    ("patch", "/api/v1/jobs/{job}", Takes::Json("JobWords")),
    ("post", "/api/v1/jobs/{job}/cancel", Takes::JsonOrNothing("Cancel")),
    ("post", "/api/v1/jobs/{job}/resume", Takes::JsonOrForm("ChangedJob")),
    ("post", "/api/v1/jobs/{job}/resubmit", Takes::JsonOrForm("ChangedJob")),
    ("put", "/api/v1/endpoints/{endpoint}", Takes::Json("EndpointWords")),
    ("patch", "/api/v1/endpoints/{endpoint}", Takes::Json("EndpointWords")),
    ("put", "/api/v1/endpoints/{endpoint}/deployments/{deployment}", Takes::File),
    ("patch", "/api/v1/endpoints/{endpoint}/deployments/{deployment}", Takes::Keys),
    ("post", "/api/v1/endpoints/{endpoint}/invoke", Takes::Json("EndpointCall")),
    ("post", "/endpoints/{endpoint}/jobs", Takes::Keys),
    ("put", "/batchEndpoints/{endpoint}", Takes::Keys),
    ("put", "/batchEndpoints/{endpoint}/deployments/{deployment}", Takes::Keys),
    ("put", "/{kind}/{name}/versions/{version}", Takes::Keys),
    (
        "put",
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}",
        Takes::Keys,
    ),
    (
        "put",
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/batchEndpoints/{endpoint}/deployments/{deployment}",
        Takes::Keys,
    ),
    (
        "put",
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.MachineLearningServices/workspaces/{workspace}/{kind}/{name}/versions/{version}",
        Takes::Keys,
    ),
    ("post", "/api/v1/uploads/missing", Takes::Json("OwnBlobs")),
    ("put", "/api/v1/blobs/{sha256}", Takes::Bytes),
    ("post", "/api/v1/registry/{kind}/{name}/versions", Takes::File),
    ("put", "/api/v1/registry/{kind}/{name}/versions/{version}", Takes::File),
    ("patch", "/api/v1/registry/{kind}/{name}/versions/{version}", Takes::Keys),
    ("post", "/api/v1/workers/{worker}/drain", Takes::JsonOrNothing("Drain")),
    ("post", "/api/v1/tokens", Takes::Json("NewToken")),
];

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// What an address answers when it succeeds; nothing of one that is not listed.
pub(super) fn success(method: &str, path: &str) -> Option<&'static Success> {
    ANSWERS.iter().find(|one| one.method == method && one.path == path)
}

impl Success {
    /// The answer of a status, as `OpenAPI` has it.
    pub(super) fn content(&self, status: u16) -> Value {
        if [304, 307].contains(&status) {
            return Value::Null;
        }
        let of_type = |name: &&str| ((*name).to_owned(), json!({}));
        match self.answer {
            Answer::Nothing => Value::Null,
            Answer::Json([name]) => json!({ "application/json": { "schema": reference(name) } }),
            Answer::Json(names) => {
                let any: Vec<Value> = names.iter().map(|name| reference(name)).collect();
                json!({ "application/json": { "schema": { "anyOf": any } } })
            }
            Answer::JsonOr(name, other) => {
                json!({ "application/json": { "schema": reference(name) }, other: {} })
            }
            Answer::Bytes(types) => types.iter().map(of_type).collect::<Map<_, _>>().into(),
        }
    }
}

/// What an address takes in its body, as `OpenAPI` has it; nothing where that is none.
pub(super) fn takes(method: &str, path: &str) -> Option<Value> {
    let (.., takes) = TAKES.iter().find(|(each, at, _)| *each == method && *at == path)?;
    let object = json!({ "schema": { "type": "object" } });
    let of_json = |name: &str| json!({ "schema": reference(name) });
    Some(match takes {
        Takes::Json(name) => json!({ "required": true, "content": { "application/json": of_json(name) } }),
        Takes::JsonOrNothing(name) => json!({ "content": { "application/json": of_json(name) } }),
        Takes::Keys => json!({ "required": true, "content": { "application/json": object } }),
        Takes::File => json!({ "required": true, "content": {
            "application/json": object, "application/yaml": object, "multipart/form-data": object,
        } }),
        Takes::JsonOrForm(name) => json!({ "required": true, "content": {
            "application/json": of_json(name), "multipart/form-data": object,
        } }),
        Takes::Bytes => json!({ "required": true, "content": {
            "application/octet-stream": { "schema": { "type": "string", "format": "binary" } },
        } }),
    })
}

/// The schemas that answers and bodies refer to, by their names.
pub(super) fn schemas() -> Map<String, Value> {
    let all = serde_json::from_str(include_str!("schemas.json"));
    all.expect("a test has written and read it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use prs_jobs::audit::AuditLine;
    use prs_jobs::intake::DryRun;
    use prs_jobs::preview::Preview;
    use prs_jobs::records::{
        AzureJob, CreatedToken, Deployment, ErrorGroupRecord, LogEntry, Registered, RegisteredName, Shown,
        Token, Versioned,
    };
    use prs_jobs::servers::ServerView;
    use prs_jobs::statistics::NodeRecord;
    use schemars::JsonSchema;
    use schemars::generate::{SchemaGenerator, SchemaSettings};

    use super::*;
    use crate::api::ROUTES;
    use crate::api::job_object::JobObject;
    use crate::api::jobs::{Cancel, JobsPage, Page};
    use crate::api::{
        azure, change, code, endpoints, errors, fleet, logs, management, mini_batches, outputs, packing,
        received, registry, service, statistics, steps, tokens, uploads,
    };
    use crate::auth::Principal;

    const FILE: &str = "src/api/schemas.json";

    /// A job with what is told of its age.
    #[derive(JsonSchema)]
    #[schemars(rename = "JobObject")]
    #[expect(dead_code, reason = "its form counts")]
    struct WholeJob {
        #[serde(flatten)]
        job: JobObject,
        /// When what is said here was so.
        #[schemars(extend("format" = "date-time"))]
        as_of: String,
        /// How long ago that is; 0 once the job has ended.
        stale_seconds: f64,
    }

    /// The `OpenAPI` document.
    #[derive(JsonSchema)]
    #[schemars(rename = "OpenApi")]
    #[expect(dead_code, reason = "its form counts")]
    struct OpenApi {
        openapi: String,
        info: Map<String, Value>,
        paths: Map<String, Value>,
        components: Map<String, Value>,
    }

    fn generator() -> SchemaGenerator {
        let settings = SchemaSettings::draft2020_12();
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
    }

    macro_rules! add {
        ($generator:ident: $($of:ty),* $(,)?) => { $($generator.subschema_for::<$of>();)* };
    }

    /// What the types say.
    fn generated() -> Map<String, Value> {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut answers = settings
            .with(|settings| settings.definitions_path = "/components/schemas".into())
            .into_generator();
        add!(answers: JobsPage<'_>, WholeJob, Page<steps::StepObject>, DryRun, packing::ToSend, packing::KeptOut, Versioned<Shown>, code::Files,
            Versioned<errors::ErrorsPage>, Versioned<ErrorGroupRecord>, Versioned<errors::LostPage>, statistics::Statistics, Page<NodeRecord>,
            statistics::Hosts, statistics::NodeObject, mini_batches::TriesPage, mini_batches::MiniBatch, Page<LogEntry>, logs::Window, logs::LogSearch,
            Page<outputs::OutputFile>, Versioned<Preview>, Page<endpoints::Shown>, Page<Versioned<Deployment>>, AzureJob,
            azure::AzurePage, management::AzureObject, management::AzureOperation, uploads::MissingBlobs, Page<RegisteredName>, Page<Versioned<Registered>>, registry::WithUses,
            Page<fleet::Target>, Page<prs_jobs::fleet::WorkerView>, Page<ServerView>, fleet::Draining, Page<Token>, CreatedToken, Page<AuditLine>,
            Principal, service::About, service::Readiness, OpenApi);
        let mut bodies = generator();
        add!(bodies: received::Body, received::Changed, packing::Asked, packing::Found, change::Body, Cancel, endpoints::Body,
            endpoints::CallBody, uploads::Asked, fleet::Drain, tokens::Wanted);
        let mut all = answers.take_definitions(true);
        for (name, schema) in bodies.take_definitions(true) {
            let there = all.insert(name.clone(), schema.clone());
            assert!(there.is_none_or(|there| there == schema), "{name} is answered and taken, in two forms");
        }
        for schema in all.values_mut() {
            tidy(schema);
        }
        // Parts that were not asked for are left out.
        all["Statistics"]["required"] = json!(["as_of", "incarnation"]);
        let mut some = all["JobObject"].clone();
        let of_job = some.as_object_mut().unwrap();
        let keys = of_job.remove("required").unwrap().as_array().unwrap().len();
        of_job.insert("description".to_owned(), json!("The keys of a job that fields names."));
        of_job.insert("maxProperties".to_owned(), json!(keys - 1));
        all.insert("SomeOfJob".to_owned(), some);
        all
    }

    /// Takes away what says nothing: keys that are required twice, and formats of numbers that `OpenAPI` does not know.
    fn tidy(schema: &mut Value) {
        match schema {
            Value::Object(keys) => {
                if let Some(Value::Array(required)) = keys.get_mut("required") {
                    let names: BTreeSet<String> =
                        required.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
                    *required = names.into_iter().map(Value::String).collect();
                }
                if keys.get("format").and_then(Value::as_str).is_some_and(|name| name != "date-time") {
                    keys.remove("format");
                }
                keys.values_mut().for_each(tidy);
            }
            Value::Array(items) => items.iter_mut().for_each(tidy),
            _ => {}
        }
    }

    #[test]
    fn the_schemas_are_those_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
        let text = serde_json::to_string_pretty(&generated()).unwrap() + "\n";
        if std::env::var_os("PRS_WRITE_SCHEMAS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == text,
            "server/{FILE} is not what the types say: run this test with PRS_WRITE_SCHEMAS=1, and tell what it changes in CHANGELOG.md"
        );
    }

    /// An answer with JSON in it has a schema, and the schema is there; so has a body.
    #[test]
    fn each_address_says_what_it_answers_and_takes() {
        let schemas = schemas();
        let is_there = |name: &str| assert!(schemas.contains_key(name), "{name}");
        for route in ROUTES {
            let success = success(route.method, route.path);
            let success = success.unwrap_or_else(|| panic!("{} {}", route.method, route.path));
            assert!(success.statuses.iter().all(|status| (200..400).contains(status)));
            match success.answer {
                Answer::Json(names) => names.iter().for_each(|name| is_there(name)),
                Answer::JsonOr(name, _) => is_there(name),
                Answer::Bytes(types) => assert!(types.iter().all(|name| !name.contains("json"))),
                Answer::Nothing => {}
            }
        }
        let known = |method: &str, path: &str| {
            assert!(
                ROUTES.iter().any(|route| route.method == method && route.path == path),
                "{method} {path}"
            );
        };
        for one in ANSWERS {
            known(one.method, one.path);
        }
        for (method, path, takes) in TAKES {
            known(method, path);
            if let Takes::Json(name) | Takes::JsonOrNothing(name) | Takes::JsonOrForm(name) = takes {
                is_there(name);
            }
        }
        let document = json!({ "components": { "schemas": schemas } });
        let text = document.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    /// What commands print is answered in the same words.
    #[test]
    fn records_are_those_that_commands_print() {
        let schemas = schemas();
        for (name, file) in [
            ("Shown", include_str!("../../../docs/schema/shown.json")),
            ("EndpointInUse", include_str!("../../../docs/schema/endpoint.json")),
            ("Deployment", include_str!("../../../docs/schema/deployment.json")),
            ("JobObject", include_str!("../../../docs/schema/job.json")),
        ] {
            let printed: Value = serde_json::from_str(file).unwrap();
            let keys = |of: &Value| of["properties"].as_object().unwrap().keys().cloned().collect();
            let (answered, printed): (BTreeSet<String>, BTreeSet<String>) =
                (keys(&schemas[name]), keys(&printed));
            assert!(answered.is_superset(&printed), "{name}: {:?}", printed.difference(&answered));
        }
    }
}
