//! What gave each setting of a job: a line of a file, an option, a deployment.

use super::*;

/// What gave the setting `key`; the folder of the tests is left out.
fn origin(project: &Project, spec: &JobSpec, key: &str) -> String {
    let told = spec.origins.get(key).map(ToString::to_string).unwrap_or_default();
    told.replace(&format!("{}/", project.folder.path().display()), "")
}

#[test]
fn settings_come_of_lines_and_of_options() {
    let project = Project::new();
    let yaml = format!("{REQUIRED}node_count: 2\nrun_max_try: 5\narguments: [--error_threshold, 4]\n");
    let spec = project.load_with(&yaml, &[("node_count", "3"), ("logging_level", "DEBUG")]).unwrap();
    for (key, expected) in [
        ("name", "job.yml:1"),
        ("inputs", "job.yml:3"),
        ("run_max_try", "job.yml:5"),
        ("node_count", "--set node_count"),
        ("logging_level", "--set logging_level"),
        ("error_threshold", "job.yml:6, as arguments[0] (--error_threshold)"),
        ("allow_reuse", ""),
    ] {
        assert_eq!(origin(&project, &spec, key), expected, "{key}");
    }
    // Another submission, and another start, change some of them.
    let set = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
    let folder = project.path("");
    let names = Names::default();
    let (runs_on, tries) = (RunsOn::ThisMachine, set("run_max_try", "7"));
    let again = change(&spec, "job", &tries, &folder, runs_on, &names).unwrap();
    let resumed = adjust(&spec, "job", &tries, &folder, runs_on, &names).unwrap();
    assert_eq!(origin(&project, &again, "run_max_try"), "--set run_max_try");
    assert_eq!(origin(&project, &resumed, "run_max_try"), "resume --set run_max_try");
    assert_eq!(origin(&project, &again, "name"), "job.yml:1");
    // A record that an older prs wrote has none, and is read all the same.
    let mut stored = serde_json::to_value(&spec).unwrap();
    stored.as_object_mut().unwrap().remove("origins").unwrap();
    assert_eq!(serde_json::from_value::<JobSpec>(stored).unwrap(), without_origins(spec));
}

#[test]
fn keys_of_other_forms_and_of_components_are_named_as_they_stand_there() {
    let project = Project::new();
    project.write(
        "parts/score.yml",
        "type: parallel\ninput_data: ${{inputs.x}}\ninputs: {x: {type: uri_folder}}\nmini_batch_size: 4\ntask: {code: ../, entry_script: score.py}\n",
    );
    let yaml = "type: pipeline\ndisplay_name: two\njobs:\n  a: {component: parts/score.yml, inputs: {x: {type: uri_folder, path: data}}}\n  \
                b: {component: parts/score.yml, inputs: {x: {type: uri_folder, path: data}}}\n";
    project.write("job.yml", yaml);
    let set = [("jobs.b.mini_batch_size".to_owned(), "9".to_owned())];
    let loaded = load_any(RunsOn::ThisMachine, &project.path("job.yml"), &set).unwrap();
    let Loaded::Pipeline(loaded) = loaded else { panic!("two steps") };
    let [a, b] = &loaded.pipeline.steps[..] else { panic!("two steps") };
    assert_eq!(origin(&project, &a.spec, "mini_batch_size"), "parts/score.yml:4, as jobs.a.mini_batch_size");
    assert_eq!(origin(&project, &b.spec, "mini_batch_size"), "--set jobs.b.mini_batch_size");
    assert_eq!(origin(&project, &loaded.spec, "display_name"), "job.yml:2");
}

#[test]
fn what_is_no_file_is_named_in_words() {
    let project = Project::new();
    let folder = project.path("");
    let of = |text: &str, shown: Option<&str>| {
        let job = JobText { text, folder: &folder, root: &folder, allowed: &[], sent: None, reach: None };
        let called = Called { display_name: Some("Nightly".into()), ..Called::default() };
        let given = Given { text: Some(job), called: Some(&called), shown, ..Given::default() };
        let Loaded::Job(spec) = load_given(RunsOn::ThisMachine, Path::new(""), given).unwrap() else {
            panic!()
        };
        spec
    };
    let spec = of(REQUIRED, None);
    assert_eq!(origin(&project, &spec, "name"), "job file:1");
    assert_eq!(origin(&project, &spec, "display_name"), "said when it was handed in");
    let spec = of(REQUIRED, Some("deployment a of endpoint b"));
    assert_eq!(origin(&project, &spec, "entry_script"), "deployment a of endpoint b:2");
    let json =
        r#"{"name": "job-1", "entry_script": "score.py", "inputs": [{"type": "file", "path": "data"}]}"#;
    assert_eq!(origin(&project, &of(json, None), "name"), "job file");
}
