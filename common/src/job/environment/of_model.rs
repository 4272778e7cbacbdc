//! The packages that a model of `MLflow` needs, as it says itself (dialects E.5): of several lists that it has, the first counts.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::form::{RawSetting, RawSettings};
use super::super::mlflow::{MLMODEL, MlModel, REQUIREMENTS};
use super::super::reader::Reader;
use super::super::yaml::{self, Node, Value};
use super::conda;
use super::packages::Packages;
use super::requirements::{Requirements, name_of, normal, read_text};

/// Packages that have `MLflow` in them.
const MLFLOW: [&str; 2] = ["mlflow", "mlflow-skinny"];
/// What installs is the host's.
const INSTALLERS: [&str; 2] = ["pip", "uv"];
/// Lines of a list that does not count which a note has.
const MOST_NAMED: usize = 8;

/// What a model says of its packages.
#[derive(Debug, Default)]
pub(in super::super) struct OfModel {
    /// The packages; nothing where no list is there.
    pub(in super::super) packages: Option<Packages>,
    /// What the author should know of.
    pub(in super::super) notes: Vec<String>,
    /// Why they cannot be had.
    pub(in super::super) problems: Vec<String>,
}

/// Reads the lists in the `folder` of a model, whose file `MLmodel` says this.
pub(in super::super) fn of_model(folder: &Path, mlmodel: &MlModel) -> OfModel {
    let mut lists = Vec::new();
    for (name, read) in [
        (&*mlmodel.virtualenv, virtualenv as fn(&Path) -> Requirements),
        (&*mlmodel.conda, of_conda),
        (REQUIREMENTS, requirements),
    ] {
        let path = folder.join(name);
        if path.is_file() {
            lists.push((name, read(&path)));
        }
    }
    if lists.is_empty() {
        return OfModel::default();
    }
    let (name, chosen) = lists.remove(0);
    let Requirements { mut packages, mut notes, mut problems, .. } = chosen;
    if packages.python.is_none()
        && let Some(version) = &mlmodel.python_version
    {
        match conda::python(version) {
            Ok(version) => packages.python = version,
            Err(message) => problems.push(format!("{}: {message}", folder.join(MLMODEL).display())),
        }
    }
    for (other, read) in &lists {
        let unused = unused(&packages, &read.packages);
        if read.problems.is_empty() && !unused.is_empty() {
            let more = unused.len().saturating_sub(MOST_NAMED);
            let named = unused[..unused.len() - more].join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("{other} contradicts {name}, which counts; not used of it: {named}{more}"));
        }
    }
    let has_mlflow = |line: &String| MLFLOW.contains(&&*normal(name_of(line)));
    if !packages.requirements.iter().any(has_mlflow) {
        let version = mlmodel.mlflow_version.as_deref().filter(|version| is_version(version));
        packages
            .requirements
            .push(version.map_or("mlflow".to_owned(), |version| format!("mlflow=={version}")));
    }
    packages.settle();
    packages.from = format!("{name} of the model");
    OfModel { packages: Some(packages), notes, problems }
}

