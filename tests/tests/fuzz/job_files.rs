//! Job files: settings in every style of YAML, and what mutations make of them.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use prs_common::job::{JobSpec, check_file_name, load};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;
use tempfile::TempDir;

use crate::segments::memory;

/// A file beside a script and an input.
pub(crate) struct JobFiles {
    folder: TempDir,
}

impl Default for JobFiles {
    fn default() -> Self {
        let folder = tempfile::Builder::new().prefix("prs-fuzz-").tempdir_in(memory()).unwrap();
        fs::write(folder.path().join("main.py"), "").unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/a.csv"), "a,b\n1,2\n").unwrap();
        Self { folder }
    }
}

impl JobFiles {
    /// Loads a job file; says what became of it.
    pub(crate) fn load(&self, text: &[u8]) -> Result<JobSpec, String> {
        let path: PathBuf = self.folder.path().join("job.yml");
        fs::write(&path, text).unwrap();
        let spec = match load(&path, &[]) {
            Ok(spec) => spec,
            Err(error) => {
                let lines = text.iter().filter(|byte| **byte == b'\n' || **byte == b'\r').count() + 1;
                assert!(!error.problems.is_empty());
                for problem in &error.problems {
                    assert!(!problem.message.is_empty(), "{error}");
                    assert!(problem.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "{error}");
                }
                let first = &error.problems[0];
                return Err(kind_of(format!("{} {}", first.key, first.message)));
            }
        };
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<JobSpec>(&json).unwrap(), spec, "it is stored as it is");
        assert_eq!(check_file_name(&spec.append_row_file_name), Ok(()));
        assert!(spec.run_max_try >= 1 && spec.node_count >= 1 && spec.mini_batch_size.amount() >= 1);
        assert!(!spec.inputs.is_empty() && spec.source_directory.is_absolute());
        assert!(spec.output.as_ref().is_none_or(|output| output.is_absolute()));
        Ok(spec)
    }
}

const PARTS: [&str; 26] = [
    "a", "B", "7", " ", ":", ": ", "#", " #", "'", "\"", "\\", "é", "日本", "- ", "[", "]", "{", "}", ",",
    "&x", "*x", "!", "|", ">", "%", "~",
];

fn word(random: &mut Random) -> String {
    (0..=random.below(6)).map(|_| PARTS[random.below(PARTS.len() as u64) as usize]).collect()
}

/// A parallel job of Azure, by itself or in a pipeline, with these arguments.
fn parallel_job(random: &mut Random, arguments: &[String]) -> String {
    let quoted = arguments.iter().map(|argument| format!("'{}'", argument.replace('\'', "'\\''")));
    let line = quoted.collect::<Vec<_>>().join([" ", "  ", " \t "][random.below(3) as usize]);
    let step = format!(
        "type: parallel\ninputs: {{x: {{path: data}}, y: 5}}\ninput_data: ${{{{inputs.x}}}}\n\
         outputs: {{o: {{type: uri_file, path: out/rows.txt}}}}\nretry_settings: {{max_retries: {}}}\n\
         task:\n  entry_script: main.py\n  program_arguments: {}\n  append_row_to: ${{{{outputs.o}}}}\n",
        random.below(9),
        written(random, &line)
    );
    if random.below(2) == 0 {
        return step;
    }
    let indented = step.lines().map(|line| format!("    {line}\n"));
    format!("type: pipeline\ndisplay_name: fuzzed\njobs:\n  step:\n{}", indented.collect::<String>())
}

/// `text` in one of the ways in which YAML can write it.
fn written(random: &mut Random, text: &str) -> String {
    match random.below(3) {
        0 => format!("'{}'", text.replace('\'', "''")),
        1 => serde_json::to_string(text).unwrap(),
        _ if text.bytes().all(|byte| byte.is_ascii_alphabetic()) && text.len() > 5 => text.to_owned(),
        _ => {
            let mut escaped = String::from("\"");
            for letter in text.chars() {
                let _ = write!(escaped, "\\U{:08X}", u32::from(letter));
            }
            escaped + "\""
        }
    }
}

impl Target for JobFiles {
    const LONGEST: usize = 32 << 10;
    const WORDS: &'static [&'static [u8]] = &[
        b"name",
        b"entry_script",
        b"source_directory",
        b"inputs",
        b"mini_batch_size",
        b"output_action",
        b"append_row",
        b"summary_only",
        b"append_row_file_name",
        b"output",
        b"arguments",
        b"environment",
        b"environment_variables",
        b"process_count_per_node",
        b"run_invocation_timeout",
        b"run_max_try",
        b"error_threshold",
        b"allowed_failed_percent",
        b"logging_level",
        b"compute_target",
        b"node_count",
        b"description",
        b"parallel_run_config",
        b"type",
        b"path",
        b"paths",
        b"list",
        b"mode",
        b"delimiter",
        b"header",
        b"dtype",
        b"infer",
        b"format",
        b"tabular",
        b"file",
        b"direct",
        b"upload",
        b": ",
        b"\n",
        b"- ",
        b"  ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"${{inputs.x}}",
        b"${{outputs.y}}",
        b"${{parent.inputs.x}}",
        b"${{",
        b"}}",
        b"jobs",
        b"task",
        b"outputs",
        b"input_data",
        b"append_row_to",
        b"program_arguments",
        b"retry_settings",
        b"max_retries",
        b"resources",
        b"compute",
        b"uri_file",
        b"s3://b/k",
        b"azureml:x",
        b"10MB",
        b"true",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!str ",
        b"|\n",
        b">-\n",
        b"---\n",
        b"\t",
        b"\r\n",
        b"\xef\xbb\xbf",
        b"\x85",
        b"\0",
    ];

    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let arguments: Vec<String> = (0..random.below(4)).map(|_| word(random)).collect();
        if random.below(3) == 0 {
            let text = parallel_job(random, &arguments);
            let spec = self.load(text.as_bytes()).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
            assert_eq!(spec.arguments, arguments, "{text}");
            return text.into_bytes();
        }
        let variables: Vec<String> = (0..random.below(4)).map(|_| word(random)).collect();
        let mut text = "name: fuzzed\nentry_script: main.py\n".to_owned();
        let input =
            ["{type: file, path: data}", "{type: tabular, path: data, delimiter: ';', header: false}"];
        let _ = writeln!(text, "inputs: [{}]", input[random.below(2) as usize]);
        let _ = writeln!(text, "run_max_try: {}", 1 + random.below(9));
        if arguments.is_empty() {
            text += "arguments: []\n";
        } else if random.below(2) == 0 {
            let items: Vec<_> = arguments.iter().map(|argument| written(random, argument)).collect();
            let _ = writeln!(text, "arguments: [{}]", items.join(", "));
        } else {
            text += "arguments:\n";
            for argument in &arguments {
                let _ = writeln!(text, "  - {}  # why", written(random, argument));
            }
        }
        if !variables.is_empty() {
            text += "environment_variables:\n";
            for (number, value) in variables.iter().enumerate() {
                let _ = writeln!(text, "  V{number}: {}", written(random, value));
            }
        }
        if random.below(2) == 0 {
            text = text.replace('\n', "\r\n");
        }
        let spec = self.load(text.as_bytes()).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        assert_eq!(spec.arguments, arguments, "{text}");
        assert!(spec.environment_variables.values().eq(&variables), "{text}");
        text.into_bytes()
    }

    fn check(&mut self, input: &[u8]) -> String {
        match self.load(input) {
            Ok(spec) => format!("a job with {} inputs", spec.inputs.len().min(3)),
            Err(problem) => problem,
        }
    }
}
