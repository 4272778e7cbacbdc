//! Job files of every form with very many of something, and what they refer to.

use std::fs;
use std::path::Path;

use crate::lines;

/// What `--set` says: keys and values.
pub(crate) type Options = Vec<(String, String)>;

/// A job file with so many of something.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Whether each of them is a step.
    pub(crate) is_large: bool,
    /// The text, and what `--set` says, with what the text refers to in the folder.
    pub(crate) make: fn(&Path, usize) -> (String, Options),
}

const NATIVE: &str = "name: abc\nentry_script: main.py\n";
const INPUT: &str = "inputs: [{type: file, path: data}]\n";
const COMMAND: &str = "name: abc\ntype: command\n";
const PIPELINE: &str = "name: abc\ntype: pipeline\n";
const PARALLEL: &str = "name: abc\ntype: parallel\nmini_batch_size: '1'\ninput_data: ${{inputs.x}}\n";

/// A form that is its text alone.
macro_rules! texts {
    ($($name:literal $is_large:literal |$count:ident| $text:expr;)*) => {
        [$(Form { name: $name, is_large: $is_large, make: |_, $count| ($text, Vec::new()) }),*]
    };
}

pub(crate) const FORMS: &[&[Form]] = &[&TEXTS, &WITH_FILES];

const TEXTS: [Form; 41] = texts! {
    "keys that there are not" false |n| format!("{NATIVE}{INPUT}{}", lines(n, |at| format!("zzkey{at:05}: 1")));
    "keys that are misspelt" false |n| format!("{NATIVE}{INPUT}{}", lines(n, |at| format!("inputs{at:05}: 1")));
    "tags" false |n| format!("{NATIVE}{INPUT}tags:\n{}", lines(n, |at| format!("  k{at}: v")));
    "arguments" false |n| format!("{NATIVE}{INPUT}arguments:\n{}", lines(n, |at| format!("- v{at}")));
    "arguments that are no text" false |n| format!("{NATIVE}{INPUT}arguments:\n{}", lines(n, |_| "- [1]".into()));
    "inputs" false |n| format!("{NATIVE}inputs:\n{}", lines(n, |at| format!("- {{path: data, name: n{at}}}")));
    "inputs that are not there" false |n| format!("{NATIVE}inputs:\n{}", lines(n, |at| format!("- {{path: g{at}}}")));
    "inputs of names that are not known" false |n|
        format!("{NATIVE}inputs:\n{}", lines(n, |at| format!("- 'azureml:n{at}:1'")));
    "inputs out of the folder" false |n| format!("{NATIVE}inputs:\n{}", lines(n, |at| format!("- ../{at}")));
    "paths of an input" false |n|
        format!("{NATIVE}inputs:\n- type: file\n  paths:\n{}", lines(n, |at| format!("  - data/{at}")));
    "side inputs in arguments" false |n| format!(
        "{NATIVE}{INPUT}side_inputs:\n{}arguments:\n{}",
        lines(n, |at| format!("  n{at}: data")),
        lines(n, |at| format!("- ${{{{side_inputs.n{at}}}}}"))
    );
    "side inputs that there are not" false |n| format!(
        "{NATIVE}{INPUT}side_inputs:\n{}arguments:\n{}",
        lines(n, |at| format!("  n{at}: data")),
        lines(n, |at| format!("- ${{{{side_inputs.zzzzzzzz{at}}}}}"))
    );
    "outputs in variables" false |n| format!(
        "{NATIVE}{INPUT}environment_variables:\n{}",
        lines(n, |at| format!("  N{at}: ${{{{outputs.n{at}}}}}"))
    );
    "outputs in one argument" false |n|
        format!("{NATIVE}{INPUT}arguments: ['{}']", lines(n, |at| format!("${{{{outputs.n{at}}}}}")).replace('\n', ""));
    "outputs in one another" false |n|
        format!("{NATIVE}{INPUT}outputs:\n{}", lines(n, |at| format!("  n{at}: a/{}", "b/".repeat(at % 7))));
    "partition keys" false |n| format!("{NATIVE}{INPUT}partition_keys:\n{}", lines(n, |at| format!("- k{at}")));
    "types of columns" false |n| format!(
        "{NATIVE}inputs:\n- type: tabular\n  path: data/{{c}}.csv\n  partition_format: '{{c}}.csv'\n  dtype:\n{}",
        lines(n, |at| format!("    k{at}: str"))
    );
    "columns" false |n| format!(
        "{NATIVE}inputs:\n- type: tabular\n  path: data/a.csv\n  columns:\n{}",
        lines(n, |at| format!("  - k{at}"))
    );
    "packages" false |n|
        format!("{NATIVE}{INPUT}environment:\n  requirements:\n{}", lines(n, |at| format!("  - p{at}==1")));
    "anchors" false |n| format!(
        "{NATIVE}{INPUT}tags:\n{}properties:\n{}",
        lines(n, |at| format!("  k{at}: &a{at} v")),
        lines(n, |at| format!("  k{at}: *a{at}"))
    );
    "mappings that are merged" false |n|
        format!("{NATIVE}{INPUT}tags:\n  <<:\n{}", lines(n, |at| format!("  - {{k{at}: v}}")));
    "a long scalar" false |n| format!("{NATIVE}{INPUT}description: {}\n", "xy ".repeat(100 * n));
    "a scalar of escapes" false |n| format!("{NATIVE}{INPUT}description: \"{}\"\n", "\\n".repeat(100 * n));
    "a scalar of lines" false |n| format!("{NATIVE}{INPUT}description: >\n{}", lines(10 * n, |_| "  x".into()));
    "a long name" false |n| format!("{NATIVE}inputs: {}\n", "x".repeat(100 * n));
    "a path of many parts" false |n| format!("{NATIVE}inputs: {}x\n", "x/".repeat(10 * n));
    "a path of many ways up" false |n| format!("{NATIVE}inputs: {}x\n", "../".repeat(10 * n));
    "a pattern of stars" false |n| format!("{NATIVE}inputs: data/{}\n", "*a".repeat(n));
    "nesting" false |n| format!("{NATIVE}{INPUT}tags: {}{}\n", "[".repeat(n), "]".repeat(n));
    "references of a command" false |n| format!(
        "{COMMAND}command: echo {}\ninputs:\n{}",
        lines(n, |at| format!("${{{{inputs.x{at}}}}}")).replace('\n', " "),
        lines(n, |at| format!("  x{at}: 1"))
    );
    "references of a command that there are not" false |n|
        format!("{COMMAND}command: echo {}\n", lines(n, |at| format!("${{{{inputs.zzzzzz{at}}}}}")).replace('\n', " "));
    "here-documents" false |n|
        format!("{COMMAND}inputs: {{x: 1}}\ncommand: |\n{}", lines(n, |_| "  cat <<E${{inputs.x}}\n  ${{inputs.x}}\n  E".into()));
    "one word of values" false |n|
        format!("{COMMAND}inputs: {{x: 1}}\ncommand: echo {}\n", "${{inputs.x}}".repeat(n));
    "optional groups" false |n|
        format!("{COMMAND}inputs: {{x: 1}}\ncommand: echo {}\n", "$[[--x ${{inputs.x}}]] ".repeat(n));
    "arguments of a parallel job" false |n| format!(
        "{PARALLEL}inputs:\n  x: {{type: uri_folder, path: data}}\n{}task: {{type: run_function, code: ., entry_script: main.py, program_arguments: '{}'}}\n",
        lines(n, |at| format!("  y{at}: 1")),
        lines(n, |at| format!("--a ${{{{inputs.y{at}}}}}")).replace('\n', " ")
    );
    "steps in a row" true |n| format!("{PIPELINE}jobs:\n{}", lines(n, |at| match at {
        0 => "  s0: {type: command, command: a}".to_owned(),
        _ => format!("  s{at}: {{type: command, command: a, depends_on: [s{}]}}", at - 1),
    }));
    "steps with the output of the one before" true |n| format!("{PIPELINE}jobs:\n{}", lines(n, |at| {
        let input = at.checked_sub(1).map(|before| format!("x: '${{{{parent.jobs.s{before}.outputs.o}}}}'"));
        let input = input.unwrap_or_default();
        format!("  s{at}: {{type: command, command: a, inputs: {{{input}}}, outputs: {{o: {{type: uri_folder}}}}}}")
    }));
    "steps that need others that there are not" true |n|
        format!("{PIPELINE}jobs:\n{}", lines(n, |at| format!("  s{at}: {{type: command, command: a, depends_on: [zzzzzzz{at}]}}")));
    "steps with inputs of the pipeline" true |n| format!(
        "{PIPELINE}inputs:\n{}jobs:\n{}",
        lines(n, |at| format!("  i{at}: 1")),
        lines(n, |at| format!("  s{at}: {{type: command, command: '${{{{parent.inputs.i{at}}}}}'}}"))
    );
    "steps with places for outputs of the pipeline" true |n| format!(
        "{PIPELINE}outputs:\n{}jobs:\n{}",
        lines(n, |at| format!("  o{at}: {{type: uri_folder, path: out/{at}}}")),
        lines(n, |at| format!("  s{at}: {{type: command, command: a, outputs: {{o: '${{{{parent.outputs.o{at}}}}}'}}}}"))
    );
    "a step with inputs of the pipeline" false |n| format!(
        "{PIPELINE}inputs:\n{}jobs:\n  s:\n    type: command\n    command: echo {}\n  t: {{type: command, command: a}}\n",
        lines(n, |at| format!("  i{at}: 1")),
        lines(n, |at| format!("${{{{parent.inputs.i{at}}}}}")).replace('\n', " ")
    );
};

