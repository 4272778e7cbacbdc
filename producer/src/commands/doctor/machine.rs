//! What this machine has: the interpreter and its packages, the extension, folders, memory.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use indicatif::HumanBytes;
use prs_common::job::Environment;
use prs_common::temporary_folder::TemporaryFolder;
use prs_worker::{describe_environments, find_extension, find_interpreter, how_found, prepare_python_home};
use rustix::fs::{Access, access, statvfs};
use serde::Deserialize;
use tokio::process::Command;

use super::{Check, Verdict};

/// Tells of the interpreter: its version, the packages that prs or people look for, whether the extension can be loaded.
const PROBE: &str = "
import json, platform, sys
def version(name):
    try:
        from importlib.metadata import version
        return version(name)
    except ImportError:
        return None
try:
    import prs_process
    extension = None
except BaseException as error:
    extension = f'{type(error).__name__}: {error}'
names = ('numpy', 'pandas', 'pyarrow', 'debugpy')
print(json.dumps({'version': platform.python_version(), 'new_enough': sys.version_info >= (3, 9),
                  'packages': [[name, version(name)] for name in names], 'extension': extension}))
";
/// How long the interpreter may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Packages that tables need.
const FOR_TABLES: [&str; 2] = ["pandas", "pyarrow"];
/// Below this a disk or the memory is short, bytes.
const SHORT: u64 = 1 << 30;
/// Below this nothing can run, bytes.
const NOTHING: u64 = 64 << 20;
/// Where small inputs lie while mini-batches run.
const SHARED_MEMORY: &str = "/dev/shm";

/// What the interpreter said.
#[derive(Debug, Deserialize)]
struct Probed {
    version: String,
    new_enough: bool,
    packages: Vec<(String, Option<String>)>,
    /// Why the extension cannot be loaded.
    extension: Option<String>,
}

/// Looks at this machine. `environment` is the interpreter, as a job file would name it.
pub(super) async fn look(environment: Option<&str>) -> Vec<Check> {
    let mut checks = Vec::new();
    let temporary = TemporaryFolder::make("prs-doctor-");
    let extension = find_extension();
    let named = environment.map(|named| Environment::Interpreter(named.to_owned()));
    match find_interpreter(environment) {
        Err(missing) => {
            let remedy = "install Python 3.9 or newer, or activate a virtual environment";
            checks.push(Check::new("interpreter", Verdict::Fail, missing.to_string(), remedy));
        }
        Ok(python) => {
            let home =
                temporary.as_ref().ok().zip(extension.as_ref().ok()).and_then(|(folder, extension)| {
                    prepare_python_home(folder.path(), extension).ok().map(|()| folder.path())
                });
            let probed = probe(&python, home).await;
            checks.extend(interpreter(&python, &how_found(named.as_ref()), probed, extension.is_ok()));
        }
    }
    checks.push(match describe_environments().await {
        Ok(found) => Check::new("environments", Verdict::Ok, found, ""),
        Err(missing) => {
            let remedy = "for jobs that bring packages: install uv, or Python with venv";
            Check::new("environments", Verdict::Warn, missing.to_string(), remedy)
        }
    });
    if let Err(missing) = extension {
        let remedy = "install prs again: it belongs beside the program";
        checks.push(Check::new("extension", Verdict::Fail, missing.to_string(), remedy));
    }
    checks.push(match &temporary {
        Ok(folder) => {
            room("temporary folder", &std::env::temp_dir(), folder.path(), "TMPDIR names another one")
        }
        Err(error) => {
            Check::new("temporary folder", Verdict::Fail, error.to_string(), "name another one with TMPDIR")
        }
    });
    checks.push(current_folder());
    checks.push(memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()));
    checks.push(shared_memory());
    checks
}

/// Asks the interpreter; fails with the reason.
async fn probe(python: &Path, home: Option<&Path>) -> Result<Probed, String> {
    let mut command = Command::new(python);
    command.args(["-c", PROBE]).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(home) = home {
        command.env("PYTHONPATH", home);
    }
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let ended = ended.map_err(|_| format!("it gave no answer within {} s", PATIENCE.as_secs()))?;
    let ended = ended.map_err(|error| format!("it cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let answer = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    answer.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        format!("it does not run Python code: {errors}")
    })
}

