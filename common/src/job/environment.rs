//! `environment` and `environment_variables`: the interpreter of the processes and what it sees.
//!
//! It is looked for where the job will run: here, or on each worker's host, which says so when it has none
//! (`prs_worker::find_interpreter`). The environment mapping that azureml writes counts as far as it names an interpreter of the user's
//! own; environments that would have to be built are refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::RunsOn;
use super::form::RawSetting;
use super::reader::Reader;
use super::spec::JobSpec;
use super::validate::absolute;
use super::yaml::{Node, Value};

/// What names an interpreter.
pub(super) const INTERPRETER: &str = "a Python interpreter, as a path or as a command on PATH";

pub(super) fn read(reader: &mut Reader<'_>, folder: &Path, runs_on: RunsOn, spec: &mut JobSpec) {
    let place = Place { folder, runs_on };
    if let Some(setting) = reader.get("environment") {
        match &setting.value.value {
            Value::Mapping(_) => from_mapping(reader, &setting, place, spec),
            Value::Scalar { text, .. } => spec.environment = interpreter(reader, &setting, place, text),
            Value::Null | Value::Sequence(_) => {
                reader.refuse(
                    &setting,
                    format!("{} is not an environment: give {INTERPRETER}", setting.value.describe()),
                );
            }
        }
    }
    variables(reader, "environment_variables", spec);
}

/// Where an interpreter is looked for.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// The folder that relative paths start from.
    folder: &'a Path,
    runs_on: RunsOn,
}

/// The interpreter that `text` names.
fn interpreter(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    place: Place<'_>,
    text: &str,
) -> Option<String> {
    let text = text.trim();
    match find(place, text) {
        Ok(found) => Some(found),
        Err(message) => {
            reader.refuse(setting, message);
            None
        }
    }
}

fn find(place: Place<'_>, text: &str) -> Result<String, String> {
    let Place { folder, runs_on } = place;
    if text.is_empty() {
        return Err(format!("it is empty: give {INTERPRETER}"));
    }
    if text.starts_with("azureml:") || text.contains("://") {
        return Err(format!("a registered environment or an image is not supported yet: give {INTERPRETER}"));
    }
    let ending = Path::new(text).extension().map(OsStr::to_ascii_lowercase);
    if ending
        .is_some_and(|ending| ["yml", "yaml", "txt", "toml", "lock"].iter().any(|known| ending == *known))
    {
        return Err(format!("{text}: a requirements or conda file is not supported yet: give {INTERPRETER}"));
    }
    if !text.contains('/') {
        if runs_on == RunsOn::Workers {
            return Ok(text.to_owned());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        if std::env::split_paths(&path).any(|folder| is_executable(&folder.join(text))) {
            return Ok(text.to_owned());
        }
        return Err(format!(
            "there is no command {text} on PATH, and names of environments are not supported yet: give {INTERPRETER}"
        ));
    }
    let path = absolute(folder, text);
    let shown = path.display().to_string();
    let not_utf8 = || format!("{shown} is not UTF-8: rename it");
    if runs_on == RunsOn::Workers {
        return path.to_str().map(str::to_owned).ok_or_else(not_utf8);
    }
    let metadata = fs::metadata(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    if metadata.is_dir() {
        let python = path.join("bin/python");
        return Err(if is_executable(&python) {
            format!("{shown} is a folder: give {}", python.display())
        } else {
            format!("{shown} is a folder: give {INTERPRETER}")
        });
    }
    if !is_executable(&path) {
        return Err(format!("{shown} is not executable: give {INTERPRETER}"));
    }
    path.to_str().map(str::to_owned).ok_or_else(not_utf8)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The mapping that azureml writes for an `Environment`.
fn from_mapping(reader: &mut Reader<'_>, setting: &RawSetting, place: Place<'_>, spec: &mut JobSpec) {
    let node = &setting.value;
    let at = |name: &str| format!("{}.{name}", setting.shown);
    for name in ["image", "conda_file", "conda_dependencies", "build", "dependencies"] {
        if let Some(value) = node.get(name).filter(|value| !value.is_null()) {
            let message =
                format!("an environment that has to be built is not supported yet: give {INTERPRETER}");
            reader.refuse_at(&at(name), value.line, message);
            return;
        }
    }
    let python = node.get("python");
    let own = python.and_then(|python| python.get("userManagedDependencies"));
    let own = own.and_then(Node::as_text).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let text = python.and_then(|python| python.get("interpreterPath")).and_then(Node::as_text);
    match (own, text) {
        (true, text) => {
            let text = text.unwrap_or("python");
            spec.environment = interpreter(reader, setting, place, text);
            spec.notes.push(format!(
                "environment: only the interpreter {text} and the variables are taken from the mapping; images and \
                 other sections are not used"
            ));
        }
        (false, _) if python.is_some_and(|python| !python.is_null()) => {
            let message = format!(
                "conda and pip dependencies are not supported yet: in place of the mapping, give {INTERPRETER} that has them"
            );
            reader.refuse(setting, message);
        }
        (false, _) => match node.get("name").and_then(Node::as_text) {
            Some(name) => spec.environment = interpreter(reader, setting, place, name),
            None => reader.refuse(setting, format!("the mapping names no interpreter: give {INTERPRETER}")),
        },
    }
    if node.get("environmentVariables").is_some_and(|variables| !variables.is_null()) {
        let problems = reader.problems();
        let mut mapping = Reader::of_mapping(&setting.shown, node, problems);
        variables(&mut mapping, "environmentVariables", spec);
    }
}

/// Adds the variables under `key`; they count before those that are there.
fn variables(reader: &mut Reader<'_>, key: &str, spec: &mut JobSpec) {
    for variable in reader.text_mapping(key).unwrap_or_default() {
        let name = variable.key.as_str();
        let value = variable.value.as_text().unwrap_or_default();
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            reader.refuse(&variable, "a variable has a name without `=`, and no zero bytes");
            continue;
        }
        spec.environment_variables.insert(name.to_owned(), value.to_owned());
    }
}
