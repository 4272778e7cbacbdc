//! The mini-batches of a job as a server lists them: the same as the report of tries says, on this machine and on a fleet, while
//! the job runs, after its orchestrator died and after `resume`; and what each try printed.

use std::fs;
use std::time::Duration;

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Row, Web, parse_csv};
use serde_json::Value;

/// Mini-batch 1 fails for good, 2 once, 3 lacks its item, 4 kills its process once; each says what it is.
const TROUBLED: &str = r#"
import os, sys, time
import marks
def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    print("seen", name, flush=True)
    if name == "0001.txt":
        print("why:", name, file=sys.stderr)
        raise ValueError("no good: " + name)
    if name == "0002.txt" and not marks.is_marked("once"):
        marks.mark("once")
        raise KeyError("once")
    if name == "0003.txt":
        return []
    if name == "0004.txt" and not marks.is_marked("died"):
        marks.mark("died")
        # What ended before is told by then.
        time.sleep(0.5)
        os._exit(7)
    if name == "0005.txt":
        time.sleep(0.3)
    return [name]
"#;
/// Waits before the last mini-batch until it is told to go on; the second one fails.
const WAITS: &str = "
import marks
def run(mini_batch):
    if mini_batch[0].endswith('0001.txt') and not marks.is_marked('mended'):
        raise ValueError('not yet')
    if mini_batch[0].endswith('0019.txt'):
        marks.mark('last')
        marks.wait_for('go')
    return [open(path).read() for path in mini_batch]
";
const PATIENCE: Duration = Duration::from_mins(2);

/// A job whose servers tell of themselves in a folder of its own.
fn job(script: &str, files: usize) -> Job {
    let job = Job::new(script).with_files(files).with("mini_batch_size", 1).with("run_max_try", 2);
    let job = job.with("allowed_failed_count", -1).with("allowed_failed_percent", 100);
    job.with("process_count_per_node", 2).with_runtime_folder()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &[])
}

/// All of a list, page by page, and of each entry the mini-batch and the try.
fn all(web: &Web, address: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = web.get(&format!("{address}&limit=3{cursor}")).json(200);
        assert_eq!(page["complete"], true, "{page}");
        found.extend(page["value"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return found };
        cursor = format!("&cursor={next}");
    }
}

fn numbers(found: &[Value]) -> Vec<(u64, u64)> {
    found.iter().map(|one| (one["index"].as_u64().unwrap(), one["try"].as_u64().unwrap())).collect()
}

/// Asserts that the lists say what the report of tries says.
fn agree(web: &Web, id: &str, csv: &str, tries: &[Row]) {
    let below = format!("/api/v1/jobs/{id}");
    let index = |row: &Row| row["Mini-batch Id"].trim_start_matches("mb-").parse::<u64>().unwrap();
    let number = |row: &Row| row["Picked Count"].parse::<u64>().unwrap();
    let mut expected: Vec<_> = tries.iter().map(|row| (index(row), number(row))).collect();
    expected.sort_unstable();
    assert_eq!(numbers(&all(web, &format!("{below}/tries?sort=index"))), expected);
    let mut failed: Vec<_> =
        tries.iter().filter(|row| row["Status"] != "RUN_DONE").map(|row| (index(row), number(row))).collect();
    failed.sort_unstable();
    let statuses =
        ["RUN_EXCEPTION", "PROCESS_DIED", "NODE_LOST"].map(|status| format!("status={status}")).join("&");
    assert_eq!(numbers(&all(web, &format!("{below}/tries?{statuses}"))), failed);
    // As a table it is the report, but for the order.
    let table =
        web.ask_with("GET", &format!("{below}/tries?sort=started_at"), &[("Accept", "text/csv")], "").text();
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&table), sorted(csv));
}

