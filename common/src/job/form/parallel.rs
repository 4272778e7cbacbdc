//! An Azure Machine Learning v2 parallel job, `type: parallel`: a file of its own, or the step of a pipeline.
//!
//! Says under which native key each of its keys goes. Its defaults differ from the native ones: one file in a mini-batch,
//! and rows that are only counted where no output is to have them. `max_retries` counts the tries after the first one.

use std::collections::HashSet;
use std::path::Path;

use super::super::error::Problem;
use super::super::mltable;
use super::super::names::Names;
use super::super::near_name::few;
use super::super::partition_keys::has_keys;
use super::super::reader::Reader;
use super::super::takes::{INT_MAX, Takes};
use super::super::yaml::{Key, Node, Value};
use super::bindings::{self, Bound, Data, Input, Output, python_text};
use super::common_keys::{RESOURCES, with_common};
use super::derived_name::derived_name;
use super::expressions::{Scope, Uses, parts, whole};
use super::{BuiltIn, RawSetting, RawSettings, optional_groups, reuse, words};
use crate::dataset::remote;

/// Keys that other forms do not have, or not all of them.
const OWN_KEYS: [&str; 15] = [
    "input_data",
    "mini_batch_size",
    "partition_keys",
    "mini_batch_error_threshold",
    "error_threshold",
    "logging_level",
    "resources",
    "max_concurrency_per_instance",
    "retry_settings",
    "environment_variables",
    "queue_settings",
    "limits",
    "task",
    "allow_reuse",
    "force_rerun",
];
/// What is said of a key that Azure has and that changes nothing here.
pub(super) const NO_MEANING: &str = "has no meaning here; ignored";
/// Keys that are native ones, kept for people; those of a pipeline come before those of its step.
const FOR_PEOPLE: [&str; 4] = ["description", "experiment_name", "tags", "properties"];
/// Keys that go under a native key as they are.
const AS_THEY_ARE: [(&str, &str); 7] = [
    ("mini_batch_size", "mini_batch_size"),
    ("partition_keys", "partition_keys"),
    ("mini_batch_error_threshold", "allowed_failed_count"),
    ("error_threshold", "error_threshold"),
    ("logging_level", "logging_level"),
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("allow_reuse", "allow_reuse"),
];
/// What is said of a size beside `partition_keys`.
pub(super) const KEYS_WIN: &str =
    "has no effect beside partition_keys, which say what a mini-batch is; ignored";
pub(super) const RETRIES: [&str; 2] = ["max_retries", "timeout"];
const TASK: [&str; 7] =
    ["type", "code", "entry_script", "environment", "program_arguments", "append_row_to", "model"];
/// What is said of a table with rows whose files are given.
const ROWS_NEED_DIRECT: &str = "the table has rows, and run() gets files: rows need mode: direct";
/// The longest time for a mini-batch, three days.
const LONGEST_TIMEOUT: i64 = 259_200;

/// What a job has from the pipeline that it is the step of.
#[derive(Debug, Default)]
pub(super) struct Around {
    pub(super) inputs: Option<Vec<Input>>,
    pub(super) outputs: Vec<Output>,
    pub(super) compute: Option<RawSetting>,
    /// Optional inputs that have no value.
    pub(super) absent: Vec<String>,
    pub(super) force_rerun: Option<RawSetting>,
}

/// The keys of the job.
pub(super) fn keys() -> Vec<&'static str> {
    with_common(&OWN_KEYS)
}

/// Lifts a file that is a job by itself.
pub(super) fn lift(document: &Node, file: &Path, raw: &mut RawSettings, problems: &mut Vec<Problem>) {
    let mut fields = Reader::of_mapping("", document, problems);
    match fields.get("type") {
        Some(kind) if !kind.value.as_text().is_some_and(|kind| kind.eq_ignore_ascii_case("parallel")) => {
            fields.refuse(&kind, format!("{} is not parallel", kind.value.describe()));
        }
        Some(_) => {}
        None => fields.refuse_at("type", None, "the key is missing: give parallel"),
    }
    names(&mut fields, file, raw);
    job(fields, "", file, &Around::default(), raw);
}

