//! `output` in a bucket: who ends the job delivers it, over nothing that the job did not bring itself, and once.

mod faults;

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Web, host_of, says};
use serde_json::{Value, json};

/// Each mini-batch returns a row and brings a file; the second fails until the mark `mended`.
const SCRIPT: &str = "
import os
from marks import mark, is_marked
from azureml_user.parallel_run import EntryScript
def run(mini_batch, context):
    mark('ran')
    if context.minibatch_index == 1 and not is_marked('mended'):
        raise RuntimeError('not yet')
    name = os.path.basename(mini_batch[0])
    with open(os.path.join(EntryScript().output_dir, 'part-' + name), 'w') as file:
        file.write(name)
    return [name]
";
/// Waits for the mark `go`.
const WAITS: &str = "
from marks import mark, wait_for
def run(mini_batch):
    mark('begun')
    wait_for('go')
    return ['row'] * len(mini_batch)
";
const RESULT: &str = "parallel_run_step.txt";
const FAILURES: &str = "failed_mini_batches.jsonl";
const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A bucket of a test, and what is in it.
struct Bucket<'a> {
    fleet: &'a Fleet,
    name: &'a str,
}

impl<'a> Bucket<'a> {
    fn make(fleet: &'a Fleet, name: &'a str) -> Self {
        fleet.s3.make_bucket(name);
        Self { fleet, name }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.fleet.s3.object(self.name, key).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn put(&self, key: &str, text: &str) {
        self.fleet.s3.put_object(self.name, key, text.as_bytes());
    }

    fn keys(&self) -> Vec<String> {
        self.fleet.s3.objects(self.name).into_iter().map(|(key, _)| key).collect()
    }

    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }
}

/// A job of this machine, which can use the buckets of the fleet.
fn here(fleet: &Fleet, script: &str) -> Job {
    let job = Job::new(script).with_files(2).with("mini_batch_size", 1).with("run_max_try", 1);
    fleet.s3.env().iter().fold(job, |job, (name, value)| job.with_own_variable(name, value))
}

fn on_fleet(fleet: &Fleet, target: &str, script: &str) -> Job {
    let job = Job::new(script).with_files(2).with("mini_batch_size", 1).with("run_max_try", 1);
    fleet.job(job).with("compute_target", target)
}

/// Forms of job files that name the place, and what it then is.
#[test]
fn all_forms_of_job_files_deliver() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "forms");
    let job = here(fleet, "def run(mini_batch):\n    return ['row'] * len(mini_batch)\n");
    let parallel = |outputs: &str| {
        format!(
            "type: parallel\nname: azure\ninputs: {{files: {{type: uri_folder, path: data}}}}\ninput_data: ${{{{inputs.files}}}}\n\
             mini_batch_size: '1'\nresources: {{instance_count: 1}}\ntask: {{type: run_function, code: code, entry_script: main.py, \
             append_row_to: '${{{{outputs.rows}}}}'}}\noutputs: {{rows: {outputs}}}\n"
        )
    };
    let native = |output: &str| {
        format!(
            "name: native\nsource_directory: code\nentry_script: main.py\ninputs: [{{type: file, path: data}}]\noutput: {output}\n"
        )
    };
    fs::write(job.path("prs.yaml"), "datastores: {mine: s3://forms/store}\n").unwrap();
    for (run, text, file) in [
        ("named", native("'s3://forms/${{name}}'"), "named/parallel_run_step.txt"),
        ("whole", native("s3://forms"), RESULT),
        (
            "store",
            parallel("{type: uri_file, path: azureml://datastores/mine/paths/deep/rows.txt}"),
            "store/deep/rows.txt",
        ),
    ] {
        fs::write(job.path("job.yml"), &text).unwrap();
        let ended =
            job.command(&["submit", "job.yml", "-o", "json", "--run-dir", run, "--set", "allow_reuse=false"]);
        ended.expect_code(0);
        let printed = ended.json();
        let id = printed["job_id"].as_str().unwrap();
        let file = if run == "named" { format!("{id}/{RESULT}") } else { file.to_owned() };
        assert_eq!(bucket.text(&file).as_deref(), Some("row\nrow\n"), "{run}: {:?}", bucket.keys());
        assert_eq!(printed["output"]["file"], json!(bucket.url(&file)), "{run}");
    }
}