/// A file `python_env.yaml`.
fn virtualenv(path: &Path) -> Requirements {
    let mut read = Requirements::default();
    let shown = path.display();
    let Some(document) = document(path, &mut read) else { return read };
    match document.get("python").map(|python| (python.as_text(), python.is_null())) {
        Some((Some(version), _)) => match conda::python(version.trim()) {
            Ok(version) => read.packages.python = version,
            Err(message) => read.problems.push(format!("{shown}: {message}")),
        },
        Some((None, true)) | None => {}
        Some((None, false)) => read.problems.push(format!("{shown}: python is not a version of Python")),
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    for key in ["build_dependencies", "dependencies"] {
        let Some(listed) = document.get(key).filter(|listed| !listed.is_null()) else { continue };
        let Value::Sequence(lines) = &listed.value else {
            read.problems.push(format!("{shown}: {key} is to be a list"));
            continue;
        };
        for line in lines {
            let place = line.line.map_or_else(|| shown.to_string(), |number| format!("{shown}:{number}"));
            match line.as_text() {
                Some(text) if INSTALLERS.contains(&&*normal(name_of(text.trim()))) => {}
                Some(text) => read.line(text, &place, folder),
                None => read.problems.push(format!("{place}: {} is not a requirement", line.describe())),
            }
        }
    }
    read
}

/// A file `conda.yaml`.
fn of_conda(path: &Path) -> Requirements {
    let mut read = Requirements::default();
    let Some(document) = document(path, &mut read) else { return read };
    // That packages come from elsewhere than its channels is so for all models.
    let (mut problems, key) = (Vec::new(), "model".to_owned());
    let setting = RawSetting { shown: key.clone(), key, line: None, value: document.clone() };
    let mut reader = Reader::new(RawSettings::default(), &mut problems);
    let folder = path.parent().unwrap_or(Path::new("/"));
    conda::read(&mut reader, &setting, (&path.display().to_string(), &document, folder), &mut read);
    read
}

fn requirements(path: &Path) -> Requirements {
    let mut read = Requirements::default();
    read.file(path);
    read
}

/// The mapping in a YAML file.
fn document(path: &Path, read: &mut Requirements) -> Option<Node> {
    let parsed = read_text(path).and_then(|text| yaml::parse(&text).map_err(|error| error.message));
    parsed.map_err(|message| read.problems.push(format!("{}: {message}", path.display()))).ok()
}

/// What `other` asks for that `chosen` does not, or in another version.
fn unused(chosen: &Packages, other: &Packages) -> Vec<String> {
    let plain = |line: &String| line.split_whitespace().collect::<String>();
    let known: BTreeMap<String, String> =
        chosen.requirements.iter().map(|line| (normal(name_of(line)), plain(line))).collect();
    let is_unused = |line: &&String| {
        let name = normal(name_of(line));
        !INSTALLERS.contains(&&*name) && known.get(&name) != Some(&plain(line))
    };
    let python =
        other.python.as_ref().filter(|python| chosen.python.as_ref().is_some_and(|one| one != *python));
    let python = python.map(|python| format!("Python {python}"));
    python.into_iter().chain(other.requirements.iter().filter(is_unused).map(plain)).collect()
}

/// Whether pip could know such a version.
fn is_version(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PYTHON_ENV: &str = "python: 3.11.4\nbuild_dependencies:\n- pip==23.2\n- setuptools==68.0\n- wheel==0.41\ndependencies:\n- -r requirements.txt\n";
    const CONDA: &str = "channels: [conda-forge]\ndependencies:\n- python=3.10.9\n- pip<=22.1\n- pip:\n  - mlflow==2.9.2\n  - xgboost==1.3.3\nname: mlflow-env\n";
    const MODEL: &str =
        "flavors: {python_function: {env: conda.yaml, python_version: 3.12.1}}\nmlflow_version: 2.9.2\n";

    fn read(files: &[(&str, &str)], mlmodel: &str) -> (OfModel, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        (of_model(folder.path(), &MlModel::read(mlmodel).unwrap()), folder)
    }

    #[test]
    fn the_first_list_counts() {
        let requirements = ("requirements.txt", "mlflow==2.9.2\nxgboost==1.3.3\n");
        let all = [("python_env.yaml", PYTHON_ENV), ("conda.yaml", CONDA), requirements];
        for (files, from, python, lines) in [
            (
                &all[..],
                "python_env.yaml",
                "3.11",
                &["mlflow==2.9.2", "setuptools==68.0", "wheel==0.41", "xgboost==1.3.3"][..],
            ),
            (&all[1..], "conda.yaml", "3.10", &["mlflow==2.9.2", "xgboost==1.3.3"]),
            (&all[2..], "requirements.txt", "3.12", &["mlflow==2.9.2", "xgboost==1.3.3"]),
        ] {
            let (read, _folder) = read(files, MODEL);
            assert_eq!(read.problems, [""; 0]);
            let packages = read.packages.unwrap();
            assert_eq!(packages.from, format!("{from} of the model"));
            assert_eq!(packages.python.as_deref(), Some(python), "{from}");
            assert_eq!(packages.requirements, lines, "{from}");
        }
        let (none, _folder) = read(&[], MODEL);
        assert!(none.packages.is_none() && none.notes.is_empty() && none.problems.is_empty());
    }

    #[test]
    fn mlflow_comes_in_the_version_that_stored_the_model() {
        for (line, mlmodel, wanted) in [
            ("xgboost\n", MODEL, "mlflow==2.9.2"),
            ("xgboost\n", "flavors: {python_function: {}}\n", "mlflow"),
            ("xgboost\n", "flavors: {}\nmlflow_version: \"1\\n--pre\"\n", "mlflow"),
            ("MLflow>=2\n", MODEL, "MLflow>=2"),
            ("mlflow_skinny==2.1\n", MODEL, "mlflow_skinny==2.1"),
        ] {
            let (read, _folder) = read(&[("requirements.txt", line)], mlmodel);
            let lines = read.packages.unwrap().requirements;
            let of_mlflow: Vec<_> =
                lines.iter().filter(|line| line.to_lowercase().contains("mlflow")).collect();
            assert_eq!(of_mlflow, [wanted], "{line}");
        }
    }

    #[test]
    fn lists_that_contradict_each_other_are_told() {
        let other = "mlflow\nxgboost==1.4.2\ndataclasses==0.6\nuuid==1.30\n";
        let (read, _folder) = read(&[("conda.yaml", CONDA), ("requirements.txt", other)], MODEL);
        assert_eq!(
            read.notes.last().unwrap(),
            "requirements.txt contradicts conda.yaml, which counts; not used of it: mlflow, xgboost==1.4.2, dataclasses==0.6, \
             uuid==1.30"
        );
        assert_eq!(read.packages.unwrap().requirements, ["mlflow==2.9.2", "xgboost==1.3.3"]);
        let many: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
        let (read, _folder) =
            self::read(&[("conda.yaml", CONDA), ("requirements.txt", &many.join("\n"))], MODEL);
        assert!(read.notes.last().unwrap().ends_with("p7 and 12 more"), "{:?}", read.notes);
    }

    #[test]
    fn what_cannot_be_had_is_a_problem_of_the_list_that_counts_alone() {
        let old = "python: 3.8.5\ndependencies: [six, {a: b}]\n";
        let (read, _folder) =
            read(&[("python_env.yaml", old), ("conda.yaml", "dependencies: [cudatoolkit]")], MODEL);
        assert_eq!(read.problems.len(), 2, "{:?}", read.problems);
        assert!(
            read.problems[0].contains("python 3.8 is too old")
                && read.problems[1].contains("python_env.yaml:2")
        );
        let (read, _folder) = self::read(&[("conda.yaml", "dependencies: [cudatoolkit]")], MODEL);
        assert!(read.problems[0].contains("cudatoolkit needs conda"), "{:?}", read.problems);
        let (read, _folder) =
            self::read(&[("python_env.yaml", "dependencies: {"), ("conda.yaml", CONDA)], MODEL);
        assert_eq!(read.problems.len(), 1, "{:?}", read.problems);
    }
}
