//! Names in a job file that stand for something elsewhere (dialects, "References"): what is registered, outputs of jobs, paths
//! in datastores, what the configuration maps, and computes.
//!
//! They are put in their place in the document itself, before it is lifted: one way for all forms of job files, and for the
//! files `MLTable` and the components that these name. Reading a file opens no connection. The command that reads it takes
//! the names that are [not known yet](Names::take_asked), looks them up, [tells](Names::tell) what they stand for, and reads
//! the file again. So a name is resolved once, when a job is submitted, and the job keeps what it stood for then.

mod reference;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::fence;
use super::near_name::few;
use super::yaml::{self, Key, Node, Value};
use crate::dataset::http_url::shown;
use crate::dataset::remote::is_remote;
use crate::registry::{AssetVersion, Kind, Use};
use crate::temporary_folder::TemporaryFolder;
use reference::Reference;
use reference::compute_name;
pub use reference::{AssetRef, OutputRef};

/// The datastore that is the storage of a fleet where the configuration says nothing of it.
const OF_WORKSPACE: &str = "workspaceblobstore";
/// Mappings that lead to one another.
const DEEPEST: usize = 8;
/// Keys below which nothing is a reference.
const NOT_LOOKED_AT: [&str; 9] = [
    "arguments",
    "command",
    "description",
    "environment_variables",
    "output_dataset",
    "outputs",
    "program_arguments",
    "properties",
    "tags",
];
/// What is said of a reference that stays where a path is to be.
const CONSEQUENCE: &str = "is not supported yet";
/// Keys that a place may have above it where it is told a second time: `jobs`, a step, and those of components.
const PLACES_ABOVE: usize = 8;
/// Types of inputs that are values.
const VALUES: [&str; 5] = ["string", "boolean", "integer", "number", "float"];
/// Types of inputs that a registry of models has.
const MODELS: [&str; 3] = ["custom_model", "mlflow_model", "triton_model"];

/// What the configuration says that names stand for. Paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredNames {
    /// References, whole or up to a `*` at the end, and what they stand for.
    pub references: Vec<(String, String)>,
    /// Datastores: an `s3://` URL or a folder, without a `/` at the end.
    pub datastores: BTreeMap<String, String>,
    /// Computes, and the fleets that they are.
    pub computes: BTreeMap<String, String>,
}

/// What a job uses that is registered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedAsset {
    /// What it is.
    #[serde(default)]
    pub kind: Kind,
    /// What the job file says.
    pub given: String,
    /// The name.
    pub name: String,
    /// The version that was meant when the job was submitted.
    pub version: String,
    /// Where that is.
    pub path: String,
    /// Whether it is the model of the job, which scripts may ask for by the name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_model: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What has to be looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Something registered. Of an environment its document is wanted, of a component its file on this machine.
    Asset(AssetRef),
    /// Where an output of a job is.
    Output(OutputRef),
    /// The text of a file `MLTable` at an `s3://` URL.
    Table(String),
    /// The graph of the pipeline job with this id, as the file of a component on this machine.
    Graph(String),
    /// What a model of `MLflow` at an `s3://` URL says of itself.
    MlModel(String),
}

/// What was found.
#[derive(Debug, Clone)]
pub enum Found {
    /// A version of data, or of a model.
    Asset(Box<AssetVersion>),
    /// A version of an environment, and its document.
    Environment(Box<AssetVersion>, String),
    /// A version of a component, and its file on this machine.
    Component(Box<AssetVersion>, PathBuf),
    /// A path, or a URL.
    Path(String),
    /// The text of a file.
    Text(String),
    /// The graph of a job: the file of a component on this machine.
    Graph(PathBuf),
    /// The file `MLmodel` of a model, and those beside it that say which packages it needs.
    MlModel(Arc<TemporaryFolder>),
}

/// Something registered that is used.
#[derive(Debug, Clone)]
struct Used {
    asset: NamedAsset,
    version: AssetVersion,
    /// What the settings of a job that uses it have in them.
    mark: String,
}

