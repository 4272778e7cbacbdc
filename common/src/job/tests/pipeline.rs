//! Commands, components and pipelines of several steps.

use super::*;
use crate::job::pipeline::{OutputPlace, Pipeline};

/// A command that prepares, a parallel step, and a command that reads its rows.
const CHAIN: &str = "\
type: pipeline
display_name: The chain
settings: {default_compute: azureml:cpu, continue_on_step_failure: false}
inputs:
  raw: {type: uri_folder, path: data}
  factor: 3
  label: {type: string, default: \"it's\"}
outputs:
  total: {type: uri_file}
jobs:
  prep:
    type: command
    code: src
    command: python prep.py --in \"${{inputs.raw}}\" --label '${{parent.inputs.label}}' --out ${{outputs.files}}
    inputs: {raw: '${{parent.inputs.raw}}'}
    outputs: {files: {type: uri_folder}}
  score:
    type: parallel
    inputs:
      files: '${{parent.jobs.prep.outputs.files}}'
      factor: '${{parent.inputs.factor}}'
    outputs: {rows: {type: uri_file}}
    input_data: ${{inputs.files}}
    mini_batch_size: '${{parent.inputs.factor}}'
    task:
      entry_script: score.py
      program_arguments: --factor ${{inputs.factor}} --label ${{parent.inputs.label}}
      append_row_to: ${{outputs.rows}}
  sum:
    type: command
    command: cat ${{inputs.rows}} > ${{outputs.total}}
    inputs: {rows: '${{parent.jobs.score.outputs.rows}}'}
    outputs: {total: '${{parent.outputs.total}}'}
";

impl Project {
    fn pipeline(&self, yaml: &str) -> Result<LoadedPipeline, JobFileError> {
        self.write("job.yml", yaml);
        match load_any(RunsOn::ThisMachine, &self.path("job.yml"), &[])? {
            Loaded::Pipeline(loaded) => Ok(*loaded),
            Loaded::Job(spec) => panic!("{yaml} is one job: {spec:?}"),
        }
    }

    fn steps(&self, yaml: &str) -> Pipeline {
        self.pipeline(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}")).pipeline
    }

    fn refused(&self, yaml: &str) -> Vec<String> {
        self.write("job.yml", yaml);
        let error = load_any(RunsOn::ThisMachine, &self.path("job.yml"), &[]).expect_err(yaml);
        let folder = self.folder.path().to_str().unwrap();
        let shown = |problem: &Problem| {
            let line = problem.line.map(|line| format!("{line}: ")).unwrap_or_default();
            format!("{line}{problem}").replace(folder, "FOLDER")
        };
        error.problems.iter().map(shown).collect()
    }
}

fn output_of(step: &str, output: &str) -> InputSource {
    InputSource::Output(StepOutput { step: step.to_owned(), output: output.to_owned() })
}

#[test]
fn steps_are_jobs_that_need_each_other() {
    let project = Project::new();
    let LoadedPipeline { spec, pipeline } = project.pipeline(CHAIN).unwrap();
    assert_eq!((&*spec.name, spec.display_name.as_deref()), ("the-chain", Some("The chain")));
    let names: Vec<(&str, Vec<&str>)> = pipeline
        .steps
        .iter()
        .map(|step| (&*step.name, step.needs.iter().map(|need| &**need).collect()))
        .collect();
    assert_eq!(names, [("prep", vec![]), ("score", vec!["prep"]), ("sum", vec!["score"])]);
    assert!(!pipeline.continue_on_step_failure);
    let [prep, score, sum] = &pipeline.steps[..] else { panic!("{pipeline:?}") };
    assert!(prep.spec.is_command() && sum.spec.is_command() && sum.spec.has_no_code());
    assert_eq!(prep.spec.source_directory, project.path("src"));
    assert_eq!(
        prep.spec.arguments,
        [
            "t:python prep.py --in \"",
            "d:${{side_inputs.raw}}",
            "t:\" --label '",
            "s:it's",
            "t:' --out ",
            "o:${{outputs.files}}"
        ]
    );
    assert_eq!(score.spec.inputs[0].source, output_of("prep", "files"));
    assert_eq!(score.spec.arguments, ["--factor", "3", "--label", "it's"]);
    assert_eq!(score.spec.mini_batch_size, MiniBatchSize::Files(3));
    assert_eq!((&*score.outputs["rows"], &*prep.outputs["files"]), ("rows", "files"));
    let [total] = &pipeline.outputs[..] else { panic!("{pipeline:?}") };
    assert_eq!((&*total.name, &*total.step, &*total.output), ("total", "sum", "total"));
    let spec = &sum.spec;
    assert_eq!((spec.node_count, spec.process_count_per_node, spec.run_max_try), (1, Some(1), 1));
    assert_eq!((spec.error_threshold, spec.output_action), (0, OutputAction::SummaryOnly));
    assert_eq!(spec.inputs[0].source, InputSource::OneItem);
}

#[test]
fn a_command_by_itself_is_a_job() {
    let project = Project::new();
    let spec = project
        .load("type: command\ncommand: echo ${{inputs.n}} $[[ --m ${{inputs.m}} ]]\ninputs: {n: 5}\nlimits: {timeout: 7}\n")
        .unwrap_err();
    assert!(spec.to_string().contains("there is no input `m`"), "{spec}");
    let spec = project.load("command: echo ${{inputs.n}}\ninputs: {n: 5}\nlimits: {timeout: 7}\n").unwrap();
    assert_eq!(spec.arguments, ["t:echo ", "o:5"]);
    assert_eq!((spec.run_invocation_timeout, spec.is_command()), (7, true));
    for (yaml, expected) in [
        ("type: command\n", "command: the key is missing: give the command to run"),
        ("command: ''\n", "command: \"\" is no command"),
        ("command: a ${{inputs.x}}\n", "command: ${{inputs.x}}: there is no input `x`"),
        ("command: a ${{outputs.x}}\n", "command: ${{outputs.x}}: there is no output `x`"),
        ("command: a ${{inputs.x\n", "command: `${{inputs.x` has no end"),
        (
            "command: a\ndistribution: {type: mpi}\n",
            "distribution: a command runs in one process on one node",
        ),
        (
            "command: a\nresources: {instance_count: 2}\n",
            "resources.instance_count: 2: a command runs on one node",
        ),
        ("command: a\ninputs: {PATH: 1}\n", "inputs.PATH: PATH is reserved"),
        ("command: a\nlimits: {timeout: 0}\n", "limits.timeout: 0 is out of range"),
        ("type: command\ncommand: a\ntask: {}\n", "task: there is no such key"),
        ("command: a\ncode: absent\n", "code: cannot read FOLDER/absent"),
    ] {
        let problems = project.problems(yaml);
        assert!(problems[0].starts_with(expected), "{yaml}\n{problems:#?}");
    }
}

#[test]
fn components_give_what_their_steps_do_not() {
    let project = Project::new();
    project.write(
        "parts/count.yml",
        "\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: count
type: command
version: 1
inputs:
  text: {type: uri_file}
  times: {type: integer, default: 2, min: 1, max: 9}
  mode: {type: string, optional: true, enum: [fast, slow]}
outputs:
  counted: {type: uri_file}
code: .
command: >-
  wc ${{inputs.text}} -n ${{inputs.times}} $[[--mode ${{inputs.mode}}]] > ${{outputs.counted}}
environment_variables: {A: 1, B: 2}
",
    );
    project.write(
        "parts/score.yml",
        "type: parallel\ninputs: {files: {type: uri_folder}}\noutputs: {rows: {type: uri_file}}\ninput_data: ${{inputs.files}}\n\
         task: {entry_script: own.py, append_row_to: '${{outputs.rows}}'}\nmini_batch_size: 4\n",
    );
    project.write("parts/own.py", "x");
    let pipeline = "\
type: pipeline
jobs:
  one:
    component: file:./parts/count.yml
    inputs: {text: {type: uri_file, path: score.py}, times: 5}
    environment_variables: {B: 3}
  two:
    component: parts/count.yml
    inputs: {text: '${{parent.jobs.one.outputs.counted}}', mode: fast}
  three:
    component: {type: command, command: 'echo ${{inputs.x}}', inputs: {x: {type: number}}}
    inputs: {x: 0.5}
  four:
    component: parts/score.yml
    inputs: {files: {path: data}}
    mini_batch_size: 5
";
    let steps = project.steps(pipeline).steps;
    assert_eq!(steps[0].spec.source_directory, project.path("parts"));
    assert_eq!(
        steps[0].spec.arguments,
        ["t:wc ", "o:${{side_inputs.text}}", "t: -n ", "o:5", "t:  > ", "o:${{outputs.counted}}"]
    );
    let variables: Vec<_> = steps[0].spec.environment_variables.values().collect();
    assert_eq!(variables, ["1", "3"]);
    assert!(steps[1].spec.arguments.contains(&"o:fast".to_owned()), "{:?}", steps[1].spec.arguments);
    assert_eq!(steps[1].needs, ["one"]);
    assert_eq!(steps[2].spec.arguments, ["t:echo ", "o:0.5"]);
    assert_eq!(steps[3].spec.source_directory, project.path("parts"));
    assert_eq!(steps[3].spec.mini_batch_size, MiniBatchSize::Files(5));
    for (from, to, expected) in [
        ("times: 5}", "times: 10}", "5: jobs.one.inputs.times: 10 is more than 9"),
        ("mode: fast", "mode: quick", "9: jobs.two.inputs.mode: \"quick\" is not one of fast, slow"),
        (
            "mode: fast",
            "mod: fast",
            "9: jobs.two.inputs.mod: parts/count.yml has no input `mod`: did you mean `mode`?",
        ),
        (
            "text: {type: uri_file, path: score.py}, ",
            "",
            "3: jobs.one.inputs.text: the input is missing, which file:./parts/count.yml requires",
        ),
        (
            "file:./parts/count.yml",
            "parts/cont.yml",
            "4: jobs.one.component: there is no component FOLDER/parts/cont.yml",
        ),
        (
            "file:./parts/count.yml",
            "azureml:count@latest",
            "4: jobs.one.component: azureml:count@latest: a component of a registry",
        ),
        (
            "times: 5}",
            "times: 5}\n    outputs: {conted: {}}",
            "6: jobs.one.outputs.conted: file:./parts/count.yml has no output `conted`: did you mean",
        ),
    ] {
        let problems = project.refused(&pipeline.replace(from, to));
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{to}\n{problems:#?}");
    }
    // What is wrong in a component names its file and line.
    project.write("parts/count.yml", "type: command\ncommand: a ${{inputs.b}}\nlimits: {timeout: x}\n");
    let problems = project.refused("type: pipeline\njobs: {one: {component: parts/count.yml}}\n");
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0].starts_with("parts/count.yml:2: jobs.one.command: ${{inputs.b}}: there is no input"),
        "{problems:#?}"
    );
    assert!(problems[1].starts_with("parts/count.yml:3: jobs.one.limits.timeout: \"x\""), "{problems:#?}");
}

