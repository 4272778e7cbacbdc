//! The management part of Azure's REST (dialects C.8), for scripts that create endpoints, deployments and versions by it: `PUT`, `GET` and
//! `DELETE` at `/batchEndpoints`, `PUT` and `GET` at `/models`, `/data`, `/datasets`, `/environments`, `/codes` and `/components`, also below the
//! address of any workspace.
//!
//! A translation: a body becomes the file that the addresses of prs take, and what that makes is told in Azure's words. All is done when it
//! is answered; the operation that scripts ask for afterwards has succeeded.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use prs_common::job::EndpointFile;
use prs_common::registry::Kind as AssetKind;
use prs_common::tree;
use prs_jobs::FailureKind;
use prs_jobs::assets;
use prs_jobs::endpoints::{self, Expected, IfThere};
use prs_jobs::records::{Deployment, Endpoint, Registered};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::info;

use super::asset_file::AssetText;
use super::azure::body_of;
use super::azure_objects::{self as objects, OfAzure, code_name};
use super::endpoints::{Body, problem as of_endpoints, problem_of_reading};
use super::once::to_the_end;
use super::registry::{create_version, not_created, problem as of_registry, which};
use super::{deployments, uploads};
use crate::app::App;
use crate::auth::{Known, May, MayRead, MaySubmit};
use crate::http::conditional::short_checksum;
use crate::problem::{Kind, Problem};

/// What stands in an address.
type Names = BTreeMap<String, String>;

/// An object as Azure's REST has it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct AzureObject {
    /// Its address.
    id: String,
    /// Its name; of a version that.
    name: String,
    /// What Azure calls it.
    #[serde(rename = "type")]
    kind: String,
    /// `local`.
    location: &'static str,
    /// What people tell them apart by.
    tags: BTreeMap<String, String>,
    /// What there is to know of it.
    properties: Map<String, Value>,
    /// When it was created.
    system_data: Map<String, Value>,
}

/// An operation that was asked for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AzureOperation {
    /// Its address.
    id: String,
    /// Its number.
    name: String,
    /// `Succeeded`.
    status: &'static str,
}

/// Something of an address; empty where the address has none.
fn named<'a>(names: &'a Names, what: &str) -> &'a str {
    names.get(what).map(String::as_str).unwrap_or_default()
}

fn bad(why: String) -> Problem {
    Problem::new(Kind::BAD_REQUEST, why)
}

impl AzureObject {
    /// The object at `id`; `kind` follows the name of the family. Where it was put, the operation is named that did so.
    fn new(
        app: &App,
        id: &str,
        kind: &str,
        (tags, created): (BTreeMap<String, String>, &str),
        properties: &Value,
    ) -> Self {
        let mut properties = properties.as_object().cloned().unwrap_or_default();
        let own = properties.entry("properties").or_insert_with(|| json!({}));
        let operation = format!("{}/azure/operations/{}", app.url, short_checksum(id.as_bytes()));
        own["AzureAsyncOperationUri"] = operation.into();
        Self {
            id: id.to_owned(),
            name: id.rsplit('/').next().unwrap_or_default().to_owned(),
            kind: format!("{}/{kind}", objects::FAMILY),
            location: "local",
            tags,
            properties,
            system_data: [("createdAt".to_owned(), created.into())].into_iter().collect(),
        }
    }

    fn of_endpoint(app: &App, id: &str, one: &Endpoint) -> Self {
        let properties = objects::of_endpoint(one, &app.url);
        Self::new(app, id, "batchEndpoints", (one.tags.clone(), &one.created_at), &properties)
    }

    fn of_deployment(app: &App, id: &str, one: &Deployment) -> Self {
        let about = (one.tags.clone(), &*one.created_at);
        Self::new(app, id, "batchEndpoints/deployments", about, &objects::of_deployment(one))
    }

    fn of_asset(app: &App, id: &str, of: OfAzure, one: &Registered) -> Self {
        let kind = format!("{}/versions", of.word);
        let about = (one.tags.clone(), &*one.created_at);
        Self::new(app, id, &kind, about, &objects::of_asset(of, one))
    }
}

/// `PUT /batchEndpoints/{endpoint}`.
pub(crate) async fn put_endpoint(
    May(who): MaySubmit,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
    request: Request,
) -> Result<Response, Problem> {
    let file = objects::endpoint(&body_of(request).await?).map_err(bad)?;
    let file: Body = serde_json::from_value(file).map_err(|error| bad(format!("The body: {error}.")))?;
    let name = named(&names, "endpoint");
    let always = |_: Option<&str>| true;
    let (file, expected) = (EndpointFile::from(file), Expected(&always));
    let made = endpoints::put(name, &file, IfThere::Overwrite, expected, &app.whereabouts).await;
    let made = made.map_err(|failure| of_endpoints(&failure))?;
    let (endpoint, _, is_new) = made.ok_or_else(crate::http::expected::changed_meanwhile)?;
    info!(endpoint = endpoint.name, who = who.name, is_new, "an endpoint is put");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let shown = AzureObject::of_endpoint(&app, at.path(), &Endpoint::new(endpoint, Some(&app.url)));
    Ok((status, Json(shown)).into_response())
}

/// `GET /batchEndpoints/{endpoint}`.
pub(crate) async fn endpoint(
    _: MayRead,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
) -> Result<Json<AzureObject>, Problem> {
    let found = endpoints::endpoint(named(&names, "endpoint"), &app.whereabouts).await;
    let endpoint = found.map_err(|failure| problem_of_reading(&failure))?;
    Ok(Json(AzureObject::of_endpoint(&app, at.path(), &Endpoint::new(endpoint, Some(&app.url)))))
}

