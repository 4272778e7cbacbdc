//! Reading a step of a pipeline with its component: what it is, its keys, its outputs.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::super::super::near_name::few;
use super::super::super::reader::Reader;
use super::super::super::yaml::{Key, Node, Value};
use super::super::RawSetting;
use super::super::bindings;
use super::super::component::{self, Component, Declared, Kind};
use super::super::expressions::{parts, whole};
use super::places::{declared, is_unknown_datastore, take_place};
use super::{Flattening, Opened, OpenedOutput, Scope, kind_of};

impl Flattening<'_> {
    /// Reads a step with its component.
    pub(super) fn open(&mut self, scope: &Scope, key: &Key, value: &Node, shown: String) -> Option<Opened> {
        let line = Some(key.line);
        if !is_step_name(&key.name) {
            let message = format!(
                "{:?} is not the name of a step: give letters, digits and `_` that begin with a letter or `_`",
                key.name
            );
            self.refuse(&shown, line, message);
            return None;
        }
        if !matches!(value.value, Value::Mapping(_)) {
            let message = format!("{} is no step: give a mapping with its type", value.describe());
            self.refuse(&shown, line, message);
            return None;
        }
        let mut fields = Reader::of_mapping(&shown, value, self.problems);
        let setting = fields.get("component");
        let component = match &setting {
            Some(setting) => match Component::read(setting, &scope.file, self.files) {
                Ok(component) => Some(component),
                Err(message) => {
                    fields.refuse(setting, message);
                    return None;
                }
            },
            None => None,
        };
        let job = component.as_ref().map_or(value, |component| &component.node);
        let kind = match component::kind(job)
            .or_else(|word| if word.is_empty() { component::kind(value) } else { Err(word) })
        {
            Ok(kind) => kind,
            Err(word) => {
                let what =
                    if word.is_empty() { "without a type".to_owned() } else { format!("of type {word}") };
                let message = format!(
                    "a step {what} is not supported: give one of type parallel or command, or a pipeline component"
                );
                self.refuse(&shown, line, message);
                return None;
            }
        };
        if component.is_some()
            && let Some(given) = fields.get("type")
            && component::kind(value).is_ok_and(|own| own != kind)
        {
            fields.refuse(&given, format!("the component is {kind:?}: leave type out").to_lowercase());
        }
        let depends_on = if fields.get("depends_on").is_some_and(|setting| setting.value.as_text().is_some())
        {
            fields.get("depends_on").into_iter().collect()
        } else {
            fields.texts("depends_on").unwrap_or_default()
        };
        let inputs = bindings::entries(&mut fields, "inputs");
        let given = bindings::entries(&mut fields, "outputs");
        let component = component.map(|component| {
            let declared = Declared::all(&mut Reader::of_mapping(&shown, &component.node, self.problems));
            (component, declared)
        });
        let outputs = self.outputs(scope, component.as_ref().map(|(component, _)| component), &shown, &given);
        let empty = Node { line: value.line, value: Value::Mapping(Vec::new()) };
        let base = component.as_ref().map_or(&empty, |(component, _)| &component.node);
        let mut node = if kind == Kind::Pipeline && component.is_none() {
            value.clone()
        } else {
            component::merge(base, value)
        };
        if let (Kind::Parallel, Some((component, _))) = (kind, &component) {
            give_code(&mut node, &component.file);
        }
        if let Value::Mapping(entries) = &mut node.value {
            entries.retain(|(key, _)| key.name != "depends_on");
        }
        let name = key.name.clone();
        Some(Opened { name, shown, line, kind, node, component, inputs, outputs, depends_on, bound: None })
    }

    /// The outputs of a step, those of its component among them.
    fn outputs(
        &mut self,
        scope: &Scope,
        component: Option<&Component>,
        shown: &str,
        given: &[RawSetting],
    ) -> Vec<OpenedOutput> {
        let declared = declared(component);
        let folder = || Node::text("uri_folder", None);
        let mut outputs: Vec<OpenedOutput> = declared
            .iter()
            .map(|(key, node)| OpenedOutput {
                name: key.name.clone(),
                kind: kind_of(node).unwrap_or_else(folder),
                given: None,
                bound_to: None,
                place: None,
            })
            .collect();
        let mut places: HashMap<String, usize> =
            outputs.iter().enumerate().map(|(at, output)| (output.name.clone(), at)).collect();
        let typed: HashSet<&str> = declared
            .iter()
            .filter(|(_, value)| value.get("type").is_some())
            .map(|(key, _)| &*key.name)
            .collect();
        for setting in given {
            let at = places.get(&setting.key).copied();
            if let (None, Some(component)) = (at, component) {
                let names = few(declared.iter().map(|(key, _)| &*key.name));
                let near = names.nearest(&setting.key).map(|near| format!(": did you mean `{near}`?"));
                let near = near.unwrap_or_else(|| format!("; there are: {names}"));
                let message = format!("{} has no output `{}`{near}", component.label, setting.key);
                self.refuse(&setting.shown, setting.line, message);
                continue;
            }
            let at = at.unwrap_or_else(|| {
                places.insert(setting.key.clone(), outputs.len());
                outputs.push(OpenedOutput {
                    name: setting.key.clone(),
                    kind: folder(),
                    given: None,
                    bound_to: None,
                    place: None,
                });
                outputs.len() - 1
            });
            let own = kind_of(&setting.value);
            let is_declared = typed.contains(&*setting.key);
            let expression =
                setting.value.as_text().or_else(|| setting.value.get("path").and_then(Node::as_text));
            let inside = expression.and_then(whole).map(parts);
            match inside.as_deref() {
                Some(["parent", "outputs", name]) => {
                    outputs[at].bound_to = Some(((*name).to_owned(), setting.clone()));
                    // One that nothing is said of is what the output of the pipeline is to be.
                    let outer = scope.outputs.get(name);
                    if let Some(Some(kind)) = outer.filter(|_| !is_declared) {
                        outputs[at].kind = kind.clone();
                    }
                }
                Some(["parents", ..]) => {
                    let message = format!("{}: write `parent`, without an s", expression.unwrap_or_default());
                    self.refuse(&setting.shown, setting.line, message);
                }
                _ if matches!(setting.value.value, Value::Mapping(_)) => {
                    let mut given = setting.value.clone();
                    outputs[at].place = take_place(&mut given, setting, self.files.names());
                    outputs[at].given = Some(given);
                }
                _ if setting.value.is_null() => {}
                _ => {
                    let given = setting.value.describe();
                    let message = format!(
                        "{given} is not an output: give a mapping with type, or ${{{{parent.outputs.NAME}}}}"
                    );
                    self.refuse(&setting.shown, setting.line, message);
                }
            }
            if let Some(kind) = own {
                outputs[at].kind = kind;
            }
        }
        // What the component says of places that the step says nothing of.
        let is_placed =
            |setting: &&RawSetting| setting.value.as_text().is_some() || setting.value.get("path").is_some();
        let said: HashSet<&str> = given.iter().filter(is_placed).map(|setting| &*setting.key).collect();
        for (key, node) in declared {
            let output = places.get(&key.name).map(|at| &mut outputs[*at]);
            if let (Some(component), Some(output)) = (component, output)
                && !said.contains(&*key.name)
            {
                output.place = self.declared_place(component, shown, key, node);
                if output.place.is_none() {
                    output.given = output.given.take().or_else(|| in_datastore(node));
                }
            }
        }
        outputs
    }
}

/// What is given of an output that is declared in a datastore which nothing here stands for: its path, of which that is told.
fn in_datastore(node: &Node) -> Option<Node> {
    let path = node.get("path").filter(|path| is_unknown_datastore(path))?;
    let key = Key { name: "path".to_owned(), line: path.line.unwrap_or(1) };
    Some(Node { line: path.line, value: Value::Mapping(vec![(key, path.clone())]) })
}

fn is_step_name(name: &str) -> bool {
    let begins = |first: char| first.is_ascii_alphabetic() || first == '_';
    name.starts_with(begins) && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The folder of a parallel component is that of its code, where it names none.
fn give_code(node: &mut Node, file: &Path) {
    let folder = file.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    if let Value::Mapping(entries) = &mut node.value
        && let Some((_, task)) = entries.iter_mut().find(|(key, _)| key.name == "task")
        && let Value::Mapping(task) = &mut task.value
        && !task.iter().any(|(key, value)| key.name == "code" && !value.is_null())
    {
        task.push((
            Key { name: "code".to_owned(), line: node.line.unwrap_or(1) },
            Node::text(folder, node.line),
        ));
    }
}
