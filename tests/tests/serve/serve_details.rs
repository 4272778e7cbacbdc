//! What a server knows of a job in detail: its code, its errors one by one, rows of its output, its logs as an archive; and what it does
//! with that: only what an error cost runs again, and a job runs again with other code and inputs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Answer, Fleet, Job, Web};
use serde_json::{Value, json};

/// Files with an odd number fail in one line, those with 4 in another, as long as the file `fail` is beside the script's job.
const FAILS: &str = r#"
import os

def run(mini_batch):
    number = int(os.path.basename(mini_batch[0]).split(".")[0].strip("f-"))
    if os.path.exists(os.environ["FAIL"]):
        if number % 2:
            raise ValueError("odd")
        if number == 4:
            raise KeyError("four")
    return [f"{number},{number * 2}"]
"#;

const PATIENCE: Duration = Duration::from_mins(2);
const JSON: (&str, &str) = ("Content-Type", "application/json");
const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=PartsOfAForm");
const TEXT: (&str, &str) = ("Accept", "text/plain");

fn job() -> Job {
    let job = Job::new(FAILS).with_files(6).with("mini_batch_size", 1).with("run_max_try", 1);
    let folder = job.path("runtime");
    fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    let fail = job.path("fail").display().to_string();
    fs::write(job.path("fail"), "").unwrap();
    job.with_own_variable("XDG_RUNTIME_DIR", &folder)
        .with("environment_variables", json!({ "FAIL": fail }))
        .with("error_threshold", 10)
}

fn submitted(job: &Job) -> String {
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    ended.json()["job_id"].as_str().unwrap().to_owned()
}

fn served(job: &Job) -> Web {
    Web::of_user(job, &["--write-rate", "1000"])
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, kind: &str) -> Value {
    let problem = answer.json(status);
    assert_eq!(problem["type"], format!("/problems/{kind}"), "{problem}");
    problem
}

/// The job once it has ended, with this start at least.
fn ended(web: &Web, id: &str, start: u64) -> Value {
    wait_for("the job ends", PATIENCE, || {
        let object = web.get(&format!("/api/v1/jobs/{id}?wait_for=ended&timeout=60")).json(200);
        let is_final = object["ended_at"] != Value::Null;
        (is_final && object["incarnation"].as_u64() >= Some(start)).then_some(object)
    })
}

/// The group of the error of this category.
fn group_of(web: &Web, id: &str, category: &str) -> String {
    let errors = web.get(&format!("/api/v1/jobs/{id}/errors")).json(200);
    let all = errors["value"].as_array().unwrap();
    let found = all.iter().find(|error| error["category"] == category);
    found.unwrap_or_else(|| panic!("{errors}"))["group"].as_str().unwrap().to_owned()
}

fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        write!(body, "--PartsOfAForm\r\nContent-Disposition: form-data; name=\"{name}\"").unwrap();
        if let Some(file) = file {
            write!(body, "; filename=\"{file}\"").unwrap();
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--PartsOfAForm--\r\n").unwrap();
    body
}

#[test]
fn the_code_of_a_job_is_shown_and_frames_lead_to_it() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let listed = web.get(&format!("/api/v1/jobs/{id}/code")).json(200);
    let files = listed["value"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"] == "main.py" && file["bytes"] == FAILS.len()), "{listed}");
    let text = web.get(&format!("/api/v1/jobs/{id}/code/main.py"));
    assert_eq!((text.status, text.text()), (200, FAILS.to_owned()));
    for (path, status, kind) in [
        ("nothing.py", 404, "file-not-found"),
        ("%2Fetc%2Fpasswd", 404, "file-not-found"),
        ("..%2Fjob.json", 400, "bad-request"),
    ] {
        is_problem(&web.get(&format!("/api/v1/jobs/{id}/code/{path}")), status, kind);
    }
    let archive = web.get(&format!("/api/v1/jobs/{id}/code.tar.gz"));
    let mut entries = tar::Archive::new(GzDecoder::new(&archive.body[..]));
    assert!(entries.entries().unwrap().any(|entry| entry.unwrap().path().unwrap().ends_with("main.py")));

    let page = web.page(&format!("/jobs/{id}")).text();
    let link = page.split("href=\"").find(|part| part.contains("/code?frame=")).unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    let to = web.page(&link);
    assert_eq!(to.status, 303, "{link}: {}", to.text());
    let at = to.header("location").unwrap();
    assert!(at.starts_with(&format!("/jobs/{id}/code/main.py#L")), "{at}");
    let shown = web.page(&format!("/jobs/{id}/code/main.py")).text();
    assert!(shown.contains("id=\"L8\"") && shown.contains("raise ValueError"), "{shown}");
    let other = web.page(&format!("/jobs/{id}/code?frame=%2Fusr%2Fx.py&line=3"));
    assert!(other.status == 200 && other.text().contains("is no file of the code"), "{}", other.text());
}

