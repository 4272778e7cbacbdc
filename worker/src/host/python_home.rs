//! The folder that a process imports prs's own Python from: nothing is installed in the user's environment.
//!
//! The Python sources travel inside this binary; the extension is a file beside it, or among the packages of the Python
//! environment into which a wheel has put both.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prs_common::tree;

/// Overrides where the extension is.
const EXTENSION_VARIABLE: &str = "PRS_PROCESS_EXTENSION";
/// Name of the extension as cargo builds it.
const EXTENSION: &str = "libprs_process.so";
/// Name of the extension as Python imports it.
const MODULE: &str = "prs_process.abi3.so";
/// Where a version of Python has its packages; the second is Debian's.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../python/azureml_user/", $path)))),*]
    };
}

/// The package `azureml_user`.
const SOURCES: &[(&str, &str)] = sources![
    "__init__.py",
    "parallel_run/__init__.py",
    "parallel_run/arity.py",
    "parallel_run/command.py",
    "parallel_run/column_types.py",
    "parallel_run/concurrent.py",
    "parallel_run/context.py",
    "parallel_run/conversions.py",
    "parallel_run/count_rows.py",
    "parallel_run/delta.py",
    "parallel_run/entry_script.py",
    "parallel_run/errors.py",
    "parallel_run/filters.py",
    "parallel_run/folders.py",
    "parallel_run/foreground.py",
    "parallel_run/frames.py",
    "parallel_run/json_lines.py",
    "parallel_run/logs.py",
    "parallel_run/mlflow_inputs.py",
    "parallel_run/mlflow_rows.py",
    "parallel_run/parquet.py",
    "parallel_run/parquet_output.py",
    "parallel_run/parquet_types.py",
    "parallel_run/process.py",
    "parallel_run/profiling.py",
    "parallel_run/results.py",
    "parallel_run/score_mlflow.py",
    "parallel_run/script.py",
    "parallel_run/settings.py",
    "parallel_run/shuffle_exact.py",
    "parallel_run/shuffle_group.py",
    "parallel_run/shuffle_keys.py",
    "parallel_run/shuffle_split.py",
    "parallel_run/stacks.py",
    "parallel_run/streaming.py",
    "parallel_run/surroundings.py",
    "parallel_run/table_work.py",
    "parallel_run/tables.py",
    "parallel_run/testing.py",
    "shims/azureml/core/__init__.py",
    "shims/azureml/core/model.py",
    "shims/azureml/core/run.py",
    "shims/mltable/__init__.py",
];

/// The extension is not where it should be.
#[derive(Debug, thiserror::Error)]
#[error(
    "the extension {EXTENSION} is missing: looked for {}; it belongs beside the program, or name it with {EXTENSION_VARIABLE}",
    looked.join(", ")
)]
pub struct ExtensionMissing {
    looked: Vec<String>,
}

/// Finds the extension: named by the environment, beside the program, in `lib/prs` next to its folder, or where pip put
/// it when it installed the program.
pub fn find_extension() -> Result<PathBuf, ExtensionMissing> {
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(named) = std::env::var_os(EXTENSION_VARIABLE) {
        places.push(named.into());
    } else if let Some(folder) = program_folder() {
        places.push(folder.join(EXTENSION));
        places.push(folder.join("../lib/prs").join(EXTENSION));
        places.extend(installed_extension(&folder));
    }
    match places.iter().find(|place| place.is_file()) {
        Some(found) => fs::canonicalize(found)
            .map_err(|_| ExtensionMissing { looked: vec![found.display().to_string()] }),
        None => {
            Err(ExtensionMissing { looked: places.iter().map(|place| place.display().to_string()).collect() })
        }
    }
}

/// The interpreter of the Python environment that this program was installed into by pip.
pub(crate) fn own_interpreter() -> Option<PathBuf> {
    let folder = program_folder()?;
    installed_extension(&folder)?;
    Some(folder.join("python3")).filter(|python| python.is_file())
}

/// The folder of this program.
pub(crate) fn program_folder() -> Option<PathBuf> {
    // An upgrade may have removed the file; its folder stays.
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

/// The extension among the packages of the environment whose programs are in `bin`. Several versions of Python may
/// share one (`/usr/local`): the last one that prs was installed for has brought the program.
fn installed_extension(bin: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(bin.parent()?.join("lib")).ok()?.flatten();
    let versions = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    let places =
        versions.flat_map(|version| PACKAGES.map(|packages| version.path().join(packages).join(MODULE)));
    let installed = |place: &PathBuf| fs::metadata(place).and_then(|metadata| metadata.modified()).ok();
    places.filter(|place| place.is_file()).max_by_key(installed)
}

/// Makes `folder` ready to be put on `PYTHONPATH`.
pub fn prepare(folder: &Path, extension: &Path) -> io::Result<()> {
    for (path, text) in SOURCES {
        let target = folder.join("azureml_user").join(path);
        if let Some(parent) = target.parent() {
            tree::make_folders(parent)?;
        }
        tree::write_whole(target, text)?;
    }
    let link = folder.join(MODULE);
    match tree::link(extension, &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            tree::remove_file(&link)?;
            tree::link(extension, &link)
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_python_source_travels_along() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/azureml_user");
        let mut found = BTreeSet::new();
        for entry in walkdir::WalkDir::new(&package) {
            let path = entry.unwrap().into_path();
            if path.extension().is_some_and(|suffix| suffix == "py") {
                found.insert(path.strip_prefix(&package).unwrap().to_str().unwrap().to_owned());
            }
        }
        assert_eq!(found, SOURCES.iter().map(|(path, _)| (*path).to_owned()).collect());
    }

    #[test]
    fn an_installed_extension_is_found_among_the_packages() {
        let environment = tempfile::tempdir().unwrap();
        let bin = environment.path().join("bin");
        assert_eq!(installed_extension(&bin), None);
        let lib = environment.path().join("lib");
        fs::create_dir_all(lib.join("python3.9/site-packages")).unwrap();
        let packages = lib.join("python3.12/dist-packages");
        fs::create_dir_all(&packages).unwrap();
        assert_eq!(installed_extension(&bin), None);
        fs::write(packages.join(MODULE), "").unwrap();
        assert_eq!(installed_extension(&bin), Some(packages.join(MODULE)));
    }

    #[test]
    fn a_home_can_be_prepared_again() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            prepare(folder.path(), Path::new("/lib/x.so")).unwrap();
        }
        assert!(folder.path().join("azureml_user/parallel_run/process.py").is_file());
        assert_eq!(fs::read_link(folder.path().join(MODULE)).unwrap(), Path::new("/lib/x.so"));
    }
}
