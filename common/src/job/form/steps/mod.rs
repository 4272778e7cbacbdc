//! The steps of a pipeline, each made a job that stands alone: components are read and merged, pipeline components are
//! flattened, and what is bound to the pipeline or to another step is put in its place.
//!
//! An input that is bound to an output of a step has an address of that output as its path, which
//! [`InputSource::Output`](crate::dataset::input::InputSource::Output) reads; all else is an ordinary document afterwards.

mod named;
mod opening;
mod places;
mod references;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::error::Problem;
use super::super::near_name::few;
use super::super::reader::Reader;
use super::super::yaml::{Key, Node, Value};
use super::RawSetting;
use super::bindings;
use super::component::{Component, Declared, Kind};
use super::source_files::SourceFiles;
use crate::dataset::step_output::StepOutput;
use crate::job::pipeline::{PipelineOutput, name_in_id};
use named::Named;
use places::RawPlace;
pub(super) use places::is_unknown_datastore;
use references::fill_in;

/// Pipeline components in one another.
const DEEPEST: usize = 16;
/// Steps of a pipeline, those of all its components together.
const MOST_STEPS: usize = 10_000;
/// Pairs of steps of which one needs the other.
const MOST_NEEDS: usize = 200_000;

/// A step as a job that stands alone.
#[derive(Debug)]
pub(super) struct FlatStep {
    /// Its name, with those of the pipeline components around it.
    pub(super) name: String,
    /// Its place in the file.
    pub(super) shown: String,
    pub(super) line: Option<usize>,
    pub(super) kind: Kind,
    pub(super) node: Node,
    /// The steps that have to complete before it: those whose outputs it needs, and those of `depends_on`.
    pub(super) needs: Vec<String>,
    /// Its outputs.
    pub(super) outputs: Vec<String>,
    /// Optional inputs that have no value.
    pub(super) absent: Vec<String>,
}

/// A whole pipeline, whose steps stand beside each other.
#[derive(Debug, Default)]
pub(super) struct FlatPipeline {
    pub(super) steps: Vec<FlatStep>,
    pub(super) outputs: Vec<PipelineOutput>,
    /// Places of outputs, not yet judged: those of steps, and those of the pipeline itself.
    places: Vec<RawPlace>,
}

/// The inputs of a step with their values; `None` for an optional one without a value.
type Inputs = Named<Option<Node>>;

/// A pipeline, or a pipeline component in a step.
struct Scope {
    /// What the names of its steps have in front.
    prefix: String,
    shown: String,
    file: PathBuf,
    inputs: Inputs,
    /// Its outputs, with the types that they are declared with.
    outputs: Named<Option<Node>>,
    steps: Vec<Opened>,
    /// Where each step stands in `steps`.
    by_name: HashMap<String, usize>,
    /// Steps that have to complete before any of its own.
    after: Vec<String>,
}

/// A step with its component.
struct Opened {
    name: String,
    shown: String,
    line: Option<usize>,
    kind: Kind,
    /// All its keys but inputs and outputs.
    node: Node,
    component: Option<(Component, Vec<Declared>)>,
    inputs: Vec<RawSetting>,
    outputs: Vec<OpenedOutput>,
    /// Steps of the same pipeline that have to complete before it, whatever they bring.
    depends_on: Vec<RawSetting>,
    bound: Option<Inputs>,
}

struct OpenedOutput {
    name: String,
    kind: Node,
    /// The mapping that it is given with.
    given: Option<Node>,
    /// The output of the pipeline that it is bound to.
    bound_to: Option<(String, RawSetting)>,
    /// The place of its own that it is given.
    place: Option<RawSetting>,
}

