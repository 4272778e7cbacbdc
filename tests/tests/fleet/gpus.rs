//! Which GPU a process gets (spec G1, G2), on a host whose GPUs are declared.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prs_tests::harness::{Fleet, Job};
use serde_json::Value;

const COUNT: &str = "AZ_BATCHAI_GPU_COUNT_FOUND";

/// All jobs of a host share its GPUs, so one test at a time has any.
fn alone() -> MutexGuard<'static, ()> {
    static GPUS: Mutex<()> = Mutex::new(());
    GPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn gpus_are_given_to_the_lowest_processes_and_given_again() {
    let _alone = alone();
    let script = r#"
import os
from azureml_user.parallel_run import EntryScript
from marks import mark, count, wait_for, is_marked

def init():
    mark("gpu", f"{EntryScript().agent_name} {os.environ['CUDA_VISIBLE_DEVICES'] or 'none'}")

def run(mini_batch, context):
    # All four at work at a time, so that each has its place.
    mark("running")
    while count("running") < 4:
        pass
    if os.environ["CUDA_VISIBLE_DEVICES"] == "6" and not is_marked("died"):
        mark("died")
        os._exit(1)
    if not is_marked("died"):
        wait_for("died")
    while count("gpu") < 5:
        pass
    return [os.environ["AZ_BATCHAI_GPU_COUNT_FOUND"]] * len(mini_batch)
"#;
    let job = Job::new(script)
        .with_files(8)
        .with("process_count_per_node", 4)
        .with_own_variable(COUNT, "1")
        .with_own_variable("CUDA_VISIBLE_DEVICES", "6,7");
    job.completes();
    let gpus: BTreeMap<String, String> = job
        .marks("gpu")
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(process, gpu)| (process.to_owned(), gpu.to_owned()))
        .collect();
    let expected = [
        ("process000", "6"),
        ("process001", "7"),
        // They would see all of them without the variable.
        ("process002", "none"),
        ("process003", "none"),
        // Takes the place of the process that died, and its GPU.
        ("process004", "6"),
    ];
    assert_eq!(gpus, expected.map(|(process, gpu)| (process.to_owned(), gpu.to_owned())).into());
    assert_eq!(job.run().rows(), ["2"; 8]);
    let told = job.run().text("logs/job_result.txt");
    assert!(told.contains("had 2 GPUs: 2 of them saw none"), "{told}");
    let looked = job.command(&["validate", "job.yml"]);
    assert!(
        looked.stderr.contains("4 processes share 2 GPUs (CUDA_VISIBLE_DEVICES=6,7): 2 of them see none")
    );
}

#[test]
fn a_host_with_gpus_runs_one_process_by_default() {
    let _alone = alone();
    let job = Job::new("def run(mini_batch):\n    return mini_batch\n").with_files(4);
    let mut job = job.with_own_variable(COUNT, "1");
    job.set("process_count_per_node", Value::Null);
    job.completes();
    let main = job.run().text("logs/sys/master_role.txt");
    assert!(main.contains("1 processes"), "{main}");
}

#[test]
fn workers_of_one_host_share_its_gpus() {
    let _alone = alone();
    let script = r#"
import os
from marks import count, mark

def init():
    mark("gpu", os.environ["CUDA_VISIBLE_DEVICES"] or "none")

def run(mini_batch):
    # The job goes on until all three have theirs.
    while count("gpu") < 3:
        pass
    return mini_batch
"#;
    let fleet = Fleet::shared();
    let job = Job::new(script)
        .with_files(1)
        .with("compute_target", "gpus")
        .with("process_count_per_node", 1)
        .with("node_count", 3);
    let job = fleet.job(job);
    let two = [(COUNT.to_owned(), "2".to_owned())];
    let _workers = [(); 3].map(|()| fleet.worker_with(&job, &["--target", "gpus"], &two));
    fleet.completes(&job);
    let mut gpus = job.marks("gpu");
    gpus.sort();
    assert_eq!(gpus, ["0", "1", "none"], "{}", fleet.story());
}
