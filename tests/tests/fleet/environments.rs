//! Environments that are made of a job's packages: once a host, before anything is timed, whatever dies meanwhile.
//!
//! No package index is asked: wheels lie in a folder, and where a test has to stop an installer, a script stands in for uv.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, bring_packages, host_of, installing, stop_in_installer};
use serde_json::{Value, json};

/// Longer than an environment takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// Returns what the package says, and where it was imported from.
const SCRIPT: &str = "
import sys, tiny
def run(mini_batch):
    return [f'{tiny.VALUE} {sys.prefix}' for _ in mini_batch]
";
/// A job that brings these packages, on a host of its own: a cache, a folder of wheels, Python and no uv.
fn job_with(packages: &str) -> Job {
    let job = Job::new(SCRIPT).with_files(4).with("environment", "packages/requirements.txt");
    bring_packages(&job, packages);
    host(&job).into_iter().fold(job, |job, (name, value)| job.with_own_variable(&name, &value))
}

/// The variables of a program on the host of the job.
fn host(job: &Job) -> Vec<(String, String)> {
    host_of(job, &job.path("cache"))
}

fn installs(job: &Job) -> usize {
    job.marks("installs").len()
}

/// What a job says of the prefix of its interpreter: one for all.
fn prefix(rows: &[String]) -> String {
    let prefix = rows[0].strip_prefix("7 ").unwrap_or_else(|| panic!("{rows:?}")).to_owned();
    assert!(rows.iter().all(|row| row.ends_with(&prefix)), "{rows:?}");
    prefix
}

#[test]
fn a_requirements_file_is_installed_once_and_used_again() {
    let job = job_with("tiny==1.0\n");
    let ended = job.submit();
    job.has_completed(&ended);
    let first = prefix(&job.run().rows());
    assert!(first.starts_with(&job.path("cache/prs/environments").display().to_string()), "{first}");
    let log = job.run().text("logs/sys/node/0/environment.txt");
    assert!(
        log.contains("with venv and pip of") && log.contains("Installing collected packages: tiny"),
        "{log}"
    );
    let mode = fs::metadata(job.path("cache/prs/environments")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    // Another job with the same content, written in another way, in the same cache; nothing could be installed now.
    fs::remove_dir_all(job.path("wheels")).unwrap();
    fs::write(job.path("packages/conda.yml"), "dependencies: [{pip: ['tiny==1.0']}]\n").unwrap();
    let mut job = job
        .with_run_folder(std::env::temp_dir().join(format!("{}-again", first.rsplit('/').next().unwrap())));
    job.set("environment", "packages/conda.yml");
    job.completes();
    assert_eq!(prefix(&job.run().rows()), first);
    let log = job.run().text("logs/sys/node/0/environment.txt");
    assert!(log.contains("serves") && !log.contains("Installing"), "{log}");
    fs::remove_dir_all(job.run().path()).unwrap();

    let file = job.write_job_file().display().to_string();
    let checked = job.command(&["validate", &file, "-o", "json"]).json();
    assert!(checked["interpreter"].as_str().unwrap().starts_with(&first), "{checked}");
    let tried = job.command(&["try", &file, "-o", "json"]);
    tried.expect_code(0);
    let doctor = job.command(&["doctor", "-o", "json"]);
    assert!(doctor.stdout.contains("1 environment in "), "{}", doctor.stdout);
}

#[test]
fn a_package_that_does_not_exist_fails_the_job_with_the_words_of_the_installer() {
    let job = job_with("nosuch==1\n");
    let file = job.write_job_file().display().to_string();
    let checked = job.command(&["validate", &file]);
    checked.expect_code(0);
    assert!(checked.stderr.contains("its environment is not made on this machine yet"), "{}", checked.stderr);
    let result = job.fails(&[
        "the environment of the script cannot be made: nosuch==1: No matching distribution found for nosuch==1",
        "packages     packages/requirements.txt",
        "| ERROR: Could not find a version that satisfies the requirement nosuch==1",
        "remedy       correct the package, or its version, in packages/requirements.txt",
        "log          logs/sys/node/0/environment.txt",
    ]);
    assert_eq!(result["state"], "failed");
    let kept: Vec<_> = fs::read_dir(job.path("cache/prs/environments")).unwrap().flatten().collect();
    let folders = kept.iter().filter(|entry| entry.path().is_dir());
    assert!(folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap()).next().is_none(), "{kept:?}");
    let tried = job.command(&["try", &file]);
    tried.expect_code(2);
    assert!(tried.stderr.contains("No matching distribution found for nosuch==1"), "{}", tried.stderr);
}

#[test]
fn values_of_variables_are_in_nothing_that_a_job_keeps_or_says() {
    for (requirement, said) in [
        ("x @ http://${PLANTED_USER}:${PLANTED_TOKEN}@127.0.0.1:1/x-1.0-py3-none-any.whl", "${PLANTED_USER}"),
        ("x @ git+http://${PLANTED_TOKEN}@127.0.0.1:1/x.git@v1", "${PLANTED_TOKEN}"),
    ] {
        let job = job_with(&format!("{requirement}\n"))
            .with_own_variable("PLANTED_USER", "planted-user")
            .with_own_variable("PLANTED_TOKEN", "planted%2Ftoken")
            .with_own_variable("PIP_RETRIES", "0");
        let ended = job.submit();
        assert_eq!(ended.json()["state"], "failed");
        let run = job.run();
        let log = run.text("logs/sys/node/0/environment.txt");
        assert!(log.contains(said), "{log}");
        let shown = job.command(&["errors", &run.path().display().to_string()]);
        let mut told = vec![ended.stdout, ended.stderr, shown.stdout, shown.stderr];
        told.extend(run.files("").iter().map(|name| run.text_so_far(name)));
        for secret in ["planted-user", "planted%2Ftoken", "planted/token"] {
            assert!(!told.iter().any(|text| text.contains(secret)), "{secret}: {told:?}");
        }
    }
}

