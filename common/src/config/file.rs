//! A configuration file: where it is, whether it may be used, and what it says.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::names::{self, NamesOfFile};
use super::{ConfigError, url};
use crate::job::form::{RawSetting, RawSettings};
use crate::job::reader::Reader;
use crate::job::yaml::{self, Node, Value};
use crate::job::{JobFileError, Problem};
use crate::storage::S3Options;

/// Bytes beyond which a file is taken for something else.
const MAX_FILE_SIZE: u64 = 1 << 20;
const KEYS: [&str; 5] = ["default_profile", "profiles", "references", "datastores", "compute"];
const PROFILE_KEYS: [&str; 6] =
    ["broker", "broker_password_file", "redis", "redis_password_file", "storage", "s3"];
pub(super) const S3_KEYS: [&str; 5] = ["endpoint", "region", "aws_profile", "virtual_host", "ca_bundle"];
/// Keys of servers, and how their URLs may begin.
const SCHEMES: [(&str, &[&str]); 3] = [
    ("broker", &["amqp://", "amqps://"]),
    ("redis", &["redis://", "rediss://", "unix://"]),
    ("storage", &["s3://", "file:///"]),
];
const PROFILE_NAME: &str = "letters, digits, `-`, `_` and `.` that begin with a letter or digit";

/// A configuration file that was read.
#[derive(Debug)]
pub struct ConfigFile {
    /// The file.
    pub path: PathBuf,
    /// The profile that is used where none is named, and the line that says so.
    pub default_profile: Option<(String, usize)>,
    /// Its profiles, in its order.
    pub profiles: Vec<Profile>,
    /// What names in job files stand for.
    pub names: NamesOfFile,
    /// Whether others than its owner may read it.
    pub is_readable_by_others: bool,
}

/// Named servers. What a profile leaves out has to be named elsewhere.
#[derive(Debug, Default)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// URL of RabbitMQ, with references to variables.
    pub broker: Option<ConfigValue>,
    /// URL of Redis, likewise.
    pub redis: Option<ConfigValue>,
    /// URL of the storage, likewise.
    pub storage: Option<ConfigValue>,
    /// File with the password for the broker.
    pub broker_password_file: Option<ConfigValue>,
    /// File with the password for Redis.
    pub redis_password_file: Option<ConfigValue>,
    /// How the buckets are reached.
    pub s3: S3Options,
}

/// A value of a file. Not to be shown: it may hold a password.
pub struct ConfigValue {
    /// The key, with its place.
    pub key: String,
    /// Its line.
    pub line: usize,
    /// What is written.
    pub text: String,
}

impl std::fmt::Debug for ConfigValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigValue").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// Reads the file; nothing where there is none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_file() {
            check_owner(path, &metadata)?;
        }
        let mut problems = Vec::new();
        let mut read = Self {
            path: path.to_owned(),
            default_profile: None,
            profiles: Vec::new(),
            names: NamesOfFile::default(),
            is_readable_by_others: metadata.mode() & 0o044 != 0,
        };
        match text_of(file).map_err(unreadable)? {
            Ok(text) if text.lines().all(is_blank) => {}
            Ok(text) => read.understand(&text, &mut problems),
            Err(message) => problems.push(of_whole(message)),
        }
        if problems.is_empty() {
            return Ok(Some(read));
        }
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        Err(JobFileError::new(path, problems).into())
    }

    /// The profile of this name.
    pub(super) fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Whether a password stands in it that others may read.
    pub(super) fn shows_password(&self) -> bool {
        let holds = |entry: &Option<ConfigValue>| {
            entry.as_ref().is_some_and(|entry| url::holds_password(&entry.text))
        };
        self.is_readable_by_others
            && self.profiles.iter().any(|profile| holds(&profile.broker) || holds(&profile.redis))
    }

    fn understand(&mut self, text: &str, problems: &mut Vec<Problem>) {
        let document = match yaml::parse(text) {
            Ok(document) => document,
            Err(error) => {
                problems.push(Problem { key: String::new(), line: error.line, message: error.message });
                return;
            }
        };
        let folder = self.path.parent().unwrap_or(Path::new("")).to_owned();
        let mut reader = Reader::new(settings_of(&document), problems);
        reader.refuse_unknown(&KEYS, "a configuration file");
        if let Some(name) = reader.filled_text("default_profile", "the name of a profile") {
            let line = reader.get("default_profile").and_then(|setting| setting.line).unwrap_or_default();
            self.default_profile = Some((name, line));
        }
        self.names = names::read(&mut reader, &folder);
        let Some(profiles) = reader.get("profiles") else { return };
        let Value::Mapping(entries) = &profiles.value.value else {
            let given = kind(&profiles.value);
            reader.refuse(&profiles, format!("{given} where a mapping of names to profiles is expected"));
            return;
        };
        for (key, node) in entries {
            let place = format!("profiles.{}", key.name);
            let starts = key.name.starts_with(|first: char| first.is_ascii_alphanumeric());
            if !starts || !key.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            {
                let message = format!("{:?} is not the name of a profile: give {PROFILE_NAME}", key.name);
                reader.refuse_at(&place, Some(key.line), message);
            }
            if !matches!(node.value, Value::Mapping(_)) {
                let message =
                    format!("{} where a profile is expected: give broker, redis and storage", kind(node));
                reader.refuse_at(&place, Some(key.line), message);
                continue;
            }
            let mut fields = Reader::of_mapping(&place, node, reader.problems());
            self.profiles.push(profile(&key.name, &mut fields, &folder));
        }
    }
}

