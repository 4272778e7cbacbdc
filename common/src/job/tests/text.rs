//! Job files that come as texts: their paths stay in what came with them, and nothing is told of what lies elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;

use super::*;
use crate::registry::{AssetType, AssetVersion, Which};

/// What came with a text.
fn project() -> Project {
    let project = Project::new();
    project.write("came/score.py", "");
    project.write("came/data/a.csv", "x\n1\n");
    project.write("came/requirements.txt", "numpy\n");
    project.write("secret/data/a.csv", "x\n1\n");
    project.write("secret/requirements.txt", "password=hush\n");
    project
}

fn given<'a>(text: &'a str, folder: &'a Path, allowed: &'a [PathBuf]) -> Given<'a> {
    Given {
        text: Some(JobText { text, folder, root: folder, allowed, sent: None, reach: None }),
        ..Given::default()
    }
}

fn load(project: &Project, text: &str) -> Result<Loaded, JobFileError> {
    load_given(RunsOn::Workers, Path::new("ignored"), given(text, &project.path("came"), &[]))
}

#[track_caller]
fn refused(project: &Project, text: &str) -> String {
    let error = load(project, text).err().unwrap_or_else(|| panic!("it is taken: {text}")).to_string();
    let folder = project.folder.path().display().to_string();
    assert!(!error.contains(&format!("{folder}/came")) && !error.contains("hush"), "{error}");
    error
}

#[test]
fn a_text_is_read_as_a_file_in_its_folder_would_be() {
    let project = project();
    let text = "name: job-1\nentry_script: score.py\ninputs: [{type: file, path: data}]\nenvironment: requirements.txt\n";
    let Loaded::Job(spec) = load(&project, text).unwrap() else { panic!("it is a job") };
    assert_eq!(spec.source_directory, project.path("came"));
    let overrides = [("mini_batch_size".to_owned(), "7".to_owned())];
    let folder = project.path("came");
    let set = Given { overrides: &overrides, ..given(text, &folder, &[]) };
    let Loaded::Job(set) = load_given(RunsOn::Workers, Path::new(""), set).unwrap() else {
        panic!("it is a job")
    };
    assert_eq!(
        (spec.mini_batch_size, set.mini_batch_size),
        (MiniBatchSize::Files(10), MiniBatchSize::Files(7))
    );
    assert_eq!(
        refused(
            &project,
            "name: job-1\nentry_script: scor.py\nnode_count: none\ninputs: [{type: file, path: dat}]\n"
        ),
        "job file:2: entry_script: there is no file scor.py in source_directory .: did you mean score.py?\n\
         job file:3: node_count: \"none\" is not a whole number: give a whole number from 1 to 2147483647\n\
         job file:4: inputs[0].path: cannot read dat: No such file or directory (os error 2): did you mean data?"
    );
    assert!(refused(&project, &"x".repeat(5 << 20)).contains("larger than"));
}

#[test]
fn paths_that_lead_elsewhere_are_all_that_is_told() {
    let project = project();
    symlink(project.path("secret"), project.path("came/link")).unwrap();
    let secret = project.path("secret").display().to_string();
    let job = |more: &str| format!("name: job-1\nentry_script: score.py\n{more}");
    let files = "inputs: [{type: file, path: data}]\n";
    project.write("came/outer.txt", &format!("-r {secret}/requirements.txt\n"));
    project.write(
        "came/table/MLTable",
        "paths: [{file: ../../secret/data/a.csv}]\ntransformations: [read_delimited: {}]\n",
    );
    for (text, given) in [
        (job("inputs: [{type: file, path: ../secret/data}]\n"), "../secret/data"),
        (job(&format!("inputs: [{{type: file, path: {secret}/data}}]\n")), "secret/data"),
        (job(&format!("inputs: [{{type: file, path: {secret}/nothing}}]\n")), "secret/nothing"),
        (job("inputs: [{type: file, path: link/data}]\n"), "link/data"),
        (job("inputs: [{type: file, path: ../secret/*/a.csv}]\n"), "../secret/*/a.csv"),
        (job("inputs: [{type: mltable, path: table}]\n"), "../../secret/data/a.csv"),
        (job(&format!("{files}source_directory: ..\n")), ".."),
        (job(&format!("{files}side_inputs: {{m: ../secret}}\n")), "../secret"),
        (job(&format!("{files}environment: ../secret/requirements.txt\n")), "../secret/requirements.txt"),
        (job(&format!("{files}environment: outer.txt\n")), "secret/requirements.txt"),
        (job(&format!("{files}output: {secret}/out\n")), "secret/out"),
        (
            "type: pipeline\njobs: {a: {type: parallel, component: ../secret/c.yml}}\n".to_owned(),
            "../secret/c.yml",
        ),
    ] {
        let error = refused(&project, &text);
        let told = format!("{given} is not among what came with the job: send it along");
        assert!(error.contains(&told) && error.lines().count() == 1, "{text}\n{error}");
        assert!(!error.contains("No such file"), "{error}");
    }
    // The key is told where the text has the path itself.
    let error = refused(&project, &job("inputs: [{type: file, path: ../secret/data}]\nnode_count: none\n"));
    assert!(error.starts_with("job file:3: inputs[0].path: ../secret/data is not"), "{error}");
    let error = refused(&project, &job("inputs: [{type: file, path_list: list.txt}]\n"));
    assert!(!error.is_empty());
}