#[test]
fn an_error_has_its_tries_and_items_and_what_it_cost_alone_runs_again() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let (odd, four) = (group_of(&web, &id, "ValueError"), group_of(&web, &id, "KeyError"));
    let told = web.get(&format!("/api/v1/jobs/{id}/errors/{odd}")).json(200);
    assert_eq!(
        (&told["tries"], &told["mini_batches_lost"], &told["group"]),
        (&json!(3), &json!(3), &json!(odd)),
        "{told}"
    );
    assert!(told["traceback"].as_str().unwrap().contains("odd"), "{told}");
    assert_eq!(told["examples"].as_array().unwrap().len(), 3, "{told}");
    let items = web.ask_with("GET", &format!("/api/v1/jobs/{id}/errors/{four}/items"), &[TEXT], "");
    assert_eq!(items.text().lines().count(), 1, "{}", items.text());
    let items = web.get(&format!("/api/v1/jobs/{id}/errors/{odd}/items")).json(200);
    assert_eq!(items["value"].as_array().unwrap().len(), 3, "{items}");
    is_problem(&web.get(&format!("/api/v1/jobs/{id}/errors/0123456789ab")), 404, "error-not-found");
    is_problem(&web.get(&format!("/api/v1/jobs/{id}/errors/0123456789ab/items")), 404, "error-not-found");

    let page = web.page(&format!("/jobs/{id}")).text();
    assert!(page.contains(&format!("/jobs/{id}/resume?only_group={odd}")), "{page}");
    let asked = web.page(&format!("/jobs/{id}/resume?only_group={odd}")).text();
    assert!(asked.contains("What other errors cost stays as it is"), "{asked}");
    let resume = |group: &str| {
        let body = json!({ "only_group": group }).to_string();
        web.ask_with("POST", &format!("/api/v1/jobs/{id}/resume"), &[JSON], &body)
    };
    let refused = resume("0123456789ab");
    assert!(refused.status == 422 || refused.status == 409, "{}", refused.text());
    fs::remove_file(job.path("fail")).unwrap();
    assert_eq!(resume(&odd).status, 202);
    let object = ended(&web, &id, 2);
    assert_eq!(object["state"], "completed", "{object}");
    assert_eq!(
        object["items"],
        json!({"total": 6, "succeeded": 5, "failed": 1}),
        "what the other error cost stays: {object}"
    );
    assert_eq!(object["mini_batches"], json!({"scheduled": 6, "succeeded": 5, "failed": 1}), "{object}");
    let failed = web.get(&format!("/api/v1/jobs/{id}/failed-items")).json(200);
    assert_eq!(failed["value"][0]["tries"][0]["category"], "KeyError", "{failed}");
    assert_eq!(group_of(&web, &id, "KeyError"), four, "it has the same group");
    let resumed = job.command(&["resume", &id, "--only-group", &four, "-o", "json"]);
    assert_eq!(resumed.json()["items"], json!({"total": 6, "succeeded": 6, "failed": 0}));
    let result = web.get(&format!("/api/v1/jobs/{id}/result")).text();
    assert_eq!(result, "0,0\n1,2\n2,4\n3,6\n4,8\n5,10\n", "it is what a clean run gives");
}

