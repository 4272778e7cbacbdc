//! Side inputs (spec P4) and named outputs (dialects A.4) of whole jobs, on this machine and on a fleet.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job};
use serde_json::json;

const BUCKET: &str = "fleet";

/// Each row has what the side inputs hold, and where the script sees them; the script writes a model for each mini-batch.
const READS: &str = r#"
import os, sys
from marks import mark

model, table, out, report = sys.argv[-4:]
assert model == os.environ["MODEL"]

def text(path):
    with open(path) as file:
        return file.read()

def init():
    mark("init", text(os.path.join(model, "deep", "weights.txt")))

def run(mini_batch, context):
    index = context.minibatch_index
    assert os.listdir(out) == [] and not os.path.exists(report), os.listdir(out)
    os.makedirs(os.path.join(out, f"m{index}"))
    with open(os.path.join(out, f"m{index}", "model.txt"), "w") as file:
        file.write(str(index))
    with open(report, "w") as file:
        file.write(f"try {context.retry_count}")
    if index % 3 == 1 and context.retry_count == 0:
        raise ValueError("once")
    return [f"{text(os.path.join(model, 'w.txt'))} {text(table)} {table} {os.path.basename(path)}" for path in mini_batch]
"#;

fn job() -> Job {
    let job = Job::new(READS).with_files(9).with("mini_batch_size", 1);
    for (name, content) in [("model/w.txt", "w"), ("model/deep/weights.txt", "deep"), ("table.csv", "t")] {
        let path = job.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let (model, table) = (job.path("model"), job.path("table.csv"));
    job.with("side_inputs", json!({ "model": model, "table": { "path": table } }))
        .with("outputs", json!({ "report": { "type": "uri_file", "path": "reports/one.txt" } }))
        .with(
            "arguments",
            json!([
                "${{side_inputs.model}}",
                "${{ side_inputs.table }}",
                "${{outputs.models}}",
                "${{outputs.report}}",
            ]),
        )
        .with_variable("MODEL", "${{side_inputs.model}}")
}

fn rows(table: &str) -> String {
    (0..9).map(|number| format!("w t {table} {number:04}.txt\n")).collect::<Vec<_>>().concat()
}

/// What the script leaves in the output, by the ids of its mini-batches.
fn outputs() -> Vec<String> {
    let mut names = vec!["parallel_run_step.txt".to_owned(), "reports/one.txt".to_owned()];
    names.extend((0..9).map(|index| format!("models/m{index}/model.txt")));
    names.extend((1..9).map(|index| format!("reports/one.mb-{index:010}.txt")));
    names.sort_unstable();
    names
}

#[test]
fn the_script_sees_local_side_inputs_where_they_are() {
    let job = job();
    job.completes();
    let table = job.path("table.csv");
    assert_eq!(job.run().text("output/parallel_run_step.txt"), rows(table.to_str().unwrap()));
    let mut found: Vec<_> =
        job.run().files("output").iter().map(|name| name.replacen("output/", "", 1)).collect();
    found.sort_unstable();
    assert_eq!(found, outputs());
    assert_eq!(job.run().text("output/reports/one.txt"), "try 0");
    assert_eq!(job.run().text("output/reports/one.mb-0000000001.txt"), "try 1");

    // As a file that is shown, and for one mini-batch.
    let shown = job.command(&["show", "run"]).stdout;
    assert!(
        shown.contains("side_inputs:\n  model: ") && shown.contains("outputs:\n  models: models\n"),
        "{shown}"
    );
    let tried = job.command(&["try", "job.yml", "--mini-batch", "2"]);
    assert!(tried.stdout.contains("models/m2/model.txt"), "{}\n{}", tried.stdout, tried.stderr);
}

#[test]
fn a_side_input_that_changed_or_vanished_ends_a_later_start() {
    let job = job().with("run_max_try", 1);
    assert_eq!(job.submit().code, Some(10));
    fs::write(job.path("model/w.txt"), "other").unwrap();
    job.has_failed_again(
        &job.resume(),
        &["side input model changed since the job was first started", "submit the job as a new one"],
    );
    fs::remove_dir_all(job.path("model")).unwrap();
    job.has_failed_again(&job.resume(), &["side input model cannot be read", "No such file"]);
    let refused = job.command(&["validate", "job.yml"]);
    refused.expect_code(2);
    assert!(refused.stderr.contains("side_inputs.model: cannot read"), "{}", refused.stderr);
}

/// The path of the table on the nodes of a fleet.
fn table_on_nodes(name: &str) -> String {
    format!("/tmp/prs-job-{name}/inputs/table.side/table.csv")
}

fn on_fleet(fleet: &Fleet, name: &str) -> Job {
    fleet.job(job()).with("name", name).with("compute_target", name)
}

#[test]
fn a_fleet_has_them_once_on_each_host_under_the_same_path() {
    let fleet = Fleet::shared();
    let job = on_fleet(fleet, "side-both").with("node_count", 2).with("process_count_per_node", 1);
    // Content that no other test has.
    fs::write(job.path("model/mine.txt"), "of this test").unwrap();
    let _workers = [(); 2].map(|()| fleet.worker(&job, &["--target", "side-both"]));
    let result = fleet.completes(&job);
    let id = result["job_id"].as_str().unwrap();
    let stored = fleet.stored(id);
    assert_eq!(String::from_utf8(stored.result()).unwrap(), rows(&table_on_nodes("side-both")));
    let mut found: Vec<_> =
        stored.keys().iter().filter_map(|key| Some(key.strip_prefix("output/")?.to_owned())).collect();
    found.sort_unstable();
    assert_eq!(found, outputs());
    assert!(stored.text("logs/sys/node/0/_main.txt").contains("side input model is here"));
    let kept = fs::read_dir(fleet.work_folder().join("prs-side-inputs")).unwrap();
    let mine = kept.filter(|entry| entry.as_ref().unwrap().path().join("mine.txt").is_file()).count();
    assert_eq!(mine, 1, "it is there once");

    // Again, when what was uploaded is gone: the host has it still.
    fleet.s3.delete_object(BUCKET, &blob_of(fleet, b"of this test"));
    let again = job.command(&["resubmit", id]);
    again.expect_code(0);
}

#[test]
fn a_worker_that_dies_while_it_fetches_does_no_harm() {
    let fleet = Fleet::shared();
    let name = "side-dies";
    let job = on_fleet(fleet, name);
    // Content that no other test has.
    fs::write(job.path("model/w.txt"), "w").unwrap();
    fs::write(job.path("model/only.txt"), "of that test").unwrap();
    let dies = [("PRS_FAILPOINT".to_owned(), "side_input_file".to_owned())];
    let mut first = fleet.worker_with(&job, &["--target", name], &dies);
    let submitted = fleet.start_submit(&job, &[]);
    wait_for("the worker to die", Duration::from_mins(1), || first.has_ended().then_some(()));
    let _second = fleet.worker(&job, &["--target", name]);
    let ended = submitted.wait();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, fleet.story());
    let result = ended.expect_completed();
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), rows(&table_on_nodes(name)));
}

