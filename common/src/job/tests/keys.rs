//! Every key but inputs and environment: its default, what it takes, what it refuses.

use serde_json::json;

use super::*;

#[test]
fn defaults() {
    let project = Project::new();
    let spec = project.load(REQUIRED).unwrap();
    assert_eq!(
        without_origins(spec.clone()),
        JobSpec::new(
            "job-1",
            project.folder.path(),
            "score.py",
            vec![Input::new(
                "input_1",
                InputKind::File,
                InputSource::Paths(vec![project.path("data").to_str().unwrap().to_owned()])
            )]
        )
    );
    let json = serde_json::to_value(&spec).unwrap();
    for (key, expected) in [
        ("display_name", json!(null)),
        ("description", json!(null)),
        ("mini_batch_size", json!({"files": 10})),
        ("error_threshold", json!(-1)),
        ("allowed_failed_count", json!(-1)),
        ("allowed_failed_percent", json!(100.0)),
        ("output_action", json!("append_row")),
        ("append_row_file_name", json!("parallel_run_step.txt")),
        ("output_format", json!(null)),
        ("node_count", json!(1)),
        ("process_count_per_node", json!(null)),
        ("run_invocation_timeout", json!(60)),
        ("run_max_try", json!(3)),
        ("logging_level", json!("INFO")),
        ("environment", json!(null)),
        ("environment_variables", json!({})),
        ("compute_target", json!("default")),
        ("output", json!(null)),
        ("keep", json!(null)),
        ("arguments", json!([])),
        ("allow_reuse", json!(true)),
        ("copy_logs_to_parent", json!(false)),
        ("speculation", json!(true)),
        ("split_failed", json!(false)),
        ("task_overhead_timeout", json!(600)),
        ("progress_update_timeout", json!(null)),
        ("first_task_creation_timeout", json!(600)),
        ("resource_monitor_interval", json!(600)),
    ] {
        assert_eq!(json[key], expected, "{key}");
        assert_eq!(project.setting(&format!("{REQUIRED}{key}: null\n"), key), expected, "{key}: null");
    }
}

