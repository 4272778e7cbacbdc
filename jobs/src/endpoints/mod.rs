//! Batch endpoints: created, changed and deleted, with their deployments, and called with data (dialects C.1, C.2, C.6, C.7).
//!
//! | file | duty |
//! |---|---|
//! | `deploy` | a deployment from its file, with its model registered and its code in the registry |
//! | `inputs` | what a call may give |
//! | `invoke` | a call: the deployment that answers it, run as a job |
//!
//! Jobs keep the revision of the deployment that they began with, and outlive it.

mod deploy;
mod inputs;
mod invoke;

use prs_common::job::{EndpointFile, Names};
use prs_common::registry::{Endpoint, Registry, RegistryError, check_deployment_name};

use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};

pub(crate) use deploy::archive_of;
pub use deploy::{
    ExpectedDeployment, IsExpected, Made, NewDeployment, Patch, ScriptRefused, change_deployment,
    create_deployment, patch_deployment, put_deployment,
};
pub use inputs::inputs_of;
pub(crate) use invoke::route;
pub use invoke::{Invoke, invoke};

/// What an endpoint is to be, where there may be one of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfThere {
    /// It is refused.
    Refuse,
    /// What it says replaces what there is.
    Overwrite,
}

/// Whether what is there is what a caller expects: it is given the version of the object, or nothing where there is none.
#[derive(Clone, Copy)]
pub struct Expected<'a>(pub &'a (dyn Fn(Option<&str>) -> bool + Sync));

/// Opens the registry of endpoints, which is made where it is on this machine.
async fn open(whereabouts: &Whereabouts) -> Result<Registry, Failure> {
    let registry = registry::open(whereabouts).await?;
    if whereabouts.urls.is_none() {
        registry::make(&whereabouts.runs)?;
    }
    Ok(registry)
}

/// The endpoint that is called so.
///
/// # Errors
/// There is none, or the registry fails.
pub async fn endpoint(name: &str, whereabouts: &Whereabouts) -> Result<Endpoint, Failure> {
    versioned(name, whereabouts).await.map(|(endpoint, _)| endpoint)
}

/// The same, with the version of its object.
///
/// # Errors
/// There is none, or the registry fails.
pub async fn versioned(name: &str, whereabouts: &Whereabouts) -> Result<(Endpoint, String), Failure> {
    registry::open(whereabouts).await?.endpoint(name).await.map_err(registry::failure)
}

/// All endpoints, by name; what cannot be understood is told and left out.
///
/// # Errors
/// The registry fails.
pub async fn all(whereabouts: &Whereabouts) -> Result<Vec<Endpoint>, Failure> {
    let registry = registry::open(whereabouts).await?;
    let (endpoints, damaged) = registry.endpoints().await.map_err(registry::failure)?;
    for error in damaged {
        whereabouts.caller.error(&error);
    }
    Ok(endpoints)
}

/// Creates the endpoint `name`, or replaces what is said of it; its deployments stay.
///
/// # Errors
/// There is one already, the default is no deployment of it, or the registry fails.
pub async fn create(
    name: &str,
    file: &EndpointFile,
    if_there: IfThere,
    whereabouts: &Whereabouts,
) -> Result<Endpoint, Failure> {
    let made = put(name, file, if_there, Expected(&|_| true), whereabouts).await?;
    made.map(|(endpoint, ..)| endpoint).ok_or_else(|| Failure::wrong("it is not what is expected"))
}