#[test]
fn a_fleet_runs_what_one_error_cost() {
    let fleet = Fleet::apart();
    let job = fleet.job(job());
    let worker = fleet.worker(&job, &[]);
    let id = fleet.hand_in(&job);
    let web = served(&job);
    ended(&web, &id, 1);
    let odd = group_of(&web, &id, "ValueError");
    fs::remove_file(job.path("fail")).unwrap();
    let body = json!({ "only_group": odd }).to_string();
    let resumed = web.ask_with("POST", &format!("/api/v1/jobs/{id}/resume"), &[JSON], &body);
    assert_eq!(resumed.status, 202, "{}", resumed.text());
    let object = ended(&web, &id, 2);
    assert_eq!(object["items"], json!({"total": 6, "succeeded": 5, "failed": 1}), "{object}");
    drop(worker);
}

#[test]
fn a_job_runs_again_with_other_code_and_other_inputs() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let spec = web.get(&format!("/api/v1/jobs/{id}/spec")).json(200);
    let input = spec["spec"]["inputs"][0]["name"].as_str().unwrap().to_owned();
    let code = tar_gz(&[("main.py", "def run(mini_batch):\n    return ['again'] * len(mini_batch)\n")]);
    let data = tar_gz(&[("x.txt", "x"), ("y.txt", "y")]);
    let name = format!("input.{input}");
    let again = form(&[("code", Some("code.tar.gz"), &code), (&name, Some("data.tar.gz"), &data)]);
    let made = web.send("POST", &format!("/api/v1/jobs/{id}/resubmit"), &[FORM], &again).json(201);
    let new = made["job_id"].as_str().unwrap();
    assert_eq!(made["resubmitted_from"], id);
    assert_eq!(ended(&web, new, 1)["state"], "completed");
    assert_eq!(web.get(&format!("/api/v1/jobs/{new}/result")).text(), "again\nagain\n");
    // The code alone, and then what is refused.
    let again = form(&[("code", Some("code.tar.gz"), &code)]);
    let made = web.send("POST", &format!("/api/v1/jobs/{id}/resubmit"), &[FORM], &again).json(201);
    let other = made["job_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&web, &other, 1)["items"]["succeeded"], 6);
    let odd = form(&[("input.nothing", Some("data.tar.gz"), &data)]);
    let refused = web.send("POST", &format!("/api/v1/jobs/{id}/resubmit"), &[FORM], &odd);
    assert!(refused.status == 422 && refused.text().contains("has no input"), "{}", refused.text());
    let without = form(&[("code", Some("code.tar.gz"), &tar_gz(&[("other.py", "")]))]);
    let refused = web.send("POST", &format!("/api/v1/jobs/{id}/resubmit"), &[FORM], &without);
    assert!(refused.status == 422 && refused.text().contains("entry script"), "{}", refused.text());
    let group =
        web.ask_with("POST", &format!("/api/v1/jobs/{id}/resubmit"), &[JSON], "{\"only_group\": \"a\"}");
    is_problem(&group, 400, "bad-request");

    let compared = web.page(&format!("/compare?a={id}&b={new}")).text();
    assert!(compared.contains("main.py") && compared.contains("lines only in the first"), "{compared}");
    let offered = web.page(&format!("/compare?a={id}")).text();
    assert!(offered.contains(&format!("/compare?a={id}&amp;b={new}")), "{offered}");
    assert!(web.page(&format!("/compare?a={id}&b=nobody-1")).text().contains("there is no job"));
    assert_eq!(web.page("/compare").status, 200);
}

