//! `environment` and `environment_variables`: the Python of the processes and what it sees.
//!
//! An interpreter is looked for where the job will run: here, or on each worker's host, which says so when it has none
//! (`prs_worker::find_interpreter`). A requirements or conda file is read here, where it lies, and travels as data; each
//! host makes an environment of it. Azure's mappings count as far as they name one of these. Images are not run.
//!
//! | file | duty |
//! |---|---|
//! | `packages` | what of it is stored |
//! | `requirements` | requirements files |
//! | `conda` | conda files |
//! | `secrets` | what of it nobody may read |
//! | `of_model` | what a model of `MLflow` says of its packages |

mod conda;
mod of_model;
mod packages;
mod requirements;
mod secrets;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::RunsOn;
use super::error::Problem;
use super::form::{RawSetting, RawSettings};
use super::reader::Reader;
use super::spec::JobSpec;
use super::validate::{absolute, absolute_there};
use super::yaml::{self, Key, Node, Value};
pub(super) use of_model::of_model;
pub use packages::{Environment, Packages};
use requirements::Requirements;
pub use secrets::Secrets;

/// What names an interpreter.
pub(super) const INTERPRETER: &str = "a Python interpreter, as a path or as a command on PATH";
/// All that the key takes.
pub(super) const ENVIRONMENT: &str = "a Python interpreter, as a path or as a command on PATH; a requirements or conda file (`.txt`, `.yml`); or a registered environment (`azureml:NAME:VERSION`)";
/// Keys of a mapping that says of which packages the environment is made; those of `job.json` among them.
const MADE: [&str; 6] = ["python", "requirements", "options", "constraints", "keep", "from"];
/// Keys of Azure's environments beside them.
const OF_AZURE: [&str; 13] = [
    "$schema",
    "name",
    "version",
    "image",
    "conda_file",
    "build",
    "description",
    "tags",
    "properties",
    "os_type",
    "inference_config",
    "environmentVariables",
    "dependencies",
];