#[test]
fn accepted_values() {
    let project = Project::new();
    for (setting, expected) in [
        ("description: two words", json!("two words")),
        ("description: 3.10", json!("3.10")),
        ("experiment_name: x", json!("x")),
        ("tags: {a: 1, b: two words}", json!({"a": "1", "b": "two words"})),
        ("properties: {a: true}", json!({"a": "true"})),
        ("mini_batch_size: 1", json!({"files": 1})),
        ("mini_batch_size: '10'", json!({"files": 10})),
        ("error_threshold: -1", json!(-1)),
        ("error_threshold: 10", json!(10)),
        ("error_threshold: \"10\"", json!(10)),
        ("error_threshold: 9000000000", json!(9_000_000_000_u64)),
        ("allowed_failed_count: 0", json!(0)),
        ("allowed_failed_percent: 0", json!(0.0)),
        ("allowed_failed_percent: 12.5", json!(12.5)),
        ("allowed_failed_percent: '100'", json!(100.0)),
        ("output_action: summary_only", json!("summary_only")),
        ("output_action: Append_Row", json!("append_row")),
        ("append_row_file_name: rows.csv", json!("rows.csv")),
        ("append_row_file_name: with space, é", json!("with space, é")),
        ("output_format: csv", json!({"delimiter": ",", "header": true})),
        ("output_format: json_lines", json!("json_lines")),
        ("output_format: JSON_Lines", json!("json_lines")),
        ("output_format: parquet", json!("parquet")),
        ("output_format: {}", json!({"delimiter": ",", "header": true})),
        ("output_format: {delimiter: ';', header: false}", json!({"delimiter": ";", "header": false})),
        ("output_format: {delimiter: '\\t'}", json!({"delimiter": "\t", "header": true})),
        ("node_count: 4", json!(4)),
        ("node_count: 2147483647", json!(2_147_483_647)),
        ("process_count_per_node: '2'", json!(2)),
        ("run_invocation_timeout: 600", json!(600)),
        ("run_max_try: 1", json!(1)),
        ("logging_level: DEBUG", json!("DEBUG")),
        ("logging_level: warning", json!("WARNING")),
        (
            "environment_variables: {A: 1, B: True, C: 'x y', D: '', E: 1.50}",
            json!({"A": "1", "B": "True", "C": "x y", "D": "", "E": "1.50"}),
        ),
        ("compute_target: gpu_fleet-1.a", json!("gpu_fleet-1.a")),
        ("output: out/", json!("FOLDER/out")),
        ("keep: 12h", json!(43_200)),
        ("keep: 30d", json!(2_592_000)),
        ("output: /tmp/./out", json!("/tmp/out")),
        (
            "arguments: [--n, 3, true, 1e-3, 'a b', 007, '', -x]",
            json!(["--n", "3", "true", "1e-3", "a b", "007", "", "-x"]),
        ),
        (
            "arguments: [--unknown=1, --amlbi_async_mode, false, plain]",
            json!(["--unknown=1", "--amlbi_async_mode", "false", "plain"]),
        ),
        ("arguments: [--amlbi_async_mode, 0]", json!(["--amlbi_async_mode", "0"])),
        ("arguments: [--amlbi_async_mode=True]", json!(["--amlbi_async_mode=True"])),
        ("max_concurrency: 50", json!(50)),
        ("max_mini_batches_per_process: 1", json!(1)),
        ("max_memory_per_process: 4GB", json!(4_u64 << 30)),
        ("max_memory_per_process: '500mb'", json!(500 << 20)),
        ("max_memory_per_process: 1048576", json!(1 << 20)),
        ("arguments: []", json!([])),
        ("allow_reuse: false", json!(false)),
        ("copy_logs_to_parent: True", json!(true)),
        ("allow_reuse: 'False'", json!(false)),
        ("allow_reuse: True", json!(true)),
        ("speculation: False", json!(false)),
        ("split_failed: true", json!(true)),
        ("task_overhead_timeout: 5", json!(5)),
        ("progress_update_timeout: 5", json!(5)),
        ("first_task_creation_timeout: 5", json!(5)),
        ("resource_monitor_interval: 0", json!(0)),
        ("source_directory: src/../pkg/..", json!("FOLDER/src/../pkg/..")),
    ] {
        let key = setting.split(':').next().unwrap();
        assert_eq!(project.setting(&format!("{REQUIRED}{setting}\n"), key), expected, "{setting}");
    }
    for name in ["abc", "a-1", "abcdefghijklmnopqrstuvwxyz-12345"] {
        let yaml = REQUIRED.replace("job-1", name);
        assert_eq!(project.setting(&yaml, "name"), json!(name));
    }
    // What is not built and not asked for.
    for nothing in ["partition_keys: []", "side_inputs: []", "side_inputs: {}", "copy_logs_to_parent: false"]
    {
        project.load(&format!("{REQUIRED}{nothing}\n")).unwrap();
    }
}