#[test]
fn folders_that_are_allowed_and_interpreters_of_workers_are_taken() {
    let project = project();
    let secret = project.path("secret").display().to_string();
    let text = format!(
        "name: job-1\nentry_script: score.py\nenvironment: /opt/venv/bin/python\ninputs: [{{type: file, path: {secret}/data}}]\n"
    );
    let (folder, allowed) = (project.path("came"), [project.path("secret")]);
    assert!(load_given(RunsOn::Workers, Path::new(""), given(&text, &folder, &allowed)).is_ok());
}

#[test]
fn workers_do_not_have_what_came_with_a_text() {
    let project = project();
    let text = "name: job-1\nentry_script: score.py\ninputs: [{type: file, path: data, name: pictures, mode: direct}]\n";
    let error = refused(&project, text);
    assert!(error.starts_with("job file: pictures: what came with the job is not on its workers"), "{error}");
    let (folder, allowed) = (project.path("came"), [project.path("came/data")]);
    assert!(load_given(RunsOn::Workers, Path::new(""), given(text, &folder, &allowed)).is_ok());
    assert!(load_given(RunsOn::ThisMachine, Path::new(""), given(text, &folder, &[])).is_ok());
}

#[test]
fn what_the_registry_gives_is_no_path_of_the_text() {
    let project = project();
    project.write(
        "cache/component.yml",
        "type: parallel\ninputs: {d: {type: uri_folder}}\noutputs: {rows: {type: uri_file}}\ninput_data: ${{inputs.d}}\n\
         task: {code: code, entry_script: score.py, append_row_to: '${{outputs.rows}}'}\nmini_batch_size: 4\n",
    );
    project.write("cache/code/score.py", "");
    let text = "type: pipeline\njobs:\n  a:\n    type: parallel\n    component: azureml:c:1\n    \
                inputs: {d: {type: uri_folder, path: data}}\n    outputs: {rows: {type: uri_file}}\n";
    let version = AssetVersion {
        name: "c".to_owned(),
        version: "1".to_owned(),
        kind: AssetType::Parallel,
        path: String::new(),
        given: String::new(),
        content: None,
        about: crate::registry::About::default(),
        created: String::new(),
        labels: BTreeSet::new(),
        created_by: None,
        archived: false,
        uses: Vec::new(),
    };
    let names = Names::default();
    let asked =
        AssetRef { kind: Kind::Component, name: "c".to_owned(), which: Which::Version("1".to_owned()) };
    let found = Found::Component(Box::new(version), project.path("cache/component.yml"));
    names.tell(Asked::Asset(asked), Ok(found));
    let folder = project.path("came");
    let given = Given { names: Some(&names), ..given(text, &folder, &[]) };
    load_given(RunsOn::Workers, Path::new(""), given).unwrap();
}

#[test]
fn a_job_is_called_as_who_hands_it_in_says() {
    let project = project();
    let folder = project.path("came");
    let text = "name: job-1\nentry_script: score.py\ninputs: [{type: file, path: data}]\n\
                display_name: one\ntags: {team: a, kept: b}\n";
    let called = Called {
        name: Some("nightly".to_owned()),
        display_name: Some("nightly scoring".to_owned()),
        tags: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        ..Called::default()
    };
    let with = |called| Given { called: Some(called), ..given(text, &folder, &[]) };
    let Loaded::Job(spec) = load_given(RunsOn::Workers, Path::new(""), with(&called)).unwrap() else {
        panic!("it is a job")
    };
    assert_eq!((&*spec.name, spec.display_name.as_deref()), ("nightly", Some("nightly scoring")));
    assert_eq!((&*spec.tags["team"], &*spec.tags["kept"]), ("vision", "b"));
    let wrong = Called { name: Some("No".to_owned()), ..Called::default() };
    let error = load_given(RunsOn::Workers, Path::new(""), with(&wrong)).unwrap_err().to_string();
    assert!(error.starts_with("job file: name: \"No\" is not a job name"), "{error}");
}

