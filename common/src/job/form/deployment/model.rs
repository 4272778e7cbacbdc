//! The model of a batch deployment, and what is run for it: a scoring script in an environment, or, for a model of `MLflow`
//! that has none, prs's own script in the environment that the model asks for (dialects E).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::super::environment::{of_model, of_packages};
use super::super::super::mlflow::{MLMODEL, MlModel};
use super::super::super::read_text;
use super::super::super::reader::Reader;
use super::super::super::validate::absolute;
use super::super::super::yaml::{Node, Value};
use super::super::bindings;
use super::super::parallel::Lift;
use super::super::{BuiltIn, RawSetting};
use crate::dataset::http_url::{is_http, shown};
use crate::dataset::remote::is_remote;
use crate::temporary_folder::TemporaryFolder;

/// Keys of a model that stands in the file.
const MODEL: [&str; 10] =
    ["$schema", "name", "version", "type", "path", "description", "tags", "properties", "stage", "flavors"];
const MODEL_TYPES: [&str; 3] = ["custom_model", "mlflow_model", "triton_model"];

/// What is known of the model.
struct Model {
    kind: &'static str,
    /// Where it is said.
    at: RawSetting,
    /// Its path or URL.
    path: String,
    /// Whether it is in the registry, which knows its type.
    is_of_registry: bool,
    /// Whether it is a name that stands for nothing, as is said elsewhere.
    is_unknown: bool,
    has_mlmodel: bool,
}

/// What a model of `MLflow` says of itself.
enum Said {
    /// The folder of the model.
    Here(PathBuf),
    /// A copy of its small files.
    Copied(Arc<TemporaryFolder>),
}

impl Said {
    fn folder(&self) -> &Path {
        match self {
            Self::Here(folder) => folder,
            Self::Copied(folder) => folder.path(),
        }
    }

    /// `message`, in which the model is named as `model` is.
    fn shown(&self, message: &str, model: &Model) -> String {
        match self {
            Self::Here(_) => message.to_owned(),
            Self::Copied(folder) => {
                message.replace(&*folder.path().to_string_lossy(), shown(&model.path).trim_end_matches('/'))
            }
        }
    }
}

impl Lift<'_, '_> {
    /// Takes the model, the script and its environment.
    pub(super) fn scorer(&mut self, file: &Path) {
        let code = self.fields.nested("code_configuration", &["code", "scoring_script"]);
        let has_code = self.fields.has("code_configuration");
        let Some(model) = self.model(file) else {
            return self.code_of_deployment(&code, has_code, true, file);
        };
        if has_code || model.kind == "custom_model" && !model.is_unknown {
            if !has_code {
                let mut message =
                    "the key is missing: give the folder `code` and its `scoring_script`; only a model of \
                                   type mlflow_model does without"
                        .to_owned();
                if model.has_mlmodel && model.is_of_registry {
                    message += ", and this one has a file MLmodel: register it with --type mlflow_model";
                } else if model.has_mlmodel {
                    message += ", and the folder of this one has a file MLmodel: give it as model: {path: PATH, type: \
                                mlflow_model}";
                }
                self.fields.refuse_at("code_configuration", None, message);
            }
            return self.code_of_deployment(&code, has_code, false, file);
        }
        // What it runs in is its own affair.
        self.code_of_deployment(&code, has_code, true, file);
        if model.kind == "mlflow_model" {
            self.raw.built_in = Some(BuiltIn::Mlflow);
            self.without_script(&model, file);
        }
    }

    /// Takes the folder of the script, the script, and its environment, which may be absent where `is_free`.
    fn code_of_deployment(&mut self, code: &[RawSetting], has_code: bool, is_free: bool, file: &Path) {
        let place = |key: &str, name: &str| (key.to_owned(), format!("code_configuration.{name}"));
        self.raw.places.push(place("entry_script", "scoring_script"));
        for (key, what) in [("code", "the folder of the script"), ("scoring_script", "a .py file below code")]
        {
            match code.iter().find(|setting| setting.key == key) {
                Some(setting) if key == "code" => self.code(setting, file),
                Some(setting) => self.give(setting, "entry_script"),
                None if has_code => {
                    let shown = format!("code_configuration.{key}");
                    self.fields.refuse_at(&shown, None, format!("the key is missing: give {what}"));
                }
                None => {}
            }
        }
        match self.fields.get("environment") {
            Some(setting) => self.environment(&setting),
            None if is_free => {}
            None => {
                let message = "the key is missing: give a conda_file or an interpreter, or `local` for the Python of the \
                               host; only a model of type mlflow_model does without";
                self.fields.refuse_at("environment", None, message);
            }
        }
    }

