//! Where an output goes that is to be in a bucket, in all forms of job files.

use super::*;
use crate::job::names::ConfiguredNames;

/// A parallel job whose rows go to its output `rows`, with these outputs.
fn parallel(outputs: &str) -> String {
    format!(
        "type: parallel\ninputs: {{i: {{type: uri_folder, path: data}}}}\ninput_data: ${{{{inputs.i}}}}\n\
         task: {{code: ., entry_script: score.py, program_arguments: '--o ${{{{outputs.own}}}}', append_row_to: '${{{{outputs.rows}}}}'}}\n\
         outputs: {{own: null, {outputs}}}\n"
    )
}

/// The one-step pipeline of it, whose output the pipeline places.
fn pipeline(place: &str) -> String {
    let step = "type: parallel\n    inputs: {i: {type: uri_folder, path: data}}\n    input_data: ${{inputs.i}}\n    \
                task: {code: ., entry_script: score.py, append_row_to: '${{outputs.rows}}'}\n    \
                outputs: {rows: '${{parent.outputs.all}}'}\n";
    format!(
        "type: pipeline\noutputs: {{all: {{type: uri_file, path: {place}}}}}\njobs:\n  score:\n    {step}"
    )
}

fn native(output: &str) -> String {
    format!(
        "name: job\nentry_script: score.py\ninputs: [{{name: x, type: file, path: data}}]\noutput: {output}\n"
    )
}

const DEPLOYMENT: &str = "name: dpl\nmodel: {path: data}\nenvironment: local\n\
                          code_configuration: {code: ., scoring_script: score.py}\n";

fn load_with_names(
    project: &Project,
    yaml: &str,
    set: &[(&str, &str)],
    output_path: Option<&str>,
) -> Result<JobSpec, JobFileError> {
    let configured = ConfiguredNames {
        references: vec![("wasbs://c@a/*".to_owned(), "s3://mirror/*".to_owned())],
        datastores: [("mine", "s3://store/pre"), ("disk", "/disk")]
            .map(|(name, place)| (name.to_owned(), place.to_owned()))
            .into(),
        ..ConfiguredNames::default()
    };
    let names = Names::new(configured, None);
    project.write("job.yml", yaml);
    let (path, data) = (project.path("job.yml"), project.path("data").display().to_string());
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let invocation = Invocation {
        input: Some(data),
        output_path: output_path.map(str::to_owned),
        ..Invocation::default()
    };
    let invocation = yaml.contains("scoring_script").then_some(&invocation);
    let given = Given { overrides: &set, names: Some(&names), invocation, ..Given::default() };
    load_given(RunsOn::ThisMachine, &path, given).and_then(|loaded| loaded.into_job(&path))
}