#[test]
fn a_module_that_the_packages_lack_is_to_be_added_to_them() {
    let job = job_with("# none\n");
    job.fails(&[
        "No module named 'tiny'",
        "made of packages/requirements.txt",
        "add tiny to packages/requirements.txt",
    ]);
}

#[test]
fn what_a_killed_run_began_never_counts_and_no_time_out_counts_an_installation() {
    let mut job = job_with("tiny\n");
    stop_in_installer(&job);
    job.set("progress_update_timeout", 4);
    let mut live = job.start_submit(&[]);
    live.wait_until("the installer", || installs(&job) == 1);
    // What a screen says of it is tested beside the code that says it: a minute passes until it does here.
    let log = || job.run().text_so_far("logs/sys/node/0/environment.txt");
    live.wait_until("what it says", || log().contains("still waiting"));
    assert!(live.kill());
    job.soon_leaves_nothing();
    let live = job.start_resume();
    wait_for("the installer again", PATIENCE, || (installs(&job) == 2).then_some(()));
    std::thread::sleep(Duration::from_secs(6));
    job.mark("go");
    job.has_completed(&live.wait());
    prefix(&job.run().rows());
}

#[test]
fn a_cancelled_job_stops_its_installer() {
    let job = job_with("tiny\n");
    stop_in_installer(&job);
    let mut live = job.start_submit(&[]);
    live.wait_until("the installer", || installs(&job) == 1);
    job.command(&["cancel", &job.run().path().display().to_string()]).expect_code(0);
    let ended = live.wait();
    ended.expect_code(130);
    assert_eq!(ended.json()["state"], "canceled");
    job.soon_leaves_nothing();
}

fn on_fleet(fleet: &Fleet, target: &str, packages: &str) -> Job {
    let job = fleet.job(job_with(packages)).with("compute_target", target).with("node_count", 2);
    job.with("run_invocation_timeout", 600)
}

fn workers(fleet: &Fleet, job: &Job, target: &str, count: usize) -> Vec<prs_tests::harness::Live> {
    let start = |_| fleet.worker_with(job, &["--target", target], &host(job));
    (0..count).map(start).collect()
}

fn status(job: &Job, id: &str) -> Value {
    job.command(&["status", id, "-o", "json"]).json()
}

#[test]
fn two_workers_of_a_host_make_one_and_the_death_of_one_leaves_it_to_the_other() {
    let fleet = Fleet::shared();
    let target = "environments-two";
    let job = on_fleet(fleet, target, "tiny\n");
    stop_in_installer(&job);
    let mut workers = workers(fleet, &job, target, 2);
    // Every node has the file, wherever it joins from.
    let id = fleet.hand_in(&job);
    fs::remove_dir_all(job.path("packages")).unwrap();
    wait_for("two nodes", PATIENCE, || (status(&job, &id)["nodes"] == 2).then_some(()));
    wait_for("the installer", PATIENCE, || (installs(&job) == 1).then_some(()));
    let preparing =
        wait_for("what it does", PATIENCE, || status(&job, &id)["preparing"].as_str().map(str::to_owned));
    let said = ["making it", "still waiting", "another program of this host makes it"];
    assert!(said.contains(&&*preparing), "{preparing}");
    let text = job.command(&["status", &id]).stdout;
    assert!(text.contains("\nnode       preparing the environment: "), "{text}");
    // The one that installs is found by its installer.
    let [parent] = installing(&job)[..] else { panic!("one installer lives") };
    let at = workers.iter().position(|worker| worker.id() == parent).expect("a worker started it");
    assert!(workers.remove(at).kill());
    wait_for("the installer of the other", PATIENCE, || (installs(&job) == 2).then_some(()));
    job.mark("go");
    let state = wait_for("the end", PATIENCE, || {
        let state = status(&job, &id)["state"].as_str().unwrap().to_owned();
        ["completed", "failed", "canceled"].contains(&&*state).then_some(state)
    });
    assert_eq!(state, "completed", "{}", fleet.story());
    let rows: Vec<String> =
        String::from_utf8(fleet.stored(&id).result()).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(rows.len(), 4);
    prefix(&rows);
    assert_eq!(installs(&job), 2);
}

#[test]
fn a_job_fails_on_a_fleet_when_no_host_can_install_its_packages() {
    let fleet = Fleet::shared();
    let target = "environments-none";
    let job = on_fleet(fleet, target, "nosuch\n").with("environment_variables", json!({}));
    let _workers = workers(fleet, &job, target, 1);
    let ended = fleet.submit(&job);
    ended.expect_code(42);
    let reason = ended.json()["reason"].as_str().unwrap().to_owned();
    for part in
        ["cannot be made: nosuch: No matching", "No matching distribution found for nosuch", "host         "]
    {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}
