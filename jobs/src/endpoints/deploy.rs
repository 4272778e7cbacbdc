//! A deployment is created: its file is judged as that of a job, its model gets a version in the registry, and all that it needs
//! is packed and kept there. Then the endpoint has it, in one write.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive::is_intact;
use prs_common::job::{
    DEPLOYMENT_FILE, DeployedModel, DeploymentFile, Given, Invocation, JobText, Loaded, ModelSource, Names,
    check_model, fenced, model_source,
};
use prs_common::registry::{
    self as common, About, AssetVersion, Deployment, DeploymentKind, Endpoint, Local, NewAsset, NewSource,
    Registry, RegistryError, check_deployment_name,
};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::timestamp::now_us;
use serde_json::{Map, Value};

use super::{IfThere, found, open, with_options};
use crate::failure::Failure;
use crate::homes::registry::{failure, fetch, load};
use crate::homes::{Whereabouts, cache};
use crate::submit::code_notes;
use crate::submit::pipeline::code::pack_code;
use crate::submit::script_check::ScriptCheck;

/// Keys whose values are others in an archive.
const PACKED: [&str; 4] = ["code_configuration", "component", "environment", "job_definition"];

/// That a scoring script cannot be run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ScriptRefused(String);

/// Whether the deployment that is there, or that none is, is what a caller expects.
#[derive(Clone, Copy)]
pub struct ExpectedDeployment<'a>(pub &'a IsExpected<'a>);

/// Whether a deployment of an endpoint, or that it has none of the name, is what is expected.
pub type IsExpected<'a> = dyn Fn(&Endpoint, Option<&Deployment>) -> bool + Sync + 'a;

impl fmt::Debug for ExpectedDeployment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExpectedDeployment")
    }
}

impl ExpectedDeployment<'_> {
    fn holds(self, endpoint: &Endpoint, name: &str) -> bool {
        (self.0)(endpoint, endpoint.deployment(name).ok())
    }
}

/// A deployment that is to be created.
#[derive(Debug, Clone, Copy)]
pub struct NewDeployment<'a> {
    /// Its file.
    pub file: &'a Path,
    /// What stands in the file, where a caller sent it: no local path of it leads out of what came along.
    pub text: Option<JobText<'a>>,
    /// What is to be there; anything without it.
    pub expected: Option<ExpectedDeployment<'a>>,
    /// What replaces keys of the file.
    pub set: &'a [(String, String)],
    /// The name, in the place of that of the file.
    pub name: Option<&'a str>,
    /// The endpoint, in the place of that of the file.
    pub endpoint: Option<&'a str>,
    /// What is done where it is there already.
    pub if_there: IfThere,
    /// Whether it becomes the default.
    pub set_default: bool,
    /// Whether nobody looks whether its script can be compiled.
    pub skip_script_validation: bool,
}

/// Creates a deployment, or a new revision of one. Gives the endpoint back, and the name of the deployment.
///
/// # Errors
/// What is wrong with the file, the endpoint is not there, the deployment is, or the registry fails.
pub async fn create_deployment(
    new: &NewDeployment<'_>,
    whereabouts: &Whereabouts,
) -> Result<(Endpoint, String), Failure> {
    let made = Box::pin(create(new, None, whereabouts)).await?;
    made.map(|made| (made.endpoint, made.name)).ok_or_else(|| Failure::wrong("it is not what is expected"))
}

/// A deployment that was created.
#[derive(Debug)]
pub struct Made {
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// Its name.
    pub name: String,
    /// Whether there was none before.
    pub is_new: bool,
}