/// What names stand for while a job file is read. Cheap to clone; clones are the same, and remember what was looked up:
/// another call begins [anew](Self::anew).
#[derive(Debug, Clone, Default)]
pub struct Names {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    configured: ConfiguredNames,
    /// URL of the storage of the fleet.
    storage: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    found: BTreeMap<Asked, Result<Found, String>>,
    asked: BTreeSet<Asked>,
    used: Vec<Used>,
    /// The entries of `used`, by asset and mark.
    noted: HashSet<(NamedAsset, String)>,
    wrong: Vec<Problem>,
}

impl Names {
    /// What the configuration says; `storage` is the URL of the storage of the fleet that the job is for.
    pub fn new(configured: ConfiguredNames, storage: Option<String>) -> Self {
        let inner = Inner { configured, storage, state: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The same names, for reading another file: nothing is looked up yet, and nobody else reads with them.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(self.inner.configured.clone(), self.inner.storage.clone())
    }

    /// What has to be looked up, each once.
    pub fn take_asked(&self) -> Vec<Asked> {
        let mut state = self.state();
        let asked = std::mem::take(&mut state.asked);
        asked.into_iter().filter(|asked| !state.found.contains_key(asked)).collect()
    }

    /// URLs of places that the configuration gives names.
    pub fn configured_places(&self) -> impl Iterator<Item = String> {
        let ConfiguredNames { references, datastores, .. } = &self.inner.configured;
        let places = references.iter().map(|(_, to)| to).chain(datastores.values());
        let urls = places.map(|place| place.trim_end_matches('*')).filter(|place| is_remote(place));
        urls.map(str::to_owned)
    }

    /// Whether something has to be looked up.
    pub(super) fn is_asked(&self) -> bool {
        let state = self.state();
        state.asked.iter().any(|asked| !state.found.contains_key(asked))
    }

    /// Takes what was found, or why nothing was.
    pub fn tell(&self, asked: Asked, found: Result<Found, String>) {
        self.state().found.insert(asked, found);
    }

    /// The text of the file `MLTable` at `url`; nothing where it is to be looked up first.
    pub(super) fn table(&self, url: &str) -> Option<Result<String, String>> {
        match self.find(Asked::Table(url.to_owned()))? {
            Ok(Found::Text(text)) => Some(Ok(text)),
            Ok(_) => None,
            Err(message) => Some(Err(message)),
        }
    }

    /// The file of the graph of a job; nothing where it is to be looked up first.
    pub(super) fn graph(&self, job: &str) -> Option<Result<PathBuf, String>> {
        match self.find(Asked::Graph(job.to_owned()))? {
            Ok(Found::Graph(file)) => Some(Ok(file)),
            Ok(_) => None,
            Err(message) => Some(Err(message)),
        }
    }

    /// A folder of this machine with what the model at `url` says of itself; nothing where it is to be looked up first.
    pub(super) fn mlmodel(&self, url: &str) -> Option<Result<Arc<TemporaryFolder>, String>> {
        match self.find(Asked::MlModel(url.to_owned()))? {
            Ok(Found::MlModel(folder)) => Some(Ok(folder)),
            Ok(_) => None,
            Err(message) => Some(Err(message)),
        }
    }

    /// Whether `text` names a version of something registered.
    pub(super) fn names_version(&self, text: &str) -> bool {
        matches!(Reference::parse(&self.mapped_text(text)), Some(Ok(Reference::Asset { .. })))
    }

    /// The file of the registered component that `text` names; nothing where it is not known.
    pub(super) fn component(&self, text: &str) -> Option<PathBuf> {
        let text = self.mapped_text(text);
        let Reference::Asset { name, which, .. } = Reference::parse(&text)?.ok()? else { return None };
        match self.find(Asked::Asset(AssetRef { kind: Kind::Component, name, which }))? {
            Ok(Found::Component(_, file)) => Some(file),
            _ => None,
        }
    }

    /// What is known of `asked`, which is asked for where nothing is.
    fn find(&self, asked: Asked) -> Option<Result<Found, String>> {
        let mut state = self.state();
        let found = state.found.get(&asked).cloned();
        if found.is_none() {
            state.asked.insert(asked);
        }
        found
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what a former reading found wrong.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.wrong.clear();
        state.used.clear();
        state.noted.clear();
    }

    /// Does `read`, which reads another file, whose problems are told apart from those of this one.
    pub(super) fn in_another_file<T>(&self, read: impl FnOnce() -> T) -> T {
        let outer = std::mem::take(&mut self.state().wrong);
        let done = read();
        self.state().wrong = outer;
        done
    }

    /// Puts what is wrong with references in the place of what was then said of them. A step of a pipeline is looked at with
    /// the whole and again by itself, where its keys have no place before them: what is wrong with it is told once.
    pub(super) fn replace_problems(&self, problems: &mut Vec<Problem>) {
        let mut wrong: Vec<Problem> = Vec::new();
        let mut told: HashSet<Problem> = HashSet::new();
        for problem in std::mem::take(&mut self.state().wrong) {
            let Problem { key, line, message } = &problem;
            let key = key.trim_start_matches("--set ");
            let as_key = |key: &str| Problem { key: key.to_owned(), line: *line, message: message.clone() };
            if !told.contains(&as_key(key)) {
                let behind = key.match_indices('.').map(|(dot, _)| &key[dot + 1..]).take(PLACES_ABOVE);
                told.extend([key].into_iter().chain(behind).map(as_key));
                wrong.push(problem);
            }
        }
        let lines: HashSet<Option<usize>> = wrong.iter().map(|wrong| wrong.line).collect();
        let is_explained =
            |problem: &Problem| problem.message.contains(CONSEQUENCE) && lines.contains(&problem.line);
        problems.retain(|problem| !is_explained(problem));
        let present: HashSet<Problem> = problems.iter().cloned().collect();
        problems.extend(wrong.into_iter().filter(|problem| !present.contains(problem)));
    }

    /// What is registered and in `settings`, as they are stored.
    pub(super) fn used_in(&self, settings: &str) -> Vec<NamedAsset> {
        let mut used: Vec<NamedAsset> = Vec::new();
        for Used { asset, mark, .. } in &self.state().used {
            let mark = serde_json::to_string(mark).unwrap_or_default();
            if settings.contains(mark.trim_matches('"').trim_end_matches('/')) && !used.contains(asset) {
                used.push(asset.clone());
            }
        }
        used
    }

    /// All that is registered and used.
    pub(super) fn used(&self) -> Vec<NamedAsset> {
        let mut used: Vec<NamedAsset> = Vec::new();
        for Used { asset, .. } in &self.state().used {
            if !used.contains(asset) {
                used.push(asset.clone());
            }
        }
        used
    }

    /// The versions of what is registered that were looked up, each once.
    pub fn uses(&self) -> Vec<Use> {
        let state = self.state();
        let of = |found: &Result<Found, String>| match found {
            Ok(Found::Asset(one) | Found::Environment(one, _) | Found::Component(one, _)) => {
                Some(Use::of(one))
            }
            _ => None,
        };
        let mut uses: Vec<Use> = state.found.values().filter_map(of).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// What the registered component, or the graph of a job, in `file` is called.
    pub(super) fn component_in(&self, file: &Path) -> Option<String> {
        let folder = file.parent()?.to_str()?;
        let state = self.state();
        let graph = state.found.iter().find_map(|(asked, found)| match (asked, found) {
            (Asked::Graph(job), Ok(Found::Graph(graph))) if graph == file => Some(format!("job {job}")),
            _ => None,
        });
        if graph.is_some() {
            return graph;
        }
        let is_it = |one: &&Used| one.asset.kind == Kind::Component && one.mark == folder;
        state
            .used
            .iter()
            .find(is_it)
            .map(|Used { asset, .. }| format!("azureml:{}:{}", asset.name, asset.version))
    }

    /// Folders of this machine with what was looked up: registered components, graphs of jobs and what models say of themselves, and
    /// registered data and models whose files the registry has.
    pub fn folders(&self) -> Vec<PathBuf> {
        let state = self.state();
        let folder = |found: &Result<Found, String>| match found {
            Ok(Found::Component(_, file) | Found::Graph(file)) => file.parent().map(Path::to_owned),
            Ok(Found::MlModel(folder)) => Some(folder.path().to_owned()),
            Ok(Found::Asset(version)) if version.content.is_some() && !version.path.contains("://") => {
                Some(PathBuf::from(&version.path))
            }
            // What a job of this machine brought.
            Ok(Found::Path(path)) if !path.contains("://") => Some(PathBuf::from(path)),
            _ => None,
        };
        state.found.values().filter_map(folder).collect()
    }

    /// The registered model that `path` is, as it stands for its name.
    pub(super) fn model_at(&self, path: &str) -> Option<AssetVersion> {
        let state = self.state();
        let at = |one: &&Used| one.asset.kind == Kind::Model && one.asset.path == path;
        state.used.iter().find(at).map(|one| one.version.clone())
    }

    /// The same reference with the version that it means now; nothing where `text` names nothing that is registered, no
    /// message where it is to be looked up first.
    pub(super) fn pin(&self, text: &str, kind: Kind) -> Option<Result<String, Option<String>>> {
        let text = self.mapped_text(text.trim());
        let Reference::Asset { kind: said, name, which } = Reference::parse(&text)?.ok()? else {
            return None;
        };
        if let Err(message) = agree(&text, said, kind) {
            return Some(Err(Some(message)));
        }
        let kind = said.unwrap_or(kind);
        Some(match self.find(Asked::Asset(AssetRef { kind, name, which })) {
            Some(Ok(Found::Asset(found) | Found::Environment(found, _) | Found::Component(found, _))) => {
                Ok(match said {
                    Some(Kind::Model) => {
                        format!("azureml://models/{}/versions/{}", found.name, found.version)
                    }
                    _ => format!("azureml:{}:{}", found.name, found.version),
                })
            }
            Some(Ok(_)) | None => Err(None),
            Some(Err(message)) => Err(Some(message)),
        })
    }

    /// `text`, or what the configuration says of it.
    pub(super) fn mapped_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..DEEPEST {
            let Some(mapped) = self.map(&text) else { break };
            text = mapped;
        }
        text
    }

    /// The fleet that `compute` is, where the configuration says it.
    fn target(&self, compute: &str) -> Option<&String> {
        let computes = &self.inner.configured.computes;
        computes.get(compute.trim()).or_else(|| computes.get(compute_name(compute)))
    }

    /// Puts what references in `document` stand for in their place.
    pub(super) fn resolve(&self, document: &mut Node) {
        self.walk(document, "", None);
    }

    /// What `value` stands for as the value of the native key `key`.
    pub(super) fn resolved(&self, key: &str, value: Node) -> Node {
        let name = Key { name: key.to_owned(), line: 1 };
        let mut document = Node { line: None, value: Value::Mapping(vec![(name, value)]) };
        self.resolve(&mut document);
        match document.value {
            Value::Mapping(mut entries) if !entries.is_empty() => entries.remove(0).1,
            _ => document,
        }
    }

    /// Puts what the path in `node`, the value of an option of the command line, stands for in its place; gives the type of
    /// registered data.
    pub(super) fn option(&self, option: &str, node: &mut Node) -> Option<&'static str> {
        self.data(node, option, false).map(|data| data.kind.as_str())
    }

