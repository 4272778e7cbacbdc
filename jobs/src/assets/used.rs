//! What of the registry uses a version: deployments of endpoints, and components that name it.

use prs_common::registry::{self as common, AssetVersion, Deployment, Kind};
use serde::Serialize;

use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};

/// What of the registry uses a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Used {
    /// Deployments: the endpoint, and the name.
    pub deployments: Vec<DeploymentName>,
    /// Components: the name, and the version.
    pub components: Vec<ComponentName>,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeploymentName {
    /// Its endpoint.
    pub endpoint: String,
    /// Its name.
    pub deployment: String,
}

/// A version of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComponentName {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Used {
    /// Whether nothing uses it.
    pub fn is_empty(&self) -> bool {
        self.deployments.is_empty() && self.components.is_empty()
    }

    /// The same in words.
    pub fn shown(&self) -> String {
        let deployments = self.deployments.iter();
        let deployments =
            deployments.map(|one| format!("deployment {} of endpoint {}", one.deployment, one.endpoint));
        let components = self.components.iter().map(|one| format!("component {}:{}", one.name, one.version));
        deployments.chain(components).collect::<Vec<_>>().join(", ")
    }
}

/// What of the registry uses the version `version` of `name`.
///
/// # Errors
/// The registry fails.
pub async fn used_by(
    kind: Kind,
    name: &str,
    version: &str,
    whereabouts: &Whereabouts,
) -> Result<Used, Failure> {
    let registry = Box::pin(registry::open(whereabouts)).await?;
    let (endpoints, _) = registry.endpoints().await.map_err(registry::failure)?;
    let is_it = |one: &common::Use| one.kind == kind && one.name == name && one.version == version;
    let mut used = Used::default();
    for endpoint in endpoints {
        let using = endpoint.deployments.iter().filter(|one| {
            one.uses.iter().any(is_it) || (kind == Kind::Model && model_in_words(one, name, version))
        });
        used.deployments.extend(
            using.map(|one| DeploymentName { endpoint: endpoint.name.clone(), deployment: one.name.clone() }),
        );
    }
    // Data and models stand in no component.
    if matches!(kind, Kind::Environment | Kind::Component) {
        let (components, _) = registry.list(Kind::Component).await.map_err(registry::failure)?;
        let using = components.into_iter().flatten().filter(|one| one.uses.iter().any(is_it));
        used.components
            .extend(using.map(|AssetVersion { name, version, .. }| ComponentName { name, version }));
    }
    Ok(used)
}

/// Whether a deployment that an older prs created names this model.
fn model_in_words(deployment: &Deployment, name: &str, version: &str) -> bool {
    let text = deployment.settings.get("model").and_then(serde_json::Value::as_str);
    text.is_some_and(|text| text == format!("azureml:{name}:{version}"))
}
