//! Files of what is to be registered: what becomes of them, and what is said of those that are wrong.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::names::{Asked, AssetRef, ConfiguredNames, Found};
use super::*;
use crate::code::archive::unpack;
use crate::registry::{AssetVersion, Which};

struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn environment(&self, text: &str) -> Result<(String, Vec<String>), String> {
        let file = self.write("environment.yml", text);
        let read = AssetFile::read(Kind::Environment, Some(&file), &[]).map_err(|error| error.to_string())?;
        environment_document(&read, &file).map_err(|error| error.to_string())
    }

    /// Stages the component in `text`, and unpacks it.
    fn component(&self, text: &str) -> Result<PathBuf, String> {
        let file = self.write("c/component.yml", text);
        let read = AssetFile::read(Kind::Component, Some(&file), &[]).map_err(|error| error.to_string())?;
        let into = tempfile::tempdir().unwrap();
        let names = Names::new(ConfiguredNames::default(), None);
        let stage = || stage_component(&read, &file, &names, into.path()).map_err(|error| error.to_string());
        let mut staged = stage()?;
        if staged.is_none() {
            for asked in names.take_asked() {
                let found = found(&asked);
                names.tell(asked, found);
            }
            staged = stage()?;
        }
        let staged = staged.unwrap();
        let target = self.0.path().join("unpacked");
        let _ = fs::remove_dir_all(&target);
        unpack(&fs::read(staged.archive).unwrap(), &target).unwrap();
        Ok(target)
    }
}

/// A registry in which every name but `none` has a version 3.
fn found(asked: &Asked) -> Result<Found, String> {
    let Asked::Asset(AssetRef { kind, name, .. }) = asked else { return Err("it is not there".to_owned()) };
    if name == "none" {
        return Err("there is no such name".to_owned());
    }
    Ok(Found::Asset(Box::new(AssetVersion {
        name: name.clone(),
        version: "3".to_owned(),
        kind: kind.types()[0],
        path: "/somewhere".to_owned(),
        given: String::new(),
        content: None,
        about: About::default(),
        created: String::new(),
        labels: std::collections::BTreeSet::new(),
        created_by: None,
        archived: false,
        uses: Vec::new(),
    })))
}

#[test]
fn what_a_file_says_is_read_and_set_before_it() {
    let room = Room::new();
    let file = room.write(
        "model.yml",
        "$schema: x\nname: mnist\nversion: 7\ntype: mlflow_model\npath: ./model\nstage: Production\n\
         tags: {a: 1}\nproperties: {b: c}\nflavors: {python_function: {loader_module: x, n: 2, on: true}}\n",
    );
    let set = [("version".to_owned(), "8".to_owned()), ("tags.z".to_owned(), "y".to_owned())];
    let read = AssetFile::read(Kind::Model, Some(&file), &set).unwrap();
    assert_eq!((read.name.as_deref(), read.version.as_deref()), (Some("mnist"), Some("8")));
    assert_eq!((read.kind, read.path.as_deref()), (Some(AssetType::MlflowModel), Some("./model")));
    assert_eq!(read.about.tags.keys().collect::<Vec<_>>(), ["a", "z"]);
    assert_eq!((&*read.about.properties["b"], read.about.stage.as_deref()), ("c", Some("Production")));
    assert_eq!(read.about.flavors["python_function"]["n"], 2);
    let alone = AssetFile::read(Kind::Model, None, &[("path".to_owned(), "m".to_owned())]).unwrap();
    assert_eq!((alone.name, alone.path.as_deref()), (None, Some("m")));
    for (text, says) in [
        ("naem: x\npath: y\n", "did you mean `name`?"),
        (
            "name: x\ntype: onnx\n",
            "\"onnx\" is no type of a model: give custom_model, mlflow_model, triton_model",
        ),
        ("name: x\nversion: [1]\n", "version: a list where text is expected"),
        ("name: ''\n", "name: it is empty: give the name of the model"),
        ("name: x\ntags: y\n", "tags: \"y\" where a mapping is expected"),
        ("name: x\nflavors: y\n", "flavors: it is no mapping"),
        ("name: x\nstage: {}\n", "stage: a mapping where text is expected"),
        ("- x\n", ""),
    ] {
        let file = room.write("bad.yml", text);
        let error = AssetFile::read(Kind::Model, Some(&file), &[]).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("bad.yml"), "{text}: {error}");
    }
}

