//! What references in documents become, and what is said of those that stand for nothing.

use super::super::yaml;
use super::*;
use crate::registry::{About, AssetType, Which};

fn configured() -> ConfiguredNames {
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect::<Vec<_>>()
    };
    ConfiguredNames {
        references: pairs(&[
            ("azureml://registries/azureml/environments/sklearn/labels/latest", "/conf/sklearn.yml"),
            ("wasbs://c@a/*", "s3://mirror/*"),
            ("wasbs://c@a/one/*", "azureml://datastores/blob/paths/one"),
        ]),
        datastores: pairs(&[("blob", "s3://bucket/pre"), ("disk", "/data")]).into_iter().collect(),
        computes: pairs(&[("cpu-cluster", "big")]).into_iter().collect(),
    }
}

fn names() -> Names {
    let names = Names::new(configured(), Some("s3://fleet/prs/".to_owned()));
    let data = version("iris", "3", AssetType::Mltable, "s3://fleet/iris/");
    names.tell(asked(Kind::Data, "iris", latest()), Ok(Found::Asset(Box::new(data))));
    let gone = asked(Kind::Data, "iris", Which::Version("9".to_owned()));
    names.tell(gone, Err("there is no version 9".to_owned()));
    let model = version("mnist", "2", AssetType::CustomModel, "s3://fleet/x/model/");
    for which in [latest(), Which::Version("2".to_owned())] {
        names.tell(asked(Kind::Model, "mnist", which), Ok(Found::Asset(Box::new(model.clone()))));
    }
    let packages = r#"{"python": "3.12", "requirements": ["numpy"]}"#.to_owned();
    let environment = Box::new(version("sk", "5", AssetType::Environment, "s3://fleet/y/environment.yml"));
    names.tell(asked(Kind::Environment, "sk", latest()), Ok(Found::Environment(environment, packages)));
    let component = Box::new(version("prepare", "7", AssetType::Command, "s3://fleet/z/c.tar.gz"));
    let file = PathBuf::from("/cache/code-z/component.yml");
    names.tell(asked(Kind::Component, "prepare", latest()), Ok(Found::Component(component, file)));
    let output = OutputRef { job: "j-1".to_owned(), output: "m".to_owned(), path: "deep/er".to_owned() };
    names.tell(Asked::Output(output), Ok(Found::Path("/runs/j-1/output/m/deep/er".to_owned())));
    names
}

fn latest() -> Which {
    Which::Label("latest".to_owned())
}

fn asked(kind: Kind, name: &str, which: Which) -> Asked {
    Asked::Asset(AssetRef { kind, name: name.to_owned(), which })
}

fn version(name: &str, version: &str, kind: AssetType, path: &str) -> AssetVersion {
    AssetVersion {
        name: name.to_owned(),
        version: version.to_owned(),
        kind,
        path: path.to_owned(),
        given: "./given".to_owned(),
        content: None,
        about: About::default(),
        created: String::new(),
        labels: BTreeSet::new(),
        created_by: None,
        archived: false,
        uses: Vec::new(),
    }
}

/// The text at `place` of `yaml` once it is resolved, and what is wrong.
fn at(names: &Names, yaml: &str, place: &[&str]) -> (Option<String>, Vec<String>) {
    let mut document = yaml::parse(yaml).unwrap();
    names.begin();
    names.resolve(&mut document);
    let mut problems = Vec::new();
    names.replace_problems(&mut problems);
    let found = place.iter().try_fold(&document, |node, part| match &node.value {
        Value::Sequence(items) => items.get(part.parse::<usize>().unwrap()),
        _ => node.get(part),
    });
    let text = found.and_then(Node::as_text).map(str::to_owned);
    (text, problems.iter().map(ToString::to_string).collect())
}

#[test]
fn another_reading_begins_without_what_was_found() {
    let names = Names::new(ConfiguredNames::default(), Some("s3://fleet".to_owned()));
    let asked = Asked::Table("s3://b/MLTable".to_owned());
    names.tell(asked.clone(), Ok(Found::Text("paths: []".to_owned())));
    assert!(names.clone().table("s3://b/MLTable").is_some());
    let anew = names.anew();
    assert!(anew.table("s3://b/MLTable").is_none());
    assert_eq!(anew.take_asked(), [asked]);
    assert!(names.take_asked().is_empty(), "nobody else asks with it");
}

