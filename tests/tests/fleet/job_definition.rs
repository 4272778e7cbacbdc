//! `job_definition` of a deployment: the graph of a former pipeline job, with the code that it ran and with other inputs.

use std::fs;

use prs_tests::harness::{Ended, Fleet, Job, copy_compat};

/// A run of the pipeline component, with inputs of its own.
const FORMER: &str = "\
type: pipeline
name: former
component: components/pipeline.yml
inputs: {input_data: {type: uri_folder, path: data}, factor: 2}
outputs: {scores: {type: uri_file, path: there/scores.txt}}
";
const DEPLOYMENT: &str = "\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineComponentBatchDeployment.schema.json
name: from-job
endpoint_name: endpoint
type: pipeline
";
/// The rows for a factor of 1.
const ROWS: [(&str, u32); 5] = [("a-0", 1), ("a-1", 2), ("a-2", 3), ("b-0", 40), ("b-1", 50)];

fn rows(factor: u32) -> String {
    ROWS.map(|(name, value)| format!("{name} {}\n", value * factor)).concat()
}

fn project() -> Job {
    let job = Job::new("");
    copy_compat("deployment-pipeline", &job.path("."));
    fs::write(job.path("former.yml"), FORMER).unwrap();
    fs::write(job.path("deployment.yml"), DEPLOYMENT).unwrap();
    job
}

fn submit(job: &Job, line: &str) -> Ended {
    let words: Vec<&str> = line.split_whitespace().collect();
    job.command(&[&["submit", "-o", "json"][..], &words].concat())
}

fn scores(job: &Job, run: &str) -> String {
    fs::read_to_string(job.path(run).join("output/scores")).unwrap()
}

#[track_caller]
fn refused(ended: &Ended, parts: &[&str]) {
    ended.expect_code(2);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
    }
}

#[test]
fn the_graph_of_a_former_job_runs_with_its_inputs_or_others() {
    let job = project();
    let former = submit(&job, "former.yml --run-dir former --set inputs.factor=4");
    former.expect_code(0);
    assert_eq!(scores(&job, "former"), rows(4));
    // What the former job ran is in the job, and nowhere else.
    fs::remove_dir_all(job.path("components")).unwrap();
    fs::remove_file(job.path("former.yml")).unwrap();
    let from_job = "deployment.yml --set job_definition=azureml:former --run-dir";
    submit(&job, &format!("{from_job} run")).expect_code(0);
    assert_eq!(scores(&job, "run"), rows(4), "the inputs of the former job are the defaults");
    assert!(!job.path("run/there").exists());
    submit(&job, &format!("{from_job} other --set inputs.factor=5")).expect_code(0);
    assert_eq!(scores(&job, "other"), rows(5));
    fs::create_dir(job.path("more")).unwrap();
    fs::write(job.path("more/c.txt"), "7").unwrap();
    submit(&job, &format!("{from_job} more-run --set inputs.input_data.path=more")).expect_code(0);
    assert_eq!(scores(&job, "more-run"), "c-0 28\n");

    // The job that came of it is a pipeline job, too. In the file as by `--set`.
    fs::write(job.path("deployment.yml"), format!("{DEPLOYMENT}job_definition: azureml:other\n")).unwrap();
    submit(&job, "deployment.yml --run-dir again").expect_code(0);
    assert_eq!(scores(&job, "again"), rows(5));
    let validated = job.command(&["validate", "deployment.yml"]);
    assert!(validated.stdout.contains("score    parallel  prepare"), "{}", validated.stdout);
    let shown = job.command(&["show", "other", "-o", "json"]);
    assert!(!shown.stdout.contains("component.yml"), "{}", shown.stdout);
    refused(
        &submit(&job, "deployment.yml --run-dir no --set inputs.factr=5"),
        &["job other has no input `factr`: did you mean `factor`?"],
    );
}