    /// Takes the model; nothing where it is refused.
    fn model(&mut self, file: &Path) -> Option<Model> {
        let Some(setting) = self.fields.get("model") else {
            let message = "the key is missing: give its path, or --set model.path=PATH";
            self.fields.refuse_at("model", None, message);
            return None;
        };
        let (mut kind, mut path) = ("custom_model", setting.clone());
        match &setting.value.value {
            Value::Scalar { .. } => {}
            Value::Mapping(_) => {
                let mut given = Reader::of_mapping(&setting.shown, &setting.value, self.fields.problems());
                given.refuse_unknown(&MODEL, "a model");
                if let Some(setting) = given.get("type") {
                    kind = bindings::word(&mut given, &setting, &MODEL_TYPES)?;
                    if kind == "triton_model" {
                        given.refuse(
                            &setting,
                            "a batch deployment has no Triton model: give a scoring script and type: \
                                                custom_model",
                        );
                        return None;
                    }
                }
                let Some(given) = given.get("path") else {
                    let shown = format!("{}.path", setting.shown);
                    let message = format!("the key is missing: give it, or --set {shown}=PATH");
                    self.fields.refuse_at(&shown, setting.line, message);
                    return None;
                };
                path = given;
            }
            Value::Null | Value::Sequence(_) => {
                let given = setting.value.describe();
                self.fields.refuse(&setting, format!("{given} is not a model: give its path"));
                return None;
            }
        }
        let text = path.value.as_text().unwrap_or_default().trim().to_owned();
        if text.starts_with("runs:/") {
            let message = format!("{text} is a run of an MLflow server: download it, and give its folder");
            self.fields.refuse(&path, message);
            return None;
        }
        self.give(&path, "model");
        let registered = self.raw.names.model_at(&text);
        if let Some(registered) = &registered {
            kind = registered.kind.as_str();
            if kind == "triton_model" {
                let message = "it is a Triton model, which no batch deployment has: register it as custom_model, and give a \
                               scoring script";
                self.fields.refuse(&path, message);
                return None;
            }
        }
        let has_mlmodel = match &registered {
            Some(registered) => !registered.about.flavors.is_empty(),
            None => !is_remote(&text) && absolute(folder_of(file), &text).join(MLMODEL).is_file(),
        };
        let (is_of_registry, is_unknown) = (registered.is_some(), text.starts_with("azureml:"));
        Some(Model { kind, at: path, path: text, is_of_registry, is_unknown, has_mlmodel })
    }

    /// Holds a model of `MLflow` to what a deployment without a scoring script needs, and takes the environment that it asks for,
    /// where the deployment has none.
    fn without_script(&mut self, model: &Model, file: &Path) {
        let Some(said) = self.said_by(model, file) else { return };
        let path = said.folder().join(MLMODEL);
        let read = read_text(&path).and_then(|text| MlModel::read(&text));
        let mlmodel = match read {
            Ok(read) => read,
            Err(message) => {
                let message = said.shown(&format!("{}: {message}", path.display()), model);
                return self.fields.refuse(&model.at, message);
            }
        };
        if let Some(message) = mlmodel.refusal() {
            return self.fields.refuse(&model.at, message);
        }
        if self.fields.has("environment") {
            return;
        }
        let needs = of_model(said.folder(), &mlmodel);
        for problem in needs.problems {
            let message = format!("{}; or give the deployment an environment", said.shown(&problem, model));
            self.fields.refuse(&model.at, message);
        }
        for note in needs.notes {
            let note = said.shown(&note, model);
            self.fields.note(&model.at, note);
        }
        match needs.packages {
            Some(packages) => {
                let Node { value, .. } = of_packages(&packages);
                let line = model.at.line;
                self.add("environment", &model.at.shown, line, Node { line, value });
            }
            None => self.fields.note(
                &model.at,
                "the model names no packages: the Python of the host is used, which is to have mlflow and what the model needs",
            ),
        }
    }

    /// What the model says of itself; nothing where that has to be looked up first, or is refused.
    fn said_by(&mut self, model: &Model, file: &Path) -> Option<Said> {
        if model.is_unknown {
            return None;
        }
        if is_http(&model.path) {
            let message = "a model of type mlflow_model is a folder, and over HTTP there are files alone: download it, and give its \
                           folder or an s3:// URL";
            self.fields.refuse(&model.at, message);
            return None;
        }
        if !is_remote(&model.path) {
            let folder = absolute(folder_of(file), &model.path);
            // Another path is refused where the model is read.
            if !folder.exists() {
                return None;
            }
            if folder.join(MLMODEL).is_file() {
                return Some(Said::Here(folder));
            }
            let what = if folder.is_dir() { "has no file MLmodel" } else { "is a file" };
            let message = format!(
                "{} {what}, and a model of type mlflow_model is a folder with one: give that, or type: custom_model",
                folder.display()
            );
            self.fields.refuse(&model.at, message);
            return None;
        }
        match self.raw.names.mlmodel(&model.path)? {
            Ok(folder) => Some(Said::Copied(folder)),
            Err(message) => {
                self.fields.refuse(&model.at, message);
                None
            }
        }
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}