#[test]
fn paths_are_listed_before_anything_came() {
    let project = Project::new();
    project.write("came/comp/part.yml", "type: parallel\ntask: {code: ./src, entry_script: s.py}\n");
    let root = project.path("came");
    let list = |text: &str, below: &str| {
        let folder = root.join(below);
        let text =
            Some(JobText { text, folder: &folder, root: &root, allowed: &[], sent: None, reach: None });
        let found = local_paths(RunsOn::Workers, Given { text, ..Given::default() });
        let line = |one: LocalPath| {
            let code = if one.is_code { " code" } else { "" };
            let input = one.input.map(|input| format!(" {input}")).unwrap_or_default();
            format!("{} {} {}{input}{code}", one.path.display(), one.key, one.line.unwrap_or(0))
        };
        found.into_iter().map(line).collect::<Vec<_>>()
    };
    let text = "name: job-1\nsource_directory: ../src\nentry_script: s.py\nenvironment: conda.yml\noutput: out\n\
                inputs:\n- {type: file, path: data/*.png}\n- {type: file, path: /abs/x}\nside_inputs: {m: model}\n";
    let mut found = list(text, "jobs");
    found.sort();
    assert_eq!(
        found,
        [
            "../src source_directory 2 code",
            "/abs/x inputs[1].path 8 input_2",
            "conda.yml environment 4",
            "data/*.png inputs[0].path 7 input_1",
            "model side_inputs.m 9 m",
        ]
    );
    let found = list("name: job-1\nentry_script: s.py\ninputs: [{type: file, path: 's3://b/x'}]\n", "");
    assert_eq!(found, ["  0 code"], "code is in the folder of the job file");
    let found = list("type: pipeline\njobs: {a: {type: parallel, component: comp/part.yml}}\n", "");
    assert!(found.iter().any(|one| one.starts_with("comp/part.yml")), "{found:?}");
    assert!(found.iter().any(|one| one.starts_with("comp/src") && one.ends_with(" code")), "{found:?}");
    assert_eq!(list("- no job", ""), [""; 0]);
}

#[test]
fn a_text_names_no_place_that_its_server_does_not_read() {
    use crate::storage::Reach;

    let project = project();
    let (folder, reach) =
        (project.path("came"), Reach::new(Some("s3://jobs/prs"), ["s3://data/in".to_owned()]));
    let read = |text: &str| {
        let text =
            JobText { text, folder: &folder, root: &folder, allowed: &[], sent: None, reach: Some(&reach) };
        load_given(RunsOn::Workers, Path::new(""), Given { text: Some(text), ..Given::default() })
    };
    let job = |rest: &str| format!("name: job-1\nentry_script: score.py\n{rest}\n");
    let input = |url: &str| job(&format!("inputs: [{{type: file, path: '{url}'}}]"));
    for url in ["s3://jobs/a/*.csv", "s3://data/in/", "https://example.org/a.csv"] {
        let Loaded::Job(spec) = read(&input(url)).unwrap() else { panic!("it is a job") };
        assert_eq!(spec.reach.as_deref(), Some(&reach), "it goes with the job");
    }
    let mine = "inputs: [{type: file, path: data}]";
    for (text, key, line) in [
        (input("s3://data/other"), "inputs[0].path", Some(3)),
        (input("http://example.org/a.csv"), "inputs[0].path", Some(3)),
        (input("s3://jobs/prs/registry/keys/session-1"), "inputs[0].path", Some(3)),
        (job(&format!("{mine}\nside_inputs:\n  a: s3://other/x")), "side_inputs.a", Some(5)),
        (job(&format!("{mine}\nmodel: s3://other/x")), "model", Some(4)),
    ] {
        let error = read(&text).unwrap_err();
        let problems: Vec<_> = error.problems.iter().map(|one| (&*one.key, one.line)).collect();
        assert_eq!((problems, error.leads_outside), (vec![(key, line)], false), "{text}: {error}");
    }
}
