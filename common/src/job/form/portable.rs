//! A component, or a batch deployment, made independent of the files around it, so that it can be registered: components that it
//! names become documents beside it, code becomes folders beside it, environments stand in it, and names have the version that they mean
//! now.
//!
//! Data and models of this machine stay out: they are registered by themselves, and a component names them. The [graph](super::graph)
//! of a job names them where they are, and has no places of outputs, which were those of that job.

use std::path::{Path, PathBuf};

use super::super::environment::self_contained;
use super::super::error::Problem;
use super::super::names::Names;
use super::super::reader::Reader;
use super::super::validate::{absolute, script_below};
use super::super::yaml::{self, Key, Node, Value};
use super::super::{near_path, read_text};
use super::bindings::VALUES;
use super::component::{self, Declared, Kind};
use super::deployment::job_of;
use super::expressions::{parts, whole};
use super::{command, parallel, pipeline};
use crate::registry::Kind as Registered;

/// Types of inputs that a registry of models has.
const MODELS: [&str; 3] = ["custom_model", "mlflow_model", "triton_model"];
/// Components in one another.
const DEEPEST: usize = 16;
/// What the component that is registered is called beside its files.
pub(in super::super) const MAIN: &str = "component.yml";

/// A component and all that it needs.
#[derive(Debug)]
pub(in super::super) struct Portable {
    /// The type of the component.
    pub(in super::super) kind: Option<&'static str>,
    /// Documents by their names, [`MAIN`] first.
    pub(in super::super) documents: Vec<(String, Node)>,
    /// Folders of code by their names.
    pub(in super::super) folders: Vec<(String, PathBuf)>,
}

/// Makes the component `node`, which stands in `file`, independent. What names stand for may have to be looked up first, and
/// then nothing that comes of it counts.
pub(in super::super) fn portable(
    node: Node,
    file: &Path,
    names: &Names,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) -> Portable {
    make(node, file, Making::new(names, problems, notes, file))
}

/// The same of the graph of a job; nothing where it cannot be had of what is there, or where names have to be looked up first.
pub(super) fn portable_graph(node: Node, file: &Path, names: &Names) -> Option<Portable> {
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let making = Making { is_graph: true, ..Making::new(names, &mut problems, &mut notes, file) };
    let made = make(node, file, making);
    (problems.is_empty() && !names.is_asked()).then_some(made)
}

/// The same of the batch deployment `node`, which is called `name` beside its files. A model of this machine stays out, too.
pub(in super::super) fn portable_deployment(
    mut node: Node,
    file: &Path,
    name: &str,
    names: &Names,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) -> Portable {
    let mut making = Making::new(names, problems, notes, file);
    let folder = file.parent().unwrap_or(Path::new("/"));
    making.job_definition(&mut node);
    making.job(&mut node, At { place: "", folder });
    let mut done = making.done;
    done.documents.push((name.to_owned(), node));
    done.documents.reverse();
    done
}

fn make(node: Node, file: &Path, mut making: Making<'_>) -> Portable {
    let kind = making.document(node, file, MAIN.to_owned());
    let mut done = making.done;
    done.kind = kind.map(|kind| match kind {
        Kind::Parallel => "parallel",
        Kind::Command => "command",
        Kind::Pipeline => "pipeline",
    });
    done.documents.reverse();
    done
}

struct Making<'a> {
    names: &'a Names,
    problems: &'a mut Vec<Problem>,
    notes: &'a mut Vec<Problem>,
    done: Portable,
    /// Files of components, the first of which is [`MAIN`].
    files: Vec<PathBuf>,
    depth: usize,
    /// Whether it is the graph of a job.
    is_graph: bool,
}

/// Where a part of a document stands.
#[derive(Clone, Copy)]
struct At<'a> {
    /// Its keys.
    place: &'a str,
    folder: &'a Path,
}

impl<'a> Making<'a> {
    fn new(
        names: &'a Names,
        problems: &'a mut Vec<Problem>,
        notes: &'a mut Vec<Problem>,
        file: &Path,
    ) -> Self {
        let done = Portable { kind: None, documents: Vec::new(), folders: Vec::new() };
        Self { names, problems, notes, done, files: vec![file.to_owned()], depth: 0, is_graph: false }
    }
}