    /// Looks at `node`, the value of the key `of`; nothing where that is the name that its author gave something.
    fn walk(&self, node: &mut Node, place: &str, of: Option<&str>) {
        match &mut node.value {
            Value::Sequence(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.walk(item, &format!("{place}[{index}]"), None);
                }
            }
            Value::Mapping(entries) => match of {
                Some("inputs" | "jobs") => self.walk_named(entries, place),
                Some("side_inputs") => {
                    self.walk_named(entries, place);
                    for (key, value) in entries.iter_mut().filter(|(_, value)| value.as_text().is_some()) {
                        self.data(value, &format!("{place}.{}", key.name), false);
                    }
                }
                _ => self.walk_keys(entries, place, of == Some("model")),
            },
            Value::Null | Value::Scalar { .. } => {}
        }
    }

    /// Looks at what an author gave names to.
    fn walk_named(&self, entries: &mut [(Key, Node)], place: &str) {
        for (key, value) in entries {
            self.walk(value, &format!("{place}.{}", key.name), None);
        }
    }

    fn walk_keys(&self, entries: &mut Vec<(Key, Node)>, place: &str, is_model: bool) {
        let kind = entries.iter().find(|(key, _)| key.name == "type");
        let kind = kind.and_then(|(_, value)| Some(value.as_text()?.trim().to_ascii_lowercase()));
        let is_of = |words: &[&str]| kind.as_deref().is_some_and(|kind| words.contains(&kind));
        let (is_value, is_model) = (is_of(&VALUES), is_of(&MODELS) || is_model);
        let mut found = None;
        for (key, value) in entries.iter_mut() {
            let at = if place.is_empty() { key.name.clone() } else { format!("{place}.{}", key.name) };
            match (&*key.name, &value.value) {
                (name, _) if NOT_LOOKED_AT.contains(&name) => {}
                ("path" | "default", Value::Scalar { .. }) => {
                    if !is_value {
                        found = self.data(value, &at, is_model).or(found);
                    }
                }
                ("paths", Value::Sequence(_)) => self.paths(value, &at),
                ("model", Value::Scalar { .. }) => drop(self.data(value, &at, true)),
                ("environment", Value::Scalar { .. }) => self.document(value, &at, Kind::Environment),
                ("component", Value::Scalar { .. }) => self.document(value, &at, Kind::Component),
                (
                    "compute" | "default_compute" | "compute_target" | "compute_target_name",
                    Value::Scalar { text, .. },
                ) => {
                    if let Some(target) = self.target(text) {
                        *value = Node::text(target, None);
                    }
                }
                _ => self.walk(value, &at, Some(&key.name)),
            }
        }
        // An input of Azure that says no type is of that of its data.
        if let Some(found) = found.filter(|_| kind.is_none() && is_input_of_azure(place)) {
            let line = entries.first().map_or(1, |(key, _)| key.line);
            entries
                .push((Key { name: "type".to_owned(), line }, Node::text(found.kind.as_str(), Some(line))));
        }
    }

    /// The list under `paths`, whose items are paths, or mappings of one as a file `MLTable` has them.
    fn paths(&self, list: &mut Node, place: &str) {
        let Value::Sequence(items) = &mut list.value else { return };
        for (index, item) in items.iter_mut().enumerate() {
            let at = format!("{place}[{index}]");
            match &mut item.value {
                Value::Scalar { .. } => drop(self.data(item, &at, false)),
                Value::Mapping(entries) => {
                    for (key, value) in entries {
                        self.data(value, &format!("{at}.{}", key.name), false);
                    }
                }
                Value::Null | Value::Sequence(_) => {}
            }
        }
    }

    /// Puts what the environment, or the component, in `node` stands for in its place: of a registered environment all that it
    /// says, of a registered component its file.
    fn document(&self, node: &mut Node, place: &str, kind: Kind) {
        let Some(given) = node.as_text().map(|text| text.trim().to_owned()) else { return };
        if given.contains("${{") {
            return;
        }
        let text = self.mapped_text(&given);
        let found = match Reference::parse(&text) {
            Some(Ok(Reference::Asset { kind: said, name, which })) => match agree(&text, said, kind) {
                Ok(()) => self.find(Asked::Asset(AssetRef { kind, name, which })),
                Err(message) => Some(Err(message)),
            },
            Some(Ok(Reference::OfAzure { registry })) if kind == Kind::Environment => Some(Err(format!(
                "{text} is an environment in Azure's registry {registry}, which prs does not read: name a conda or requirements \
                 file, register one (prs environment create -f FILE) and give azureml:NAME:VERSION, or map it in references: of \
                 the configuration (prs.yaml)"
            ))),
            // Another text is judged where it is read.
            Some(Err(message)) => Some(Err(message)),
            _ => None,
        };
        match found {
            Some(Ok(Found::Environment(version, document))) => {
                let from = format!("azureml:{}:{}", version.name, version.version);
                match environment_of(&document, &from, node.line) {
                    Ok(made) => {
                        *node = made;
                        self.note_use(given, &version, from);
                    }
                    Err(message) => self.wrong(node, place, format!("{given} is damaged: {message}")),
                }
            }
            Some(Ok(Found::Component(version, file))) => {
                *node = Node::text(file.to_string_lossy(), node.line);
                // What a job has of it is its code.
                let folder = file.parent().map(|folder| folder.to_string_lossy().into_owned());
                self.note_use(given, &version, folder.unwrap_or_default());
            }
            Some(Err(message)) => self.wrong(node, place, message),
            Some(Ok(_)) | None if text != given => *node = Node::text(text, node.line),
            Some(Ok(_)) | None => {}
        }
    }

    fn note_use(&self, given: String, version: &AssetVersion, mark: String) {
        let AssetVersion { name, version: number, path, kind, .. } = version;
        // It is shown, and a URL may hold a password.
        let (name, number, path) = (name.clone(), number.clone(), shown(path).into_owned());
        let asset = NamedAsset { kind: kind.kind(), given, name, version: number, path, is_model: false };
        let mut state = self.state();
        if state.noted.insert((asset.clone(), mark.clone())) {
            state.used.push(Used { asset, version: version.clone(), mark });
        }
    }

    fn wrong(&self, node: &Node, place: &str, message: String) {
        let is_set = node.line.is_none() && !place.starts_with("--");
        let key = if is_set { format!("--set {place}") } else { place.to_owned() };
        self.state().wrong.push(Problem { key, line: node.line, message });
    }

    /// What the configuration says of `text`.
    fn map(&self, text: &str) -> Option<String> {
        let references = &self.inner.configured.references;
        let exact = references.iter().find(|(from, _)| from == text).map(|(_, to)| to.clone());
        exact.or_else(|| {
            let fits = |from: &str| text.strip_prefix(from.strip_suffix('*')?).map(str::to_owned);
            let longest = references.iter().filter(|(from, _)| fits(from).is_some());
            let (from, to) = longest.max_by_key(|(from, _)| from.len())?;
            let rest = fits(from)?;
            Some(to.strip_suffix('*').map_or_else(|| to.clone(), |to| format!("{to}{rest}")))
        })
    }

    /// Puts what the path in `node` stands for in its place; gives what is registered that it names.
    fn data(&self, node: &mut Node, place: &str, is_model: bool) -> Option<AssetVersion> {
        let given = node.as_text()?.trim().to_owned();
        if given.contains("${{") {
            return None;
        }
        let text = self.mapped_text(&given);
        match self.look(&text, is_model) {
            None if text == given => None,
            None => {
                *node = Node::text(text, node.line);
                None
            }
            Some(Ok(Stands::For(path))) => {
                *node = Node::text(path, node.line);
                None
            }
            Some(Ok(Stands::ForAsset(version))) => {
                *node = Node::text(&*version.path, node.line);
                self.note_use(given, &version, version.path.clone());
                Some(*version)
            }
            Some(Err(None)) => None,
            Some(Err(Some(message))) => {
                self.wrong(node, place, message);
                None
            }
        }
    }

    /// What the reference `text` stands for: nothing where it is none, no message where it is to be looked up first.
    fn look(&self, text: &str, is_model: bool) -> Option<Result<Stands, Option<String>>> {
        let refuse = |message: String| Some(Err(Some(message)));
        match Reference::parse(text)? {
            Err(message) => refuse(message),
            Ok(Reference::Datastore { name, path }) => {
                Some(self.in_datastore(name, path).map(Stands::For).map_err(Some))
            }
            Ok(Reference::OfAzure { registry }) => refuse(format!(
                "{text} is in Azure's registry {registry}: map it in references: of the configuration (prs.yaml)"
            )),
            Ok(Reference::Store(scheme)) => refuse(format!(
                "{scheme}:// is a store of Azure, which prs does not read: copy the data to s3:// or a folder, and give \
                 that, or map it in references: of the configuration (prs.yaml)"
            )),
            Ok(Reference::Other(kind)) => refuse(format!(
                "{kind} of a registry are not supported yet: give a path, or map it in references: of the configuration \
                 (prs.yaml)"
            )),
            Ok(Reference::JobOutput(asked)) => Some(match self.find(Asked::Output(asked)) {
                Some(Ok(Found::Path(path))) => Ok(Stands::For(path)),
                Some(Ok(_)) | None => Err(None),
                Some(Err(message)) => Err(Some(message)),
            }),
            Ok(Reference::Asset { kind: said, name, which }) => {
                let kind = if is_model { Kind::Model } else { Kind::Data };
                // A model may be an input as data is.
                if said != Some(Kind::Model)
                    && let Err(message) = agree(text, said, kind)
                {
                    return refuse(message);
                }
                let kind = said.unwrap_or(kind);
                Some(match self.find(Asked::Asset(AssetRef { kind, name, which })) {
                    Some(Ok(Found::Asset(found))) => Ok(Stands::ForAsset(found)),
                    Some(Ok(_)) | None => Err(None),
                    Some(Err(message)) => Err(Some(message)),
                })
            }
        }
    }

    /// Where the place `text` of an output is, where the configuration says that: in a datastore, or by a reference. A folder of this
    /// machine is none for who may not look around on it.
    pub(super) fn place_of_output(&self, text: &str) -> Option<String> {
        let text = text.trim();
        let mapped = self.mapped_text(text);
        let place = match Reference::parse(&mapped) {
            Some(Ok(Reference::Datastore { name, path })) => {
                self.inner.configured.datastores.get(name)?;
                self.in_datastore(name, path).ok()?
            }
            _ if mapped == text => return None,
            _ => mapped,
        };
        (is_remote(&place) || !fence::is_up()).then_some(place)
    }

    /// Where `path` of a datastore is.
    fn in_datastore(&self, name: &str, path: &str) -> Result<String, String> {
        let Inner { configured, storage, .. } = &*self.inner;
        let datastores = &configured.datastores;
        let of_storage = || {
            let url = storage.as_deref().filter(|_| name == OF_WORKSPACE)?.trim_end_matches('/');
            Some(format!("{}/data", url.strip_prefix("file://").unwrap_or(url)))
        };
        let base = datastores.get(name).cloned().or_else(of_storage).ok_or_else(|| {
            let known = few(datastores.keys().map(String::as_str));
            let there_are = match known.nearest(name) {
                Some(near) => format!("did you mean {near}? Else "),
                None if known.is_empty() => String::new(),
                None => format!("there are: {known}; else "),
            };
            format!(
                "the datastore {name} is not known: {there_are}say where it is under datastores: of the configuration \
                 (prs.yaml), as in `datastores: {{{name}: s3://bucket/prefix}}`"
            )
        })?;
        if path.split('/').any(|part| part == "..") {
            return Err("the path leads out of the datastore with `..`".to_owned());
        }
        Ok(if path.is_empty() { format!("{base}/") } else { format!("{base}/{path}") })
    }
}

