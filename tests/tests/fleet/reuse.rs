//! `allow_reuse` (spec P3): the same code, settings and listing give the former output at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use prs_tests::harness::{Ended, Fleet, Job};
use serde_json::{Value, json};

const UPPER: &str = "
import marks
def run(mini_batch):
    marks.mark('ran')
    return [open(path).read().upper() for path in mini_batch]
";
/// Writes a file for each one it is given, and returns nothing.
const FILES: &str = "
import os, marks
from azureml_user.parallel_run import EntryScript
def run(mini_batch):
    marks.mark('ran')
    for path in mini_batch:
        with open(os.path.join(EntryScript().output_dir, 'of-' + os.path.basename(path)), 'w') as file:
            file.write('part of ' + path)
    return mini_batch
";

/// A job whose files were written long ago, as far as their dates tell.
fn job(script: &str) -> Job {
    let job = Job::new(script).with_files(6).with("allow_reuse", true);
    age(&job.path("data"), 3_600);
    job
}

/// Makes the files of a folder this old, seconds.
fn age(folder: &Path, seconds: u64) {
    for entry in fs::read_dir(folder).unwrap() {
        touch(&entry.unwrap().path(), seconds);
    }
}

fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Submits with further arguments; the run lies in the folder of runs.
fn submit_with(job: &Job, more: &[&str]) -> Ended {
    let file = job.write_job_file().display().to_string();
    job.command(&[&["submit", &file, "-o", "json"], more].concat())
}

/// The same; the job must complete.
#[track_caller]
fn submit(job: &Job) -> Value {
    submit_with(job, &[]).expect_completed()
}

fn id(result: &Value) -> &str {
    result["job_id"].as_str().unwrap()
}

/// The result file of a job of this machine.
fn rows(result: &Value) -> Vec<u8> {
    fs::read(result["output"]["file"].as_str().unwrap()).unwrap()
}

/// Mini-batches that were run since the last look.
fn ran(job: &Job) -> usize {
    let count = job.marks("ran").len();
    if count > 0 {
        job.unmark("ran");
    }
    count
}

/// Submits a job that must be given the output of `former`.
#[track_caller]
fn is_given(job: &Job, former: &Value) -> Value {
    let ended = submit_with(job, &[]);
    let result = ended.expect_completed();
    assert_eq!(result["reused_from"], former["job_id"], "{}", ended.stderr);
    assert_eq!(ran(job), 0, "nothing runs");
    let note =
        format!("note: job {} had the same code, settings and inputs: its output is given", id(former));
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    assert!(id(&result) != id(former));
    for same in ["mini_batches", "items", "complete", "starts"] {
        assert_eq!(result[same], former[same], "{same}");
    }
    for same in ["rows", "bytes", "sha256"] {
        assert_eq!(result["output"][same], former["output"][same], "{same}");
    }
    result
}

/// Submits a job that must run.
#[track_caller]
fn runs(job: &Job) -> Value {
    let ended = submit_with(job, &[]);
    let result = ended.expect_completed();
    assert_eq!(result["reused_from"], Value::Null, "{}", ended.stderr);
    assert!(ran(job) > 0, "{}", ended.stderr);
    result
}