#[test]
fn references_have_their_values_wherever_a_path_is() {
    let names = names();
    for (yaml, place, expected) in [
        ("inputs: [{path: azureml:iris@latest}]", &["inputs", "0", "path"][..], "s3://fleet/iris/"),
        ("inputs: {x: {path: azureml:iris@latest}}", &["inputs", "x", "type"], "mltable"),
        (
            "inputs: {x: {type: uri_folder, path: azureml:iris@latest}}",
            &["inputs", "x", "type"],
            "uri_folder",
        ),
        (
            "jobs: {s: {inputs: {x: {path: azureml:iris@latest}}}}",
            &["jobs", "s", "inputs", "x", "path"],
            "s3://fleet/iris/",
        ),
        (
            "inputs: [{paths: ['azureml://datastores/blob/paths/a', b]}]",
            &["inputs", "0", "paths", "0"],
            "s3://bucket/pre/a",
        ),
        ("side_inputs: {m: 'azureml://datastores/disk/paths/m'}", &["side_inputs", "m"], "/data/m"),
        (
            "side_inputs: {m: {path: 'azureml://datastores/disk/paths/m/'}}",
            &["side_inputs", "m", "path"],
            "/data/m/",
        ),
        ("model: azureml://datastores/disk/paths/m", &["model"], "/data/m"),
        ("model: azureml:mnist@latest", &["model"], "s3://fleet/x/model/"),
        ("model: {path: azureml:mnist:2}", &["model", "path"], "s3://fleet/x/model/"),
        ("task: {model: azureml://w/models/mnist/versions/2}", &["task", "model"], "s3://fleet/x/model/"),
        (
            "inputs: {x: {type: custom_model, path: azureml:mnist:2}}",
            &["inputs", "x", "path"],
            "s3://fleet/x/model/",
        ),
        (
            "inputs: {x: {path: azureml://w/models/mnist/versions/2}}",
            &["inputs", "x", "type"],
            "custom_model",
        ),
        (
            "inputs: [{path: azureml://jobs/j-1/outputs/m/paths/deep/er}]",
            &["inputs", "0", "path"],
            "/runs/j-1/output/m/deep/er",
        ),
        ("environment: azureml:sk@latest", &["environment", "python"], "3.12"),
        ("task: {environment: azureml:sk@latest}", &["task", "environment", "from"], "azureml:sk:5"),
        (
            "jobs: {s: {component: azureml:prepare@latest}}",
            &["jobs", "s", "component"],
            "/cache/code-z/component.yml",
        ),
        (
            "paths: [{file: 'azureml://datastores/workspaceblobstore/paths/a'}]",
            &["paths", "0", "file"],
            "s3://fleet/prs/data/a",
        ),
        ("inputs: [{path: 'wasbs://c@a/x/y'}]", &["inputs", "0", "path"], "s3://mirror/x/y"),
        ("inputs: [{path: 'wasbs://c@a/one/y'}]", &["inputs", "0", "path"], "s3://bucket/pre/one"),
        (
            "task: {environment: 'azureml://registries/azureml/environments/sklearn/labels/latest'}",
            &["task", "environment"],
            "/conf/sklearn.yml",
        ),
        ("compute: azureml:cpu-cluster", &["compute"], "big"),
        ("settings: {default_compute: cpu-cluster}", &["settings", "default_compute"], "big"),
        ("compute_target: other", &["compute_target"], "other"),
        // Names that authors give are no keys.
        (
            "jobs: {outputs: {inputs: {path: {path: azureml:iris@latest}}}}",
            &["jobs", "outputs", "inputs", "path", "path"],
            "s3://fleet/iris/",
        ),
        ("inputs: {path: azureml:iris@latest}", &["inputs", "path"], "azureml:iris@latest"),
        // What is no path stays as it is.
        (
            "inputs: {x: {type: string, default: azureml:iris@latest}}",
            &["inputs", "x", "default"],
            "azureml:iris@latest",
        ),
        ("inputs: {x: azureml:iris@latest}", &["inputs", "x"], "azureml:iris@latest"),
        ("tags: {path: azureml:iris@latest}", &["tags", "path"], "azureml:iris@latest"),
        ("inputs: {x: {path: '${{parent.inputs.x}}'}}", &["inputs", "x", "path"], "${{parent.inputs.x}}"),
        (
            "outputs: {x: {path: 'azureml://datastores/nowhere/paths/a'}}",
            &["outputs", "x", "path"],
            "azureml://datastores/nowhere/paths/a",
        ),
    ] {
        assert_eq!(at(&names, yaml, place), (Some(expected.to_owned()), Vec::new()), "{yaml}");
    }
    at(&names, "inputs: [{path: azureml:iris@latest}]", &[]);
    let used = names.used_in(r#"{"path":"s3://fleet/iris/"}"#);
    assert_eq!((used.len(), &*used[0].version, &*used[0].given), (1, "3", "azureml:iris@latest"));
    assert!(names.used_in("{}").is_empty());
}

#[test]
fn what_stands_for_nothing_is_refused_with_the_remedy() {
    let names = names();
    for (path, says) in [
        ("azureml:iris:9", "inputs[0].path: there is no version 9"),
        ("azureml:iris", "does not say which version"),
        ("azureml://datastores/blub/paths/a", "the datastore blub is not known: did you mean blob?"),
        (
            "azureml://datastores/nowhere/paths/a",
            "there are: blob, disk; else say where it is under datastores:",
        ),
        ("azureml://datastores/blob/paths/../a", "leads out"),
        (
            "azureml://registries/azureml/data/x/versions/1",
            "is in Azure's registry azureml: map it in references:",
        ),
        ("abfss://c@a/x", "abfss:// is a store of Azure"),
        ("azureml://jobs/j/outputs/o/x", "it is no reference that prs knows"),
        ("azureml://w/codes/m/versions/1", "codes of a registry are not supported yet"),
        ("azureml://w/environments/m/versions/1", "is an environment, and data is wanted here"),
    ] {
        let (_, problems) = at(&names, &format!("inputs: [{{path: '{path}'}}]"), &[]);
        assert!(problems.len() == 1 && problems[0].contains(says), "{path}: {problems:?}");
    }
    let curated = "azureml://registries/azureml/environments/other/labels/latest";
    let (_, problems) = at(&names, &format!("environment: '{curated}'"), &[]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    for says in ["is an environment in Azure's registry azureml", "prs environment create -f FILE", "conda"] {
        assert!(problems[0].contains(says), "{problems:?}");
    }
    let (_, problems) = at(&names, "model: 'azureml://w/data/m/versions/1'", &[]);
    assert!(problems[0].contains("is data, and a model is wanted here"), "{problems:?}");
    assert!(names.take_asked().is_empty());
    at(&names, "inputs: [{path: 'azureml:other:1'}, {path: 'azureml:other:1'}]", &[]);
    assert_eq!(names.take_asked(), [asked(Kind::Data, "other", Which::Version("1".to_owned()))]);
}

#[test]
fn a_name_is_pinned_to_the_version_that_it_means() {
    let names = names();
    for (text, kind, expected) in [
        ("azureml:mnist@latest", Kind::Model, "azureml:mnist:2"),
        ("azureml://w/models/mnist/labels/latest", Kind::Model, "azureml://models/mnist/versions/2"),
        ("azureml:sk@latest", Kind::Environment, "azureml:sk:5"),
        ("azureml:prepare@latest", Kind::Component, "azureml:prepare:7"),
    ] {
        assert_eq!(names.pin(text, kind), Some(Ok(expected.to_owned())), "{text}");
    }
    assert_eq!(names.pin("./x", Kind::Model), None);
    assert_eq!(names.pin("azureml://w/data/x/versions/1", Kind::Component).and_then(Result::ok), None);
    assert_eq!(names.pin("azureml:unknown:1", Kind::Component), Some(Err(None)));
    let wanted = asked(Kind::Component, "unknown", Which::Version("1".to_owned()));
    assert_eq!(names.take_asked(), [wanted]);
}

#[test]
fn what_is_wrong_with_a_step_is_told_once() {
    let names = names();
    let problem = |key: &str, line| Problem { key: key.to_owned(), line, message: "wrong".to_owned() };
    for (first, second, count) in [
        (("jobs.s.inputs.x.path", Some(3)), ("inputs.x.path", Some(3)), 1),
        (("--set jobs.s.inputs.x.path", None), ("--set inputs.x.path", None), 1),
        (("inputs.x.path", Some(3)), ("inputs.x.path", Some(3)), 1),
        (("jobs.s.inputs.x.path", Some(3)), ("inputs.x.path", Some(4)), 2),
        (("jobs.s.inputs.xx.path", Some(3)), ("inputs.x.path", Some(3)), 2),
        (("jobs.s.inputs.x.path", Some(3)), ("jobs.s.inputs.y.path", Some(3)), 2),
    ] {
        names.state().wrong = vec![problem(first.0, first.1), problem(second.0, second.1)];
        let mut problems = Vec::new();
        names.replace_problems(&mut problems);
        assert_eq!((problems.len(), &*problems[0].key), (count, first.0), "{second:?}");
    }
}
