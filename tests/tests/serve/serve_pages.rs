//! Pages of a job on a server: what its tabs say and lead to, lists of what runs and of what took long, pictures of its output.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::served::Watching;
use prs_tests::harness::{Answer, Job, Web};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(2);
/// A picture, as far as browsers look before they decode it.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";

/// Fails in two lines, and waits for the file `GO` in the last of its files.
const SCRIPT: &str = r#"
import os
import time

def run(mini_batch):
    number = int(os.path.basename(mini_batch[0]).split(".")[0])
    if number == 0:
        raise ValueError("none")
    if number == 1:
        raise KeyError("one")
    if number == 5:
        print("begins with <five>")
    while number == 5 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
    return [number]
"#;

fn job() -> Job {
    let job = Job::new(SCRIPT).with_files(6).with("mini_batch_size", 1).with("run_max_try", 1);
    let go = job.path("go").display().to_string();
    let job = job.with_runtime_folder().with("error_threshold", 10).with("run_invocation_timeout", 600);
    job.with("environment_variables", json!({ "GO": go }))
}

/// The tabs of a page, each with its count.
fn tabs(page: &Answer) -> Vec<String> {
    let html = page.text();
    let (_, nav) = html.split_once("<nav class=\"tabs\"").unwrap();
    let (nav, _) = nav.split_once("</nav>").unwrap();
    let text = |link: &str| {
        let (_, inner) = link.split_once('>').unwrap();
        let mut text = String::new();
        let mut is_tag = false;
        for letter in inner.chars() {
            match letter {
                '<' => is_tag = true,
                '>' => is_tag = false,
                letter if !is_tag => text.push(letter),
                _ => {}
            }
        }
        text.trim().to_owned()
    };
    nav.split("</a>").filter_map(|link| Some(text(link.split_once("<a ")?.1))).collect()
}

fn output_of(job: &Job, id: &str) -> PathBuf {
    job.path("prs-runs").join(id).join("output")
}

