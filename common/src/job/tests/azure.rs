//! Job files of Azure Machine Learning v2: a parallel job, and a pipeline with one.

use serde_json::json;

use super::*;

/// A parallel job with most of its keys.
const PARALLEL: &str = "\
$schema: https://azuremlschemas.azureedge.net/latest/parallelJob.schema.json
type: parallel
name: Batch_Scoring.v2
display_name: Batch scoring
description: scores pictures
tags: {team: vision}
inputs:
  pictures: {type: uri_folder, path: ./data, mode: ro_mount}
  threshold: 0.50
  label: {type: string, value: two words}
  flag: true
input_data: ${{ inputs.pictures }}
outputs:
  scores: {type: uri_file, path: out/scores.txt}
mini_batch_size: '3'
mini_batch_error_threshold: 5
error_threshold: 7
logging_level: debug
resources: {instance_count: '4', instance_type: STANDARD_D2_V2}
max_concurrency_per_instance: 2
retry_settings: {max_retries: 2, timeout: 30}
environment_variables: {A: 1, B: true, C: 'x${{inputs.label}}'}
compute: azureml:cpu-cluster
identity: {type: user_identity}
task:
  type: run_function
  code: ./src
  entry_script: ./other.py
  program_arguments: >-
    --label ${{ inputs.label }} --t=${{inputs.threshold}} --flag ${{inputs.flag}} 'a b'
    --error_threshold 7 --allowed_failed_percent 30
  append_row_to: ${{outputs.scores}}
";

/// The same settings under native keys.
const NATIVE: &str = "\
name: batch-scoring-v2
display_name: Batch scoring
description: scores pictures
tags: {team: vision}
source_directory: src
entry_script: other.py
inputs: [{name: pictures, type: file, path: data}]
output: out
append_row_file_name: scores.txt
mini_batch_size: 3
allowed_failed_count: 5
error_threshold: 7
allowed_failed_percent: 30
logging_level: DEBUG
node_count: 4
process_count_per_node: 2
run_max_try: 3
run_invocation_timeout: 30
environment_variables: {A: '1', B: 'True', C: xtwo words}
arguments: [--label, two words, --t=0.50, --flag, 'True', a b, --error_threshold, 7, --allowed_failed_percent, 30]
";

/// A pipeline whose one step is a parallel job.
const PIPELINE: &str = "\
type: pipeline
display_name: Nightly run
tags: {n: 1}
settings: {default_compute: gpu, continue_on_step_failure: false}
inputs:
  pictures: {type: uri_folder, path: data}
  size: 4
outputs:
  result: {type: uri_file}
jobs:
  score:
    type: parallel
    tags: {n: 2}
    inputs: {images: '${{parent.inputs.pictures}}', label: '${{parent.inputs.size}}'}
    outputs: {rows: '${{parent.outputs.result}}'}
    input_data: ${{inputs.images}}
    mini_batch_size: ${{parent.inputs.size}}
    task:
      type: function
      entry_script: score.py
      program_arguments: --label ${{inputs.label}}
      append_row_to: ${{outputs.rows}}
";

/// The smallest parallel job.
const SMALL: &str = "\
type: parallel
inputs: {x: {path: data}}
input_data: ${{inputs.x}}
task: {entry_script: score.py}
";

fn notes(project: &Project, spec: &JobSpec) -> Vec<String> {
    let file = format!("{}:", project.path("job.yml").display());
    spec.notes.iter().map(|note| note.replace(&file, "")).collect()
}

#[test]
fn a_parallel_job_has_native_settings() {
    let project = Project::new();
    let native = project.load(NATIVE).unwrap();
    let spec = project.load(PARALLEL).unwrap();
    assert_eq!(
        notes(&project, &spec),
        [
            "19: resources.instance_type: has no meaning here; ignored",
            "23: compute: azureml:cpu-cluster is a compute of Azure; the job is for the fleet `default`",
            "24: identity: has no meaning here; ignored",
        ]
    );
    assert_eq!(JobSpec { notes: Vec::new(), ..without_origins(spec) }, without_origins(native));
    assert_eq!(project.load(&SMALL.replace("parallel", "Parallel")).unwrap().name, "job");
}

