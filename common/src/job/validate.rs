//! Raw settings to a [`JobSpec`]: defaults, types, ranges, and what the disk must have (spec
//! section 2).
//!
//! One pass over every key, whatever is wrong with the others. A known key whose feature is not built
//! yet is refused, never ignored.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::RunsOn;
use super::arguments;
use super::environment;
use super::error::Problem;
use super::file_name::check_file_name;
use super::form::RawSettings;
use super::inputs;
use super::keys;
use super::near_path;
use super::output_format;
use super::reader::{INT_MAX, Reader};
use super::spec::{InputKind, JobSpec, LoggingLevel, MiniBatchSize, OutputAction};

/// Checks every setting; a spec is whole only if `problems` stays empty. `folder` is the job file's,
/// absolute.
pub(super) fn validate(
    raw: RawSettings,
    folder: &Path,
    runs_on: RunsOn,
    problems: &mut Vec<Problem>,
) -> JobSpec {
    let mut reader = Reader::new(raw, problems);
    // `job.json` holds text only; everything else in a path comes from the file, which is UTF-8.
    if folder.to_str().is_none() {
        reader.refuse_at("", None, format!("{} is not UTF-8: rename the folder", folder.display()));
    }
    reader.refuse_unknown(&keys::JOB, "a job file");
    reader.not_supported_yet("partition_keys", "remove it and set mini_batch_size");
    reader.not_supported_yet("side_inputs", "remove it and give the script the path in arguments");

    let arguments = arguments::read(&mut reader);
    reader.not_supported_yet("copy_logs_to_parent", "remove it");

    let inputs = inputs::read(&mut reader, folder);
    let source_directory = source_directory(&mut reader, folder);
    let name = name(&mut reader).unwrap_or_default();
    let entry_script = entry_script(&mut reader, &source_directory).unwrap_or_default();
    let mut spec = JobSpec::new(name, source_directory, entry_script, inputs);
    spec.arguments = arguments;

    tuning(&mut reader, &mut spec);
    output(&mut reader, folder, &mut spec);
    output_format::read(&mut reader, &mut spec);
    environment::read(&mut reader, folder, runs_on, &mut spec);

    spec.description = reader.text("description");
    if let Some(name) = compute_target(&mut reader) {
        spec.compute_target = name;
    }
    spec.allow_reuse = reader.boolean("allow_reuse").unwrap_or(spec.allow_reuse);
    if let Some(setting) = reader.get("allow_reuse").filter(|_| spec.allow_reuse) {
        let message =
            "giving back the output of a former job is not supported yet: give false, or remove the key";
        reader.refuse(&setting, message.to_owned());
    }
    spec
}

/// Puts the settings that a submission may change over those of a job that was checked before; it is whole only if
/// `problems` stays empty.
pub(super) fn change(spec: &mut JobSpec, raw: RawSettings, problems: &mut Vec<Problem>) {
    let mut reader = Reader::new(raw, problems);
    tuning(&mut reader, spec);
    output_format::read(&mut reader, spec);
}

/// Puts the settings of another start of a job over those that it had; it is whole only if `problems` stays empty.
pub(super) fn adjust(
    spec: &mut JobSpec,
    raw: RawSettings,
    folder: &Path,
    runs_on: RunsOn,
    problems: &mut Vec<Problem>,
) {
    let mut reader = Reader::new(raw, problems);
    tuning(&mut reader, spec);
    environment::read(&mut reader, folder, runs_on, spec);
}

/// The settings that do not say what is run but how: those of [`OVERRIDABLE`](super::OVERRIDABLE), and the times.
/// What is not given stays.
fn tuning(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let kind = spec.inputs.first().map(|input| input.kind);
    if let Some(size) = mini_batch_size(reader, kind) {
        spec.mini_batch_size = size;
    }
    thresholds(reader, spec);
    processes(reader, spec);
    times(reader, spec);
    spec.keep = keep(reader).or(spec.keep);
    if let Some(level) = reader.choice(
        "logging_level",
        &[("WARNING", LoggingLevel::Warning), ("INFO", LoggingLevel::Info), ("DEBUG", LoggingLevel::Debug)],
    ) {
        spec.logging_level = level;
    }
}

/// What a job may be called.
const JOB_NAME: &str =
    "3 to 32 lower-case letters, digits and dashes that begin with a letter and end with a letter or digit";

fn name(reader: &mut Reader<'_>) -> Option<String> {
    let Some(setting) = reader.get("name") else {
        reader.refuse_absent("name", JOB_NAME);
        return None;
    };
    let name = reader.text("name")?;
    if let Err(reason) = check_name(&name) {
        reader.refuse(&setting, reason);
        return None;
    }
    Some(name)
}

/// What is wrong with `name` as the name of a job.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if plain && begins && !name.ends_with('-') && (3..=32).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("{name:?} is not a job name: give {JOB_NAME}"))
}

