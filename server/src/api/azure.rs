//! Azure's REST for batch endpoints (dialects C.8): a caller changes the address and the credentials, and nothing else.
//!
//! Words and shapes are translated here; what is done is that of `endpoints`.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::header::{ACCEPT, HeaderName, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use jiff::{Span, SpanTotal, Unit};
use prs_common::hexadecimal;
use prs_common::job::{Called, Invocation};
use prs_jobs::homes::Seen;
use prs_jobs::intake::Call;
use prs_jobs::list::{Wanted, list as list_jobs};
use prs_jobs::records::AzureJob;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::endpoints::{call_once, may_call, problem, text_of};
use super::jobs::begin_to_cancel;
use super::once::key_in;
use super::received::too_large;
use super::submit::Key;
use crate::app::App;
use crate::auth::{Known, Principal, Role};
use crate::http::json::read;
use crate::http::params::Params;
use crate::http::rates::Sizes;
use crate::problem::{Kind, Problem};

/// The header that names a deployment.
const DEPLOYMENT: HeaderName = HeaderName::from_static("azureml-model-deployment");
/// What the addresses of Azure's REST begin with.
const BEGINNINGS: [&str; 10] = [
    "/endpoints/",
    "/batchEndpoints/",
    "/subscriptions/",
    "/azure/",
    "/models/",
    "/data/",
    "/datasets/",
    "/environments/",
    "/codes/",
    "/components/",
];
/// Jobs of a page.
const PAGE: usize = 50;
/// What Azure calls settings of one call, and what they are called here.
const SETTINGS: [(&str, &str); 6] = [
    ("miniBatchSize", "mini_batch_size"),
    ("maxConcurrencyPerInstance", "max_concurrency_per_instance"),
    ("errorThreshold", "error_threshold"),
    ("loggingLevel", "logging_level"),
    ("outputFileName", "output_file_name"),
    ("experimentName", "experiment_name"),
];

/// Whether an address, or its path in the list of all, is one of Azure's REST.
pub(crate) fn is_of_azure(path: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| path.starts_with(beginning)) || path.starts_with("/{kind}/")
}

/// `POST /endpoints/{endpoint}/jobs`.
pub(crate) async fn call(
    Known(who): Known,
    State(app): State<App>,
    Path(endpoint): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    may_call(&who, &endpoint)?;
    let headers = request.headers().clone();
    let deployment = headers.get(DEPLOYMENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = body_of(request).await?;
    let bad = |why: String| Problem::new(Kind::BAD_REQUEST, why);
    let fingerprint = hexadecimal(&Sha256::digest(format!("{body}{deployment:?}")));
    let read = translate(&body).map_err(bad)?;
    let (given, name) = (key_in(&headers)?, read.invocation.job_name.clone());
    // Who names the job and asks again gets the same one.
    let named = name.filter(|_| given.is_none());
    let key = Key::OfProgram(given.or_else(|| named.as_ref().map(|name| format!("job {name}"))));
    let call = Call { endpoint: endpoint.clone(), deployment, ..read };
    let called = call_once(&app, who, key, fingerprint, (call, None)).await;
    let (job_id, _) = called.map_err(|problem| match &named {
        Some(name) if problem.kind == Kind::KEY_REUSED => Problem::new(
            Kind::NAME_TAKEN,
            format_args!(
                "There is a job {name:?} already, of another call: choose another name, or leave it out."
            ),
        ),
        _ => problem,
    })?;
    let (_, seen) = app.seen(&job_id).await?;
    let at = format!("{}/endpoints/{endpoint}/jobs/{job_id}", app.url);
    Ok((StatusCode::ACCEPTED, [(LOCATION, at)], Json(shown(&app, &seen))).into_response())
}

/// The JSON that a request has as its body, whatever its type; commas may stand where Azure takes them.
pub(super) async fn body_of(request: Request) -> Result<Value, Problem> {
    let most = Sizes::of(request.extensions()).json;
    let body = to_bytes(request.into_body(), most).await.map_err(|_| too_large(most))?;
    let bad = |why: String| Problem::new(Kind::BAD_REQUEST, why);
    let text = std::str::from_utf8(&body).map_err(|_| bad("The body is not UTF-8 text.".to_owned()))?;
    read(without_trailing_commas(text).as_bytes())
        .map_err(|why| bad(format!("The body is not JSON that the address takes: {why}.")))
}

/// Jobs of an endpoint as Azure's REST has them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AzurePage {
    /// The jobs, the newest first.
    value: Vec<AzureJob>,
    /// The address of the next page; left out where there is none.
    #[serde(rename = "nextLink", skip_serializing_if = "Option::is_none")]
    next_link: Option<String>,
}

