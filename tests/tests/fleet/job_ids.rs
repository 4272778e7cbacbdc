//! Ids of jobs that their users choose, `--job-name`: they are what commands call the jobs, and each is given once.

use std::fs;

use prs_tests::harness::{Fleet, Job, python};
use rustix::process::Signal;

const SCRIPT: &str = "
def run(mini_batch):
    return list(mini_batch)
";

/// A deployment, and its data.
fn deployed(job: Job) -> Job {
    fs::create_dir_all(job.path("model")).unwrap();
    fs::write(job.path("model/m"), "").unwrap();
    fs::create_dir_all(job.path("data")).unwrap();
    fs::write(job.path("data/a.txt"), "a").unwrap();
    fs::create_dir_all(job.path("score")).unwrap();
    fs::write(job.path("score/score.py"), SCRIPT).unwrap();
    let text = format!(
        "name: dpl\nendpoint_name: endpoint\nmodel: {{path: model}}\n\
         code_configuration: {{code: score, scoring_script: score.py}}\nenvironment: {}\n",
        python().display()
    );
    fs::write(job.path("deployment.yml"), text).unwrap();
    let steps = "type: pipeline\nname: dpl\nendpoint_name: endpoint\n\
                 component: {type: pipeline, jobs: {prep: {type: command, command: 'true'}}}\n";
    fs::write(job.path("steps.yml"), steps).unwrap();
    job
}

fn arguments<'a>(file: &'a str, id: &'a str) -> Vec<&'a str> {
    let data: &[&str] = if file == "deployment.yml" { &["--input", "data"] } else { &[] };
    [&["submit", file, "--job-name", id, "-o", "json"], data].concat()
}

#[test]
fn a_job_has_the_id_that_its_user_chose() {
    let job = deployed(Job::new(""));
    let ended = job.command(&arguments("deployment.yml", "Nightly_7"));
    ended.expect_code(0);
    assert_eq!(ended.json()["job_id"], "Nightly_7");
    assert_eq!(ended.json()["name"], "nightly-7");
    // Folders that are no runs hide no job.
    fs::create_dir(job.path("nightly-7")).unwrap();
    fs::create_dir(job.path("prs-runs/nightly-7")).unwrap();
    for name in ["Nightly_7", "@latest", "nightly-7"] {
        let shown = job.command(&["status", name, "-o", "json"]);
        shown.expect_code(0);
        assert_eq!(shown.json()["job_id"], "Nightly_7", "{name}");
    }
    let listed = job.command(&["list", "-o", "json"]).json();
    assert_eq!(listed["jobs"][0]["job_id"], "Nightly_7", "{listed}");
    let again = job.command(&arguments("deployment.yml", "Nightly_7"));
    again.expect_code(2);
    assert!(again.stderr.contains("there is a job Nightly_7 already"), "{}", again.stderr);
    let wrong = job.command(&arguments("deployment.yml", "a/b"));
    wrong.expect_code(2);
    assert!(wrong.stderr.contains("--job-name: \"a/b\" is not the id of a job"), "{}", wrong.stderr);
    // Any other job, too.
    fs::write(
        job.path("job.yml"),
        format!(
            "name: plain\nentry_script: score.py\nsource_directory: score\nenvironment: {}\ninputs: [{{type: file, path: data}}]\n",
            python().display()
        ),
    )
    .unwrap();
    let plain = |id: &str| job.command(&["submit", "job.yml", "--name", id, "-o", "json"]);
    plain("Own").expect_code(0);
    let status = job.command(&["status", "Own"]);
    status.expect_code(0);
    assert_eq!(status.stderr, "", "a full id stands for no other");
    for (id, said) in
        [("Own", "there is a job Own already"), ("a/b", "--name: \"a/b\" is not the id of a job")]
    {
        let refused = plain(id);
        refused.expect_code(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let steps = job.command(&arguments("steps.yml", "Flow"));
    steps.expect_code(0);
    assert_eq!(steps.json()["steps"]["prep"]["job_id"], "Flow-prep");
    job.command(&["rm", "Nightly_7", "--yes"]).expect_code(0);
    job.command(&arguments("deployment.yml", "Nightly_7")).expect_code(0);
}

#[test]
fn of_two_who_choose_an_id_one_gets_it() {
    let fleet = Fleet::apart();
    let job = fleet.job(deployed(Job::new("")));
    let mut worker = fleet.worker(&job, &[]);
    let racing = [(); 3].map(|()| job.start(&arguments("deployment.yml", "race")));
    let ended = racing.map(prs_tests::harness::Live::wait);
    let won: Vec<_> = ended.iter().filter(|ended| ended.code == Some(0)).collect();
    assert_eq!(won.len(), 1, "{}", ended.iter().map(|ended| &*ended.stderr).collect::<String>());
    for lost in ended.iter().filter(|ended| ended.code != Some(0)) {
        lost.expect_code(2);
        let told = ["there is a job race already", "another submission has taken the id race"];
        assert!(told.iter().any(|told| lost.stderr.contains(told)), "{}", lost.stderr);
    }
    assert_eq!(won[0].json()["job_id"], "race");
    assert_eq!(won[0].json()["state"], "completed");
    let listed = job.command(&["list", "-o", "json"]).json();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1, "{listed}");
    // The job of a step would have the id of another job.
    job.command(&arguments("deployment.yml", "flow-prep")).expect_code(0);
    let refused = job.command(&arguments("steps.yml", "flow"));
    refused.expect_code(2);
    assert!(refused.stderr.contains("a step would be the job flow-prep"), "{}", refused.stderr);
    // An id is free again where the job could not be handed in.
    let lacking =
        ["submit", "deployment.yml", "--job-name", "later", "--input", "s3://no-such-bucket-here/x"];
    assert_ne!(job.command(&lacking).code, Some(0));
    job.command(&arguments("deployment.yml", "later")).expect_code(0);
    worker.signal(Signal::TERM);
    worker.wait();
}