#[test]
fn rows_of_outputs_and_all_logs_are_given() {
    let job = job();
    fs::remove_file(job.path("fail")).unwrap();
    let id = submitted(&job);
    let web = served(&job);
    let first = web.get(&format!("/api/v1/jobs/{id}/output-preview?rows=2")).json(200);
    assert_eq!(
        (&first["kind"], &first["rows"], &first["cut"]),
        (&json!("table"), &json!([["0", "0"], ["1", "2"]]), &json!(true)),
        "{first}"
    );
    let last = web
        .get(&format!("/api/v1/jobs/{id}/output-preview?rows=1&from=end&path=parallel_run_step.txt"))
        .json(200);
    assert_eq!(last["rows"], json!([["5", "10"]]), "{last}");
    is_problem(&web.get(&format!("/api/v1/jobs/{id}/output-preview?rows=501")), 400, "bad-parameter");
    is_problem(&web.get(&format!("/api/v1/jobs/{id}/output-preview?from=middle")), 400, "bad-parameter");
    for (path, status, kind) in [("nothing", 404, "file-not-found"), ("..%2Fjob.json", 400, "bad-request")] {
        is_problem(&web.get(&format!("/api/v1/jobs/{id}/output-preview?path={path}")), status, kind);
    }

    let archive = web.get(&format!("/api/v1/jobs/{id}/logs.tar.gz"));
    let mut names = Vec::new();
    let mut entries = tar::Archive::new(GzDecoder::new(&archive.body[..]));
    for entry in entries.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = Vec::new();
        entry.read_to_end(&mut text).unwrap();
        assert_eq!(text, web.get(&format!("/api/v1/jobs/{id}/logs/{name}")).body, "{name}");
        names.push(name);
    }
    assert!(names.contains(&"job_result.txt".to_owned()), "{names:?}");
    let result = web.get(&format!("/api/v1/jobs/{id}/logs.tar.gz?kind=result"));
    let mut entries = tar::Archive::new(GzDecoder::new(&result.body[..]));
    let few = entries.entries().unwrap().count();
    assert!(few > 0 && few < names.len(), "{few} of {names:?}");
    is_problem(&web.get(&format!("/api/v1/jobs/{id}/logs.tar.gz?kind=odd")), 400, "bad-parameter");
}

#[test]
fn what_changes_in_the_list_is_told() {
    let job = job();
    let first = submitted(&job);
    let web = served(&job);
    let told: Value = serde_json::from_slice(
        &fs::read(job.path("runtime").join(format!("prs/serve-{}.json", web.port()))).unwrap(),
    )
    .unwrap();
    let token = told["token"].as_str().unwrap();
    let mut stream = web.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET /api/v1/events?types=job HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\n\r\n",
        web.port()
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut event = |name: &str| {
        let wanted = format!("event: {name}");
        lines.find(|line| *line == wanted).unwrap();
        let data = lines.next().unwrap();
        serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()).unwrap()
    };
    assert_eq!(event("list")["jobs"], 1);
    let second = submitted(&job);
    assert_eq!(event("job")["job_id"], second);
    assert_eq!(web.ask_with("DELETE", &format!("/api/v1/jobs/{first}"), &[], "").status, 202);
    assert_eq!(event("gone")["job_id"], first);
    is_problem(&web.get("/api/v1/events?types=odd"), 400, "bad-parameter");
}

#[test]
fn pages_say_of_each_error_where_it_came_from_and_what_it_cost() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let errors = web.page(&format!("/jobs/{id}/errors")).text();
    assert!(
        errors.contains("2 distinct errors; 4 tries failed; items of 4 mini-batches are missing."),
        "{errors}"
    );
    // The line with those around it, as text.
    for part in
        ["if number % 2:", "raise ValueError(&#34;odd&#34;)", "if number == 4:", " --mini-batch 4 --pdb"]
    {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    // Two processes run them: any of these may have failed first.
    let is_offered = |index: u32| errors.contains(&format!(" --mini-batch {index} --pdb"));
    assert!([1, 3, 5].into_iter().any(is_offered), "{errors}");
    let most = web.page(&format!("/jobs/{id}/errors?sort=-tries")).text();
    assert!(most.find("ValueError").unwrap() < most.find("KeyError").unwrap(), "{most}");
    assert!(web.page(&format!("/jobs/{id}/errors?sort=odd")).text().contains("is none of -lost"));
    assert!(web.page(&format!("/jobs/{id}/errors?from=9")).text().contains("There are no more."));
    let known = web.get(&format!("/api/v1/jobs/{id}/errors")).json(200);
    let odd = known["value"].as_array().unwrap().iter().find(|error| error["category"] == "ValueError");
    let group = odd.unwrap()["group"].as_str().unwrap();
    let one = web.page(&format!("/jobs/{id}/errors/{group}")).text();
    let items = one.split("Items, one a line").nth(1).unwrap();
    let items: Vec<&str> = items.split(['>', '<']).nth(1).unwrap().lines().collect();
    assert_eq!(items.len(), 3, "{one}");
    assert!(one.contains(&format!("/jobs/{id}/mini-batches/1")) && !one.contains("KeyError"), "{one}");
    assert_eq!(web.page(&format!("/jobs/{id}/errors/none")).status, 404);
    // The overview and the stream have the lines, too; the stream of a page has its parts alone.
    assert!(web.page(&format!("/jobs/{id}")).text().contains("if number == 4:"));
    let live = web.get(&format!("/jobs/{id}/live?parts=groups")).text();
    assert!(live.contains("\"groups\"") && !live.contains("\"head\""), "{live}");
    assert!(!web.get(&format!("/jobs/{id}/live")).text().contains("\"groups\""));
}