fn shown(app: &App, seen: &Seen) -> AzureJob {
    let portal = format!("{}/jobs/{}", app.url, seen.result.job_id);
    AzureJob::seen(seen, Some(&portal))
}

/// `GET /endpoints/{endpoint}/jobs`.
pub(crate) async fn jobs(
    Known(who): Known,
    State(app): State<App>,
    Path(endpoint): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    if is_browser(&headers) {
        return Ok(Redirect::to(&format!("/jobs?endpoint={endpoint}")).into_response());
    }
    may_look(&who, &endpoint)?;
    let number = |name: &str| params.number(name, (0, u64::from(u32::MAX)));
    let (top, skip) = (number("$top")?.unwrap_or(PAGE as u64), number("$skipToken")?.unwrap_or(0));
    let wanted = Wanted { endpoint: Some(endpoint.clone()), ..Wanted::default() };
    let found = Box::pin(list_jobs(&wanted, &app.whereabouts)).await.map_err(|failure| problem(&failure))?;
    let own: Vec<&Seen> = found.jobs.iter().filter(|seen| is_of(&who, seen, &endpoint)).collect();
    let (skip, top) = (skip as usize, (top as usize).clamp(1, 500));
    let value: Vec<AzureJob> = own.iter().skip(skip).take(top).map(|seen| shown(&app, seen)).collect();
    let next = skip + top;
    let next_link = (own.len() > next)
        .then(|| format!("{}/endpoints/{endpoint}/jobs?$top={top}&$skipToken={next}", app.url));
    Ok(Json(AzurePage { value, next_link }).into_response())
}

/// `GET /endpoints/{endpoint}/jobs/{job}`.
pub(crate) async fn job(
    Known(who): Known,
    State(app): State<App>,
    Path((endpoint, job)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if is_browser(&headers) {
        return Ok(Redirect::to(&format!("/jobs/{job}")).into_response());
    }
    let seen = own(&app, &who, &endpoint, &job).await?;
    Ok(Json(shown(&app, &seen)).into_response())
}

/// `POST /endpoints/{endpoint}/jobs/{job}/cancel`.
pub(crate) async fn cancel(
    Known(who): Known,
    State(app): State<App>,
    Path((endpoint, job)): Path<(String, String)>,
) -> Result<Response, Problem> {
    may_call(&who, &endpoint)?;
    own(&app, &who, &endpoint, &job).await?;
    begin_to_cancel(&app, &job, &who.name, "").await?;
    let (_, seen) = app.seen(&job).await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&app, &seen))).into_response())
}

/// The job of this endpoint, which `who` may see.
async fn own(app: &App, who: &Principal, endpoint: &str, job: &str) -> Result<Seen, Problem> {
    may_look(who, endpoint)?;
    let (_, seen) = app.seen(job).await?;
    if is_of(who, &seen, endpoint) {
        return Ok(seen);
    }
    Err(Problem::new(Kind::JOB_NOT_FOUND, format_args!("Endpoint {endpoint} has no job {job:?}.")))
}

/// Refuses who may see no job of this endpoint.
fn may_look(who: &Principal, endpoint: &str) -> Result<(), Problem> {
    if who.role.allows(Role::Read) { Ok(()) } else { may_call(who, endpoint) }
}

