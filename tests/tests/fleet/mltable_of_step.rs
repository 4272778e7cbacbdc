//! An MLTable that another step of the pipeline writes: it is read when the step starts that gets it.

use std::fs;

use prs_tests::harness::{Ended, Fleet, Job, python, says};

/// Rows by their ids, files by their names.
const SCRIPT: &str = "
import os

def run(mini_batch):
    if isinstance(mini_batch, list):
        return [os.path.basename(path) for path in mini_batch]
    return [f'{key} {id}' for key, id in zip(mini_batch['key'], mini_batch['id'])]
";

/// A pipeline whose first step writes this table beside three files, and whose second gets it with this mode.
fn pipeline(job: &Job, table: &str, mode: &str) {
    fs::create_dir_all(job.path("score")).unwrap();
    fs::write(job.path("score/score.py"), SCRIPT).unwrap();
    fs::create_dir_all(job.path("raw")).unwrap();
    fs::write(job.path("raw/MLTable"), table).unwrap();
    for (key, ids) in [("x", 0..30), ("y", 30..60)] {
        fs::create_dir_all(job.path(&format!("raw/{key}"))).unwrap();
        let lines = ids.map(|id| format!("{id}\n")).collect::<Vec<_>>().concat();
        fs::write(job.path(&format!("raw/{key}/ids.csv")), format!("id\n{lines}")).unwrap();
    }
    fs::write(job.path("raw/notes.txt"), "none of the data").unwrap();
    let yaml = format!(
        "type: pipeline\nname: tables\ninputs: {{raw: {{type: uri_folder, path: raw}}}}\noutputs: {{rows: {{type: uri_file}}}}\njobs:\n  \
         prep:\n    command: cp -r ${{{{inputs.raw}}}}/. ${{{{outputs.made}}}}\n    \
         inputs: {{raw: '${{{{parent.inputs.raw}}}}'}}\n    outputs: {{made: {{type: mltable}}}}\n  \
         score:\n    type: parallel\n    inputs: {{made: {{path: '${{{{parent.jobs.prep.outputs.made}}}}', type: mltable, mode: {mode}}}}}\n    \
         outputs: {{rows: '${{{{parent.outputs.rows}}}}'}}\n    input_data: ${{{{inputs.made}}}}\n    \
         task: {{code: ./score, entry_script: score.py, append_row_to: '${{{{outputs.rows}}}}', environment: {}}}\n",
        python().display()
    );
    fs::write(job.path("pipeline.yml"), yaml).unwrap();
}

fn submit(job: &Job) -> Ended {
    job.command(&["submit", "pipeline.yml", "--run-dir", "run", "-o", "json"])
}

const ROWS: &str = "type: mltable\npaths:\n- pattern: ./*/ids.csv\ntransformations:\n- read_delimited\n- skip: 20\n- take: 30\n\
                    - extract_columns_from_partition_format: '{key}/ids.csv'\n- filter: id != 25\n";

fn expected_rows() -> String {
    let key = |id: u32| if id < 30 { "x" } else { "y" };
    let rows: Vec<_> = (20..50).filter(|id| *id != 25).map(|id| format!("{} {id}\n", key(id))).collect();
    rows.concat()
}

#[test]
fn a_step_gets_the_rows_or_the_files_of_a_table_that_another_wrote() {
    for (table, mode, expected) in [
        (ROWS, "direct", expected_rows()),
        ("paths: [folder: .]\n", "eval_mount", "notes.txt\nids.csv\nids.csv\n".to_owned()),
    ] {
        let job = Job::new("");
        pipeline(&job, table, mode);
        submit(&job).expect_code(0);
        assert_eq!(job.run().text("output/rows"), expected, "{mode} {table}");
    }
}

#[test]
fn a_table_that_is_wrong_fails_the_step_with_file_and_line() {
    let job = Job::new("");
    pipeline(&job, "paths:\n- file: x/ids.csv\n- file: x/gone.csv\n", "eval_mount");
    let ended = submit(&job);
    let printed = ended.json();
    let reason = printed["steps"]["score"]["reason"].as_str().unwrap_or_default();
    let begins = "the MLTable in output made of step prep cannot be used: ";
    let says_all = reason.contains(begins) && reason.contains("/MLTable:3: paths[1].file: there is no ");
    assert!(says_all, "{}", ended.stdout);
    assert_eq!(printed["steps"]["prep"]["state"], "completed");
    // The report of the pipeline links to that of the step, though it did not run.
    let report = job.run().text("logs/report.html");
    let link = format!("../steps/{}/logs/report.html", printed["steps"]["score"]["job_id"].as_str().unwrap());
    assert!(report.contains(&link), "{report}");
    let of_step = fs::read_to_string(job.path("run/logs").join(&link)).unwrap();
    assert!(of_step.contains(begins), "{of_step}");
    let job = Job::new("");
    pipeline(&job, ROWS, "direct");
    fs::remove_file(job.path("raw/MLTable")).unwrap();
    let printed = submit(&job).json();
    let reason = printed["steps"]["score"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("there is no file MLTable in "), "{printed}");
}

#[test]
fn keys_in_a_table_that_is_not_there_yet_are_refused() {
    let job = Job::new("");
    pipeline(&job, ROWS, "direct");
    let yaml = fs::read_to_string(job.path("pipeline.yml")).unwrap();
    let keyed = yaml.replace("    task:", "    partition_keys: [key]\n    task:");
    fs::write(job.path("pipeline.yml"), keyed).unwrap();
    says(
        &job.command(&["validate", "pipeline.yml"]),
        2,
        &["the MLTable of input made is written by another step"],
    );
}

#[test]
fn a_fleet_reads_the_table_where_the_step_wrote_it() {
    let fleet = Fleet::apart();
    for (table, mode, expected) in [
        (ROWS, "direct", expected_rows()),
        ("paths: [folder: .]\n", "eval_mount", "notes.txt\nids.csv\nids.csv\n".to_owned()),
    ] {
        let job = fleet.job(Job::new(""));
        pipeline(&job, table, mode);
        let _worker = fleet.worker(&job, &[]);
        let ended = job.command(&["submit", "pipeline.yml", "-o", "json"]);
        ended.expect_code(0);
        let fetched = job.path("fetched");
        let id = ended.json()["job_id"].as_str().unwrap().to_owned();
        job.command(&["result", &id, "--output-path", fetched.to_str().unwrap()]).expect_code(0);
        assert_eq!(fs::read_to_string(fetched.join("rows")).unwrap(), expected, "{mode}");
    }
    let job = fleet.job(Job::new(""));
    pipeline(&job, "paths:\n- file: ../a.csv\n", "direct");
    let _worker = fleet.worker(&job, &[]);
    let ended = job.command(&["submit", "pipeline.yml", "-o", "json"]);
    assert!(ended.stdout.contains("MLTable:2: paths[0].file: ../a.csv is not below"), "{}", ended.stdout);
    let step = ended.json()["steps"]["score"]["job_id"].as_str().unwrap().to_owned();
    let report = fleet.stored(&step).text("logs/report.html");
    assert!(report.contains("../a.csv is not below"), "{report}");
}