#[test]
fn the_same_job_again_is_given_the_former_output_and_says_so_everywhere() {
    let mut job = job(UPPER);
    let first = runs(&job);
    // What does not decide the output may differ.
    job.set("name", "other-name");
    job.set("description", "the same once more");
    job.set("process_count_per_node", 1);
    job.set("error_threshold", 3);
    let second = is_given(&job, &first);
    assert_eq!(rows(&second), rows(&first));
    assert_ne!(first["output"]["file"], second["output"]["file"]);

    let (first, second) = (id(&first), id(&second));
    let told = format!("the output of job {first}, which had the same code, settings and inputs");
    let report = fs::read_to_string(job.path(&format!("prs-runs/{second}/logs/job_result.txt"))).unwrap();
    assert!(report.starts_with("completed\n\n") && report.contains(&told), "{report}");
    assert!(job.path(&format!("prs-runs/{second}/logs/readme.txt")).is_file());
    for command in [["show", second], ["status", second]] {
        let said = job.command(&command);
        said.expect_code(0);
        assert!(said.stdout.contains(&told), "{command:?}\n{}", said.stdout);
    }
    assert!(job.command(&["list"]).stdout.contains(&format!("given the output of {first}")));
    for command in ["show", "status", "result"] {
        assert_eq!(job.command(&[command, second, "-o", "json"]).json()["reused_from"], first, "{command}");
    }
    let resumed = job.command(&["resume", second]);
    resumed.expect_code(0);
    assert!(resumed.stderr.contains("completed already"), "{}", resumed.stderr);
    for left in ["notes", "segments", "work", ".tmp"] {
        let left = job.path(&format!("prs-runs/{second}/{left}"));
        assert!(!left.exists() || fs::read_dir(&left).unwrap().next().is_none(), "{left:?}");
    }
    // The one that ran is gone; the other has its output.
    let removed = job.command(&["rm", first, "--yes"]);
    removed.expect_code(0);
    let third = submit(&job);
    assert_eq!((&third["reused_from"], ran(&job)), (&json!(second), 0));
    let removed = job.command(&["rm", second, third["job_id"].as_str().unwrap(), "--yes"]);
    removed.expect_code(0);
    runs(&job);
}

#[test]
fn a_job_that_differs_runs() {
    let mut job = job(UPPER);
    runs(&job);
    job.set("mini_batch_size", 3);
    let former = runs(&job);
    job.code("helper.py", "");
    runs(&job);
    fs::remove_file(job.path("code/helper.py")).unwrap();
    is_given(&job, &former);

    job.data("0003.txt", "item x");
    touch(&job.path("data/0003.txt"), 3_000);
    let changed = runs(&job);
    assert_ne!(rows(&changed), rows(&former));
    is_given(&job, &changed);

    let anew = submit_with(&job, &["--set", "allow_reuse=false"]).expect_completed();
    assert!(anew["reused_from"].is_null() && ran(&job) > 0);
    // What was asked to run is the latest that can give its output.
    is_given(&job, &anew);
}