/// Whether the job is a call of this endpoint that `who` may see: a token of the role invoke sees its own.
fn is_of(who: &Principal, seen: &Seen, endpoint: &str) -> bool {
    seen.record.spec.deployed.as_ref().is_some_and(|deployed| {
        let is_own = || deployed.called_by.as_deref() == Some(who.id());
        deployed.endpoint.eq_ignore_ascii_case(endpoint) && (who.role.allows(Role::Read) || is_own())
    })
}

fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.contains("text/html")
}

/// The same text without commas before `}` and `]`, which Azure takes.
fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut in_text, mut is_escaped) = (false, false);
    for (at, letter) in text.char_indices() {
        if in_text {
            in_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
        } else if letter == '"' {
            in_text = true;
        } else if letter == ',' && text[at + 1..].trim_start().starts_with(['}', ']']) {
            continue;
        }
        kept.push(letter);
    }
    kept
}

/// The value of `key`, whose first letter may be a capital.
pub(super) fn field<'a>(of: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let same = |known: &str| {
        let (first, rest) = (known.chars().next(), known.chars().skip(1));
        first.is_some_and(|first| first.to_ascii_lowercase() == key.chars().next().unwrap_or_default())
            && rest.eq(key.chars().skip(1))
    };
    of.iter().find(|(known, value)| same(known) && !value.is_null()).map(|(_, value)| value)
}

pub(super) fn text(of: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    let Some(value) = field(of, key) else { return Ok(None) };
    text_of(value).map(Some).ok_or_else(|| format!("{key} is neither a text nor a number."))
}

pub(super) fn object<'a>(
    of: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, String> {
    match field(of, key) {
        None => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(_) => Err(format!("{key} is no object.")),
    }
}

/// What a body of Azure says, as a call.
fn translate(body: &Value) -> Result<Call, String> {
    let empty = Map::new();
    let body = body.as_object().ok_or("The body is no JSON object.")?;
    let properties = object(body, "properties")?.unwrap_or(&empty);
    let mut set: Vec<(String, String)> = Vec::new();
    for (name, input) in object(properties, "inputData")?.unwrap_or(&empty) {
        input_of(name, input, &mut set)?;
    }
    for (name, output) in object(properties, "outputData")?.unwrap_or(&empty) {
        let output = output.as_object().ok_or_else(|| format!("OutputData.{name} is no object."))?;
        let kind = text(output, "jobOutputType")?.map(|kind| kind_of(&kind)).transpose()?;
        let place = format!("outputs.{}", plain(name));
        set.extend(kind.map(|kind| (format!("{place}.type"), kind.to_owned())));
        set.extend(text(output, "uri")?.map(|uri| (format!("{place}.path"), uri)));
    }
    if let Some(dataset) = object(properties, "dataset")? {
        set.push(("inputs.input.path".to_owned(), dataset_of(dataset)?));
    }
    if let Some(output) = object(properties, "outputDataset")? {
        set.push(("output_dataset.path".to_owned(), output_dataset_of(output)?));
    }
    let inner = object(properties, "properties")?.unwrap_or(&empty);
    for (key, own) in SETTINGS {
        let value = text(properties, key)?.or(text(inner, key)?);
        set.extend(value.map(|value| (own.to_owned(), value)));
    }
    for key in ["compute", "resources"] {
        let count = object(properties, key)?.map(|of| text(of, "instanceCount")).transpose()?.flatten();
        set.extend(count.map(|count| ("resources.instance_count".to_owned(), count)));
    }
    if let Some(retries) = object(properties, "retrySettings")? {
        let most = text(retries, "maxRetries")?;
        set.extend(most.map(|most| ("retry_settings.max_retries".to_owned(), most)));
        let timeout = text(retries, "timeout")?.map(|timeout| seconds(&timeout)).transpose()?;
        set.extend(timeout.map(|timeout| ("retry_settings.timeout".to_owned(), timeout)));
    }
    let tags = object(properties, "tags")?.unwrap_or(&empty);
    let tags: BTreeMap<String, String> =
        tags.iter().filter_map(|(key, value)| Some((key.clone(), text_of(value)?))).collect();
    let invocation = Invocation { job_name: text(properties, "name")?, ..Invocation::default() };
    let called = Called { display_name: text(properties, "displayName")?, tags, ..Called::default() };
    Ok(Call { set, invocation, called, ..Call::default() })
}

