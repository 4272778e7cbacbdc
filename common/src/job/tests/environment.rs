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
    let expected = "give a Python interpreter, as a path or as a command on PATH";
    for (given, problem) in [
        ("''", format!(": it is empty: {expected}")),
        ("[python3]", format!(": a list is not an environment: {expected}")),
        (
            "requirements.txt",
            format!(": requirements.txt: a requirements or conda file is not supported yet: {expected}"),
        ),
        (
            "conda/env.YML",
            format!(": conda/env.YML: a requirements or conda file is not supported yet: {expected}"),
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
            format!(
                ": conda and pip dependencies are not supported yet: in place of the mapping, {expected} that has them"
            ),
        ),
        (
            "{name: sh, conda_file: x.yml}",
            format!(".conda_file: an environment that has to be built is not supported yet: {expected}"),
        ),
        (
            "{image: 'x:1'}",
            format!(".image: an environment that has to be built is not supported yet: {expected}"),
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
        assert_eq!(for_workers(given).unwrap().environment.as_deref(), Some(expected), "{given}");
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
