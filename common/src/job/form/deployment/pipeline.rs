//! A batch deployment of `type: pipeline`: its component, a pipeline, runs with the inputs that one run is given by name.
//!
//! It becomes the pipeline that has this component, or, with `job_definition`, the graph of a former pipeline job. What is the
//! deployment's own is taken off.

use std::path::Path;

use super::super::super::error::Problem;
use super::super::super::invocation::Invocation;
use super::super::super::reader::Reader;
use super::super::super::yaml::{Key, Node, Value};
use super::super::source_files::SourceFiles;
use super::super::{Lifted, document, pipeline};
use super::check_names;

/// Keys of the file, and those of one run, which `--set` gives.
pub(in super::super::super) const KEYS: [&str; 14] = [
    "$schema",
    "type",
    "name",
    "endpoint_name",
    "description",
    "tags",
    "properties",
    "component",
    "job_definition",
    "settings",
    "inputs",
    "outputs",
    "experiment_name",
    "compute",
];
/// Keys that a pipeline does not have.
const OWN: [&str; 3] = ["$schema", "endpoint_name", "job_definition"];

/// Lifts the pipeline of the deployment.
pub(in super::super) fn lift(
    document: &mut Node,
    file: &Path,
    overrides: &mut Vec<(String, String)>,
    invocation: &Invocation,
    files: &mut SourceFiles,
    problems: &mut Vec<Problem>,
) -> Option<Lifted> {
    for (option, value) in invocation.given() {
        let key = match option {
            "--job-name" => "name",
            "--experiment-name" => "experiment_name",
            "--input" | "--input-type" => {
                let message = "a pipeline has its inputs by name: --set inputs.NAME.path=PATH, or --set inputs.NAME=VALUE";
                refuse(problems, option, message);
                continue;
            }
            "--output-path" => {
                refuse(
                    problems,
                    option,
                    "the outputs of a pipeline are in its own: prs result JOB --output-path fetches them",
                );
                continue;
            }
            _ => {
                refuse(
                    problems,
                    option,
                    "it is for the deployment of a model: the steps of a pipeline say it themselves",
                );
                continue;
            }
        };
        set(document, key, Node::text(value, None));
    }
    document::apply(document, &KEYS, overrides, problems);
    files.names().resolve(document);
    let mut fields = Reader::of_mapping("", document, problems);
    fields.refuse_unknown(&KEYS, "the batch deployment of a pipeline");
    check_names(&mut fields);
    let definition = fields.get("job_definition");
    let graph = match (&definition, fields.has("component")) {
        (Some(setting), true) => {
            fields.refuse(setting, "component says what runs already: give one of the two");
            return None;
        }
        (Some(setting), false) => {
            // Where the job is to be looked up first, nothing that comes of the file counts.
            let found = job_of(&setting.value).map(|job| files.names().graph(&job));
            match found.and_then(Option::transpose) {
                Ok(found) => Some(Node::text(found?.to_string_lossy(), setting.line)),
                Err(message) => {
                    fields.refuse(setting, message);
                    return None;
                }
            }
        }
        (None, true) => None,
        (None, false) => {
            let message = "the key is missing: give the file of a pipeline component, or a former pipeline job as \
                           job_definition: azureml:JOB";
            fields.refuse_at("component", None, message);
            return None;
        }
    };
    if let Some(graph) = graph {
        set(document, "component", graph);
    }
    if let Value::Mapping(entries) = &mut document.value {
        entries.retain(|(key, _)| KEYS.contains(&&*key.name) && !OWN.contains(&&*key.name));
    }
    pipeline::lift(document, file, files, problems)
}

/// The id of the job that `definition` names.
pub(in super::super) fn job_of(definition: &Node) -> Result<String, String> {
    let given = definition.as_text().unwrap_or_default().trim();
    let id = given.strip_prefix("azureml:").unwrap_or(given);
    let job = id.rsplit_once("/jobs/").map_or(id, |(_, job)| job);
    let is_id = id != given || id.starts_with('/');
    if !is_id || job.is_empty() || job.starts_with("//") || job.contains(['/', ':', '@']) {
        return Err(format!(
            "{} names no job: give azureml:JOB, the id of a pipeline job",
            definition.describe()
        ));
    }
    Ok(job.to_owned())
}

fn refuse(problems: &mut Vec<Problem>, option: &str, message: &str) {
    problems.push(Problem { key: option.to_owned(), line: None, message: message.to_owned() });
}

/// Puts `value` in the place of what the file says.
fn set(document: &mut Node, name: &str, value: Node) {
    let Value::Mapping(entries) = &mut document.value else { return };
    entries.retain(|(key, _)| key.name != name);
    entries.push((Key { name: name.to_owned(), line: 1 }, value));
}