/// Asserts what is special about each mini-batch of [`TROUBLED`].
fn is_told(web: &Web, id: &str, files: usize) {
    let below = format!("/api/v1/jobs/{id}");
    let of = |state: &str| all(web, &format!("{below}/mini-batches?state={state}"));
    let indices =
        |state: &str| of(state).iter().map(|one| one["index"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(indices("failed"), [1]);
    assert_eq!(indices("retried"), [2, 4]);
    assert_eq!(indices("short"), [3]);
    assert_eq!(indices("all"), (0..files as u64).collect::<Vec<_>>());
    assert_eq!(indices("succeeded").len(), files - 1);
    let slow = all(web, &format!("{below}/mini-batches?state=all&min_seconds=0.3&sort=-seconds"));
    assert!(slow.iter().any(|one| one["index"] == 5), "{slow:?}");
    assert_eq!(indices("all&index=2-4"), [2, 3, 4]);
    assert_eq!(indices("all&node=77"), [] as [u64; 0]);
    // A filter that stands several times fits any of its values; lists of their own stand alone.
    assert_eq!(indices("all&node=77&node=0&index=2-4"), [2, 3, 4]);
    assert_eq!(indices("failed&state=short"), [1, 3]);
    assert_eq!(indices("failed&state=succeeded").len(), files);
    assert_eq!(web.get(&format!("{below}/mini-batches?state=failed&state=running")).status, 400);
    let group = of("failed")[0]["group"].as_str().unwrap().to_owned();
    assert_eq!(numbers(&all(web, &format!("{below}/tries?group={group}"))), [(1, 1), (1, 2)]);

    let one = web.get(&format!("{below}/mini-batches/1")).json(200);
    assert_eq!((&one["state"], one["tries"].as_array().unwrap().len()), (&"failed".into(), 2), "{one}");
    assert!(one["commands"]["try"].as_str().unwrap().contains("--mini-batch 1"), "{one}");
    for each in one["tries"].as_array().unwrap() {
        assert!(each["traceback"].as_str().unwrap().contains("no good: 0001.txt"), "{each}");
        for (stream, expected) in [("stdout", "seen 0001.txt\n"), ("stderr", "why: 0001.txt\n")] {
            let range = &each["printed"][stream];
            let (from, to) = (range["from"].as_u64().unwrap(), range["to"].as_u64().unwrap());
            let part = format!("bytes={from}-{}", to - 1);
            let log = format!("{below}/logs/{}", range["path"].as_str().unwrap());
            assert_eq!(web.ask_with("GET", &log, &[("Range", &part)], "").text(), expected, "{each}");
        }
    }
    let page = web.page(&format!("/jobs/{id}/mini-batches/1")).text();
    assert!(page.contains("seen 0001.txt") && page.contains("why: 0001.txt"), "{page}");
    // A process that died cannot say what it printed: its agent does.
    let died = web.page(&format!("/jobs/{id}/mini-batches/4")).text();
    assert!(died.contains("PROCESS_DIED") && died.contains("seen 0004.txt"), "{died}");
    assert!(web.page(&format!("/jobs/{id}/mini-batches/5")).text().contains("seen 0005.txt"));
    let listed = web.page(&format!("/jobs/{id}/mini-batches")).text();
    assert!(listed.contains(&format!("/jobs/{id}/mini-batches/1\"")), "{listed}");
    let overview = web.page(&format!("/jobs/{id}")).text();
    assert!(overview.contains(&format!("group={group}")), "the errors lead to it: {overview}");
    for part in ["nodes", "mini-batches?state=tries"] {
        assert_eq!(web.page(&format!("/jobs/{id}/{part}")).status, 200, "{part}");
    }

    let answer = web.get(&format!("{below}/statistics"));
    let tag = answer.header("etag").unwrap();
    let known =
        |path: &str| web.ask_with("GET", &format!("{below}/{path}"), &[("If-None-Match", tag)], "").status;
    assert_eq!((known("statistics"), known("statistics?parts=nodes")), (304, 200));
    let statistics = answer.json(200);
    assert!(statistics["timeline"]["buckets"].as_array().is_some_and(|all| !all.is_empty()), "{statistics}");
    assert!(statistics["slowest"][0]["index"].is_u64(), "{statistics}");
    assert_eq!(web.get(&format!("{below}/statistics?parts=nodes")).json(200)["nodes"][0]["node_id"], 0);
    let nodes = web.get(&format!("{below}/nodes?sort=-failed_tries")).json(200);
    assert!(nodes["value"][0]["failed_tries"].as_u64().unwrap() >= 2, "{nodes}");
    let search = |query: &str| web.get(&format!("{below}/log-search?{query}")).json(200);
    let found = search("q=WHY:&context=1&prefix=user/stderr/");
    assert_eq!(found["matches"].as_array().map(Vec::len), Some(2), "{found}");
    let first = &found["matches"][0];
    assert_eq!((&first["text"], &first["ranges"]), (&"why: 0001.txt".into(), &serde_json::json!([[0, 4]])));
    assert_eq!(
        (&found["complete"], &found["scanned_bytes"]),
        (&true.into(), &found["total_bytes"]),
        "{found}"
    );
    let one = search("q=seen%20000[12]&regex=true&limit=1");
    let cursor = one["next_cursor"].as_str().unwrap();
    let next = search(&format!("q=seen%20000[12]&regex=true&limit=1&cursor={cursor}"));
    assert_ne!(one["matches"][0], next["matches"][0], "{one} {next}");
    assert!(search("q=why:&case=true&path=job_result.txt")["matches"].as_array().unwrap().is_empty());
    let page = web.page(&format!("/jobs/{id}/logs?q=why:")).text();
    assert!(page.contains("<mark>why:</mark>"), "{page}");
    for (address, status) in [
        ("/log-search", 400),
        ("/log-search?q=(&regex=true", 400),
        ("/log-search?q=x&context=9", 400),
        ("/mini-batches?state=odd", 400),
        ("/mini-batches?index=9-7", 400),
        ("/mini-batches?sort=odd", 400),
        ("/mini-batches?state=slow&node=1", 200),
        ("/mini-batches?state=waiting&node=1", 400),
        ("/mini-batches?min_seconds=-1", 400),
        ("/mini-batches?state=slow", 200),
        ("/mini-batches?state=running", 200),
        ("/mini-batches?state=waiting", 200),
        ("/tries?status=odd", 400),
        ("/mini-batches/1000000", 404),
        ("/mini-batches/x", 404),
        ("/statistics?parts=odd", 400),
        ("/perf?metric=odd", 400),
    ] {
        assert_eq!(web.get(&format!("{below}{address}")).status, status, "{address}");
    }
}

#[test]
fn the_lists_of_a_run_say_what_its_report_says() {
    let job = job(TROUBLED, 12);
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]).json();
    let id = ended["job_id"].as_str().unwrap();
    let web = served(&job);
    let csv = web.get(&format!("/api/v1/jobs/{id}/logs/sys/job_report/processed_mini-batches.csv")).text();
    agree(&web, id, &csv, &parse_csv(&csv).1);
    is_told(&web, id, 12);
    let logs = web.get(&format!("/api/v1/jobs/{id}/logs?delimiter=none&limit=500")).text();
    assert!(!logs.contains("job_report/tries"), "{logs}");
}

