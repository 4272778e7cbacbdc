//! Bodies of requests that hand something in: JSON, and forms with files. Files go to a folder of the request as they come.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use axum::body::{Bytes, to_bytes};
use axum::extract::multipart::Field;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use prs_common::hexadecimal;
use prs_common::job::Called;
use prs_common::storage::is_valid_key;
use prs_common::tree;
use prs_jobs::intake::{Staging, Submission};
use prs_jobs::{Failure, OutputExists};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use super::uploads::{self, SentRef};
use crate::app::App;
use crate::http::json;
use crate::http::rates::Sizes;
use crate::problem::{ErrorAt, Kind, Problem};

pub(crate) const FORM_TYPE: &str = "multipart/form-data";

/// How a job file came, for what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the text `yaml` in JSON.
    Yaml,
    /// As the keys of `spec` in JSON.
    Spec,
    /// As a field of a form.
    Part,
    /// As the body itself, in JSON.
    Whole,
    /// As the keys of a change, in JSON.
    Change,
    /// As a text that is no JSON.
    Text,
}

/// A job as it was sent.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) submission: Submission,
    pub(crate) form: Form,
    /// What tells it from other requests.
    pub(crate) fingerprint: String,
    /// The key that a page had in its form.
    pub(crate) key: Option<String>,
    /// Whether nothing is to be kept.
    pub(crate) is_dry: bool,
}

/// A job as JSON.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "NewJob"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Body {
    yaml: Option<String>,
    spec: Option<Map<String, Value>>,
    set: Map<String, Value>,
    /// Where the job file would stand in the code; the top without it.
    job_folder: String,
    code: Option<SentRef>,
    inputs: BTreeMap<String, SentRef>,
    side_inputs: BTreeMap<String, SentRef>,
    name: Option<String>,
    display_name: Option<String>,
    tags: BTreeMap<String, String>,
}

/// The code that a job goes on with.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChosenCode"))]
#[serde(untagged)]
enum Code {
    /// In words.
    Word(String),
    /// What was sent before.
    Archive(SentRef),
}

/// A change of a former job as JSON.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChangedJob"))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Changed {
    /// `same`: with the job's own code; or an archive that was sent before.
    code: Option<Code>,
    /// The error group whose mini-batches alone run again.
    only_group: Option<String>,
    inputs: BTreeMap<String, SentRef>,
    set: Map<String, Value>,
    name: Option<String>,
    display_name: Option<String>,
    tags: BTreeMap<String, String>,
}

/// What is to become of a former job.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) set: Vec<(String, String)>,
    pub(crate) called: Called,
    /// The error group whose mini-batches alone run again.
    pub(crate) only_group: Option<String>,
    /// Code and inputs that came along.
    pub(crate) staging: Option<Staging>,
    pub(crate) fingerprint: String,
    pub(crate) key: Option<String>,
}

pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim()
}

/// Refuses bodies that are packed: they might swell.
pub(crate) fn check_plain(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(CONTENT_ENCODING) {
        None => Ok(()),
        Some(_) => {
            Err(Problem::new(Kind::WRONG_MEDIA_TYPE, "The body has a Content-Encoding: send it as it is."))
        }
    }
}

pub(crate) fn wrong_type(takes: &str) -> Problem {
    Problem::new(Kind::WRONG_MEDIA_TYPE, format_args!("The address takes {takes}."))
}

pub(crate) fn too_large(most: usize) -> Problem {
    Problem::new(Kind::TOO_LARGE, format_args!("The body is larger than {most} bytes."))
}

/// The JSON that a request has as its body, and its bytes.
pub(crate) async fn json<T: DeserializeOwned>(request: Request) -> Result<(T, Vec<u8>), Problem> {
    check_plain(request.headers())?;
    if !media_type(request.headers()).eq_ignore_ascii_case("application/json") {
        return Err(wrong_type("application/json"));
    }
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let most = Sizes::of(request.extensions()).json;
    if length.is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let body = to_bytes(request.into_body(), most).await.map_err(|_| too_large(most))?;
    let wrong = |why: &dyn Display| {
        Problem::new(
            Kind::BAD_REQUEST,
            format_args!("The body is not the JSON that the address takes: {why}."),
        )
    };
    let value = json::read(&body).map_err(|why| wrong(&why))?;
    // A list without elements would be read as an object without keys.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(wrong(&"it is no object"));
    }
    Ok((value, body.to_vec()))
}