#[test]
fn refused_values() {
    let project = Project::new();
    for (setting, expected) in [
        (
            "mini_batch_size: 0",
            "0 is out of range: give a whole number from 1 to 2147483647, the number of files in a mini-batch",
        ),
        (
            "mini_batch_size: 10KB",
            "\"10KB\" is not a whole number: give a whole number from 1 to 2147483647, the number of files in a mini-batch",
        ),
        (
            "error_threshold: -2",
            "-2 is out of range: give a whole number of at least -1, where -1 ignores all failures",
        ),
        (
            "error_threshold: 99999999999999999999",
            "99999999999999999999 is out of range: give a whole number of at least -1, where -1 ignores all failures",
        ),
        (
            "allowed_failed_count: 1.5",
            "1.5 is not a whole number: give a whole number of at least -1, where -1 ignores all failures",
        ),
        ("allowed_failed_percent: 100.5", "100.5 is out of range: give a number from 0 to 100"),
        ("allowed_failed_percent: -0.1", "-0.1 is out of range: give a number from 0 to 100"),
        ("allowed_failed_percent: .nan", ".nan is not a number: give a number from 0 to 100"),
        ("allowed_failed_percent: 5%", "\"5%\" is not a number: give a number from 0 to 100"),
        ("allowed_failed_percent: 101", "101 is out of range: give a number from 0 to 100"),
        ("output_action: append", "\"append\" is not one of append_row, summary_only"),
        (
            "append_row_file_name: a/b",
            "\"a/b\" is not a file name: give 1 to 255 bytes without any of ~\"#%&*:<>?/\\{|}",
        ),
        (
            "append_row_file_name: ''",
            "\"\" is not a file name: give 1 to 255 bytes without any of ~\"#%&*:<>?/\\{|}",
        ),
        (
            "append_row_file_name: ..",
            "\"..\" is not a file name: give 1 to 255 bytes without any of ~\"#%&*:<>?/\\{|}",
        ),
        (
            "output_format: jsonl",
            "\"jsonl\" is not a valid output_format: give csv, json_lines, parquet, or a mapping such as {delimiter: \";\", \
             header: true} for CSV",
        ),
        ("output_format: [csv]", "a list is not a valid output_format"),
        ("node_count: 0", "0 is out of range: give a whole number from 1 to 2147483647"),
        ("node_count: 2147483648", "2147483648 is out of range: give a whole number from 1 to 2147483647"),
        ("node_count: [1]", "a list is not a whole number: give a whole number from 1 to 2147483647"),
        (
            "process_count_per_node: true",
            "true is not a whole number: give a whole number from 1 to 2147483647",
        ),
        ("run_invocation_timeout: 0", "0 is out of range: give a whole number from 1 to 2147483647 seconds"),
        ("process_count_per_node: 0", "0 is out of range: give a whole number from 1 to 2147483647"),
        ("run_max_try: 0", "0 is out of range: give a whole number from 1 to 2147483647"),
        ("run_max_try: often", "\"often\" is not a whole number: give a whole number from 1 to 2147483647"),
        ("logging_level: ERROR", "\"ERROR\" is not one of WARNING, INFO, DEBUG"),
        ("logging_level: LOUD", "\"LOUD\" is not one of WARNING, INFO, DEBUG"),
        ("environment_variables: [A]", "a list where a mapping is expected"),
        (
            "compute_target: a b",
            "\"a b\" is not the name of a fleet: give 1 to 64 letters, digits, `-`, `_` and `.` that begin with a letter or digit",
        ),
        ("description: [a]", "a list where text is expected"),
        (
            "keep: 30",
            "30 is not a time: give a whole number of hours or days, at least 1h, such as 12h or 30d",
        ),
        ("keep: 0d", "\"0d\" is not a time: give a whole number of hours or days"),
        ("keep: -1d", "\"-1d\" is not a time: give"),
        ("keep: 99999999999999d", "\"99999999999999d\" is not a time: give"),
        ("output: s3://bucket//x", "there are two slashes behind the bucket"),
        ("output: ' '", "it is empty: give the folder for the output"),
        ("output: score.py", "FOLDER/score.py is not a folder: give a folder for the output"),
        ("output: ${{outputs.x}}", "a reference (`${{ }}`) is not supported yet: give a local path"),
        ("arguments: --x 1", "\"--x 1\" where a list is expected"),
        ("allow_reuse: yes", "\"yes\" is not one of true, false"),
        ("task_overhead_timeout: 0", "0 is out of range: give a whole number from 1 to 2147483647 seconds"),
        (
            "progress_update_timeout: -1",
            "-1 is out of range: give a whole number from 1 to 2147483647 seconds",
        ),
        (
            "first_task_creation_timeout: 0",
            "0 is out of range: give a whole number from 1 to 2147483647 seconds",
        ),
        (
            "resource_monitor_interval: -1",
            "-1 is out of range: give a whole number from 0 to 2147483647 seconds, where 0 is off",
        ),
        (
            "side_inputs: [{name: a, path: data}]",
            "a list where a mapping is expected: give a mapping of names to paths, such as {model: ./model, table: \
             s3://bucket/table.csv}",
        ),
        ("copy_logs_to_parent: 2", "2 is not one of true, false"),
        ("source_directory: absent", "cannot read FOLDER/absent: No such file or directory (os error 2)"),
        (
            "source_directory: azureml:code:1",
            "a name from a data registry (azureml:) is not supported yet: give a local path",
        ),
        ("source_directory: score.py", "FOLDER/score.py is not a folder"),
        ("sizes: 1", "there is no such key: remove it"),
        ("arguements: []", "there is no such key: did you mean `arguments`?"),
    ] {
        let key = setting.split(':').next().unwrap();
        let problem = &project.problems(&format!("{REQUIRED}{setting}\n"))[0];
        assert!(problem.starts_with(&format!("{key}: {expected}")), "{setting}\n{problem}");
        let error = project.load(&format!("{REQUIRED}{setting}\n")).unwrap_err();
        assert_eq!(error.problems[0].line, Some(4), "{setting}");
    }
}