#[test]
fn a_pipeline_component_becomes_its_steps() {
    let project = Project::new();
    project.write(
        "parts/pair.yml",
        "\
type: pipeline
inputs: {text: {type: uri_file}, word: {type: string, default: w}}
outputs: {done: {type: uri_file}}
jobs:
  first:
    type: command
    command: 'cp ${{inputs.a}} ${{outputs.b}}; echo ${{parent.inputs.word}}'
    inputs: {a: '${{parent.inputs.text}}'}
    outputs: {b: {type: uri_file}}
  second:
    type: command
    command: 'cp ${{inputs.a}} ${{outputs.b}}'
    inputs: {a: '${{parent.jobs.first.outputs.b}}'}
    outputs: {b: '${{parent.outputs.done}}'}
",
    );
    let pipeline = "\
type: pipeline
outputs: {result: {type: uri_file}}
jobs:
  outer:
    component: parts/pair.yml
    inputs: {text: {type: uri_file, path: score.py}}
    outputs: {done: '${{parent.outputs.result}}'}
  last:
    type: command
    command: 'cat ${{inputs.x}}; cat ${{inputs.y}}'
    inputs: {x: '${{parent.jobs.outer.outputs.done}}', y: '${{parent.jobs.outer.inputs.text}}'}
";
    let loaded = project.steps(pipeline);
    let names: Vec<_> =
        loaded.steps.iter().map(|step| format!("{} {}", step.name, step.needs.join(","))).collect();
    assert_eq!(names, ["outer.first ", "outer.second outer.first", "last outer.second"]);
    assert_eq!((&*loaded.outputs[0].step, &*loaded.outputs[0].output), ("outer.second", "b"));
    assert_eq!(loaded.steps[0].spec.arguments.last().unwrap(), "o:w");
    // As the whole of a pipeline.
    let whole = "type: pipeline\ncomponent: parts/pair.yml\ninputs: {text: {type: uri_file, path: score.py}, word: v}\n";
    let loaded = project.steps(whole);
    let names: Vec<_> = loaded.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!((&*loaded.outputs[0].name, &*loaded.outputs[0].step), ("done", "second"));
    assert_eq!(loaded.steps[0].spec.arguments.last().unwrap(), "o:v");
    // A component in itself.
    project.write("parts/pair.yml", "type: pipeline\njobs: {a: {component: ./pair.yml}}\n");
    let problems = project.refused("type: pipeline\ncomponent: parts/pair.yml\n");
    assert!(
        problems.iter().any(|problem| problem.contains("a component may not be in itself")),
        "{problems:#?}"
    );
}