pub(super) fn read(reader: &mut Reader<'_>, folder: &Path, runs_on: RunsOn, spec: &mut JobSpec) {
    let place = InterpreterSearch { folder, runs_on };
    if let Some(setting) = reader.get("environment") {
        match &setting.value.value {
            Value::Mapping(_) => from_mapping(reader, &setting, &setting.value, place, spec),
            Value::Scalar { text, .. } => from_text(reader, &setting, place, text, spec),
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

/// The environment that `node` says, in a form that needs no other file: a mapping of its packages, or of its image alone, or
/// an interpreter. Nothing where it is refused. Paths start from `folder`.
pub(super) fn self_contained(
    node: &Node,
    folder: &Path,
    problems: &mut Vec<Problem>,
    notes: &mut Vec<Problem>,
) -> Option<Node> {
    let (key, line) = ("environment".to_owned(), node.line);
    let mut raw = RawSettings::default();
    raw.settings.push(RawSetting { shown: key.clone(), key, line, value: node.clone() });
    let (before, mut spec) = (problems.len(), JobSpec::new("", "", "", Vec::new()));
    let mut reader = Reader::new(raw, problems);
    read(&mut reader, folder, RunsOn::Workers, &mut spec);
    notes.extend(reader.into_notes());
    if problems.len() > before {
        return None;
    }
    let mut made = match &spec.environment {
        Some(Environment::Interpreter(named)) => return Some(Node::text(&**named, line)),
        Some(Environment::Packages(packages)) => of_packages(packages),
        None => {
            let entries = node.get("image").map(|image| (of_key("image"), image.clone()));
            Node { line, value: Value::Mapping(entries.into_iter().collect()) }
        }
    };
    if let (Value::Mapping(entries), false) = (&mut made.value, spec.environment_variables.is_empty()) {
        let variables = spec.environment_variables.iter();
        let variables = variables.map(|(name, value)| (of_key(name), Node::text(&**value, line)));
        let variables = Node { line, value: Value::Mapping(variables.collect()) };
        entries.push((of_key("environmentVariables"), variables));
    }
    Some(made)
}

/// The mapping that `packages` are in a job file.
pub(super) fn of_packages(packages: &Packages) -> Node {
    let text = serde_json::to_string(packages).expect("it holds plain values only");
    yaml::parse(&text).expect("JSON is YAML")
}

fn of_key(name: &str) -> Key {
    Key { name: name.to_owned(), line: 1 }
}

/// Takes a file with packages, or an interpreter.
fn from_text(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    place: InterpreterSearch<'_>,
    text: &str,
    spec: &mut JobSpec,
) {
    // Azure's forms may say that it is a file.
    let text = text.trim();
    let text = text.strip_prefix("file:").filter(|path| !path.starts_with("//")).unwrap_or(text);
    let ending = Path::new(text).extension().map(OsStr::to_ascii_lowercase);
    let is_one_of = |known: &[&str]| known.iter().any(|known| ending.as_deref() == Some(OsStr::new(known)));
    if text.contains("://") || text.starts_with("azureml:") {
        spec.environment = interpreter(reader, setting, place, text);
    } else if is_one_of(&["txt", "in"]) {
        let mut read = Requirements::default();
        read.file(&absolute(place.folder, text));
        take(reader, setting, read, text, spec);
    } else if is_one_of(&["yml", "yaml"]) {
        let path = absolute(place.folder, text);
        let Some(document) = document(reader, setting, &path) else { return };
        let place = InterpreterSearch { folder: path.parent().unwrap_or(place.folder), ..place };
        if document.get("dependencies").is_some() {
            let file = (&*path.display().to_string(), &document, place.folder);
            from_conda(reader, setting, file, text, Vec::new(), spec);
        } else {
            from_mapping(reader, setting, &document, place, spec);
        }
    } else if is_one_of(&["toml", "lock"]) {
        reader.refuse(
            setting,
            format!(
                "{text}: such a file is not read: export its packages to a requirements file, and name that"
            ),
        );
    } else {
        spec.environment = interpreter(reader, setting, place, text);
    }
}

/// The mapping in a YAML file.
fn document(reader: &mut Reader<'_>, setting: &RawSetting, path: &Path) -> Option<Node> {
    let shown = path.display();
    let parsed = requirements::read_text(path).map_err(|message| format!("{shown}: {message}"));
    let parsed = parsed.and_then(|text| {
        yaml::parse(&text).map_err(|error| {
            let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("{shown}{line}: {}", error.message)
        })
    });
    parsed.map_err(|message| reader.refuse(setting, message)).ok()
}

/// Takes a conda file: what problems call it, its mapping, its folder. `from` is what the job calls it, `kept` are the
/// packages of Azure that are to be installed all the same.
fn from_conda(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    file: (&str, &Node, &Path),
    from: &str,
    kept: Vec<String>,
    spec: &mut JobSpec,
) {
    let mut read = Requirements::keeping(kept);
    conda::read(reader, setting, file, &mut read);
    if file.1.get("variables").is_some_and(|variables| !variables.is_null()) {
        let mut mapping = Reader::of_mapping(&setting.shown, file.1, reader.problems());
        variables(&mut mapping, "variables", spec);
    }
    take(reader, setting, read, from, spec);
}

/// The packages of Azure that the mapping `node` wants installed all the same.
fn keep(node: &Node) -> Vec<String> {
    node.get("keep").map(texts).unwrap_or_default()
}

fn texts(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Sequence(items) => items.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
        _ => node.as_text().map(str::to_owned).into_iter().collect(),
    }
}

/// Takes what was read as the environment of the job.
fn take(reader: &mut Reader<'_>, setting: &RawSetting, read: Requirements, from: &str, spec: &mut JobSpec) {
    let Requirements { mut packages, notes, problems, .. } = read;
    for problem in problems {
        reader.refuse(setting, problem);
    }
    for note in notes {
        reader.note(setting, note);
    }
    packages.settle();
    from.clone_into(&mut packages.from);
    spec.environment = Some(Environment::Packages(Box::new(packages)));
}

/// Where an interpreter is looked for.
#[derive(Debug, Clone, Copy)]
struct InterpreterSearch<'a> {
    /// The folder that relative paths start from.
    folder: &'a Path,
    runs_on: RunsOn,
}

/// The interpreter that `text` names.
fn interpreter(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    place: InterpreterSearch<'_>,
    text: &str,
) -> Option<Environment> {
    let text = text.trim();
    match find(place, text) {
        Ok(found) => Some(Environment::Interpreter(found)),
        Err(message) => {
            reader.refuse(setting, message);
            None
        }
    }
}

fn find(place: InterpreterSearch<'_>, text: &str) -> Result<String, String> {
    let InterpreterSearch { folder, runs_on } = place;
    if text.is_empty() {
        return Err(format!("it is empty: give {INTERPRETER}"));
    }
    if text.starts_with("azureml:") || text.contains("://") {
        return Err(format!("a registered environment or an image is not supported yet: give {INTERPRETER}"));
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
    let path = absolute_there(folder, text);
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

/// Takes a mapping: of Azure's v2 forms, of azureml's v1, or of packages as `job.json` has them. Paths in it start from
/// the folder of `place`.
fn from_mapping(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    node: &Node,
    place: InterpreterSearch<'_>,
    spec: &mut JobSpec,
) {
    let at = |name: &str| format!("{}.{name}", setting.shown);
    let given = |name: &str| node.get(name).filter(|value| !value.is_null());
    if let Some(build) = given("build") {
        let message =
            format!("images are not built: give conda_file, or in place of the mapping {INTERPRETER}");
        return reader.refuse_at(&at("build"), build.line, message);
    }
    let python = given("python");
    let is_v1 = python.is_some_and(|python| matches!(python.value, Value::Mapping(_)));
    let is_made =
        ["conda_file", "dependencies", "requirements", "image"].iter().any(|key| given(key).is_some())
            || python.is_some_and(|python| python.as_text().is_some());
    if is_made && !is_v1 {
        let of_conda = if given("dependencies").is_some() { &conda::KEYS[..] } else { &[] };
        let known: Vec<&'static str> =
            MADE.into_iter().chain(OF_AZURE).chain(of_conda.iter().copied()).collect();
        let problems = reader.problems();
        let mut mapping = Reader::of_mapping(&setting.shown, node, problems);
        mapping.refuse_unknown(&known, "an environment");
        made(reader, setting, node, place, spec);
    } else {
        of_v1(reader, setting, node, place, spec);
    }
    if given("environmentVariables").is_some() {
        let problems = reader.problems();
        let mut mapping = Reader::of_mapping(&setting.shown, node, problems);
        variables(&mut mapping, "environmentVariables", spec);
    }
}

/// Refuses those of `keys` that the mapping `node` has.
fn refuse_all(reader: &mut Reader<'_>, setting: &RawSetting, node: &Node, keys: &[&str], message: &str) {
    for key in keys {
        if let Some(value) = node.get(key).filter(|value| !value.is_null()) {
            reader.refuse_at(&format!("{}.{key}", setting.shown), value.line, message);
        }
    }
}

/// Takes an environment that is made of packages.
fn made(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    node: &Node,
    place: InterpreterSearch<'_>,
    spec: &mut JobSpec,
) {
    let given = |name: &str| node.get(name).filter(|value| !value.is_null());
    if given("image").is_some() {
        let alone =
            ["conda_file", "dependencies", "requirements", "python"].iter().all(|key| given(key).is_none());
        let told = if alone { "; the Python of the host is used" } else { "" };
        reader.note(setting, format!("image: containers are not run{told}"));
        if alone {
            let message = "not without packages: give requirements or conda_file";
            return refuse_all(reader, setting, node, &["options", "constraints", "keep"], message);
        }
    }
    let of_conda = |(key, _): &&(Key, Node)| conda::KEYS.contains(&&*key.name);
    // Without the keys that Azure's mapping has beside.
    let inline = given("dependencies").map(|_| match &node.value {
        Value::Mapping(entries) => {
            let value = Value::Mapping(entries.iter().filter(of_conda).cloned().collect());
            Node { value, line: node.line }
        }
        _ => node.clone(),
    });
    let conda = given("conda_file").or(inline.as_ref());
    if conda.is_some() {
        let message = "not beside a conda file: write it there";
        refuse_all(reader, setting, node, &["requirements", "python", "options", "constraints"], message);
        if given("conda_file").is_some() {
            refuse_all(reader, setting, node, &["dependencies"], message);
        }
    }
    let kept = keep(node);
    match conda.map(|conda| (conda, conda.as_text())) {
        Some((_, Some(file))) => {
            let path = absolute(place.folder, file.trim());
            let Some(document) = document(reader, setting, &path) else { return };
            let folder = path.parent().unwrap_or(place.folder);
            let shown = path.display().to_string();
            from_conda(reader, setting, (&shown, &document, folder), file.trim(), kept, spec);
        }
        Some((mapping, None)) => {
            let name = if given("conda_file").is_some() { "conda_file" } else { "dependencies" };
            from_conda(reader, setting, (name, mapping, place.folder), name, kept, spec);
        }
        None => {
            let mut read = Requirements::keeping(kept);
            let mut from = given("from").map(texts).unwrap_or_default().concat();
            match given("requirements").map(|listed| (listed.as_text(), texts(listed))) {
                Some((Some(file), _)) => {
                    read.file(&absolute(place.folder, file.trim()));
                    file.trim().clone_into(&mut from);
                }
                Some((None, lines)) => {
                    for line in lines {
                        read.line(&line, "requirements", place.folder);
                    }
                }
                None => {}
            }
            for option in given("options").map(texts).unwrap_or_default() {
                read.line(&option, "options", place.folder);
            }
            for constraint in given("constraints").map(texts).unwrap_or_default() {
                read.constraint(&constraint, "constraints", place.folder);
            }
            if let Some(version) = given("python").and_then(Node::as_text) {
                match conda::python(version.trim()) {
                    Ok(version) => read.packages.python = version,
                    Err(message) => read.problems.push(message),
                }
            }
            take(reader, setting, read, &from, spec);
        }
    }
}

/// Takes the mapping that azureml writes for an `Environment`.
fn of_v1(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    node: &Node,
    place: InterpreterSearch<'_>,
    spec: &mut JobSpec,
) {
    let python = node.get("python");
    let section = |name: &str| python.and_then(|python| python.get(name)).filter(|value| !value.is_null());
    let own = section("userManagedDependencies").and_then(Node::as_text);
    if own.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        let text = section("interpreterPath").and_then(Node::as_text).unwrap_or("python");
        spec.environment = interpreter(reader, setting, place, text);
        let told = format!(
            "only the interpreter {text} and the variables are taken from the mapping; images and other sections \
             are not used"
        );
        reader.note(setting, told);
        return;
    }
    let listed = section("condaDependencies").filter(|listed| listed.get("dependencies").is_some());
    if let Some(listed) = listed {
        let name = "condaDependencies";
        from_conda(reader, setting, (name, listed, place.folder), name, keep(node), spec);
        reader.note(setting, "only condaDependencies and the variables are taken from the mapping");
    } else if let Some(file) = section("condaDependenciesFile").and_then(Node::as_text) {
        let path = absolute(place.folder, file);
        let Some(document) = document(reader, setting, &path) else { return };
        let folder = path.parent().unwrap_or(place.folder);
        let shown = path.display().to_string();
        from_conda(reader, setting, (&shown, &document, folder), file, keep(node), spec);
    } else if python.is_some_and(|python| !python.is_null()) {
        let message = format!(
            "the mapping names neither an interpreter nor condaDependencies: in its place, give {ENVIRONMENT}"
        );
        reader.refuse(setting, message);
    } else if let Some(name) = node.get("name").and_then(Node::as_text) {
        spec.environment = interpreter(reader, setting, place, name);
    } else {
        reader.refuse(setting, format!("the mapping names no interpreter: give {INTERPRETER}"));
    }
}

/// Bytes of one variable of an environment, with its name, `=` and a zero byte, that Linux takes.
pub const LONGEST_VARIABLE: usize = 128 << 10;
/// Bytes of all variables of a job, each with its name and [what it takes besides](OF_VARIABLE). Linux takes a quarter of
/// the limit of the stack, mostly 2 MiB, for these, those of the host and of prs, and the arguments of what a script starts.
const MOST_OF_VARIABLES: usize = 3 << 19;
/// Bytes that a variable takes beside its name and value: `=`, a zero byte, and a pointer.
pub const OF_VARIABLE: usize = 2 + size_of::<usize>();

/// Adds the variables under `key`; they count before those that are there.
fn variables(reader: &mut Reader<'_>, key: &str, spec: &mut JobSpec) {
    for variable in reader.text_mapping(key).unwrap_or_default() {
        let name = variable.key.as_str();
        let value = variable.value.as_text().unwrap_or_default();
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            reader.refuse(&variable, "a variable has a name without `=`, and no zero bytes");
            continue;
        }
        let bytes = name.len() + value.len() + 2;
        if bytes > LONGEST_VARIABLE {
            reader.refuse(
                &variable,
                format!(
                    "the variable has {bytes} bytes with its name, and Linux takes {LONGEST_VARIABLE} at most: give a \
                     file under side_inputs, and its path here"
                ),
            );
            continue;
        }
        spec.environment_variables.insert(name.to_owned(), value.to_owned());
    }
    let sizes = spec.environment_variables.iter().map(|(name, value)| name.len() + value.len() + OF_VARIABLE);
    let (all, count) = (sizes.sum::<usize>(), spec.environment_variables.len());
    if let Some(setting) = reader.get(key).filter(|_| all > MOST_OF_VARIABLES) {
        reader.refuse(
            &setting,
            format!(
                "the {count} variables have {all} bytes together, and {MOST_OF_VARIABLES} are the most that leaves room for \
                 those of a host: give what is long in a file under side_inputs"
            ),
        );
    }
}