/// Refuses a file that others could write.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), ConfigError> {
    let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
    let refuse =
        |why: String, remedy: String| Err(ConfigError::Unsafe { path: path.to_owned(), why, remedy });
    if owner != 0 && owner != geteuid().as_raw() {
        return refuse(format!("belongs to another user (uid {owner})"), "make it your own".to_owned());
    }
    if mode & 0o002 != 0 {
        return refuse("can be written by every user".to_owned(), format!("chmod o-w {}", path.display()));
    }
    // A group with the number of the user is that user's own.
    if mode & 0o020 != 0 && group != owner {
        return refuse(format!("can be written by group {group}"), format!("chmod g-w {}", path.display()));
    }
    Ok(())
}

/// The text of a file, or what is wrong with it.
fn text_of(file: File) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Ok(Err(format!("the file is larger than {MAX_FILE_SIZE} bytes: give a configuration file")));
    }
    Ok(String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned()))
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start_matches('\u{FEFF}').trim();
    line.is_empty() || line.starts_with('#')
}

fn of_whole(message: String) -> Problem {
    Problem { key: String::new(), line: None, message }
}

fn settings_of(document: &Node) -> RawSettings {
    let Value::Mapping(entries) = &document.value else { return RawSettings::default() };
    let given = entries.iter().filter(|(_, value)| !value.is_null());
    let settings = given.map(|(key, value)| RawSetting {
        key: key.name.clone(),
        shown: key.name.clone(),
        line: Some(key.line),
        value: value.clone(),
    });
    RawSettings { settings: settings.collect(), ..RawSettings::default() }
}

fn profile(name: &str, fields: &mut Reader<'_>, folder: &Path) -> Profile {
    fields.refuse_unknown(&PROFILE_KEYS, "a profile");
    let [broker, redis, storage] = SCHEMES.map(|(key, schemes)| server(fields, key, schemes));
    let broker_password_file = password_file(fields, "broker_password_file", broker.as_ref(), folder);
    let redis_password_file = password_file(fields, "redis_password_file", redis.as_ref(), folder);
    let s3 = s3(fields, folder);
    let name = name.to_owned();
    Profile { name, broker, redis, storage, broker_password_file, redis_password_file, s3 }
}

/// The URL of a server.
fn server(fields: &mut Reader<'_>, key: &str, schemes: &[&str]) -> Option<ConfigValue> {
    let text = fields.filled_text(key, &format!("a URL that begins with {}", schemes.join(" or ")))?;
    let setting = fields.get(key)?;
    if let Err(message) = url::check_references(&text) {
        fields.refuse(&setting, message);
        return None;
    }
    // A reference may stand for all of it.
    if !text.starts_with("${") && !schemes.iter().any(|scheme| text.starts_with(scheme)) {
        fields.refuse(&setting, format!("the URL has to begin with {}", schemes.join(" or ")));
        return None;
    }
    Some(entry(&setting, text))
}

fn password_file(
    fields: &mut Reader<'_>,
    key: &str,
    url: Option<&ConfigValue>,
    folder: &Path,
) -> Option<ConfigValue> {
    let text = fields.filled_text(key, "a file with the password in its first line")?;
    let setting = fields.get(key)?;
    let server = key.split('_').next().unwrap_or_default();
    match url {
        None => fields.refuse(&setting, format!("{server} is missing: give its URL, without a password")),
        // A reference may bring what lacks.
        Some(url) if url.text.contains("${") && !url::has_password(&url.text) => {}
        Some(url) => {
            if let Some(message) = url::unfit_for_password(&url.text) {
                fields.refuse(&setting, message);
            }
        }
    }
    Some(entry(&setting, path_from(folder, &text).display().to_string()))
}

fn s3(fields: &mut Reader<'_>, folder: &Path) -> S3Options {
    let Some(setting) = fields.get("s3") else { return S3Options::default() };
    if !matches!(setting.value.value, Value::Mapping(_)) {
        let given = kind(&setting.value);
        fields.refuse(&setting, format!("{given} where a mapping is expected, with {}", S3_KEYS.join(", ")));
        return S3Options::default();
    }
    let mut fields = Reader::of_mapping(&setting.shown, &setting.value, fields.problems());
    fields.refuse_unknown(&S3_KEYS, "s3");
    s3_options(&mut fields, folder)
}

/// How a bucket is reached, as `fields` say.
pub(super) fn s3_options(fields: &mut Reader<'_>, folder: &Path) -> S3Options {
    let endpoint = fields.filled_text("endpoint", "the URL of the server");
    if let Some((endpoint, setting)) = endpoint.as_deref().zip(fields.get("endpoint")) {
        let is_http = endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if !is_http || endpoint.contains('@') {
            fields.refuse(&setting, "the URL has to begin with http:// or https://, and has no credentials");
        }
    }
    S3Options {
        endpoint,
        region: fields.filled_text("region", "a region such as eu-central-1"),
        aws_profile: fields.filled_text("aws_profile", "a profile of the AWS tools"),
        virtual_host: fields.boolean("virtual_host"),
        certificates: fields.filled_text("ca_bundle", "a PEM file").map(|file| path_from(folder, &file)),
        ..S3Options::default()
    }
}

/// What a value is, without its text, which may hold a password.
pub(super) fn kind(node: &Node) -> String {
    if matches!(node.value, Value::Scalar { .. }) { "a single value".to_owned() } else { node.describe() }
}

fn entry(setting: &RawSetting, text: String) -> ConfigValue {
    ConfigValue { key: setting.shown.clone(), line: setting.line.unwrap_or_default(), text }
}

/// A path from the folder of the file, or from the home of the user (`~/`).
pub(super) fn path_from(folder: &Path, text: &str) -> PathBuf {
    let home = text.strip_prefix("~/").zip(std::env::var_os("HOME"));
    home.map_or_else(|| folder.join(text), |(below, home)| Path::new(&home).join(below))
}