#[test]
fn defaults_of_a_parallel_job_are_those_of_azure() {
    let project = Project::new();
    let spec = project.load(SMALL).unwrap();
    let native = "name: job\nentry_script: score.py\ninputs: [{name: x, type: file, path: data}]\n\
                  mini_batch_size: 1\noutput_action: summary_only\n";
    assert_eq!(without_origins(spec), without_origins(project.load(native).unwrap()));
    for (outputs, folder, file) in [
        ("{y: {type: uri_file}}", json!(null), "y"),
        ("{y: null}", json!(null), "parallel_run_step.txt"),
        ("{y: {path: a/b}}", json!("FOLDER/a/b"), "parallel_run_step.txt"),
        ("{y: {type: uri_file, path: a/}}", json!("FOLDER/a"), "y"),
        ("{y: {type: uri_file, path: '${{output_name}}.txt'}}", json!("FOLDER"), "y.txt"),
        ("{y: {type: uri_file, path: 'o/${{ name }}/r.txt'}}", json!("FOLDER/o/${{name}}"), "r.txt"),
        ("{y: {type: uri_file, path: 'o/r-${{name}}.txt'}}", json!("FOLDER/o"), "r-${{name}}.txt"),
        (
            "{y: {type: uri_file, path: 'azureml://datastores/d/paths/${{ name }}/r.txt'}}",
            json!(null),
            "r.txt",
        ),
        ("{y: {type: uri_file, path: 'azureml://datastores/d/${{name}}/'}}", json!(null), "y"),
        ("{y: {path: 'azureml://datastores/d/${{name}}'}}", json!(null), "parallel_run_step.txt"),
        (
            "{y: {type: uri_file, path: 'azureml://subscriptions/s/workspaces/w/datastores/d/paths/a/r.txt'}}",
            json!(null),
            "r.txt",
        ),
    ] {
        let yaml = SMALL.replace("score.py}", "score.py, append_row_to: '${{outputs.y}}'}");
        let yaml = format!("{yaml}outputs: {outputs}\n");
        assert_eq!(project.setting(&yaml, "output_action"), "append_row", "{outputs}");
        assert_eq!(project.setting(&yaml, "output"), folder, "{outputs}");
        assert_eq!(project.setting(&yaml, "append_row_file_name"), file, "{outputs}");
    }
    for (compute, target) in [("local", "default"), ("gpu", "gpu"), ("azureml:gpu", "default")] {
        assert_eq!(project.setting(&format!("{SMALL}compute: {compute}\n"), "compute_target"), target);
    }
    let csv = SMALL.replace("score.py}", "score.py, append_row_to: '${{outputs.y}}'}");
    let datastore = "azureml://datastores/d/paths/r.csv";
    for (yaml, expected) in [
        (format!("{SMALL}compute: default\n"), vec![]),
        (
            format!("{SMALL}compute: gpu\n"),
            vec![
                "5: compute: the job waits for workers started with --target gpu; --set compute=default is for the fleet \
                 `default`",
            ],
        ),
        (
            format!("{SMALL}outputs: {{y: {{path: '{datastore}'}}}}\n"),
            vec!["5: outputs.y.path: the datastore is not known here; it is r.csv in the output of the job"],
        ),
        (
            format!("{csv}outputs: {{y: {{type: uri_file, path: '{datastore}'}}}}\n"),
            vec![
                "5: outputs.y.path: the datastore is not known here; the result is in the output of the job; DataFrames go \
                 into r.csv as ParallelRunStep writes them, with blanks between columns; `--set output_format=csv` writes \
                 a CSV file",
            ],
        ),
    ] {
        let spec = project.load(&yaml).unwrap();
        assert_eq!(notes(&project, &spec), expected, "{yaml}");
    }
}

