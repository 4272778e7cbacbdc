//! The registry of data, and what the configuration says that names stand for: `prs dataset`, embedded and on a fleet.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, RunFolder, python};
use serde_json::{Value, json};

/// Gives back what each file holds, or each row.
const READ: &str = r#"
import os
def run(mini_batch):
    if isinstance(mini_batch, list):
        return [f"{os.path.basename(path)} {open(path).read().strip()}" for path in mini_batch]
    return [" ".join(map(str, row)) for row in mini_batch.itertuples(index=False, name=None)]
"#;
const RESULT: &str = "parallel_run_step.txt";

fn job(name: &str) -> Job {
    let job = Job::new(READ).with("inputs", json!([{ "type": "file", "path": format!("azureml:{name}") }]));
    job.data("a.txt", "1");
    job.data("deep/b.txt", "2");
    job.with("mini_batch_size", 1)
}

fn made(job: &Job, arguments: &[&str]) -> Value {
    let ended = job.command(&[&["dataset"], arguments, &["-o", "json"]].concat());
    ended.expect_code(0);
    ended.json()
}

fn refused(job: &Job, arguments: &[&str], part: &str) {
    let ended = job.command(&[&["dataset"], arguments].concat());
    ended.expect_code(2);
    assert!(ended.stderr.contains(part) && ended.stdout.is_empty(), "{part:?} is not said: {}", ended.stderr);
}