/// The same; nothing where what is there is not what is expected.
///
/// # Errors
/// As those of [`create_deployment`].
pub async fn put_deployment(
    new: &NewDeployment<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<Made>, Failure> {
    Box::pin(create(new, None, whereabouts)).await
}

/// Creates it; where it is made of `former`, what that was made of is shown as its author wrote it.
async fn create(
    new: &NewDeployment<'_>,
    former: Option<&Deployment>,
    whereabouts: &Whereabouts,
) -> Result<Option<Made>, Failure> {
    let set = with_options(new.set, &[("name", new.name), ("endpoint_name", new.endpoint)]);
    let read = match &new.text {
        Some(text) => DeploymentFile::of_text(text.text, &text.folder.join(DEPLOYMENT_FILE), &set),
        None => DeploymentFile::read(new.file, &set),
    };
    let mut read = read.map_err(Failure::usage)?;
    let missing = |key: &str, option: &str| {
        Failure::wrong(format!("the {key} is missing: give {option}, or {key}: in the file"))
    };
    let name = read.name.clone().ok_or_else(|| missing("name", "--name"))?;
    let endpoint_name = read.endpoint.clone().ok_or_else(|| missing("endpoint_name", "--endpoint-name"))?;
    check_deployment_name("a deployment", &name).map_err(Failure::wrong)?;
    let registry = open(whereabouts).await?;
    // What is refused is refused before anything is registered.
    let (endpoint, _) = registry.endpoint(&endpoint_name).await.map_err(failure)?;
    check_absent(&endpoint, &name, new.if_there).map_err(failure)?;
    if new.expected.is_some_and(|expected| !expected.holds(&endpoint, &name)) {
        return Ok(None);
    }
    let shown = former.map(|former| format!("deployment {} of endpoint {}", former.name, endpoint.name));
    if !read.is_pipeline {
        Box::pin(judge(new, &set, shown.as_deref(), whereabouts)).await?;
    }
    if let Some(model) = read.model(&whereabouts.names.anew()) {
        let registered = register(&registry, model, &read, (&endpoint_name, new.text.as_ref()), whereabouts);
        let registered = Box::pin(registered).await?;
        read.put("model", &format!("azureml:{}:{}", registered.name, registered.version));
    }
    let (content, uses) = Box::pin(pack(&registry, &read, new.text.as_ref(), whereabouts)).await?;
    let kind = if read.is_pipeline { DeploymentKind::Pipeline } else { DeploymentKind::Model };
    let made = common::NewDeployment {
        name: name.clone(),
        description: read.description.clone(),
        tags: read.tags.clone(),
        properties: read.properties.clone(),
        kind,
        settings: settings(&read, former, new.set),
        content,
        uses,
    };
    let changed = registry.change_endpoint(&endpoint_name, |there| {
        let (mut endpoint, _) = there.ok_or_else(|| {
            RegistryError::NotFound(format!("endpoint {endpoint_name} was deleted meanwhile"))
        })?;
        check_absent(&endpoint, &name, new.if_there)?;
        if new.expected.is_some_and(|expected| !expected.holds(&endpoint, &name)) {
            return Ok((Some(endpoint), None));
        }
        let is_new = endpoint.deployment(&name).is_err();
        endpoint.deploy(made.clone(), now_us());
        if new.set_default {
            endpoint.set_default(&name)?;
        }
        Ok((Some(endpoint.clone()), Some((endpoint, is_new))))
    });
    let (made, _) = changed.await.map_err(failure)?;
    Ok(made.map(|(endpoint, is_new)| Made { endpoint, name, is_new }))
}

/// Changes settings of the deployment `name` of `endpoint`, which is a new revision of it.
///
/// # Errors
/// It is not there, what is set is wrong, or the registry fails.
pub async fn change_deployment(
    endpoint: &str,
    name: &str,
    set: &[(String, String)],
    whereabouts: &Whereabouts,
) -> Result<(Endpoint, String), Failure> {
    let changed = Box::pin(patch_deployment((endpoint, name), set, &Patch::default(), whereabouts)).await?;
    changed.map(|made| (made.endpoint, made.name)).ok_or_else(|| Failure::wrong("it is not what is expected"))
}

/// How settings of a deployment are changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patch<'a> {
    /// What is to be there; anything without it.
    pub expected: Option<ExpectedDeployment<'a>>,
    /// The folders that local paths among the settings may lead into; anywhere without them.
    pub allowed: Option<&'a [PathBuf]>,
    /// Whether it becomes the default.
    pub set_default: bool,
    /// Whether nobody looks whether its script can be compiled.
    pub skip_script_validation: bool,
}