#[test]
fn a_pipeline_of_one_parallel_job_is_that_job() {
    let project = Project::new();
    let spec = project.load(PIPELINE).unwrap();
    let native = "name: nightly-run\ndisplay_name: Nightly run\ntags: {n: 1}\nentry_script: score.py\nmini_batch_size: 4\n\
                  inputs: [{name: images, type: file, path: data}]\narguments: [--label, 4]\n\
                  append_row_file_name: result\ncompute_target: gpu\n";
    let mut expected = project.load(native).unwrap();
    assert_eq!(
        notes(&project, &spec),
        ["4: settings.default_compute: the job waits for workers started with --target gpu; \
          --set settings.default_compute=default is for the fleet `default`"]
    );
    expected.notes.clone_from(&spec.notes);
    let spec = without_origins(spec);
    assert_eq!(spec, without_origins(expected));
    let untyped = PIPELINE.replace("type: pipeline\n", "\n").replace("    type: parallel\n", "");
    assert_eq!(without_origins(project.load(&untyped).unwrap()), spec);
}

#[test]
fn what_a_step_binds_has_its_type_and_the_scope_of_the_pipeline() {
    let project = Project::new();
    let label = "label: '${{parent.inputs.size}}'";
    for (binding, expected) in [
        ("label: {type: string, path: '${{parent.inputs.size}}'}", "4"),
        ("label: {type: integer, value: '${{parent.inputs.size}}'}", "4"),
        ("label: {type: string, value: 'n${{parent.inputs.size}}'}", "n4"),
        ("label: {path: '${{parent.inputs.size}}'}", "4"),
        ("label: {value: 3}", "3"),
        ("label: {default: true}", "True"),
    ] {
        let arguments = project.setting(&PIPELINE.replace(label, binding), "arguments");
        assert_eq!(arguments, json!(["--label", expected]), "{binding}");
    }
    let root = PIPELINE.replace("pictures: {type: uri_folder, path: data}", "pictures: data");
    let images = "images: '${{parent.inputs.pictures}}'";
    for path in ["${{parent.inputs.pictures}}", "./${{parent.inputs.pictures}}/."] {
        let yaml = root.replace(images, &format!("images: {{type: uri_folder, path: '{path}'}}"));
        let source = &project.setting(&yaml, "inputs")[0]["source"];
        assert_eq!(*source, json!({"paths": ["FOLDER/data"]}), "{path}");
    }
    let path = "result: {type: uri_file, path: 'out/${{inputs.size}}.txt'}";
    let yaml = PIPELINE.replace("result: {type: uri_file}", path);
    assert_eq!(project.setting(&yaml, "append_row_file_name"), "4.txt");
    for (from, to, expected) in [
        (
            "--label ${{inputs.label}}",
            "--label ${{parent.inputs.pictures}}",
            "jobs.score.task.program_arguments: ${{parent.inputs.pictures}}: data of the pipeline: give them under",
        ),
        (
            label,
            "label: '${{parent.inputs.pictures}}/sub'",
            "jobs.score.inputs.label: ${{parent.inputs.pictures}}: data of the pipeline: give them under",
        ),
        (
            label,
            "label: {type: string, path: '${{parent.inputs.pictures}}'}",
            "jobs.score.inputs.label.path: data where a value of type string is expected",
        ),
        (
            label,
            "label: {type: boolean, value: '${{parent.inputs.size}}'}",
            "jobs.score.inputs.label.value: \"4\" is not of type boolean",
        ),
        (
            "result: {type: uri_file}",
            "result: {type: uri_file, path: '${{inputs.pictures}}/r.txt'}",
            "outputs.result.path: ${{inputs.pictures}}: data of the pipeline: give them under",
        ),
        (
            "result: {type: uri_file}",
            "result: {type: uri_file, path: '${{inputs.label}}/r.txt'}",
            "outputs.result.path: ${{inputs.label}}: there is no input `label`; there are: pictures, size",
        ),
        (
            "'${{parent.outputs.result}}'",
            "{path: '${{parent.outputs.nope}}'}",
            "jobs.score.outputs.rows.path: the pipeline has no output `nope`; there are: result",
        ),
        (
            "settings: {default_compute: gpu, continue_on_step_failure: false}",
            "settings: foo",
            "settings: \"foo\" where",
        ),
        ("jobs:", "settigns:\njobs:", "settigns: there is no such key"),
        ("    tags: {n: 2}", "    unknwn:", "jobs.score.unknwn: there is no such key"),
    ] {
        let yaml = PIPELINE.replace(from, to);
        assert_ne!(yaml, PIPELINE, "{from}");
        let shown = project.problems(&yaml);
        assert!(shown[0].starts_with(expected), "{to}\n{shown:#?}");
    }
}

