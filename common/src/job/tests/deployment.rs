//! Batch deployments: what each of their keys becomes, and what is refused in them.

use std::sync::Arc;

use super::*;
use crate::registry::{Kind, Which};
use crate::temporary_folder::TemporaryFolder;

/// The least that is a deployment, and its data.
const MINIMAL: &str = "\
name: dpl
endpoint_name: endpoint
model: {path: model}
code_configuration: {code: ., scoring_script: score.py}
environment: local
";

fn project() -> Project {
    let project = Project::new();
    project.write("model/model.pkl", "x");
    project.write("mlflow/MLmodel", "x");
    project
}

fn data(project: &Project) -> Invocation {
    let input = project.path("data").to_str().map(str::to_owned);
    Invocation { input, ..Invocation::default() }
}

fn load(
    project: &Project,
    yaml: &str,
    overrides: &[(&str, &str)],
    invocation: &Invocation,
) -> Result<JobSpec, JobFileError> {
    project.write("job.yml", yaml);
    let overrides: Vec<_> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let path = project.path("job.yml");
    let loaded = load_given(
        RunsOn::ThisMachine,
        &path,
        Given { overrides: &overrides, invocation: Some(invocation), ..Given::default() },
    );
    loaded.and_then(|loaded| loaded.into_job(&path))
}