/// The same; nothing where what is there is not what is expected.
///
/// # Errors
/// As those of [`change_deployment`].
pub async fn patch_deployment(
    (endpoint, name): (&str, &str),
    set: &[(String, String)],
    patch: &Patch<'_>,
    whereabouts: &Whereabouts,
) -> Result<Option<Made>, Failure> {
    let registry = open(whereabouts).await?;
    let (there, _) = registry.endpoint(endpoint).await.map_err(failure)?;
    let deployment = there.deployment(name).map_err(Failure::not_found)?;
    let file = unpacked(&registry, deployment).await?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let text = match patch.allowed {
        Some(_) => {
            Some(std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?)
        }
        None => None,
    };
    let text = text.as_deref().zip(patch.allowed);
    let text = text.map(|(text, allowed)| JobText {
        text,
        folder,
        root: folder,
        allowed,
        sent: None,
        reach: whereabouts.reach.as_deref(),
    });
    let new = NewDeployment {
        file: &file,
        text,
        expected: patch.expected,
        set,
        name: Some(&deployment.name),
        endpoint: Some(&there.name),
        if_there: IfThere::Overwrite,
        set_default: patch.set_default,
        skip_script_validation: patch.skip_script_validation,
    };
    Box::pin(create(&new, Some(deployment), whereabouts)).await
}

/// The file of `deployment` on this machine, beside all that it needs.
pub(super) async fn unpacked(registry: &Registry, deployment: &Deployment) -> Result<PathBuf, Failure> {
    let archive = archive_of(registry, deployment).await?;
    Ok(cache::code(&archive, deployment.archive_checksum())?.join(DEPLOYMENT_FILE))
}

/// All that `deployment` needs, packed.
pub(crate) async fn archive_of(registry: &Registry, deployment: &Deployment) -> Result<Bytes, Failure> {
    let archive = registry.archive(deployment).await.map_err(failure)?;
    if !is_intact(&archive, deployment.archive_checksum()) {
        return Err(Failure::wrong(format!(
            "what deployment {} is made of is damaged in {registry}: create it again with --overwrite",
            deployment.name
        )));
    }
    Ok(archive)
}

/// What `read` says that it does; what `former` was made of and `set` leaves is as the author of that wrote it.
fn settings(
    read: &DeploymentFile,
    former: Option<&Deployment>,
    set: &[(String, String)],
) -> Map<String, Value> {
    let mut settings = read.settings();
    for key in PACKED {
        let is_set = set.iter().any(|(set, _)| set.split('.').next() == Some(key));
        let as_given = former.and_then(|former| former.settings.get(key)).filter(|_| !is_set);
        if let Some(given) = as_given {
            settings.insert(key.to_owned(), given.clone());
        }
    }
    if settings.contains_key("job_definition") {
        // The archive has its graph in that place.
        settings.remove("component");
    }
    settings
}

fn check_absent(endpoint: &Endpoint, name: &str, if_there: IfThere) -> Result<(), RegistryError> {
    match endpoint.deployment(name) {
        Ok(there) if if_there == IfThere::Refuse => Err(RegistryError::Refused(format!(
            "endpoint {} has a deployment {} already; use prs deployment update, or create --overwrite",
            endpoint.name, there.name
        ))),
        _ => Ok(()),
    }
}