#[test]
fn refused_items_are_named_by_their_place() {
    let project = Project::new();
    for (setting, expected) in [
        (
            "environment_variables: {A: }",
            "environment_variables.A: nothing where text is expected: write \"\" for none",
        ),
        (
            "environment_variables: {A: [1]}",
            "environment_variables.A: a list where text is expected: write \"\" for none",
        ),
        (
            "environment_variables: {A=B: 1}",
            "environment_variables.A=B: a variable has a name without `=`, and no zero bytes",
        ),
        ("arguments: [--x, [1]]", "arguments[1]: a list where text is expected: quote it to give it as text"),
        (
            "output_format: {delimiter: ',,'}",
            "output_format.delimiter: \",,\" is not a delimiter: give one ASCII character, not a quote or line end",
        ),
        (
            "output_format: {headers: true}",
            "output_format.headers: there is no such key: did you mean `header`?",
        ),
        (
            "output_format: csv\noutput_action: summary_only",
            "output_format: summary_only writes no rows: remove it, or give output_action: append_row",
        ),
        (
            "output_format: csv\narguments: [--append_row_dataframe_header=True]",
            "output_format: the arguments have --append_row_dataframe_header: remove that, and give `header` here",
        ),
        (
            "output_format: json_lines\narguments: [--append_row_dataframe_header, 'True']",
            "output_format: the arguments have --append_row_dataframe_header: remove that, each line has the names of \
             the columns",
        ),
        (
            "output_format: parquet\narguments: [--append_row_dataframe_header=True]",
            "output_format: the arguments have --append_row_dataframe_header: remove that, the file has the names of \
             the columns",
        ),
        (
            "output_format: json_lines\noutput_action: summary_only",
            "output_format: summary_only writes no rows: remove it, or give output_action: append_row",
        ),
        (
            "max_memory_per_process: 0",
            "max_memory_per_process: 0 is out of range: give bytes, at least 1, as a whole number with KB, MB, GB or nothing \
             after it, such as 4GB",
        ),
        (
            "max_memory_per_process: 4 GiB",
            "max_memory_per_process: \"4 GiB\" is not a size: give bytes, at least 1, as a whole number with KB, MB, GB or \
             nothing after it, such as 4GB",
        ),
        (
            "max_mini_batches_per_process: 0",
            "max_mini_batches_per_process: 0 is out of range: give a whole number from 1 to 2147483647",
        ),
        (
            "max_concurrency: 1001",
            "max_concurrency: 1001 is out of range: give a whole number from 1 to 1000",
        ),
        (
            "arguments: [--x, ]\nnode_count: 0",
            "node_count: 0 is out of range: give a whole number from 1 to 2147483647",
        ),
        (
            "arguments: ['${{side_inputs.x}}']",
            "arguments[0]: ${{side_inputs.x}}: there is no side input `x`: give it under side_inputs",
        ),
        (
            "arguments: [--amlbi_async_mode, maybe]",
            "arguments[0] (--amlbi_async_mode): \"maybe\": give true for a script that streams, else false",
        ),
        (
            "arguments: [--a, --amlbi_async_mode=]",
            "arguments[1] (--amlbi_async_mode): \"\": give true for a script that streams, else false",
        ),
        (
            "arguments: [--amlbi_async_mode]",
            "arguments[0] (--amlbi_async_mode): the value is missing: give true for a script that streams, else false",
        ),
        (
            "arguments: [--copy_logs_to_parent, x]",
            "arguments[0] (--copy_logs_to_parent): \"x\" is not one of true, false",
        ),
        (
            "arguments: [--progress_update_timeout, 0]",
            "arguments[0] (--progress_update_timeout): \"0\" is out of range: give a whole number from 1 to 2147483647 seconds",
        ),
        (
            "arguments: [--progress_update_timeout]",
            "arguments[0] (--progress_update_timeout): the value is missing",
        ),
        (
            "progress_update_timeout: 5\narguments: [--progress_update_timeout, 6]",
            "arguments[0] (--progress_update_timeout): `progress_update_timeout: 5` and `--progress_update_timeout 6`: \
             give one value",
        ),
        (
            "error_threshold: 5\narguments: [--error_threshold=6]",
            "arguments[0] (--error_threshold): `error_threshold: 5` and `--error_threshold 6`: give one value",
        ),
        (
            "error_threshold: 5\narguments: [--error_threshold, x]",
            "arguments[0] (--error_threshold): \"x\" is not a whole number: give a whole number of at least -1, where -1 \
             ignores all failures",
        ),
        (
            "arguments: [--allowed_failed_count, 1, --allowed_failed_count, 2]",
            "arguments[2] (--allowed_failed_count): `arguments[0] (--allowed_failed_count): 1` and \
             `--allowed_failed_count 2`: give one value",
        ),
        (
            "arguments: [--allowed_failed_percent]",
            "arguments[0] (--allowed_failed_percent): the value is missing",
        ),
    ] {
        assert_eq!(project.problem(&format!("{REQUIRED}{setting}\n")), expected, "{setting}");
    }
}

