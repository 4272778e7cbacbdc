//! What a person sees on a terminal: colours where they are wanted, help as wide as the terminal, quiet on request.

use prs_tests::harness::{Job, shown_lines};

const ECHO: &str =
    "import os\ndef run(mini_batch):\n    return [os.path.basename(path) for path in mini_batch]\n";
const FAILS: &str = "def run(mini_batch):\n    raise ValueError('no')\n";

const GREEN: &str = "\u{1b}[32mcompleted";
const RED: &str = "\u{1b}[31mfailed";
const ESCAPE: char = '\u{1b}';

/// A folder with a completed job, `good`, and a failed one.
fn two_jobs() -> Job {
    let job = Job::new(ECHO).with_files(2).with("name", "good");
    job.write_job_file();
    job.command(&["submit", "job.yml"]).expect_code(0);
    let job = job.with("name", "bad");
    job.script(FAILS);
    job.write_job_file();
    job.command(&["submit", "job.yml"]).expect_code(42);
    job
}

#[test]
fn states_and_errors_have_colours_on_a_terminal_and_where_they_are_asked_for() {
    let job = two_jobs();
    let on_terminal = |arguments: &[&str]| job.start_on_terminal(120, arguments).wait().stdout;
    let shown = on_terminal(&["list"]);
    assert!(shown.contains(GREEN) && shown.contains(RED), "{shown:?}");
    assert!(on_terminal(&["status", "good"]).contains(GREEN));
    assert!(on_terminal(&["status", "nothing"]).contains("\u{1b}[31m\u{1b}[1merror:\u{1b}[0m"));
    for plain in [&["list", "--color", "never"][..], &["list", "-o", "json"], &["frob", "--color=never"]] {
        let shown = on_terminal(plain);
        assert!(!shown.contains(ESCAPE), "{plain:?}: {shown:?}");
    }
    // Columns stand where they stand without colours.
    let without = on_terminal(&["list", "--color", "never"]);
    assert_eq!(shown_lines(&shown), shown_lines(&without));

    let elsewhere = |arguments: &[&str]| job.command(arguments).stdout;
    assert!(!elsewhere(&["list"]).contains(ESCAPE));
    assert!(elsewhere(&["list", "--color", "always"]).contains(RED));
    assert!(!elsewhere(&["list", "--color", "always", "-o", "json"]).contains(ESCAPE));
}

#[test]
fn variables_turn_colours_off_and_on() {
    let job = two_jobs().with_own_variable("NO_COLOR", "1");
    let shown = job.start_on_terminal(120, &["list"]).wait().stdout;
    assert!(shown.contains("failed") && !shown.contains(ESCAPE), "{shown:?}");
    let asked = job.start_on_terminal(120, &["list", "--color", "always"]).wait().stdout;
    assert!(asked.contains(RED), "the option comes before the variable: {asked:?}");

    let job = two_jobs().with_own_variable("CLICOLOR_FORCE", "1");
    assert!(job.command(&["list"]).stdout.contains(RED));
    let refused = job.command(&["frob"]);
    assert!(refused.stderr.contains(ESCAPE), "{:?}", refused.stderr);
}

#[test]
fn help_is_as_wide_as_the_terminal_and_shows_no_variables() {
    let job = Job::new(ECHO).with_own_variable("PRS_WORKER_NAME", "of-this-host");
    for (columns, widest) in [(80, 80), (120, 100)] {
        for command in ["submit", "logs", "worker", "--help"] {
            let shown = job.start_on_terminal(columns, &[command, "--help"]).wait();
            shown.expect_code(0);
            assert!(shown.stdout.contains("Examples:"), "{}", shown.stdout);
            for line in shown_lines(&shown.stdout) {
                assert!(line.chars().count() <= widest, "{command} on {columns} columns: {line}");
            }
        }
    }
    let help = job.command(&["worker", "--help"]).stdout;
    let logs = job.command(&["logs", "--help"]).stdout;
    let (own, of_a_fleet) = logs.split_once("Fleet:").unwrap();
    assert!(own.contains("--follow") && of_a_fleet.contains("--broker"), "{logs}");
    for heading in ["Jobs:", "Host:", "Fleet:", "Output:"] {
        assert!(help.lines().any(|line| line == heading), "{heading} is missing:\n{help}");
    }
    assert!(help.contains("PRS_WORKER_NAME") && !help.contains("of-this-host"), "{help}");
}

#[test]
fn quiet_leaves_data_and_errors() {
    let job = Job::new(ECHO).with_files(2);
    job.write_job_file();
    let quiet = job.command(&["submit", "job.yml", "--quiet"]);
    quiet.expect_code(0);
    assert!(quiet.stdout.contains("completed") && quiet.stderr.is_empty(), "{}", quiet.stderr);
    let on_terminal = job.start_on_terminal(80, &["submit", "job.yml", "-q", "-o", "json"]).wait();
    assert!(on_terminal.stdout.starts_with('{'), "{:?}", on_terminal.stdout);
    job.script(FAILS);
    let failed = job.command(&["submit", "job.yml", "-q"]);
    failed.expect_code(42);
    assert!(failed.stderr.contains("the job failed\nsee "), "{}", failed.stderr);
    assert_eq!(failed.stdout.matches("\nreason  ").count(), 1, "the reason stands once: {}", failed.stdout);
    assert!(!failed.stderr.contains("runs in"), "{}", failed.stderr);
}

#[test]
fn verbose_logs_more_and_the_variable_wins() {
    let job = Job::new(ECHO).with_files(2);
    job.write_job_file();
    let usual = job.command(&["submit", "job.yml"]);
    assert!(!usual.stderr.contains(" DEBUG "), "{}", usual.stderr);
    let told = job.command(&["submit", "job.yml", "-v", "--verbose"]);
    assert!(told.stderr.contains(" DEBUG "), "{}", told.stderr);
    let both = job.command(&["submit", "job.yml", "-v", "-q"]);
    both.expect_code(2);
    let job = job.with_own_variable("PRS_LOG", "off");
    let silent = job.command(&["submit", "job.yml", "-vv"]);
    assert!(!silent.stderr.contains(" DEBUG "), "{}", silent.stderr);
}

#[test]
fn a_version_has_commit_and_protocol() {
    let ended = Job::new(ECHO).command(&["--version"]);
    let version = ended.stdout.trim_end();
    let rest = version.strip_prefix(concat!("prs ", env!("CARGO_PKG_VERSION"), " (")).unwrap();
    let (commit, protocol) = rest.strip_suffix(')').unwrap().split_once(", protocol ").unwrap();
    let is_commit = |hash: &str| hash.len() >= 7 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    assert!(commit == "unknown commit" || commit.strip_prefix("commit ").is_some_and(is_commit), "{version}");
    assert!(protocol.parse::<u32>().is_ok(), "{version}");
}
