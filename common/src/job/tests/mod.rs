//! Job files as their authors write them: what each key takes, what is refused and how it is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use super::*;

mod azure;
mod deployment;
mod environment;
mod forms;
mod graph;
mod inputs;
mod keys;
mod mltable;
mod origins;
mod output_places;
mod pipeline;
mod side_inputs;
mod table;
mod text;

/// The keys that have no default, line 1 to 3.
const REQUIRED: &str = "name: job-1\nentry_script: score.py\ninputs: [{type: file, path: data}]\n";

/// The same job, whatever gave its settings.
fn without_origins(spec: JobSpec) -> JobSpec {
    JobSpec { origins: Origins::new(), ..spec }
}

/// A folder with what job files of the tests name.
struct Project {
    folder: TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        for file in ["score.py", "pkg/main.py", "pkg/__init__.py", "src/other.py", "data/a.csv", "data/b.csv"]
        {
            project.write(file, "x");
        }
        project
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn write(&self, relative: &str, content: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn executable(&self, relative: &str) {
        self.write(relative, "#!/bin/sh\n");
        fs::set_permissions(self.path(relative), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn load(&self, yaml: &str) -> Result<JobSpec, JobFileError> {
        self.load_with(yaml, &[])
    }

    fn load_with(&self, yaml: &str, overrides: &[(&str, &str)]) -> Result<JobSpec, JobFileError> {
        self.write("job.yml", yaml);
        let overrides: Vec<(String, String)> =
            overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        load(&self.path("job.yml"), &overrides)
    }

    /// The problems, `FOLDER` in the place of this project's folder.
    fn problems(&self, yaml: &str) -> Vec<String> {
        self.problems_with(yaml, &[])
    }

    fn problems_with(&self, yaml: &str, overrides: &[(&str, &str)]) -> Vec<String> {
        let error = self.load_with(yaml, overrides).unwrap_err();
        let folder = self.folder.path().to_str().unwrap();
        error.problems.iter().map(|problem| problem.to_string().replace(folder, "FOLDER")).collect()
    }

    /// The one problem.
    fn problem(&self, yaml: &str) -> String {
        let problems = self.problems(yaml);
        assert_eq!(problems.len(), 1, "{yaml}\n{problems:#?}");
        problems[0].clone()
    }

    /// What `job.json` has under `key`, `FOLDER` in the place of this project's folder.
    fn setting(&self, yaml: &str, key: &str) -> Json {
        let spec = self.load(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
        let folder = self.folder.path().to_str().unwrap();
        let json = serde_json::to_string(&spec).unwrap().replace(folder, "FOLDER");
        serde_json::from_str::<Json>(&json).unwrap()[key].clone()
    }
}

#[test]
fn errors_come_all_at_once_in_the_order_of_the_file() {
    let project = Project::new();
    let yaml = "\
name: Job
entry_script: absent.py
node_cout: 2
mini_batch_size: 0
inputs:
  - type: file
    path: absent
    header: true
run_max_try: none
partition_keys: [a]
";
    let error = project.load_with(yaml, &[("run_invocation_timeout", "-1")]).unwrap_err();
    let job_file = project.path("job.yml");
    let folder = project.folder.path().display();
    let expected = [
        ":1: name: \"Job\" is not a job name: give 3 to 32 lower-case letters, digits and dashes that begin with a \
         letter and end with a letter or digit"
            .to_owned(),
        format!(":2: entry_script: there is no file absent.py in source_directory {folder}"),
        ":3: node_cout: there is no such key: did you mean `node_count`?".to_owned(),
        ":4: mini_batch_size: 0 is out of range: give a whole number from 1 to 2147483647, the number of files in a \
         mini-batch"
            .to_owned(),
        format!(":7: inputs[0].path: cannot read {folder}/absent: No such file or directory (os error 2)"),
        ":8: inputs[0].header: only a tabular input has it: remove it, or give type: tabular".to_owned(),
        ":9: run_max_try: \"none\" is not a whole number: give a whole number from 1 to 2147483647".to_owned(),
        ":10: partition_keys: \"a\" is no column of a path, input input_1 has no partition_format; give one that \
         partition_format has"
            .to_owned(),
        ": --set run_invocation_timeout: \"-1\" is out of range: give a whole number from 1 to 2147483647 seconds"
            .to_owned(),
    ];
    let shown: Vec<String> = expected.iter().map(|line| format!("{}{line}", job_file.display())).collect();
    assert_eq!(error.to_string(), shown.join("\n"));
}

#[test]
fn a_file_that_is_no_job_file() {
    let project = Project::new();
    assert_eq!(project.problem("name: [x\n"), {
        let error = yaml::parse("name: [x\n").unwrap_err();
        error.message
    });
    assert_eq!(project.problem(""), "the file is empty");
    fs::write(project.path("latin.yml"), b"name: caf\xE9").unwrap();
    fs::write(project.path("big.yml"), vec![b' '; (source::MAX_FILE_SIZE + 1) as usize]).unwrap();
    for (file, expected) in [
        ("latin.yml", "the file is not UTF-8 text: give a job file in UTF-8"),
        ("big.yml", "the file is larger than 4194304 bytes: give a job file"),
        ("absent.yml", "cannot read the job file: No such file or directory (os error 2)"),
        ("data", "cannot read the job file: Is a directory (os error 21)"),
    ] {
        let error = load(&project.path(file), &[]).unwrap_err();
        assert_eq!(error.problems.len(), 1);
        assert_eq!(error.problems[0].message, expected);
    }
}

#[test]
fn job_json_gives_the_spec_back() {
    let project = Project::new();
    let spec = project
        .load(
            "name: job-1\nentry_script: pkg.main\nmini_batch_size: 2kb\nallowed_failed_percent: 12.5\n\
             inputs: [{type: tabular, paths: [data/*.csv, data], mode: direct, dtype: {b: str, a: int}}]\n\
             arguments: [--rate, 1e-3]\noutput: out\nenvironment_variables: {A: 1}\n",
        )
        .unwrap();
    let json = serde_json::to_string_pretty(&spec).unwrap();
    assert_eq!(serde_json::from_str::<JobSpec>(&json).unwrap(), spec);
}

#[test]
fn paths_start_from_the_folder_of_the_job_file() {
    let project = Project::new();
    let spec = project.load(REQUIRED).unwrap();
    assert_eq!(spec.source_directory, project.folder.path());
    let InputSource::Paths(paths) = &spec.inputs[0].source else { panic!("paths") };
    assert_eq!(paths.iter().map(Path::new).collect::<Vec<_>>(), [project.path("data")]);
}