#[test]
fn settings_among_the_arguments_count_and_stay_there() {
    let project = Project::new();
    let yaml = format!(
        "{REQUIRED}arguments: [--progress_update_timeout, 30, --task_overhead_timeout=40, \
         --first_task_creation_timeout, 50, --resource_monitor_interval, 20, --copy_logs_to_parent, False]\n"
    );
    let spec = project.load(&yaml).unwrap();
    assert_eq!(spec.progress_update_timeout, Some(30));
    assert_eq!(spec.task_overhead_timeout, 40);
    assert_eq!(spec.first_task_creation_timeout, 50);
    assert_eq!(spec.resource_monitor_interval, 20);
    assert_eq!(spec.arguments.len(), 9);
    let thresholds =
        "arguments: [--error_threshold, 5, --allowed_failed_count=6, --allowed_failed_percent, '030', --x]\n";
    let yaml = format!("{REQUIRED}error_threshold: '5'\n{thresholds}");
    let spec = project.load(&yaml).unwrap();
    assert_eq!((spec.error_threshold, spec.allowed_failed_count), (5, 6));
    assert!((spec.allowed_failed_percent - 30.0).abs() < f64::EPSILON && spec.failures_allowed);
    assert_eq!(spec.arguments[1..=4], ["5", "--allowed_failed_count=6", "--allowed_failed_percent", "030"]);
    let given = given_arguments(&spec, &[]);
    let is_twice = |name: &&str| given.contains(&format!("--{name}"));
    assert!(!super::super::keys::THRESHOLDS.iter().any(is_twice), "the script has them once: {given:?}");
}

