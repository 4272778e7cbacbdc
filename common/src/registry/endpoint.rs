//! Batch endpoints: a stable name that is called with data, behind which deployments stand (dialects C.1, C.2, C.6, C.7).
//!
//! An endpoint and all its deployments are one object, so which one is the default and whether that exists cannot part (V3).
//! The object of a deleted endpoint says so and stays: who creates the name anew replaces it, on condition that it is what was
//! read. Names are the same in any case.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::change::{Changed, change, find};
use super::content::{self, Content};
use super::{Local, READ_AT_ONCE, Registry, RegistryError, SUFFIX, Use};
use crate::near_name::nearest;
use crate::storage::{StorageExt, Version};
use crate::timestamp::now_us;

/// What the keys of all endpoints begin with.
const FOLDER: &str = "endpoints/";
/// What an endpoint, or a deployment, may be called (Y8).
const NAME: &str = "3 to 32 letters, digits and `-` that begin with a letter and end with a letter or digit";

/// What an endpoint does not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// There is no deployment.
    #[error("No deployment exists for this endpoint: prs deployment create makes one")]
    NoDeployment,
    /// The deployment that is asked for is not there.
    #[error("Deployment name {name} not found for this endpoint: {there}")]
    NotFound {
        /// The name.
        name: String,
        /// What there is instead.
        there: String,
    },
    /// None is asked for, and there are several.
    #[error(
        "No valid deployments to route to. Please check that the endpoint has at least one deployment with positive weight \
         values or use a deployment specific header to route: name one of {there}, or make one the default (prs endpoint \
         update --default)"
    )]
    NoDefault {
        /// What there is.
        there: String,
    },
}

impl From<EndpointError> for RegistryError {
    fn from(error: EndpointError) -> Self {
        Self::NotFound(error.to_string())
    }
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The name, as it was written when it was created.
    pub name: String,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell endpoints apart by.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The deployment that answers a call that names none.
    pub default_deployment: Option<String>,
    /// The deployments, in the order of their creation.
    #[serde(default)]
    pub deployments: Vec<Deployment>,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
}

/// A deployment of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The name, as it was written when it was created.
    pub name: String,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell deployments apart by.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// What it runs.
    #[serde(rename = "type")]
    pub kind: DeploymentKind,
    /// How often it was created or replaced, from 1.
    pub revision: u64,
    /// What its author said that it does.
    #[serde(default)]
    pub settings: Map<String, Json>,
    /// The archive with its file and all that this needs.
    content: Content,
    /// What is registered and it uses; empty where an older prs created it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Use>,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
    /// When this revision was, microseconds since 1970.
    pub revised_us: u64,
}

/// What a deployment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentKind {
    /// A model with its scoring script.
    Model,
    /// A pipeline.
    Pipeline,
}

impl DeploymentKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Pipeline => "pipeline",
        }
    }
}

/// What is to become a deployment.
#[derive(Debug, Clone)]
pub struct NewDeployment {
    /// The name.
    pub name: String,
    /// A text for people.
    pub description: Option<String>,
    /// What people tell deployments apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    pub properties: BTreeMap<String, String>,
    /// What it runs.
    pub kind: DeploymentKind,
    /// What its author said that it does.
    pub settings: Map<String, Json>,
    /// The archive, in the registry.
    pub content: Content,
    /// What is registered and it uses.
    pub uses: Vec<Use>,
}

impl Endpoint {
    /// One without deployments.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: None,
            tags: BTreeMap::new(),
            properties: BTreeMap::new(),
            default_deployment: None,
            deployments: Vec::new(),
            created_us: now_us(),
        }
    }

    /// The deployment that is called so.
    ///
    /// # Errors
    /// There is none, with what there is.
    pub fn deployment(&self, name: &str) -> Result<&Deployment, EndpointError> {
        let found = self.deployments.iter().find(|one| one.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| EndpointError::NotFound { name: name.to_owned(), there: self.there() })
    }

    /// The deployment that answers a call, which may name one (C.7).
    ///
    /// # Errors
    /// None does.
    pub fn route(&self, asked: Option<&str>) -> Result<&Deployment, EndpointError> {
        match (asked, self.default_deployment.as_deref(), &self.deployments[..]) {
            (_, _, []) => Err(EndpointError::NoDeployment),
            (Some(name), ..) | (None, Some(name), _) => self.deployment(name),
            (None, None, [only]) => Ok(only),
            (None, None, _) => Err(EndpointError::NoDefault { there: self.names().join(", ") }),
        }
    }

    /// Makes the deployment called `name` the default.
    ///
    /// # Errors
    /// There is none.
    pub fn set_default(&mut self, name: &str) -> Result<(), EndpointError> {
        self.default_deployment = Some(self.deployment(name)?.name.clone());
        Ok(())
    }

    /// Creates the deployment `new`, or a new revision of the one that is called so.
    pub fn deploy(&mut self, new: NewDeployment, now_us: u64) {
        let NewDeployment { name, description, tags, properties, kind, settings, content, uses } = new;
        let former = self.deployments.iter().position(|one| one.name.eq_ignore_ascii_case(&name));
        let (name, revision, created_us) = match former.map(|at| &self.deployments[at]) {
            // The default names it as it was written first.
            Some(former) => (former.name.clone(), former.revision + 1, former.created_us),
            None => (name, 1, now_us),
        };
        let made = Deployment {
            name,
            description,
            tags,
            properties,
            kind,
            revision,
            settings,
            content,
            uses,
            created_us,
            revised_us: now_us,
        };
        match former {
            Some(at) => self.deployments[at] = made,
            None => self.deployments.push(made),
        }
    }

    /// The names of the deployments.
    pub fn names(&self) -> Vec<&str> {
        self.deployments.iter().map(|one| &*one.name).collect()
    }

    fn there(&self) -> String {
        match &self.names()[..] {
            [] => "there is none".to_owned(),
            names => format!("there are {}", names.join(", ")),
        }
    }
}