#[test]
fn a_run_of_this_machine_delivers_and_replaces_what_it_brought_alone() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "embedded");
    let job = here(fleet, SCRIPT).with("output", "s3://embedded/out");
    bucket.put("out/part-0000.txt", "somebody's");
    let first = job.has_completed(&job.submit());
    assert_eq!(first["output"]["file"], json!(format!("s3://embedded/out/{RESULT}")));
    assert_eq!(bucket.text(&format!("out/{RESULT}")).unwrap(), "0000.txt\n");
    assert_eq!(job.run().text(&format!("output/{RESULT}")), "0000.txt\n", "the run keeps it, too");
    assert!(bucket.text(&format!("out/{FAILURES}")).unwrap().contains("0001.txt"));
    // As in a folder: what somebody else has there stays, and what is brought gets another name.
    assert_eq!(bucket.text("out/part-0000.txt").unwrap(), "somebody's");
    assert_eq!(bucket.text("out/part-0000.mb-0000000000.txt").unwrap(), "0000.txt");
    let shown = job.command(&["status", job.run().path().to_str().unwrap(), "-o", "json"]);
    assert_eq!(shown.json()["output"]["uri"], "s3://embedded/out");

    // Another job finds the path taken, before anything runs.
    let run = job.path("another");
    let file = job.write_job_file().display().to_string();
    let refused = job.command(&["submit", &file, "--run-dir", run.to_str().unwrap()]);
    says(
        &refused,
        2,
        &["the path already exists", "s3://embedded/out/parallel_run_step.txt", "move it away"],
    );
    assert!(!run.exists());

    job.mark("mended");
    job.has_completed(&job.resume());
    assert_eq!(bucket.text(&format!("out/{RESULT}")).unwrap(), "0000.txt\n0001.txt\n");
    assert_eq!(bucket.text(&format!("out/{FAILURES}")), None, "nothing failed any more");
    let fetched = job.command(&["result", job.run().path().to_str().unwrap(), "--output-path", "copy"]);
    fetched.expect_code(0);
    assert_eq!(fs::read_to_string(job.path("copy").join(RESULT)).unwrap(), "0000.txt\n0001.txt\n");
}

#[test]
fn what_cannot_be_a_place_is_told_before_anything_runs() {
    let fleet = Fleet::shared();
    let job = here(fleet, SCRIPT).with("output", "s3://no-such-bucket/out");
    job.is_refused(&["output: cannot look at s3://no-such-bucket/out", "give another output"]);
    let job = job.with("output", "abfss://data@account/out?sig=hush");
    let refused = job.is_refused(&["output: an output cannot be put into abfss", "s3://bucket/folder"]);
    assert!(!refused.stderr.contains("hush"));
    job.with("output", "s3://forms/a//b").is_refused(&["output: a place has no empty parts"]);
}

#[test]
fn a_program_that_dies_over_it_delivers_once() {
    let fleet = Fleet::shared();
    // The first start has one file; that and its copy are two.
    for (number, failpoint) in
        ["file_published:2", "files_delivered", "result_delivered", "output_written", "result_written"]
            .iter()
            .enumerate()
    {
        let name = format!("dies-{number}");
        let bucket = Bucket::make(fleet, &name);
        let job = here(fleet, SCRIPT).with("output", bucket.url("out"));
        let job = job.with_own_variable("PRS_FAILPOINT", failpoint);
        let killed = job.submit();
        assert_eq!(killed.code, None, "{failpoint}: {}", killed.stderr);
        job.soon_leaves_nothing();
        job.mark("mended");
        let job = job.with_own_variable("PRS_FAILPOINT", "");
        job.has_completed(&job.resume());
        let expected = ["out/parallel_run_step.txt", "out/part-0000.txt", "out/part-0001.txt"];
        assert_eq!(bucket.keys(), expected, "{failpoint}");
        assert_eq!(bucket.text(&format!("out/{RESULT}")).unwrap(), "0000.txt\n0001.txt\n", "{failpoint}");
    }
}

