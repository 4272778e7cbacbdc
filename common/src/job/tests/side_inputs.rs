//! Side inputs and named outputs of native job files.

use super::*;

#[test]
fn side_inputs_are_files_folders_and_urls() {
    let project = Project::new();
    let yaml = format!(
        "{REQUIRED}side_inputs: {{model: ./pkg, one: score.py, far: {{path: 's3://bucket/a', mode: direct}}}}\n\
         arguments: ['${{{{side_inputs.model}}}}/x', '--o=${{{{ outputs.made }}}}']\n\
         environment_variables: {{ONE: '${{{{side_inputs.one}}}}', MADE: '${{{{outputs.made}}}}'}}\n"
    );
    let spec = project.load(&yaml).unwrap();
    let named: Vec<_> = spec.side_inputs.iter().map(|one| (&*one.name, one.named(), one.mode)).collect();
    let path = |relative: &str| project.path(relative).display().to_string();
    let expected = [
        ("model", path("pkg"), InputMode::Upload),
        ("one", path("score.py"), InputMode::Upload),
        ("far", "s3://bucket/a".to_owned(), InputMode::Direct),
    ];
    assert_eq!(named, expected);
    let made = NamedOutput { name: "made".to_owned(), path: "made".to_owned(), is_file: false };
    assert_eq!(spec.outputs, [made]);
    let stored = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<JobSpec>(&stored).unwrap(), spec);
}

#[test]
fn wrong_side_inputs_and_outputs_are_refused_by_name() {
    let project = Project::new();
    fs::create_dir(project.path("empty")).unwrap();
    let cannot_read = "side_inputs.m: cannot read FOLDER/absent: No such file or directory";
    for (yaml, expected) in [
        ("side_inputs: {m: absent}", cannot_read),
        ("side_inputs: {m: 'data/*.csv'}", "side_inputs.m: cannot read FOLDER/data/*.csv"),
        ("side_inputs: {m: empty}", "side_inputs.m: there is no file in FOLDER/empty"),
        ("side_inputs: {m: ''}", "side_inputs.m: it is empty: give a file, a folder, or an s3:// URL"),
        ("side_inputs: {m: null}", "side_inputs.m: nothing is not a side input: give its path"),
        ("side_inputs: {m: [a]}", "side_inputs.m: a list is not a side input"),
        ("side_inputs: {m-1: data}", "side_inputs.m-1: \"m-1\" is not the name of a side input"),
        ("side_inputs: {m: {mode: direct}}", "side_inputs.m.path: the key is missing"),
        (
            "side_inputs: {m: {path: data, mode: fast}}",
            "side_inputs.m.mode: \"fast\" is not one of upload, direct",
        ),
        (
            "side_inputs: {m: {path: data, mod: x}}",
            "side_inputs.m.mod: there is no such key: did you mean `mode`?",
        ),
        ("side_inputs: {m: 'ftp://u:secret@h/x'}", "side_inputs.m: ftp:// is not supported yet"),
        ("side_inputs: {m: 'https://u:secret@h/x/'}", "side_inputs.m: a folder cannot be listed over HTTP"),
        ("side_inputs: {m: 's3://user:secret@bucket/x'}", "side_inputs.m: a URL must hold no credentials"),
        ("arguments: ['${{side_inputs.x}}']", "arguments[0]: ${{side_inputs.x}}: there is no side input `x`"),
        (
            "side_inputs: {model: data}\narguments: ['${{side_inputs.modle}}']",
            "arguments[0]: ${{side_inputs.modle}}: there is no side input `modle`: did you mean `model`?",
        ),
        (
            "environment_variables: {A: '${{x}}'}",
            "environment_variables.A: ${{x}} is no reference: there are",
        ),
        (
            "arguments: ['a', '${{inputs.x}}']",
            "arguments[1]: ${{inputs.x}}: run() gets what is in the inputs",
        ),
        ("arguments: ['${{outputs.a']", "arguments[0]: `${{outputs.a` has no end"),
        ("arguments: ['${{outputs.a/b}}']", "arguments[0]: \"a/b\" is not the name of an output"),
        (
            "arguments: ['${{outputs.parallel_run_step.txt}}']",
            "arguments[0]: ${{outputs.parallel_run_step.txt}} is no",
        ),
        ("outputs: [a]", "outputs: a list where a mapping of names"),
        ("outputs: {a: [b]}", "outputs.a: a list is not an output"),
        ("outputs: {a: ../b}", "outputs.a: \"../b\" leads out of it"),
        ("outputs: {a: /b}", "outputs.a: \"/b\" is an absolute path"),
        ("outputs: {a: {type: uri_dir}}", "outputs.a.type: \"uri_dir\" is not one of uri_folder"),
        ("outputs: {a: {type: uri_file, path: .}}", "outputs.a: the output itself is no file"),
        ("outputs: {a: {pth: b}}", "outputs.a.pth: there is no such key: did you mean `path`?"),
        ("outputs: {a: x, b: ./x/y}", "outputs.b: x/y is, or is in, the output a at x"),
        ("outputs: {a: parallel_run_step.txt}", "outputs.a: the rows go into parallel_run_step.txt"),
        (
            "outputs: {a: failed_mini_batches.jsonl/b}",
            "outputs.a: \"failed_mini_batches.jsonl\" is, or some stores",
        ),
        ("outputs: {a: .tmp/b}", "outputs.a: \".tmp\" is, or some stores"),
    ] {
        let problem = project.problem(&format!("{REQUIRED}{yaml}\n"));
        assert!(problem.contains(expected), "{yaml}\n{problem}");
        assert!(!problem.contains("secret"), "{problem}");
    }
}
