//! Conda files: their Python, their `pip` block, and those packages that the index of Python has as well.
//!
//! prs installs from the index of Python alone. What of conda is the same there is on a list; anything else is refused by
//! its name, for what has this name on the index may be another thing.

use std::path::Path;

use super::requirements::{Requirements, normal};
use super::secrets::refused;
use crate::job::form::RawSetting;
use crate::job::reader::Reader;
use crate::job::yaml::{Node, Value};

/// Packages of conda that have the same name and versions on the index of Python.
const SAME: [&str; 83] = [
    "absl-py",
    "aiohttp",
    "altair",
    "beautifulsoup4",
    "bokeh",
    "boto3",
    "catboost",
    "click",
    "cloudpickle",
    "cryptography",
    "cython",
    "dask",
    "datasets",
    "dill",
    "fastapi",
    "fastparquet",
    "filelock",
    "flask",
    "fsspec",
    "gensim",
    "h5py",
    "httpx",
    "huggingface-hub",
    "imageio",
    "jinja2",
    "joblib",
    "jsonschema",
    "keras",
    "langchain",
    "librosa",
    "lightgbm",
    "lxml",
    "matplotlib",
    "mlflow",
    "mlflow-skinny",
    "networkx",
    "nltk",
    "numba",
    "numpy",
    "onnx",
    "onnxruntime",
    "openai",
    "openpyxl",
    "orjson",
    "packaging",
    "pandas",
    "pillow",
    "plotly",
    "polars",
    "protobuf",
    "psutil",
    "pyarrow",
    "pydantic",
    "pytest",
    "python-dateutil",
    "pytz",
    "pyyaml",
    "requests",
    "rich",
    "s3fs",
    "safetensors",
    "scikit-image",
    "scikit-learn",
    "scipy",
    "seaborn",
    "sentencepiece",
    "setuptools",
    "shap",
    "six",
    "sqlalchemy",
    "statsmodels",
    "sympy",
    "tensorboard",
    "tensorflow",
    "tiktoken",
    "tokenizers",
    "torchvision",
    "tqdm",
    "transformers",
    "typing-extensions",
    "ujson",
    "wheel",
    "xgboost",
];
/// Those that have another name there.
const RENAMED: [(&str, &str); 7] = [
    ("matplotlib-base", "matplotlib"),
    ("msgpack-python", "msgpack"),
    ("pytables", "tables"),
    ("pytorch", "torch"),
    ("torchaudio", "torchaudio"),
    ("py-xgboost", "xgboost"),
    ("spacy", "spacy"),
];
/// What prs brings itself, or finds on the host.
const INSTALLERS: [&str; 2] = ["pip", "uv"];
/// The keys of a conda file.
pub(super) const KEYS: [&str; 5] = ["name", "channels", "dependencies", "prefix", "variables"];

/// Reads the mapping of a conda file; paths in it start from `folder`, `shown` is what problems call it. The variables
/// that it sets are left to the caller.
pub(super) fn read(
    reader: &mut Reader<'_>,
    setting: &RawSetting,
    (shown, document, folder): (&str, &Node, &Path),
    into: &mut Requirements,
) {
    let place = |node: &Node| node.line.map_or_else(|| shown.to_owned(), |line| format!("{shown}:{line}"));
    let Value::Mapping(entries) = &document.value else {
        return into.problems.push(format!("{shown}: {} is not a conda file", document.describe()));
    };
    for (key, _) in entries {
        if !KEYS.contains(&&*key.name) {
            let keys = KEYS.join(", ");
            into.problems
                .push(format!("{shown}:{}: {}: a conda file has the keys {keys}", key.line, key.name));
        }
    }
    if document.get("channels").is_some_and(|channels| !channels.is_null()) {
        let told = format!("{shown}: channels: packages come from the index of Python; ignored");
        reader.note(setting, told);
    }
    let Some(dependencies) = document.get("dependencies").filter(|node| !node.is_null()) else { return };
    let Value::Sequence(dependencies) = &dependencies.value else {
        return into.problems.push(format!("{}: dependencies is to be a list", place(dependencies)));
    };
    for dependency in dependencies {
        let place = place(dependency);
        if let Some(text) = dependency.as_text() {
            match package(text) {
                Ok(Package::Python(version)) => {
                    into.packages.python = version.or(into.packages.python.take());
                }
                Ok(Package::Installer) => {}
                Ok(Package::Note(told)) => into.notes.push(format!("{place}: {told}")),
                Ok(Package::Taken(line)) => into.line(&line, &place, folder),
                Err(message) => into.problems.push(format!("{place}: {message}")),
            }
            continue;
        }
        let lines = dependency.get("pip");
        match lines.map(|lines| &lines.value) {
            Some(Value::Sequence(lines)) => {
                for line in lines {
                    let place = line.line.map_or_else(|| place.clone(), |number| format!("{shown}:{number}"));
                    match line.as_text() {
                        Some(text) => into.line(text, &place, folder),
                        None => {
                            into.problems.push(format!("{place}: {} is not a requirement", line.describe()));
                        }
                    }
                }
            }
            Some(Value::Null) => {}
            _ => {
                into.problems.push(format!("{place}: give a package, or `pip:` with a list of requirements"));
            }
        }
    }
}

/// What a line of `dependencies` is.
#[derive(Debug, PartialEq, Eq)]
enum Package {
    /// Python, and its version `X.Y` where there is one.
    Python(Option<String>),
    /// What installs, in any version.
    Installer,
    /// Nothing that is installed.
    Note(String),
    /// A package of the index of Python.
    Taken(String),
}

