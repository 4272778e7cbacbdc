//! The data and the settings of one run of a deployment: options of the command line, and `--set` of keys that are those of
//! a run (dialects C.7).
//!
//! They come before what the deployment says. Paths start from the current folder.

use std::path::Path;

use crate::dataset::http_url::is_http;
use crate::dataset::remote::{RemotePath, is_in_bucket};

use super::super::super::error::Problem;
use super::super::super::fence;
use super::super::super::invocation::Invocation;
use super::super::super::names::Names;
use super::super::super::near_path;
use super::super::super::own_id::{check_named_file, with_some_id};
use super::super::super::reader::Reader;
use super::super::super::validate::is_identifier;
use super::super::super::yaml::{Node, Value, scalar};
use super::super::append_row::{ROWS_IN_DATASTORE, is_in_datastore};
use super::super::bindings::{self, Bound, Data, Input};
use super::super::parallel::{RETRIES, partitioned};
use super::super::{RawSetting, RawSettings, document};
use super::job_name;

/// Keys of `--set` that are settings of a run, and their native keys; those that have the native name are taken as they are
/// for any job.
const SETTINGS: [(&str, &str); 5] = [
    ("resources.instance_count", "node_count"),
    ("compute.instance_count", "node_count"),
    ("max_concurrency_per_instance", "process_count_per_node"),
    ("output_file_name", "append_row_file_name"),
    ("experiment_name", "experiment_name"),
];
/// Keys of `--set` below `retry_settings`.
const RETRY_SETTINGS: &str = "retry_settings.";
/// Mappings that `--set` fills.
const MAPPINGS: [&str; 3] = ["inputs", "outputs", "output_dataset"];
/// What is said where there are no data, in Azure's words.
const NO_INPUT: &str =
    "Input path can't be empty for batch endpoint invoke: give --input DATA, a file, a folder or a URL";
/// What data of a deployment are.
const TYPES: [&str; 2] = ["uri_folder", "uri_file"];
/// The name that the input has for the script, where it is given without one.
const INPUT: &str = "input";

/// What one run is given.
pub(super) struct Run {
    /// Settings under their native keys.
    pub(super) settings: Vec<RawSetting>,
    /// Of `retry_settings`, under the names there.
    retry_settings: Vec<RawSetting>,
    /// `inputs`, `outputs` and `output_dataset`, as `--set` fills them.
    document: Node,
    invocation: Invocation,
}

impl Run {
    /// Takes what `invocation` says, and those of `overrides` that are for a run.
    pub(super) fn take(
        overrides: &mut Vec<(String, String)>,
        invocation: &Invocation,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut run = Self {
            settings: Vec::new(),
            retry_settings: Vec::new(),
            document: Node { line: None, value: Value::Null },
            invocation: invocation.clone(),
        };
        overrides.retain(|(key, value)| {
            let shown = format!("--set {key}");
            let setting = |key: &str| RawSetting {
                key: key.to_owned(),
                shown: shown.clone(),
                line: None,
                value: scalar(value.trim()),
            };
            if let Some((_, native)) = SETTINGS.iter().find(|(given, _)| given == key) {
                run.set(setting(native));
            } else if let Some(name) = key.strip_prefix(RETRY_SETTINGS).filter(|name| RETRIES.contains(name))
            {
                run.retry_settings.retain(|present| present.key != name);
                run.retry_settings.push(setting(name));
            } else {
                return true;
            }
            false
        });
        document::apply(&mut run.document, &MAPPINGS, overrides, problems);
        if let Value::Null = run.document.value {
            run.document.value = Value::Mapping(Vec::new());
        }
        for (option, value) in invocation.given() {
            let native = match option {
                "--mini-batch-size" => "mini_batch_size",
                "--instance-count" => "node_count",
                "--experiment-name" => "experiment_name",
                "--job-name" => "name",
                _ => continue,
            };
            let value = if native == "name" { job_name(value) } else { scalar(value.trim()) };
            let (key, shown) = (native.to_owned(), option.to_owned());
            run.set(RawSetting { key, shown, line: None, value });
        }
        run
    }

    /// Puts what references in `--set` stand for in their place.
    pub(super) fn resolve(&mut self, names: &Names) {
        names.resolve(&mut self.document);
    }

    fn set(&mut self, setting: RawSetting) {
        self.settings.retain(|present| present.key != setting.key);
        self.settings.push(setting);
    }

    /// Whether it says what the native key `native` is.
    pub(super) fn has(&self, native: &str) -> bool {
        self.settings.iter().any(|setting| setting.key == native)
    }