#[test]
fn the_lists_of_a_fleet_say_what_its_report_says() {
    let fleet = Fleet::shared();
    let job = fleet.job(job(TROUBLED, 12).with("compute_target", "lists"));
    let _worker = fleet.worker(&job, &["--target", "lists"]);
    let id = fleet.hand_in(&job);
    job.command(&["stream", &id]);
    let web = served(&job);
    let stored = fleet.stored(&id);
    let csv = wait_for("the last logs", PATIENCE, || {
        let is_there = stored.keys().contains(&"logs/sys/job_report/processed_mini-batches.csv".to_owned());
        let csv = is_there.then(|| stored.text("logs/sys/job_report/processed_mini-batches.csv"))?;
        let listed = web.get(&format!("/api/v1/jobs/{id}/tries?limit=500")).json(200);
        let is_whole = listed["complete"] == true && csv.lines().count() >= 15;
        (is_whole && listed["value"].as_array().map(Vec::len) == Some(csv.lines().count() - 1)).then_some(csv)
    });
    agree(&web, &id, &csv, &parse_csv(&csv).1);
    is_told(&web, &id, 12);
}

#[test]
fn a_running_job_is_listed_and_a_resumed_one_has_both_starts() {
    let job = job(WAITS, 20).with("run_max_try", 1).with("run_invocation_timeout", 600);
    let file = job.write_job_file().display().to_string();
    let id_file = job.path("id");
    let program = job.start(&["submit", &file, "-o", "json", "--id-file", &id_file.display().to_string()]);
    let id = wait_for("the job has an id", PATIENCE, || {
        fs::read_to_string(&id_file).ok().filter(|text| text.ends_with('\n'))
    });
    let (id, web) = (id.trim().to_owned(), served(&job));
    let below = format!("/api/v1/jobs/{id}");
    let count = |state: &str| {
        let listed = web.get(&format!("{below}/mini-batches?state={state}&limit=500")).json(200);
        listed["value"].as_array().map_or(0, Vec::len)
    };
    wait_for("all but the last are listed", PATIENCE, || (count("all") == 19).then_some(()));
    assert_eq!(count("failed"), 1);
    wait_for("what has no outcome is told", PATIENCE, || {
        let waiting = web.get(&format!("{below}/mini-batches?state=waiting")).json(200);
        (waiting["value"][0]["from"] == 19).then_some(())
    });
    job.mark("go");
    program.wait();
    assert_eq!(count("all"), 20);

    job.mark("mended");
    let resumed = job.command(&["resume", &id, "-o", "json"]).json();
    assert_eq!(resumed["state"], "completed", "{resumed}");
    assert_eq!((count("all"), count("failed"), count("retried")), (20, 0, 1));
    let one = web.get(&format!("{below}/mini-batches/1")).json(200);
    let starts: Vec<_> =
        one["tries"].as_array().unwrap().iter().map(|each| (&each["incarnation"], &each["status"])).collect();
    assert_eq!(starts, [(&1.into(), &"RUN_EXCEPTION".into()), (&2.into(), &"RUN_DONE".into())]);
    let csv = web.get(&format!("{below}/logs/sys/job_report/processed_mini-batches.csv")).text();
    agree(&web, &id, &csv, &parse_csv(&csv).1);
}

#[test]
fn a_successor_lists_the_same_tries() {
    let fleet = Fleet::shared();
    let job =
        fleet.job(job(WAITS, 20).with("compute_target", "succession").with("run_invocation_timeout", 600));
    let id = fleet.hand_in(&job);
    let first = fleet.worker(&job, &["--target", "succession"]);
    let web = served(&job);
    let count = || {
        let listed = web.get(&format!("/api/v1/jobs/{id}/mini-batches?state=all&limit=500")).json(200);
        listed["value"].as_array().map_or(0, Vec::len)
    };
    wait_for("all but the last are listed", PATIENCE, || (count() == 19).then_some(()));
    assert!(first.kill());
    job.mark("go");
    let _second = fleet.worker(&job, &["--target", "succession"]);
    job.command(&["stream", &id]);
    wait_for("all are listed", PATIENCE, || (count() == 20).then_some(()));
    let stored = fleet.stored(&id);
    let csv = stored.text("logs/sys/job_report/processed_mini-batches.csv");
    agree(&web, &id, &csv, &parse_csv(&csv).1);
}
