//! A job file that is no file: a text, what came with it, and what the one who hands it in calls the job.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::elsewhere;
use super::error::{JobFileError, Problem};
use super::fence::{self, LedTo, Outside, Purpose};
use super::inputs;
use super::names::Names;
use super::near_name::few;
use super::validate::check_name;
use super::yaml::{self, Key, Node, Value};
use super::{Deployed, JobSpec, Loaded, Origin, RunsOn, Submitter};
use crate::dataset::input::{InputMode, InputSource};
use crate::storage::Reach;

/// What messages call it.
pub(super) const SHOWN: &str = "job file";

/// What gave the words that a job is called by beside its text.
const AT_HAND_IN: &str = "said when it was handed in";

/// The text of a job file, in any form that a file may have.
#[derive(Debug, Clone, Copy)]
pub struct JobText<'a> {
    /// The text.
    pub text: &'a str,
    /// The folder that relative paths in it begin in: what came with it, such as its code, or a folder in that. Absolute.
    pub folder: &'a Path,
    /// The folder of all that came with it. Absolute.
    pub root: &'a Path,
    /// Further folders that its local paths may lead into. Every path that leads elsewhere is refused, but for that of an
    /// interpreter, which is one of the hosts that run the job.
    pub allowed: &'a [PathBuf],
    /// Files and folders that came along for its inputs and side inputs, by the names of these: each takes the place of what the
    /// text has there. Absolute.
    pub sent: Option<&'a BTreeMap<String, PathBuf>>,
    /// The places elsewhere that it may use; all without it.
    pub reach: Option<&'a Reach>,
}

/// A path of the machine of who wrote a text, which the text leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalPath {
    /// From the folder that relative paths begin in, empty for that itself; or absolute. What stands in it may be a pattern.
    pub path: PathBuf,
    /// The key, with its place, that has it; empty where it is not known.
    pub key: String,
    /// Line of that, from 1.
    pub line: Option<usize>,
    /// The input, or side input, whose path it is.
    pub input: Option<String>,
    /// Whether it is a folder of code, of which what the rules of [`crate::code`] leave is packed.
    pub is_code: bool,
}

/// What a job is called, whatever its text says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Called {
    /// The name, in the place of its own.
    pub name: Option<String>,
    /// The name for people, in the place of its own.
    pub display_name: Option<String>,
    /// Tags, beside its own; one of its own of the same name gives way.
    pub tags: BTreeMap<String, String>,
    /// The deployment that is called.
    pub deployed: Option<Deployed>,
    /// Who hands it in.
    #[serde(default)]
    pub submitted_by: Option<Submitter>,
}