    /// The settings below `retry_settings`, of which `of_file` are those of the file.
    pub(super) fn retries(&self, mut of_file: Vec<RawSetting>) -> Vec<RawSetting> {
        of_file.retain(|setting| self.retry_settings.iter().all(|other| other.key != setting.key));
        of_file.extend(self.retry_settings.iter().cloned());
        of_file
    }

    /// Gives the input, and the place of the output where there is one.
    pub(super) fn data(&mut self, fields: &mut Reader<'_>, file: &Path, raw: &mut RawSettings) {
        let mut given = Reader::of_mapping("", &self.document, fields.problems());
        let mut inputs = bindings::inputs(&mut given, None);
        let outputs = bindings::outputs(&mut given, &[]);
        let dataset = given.get("output_dataset").and_then(|dataset| {
            let given = Reader::of_mapping("output_dataset", &dataset.value, fields.problems());
            given.get("path")
        });
        self.input_of_option(fields, &mut inputs, &raw.names);
        match &inputs[..] {
            [] if self.invocation.is_check => {}
            [] => fields.refuse_at("--input", None, NO_INPUT),
            [input] => give(fields, input, file, raw),
            [_, second, ..] => {
                fields.refuse(&second.at, "the deployment of a model takes exactly one input: keep one");
            }
        }
        let option = self.invocation.output_path.as_ref().map(|path| ("--output-path", path.clone(), false));
        let of_set = outputs.iter().filter_map(|output| {
            let path = output.path.as_ref()?;
            Some(("--set outputs", path.value.as_text()?.to_owned(), output.kind == "uri_file"))
        });
        let of_dataset = dataset
            .iter()
            .filter_map(|path| Some(("--set output_dataset.path", path.value.as_text()?.to_owned(), false)));
        let places: Vec<_> = option.into_iter().chain(of_set).chain(of_dataset).collect();
        if let [_, (second, ..), ..] = &places[..] {
            fields.refuse_at(second, None, "the deployment of a model has one output: keep one");
        } else if let Some((shown, path, is_file)) = places.into_iter().next() {
            self.place_output(fields, &raw.names, (shown, &path, is_file));
        }
    }

    /// Adds the input of `--input`.
    fn input_of_option(&self, fields: &mut Reader<'_>, inputs: &mut Vec<Input>, names: &Names) {
        let kind = self.invocation.input_type.as_deref().map(str::trim);
        let kind = match kind.map(|kind| TYPES.iter().find(|known| known.eq_ignore_ascii_case(kind))) {
            Some(None) => {
                let given = kind.unwrap_or_default();
                let message =
                    format!("{given:?} is not what a deployment takes: give {}", TYPES.join(" or "));
                return fields.refuse_at("--input-type", None, message);
            }
            Some(Some(kind)) => Some(*kind),
            None => None,
        };
        let Some(given) = &self.invocation.input else {
            if kind.is_some() {
                fields.refuse_at("--input-type", None, "it says what --input is: give that, too");
            }
            return;
        };
        match located(given.trim(), kind) {
            Ok((of_text, path)) => {
                let mut path = Node::text(path, None);
                let of_registry = names.option("--input", &mut path);
                let kind = kind.or(of_registry).unwrap_or(of_text);
                let setting = |key: &str, value| RawSetting {
                    key: key.to_owned(),
                    shown: "--input".to_owned(),
                    line: None,
                    value,
                };
                let data = Data { kind, path: setting("path", path), mode: None };
                let at = setting(INPUT, Node { line: None, value: Value::Null });
                inputs.push(Input { at, bound: Bound::Data(Box::new(data)) });
            }
            Err(message) => {
                fields.refuse_at("--input", None, message);
                let at = RawSetting {
                    key: INPUT.to_owned(),
                    shown: "--input".to_owned(),
                    line: None,
                    value: Node { line: None, value: Value::Null },
                };
                inputs.push(Input { at, bound: Bound::Wrong });
            }
        }
    }

