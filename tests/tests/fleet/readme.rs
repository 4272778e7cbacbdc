//! README.md as its reader takes it: the script, the job file and the commands of its first job, as they stand there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use prs_tests::harness::{Fleet, Job, bin_dir, python};
use tempfile::TempDir;

/// Its section with the first job.
const FIRST: &str = "The first job";
const README: &str = include_str!("../../../README.md");
/// What a file begins with that is shown whole: a comment with its name.
const NAME: &str = "# ";
/// What a line of a shell begins with.
const PROMPT: &str = "$ ";

/// The code blocks of a section of the README.
fn blocks(section: &str) -> Vec<&'static str> {
    let (_, rest) = README.split_once(&format!("\n## {section}\n")).unwrap();
    let text = rest.split("\n## ").next().unwrap();
    let fenced = text.split("\n```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').unwrap().1).collect()
}

/// The files that the blocks show, and the commands that they tell to type.
fn files_and_commands(blocks: &[&'static str]) -> (Vec<(&'static str, &'static str)>, Vec<&'static str>) {
    let file = |block: &&'static str| Some((block.lines().next()?.strip_prefix(NAME)?, *block));
    let files = blocks.iter().filter_map(file).collect();
    let commands = blocks.iter().flat_map(|block| block.lines());
    (files, commands.filter_map(|line| line.strip_prefix(PROMPT)).collect())
}

/// A folder with the README's first job, and its texts.
fn first_job() -> (TempDir, Vec<&'static str>) {
    let (files, commands) = files_and_commands(&blocks(FIRST));
    assert_eq!(files.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["code/words.py", "job.yml"]);
    let folder = tempfile::Builder::new().prefix("prs-").tempdir().unwrap();
    let texts = [("texts/one.txt", "one"), ("texts/two.txt", "one two")];
    for (name, text) in files.into_iter().chain(texts) {
        write(&folder.path().join(name), text.as_bytes());
    }
    (folder, commands)
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Types the commands in the folder; what they print, and the id of the job that they name.
fn type_in(folder: &Path, commands: &[&str], variables: &[(String, String)]) -> (String, String) {
    let mut printed = String::new();
    let path = format!("{}:{}:/usr/bin:/bin", bin_dir().display(), python().parent().unwrap().display());
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).current_dir(folder).stdin(Stdio::null());
        shell.env_clear().env("PATH", &path).env("HOME", folder).envs(variables.iter().cloned());
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {}\n{said}", output.status);
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
        printed.push_str(&said);
    }
    let id = printed.lines().find_map(|line| line.strip_prefix("job  ")).unwrap().trim().to_owned();
    (printed, id)
}

#[test]
fn the_first_job_runs_as_it_stands_there_with_the_same_bytes_on_a_fleet() {
    let (folder, commands) = first_job();
    let (printed, _) = type_in(folder.path(), &commands, &[]);
    let [.., cat] = commands[..] else { panic!("there are commands") };
    assert!(cat.starts_with("cat "), "{cat}");
    let embedded = fs::read_to_string(folder.path().join("run/output/parallel_run_step.txt")).unwrap();
    assert!(printed.contains("state         completed") && printed.contains(&embedded), "{printed}");
    assert!(
        README.contains(&format!("{PROMPT}{cat}\n{embedded}```")),
        "the README shows other rows than {embedded}"
    );
    for file in ["logs/job_result.txt", "logs/readme.txt"] {
        assert!(folder.path().join("run").join(file).is_file(), "{file}");
    }

    let fleet = Fleet::apart();
    let (elsewhere, _) = first_job();
    let owner = Job::new("");
    let _worker = fleet.worker(&owner, &[]);
    let submit = blocks("A fleet")[0].lines().find(|line| line.starts_with("prs submit job.yml")).unwrap();
    let (_, id) = type_in(elsewhere.path(), &[submit], &fleet.variables());
    assert_eq!(String::from_utf8(fleet.stored(&id).result()).unwrap(), embedded, "{}", fleet.story());
}