fn input_of(name: &str, input: &Value, set: &mut Vec<(String, String)>) -> Result<(), String> {
    let input = input.as_object().ok_or_else(|| format!("InputData.{name} is no object."))?;
    let place = format!("inputs.{}", plain(name));
    let kind =
        text(input, "jobInputType")?.ok_or_else(|| format!("InputData.{name} has no JobInputType."))?;
    if kind.eq_ignore_ascii_case("literal") {
        let value = text(input, "value")?.ok_or_else(|| format!("InputData.{name} has no Value."))?;
        set.push((place, value));
        return Ok(());
    }
    let uri = text(input, "uri")?.ok_or_else(|| format!("InputData.{name} has no Uri."))?;
    set.push((format!("{place}.type"), kind_of(&kind)?.to_owned()));
    set.push((format!("{place}.path"), uri));
    Ok(())
}

/// A type of Azure's REST as a file has it.
fn kind_of(kind: &str) -> Result<&'static str, String> {
    let known = [
        ("UriFolder", "uri_folder"),
        ("UriFile", "uri_file"),
        ("MLTable", "mltable"),
        ("CustomModel", "custom_model"),
        ("MLFlowModel", "mlflow_model"),
        ("TritonModel", "triton_model"),
    ];
    let plain = kind.replace('_', "");
    let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(&plain));
    found.map(|(_, own)| *own).ok_or_else(|| {
        format!("{kind:?} is no type: give {} or Literal.", known.map(|(word, _)| word).join(", "))
    })
}

/// Where the output of an older body goes: its path in the datastore, where it names one.
fn output_dataset_of(output: &Map<String, Value>) -> Result<String, String> {
    let path = text(output, "path")?.ok_or("outputDataset has no path.")?;
    let Some(datastore) = text(output, "datastoreId")? else { return Ok(path) };
    if path.contains("://") {
        return Err("outputDataset has a datastoreId, and a path that is a URL: keep one of them.".to_owned());
    }
    // The id of a resource ends in the name; a file writes `azureml:NAME`.
    let name = datastore.rsplit('/').next().unwrap_or_default().trim_start_matches("azureml:");
    Ok(format!("azureml://datastores/{name}/paths/{}", path.trim_start_matches('/')))
}

/// Where the data of an older body is.
fn dataset_of(dataset: &Map<String, Value>) -> Result<String, String> {
    let kind = text(dataset, "dataInputType")?.unwrap_or_default().to_ascii_lowercase();
    let required = |key: &str| text(dataset, key)?.ok_or_else(|| format!("dataset has no {key}."));
    match kind.as_str() {
        "dataurl" => required("path"),
        "datasetversion" => {
            let version = text(dataset, "datasetVersion")?;
            let which = version.map_or("@latest".to_owned(), |version| format!(":{version}"));
            Ok(format!("azureml:{}{which}", required("datasetName")?))
        }
        "datasetid" => required("datasetId"),
        other => Err(format!(
            "dataInputType {other:?} is not known: give DataUrl, DatasetVersion or DatasetId, or InputData in place of dataset."
        )),
    }
}

/// A name of an input that may stand in a key; of a model the name says nothing.
fn plain(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    name.chars().map(plain).collect()
}

/// Seconds of `PT30S`, or of a number.
pub(super) fn seconds(text: &str) -> Result<String, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    let total =
        text.parse::<Span>().and_then(|span| span.total(SpanTotal::from(Unit::Second).days_are_24_hours()));
    match total {
        Ok(seconds) if seconds >= 1.0 => Ok(format!("{}", seconds.ceil() as u64)),
        _ => Err(format!("timeout {text:?} is no time: give seconds, or PT30S.")),
    }
}

