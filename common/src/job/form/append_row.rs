//! Where a v2 parallel job writes: `task.append_row_to`, and the outputs of the job and of the pipeline around it (dialects
//! A.4).
//!
//! All of it is in the one native output: the folder of the rows where these have a path, else the one that holds the paths
//! of all outputs. An output without a path is there under its name.

use std::path::{Component, Path, PathBuf};

use super::super::own_id::JOB_ID;
use super::super::pipeline::{in_bucket, refused};
use super::super::yaml::{Key, Node, Value};
use super::RawSetting;
use super::bindings::Output;
use super::expressions::{parts, substitute, whole};
use super::parallel::Lift;
use crate::dataset::remote::is_in_bucket;

/// Whether `path` is in a datastore of Azure: `azureml://datastores/...`, also with the workspace in front.
pub(super) fn is_in_datastore(path: &str) -> bool {
    path.trim_start().starts_with("azureml://") && path.contains("/datastores/")
}

/// What is said where the path of the rows is in a datastore.
pub(super) const ROWS_IN_DATASTORE: &str =
    "the datastore is not known here; the result is in the output of the job";

/// Where an output of the script is, as its path says.
enum Where {
    /// Below the output of the job.
    Below(String),
    /// A path of this machine or of a bucket, as [`located`] has it.
    At(PathBuf),
}

impl Lift<'_, '_> {
    /// Has the rows go where `append_row_to` says, one of `outputs`, which is relative to `file`; without it they are only
    /// counted. The script gets the others.
    pub(super) fn outputs(
        &mut self,
        append_row_to: Option<&RawSetting>,
        outputs: &[Output],
        of_pipeline: &[Output],
        file: &Path,
    ) {
        let mut appended = None;
        if let Some(setting) = append_row_to {
            let Some(output) = self.named(setting, outputs) else { return };
            self.append_row(setting, output);
            appended = Some(output);
        } else {
            self.add("output_action", "task.append_row_to", None, Node::text("summary_only", None));
        }
        let is_bound =
            |output: &Output| outputs.iter().any(|own| own.is_of_pipeline && own.name == output.at.key);
        for output in of_pipeline.iter().filter(|output| !is_bound(output)) {
            if let Some(path) = &output.path {
                self.fields.note(path, "no step writes this output; ignored");
            }
        }
        let is_other = |output: &&Output| appended.is_none_or(|appended| appended.at.key != output.at.key);
        let others: Vec<&Output> = outputs.iter().filter(is_other).collect();
        self.of_script(appended, &others, file);
    }

    /// Takes the outputs that the script writes itself, and that of the rows where the script is given it, too.
    fn of_script(&mut self, appended: Option<&Output>, others: &[&Output], file: &Path) {
        let mut entries = Vec::new();
        if let Some(output) = appended.filter(|output| self.uses.outputs.borrow().contains(&output.at.key)) {
            if output.kind == "uri_file" {
                let message = "rows are appended to this file, so the script cannot write it: give the script another output";
                self.fields.refuse(&output.at, message);
            }
            entries.push((output, ".".to_owned()));
        }
        let mut at = Vec::new();
        for output in others {
            match self.place_of(output, file) {
                None => {}
                Some(Where::Below(path)) => entries.push((*output, path)),
                Some(Where::At(path)) => at.push((*output, path)),
            }
        }
        let has_pathless = !entries.is_empty() || appended.is_some();
        let given = self.raw.get("output").and_then(|output| output.value.as_text().map(str::to_owned));
        let base = match given {
            Some(folder) => located(file, &folder),
            None => common_folder(&at, has_pathless),
        };
        for (index, (output, path)) in at.iter().enumerate() {
            let shown = output.path.as_ref().unwrap_or(&output.at);
            let Ok(below) = path.strip_prefix(&base) else {
                let message = format!(
                    "it is not in {}, the folder of the rows: give a path in it, or leave it out",
                    text_of(&base)
                );
                self.fields.refuse(shown, message);
                continue;
            };
            if base.parent().is_none_or(|parent| parent == Path::new("")) {
                self.fields.refuse(shown, "the outputs have no folder in common: give them one");
                continue;
            }
            if index == 0 && self.raw.get("output").is_none() {
                let folder = Node::text(text_of(&base), shown.line);
                self.add("output", &shown.shown, shown.line, folder);
            }
            let below = below.to_string_lossy();
            entries.push((*output, if below.is_empty() { ".".to_owned() } else { below.into_owned() }));
        }
        if entries.is_empty() {
            return;
        }
        let entries = entries.into_iter().map(|(output, path)| {
            let line = output.at.line.unwrap_or(1);
            let key = |name: &str| Key { name: name.to_owned(), line };
            let kind = Node::text(if path == "." { "uri_folder" } else { output.kind }, output.at.line);
            let fields = vec![(key("type"), kind), (key("path"), Node::text(path, output.at.line))];
            let name = &output.at.key;
            self.raw.places.push((format!("outputs.{name}"), output.at.shown.clone()));
            (key(name), Node { line: output.at.line, value: Value::Mapping(fields) })
        });
        let value = Node { line: None, value: Value::Mapping(entries.collect()) };
        self.add("outputs", "outputs", None, value);
    }