impl JobText<'_> {
    /// Where it would stand if it were a file.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("job.yml")
    }

    /// Reads it within its folders. No message names these.
    pub(super) fn load(
        &self,
        runs_on: RunsOn,
        names: Option<&Names>,
        read: impl FnOnce() -> Result<Loaded, JobFileError>,
    ) -> Result<Loaded, JobFileError> {
        let mut folders = vec![self.root.to_owned()];
        folders.extend(self.allowed.iter().cloned());
        folders.extend(self.sent.into_iter().flat_map(BTreeMap::values).cloned());
        folders.extend(names.map(Names::folders).unwrap_or_default());
        let (loaded, outside) = fence::around(&folders, || {
            let mut loaded = read();
            if let Ok(loaded) = &mut loaded {
                pass_places(loaded);
            }
            loaded
        });
        let problems = if outside.is_empty() {
            match loaded {
                Ok(mut loaded) => {
                    let mut wrong =
                        if runs_on == RunsOn::Workers { self.stays_here(&mut loaded) } else { Vec::new() };
                    if let Some(reach) = self.reach {
                        let document = yaml::parse(self.text).ok();
                        wrong.extend(elsewhere::problems(&mut loaded, reach, document.as_ref()));
                        loaded.each_spec(|spec| spec.reach = Some(Box::new(reach.clone())));
                    }
                    if wrong.is_empty() {
                        return Ok(self.without_folder(loaded));
                    }
                    wrong
                }
                Err(error) => error.problems,
            }
        } else {
            self.refusals(&outside)
        };
        let problems = problems.into_iter().map(|problem| Problem {
            key: self.shown(&problem.key),
            message: self.shown(&problem.message),
            ..problem
        });
        let problems = problems.collect();
        Err(JobFileError { path: SHOWN.into(), problems, leads_outside: !outside.is_empty() })
    }

    /// The local paths that it leads to: those that are to come along, but for what is in the folders that are allowed. `read` reads it, and
    /// is told of as far as it came: a component that is not there leads to nothing.
    pub(super) fn local_paths<T>(&self, read: impl FnOnce() -> T) -> Vec<LocalPath> {
        let mut document = yaml::parse(self.text).ok();
        let inputs = document.as_mut().map(places_of_inputs).unwrap_or_default();
        let is_sent = |one: &&LedTo| {
            one.purpose != Purpose::Output
                && !self.allowed.iter().any(|allowed| one.path.starts_with(allowed))
        };
        let led_to = fence::led_to(&[self.root.to_owned()], read);
        let given = led_to.iter().map(|one| &*one.given).filter(|given| !given.is_empty());
        let places = Places::of(document.as_ref(), given);
        let local_path = |one: &LedTo| {
            let (key, line) = places.get(&one.given).unwrap_or_default();
            let path = one.path.strip_prefix(self.folder).map_or(one.path.clone(), Path::to_owned);
            let input = inputs.get(key.strip_suffix(".path").unwrap_or(&key)).or_else(|| inputs.get(&key));
            LocalPath { path, input: input.cloned(), key, line, is_code: one.purpose == Purpose::Code }
        };
        led_to.iter().filter(is_sent).map(local_path).collect()
    }

    /// Puts what was sent in the place of the paths in `document`.
    pub(super) fn put_sent(&self, document: &mut Node, problems: &mut Vec<Problem>) {
        let Some(sent) = self.sent else { return };
        let mut names = BTreeSet::new();
        for key in ["inputs", "side_inputs"] {
            let Some(node) = document.get_mut(key) else { continue };
            for (own, input) in inputs_in(key, node) {
                if let Some(path) = sent.get(&own) {
                    put_path(input, path);
                }
                names.insert(own);
            }
        }
        let there = few(names.iter().map(String::as_str));
        for name in sent.keys().filter(|name| !names.contains(*name)) {
            let message =
                format!("{name} was sent, and no input of the job is called so; there are: {there}");
            problems.push(Problem { key: "inputs".to_owned(), line: None, message });
        }
    }

    /// What is said of inputs that workers are to find under the same path: what came with the text is on this machine alone.
    fn stays_here(&self, loaded: &mut Loaded) -> Vec<Problem> {
        let is_there = |path: &Path| self.allowed.iter().any(|allowed| path.starts_with(allowed));
        let stays = |mode: InputMode, source: &InputSource| match source {
            InputSource::Paths(paths) => {
                mode == InputMode::Direct && !paths.iter().all(|path| is_there(Path::new(path)))
            }
            _ => false,
        };
        let mut names: Vec<String> = Vec::new();
        loaded.each_spec(|spec| {
            let inputs = spec.inputs.iter().map(|input| (input.mode, &input.source, &*input.name));
            let side = spec.with_model().map(|side| (side.mode, &side.source, &*side.name));
            let staying = inputs.chain(side).filter(|(mode, source, _)| stays(*mode, source));
            names.extend(staying.map(|(.., name)| name.to_owned()));
        });
        let problem = |name| Problem {
            key: String::new(),
            line: None,
            message: format!(
                "{name}: what came with the job is not on its workers, so mode: direct cannot be: leave mode out"
            ),
        };
        names.into_iter().map(problem).collect()
    }

    /// What is said of paths that lead outside. A path may have been noted under other names, too, which the text does not have.
    fn refusals(&self, outside: &[Outside]) -> Vec<Problem> {
        let document = yaml::parse(self.text).ok();
        let places = Places::of(document.as_ref(), outside.iter().map(|one| &*one.given));
        let (named, others): (Vec<_>, Vec<_>) =
            outside.iter().map(|one| (one, places.get(&one.given))).partition(|(_, place)| place.is_some());
        let told = if named.is_empty() { others } else { named };
        told.into_iter().map(|(one, place)| refusal(one, place)).collect()
    }

    /// Without the folder, which says nothing to who wrote the text.
    fn shown(&self, text: &str) -> String {
        let folder = self.folder.display().to_string();
        text.replace(&format!("{}/", folder.trim_end_matches('/')), "").replace(&folder, ".")
    }

    fn without_folder(&self, mut loaded: Loaded) -> Loaded {
        loaded.each_spec(|spec| {
            for note in &mut spec.notes {
                *note = self.shown(note);
            }
            for origin in spec.origins.values_mut() {
                origin.by = self.shown(&origin.by);
            }
        });
        loaded
    }
}

