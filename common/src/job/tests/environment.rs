//! `environment`: interpreters that are found, and environments that would have to be built.

use serde_json::json;

use super::*;

#[test]
fn interpreters() {
    let project = Project::new();
    project.executable("venv/bin/python");
    let absolute = project.path("venv/bin/python").display().to_string();
    for (given, expected) in [
        ("venv/bin/python", json!("FOLDER/venv/bin/python")),
        ("./venv/bin/python", json!("FOLDER/venv/bin/python")),
        (absolute.as_str(), json!("FOLDER/venv/bin/python")),
        ("sh", json!("sh")),
        ("{python: {userManagedDependencies: true, interpreterPath: sh}}", json!("sh")),
        (
            "{name: x, python: {userManagedDependencies: true, interpreterPath: venv/bin/python}}",
            json!("FOLDER/venv/bin/python"),
        ),
        ("{name: sh}", json!("sh")),
    ] {
        let yaml = format!("{REQUIRED}environment: {given}\n");
        assert_eq!(project.setting(&yaml, "environment"), expected, "{given}");
    }
}

#[test]
fn refused_environments() {
    let project = Project::new();
    project.executable("venv/bin/python");
    project.write("python", "x");
    project.write("c.yml", "dependencies: [numpy]\n");
    let expected = "give a Python interpreter, as a path or as a command on PATH";
    for (given, problem) in [
        ("''", format!(": it is empty: {expected}")),
        ("[python3]", format!(": a list is not an environment: {expected}")),
        (
            "requirements.txt",
            ": FOLDER/requirements.txt: it cannot be read: No such file or directory (os error 2)".to_owned(),
        ),
        (
            "conda/env.YML",
            ": FOLDER/conda/env.YML: it cannot be read: No such file or directory (os error 2)".to_owned(),
        ),
        (
            "uv.lock",
            ": uv.lock: such a file is not read: export its packages to a requirements file, and name that".to_owned(),
        ),
        (
            "'azureml:env:1'",
            format!(": a registered environment or an image is not supported yet: {expected}"),
        ),
        (
            "docker://image",
            format!(": a registered environment or an image is not supported yet: {expected}"),
        ),
        (
            "no-such-command",
            format!(
                ": there is no command no-such-command on PATH, and names of environments are not supported yet: {expected}"
            ),
        ),
        ("./absent", ": cannot read FOLDER/absent: No such file or directory (os error 2)".to_owned()),
        ("./python", format!(": FOLDER/python is not executable: {expected}")),
        ("./venv", ": FOLDER/venv is a folder: give FOLDER/venv/bin/python".to_owned()),
        ("./data", format!(": FOLDER/data is a folder: {expected}")),
        ("{version: 1}", format!(": the mapping names no interpreter: {expected}")),
        (
            "{name: x, python: {condaDependencies: {}}}",
            ": the mapping names neither an interpreter nor condaDependencies: in its place, give a Python interpreter, as \
             a path or as a command on PATH; a requirements or conda file (`.txt`, `.yml`); or a \
             registered environment (`azureml:NAME:VERSION`)"
                .to_owned(),
        ),
        (
            "{name: sh, conda_file: x.yml}",
            ": FOLDER/x.yml: it cannot be read: No such file or directory (os error 2)".to_owned(),
        ),
        (
            "{build: {path: .}}",
            ".build: images are not built: give conda_file, or in place of the mapping a Python interpreter, as a path or as \
             a command on PATH"
                .to_owned(),
        ),
        (
            "{requirements: [numpy], conda_fiel: x.yml}",
            ".conda_fiel: there is no such key: did you mean `conda_file`?".to_owned(),
        ),
        (
            "{conda_file: c.yml, requirements: [x]}",
            ".requirements: not beside a conda file: write it there".to_owned(),
        ),
        ("{dependencies: [numpy], python: '3.10'}", ".python: not beside a conda file: write it there".to_owned()),
        (
            "{conda_file: {dependencies: [numpy]}, options: [--pre], image: i}",
            ".options: not beside a conda file: write it there".to_owned(),
        ),
        (
            "{conda_file: c.yml, constraints: ['numpy<2']}",
            ".constraints: not beside a conda file: write it there".to_owned(),
        ),
        (
            "{conda_file: c.yml, dependencies: [numpy]}",
            ".dependencies: not beside a conda file: write it there".to_owned(),
        ),
        (
            "{image: i, keep: [azureml-core]}",
            ".keep: not without packages: give requirements or conda_file".to_owned(),
        ),
        (
            "{name: no-such-command}",
            format!(
                ": there is no command no-such-command on PATH, and names of environments are not supported yet: {expected}"
            ),
        ),
    ] {
        let yaml = format!("{REQUIRED}environment: {given}\n");
        assert_eq!(project.problem(&yaml), format!("environment{problem}"), "{given}");
    }
}