/// The same of a request that may come without a body.
pub(crate) async fn json_or_nothing<T: DeserializeOwned + Default>(request: Request) -> Result<T, Problem> {
    let (head, body) = request.into_parts();
    let most = Sizes::of(&head.extensions).json;
    let body = to_bytes(body, most).await.map_err(|_| too_large(most))?;
    if body.is_empty() {
        return Ok(T::default());
    }
    Ok(json(Request::from_parts(head, body.into())).await?.0)
}

/// Settings as the commands take them; values are texts, numbers, true and false.
pub(crate) fn set_of(set: Map<String, Value>) -> Result<Vec<(String, String)>, Problem> {
    let (mut taken, mut errors) = (Vec::new(), Vec::new());
    for (key, value) in set {
        let text = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => {
                let detail = "a setting takes a text, a number, true or false".to_owned();
                errors.push(ErrorAt { pointer: format!("#/set/{}", escaped(&key)), key, line: None, detail });
                continue;
            }
        };
        taken.push((key, text));
    }
    if errors.is_empty() {
        return Ok(taken);
    }
    Err(Problem::new(Kind::JOB_FILE, "Settings have values that none can have.").with_errors(errors))
}

/// A part of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The job that a request hands in.
pub(crate) async fn job(app: &App, request: Request) -> Result<Received, Problem> {
    check_plain(request.headers())?;
    let kind = media_type(request.headers()).to_ascii_lowercase();
    if kind == FORM_TYPE {
        return job_in_form(app, request).await;
    }
    if kind != "application/json" {
        return Err(wrong_type("application/json or multipart/form-data"));
    }
    let (body, _): (Value, _) = json(request).await?;
    // The same however it is written.
    let fingerprint = hexadecimal(&Sha256::digest(body.to_string()));
    let body: Body = serde_json::from_value(body)
        .map_err(|error| Problem::new(Kind::BAD_REQUEST, format_args!("The body is not a job: {error}.")))?;
    let (text, form) = match (body.yaml, body.spec) {
        (Some(yaml), None) => (yaml, Form::Yaml),
        // JSON is YAML.
        (None, Some(spec)) => (Value::Object(spec).to_string(), Form::Spec),
        _ => {
            return Err(Problem::new(
                Kind::BAD_REQUEST,
                "A job has either yaml, the text of a job file, or spec, the keys of one.",
            ));
        }
    };
    let called =
        Called { name: body.name, display_name: body.display_name, tags: body.tags, ..Called::default() };
    let set = set_of(body.set)?;
    let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let mut inputs = BTreeMap::new();
    for (place, named) in [("inputs", body.inputs), ("side_inputs", body.side_inputs)] {
        for (name, manifest) in named {
            if inputs.insert(name.clone(), (place, manifest)).is_some() {
                let detail = format_args!("{name} stands in inputs and in side_inputs: keep one.");
                return Err(Problem::new(Kind::BAD_REQUEST, detail));
            }
        }
    }
    uploads::take(app, &mut staging, body.code.as_ref(), &inputs).await?;
    let below = below(&body.job_folder)?;
    let submission =
        Submission { text, below, set, called, invocation: None, id: None, bound: Vec::new(), staging };
    Ok(Received { submission, form, fingerprint, key: None, is_dry: false })
}

/// The parts of a form, as they come.
pub(crate) struct Parts {
    form: Multipart,
    fingerprint: Sha256,
    sizes: Sizes,
}

/// A part of a form.
pub(crate) struct Part<'a> {
    field: Field<'a>,
    sizes: Sizes,
}

impl Part<'_> {
    /// What its sender calls the file in it; empty where it is none.
    pub(crate) fn file_name(&self) -> String {
        self.field.file_name().unwrap_or_default().to_owned()
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Problem> {
        self.field.chunk().await.map_err(|error| broken(&error, &self.sizes))
    }
}