fn interpreter(
    python: &Path,
    found: &str,
    probed: Result<Probed, String>,
    has_extension: bool,
) -> Vec<Check> {
    let shown = python.display();
    let probed = match probed {
        Ok(probed) => probed,
        Err(reason) => {
            let finding = format!("{shown} ({found}): {reason}");
            let remedy = "name another one with the key environment of the job file";
            return vec![Check::new("interpreter", Verdict::Fail, finding, remedy)];
        }
    };
    let finding = format!("{shown}, Python {} ({found})", probed.version);
    let verdict = if probed.new_enough { Verdict::Ok } else { Verdict::Fail };
    let mut checks = vec![Check::new("interpreter", verdict, finding, "use Python 3.9 or newer")];
    if has_extension {
        let (verdict, finding) = match probed.extension {
            None => (Verdict::Ok, "the interpreter loads it".to_owned()),
            Some(error) => (Verdict::Fail, format!("the interpreter cannot load it: {error}")),
        };
        let remedy = "install the prs that is built for this machine and CPython 3.9 or newer";
        checks.push(Check::new("extension", verdict, finding, remedy));
    }
    let versions: Vec<String> = probed
        .packages
        .iter()
        .map(|(name, version)| format!("{name} {}", version.as_deref().unwrap_or("missing")))
        .collect();
    let lacks =
        |name: &&&str| probed.packages.iter().any(|(known, version)| known == **name && version.is_none());
    let missing: Vec<&str> = FOR_TABLES.iter().filter(lacks).copied().collect();
    let verdict = if missing.is_empty() { Verdict::Ok } else { Verdict::Warn };
    let remedy = format!("for tabular inputs: {shown} -m pip install {}", missing.join(" "));
    checks.push(Check::new("packages", verdict, versions.join(", "), remedy));
    checks
}

/// How much room there is in a folder that can be written; `shown` is what people call it.
fn room(name: &'static str, shown: &Path, folder: &Path, elsewhere: &str) -> Check {
    let free = match statvfs(folder) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => {
            return Check::new(name, Verdict::Fail, format!("{}: {error}", shown.display()), elsewhere);
        }
    };
    let finding = format!("{}: {} free", shown.display(), HumanBytes(free));
    Check::new(name, verdict(free), finding, format!("make room; {elsewhere}"))
}

/// The folder that runs of this machine are made in.
fn current_folder() -> Check {
    let name = "current folder";
    let here = match std::env::current_dir() {
        Ok(here) => here,
        Err(error) => {
            return Check::new(name, Verdict::Fail, error.to_string(), "go to a folder that exists");
        }
    };
    if let Err(error) = access(&here, Access::WRITE_OK) {
        let finding = format!("{}: runs cannot be made here ({error})", here.display());
        return Check::new(name, Verdict::Warn, finding, "go elsewhere, or name a folder with --run-dir");
    }
    room(name, &here, &here, "--run-dir names another place for a run")
}

fn memory(meminfo: &str) -> Check {
    let kibibytes = |key: &str| -> Option<u64> {
        let line = meminfo.lines().find(|line| line.starts_with(key))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let (Some(available), Some(total)) = (kibibytes("MemAvailable:"), kibibytes("MemTotal:")) else {
        return Check::new("memory", Verdict::Warn, "not known", "make /proc readable");
    };
    let finding = format!("{} of {} free", HumanBytes(available << 10), HumanBytes(total << 10));
    Check::new("memory", verdict(available << 10), finding, "run fewer processes: process_count_per_node")
}

fn shared_memory() -> Check {
    let free =
        statvfs(SHARED_MEMORY).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)).unwrap_or_default();
    let finding = format!("{SHARED_MEMORY}: {} free", HumanBytes(free));
    let verdict = if free >= NOTHING { Verdict::Ok } else { Verdict::Warn };
    let remedy =
        "in a container give --shm-size; without it small inputs of buckets go to the disk, which is slower";
    Check::new("shared memory", verdict, finding, remedy)
}

fn verdict(free: u64) -> Verdict {
    match free {
        0..NOTHING => Verdict::Fail,
        NOTHING..SHORT => Verdict::Warn,
        _ => Verdict::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_told() {
        let meminfo = |available: u64| format!("MemTotal:  8000000 kB\nMemAvailable:  {available} kB\n");
        for (available, expected) in
            [(4 << 20, Verdict::Ok), (500 << 10, Verdict::Warn), (10 << 10, Verdict::Fail)]
        {
            assert_eq!(memory(&meminfo(available)).verdict, expected);
        }
        assert_eq!(memory("").verdict, Verdict::Warn);
    }

    #[test]
    fn packages_that_tables_need_are_a_warning() {
        let probed = |pandas: Option<&str>| Probed {
            version: "3.11.7".into(),
            new_enough: true,
            packages: vec![
                ("pandas".into(), pandas.map(str::to_owned)),
                ("pyarrow".into(), Some("20".into())),
            ],
            extension: None,
        };
        let checks = interpreter(Path::new("/py"), "on PATH", Ok(probed(None)), true);
        assert_eq!(checks[2].finding, "pandas missing, pyarrow 20");
        assert_eq!(checks[2].remedy.as_deref(), Some("for tabular inputs: /py -m pip install pandas"));
        let checks = interpreter(Path::new("/py"), "on PATH", Ok(probed(Some("2"))), true);
        assert!(checks.iter().all(|check| check.verdict == Verdict::Ok));
        let checks = interpreter(Path::new("/py"), "on PATH", Err("no".into()), true);
        assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Fail));
    }
}