#[test]
fn failures_are_allowed_where_a_threshold_is_given() {
    let project = Project::new();
    for (setting, are_allowed) in [
        ("error_threshold: -1", true),
        ("error_threshold: 0", true),
        ("error_threshold: 3", true),
        ("allowed_failed_count: -1", true),
        ("allowed_failed_percent: 100", true),
        ("arguments: [--error_threshold, 3]", true),
        ("arguments: [--allowed_failed_count=-1]", true),
        ("logging_level: INFO", false),
        ("run_max_try: 1", false),
        ("", false),
    ] {
        let spec = project.load(&format!("{REQUIRED}{setting}\n")).unwrap();
        assert_eq!(spec.failures_allowed, are_allowed, "{setting}");
    }
    for (key, value, are_allowed) in [("error_threshold", "-1", true), ("run_max_try", "1", false)] {
        let spec = project.load_with(REQUIRED, &[(key, value)]).unwrap();
        assert_eq!(spec.failures_allowed, are_allowed, "--set {key}={value}");
    }
}

#[test]
fn an_override_changes_the_setting_among_the_arguments() {
    let project = Project::new();
    let yaml =
        format!("{REQUIRED}arguments: [--error_threshold, 5, --allowed_failed_count=6, --run_max_try, 9]\n");
    let overrides = [("error_threshold", "7"), ("allowed_failed_count", "8"), ("run_max_try", "2")];
    let spec = project.load_with(&yaml, &overrides).unwrap();
    assert_eq!((spec.error_threshold, spec.allowed_failed_count, spec.run_max_try), (7, 8, 2));
    let expected = ["--error_threshold", "7", "--allowed_failed_count=8", "--run_max_try", "9"];
    assert_eq!(spec.arguments, expected);
    let again = [("error_threshold".to_owned(), "3".to_owned())];
    let changed =
        change(&spec, "job", &again, &project.path(""), RunsOn::ThisMachine, &Names::default()).unwrap();
    assert_eq!((changed.error_threshold, &*changed.arguments[1]), (3, "3"));
}

#[test]
fn flags_without_a_meaning_are_noted_and_stay() {
    let project = Project::new();
    for (argument, note) in [
        ("--metrics_name_prefix", Some("has no meaning here; ignored")),
        ("--push_metrics_to_parent=True", Some("has no meaning here; ignored")),
        ("--resource_monitor_interva", Some("did you mean --resource_monitor_interval?")),
        ("--error_", Some("did you mean --error_threshold?")),
        ("--error", None),
        ("--allowed_failed", None),
        ("--progress_update_timeouts", None),
        ("--output", Some("the setting of the job is the key `output`")),
        ("--mini_batch_size=3", Some("the setting of the job is the key `mini_batch_size`")),
        ("--output_folder", None),
        ("--profiling_module", None),
    ] {
        let spec = project.load(&format!("{REQUIRED}arguments: [{argument}, x]\n")).unwrap();
        assert_eq!(spec.arguments, [argument, "x"]);
        let place = format!("{}:4: arguments[0] (", project.path("job.yml").display());
        assert_eq!(spec.notes.len(), usize::from(note.is_some()), "{argument}: {:?}", spec.notes);
        if let Some(note) = note {
            assert!(spec.notes[0].starts_with(&place) && spec.notes[0].ends_with(note), "{:?}", spec.notes);
        }
    }
}

#[test]
fn a_result_that_is_called_csv_and_is_none_is_noted() {
    let project = Project::new();
    let csv = format!("{REQUIRED}append_row_file_name: rows.csv\n");
    let spec = project.load(&csv).unwrap();
    assert!(
        spec.notes[0].contains("job.yml:4: append_row_file_name: DataFrames go into rows.csv"),
        "{spec:?}"
    );
    assert_eq!(project.load_with(&csv, &[("output_format", "csv")]).unwrap().notes, [""; 0]);
    let overrides = [("output_format".to_owned(), "csv".to_owned())];
    assert_eq!(
        change(&spec, "job", &overrides, &project.path(""), RunsOn::ThisMachine, &Names::default())
            .unwrap()
            .notes,
        [""; 0]
    );
    for other in ["output_format: csv", "output_action: summary_only"] {
        assert_eq!(project.load(&format!("{csv}{other}\n")).unwrap().notes, [""; 0], "{other}");
    }
}

