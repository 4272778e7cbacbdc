//! The form that calls an endpoint: what the deployment takes, by its types; what would run of a call; and the call itself.

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use prs_common::job::{CallInput, Invocation};
use prs_common::registry::{Deployment, DeploymentKind, Kind as AssetKind};
use prs_jobs::intake::unpack::is_archive;
use prs_jobs::intake::{Call, Staging};
use prs_jobs::{assets, endpoints};
use prs_portal::view::{Asked, AskedInput, GivenCall, InvokePage, Planned, Refused};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::submit::said;
use crate::api::endpoints::{call_once, dry_run, problem, text_of};
use crate::api::received::{Parts, Sent, check_plain, pairs, text, unknown};
use crate::api::registry;
use crate::api::submit::Key;
use crate::app::App;
use crate::auth::{May, MaySubmit, random_text};
use crate::http::params::Params;
use crate::problem::{Kind, Problem};

/// What the one input of a model is called.
const OF_MODEL: &str = "data";
/// Names of registered data that are offered, and versions of each.
const OFFERED: (usize, usize) = (100, 5);
/// The settings of a model's deployment that one call may change, where the deployment has them, and what holds without them.
const SETTINGS: [(&str, &str); 9] = [
    ("mini_batch_size", "10"),
    ("resources.instance_count", "1"),
    ("max_concurrency_per_instance", "1"),
    ("retry_settings.max_retries", "3"),
    ("retry_settings.timeout", "30"),
    ("error_threshold", "-1"),
    ("logging_level", "info"),
    ("output_file_name", "predictions.csv"),
    ("outputs.score.path", "a new folder of the job"),
];

/// What a form had in its fields.
#[derive(Debug, Default)]
struct Given {
    deployment: String,
    key: Option<String>,
    is_dry: bool,
    /// What stands in the fields whose names say what they are for: `at.NAME`, `value.NAME`, `set.KEY`.
    texts: BTreeMap<String, String>,
    call: GivenCall,
    /// Files that came along, and of each input whether it is one file.
    staging: Option<Staging>,
    files: BTreeMap<String, bool>,
    fingerprint: String,
}

impl Given {
    fn text(&self, kind: &str, name: &str) -> String {
        self.texts.get(&format!("{kind}.{name}")).cloned().unwrap_or_default()
    }

    /// Reads a form.
    async fn read(app: &App, request: Request) -> Result<Self, Problem> {
        check_plain(request.headers())?;
        let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
        let (mut parts, mut given) = (Parts::of(request).await?, Self::default());
        loop {
            let file = staging.file();
            let Some((name, part)) = parts.next().await? else { break };
            let sent = match (name.strip_prefix("file."), name.strip_prefix("folder.")) {
                (Some(input), _) => Some((input, Sent::Input(input), !is_archive(&part.file_name()))),
                (_, Some(input)) => Some((input, Sent::OfInput(input), false)),
                _ => None,
            };
            let digest = if let Some((input, sent, is_file)) = sent {
                let (came, digest) = sent.take(&mut staging, (&name, part), &file).await?;
                if came {
                    let is_first = !given.files.contains_key(input);
                    given.files.insert(input.to_owned(), is_first && is_file);
                }
                digest
            } else {
                let text = text(part).await?.trim().to_owned();
                let digest = Sha256::digest(&text).to_vec();
                match &*name {
                    "idempotency_key" => {
                        given.key = Some(text).filter(|key| !key.is_empty());
                        continue;
                    }
                    "deployment" => given.deployment = text,
                    "dry_run" => given.is_dry = true,
                    "type" => given.call.data_type = text,
                    "set" => given.call.set = text,
                    "name" => given.call.name = text,
                    "experiment_name" => given.call.experiment = text,
                    _ if ["at.", "value.", "set."].iter().any(|kind| name.starts_with(kind)) => {
                        if !text.is_empty() {
                            given.texts.insert(name.clone(), text);
                        }
                    }
                    _ => {
                        return Err(unknown(
                            &name,
                            "deployment, at.NAME, file.NAME, folder.NAME, value.NAME, set.KEY, type, set, name, experiment_name",
                        ));
                    }
                }
                digest
            };
            parts.note(&name, &digest);
        }
        given.fingerprint = parts.fingerprint();
        given.staging = Some(staging).filter(|_| !given.files.is_empty());
        Ok(given)
    }