#[track_caller]
fn problems(project: &Project, yaml: &str, overrides: &[(&str, &str)]) -> Vec<String> {
    let error = load(project, yaml, overrides, &data(project)).unwrap_err();
    error.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_deployment_has_defaults_of_its_own() {
    let project = project();
    let spec = load(&project, MINIMAL, &[], &data(&project)).unwrap();
    let at = |relative: &str| InputSource::Paths(vec![project.path(relative).to_str().unwrap().to_owned()]);
    assert_eq!((spec.name.as_str(), spec.entry_script.as_str()), ("dpl", "score.py"));
    assert_eq!(spec.inputs[0].source, at("data"));
    assert_eq!(spec.inputs[0].kind, InputKind::File);
    assert_eq!(spec.model.as_ref().unwrap().source, at("model"));
    assert_eq!(spec.mini_batch_size, MiniBatchSize::Files(10));
    assert_eq!((spec.process_count_per_node, spec.node_count), (Some(1), 1));
    assert_eq!((spec.run_max_try, spec.run_invocation_timeout), (4, 30));
    assert_eq!((spec.error_threshold, spec.failures_allowed), (-1, false));
    assert_eq!(spec.output_action, OutputAction::AppendRow);
    assert_eq!(spec.append_row_file_name, "predictions.csv");
    assert_eq!((spec.compute_target.as_str(), spec.environment), ("default", None));
    assert!(!spec.allow_reuse, "each call runs it");
}

#[test]
fn settings_stand_below_settings_or_beside_the_rest() {
    let project = project();
    let keys = "\
instance_count: 3
max_concurrency_per_instance: '2'
mini_batch_size: 7
retry_settings: {max_retries: 0, timeout: 300}
error_threshold: 5
mini_batch_error_threshold: 2
output_action: AppendRow
output_file_name: rows.csv
logging_level: debug
environment_variables: {A: true, B: 1}
";
    let below = format!("  {}\n", keys.trim_end().replace('\n', "\n  "));
    let of = |rest: &str| {
        let spec = load(&project, &format!("{MINIMAL}{rest}"), &[], &data(&project)).unwrap();
        // They name the lines.
        JobSpec { notes: Vec::new(), ..without_origins(spec) }
    };
    let legacy = of(keys);
    assert_eq!(of(&format!("type: model\nsettings:\n{below}")), legacy);
    assert_eq!(of(&format!("type: model\n{keys}settings:\n{below}")), legacy);
    assert_eq!((legacy.node_count, legacy.process_count_per_node), (3, Some(2)));
    assert_eq!((legacy.run_max_try, legacy.run_invocation_timeout), (1, 300));
    assert_eq!((legacy.error_threshold, legacy.allowed_failed_count), (5, 2));
    assert_eq!(legacy.append_row_file_name, "rows.csv");
    assert_eq!(legacy.environment_variables["A"], "True");
    let text = format!("{MINIMAL}type: model\nmini_batch_size: 5\nsettings: {{mini_batch_size: 6}}\n");
    assert_eq!(
        problems(&project, &text, &[]),
        ["settings.mini_batch_size: it is also given as `mini_batch_size`, and differs: keep one"]
    );
}

#[test]
fn what_is_set_for_a_run_comes_first() {
    let project = project();
    let yaml = format!(
        "{MINIMAL}resources: {{instance_count: 9}}\nretry_settings: {{max_retries: 9, timeout: 9}}\n"
    );
    let overrides = [
        ("resources.instance_count", "2"),
        ("retry_settings.max_retries", "1"),
        ("max_concurrency_per_instance", "4"),
        ("mini_batch_size", "3"),
        ("error_threshold", "8"),
        ("output_file_name", "x.csv"),
        ("environment_variables.A", "b"),
        ("compute", "gpu"),
        ("compute.instance_count", "5"),
        ("output_dataset.path", "/somewhere"),
    ];
    let spec = load(&project, &yaml, &overrides, &data(&project)).unwrap();
    assert_eq!((spec.node_count, spec.process_count_per_node), (5, Some(4)));
    assert_eq!((spec.run_max_try, spec.run_invocation_timeout), (2, 9));
    assert_eq!((spec.mini_batch_size, spec.error_threshold), (MiniBatchSize::Files(3), 8));
    assert_eq!((spec.append_row_file_name.as_str(), spec.compute_target.as_str()), ("x.csv", "gpu"));
    assert_eq!(spec.environment_variables["A"], "b");
    assert_eq!(spec.output.unwrap(), Path::new("/somewhere"));
    let all = Invocation {
        mini_batch_size: Some("2".to_owned()),
        instance_count: Some("6".to_owned()),
        output_path: Some("/else".to_owned()),
        job_name: Some("Job_7".to_owned()),
        experiment_name: Some("e".to_owned()),
        ..data(&project)
    };
    let spec = load(&project, &yaml, &[("mini_batch_size", "2")], &all).unwrap();
    assert_eq!((spec.node_count, spec.mini_batch_size), (6, MiniBatchSize::Files(2)));
    assert_eq!((spec.name.as_str(), spec.experiment_name.as_deref()), ("job-7", Some("e")));
    assert_eq!(spec.output.unwrap(), Path::new("/else"));
}

#[test]
fn a_variable_is_set_beside_those_that_the_file_has() {
    let project = project();
    let below = format!("{MINIMAL}settings: {{environment_variables: {{A: a, B: b}}}}\n");
    let beside = format!("{MINIMAL}environment_variables: {{A: a, B: b}}\n");
    for yaml in [&below, &beside] {
        let spec = load(&project, yaml, &[("environment_variables.A", "z")], &data(&project)).unwrap();
        let variables: Vec<_> =
            spec.environment_variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(variables, [("A", "z"), ("B", "b")]);
    }
}

#[test]
fn the_id_of_the_job_is_no_path() {
    let project = project();
    let named = |id: &str| Invocation { job_name: Some(id.to_owned()), ..data(&project) };
    load(&project, MINIMAL, &[], &named("Job_7")).unwrap();
    for wrong in ["a/b", "a.2", ""] {
        let told = problems_of(&project, wrong);
        assert!(told.contains("--job-name") && told.contains("is not the id of a job"), "{told}");
    }
}

/// What is said of the id `id`.
fn problems_of(project: &Project, id: &str) -> String {
    let invocation = Invocation { job_name: Some(id.to_owned()), ..data(project) };
    load(project, MINIMAL, &[], &invocation).unwrap_err().to_string()
}

#[test]
fn what_is_set_for_a_run_comes_before_settings_in_either_place() {
    let project = project();
    let of_file = "mini_batch_size: 9\nerror_threshold: 9\nlogging_level: info\n";
    let below = format!("settings:\n  {}\n", of_file.trim_end().replace('\n', "\n  "));
    for yaml in [of_file, &below, &format!("{of_file}{below}")] {
        for place in ["", "settings."] {
            let set = [("mini_batch_size", "5"), ("error_threshold", "1"), ("logging_level", "debug")];
            let set = set.map(|(key, value)| (format!("{place}{key}"), value));
            let set = set.each_ref().map(|(key, value)| (key.as_str(), *value));
            let spec = load(&project, &format!("{MINIMAL}{yaml}"), &set, &data(&project)).unwrap();
            assert_eq!((spec.mini_batch_size, spec.error_threshold), (MiniBatchSize::Files(5), 1), "{yaml}");
            assert_eq!(spec.logging_level, LoggingLevel::Debug, "{yaml}");
        }
    }
    let both = [("mini_batch_size", "5"), ("settings.mini_batch_size", "6")];
    assert_eq!(
        problems(&project, MINIMAL, &both),
        [
            "--set settings.mini_batch_size: it is also given as `--set mini_batch_size`, and differs: keep one"
        ]
    );
}

#[test]
fn the_place_of_the_output_starts_from_the_current_folder_and_no_url_is_printed() {
    let project = project();
    let here = std::env::current_dir().unwrap();
    let at = |path: &str| Invocation { output_path: Some(path.to_owned()), ..data(&project) };
    let spec = load(&project, MINIMAL, &[], &at("o/${{name}}")).unwrap();
    assert_eq!(spec.output.unwrap(), here.join("o/${{name}}"));
    let file = [("outputs.o.path", "o/${{name}}.csv"), ("outputs.o.type", "uri_file")];
    let spec = load(&project, MINIMAL, &file, &data(&project)).unwrap();
    assert_eq!((spec.output.unwrap(), &*spec.append_row_file_name), (here.join("o"), "${{name}}.csv"));
    let url = "https://account/container/?sig=secret/";
    for (set, invocation) in [
        (&[("outputs.o.path", url), ("outputs.o.type", "uri_file")][..], data(&project)),
        (&[("outputs.o.path", url)], data(&project)),
        (&[], at(url)),
        (&[("inputs.x", url)], Invocation::default()),
    ] {
        let said = load(&project, MINIMAL, set, &invocation).unwrap_err().to_string();
        assert!(said.contains("https:") && !said.contains("account"), "{said}");
    }
}

#[test]
fn an_output_in_a_datastore_is_that_of_the_job_with_a_note() {
    let project = project();
    let short = "azureml://datastores/store/paths/a/rows.csv";
    let long = "azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/store/paths/a/rows.csv";
    let option = Invocation { output_path: Some(short.to_owned()), ..data(&project) };
    for (set, invocation, shown, file) in [
        (&[][..], &option, "--output-path", "predictions.csv"),
        (&[("outputs.score.path", long)], &data(&project), "--set outputs", "predictions.csv"),
        (
            &[("outputs.score.path", long), ("outputs.score.type", "uri_file")],
            &data(&project),
            "--set outputs",
            "rows.csv",
        ),
        (&[("output_dataset.path", short)], &data(&project), "--set output_dataset.path", "predictions.csv"),
    ] {
        let spec = load(&project, MINIMAL, set, invocation).unwrap();
        assert_eq!((spec.output, spec.append_row_file_name.as_str()), (None, file), "{shown}");
        let note = "the datastore is not known here; the result is in the output of the job";
        let is_told = |told: &String| told.contains(shown) && told.contains(note);
        assert!(spec.notes.iter().any(is_told), "{:?}", spec.notes);
    }
    // What only looks like one is refused, as every place elsewhere.
    let wrong = Invocation { output_path: Some("azureml://stores/a".to_owned()), ..data(&project) };
    load(&project, MINIMAL, &[], &wrong).unwrap_err();
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    let project = project();
    let without = |line: &str| {
        let kept = MINIMAL.lines().filter(|given| !given.starts_with(line));
        kept.collect::<Vec<_>>().join("\n") + "\n"
    };
    let given = |key: &str, value: &str| format!("{}{key}: {value}\n", without(key));
    for (yaml, expected) in [
        (
            format!("{MINIMAL}resources: {{instance_count: 2}}\ninstance_count: 2\n"),
            "instance_count: Can't set instance_count when resources is provided: keep one",
        ),
        (
            format!("{MINIMAL}output_action: summary_only\noutput_file_name: x.csv\n"),
            "output_file_name: When output_action is set to summary_only, the output_file_name need not to be specified: \
             remove it",
        ),
        (
            format!("{MINIMAL}output_action: summary\n"),
            "output_action: \"summary\" is not one of append_row, summary_only",
        ),
        (without("model"), "model: the key is missing: give its path, or --set model.path=PATH"),
        (
            without("environment"),
            "environment: the key is missing: give a conda_file or an interpreter, or `local` for the Python of the host; \
             only a model of type mlflow_model does without",
        ),
        (
            without("code_configuration"),
            "code_configuration: the key is missing: give the folder `code` and its `scoring_script`; only a model of type \
             mlflow_model does without",
        ),
        (
            format!(
                "{}model: mlflow\nsettings: {{}}\n",
                without("code_configuration").replace("model: {path: model}\n", "")
            ),
            "code_configuration: the key is missing: give the folder `code` and its `scoring_script`; only a model of type \
             mlflow_model does without, and the folder of this one has a file MLmodel: give it as model: {path: PATH, type: \
             mlflow_model}",
        ),
        (
            given("model", "{path: model, type: triton_model}"),
            "model.type: a batch deployment has no Triton model: give a scoring script and type: custom_model",
        ),
        (given("model", "{path: model, typ: x}"), "model.typ: there is no such key: did you mean `type`?"),
        (
            given("model", "azureml:m@latest"),
            "model: a model of a registry (azureml:) is not supported yet: give the path of a file or folder",
        ),
        (
            given("model", "{path: 'runs:/1/m'}"),
            "model.path: runs:/1/m is a run of an MLflow server: download it, and give its folder",
        ),
        (
            given("name", "my.deployment"),
            "name: \"my.deployment\" is not the name of a deployment: give 3 to 32 letters, digits and `-` that begin with a letter and end with a letter or digit",
        ),
        (
            given("code_configuration", "{code: .}"),
            "code_configuration.scoring_script: the key is missing: give a .py file below code",
        ),
        (
            format!("{MINIMAL}job_definition: azureml:j\n"),
            "job_definition: it is for type: pipeline, and this is the deployment of a model: remove it",
        ),
        (
            format!("{MINIMAL}retry_settings: {{timeout: 259201}}\n"),
            "retry_settings.timeout: 259201 is out of range: give a whole number from 1 to 259200 seconds",
        ),
        (
            format!("{MINIMAL}mini_batch_size: 1MB\n"),
            "mini_batch_size: \"1MB\" is not a whole number: give a whole number from 1 to 2147483647, the number of files in a mini-batch",
        ),
    ] {
        assert_eq!(problems(&project, &yaml, &[]), [expected], "{yaml}");
    }
    let said = problems(&project, &given("code_configuration", "{code: src, scoring_script: x.py}"), &[]);
    assert!(
        said[0].starts_with("code_configuration.scoring_script: there is no file x.py in source_directory"),
        "{said:?}"
    );
    let said = problems(&project, &given("code_configuration", "{code: absent, scoring_script: x.py}"), &[]);
    assert!(said[0].starts_with("code_configuration.code: cannot read"), "{said:?}");
    let said = problems(&project, &format!("{MINIMAL}seting: {{}}\n"), &[]);
    assert_eq!(said, ["seting: there is no such key: did you mean `settings`?"]);
}

#[test]
fn data_that_a_deployment_cannot_take_are_refused() {
    let project = project();
    let data = || data(&project);
    let given = |input: &str| Invocation { input: Some(input.to_owned()), ..Invocation::default() };
    let kind = |kind: &str| Invocation { input_type: Some(kind.to_owned()), ..data() };
    for (invocation, set, says) in [
        (given(&project.path("absent").display().to_string()), &[][..], "--input: cannot read "),
        (kind("uri_file"), &[], "is a folder, and --input-type says uri_file: leave that out"),
        (kind("mltable"), &[], "--input-type: \"mltable\" is not what a deployment takes: give "),
        (given("azureml:heart:1"), &[], "--input: "),
        (
            data(),
            &[("inputs.more.path", "data")],
            "the deployment of a model takes exactly one input: keep one",
        ),
        (
            Invocation::default(),
            &[("inputs.x", "5")],
            "\"5\" is a value, and the deployment of a model takes data",
        ),
        (
            Invocation { output_path: Some("abfss://secret@b/x".to_owned()), ..data() },
            &[],
            "--output-path: an output cannot be put into abfss",
        ),
        (
            Invocation { mini_batch_size: Some("0".to_owned()), ..data() },
            &[],
            "--mini-batch-size: 0 is out of range",
        ),
        (data(), &[("resources.instance_count", "0")], "--set resources.instance_count: 0 is out of range"),
    ] {
        let said = load(&project, MINIMAL, set, &invocation).unwrap_err().to_string();
        assert!(said.contains(says) && !said.contains("secret"), "{says}\n{said}");
    }
}

#[test]
fn registered_data_are_asked_for_by_any_of_their_names() {
    let project = project();
    let (latest, first) = (Which::Label("latest".to_owned()), Which::Version("1".to_owned()));
    for (input, which) in [
        ("azureml:heart:1", &first),
        ("heart:1", &first),
        ("heart@latest", &latest),
        ("azureml:heart@latest", &latest),
        ("/subscriptions/x/data/heart/versions/1", &first),
    ] {
        let names = Names::default();
        project.write("job.yml", MINIMAL);
        let invocation = Invocation { input: Some(input.to_owned()), ..Invocation::default() };
        let given = Given { invocation: Some(&invocation), names: Some(&names), ..Given::default() };
        let path = project.path("job.yml");
        drop(load_given(RunsOn::ThisMachine, &path, given).and_then(|loaded| loaded.into_job(&path)));
        let asked = AssetRef { kind: Kind::Data, name: "heart".to_owned(), which: which.clone() };
        assert_eq!(names.take_asked(), [Asked::Asset(asked)], "{input}");
    }
}

#[test]
fn forms_are_told_apart() {
    let project = project();
    for yaml in [
        "type: model\n",
        "endpoint_name: x\n",
        "code_configuration: {code: .}\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/batchDeployment.schema.json\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/batchDeployment.schema.json\ntype: model\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/modelBatchDeployment.schema.json\n",
    ] {
        let said = problems(&project, yaml, &[]).join("\n");
        assert!(said.contains("model: the key is missing: give its path"), "{yaml}{said}");
    }
    for yaml in [
        "type: pipeline\nendpoint_name: end\n",
        "$schema: x/pipelineComponentBatchDeployment.schema.json\ntype: pipeline\n",
        "$schema: x/pipelineComponentBatchDeployment.schema.json\n",
    ] {
        let error = load(&project, yaml, &[], &Invocation::default()).unwrap_err().to_string();
        assert!(
            error.contains("component: the key is missing: give the file of a pipeline component"),
            "{yaml}{error}"
        );
    }
}

/// The deployment of a model of `MLflow` without a script.
const OF_MLFLOW: &str = "type: model\nname: heart\nmodel: {path: mlflow, type: mlflow_model}\n";
const PYFUNC: &str =
    "flavors: {python_function: {python_version: 3.11.2}, sklearn: {}}\nmlflow_version: 2.9.2\n";

#[test]
fn a_model_of_mlflow_needs_no_script_and_says_its_packages() {
    let project = project();
    project.write("mlflow/MLmodel", PYFUNC);
    let load = |yaml: &str, set: &[(&str, &str)]| load(&project, yaml, set, &data(&project)).unwrap();
    let spec = load(OF_MLFLOW, &[]);
    assert!(spec.scores_mlflow() && spec.is_built_in() && spec.has_no_code());
    assert_eq!(
        (spec.mini_batch_size, &*spec.append_row_file_name),
        (MiniBatchSize::Files(10), "predictions.csv")
    );
    assert_eq!((spec.inputs.len(), spec.environment), (1, None));
    assert!(
        spec.notes[0].contains("the model names no packages: the Python of the host is used"),
        "{:?}",
        spec.notes
    );

    project.write("mlflow/requirements.txt", "scikit-learn==1.5.2\n");
    project.write("mlflow/conda.yaml", "dependencies: [python=3.10.1, pip: [scikit-learn==1.4.0]]\n");
    let spec = load(OF_MLFLOW, &[]);
    let packages = spec.environment.as_ref().unwrap().packages().unwrap();
    assert_eq!(packages.requirements, ["mlflow==2.9.2", "scikit-learn==1.4.0"]);
    assert_eq!((packages.python.as_deref(), &*packages.from), (Some("3.10"), "conda.yaml of the model"));
    assert_eq!(spec.notes.len(), 1, "{:?}", spec.notes);
    assert!(spec.notes[0].ends_with("which counts; not used of it: scikit-learn==1.5.2"), "{:?}", spec.notes);

    // An environment of the deployment counts before it, and so does one that is set.
    project.write("conda.yml", "dependencies: [python=3.12, pip: [mlflow]]\n");
    let with = format!("{OF_MLFLOW}environment: {{conda_file: conda.yml}}\n");
    for (yaml, set) in [(&*with, &[][..]), (OF_MLFLOW, &[("environment", "conda.yml")])] {
        let spec = load(yaml, set);
        let packages = spec.environment.as_ref().unwrap().packages().unwrap();
        assert_eq!(packages.requirements, ["mlflow"], "{yaml}");
    }
    assert_eq!(load(&format!("{OF_MLFLOW}environment: local\n"), &[]).environment, None);
    let spec = load(&format!("{OF_MLFLOW}output_action: summary_only\n"), &[]);
    assert!(
        spec.notes.iter().any(|note| note.contains("the predictions are written nowhere")),
        "{:?}",
        spec.notes
    );
    // With a script it is an ordinary deployment.
    let spec = load(&MINIMAL.replace("{path: model}", "{path: mlflow, type: mlflow_model}"), &[]);
    assert!(!spec.scores_mlflow() && spec.environment.is_none());
}

#[test]
fn a_model_of_mlflow_that_cannot_be_scored_is_refused() {
    let project = project();
    let said = |set: &[(&str, &str)]| problems(&project, OF_MLFLOW, set).join("\n");
    for (mlmodel, part) in [
        (
            "flavors: {onnx: {}, keras: {}}\n",
            "has no flavor python_function, which a deployment without a scoring script needs; it has onnx, keras",
        ),
        ("name: x\n", "names no flavors: it was not stored by MLflow"),
        ("flavors: {python_function: {env: /etc/conda.yaml}}\n", "/etc/conda.yaml is not a file beside it"),
    ] {
        project.write("mlflow/MLmodel", mlmodel);
        assert!(said(&[]).starts_with("model.path: ") && said(&[]).contains(part), "{}", said(&[]));
    }
    project.write("mlflow/MLmodel", PYFUNC);
    for (set, part) in [
        (
            ("model.path", "model"),
            "has no file MLmodel, and a model of type mlflow_model is a folder with one",
        ),
        (
            ("model.path", "model/model.pkl"),
            "is a file, and a model of type mlflow_model is a folder with one",
        ),
        (("model.path", "absent"), "cannot read"),
        (("model.path", "https://example.org/m"), "over HTTP there are files alone"),
        (("output_format", "csv"), "--set output_format: it is for a scoring script"),
        (("max_concurrency", "2"), "--set max_concurrency: it is for a scoring script"),
    ] {
        assert!(said(&[set]).contains(part), "{set:?}: {}", said(&[set]));
    }
    project.write("mlflow/python_env.yaml", "python: 3.8.5\ndependencies: [-r requirements.txt]\n");
    assert!(said(&[]).contains("python 3.8 is too old"), "{}", said(&[]));
    assert!(
        said(&[]).contains("requirements.txt: it cannot be read")
            && said(&[]).contains("or give the deployment an environment")
    );
}

#[test]
fn a_model_of_mlflow_in_a_bucket_is_looked_up_first() {
    let project = project();
    let names = Names::default();
    let yaml = OF_MLFLOW.replace("path: mlflow", "path: 's3://bucket/models/heart'");
    project.write("job.yml", &yaml);
    let (path, data) = (project.path("job.yml"), data(&project));
    let load = || {
        let given = Given { invocation: Some(&data), names: Some(&names), ..Given::default() };
        load_given(RunsOn::Workers, &path, given).and_then(|loaded| loaded.into_job(&path))
    };
    drop(load());
    let asked = names.take_asked();
    assert_eq!(asked, [Asked::MlModel("s3://bucket/models/heart".to_owned())]);
    let folder = TemporaryFolder::make("prs-test-").unwrap();
    fs::write(folder.path().join("MLmodel"), PYFUNC).unwrap();
    fs::write(folder.path().join("requirements.txt"), "six\n./here.whl\n").unwrap();
    let folder = Arc::new(folder);
    names.tell(asked[0].clone(), Ok(Found::MlModel(Arc::clone(&folder))));
    let said = load().unwrap_err().to_string();
    assert!(said.contains("s3://bucket/models/heart/requirements.txt:2: ./here.whl"), "{said}");
    fs::write(folder.path().join("requirements.txt"), "six\n").unwrap();
    let packages = load().unwrap().environment.unwrap().packages().unwrap().requirements.clone();
    assert_eq!(packages, ["mlflow==2.9.2", "six"]);
    names.tell(asked[0].clone(), Err("there is no file".to_owned()));
    assert!(load().unwrap_err().to_string().contains("there is no file"));
}