fn source_directory(reader: &mut Reader<'_>, folder: &Path) -> PathBuf {
    let given = reader.filled_text("source_directory", "the folder that holds the entry script");
    let Some((given, setting)) = given.zip(reader.get("source_directory")) else { return folder.to_owned() };
    let path = absolute(folder, &given);
    if let Some(message) = elsewhere(&given) {
        reader.refuse(&setting, message);
        return path;
    }
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => reader.refuse(&setting, format!("{} is not a folder", path.display())),
        Err(error) => {
            let hint = near_path::hint(&path);
            reader.refuse(&setting, format!("cannot read {}: {error}{hint}", path.display()));
        }
    }
    path
}

/// The script as a path below the source directory, or as a dotted name (E1).
fn entry_script(reader: &mut Reader<'_>, source_directory: &Path) -> Option<String> {
    let expected = "a .py file below source_directory, or a module name such as pkg.main";
    let Some(setting) = reader.get("entry_script") else {
        reader.refuse_absent("entry_script", expected);
        return None;
    };
    let given = reader.filled_text("entry_script", expected)?;
    let shown = source_directory.display();
    if !source_directory.is_dir() {
        // Refused already.
        return Some(given);
    }
    let is_file = Path::new(&given).extension().is_some_and(|extension| extension == "py");
    if is_file {
        let path = Path::new(&given);
        let Ok(below) = source_directory.join(path).strip_prefix(source_directory).map(Path::to_owned) else {
            let message = format!("{given} is not below source_directory {shown}: give {expected}");
            reader.refuse(&setting, message);
            return None;
        };
        if below.components().any(|part| part == Component::ParentDir) {
            let message = format!("{given} leads out of source_directory with `..`: give {expected}");
            reader.refuse(&setting, message);
            return None;
        }
        if !source_directory.join(&below).is_file() {
            let hint = near_path::hint(&source_directory.join(&below));
            let message = format!("there is no file {given} in source_directory {shown}{hint}");
            reader.refuse(&setting, message);
            return None;
        }
        let below: PathBuf = below.components().filter(|part| *part != Component::CurDir).collect();
        return Some(below.display().to_string());
    }
    if !given.split('.').all(is_identifier) {
        reader.refuse(&setting, format!("{given:?} is not an entry script: give {expected}"));
        return None;
    }
    if script_below(source_directory, &given).is_none() {
        let [file, package] = files_of_module(&given);
        let message = format!("module {given} is neither {file} nor {package} in source_directory {shown}");
        reader.refuse(&setting, message);
        return None;
    }
    Some(given)
}

/// The file of a checked `entry_script`, a file or a dotted module name, below `source_directory` (E1); nothing where
/// there is none.
pub fn script_below(source_directory: &Path, entry_script: &str) -> Option<PathBuf> {
    let is_file = Path::new(entry_script).extension().is_some_and(|extension| extension == "py");
    let named =
        if is_file { vec![entry_script.to_owned()] } else { Vec::from(files_of_module(entry_script)) };
    named.iter().map(|name| source_directory.join(name)).find(|path| path.is_file())
}

/// The files that a dotted module name may mean.
fn files_of_module(name: &str) -> [String; 2] {
    let module = name.replace('.', "/");
    [format!("{module}.py"), format!("{module}/__init__.py")]
}

/// A count of files, or bytes with `KB`, `MB` and `GB` of 1024. Without `kind`, where no input says it, what would be
/// neither is refused.
fn mini_batch_size(reader: &mut Reader<'_>, kind: Option<InputKind>) -> Option<MiniBatchSize> {
    if kind == Some(InputKind::File) {
        let meaning = ", the number of files in a mini-batch";
        return reader
            .integer("mini_batch_size", 1..=INT_MAX, meaning)
            .map(|count| MiniBatchSize::Files(count.unsigned_abs()));
    }
    let setting = reader.get("mini_batch_size")?;
    let text = reader.text("mini_batch_size")?;
    let text = text.trim();
    let expected = match kind {
        Some(_) => {
            "give bytes, at least 1, as a whole number with KB, MB, GB or nothing after it, such as 10MB"
        }
        None => "give the number of files in a mini-batch, or for tabular inputs bytes, such as 10MB",
    };
    let (digits, unit) = match text.len().checked_sub(2).and_then(|at| text.split_at_checked(at)) {
        Some((digits, unit)) if unit.eq_ignore_ascii_case("kb") => (digits, 1 << 10),
        Some((digits, unit)) if unit.eq_ignore_ascii_case("mb") => (digits, 1 << 20),
        Some((digits, unit)) if unit.eq_ignore_ascii_case("gb") => (digits, 1 << 30),
        _ => (text, 1_u64),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        reader.refuse(&setting, format!("{} is not a size: {expected}", setting.value.describe()));
        return None;
    }
    // JSON numbers and file offsets are signed.
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.filter(|&bytes| bytes >= 1 && i64::try_from(bytes).is_ok());
    if bytes.is_none() {
        reader.refuse(&setting, format!("{} is out of range: {expected}", setting.value.describe()));
    }
    bytes.map(MiniBatchSize::Bytes)
}