/// A problem as Azure's REST has it.
pub(crate) fn document(problem: &Problem) -> Value {
    let code = if problem.kind.status < 500 { "UserError" } else { "ServiceError" };
    let details: Vec<Value> = problem
        .errors
        .iter()
        .map(|one| json!({ "code": code, "target": one.key, "message": one.detail }))
        .collect();
    json!({ "error": { "code": code, "message": problem.detail, "details": details } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(body: &str) -> Vec<(String, String)> {
        let body = serde_json::from_str(&without_trailing_commas(body)).unwrap();
        translate(&body).unwrap().set
    }

    #[test]
    fn bodies_of_the_public_samples_are_understood() {
        let table: [(&str, &[(&str, &str)]); 7] = [
            (
                r#"{"properties": {"InputData": {"any": {"JobInputType": "UriFolder", "Uri": "s3://b/p", "mode": "ReadOnlyMount"}},
                    "OutputData": {"score": {"JobOutputType": "UriFile", "Uri": "s3://b/out/p.csv"}}, "miniBatchSize": 5}}"#,
                &[
                    ("inputs.any.type", "uri_folder"),
                    ("inputs.any.path", "s3://b/p"),
                    ("outputs.score.type", "uri_file"),
                    ("outputs.score.path", "s3://b/out/p.csv"),
                    ("mini_batch_size", "5"),
                ],
            ),
            (
                r#"{"properties": {"dataset": {"dataInputType": "DataUrl", "Path": "https://h/f",},
                    "outputDataset": {"datastoreId": "x", "path": "out"}, "errorThreshold": "10", "maxConcurrencyPerInstance": "4",},}"#,
                &[
                    ("inputs.input.path", "https://h/f"),
                    ("output_dataset.path", "azureml://datastores/x/paths/out"),
                    ("max_concurrency_per_instance", "4"),
                    ("error_threshold", "10"),
                ],
            ),
            (
                r#"{"properties": {"dataset": {"dataInputType": "DatasetVersion", "datasetName": "hearts", "datasetVersion": 1},
                    "retrySettings": {"maxRetries": 2, "timeout": "PT1M30S"}, "compute": {"instanceCount": "3"}}}"#,
                &[
                    ("inputs.input.path", "azureml:hearts:1"),
                    ("resources.instance_count", "3"),
                    ("retry_settings.max_retries", "2"),
                    ("retry_settings.timeout", "90"),
                ],
            ),
            (
                r#"{"properties": {"inputData": {"score_mode": {"jobInputType": "Literal", "value": "append"}},
                    "properties": {"experimentName": "x"}}}"#,
                &[("inputs.score_mode", "append"), ("experiment_name", "x")],
            ),
            (
                r#"{"properties": {"outputDataset": {"datastoreId": "/subscriptions/0/workspaces/w/datastores/blob", "path": "/a/b"}}}"#,
                &[("output_dataset.path", "azureml://datastores/blob/paths/a/b")],
            ),
            (
                r#"{"properties": {"outputDataset": {"path": "s3://bucket/out"}}}"#,
                &[("output_dataset.path", "s3://bucket/out")],
            ),
            ("{}", &[]),
        ];
        for (body, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(pairs(body), expected, "{body}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (body, expected) in [
            ("[]", "no JSON object"),
            (r#"{"properties": 7}"#, "properties is no object"),
            (r#"{"properties": {"InputData": {"a": {"Uri": "x"}}}}"#, "has no JobInputType"),
            (r#"{"properties": {"InputData": {"a": {"JobInputType": "Folder", "Uri": "x"}}}}"#, "is no type"),
            (r#"{"properties": {"retrySettings": {"timeout": "soon"}}}"#, "is no time"),
            (r#"{"properties": {"dataset": {"dataInputType": "Other"}}}"#, "is not known"),
            (r#"{"properties": {"outputDataset": {"datastoreId": "x", "path": "s3://b/c"}}}"#, "keep one"),
        ] {
            let error = translate(&serde_json::from_str(body).unwrap()).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }

    #[test]
    fn commas_within_texts_stay() {
        let text = r#"{"a": "x,}", "b": ["\",]", 1, ], }"#;
        assert_eq!(without_trailing_commas(text), r#"{"a": "x,}", "b": ["\",]", 1 ] }"#);
    }
}