/// The key of the uploaded file with this content.
fn blob_of(fleet: &Fleet, content: &[u8]) -> String {
    let mut keys = fleet.s3.objects(BUCKET).into_iter().map(|(key, _)| key);
    let is_it = |key: &String| fleet.s3.object(BUCKET, key).is_some_and(|bytes| bytes == content);
    keys.find(is_it).expect("it was uploaded")
}

#[test]
fn a_side_input_that_is_gone_or_damaged_fails_the_job_with_its_name() {
    let fleet = Fleet::shared();
    for (name, content) in [("side-gone", "is to go"), ("side-damaged", "is to be damaged")] {
        let job = on_fleet(fleet, name).with("node_count", 2);
        fs::write(job.path("model/w.txt"), content).unwrap();
        let id = fleet.hand_in(&job);
        let key = blob_of(fleet, content.as_bytes());
        if name == "side-gone" {
            fleet.s3.delete_object(BUCKET, &key);
        } else {
            fleet.s3.put_object(BUCKET, &key, b"is to be demaged");
        }
        let _workers = [(); 2].map(|()| fleet.worker(&job, &["--target", name]));
        let ended = job.start(&["stream", &id]).wait();
        assert_eq!(ended.code, Some(42), "{}\n{}", ended.stderr, fleet.story());
        let told = fleet.stored(&id).text("logs/job_result.txt");
        assert!(told.contains("side input model cannot be read: ") && told.contains("model/w.txt"), "{told}");
        assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
    }
}

#[test]
fn a_bucket_is_one_too_and_a_direct_one_stays_where_it_is() {
    let fleet = Fleet::shared();
    fleet.s3.make_bucket("models");
    for (key, content) in [("a/w.txt", "w"), ("a/deep/weights.txt", "deep"), ("t/table.csv", "t")] {
        fleet.s3.put_object("models", key, content.as_bytes());
    }
    let name = "side-bucket";
    let urls = json!({ "model": "s3://models/a", "table": "s3://models/t/table.csv" });
    let job = on_fleet(fleet, name).with("side_inputs", urls);
    let _worker = fleet.worker(&job, &["--target", name]);
    let result = fleet.completes(&job);
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), rows(&table_on_nodes(name)));

    let (model, table) = (job.path("model"), job.path("table.csv"));
    let direct =
        json!({ "model": { "path": model, "mode": "direct" }, "table": { "path": table, "mode": "direct" } });
    let job = job.with("side_inputs", direct);
    let result = fleet.completes(&job);
    let stored = fleet.stored(result["job_id"].as_str().unwrap());
    assert_eq!(String::from_utf8(stored.result()).unwrap(), rows(table.to_str().unwrap()));
}