/// The same, where it is what is `expected`; nothing where it is not. Gives the version of its object back, and whether it is new.
///
/// # Errors
/// As those of [`create`].
pub async fn put(
    name: &str,
    file: &EndpointFile,
    if_there: IfThere,
    expected: Expected<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<(Endpoint, String, bool)>, Failure> {
    check_deployment_name("an endpoint", name).map_err(Failure::wrong)?;
    for note in &file.notes {
        whereabouts.caller.note(&format_args!("note: {note}"));
    }
    let registry = open(whereabouts).await?;
    let changed = registry.change_endpoint(name, |there| {
        if let (Some((there, _)), IfThere::Refuse) = (&there, if_there) {
            return Err(RegistryError::Refused(format!(
                "endpoint {} exists; use prs endpoint update, or create --overwrite",
                there.name
            )));
        }
        let is_new = there.is_none();
        if !expected.0(there.as_ref().map(|(_, version)| version.as_str())) {
            return Ok((there.map(|(endpoint, _)| endpoint), None));
        }
        let former = there.map_or_else(|| Endpoint::new(name), |(endpoint, _)| endpoint);
        let mut made = Endpoint {
            description: file.description.clone(),
            tags: file.tags.clone(),
            properties: file.properties.clone(),
            default_deployment: None,
            ..former
        };
        default_to(&mut made, file)?;
        Ok((Some(made.clone()), Some((made, is_new))))
    });
    let (made, version) = changed.await.map_err(registry::failure)?;
    Ok(made.map(|(endpoint, is_new)| (endpoint, version, is_new)))
}

/// Changes of the endpoint `name` what `file` says; tags are added to those that there are.
///
/// # Errors
/// There is none, the default is no deployment of it, or the registry fails.
pub async fn update(name: &str, file: &EndpointFile, whereabouts: &Whereabouts) -> Result<Endpoint, Failure> {
    let changed = update_expected(name, file, Expected(&|_| true), whereabouts).await?;
    changed.map(|(endpoint, _)| endpoint).ok_or_else(not_expected)
}

/// The same, where the endpoint is what is `expected`; nothing where it is not. Gives the new version of its object back, too.
///
/// # Errors
/// As those of [`update`].
pub async fn update_expected(
    name: &str,
    file: &EndpointFile,
    expected: Expected<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<(Endpoint, String)>, Failure> {
    let is_expected = |_: &Endpoint, version: &str| expected.0(Some(version));
    let changed = change(name, is_expected, whereabouts, |mut endpoint| {
        if file.description.is_some() {
            endpoint.description.clone_from(&file.description);
        }
        endpoint.tags.extend(file.tags.clone());
        default_to(&mut endpoint, file)?;
        Ok((Some(endpoint.clone()), endpoint))
    });
    changed.await
}

/// Deletes the endpoint `name` with its deployments. Its jobs go on, and stay.
///
/// # Errors
/// There is none, or the registry fails.
pub async fn delete(name: &str, whereabouts: &Whereabouts) -> Result<Endpoint, Failure> {
    delete_expected(name, Expected(&|_| true), whereabouts).await?.ok_or_else(not_expected)
}

/// The same, where the endpoint is what is `expected`; nothing where it is not.
///
/// # Errors
/// As those of [`delete`].
pub async fn delete_expected(
    name: &str,
    expected: Expected<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<Endpoint>, Failure> {
    let is_expected = |_: &Endpoint, version: &str| expected.0(Some(version));
    let deleted = change(name, is_expected, whereabouts, |endpoint| Ok((None, endpoint))).await?;
    Ok(deleted.map(|(endpoint, _)| endpoint))
}

/// Deletes the deployment `name` of `endpoint`; the default one only with `anyway` where there are others. Its jobs go on, and stay.
///
/// # Errors
/// There is none, it is the default, or the registry fails.
pub async fn delete_deployment(
    endpoint: &str,
    name: &str,
    anyway: bool,
    whereabouts: &Whereabouts,
) -> Result<Endpoint, Failure> {
    let expected = ExpectedDeployment(&|_, _| true);
    let deleted = delete_expected_deployment((endpoint, name), anyway, expected, whereabouts).await?;
    deleted.ok_or_else(not_expected)
}

/// The same, where the deployment is what is `expected`; nothing where it is not.
///
/// # Errors
/// As those of [`delete_deployment`].
pub async fn delete_expected_deployment(
    (endpoint, name): (&str, &str),
    anyway: bool,
    expected: ExpectedDeployment<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<Endpoint>, Failure> {
    // That it has none of the name is said below.
    let is_expected = |there: &Endpoint, _: &str| {
        there.deployment(name).map_or(true, |deployment| expected.0(there, Some(deployment)))
    };
    let deleted = change(endpoint, is_expected, whereabouts, |mut there| {
        let name = there.deployment(name)?.name.clone();
        let is_default = there.default_deployment.as_ref() == Some(&name);
        if is_default && there.deployments.len() > 1 && !anyway {
            return Err(RegistryError::Refused(format!(
                "deployment {name} is the default of endpoint {}: make another one the default first (prs endpoint update \
                 --name {} --default NAME), or give --yes",
                there.name, there.name
            )));
        }
        if is_default {
            there.default_deployment = None;
        }
        there.deployments.retain(|one| one.name != name);
        Ok((Some(there.clone()), there))
    });
    Ok(deleted.await?.map(|(endpoint, _)| endpoint))
}

/// What a caller who expects anything never hears.
fn not_expected() -> Failure {
    Failure::wrong("it is not what is expected")
}

/// Does one change of an endpoint that is there, where it is what is expected, and gives the new version of its object back; nothing
/// where it is not.
async fn change(
    name: &str,
    is_expected: impl Fn(&Endpoint, &str) -> bool,
    whereabouts: &Whereabouts,
    decide: impl Fn(Endpoint) -> Result<(Option<Endpoint>, Endpoint), RegistryError>,
) -> Result<Option<(Endpoint, String)>, Failure> {
    /// What became of it.
    enum Became {
        Absent,
        Other,
        Changed(Endpoint),
    }
    let registry = open(whereabouts).await?;
    let changed = registry.change_endpoint(name, |there| match there {
        Some((endpoint, version)) if is_expected(&endpoint, version) => {
            decide(endpoint).map(|(made, told)| (made, Became::Changed(told)))
        }
        Some((endpoint, _)) => Ok((Some(endpoint), Became::Other)),
        None => Ok((None, Became::Absent)),
    });
    match changed.await.map_err(registry::failure)? {
        (Became::Changed(told), version) => Ok(Some((told, version))),
        (Became::Other, _) => Ok(None),
        (Became::Absent, _) => {
            let absent = registry.no_such_endpoint(name).await;
            Err(registry::failure(absent.unwrap_or_else(|error| error)))
        }
    }
}

fn default_to(endpoint: &mut Endpoint, file: &EndpointFile) -> Result<(), RegistryError> {
    file.default_deployment
        .as_deref()
        .map_or(Ok(()), |name| endpoint.set_default(name).map_err(RegistryError::from))
}

/// Asks `find` until it needs no name to be looked up any more.
async fn found<T>(
    names: &Names,
    whereabouts: &Whereabouts,
    find: impl Fn() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut opened = None;
    loop {
        let found = find();
        // What is said before a name is known does not count.
        if registry::look_up(names, &mut opened, whereabouts).await? {
            continue;
        }
        return found?.ok_or_else(|| Failure::wrong("it names something that prs cannot look up"));
    }
}

/// `set`, with what a command says by options.
fn with_options(set: &[(String, String)], options: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
    let given = options.iter().filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned())));
    set.iter().cloned().chain(given).collect()
}
