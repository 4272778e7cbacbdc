//! An environment that is to be registered, as one document: what its conda or requirements file says is in it.

use std::path::Path;

use super::super::environment::self_contained;
use super::super::error::{JobFileError, Problem};
use super::super::yaml::{Node, Value};
use super::written::written;
use super::{AssetFile, COMMON};

/// Keys of Azure that are not of the environment itself.
const ASIDE: [&str; 2] = ["os_type", "inference_config"];

/// The document of the environment that `read` says, whose file is `file`; and what its author should know of.
///
/// # Errors
/// All that is wrong with it.
pub fn environment_document(read: &AssetFile, file: &Path) -> Result<(String, Vec<String>), JobFileError> {
    let mut node = read.document.clone();
    if let Value::Mapping(entries) = &mut node.value {
        entries.retain(|(key, _)| {
            let is_aside = COMMON.contains(&&*key.name) || ASIDE.contains(&&*key.name);
            !is_aside
        });
    }
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let is_empty = matches!(&node.value, Value::Mapping(entries) if entries.is_empty());
    let made = if is_empty {
        problems.push(Problem {
            key: String::new(),
            line: None,
            message: "the file says nothing of an environment: give conda_file, requirements or image"
                .to_owned(),
        });
        None
    } else {
        self_contained(&node, folder, &mut problems, &mut notes)
    };
    let of_file = |mut problem: Problem| {
        let key = problem.key.strip_prefix("environment").unwrap_or(&problem.key);
        problem.key = key.trim_start_matches('.').to_owned();
        problem
    };
    let mut made = made.filter(|made| {
        let is_mapping = matches!(made.value, Value::Mapping(_));
        if !is_mapping {
            let message =
                "it names an interpreter of one machine: give packages (conda_file or requirements)";
            problems.push(Problem { key: String::new(), line: None, message: message.to_owned() });
        }
        is_mapping
    });
    // The same packages are the same environment, whatever their file is called.
    if let Some(Node { value: Value::Mapping(entries), .. }) = &mut made {
        entries.retain(|(key, _)| key.name != "from");
    }
    match made {
        Some(made) if problems.is_empty() => {
            let notes = notes.into_iter().map(|note| of_file(note).in_file(file)).collect();
            Ok((written(&made), notes))
        }
        _ => {
            let problems = problems.into_iter().map(of_file).collect();
            Err(JobFileError::new(file, problems))
        }
    }
}
