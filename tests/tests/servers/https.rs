//! Inputs of HTTP servers, as these are: with and without ranges, lengths and versions, busy, slow and cut off; embedded and on
//! a fleet. And that no password and no signature of a URL is ever shown.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures_util::TryStreamExt;
use prs_common::storage::{
    GetOptions, HttpStorage, PutMode, Storage, StorageError, StorageErrorKind, StorageExt, open_input,
};
use prs_tests::harness::servers::http::{HttpFault, HttpServer};
use prs_tests::harness::{Fleet, Job, python, says};
use serde_json::json;

/// Some bytes that differ everywhere.
fn content(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

async fn store(server: &HttpServer) -> Arc<dyn Storage> {
    open_input(server.url("").trim_end_matches('/')).await.unwrap()
}

async fn read(
    store: &dyn Storage,
    range: std::ops::Range<u64>,
    version: &str,
) -> Result<Bytes, StorageError> {
    let options = GetOptions { range: Some(range), version: Some(version.to_owned()) };
    store.get_opts("a.bin", options).await.map(|read| read.bytes)
}

/// What a server may do, and still give the file.
fn tolerated() -> Vec<(&'static str, Vec<HttpFault>)> {
    use HttpFault::{Busy, Cut, NoHead, NoLength, NoRanges, NoVersion, WeakVersion, WrongLength};
    vec![
        ("nothing", vec![]),
        ("no HEAD", vec![NoHead]),
        ("no ranges", vec![NoRanges]),
        ("no HEAD, no ranges", vec![NoHead, NoRanges]),
        ("no version", vec![NoVersion]),
        ("no version, no ranges", vec![NoVersion, NoRanges]),
        ("weak versions", vec![WeakVersion]),
        ("chunks", vec![NoLength, NoRanges]),
        ("chunks with ranges", vec![NoLength, NoHead]),
        ("a length of 0 to HEAD", vec![WrongLength(0)]),
        ("busy", vec![Busy(2)]),
        ("cut", vec![Cut(3, 100_000)]),
        ("cut, no ranges", vec![Cut(3, 100_000), NoRanges]),
        ("cut, in chunks", vec![Cut(3, 100_000), NoLength, NoRanges]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_whole_and_in_parts_from_any_server() {
    let whole = content(1, (9 << 20) + 17);
    for (name, faults) in tolerated() {
        let server = HttpServer::start();
        server.put("a.bin", &*whole);
        for fault in faults {
            server.fault("a.bin", fault);
        }
        let store = store(&server).await;
        let head = store.head("a.bin").await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(head.size, whole.len() as u64, "{name}");
        for range in [0..10, 0..1 << 20, 5_000_000..6_000_001, (9 << 20)..u64::MAX, 0..u64::MAX] {
            let end = (range.end.min(whole.len() as u64)) as usize;
            let bytes = read(&*store, range.clone(), &head.version).await;
            let bytes = bytes.unwrap_or_else(|error| panic!("{name}: {range:?}: {error}"));
            assert!(bytes == whole[range.start as usize..end], "{name}: {range:?}");
        }
        assert!(read(&*store, head.size..head.size + 10, &head.version).await.unwrap().is_empty(), "{name}");
        let options = GetOptions { range: None, version: Some(head.version.clone()) };
        let pieces: Vec<Bytes> = store.stream("a.bin", options).try_collect().await.unwrap();
        assert!(pieces.concat() == whole, "{name}");
    }
}

#[tokio::test]
async fn an_empty_file_is_one() {
    for faults in [vec![], vec![HttpFault::NoHead], vec![HttpFault::NoRanges]] {
        let server = HttpServer::start();
        server.put("a.bin", "");
        for fault in faults {
            server.fault("a.bin", fault);
        }
        let store = store(&server).await;
        let head = store.head("a.bin").await.unwrap();
        assert_eq!(head.size, 0);
        assert!(read(&*store, 0..10, &head.version).await.unwrap().is_empty());
        assert!(store.get("a.bin").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn another_file_than_the_one_that_was_listed_is_refused() {
    use HttpFault::{NoRanges, NoVersion, WeakVersion};
    for faults in [vec![], vec![NoRanges], vec![WeakVersion], vec![NoVersion]] {
        let server = HttpServer::start();
        server.put("a.bin", content(1, 100_000));
        for fault in &faults {
            server.fault("a.bin", fault.clone());
        }
        let store = store(&server).await;
        let head = store.head("a.bin").await.unwrap();
        read(&*store, 5..10, &head.version).await.unwrap();
        // Without versions the size is all that tells.
        let size = 100_000 + usize::from(matches!(faults[..], [NoVersion]));
        server.put("a.bin", content(2, size));
        let is_copied = matches!(faults[..], [NoRanges]);
        for range in [0..u64::MAX, 5..10] {
            let is_of_copy = is_copied && range.start > 0;
            match read(&*store, range, &head.version).await {
                Ok(bytes) => assert!(is_of_copy && *bytes == content(1, 100_000)[5..10], "{faults:?}"),
                Err(error) => assert_eq!(error.kind, StorageErrorKind::Changed, "{faults:?}: {error}"),
            }
        }
    }
    // While it is read, where nobody has asked for a version: the new one, whole.
    for faults in [vec![], vec![HttpFault::NoLength], vec![NoRanges], vec![WeakVersion]] {
        let server = HttpServer::start();
        server.put("a.bin", content(1, 300_000));
        server.fault("a.bin", HttpFault::Cut(1, 100_000));
        server.fault("a.bin", HttpFault::Changes(1, content(2, 300_000)));
        for fault in &faults {
            server.fault("a.bin", fault.clone());
        }
        let bytes = store(&server).await.get("a.bin").await.unwrap();
        assert!(*bytes == content(2, 300_000), "{faults:?}");
    }
}

#[tokio::test]
async fn what_repeating_cannot_help_is_told_at_once() {
    for (fault, kind, says) in [
        (HttpFault::Status(404), StorageErrorKind::NotFound, "HTTP 404 Not Found; check the URL"),
        (HttpFault::Status(410), StorageErrorKind::NotFound, "HTTP 410 Gone"),
        (HttpFault::Status(403), StorageErrorKind::PermissionDenied, "sign it anew"),
        (HttpFault::Password("x".into()), StorageErrorKind::PermissionDenied, "user and password"),
        (HttpFault::Encoding("gzip".into()), StorageErrorKind::PermissionDenied, "Content-Encoding: gzip"),
        (HttpFault::Redirect("ftp://host/a".into()), StorageErrorKind::PermissionDenied, "no HTTP server"),
        (HttpFault::Redirect("/a.bin".into()), StorageErrorKind::PermissionDenied, "more than 10 times"),
    ] {
        let server = HttpServer::start();
        server.put("a.bin", "text");
        server.fault("a.bin", fault.clone());
        let store = store(&server).await;
        let key = "a.bin?sig=unsaid";
        for error in [store.head(key).await.unwrap_err(), store.get(key).await.unwrap_err()] {
            assert_eq!(error.kind, kind, "{error}");
            let told = error.to_string();
            assert!(told.contains(says) && told.contains("a.bin?...") && !told.contains("unsaid"), "{told}");
        }
        assert!(server.seen().len() <= 33, "{fault:?}: {} requests", server.seen().len());
    }
    let server = HttpServer::start();
    let store = store(&server).await;
    let refused = store.put("a", "x".into(), PutMode::Overwrite).await.unwrap_err();
    assert!(refused.to_string().contains("only read"), "{refused}");
    let refused = store.list_all("in/").await.unwrap_err();
    assert!(refused.to_string().contains("cannot be listed over HTTP"), "{refused}");
}

#[tokio::test]
async fn redirects_are_followed_and_take_no_password_along() {
    let (server, other) = (HttpServer::start(), HttpServer::start());
    other.put("b/c.bin", "far");
    server.put("b/d.bin", "near");
    let secret = base64::engine::general_purpose::STANDARD.encode("me:p@ss");
    for path in ["far.bin", "b/near.bin", "b/d.bin"] {
        server.fault(path, HttpFault::Password(secret.clone()));
    }
    server.fault("far.bin", HttpFault::Redirect(other.url("b/c.bin?sig=x")));
    server.fault("b/near.bin", HttpFault::Redirect("d.bin".to_owned()));
    let at = server.address();
    let store = open_input(&format!("http://me:p%40ss@{at}")).await.unwrap();
    assert_eq!(store.get("b/d.bin").await.unwrap(), "near");
    assert_eq!(store.get("far.bin").await.unwrap(), "far");
    assert_eq!(store.get("b/near.bin").await.unwrap(), "near");
    assert!(other.seen().iter().all(|seen| !seen.headers.contains_key("authorization")));
    assert!(other.seen().iter().all(|seen| seen.target == "/b/c.bin?sig=x"));
    assert_eq!(format!("{store} {store:?}"), format!("http://{at} HttpStorage(http://{at})"));
}

#[tokio::test]
async fn an_answer_that_stops_is_asked_for_again() {
    let server = HttpServer::start();
    let whole = content(3, 200_000);
    server.put("a.bin", &*whole);
    server.fault("a.bin", HttpFault::Silent(2, 50_000));
    let store = HttpStorage::with_stall(server.url("").trim_end_matches('/'), Duration::from_millis(300));
    assert!(*store.get("a.bin").await.unwrap() == whole);
    let asked: Vec<_> = server.seen().iter().map(|seen| seen.headers.get("range").cloned()).collect();
    let rest = |start: &str| Some(format!("bytes={start}-"));
    assert_eq!(asked, [None, rest("50000"), rest("100000")]);
}

/// Gives each file, or row, back.
const SCRIPT: &str = r#"
import os

def run(mini_batch):
    if isinstance(mini_batch, list):
        return [f"{os.path.basename(path)}: {len(open(path, 'rb').read())}" for path in mini_batch]
    return [",".join(str(value) for value in row) for row in mini_batch.itertuples(index=False, name=None)]
"#;

fn csv(rows: usize) -> String {
    let rows = (0..rows).map(|row| format!("{row},{}\n", row * row % 1_000));
    format!("a,b\n{}", rows.collect::<String>())
}

/// Nothing that `job` left, nor what was printed, has the secret.
#[track_caller]
fn assert_hidden(job: &Job, printed: &[&str]) {
    for text in printed {
        assert!(!text.contains("unsaid"), "{text}");
    }
    let mut folders = vec![job.run().path().join("logs"), job.run().path().join("output")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("unsaid"), "{}: {text}", path.display());
            }
        }
    }
}

/// A Parquet file with the columns `a` and `b` in row groups of 50.
fn parquet(folder: &Path, rows: usize) -> Vec<u8> {
    let path = folder.join("t.parquet");
    let code = format!(
        "import pandas; pandas.DataFrame({{'a': range({rows}), 'b': [r * r % 1000 for r in range({rows})]}})\
         .to_parquet({:?}, index=False, row_group_size=50)",
        path.display().to_string()
    );
    let made = std::process::Command::new(python()).args(["-c", &code]).status().unwrap();
    assert!(made.success());
    fs::read(path).unwrap()
}

/// The tables of a job, and the rows that they have.
fn tables(server: &HttpServer, job: &Job) -> (Vec<String>, Vec<String>) {
    let json_lines = (0..300).map(|row| format!("{{\"a\": {row}, \"b\": {}}}\n", row * row % 1_000));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, csv(300).as_bytes()).unwrap();
    server.put("t/a.csv", csv(300));
    server.put("t/b%20c.jsonl", json_lines.collect::<String>());
    server.put("t/c.csv.gz", gz.finish().unwrap());
    server.put("t/d.parquet", parquet(&job.path("data"), 300));
    let names = ["t/a.csv", "t/b c.jsonl", "t/c.csv.gz", "t/d.parquet"];
    let urls = names.map(|name| format!("{}?sig=unsaid", server.url(name)));
    let rows: Vec<String> = (0..300).map(|row| format!("{row},{}", row * row % 1_000)).collect();
    (urls.to_vec(), std::iter::repeat_n(rows, 4).flatten().collect())
}

#[test]
fn tables_are_cut_and_read_by_ranges_where_the_server_has_them() {
    for faults in
        [vec![], vec![HttpFault::NoRanges, HttpFault::NoHead], vec![HttpFault::NoLength, HttpFault::NoRanges]]
    {
        let server = HttpServer::start();
        let job = Job::new(SCRIPT);
        let (urls, rows) = tables(&server, &job);
        for path in ["t/a.csv", "t/b%20c.jsonl", "t/c.csv.gz", "t/d.parquet"] {
            for fault in &faults {
                server.fault(path, fault.clone());
            }
            server.fault(path, HttpFault::Busy(1));
        }
        let job = job.with("inputs", json!([{ "name": "t", "type": "tabular", "paths": urls }]));
        let job = job.with("mini_batch_size", "1kb");
        let ended = job.submit();
        let record = job.has_completed(&ended);
        assert!(record["mini_batches"]["succeeded"].as_u64().unwrap() > 8, "{record}");
        assert_eq!(job.run().rows(), rows, "{faults:?}");
        assert_hidden(&job, &[&ended.stdout, &ended.stderr]);
        let shown = job.command(&["show", "run"]);
        assert!(shown.stdout.contains("t/a.csv?..."), "{}", shown.stdout);
        assert_hidden(&job, &[&shown.stdout, &shown.stderr]);
        if faults.is_empty() {
            assert!(
                server
                    .seen()
                    .iter()
                    .any(|seen| seen.headers.get("range").is_some_and(|range| range.len() > 9))
            );
            assert!(server.seen().iter().any(|seen| seen.headers.contains_key("if-match")));
        }
    }
}

#[test]
fn files_come_with_a_password_over_tls() {
    let server = HttpServer::start_with_tls();
    let secret = base64::engine::general_purpose::STANDARD.encode("me:unsaid");
    for (path, size) in [("in/a.bin", 10), ("in/b.bin", 3_000_000), ("in/w.bin", 7)] {
        server.put(path, content(1, size));
        server.fault(path, HttpFault::Password(secret.clone()));
    }
    let url = |path: &str| server.url(path).replace("https://", "https://me:unsaid@");
    let script = "import os\nW = os.path.basename(os.environ['W']) + str(os.path.getsize(os.environ['W']))\n\n\
                  def run(mini_batch):\n    return [f'{os.path.basename(p)} {os.path.getsize(p)} {W}' for p in mini_batch]\n";
    let job =
        Job::new(script).with("mini_batch_size", 1).with("side_inputs", json!({ "w": url("in/w.bin") }));
    let job = job.with_variable("W", "${{side_inputs.w}}");
    let job = job.with(
        "inputs",
        json!([{ "name": "f", "type": "file", "paths": [url("in/a.bin"), url("in/b.bin")] }]),
    );
    let refused = job.submit();
    assert!(refused.stderr.contains("SSL_CERT_FILE"), "{}", refused.stderr);
    assert_hidden(&job, &[&refused.stdout, &refused.stderr]);

    let job = job.with_own_variable("SSL_CERT_FILE", &server.authority().display().to_string());
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.run().rows(), ["a.bin 10 w.bin7", "b.bin 3000000 w.bin7"]);
    assert_hidden(&job, &[&ended.stdout, &ended.stderr]);
}

#[test]
fn a_list_names_files_of_servers_and_bad_ones_fail_alone() {
    let server = HttpServer::start();
    for name in ["a", "b", "c"] {
        server.put(&format!("in/{name}.txt"), name);
    }
    server.fault("in/c.txt", HttpFault::Status(403));
    let lines = ["in/a.txt?sig=unsaid", "in/c.txt?sig=unsaid", "in/absent.txt", "in/b.txt"]
        .map(|path| server.url(path));
    let job = Job::new(SCRIPT).with("mini_batch_size", 1);
    job.data("list.txt", lines.join("\n"));
    let job = job.with("inputs", json!([{ "name": "f", "type": "file", "list": "data/list.txt" }]));
    let job = job.with("run_max_try", 1).with("error_threshold", -1);
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.run().rows(), ["a.txt: 1", "b.txt: 1"]);
    let failed = serde_json::to_string(&job.run().failed_mini_batches()).unwrap();
    for part in ["in/c.txt", "HTTP 403 Forbidden", "in/absent.txt", "HTTP 404 Not Found"] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    assert_hidden(&job, &[&ended.stdout, &ended.stderr, &failed]);
}

#[test]
fn a_file_that_changes_after_it_was_listed_fails_by_its_name() {
    let server = HttpServer::start();
    server.put("in/a.bin", content(1, 100));
    // The listing asks by HEAD, a node by GET.
    server.fault("in/a.bin", HttpFault::Changes(0, content(2, 100)));
    let job = Job::new(SCRIPT)
        .with("inputs", json!([{ "name": "f", "type": "file", "path": server.url("in/a.bin") }]));
    let ended = job.with("run_max_try", 1).submit();
    assert!(
        ended.stderr.contains("in/a.bin") && ended.stderr.contains("changed since it was planned"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_cannot_be_had_is_refused_when_the_job_is_submitted() {
    let server = HttpServer::start();
    let input =
        |url: String| Job::new(SCRIPT).with("inputs", json!([{ "name": "f", "type": "file", "path": url }]));
    says(
        &input(server.url("absent.csv?sig=unsaid")).submit(),
        2,
        &["absent.csv?...", "HTTP 404 Not Found", "check the URL"],
    );
    input(server.url("in/")).is_refused(&["inputs[0].path: a folder cannot be listed over HTTP", "MLTable"]);
    input("https://me:unsaid@/x".to_owned()).is_refused(&["no host"]);
    let job = Job::new(SCRIPT)
        .with("inputs", json!([{ "type": "file", "path": "wasbs://c@a.blob.core.windows.net/x" }]));
    job.is_refused(&["store of Azure", "references:"]);
}

#[test]
fn a_container_of_azure_is_listed_through_a_proxy() {
    let proxy = HttpServer::start();
    for name in ["a.txt", "b%20c.txt", "d.csv", "deep/e.txt", "f.txt"] {
        proxy.put(&format!("box/in/{name}"), name);
    }
    proxy.put("box/inner.txt", "no");
    let host = "http://account.blob.core.windows.net/box";
    for (path, rows) in [
        (format!("{host}/in/"), &["a.txt: 5", "b c.txt: 9", "d.csv: 5", "e.txt: 10", "f.txt: 5"][..]),
        (format!("{host}/in?sig=unsaid"), &["a.txt: 5", "b c.txt: 9", "d.csv: 5", "e.txt: 10", "f.txt: 5"]),
        (format!("{host}/in/*.txt"), &["a.txt: 5", "b c.txt: 9", "f.txt: 5"]),
        (format!("{host}/in/d.csv"), &["d.csv: 5"]),
    ] {
        let job = Job::new(SCRIPT).with("mini_batch_size", 2);
        let job = job.with("inputs", json!([{ "name": "f", "type": "file", "path": path }]));
        let job = job.with_own_variable("HTTP_PROXY", &proxy.url(""));
        let ended = job.submit();
        job.has_completed(&ended);
        assert_eq!(job.run().rows(), rows, "{path}");
        assert_hidden(&job, &[&ended.stdout, &ended.stderr]);
    }
}

#[test]
fn a_fleet_fetches_from_servers_and_shows_no_secret() {
    let fleet = Fleet::shared();
    let server = HttpServer::start();
    let job = fleet.job(Job::new(SCRIPT));
    let (urls, rows) = tables(&server, &job);
    server.fault("t/a.csv", HttpFault::NoRanges);
    server.fault("t/d.parquet", HttpFault::Cut(4, 300));
    let urls: Vec<String> = urls.iter().map(|url| url.replace("http://", "http://me:unsaid@")).collect();
    let job = job.with("inputs", json!([{ "name": "t", "type": "tabular", "paths": urls }]));
    let job = job.with("mini_batch_size", "1kb").with("node_count", 2);
    let workers = [fleet.worker(&job, &[]), fleet.worker(&job, &[])];
    let ended = fleet.submit(&job);
    let record = ended.expect_completed();
    let id = record["job_id"].as_str().unwrap();
    let result = String::from_utf8(fleet.stored(id).result()).unwrap();
    assert_eq!(result.lines().collect::<Vec<_>>(), rows);
    assert_hidden(&job, &[&ended.stdout, &ended.stderr]);
    for worker in workers {
        let told = worker.stderr();
        assert!(!told.contains("unsaid"), "{told}");
    }
    for key in fleet.stored(id).keys() {
        if key.contains("logs/") || key.contains("output/") {
            assert!(!String::from_utf8_lossy(&fleet.stored(id).bytes(&key)).contains("unsaid"), "{key}");
        }
    }
}

#[test]
fn registered_data_may_be_at_a_server() {
    let server = HttpServer::start();
    server.put("in/a.txt", "text");
    let job =
        Job::new(SCRIPT).with("inputs", json!([{ "name": "f", "type": "file", "path": "azureml:far:1" }]));
    let url = format!("{}?sig=unsaid", server.url("in/a.txt"));
    let create = ["dataset", "create", "--name", "far", "--type", "uri_file", "--path", &url];
    let created = job.command(&create);
    created.expect_code(0);
    let listed = job.command(&["dataset", "list"]);
    let shown = job.command(&["dataset", "show", "--name", "far"]);
    assert!(shown.stdout.contains("in/a.txt?..."), "{}", shown.stdout);
    let ended = job.submit();
    job.has_completed(&ended);
    assert_eq!(job.run().rows(), ["a.txt: 4"]);
    let record = job.command(&["show", "run"]);
    let printed =
        [&created, &listed, &shown, &ended, &record].map(|one| format!("{}{}", one.stdout, one.stderr));
    assert_hidden(&job, &printed.each_ref().map(String::as_str));
    let folder = job.command(&["dataset", "create", "--name", "far", "--type", "uri_folder", "--path", &url]);
    says(&folder, 2, &["cannot be listed over HTTP"]);
}