/// The inputs in a list, or in a mapping of names, with what they are called.
fn inputs_in<'a>(key: &str, node: &'a mut Node) -> Vec<(String, &'a mut Node)> {
    match &mut node.value {
        Value::Sequence(items) if key == "inputs" => {
            let name = |(at, item): (usize, &'a mut Node)| {
                let own = item.get("name").and_then(Node::as_text).map(str::to_owned);
                (own.unwrap_or_else(|| inputs::default_name(at)), item)
            };
            items.iter_mut().enumerate().map(name).collect()
        }
        Value::Mapping(entries) => entries.iter_mut().map(|(key, input)| (key.name.clone(), input)).collect(),
        _ => Vec::new(),
    }
}

/// The names of the inputs and side inputs of a document, by their places.
fn places_of_inputs(document: &mut Node) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for key in ["inputs", "side_inputs"] {
        let Some(node) = document.get_mut(key) else { continue };
        let is_list = matches!(node.value, Value::Sequence(_));
        found.extend(inputs_in(key, node).into_iter().enumerate().map(|(at, (name, _))| {
            let place = if is_list { format!("{key}[{at}]") } else { format!("{key}.{name}") };
            (place, name)
        }));
    }
    found
}

/// The file that is all there is in the folder `path`.
fn only_file(path: &Path) -> Option<PathBuf> {
    let mut entries = path.read_dir().ok()?;
    let only = entries.next()?.ok()?.path();
    (entries.next().is_none() && only.is_file()).then_some(only)
}

/// Has an input be at `path`.
fn put_path(input: &mut Node, path: &Path) {
    let is_file = input.get("type").and_then(Node::as_text).is_some_and(|kind| kind.trim() == "uri_file");
    let only = is_file.then(|| only_file(path)).flatten();
    let path = only.as_deref().unwrap_or(path);
    let text = path.to_string_lossy().into_owned();
    let line = input.line;
    match &mut input.value {
        Value::Mapping(entries) => {
            entries.retain(|(key, _)| !["path", "paths", "list"].contains(&&*key.name));
            let key = Key { name: "path".to_owned(), line: line.unwrap_or(1) };
            entries.push((key, Node::text(text, line)));
        }
        _ => *input = Node::text(text, line),
    }
}

/// Has all local paths pass the fence that a job would read or write, however they were put together.
fn pass_places(loaded: &mut Loaded) {
    let pass = |path: &Path| {
        fence::pass(path, &path.display().to_string());
    };
    if let Loaded::Pipeline(loaded) = loaded {
        let places = loaded.pipeline.places.iter().filter(|place| !place.to.contains("://"));
        places.for_each(|place| pass(Path::new(&place.to)));
    }
    loaded.each_spec(|spec| {
        let code = Some(spec.source_directory.as_path()).filter(|code| !code.as_os_str().is_empty());
        code.into_iter().chain(spec.output.as_deref()).for_each(pass);
        for source in spec.sources() {
            match source {
                InputSource::Paths(paths) => paths.iter().for_each(|path| pass(Path::new(path))),
                InputSource::List(path) => pass(path),
                InputSource::Remote(_)
                | InputSource::Manifest { .. }
                | InputSource::Output(_)
                | InputSource::OneItem => {}
            }
        }
    });
}

fn refusal(outside: &Outside, place: Option<(String, Option<usize>)>) -> Problem {
    let (key, line) = place.unwrap_or_default();
    let message = format!(
        "{} is not among what came with the job: send it along and give a path relative to that, or an s3:// URL",
        outside.given
    );
    Problem { key, line, message }
}