impl Deployment {
    /// The checksum of its archive.
    pub fn archive_checksum(&self) -> &str {
        let name = self.content.only_file.as_deref().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }
}

/// What is kept under a name: nothing once the endpoint was deleted.
type Kept = Option<Endpoint>;

impl Registry {
    /// The endpoint that is called so, and the version of its object.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn endpoint(&self, name: &str) -> Result<(Endpoint, Version), RegistryError> {
        let kept = find(&*self.storage, &key(name)?, |body| self.understand_endpoint(name, body)).await?;
        match kept {
            Some((Some(endpoint), version)) => Ok((endpoint, version)),
            _ => Err(self.no_such_endpoint(name).await?),
        }
    }

    /// All endpoints, by name; and what is wrong with those that cannot be read.
    ///
    /// # Errors
    /// The store fails.
    pub async fn endpoints(&self) -> Result<(Vec<Endpoint>, Vec<RegistryError>), RegistryError> {
        let names = self.endpoint_names().await?;
        let reads = names.into_iter().map(|name| async move {
            find(&*self.storage, &key(&name)?, |body| self.understand_endpoint(&name, body)).await
        });
        let reads: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffered(READ_AT_ONCE).collect().await;
        let (mut endpoints, mut damaged) = (Vec::new(), Vec::new());
        for read in reads {
            match read {
                Ok(kept) => endpoints.extend(kept.and_then(|(endpoint, _)| endpoint)),
                Err(error @ RegistryError::Damaged { .. }) => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((endpoints, damaged))
    }

    /// Does one change of the endpoint that is called so: `decide` is given what is there, with the version of its object, and
    /// gives what is to be there, nothing to delete it, with something that is given back beside the new version. It may be
    /// called again where another program changes the endpoint, too.
    ///
    /// # Errors
    /// What `decide` refuses, or the store fails.
    pub async fn change_endpoint<R>(
        &self,
        name: &str,
        decide: impl Fn(Option<(Endpoint, &Version)>) -> Result<(Option<Endpoint>, R), RegistryError>,
    ) -> Result<(R, Version), RegistryError> {
        let called = || format!("endpoint {name}");
        let read = |body: &[u8]| self.understand_endpoint(name, body);
        let decide = |there: Option<(Kept, &Version)>| {
            let there = there.and_then(|(endpoint, version)| Some((endpoint?, version)));
            let is_there = there.is_some();
            let (made, told) = decide(there)?;
            // What is not there, and is not to be, is left alone.
            Ok(((is_there || made.is_some()).then_some(made), told))
        };
        let Changed { told, version } = change(&*self.storage, &key(name)?, called, read, decide).await?;
        Ok((told, version))
    }

    /// Brings the archive of a deployment into the registry.
    ///
    /// # Errors
    /// It cannot be read or stored.
    pub async fn bring(
        &self,
        archive: &Local,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<Content, RegistryError> {
        content::bring(&*self.storage, archive, None, sent).await
    }

    /// The archive of a deployment.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn archive(&self, deployment: &Deployment) -> Result<bytes::Bytes, RegistryError> {
        Ok(self.storage.get(&deployment.content.key()).await?)
    }

    async fn endpoint_names(&self) -> Result<Vec<String>, RegistryError> {
        let objects: Vec<_> = self.storage.list(FOLDER, "").try_collect().await?;
        let name = |key: &str| key.strip_prefix(FOLDER)?.strip_suffix(SUFFIX).map(str::to_owned);
        let mut names: Vec<String> = objects.iter().filter_map(|object| name(&object.key)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// What is said where there is no endpoint of this name.
    ///
    /// # Errors
    /// The store fails.
    pub async fn no_such_endpoint(&self, name: &str) -> Result<RegistryError, RegistryError> {
        let (endpoints, _) = self.endpoints().await?;
        let known: Vec<&str> = endpoints.iter().map(|one| &*one.name).collect();
        let remedy = match nearest(name, &known) {
            Some(near) => format!("did you mean {near}?"),
            None if known.is_empty() => "prs endpoint create makes one".to_owned(),
            None => "prs endpoint list shows those there are".to_owned(),
        };
        Ok(RegistryError::NotFound(format!("endpoint {name} does not exist in {self}: {remedy}")))
    }

    fn understand_endpoint(&self, name: &str, body: &[u8]) -> Result<Kept, RegistryError> {
        let damaged = |reason: String| RegistryError::Damaged {
            noun: "endpoint",
            name: name.to_owned(),
            place: self.storage.uri(&key(name).unwrap_or_default()),
            reason,
        };
        let kept: Kept = serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))?;
        match &kept {
            Some(other) if !other.name.eq_ignore_ascii_case(name) => {
                Err(damaged(format!("it is that of {}", other.name)))
            }
            _ => Ok(kept),
        }
    }
}

/// What is wrong with `name` as that of `what`, an endpoint or a deployment.
///
/// # Errors
/// None is called so.
pub fn check_deployment_name(what: &str, name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    if begins && (3..=32).contains(&name.len()) && !name.ends_with('-') && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!("{name:?} is not the name of {what}: give {NAME}"))
}