const WITH_FILES: [Form; 8] = [
    Form {
        name: "steps of a component",
        is_large: true,
        make: |folder, count| {
            fs::write(
                folder.join("c.yml"),
                "type: command\ncommand: echo ${{inputs.x}}\ninputs: {x: {type: integer}}\n",
            )
            .unwrap();
            let steps = lines(count, |at| {
                format!("  s{at}: {{type: command, component: ./c.yml, inputs: {{x: 1}}}}")
            });
            (format!("{PIPELINE}jobs:\n{steps}"), Vec::new())
        },
    },
    Form {
        name: "inputs of a component that it has not",
        is_large: false,
        make: |folder, count| {
            let declared = lines(count, |at| format!("  x{at}: {{type: integer, default: 1}}"));
            fs::write(folder.join("c.yml"), format!("type: command\ncommand: a\ninputs:\n{declared}"))
                .unwrap();
            let given = lines(count, |at| format!("      zzzzzzz{at}: 1"));
            let step = format!("  s:\n    type: command\n    component: ./c.yml\n    inputs:\n{given}");
            (format!("{PIPELINE}jobs:\n{step}"), Vec::new())
        },
    },
    Form {
        name: "variables of a component and of its step",
        is_large: false,
        make: |folder, count| {
            let variables = lines(count, |at| format!("      V{at}: x"));
            fs::write(
                folder.join("c.yml"),
                format!("type: command\ncommand: a\nenvironment_variables:\n{variables}"),
            )
            .unwrap();
            let step = format!(
                "  s:\n    type: command\n    component: ./c.yml\n    environment_variables:\n{variables}"
            );
            (format!("{PIPELINE}jobs:\n{step}  t: {{type: command, command: a}}\n"), Vec::new())
        },
    },
    Form {
        name: "options",
        is_large: false,
        make: |_, count| {
            let set = (0..count).map(|at| (format!("zzzzzz{at:05}"), "1".to_owned())).collect();
            (format!("{NATIVE}{INPUT}"), set)
        },
    },
    Form {
        name: "options for inputs",
        is_large: false,
        make: |_, count| {
            let set = (0..count).map(|at| (format!("inputs.x{at}"), "1".to_owned())).collect();
            (format!("{COMMAND}command: a\n"), set)
        },
    },
    Form {
        name: "a table",
        is_large: false,
        make: |folder, count| {
            let paths = lines(count, |at| format!("- file: ../data/{at}.csv"));
            let columns = lines(count, |at| format!("  - {{columns: c{at}, column_type: int}}"));
            fs::create_dir(folder.join("table")).unwrap();
            let steps = format!(
                "- read_delimited: {{header: all_files_same_headers}}\n- convert_column_types:\n{columns}"
            );
            fs::write(folder.join("table/MLTable"), format!("paths:\n{paths}transformations:\n{steps}"))
                .unwrap();
            (format!("{NATIVE}inputs:\n- {{type: mltable, path: table}}\n"), Vec::new())
        },
    },
    Form {
        name: "requirements and a conda file",
        is_large: false,
        make: |folder, count| {
            let packages = lines(count, |at| format!("  - p{at}==1"));
            fs::write(folder.join("r.txt"), lines(count, |at| format!("p{at}==1 # why"))).unwrap();
            fs::write(
                folder.join("conda.yml"),
                format!(
                    "dependencies:\n- python=3.11\n{}- pip:\n  - -r r.txt\n{packages}",
                    packages.replace("  -", "-")
                ),
            )
            .unwrap();
            (format!("{NATIVE}{INPUT}environment: conda.yml\n"), Vec::new())
        },
    },
    Form {
        name: "a deployment",
        is_large: false,
        make: |_, count| {
            let variables = lines(count, |at| format!("  V{at}: x"));
            let tags = lines(count, |at| format!("  t{at}: x"));
            let text = "name: abc\ntype: model\nendpoint_name: end\ncode_configuration: {code: ., scoring_script: main.py}\n";
            (format!("{text}environment_variables:\n{variables}tags:\n{tags}"), Vec::new())
        },
    },
];