/// Takes the name of a job, or derives it; and what is kept with the job.
pub(super) fn names(fields: &mut Reader<'_>, file: &Path, raw: &mut RawSettings) {
    let display_name = fields.get("display_name");
    let given = fields.get("name");
    if let Some(given) = given.as_ref().filter(|given| !given.value.as_text().is_some_and(is_name)) {
        let message = format!("{} is not a name: give {NAME}", given.value.describe());
        fields.refuse(given, message);
    }
    let given = given.or_else(|| display_name.clone());
    let stem = || file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = given.as_ref().map_or_else(stem, |given| given.value.as_text().unwrap_or_default().to_owned());
    let name = derived_name(&text);
    let shown = display_name.or_else(|| given.clone().filter(|_| name != text));
    let line = given.as_ref().and_then(|given| given.line);
    let value = Node::text(name, line);
    raw.add(RawSetting { key: "name".to_owned(), shown: "name".to_owned(), line, value }, fields.problems());
    if let Some(shown) = shown {
        raw.add(RawSetting { key: "display_name".to_owned(), ..shown }, fields.problems());
    }
    for_people(fields, raw);
}

/// Takes what is kept with the job, where it is not there already.
pub(super) fn for_people(fields: &mut Reader<'_>, raw: &mut RawSettings) {
    for key in FOR_PEOPLE {
        if let Some(setting) = fields.get(key).filter(|_| raw.get(key).is_none()) {
            raw.add(setting, fields.problems());
        }
    }
}

/// What azureml takes for a name.
const NAME: &str = "1 to 255 letters, digits, `_`, `.` and `-` that begin with a letter or digit";

pub(super) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && text.len() <= 255 && text.bytes().all(plain)
}

/// Lifts the job whose keys `fields` has, at `place`.
pub(super) fn job(mut fields: Reader<'_>, place: &str, file: &Path, around: &Around, raw: &mut RawSettings) {
    fields.refuse_unknown(&keys(), "a parallel job");
    for key in ["identity", "services", "queue_settings"] {
        if let Some(setting) = fields.get(key) {
            fields.note(&setting, NO_MEANING);
        }
    }
    if let Some(limits) = fields.get("limits") {
        if !matches!(limits.value.value, Value::Mapping(_)) {
            let given = limits.value.describe();
            fields.refuse(&limits, format!("{given} where a mapping is expected: remove it"));
        } else if limits.value.get("timeout").is_some() {
            let message =
                "a parallel job has none: remove it; retry_settings.timeout is that of a mini-batch";
            fields.refuse_at(&format!("{}.timeout", limits.shown), limits.line, message);
        } else {
            fields.note(&limits, NO_MEANING);
        }
    }
    for_people(&mut fields, raw);
    let inputs = bindings::inputs(&mut fields, around.inputs.as_deref());
    let outputs = bindings::outputs(&mut fields, &around.outputs);
    let input_data = input_data(&mut fields, place, &inputs, file, raw);
    let scope = Scope {
        inputs: &inputs,
        parent: around.inputs.as_deref(),
        input_data: Some(input_data.as_deref().unwrap_or_default()),
        outputs: &outputs,
        uses: None,
    };
    let uses = Uses::default();
    let mut lift = Lift { fields, scope, uses: &uses, raw };
    let keys_count = lift.fields.get("partition_keys").is_some_and(|keys| has_keys(&keys.value));
    for (key, native) in AS_THEY_ARE {
        if let Some(setting) = lift.fields.get(key) {
            if keys_count && key == "mini_batch_size" {
                lift.fields.note(&setting, KEYS_WIN);
                continue;
            }
            lift.give(&setting, native);
        }
    }
    reuse::lift(&mut lift.fields, around.force_rerun.as_ref(), lift.raw);
    if !keys_count && lift.raw.get("mini_batch_size").is_none() && !lift.has_rows() {
        lift.add("mini_batch_size", "mini_batch_size", None, Node::text("1", None));
    }
    for setting in lift.fields.nested("resources", &RESOURCES) {
        if setting.key == "instance_count" {
            lift.give(&setting, "node_count");
        } else {
            lift.fields.note(&setting, NO_MEANING);
        }
    }
    for setting in lift.fields.nested("retry_settings", &RETRIES) {
        lift.retries(&setting);
    }
    lift.variables();
    if let Some(compute) = lift.fields.get("compute").or_else(|| around.compute.clone()) {
        lift.compute(&compute);
    }
    lift.task(place, &outputs, around, file);
    lift.side_inputs(&inputs, file);
    let notes = lift.fields.into_notes();
    raw.notes.extend(notes);
}