impl Parts {
    pub(crate) async fn of(request: Request) -> Result<Self, Problem> {
        let sizes = Sizes::of(request.extensions());
        let form = Multipart::from_request(request, &()).await.map_err(|error| {
            Problem::new(Kind::BAD_REQUEST, format_args!("The form cannot be read: {error}."))
        })?;
        Ok(Self { form, fingerprint: Sha256::new(), sizes })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<(String, Part<'_>)>, Problem> {
        let sizes = self.sizes;
        let field = self.form.next_field().await.map_err(|error| broken(&error, &sizes))?;
        Ok(field.map(|field| (field.name().unwrap_or_default().to_owned(), Part { field, sizes })))
    }

    pub(crate) fn note(&mut self, name: &str, digest: &[u8]) {
        self.fingerprint.update(name);
        self.fingerprint.update([0]);
        self.fingerprint.update(digest);
    }

    pub(crate) fn fingerprint(self) -> String {
        hexadecimal(&self.fingerprint.finalize())
    }
}

fn broken(error: &axum::extract::multipart::MultipartError, sizes: &Sizes) -> Problem {
    if error.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(Kind::TOO_LARGE, format_args!("The form is larger than {} bytes.", sizes.form));
    }
    Problem::new(Kind::BAD_REQUEST, format_args!("The form cannot be read: {}.", error.body_text()))
}

/// The text of a part.
pub(crate) async fn text(mut part: Part<'_>) -> Result<String, Problem> {
    let (mut bytes, most) = (Vec::new(), part.sizes.yaml);
    while let Some(piece) = part.chunk().await? {
        if bytes.len() + piece.len() > most {
            return Err(Problem::new(Kind::TOO_LARGE, format_args!("A field is larger than {most} bytes.")));
        }
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes)
        .map_err(|_| Problem::new(Kind::BAD_REQUEST, "A field of the form is not UTF-8 text."))
}

/// Writes a part to `file`; gives its size and its SHA-256.
pub(crate) async fn save(mut part: Part<'_>, file: &Path) -> Result<(u64, Vec<u8>), Problem> {
    let failed = |error: std::io::Error| {
        tracing::warn!(%error, "cannot keep what comes with a request");
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Problem::new(Kind::NO_ROOM, "The disk of the server is full.")
            }
            _ => Problem::new(Kind::INTERNAL, "The server cannot keep what came; its log says why."),
        }
    };
    let path = file.to_owned();
    let made = tokio::task::spawn_blocking(move || tree::create(path)).await;
    let made = made.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    let mut target = tokio::fs::File::from_std(made.map_err(failed)?);
    let (mut digest, mut size) = (Sha256::new(), 0);
    while let Some(piece) = part.chunk().await? {
        digest.update(&piece);
        size += piece.len() as u64;
        target.write_all(&piece).await.map_err(failed)?;
    }
    target.flush().await.map_err(failed)?;
    Ok((size, digest.finalize().to_vec()))
}