/// Flattens the pipeline in `document`, which stands in `file`.
pub(super) fn flatten(
    document: &Node,
    file: &Path,
    files: &mut SourceFiles,
    problems: &mut Vec<Problem>,
) -> FlatPipeline {
    let mut fields = Reader::of_mapping("", document, problems);
    let given = bindings::entries(&mut fields, "inputs");
    let outputs = bindings::entries(&mut fields, "outputs");
    let component = fields.get("component").and_then(|setting| {
        let read = Component::read(&setting, file, files);
        read.map_err(|message| fields.refuse(&setting, message)).ok()
    });
    let mut flattening = Flattening {
        files,
        problems,
        done: FlatPipeline::default(),
        aliases: HashMap::new(),
        brought: HashMap::new(),
        depth: 0,
        opened: 0,
        needed: 0,
        is_tangled: false,
    };
    let mut scope = Scope {
        prefix: String::new(),
        shown: String::new(),
        file: file.to_owned(),
        inputs: Inputs::default(),
        outputs: outputs.iter().map(|output| (output.key.clone(), kind_of(&output.value))).collect(),
        steps: Vec::new(),
        by_name: HashMap::new(),
        after: Vec::new(),
    };
    let jobs = match &component {
        None => {
            scope.inputs = given.into_iter().map(|one| (one.key, Some(one.value))).collect();
            document.get("jobs")
        }
        Some(component) => {
            let declared =
                Declared::all(&mut Reader::of_mapping("component", &component.node, flattening.problems));
            scope.inputs = flattening.match_inputs(&declared, &component.label, "", document.line, &given);
            if let Some(Value::Mapping(declared)) =
                component.node.get("outputs").map(|outputs| &outputs.value)
            {
                for (key, value) in declared {
                    scope.outputs.add(key.name.clone(), kind_of(value));
                }
            }
            component.node.get("jobs").or_else(|| document.get("jobs"))
        }
    };
    flattening.places_of_pipeline(&scope, &outputs, component.as_ref());
    flattening.pipeline(scope, jobs);
    flattening.finish()
}

struct Flattening<'a> {
    files: &'a mut SourceFiles,
    problems: &'a mut Vec<Problem>,
    done: FlatPipeline,
    /// Outputs of pipeline components, and the steps that bring them.
    aliases: HashMap<StepOutput, StepOutput>,
    /// The steps that bring the outputs of the pipeline itself, by the names of these.
    brought: HashMap<String, String>,
    depth: usize,
    /// Steps that were read.
    opened: usize,
    /// Steps that steps were found to need.
    needed: usize,
    /// Whether these are too many, which is told.
    is_tangled: bool,
}

