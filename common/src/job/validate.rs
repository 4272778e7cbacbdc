//! Raw settings to a [`JobSpec`]: defaults, types, ranges, and what the disk must have (spec
//! section 2).
//!
//! One pass over every key, whatever is wrong with the others. A known key whose feature is not built
//! yet is refused, never ignored.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value as Json;

use super::error::Problem;
use super::form::{BuiltIn, RawSetting, RawSettings};
use super::keys::{Fallback, JOB, THRESHOLDS};
use super::names::Names;
use super::own_id::{with_plain_job_id, with_some_id};
use super::pipeline::{in_bucket, refused};
use super::reader::Reader;
use super::references::{Reference, no_side_input, resolve_references};
use super::spec::{JobSpec, MiniBatchSize};
use super::takes::{INT_MAX, NoSize, Takes, size};
use super::yaml::{Node, Value};
use super::{
    RunsOn, arguments, built_in, environment, fence, inputs, mlflow, model, near_path, output_format,
    outputs, partition_keys, side_inputs,
};
use crate::dataset::input::InputKind;
use crate::dataset::remote::is_in_bucket;

/// Checks every setting; a spec is whole only if `problems` stays empty. `folder` is the job file's,
/// absolute. Gives what the author should know of, too.
pub(super) fn validate(
    raw: RawSettings,
    folder: &Path,
    runs_on: RunsOn,
    problems: &mut Vec<Problem>,
) -> (JobSpec, Vec<Problem>, Vec<RawSetting>) {
    let (built_in, is_step) = (raw.built_in, raw.is_step);
    let mut reader = Reader::new(raw, problems);
    // `job.json` holds text only; everything else in a path comes from the file, which is UTF-8.
    if folder.to_str().is_none() {
        reader.refuse_at("", None, format!("{} is not UTF-8: rename the folder", folder.display()));
    }
    reader.refuse_unknown(&JOB.names(), JOB.of);
    for key in JOB.keys.iter().filter(|key| key.default == Fallback::Required) {
        if !reader.has(key.name) && !reader.is_told(key.name) {
            reader.refuse_absent(key);
        }
    }
    let arguments = arguments::read(&mut reader);
    let is_one_item = built_in.is_some_and(BuiltIn::is_one_item);
    let inputs = if is_one_item { vec![built_in::item()] } else { inputs::read(&mut reader, folder) };
    let mut spec = JobSpec::new("", "", built_in.map_or("", BuiltIn::script), inputs);
    spec.arguments = arguments;
    spec.model = model::read(&mut reader, folder, runs_on);
    spec.side_inputs = side_inputs::read(&mut reader, folder);
    spec.outputs = outputs::read(&mut reader);
    adjust(&mut spec, &mut reader, folder, runs_on);
    references(&mut reader, &mut spec);
    for (key, kept) in [("tags", &mut spec.tags), ("properties", &mut spec.properties)] {
        let given = reader.text_mapping(key).unwrap_or_default().into_iter();
        kept.extend(given.filter_map(|text| Some((text.key, text.value.as_text()?.to_owned()))));
    }
    let names = reader.names();
    let place = reader.read(JOB.key("output"), |given| output(folder, given, &names));
    (spec.output, spec.deliver_to) = place.unwrap_or_default();
    // Where it cannot be used, nothing is said of the script that is looked for in it.
    let given =
        reader.get("source_directory").and_then(|setting| Some(setting.value.as_text()?.trim().to_owned()));
    let given = given.unwrap_or_default();
    spec.source_directory = absolute(folder, &given);
    fence::is_for(&plain(folder, &given), fence::Purpose::Code);
    reader.read(JOB.key("source_directory"), |given| source_directory(folder, given));
    if let Some(built_in) = built_in {
        if !built_in.has_code() {
            spec.source_directory = PathBuf::new();
        }
    } else {
        let script =
            reader.read(JOB.key("entry_script"), |given| entry_script(&spec.source_directory, given));
        spec.entry_script = script.unwrap_or_default();
    }
    if let Some(setting) = reader.get("copy_logs_to_parent").filter(|_| spec.copy_logs_to_parent && !is_step)
    {
        reader.note(&setting, "the job is no step of a pipeline, so its logs stay with it alone");
    }
    if let Some((setting, note)) = reader.get("append_row_file_name").zip(output_format::note_on_csv(&spec)) {
        reader.note(&setting, note);
    }
    let given = reader.given();
    (spec, reader.into_notes(), given)
}