    /// Where `output` is; nothing where that is refused.
    fn place_of(&mut self, output: &Output, file: &Path) -> Option<Where> {
        let Some(given) = &output.path else { return Some(Where::Below(output.name.clone())) };
        let path = self.path_of_output(output, given)?;
        let path = self.raw.names.place_of_output(&path).unwrap_or(path);
        if is_in_datastore(&path) {
            let below = path.split_once("/paths/").map_or("", |(_, below)| below).trim_matches('/');
            let is_usable = !below.is_empty() && !below.split('/').any(|part| part == "..");
            let below = if is_usable { below } else { &output.name };
            let message = format!("the datastore is not known here; it is {below} in the output of the job");
            self.fields.note(given, message);
            return Some(Where::Below(below.to_owned()));
        }
        let is_elsewhere = path.contains("://") || path.starts_with("azureml:");
        if is_in_bucket(&path)
            && let Err(message) = in_bucket(&path)
        {
            self.fields.refuse(given, message);
        } else if is_elsewhere && !is_in_bucket(&path) {
            self.fields.refuse(given, refused(&path));
        } else {
            let named = output.kind == "uri_file" && path.ends_with('/');
            let path = if named { format!("{path}{}", output.name) } else { path };
            return Some(Where::At(located(file, &path)));
        }
        None
    }

    /// The path of `output` with the values of its expressions; nothing where one of them is refused.
    fn path_of_output(&mut self, output: &Output, given: &RawSetting) -> Option<String> {
        let scope = if output.is_of_pipeline { self.scope.of_pipeline() } else { self.scope };
        let path = given
            .value
            .as_text()
            .ok_or_else(|| format!("{} where a path is expected", given.value.describe()));
        let path = path.and_then(|path| {
            substitute(path, |inside| match inside {
                "output_name" => Ok(output.name.clone()),
                "default_datastore" => Ok("workspaceblobstore".to_owned()),
                "name" => Ok(JOB_ID.to_owned()),
                other => scope.value(other),
            })
        });
        path.map_err(|message| self.fields.refuse(given, message)).ok()
    }

    /// The output that `setting` names.
    fn named<'o>(&mut self, setting: &RawSetting, outputs: &'o [Output]) -> Option<&'o Output> {
        let inside = setting.value.as_text().and_then(whole).unwrap_or_default();
        let (["outputs", name] | ["outputs", name, "path"]) = parts(inside)[..] else {
            let given = setting.value.describe();
            self.fields.refuse(setting, format!("{given} is no output: give ${{{{outputs.NAME}}}}"));
            return None;
        };
        let output = outputs.iter().find(|output| output.at.key == name);
        if output.is_none() {
            self.fields.refuse(setting, format!("there is no output `{name}`: give it under outputs"));
        }
        output
    }

    /// Has the rows go into the file of `output`.
    fn append_row(&mut self, setting: &RawSetting, output: &Output) {
        self.add("output_action", &setting.shown, setting.line, Node::text("append_row", setting.value.line));
        let is_file = output.kind == "uri_file";
        let named = |name: &str, line| Node::text(name, line);
        let Some(given) = &output.path else {
            if is_file {
                let value = named(&output.name, output.at.line);
                self.add("append_row_file_name", &output.at.shown, output.at.line, value);
            }
            return;
        };
        let Some(path) = self.path_of_output(output, given) else { return };
        let path = self.raw.names.place_of_output(&path).unwrap_or(path);
        let line = given.value.line;
        let (folder, file) = match path.rsplit_once('/') {
            _ if !is_file => (path.as_str(), None),
            Some((folder, "")) => (folder, Some(output.name.as_str())),
            Some((folder, file)) => (if folder.is_empty() { "/" } else { folder }, Some(file)),
            None => (".", Some(path.as_str())),
        };
        let is_in_datastore = is_in_datastore(&path);
        if is_in_datastore {
            self.fields.note(given, ROWS_IN_DATASTORE);
        } else {
            self.add("output", &given.shown, given.line, named(folder, line));
        }
        if let Some(file) = file {
            self.add("append_row_file_name", &given.shown, given.line, named(file, line));
        }
    }
}

/// `path`, seen from `file`, without `.` and `..`; of a bucket `s3:/bucket/folder`, as a path has it.
fn located(file: &Path, path: &str) -> PathBuf {
    if is_in_bucket(path) {
        Path::new(path.trim()).components().collect()
    } else {
        normal(&file.with_file_name(path))
    }
}

/// The text that a path of [`located`] is of.
fn text_of(path: &Path) -> String {
    let text = path.to_string_lossy();
    match text.split_once(":/") {
        Some((scheme, rest)) if !text.starts_with('/') => format!("{scheme}://{rest}"),
        _ => text.into_owned(),
    }
}

/// `path` without `.` and `..`, by its text alone.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// The deepest folder that has all of `outputs` in it. One that is the only one, where nothing goes beside it, is itself the
/// folder.
fn common_folder(outputs: &[(&Output, PathBuf)], has_others: bool) -> PathBuf {
    let mut common: Option<PathBuf> = None;
    for (output, path) in outputs {
        let is_inside = has_others || output.kind == "uri_file";
        let folder = if is_inside { path.parent().unwrap_or(path) } else { path };
        common = Some(match common {
            None => folder.to_owned(),
            Some(common) => {
                let same = common.components().zip(folder.components()).take_while(|(a, b)| a == b);
                same.map(|(part, _)| part).collect()
            }
        });
    }
    common.unwrap_or_default()
}