#[test]
fn a_step_waits_for_those_that_it_depends_on() {
    let project = Project::new();
    project.write("pair.yml", "type: pipeline\njobs: {x: {command: a}, y: {command: a, depends_on: [x]}}\n");
    let yaml = "type: pipeline\njobs:\n  a: {command: a}\n  pair: {component: pair.yml, depends_on: a}\n  \
                last: {command: a, depends_on: [pair, a]}\n";
    let steps = project.steps(yaml).steps;
    let needs: Vec<_> = steps.iter().map(|step| format!("{}: {}", step.name, step.needs.join(","))).collect();
    assert_eq!(needs, ["a: ", "pair.x: a", "pair.y: a,pair.x", "last: pair.x,pair.y,a"]);
    for (jobs, expected) in [
        ("{a: {command: a, depends_on: b}}", "2: jobs.a.depends_on: there is no step `b`; there are: a"),
        ("{a: {command: a, depends_on: [a]}}", "2: jobs: the steps need each other: a needs a"),
        ("{a: {command: a, depends_on: {b: c}}}", "2: jobs.a.depends_on: a mapping where a list is expected"),
    ] {
        let problems = project.refused(&format!("type: pipeline\njobs: {jobs}\n"));
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{jobs}\n{problems:#?}");
    }
}

#[test]
fn what_one_text_makes_much_of_is_bounded() {
    let project = Project::new();
    let steps = |count: usize, step: &dyn Fn(usize) -> String| -> String {
        let steps: Vec<_> = (0..count).map(|at| format!("  s{at}: {{command: a, {}}}\n", step(at))).collect();
        steps.concat()
    };
    let half = steps(5_001, &|_| String::new());
    project.write("half.yml", &format!("type: pipeline\njobs:\n{half}"));
    let five_hundred = steps(500, &|_| String::new());
    let all = (0..500).map(|at| format!("s{at}")).collect::<Vec<_>>().join(", ");
    project.write("many.yml", &format!("type: pipeline\njobs:\n{five_hundred}"));
    let chain = steps(200, &|at| match at {
        199 => "inputs: {x: 1}".to_owned(),
        _ => format!("inputs: {{x: '${{{{parent.jobs.s{}.inputs.x}}}}'}}", at + 1),
    });
    let value = "x".repeat(1 << 20);
    for (yaml, expected) in [
        (
            "jobs:\n  a: {component: half.yml}\n  b: {component: half.yml}\n".to_owned(),
            "more than 10000 steps",
        ),
        (
            format!("jobs:\n{five_hundred}  b: {{component: many.yml, depends_on: [{all}]}}\n"),
            "need each other more than 200000 times",
        ),
        (format!("jobs:\n{chain}"), "more than 100 steps have their inputs from one another"),
        (
            format!(
                "inputs: {{x: {value}}}\njobs: {{s: {{command: 'a {}'}}}}\n",
                "${{parent.inputs.x}}".repeat(65)
            ),
            "more than 64 MiB together",
        ),
    ] {
        let problems = project.refused(&format!("type: pipeline\n{yaml}"));
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:.300?}");
        assert!(problems.len() <= 101, "{expected}");
    }
}