#[test]
fn tables_of_pictures_are_parts_of_their_own() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let page = format!("/jobs/{id}");
    let table = "<caption>Tries";
    let plain = web.page(&page);
    // Without a script a link leads to the page with the table.
    assert!(plain.text().contains("<a href=\"?table=tries#tries\">"), "{}", plain.text());
    assert!(!plain.text().contains(table));
    let with = web.page(&format!("{page}?table=tries&table=nodes")).text();
    let opened = with.split("data-table=\"tries\" open").nth(1).unwrap();
    assert!(opened.contains(table), "{with}");
    let part = web.page(&format!("{page}/part/table-tries"));
    assert!(
        part.status == 200 && part.text().starts_with("<div class=\"scroll\"") && part.text().contains(table)
    );
    // Every other part of the page is one, too; and a picture that a job does not have has no table.
    assert!(web.page(&format!("{page}/part/picture-plan")).text().starts_with("<figure id=\"plan\""));
    assert!(web.page(&format!("{page}/part/head")).text().contains("<h1>"));
    for none in ["none", "table-none", "table-"] {
        assert_eq!(web.page(&format!("{page}/part/{none}")).status, 404, "{none}");
    }
    // On a slow machine the job takes long enough for it.
    let has_rate = plain.text().contains("data-table=\"rate\"");
    let rate = web.page(&format!("{page}/part/table-rate")).status;
    assert_eq!(rate, if has_rate { 200 } else { 404 });
    assert_eq!(web.page(&format!("{page}?table=none")).status, 400);
    // The file that one mails has all tables in it.
    let report = web.get(&format!("/jobs/{id}/report.html")).text();
    assert!(report.contains(table) && !report.contains("?table="), "{report}");
}

#[test]
fn a_page_that_is_hidden_asks_for_its_title_alone() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let page = format!("/jobs/{id}");
    let head = web.ask_with("HEAD", &page, &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let title = head.header("x-prs-title").unwrap();
    assert!(title.starts_with("100") || title.starts_with("completed"), "{title}");
    let icon = head.header("x-prs-icon").unwrap();
    // It has completed, and items are missing.
    assert!(icon.starts_with("/static/warn-") && web.get(icon).text().contains("#8c6000"), "{icon}");
    let tag = head.header("etag").unwrap().to_owned();
    let again = web.ask_with("HEAD", &page, &[("If-None-Match", &tag)], "");
    assert_eq!((again.status, again.header("x-prs-title")), (304, None));
    assert_eq!(again.header("etag"), Some(&*tag));
    let other = web.ask_with("HEAD", &page, &[("If-None-Match", "W/\"1.0.running\"")], "");
    assert_eq!(other.status, 200);
}