#[test]
fn variables_that_linux_does_not_take_are_refused() {
    let project = Project::new();
    let of = |variables: &str| format!("{REQUIRED}environment_variables:\n{variables}");
    let one = |bytes: usize| of(&format!("  V: {}\n", "x".repeat(bytes)));
    let many = |count: usize| {
        let lines: Vec<_> = (0..count).map(|at| format!("  V{at:04}: {}\n", "x".repeat(1000))).collect();
        of(&lines.concat())
    };
    for yaml in [one((128 << 10) - 3), many(1500)] {
        project.load(&yaml).unwrap();
    }
    assert_eq!(
        project.problem(&one((128 << 10) - 2)),
        "environment_variables.V: the variable has 131073 bytes with its name, and Linux takes 131072 at most: give a file \
         under side_inputs, and its path here"
    );
    assert_eq!(
        project.problem(&many(3000)),
        "environment_variables: the 3000 variables have 3045000 bytes together, and 1572864 are the most that leaves room for \
         those of a host: give what is long in a file under side_inputs"
    );
}

#[test]
fn an_interpreter_of_the_workers_is_not_looked_for_here() {
    let project = Project::new();
    let for_workers = |environment: &str| {
        project.write("job.yml", &format!("{REQUIRED}environment: {environment}\n"));
        load_for(RunsOn::Workers, &project.path("job.yml"), &[])
    };
    let absent = project.path("venv/bin/python").display().to_string();
    for (given, expected) in [
        ("/opt/no-such-folder/bin/python", "/opt/no-such-folder/bin/python"),
        ("venv/bin/python", &*absent),
        ("no-such-command", "no-such-command"),
        ("{python: {userManagedDependencies: true, interpreterPath: no-such-command}}", "no-such-command"),
    ] {
        let environment = for_workers(given).unwrap().environment.unwrap();
        assert_eq!(environment.interpreter(), Some(expected), "{given}");
    }
    for given in ["''", "requirements.txt", "docker://image", "[python3]"] {
        assert!(for_workers(given).is_err(), "{given}");
    }
}

#[test]
fn variables_of_the_job_come_before_those_of_the_mapping() {
    let project = Project::new();
    let yaml = format!(
        "{REQUIRED}environment:\n  python: {{userManagedDependencies: true, interpreterPath: sh}}\n  \
         environmentVariables: {{A: mapping, B: 1}}\nenvironment_variables: {{A: job}}\n"
    );
    let spec = project.load(&yaml).unwrap();
    assert_eq!(serde_json::to_value(&spec.environment_variables).unwrap(), json!({"A": "job", "B": "1"}));
    assert_eq!(spec.notes.len(), 1);
}

#[test]
fn a_requirements_file_travels_as_data() {
    let project = Project::new();
    project.write("conda/requirements.txt", "# why\nscipy\n-r more.txt\nazureml-core==1.5\n");
    project.write("conda/more.txt", "numpy==2.1\nscipy\n");
    let yaml = format!("{REQUIRED}environment: conda/requirements.txt\n");
    let expected = json!({"requirements": ["numpy==2.1", "scipy"], "from": "conda/requirements.txt"});
    assert_eq!(project.setting(&yaml, "environment"), expected);
    let notes = project.load(&yaml).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("azureml-core==1.5 is left out"), "{notes:?}");
    // What is stored can be given again, as `show` prints it.
    let again = format!("{REQUIRED}environment: {expected}\n");
    assert_eq!(project.setting(&again, "environment"), expected);
    let spec = project.load(&yaml).unwrap();
    let stored = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<JobSpec>(&stored).unwrap(), spec);
}