#[test]
fn about_a_version_changes_what_people_say_alone() {
    let mut about = About::default();
    for (key, value) in [("description", "x"), ("stage", "y"), ("tags.a.b", "1"), ("properties.c", "2")] {
        change_about(&mut about, key, value).unwrap();
    }
    assert_eq!((about.description.as_deref(), &*about.tags["a.b"]), (Some("x"), "1"));
    change_about(&mut about, "description", "").unwrap();
    assert_eq!(about.description, None);
    for key in ["path", "tags", "tags.", "version", "flavors.x"] {
        assert!(change_about(&mut about, key, "x").unwrap_err().contains("create another one"), "{key}");
    }
}

#[test]
fn an_environment_becomes_one_document() {
    let room = Room::new();
    room.write("conda.yml", "dependencies: [python=3.11, {pip: [-r more.txt, pandas==2.2]}]\n");
    room.write("more.txt", "scipy\n");
    let (document, notes) = room
        .environment("name: sk\nversion: 2\nimage: mcr/x\nconda_file: conda.yml\nos_type: linux\n")
        .unwrap();
    for part in ["\"3.11\"", "pandas==2.2", "scipy"] {
        assert!(document.contains(part), "{document}");
    }
    assert!(!document.contains("conda.yml") && !document.contains("\"name\""), "{document}");
    assert!(notes.iter().any(|note| note.contains("containers are not run")), "{notes:?}");
    // The same packages under another name of the file are the same document.
    fs::rename(room.0.path().join("conda.yml"), room.0.path().join("other.yml")).unwrap();
    assert_eq!(room.environment("conda_file: other.yml\n").unwrap().0, document);
    let (image, _) = room.environment("image: mcr/x\n").unwrap();
    assert!(image.contains("\"image\": \"mcr/x\"") && yaml::parse(&image).is_ok(), "{image}");
    for (text, says) in [
        ("conda_file: nowhere.yml\n", "nowhere.yml"),
        ("conda_flie: conda.yml\nimage: x\n", "did you mean `conda_file`?"),
        ("build: {path: .}\n", "build: images are not built"),
        ("name: x\n", "says nothing of an environment"),
        ("image: x\nconda_file: {dependencies: [cudatoolkit]}\n", "cudatoolkit"),
        (
            "python: {userManagedDependencies: true, interpreterPath: /usr/bin/python3}\n",
            "interpreter of one machine",
        ),
    ] {
        let error = room.environment(text).unwrap_err();
        assert!(error.contains(says) && error.contains("environment.yml"), "{text}: {error}");
    }
}

#[test]
fn a_component_takes_along_all_that_it_needs() {
    let room = Room::new();
    room.write("src/run.py", "def run(x): return x\n");
    room.write("src/.amlignore", "*.bin\n");
    room.write("src/weights.bin", "x");
    room.write("conda.yml", "dependencies: [python=3.11, {pip: [numpy]}]\n");
    room.write(
        "c/score.yml",
        "type: parallel\nname: score\ninputs: {x: {type: uri_folder}, r: {type: number, default: 0.10}}\n\
         input_data: ${{inputs.x}}\ntask: {code: ../src, entry_script: run.py, environment: {conda_file: ../conda.yml}}\n",
    );
    let unpacked = room
        .component(
            "type: pipeline\nname: whole\ninputs: {x: {type: uri_folder, default: azureml:iris@latest}}\n\
             jobs:\n  one: {component: ./score.yml, inputs: {x: '${{parent.inputs.x}}'}}\n  \
             two: {component: ./score.yml, inputs: {x: {path: s3://b/x}}}\n  \
             three: {component: azureml:other@latest}\n  \
             four: {type: command, command: ls, code: ../src, environment: azureml:sk@latest}\n",
        )
        .unwrap();
    let read = |name: &str| fs::read_to_string(unpacked.join(name)).unwrap();
    let main = yaml::parse(&read(COMPONENT_FILE)).unwrap();
    let at = |place: &[&str]| {
        let found = place.iter().try_fold(&main, |node, key| node.get(key));
        found.and_then(Node::as_text).map(str::to_owned)
    };
    for (place, expected) in [
        (&["jobs", "one", "component"][..], "component-1.yml"),
        (&["jobs", "two", "component"], "component-1.yml"),
        (&["jobs", "three", "component"], "azureml:other:3"),
        (&["jobs", "four", "environment"], "azureml:sk:3"),
        (&["jobs", "four", "code"], "code-1"),
        (&["inputs", "x", "default"], "azureml:iris:3"),
        (&["jobs", "two", "inputs", "x", "path"], "s3://b/x"),
        (&["jobs", "one", "inputs", "x"], "${{parent.inputs.x}}"),
    ] {
        assert_eq!(at(place).as_deref(), Some(expected), "{place:?}");
    }
    let inner = read("component-1.yml");
    assert!(inner.contains("\"default\": 0.10") && inner.contains("numpy"), "{inner}");
    assert!(unpacked.join("code-1/run.py").is_file() && !unpacked.join("code-1/weights.bin").exists());
}