/// Where texts stand in a document: keys with their places, and lines.
pub(super) struct Places<'a> {
    wanted: HashMap<&'a str, Option<(String, Option<usize>)>>,
}

impl<'a> Places<'a> {
    /// Looks for all `texts` in one walk; of each the first place counts.
    pub(super) fn of(document: Option<&Node>, texts: impl Iterator<Item = &'a str>) -> Self {
        let mut places = Self { wanted: texts.map(|text| (plain(text), None)).collect() };
        if let Some(document) = document {
            places.walk(document, &mut String::new());
        }
        places
    }

    /// The first place of a text that was looked for.
    pub(super) fn get(&self, text: &str) -> Option<(String, Option<usize>)> {
        self.wanted.get(plain(text)).cloned().flatten()
    }

    fn walk(&mut self, node: &Node, place: &mut String) {
        let above = place.len();
        match &node.value {
            Value::Scalar { text, .. } => {
                if let Some(found) = self.wanted.get_mut(plain(text.trim())) {
                    found.get_or_insert_with(|| (place.clone(), node.line));
                }
            }
            Value::Sequence(items) => {
                for (at, item) in items.iter().enumerate() {
                    let _ = write!(place, "[{at}]");
                    self.walk(item, place);
                    place.truncate(above);
                }
            }
            Value::Mapping(entries) => {
                for (key, value) in entries {
                    place.extend([if above == 0 { "" } else { "." }, &key.name]);
                    self.walk(value, place);
                    place.truncate(above);
                }
            }
            Value::Null => {}
        }
    }
}

fn plain(text: &str) -> &str {
    text.trim_start_matches("file:")
}

impl Called {
    /// Calls a job so that was checked before.
    ///
    /// # Errors
    /// It cannot be called so.
    pub fn put_on(&self, spec: &mut JobSpec) -> Result<(), JobFileError> {
        if let Some(Err(message)) = self.name.as_deref().map(check_name) {
            let problem = Problem { key: "name".to_owned(), line: None, message };
            return Err(JobFileError::new(SHOWN, vec![problem]));
        }
        self.change(spec);
        Ok(())
    }

    fn change(&self, spec: &mut JobSpec) {
        let origin = || Origin::of(AT_HAND_IN);
        if let Some(name) = &self.name {
            spec.origins.insert("name".to_owned(), origin());
            spec.name.clone_from(name);
        }
        if let Some(display_name) = &self.display_name {
            spec.origins.insert("display_name".to_owned(), origin());
            spec.display_name = Some(display_name.clone());
        }
        if !self.tags.is_empty() {
            spec.origins.entry("tags".to_owned()).or_insert_with(origin);
        }
        spec.tags.extend(self.tags.clone());
        if let Some(deployed) = &self.deployed {
            spec.deployed = Some(Box::new(deployed.clone()));
        }
        self.sign(spec);
    }

    fn sign(&self, spec: &mut JobSpec) {
        if let Some(who) = &self.submitted_by {
            spec.submitted_by = Some(Box::new(who.clone()));
        }
    }

    /// Calls a job so.
    pub(super) fn put(&self, loaded: &mut Loaded, problems: &mut Vec<Problem>) {
        if let Some(Err(message)) = self.name.as_deref().map(check_name) {
            return problems.push(Problem { key: "name".to_owned(), line: None, message });
        }
        let put = |spec: &mut JobSpec| self.change(spec);
        match loaded {
            Loaded::Job(spec) => put(spec),
            Loaded::Pipeline(loaded) => {
                put(&mut loaded.spec);
                for step in &mut loaded.pipeline.steps {
                    self.sign(&mut step.spec);
                }
                // Of one job to the user, its own settings are those of a step, and all steps have its name.
                if let Some(main) = &loaded.pipeline.main {
                    for step in &mut loaded.pipeline.steps {
                        step.spec.name.clone_from(&loaded.spec.name);
                        if step.name == *main {
                            put(&mut step.spec);
                        }
                    }
                }
            }
        }
    }
}
