//! What a call of a deployment may give: of a pipeline the inputs of its component, read from what the registry keeps of it.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive;
use prs_common::job::{COMPONENT_FILE, CallInput, DEPLOYMENT_FILE, call_inputs, component_named};
use prs_common::registry::{Deployment, DeploymentKind, Kind, Registry};

use super::deploy::archive_of;
use crate::failure::Failure;
use crate::homes::registry::failure;
use crate::homes::{Whereabouts, registry};

/// Bytes of a document that is read.
const MOST: u64 = 4 << 20;

/// The inputs of `deployment` by name; none of a model, which takes its one input under any name.
///
/// # Errors
/// The registry fails, or what it keeps of the deployment is damaged.
pub async fn inputs_of(
    deployment: &Deployment,
    whereabouts: &Whereabouts,
) -> Result<Vec<CallInput>, Failure> {
    if deployment.kind == DeploymentKind::Model {
        return Ok(Vec::new());
    }
    let registry = registry::open(whereabouts).await?;
    let packed = archive_of(&registry, deployment).await?;
    let text = document(&packed, DEPLOYMENT_FILE).await?.unwrap_or_default();
    let component = match component_named(&text) {
        Some(named) => component(&registry, &packed, &named).await?,
        None => None,
    };
    Ok(call_inputs(&text, component.as_deref()))
}

/// The component that is called `named`: a file of the deployment, or a version in the registry.
async fn component(registry: &Registry, packed: &Bytes, named: &str) -> Result<Option<String>, Failure> {
    let version = named.strip_prefix("azureml:").and_then(|named| named.rsplit_once(':'));
    let Some((name, version)) = version else {
        return document(packed, named.trim_start_matches("./")).await;
    };
    let (_, packed) = registry.file(Kind::Component, name, version).await.map_err(failure)?;
    document(&packed, COMPONENT_FILE).await
}

/// The text of a file of an archive; nothing where it has none.
async fn document(packed: &Bytes, name: &str) -> Result<Option<String>, Failure> {
    let (packed, name) = (packed.clone(), name.to_owned());
    let read = tokio::task::spawn_blocking(move || archive::file(&packed, Path::new(&name), MOST)).await;
    let read = read.context("what is kept of the deployment was not read")?;
    let read = read.context("what is kept of the deployment cannot be read")?;
    Ok(read.and_then(|(_, text)| text).map(|text| String::from_utf8_lossy(&text).into_owned()))
}