/// Writes a configuration that only its owner may change.
fn configure(job: &Job, text: &str) {
    fs::write(job.path("prs.yaml"), text).unwrap();
    fs::set_permissions(job.path("prs.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_job_gets_the_version_that_it_names() {
    let mut job = job("iris@latest");
    let first = made(&job, &["create", "--name", "iris", "--path", "data"]);
    assert_eq!((&first["version"], &first["type"]), (&json!("1"), &json!("uri_folder")));
    job.data("a.txt", "changed");
    let second = made(&job, &["create", "--name", "iris", "--path", "data", "--tag", "of=two"]);
    assert_eq!((&second["version"], &second["tags"]), (&json!("2"), &json!({ "of": "two" })));
    job.data("a.txt", "never registered");

    job.completes();
    assert_eq!(job.run().text(&format!("output/{RESULT}")), "a.txt changed\nb.txt 2\n");
    let shown = job.command(&["show", job.run().path().to_str().unwrap()]);
    shown.expect_code(0);
    let expected =
        format!("# azureml:iris@latest was version 2 of data iris: {}", second["path"].as_str().unwrap());
    assert!(shown.stdout.contains(&expected), "{}", shown.stdout);

    // Another version is another input, and @latest passes over what is archived.
    made(&job, &["archive", "--name", "iris", "--version", "2"]);
    let listed = made(&job, &["list"]);
    assert_eq!((&listed["data"][0]["version"], listed["data"].as_array().unwrap().len()), (&json!("1"), 1));
    assert_eq!(made(&job, &["list", "--name", "iris", "--include-archived"])["data"][0]["version"], "2");
    job.set("allow_reuse", true);
    // Listings do not go by files that were written just before.
    let content = format!("{}a.txt", second["path"].as_str().unwrap());
    let age = || fs::metadata(&content).unwrap().modified().unwrap().elapsed().ok();
    wait_for("the files to be old enough", Duration::from_secs(10), || age().filter(|age| age.as_secs() > 3));
    let run = |job: &Job, folder: &str| {
        let ended = job.command(&["submit", job.write_job_file().to_str().unwrap(), "--run-dir", folder]);
        ended.expect_code(0);
        (RunFolder::new(job.path(folder)).text(&format!("output/{RESULT}")), ended.stderr)
    };
    assert_eq!(run(&job, "prs-runs/one").0, "a.txt 1\nb.txt 2\n");
    let (rows, said) = run(&job, "prs-runs/again");
    assert!(
        rows == "a.txt 1\nb.txt 2\n" && said.contains("its output is given"),
        "the same version is reused: {said}"
    );
    made(&job, &["restore", "--name", "iris", "--version", "2"]);
    let (rows, said) = run(&job, "prs-runs/two");
    assert!(
        rows == "a.txt changed\nb.txt 2\n" && !said.contains("its output is given"),
        "another version runs: {said}"
    );
    // gc knows nothing of the registry.
    job.command(&["gc", "--yes", "--older", "1s"]).expect_code(0);
    assert_eq!(made(&job, &["show", "--name", "iris", "--version", "1"]), first);
    assert!(
        fs::read_to_string(format!("{}a.txt", first["path"].as_str().unwrap())).is_ok_and(|text| text == "1")
    );
}

#[test]
fn a_job_file_through_standard_input_names_registered_data() {
    let job = job("iris@latest");
    made(&job, &["create", "--name", "iris", "--path", "data"]);
    let text = fs::read_to_string(job.write_job_file()).unwrap();
    job.command_with_input(&["validate", "-"], &text).expect_code(0);
    job.command_with_input(&["submit", "-", "--run-dir", "piped"], &text).expect_code(0);
    let run = RunFolder::new(job.path("piped"));
    assert_eq!(run.text(&format!("output/{RESULT}")), "a.txt 1\nb.txt 2\n");
}

#[test]
fn what_cannot_be_registered_or_found_is_refused_with_the_remedy() {
    let job = job("irsi@latest");
    refused(&job, &["show", "--name", "iris"], "prs dataset create");
    refused(&job, &["create", "--path", "data"], "the name of the data is missing");
    refused(&job, &["create", "--name", "iris"], "the path of the data is missing");
    refused(&job, &["create", "--name", "a/b", "--path", "data"], "is not a name of data");
    refused(&job, &["create", "--name", "iris", "--path", "dat"], "data");
    refused(
        &job,
        &["create", "--name", "iris", "--path", "data", "--type", "uri_file"],
        "give type: uri_folder",
    );
    refused(&job, &["create", "--name", "iris", "--path", "data", "--type", "mltable"], "MLTable");
    refused(
        &job,
        &["create", "--name", "iris", "--path", "data", "--type", "folder"],
        "uri_file, uri_folder, mltable",
    );
    refused(&job, &["create", "--name", "iris", "--path", "wasbs://c@a/x"], "map it in references:");
    job.data("bad.yml", "name: iris\nversoin: 1\npath: .\n");
    refused(&job, &["create", "--file", "data/bad.yml"], "did you mean `version`?");
    job.data("good.yml", "$schema: x\nname: iris\nversion: a\ntype: uri_file\npath: a.txt\ntags: {of: me}\n");
    let file = made(&job, &["create", "-f", "data/good.yml"]);
    assert_eq!(
        (&file["version"], &file["type"], &file["given"]),
        (&json!("a"), &json!("uri_file"), &json!("a.txt"))
    );
    refused(&job, &["create", "-f", "data/good.yml"], "version a of data iris is there already");
    refused(&job, &["create", "--name", "iris", "--path", "data"], "is of type uri_file");
    refused(&job, &["show", "--name", "iris", "--version", "1"], "there are: a");
    job.is_refused(&["job.yml", "inputs[0].path", "there is no data irsi", "did you mean iris?"]);
    // Cut short behind everybody's back.
    let entry = job.path("prs-runs/.registry/data/iris.json");
    let whole = fs::read(&entry).unwrap();
    fs::write(&entry, &whole[..whole.len() / 2]).unwrap();
    refused(&job, &["show", "--name", "iris"], "entry of data iris is damaged");
    let listed = job.command(&["dataset", "list"]);
    listed.expect_code(0);
    assert!(listed.stderr.contains("iris.json"), "{}", listed.stderr);
}

#[test]
fn names_stand_for_what_the_configuration_says() {
    let mut job = job("unused:1");
    configure(
        &job,
        "datastores: {disk: data}\nreferences: {'wasbs://c@a/*': 'azureml://datastores/disk/paths/deep'}\n\
         compute: {cpu-cluster: default}\n",
    );
    job.set("inputs", json!([{ "type": "file", "path": "wasbs://c@a/whatever" }]));
    let folder = job.path("run");
    let file = job.write_job_file();
    job.command(&["submit", file.to_str().unwrap(), "--run-dir", "run"]).expect_code(0);
    assert_eq!(RunFolder::new(&folder).text(&format!("output/{RESULT}")), "b.txt 2\n");
    fs::remove_dir_all(&folder).unwrap();
    job.set("inputs", json!([{ "type": "file", "path": "azureml://datastores/dusk/paths/x" }]));
    job.is_refused(&["did you mean disk?"]);
    // In a form of Azure, with the type of the data.
    job.data("table/MLTable", "paths: [{pattern: './*.csv'}]\ntransformations: [read_delimited]\n");
    job.data("table/t.csv", "x,y\n1,2\n3,4\n");
    made(&job, &["create", "--name", "table", "--type", "mltable", "--path", "data/table"]);
    let azure = format!(
        "type: parallel\ncompute: azureml:cpu-cluster\n\
         inputs: {{t: {{path: 'azureml:table@latest', mode: direct}}}}\n\
         input_data: ${{{{inputs.t}}}}\noutputs: {{o: {{type: uri_file, path: out/rows.txt}}}}\n\
         task: {{type: run_function, code: code, entry_script: main.py, append_row_to: '${{{{outputs.o}}}}', \
         environment: {}}}\n",
        python().display()
    );
    fs::write(job.path("azure.yml"), azure).unwrap();
    let ended = job.command(&["submit", "azure.yml", "--run-dir", "azure"]);
    ended.expect_code(0);
    assert!(!ended.stderr.contains("is a compute of Azure"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(job.path("out/rows.txt")).unwrap(), "1 2\n3 4\n");
}

#[test]
fn a_broken_configuration_is_refused_with_line_and_key() {
    let job = job("x:1");
    configure(&job, "datastores: {d: 's3://key:secret@bucket'}\n");
    let ended = job.command(&["dataset", "list"]);
    ended.expect_code(2);
    let is_said =
        ended.stderr.contains("prs.yaml:1: datastores.d") && ended.stderr.contains("no credentials");
    assert!(is_said && !ended.stderr.contains("secret@"), "{}", ended.stderr);
}

#[test]
fn a_fleet_has_a_registry_of_its_own() {
    let fleet = Fleet::apart();
    let job = fleet.job(job("iris@latest")).with("compute_target", "registry");
    job.data(
        "table/MLTable",
        "paths: [{file: t.csv}, {file: deep/u.csv}]\ntransformations: [read_delimited]\n",
    );
    job.data("table/t.csv", "x,y\n1,2\n");
    job.data("table/deep/u.csv", "x,y\n3,4\n");
    fs::remove_dir_all(job.path("data/deep")).unwrap();
    fs::rename(job.path("data/table"), job.path("table")).unwrap();
    let first = made(&job, &["create", "--name", "iris", "--path", "data"]);
    assert!(first["path"].as_str().unwrap().contains("/registry/content/"), "{first}");
    made(&job, &["create", "--name", "table", "--type", "mltable", "--path", "table"]);
    // Two at once get versions of their own.
    let start = || job.start(&["dataset", "create", "--name", "both", "--path", "data", "-o", "json"]);
    let versions: Vec<Value> =
        [start(), start()].into_iter().map(|one| one.wait().json()["version"].clone()).collect();
    assert!(versions.contains(&json!("1")) && versions.contains(&json!("2")), "{versions:?}");

    let _worker = fleet.worker(&job, &["--target", "registry"]);
    fs::write(job.path("data/a.txt"), "never registered").unwrap();
    job.command(&["gc", "--yes", "--older", "1s"]).expect_code(0);
    let told = fleet.completes(&job);
    assert_eq!(fleet.stored(told["job_id"].as_str().unwrap()).text(&format!("output/{RESULT}")), "a.txt 1\n");

    let mut job = job;
    job.set("inputs", json!([{ "type": "mltable", "path": "azureml:table:1" }]));
    job.set("mini_batch_size", "1kb");
    let told = fleet.completes(&job);
    assert_eq!(
        fleet.stored(told["job_id"].as_str().unwrap()).text(&format!("output/{RESULT}")),
        "1 2\n3 4\n"
    );
}

#[test]
fn a_public_bucket_is_read_without_credentials() {
    let fleet = Fleet::apart();
    let job = Job::new(READ).with("mini_batch_size", 1);
    fleet.s3.make_bucket("public");
    fleet.s3.put_object("public", "in/a.txt", b"1");
    let endpoint = fleet.s3.env().into_iter().find(|(name, _)| name == "AWS_ENDPOINT_URL_S3").unwrap().1;
    let inputs = json!([{ "type": "file", "path": "azureml://datastores/open/paths/in" }]);
    let mut job = job.with("inputs", inputs);
    // Whatever credentials the shell has are not sent.
    job = job
        .with_own_variable("AWS_ACCESS_KEY_ID", "of-another-store")
        .with_own_variable("AWS_SECRET_ACCESS_KEY", "x");
    configure(
        &job,
        &format!("datastores: {{open: {{url: 's3://public', endpoint: '{endpoint}', anonymous: true}}}}\n"),
    );
    job.completes();
    assert_eq!(job.run().text(&format!("output/{RESULT}")), "a.txt 1\n");

    configure(&job, &format!("datastores: {{open: {{url: 's3://public', endpoint: '{endpoint}'}}}}\n"));
    let file = job.write_job_file();
    let ended = job.command(&["submit", file.to_str().unwrap(), "--run-dir", "refused"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);

    // On a fleet, the workers' configuration says how.
    let mut job = fleet.job(Job::new(READ)).with("mini_batch_size", 1).with("compute_target", "public");
    job.set("inputs", json!([{ "type": "file", "path": "azureml://datastores/open/paths/in" }]));
    configure(
        &job,
        &format!("datastores: {{open: {{url: 's3://public', endpoint: '{endpoint}', anonymous: true}}}}\n"),
    );
    let config = job.path("prs.yaml").to_str().unwrap().to_owned();
    let _worker = fleet.worker(&job, &["--target", "public", "--config", &config]);
    let told = fleet.completes(&job);
    assert_eq!(fleet.stored(told["job_id"].as_str().unwrap()).text(&format!("output/{RESULT}")), "a.txt 1\n");
}

#[test]
fn a_datastore_has_credentials_of_its_own() {
    let fleet = Fleet::apart();
    let job = Job::new(READ).with("mini_batch_size", 1);
    fleet.s3.make_bucket("owned");
    fleet.s3.put_object("owned", "in/a.txt", b"1");
    let env = |wanted: &str| fleet.s3.env().into_iter().find(|(name, _)| name == wanted).unwrap().1;
    let credentials = format!(
        "[lab]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        env("AWS_ACCESS_KEY_ID"),
        env("AWS_SECRET_ACCESS_KEY")
    );
    fs::write(job.path("credentials"), credentials).unwrap();
    let endpoint = env("AWS_ENDPOINT_URL_S3");
    configure(
        &job,
        &format!("datastores: {{lab: {{url: 's3://owned/in', endpoint: '{endpoint}', aws_profile: lab}}}}\n"),
    );
    let file = job.path("credentials").to_str().unwrap().to_owned();
    let job = job
        .with("inputs", json!([{ "type": "file", "path": "azureml://datastores/lab/paths/a.txt" }]))
        .with_own_variable("AWS_ACCESS_KEY_ID", "of-another-store")
        .with_own_variable("AWS_SECRET_ACCESS_KEY", "x")
        .with_own_variable("AWS_SHARED_CREDENTIALS_FILE", &file);
    job.completes();
    assert_eq!(job.run().text(&format!("output/{RESULT}")), "a.txt 1\n");
    let stored = job.run().text("job.json");
    assert!(!stored.contains("lab") || !stored.contains("aws"), "{stored}");
}