fn thresholds(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let all = ", where -1 ignores all failures";
    spec.error_threshold =
        reader.integer("error_threshold", -1..=i64::MAX, all).unwrap_or(spec.error_threshold);
    spec.allowed_failed_count =
        reader.integer("allowed_failed_count", -1..=i64::MAX, all).unwrap_or(spec.allowed_failed_count);
    spec.allowed_failed_percent =
        reader.number("allowed_failed_percent", 0.0..=100.0).unwrap_or(spec.allowed_failed_percent);
    let keys = ["error_threshold", "allowed_failed_count", "allowed_failed_percent"];
    spec.failures_allowed |= keys.iter().any(|key| reader.has(key));
}

fn processes(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let mut count = |key, meaning| {
        let number = reader.integer(key, 1..=INT_MAX, meaning)?;
        u32::try_from(number).ok()
    };
    spec.node_count = count("node_count", "").unwrap_or(spec.node_count);
    spec.process_count_per_node = count("process_count_per_node", "").or(spec.process_count_per_node);
    spec.run_max_try = count("run_max_try", "").unwrap_or(spec.run_max_try);
}

fn times(reader: &mut Reader<'_>, spec: &mut JobSpec) {
    let mut seconds = |key| {
        let number = reader.integer(key, 1..=INT_MAX, " seconds")?;
        u64::try_from(number).ok()
    };
    spec.run_invocation_timeout = seconds("run_invocation_timeout").unwrap_or(spec.run_invocation_timeout);
    spec.task_overhead_timeout = seconds("task_overhead_timeout").unwrap_or(spec.task_overhead_timeout);
    spec.progress_update_timeout = seconds("progress_update_timeout").or(spec.progress_update_timeout);
    spec.first_task_creation_timeout =
        seconds("first_task_creation_timeout").unwrap_or(spec.first_task_creation_timeout);

    let Some(interval) = reader.integer("resource_monitor_interval", 0..=INT_MAX, " seconds, where 0 is off")
    else {
        return;
    };
    spec.resource_monitor_interval = interval.unsigned_abs();
    if let Some(setting) = reader.get("resource_monitor_interval").filter(|_| interval != 0) {
        let message =
            format!("{interval}: resource monitoring is not supported yet: give 0, or remove the key");
        reader.refuse(&setting, message);
    }
}

/// A time with its unit, in seconds.
fn keep(reader: &mut Reader<'_>) -> Option<u64> {
    let expected = "a whole number of hours or days, at least 1h, such as 12h or 30d";
    let text = reader.filled_text("keep", expected)?;
    let units = [("h", 3_600), ("d", 86_400)];
    let seconds = units.into_iter().find_map(|(unit, seconds)| {
        let number =
            text.strip_suffix(unit).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
        number.parse::<u64>().ok()?.checked_mul(seconds)
    });
    let seconds = seconds.filter(|seconds| (1..=INT_MAX.unsigned_abs()).contains(seconds));
    if seconds.is_none() {
        let setting = reader.get("keep")?;
        reader.refuse(
            &setting,
            format!("{} is not a valid value for keep: give {expected}", setting.value.describe()),
        );
    }
    seconds
}

fn output(reader: &mut Reader<'_>, folder: &Path, spec: &mut JobSpec) {
    if let Some(action) = reader.choice(
        "output_action",
        &[("append_row", OutputAction::AppendRow), ("summary_only", OutputAction::SummaryOnly)],
    ) {
        spec.output_action = action;
    }
    if let Some((name, setting)) = reader.text("append_row_file_name").zip(reader.get("append_row_file_name"))
    {
        match check_file_name(&name) {
            Ok(()) => spec.append_row_file_name = name,
            Err(message) => reader.refuse(&setting, message),
        }
    }
    let given = reader.filled_text("output", "the folder for the output");
    let Some((given, setting)) = given.zip(reader.get("output")) else { return };
    if let Some(message) = elsewhere(&given) {
        reader.refuse(&setting, message);
        return;
    }
    let path = absolute(folder, &given);
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
        reader.refuse(&setting, format!("{} is not a folder: give a folder for the output", path.display()));
    }
    spec.output = Some(path);
}

/// What a compute target may be called.
const TARGET_NAME: &str = "1 to 64 letters, digits, `-`, `_` and `.` that begin with a letter or digit";

fn compute_target(reader: &mut Reader<'_>) -> Option<String> {
    let name = reader.filled_text("compute_target", TARGET_NAME)?;
    if let Err(reason) = check_target(&name) {
        let setting = reader.get("compute_target")?;
        reader.refuse(&setting, reason);
        return None;
    }
    Some(name)
}

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

/// Why `given`, which is to be a local path, names something elsewhere; `None` if it does not.
pub(super) fn elsewhere(given: &str) -> Option<String> {
    let what = if given.contains("${{") {
        "a reference (`${{ }}`)".to_owned()
    } else if given.starts_with("azureml:") {
        "a name from a data registry (azureml:)".to_owned()
    } else if let Some((scheme, _)) = given.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        format!("{scheme}://")
    } else {
        return None;
    };
    // What follows a scheme may hold a password.
    Some(format!("{what} is not supported yet: give a local path"))
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// `given`, seen from `folder`, without `.` parts and without a `/` at its end.
pub(super) fn absolute(folder: &Path, given: &str) -> PathBuf {
    folder.join(given).components().collect()
}