/// The key of the endpoint that is called so.
fn key(name: &str) -> Result<String, RegistryError> {
    check_deployment_name("an endpoint", name).map_err(RegistryError::Refused)?;
    Ok(format!("{FOLDER}{}{SUFFIX}", name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::LocalStorage;

    fn new(name: &str) -> NewDeployment {
        NewDeployment {
            name: name.to_owned(),
            description: None,
            tags: BTreeMap::new(),
            properties: BTreeMap::new(),
            kind: DeploymentKind::Model,
            settings: Map::new(),
            uses: Vec::new(),
            content: Content {
                checksum: "c".to_owned(),
                only_file: Some("a1.tar.gz".to_owned()),
                only_folder: None,
            },
        }
    }

    fn endpoint(deployments: &[&str], default: Option<&str>) -> Endpoint {
        let mut made = Endpoint::new("heart");
        for name in deployments {
            made.deploy(new(name), 1);
        }
        if let Some(default) = default {
            made.set_default(default).unwrap();
        }
        made
    }

    #[test]
    fn a_call_goes_where_it_asks_or_to_the_default_or_to_the_only_one() {
        let table = [
            (&[][..], None, None, Err("No deployment exists")),
            (&[], None, Some("xgb"), Err("No deployment exists")),
            (&["xgb"], None, None, Ok("xgb")),
            (&["xgb"], None, Some("XGB"), Ok("xgb")),
            (&["xgb", "torch"], None, None, Err("No valid deployments to route to")),
            (&["xgb", "torch"], Some("torch"), None, Ok("torch")),
            (&["xgb", "torch"], Some("torch"), Some("xgb"), Ok("xgb")),
            (&["xgb", "torch"], Some("torch"), Some("keras"), Err("Deployment name keras not found")),
        ];
        for (deployments, default, asked, expected) in table {
            let endpoint = endpoint(deployments, default);
            match (endpoint.route(asked), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.name, expected, "{asked:?}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, _) => panic!("{deployments:?} {default:?} {asked:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_deployment_that_is_there_gets_a_revision() {
        let mut endpoint = endpoint(&["xgb"], Some("xgb"));
        endpoint.deploy(new("XGB"), 9);
        let [only] = &endpoint.deployments[..] else { panic!("{endpoint:?}") };
        assert_eq!((&*only.name, only.revision, only.created_us, only.revised_us), ("xgb", 2, 1, 9));
        assert_eq!(only.archive_checksum(), "a1");
    }

    #[tokio::test]
    async fn an_endpoint_is_changed_by_one_at_a_time_and_a_deleted_name_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::new(Arc::new(LocalStorage::new(folder.path())));
        let create = || {
            registry.change_endpoint("Heart", |there| match there {
                None => Ok((Some(Endpoint::new("Heart")), ())),
                Some(_) => Err(RegistryError::Refused("it exists".to_owned())),
            })
        };
        let (one, other) = tokio::join!(create(), create());
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let deploy = |name: &'static str| {
            registry.change_endpoint("heart", move |there| {
                let (mut endpoint, _) = there.unwrap();
                endpoint.deploy(new(name), 1);
                Ok((Some(endpoint), ()))
            })
        };
        let (one, other) = tokio::join!(deploy("xgb"), deploy("torch"));
        one.and(other).unwrap();
        let (found, version) = registry.endpoint("HEART").await.unwrap();
        assert_eq!(found.deployments.len(), 2);
        let seen = registry.change_endpoint("heart", |there| {
            let (endpoint, version) = there.unwrap();
            Ok((Some(endpoint), version.clone()))
        });
        // Nothing changes, and nothing is written.
        assert_eq!(seen.await.unwrap(), (version.clone(), version));
        registry.change_endpoint("heart", |_| Ok((None, ()))).await.unwrap();
        let gone = registry.endpoint("heart").await.unwrap_err();
        assert!(gone.to_string().contains("does not exist"), "{gone}");
        assert!(registry.endpoints().await.unwrap().0.is_empty());
        create().await.unwrap();
        assert_eq!(registry.endpoints().await.unwrap().0.len(), 1);
        for wrong in ["a", "a/b", "-heart", ""] {
            assert!(matches!(registry.endpoint(wrong).await, Err(RegistryError::Refused(_))), "{wrong}");
        }
    }
}
