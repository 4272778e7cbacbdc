//! What a shell is told: completions of commands, jobs and logs, and the pages of the manual.

use std::fs;
use std::process::{Command, Output, Stdio};

use prs_tests::harness::{Job, bin_dir};

pub(crate) const ECHO: &str =
    "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
/// Sets bash up as a user does, and prints what it offers behind the words that it is given.
const OFFERED: &str = r#"
source <(prs completions bash)
COMP_WORDS=(prs "$@" '')
COMP_CWORD=$(($# + 1))
COMP_TYPE=9
compopt() { :; }
_clap_complete_prs prs "${COMP_WORDS[COMP_CWORD]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn bash(job: &Job, line: &str, words: &[&str]) -> Output {
    let path = format!("{}:{}", bin_dir().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    for variable in ["PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_STORAGE_URL", "PRS_LOG"] {
        bash.env_remove(variable);
    }
    bash.args(["--norc", "-c", line, "bash"]).args(words).current_dir(job.path("")).stdin(Stdio::null());
    bash.envs(job.own_variables()).env("PATH", path).output().unwrap()
}

/// What bash offers for the next word behind these.
#[track_caller]
pub(crate) fn offered(job: &Job, words: &[&str]) -> Vec<String> {
    let output = bash(job, OFFERED, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{words:?}: {stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn submitted(job: &Job) -> String {
    job.write_job_file();
    let ended = job.command(&["submit", "job.yml", "-o", "json"]);
    ended.expect_code(0);
    ended.json()["job_id"].as_str().unwrap().to_owned()
}

#[test]
fn bash_offers_commands_options_jobs_and_logs() {
    let job = Job::new(ECHO).with_files(2);
    assert!(offered(&job, &["status"]).iter().all(|one| one.starts_with('@') || one.starts_with('-')));
    let [first, second] = [submitted(&job), submitted(&job)];
    let commands = offered(&job, &[]);
    for command in ["submit", "errors", "worker", "completions"] {
        assert!(commands.iter().any(|one| one == command), "{commands:?}");
    }
    let jobs = offered(&job, &["status"]);
    assert_eq!(jobs[..2], ["@latest", "@failed"], "{jobs:?}");
    // Their order is that of their seconds, which may be the same.
    assert!(jobs[2..4].contains(&first) && jobs[2..4].contains(&second), "{jobs:?}");
    assert!(offered(&job, &["try"]).iter().any(|one| one == "job.yml"));
    let elsewhere = offered(&job, &["status", "--runs", "nowhere"]);
    assert!(!elsewhere.contains(&first), "{elsewhere:?}");
    let logs = offered(&job, &["logs", &first, "--file"]);
    assert!(logs.iter().any(|one| one == "job_result.txt"), "{logs:?}");
    assert_eq!(offered(&job, &["list", "--state"]).len(), 7);
    let keys = offered(&job, &["explain"]);
    assert!(["node_count", "inputs.path"].iter().all(|key| keys.iter().any(|one| one == key)), "{keys:?}");
    for shell in ["bash", "zsh", "fish"] {
        let lines = job.command(&["completions", shell]);
        lines.expect_code(0);
        assert!(lines.stdout.contains("PRS_COMPLETE"), "{}", lines.stdout);
    }
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let job = Job::new(ECHO);
    let ended = job.command(&["man", "pages", "-o", "json"]);
    ended.expect_code(0);
    let told = ended.json();
    let pages: Vec<&str> =
        told["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    assert_eq!(pages[0], "prs.1");
    for page in ["prs-submit.1", "prs-worker.1", "prs-man.1"] {
        assert!(pages.contains(&page), "{page} is missing: {pages:?}");
    }
    for page in pages {
        let text = fs::read_to_string(job.path("pages").join(page)).unwrap();
        for section in ["NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "VERSION"] {
            assert!(text.contains(&format!(".SH {section}\n")), "{page} has no {section}:\n{text}");
        }
    }
    let refused = job.command(&["man", "/proc/nowhere"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("cannot write manual pages to /proc/nowhere"), "{}", refused.stderr);
}