/// `DELETE /batchEndpoints/{endpoint}`: what is not there is deleted.
pub(crate) async fn delete_endpoint(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(names): Path<Names>,
) -> Result<StatusCode, Problem> {
    let name = named(&names, "endpoint");
    match endpoints::delete(name, &app.whereabouts).await {
        Ok(_) => info!(endpoint = name, who = who.name, "an endpoint is deleted"),
        Err(failure) if failure.kind == FailureKind::NotFound => return Ok(StatusCode::NO_CONTENT),
        Err(failure) => return Err(of_endpoints(&failure)),
    }
    Ok(StatusCode::OK)
}

/// `PUT /batchEndpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn put_deployment(
    May(who): MaySubmit,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
    request: Request,
) -> Result<Response, Problem> {
    let read = objects::deployment(&body_of(request).await?).map_err(bad)?;
    let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    if let Some((name, version)) = read.code {
        let folder = staging.brings_code().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
        let (name, version) = (code_name(&name), which(&version));
        let brought = assets::bring((AssetKind::Data, &name, &version), &folder, &app.whereabouts).await;
        brought.map_err(|failure| of_registry(&failure))?;
    }
    let sent = AssetText::of(&read.document, staging);
    let meant = (named(&names, "endpoint").to_owned(), named(&names, "deployment").to_owned());
    let made = deployments::put_sent(&app, who, meant, sent, (false, false), None).await?;
    let status = if made.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let one = made.endpoint.deployment(&made.name);
    let one = one.map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
    let shown = AzureObject::of_deployment(&app, at.path(), &Deployment::new(&made.endpoint, one));
    Ok((status, Json(shown)).into_response())
}

/// `GET /batchEndpoints/{endpoint}/deployments/{deployment}`.
pub(crate) async fn deployment(
    _: MayRead,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
) -> Result<Json<AzureObject>, Problem> {
    let found = endpoints::endpoint(named(&names, "endpoint"), &app.whereabouts).await;
    let endpoint = found.map_err(|failure| problem_of_reading(&failure))?;
    let one = endpoint.deployment(named(&names, "deployment"));
    let one = one.map_err(|error| Problem::new(Kind::ENDPOINT_NOT_FOUND, error))?;
    Ok(Json(AzureObject::of_deployment(&app, at.path(), &Deployment::new(&endpoint, one))))
}

/// `DELETE /batchEndpoints/{endpoint}/deployments/{deployment}`: what is not there is deleted.
pub(crate) async fn delete_deployment(
    May(who): MaySubmit,
    State(app): State<App>,
    Path(names): Path<Names>,
) -> Result<StatusCode, Problem> {
    let (endpoint, name) = (named(&names, "endpoint"), named(&names, "deployment"));
    match endpoints::delete_deployment(endpoint, name, false, &app.whereabouts).await {
        Ok(_) => info!(endpoint, deployment = name, who = who.name, "a deployment is deleted"),
        Err(failure) if failure.kind == FailureKind::NotFound => return Ok(StatusCode::NO_CONTENT),
        Err(failure) => return Err(of_endpoints(&failure)),
    }
    Ok(StatusCode::OK)
}

/// What an address is of.
fn kind_of(names: &Names) -> Result<OfAzure, Problem> {
    let word = named(names, "kind");
    OfAzure::of(word).ok_or_else(|| {
        Problem::new(Kind::ASSET_NOT_FOUND, format_args!("There is no kind {word:?} that is registered."))
    })
}

/// `PUT /{kind}/{name}/versions/{version}`.
pub(crate) async fn put_version(
    May(who): MaySubmit,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
    request: Request,
) -> Result<Response, Problem> {
    let of = kind_of(&names)?;
    let (mut document, beside) = objects::asset(of, &body_of(request).await?).map_err(bad)?;
    let mut staging = app.desk.staging().map_err(|failure| Problem::of(&failure, Kind::INTERNAL))?;
    if let Some((file, text)) = beside {
        let written = tree::write(staging.code().join(file), text);
        written.map_err(|error| Problem::new(Kind::INTERNAL, format_args!("cannot keep {file}: {error}")))?;
    }
    let name = of.own_name(named(&names, "name"));
    let version = named(&names, "version").to_owned();
    uploads::take_all(&app, &mut staging, &mut document, (&name, of.kind == AssetKind::Data)).await?;
    let sent = AssetText::of(&document, staging);
    let id = at.path().to_owned();
    to_the_end(move || async move {
        let meant = (of.kind, &*name, Some(&*version));
        match Box::pin(create_version(&app, &who, meant, &sent)).await {
            Ok((one, is_new)) => {
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                let shown = AzureObject::of_asset(&app, &id, of, &Registered::new(one, None));
                Ok((status, Json(shown)).into_response())
            }
            Err(failure) => Err(not_created(&app, &failure, meant, &sent).await),
        }
    })
    .await
}

/// `GET /{kind}/{name}/versions/{version}`.
pub(crate) async fn version(
    _: MayRead,
    State(app): State<App>,
    at: Uri,
    Path(names): Path<Names>,
) -> Result<Json<AzureObject>, Problem> {
    let of = kind_of(&names)?;
    let (name, wanted) = (of.own_name(named(&names, "name")), which(named(&names, "version")));
    let found = assets::find(of.kind, &name, &wanted, &app.whereabouts).await;
    let (one, is_latest) = found.map_err(|failure| of_registry(&failure))?;
    Ok(Json(AzureObject::of_asset(&app, at.path(), of, &Registered::new(one, Some(is_latest)))))
}

/// `GET /azure/operations/{operation}`: what was asked for was done before it was answered.
pub(crate) async fn operation(_: Known, Path(operation): Path<String>) -> Json<AzureOperation> {
    Json(AzureOperation {
        id: format!("/azure/operations/{operation}"),
        name: operation,
        status: "Succeeded",
    })
}
