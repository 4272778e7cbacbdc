//! The forms of a job file, and `--set` on top of them.

use super::super::keys::settable;
use super::*;

/// As azureml writes it, with the user's own interpreter.
const PARALLEL_RUN_CONFIG: &str = "\
parallel_run_config:
  mini_batch_size: '5'
  partition_keys:
  error_threshold: 10
  output_action: append_row
  logging_level: DEBUG
  compute_target_name: cpu-cluster
  node_count: 2
  process_count_per_node:
  entry_script: score.py
  source_directory: .
  description:
  run_invocation_timeout: 120
  run_max_try: 2
  append_row_file_name: out.txt
  environment:
    name: env
    version:
    environmentVariables:
      EXAMPLE_ENV_VAR: EXAMPLE_VALUE
    python:
      userManagedDependencies: true
      interpreterPath: sh
      condaDependenciesFile:
      baseCondaEnvironment:
    docker:
      baseImage: image
    spark:
      repositories: []
  environment_variables:
    A: b
";

const BESIDE: &str = "name: job-1\ninputs: [{type: file, path: data}]\narguments: [--x, 1]\n";

#[test]
fn a_saved_parallel_run_config_with_the_rest_beside_it() {
    let project = Project::new();
    for yaml in [format!("{PARALLEL_RUN_CONFIG}{BESIDE}"), format!("{BESIDE}{PARALLEL_RUN_CONFIG}")] {
        let spec = project.load(&yaml).unwrap();
        let native = project
            .load(
                "name: job-1\ninputs: [{type: file, path: data}]\narguments: [--x, 1]\nmini_batch_size: 5\n\
                 error_threshold: 10\nlogging_level: DEBUG\ncompute_target: cpu-cluster\nnode_count: 2\n\
                 entry_script: score.py\nrun_invocation_timeout: 120\nrun_max_try: 2\n\
                 append_row_file_name: out.txt\nenvironment: sh\n\
                 environment_variables: {A: b, EXAMPLE_ENV_VAR: EXAMPLE_VALUE}\n",
            )
            .unwrap();
        let line = yaml.lines().position(|line| line.starts_with("  environment:")).unwrap() + 1;
        let place =
            format!("{}:{line}: parallel_run_config.environment: ", project.path("job.yml").display());
        assert!(spec.notes.len() == 1 && spec.notes[0].starts_with(&place), "{:?}", spec.notes);
        assert_eq!(JobSpec { notes: Vec::new(), ..without_origins(spec) }, without_origins(native));
    }
}

#[test]
fn a_pipeline_parameter_stands_for_its_default() {
    let project = Project::new();
    let yaml = PARALLEL_RUN_CONFIG
        .replace("'5'", "{name: size, default_value: '7'}")
        .replace("node_count: 2", "node_count: {default_value: 3}")
        .replace("logging_level: DEBUG", "logging_level: {default_value: }");
    let spec = project.load(&format!("{yaml}{BESIDE}")).unwrap();
    assert_eq!(spec.mini_batch_size, MiniBatchSize::Files(7));
    assert_eq!(spec.node_count, 3);
    assert_eq!(spec.logging_level, LoggingLevel::Info);
    let native = project.problem(&format!("{REQUIRED}node_count: {{default_value: 3}}\n"));
    assert_eq!(
        native,
        "node_count: a mapping is not a whole number: give a whole number from 1 to 2147483647"
    );
}