const CONDA: &str = "\
name: model
channels: [conda-forge]
dependencies:
  - python=3.10.4
  - pip<22.0
  - numpy=1.21
  - pip:
    - torch==2.1
    - azureml-mlflow
    - -r more.txt
variables: {A: conda}
";

#[test]
fn a_conda_file_is_read_in_every_form_that_names_one() {
    let project = Project::new();
    project.write("env/conda.yml", CONDA);
    project.write("env/more.txt", "pandas\n");
    project.write("env/environment.yml", "name: e\nimage: x:1\nconda_file: conda.yml\n");
    let block = CONDA.replace("-r more.txt", "pandas").replace('\n', "\n    ");
    for (given, from) in [
        ("env/conda.yml".to_owned(), "env/conda.yml"),
        ("env/environment.yml".to_owned(), "conda.yml"),
        ("{conda_file: env/conda.yml, image: 'x:1', description: d}".to_owned(), "env/conda.yml"),
        (format!("\n  conda_file:\n    {block}"), "conda_file"),
        (
            format!("\n  python:\n   userManagedDependencies: false\n   condaDependencies:\n    {block}"),
            "condaDependencies",
        ),
    ] {
        let yaml = format!("{REQUIRED}environment: {given}\nenvironment_variables: {{B: job}}\n");
        let expected = json!({
            "python": "3.10", "requirements": ["numpy==1.21.*", "pandas", "torch==2.1"], "from": from
        });
        assert_eq!(project.setting(&yaml, "environment"), expected, "{given}");
        let spec = project.load(&yaml).unwrap();
        assert_eq!(
            serde_json::to_value(&spec.environment_variables).unwrap(),
            json!({"A": "conda", "B": "job"})
        );
        let notes = spec.notes.concat();
        for part in [
            "channels: packages come from the index of Python",
            "pip<22.0: the host's own is used",
            "azureml-mlflow is left out",
        ] {
            assert!(notes.contains(part), "{given}: {notes}");
        }
    }
}

#[test]
fn what_is_wrong_in_a_conda_file_is_told_with_its_line() {
    let project = Project::new();
    project.write("c.yml", "dependencies:\n- cudatoolkit=11.3\n- python=3.7\n- pip: [./here]\nchannel: x\n");
    project.write("job.yml", &format!("{REQUIRED}environment: c.yml\n"));
    let error = load(&project.path("job.yml"), &[]).unwrap_err().to_string();
    let file = project.path("c.yml").display().to_string();
    for part in [
        format!("{file}:2: cudatoolkit needs conda"),
        format!("{file}:3: python 3.7 is too old, prs runs Python 3.9 and newer"),
        format!("{file}:4: ./here: a file or folder of this machine"),
        format!("{file}:5: channel: a conda file has the keys name, channels"),
    ] {
        assert!(error.contains(&part), "{part}\n{error}");
    }
}

#[test]
fn packages_of_azure_are_kept_in_every_form_that_says_so() {
    let project = Project::new();
    project.write("c.yml", "dependencies: [numpy, {pip: [azureml-core==1.5]}]\n");
    project.write("e/made.yml", "requirements: [numpy, azureml-core==1.5]\nkeep: [azureml-core]\n");
    project.write("e/conda.yml", "conda_file: ../c.yml\nkeep: azureml-core\n");
    for given in [
        "{conda_file: c.yml, keep: [azureml-core]}",
        "{image: 'x:1', dependencies: [numpy, {pip: [azureml-core==1.5]}], channels: [x], keep: [azureml-core]}",
        "e/made.yml",
        "e/conda.yml",
    ] {
        let environment = project.setting(&format!("{REQUIRED}environment: {given}\n"), "environment");
        assert_eq!(environment["requirements"], json!(["azureml-core==1.5", "numpy"]), "{given}");
    }
}

#[test]
fn an_image_alone_leaves_the_python_of_the_host() {
    let project = Project::new();
    let spec =
        project.load(&format!("{REQUIRED}environment: {{image: 'x:1', name: e, version: 1}}\n")).unwrap();
    assert_eq!(spec.environment, None);
    assert!(
        spec.notes[0].contains("containers are not run; the Python of the host is used"),
        "{:?}",
        spec.notes
    );
}