/// Takes the input that is cut into mini-batches; gives its name.
fn input_data(
    fields: &mut Reader<'_>,
    place: &str,
    inputs: &[Input],
    file: &Path,
    raw: &mut RawSettings,
) -> Option<String> {
    raw.told.push("inputs");
    let Some(setting) = fields.get("input_data") else {
        let dot = if place.is_empty() { "" } else { "." };
        let message = "the key is missing: give the input to cut into mini-batches, as ${{inputs.NAME}}";
        fields.refuse_at(&format!("{place}{dot}input_data"), None, message);
        return None;
    };
    let inside = setting.value.as_text().and_then(whole).unwrap_or_default();
    let (["inputs", name] | ["inputs", name, "path"]) = parts(inside)[..] else {
        fields
            .refuse(&setting, format!("{} is no input: give ${{{{inputs.NAME}}}}", setting.value.describe()));
        return None;
    };
    let Some(input) = inputs.iter().find(|input| input.at.key == name) else {
        let names = few(inputs.iter().map(|input| input.at.key.as_str()));
        let message = format!("there is no input `{name}`; there are: {names}");
        fields.refuse(&setting, message);
        return None;
    };
    match &input.bound {
        Bound::Data(data) => partitioned(fields, input, data, file, raw),
        Bound::Text(text) => {
            let message = format!("{text:?} is a value: give data, as a mapping with type and path");
            fields.refuse(&input.at, message);
        }
        Bound::Wrong => {}
    }
    Some(name.to_owned())
}

/// Gives `data` as the one native input.
pub(super) fn partitioned(
    fields: &mut Reader<'_>,
    input: &Input,
    data: &Data,
    file: &Path,
    raw: &mut RawSettings,
) {
    let is_table = data.kind == "mltable";
    data.judge_mode(fields);
    let Some(path) = data.path.value.as_text() else {
        let message = format!("{} where a path is expected", data.path.value.describe());
        fields.refuse(&data.path, message);
        return;
    };
    if let Some(message) = data.unlisted() {
        fields.refuse(&data.path, message);
        return;
    }
    if data.kind == "uri_file" && file.with_file_name(path).is_dir() {
        fields.refuse(&data.path, format!("{path} is a folder: give type: uri_folder"));
        return;
    }
    let (kind, value) = if is_table {
        of_table(fields, data, path, file, &raw.names)
    } else {
        ("file", data.path.value.clone())
    };
    let line = input.at.line;
    let key = |name: &str| Key { name: name.to_owned(), line: line.or(data.path.line).unwrap_or(1) };
    let line = Some(key("").line);
    let entries = vec![
        (key("name"), Node::text(&*input.at.key, line)),
        (key("type"), Node::text(kind, line)),
        (Key { line: data.path.line.unwrap_or(1), ..key("path") }, value),
    ];
    let item = Node { line, value: Value::Mapping(entries) };
    let value = Node { line, value: Value::Sequence(vec![item]) };
    let path = data.path.shown.trim_start_matches("--set ").to_owned();
    raw.places.push(("inputs[0].path".to_owned(), path));
    raw.places.push(("inputs[0]".to_owned(), input.at.shown.clone()));
    let shown = "inputs".to_owned();
    raw.add(RawSetting { key: "inputs".to_owned(), shown, line, value }, fields.problems());
}