#[test]
fn overrides_change_the_document() {
    let project = Project::new();
    project.write("more/a.csv", "x");
    let overrides = [
        ("inputs.pictures.path", "more"),
        ("inputs.threshold", "0.75"),
        ("resources.instance_count", "9"),
        ("retry_settings.max_retries", "0"),
        ("error_threshold", "1"),
        ("node_count", "8"),
    ];
    let spec = project.load_with(PARALLEL, &overrides).unwrap();
    let InputSource::Paths(paths) = &spec.inputs[0].source else { panic!("paths") };
    assert_eq!(paths.iter().map(Path::new).collect::<Vec<_>>(), [project.path("more")]);
    assert_eq!((spec.run_max_try, spec.error_threshold, spec.node_count), (1, 1, 8));
    assert!(spec.arguments.contains(&"--t=0.75".to_owned()));
    assert_eq!(spec.arguments[7], "1", "{:?}", spec.arguments);
    let overrides = [("jobs.score.mini_batch_size", "6"), ("jobs.score.resources.instance_count", "3")];
    let spec = project.load_with(PIPELINE, &overrides).unwrap();
    assert_eq!((spec.mini_batch_size, spec.node_count), (MiniBatchSize::Files(6), 3));
    let problems = project.problems_with(
        PARALLEL,
        &[("inputs.pictures.path", "absent"), ("retry_settings.max_retries", "x"), ("resuorces.x", "1")],
    );
    for expected in [
        "--set inputs.pictures.path: cannot read FOLDER/absent: No such file or directory (os error 2)",
        "--set resuorces.x: there is no such key",
        "--set retry_settings.max_retries: \"x\" is not a whole number",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected}\n{problems:#?}");
    }
    assert_eq!(problems.len(), 3, "{problems:#?}");
    for (yaml, key, value, expected) in [
        (SMALL, "entry_script", "a.py", "--set entry_script: the key can only be changed in the job file"),
        (SMALL, "task.entry_script", "a.py", "--set task.entry_script: there is no file a.py"),
        (
            SMALL,
            "task.program_arguments",
            "--error_threshold 5 --error_threshold 6",
            "--set task.program_arguments[2] (--error_threshold): ",
        ),
    ] {
        let problems = project.problems_with(yaml, &[(key, value)]);
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{key}\n{problems:#?}");
    }
    let overrides = [("error_threshold", "1")];
    let arguments = project.load_with(PARALLEL, &overrides).unwrap().arguments;
    assert!(arguments.join(" ").contains("--error_threshold 1"), "{arguments:?}");
}

#[test]
fn what_a_parallel_job_asks_for_in_vain_is_refused() {
    let project = Project::new();
    for (line, expected) in [
        ("mini_batch_sise: 1", "mini_batch_sise: there is no such key: did you mean `mini_batch_size`?"),
        ("partition_keys: [a]", "partition_keys: \"a\" is no column of a path, input "),
        ("mini_batch_sise:", "mini_batch_sise: there is no such key: did you mean `mini_batch_size`?"),
        ("limits: {timeout: 9}", "limits.timeout: a parallel job has none"),
        ("limits: 5", "limits: 5 where a mapping is expected"),
        ("retry_settings: {max_retries: -1}", "retry_settings.max_retries: -1 is out of range"),
        ("retry_settings: {timeout: 259201}", "retry_settings.timeout: 259201 is out of range"),
        ("retry_settings: {retries: 1}", "retry_settings.retries: there is no such key"),
        ("resources: {instance_count: 0}", "resources.instance_count: 0 is out of range"),
        ("resources: 3", "resources: 3 where a mapping is expected: give instance_count, "),
        ("mini_batch_size: 10kb", "mini_batch_size: \"10kb\" is not a whole number"),
        (
            "mini_batch_size: '${{inputs.y}}'",
            "mini_batch_size: ${{inputs.y}}: there is no input `y`; there are: x",
        ),
        (
            "mini_batch_size: '${{inputs.x}}'",
            "mini_batch_size: ${{inputs.x}}: data where a value is expected",
        ),
        ("logging_level: '${{parents.inputs.x}}'", "logging_level: ${{parents.inputs.x}}: write `parent`"),
        (
            "logging_level: '${{parent.inputs.x}}'",
            "logging_level: ${{parent.inputs.x}} is for the step of a pipeline",
        ),
        ("logging_level: '${{search_space.x}}'", "logging_level: ${{search_space.x}}: sweeps"),
        ("logging_level: '${{x}}'", "logging_level: ${{x}} is no reference: there are ${{inputs.NAME}}"),
        ("force_rerun: 2", "force_rerun: 2 is not one of true, false"),
        ("outputs: {y: {name: asset}}", "outputs.y.name: registering an output as data is not supported yet"),
        ("outputs: {y: {mode: fast}}", "outputs.y.mode: \"fast\" is not one of rw_mount"),
        ("outputs: {y: text}", "outputs.y: \"text\" is not an output"),
        ("outputs: {y: {path: 'gs://bucket/a'}}", "outputs.y.path: an output cannot be put into gs: give"),
        ("outputs: {y: {path: /y}, z: null}", "outputs.y.path: the outputs have no folder in common: give"),
        ("outputs: {'y z': null}", "outputs.y z: \"y z\" is not the name of an output"),
        (
            "outputs: {y: {type: uri_file, path: o/a}, z: {path: o/a/b}}",
            "outputs.z: a/b is, or is in, the output y at a",
        ),
        (
            "logging_level: '${{outputs.x}}'",
            "logging_level: ${{outputs.x}}: an output is for program_arguments",
        ),
        (
            "outputs: {y: '${{parent.outputs.z}}'}",
            "outputs.y: the pipeline has no output `z`; there are: none",
        ),
        ("name: -x", "name: \"-x\" is not a name"),
        ("compute: a b", "compute: \"a b\" is not the name of a fleet"),
    ] {
        let error = project.load(&format!("{SMALL}{line}\n")).unwrap_err();
        let shown = error.problems[0].to_string();
        assert!(shown.starts_with(expected), "{line}\n{error}");
        assert_eq!(error.problems[0].line, Some(5), "{line}");
    }
    for (input, expected) in [
        ("{type: mltable, path: data}", "inputs.x.path: there is no file FOLDER/data/MLTable"),
        (
            "{type: mltable, path: data, mode: eval_mount}",
            "inputs.x.path: there is no file FOLDER/data/MLTable",
        ),
        (
            "{type: mltable, path: s3://b/data, mode: direct}",
            "inputs.x.path: an MLTable is a folder with a file MLTable, here or in a bucket",
        ),
        ("{value: 3}", "inputs.x: \"3\" is a value: give data"),
        ("{value: [3]}", "inputs.x.value: a list is not of type string"),
        ("{type: uri_file, path: data}", "inputs.x.path: data is a folder: give type: uri_folder"),
        ("{type: uri_dir, path: data}", "inputs.x.type: \"uri_dir\" is not one of uri_folder"),
        ("{type: uri_folder}", "inputs.x.path: the key is missing: give it, or --set inputs.x.path=PATH"),
        ("{type: uri_folder, path: absent}", "inputs.x.path: cannot read FOLDER/absent"),
        (
            "{path: azureml:pictures:1}",
            "inputs.x.path: a name from a data registry (azureml:) is not supported yet",
        ),
        (
            "{path: 'https://a/b?sig=secret'}",
            "inputs.x.path: a folder cannot be listed over HTTP: give type: uri_file",
        ),
        ("{path: data, mode: eval_mount}", "inputs.x.mode: eval_mount is for type: mltable"),
        ("{path: data, mode: fast}", "inputs.x.mode: \"fast\" is not one of ro_mount"),
        ("{path: data, mod: fast}", "inputs.x.mod: there is no such key: did you mean `mode`?"),
        ("5", "inputs.x: \"5\" is a value: give data"),
        ("[data]", "inputs.x: a list where an input is expected"),
        ("{type: integer, value: 1.5}", "inputs.x.value: 1.5 is not of type integer"),
        ("{path: data}, m: {path: absent}", "inputs.m.path: cannot read FOLDER/absent"),
        (
            "{path: data}, m: {type: uri_file, path: pkg}",
            "inputs.m.path: pkg is a folder: give type: uri_folder",
        ),
        ("{path: data}, m: {path: pkg, mode: eval_mount}", "inputs.m.mode: eval_mount is for type: mltable"),
        (
            "{path: data}, m: {type: mltable, path: 's3://bucket/t', mode: eval_mount}",
            "inputs.m.mode: eval_mount is not supported yet for a side input: give ro_mount",
        ),
        ("{path: data}, m: {type: mltable, path: pkg}", "inputs.m.path: cannot read FOLDER/pkg/MLTable"),
        ("{path: data}, m-n: {path: pkg}", "inputs.m-n: \"m-n\" is not the name of a side input"),
        ("{path: data}, m: {type: integer, value: 1.5}", "inputs.m.value: 1.5 is not of type integer"),
        ("{path: data}, partition_column_names: 1", "inputs.partition_column_names: the name is reserved"),
    ] {
        let yaml = SMALL.replace("{path: data}", input);
        let shown = project.problems(&yaml);
        assert!(shown.len() == 1 && shown[0].starts_with(expected), "{input}\n{shown:#?}");
        assert!(!shown.concat().contains("secret"), "{shown:#?}");
    }
    for (task, expected) in [
        ("{}", "task.entry_script: the key is missing"),
        ("{entry_script: absent.py}", "task.entry_script: there is no file absent.py"),
        ("{entry_script: score.py, type: model}", "task.type: \"model\" is not supported"),
        (
            "{entry_script: score.py, model: azureml:m:1}",
            "task.model: a model of a registry (azureml:) is not supported yet",
        ),
        ("{entry_script: score.py, code: azureml:c:1}", "task.code: a name from a data registry"),
        (
            "{entry_script: score.py, environment: azureml:e@latest}",
            "task.environment: a registered environment",
        ),
        (
            "{entry_script: score.py, environment: {image: i, conda_file: c.yml}}",
            "task.environment: FOLDER/c.yml: it cannot be read: No such file",
        ),
        (
            "{entry_script: score.py, append_row_to: y}",
            "task.append_row_to: \"y\" is no output: give ${{outputs.NAME}}",
        ),
        (
            "{entry_script: score.py, append_row_to: '${{outputs.y}}'}",
            "task.append_row_to: there is no output `y`",
        ),
        (
            "{entry_script: score.py, program_arguments: \"--x 'y\"}",
            "task.program_arguments: the quote ' is not closed",
        ),
        (
            "{entry_script: score.py, program_arguments: '--x $[[--y ${{inputs.y}}]]'}",
            "task.program_arguments: ${{inputs.y}}: there is no input `y`; there are: x",
        ),
        ("{entry_script: score.py, entry_scrit: }", "task.entry_scrit: there is no such key"),
        (
            "{entry_script: score.py, program_arguments: [a]}",
            "task.program_arguments: a list where text is expected",
        ),
        (
            "{entry_script: score.py, program_arguments: '${{outputs.y}}'}",
            "task.program_arguments: ${{outputs.y}}: there is no output `y`: give it under outputs",
        ),
        (
            "{entry_script: score.py, program_arguments: --error_threshold x}",
            "task.program_arguments[0] (--error_threshold): \"x\" is not a whole",
        ),
    ] {
        let problem = project.problem(&SMALL.replace("{entry_script: score.py}", task));
        assert!(problem.starts_with(expected), "{task}\n{problem}");
    }
    let problem = project.problem(&SMALL.replace("input_data: ${{inputs.x}}\n", ""));
    assert!(problem.starts_with("input_data: the key is missing: give the input"), "{problem}");
    let spec = project.load(&SMALL.replace("score.py}", "score.py, environment: {image: i}}")).unwrap();
    assert_eq!(
        notes(&project, &spec),
        ["4: task.environment.image: containers are not run; the Python of the host is used"]
    );
}

#[test]
fn what_is_wrong_with_the_one_step_of_a_pipeline_is_told_at_its_place() {
    let project = Project::new();
    for (from, to, expected) in [
        (
            "entry_script: score.py",
            "entry_script: absent.py",
            "jobs.score.task.entry_script: there is no file",
        ),
        ("path: data", "path: absent", "inputs.pictures.path: cannot read FOLDER/absent"),
        (
            "'${{parent.inputs.size}}'}",
            "'${{parent.jobs.prep.outputs.x}}'}",
            "jobs.score.inputs.label: ${{parent.jobs.prep.outputs.x}}: there is no other step",
        ),
        ("jobs:", "schedule: {}\njobs:", "schedule: not supported"),
    ] {
        let problem = project.problem(&PIPELINE.replace(from, to));
        assert!(problem.starts_with(expected), "{to}\n{problem}");
    }
}

#[test]
fn what_runs_anew_in_azure_is_given_no_former_output() {
    let project = Project::new();
    let allows = |yaml: &str| project.load(yaml).unwrap().allow_reuse;
    for (line, allowed) in [
        ("", true),
        ("allow_reuse: false", false),
        ("force_rerun: true", false),
        ("force_rerun: false", true),
        ("allow_reuse: true\nforce_rerun: True", false),
        ("is_deterministic: false", false),
        ("is_deterministic: true", true),
    ] {
        assert_eq!(allows(&format!("{SMALL}{line}\n")), allowed, "{line}");
    }
    assert!(allows(PIPELINE));
    let anew = PIPELINE.replace("continue_on_step_failure: false", "force_rerun: true");
    assert!(!allows(&anew), "{anew}");
}

#[test]
fn data_beside_the_mini_batches_are_side_inputs() {
    let project = Project::new();
    project.write("model/MLmodel", "x");
    project.write("table/MLTable", "paths: [{file: ./a.csv}]\n");
    project.write("table/a.csv", "x");
    let yaml = "\
type: parallel
inputs:
  x: {path: data}
  model: {type: mlflow_model, path: ./model, mode: rw_mount}
  one: {type: uri_file, path: 'score.py', mode: direct}
  far: {path: 's3://bucket/prefix', mode: direct}
  rows: {type: mltable, path: table/MLTable}
  remote: {type: mltable, path: 's3://bucket/table/MLTable'}
input_data: ${{inputs.x}}
environment_variables: {MODEL: 'a:${{inputs.model}}'}
task:
  entry_script: score.py
  program_arguments: --m ${{ inputs.model }} --far=${{inputs.far}}/b
";
    let spec = project.load(yaml).unwrap();
    assert_eq!(spec.arguments, ["--m", "${{side_inputs.model}}", "--far=${{side_inputs.far}}/b"]);
    assert_eq!(spec.environment_variables["MODEL"], "a:${{side_inputs.model}}");
    let path = |relative: &str| project.path(relative).display().to_string();
    let named: Vec<_> = spec.side_inputs.iter().map(|one| (&*one.name, one.named(), one.mode)).collect();
    let expected = [
        ("model", path("model"), InputMode::Upload),
        ("one", path("score.py"), InputMode::Direct),
        ("far", "s3://bucket/prefix".to_owned(), InputMode::Direct),
        ("rows", path("table"), InputMode::Upload),
        ("remote", "s3://bucket/table/".to_owned(), InputMode::Upload),
    ];
    assert_eq!(named, expected);
    assert_eq!(notes(&project, &spec), ["4: inputs.model.mode: inputs are only read; as ro_mount"]);

    let yaml = SMALL.replace("score.py}", "score.py, program_arguments: '--all ${{inputs.x}}'}");
    let spec = project.load(&yaml).unwrap();
    assert_eq!((&*spec.side_inputs[0].name, spec.side_inputs[0].named()), ("x", path("data")));
    assert_eq!(spec.arguments, ["--all", "${{side_inputs.x}}"]);
    assert!(
        notes(&project, &spec)[0].starts_with("2: inputs.x: the script is given its path, so every node")
    );

    project.write("table/MLTable", "paths: [{file: ../data/a.csv}]\n");
    let yaml = SMALL.replace("{path: data}", "{path: data}, t: {type: mltable, path: table}");
    let problem = project.problem(&yaml);
    let expected = "inputs.t.path: FOLDER/table/MLTable names ../data/a.csv, which is not in its folder";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn outputs_of_the_script_are_in_one_folder() {
    let project = Project::new();
    for (outputs, append, folder, file, expected) in [
        ("a: null", "", json!(null), "parallel_run_step.txt", "a at a"),
        ("a: {type: uri_file}, r: {type: uri_file}", "r", json!(null), "r", "a file a"),
        ("a: {path: models}", "", json!("FOLDER/models"), "parallel_run_step.txt", "a at "),
        (
            "a: {type: uri_file, path: o/a.txt}",
            "",
            json!("FOLDER/o"),
            "parallel_run_step.txt",
            "a file a.txt",
        ),
        (
            "a: {path: ./o/a}, b: {path: o/b/c}",
            "",
            json!("FOLDER/o"),
            "parallel_run_step.txt",
            "a at a, b at b/c",
        ),
        ("a: {path: o/a}, r: {type: uri_file}", "r", json!("FOLDER/o"), "r", "a at a"),
        ("a: {path: o/x}, r: {type: uri_file, path: o/r.csv}", "r", json!("FOLDER/o"), "r.csv", "a at x"),
        ("a: {mode: upload}, r: {path: o}", "r", json!("FOLDER/o"), "parallel_run_step.txt", "a at a"),
        (
            "a: {path: 'azureml://datastores/d/paths/p/q/'}, b: {path: 'azureml://datastores/d/paths/${{name}}/'}",
            "",
            json!(null),
            "parallel_run_step.txt",
            "a at p/q, b at ${{name}}",
        ),
    ] {
        let append = if append.is_empty() {
            String::new()
        } else {
            format!(", append_row_to: '${{{{outputs.{append}}}}}'")
        };
        let yaml = SMALL.replace(
            "score.py}",
            &format!("score.py, program_arguments: '--o ${{{{outputs.a}}}}'{append}}}"),
        );
        let yaml = format!("{yaml}outputs: {{{outputs}}}\n");
        let spec = project.load(&yaml).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(project.setting(&yaml, "output"), folder, "{outputs}");
        assert_eq!(spec.append_row_file_name, file, "{outputs}");
        assert_eq!(spec.arguments, ["--o", "${{outputs.a}}"]);
        let told = |output: &NamedOutput| {
            format!("{} {} {}", output.name, if output.is_file { "file" } else { "at" }, output.path)
        };
        assert_eq!(spec.outputs.iter().map(told).collect::<Vec<_>>().join(", "), expected, "{outputs}");
    }
    let append = "score.py, program_arguments: '--o ${{outputs.a}}', append_row_to: '${{outputs.a}}'}";
    let yaml = SMALL.replace("score.py}", append);
    let spec = project.load(&format!("{yaml}outputs: {{a: {{path: o}}}}\n")).unwrap();
    assert_eq!((&*spec.outputs[0].path, &*spec.append_row_file_name), ("", "parallel_run_step.txt"));
    let problem = project.problem(&format!("{yaml}outputs: {{a: {{type: uri_file}}}}\n"));
    assert!(problem.starts_with("outputs.a: rows are appended to this file"), "{problem}");
    let far = "outputs: {a: {type: uri_file, path: o/r.txt}, b: {path: elsewhere}}\n";
    let yaml = SMALL.replace("score.py}", "score.py, append_row_to: '${{outputs.a}}'}");
    let problem = project.problem(&format!("{yaml}{far}"));
    assert!(
        problem.starts_with("outputs.b.path: it is not in FOLDER/o, the folder of the rows"),
        "{problem}"
    );
}