#[test]
fn tabs_count_and_lists_tell_what_runs_and_what_took_long() {
    let job = job();
    let web = Web::of_user(&job, &[]);
    let file = job.write_job_file().display().to_string();
    std::thread::scope(|scope| {
        let submitted = scope.spawn(|| job.command(&["submit", &file, "-q"]));
        let id = wait_for("the job is listed", PATIENCE, || {
            let jobs = web.get("/api/v1/jobs").json(200);
            Some(jobs["value"][0]["job_id"].as_str()?.to_owned())
        });
        let list = |rest: &str| web.get(&format!("/api/v1/jobs/{id}/mini-batches?{rest}")).json(200);
        // The last of its files waits; all others have ended.
        let running = wait_for("the last one runs alone", PATIENCE, || {
            let found = list("state=running");
            (found["value"].as_array()?.len() == 1 && list("state=slow")["value"].as_array()?.len() == 5)
                .then_some(found)
        });
        assert_eq!((&running["value"][0]["index"], &running["complete"]), (&json!(5), &json!(true)));
        assert!(running["as_of"].is_string());
        assert_eq!(list("state=running&index=0-4")["value"], json!([]));
        assert_eq!(list("state=running&node=0&min_seconds=0")["value"].as_array().unwrap().len(), 1);
        assert_eq!(list("state=waiting")["value"], json!([{ "from": 5, "to": 5, "open": 1 }]));
        assert_eq!(list("state=slow&sort=index&index=2-3")["value"][0]["index"], 2);
        let page = |rest: &str| web.page(&format!("/jobs/{id}{rest}"));
        // What runs has a page, and says where and what it printed.
        let one = wait_for("what runs says what it consists of", PATIENCE, || {
            let one = web.get(&format!("/api/v1/jobs/{id}/mini-batches/5")).json(200);
            one["running"][0]["detail"].is_string().then_some(one)
        });
        let run = &one["running"][0];
        assert_eq!((&one["state"], &one["tries"], &run["try"]), (&json!("running"), &json!([]), &json!(1)));
        assert_eq!((&one["detail"], &run["detail"]), (&json!("0005.txt"), &json!("0005.txt")), "{one}");
        let process = run["process"].as_str().unwrap().to_owned();
        let html = wait_for("the page of what runs has what it printed", PATIENCE, || {
            Some(page("/mini-batches/5").text()).filter(|html| html.contains("begins with &#60;five&#62;"))
        });
        let live = format!("/jobs/{id}/live?mini-batch=5");
        for said in [live.as_str(), "Try 1: running", &process, "0005.txt"] {
            assert!(html.contains(said), "{said}: {html}");
        }
        // Who leaves and comes again finds the job watched; it is left when nobody has come for a while.
        let is_watched = || web.get("/metrics").text().contains("prs_live_watched_jobs 1\n");
        let mut stream = web.connect();
        let headers = format!("Host: 127.0.0.1:{}\r\nAuthorization: Bearer {}", web.port(), web.token());
        write!(stream, "GET {live} HTTP/1.1\r\n{headers}\r\n\r\n").unwrap();
        wait_for("the job is watched", PATIENCE, || is_watched().then_some(()));
        drop(stream);
        let left = Instant::now();
        wait_for("nobody watches the job", PATIENCE, || (!is_watched()).then_some(()));
        assert!(left.elapsed() > Duration::from_secs(8), "{:?}", left.elapsed());
        let watching = Watching::at(&web, &live);
        watching.hears("parts");
        assert_eq!(page("/mini-batches/6").status, 404);
        let node = web.get(&format!("/api/v1/jobs/{id}/nodes/0")).json(200);
        assert_eq!(
            (&node["state"], &node["busy"], &node["init_error"]),
            (&json!("live"), &json!(1), &json!(null))
        );
        assert_eq!(
            (&node["longest_running"][0]["index"], &node["longest_running"][0]["process"]),
            (&json!(5), &json!(process))
        );
        let logs = node["processes"].as_array().unwrap();
        let log = logs.iter().find(|one| one["name"] == *process).unwrap()["stdout"].as_str().unwrap();
        assert!(web.get(&format!("/api/v1/jobs/{id}/logs/{log}")).text().contains("five"), "{node}");
        assert_eq!(web.get(&format!("/api/v1/jobs/{id}/nodes/7")).status, 404);
        let html = page("/nodes").text();
        assert!(
            html.contains(&format!("/jobs/{id}/mini-batches/5\"")) && html.contains("parts=node-list"),
            "{html}"
        );
        assert_eq!(page("/nodes/part/table-hosts").status, 200);
        assert_eq!(page("/nodes/0/part/table-hosts").status, 200);
        assert_eq!(page("/nodes/part/odd").status, 404);
        let sorted = page("/nodes?sort=-tries").text();
        let head = format!("aria-sort=\"descending\"><a href=\"/jobs/{id}/nodes?sort=-tries\">Tries</a>");
        assert!(sorted.contains(&head) && !sorted.contains("data-live"), "{sorted}");
        assert_eq!(page("/nodes?sort=odd").status, 400);
        assert!(page("/nodes/0").text().contains("<dt>Heard of</dt><dd><time datetime="));
        let tries = |rest: &str| web.get(&format!("/api/v1/jobs/{id}/tries?{rest}"));
        assert_eq!(tries("node=3-9&node=0-0").json(200)["value"].as_array().unwrap().len(), 5);
        assert_eq!(tries("node=1-9").json(200)["value"], json!([]));
        assert_eq!(tries("node=9-1").status, 400);
        let html = page("/mini-batches?state=running&sort=index&node=").text();
        assert!(html.contains("/mini-batches/5\"") && html.contains("As of <time datetime="), "{html}");
        assert!(html.contains("aria-sort=\"ascending\"><a href="), "{html}");
        let html = page("/mini-batches?state=all&sort=-started_at").text();
        let head = format!("href=\"/jobs/{id}/mini-batches?state=all&#38;sort=started_at\">Began</a>");
        assert!(html.contains("aria-sort=\"descending\"") && html.contains(&head), "{html}");
        assert!(page("/mini-batches?state=waiting").text().contains("1 mini-batch together."));
        assert!(page("/mini-batches?state=running&index=1").text().contains("No mini-batch fits."));
        for odd in ["state=running&group=a", "state=waiting&node=1", "state=waiting&sort=-seconds"] {
            let refused = web.get(&format!("/api/v1/jobs/{id}/mini-batches?{odd}"));
            assert_eq!(refused.json(400)["type"], "/problems/bad-parameter", "{odd}");
            assert_eq!(page(&format!("/mini-batches?{odd}")).status, 400, "{odd}");
        }
        let counted = ["Overview", "Errors 2", "Mini-batches", "Nodes 1", "Logs", "Output", "Settings"];
        let all = ["", "/errors", "/mini-batches", "/nodes", "/logs", "/output", "/settings", "/code"];
        wait_for("all pages say the same", PATIENCE, || {
            all.iter().all(|rest| tabs(&page(rest)) == counted).then_some(())
        });
        assert!(page("").text().contains("<span class=\"small\" data-part=\"tab-errors\">2</span>"));
        fs::write(job.path("go"), "").unwrap();
        submitted.join().unwrap();
        for rest in all {
            assert_eq!(tabs(&page(rest)), counted, "{rest}");
        }
        assert_eq!(list("state=running")["value"], json!([]));
        assert_eq!(list("state=waiting")["value"], json!([]));
        assert_eq!(list("state=slow")["value"].as_array().unwrap().len(), 6);
        assert!(
            page("/mini-batches?state=running").text().contains("The job has ended: no mini-batch runs.")
        );
        assert!(page("/mini-batches?state=slow").text().contains("/mini-batches/5\""));
    });
}