#[test]
fn problems_of_the_block_name_the_block() {
    let project = Project::new();
    let yaml = PARALLEL_RUN_CONFIG
        .replace("node_count: 2", "node_cout: 2")
        .replace("run_max_try: 2", "run_max_try: 0");
    assert_eq!(
        project.problems(&format!("{yaml}{BESIDE}error_threshold: 3\n")),
        [
            "parallel_run_config.node_cout: there is no such key: did you mean `node_count`?",
            "parallel_run_config.run_max_try: 0 is out of range: give a whole number from 1 to 2147483647",
            "error_threshold: it is also given as `parallel_run_config.error_threshold`: keep one",
        ]
    );
    let yaml = PARALLEL_RUN_CONFIG
        .replace("partition_keys:", "partition_keys: [k]")
        .replace("userManagedDependencies: true", "userManagedDependencies: false");
    assert_eq!(
        project.problems(&format!("{yaml}{BESIDE}")),
        [
            "parallel_run_config.partition_keys: \"k\" is no column of a path, input input_1 has no partition_format; give \
             one that partition_format has",
            "parallel_run_config.environment: the mapping names neither an interpreter nor condaDependencies: in its \
             place, give a Python interpreter, as a path or as a command on PATH; a requirements or conda file (`.txt`, \
             `.yml`); or a registered environment (`azureml:NAME:VERSION`)",
        ]
    );
    let problems = project.problems("parallel_run_config: other.yml\n");
    assert_eq!(
        problems[0],
        "parallel_run_config: \"other.yml\" where the settings of a ParallelRunConfig belong: put the content of that \
         file here"
    );
}

#[test]
fn forms_that_are_not_read_yet_are_refused_by_name() {
    let project = Project::new();
    for (yaml, line, form) in [
        ("type: uri_folder\npath: data\n", 1, "a data asset"),
        ("name: x\ntype: mlflow_model\npath: model\n", 2, "a model"),
        ("name: x\nimage: y\nconda_file: z\n", 3, "an environment"),
        ("name: x\nauth_mode: aad_token\n", 2, "a batch endpoint"),
        ("paths: [{file: a.csv}]\n", 1, "an MLTable"),
        (
            "$schema: https://azuremlschemas.azureedge.net/latest/batchEndpoint.schema.json\n",
            1,
            "a batch endpoint",
        ),
        ("pipeline: {steps: {}}\n", 1, "an Azure Machine Learning v1 pipeline (`pipeline:`)"),
    ] {
        let error = project.load_with(yaml, &[("node_count", "0")]).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        assert_eq!(error.problems[0].line, Some(line), "{yaml}");
        assert_eq!(
            error.problems[0].message,
            format!(
                "this is {form}, which is not supported yet: write a native job file, or a parallel job (`type: \
                 parallel`)"
            )
        );
    }
}

#[test]
fn overrides_take_the_place_of_the_files_values() {
    let project = Project::new();
    let overrides = [
        ("mini_batch_size", "20"),
        ("node_count", "9"),
        ("process_count_per_node", " 4 "),
        ("logging_level", "warning"),
        ("run_invocation_timeout", "7"),
        ("run_max_try", "8"),
        ("error_threshold", "-1"),
        ("allowed_failed_count", "5"),
        ("allowed_failed_percent", "2.5"),
        ("run_max_try", "6"),
    ];
    for yaml in [
        format!("{PARALLEL_RUN_CONFIG}{BESIDE}"),
        format!("{REQUIRED}node_count: wrong\nrun_max_try: 0\nerror_threshold: 3\n"),
    ] {
        let spec = project.load_with(&yaml, &overrides).unwrap();
        assert_eq!(spec.mini_batch_size, MiniBatchSize::Files(20));
        assert_eq!(spec.node_count, 9);
        assert_eq!(spec.process_count_per_node, Some(4));
        assert_eq!(spec.logging_level, LoggingLevel::Warning);
        assert_eq!(spec.run_invocation_timeout, 7);
        assert_eq!(spec.run_max_try, 6);
        assert_eq!(spec.error_threshold, -1);
        assert_eq!(spec.allowed_failed_count, 5);
        assert!((spec.allowed_failed_percent - 2.5).abs() < f64::EPSILON);
    }
}

#[test]
fn refused_overrides() {
    let project = Project::new();
    let allowed = settable(Start::Submission).join(", ");
    for (key, value, expected) in [
        ("node_count", "0", "\"0\" is out of range: give a whole number from 1 to 2147483647".to_owned()),
        ("node_count", "", "\"\" is not a whole number: give a whole number from 1 to 2147483647".to_owned()),
        ("node_cuont", "1", "there is no such key: did you mean `node_count`?".to_owned()),
        ("x", "1", format!("there is no such key; --set takes {allowed}")),
        ("colour", "red", format!("there is no such key; --set takes {allowed}")),
        ("run_max_try", "0", "\"0\" is out of range: give a whole number from 1 to 2147483647".to_owned()),
        ("name", "x", format!("the key can only be changed in the job file; --set takes {allowed}")),
    ] {
        let problems = project.problems_with(REQUIRED, &[(key, value)]);
        assert_eq!(problems, [format!("--set {key}: {expected}")]);
    }
}