#[test]
fn a_result_that_finds_no_room_is_kept_and_delivered_by_resume() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "no-room");
    let key = format!("out/{RESULT}");
    let place = bucket.url("out");
    for job in [here(fleet, WAITS), on_fleet(fleet, "no-room", WAITS)] {
        let is_here = job.own_variables().all(|(name, _)| name != "PRS_STORAGE_URL");
        let job = job.with("output", &*place);
        let _worker = (!is_here).then(|| fleet.worker(&job, &["--target", "no-room"]));
        let mut submit = if is_here { job.start_submit(&[]) } else { fleet.start_submit(&job, &[]) };
        submit.wait_until("the first mini-batch", || !job.marks("begun").is_empty());
        bucket.put(&key, "mine");
        job.mark("go");
        let ended = submit.wait();
        ended.expect_code(42);
        let told = ended.json();
        let (id, reason) = (told["job_id"].as_str().unwrap().to_owned(), told["reason"].as_str().unwrap());
        for part in ["the output cannot be put to s3://no-room/out: ", RESULT, "prs resume"] {
            assert!(reason.contains(part), "{part:?} is not said: {reason}");
        }
        assert_eq!(bucket.text(&key).unwrap(), "mine");
        let name = if is_here { job.run().path().display().to_string() } else { id };
        let folder = if is_here { "copy-here" } else { "copy" };
        job.command(&["result", &name, "--output-path", folder]).expect_code(0);
        assert_eq!(fs::read_to_string(job.path(folder).join(RESULT)).unwrap(), "row\nrow\n");
        let in_the_way = job.command(&["resume", &name]);
        says(&in_the_way, 2, &["the path already exists"]);

        fleet.s3.delete_object("no-room", &key);
        let begun = job.marks("begun").len();
        let resumed = job.command(&["resume", &name, "-o", "json"]);
        resumed.expect_code(0);
        assert_eq!(bucket.text(&key).unwrap(), "row\nrow\n");
        assert_eq!(job.marks("begun").len(), begun, "nothing runs again");
        assert_eq!(resumed.json()["output"]["uri"], json!(place));
        fleet.s3.delete_object("no-room", &key);
    }
}

#[test]
fn the_successor_of_a_killed_orchestrator_delivers() {
    let fleet = Fleet::shared();
    for (number, failpoint) in ["files_delivered", "result_delivered", "output_written"].iter().enumerate() {
        let (name, target) = (format!("killed-{number}"), format!("killed-{number}"));
        let bucket = Bucket::make(fleet, &name);
        let job = on_fleet(fleet, &target, SCRIPT).with("output", bucket.url("out"));
        job.mark("mended");
        let armed = [("PRS_FAILPOINT".to_owned(), (*failpoint).to_owned())];
        let dying = fleet.worker_with(&job, &["--target", &target], &armed);
        let id = fleet.hand_in(&job);
        let died = dying.wait();
        assert_eq!(died.code, None, "it is killed at {failpoint}: {}", died.stderr);
        let _worker = fleet.worker(&job, &["--target", &target]);
        let ended = job.command(&["stream", &id, "-o", "json"]);
        ended.expect_code(0);
        assert_eq!(
            ended.json()["output"]["file"],
            json!(bucket.url(&format!("out/{RESULT}"))),
            "{failpoint}"
        );
        assert_eq!(bucket.text(&format!("out/{RESULT}")).unwrap(), "0000.txt\n0001.txt\n", "{failpoint}");
        let expected = ["out/parallel_run_step.txt", "out/part-0000.txt", "out/part-0001.txt"];
        assert_eq!(bucket.keys(), expected, "{failpoint}");
        let stored = String::from_utf8(fleet.stored(&id).result()).unwrap();
        assert_eq!(stored, "0000.txt\n0001.txt\n", "the job keeps it, too");
    }
}

#[test]
fn what_a_former_job_gives_is_delivered_and_so_are_grouped_rows() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "given");
    let job = here(fleet, "def run(mini_batch):\n    return ['row'] * len(mini_batch)\n");
    // What was changed a moment ago is not compared.
    for entry in fs::read_dir(job.path("data")).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
    }
    let mut job = job.with("allow_reuse", true);
    for place in ["first", "second"] {
        job.set("output", bucket.url(place));
        let file = job.write_job_file().display().to_string();
        let ended = job.command(&["submit", &file, "-o", "json"]);
        ended.expect_code(0);
        assert_eq!(ended.stderr.contains("its output is given"), place == "second", "{}", ended.stderr);
        assert_eq!(bucket.text(&format!("{place}/{RESULT}")).unwrap(), "row\nrow\n");
        assert_eq!(ended.json()["output"]["uri"], json!(bucket.url(place)));
    }

    let grouped =
        Job::new("def run(mini_batch):\n    return ['row'] * len(mini_batch)\n").with_tables(&[4, 4]);
    let grouped =
        fleet.s3.env().iter().fold(grouped, |job, (name, value)| job.with_own_variable(name, value));
    let grouped = grouped.with("partition_keys", json!(["value"])).with("output", bucket.url("grouped"));
    let ended = grouped.submit();
    ended.expect_code(0);
    assert_eq!(ended.json()["output"]["file"], json!(bucket.url(&format!("grouped/{RESULT}"))));
    let rows = bucket.text(&format!("grouped/{RESULT}")).unwrap();
    assert_eq!(rows, "row\n".repeat(8));
}