#[test]
fn a_pipeline_of_one_step_has_a_graph_and_other_jobs_have_none() {
    let job = project();
    let one = "type: pipeline\nname: one\ninputs: {lines: {type: uri_folder, path: data}, by: 3}\njobs:\n  score:\n    type: parallel\n    \
               inputs: {lines: '${{parent.inputs.lines}}', by: '${{parent.inputs.by}}'}\n    outputs: {rows: {type: uri_file}}\n    \
               input_data: '${{inputs.lines}}'\n    mini_batch_size: '1'\n    task: {type: run_function, code: own, entry_script: s.py, \
               program_arguments: '--by ${{inputs.by}}', append_row_to: '${{outputs.rows}}'}\n";
    fs::write(job.path("one.yml"), one).unwrap();
    fs::create_dir(job.path("own")).unwrap();
    let script = "import sys\n\n\ndef run(mini_batch):\n    return [sys.argv[sys.argv.index('--by') + 1] for _ in mini_batch]\n";
    fs::write(job.path("own/s.py"), script).unwrap();
    submit(&job, "one.yml --run-dir one").expect_code(0);
    fs::write(job.path("own/s.py"), "raise ValueError\n").unwrap();
    let run = |definition: &str, run: &str, more: &str| {
        submit(&job, &format!("deployment.yml --set job_definition={definition} --run-dir {run} {more}"))
    };
    run("azureml:one", "again", "").expect_code(0);
    assert_eq!(fs::read_to_string(job.path("again/output/rows")).unwrap(), "3\n3\n");
    run("azureml:one", "by", "--set inputs.by=8").expect_code(0);
    assert_eq!(fs::read_to_string(job.path("by/output/rows")).unwrap(), "8\n8\n");

    let (resubmitted, first) = (["resubmit", "one", "--run-dir", "changed", "--set", "run_max_try=1"], "one");
    job.command(&resubmitted).expect_code(0);
    let remedy = "give the file of its pipeline component as component";
    refused(&run("azureml:changed", "no", ""), &["job changed was not submitted as a pipeline", remedy]);
    refused(&run("azureml:absent", "no", ""), &["job_definition: there is no job \"absent\"", remedy]);
    job.command(&["rm", first, "--yes"]).expect_code(0);
    refused(&run("azureml:one", "no", ""), &["job_definition: there is no job \"one\"", remedy]);
    refused(&run("one", "no", ""), &["job_definition: \"one\" names no job: give azureml:JOB"]);
    let both = "--set component=components/pipeline.yml";
    refused(&run("azureml:by", "no", both), &["component says what runs already: give one of the two"]);
    let former = submit(&job, "former.yml --run-dir former");
    let step = former.json()["steps"]["score"]["job_id"].as_str().unwrap().to_owned();
    fs::rename(job.path("former/steps").join(&step), job.path("step")).unwrap();
    refused(&run("azureml:step", "no", ""), &["is a step: name its pipeline"]);
    refused(&run("azureml:former", "no", ""), &["job_definition: the code of step", "is gone", remedy]);
}

#[test]
fn a_fleet_keeps_the_graphs_of_its_jobs() {
    let fleet = Fleet::apart();
    let host = fleet.job(Job::new(""));
    let _worker = fleet.worker(&host, &["--target", "graphs"]);
    let job = fleet.job(project());
    let former = submit(&job, "former.yml --set compute=graphs");
    former.expect_code(0);
    let id = former.json()["job_id"].as_str().unwrap().to_owned();
    // Another machine has nothing of it.
    let other = fleet.job(Job::new(""));
    fs::write(other.path("deployment.yml"), DEPLOYMENT).unwrap();
    fs::create_dir(other.path("numbers")).unwrap();
    fs::write(other.path("numbers/c.txt"), "9").unwrap();
    let line = format!(
        "deployment.yml --set job_definition=azureml:{id} --set settings.default_compute=graphs --set inputs.input_data.path=numbers"
    );
    let ended = submit(&other, &line);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, fleet.story());
    let next = ended.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(fleet.stored(&next).text("output/scores"), "c-0 18\n");
    let absent = line.replace(&id, "former-20200101-000000-abcd");
    refused(
        &submit(&other, &absent),
        &["job_definition: there is no job", "prs list shows the jobs of the fleet"],
    );
}
