//! Environments that a host makes of the packages of a job: once for the same content, for all jobs.
//!
//! | file | duty |
//! |---|---|
//! | `store` | where they lie, who may make one, which goes when there are too many |
//! | `installer` | uv, or venv and pip |
//! | `command` | running one of their programs |
//! | `words` | what they say when they fail |
//!
//! The installer has the environment of this program, but for passwords of the servers: an index, a proxy or a folder of
//! wheels are the host's to name. What the job sets reaches its processes alone.

mod command;
mod installer;
mod store;
mod words;

use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use prs_common::job::{Packages, Secrets};
use prs_common::tree;

use self::installer::Installer;
use self::store::{Found, Held, Making, Store, python_of};
use crate::host::blocking::blocking;

/// Most bytes that environments take on a host, but for those in use.
const MOST_BYTES: u64 = 20 << 30;
/// Names another number of them, GiB.
const SIZE_VARIABLE: &str = "PRS_ENVIRONMENTS_GIB";

/// An environment that was made, as long as this is kept.
#[derive(Debug)]
pub struct MadeEnvironment {
    /// Its interpreter.
    pub python: PathBuf,
    _held: Held,
}

/// Why there is none: the cause in the first line, then what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotMade(String);

/// The environment of `packages`, made where it is not there. `token` is what the installer is known by; `log` gets all
/// that it says, `progress` what it does at the moment. Both are made or used on this host by no other program meanwhile.
pub async fn make_environment(
    packages: &Packages,
    token: &str,
    log: &(dyn Fn(&str) + Sync),
    progress: &(dyn Fn(&str) + Sync),
) -> Result<MadeEnvironment, NotMade> {
    let store = Store::open().map_err(NotMade)?;
    make_in(&store, packages, token, (log, progress)).await
}

/// Where what an installer does is told: all of it, and the present line.
type Told<'a> = (&'a (dyn Fn(&str) + Sync), &'a (dyn Fn(&str) + Sync));

async fn make_in(
    store: &Store,
    packages: &Packages,
    token: &str,
    (log, progress): Told<'_>,
) -> Result<MadeEnvironment, NotMade> {
    progress("looking for it");
    let (installer, version) = installer::find(packages.python.as_deref()).await.map_err(NotMade)?;
    let key = packages.key(&version, &platform());
    let refused = |error: io::Error| NotMade(format!("{}: {error}", store.path().display()));
    loop {
        let waits = || progress("another program of this host makes it");
        match store.find_or_make(&key, waits).await.map_err(refused)? {
            Found::There(held) => {
                log(&format!("the environment {} serves", held.folder.display()));
                return Ok(used(held));
            }
            Found::Missing(making) => {
                let folder = making.folder();
                log(&format!("making {} for Python {version} with {}", folder.display(), installer.name()));
                let began = Instant::now();
                let built = build(&installer, packages, &folder, token, (log, progress)).await;
                let built = match built {
                    Ok(()) => {
                        blocking(move || making.done()).await.map_err(|error| failed_io(&folder, &error))
                    }
                    Err(error) => {
                        blocking(move || Making::abandon(making)).await;
                        Err(error)
                    }
                };
                built?;
                log(&format!("made in {:.1} s", began.elapsed().as_secs_f64()));
            }
        }
        // The lock is given up for a moment; then all share it.
        let most = most_bytes(std::env::var(SIZE_VARIABLE).ok().as_deref());
        if let Some(held) = store.find(&key) {
            let place = store.path().to_owned();
            blocking(move || Store::at(&place).map(|store| store.shrink(most)))
                .await
                .map_err(|error| NotMade(error.to_string()))?;
            return Ok(used(held));
        }
    }
}

fn used(held: Held) -> MadeEnvironment {
    MadeEnvironment { python: python_of(&held.folder), _held: held }
}

/// The environment of `packages`, where this host has made it already.
pub async fn find_environment(packages: &Packages) -> Result<Option<MadeEnvironment>, NotMade> {
    let Some(store) = Store::open_if_there() else { return Ok(None) };
    let (_, version) = installer::find(packages.python.as_deref()).await.map_err(NotMade)?;
    Ok(store.find(&packages.key(&version, &platform())).map(used))
}

/// What makes environments on this host, and what it has made; fails with what is missing.
pub async fn describe_environments() -> Result<String, NotMade> {
    let place = Store::place().map_err(NotMade)?;
    let (installer, version) = installer::find(None).await.map_err(NotMade)?;
    let (count, bytes) = Store::open_if_there().map(|store| store.count()).unwrap_or_default();
    let made = if count == 1 { "1 environment".to_owned() } else { format!("{count} environments") };
    Ok(format!(
        "{} for Python {version}; {made} in {}, {} MiB",
        installer.name(),
        place.display(),
        bytes.div_ceil(1 << 20)
    ))
}