/// Judges the file as that of a job, without data.
async fn judge(
    new: &NewDeployment<'_>,
    set: &[(String, String)],
    shown: Option<&str>,
    whereabouts: &Whereabouts,
) -> Result<(), Failure> {
    let (caller, runs_on) = (&*whereabouts.caller, whereabouts.runs_on());
    let invocation = Invocation { is_check: true, is_deployment: true, ..Invocation::default() };
    let names = whereabouts.names.anew();
    let given = Given {
        overrides: set,
        invocation: Some(&invocation),
        names: Some(&names),
        text: new.text,
        shown,
        ..Given::default()
    };
    let loaded = Box::pin(load(runs_on, new.file, given, whereabouts)).await?;
    let Loaded::Job(spec) = loaded else { return Ok(()) };
    for note in &spec.notes {
        caller.note(&format_args!("note: {note}"));
    }
    if new.skip_script_validation || spec.is_built_in() {
        return Ok(());
    }
    let refused = |failure: Failure| {
        if failure.is_usage() && failure.job_file().is_none() {
            Failure::usage(ScriptRefused(failure.to_string()))
        } else {
            failure
        }
    };
    if let Some(check) = ScriptCheck::start(&spec, runs_on, new.text.is_some())? {
        check.finish_strictly(caller).await.map_err(refused)?;
    }
    code_notes::check(&spec, &pack_code(&spec)?.files, caller).map_err(refused)
}

/// Registers the model that stands in the file.
async fn register(
    registry: &Registry,
    model: DeployedModel,
    read: &DeploymentFile,
    (endpoint, sent): (&str, Option<&JobText<'_>>),
    whereabouts: &Whereabouts,
) -> Result<AssetVersion, Failure> {
    let names = whereabouts.names.anew();
    let find = || {
        let find = || model_source(&model.path, read.folder(), model.kind, &names).map_err(Failure::wrong);
        within(sent, &names, find)
    };
    let scratch = scratch()?;
    let path = match found(&names, whereabouts, find).await? {
        ModelSource::Local(path) => path,
        ModelSource::Url(url) => Box::pin(fetch(&url, scratch.path(), whereabouts)).await?,
    };
    let flavors = check_model(&path, model.kind).map_err(Failure::wrong)?;
    let DeployedModel { name, version, kind, path: given, description, tags } = model;
    // Where it was sent to says nothing.
    let given = match sent {
        Some(_) => given.rsplit('/').next().unwrap_or_default().to_owned(),
        None => given,
    };
    let deployment = read.name.as_deref().unwrap_or_default();
    let name = name.unwrap_or_else(|| format!("{endpoint}-{deployment}"));
    let source = NewSource::Local(Local { keeps_name: path.is_dir(), path });
    let about = About { description, tags, flavors, ..About::default() };
    let new = NewAsset { name, version, kind, source, given, about, created_by: None, uses: Vec::new() };
    let (made, _) = registry.create_once(&new, &|_| {}).await.map_err(failure)?;
    whereabouts.caller.note(&format_args!("the model is azureml:{}:{}", made.name, made.version));
    Ok(made)
}

/// Packs the deployment, and brings it into the registry; tells what of that it uses.
async fn pack(
    registry: &Registry,
    read: &DeploymentFile,
    sent: Option<&JobText<'_>>,
    whereabouts: &Whereabouts,
) -> Result<(common::Content, Vec<common::Use>), Failure> {
    let (names, scratch) = (whereabouts.names.anew(), scratch()?);
    let stage = || within(sent, &names, || read.stage(&names, scratch.path()).map_err(Failure::usage));
    let staged = found(&names, whereabouts, stage).await?;
    for note in &staged.notes {
        whereabouts.caller.note(&format_args!("note: {note}"));
    }
    let local = Local { path: staged.archive, keeps_name: false };
    let content = registry.bring(&local, &|_| {}).await.map_err(failure)?;
    Ok((content, staged.uses))
}

/// Does `read`, where no local path of what was `sent` leads elsewhere than it may.
fn within<T>(
    sent: Option<&JobText<'_>>,
    names: &Names,
    read: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(sent) = sent else { return read() };
    let folders = [&[sent.folder.to_owned()], sent.allowed, &names.folders()].concat();
    let mut done = None;
    fenced(&folders, || {
        done = Some(read());
        Ok(())
    })
    .map_err(Failure::usage)?;
    done.unwrap_or_else(|| Err(Failure::wrong("it was not read")))
}

fn scratch() -> Result<TemporaryFolder, Failure> {
    let made = TemporaryFolder::make("prs-deploy-").context("cannot make a temporary folder");
    made.map_err(Failure::usage)
}