#[test]
fn keys_without_a_default() {
    let project = Project::new();
    assert_eq!(
        project.problems("description: x\n"),
        [
            "name: the key is missing: give 3 to 32 lower-case letters, digits and dashes that begin with a letter and \
             end with a letter or digit",
            "entry_script: the key is missing: give a .py file below source_directory, or a module name such as pkg.main",
            "inputs: the key is missing: give a list of mappings with type and path, such as `- {type: file, path: data}`",
        ]
    );
    for name in ["ab", "abcdefghijklmnopqrstuvwxyz-123456", "-ab", "1ab", "ab-", "aBc", "a_b", "café"] {
        let problem = project.problem(&REQUIRED.replace("job-1", name));
        assert!(
            problem.starts_with(&format!("name: {name:?} is not a job name: give 3 to 32 ")),
            "{problem}"
        );
    }
}

#[test]
fn entry_scripts() {
    let project = Project::new();
    let absolute = project.path("pkg/main.py").display().to_string();
    for (given, expected) in [
        ("score.py", "score.py"),
        ("./score.py", "score.py"),
        ("pkg/main.py", "pkg/main.py"),
        (absolute.as_str(), "pkg/main.py"),
        ("pkg.main", "pkg.main"),
        ("pkg", "pkg"),
        ("score", "score"),
    ] {
        let yaml = REQUIRED.replace("score.py", given);
        assert_eq!(project.setting(&yaml, "entry_script"), json!(expected), "{given}");
    }
    let yaml = format!("{}source_directory: src\n", REQUIRED.replace("score.py", "other.py"));
    assert_eq!(project.setting(&yaml, "source_directory"), json!("FOLDER/src"));
    for (given, expected) in [
        ("''", "it is empty: give a .py file below source_directory, or a module name such as pkg.main"),
        ("absent.py", "there is no file absent.py in source_directory FOLDER"),
        (
            "../x.py",
            "../x.py leads out of source_directory with `..`: give a .py file below source_directory, or a module name such as pkg.main",
        ),
        (
            "/x.py",
            "/x.py is not below source_directory FOLDER: give a .py file below source_directory, or a module name such as pkg.main",
        ),
        (
            "score.txt.",
            "\"score.txt.\" is not an entry script: give a .py file below source_directory, or a module name such as pkg.main",
        ),
        (
            "pkg/main",
            "\"pkg/main\" is not an entry script: give a .py file below source_directory, or a module name such as pkg.main",
        ),
        (
            "pkg.absent",
            "module pkg.absent is neither pkg/absent.py nor pkg/absent/__init__.py in source_directory FOLDER",
        ),
        ("src", "module src is neither src.py nor src/__init__.py in source_directory FOLDER"),
    ] {
        let problem = project.problem(&REQUIRED.replace("score.py", given));
        assert_eq!(problem, format!("entry_script: {expected}"), "{given}");
    }
}

#[test]
fn mini_batch_size_of_tabular_inputs() {
    let project = Project::new();
    let required = REQUIRED.replace("file,", "tabular,");
    assert_eq!(project.setting(&required, "mini_batch_size"), json!({"bytes": 1_048_576}));
    for (given, bytes) in [
        ("1024", 1024_u64),
        ("'1024'", 1024),
        ("10KB", 10_240),
        ("10kb", 10_240),
        ("2mB", 2_097_152),
        ("1GB", 1_073_741_824),
        ("1", 1),
    ] {
        let yaml = format!("{required}mini_batch_size: {given}\n");
        assert_eq!(project.setting(&yaml, "mini_batch_size"), json!({"bytes": bytes}), "{given}");
    }
    let expected =
        "give bytes, at least 1, as a whole number with KB, MB, GB or nothing after it, such as 10MB";
    for (given, what) in [
        ("0", "0 is out of range"),
        ("0KB", "\"0KB\" is out of range"),
        ("99999999999GB", "\"99999999999GB\" is out of range"),
        ("99999999999999999999", "99999999999999999999 is out of range"),
        ("9223372036854775808", "9223372036854775808 is out of range"),
        ("-1", "-1 is not a size"),
        ("1.5MB", "\"1.5MB\" is not a size"),
        ("10TB", "\"10TB\" is not a size"),
        ("KB", "\"KB\" is not a size"),
        ("10 KB", "\"10 KB\" is not a size"),
        ("10é", "\"10é\" is not a size"),
        ("1_000", "\"1_000\" is not a size"),
    ] {
        let problem = project.problem(&format!("{required}mini_batch_size: {given}\n"));
        assert_eq!(problem, format!("mini_batch_size: {what}: {expected}"), "{given}");
    }
}