/// What a file of a form is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent<'a> {
    /// The code, an archive.
    Code,
    /// One of the files of the folder that is the code.
    OfCode,
    /// A file or an archive that is, or is a part of, the input of this name.
    Input(&'a str),
    /// One of the files of the folder that is the input of this name.
    OfInput(&'a str),
}

impl<'a> Sent<'a> {
    /// What the part `name` of a form about a job is; nothing where it is no file.
    fn of(name: &'a str, takes_inputs: bool) -> Option<Self> {
        match (name, name.strip_prefix("input."), name.strip_prefix("input_folder.")) {
            ("code", ..) => Some(Self::Code),
            ("code_folder", ..) => Some(Self::OfCode),
            (_, Some(input), _) if takes_inputs => Some(Self::Input(input)),
            (_, _, Some(input)) if takes_inputs => Some(Self::OfInput(input)),
            _ => None,
        }
    }

    /// Takes the part `name`, which is written to `file` first; whether anything came in it, and what tells it from others.
    pub(crate) async fn take(
        self,
        staging: &mut Staging,
        (name, part): (&str, Part<'_>),
        file: &Path,
    ) -> Result<(bool, Vec<u8>), Problem> {
        let own = part.file_name();
        let (size, digest) = save(part, file).await?;
        let came = size > 0 || !own.is_empty();
        if came {
            // Unpacking takes a while.
            let taken = tokio::task::block_in_place(|| match self {
                Self::Code => staging.take_code(file),
                Self::OfCode => staging.take_code_file(&own, file),
                Self::Input(input) => staging.take_input(input, &own, file),
                Self::OfInput(input) => staging.take_input_of_folder(input, &own, file),
            });
            taken.map_err(|failure| unusable(&failure, name))?;
        }
        Ok((came, [own.as_bytes(), &digest].concat()))
    }
}

/// What of a form is no file, and is the same in all of them.
#[derive(Debug, Default)]
struct Fields {
    set: Vec<(String, String)>,
    called: Called,
    only_group: Option<String>,
    key: Option<String>,
}

impl Fields {
    /// Takes a field; false where it is none of these. One that is empty says nothing, as browsers send those that nobody filled.
    fn take(&mut self, name: &str, text: &str) -> Result<bool, Problem> {
        let text = text.trim();
        let given = || Some(text.to_owned()).filter(|text| !text.is_empty());
        match name {
            "name" => self.called.name = given(),
            "display_name" => self.called.display_name = given(),
            "set" => self.set.extend(pairs(name, text)?),
            "tag" => self.called.tags.extend(pairs(name, text)?),
            "only_group" => self.only_group = given(),
            "idempotency_key" => self.key = given(),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The lines `KEY=VALUE` of a field.
pub(crate) fn pairs(name: &str, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let Some((key, value)) = line.split_once('=') else {
            let detail = format!("The field {name} takes KEY=VALUE, one in a line, and {line:?} is none.");
            return Err(Problem::new(Kind::BAD_REQUEST, detail));
        };
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    lines.map(pair).collect()
}

async fn job_in_form(app: &App, request: Request) -> Result<Received, Problem> {
    let staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let mut submission = Submission {
        text: String::new(),
        below: String::new(),
        set: Vec::new(),
        called: Called::default(),
        invocation: None,
        id: None,
        bound: Vec::new(),
        staging,
    };
    let (mut parts, mut fields) = (Parts::of(request).await?, Fields::default());
    let (mut has_job, mut is_dry) = (false, false);
    loop {
        let file = submission.staging.file();
        let Some((name, part)) = parts.next().await? else { break };
        let digest = if let Some(sent) = Sent::of(&name, true) {
            sent.take(&mut submission.staging, (&name, part), &file).await?.1
        } else {
            let text = text(part).await?;
            match &*name {
                "job" => {
                    has_job = true;
                    submission.text.clone_from(&text);
                }
                "job_folder" => submission.below = below(&text)?,
                "dry_run" => is_dry = true,
                _ if fields.take(&name, &text)? => {}
                _ => {
                    return Err(unknown(
                        &name,
                        "job, job_folder, code, code_folder, input.NAME, input_folder.NAME, set, name, display_name, tag",
                    ));
                }
            }
            if name == "idempotency_key" { Vec::new() } else { Sha256::digest(&text).to_vec() }
        };
        parts.note(&name, &digest);
    }
    if !has_job {
        return Err(Problem::new(
            Kind::BAD_REQUEST,
            "The form has no field job: send the text of a job file.",
        ));
    }
    (submission.set, submission.called) = (fields.set, fields.called);
    let fingerprint = parts.fingerprint();
    Ok(Received { submission, form: Form::Part, fingerprint, key: fields.key, is_dry })
}

/// Where a job file stands in the code that came with it; empty for the top.
fn below(text: &str) -> Result<String, Problem> {
    let folder = text.trim().trim_end_matches('/');
    if folder.is_empty() || is_valid_key(folder) {
        return Ok(folder.to_owned());
    }
    Err(Problem::new(
        Kind::BAD_REQUEST,
        format_args!("job_folder has {folder:?}, which is no folder below the top of the code."),
    ))
}

pub(crate) fn unknown(name: &str, known: &str) -> Problem {
    Problem::new(
        Kind::BAD_REQUEST,
        format_args!("The form has the field {name:?}, which is not known: {known}."),
    )
}

pub(crate) fn unusable(failure: &Failure, part: &str) -> Problem {
    if !failure.is_usage() {
        return Problem::of(failure, Kind::INTERNAL);
    }
    let error = ErrorAt {
        pointer: format!("#/{}", escaped(part)),
        key: part.to_owned(),
        line: None,
        detail: failure.to_string(),
    };
    Problem::new(Kind::BAD_UPLOAD, failure).with_errors(vec![error])
}

/// What a request says is to become of a former job. A `name` and tags are for a new one alone, which `is_new` is about.
pub(crate) async fn change(app: &App, request: Request, is_new: bool) -> Result<Change, Problem> {
    check_plain(request.headers())?;
    let kind = media_type(request.headers()).to_ascii_lowercase();
    if kind == FORM_TYPE {
        return change_in_form(app, request, is_new).await;
    }
    // Nothing to say is said by no body.
    if kind.is_empty() && request.headers().get(CONTENT_LENGTH).is_none_or(|length| length == "0") {
        let fingerprint = hexadecimal(&Sha256::digest("{}"));
        return Ok(Change { fingerprint, ..Change::default() });
    }
    if kind != "application/json" {
        return Err(wrong_type("application/json or multipart/form-data"));
    }
    let (body, _): (Value, _) = json(request).await?;
    let fingerprint = hexadecimal(&Sha256::digest(body.to_string()));
    let body: Changed = serde_json::from_value(body).map_err(|error| {
        Problem::new(Kind::BAD_REQUEST, format_args!("The body is not what the address takes: {error}."))
    })?;
    let code = match body.code {
        None => None,
        Some(Code::Word(word)) if word == "same" => None,
        Some(Code::Archive(archive)) => Some(archive),
        Some(Code::Word(_)) => {
            return Err(Problem::new(
                Kind::BAD_REQUEST,
                "code is \"same\", the job's own; other code comes as {\"archive_sha256\": SHA256, \"manifest_sha256\": SHA256}, one of them or both, or as the file code of a form (multipart/form-data).",
            ));
        }
    };
    if !is_new && !body.inputs.is_empty() {
        return Err(Problem::new(
            Kind::BAD_REQUEST,
            "inputs are for resubmit: a job that goes on keeps its inputs.",
        ));
    }
    let called =
        Called { name: body.name, display_name: body.display_name, tags: body.tags, ..Called::default() };
    check_called(&called, is_new)?;
    let only_group = body.only_group;
    check_group(only_group.as_deref(), is_new)?;
    let set = set_of(body.set)?;
    let staging = if code.is_some() || !body.inputs.is_empty() {
        let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
        let inputs = body.inputs.into_iter().map(|(name, manifest)| (name, ("inputs", manifest))).collect();
        uploads::take(app, &mut staging, code.as_ref(), &inputs).await?;
        Some(staging)
    } else {
        None
    };
    Ok(Change { set, called, only_group, staging, fingerprint, key: None })
}

fn check_group(group: Option<&str>, is_new: bool) -> Result<(), Problem> {
    match group {
        Some(_) if is_new => Err(Problem::new(
            Kind::BAD_REQUEST,
            "only_group is for resume: a job that runs again runs all of its mini-batches.",
        )),
        _ => Ok(()),
    }
}

fn check_called(called: &Called, is_new: bool) -> Result<(), Problem> {
    if is_new || *called == Called::default() {
        return Ok(());
    }
    Err(Problem::new(
        Kind::BAD_REQUEST,
        "A job that goes on keeps its name and its tags; name, display_name and tags are for resubmit.",
    ))
}

async fn change_in_form(app: &App, request: Request, is_new: bool) -> Result<Change, Problem> {
    let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    let (mut parts, mut fields) = (Parts::of(request).await?, Fields::default());
    let mut has_files = false;
    loop {
        let file = staging.file();
        let Some((name, part)) = parts.next().await? else { break };
        let digest = if let Some(sent) = Sent::of(&name, is_new) {
            let (came, digest) = sent.take(&mut staging, (&name, part), &file).await?;
            has_files |= came;
            digest
        } else {
            let text = text(part).await?;
            if !fields.take(&name, &text)? {
                let known = if is_new {
                    "code, code_folder, input.NAME, input_folder.NAME, set, name, display_name, tag"
                } else {
                    "code, code_folder, set, only_group"
                };
                return Err(unknown(&name, known));
            }
            if name == "idempotency_key" { Vec::new() } else { Sha256::digest(&text).to_vec() }
        };
        parts.note(&name, &digest);
    }
    check_called(&fields.called, is_new)?;
    let fingerprint = parts.fingerprint();
    check_group(fields.only_group.as_deref(), is_new)?;
    let staging = Some(staging).filter(|_| has_files);
    let Fields { set, called, only_group, key } = fields;
    Ok(Change { set, called, only_group, staging, fingerprint, key })
}

/// What it is to who handed it in that a job is refused.
pub(crate) fn refused(failure: &Failure, form: Option<Form>) -> Problem {
    refused_as(failure, form, Kind::JOB_FILE, "job")
}

/// The same of what is called `noun`; `kind` is the problem where it cannot be used.
pub(crate) fn refused_as(failure: &Failure, form: Option<Form>, kind: &'static Kind, noun: &str) -> Problem {
    let exists = failure.cause::<OutputExists>().is_some();
    let kind = if exists { Kind::OUTPUT_EXISTS } else { kind };
    let Some(file) = failure.job_file() else { return Problem::of(failure, kind) };
    let errors = file.problems.iter().map(|one| ErrorAt {
        pointer: pointer(&one.key, form),
        key: own_key(&one.key, form).to_owned(),
        line: one.line.filter(|_| !matches!(form, Some(Form::Spec | Form::Whole | Form::Change))),
        detail: one.message.clone(),
    });
    let errors: Vec<ErrorAt> = errors.collect();
    let count = errors.len();
    let problems = if count == 1 { "problem" } else { "problems" };
    if file.leads_outside {
        return Problem::new(
            Kind::UPLOAD_MISSING,
            format_args!("The {noun} names {count} local path(s) that did not come with it."),
        )
        .hint(if noun == "job" {
            "send code as the file code and inputs as input.NAME, or before as blobs, or give s3:// or https:// URLs"
        } else {
            "send code as the file code of a form, or give s3:// URLs and what is registered"
        })
        .with_errors(errors);
    }
    Problem::new(kind, format_args!("The {noun} has {count} {problems}.")).with_errors(errors)
}

/// A key as the request has it: what a body changes is a setting for the commands alone.
fn own_key(key: &str, form: Option<Form>) -> &str {
    if form == Some(Form::Change) { key.strip_prefix("--set ").unwrap_or(key) } else { key }
}

/// Where in the request a key stands that a problem is about.
fn pointer(key: &str, form: Option<Form>) -> String {
    let key = own_key(key, form);
    if let Some(key) = key.strip_prefix("--set ") {
        return format!("#/set/{}", escaped(key));
    }
    match form {
        Some(form @ (Form::Spec | Form::Whole | Form::Change)) => {
            let whole = if form == Form::Spec { "#/spec" } else { "#" };
            let parts = key.replace('[', ".").replace(']', "");
            let parts = parts.split('.').filter(|part| !part.is_empty());
            parts.fold(whole.to_owned(), |pointer, part| format!("{pointer}/{}", escaped(part)))
        }
        Some(Form::Yaml) => "#/yaml".to_owned(),
        Some(Form::Part) => "#/job".to_owned(),
        Some(Form::Text) | None => "#".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_what_is_wrong() {
        for (key, form, expected) in [
            ("inputs[0].path", Some(Form::Spec), "#/spec/inputs/0/path"),
            ("", Some(Form::Spec), "#/spec"),
            ("inputs[0].path", Some(Form::Yaml), "#/yaml"),
            ("tags.team", Some(Form::Whole), "#/tags/team"),
            ("tags.team", Some(Form::Text), "#"),
            (
                "--set settings.retry_settings.timeout",
                Some(Form::Change),
                "#/settings/retry_settings/timeout",
            ),
            ("inputs[0].path", Some(Form::Change), "#/inputs/0/path"),
            ("name", Some(Form::Part), "#/job"),
            ("--set node_count", Some(Form::Yaml), "#/set/node_count"),
            ("--set a/b", None, "#/set/a~1b"),
        ] {
            assert_eq!(pointer(key, form), expected, "{key}");
        }
    }

    #[test]
    fn settings_are_texts_numbers_and_switches() {
        let set = |text: &str| set_of(serde_json::from_str(text).unwrap());
        let taken = set(r#"{"a": 5, "b": "10KB", "c": true}"#).unwrap();
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(taken, [own("a", "5"), own("b", "10KB"), own("c", "true")]);
        let problem = set(r#"{"a": [1], "b": null, "c": 1}"#).unwrap_err();
        let pointers: Vec<&str> = problem.errors.iter().map(|error| &*error.pointer).collect();
        assert_eq!((problem.kind, &pointers[..]), (Kind::JOB_FILE, &["#/set/a", "#/set/b"][..]));
        assert_eq!(pairs("set", "a=1\n\n b = x=y ").unwrap(), [own("a", "1"), own("b", "x=y")]);
        assert!(pairs("set", "a").is_err());
    }
}