    /// Has the output be at `path`: the folder, or the file of the rows itself. Of a path in a datastore the name of the file
    /// is kept, and the output is that of the job.
    fn place_output(
        &mut self,
        fields: &mut Reader<'_>,
        names: &Names,
        (shown, path, is_file): (&str, &str, bool),
    ) {
        let known = names.place_of_output(path);
        let path = known.as_deref().unwrap_or(path);
        if is_in_datastore(path) {
            let setting = |key: &str, value: Node| RawSetting {
                key: key.to_owned(),
                shown: shown.to_owned(),
                line: None,
                value,
            };
            fields.note(&setting("output", Node::text(path, None)), ROWS_IN_DATASTORE);
            let file = path.rsplit_once('/').map(|(_, file)| file).filter(|file| is_file && !file.is_empty());
            if let Some(file) = file {
                self.set(setting("append_row_file_name", Node::text(file, None)));
            }
            return;
        }
        let is_local = is_local(&with_some_id(path));
        let path = if is_local { from_here(path) } else { path.to_owned() };
        let mut set = |key: &str, value: &str| {
            let (key, value) = (key.to_owned(), Node::text(value, None));
            self.set(RawSetting { key, shown: shown.to_owned(), line: None, value });
        };
        // What is elsewhere, but for buckets, is refused as the place, and is not printed: what follows a scheme may hold a password.
        if !is_file || !(is_local || is_in_bucket(&path)) {
            return set("output", &path);
        }
        match path.rsplit_once('/') {
            Some((folder, file)) if check_named_file(file).is_ok() => {
                set("output", if folder.is_empty() { "/" } else { folder });
                set("append_row_file_name", file);
            }
            _ => {
                let message = format!("{path} is not the path of a file: give one with its name");
                fields.refuse_at(shown, None, message);
            }
        }
    }
}

/// Gives the one input of the job.
fn give(fields: &mut Reader<'_>, input: &Input, file: &Path, raw: &mut RawSettings) {
    match &input.bound {
        Bound::Wrong => {}
        Bound::Text(text) => {
            // What follows a scheme may hold a password.
            let shown = text.split_once("://").map_or(text.clone(), |(scheme, _)| format!("{scheme}://"));
            let message =
                format!("{shown:?} is a value, and the deployment of a model takes data: give path");
            fields.refuse(&input.at, message);
        }
        Bound::Data(data) if !TYPES.contains(&data.kind) => {
            let message =
                format!("{} is not what a deployment takes: give {}", data.kind, TYPES.join(" or "));
            fields.refuse(&input.at, message);
        }
        Bound::Data(data) => {
            let mut input = input.clone();
            let mut data = data.as_ref().clone();
            if !is_identifier(&input.at.key) {
                INPUT.clone_into(&mut input.at.key);
            }
            let is_local = data.path.value.as_text().is_some_and(is_local);
            if let (true, Some(path)) = (is_local, data.path.value.as_text().map(from_here)) {
                data.path.value = Node::text(path, None);
            }
            partitioned(fields, &input, &data, file, raw);
        }
    }
}

/// Whether `given` is a path, as far as its text goes.
fn is_local(given: &str) -> bool {
    !given.contains("://") && !given.starts_with("azureml:") && !given.contains("${{")
}

/// `path` seen from the current folder.
fn from_here(path: &str) -> String {
    let absolute = std::path::absolute(path.trim());
    absolute.ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

/// What `--input` names: its type, and its path or URL. What is in a registry has an address that begins with `azureml:`.
fn located(given: &str, kind: Option<&'static str>) -> Result<(&'static str, String), String> {
    if given.is_empty() {
        return Err(NO_INPUT.to_owned());
    }
    let of_data = kind.unwrap_or("uri_folder");
    if given.starts_with("/subscriptions/") {
        return Ok((of_data, format!("azureml:{given}")));
    }
    if is_http(given) && !RemotePath::parse(given).is_ok_and(|url| url.lists()) {
        return Ok((kind.unwrap_or("uri_file"), given.to_owned()));
    }
    if !is_local(given) {
        return Ok((of_data, given.to_owned()));
    }
    let path = from_here(given);
    if !fence::pass(Path::new(&path), given) {
        return Err(format!("{given} is not among what came with the job"));
    }
    match Path::new(&path).metadata() {
        Ok(found) if found.is_dir() && kind == Some("uri_file") => {
            Err(format!("{given} is a folder, and --input-type says uri_file: leave that out"))
        }
        Ok(found) if !found.is_dir() && kind == Some("uri_folder") => {
            Err(format!("{given} is a file, and --input-type says uri_folder: leave that out"))
        }
        Ok(found) => Ok((if found.is_dir() { "uri_folder" } else { "uri_file" }, path)),
        Err(_) if is_registered(given) => Ok((of_data, format!("azureml:{given}"))),
        Err(error) => Err(format!("cannot read {given}: {error}{}", near_path::hint(Path::new(&path)))),
    }
}

/// Whether `given` is `NAME:VERSION` or `NAME@LABEL`.
fn is_registered(given: &str) -> bool {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    given.split_once([':', '@']).is_some_and(|(name, version)| is_word(name) && is_word(version))
}
