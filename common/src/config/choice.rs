//! What a command uses: for each server an option, else the profile of `--profile`, else a variable, else another profile.
//!
//! The profile is the one of `--profile`, else of `PRS_PROFILE`, else the `default_profile` of the first file that has one.
//! The files are `prs.yaml` of the current folder and the user's own, or the one of `--config` or `PRS_CONFIG` alone.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::{ConfigFile, ConfigValue, Profile};
use super::names::NamesOfFile;
use super::{CONFIG_VARIABLE, ConfigError, PROFILE_VARIABLE, url};
use crate::job::near_name::nearest;
use crate::storage::S3Options;

/// The configuration file of a folder.
const OF_FOLDER: &str = "prs.yaml";
/// That of the user, below the folder for configurations.
const OF_USER: &str = "prs/config.yaml";

/// What the command line says.
#[derive(Clone, Default)]
pub struct Options {
    /// `--broker`.
    pub broker: Option<String>,
    /// `--redis`.
    pub redis: Option<String>,
    /// `--storage`.
    pub storage: Option<String>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--config`.
    pub config: Option<PathBuf>,
}

/// What is used, and why.
#[derive(Debug)]
pub struct Choice {
    /// The files that were read, the one that counts first.
    pub files: Vec<ConfigFile>,
    /// Files that are read where they exist, and do not.
    pub absent: Vec<PathBuf>,
    /// The profile that is used.
    pub profile: Option<ProfileInUse>,
    /// RabbitMQ.
    pub broker: Option<Server>,
    /// Redis.
    pub redis: Option<Server>,
    /// Storage.
    pub storage: Option<Server>,
    /// How buckets are reached where no variable says it.
    pub s3: S3Options,
    /// What names in job files stand for.
    pub names: NamesOfFile,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The profile that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInUse {
    /// Its name.
    pub name: String,
    /// The file that has it.
    pub file: PathBuf,
    /// Who names it, for people.
    pub named_by: String,
}

/// A server that is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// Its URL; not to be shown, it may hold a password.
    pub url: String,
    /// Who names it.
    pub source: Source,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Who names a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An option of the command.
    Option(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// The profile.
    Profile(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(name) | Self::Variable(name) => f.write_str(name),
            Self::Profile(name) => write!(f, "profile {name}"),
        }
    }
}

/// One server: the option, the variable.
struct Names {
    option: &'static str,
    variable: &'static str,
}

const BROKER: Names = Names { option: "--broker", variable: "PRS_BROKER_URL" };
const REDIS: Names = Names { option: "--redis", variable: "PRS_REDIS_URL" };
const STORAGE: Names = Names { option: "--storage", variable: "PRS_STORAGE_URL" };

/// Finds out what is used. `variable` gives the value of a variable of the environment; an empty one counts as none.
///
/// # Errors
/// A file that is used cannot be read or is wrong, or the profile lacks something.
pub fn choose(options: &Options, variable: &dyn Fn(&str) -> Option<String>) -> Result<Choice, ConfigError> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let (files, absent) = read_files(options.config.as_deref(), &variable)?;
    let named = name_of_profile(options.profile.as_deref(), &files, &variable);
    let used = named.map(|(name, named_by)| find_profile(name, named_by, &files, &absent)).transpose()?;
    let (profile, in_use) = used.unzip();
    let notes: Vec<String> =
        files.iter().filter(|file| file.shows_password()).map(|file| password_note(&file.path)).collect();

    let server = |names: &Names,
                  option: &Option<String>,
                  of_profile: Option<&ConfigValue>,
                  password: Option<&ConfigValue>|
     -> Result<Option<Server>, ConfigError> {
        if let Some(url) = option.clone().filter(|url| !url.is_empty()) {
            return Ok(Some(Server { url, source: Source::Option(names.option) }));
        }
        // Who names a profile in the command means it, whatever the shell has exported.
        let is_meant = options.profile.is_some() && of_profile.is_some();
        if let Some(url) = variable(names.variable).filter(|_| !is_meant) {
            return Ok(Some(Server { url, source: Source::Variable(names.variable) }));
        }
        let Some((entry, in_use)) = of_profile.zip(in_use.as_ref()) else { return Ok(None) };
        let incomplete = |entry: &ConfigValue, message: String| ConfigError::Incomplete {
            path: in_use.file.clone(),
            line: entry.line,
            key: entry.key.clone(),
            message,
        };
        let mut url = url::expand(&entry.text, &variable).map_err(|message| incomplete(entry, message))?;
        if let Some(file) = password {
            let password = password_in(Path::new(&file.text)).map_err(|message| incomplete(file, message))?;
            // What was written may have been a reference to all of it.
            if let Some(message) = url::unfit_for_password(&url) {
                return Err(incomplete(file, message.to_owned()));
            }
            url = url::with_password(&url, &password);
        }
        Ok(Some(Server { url, source: Source::Profile(in_use.name.clone()) }))
    };
    let of = |entry: fn(&Profile) -> Option<&ConfigValue>| profile.and_then(entry);
    let broker = server(
        &BROKER,
        &options.broker,
        of(|profile| profile.broker.as_ref()),
        of(|profile| profile.broker_password_file.as_ref()),
    )?;
    let redis = server(
        &REDIS,
        &options.redis,
        of(|profile| profile.redis.as_ref()),
        of(|profile| profile.redis_password_file.as_ref()),
    )?;
    let storage = server(&STORAGE, &options.storage, of(|profile| profile.storage.as_ref()), None)?;
    // How a bucket is reached belongs to the storage: with another one it would lead astray.
    let is_of_profile = storage.as_ref().is_none_or(|storage| matches!(storage.source, Source::Profile(_)));
    let s3 = profile.filter(|_| is_of_profile).map(|profile| profile.s3.clone()).unwrap_or_default();
    Ok(Choice {
        names: NamesOfFile::of_all(files.iter().map(|file| &file.names)),
        absent,
        profile: in_use,
        broker,
        redis,
        storage,
        s3,
        notes,
        files,
    })
}

/// What names in job files stand for, whichever servers are used.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn names(
    config: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<NamesOfFile, ConfigError> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let (files, _) = read_files(config, &variable)?;
    Ok(NamesOfFile::of_all(files.iter().map(|file| &file.names)))
}

/// The files that there are, the one that counts first, and those that are not there.
pub(super) fn read_files(
    named: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<ConfigFile>, Vec<PathBuf>), ConfigError> {
    if let Some(path) = named.map(Path::to_owned).or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from)) {
        let absent =
            || ConfigError::Unreadable { path: path.clone(), source: rustix::io::Errno::NOENT.into() };
        return Ok((vec![ConfigFile::read(&path)?.ok_or_else(absent)?], Vec::new()));
    }
    let of_user = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let of_user = of_user.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")));
    let (mut files, mut absent) = (Vec::new(), Vec::new());
    for path in [Some(OF_FOLDER.into()), of_user.map(|folder| folder.join(OF_USER))].into_iter().flatten() {
        match ConfigFile::read(&path)? {
            Some(file) => files.push(file),
            None => absent.push(path),
        }
    }
    Ok((files, absent))
}

/// The profile that is to be used, and who names it.
fn name_of_profile(
    option: Option<&str>,
    files: &[ConfigFile],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    if let Some(name) = option {
        return Some((name.to_owned(), "--profile".to_owned()));
    }
    if let Some(name) = variable(PROFILE_VARIABLE) {
        return Some((name, PROFILE_VARIABLE.to_owned()));
    }
    files.iter().find_map(|file| {
        let (name, line) = file.default_profile.as_ref()?;
        Some((name.clone(), format!("default_profile in {}:{line}", file.path.display())))
    })
}

/// The profile of the first file that has it.
fn find_profile<'a>(
    name: String,
    named_by: String,
    files: &'a [ConfigFile],
    absent: &[PathBuf],
) -> Result<(&'a Profile, ProfileInUse), ConfigError> {
    let found = files.iter().find_map(|file| Some((file, file.profile(&name)?)));
    if let Some((file, profile)) = found {
        return Ok((profile, ProfileInUse { name, file: file.path.clone(), named_by }));
    }
    let known: Vec<&str> =
        files.iter().flat_map(|file| &file.profiles).map(|profile| profile.name.as_str()).collect();
    let remedy = match nearest(&name, &known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None if !known.is_empty() => format!("the profiles are {}", known.join(", ")),
        None => {
            let looked = files.iter().map(|file| &file.path).chain(absent);
            let looked: Vec<String> = looked.map(|path| path.display().to_string()).collect();
            format!("there are none; write one into {}", looked.join(" or "))
        }
    };
    Err(ConfigError::NoProfile { name, named_by, remedy })
}

fn password_note(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} holds a password, and others may read it: chmod 600 {path}, or write ${{NAME}} for the password and set \
         that variable"
    )
}

/// The password in the first line of a file.
fn password_in(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(format!("the first line of {shown} is empty: write the password there"));
    }
    Ok(line.to_owned())
}