/// What a path stands for.
enum Stands {
    For(String),
    ForAsset(Box<AssetVersion>),
}

/// Refuses `text`, which says that it names what is of another kind than `wanted`.
fn agree(text: &str, said: Option<Kind>, wanted: Kind) -> Result<(), String> {
    match said {
        Some(said) if said != wanted => {
            Err(format!("{text} is {}, and {} is wanted here: name one", said.one(), wanted.one()))
        }
        _ => Ok(()),
    }
}

/// The mapping that the document of a registered environment is, which says that it is `from` there.
fn environment_of(document: &str, from: &str, line: Option<usize>) -> Result<Node, String> {
    let mut node = yaml::parse(document).map_err(|error| error.message)?;
    set_line(&mut node, line);
    if let Value::Mapping(entries) = &mut node.value
        && entries.iter().any(|(key, _)| key.name == "requirements")
    {
        let key = Key { name: "from".to_owned(), line: line.unwrap_or(1) };
        entries.push((key, Node::text(from, line)));
    }
    Ok(node)
}

fn set_line(node: &mut Node, line: Option<usize>) {
    node.line = line;
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| set_line(item, line)),
        Value::Mapping(entries) => {
            for (key, value) in entries {
                key.line = line.unwrap_or(1);
                set_line(value, line);
            }
        }
        Value::Null | Value::Scalar { .. } => {}
    }
}

/// Whether the mapping at `place` is an input in a form of Azure: an entry of the mapping `inputs`.
fn is_input_of_azure(place: &str) -> bool {
    let above = place.rsplit_once('.').map(|(above, _)| above);
    above.is_some_and(|above| above == "inputs" || above.ends_with(".inputs"))
}

#[cfg(test)]
mod tests;