#[test]
fn a_checked_job_is_changed_by_the_same_rules() {
    let project = Project::new();
    let yaml = format!("{REQUIRED}node_count: 2\nprocess_count_per_node: 3\nprogress_update_timeout: 900\n");
    let spec = project.load(&yaml).unwrap();
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    assert_eq!(
        change(&spec, "job", &[], &project.path(""), RunsOn::ThisMachine, &Names::default()).unwrap(),
        spec,
        "nothing is forgotten"
    );
    let all = [
        ("mini_batch_size", "5"),
        ("node_count", "7"),
        ("process_count_per_node", "4"),
        ("logging_level", "debug"),
        ("run_invocation_timeout", "9"),
        ("run_max_try", "1"),
        ("error_threshold", "3"),
        ("allowed_failed_count", "2"),
        ("allowed_failed_percent", "1.5"),
        ("task_overhead_timeout", "8"),
        ("progress_update_timeout", "90"),
        ("first_task_creation_timeout", "7"),
        ("resource_monitor_interval", "20"),
        ("allow_reuse", "false"),
        ("keep", "3h"),
    ];
    let changed =
        change(&spec, "job", &owned(&all), &project.path(""), RunsOn::ThisMachine, &Names::default())
            .unwrap();
    assert_eq!(changed, project.load_with(&yaml, &all).unwrap());
    let bad = [("mini_batch_size", "1KB"), ("node_count", "0"), ("run_max_tries", "1"), ("name", "x")];
    let error = change(&spec, "job", &owned(&bad), &project.path(""), RunsOn::ThisMachine, &Names::default())
        .unwrap_err();
    let mut told: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    let mut expected = project.problems_with(&yaml, &bad);
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    assert!(error.to_string().starts_with("job: --set "), "{error}");
}

#[test]
fn a_start_of_a_job_changes_how_it_runs_and_nothing_else() {
    let project = Project::new();
    let spec = project.load(REQUIRED).unwrap();
    project.write("bin/python", "");
    fs::set_permissions(project.path("bin/python"), fs::Permissions::from_mode(0o755)).unwrap();
    let settings = [
        ("environment", "bin/python"),
        ("node_count", "7"),
        ("process_count_per_node", "4"),
        ("logging_level", "debug"),
        ("run_invocation_timeout", "9"),
        ("max_concurrency", "9"),
        ("max_mini_batches_per_process", "90"),
        ("max_memory_per_process", "1GB"),
        ("run_max_try", "1"),
        ("error_threshold", "3"),
        ("allowed_failed_count", "2"),
        ("allowed_failed_percent", "1.5"),
        ("speculation", "false"),
        ("split_failed", "true"),
        ("task_overhead_timeout", "8"),
        ("progress_update_timeout", "900"),
        ("first_task_creation_timeout", "7"),
        ("resource_monitor_interval", "20"),
        ("keep", "3h"),
    ];
    let mut named = settings.map(|(key, _)| key);
    let mut resumable = settable(Start::Resumption);
    named.sort_unstable();
    resumable.sort_unstable();
    assert_eq!(named, *resumable);
    let owned = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let adjust = |overrides: &[(String, String)]| {
        adjust(&spec, "job", overrides, &project.path(""), RunsOn::ThisMachine, &Names::default())
    };
    let of = |spec: &JobSpec| serde_json::to_value(spec).unwrap();
    let (before, after) = (of(&spec), of(&adjust(&owned).unwrap()));
    for (key, value) in before.as_object().unwrap() {
        // A threshold says how many failures are allowed.
        let changes =
            resumable.contains(&key.as_str()) || ["failures_allowed", "origins"].contains(&key.as_str());
        assert_eq!(after[key] != *value, changes, "{key}");
    }
    for key in ["mini_batch_size", "inputs", "entry_script", "arguments", "output", "compute_target"] {
        let refused = adjust(&[(key.to_owned(), "1".to_owned())]).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("job: --set {key}: ")), "{refused}");
    }
}