#[test]
fn a_pipeline_with_one_parallel_component_is_that_job() {
    let project = Project::new();
    project.write("c.yml", "type: parallel\ninputs: {x: {type: uri_folder}}\ninput_data: ${{inputs.x}}\ntask: {entry_script: score.py}\n");
    let spec = project
        .load("type: pipeline\nname: flow\njobs: {s: {component: c.yml, inputs: {x: {path: data}}}}\n")
        .unwrap();
    assert_eq!((&*spec.name, &*spec.entry_script), ("flow", "score.py"));
}

#[test]
fn what_is_wrong_with_a_pipeline_is_said_at_its_place() {
    let project = Project::new();
    for (yaml, expected) in [
        ("type: pipeline\njobs: {}\n", "2: jobs: there is no step"),
        ("type: pipeline\n", "jobs: there is no step"),
        ("type: pipeline\njobs: {a: {type: sweep}}\n", "2: jobs.a: a step of type sweep is not supported"),
        ("type: pipeline\njobs: {a: {}}\n", "2: jobs.a: a step without a type is not supported"),
        (
            "type: pipeline\njobs: {a-b: {command: x}, c: {command: x}}\n",
            "2: jobs.a-b: \"a-b\" is not the name of a step",
        ),
        (
            "type: pipeline\njobs: {a_b: {command: x}, A_B: {command: x}}\n",
            "2: jobs.A_B: the id of its job would be that of step a_b",
        ),
        (
            "type: pipeline\njobs: {a: {type: pipeline, jobs: {}}}\n",
            "2: jobs.a: a pipeline as a step is a component",
        ),
    ] {
        let problems = project.refused(yaml);
        assert!(problems[0].starts_with(expected), "{yaml}\n{problems:#?}");
    }
    for (from, to, expected) in [
        (
            "jobs.prep.outputs.files",
            "jobs.perp.outputs.files",
            "20: jobs.score.inputs.files: ${{parent.jobs.perp.outputs.files}}: there is no step `perp`: did you mean `prep`?",
        ),
        (
            "jobs.prep.outputs.files",
            "jobs.prep.outputs.file",
            "20: jobs.score.inputs.files: ${{parent.jobs.prep.outputs.file}}: step prep has no output `file`: did you mean `files`?",
        ),
        (
            "jobs.prep.outputs.files",
            "jobs.prep.inputs.x",
            "20: jobs.score.inputs.files: ${{parent.jobs.prep.inputs.x}}: step prep has no input `x`; there are: raw",
        ),
        (
            "'${{parent.inputs.factor}}'\n    outputs",
            "'${{parent.inputs.fator}}'\n    outputs",
            "21: jobs.score.inputs.factor: ${{parent.inputs.fator}}: the pipeline has no input `fator`: did you mean `factor`?",
        ),
        (
            "'${{parent.outputs.total}}'",
            "'${{parent.outputs.totl}}'",
            "33: jobs.sum.outputs.total: the pipeline has no output `totl`; there are: total",
        ),
        (
            "mini_batch_size: '${{parent.inputs.factor}}'",
            "mini_batch_size: '${{parent.inputs.raw}}'",
            "24: jobs.score.mini_batch_size: ${{parent.inputs.raw}} is data: bind it",
        ),
        (
            "entry_script: score.py",
            "entry_script: absent.py",
            "26: jobs.score.task.entry_script: there is no file absent.py",
        ),
        (
            "{type: uri_file}\njobs",
            "{type: uri_file, path: 's3://bucket'}\njobs",
            "9: outputs.total.path: this is a whole bucket",
        ),
        (
            "{files: {type: uri_folder}}",
            "{files: {type: uri_folder, path: 'https://a:b@host/x'}}",
            "16: jobs.prep.outputs.files.path: an output cannot be put into https:",
        ),
        (
            "{raw: '${{parent.inputs.raw}}'}",
            "{raw: '${{parents.inputs.raw}}'}",
            "15: jobs.prep.inputs.raw: ${{parents.inputs.raw}}: write `parent`",
        ),
        (
            "{raw: '${{parent.inputs.raw}}'}",
            "{raw: '${{parent.jobs.sum.outputs.total}}'}",
            "11: jobs: the steps need each other: prep needs sum needs score needs prep",
        ),
        ("code: src\n", "cod: src\n", "13: jobs.prep.cod: there is no such key: did you mean `code`?"),
    ] {
        let changed = CHAIN.replacen(from, to, 1);
        assert_ne!(changed, CHAIN, "{from}");
        let problems = project.refused(&changed);
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{to}\n{problems:#?}");
    }
    // A step that needs itself.
    let itself = "type: pipeline\njobs:\n  a:\n    command: x\n    inputs: {i: '${{parent.jobs.a.outputs.o}}'}\n    outputs: {o: {}}\n";
    assert!(project.refused(itself)[0].contains("a needs a"), "{:#?}", project.refused(itself));
    let each_other = "type: pipeline\njobs:\n  a: {command: x, inputs: {i: '${{parent.jobs.b.inputs.i}}'}}\n  b: {command: x, inputs: {i: '${{parent.jobs.a.inputs.i}}'}}\n";
    assert!(project.refused(each_other)[0].contains("the inputs of steps name each other"));
    // A path that only a pipeline has.
    let native = REQUIRED.replace("path: data", "path: 'prs-step://a/b'");
    assert!(project.problem(&native).contains("prs-step://a/b is no path"), "{}", project.problem(&native));
}

#[test]
fn outputs_have_places_of_their_own() {
    let project = Project::new();
    let with = |total: &str, files: &str| {
        CHAIN
            .replacen("{type: uri_file}\njobs", &format!("{{type: uri_file, path: '{total}'}}\njobs"), 1)
            .replacen(
                "{files: {type: uri_folder}}",
                &format!("{{files: {{type: uri_folder, path: '{files}'}}}}"),
                1,
            )
    };
    let places = |yaml: &str| {
        let mut loaded = project.pipeline(yaml).unwrap();
        loaded.put_job_ids("flow-1");
        let place =
            |place: OutputPlace| format!("{}.{} {} {}", place.step, place.output, place.is_file, place.to);
        loaded.pipeline.places.into_iter().map(place).collect::<Vec<_>>()
    };
    let here = project.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    let of_sum = |loaded: &[String]| loaded.iter().find(|place| place.starts_with("sum.")).unwrap().clone();
    let found = places(&with("out/", "../x/${{name}}"));
    assert!(of_sum(&found).ends_with(&format!(" true {here}/out/total")), "{found:?}");
    let parent = project.path("..").canonicalize().unwrap();
    assert!(found.contains(&format!("prep.files false {}/x/flow-1-prep", parent.display())), "{found:?}");
    let found = places(&with("s3://bucket/a/t.csv", "s3://bucket/${{output_name}}/"));
    assert!(of_sum(&found).ends_with(" true s3://bucket/a/t.csv"), "{found:?}");
    assert!(found.contains(&"prep.files false s3://bucket/files".to_owned()), "{found:?}");
    // Those that a component declares start from its file; what the step says of an output counts before.
    project.write(
        "components/make.yml",
        "command: 'true'\noutputs: {a: {path: ../made/a}, b: {type: uri_file, path: 'made/${{name}}.txt'}, c: {path: c}, d: {path: 's3://bucket/d'}}\n",
    );
    let step = "type: pipeline\noutputs: {all: {}}\njobs: {make: {component: components/make.yml, \
                outputs: {c: '${{parent.outputs.all}}', d: {path: other}}}}\n";
    let mut found = places(step);
    found.sort();
    let root = project.path("").canonicalize().unwrap();
    let root = root.display();
    let expected =
        ["a false ROOT/made/a", "b true ROOT/components/made/flow-1-make.txt", "d false ROOT/other"];
    let expected = expected.map(|place| format!("make.{}", place.replace("ROOT", &root.to_string())));
    assert_eq!(found, expected);
    project.write(
        "components/pipeline.yml",
        "type: pipeline\noutputs: {x: {path: x}, y: {path: y}}\njobs: {a: {command: 'true', outputs: \
         {x: '${{parent.outputs.x}}', y: '${{parent.outputs.y}}'}}}\n",
    );
    let whole = "type: pipeline\ncomponent: components/pipeline.yml\noutputs: {y: {path: here}}\n";
    let mut found = places(whole);
    found.sort();
    assert_eq!(found, [format!("a.x false {root}/components/x"), format!("a.y false {root}/here")]);
    let twice = "type: pipeline\njobs: {one: {component: components/make.yml}, two: {component: components/make.yml}}\n";
    let problems = project.refused(twice);
    assert!(problems[0].contains("give each a place of its own"), "{problems:#?}");
    let problems = project.refused(&with("out/x", "out"));
    assert!(problems[0].contains("is, or is in, the place of the output"), "{problems:#?}");
}

#[test]
fn a_wrong_reference_in_a_step_is_told_once_where_it_stands() {
    let project = Project::new();
    let place = "azureml://datastores/nowhere/paths/a";
    let yaml = CHAIN.replace("inputs: {raw: '${{parent.inputs.raw}}'}", "inputs: {raw: {path: PLACE}}");
    // The script names an input that has no data then.
    let yaml = yaml.replace("--in \"${{inputs.raw}}\" ", "");
    let said = project.refused(&yaml.replace("PLACE", place));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("15: jobs.prep.inputs.raw.path: the datastore nowhere is not known"),
        "{said:?}"
    );
    project.write("job.yml", &yaml.replace("PLACE", "data"));
    let set = [("jobs.prep.inputs.raw.path".to_owned(), place.to_owned())];
    let error = load_any(RunsOn::ThisMachine, &project.path("job.yml"), &set).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    assert_eq!(error.problems[0].key, "--set jobs.prep.inputs.raw.path");
}