#[test]
fn logs_for_a_pipeline_that_there_is_not_are_noted() {
    let project = Project::new();
    for given in [
        "copy_logs_to_parent: true",
        "arguments: [--copy_logs_to_parent, True]",
        "arguments: [--copy_logs_to_parent, 1]",
    ] {
        let spec = project.load(&format!("{REQUIRED}{given}\n")).unwrap();
        let note = "job.yml:4: ";
        assert!(spec.copy_logs_to_parent && spec.notes[0].contains(note), "{spec:?}");
        assert!(spec.notes[0].contains("the job is no step of a pipeline"), "{spec:?}");
    }
    assert_eq!(project.load(REQUIRED).unwrap().notes, [""; 0]);
}

#[test]
fn a_model_is_a_path_that_is_there() {
    let project = Project::new();
    let folder = project.path("pkg").display().to_string();
    for given in ["pkg", "./pkg/", "{path: pkg, type: custom_model}"] {
        let spec = project.load(&format!("{REQUIRED}model: {given}\n")).unwrap();
        let model = spec.model.unwrap();
        assert_eq!((model.named(), model.base_name()), (folder.clone(), "pkg".to_owned()), "{given}");
    }
    for (given, problem) in [
        ("''", "model: it is empty: give a file or folder, or a mapping of its path and mode"),
        ("absent", "model: cannot read FOLDER/absent: No such file or directory (os error 2)"),
        ("[a]", "model: a list is not a model: give a file or folder, or a mapping of its path and mode"),
        (
            "s3://bucket/",
            "model: s3://bucket/ has no name that scripts could find it under: give a folder below it",
        ),
        (
            "'s3://bucket/*.pkl'",
            "model: s3://bucket/*.pkl is a glob, which gives scripts no name to find it under: give a file or folder",
        ),
        (
            "{path: s3://bucket/m, mode: direct}",
            "model.path: s3://bucket/m is no path on a worker: leave `mode: direct` out, and each worker fetches it",
        ),
        ("{mode: direct}", "model.path: the key is missing: give the path"),
        ("/", "model: / has no name that scripts could find it under: give a folder below it"),
        (
            "azureml:m:1",
            "model: a model of a registry (azureml:) is not supported yet: give the path of a file or folder",
        ),
    ] {
        assert_eq!(project.problem(&format!("{REQUIRED}model: {given}\n")), problem, "{given}");
    }
    for (given, name, mode) in [
        ("{path: /no/such/model, mode: direct}", "model", InputMode::Direct),
        ("./pkg", "pkg", InputMode::Upload),
        ("s3://bucket/out/mnist/", "mnist", InputMode::Upload),
    ] {
        project.write("job.yml", &format!("{REQUIRED}model: {given}\n"));
        let model = load_for(RunsOn::Workers, &project.path("job.yml"), &[]).unwrap().model.unwrap();
        assert_eq!((&*model.base_name(), model.mode), (name, mode));
    }
    let refers = "arguments: ['${{side_inputs.azureml-model}}']";
    assert_eq!(
        project.problem(&format!("{REQUIRED}model: pkg\n{refers}\n")),
        "arguments[0]: ${{side_inputs.azureml-model}}: there is no side input `azureml-model`: give it under side_inputs"
    );
}