#[test]
fn pages_say_of_a_node_what_it_did_and_of_an_id_which_jobs_are_near() {
    let job = job();
    let id = submitted(&job);
    let web = served(&job);
    let nodes = web.page(&format!("/jobs/{id}/nodes")).text();
    assert!(nodes.contains(&format!("/jobs/{id}/nodes/0\">node 0")), "{nodes}");
    let node = web.page(&format!("/jobs/{id}/nodes/0")).text();
    for part in ["6, 4 failed", "ValueError: odd", "Failures of init()"] {
        assert!(node.contains(part), "{part}: {node}");
    }
    for none in ["7", "x"] {
        assert_eq!(web.page(&format!("/jobs/{id}/nodes/{none}")).status, 404);
    }
    let absent = web.page(&format!("/jobs/{id}x/logs"));
    assert!(
        absent.status == 404 && absent.text().contains(&format!("<a href=\"/jobs/{id}\">")),
        "{}",
        absent.text()
    );
}

#[test]
fn a_node_tells_of_its_processes_and_how_they_died() {
    let script = r#"
import os

def run(mini_batch):
    if os.path.basename(mini_batch[0]).startswith("0003"):
        os._exit(7)
    return mini_batch
"#;
    let job = Job::new(script).with_files(6).with("mini_batch_size", 1).with("run_max_try", 2);
    let folder = job.path("runtime");
    fs::create_dir(&folder).unwrap();
    let job = job.with_own_variable("XDG_RUNTIME_DIR", &folder.display().to_string());
    let job = job.with("error_threshold", -1).with("process_count_per_node", 1);
    let id = submitted(&job);
    let web = served(&job);
    let node = web.get(&format!("/api/v1/jobs/{id}/nodes/0")).json(200);
    let processes = node["processes"].as_array().unwrap();
    let died: Vec<&Value> = processes.iter().filter(|one| one["last_exit"]["returncode"] == 7).collect();
    assert_eq!(died.len(), 2, "each try of a mini-batch ended its process: {node}");
    for one in &died {
        assert!(one["pid"].as_u64().is_some_and(|pid| pid > 1), "{one}");
        assert_eq!(
            (&one["failed_tries"], &one["last_exit"]["killed_for"]),
            (&json!(1), &Value::Null),
            "{one}"
        );
        let (started, ended) =
            (one["started_at"].as_str().unwrap(), one["last_exit"]["at"].as_str().unwrap());
        assert!(started < ended, "{one}");
    }
    let failed: u64 = processes.iter().filter_map(|one| one["failed_tries"].as_u64()).sum();
    assert_eq!((failed, &node["failed_tries"]), (2, &json!(2)), "{node}");
    let page = web.page(&format!("/jobs/{id}/nodes/0")).text();
    let pid = died[0]["pid"].to_string();
    for part in ["by itself, returncode 7", &pid, "Processes of this node"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_reader_chooses_how_pages_look() {
    let job = job();
    let web = served(&job);
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "text/html")];
    let chosen = web.ask_with("POST", "/display", &form, "theme=dark&zone=utc&keys=on&next=/help");
    assert_eq!((chosen.status, chosen.header("location")), (303, Some("/help")));
    let set: Vec<&str> = chosen
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .map(|(_, value)| value.as_str())
        .collect();
    assert!(set.len() == 3 && set[0].starts_with("prs-theme=dark; Path=/; Max-Age="), "{set:?}");
    assert_eq!(web.ask_with("POST", "/display", &form, "theme=odd&zone=utc&keys=on").status, 400);
    let elsewhere =
        web.ask_with("POST", "/display", &form, "theme=dark&zone=utc&keys=on&next=//evil.example");
    assert_eq!(elsewhere.header("location"), Some("/jobs"));
    let with = [("Accept", "text/html"), ("Cookie", "prs-theme=dark; prs-zone=utc; prs-keys=odd")];
    let page = web.ask_with("GET", "/help", &with, "").text();
    assert!(
        page.starts_with("<!DOCTYPE html>\n<html lang=\"en\" data-theme=\"dark\" data-zone=\"utc\">"),
        "{page}"
    );
    let display = web.ask_with("GET", "/display", &with, "").text();
    assert!(
        display.contains("value=\"dark\" checked") && display.contains("value=\"on\" checked"),
        "{display}"
    );
    // No user made this change: no line says who did.
    let noted = web.get("/api/v1/audit").json(200);
    assert_eq!(noted["value"].as_array().unwrap().len(), 0, "{noted}");
}