/// The native type and path of the table that `path` names: its rows where the mode asks for them and the table says how
/// they are read, and otherwise the files that it names.
fn of_table(
    fields: &mut Reader<'_>,
    data: &Data,
    path: &str,
    file: &Path,
    known: &Names,
) -> (&'static str, Node) {
    if remote::is_remote(path) {
        return of_remote_table(fields, data, path, known);
    }
    if let Some(address) = mltable::address_of_step(path) {
        // Whether it says how its files are read shows when the other step has written it.
        let kind = if data.mode_word() == "direct" { "tabular" } else { "file" };
        return (kind, Node::text(address, data.path.value.line));
    }
    let named = Path::new(path.trim());
    let is_itself = named.file_name().is_some_and(|name| name == mltable::NAME);
    let table = if is_itself { named.to_owned() } else { named.join(mltable::NAME) };
    let mode = data.mode_word();
    let is_rows = mltable::has_rows(&file.with_file_name(&table));
    if mode == "direct" && is_rows {
        return (mltable::TYPE, data.path.value.clone());
    }
    if mode.starts_with("eval_") && is_rows {
        fields.note(&data.path, ROWS_NEED_DIRECT);
    }
    match table.to_str() {
        Some(table) if file.with_file_name(table).is_file() => {
            ("file", Node::text(table, data.path.value.line))
        }
        _ => (mltable::TYPE, data.path.value.clone()),
    }
}

/// The same of a table in a bucket. One that is not there is refused where the input is read.
fn of_remote_table(fields: &mut Reader<'_>, data: &Data, path: &str, names: &Names) -> (&'static str, Node) {
    let url = mltable::url_of(path);
    let mode = data.mode_word();
    let Some(Ok(text)) = names.table(&url) else { return (mltable::TYPE, data.path.value.clone()) };
    let is_rows = mltable::reads_rows(&text);
    if mode == "direct" && is_rows {
        return (mltable::TYPE, data.path.value.clone());
    }
    if mode.starts_with("eval_") && is_rows {
        fields.note(&data.path, ROWS_NEED_DIRECT);
    }
    ("file", Node::text(url, data.path.value.line))
}

/// A job that is being lifted.
pub(super) struct Lift<'a, 'b> {
    pub(super) fields: Reader<'b>,
    pub(super) scope: Scope<'a>,
    /// What the texts for the script name so far.
    pub(super) uses: &'a Uses,
    pub(super) raw: &'a mut RawSettings,
}

impl<'a, 'b> Lift<'a, 'b> {
    /// One that has what `raw` has, and gives it what it finds.
    pub(super) fn new(
        fields: Reader<'b>,
        scope: Scope<'a>,
        uses: &'a Uses,
        raw: &'a mut RawSettings,
    ) -> Self {
        Self { fields, scope, uses, raw }
    }

    /// Ends the lifting of a job that prs has the entry script of.
    pub(super) fn finish(self, built_in: BuiltIn) {
        self.raw.built_in = Some(built_in);
        self.raw.told.extend(["inputs", "entry_script"]);
        self.raw.notes.extend(self.fields.into_notes());
    }

    /// `text`, given for `setting`, with its optional groups decided; nothing where something is wrong with them.
    pub(super) fn without_groups(
        &mut self,
        setting: &RawSetting,
        text: &str,
        around: &Around,
    ) -> Option<String> {
        let names: HashSet<&str> = self.scope.inputs.iter().map(|input| &*input.at.key).collect();
        let absent: HashSet<&str> = around.absent.iter().map(String::as_str).collect();
        let has = |name: &str| names.contains(name);
        let is_absent = |name: &&str| absent.contains(name);
        let (text, slips) = match optional_groups::resolve(text, |name| has(name) || !is_absent(&name)) {
            Ok(resolved) => resolved,
            Err(message) => {
                self.fields.refuse(setting, message);
                return None;
            }
        };
        for name in slips {
            let message = format!("$[[inputs.{name}]] is taken for ${{{{inputs.{name}}}}}");
            self.fields.note(setting, message);
        }
        if let Some(name) = optional_groups::inputs_in(&text).into_iter().find(is_absent) {
            let message = format!(
                "${{{{inputs.{name}}}}}: the optional input has no value: put the words that need it into $[[ ]]"
            );
            self.fields.refuse(setting, message);
            return None;
        }
        Some(text)
    }