impl Flattening<'_> {
    fn refuse(&mut self, shown: &str, line: Option<usize>, message: impl Into<String>) {
        self.problems.push(Problem { key: shown.to_owned(), line, message: message.into() });
    }

    /// Flattens the steps of one pipeline.
    fn pipeline(&mut self, mut scope: Scope, jobs: Option<&Node>) {
        let entries = match jobs.map(|jobs| &jobs.value) {
            Some(Value::Mapping(entries)) => entries.as_slice(),
            _ => &[],
        };
        let dot = if scope.shown.is_empty() { "" } else { "." };
        let jobs_shown = format!("{}{dot}jobs", scope.shown);
        if entries.is_empty() {
            let line = jobs.and_then(|jobs| jobs.line);
            self.refuse(&jobs_shown, line, "there is no step: give one of type parallel or command");
        }
        let before = self.opened;
        self.opened = before.saturating_add(entries.len());
        if self.opened > MOST_STEPS {
            // Once: those that are beside it are not looked at either.
            if before <= MOST_STEPS {
                let line = jobs.and_then(|jobs| jobs.line);
                let message = format!(
                    "the pipeline has more than {MOST_STEPS} steps, those of its components among them: make it several \
                     pipelines, or a parallel job"
                );
                self.refuse(&jobs_shown, line, message);
            }
            return;
        }
        for (key, value) in entries {
            let shown = format!("{jobs_shown}.{}", key.name);
            if let Some(step) = self.open(&scope, key, value, shown) {
                scope.by_name.insert(step.name.clone(), scope.steps.len());
                scope.steps.push(step);
            }
        }
        for at in 0..scope.steps.len() {
            self.bind(&mut scope, at, &mut Vec::new());
            let bound = scope.steps[at].bound.clone().unwrap_or_default();
            self.step(&scope, at, bound);
        }
    }

    /// Adds a step, or the steps of a pipeline component.
    fn step(&mut self, scope: &Scope, at: usize, bound: Inputs) {
        let opened = &scope.steps[at];
        let name = format!("{}{}", scope.prefix, opened.name);
        for output in &opened.outputs {
            let Some((to, setting)) = &output.bound_to else { continue };
            if scope.outputs.get(to).is_none() {
                let names = scope.outputs.names();
                let message = format!("the pipeline has no output `{to}`; there are: {names}");
                self.refuse(&setting.shown, setting.line, message);
                continue;
            }
            let from = StepOutput { step: name.clone(), output: output.name.clone() };
            let other = if let Some(outer) = scope.prefix.strip_suffix('.') {
                let alias = StepOutput { step: outer.to_owned(), output: to.clone() };
                self.aliases.insert(alias, from).map(|other| other.step)
            } else {
                let other = self.brought.get(to).cloned();
                self.brought.entry(to.clone()).or_insert_with(|| from.step.clone());
                let (name, step, output) = (to.clone(), from.step, from.output);
                self.done.outputs.push(PipelineOutput { name, step, output });
                other
            };
            if let Some(other) = other {
                let message = format!(
                    "the output `{to}` of the pipeline is that of step {other} already: give it another one"
                );
                self.refuse(&setting.shown, setting.line, message);
            }
        }
        for output in &opened.outputs {
            if let Some(path) = &output.place {
                let of = StepOutput { step: name.clone(), output: output.name.clone() };
                self.place(scope, places::Of::Step(of), &output.name, path);
            }
        }
        let after = self.steps_before(scope, opened);
        if opened.kind == Kind::Pipeline {
            return self.component_pipeline(opened, &name, bound, after);
        }
        let mut node = opened.node.clone();
        let (mut bound, mut wrong) = (bound, Vec::new());
        fill_in(&mut node, scope, "", false, &mut bound, &mut wrong);
        let bound = bound.into_all();
        for (key, line, message) in wrong {
            self.refuse(&format!("{}.{key}", opened.shown), line, message);
        }
        let absent =
            bound.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone()).collect();
        let line = opened.line.unwrap_or(1);
        let key = |name: &str| Key { name: name.to_owned(), line };
        let inputs =
            bound.into_iter().filter_map(|(name, value)| Some((key(&name), value?))).collect::<Vec<_>>();
        let outputs = opened.outputs.iter().map(|output| {
            let mut entries = match &output.given {
                Some(Node { value: Value::Mapping(entries), .. }) => entries.clone(),
                _ => Vec::new(),
            };
            entries.retain(|(key, _)| key.name != "type");
            entries.push((key("type"), output.kind.clone()));
            (key(&output.name), Node { line: opened.line, value: Value::Mapping(entries) })
        });
        let outputs: Vec<_> = outputs.collect();
        if let Value::Mapping(entries) = &mut node.value {
            entries.retain(|(key, _)| !["inputs", "outputs", "type"].contains(&&*key.name));
            let mapping = |entries| Node { line: opened.line, value: Value::Mapping(entries) };
            for (name, of) in [("inputs", inputs), ("outputs", outputs)] {
                if !of.is_empty() {
                    entries.push((key(name), mapping(of)));
                }
            }
        }
        self.done.steps.push(FlatStep {
            name,
            shown: opened.shown.clone(),
            line: opened.line,
            kind: opened.kind,
            node,
            needs: after,
            outputs: opened.outputs.iter().map(|output| output.name.clone()).collect(),
            absent,
        });
    }

    /// The steps that have to complete before `opened`, whatever they bring; the name of a pipeline component stands for
    /// all its steps.
    fn steps_before(&mut self, scope: &Scope, opened: &Opened) -> Vec<String> {
        self.needed += scope.after.len() + opened.depends_on.len();
        if self.needed > MOST_NEEDS {
            if !std::mem::replace(&mut self.is_tangled, true) {
                self.refuse(&format!("{}.depends_on", opened.shown), opened.line, too_many_needs());
            }
            return Vec::new();
        }
        let mut after = scope.after.clone();
        for one in &opened.depends_on {
            let name = one.value.as_text().unwrap_or_default().trim();
            if scope.by_name.contains_key(name) {
                after.push(format!("{}{name}", scope.prefix));
            } else {
                let names = few(scope.steps.iter().map(|step| &*step.name));
                let message = format!("there is no step `{name}`; there are: {names}");
                self.refuse(&one.shown, one.line, message);
            }
        }
        after
    }

    /// Flattens the pipeline component of a step.
    fn component_pipeline(&mut self, opened: &Opened, name: &str, bound: Inputs, after: Vec<String>) {
        if self.depth >= DEEPEST {
            let message = format!(
                "more than {DEEPEST} pipeline components are in one another: a component may not be in itself"
            );
            return self.refuse(&opened.shown, opened.line, message);
        }
        let Some((component, _)) = &opened.component else {
            let message = "a pipeline as a step is a component: give it under component";
            return self.refuse(&opened.shown, opened.line, message);
        };
        let (node, file) = (&component.node, component.file.clone());
        let scope = Scope {
            prefix: format!("{name}."),
            shown: opened.shown.clone(),
            file,
            inputs: bound,
            outputs: opened
                .outputs
                .iter()
                .map(|output| (output.name.clone(), Some(output.kind.clone())))
                .collect(),
            steps: Vec::new(),
            by_name: HashMap::new(),
            after,
        };
        self.depth += 1;
        self.pipeline(scope, node.get("jobs"));
        self.depth -= 1;
    }

    /// The steps with what each needs, once all of them are there.
    fn finish(self) -> FlatPipeline {
        let Self { mut done, aliases, problems, .. } = self;
        let names: Vec<String> = done.steps.iter().map(|step| step.name.clone()).collect();
        // The steps that a name stands for: its own, or those of a pipeline component.
        let mut stands_for: HashMap<&str, Vec<&String>> = HashMap::new();
        for name in &names {
            let components = name.match_indices('.').map(|(dot, _)| &name[..dot]);
            components.chain([&**name]).for_each(|one| stands_for.entry(one).or_default().push(name));
        }
        let mut room = MOST_NEEDS;
        for step in &mut done.steps {
            let (mut needs, mut seen) = (Vec::new(), HashSet::new());
            for name in step.needs.iter().filter_map(|before| stands_for.get(&**before)).flatten() {
                if seen.insert((*name).clone()) {
                    needs.push((*name).clone());
                }
                if needs.len() > room {
                    break;
                }
            }
            let mut lacking = Vec::new();
            if let Value::Mapping(entries) = &mut step.node.value
                && let Some((_, inputs)) = entries.iter_mut().find(|(key, _)| key.name == "inputs")
            {
                each_text(inputs, &mut |text| {
                    let address = StepOutput::parse(text)?;
                    let Some(brought) = follow(&aliases, address) else {
                        lacking.push(text.to_owned());
                        return None;
                    };
                    if seen.insert(brought.step.clone()) {
                        needs.push(brought.step.clone());
                    }
                    Some(brought.to_string())
                });
            }
            let Some(left) = room.checked_sub(needs.len()) else {
                let key = format!("{}.depends_on", step.shown);
                problems.push(Problem { key, line: step.line, message: too_many_needs() });
                break;
            };
            room = left;
            step.needs = needs;
            // What a component's own steps do not bring.
            for text in lacking {
                let message = format!("no step of the pipeline component brings the output {text}");
                problems.push(Problem { key: format!("{}.inputs", step.shown), line: step.line, message });
            }
        }
        for output in &mut done.outputs {
            let address = StepOutput { step: output.step.clone(), output: output.output.clone() };
            if let Some(brought) = follow(&aliases, address) {
                (output.step, output.output) = (brought.step, brought.output);
            }
        }
        for place in &mut done.places {
            if let places::Of::Step(output) = &mut place.of
                && let Some(brought) = follow(&aliases, output.clone())
            {
                *output = brought;
            }
        }
        let known: HashSet<String> = names.into_iter().collect();
        let mut ids: BTreeMap<String, &FlatStep> = BTreeMap::new();
        for step in &done.steps {
            if let Some(lost) = step.needs.iter().find(|need| !known.contains(*need)) {
                let message =
                    format!("no step of the pipeline component {lost} brings the output that the step needs");
                problems.push(Problem { key: format!("{}.inputs", step.shown), line: step.line, message });
            }
            if let Some(other) = ids.insert(name_in_id(&step.name), step) {
                let message =
                    format!("the id of its job would be that of step {}: give another name", other.name);
                problems.push(Problem { key: step.shown.clone(), line: step.line, message });
            }
        }
        done.steps.iter_mut().for_each(|step| step.needs.retain(|need| known.contains(need)));
        done
    }
}

fn too_many_needs() -> String {
    format!(
        "the steps need each other more than {MOST_NEEDS} times: put a step between that needs all of one side"
    )
}

/// The output of a step of its own that `address` stands for.
fn follow(aliases: &HashMap<StepOutput, StepOutput>, mut address: StepOutput) -> Option<StepOutput> {
    for _ in 0..=DEEPEST {
        match aliases.get(&address) {
            Some(next) => address = next.clone(),
            None => return Some(address),
        }
    }
    None
}

/// Puts what `change` gives for each text in `node` in its place.
fn each_text(node: &mut Node, change: &mut impl FnMut(&str) -> Option<String>) {
    match &mut node.value {
        Value::Mapping(entries) => entries.iter_mut().for_each(|(_, value)| each_text(value, change)),
        Value::Sequence(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Scalar { text, .. } => {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Null => {}
    }
}

/// The type that an output is given with.
fn kind_of(output: &Node) -> Option<Node> {
    output.get("type").cloned()
}