/// Puts what is given for a start of a job over the settings that it has: all that `--set` may change. What is not given
/// stays.
pub(super) fn adjust(spec: &mut JobSpec, reader: &mut Reader<'_>, folder: &Path, runs_on: RunsOn) {
    let mut stored = spec.stored();
    for key in JOB.keys {
        let Some(value) = reader.value::<Json>(key).filter(|value| !value.is_null()) else { continue };
        stored.insert(key.name.to_owned(), value);
    }
    *spec = JobSpec::of_stored(stored);
    spec.failures_allowed |= THRESHOLDS.iter().any(|key| reader.has(key));
    partition_keys::read(reader, spec);
    let kind = spec.inputs.first().map(|input| input.kind);
    if let Some(size) = reader.judge("mini_batch_size", |given| mini_batch_size(given, kind)) {
        spec.mini_batch_size = size;
    }
    output_format::read(reader, spec);
    mlflow::refuse_settings(reader, spec);
    environment::read(reader, folder, runs_on, spec);
    arguments::follow_overrides(reader, &mut spec.arguments);
}

/// Looks at what the texts for the script refer to, and gives the job the outputs that they name.
fn references(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let names = || spec.side_inputs.iter().map(|side_input| &*side_input.name);
    let known: HashSet<&str> = names().collect();
    let texts = texts_for_the_script(reader, spec);
    let mut used = Vec::new();
    for text in &texts {
        let looked_at =
            resolve_references(text.value.as_text().unwrap_or_default(), |reference| match reference {
                Reference::SideInput(name) if !known.contains(name) => Err(no_side_input(name, names())),
                Reference::SideInput(_) => Ok(String::new()),
                Reference::Output(name) => {
                    used.push((text, name.to_owned()));
                    Ok(String::new())
                }
            });
        if let Err(message) = looked_at {
            reader.refuse(text, message);
        }
    }
    outputs::complete(reader, spec, &used);
}

/// The arguments and the variables, each with its place in the file.
fn texts_for_the_script(reader: &Reader<'_>, spec: &JobSpec) -> Vec<RawSetting> {
    let arguments = Place::of(reader, "arguments");
    let items = match &arguments.given {
        Some(RawSetting { value: Node { value: Value::Sequence(items), .. }, .. }) => items.as_slice(),
        _ => &[],
    };
    let of_arguments = spec.arguments.iter().enumerate().map(|(index, text)| {
        arguments.of_part(&format!("[{index}]"), items.get(index).and_then(|item| item.line), text)
    });
    let variables = Place::of(reader, "environment_variables");
    let entries = match &variables.given {
        Some(RawSetting { value: Node { value: Value::Mapping(entries), .. }, .. }) => entries.as_slice(),
        _ => &[],
    };
    // Of a name that is there twice the first counts.
    let lines: HashMap<&str, usize> = entries.iter().rev().map(|(key, _)| (&*key.name, key.line)).collect();
    let of_variables = spec
        .environment_variables
        .iter()
        .map(|(name, text)| variables.of_part(&format!(".{name}"), lines.get(&**name).copied(), text));
    of_arguments.chain(of_variables).collect()
}

/// Where the parts of a setting stand.
struct Place<'a> {
    key: &'a str,
    given: Option<RawSetting>,
}

impl<'a> Place<'a> {
    fn of(reader: &Reader<'_>, key: &'a str) -> Self {
        Self { key, given: reader.get(key) }
    }

    /// The part of this name and line; without one that of the setting.
    fn of_part(&self, part: &str, line: Option<usize>, text: &str) -> RawSetting {
        let (shown, own) = self.given.as_ref().map_or((self.key, None), |given| (&*given.shown, given.line));
        let (shown, line) = (format!("{shown}{part}"), line.or(own));
        RawSetting { key: self.key.to_owned(), shown, line, value: Node::text(text, line) }
    }
}

/// What a job may be called.
pub(super) const JOB_NAME: &str =
    "3 to 32 lower-case letters, digits and dashes that begin with a letter and end with a letter or digit";

/// What is wrong with `name` as the name of a job.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if plain && begins && !name.ends_with('-') && (3..=32).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("{name:?} is not a job name: give {JOB_NAME}"))
}

fn source_directory(folder: &Path, given: &str) -> Result<(), String> {
    refuse_elsewhere(given)?;
    let path = absolute(folder, given);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a folder", path.display())),
        Err(error) => Err(format!("cannot read {}: {error}{}", path.display(), near_path::hint(&path))),
    }
}

/// The script as a path below the source directory, or as a dotted name (E1).
fn entry_script(source_directory: &Path, given: &str) -> Result<String, String> {
    let expected = &JOB.key("entry_script").takes;
    let shown = source_directory.display();
    if !source_directory.is_dir() {
        // Refused already.
        return Ok(given.to_owned());
    }
    if !is_python_file(given) {
        if !given.split('.').all(is_identifier) {
            return Err(format!("{given:?} is not an entry script: give {expected}"));
        }
        if script_below(source_directory, given).is_none() {
            let [file, package] = files_of_module(given);
            return Err(format!(
                "module {given} is neither {file} nor {package} in source_directory {shown}"
            ));
        }
        return Ok(given.to_owned());
    }
    let path = source_directory.join(given);
    let Ok(below) = path.strip_prefix(source_directory) else {
        return Err(format!("{given} is not below source_directory {shown}: give {expected}"));
    };
    if below.components().any(|part| part == Component::ParentDir) {
        return Err(format!("{given} leads out of source_directory with `..`: give {expected}"));
    }
    if !path.is_file() {
        return Err(format!(
            "there is no file {given} in source_directory {shown}{}",
            near_path::hint(&path)
        ));
    }
    let below: PathBuf = below.components().filter(|part| *part != Component::CurDir).collect();
    Ok(below.display().to_string())
}