#[test]
fn an_output_in_a_bucket_is_one_in_all_forms() {
    let project = Project::new();
    let rows = "parallel_run_step.txt";
    let datastore = "azureml://datastores/mine/paths/a/r.csv";
    let long = "azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/mine/paths/a/";
    for (yaml, place, file) in [
        (native("s3://bucket/a/b/"), "s3://bucket/a/b", rows),
        (native("'s3://bucket/${{ name }}'"), "s3://bucket/${{name}}", rows),
        (native("s3://bucket"), "s3://bucket", rows),
        (native("azureml://datastores/mine/paths/a"), "s3://store/pre/a", rows),
        (native("'wasbs://c@a/x'"), "s3://mirror/x", rows),
        (parallel("rows: {path: s3://bucket/a}"), "s3://bucket/a", rows),
        (parallel("rows: {type: uri_file, path: s3://bucket/a/r.csv}"), "s3://bucket/a", "r.csv"),
        (parallel("rows: {type: uri_file, path: s3://bucket/a/}"), "s3://bucket/a", "rows"),
        (parallel("rows: {type: uri_file, path: s3://bucket/r.csv}"), "s3://bucket", "r.csv"),
        (
            parallel("rows: {type: uri_file, path: 's3://bucket/${{name}}/r.csv'}"),
            "s3://bucket/${{name}}",
            "r.csv",
        ),
        (parallel(&format!("rows: {{type: uri_file, path: '{datastore}'}}")), "s3://store/pre/a", "r.csv"),
        (parallel(&format!("rows: {{path: '{long}'}}")), "s3://store/pre/a", rows),
        (pipeline("s3://bucket/a/r.csv"), "s3://bucket/a", "r.csv"),
    ] {
        let spec =
            load_with_names(&project, &yaml, &[], None).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
        assert_eq!((spec.output, spec.deliver_to.as_deref()), (None, Some(place)), "{yaml}");
        assert_eq!(spec.append_row_file_name, file, "{yaml}");
    }
    let file = &[("outputs.score.path", "s3://bucket/a/p.csv"), ("outputs.score.type", "uri_file")][..];
    for (set, option, place, file) in [
        (&[][..], Some("s3://bucket/a"), "s3://bucket/a", "predictions.csv"),
        (&[], Some("azureml://datastores/mine/paths/a"), "s3://store/pre/a", "predictions.csv"),
        (file, None, "s3://bucket/a", "p.csv"),
        (&[("outputs.x.path", "s3://bucket/a")], None, "s3://bucket/a", "predictions.csv"),
        (&[("outputs.x.path", datastore), ("outputs.x.type", "uri_file")], None, "s3://store/pre/a", "r.csv"),
        (&[("output_dataset.path", "s3://bucket/a")], None, "s3://bucket/a", "predictions.csv"),
    ] {
        let spec = load_with_names(&project, DEPLOYMENT, set, option).unwrap();
        assert_eq!((spec.output, spec.deliver_to.as_deref()), (None, Some(place)), "{set:?} {option:?}");
        assert_eq!(spec.append_row_file_name, file, "{set:?} {option:?}");
    }
    // A datastore that is a folder is one.
    let spec = load_with_names(&project, &native("azureml://datastores/disk/paths/a"), &[], None).unwrap();
    assert_eq!((spec.output.as_deref(), spec.deliver_to), (Some(Path::new("/disk/a")), None));
}

#[test]
fn named_outputs_are_below_the_folder_of_the_bucket() {
    let project = Project::new();
    let yaml = parallel("rows: {path: s3://bucket/a}, more: {path: s3://bucket/a/deep/er}");
    let spec = load_with_names(&project, &yaml, &[], None).unwrap();
    let told: Vec<_> = spec.outputs.iter().map(|output| (&*output.name, &*output.path)).collect();
    assert_eq!(told, [("own", "own"), ("more", "deep/er")]);
    let alone = parallel("more: {path: s3://bucket/a/x}, other: {type: uri_file, path: s3://bucket/b/y}")
        .replace(", append_row_to: '${{outputs.rows}}'", "");
    let spec = load_with_names(&project, &alone, &[], None).unwrap();
    assert_eq!(spec.deliver_to.as_deref(), Some("s3://bucket"));
    let told: Vec<_> = spec.outputs.iter().map(|output| (&*output.name, &*output.path)).collect();
    assert_eq!(told, [("own", "own"), ("more", "a/x"), ("other", "b/y")]);
}

#[test]
fn what_is_no_place_is_refused_without_its_secrets() {
    let project = Project::new();
    for (yaml, part) in [
        (native("s3://me:hush@bucket/a"), "a URL must hold no credentials"),
        (native("s3://bucket/a//b"), "a place has no empty parts"),
        (native("s3://bucket/a/../b"), "no dots in place of names"),
        (native("'s3://bucket/*'"), "none of the characters"),
        (
            native("https://host/a?sig=hush"),
            "output: an output cannot be put into https: give a path of this machine, or s3://",
        ),
        (native("azureml:thing:1"), "an output cannot be put into azureml"),
        (native("azureml://datastores/unknown/paths/a"), "an output cannot be put into azureml"),
        (
            parallel("rows: {path: s3://bucket/a}, more: {path: s3://other/b}"),
            "it is not in s3://bucket/a, the folder of the rows",
        ),
        (
            parallel("rows: {path: s3://bucket/a}, more: {path: here}"),
            "it is not in s3://bucket/a, the folder of the rows",
        ),
        (
            parallel("rows: null, more: {path: here}, other: {path: s3://b-c/a}"),
            "the outputs have no folder in common",
        ),
        (parallel("rows: {path: abfss://hush@a/b}"), "an output cannot be put into abfss"),
        (parallel("rows: {path: s3://bucket/a}, more: {path: 's3://bucket/a/?'}"), "none of the characters"),
    ] {
        let said = load_with_names(&project, &yaml, &[], None).unwrap_err().to_string();
        assert!(said.contains(part) && !said.contains("hush"), "{yaml}\n{said}");
    }
}
