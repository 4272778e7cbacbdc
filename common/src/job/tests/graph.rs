//! The graph that a pipeline job keeps.

use super::*;

/// The document of the component that the graph of this file is, `FOLDER` in the place of the project's folder.
fn component(project: &Project, yaml: &str, overrides: &[(&str, &str)]) -> Option<(Json, Graph)> {
    project.write("job.yml", yaml);
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let path = project.path("job.yml");
    let given = Given { overrides: &overrides, ..Given::default() };
    let loaded =
        load_given(RunsOn::ThisMachine, &path, given).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    let graph = Graph::of(&path, given, &loaded)?;
    let folder = project.folder.path().to_str().unwrap();
    let text = graph.documents[COMPONENT_FILE].replace(folder, "FOLDER");
    Some((serde_json::from_str(&text).unwrap(), graph))
}

const STEPS: &str = "jobs:
  prep:
    command: ls ${{inputs.raw}} ${{inputs.n}} > ${{outputs.o}}/x; cp -r ${{inputs.side}} ${{outputs.p}}
    code: src
    inputs: {raw: '${{parent.inputs.raw}}', n: '${{parent.inputs.n}}', side: {type: uri_file, path: data/a.csv}}
    outputs: {o: {type: uri_folder, path: 'there/${{name}}'}, p: '${{parent.outputs.all}}'}
  score:
    type: parallel
    inputs: {o: '${{parent.jobs.prep.outputs.o}}'}
    input_data: ${{inputs.o}}
    task: {entry_script: score.py}
";

#[test]
fn what_a_pipeline_is_given_are_the_defaults_of_its_graph() {
    let project = Project::new();
    let yaml = format!(
        "type: pipeline\ninputs: {{raw: {{path: data, mode: download}}, n: {{type: integer, value: 3}}}}\n\
         outputs: {{all: {{type: uri_folder, path: all}}}}\nsettings: {{force_rerun: true}}\n{STEPS}"
    );
    let (document, graph) = component(&project, &yaml, &[("inputs.n.value", "7")]).unwrap();
    assert_eq!(
        document["inputs"],
        serde_json::json!({
            "raw": {"type": "uri_folder", "path": "FOLDER/data", "mode": "download"},
            "n": {"type": "integer", "default": 7},
        })
    );
    assert_eq!(document["outputs"], serde_json::json!({"all": {"type": "uri_folder"}}));
    assert_eq!(document.get("settings"), None);
    let prep = &document["jobs"]["prep"];
    assert_eq!(prep["inputs"]["side"]["path"], "FOLDER/data/a.csv");
    assert_eq!(
        prep["outputs"],
        serde_json::json!({"o": {"type": "uri_folder"}, "p": "${{parent.outputs.all}}"})
    );
    let code: Vec<(&str, &str)> = graph.code.iter().map(|(name, step)| (&**name, &**step)).collect();
    assert_eq!(code, [("code-1", "prep"), ("code-2", "score")]);
    assert_eq!(document["jobs"]["score"]["task"]["code"], "code-2");
}

#[test]
fn what_a_component_says_of_its_inputs_stays() {
    let project = Project::new();
    let declared = "inputs: {raw: {type: uri_folder}, n: {type: integer, default: 1, max: 9}, m: 4}\n\
                    outputs: {all: {type: uri_folder}}\n";
    let steps = STEPS.replace("code: src", "code: ../src").replace("path: data/a.csv", "path: ../data/a.csv");
    let steps = steps.replace("entry_script: score.py", "code: .., entry_script: score.py");
    project.write("components/all.yml", &format!("type: pipeline\n{declared}{steps}"));
    let yaml = "type: pipeline\ncomponent: components/all.yml\ninputs: {raw: {path: data}, n: 5}\n";
    let (document, graph) = component(&project, yaml, &[]).unwrap();
    assert_eq!(
        document["inputs"],
        serde_json::json!({
            "raw": {"type": "uri_folder", "path": "FOLDER/data"},
            "n": {"type": "integer", "max": 9, "default": 5},
            "m": 4,
        })
    );
    assert_eq!(graph.code.len(), 2, "{graph:?}");
    assert_eq!(document["jobs"]["prep"]["inputs"]["side"]["path"], "FOLDER/components/../data/a.csv");

    // What is no pipeline has none.
    assert_eq!(component(&project, REQUIRED, &[]).map(|(document, _)| document), None);
    // One that is one job to prs has one.
    let one = "type: pipeline\ninputs: {d: {type: uri_folder, path: data}}\njobs: {s: {type: parallel, inputs: {d: '${{parent.inputs.d}}'}, \
               input_data: '${{inputs.d}}', task: {entry_script: score.py}}}\n";
    assert_eq!(component(&project, one, &[]).unwrap().1.code.len(), 1);
}