const DEPLOYMENT: &str = "
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
settings: {mini_batch_size: 1, retry_settings: {max_retries: 0}}
";

/// A folder with an endpoint whose deployment has the name `rows`, and registered data.
fn endpoint(job: Job, name: &str) -> Job {
    let job = job.with_files(2);
    for (path, text) in [
        (
            "src/score.py",
            "def init():\n    pass\ndef run(mini_batch):\n    return ['row'] * len(mini_batch)\n",
        ),
        ("model/weights", "one"),
        ("deployment.yml", DEPLOYMENT),
    ] {
        fs::create_dir_all(job.path(path).parent().unwrap()).unwrap();
        fs::write(job.path(path), text).unwrap();
    }
    let cache = job.path("cache").display().to_string();
    let job = job.with_runtime_folder().with_own_variable("XDG_CACHE_HOME", &cache);
    for words in [
        format!("endpoint create -n {name}"),
        format!("deployment create -f deployment.yml -e {name} -n rows"),
        format!("dataset create --name {name} --path data --type uri_folder"),
    ] {
        job.command(&words.split_whitespace().collect::<Vec<_>>()).expect_code(0);
    }
    job
}

/// Calls an endpoint as Azure's callers do, with this place of the output.
fn call(web: &Web, endpoint: &str, kind: &str, uri: &str) -> Answer {
    let body = json!({ "properties": {
        "InputData": { "any": { "JobInputType": "UriFolder", "Uri": format!("azureml:{endpoint}:1") } },
        "OutputData": { "score": { "JobOutputType": kind, "Uri": uri } },
    } });
    web.send("POST", &format!("/endpoints/{endpoint}/jobs"), &[JSON], body.to_string().as_bytes())
}

fn completed(web: &Web, path: &str) -> Value {
    wait_for("the job ends", PATIENCE, || {
        let job = web.get(path).json(200);
        ["Completed", "Failed", "Canceled"].contains(&job["status"].as_str().unwrap()).then_some(job)
    })
}

#[test]
fn a_call_of_an_endpoint_says_where_its_output_goes() {
    let fleet = Fleet::shared();
    let bucket = Bucket::make(fleet, "calls");
    let alone =
        fleet.s3.env().iter().fold(Job::new(""), |job, (name, value)| job.with_own_variable(name, value));
    for (name, job) in [("alone", alone), ("together", fleet.job(Job::new("")))] {
        let job = endpoint(job, name);
        let _worker = (name == "together")
            .then(|| fleet.worker_with(&job, &[], &host_of(&job, &job.path("worker-cache"))));
        let web = Web::of_user(&job, &["--allow-input", "s3://calls"]);
        let (file, uri) = (format!("{name}/p.csv"), bucket.url(&format!("{name}/p.csv")));
        let called = call(&web, name, "UriFile", &uri).json(202);
        let path = format!("/endpoints/{name}/jobs/{}", called["name"].as_str().unwrap());
        assert_eq!(called["properties"]["outputs"]["score"]["uri"], json!(bucket.url(name)), "{called}");
        let ended = completed(&web, &path);
        assert_eq!(ended["status"], "Completed", "{ended}");
        assert_eq!(ended["properties"]["outputs"]["score"]["uri"], json!(bucket.url(name)));
        assert_eq!(bucket.text(&file).unwrap(), "row\nrow\n");
        let object = web.get(&format!("/api/v1/jobs/{}", called["name"].as_str().unwrap())).json(200);
        assert_eq!(object["output"]["file"], json!(uri));
        let page = web.page(&format!("/jobs/{}/output", called["name"].as_str().unwrap())).text();
        assert!(page.contains(&bucket.url(name)), "{page}");

        // The file is there now; another bucket is not the caller's.
        for (kind, uri, status, part) in [
            ("UriFile", &*uri, 409, "the path already exists"),
            ("UriFolder", "s3://others/out", 422, "--allow-input s3://others"),
        ] {
            let refused = call(&web, name, kind, uri).json(status);
            let told = refused["error"].to_string();
            assert!(told.contains(part), "{part:?} is not said: {refused}");
        }
        let folder = call(&web, name, "UriFolder", &bucket.url(&format!("{name}-folder"))).json(202);
        completed(&web, &format!("/endpoints/{name}/jobs/{}", folder["name"].as_str().unwrap()));
        assert_eq!(bucket.text(&format!("{name}-folder/predictions.csv")).unwrap(), "row\nrow\n");
    }
}