#[test]
fn files_are_the_same_by_their_content() {
    let job = job(UPPER);
    let path = |name: &str| job.path("data").join(name);
    let first = runs(&job);
    fs::set_permissions(path("0000.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let second = is_given(&job, &first);
    fs::hard_link(path("0001.txt"), job.path("backup")).unwrap();
    fs::write(path("0002.txt"), "item 2").unwrap();
    fs::write(job.path("copy"), "item 3").unwrap();
    fs::rename(job.path("copy"), path("0003.txt")).unwrap();
    is_given(&job, &first);
    // Another write just after one might not show.
    job.data("0001.txt", "fresh!");
    let fresh = runs(&job);
    is_given(&job, &fresh);
    // Its size and its time say nothing.
    job.data("0001.txt", "hidden");
    touch(&path("0001.txt"), 3_600);
    let hidden = runs(&job);
    assert_ne!(rows(&hidden), rows(&fresh));
    job.data("0001.txt", "item 1");
    touch(&path("0001.txt"), 3_600);
    job.command(&["rm", id(&second), "--yes"]).expect_code(0);
    is_given(&job, &first);
}

#[test]
fn what_cannot_be_compared_for_certain_runs() {
    let job = job(UPPER);
    fs::write(job.path("list.txt"), "data/0000.txt\ndata/0002.txt\n").unwrap();
    let listed = job.with("inputs", json!([{ "type": "file", "list": "list.txt" }]));
    runs(&listed);
    runs(&listed);
}

#[test]
fn what_a_script_reads_beside_its_inputs_is_compared() {
    let mut job = job(UPPER);
    let path = job.path("models/weights.bin");
    fs::create_dir(job.path("models")).unwrap();
    fs::write(&path, "one").unwrap();
    job.set("model", json!({ "path": "models" }));
    let first = runs(&job);
    is_given(&job, &first);
    // Its size and its time say nothing.
    touch(&path, 3_600);
    is_given(&job, &first);
    fs::write(&path, "two").unwrap();
    touch(&path, 3_600);
    let second = runs(&job);
    is_given(&job, &second);
    // As it was before.
    fs::write(&path, "one").unwrap();
    touch(&path, 3_600);
    is_given(&job, &first);
    // What every node has is not looked at.
    job.set("side_inputs", json!({ "weights": { "path": "models/weights.bin", "mode": "direct" } }));
    runs(&job);
    runs(&job);
}

#[test]
fn tables_are_compared_by_their_files() {
    let script = "
import marks
def run(frame):
    marks.mark('ran')
    return frame
";
    let job = Job::new(script).with_tables(&[40, 3]).with("allow_reuse", true).with("mini_batch_size", "1KB");
    age(&job.path("data"), 3_600);
    let first = runs(&job);
    is_given(&job, &first);
    touch(&job.path("data/001.csv"), 3_000);
    let touched = is_given(&job, &first);
    let text = fs::read_to_string(job.path("data/001.csv")).unwrap().replace("name, 4", "NAME, 4");
    job.data("001.csv", text);
    touch(&job.path("data/001.csv"), 3_000);
    assert_ne!(rows(&runs(&job)), rows(&touched));
}

#[test]
fn a_former_job_without_all_of_its_items_gives_nothing() {
    let script = "
import marks
def run(mini_batch):
    marks.mark('ran')
    if marks.is_marked('fail') and any('0003' in path for path in mini_batch):
        raise ValueError('no')
    return mini_batch
";
    let job = job(script).with("allowed_failed_count", 5).with("run_max_try", 1);
    job.mark("fail");
    assert_eq!(runs(&job)["complete"], false);
    job.unmark("fail");
    let whole = runs(&job);
    is_given(&job, &whole);
}

#[test]
fn a_former_output_that_is_gone_or_damaged_is_made_anew() {
    let job = job(UPPER);
    let first = runs(&job);
    let file = first["output"]["file"].as_str().unwrap();
    let whole = rows(&first);
    let refused = |why: &str| {
        let ended = submit_with(&job, &[]);
        let result = ended.expect_completed();
        let told = format!(
            "note: job {} had the same code, settings and inputs, but its output cannot be given: \
             parallel_run_step.txt {why}; the job runs",
            id(&first)
        );
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
        assert!(result["reused_from"].is_null() && ran(&job) > 0);
        assert_eq!(rows(&result), whole);
        job.command(&["rm", id(&result), "--yes"]).expect_code(0);
    };
    let mut damaged = whole.clone();
    damaged[3] ^= 1;
    fs::write(file, damaged).unwrap();
    refused("is not what the job wrote");
    fs::write(file, &whole[..whole.len() - 2]).unwrap();
    refused("is not what the job wrote");
    fs::remove_file(file).unwrap();
    refused("is gone");
    fs::write(file, &whole).unwrap();
    is_given(&job, &first);
}

#[test]
fn an_output_elsewhere_gets_what_the_job_wrote_and_holds_no_result_before() {
    let mut job = job(UPPER).with("output", "out-1");
    let first = runs(&job);
    fs::write(job.path("out-1/mine.txt"), "of the user").unwrap();
    job.set("output", "out-2");
    let second = is_given(&job, &first);
    assert_eq!(second["output"]["file"], json!(job.path("out-2/parallel_run_step.txt")));
    let there: Vec<_> =
        fs::read_dir(job.path("out-2")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["parallel_run_step.txt"]);
    let refused = submit_with(&job, &[]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("exists already"), "{}", refused.stderr);
}

#[test]
fn files_of_the_script_are_given_and_checked_too() {
    let job = job(FILES).with("output_action", "summary_only");
    let first = runs(&job);
    let second = is_given(&job, &first);
    let third = is_given(&job, &first);
    let output = |result: &Value| Path::new(result["output"]["uri"].as_str().unwrap()).to_owned();
    for given in [&second, &third] {
        assert_eq!(fs::read_dir(output(given)).unwrap().count(), 6);
        let one = "of-0004.txt";
        assert_eq!(fs::read(output(given).join(one)).unwrap(), fs::read(output(&first).join(one)).unwrap());
    }
    job.command(&["rm", id(&second), id(&third), "--yes"]).expect_code(0);
    fs::write(output(&first).join("of-0004.txt"), "part of something").unwrap();
    let ended = submit_with(&job, &[]);
    assert!(ended.stderr.contains("of-0004.txt is not what the job wrote; the job runs"), "{}", ended.stderr);
    let anew = ended.expect_completed();
    assert!(anew["reused_from"].is_null() && ran(&job) > 0);
    assert_eq!(fs::read_dir(output(&anew)).unwrap().count(), 6);
}

#[test]
fn a_script_that_keeps_its_results_elsewhere_runs_each_time() {
    let job = job(UPPER).with("output_action", "summary_only");
    runs(&job);
    runs(&job);
}

#[test]
fn resubmit_and_mixed_starts_give_and_take_nothing_else() {
    let script = "
import marks
def run(mini_batch):
    marks.mark('ran')
    if marks.is_marked('fail') and any('0003' in path for path in mini_batch):
        raise ValueError('no')
    return mini_batch
";
    let job = job(script).with("run_max_try", 1).with("allowed_failed_count", 5);
    job.mark("fail");
    let first = runs(&job);
    job.unmark("fail");
    // The rest of it runs with other code: no code is that of its output.
    job.code("helper.py", "");
    let resumed = job.command(&["resume", id(&first), "--code", "new", "-o", "json"]);
    assert_eq!(resumed.expect_completed()["complete"], true);
    ran(&job);
    let second = runs(&job);
    is_given(&job, &second);
    let resubmitted = job.command(&["resubmit", id(&second), "-o", "json"]).expect_completed();
    assert!(resubmitted["reused_from"].is_null() && ran(&job) > 0);
    let third = is_given(&job, &resubmitted);
    assert_eq!(rows(&third), rows(&second));
}

#[test]
fn two_at_once_and_one_that_is_killed_leave_whole_jobs() {
    let job = job(UPPER);
    let first = runs(&job);
    let file = job.write_job_file().display().to_string();
    let both = [(); 2].map(|()| job.start(&["submit", &file, "-o", "json"]));
    for one in both {
        let result = one.wait().expect_completed();
        assert_eq!((&result["reused_from"], rows(&result)), (&first["job_id"], rows(&first)));
    }
    assert_eq!(ran(&job), 0);
    // It dies with the output in its place and no result in its record.
    let job = job.with_own_variable("PRS_FAILPOINT", "output_given").with("output", "out");
    assert_eq!(submit_with(&job, &[]).code, None);
    assert!(job.path("out/parallel_run_step.txt").is_file());
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    let latest = job.command(&["resume", "@latest", "-o", "json"]).expect_completed();
    assert!(latest["reused_from"].is_null() && ran(&job) > 0, "it runs as if nothing had been there");
    assert_eq!(rows(&latest), rows(&first));
}

/// A job for the workers of `target`.
fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    let job =
        fleet.job(Job::new(script).with_files(6)).with("compute_target", target).with("allow_reuse", true);
    age(&job.path("data"), 3_600);
    job
}

/// The jobs of which the fleet says that they can give their output.
fn entered(fleet: &Fleet) -> Vec<String> {
    let objects = fleet.s3.objects(fleet.bucket()).into_iter();
    objects
        .filter_map(|(key, _)| Some(key.strip_prefix("prs/reuse/")?.rsplit('/').next()?.to_owned()))
        .collect()
}

#[test]
fn a_fleet_gives_a_former_output_without_a_worker() {
    let fleet = &Fleet::apart();
    let mut job = on_fleet(fleet, "reuse", UPPER);
    let worker = fleet.worker(&job, &["--target", "reuse"]);
    let first = runs(&job);
    worker.kill();
    // Uploads are compared by what they hold.
    touch(&job.path("data/0001.txt"), 1_000);
    job.set("node_count", 3);
    job.set("output", "out");
    let second = is_given(&job, &first);
    let rows = fleet.stored(id(&first)).result();
    assert_eq!(fs::read(job.path("out/parallel_run_step.txt")).unwrap(), rows);
    assert_eq!(fleet.stored(id(&second)).result(), rows);
    assert!(fleet.stored(id(&second)).text("logs/job_result.txt").contains(id(&first)));
    let served = |id: &str| fleet.active().iter().any(|active| active.contains(id));
    assert!(!served(id(&second)), "nobody is to serve it: {:?}", fleet.active());
    let listed = job.command(&["list", "-o", "json"]).json();
    assert!(
        listed["jobs"].as_array().unwrap().iter().any(|one| one["reused_from"] == first["job_id"]),
        "{listed}"
    );
    let refused = submit_with(&job, &[]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("exists already"), "{}", refused.stderr);

    job.set("output", "out-2");
    let detached = submit_with(&job, &["--detach"]);
    detached.expect_code(0);
    let third = detached.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(job.command(&["status", &third, "-o", "json"]).json()["reused_from"], first["job_id"]);
    assert!(!job.path("out-2").exists());
    let followed = job.command(&["stream", &third, "-o", "json"]);
    assert_eq!(followed.expect_completed()["reused_from"], first["job_id"]);

    // Dead in the middle: nothing of it is a job.
    let job = job.with_own_variable("PRS_FAILPOINT", "output_given");
    assert_eq!(submit_with(&job, &[]).code, None);
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    let count = |job: &Job| job.command(&["list", "-o", "json"]).json()["jobs"].as_array().unwrap().len();
    let before = count(&job);
    let fourth = is_given(&job, &first);
    assert_eq!(count(&job), before + 1);

    for given in [id(&first), id(&second), &third] {
        assert!(entered(fleet).iter().any(|one| one == given), "{given}");
        job.command(&["rm", given, "--yes"]).expect_code(0);
        assert!(!entered(fleet).iter().any(|one| one == given), "{given}");
    }
    let job = job.with("output", "out-3");
    let ended = submit_with(&job, &[]).expect_completed();
    assert_eq!((&ended["reused_from"], ran(&job)), (&fourth["job_id"], 0));
}

#[test]
fn a_fleet_compares_buckets_by_their_etags_and_finds_damage() {
    let fleet = Fleet::shared();
    let name = "reuse-data";
    fleet.s3.make_bucket(name);
    let put = |text: &str| fleet.s3.put_object(name, "in/b.txt", text.as_bytes());
    put("beta");
    fleet.s3.put_object(name, "in/a.txt", b"alpha");
    let job = on_fleet(fleet, "reuse-buckets", UPPER)
        .with("inputs", json!([{ "type": "file", "path": format!("s3://{name}/in") }]));
    let _worker = fleet.worker(&job, &["--target", "reuse-buckets"]);
    runs(&job);
    put("BETA");
    let first = runs(&job);
    is_given(&job, &first);
    fleet.s3.put_object(name, "in/c.txt", b"gamma");
    let first = runs(&job);

    let flip = |bytes: &mut Vec<u8>| bytes[0] ^= 1;
    fleet.stored(id(&first)).damage("output/parallel_run_step.txt", flip);
    let ended = submit_with(&job, &[]);
    let told = "its output cannot be given: parallel_run_step.txt is not what the job wrote; the job runs";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let second = ended.expect_completed();
    assert!(second["reused_from"].is_null() && ran(&job) > 0);
    assert_eq!(fleet.stored(id(&second)).result(), b"ALPHA\nBETA\nGAMMA\n");
    is_given(&job, &second);
}

#[test]
fn a_fleet_compares_files_that_every_node_has_by_their_content() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "reuse-direct", FILES)
        .with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]));
    let _worker = fleet.worker(&job, &["--target", "reuse-direct"]);
    let first = runs(&job);
    let second = is_given(&job, &first);
    let files = |result: &Value| {
        let keys = fleet.stored(id(result)).keys().into_iter();
        keys.filter(|key| key.starts_with("output/")).collect::<Vec<_>>()
    };
    assert_eq!((files(&first).len(), files(&second)), (7, files(&first)));
    touch(&job.path("data/0001.txt"), 1_000);
    is_given(&job, &first);
    job.data("0001.txt", "hidden");
    touch(&job.path("data/0001.txt"), 1_000);
    runs(&job);
}

#[test]
fn a_fleet_compares_the_model_by_what_it_holds() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "reuse-model", UPPER).with("model", "model.bin");
    let _worker = fleet.worker(&job, &["--target", "reuse-model"]);
    fs::write(job.path("model.bin"), "one").unwrap();
    let first = runs(&job);
    touch(&job.path("model.bin"), 1_000);
    is_given(&job, &first);
    fs::write(job.path("model.bin"), "two").unwrap();
    runs(&job);
}