    /// Adds a native setting.
    pub(super) fn add(&mut self, native: &str, shown: &str, line: Option<usize>, value: Node) {
        let setting = RawSetting { key: native.to_owned(), shown: shown.to_owned(), line, value };
        self.raw.add(setting, self.fields.problems());
    }

    /// Whether the input is an MLTable that is cut by bytes, whose size has another default.
    fn has_rows(&self) -> bool {
        let inputs = self.raw.get("inputs").map(|setting| &setting.value.value);
        let Some(Value::Sequence(items)) = inputs else { return false };
        let kind = |item: &Node| item.get("type").and_then(Node::as_text).map(str::to_owned);
        items.iter().any(|item| matches!(kind(item).as_deref(), Some(mltable::TYPE | "tabular")))
    }

    /// Adds `setting` under its native key, with the values of its expressions.
    pub(super) fn give(&mut self, setting: &RawSetting, native: &str) {
        let Some(value) = self.evaluated(setting) else { return };
        self.add(native, &setting.shown, setting.line, value);
    }

    /// What expressions stand for in a text that the script gets.
    pub(super) fn for_script(&self) -> Scope<'a> {
        Scope { uses: Some(self.uses), ..self.scope }
    }

    /// The value of `setting`, with those of its expressions; nothing where one of them has none.
    pub(super) fn evaluated(&mut self, setting: &RawSetting) -> Option<Node> {
        self.evaluated_in(setting, self.scope)
    }

    fn evaluated_in(&mut self, setting: &RawSetting, scope: Scope<'_>) -> Option<Node> {
        let Some(text) = setting.value.as_text().filter(|text| text.contains("${{")) else {
            return Some(setting.value.clone());
        };
        let value = scope.substitute(text).map_err(|message| self.fields.refuse(setting, message)).ok()?;
        Some(Node::text(value, setting.value.line))
    }

    /// Takes a key of `retry_settings`. Tries are one more than retries.
    pub(super) fn retries(&mut self, setting: &RawSetting) {
        let is_timeout = setting.key == "timeout";
        let takes = if is_timeout {
            Takes::Whole(1..=LONGEST_TIMEOUT, " seconds")
        } else {
            Takes::Whole(0..=INT_MAX - 1, ", the tries after the first one")
        };
        let Some(value) = self.evaluated(setting) else { return };
        match takes.read(&value) {
            Err(message) => self.fields.refuse(setting, message),
            Ok(_) if is_timeout => self.add("run_invocation_timeout", &setting.shown, setting.line, value),
            Ok(retries) => {
                let tries = Node::text((retries.as_i64().unwrap_or_default() + 1).to_string(), value.line);
                self.add("run_max_try", &setting.shown, setting.line, tries);
            }
        }
    }

    /// Takes the environment variables: numbers and booleans are text as Python has it.
    pub(super) fn variables(&mut self) {
        let Some(setting) = self.fields.get("environment_variables") else { return };
        let mut value = setting.value.clone();
        if let Value::Mapping(entries) = &mut value.value {
            for (key, value) in entries {
                let shown = format!("{}.{}", setting.shown, key.name);
                let one =
                    RawSetting { key: String::new(), shown, line: Some(key.line), value: value.clone() };
                let Some(evaluated) = self.evaluated_in(&one, self.for_script()) else { continue };
                if evaluated.as_text().is_some() {
                    *value = Node::text(python_text(&evaluated), value.line);
                }
            }
        }
        self.add("environment_variables", &setting.shown, setting.line, value);
    }

    /// Takes the fleet. The name of a compute of Azure is that of none here.
    pub(super) fn compute(&mut self, setting: &RawSetting) {
        let Some(value) = self.evaluated(setting) else { return };
        let text = value.as_text().unwrap_or_default().trim();
        if text.starts_with("azureml:") || text.starts_with('/') {
            self.fields
                .note(setting, format!("{text} is a compute of Azure; the job is for the fleet `default`"));
        } else if text != "local" {
            // What the configuration says has no line.
            if setting.value.line.is_some() && setting.line.is_some() && text != "default" {
                let message = format!(
                    "the job waits for workers started with --target {text}; --set {}=default is for the fleet \
                     `default`",
                    setting.shown
                );
                self.fields.note(setting, message);
            }
            self.add("compute_target", &setting.shown, setting.line, value);
        }
    }

    /// Takes what runs.
    fn task(&mut self, place: &str, outputs: &[Output], around: &Around, file: &Path) {
        let dot = if place.is_empty() { "" } else { "." };
        self.raw.places.push(("entry_script".to_owned(), format!("{place}{dot}task.entry_script")));
        let task = self.fields.nested("task", &TASK);
        let mut append_row_to = None;
        for setting in task {
            match setting.key.as_str() {
                "type" => {
                    let kind = setting.value.as_text().unwrap_or_default();
                    if !["run_function", "function"].iter().any(|known| known.eq_ignore_ascii_case(kind)) {
                        let given = setting.value.describe();
                        self.fields.refuse(&setting, format!("{given} is not supported: give run_function"));
                    }
                }
                "model" => self.give(&setting, "model"),
                "code" => self.code(&setting, file),
                "entry_script" => self.give(&setting, "entry_script"),
                "environment" => self.environment(&setting),
                "program_arguments" => self.arguments(&setting, around),
                _ => append_row_to = Some(setting),
            }
        }
        self.outputs(append_row_to.as_ref(), outputs, &around.outputs, file);
    }

    /// Takes the folder of the code; that of a file where one is given.
    pub(super) fn code(&mut self, setting: &RawSetting, file: &Path) {
        let Some(value) = self.evaluated(setting) else { return };
        let path = value.as_text().map(Path::new).filter(|path| file.with_file_name(path).is_file());
        let value = match path.and_then(Path::parent) {
            Some(folder) => Node::text(folder.join(".").to_string_lossy(), value.line),
            None => value,
        };
        self.add("source_directory", &setting.shown, setting.line, value);
    }

    /// Takes the environment. An image alone has nothing that is needed here.
    pub(super) fn environment(&mut self, setting: &RawSetting) {
        let is_there = |key: &str| setting.value.get(key).is_some_and(|value| !value.is_null());
        if setting.value.as_text().is_some_and(|text| text.trim() == "local") {
            return;
        }
        if !is_there("image") || is_there("build") {
            self.give(setting, "environment");
            return;
        }
        let image = format!("{}.image", setting.shown);
        let noted = RawSetting { shown: image, ..setting.clone() };
        self.fields.note(&noted, "containers are not run; the Python of the host is used");
        if is_there("conda_file") {
            let mut value = setting.value.clone();
            if let Value::Mapping(entries) = &mut value.value {
                entries.retain(|(key, _)| key.name != "image");
            }
            self.add("environment", &setting.shown, setting.line, value);
        }
    }

    /// Takes the arguments of the script.
    fn arguments(&mut self, setting: &RawSetting, around: &Around) {
        let Some(text) = setting.value.as_text() else {
            let given = setting.value.describe();
            self.fields
                .refuse(setting, format!("{given} where text is expected: write the arguments in one line"));
            return;
        };
        let Some(text) = self.without_groups(setting, text, around) else { return };
        let (line, scope) = (setting.value.line, self.for_script());
        let mut refused = Vec::new();
        let value = |inside: &str| {
            let value = scope.value(inside);
            Ok(value.unwrap_or_else(|message| {
                refused.push(message);
                String::new()
            }))
        };
        match words::split(&text, value) {
            Err(message) => self.fields.refuse(setting, message),
            Ok(words) => {
                let words = words.into_iter().map(|word| Node::text(word, line)).collect();
                let value = Node { line, value: Value::Sequence(words) };
                self.add("arguments", &setting.shown, setting.line, value);
            }
        }
        for message in refused {
            self.fields.refuse(setting, message);
        }
    }
}