fn package(text: &str) -> Result<Package, String> {
    if text.contains("://") {
        return Err(format!("{}: needs conda: move it below `pip:`", refused(text)));
    }
    // A channel says where conda finds it.
    let text = text.rsplit_once("::").map_or(text, |(_, rest)| rest).trim();
    let end = text.find(|character: char| "=<>!~ [".contains(character)).unwrap_or(text.len());
    let (name, version) = text.split_at(end);
    let (name, version) = (normal(name.trim()), version.trim());
    if version.starts_with('[') {
        return Err(format!(
            "{text}: needs conda: write the package with its version, or move it below `pip:`"
        ));
    }
    if name == "python" {
        return python(version).map(Package::Python);
    }
    if INSTALLERS.contains(&&*name) {
        let told = format!("{text}: the host's own is used; ignored");
        return Ok(if version.is_empty() { Package::Installer } else { Package::Note(told) });
    }
    if name.starts_with("azureml-") {
        return Ok(Package::Taken(name));
    }
    let renamed = RENAMED.iter().find(|(known, _)| *known == name).map(|(_, package)| *package);
    let Some(package) = renamed.or_else(|| SAME.into_iter().find(|known| *known == name)) else {
        return Err(format!(
            "{name} needs conda, which prs does not use: where the index of Python has it, move it below `pip:`; else name \
             an interpreter that has it"
        ));
    };
    Ok(Package::Taken(format!("{package}{}", specifier(version))))
}

/// A version of conda as pip writes it: `=1.2` is any 1.2, a build behind it is left out.
fn specifier(version: &str) -> String {
    let version = version.trim();
    let Some(exact) = version.strip_prefix('=').filter(|rest| !rest.starts_with('=')).or_else(|| {
        // `numpy 1.21.*` without a sign.
        Some(version).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    }) else {
        // `==1.2=py38_0` has a build too.
        return match version.strip_prefix("==") {
            Some(exact) => format!("=={}", exact.split('=').next().unwrap_or_default().trim()),
            None => version.to_owned(),
        };
    };
    let mut parts = exact.split(['=', ' ']);
    let (number, build) = (parts.next().unwrap_or_default().trim(), parts.next());
    if build.is_some() || number.ends_with(".*") { format!("=={number}") } else { format!("=={number}.*") }
}

/// `X.Y` of a version of Python that prs runs; nothing where any will do.
pub(super) fn python(version: &str) -> Result<Option<String>, String> {
    let written = version.trim_start_matches(['=', '>', '<', '~', '!', ' ']);
    if written.is_empty() {
        return Ok(None);
    }
    let signs = &version[..version.len() - written.len()];
    let number = written.split([',', '=', ' ']).next().unwrap_or_default();
    let mut parts = number.split('.');
    let major = parts.next().and_then(|part| part.parse::<u32>().ok());
    let minor = parts.next().and_then(|part| part.parse::<u32>().ok());
    let way_out = "write another version, or name an interpreter with the key environment (for Azure's forms \
                   --set task.environment=python3)";
    if signs.contains(['>', '<', '!']) || major.is_some() && minor.is_none() {
        return Err(format!("python{version}: give one version, such as python=3.11"));
    }
    match (major, minor) {
        (Some(3), Some(minor)) if minor >= 9 => Ok(Some(format!("3.{minor}"))),
        (Some(major), Some(minor)) if major <= 3 => {
            Err(format!("python {major}.{minor} is too old, prs runs Python 3.9 and newer: {way_out}"))
        }
        _ => Err(format!("python{version} is not a version of Python: {way_out}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_conda_become_those_of_the_index() {
        let taken = |line: &str| Package::Taken(line.to_owned());
        for (text, expected) in [
            ("python=3.10", Package::Python(Some("3.10".into()))),
            ("python=3.10.12", Package::Python(Some("3.10".into()))),
            ("python==3.9.1", Package::Python(Some("3.9".into()))),
            ("python 3.11", Package::Python(Some("3.11".into()))),
            ("python", Package::Python(None)),
            ("pip", Package::Installer),
            ("numpy", taken("numpy")),
            ("NumPy=1.21", taken("numpy==1.21.*")),
            ("numpy=1.21.2=py38_0", taken("numpy==1.21.2")),
            ("numpy==1.21.2", taken("numpy==1.21.2")),
            ("numpy>=1.21,<2", taken("numpy>=1.21,<2")),
            ("numpy 1.21.*", taken("numpy==1.21.*")),
            ("conda-forge::scikit-learn=1.1", taken("scikit-learn==1.1.*")),
            ("pytorch=2.1", taken("torch==2.1.*")),
            ("azureml-core", taken("azureml-core")),
        ] {
            assert_eq!(package(text), Ok(expected), "{text}");
        }
        assert!(matches!(package("pip<22.0"), Ok(Package::Note(_))));
        for (text, part) in [
            ("cudatoolkit=11.3", "cudatoolkit needs conda"),
            ("opencv", "opencv needs conda"),
            ("python=3.8", "python 3.8 is too old"),
            ("python=2.7", "python 2.7 is too old"),
            ("python>=3.8", "give one version"),
            ("python=3", "give one version"),
            ("python=x", "is not a version of Python"),
            ("numpy[version='>1']", "needs conda"),
        ] {
            let refused = package(text).unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