fn is_python_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "py")
}

/// The file of a checked `entry_script`, a file or a dotted module name, below `source_directory` (E1); nothing where
/// there is none.
pub fn script_below(source_directory: &Path, entry_script: &str) -> Option<PathBuf> {
    let named = if is_python_file(entry_script) {
        vec![entry_script.to_owned()]
    } else {
        Vec::from(files_of_module(entry_script))
    };
    named.iter().map(|name| source_directory.join(name)).find(|path| path.is_file())
}

/// The files that a dotted module name may mean.
fn files_of_module(name: &str) -> [String; 2] {
    let module = name.replace('.', "/");
    [format!("{module}.py"), format!("{module}/__init__.py")]
}

/// A count of files, or bytes with `KB`, `MB` and `GB` of 1024. Without `kind`, where no input says it, what would be
/// neither is refused.
fn mini_batch_size(given: &Node, kind: Option<InputKind>) -> Result<MiniBatchSize, String> {
    if kind == Some(InputKind::File) {
        let count = Takes::Whole(1..=INT_MAX, ", the number of files in a mini-batch").read(given)?;
        return Ok(MiniBatchSize::Files(count.as_u64().unwrap_or_default()));
    }
    let text = given.as_text().ok_or_else(|| format!("{} where text is expected", given.describe()))?.trim();
    let expected = match kind {
        Some(_) => {
            "give bytes, at least 1, as a whole number with KB, MB, GB or nothing after it, such as 10MB"
        }
        None => "give the number of files in a mini-batch, or for tabular inputs bytes, such as 10MB",
    };
    match size(text) {
        Ok(bytes) => Ok(MiniBatchSize::Bytes(bytes)),
        Err(NoSize::OutOfRange) => Err(format!("{} is out of range: {expected}", given.describe())),
        Err(NoSize::Other) => Err(format!("{} is not a size: {expected}", given.describe())),
    }
}

/// Where the output is: a folder of this machine, or one of a bucket.
fn output(folder: &Path, given: &str, names: &Names) -> Result<(Option<PathBuf>, Option<String>), String> {
    let given_path = with_plain_job_id(given);
    let given_path = names.place_of_output(&given_path).unwrap_or(given_path);
    if is_in_bucket(&given_path) {
        return Ok((None, Some(in_bucket(&given_path)?)));
    }
    let plain_text = with_some_id(&given_path);
    if plain_text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
        || plain_text.starts_with("azureml:")
    {
        return Err(refused(&plain_text));
    }
    refuse_elsewhere(&plain_text)?;
    let path = absolute(folder, &given_path);
    fence::is_for(&plain(folder, &given_path), fence::Purpose::Output);
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
        return Err(format!("{} is not a folder: give a folder for the output", path.display()));
    }
    Ok((Some(path), None))
}

/// What a compute target may be called.
pub(super) const TARGET_NAME: &str =
    "1 to 64 letters, digits, `-`, `_` and `.` that begin with a letter or digit";

/// What is wrong with `name` as the name of a compute target.
pub fn check_target(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!("{name:?} is not the name of a fleet: give {TARGET_NAME}"))
}

/// Whether Python takes `name` for an identifier, as far as ASCII goes.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Refuses what is to be a local path and names something elsewhere.
pub(super) fn refuse_elsewhere(given: &str) -> Result<(), String> {
    let what = if given.contains("${{") {
        "a reference (`${{ }}`)".to_owned()
    } else if given.starts_with("azureml:") {
        "a name from a data registry (azureml:)".to_owned()
    } else if let Some((scheme, _)) = given.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        format!("{scheme}://")
    } else {
        return Ok(());
    };
    // What follows a scheme may hold a password.
    Err(format!("{what} is not supported yet: give a local path"))
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// `given`, seen from `folder`, without `.` parts and without a `/` at its end; a path that nothing has where `given` leads out of
/// what came with the job.
pub(super) fn absolute(folder: &Path, given: &str) -> PathBuf {
    let path = plain(folder, given);
    if fence::pass(&path, given) { path } else { fence::NOWHERE.into() }
}

/// `given`, seen from `folder`, on the hosts that run the job.
pub(super) fn absolute_there(folder: &Path, given: &str) -> PathBuf {
    plain(folder, given)
}

fn plain(folder: &Path, given: &str) -> PathBuf {
    folder.join(given).components().collect()
}