#[test]
fn a_pipeline_leads_to_the_mini_batches_and_nodes_of_its_steps() {
    let job = job();
    let flow = "type: pipeline\nname: flow\njobs:\n  left: {command: \"echo left > ${{outputs.rows}}\", outputs: {rows: {type: uri_file}}}\n  right:\n    command: \"cat ${{inputs.a}}\"\n    inputs: {a: \"${{parent.jobs.left.outputs.rows}}\"}\n";
    fs::write(job.path("flow.yml"), flow).unwrap();
    let file = job.path("flow.yml").display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let web = Web::of_user(&job, &[]);
    let own = ["Overview", "Graph", "Errors", "Logs", "Output", "Settings"];
    for rest in ["", "/graph", "/errors", "/logs", "/output", "/settings"] {
        let page = web.page(&format!("/jobs/{id}{rest}"));
        assert_eq!((page.status, tabs(&page)), (200, own.map(str::to_owned).into()), "{rest}");
    }
    for rest in ["/mini-batches", "/nodes"] {
        let page = web.page(&format!("/jobs/{id}{rest}"));
        assert_eq!(page.status, 200, "{rest}");
        let html = page.text();
        let steps = html.matches(&format!("{rest}\">")).count();
        assert!(html.contains("The job is a pipeline") && steps >= 2, "{html}");
        let (_, link) = html.split_once("<th scope=\"row\"><a href=\"").unwrap();
        let (link, _) = link.split_once('"').unwrap();
        assert!(link.ends_with(rest) && !link.contains(&format!("/{id}/")), "{link}");
        assert_eq!(web.page(link).status, 200, "{link}");
    }
    assert_eq!(web.page(&format!("/jobs/{id}/mini-batches/3")).status, 409);
}

#[test]
fn pictures_are_shown_and_nothing_else_as_one() {
    let job =
        Job::new("def run(mini_batch):\n    return [len(mini_batch)]\n").with_files(2).with_runtime_folder();
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let output = output_of(&job, &id);
    fs::create_dir_all(output.join("charts")).unwrap();
    let html = "<!DOCTYPE html><script>alert(1)</script>";
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    let mut large = PNG.to_vec();
    large.resize((4 << 20) + 1, 0);
    let files: [(&str, &[u8]); 7] = [
        ("charts/a b.png", PNG),
        ("chart", b"GIF89a\x01\0\x01\0\0\0\0;.."),
        ("page.png", html.as_bytes()),
        ("drawing.svg", svg.as_bytes()),
        ("drawing.png", svg.as_bytes()),
        ("large.png", &large),
        ("rows.csv", b"a,b\n1,2\n"),
    ];
    for (name, bytes) in files {
        fs::write(output.join(name), bytes).unwrap();
    }
    let web = Web::of_user(&job, &[]);
    let page = web.page(&format!("/jobs/{id}/output"));
    assert_eq!(page.status, 200);
    let text = page.text();
    let shown: Vec<&str> =
        text.split("<img src=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let address = |name: &str| format!("/jobs/{id}/picture/{name}");
    assert_eq!(shown, [address("chart"), address("charts/a%20b.png")]);
    assert!(text.contains("alt=\"Picture charts/a b.png\""), "{text}");
    assert!(page.header("content-security-policy").unwrap().contains("img-src 'self'"));

    for (name, media_type, bytes) in
        [("charts/a%20b.png", "image/png", PNG), ("chart", "image/gif", files[1].1)]
    {
        let picture = web.page(&address(name));
        assert_eq!((picture.status, &*picture.body), (200, bytes), "{name}");
        assert_eq!(picture.header("content-type"), Some(media_type));
        assert_eq!(picture.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(picture.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    }
    for (name, status) in [
        ("page.png", 404),
        ("drawing.svg", 404),
        ("drawing.png", 404),
        ("rows.csv", 404),
        ("none.png", 404),
        ("large.png", 413),
        ("..%2f..%2fjob.json", 400),
    ] {
        let refused = web.page(&address(name));
        assert_eq!(refused.status, status, "{name}");
        assert!(!refused.text().contains("alert(1)"), "{name}");
    }
    // What is downloaded never becomes a page of this server either.
    for name in ["page.png", "drawing.svg"] {
        let file = web.page(&format!("/api/v1/jobs/{id}/outputs/{name}"));
        assert_eq!(file.status, 200);
        assert_eq!(file.header("content-type"), Some("application/octet-stream"));
        assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    }
}