#[test]
fn a_component_that_would_not_run_elsewhere_is_refused() {
    let room = Room::new();
    room.write("c/run.py", "");
    room.write("c/broken.yml", "type: parallel\ntask: {entry_script: none.py}\ninput_dat: x\n");
    let parallel = |task: &str| format!("type: parallel\ntask: {{{task}}}\n");
    for (text, says) in [
        ("type: sweep\n".to_owned(), "a component of type sweep cannot be registered"),
        ("name: x\n".to_owned(), "a component without a type cannot be registered"),
        ("type: parallel\n".to_owned(), "task: the key is missing"),
        ("type: command\n".to_owned(), "command: the key is missing"),
        ("type: pipeline\n".to_owned(), "jobs: the key is missing"),
        (parallel("entry_script: rum.py"), "task.entry_script: there is no rum.py in"),
        (parallel("entry_script: run.py, code: ./nowhere"), "nowhere is not there"),
        (parallel("entry_script: run.py, code: azureml:c:1"), "is not on this machine"),
        (parallel("entry_script: run.py, environment: ./no.yml"), "no.yml"),
        (parallel("entry_script: run.py, model: ./m"), "register it (prs model create)"),
        (parallel("entry_script: run.py, environment: azureml:none:1"), "there is no such name"),
        (
            "type: command\ncommand: ls\ninputs: {x: {type: uri_file, path: ./x}}\n".to_owned(),
            "register it (prs dataset create)",
        ),
        ("type: command\ncommand: ls\ninputs: {x: {tpye: uri_file}}\n".to_owned(), "did you mean `type`?"),
        ("type: command\ncomand: ls\ncommand: ls\n".to_owned(), "did you mean `command`?"),
        (
            "type: pipeline\njobs: {a: {component: ./broken.yml}}\n".to_owned(),
            "broken.yml:2: task.entry_script",
        ),
        ("type: pipeline\njobs: {a: {component: ./gone.yml}}\n".to_owned(), "gone.yml"),
    ] {
        let error = room.component(&text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_model_is_what_its_type_says() {
    let room = Room::new();
    let file = room.write("model.pkl", "x");
    room.write(
        "mlflow/MLmodel",
        "flavors: {python_function: {loader_module: mlflow.sklearn}, sklearn: {}}\n",
    );
    room.write("other/MLmodel", "[");
    let (mlflow, other) = (room.0.path().join("mlflow"), room.0.path().join("other"));
    let flavors = check_model(&mlflow, AssetType::CustomModel).unwrap();
    assert_eq!(flavors.keys().collect::<Vec<_>>(), ["python_function", "sklearn"]);
    assert_eq!(check_model(&mlflow, AssetType::MlflowModel).unwrap(), flavors);
    assert!(check_model(&other, AssetType::CustomModel).unwrap().is_empty());
    fs::create_dir(room.0.path().join("empty")).unwrap();
    for (path, kind, says) in [
        (&file, AssetType::MlflowModel, "is a file, and a model of type mlflow_model is a folder"),
        (&other, AssetType::MlflowModel, "MLmodel"),
        (&room.0.path().join("empty"), AssetType::CustomModel, "there is no file in"),
        (&room.0.path().join("modle.pkl"), AssetType::CustomModel, "model.pkl"),
    ] {
        let error = check_model(path, kind).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let names = Names::new(ConfiguredNames::default(), None);
    let source = |given: &str| model_source(given, Path::new("/here"), AssetType::CustomModel, &names);
    assert_eq!(source("./m").unwrap(), Some(ModelSource::Local(PathBuf::from("/here/m"))));
    assert_eq!(source("s3://bucket/m/").unwrap(), Some(ModelSource::Url("s3://bucket/m/".to_owned())));
    assert_eq!(source("azureml://jobs/j/outputs/o").unwrap(), None);
    assert!(matches!(&names.take_asked()[..], [Asked::Output(_)]));
    for (given, says) in [
        ("runs:/x/model", "a run of an MLflow server"),
        ("s3://bucket", ""),
        ("s3://bucket/*.pkl", "is a glob"),
        ("ftp://x/y", "ftp:// is not supported yet: give a file, a folder"),
    ] {
        assert!(source(given).unwrap_err().contains(says), "{given}");
    }
    let which = Which::Version("1".to_owned());
    let asked = AssetRef { kind: Kind::Model, name: "m".to_owned(), which };
    assert_eq!(source("azureml:m:1").unwrap(), None);
    assert!(names.take_asked().contains(&Asked::Asset(asked)));
}