    /// The call of a deployment that takes `inputs`.
    fn as_call(
        &self,
        endpoint: &str,
        deployment: &Deployment,
        inputs: &[CallInput],
    ) -> Result<Call, Problem> {
        let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (mut set, mut invocation) = (Vec::new(), Invocation::default());
        invocation.job_name = filled(&self.call.name);
        invocation.experiment_name = filled(&self.call.experiment);
        let kind_of_files = |name: &str, kind: &str| {
            let is_one = self.files.get(name)?;
            let of_files = if *is_one { "uri_file" } else { "uri_folder" };
            Some((format!("inputs.{name}.type"), if kind.is_empty() { of_files } else { kind }.to_owned()))
        };
        if deployment.kind == DeploymentKind::Model {
            let at = filled(&self.text("at", OF_MODEL));
            invocation.input_type = filled(&self.call.data_type).filter(|_| at.is_some());
            invocation.input = at;
            set.extend(kind_of_files(OF_MODEL, &self.call.data_type));
        }
        for input in inputs {
            let name = &input.name;
            if input.is_value() {
                set.extend(filled(&self.text("value", name)).map(|value| (format!("inputs.{name}"), value)));
                continue;
            }
            let at = filled(&self.text("at", name)).map(|at| (format!("inputs.{name}.path"), at));
            if at.is_some() && self.files.contains_key(name) {
                let detail =
                    format_args!("The input {name} is given twice: keep the files, or what is registered.");
                return Err(Problem::new(Kind::BAD_REQUEST, detail));
            }
            set.extend(at);
            set.extend(kind_of_files(name, &input.kind));
        }
        let settings = SETTINGS.iter().filter(|_| deployment.kind == DeploymentKind::Model);
        set.extend(
            settings.filter_map(|(key, _)| Some(((*key).to_owned(), filled(&self.text("set", key))?))),
        );
        set.extend(pairs("set", &self.call.set)?);
        let deployment = Some(deployment.name.clone());
        Ok(Call { endpoint: endpoint.to_owned(), deployment, set, invocation, ..Call::default() })
    }
}

/// The endpoint, the deployment that answers, and what that takes.
struct Called {
    endpoint: String,
    deployments: Vec<String>,
    deployment: Deployment,
    inputs: Vec<CallInput>,
}

async fn called(app: &App, endpoint: &str, deployment: &str) -> Result<Called, Problem> {
    let found = endpoints::endpoint(endpoint, &app.whereabouts).await.map_err(|failure| problem(&failure))?;
    let named = Some(deployment).filter(|name| !name.is_empty());
    // Which of several is chosen in the form.
    let routed = found.route(named).or_else(|error| match (named, &found.deployments[..]) {
        (None, [first, ..]) => Ok(first),
        _ => Err(error),
    });
    let deployment = routed.map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?.clone();
    let inputs = endpoints::inputs_of(&deployment, &app.whereabouts).await;
    let inputs = inputs.map_err(|failure| problem(&failure))?;
    let deployments = found.names().into_iter().map(str::to_owned).collect();
    Ok(Called { endpoint: found.name, deployments, deployment, inputs })
}

/// Registered data as a call names them, the newest versions of each, and what they are.
async fn registered(app: &App) -> Result<Vec<(String, String)>, Problem> {
    let failed = |failure| registry::problem(&failure);
    let mut names = assets::names(AssetKind::Data, &app.whereabouts).await.map_err(failed)?;
    names.truncate(OFFERED.0);
    let found = assets::of_names(AssetKind::Data, &names, &app.whereabouts).await.map_err(failed)?;
    let mut offered = Vec::new();
    for versions in found {
        let there = versions.iter().rev().filter(|one| !one.archived);
        for (at, one) in there.take(OFFERED.1).enumerate() {
            let is_latest = if at == 0 { ", the latest version" } else { "" };
            let says = format!("{}{is_latest}", one.kind.as_str());
            offered.push((format!("azureml:{}:{}", one.name, one.version), says));
        }
    }
    Ok(offered)
}

/// What is asked for one input, with what was given before.
fn asked(input: &CallInput, given: &Given) -> AskedInput {
    let is_choice = !input.choices.is_empty() || input.kind == "boolean";
    let asked = match &*input.kind {
        _ if !input.is_value() => Asked::Data,
        _ if is_choice => Asked::Choice,
        "integer" => Asked::Number("1"),
        "number" | "float" => Asked::Number("any"),
        _ => Asked::Text,
    };
    let choices = match (&input.choices[..], is_choice) {
        ([], true) => vec!["true".to_owned(), "false".to_owned()],
        (choices, _) => choices.to_vec(),
    };
    let kind = if asked == Asked::Data { "at" } else { "value" };
    AskedInput {
        name: input.name.clone(),
        kind: input.kind.clone(),
        description: input.description.clone(),
        asked,
        default: input.default.clone(),
        choices,
        bounds: input.bounds.clone(),
        is_required: input.is_required(),
        value: given.text(kind, &input.name),
    }
}