impl Making<'_> {
    fn refuse(&mut self, place: &str, line: Option<usize>, message: impl Into<String>) {
        self.problems.push(Problem { key: place.to_owned(), line, message: message.into() });
    }

    /// Takes a document. Those that it needs are there before it.
    fn document(&mut self, mut node: Node, file: &Path, name: String) -> Option<Kind> {
        let kind = match component::kind(&node) {
            Ok(kind) => kind,
            Err(word) => {
                let what =
                    if word.is_empty() { "without a type".to_owned() } else { format!("of type {word}") };
                let line = node.get("type").and_then(|kind| kind.line);
                let message = format!(
                    "a component {what} cannot be registered: give one of type parallel, command or pipeline"
                );
                self.refuse("type", line, message);
                return None;
            }
        };
        let mut fields = Reader::of_mapping("", &node, self.problems);
        let (keys, what) = match kind {
            Kind::Parallel => (parallel::keys(), "a parallel component"),
            Kind::Command => (command::keys(), "a command component"),
            Kind::Pipeline => (pipeline::keys(), "a pipeline component"),
        };
        fields.refuse_unknown(&keys, what);
        Declared::all(&mut fields);
        for (is_wanted, key, give) in [
            (kind == Kind::Parallel, "task", "entry_script and what it runs with"),
            (kind == Kind::Command, "command", "the command"),
            (kind == Kind::Pipeline && !fields.has("component"), "jobs", "the steps"),
        ] {
            if is_wanted && !fields.has(key) {
                fields.refuse_at(key, None, format!("the key is missing: give {give}"));
            }
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        self.job(&mut node, At { place: "", folder });
        self.done.documents.push((name, node));
        Some(kind)
    }

    /// Puts the graph of the job that a deployment names in the place of its component.
    fn job_definition(&mut self, node: &mut Node) {
        let Value::Mapping(entries) = &mut node.value else { return };
        let Some((key, definition)) = entries.iter_mut().find(|(key, _)| key.name == "job_definition") else {
            return;
        };
        match job_of(definition).map(|job| self.names.graph(&job)).and_then(Option::transpose) {
            // It has to be looked up first.
            Ok(None) => {}
            Ok(Some(graph)) => {
                "component".clone_into(&mut key.name);
                *definition = Node::text(graph.to_string_lossy(), definition.line);
                self.is_graph = true;
            }
            Err(message) => {
                let line = definition.line;
                self.refuse("job_definition", line, message);
            }
        }
    }

    /// Takes the keys of a component, of a step, or of a deployment.
    fn job(&mut self, node: &mut Node, at: At<'_>) {
        let is_alone = node.get("component").is_none();
        let line = node.line.unwrap_or(1);
        let Value::Mapping(entries) = &mut node.value else { return };
        let dot = if at.place.is_empty() { "" } else { "." };
        for (key, value) in entries {
            let place = format!("{}{dot}{}", at.place, key.name);
            let at = At { place: &place, ..at };
            match (&*key.name, &mut value.value) {
                ("component", Value::Scalar { .. }) => self.component(value, at),
                ("component" | "code_configuration", Value::Mapping(_)) => self.job(value, at),
                ("code", Value::Scalar { .. }) => self.code(value, at),
                ("environment", Value::Scalar { .. } | Value::Mapping(_)) => self.environment(value, at),
                ("model", Value::Scalar { .. }) => self.data(value, at, Registered::Model),
                ("model", Value::Mapping(model)) => {
                    for (_, value) in model.iter_mut().filter(|(key, _)| key.name == "path") {
                        let place = format!("{place}.path");
                        self.data(value, At { place: &place, ..at }, Registered::Model);
                    }
                }
                ("outputs", Value::Mapping(outputs)) if self.is_graph => {
                    for (_, output) in outputs {
                        without_place(output);
                    }
                }
                ("outputs", Value::Mapping(outputs)) => {
                    for (key, output) in outputs {
                        let place = format!("{place}.{}.path", key.name);
                        self.output(output, At { place: &place, ..at });
                    }
                }
                ("task", Value::Mapping(task)) => {
                    let has_code = task.iter().any(|(key, value)| key.name == "code" && !value.is_null());
                    if is_alone && !has_code {
                        let code = Key { name: "code".to_owned(), line };
                        task.push((code, Node::text(at.folder.to_string_lossy(), Some(key.line))));
                    }
                    self.script(value, at);
                    self.job(value, at);
                }
                ("inputs", Value::Mapping(inputs)) => {
                    for (key, value) in inputs {
                        let place = format!("{place}.{}", key.name);
                        self.input(value, At { place: &place, ..at });
                    }
                }
                ("jobs", Value::Mapping(steps)) => {
                    for (key, value) in steps {
                        let place = format!("{place}.{}", key.name);
                        self.job(value, At { place: &place, ..at });
                    }
                }
                _ => {}
            }
        }
    }

    /// Looks whether the script of a `task` is there.
    fn script(&mut self, task: &Node, at: At<'_>) {
        let text = |key: &str| task.get(key).and_then(Node::as_text).map(str::trim);
        let (Some(code), Some(script)) = (text("code"), text("entry_script")) else { return };
        let folder = absolute(at.folder, code);
        let script = script.strip_prefix("./").unwrap_or(script);
        let is_elsewhere = script.contains("${{") || code.contains("${{") || code.contains(':');
        if !is_elsewhere && folder.is_dir() && script_below(&folder, script).is_none() {
            let line = task.get("entry_script").and_then(|script| script.line);
            let near = near_path::hint(&folder.join(script));
            self.refuse(
                &format!("{}.entry_script", at.place),
                line,
                format!("there is no {script} in {}{near}", folder.display()),
            );
        }
    }

    /// Takes a component that is named: its file becomes a document, its name in a registry that of a version.
    fn component(&mut self, node: &mut Node, at: At<'_>) {
        if self.pinned(node, at, Registered::Component) {
            return;
        }
        let text = self.names.mapped_text(node.as_text().unwrap_or_default().trim());
        let given = text.strip_prefix("file:").unwrap_or(&text);
        if given.contains("://") || given.starts_with("azureml:") {
            let message = format!("{given} is no component that can be had: give its file");
            return self.refuse(at.place, node.line, message);
        }
        let path = absolute(at.folder, given);
        let index = if let Some(index) = self.files.iter().position(|file| *file == path) {
            index
        } else {
            let read = read_text(&path).and_then(|text| yaml::parse(&text).map_err(|error| error.message));
            let inner = match read {
                Ok(inner) => inner,
                Err(message) => {
                    let near = if path.exists() { String::new() } else { near_path::hint(&path) };
                    return self.refuse(at.place, node.line, format!("{}: {message}{near}", path.display()));
                }
            };
            if self.depth == DEEPEST {
                let message = format!("more than {DEEPEST} components are in one another");
                return self.refuse(at.place, node.line, message);
            }
            self.files.push(path.clone());
            let index = self.files.len() - 1;
            let told = self.problems.len();
            self.depth += 1;
            self.document(inner, &path, document_name(index));
            self.depth -= 1;
            for problem in &mut self.problems[told..] {
                let line = problem.line.take().map(|line| format!(":{line}")).unwrap_or_default();
                problem.key = format!("{}{line}: {}", path.display(), problem.key);
            }
            index
        };
        *node = Node::text(document_name(index), node.line);
    }

    /// Takes a folder of code.
    fn code(&mut self, node: &mut Node, at: At<'_>) {
        let given = node.as_text().unwrap_or_default().trim().to_owned();
        if given.contains("://") || given.starts_with("azureml:") || given.contains("${{") {
            let message = format!("{given} is not on this machine: give the folder of the code");
            return self.refuse(at.place, node.line, message);
        }
        let path = absolute(at.folder, &given);
        if !path.is_dir() {
            let near = near_path::hint(&path);
            let what =
                if path.exists() { "is no folder: give the folder of the code" } else { "is not there" };
            return self.refuse(at.place, node.line, format!("{} {what}{near}", path.display()));
        }
        let folders = &mut self.done.folders;
        let index = folders.iter().position(|(_, folder)| *folder == path).unwrap_or_else(|| {
            folders.push((format!("code-{}", folders.len() + 1), path));
            folders.len() - 1
        });
        *node = Node::text(&*folders[index].0, node.line);
    }

    /// Takes an environment: what its files say is put in their place.
    fn environment(&mut self, node: &mut Node, at: At<'_>) {
        if node.as_text().is_some() {
            if self.pinned(node, at, Registered::Environment) {
                return;
            }
            let text = self.names.mapped_text(node.as_text().unwrap_or_default().trim());
            if text == "local" || text.contains("${{") {
                return;
            }
            *node = Node::text(text, node.line);
        }
        let (told, noted) = (self.problems.len(), self.notes.len());
        let made = self_contained(node, at.folder, self.problems, self.notes);
        for problem in self.problems[told..].iter_mut().chain(&mut self.notes[noted..]) {
            if let Some(below) = problem.key.strip_prefix("environment") {
                problem.key = format!("{}{below}", at.place);
            }
        }
        if let Some(made) = made {
            *node = made;
        }
    }

    /// Takes an input: what it is without being given anything is to be had wherever the component runs.
    fn input(&mut self, node: &mut Node, at: At<'_>) {
        let kind = node.get("type").and_then(Node::as_text).map(|kind| kind.trim().to_ascii_lowercase());
        let is_of = |words: &[&str]| kind.as_deref().is_some_and(|kind| words.contains(&kind));
        if is_of(&VALUES) {
            return;
        }
        let registered = if is_of(&MODELS) { Registered::Model } else { Registered::Data };
        let Value::Mapping(entries) = &mut node.value else { return };
        for (key, value) in entries {
            // Without a type a default is a value.
            let is_data = key.name == "path" || key.name == "default" && (kind.is_some() || !self.is_graph);
            if is_data && value.as_text().is_some() {
                let place = format!("{}.{}", at.place, key.name);
                self.data(value, At { place: &place, ..at }, registered);
            }
        }
    }

    /// Takes an output: its place is to be one wherever the component runs.
    fn output(&mut self, node: &Node, at: At<'_>) {
        let Some(path) = node.get("path") else { return };
        let text = path.as_text().unwrap_or_default().trim();
        let is_here = !text.contains("://") && !text.starts_with("azureml:") && !text.starts_with("${{");
        if is_here && !text.is_empty() {
            let message = format!(
                "{text} is on this machine, and a job that uses the component may run on another: leave it out, and give the \
                 output a path where the component is used"
            );
            self.refuse(at.place, path.line, message);
        }
    }

    /// Takes a path of data, or of a model.
    fn data(&mut self, node: &mut Node, at: At<'_>, kind: Registered) {
        let given = node.as_text().unwrap_or_default().trim().to_owned();
        if given.is_empty() || given.contains("${{") || self.pinned(node, at, kind) {
            return;
        }
        let text = self.names.mapped_text(&given);
        let is_here = !text.contains("://") && !text.starts_with("azureml:");
        if is_here && self.is_graph {
            if text == given {
                *node = Node::text(absolute(at.folder, &given).to_string_lossy(), node.line);
            }
        } else if is_here {
            let message = format!(
                "{given} is on this machine, and a job that uses the component may run on another: register it ({} create), and \
                 give azureml:NAME:VERSION",
                kind.command()
            );
            self.refuse(at.place, node.line, message);
        }
    }

    /// Puts the version that a name means now in its place; false where it is no name of what is registered.
    fn pinned(&mut self, node: &mut Node, at: At<'_>, kind: Registered) -> bool {
        let Some(text) = node.as_text() else { return false };
        match self.names.pin(text, kind) {
            None => return false,
            Some(Ok(text)) => *node = Node::text(text, node.line),
            Some(Err(Some(message))) => self.refuse(at.place, node.line, message),
            Some(Err(None)) => {}
        }
        true
    }
}

/// Takes the place of its own off an output; what it is bound to stays.
fn without_place(output: &mut Node) {
    if let Value::Mapping(entries) = &mut output.value {
        let is_bound = |path: &Node| {
            let inside = path.as_text().and_then(whole);
            inside.is_some_and(|inside| matches!(parts(inside)[..], ["parent", "outputs", ..]))
        };
        entries.retain(|(key, value)| key.name != "path" || is_bound(value));
    }
}

fn document_name(index: usize) -> String {
    if index == 0 { MAIN.to_owned() } else { format!("component-{index}.yml") }
}
