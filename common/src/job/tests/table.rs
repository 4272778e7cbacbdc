//! The table of keys: each key is read, stored and documented, and no other.

use super::super::keys::{Argument, Fallback, INPUT, JOB, Key, OUTPUT_FORMAT, SECTIONS, Section, Start};
use super::*;

/// What no key takes.
const WRONG: &str = "{x: [1]}";

#[test]
fn every_key_is_read() {
    let project = Project::new();
    let refuses = |yaml: &str, key: &str| {
        let problems = project.problems(yaml);
        let told = problems.iter().any(|problem| problem.starts_with(key));
        assert!(told, "{key} is not read: {problems:?}");
    };
    for key in JOB.names() {
        let others = REQUIRED.lines().filter(|line| !line.starts_with(&format!("{key}:")));
        refuses(&format!("{}\n{key}: {WRONG}\n", others.collect::<Vec<_>>().join("\n")), key);
    }
    let required = "name: job-1\nentry_script: score.py\n";
    for key in INPUT.names() {
        let others = [("type", "tabular"), ("path", "data")]
            .into_iter()
            .filter(|(other, _)| *other != key && (*other != "path" || !["paths", "list"].contains(&key)));
        let others: Vec<String> = others.map(|(other, value)| format!("{other}: {value}, ")).collect();
        let others = others.concat();
        refuses(&format!("{required}inputs: [{{{others}{key}: {WRONG}}}]\n"), &format!("inputs[0].{key}"));
    }
    for key in OUTPUT_FORMAT.names() {
        refuses(&format!("{REQUIRED}output_format: {{{key}: {WRONG}}}\n"), &format!("output_format.{key}"));
    }
}

#[test]
fn every_setting_of_a_job_is_stored_under_the_name_of_its_key() {
    let project = Project::new();
    let spec =
        project.load(&format!("{REQUIRED}keep: 1h\noutput_format: csv\nmax_concurrency: 4\nmax_mini_batches_per_process: 9\nmax_memory_per_process: 1GB\n")).unwrap();
    let mut stored = JobSpec { notes: vec!["a note".to_owned()], ..spec }.stored();
    for key in ["failures_allowed", "notes", "origins"] {
        stored.remove(key).unwrap();
    }
    let built = |key: &&Key| !matches!(key.takes, Takes::NotYet(_));
    let mut expected: Vec<&str> = JOB.keys.iter().filter(built).map(|key| key.name).collect();
    expected.sort_unstable();
    let mut names: Vec<&String> = stored.keys().collect();
    names.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn every_default_of_the_table_is_a_value_of_its_key() {
    for key in SECTIONS.iter().flat_map(|section| section.keys) {
        let is_value = matches!(key.default, Fallback::Value(_)) && !matches!(key.takes, Takes::Own(_));
        assert_eq!(key.default_value().is_some(), is_value, "{}", key.name);
        assert!(!key.meaning.is_empty() && !key.meaning.ends_with('.'), "{}", key.name);
    }
}

/// A table of the documentation.
fn table(section: &Section) -> String {
    let settable = section.keys.iter().any(|key| key.is_settable(Start::Submission));
    let (mut head, mut line) =
        ("| key | takes | meaning | default |".to_owned(), "|---|---|---|---|".to_owned());
    if settable {
        head.push_str(" `--set` of | script |");
        line.push_str("---|---|");
    }
    let rows = section.keys.iter().map(|key| row(key, settable));
    [head, line].into_iter().chain(rows).map(|line| line + "\n").collect()
}

fn row(key: &Key, settable: bool) -> String {
    let is_value = matches!(key.default, Fallback::Value(_));
    let default = if is_value { format!("`{}`", key.default) } else { key.default.to_string() };
    let more = key.more.map_or_else(String::new, |place| format!(" ([more]({place}))"));
    let mut row = format!("| `{}` | {} | {}{more} | {default} |", key.name, key.range(), key.meaning);
    if settable {
        let starts = [(Start::Submission, "`submit`"), (Start::Resumption, "`resume`")];
        let starts = starts.into_iter().filter(|(start, _)| key.is_settable(*start)).map(|(_, name)| name);
        let argument = match key.argument {
            Argument::None => "",
            // What is not built is only reserved.
            Argument::Given if matches!(key.takes, Takes::NotYet(_)) => "",
            Argument::Given => "gets it",
            Argument::Setting => "may be given as its argument",
            Argument::Both => "gets it; may be given as its argument",
        };
        row = format!("{row} {} | {argument} |", starts.collect::<Vec<_>>().join(", "));
    }
    row
}

/// With `PRS_WRITE_DOCS` set it writes the tables.
#[test]
fn the_documentation_has_the_tables_of_the_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/job-file.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut expected = page.clone();
    for section in SECTIONS {
        let begin = format!("<!-- the keys of {} -->\n", section.of);
        let (before, rest) = expected.split_once(&begin).unwrap_or_else(|| panic!("{begin} is not there"));
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        expected = format!("{before}{begin}\n{}\n<!-- end -->{after}", table(section));
    }
    if std::env::var_os("PRS_WRITE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(page == expected, "docs/job-file.md has other keys: run this test with PRS_WRITE_DOCS=1");
    }
}

#[test]
fn the_script_gets_what_the_table_says() {
    let project = Project::new();
    let spec = project.load(&format!("{REQUIRED}mini_batch_size: 7\nallowed_failed_percent: 2.5\n")).unwrap();
    let of_process = [("output", "/out".to_owned()), ("process_count_per_node", "3".to_owned())];
    let given = given_arguments(&spec, &of_process);
    let expected = "--mini_batch_size 7 --output_action append_row --append_row_file_name parallel_run_step.txt \
                    --output /out --node_count 1 --process_count_per_node 3 --run_invocation_timeout 60 --run_max_try 3 \
                    --error_threshold -1 --allowed_failed_count -1 --allowed_failed_percent 2.5 --logging_level INFO";
    assert_eq!(given.join(" "), expected);
}

#[test]
fn a_key_of_a_few_words_tells_them() {
    for (place, expected) in [
        ("output_action", Some(&["append_row", "summary_only"][..])),
        ("--set allow_reuse", Some(&["true", "false"])),
        ("inputs[2].type", Some(&["file", "tabular", "mltable"])),
        ("name", None),
        ("", None),
        ("inputs[0]", None),
    ] {
        assert_eq!(super::super::keys::words_of(place), expected, "{place}");
    }
}
