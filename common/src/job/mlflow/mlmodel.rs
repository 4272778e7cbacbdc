//! The file `MLmodel`, which `MLflow` puts beside a model: what of it prs goes by.

use std::path::{Component, Path};

use super::super::yaml::{self, Node, Value};

/// Its name in the folder of the model.
pub const MLMODEL: &str = "MLmodel";
/// The form that any tool can load, and `predict` with.
const PYFUNC: &str = "python_function";
/// Where packages are said, if `MLmodel` does not say where.
const PYTHON_ENV: &str = "python_env.yaml";
const CONDA: &str = "conda.yaml";
/// Where they are said in any case.
pub(in super::super) const REQUIREMENTS: &str = "requirements.txt";
/// What `MLflow` has the requirements name.
const CONSTRAINTS: &str = "constraints.txt";

/// What a file `MLmodel` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct MlModel {
    /// The forms in which the model can be loaded.
    pub(in super::super) flavors: Vec<String>,
    /// The version of `MLflow` that stored it.
    pub(in super::super) mlflow_version: Option<String>,
    /// The version of Python that stored it.
    pub(in super::super) python_version: Option<String>,
    /// The file with its packages for a virtual environment, below its folder.
    pub(in super::super) virtualenv: String,
    /// The same for conda.
    pub(in super::super) conda: String,
}

impl MlModel {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// `MLflow` did not write it.
    pub(in super::super) fn read(text: &str) -> Result<Self, String> {
        let document = yaml::parse(text).map_err(|error| {
            error.line.map_or(error.message.clone(), |line| format!("line {line}: {}", error.message))
        })?;
        let Some(Value::Mapping(flavors)) = document.get("flavors").map(|flavors| &flavors.value) else {
            return Err("it names no flavors: it was not stored by MLflow".to_owned());
        };
        let pyfunc = document.get("flavors").and_then(|flavors| flavors.get(PYFUNC));
        let text = |node: Option<&Node>, key: &str| {
            let text = node?.get(key)?.as_text()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let env = pyfunc.and_then(|pyfunc| pyfunc.get("env"));
        let conda = env.and_then(Node::as_text).map(str::to_owned).or_else(|| text(env, "conda"));
        Ok(Self {
            flavors: flavors.iter().map(|(key, _)| key.name.clone()).collect(),
            mlflow_version: text(Some(&document), "mlflow_version"),
            python_version: text(pyfunc, "python_version"),
            virtualenv: below(text(env, "virtualenv"), PYTHON_ENV)?,
            conda: below(conda, CONDA)?,
        })
    }

    /// What keeps prs from loading it; nothing where it can.
    pub(in super::super) fn refusal(&self) -> Option<String> {
        if self.flavors.iter().any(|flavor| flavor == PYFUNC) {
            return None;
        }
        let flavors = match &self.flavors[..] {
            [] => "it has none".to_owned(),
            [one] => format!("it has {one} alone"),
            several => format!("it has {}", several.join(", ")),
        };
        Some(format!(
            "the model has no flavor {PYFUNC}, which a deployment without a scoring script needs; {flavors}: store it with that \
             flavor, or give code_configuration and environment"
        ))
    }
}

/// `named` as a path below the folder of the model.
fn below(named: Option<String>, default: &str) -> Result<String, String> {
    let named = named.unwrap_or_else(|| default.to_owned());
    let is_below = Path::new(&named).components().all(|part| matches!(part, Component::Normal(_)));
    if is_below { Ok(named) } else { Err(format!("{named} is not a file beside it")) }
}

/// Files beside a file `MLmodel` with this text that may say which packages the model needs.
pub fn files_of_environment(mlmodel: &str) -> Vec<String> {
    let Ok(read) = MlModel::read(mlmodel) else { return Vec::new() };
    let mut files = vec![read.virtualenv, read.conda, REQUIREMENTS.to_owned(), CONSTRAINTS.to_owned()];
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(env: &str) -> Result<MlModel, String> {
        MlModel::read(&format!(
            "flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n    python_version: 3.10.12\n{env}  sklearn: {{}}\n\
             mlflow_version: 2.9.2\nsignature: {{inputs: '[]'}}\n"
        ))
    }

    #[test]
    fn the_file_says_where_packages_are() {
        for (env, virtualenv, conda) in [
            ("", "python_env.yaml", "conda.yaml"),
            ("    env: my.yaml\n", "python_env.yaml", "my.yaml"),
            ("    env: {conda: c.yaml, virtualenv: env/v.yaml}\n", "env/v.yaml", "c.yaml"),
        ] {
            let read = read(env).unwrap();
            assert_eq!((&*read.virtualenv, &*read.conda), (virtualenv, conda), "{env}");
            assert_eq!(read.flavors, ["python_function", "sklearn"]);
            assert_eq!(
                (read.mlflow_version.as_deref(), read.python_version.as_deref(), read.refusal()),
                (Some("2.9.2"), Some("3.10.12"), None)
            );
        }
        assert_eq!(read("    env: ../c.yaml\n").unwrap_err(), "../c.yaml is not a file beside it");
        let listed = files_of_environment("flavors: {python_function: {env: e.yaml}}\n");
        assert_eq!(listed, ["python_env.yaml", "e.yaml", "requirements.txt", "constraints.txt"]);
    }

    #[test]
    fn a_model_without_python_function_is_refused_with_what_it_has() {
        for (flavors, said) in [
            ("{}", "it has none"),
            ("{onnx: {}}", "it has onnx alone"),
            ("{keras: {}, h2o: {}}", "it has keras, h2o"),
        ] {
            let refusal = MlModel::read(&format!("flavors: {flavors}\n")).unwrap().refusal().unwrap();
            assert!(refusal.contains(said), "{refusal}");
        }
        for text in ["flavors: [a]\n", "name: x\n"] {
            assert!(MlModel::read(text).unwrap_err().contains("names no flavors"), "{text:?}");
        }
        assert!(MlModel::read("").is_err() && MlModel::read("flavors: {\n").is_err());
    }
}