/// What may differ between hosts that share a home: an environment is of one platform.
fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

fn most_bytes(variable: Option<&str>) -> u64 {
    variable
        .and_then(|gib| gib.trim().parse::<u64>().ok())
        .map_or(MOST_BYTES, |gib| gib.saturating_mul(1 << 30))
}

/// Makes it in `folder`.
async fn build(
    installer: &Installer,
    packages: &Packages,
    folder: &Path,
    token: &str,
    (log, progress): Told<'_>,
) -> Result<(), NotMade> {
    let failed = |error: io::Error| failed_io(folder, &error);
    let mut last = VecDeque::new();
    let mut line = |text: &str| {
        log(text);
        progress(text.trim());
        if last.len() == words::LAST_LINES {
            last.pop_front();
        }
        last.push_back(text.to_owned());
    };
    progress("making it");
    let secrets = Secrets::of(packages, |name| std::env::var(name).ok());
    let status =
        command::run(&mut installer.make(folder), token, &secrets, &mut line).await.map_err(failed)?;
    let mut is_done = status.success();
    if is_done && !packages.requirements.is_empty() {
        let at = |name: &str| folder.join(name);
        tree::write(at("requirements.txt"), packages.requirements_file()).map_err(failed)?;
        let constraints = packages.constraints_file().map(|text| (at("constraints.txt"), text));
        if let Some((path, text)) = &constraints {
            tree::write(path, text).map_err(failed)?;
        }
        let constraints = constraints.as_ref().map(|(path, _)| path.as_path());
        let mut install = installer.install(folder, &at("requirements.txt"), constraints);
        // An installer heeds what it finds where it is started.
        install.current_dir(folder);
        is_done = command::run(&mut install, token, &secrets, &mut line).await.map_err(failed)?.success();
    }
    if is_done {
        return Ok(());
    }
    Err(failure(installer, packages, &Vec::from(last)))
}

fn failed_io(folder: &Path, error: &io::Error) -> NotMade {
    NotMade(format!("{}: {error}", folder.display()))
}

/// What is said of an installer that failed and said these lines last.
fn failure(installer: &Installer, packages: &Packages, lines: &[String]) -> NotMade {
    let package = words::package(lines);
    let telling = ["ERROR: ", "error: ", "cause: ", "╰─▶ ", "× "];
    let cause = lines.iter().rev().find(|line| match &package {
        Some(package) => line.contains(package.as_str()) && telling.iter().any(|word| line.contains(word)),
        None => telling.iter().any(|word| line.contains(word)),
    });
    let cause = cause.or(lines.last()).map_or("the installer said nothing", |line| line.trim());
    let cause = telling.iter().find_map(|word| cause.strip_prefix(word)).unwrap_or(cause);
    let mut text = match &package {
        Some(package) => format!("{package}: {cause}"),
        None => cause.to_owned(),
    };
    let from = if packages.from.is_empty() { "the job's environment" } else { &packages.from };
    let _ = write!(text, "\n  packages     {from}");
    let _ = write!(text, "\n  installer    {}", installer.name());
    for line in lines {
        let _ = write!(text, "\n  | {line}");
    }
    let _ = write!(text, "\n  remedy       {}", words::remedy(lines, from));
    NotMade(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_may_be_given() {
        for (given, expected) in
            [(None, MOST_BYTES), (Some("3"), 3 << 30), (Some("x"), MOST_BYTES), (Some("0"), 0)]
        {
            assert_eq!(most_bytes(given), expected, "{given:?}");
        }
    }

    #[test]
    fn a_failure_tells_the_package_the_words_and_the_remedy() {
        let packages = Packages { from: "requirements.txt".to_owned(), ..Packages::default() };
        let lines = ["Looking in links: /wheels", "ERROR: No matching distribution found for nosuch==1"];
        let lines: Vec<String> = lines.map(str::to_owned).into();
        let told = failure(&Installer::Pip { python: "/py".into() }, &packages, &lines).to_string();
        let expected = "\
nosuch==1: No matching distribution found for nosuch==1
  packages     requirements.txt
  installer    venv and pip of /py
  | Looking in links: /wheels
  | ERROR: No matching distribution found for nosuch==1
  remedy       correct the package, or its version, in requirements.txt; or name an interpreter that has the packages";
        assert_eq!(told, expected);
    }
}
