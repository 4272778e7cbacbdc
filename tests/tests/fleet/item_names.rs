//! What scripts see of their items: names and paths that do not depend on where and when the job runs.

use prs_tests::harness::{Fleet, Job};
use serde_json::{Value, json};

/// The names in the context, for as many rows as there are items.
const NAMES: &str = "
def run(mini_batch, context):
    names = context.items
    return names * len(mini_batch) if len(names) == 1 else names
";

/// The job over this input.
fn with_input(job: Job, input: &Value) -> Job {
    let job = job.with("inputs", json!([input]));
    if input["type"] == "file" { job.with("mini_batch_size", 2) } else { job.with("mini_batch_size", 20) }
}

/// A job in a folder with some of everything.
fn job(script: &str) -> Job {
    let job = Job::new(script);
    for name in ["b.txt", "a/1.txt", "a/ü 2.txt", "c/d/3.txt", "a.txt"] {
        job.data(name, name);
    }
    job.data("tables/x/one.csv", "id\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    job.data("tables/two.csv", "id\n10\n11\n");
    let listed =
        ["c/d/3.txt", "b.txt", "a/1.txt"].map(|name| job.path("data").join(name).display().to_string());
    job.data("files.list", listed.join("\n"));
    job
}

#[test]
fn names_are_those_below_the_dataset_embedded_and_on_a_fleet() {
    let fleet = Fleet::shared();
    let on_fleet = fleet.job(job(NAMES)).with("compute_target", "item-names");
    let _worker = fleet.worker(&on_fleet, &["--target", "item-names"]);
    let (mut here, mut there) = (job(NAMES), on_fleet);
    let files = |path| json!({ "type": "file", "path": path });
    let tables = "two.csv\n".repeat(2) + &"x/one.csv\n".repeat(9);
    let listed = |job: &Job| {
        let path = |name: &str| job.path("data").join(name).display().to_string() + "\n";
        ["c/d/3.txt", "b.txt", "a/1.txt"].map(path).concat()
    };
    for (number, (input, expected)) in [
        (files("data/**/*.txt"), Some("a.txt\na/1.txt\na/ü 2.txt\nb.txt\nc/d/3.txt\n".to_owned())),
        (json!({ "type": "file", "list": "data/files.list" }), None),
        (json!({ "type": "tabular", "path": "data/tables" }), Some(tables)),
    ]
    .into_iter()
    .enumerate()
    {
        let run = here.path(&format!("run-{number}"));
        here = with_input(here, &input).with_run_folder(run);
        here.completes();
        let rows = String::from_utf8(here.run().result()).unwrap();
        assert_eq!(rows, expected.clone().unwrap_or_else(|| listed(&here)), "{input}");
        there = with_input(there, &input);
        let result = fleet.completes(&there);
        let stored = fleet.stored(result["job_id"].as_str().unwrap()).result();
        let rows = String::from_utf8(stored).unwrap();
        assert_eq!(rows, expected.unwrap_or_else(|| listed(&there)), "{input}");
    }
}