/// A setting as a model's deployment has it: at the top of its file or below `settings`, or what holds without it.
pub(super) fn setting(definition: &Map<String, Value>, key: &str) -> String {
    let whole = Value::Object(definition.clone());
    let top = format!("/{}", key.replace('.', "/"));
    let below = format!("/settings/{}", key.strip_prefix("resources.").unwrap_or(key).replace('.', "/"));
    let found = whole.pointer(&top).or_else(|| whole.pointer(&below)).and_then(text_of);
    let default = SETTINGS.iter().find(|(known, _)| *known == key).map(|(_, default)| (*default).to_owned());
    found.or(default).unwrap_or_default()
}

async fn page(
    app: &App,
    called: &Called,
    given: &Given,
    refused: Refused,
    planned: Option<Planned>,
) -> Result<Html<String>, Problem> {
    let Called { endpoint, deployments, deployment, inputs } = called;
    let is_model = deployment.kind == DeploymentKind::Model;
    let of_model = CallInput { name: OF_MODEL.to_owned(), ..CallInput::default() };
    let inputs = if is_model { std::slice::from_ref(&of_model) } else { &inputs[..] };
    let asked_setting = |(key, _): &(&str, &str)| AskedInput {
        name: (*key).to_owned(),
        asked: Asked::Text,
        default: Some(setting(&deployment.settings, key)),
        value: given.text("set", key),
        ..AskedInput::default()
    };
    let page = InvokePage {
        chrome: &app.chrome,
        endpoint,
        deployments: deployments.clone(),
        deployment: &deployment.name,
        is_model,
        inputs: inputs.iter().map(|input| asked(input, given)).collect(),
        settings: SETTINGS.iter().filter(|_| is_model).map(asked_setting).collect(),
        registered: registered(app).await?,
        given: given.call.clone(),
        key: &random_text::<16>(),
        refused,
        planned,
    };
    Ok(Html(page.html()))
}

/// `GET /endpoints/{endpoint}/invoke`.
pub(super) async fn form(
    _: MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Html<String>, Problem> {
    params.check(&["deployment"])?;
    let called = called(&app, &name, params.one("deployment")?.unwrap_or_default()).await?;
    page(&app, &called, &Given::default(), Refused::default(), None).await
}

/// `POST /endpoints/{endpoint}/invoke`.
pub(super) async fn call(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut given = match Given::read(&app, request).await {
        Ok(given) => given,
        Err(problem) => {
            let (refused, called) = (said(&app, problem)?, called(&app, &name, "").await?);
            return Ok(page(&app, &called, &Given::default(), refused, None).await?.into_response());
        }
    };
    let called = called(&app, &name, &given.deployment).await?;
    let staging = given.staging.take();
    let made = given.as_call(&called.endpoint, &called.deployment, &called.inputs);
    let refused = match (made, given.is_dry) {
        (Ok(call), true) => match dry_run(&app, who, (call, staging)).await {
            Ok(planned) => {
                let counts = planned.mini_batches.zip(planned.items);
                let planned = Planned { counts, code_bytes: planned.code_bytes, notes: planned.notes };
                let page = page(&app, &called, &given, Refused::default(), Some(planned)).await?;
                return Ok(page.into_response());
            }
            Err(problem) => problem,
        },
        (Ok(call), false) => {
            let key = Key::OfPage(given.key.clone());
            match call_once(&app, who, key, given.fingerprint.clone(), (call, staging)).await {
                Ok((job_id, _)) => return Ok(Redirect::to(&format!("/jobs/{job_id}")).into_response()),
                Err(problem) => problem,
            }
        }
        (Err(problem), _) => problem,
    };
    Ok(page(&app, &called, &given, said(&app, refused)?, None).await?.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_what_the_deployment_says() {
        let text = r#"{"settings": {"mini_batch_size": 5, "retry_settings": {"timeout": 9}}, "resources": {"instance_count": 2}}"#;
        let settings: Map<String, Value> = serde_json::from_str(text).unwrap();
        let of = |key: &str| setting(&settings, key);
        assert_eq!([of("mini_batch_size"), of("retry_settings.timeout")], ["5", "9"]);
        assert_eq!([of("resources.instance_count"), of("logging_level")], ["2", "info"]);
    }
}
