//! Spans as a collector of OpenTelemetry gets them. The programs have to be built with the feature `otel` (`make test-traces`), so the
//! tests are ignored elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prs_common::hexadecimal;
use prs_common::traces::{SpanId, TraceId, TraceParent};
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Web};
use serde_json::Value;

/// Of five files the second fails always. Says which trace it is in.
const SCRIPT: &str = r#"
import os

def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    if name == "0001.txt":
        raise ValueError("no good")
    return [os.environ.get("TRACEPARENT", "none") for _ in mini_batch]
"#;
const PATIENCE: Duration = Duration::from_mins(1);

/// A span as it came.
#[derive(Debug, Clone, Default)]
struct Seen {
    service: String,
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    start_ns: u64,
    end_ns: u64,
    attributes: BTreeMap<String, String>,
    /// Attributes of events by the names of these.
    events: BTreeMap<String, BTreeMap<String, String>>,
    /// Traces and spans of links.
    links: Vec<(String, String)>,
    /// 2 where it failed.
    status: u64,
}

/// A field of a message of Protocol Buffers: its number, and what it has.
enum Field<'a> {
    Number(u64, u64),
    Bytes(u64, &'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
        shift += 7;
    }
}

fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (number, kind) = (key >> 3, key & 7);
        found.push(match kind {
            0 => Field::Number(number, varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(number, u64::from_le_bytes(value.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(number, value)
            }
            5 => {
                let (value, rest) = bytes.split_at(4);
                bytes = rest;
                Field::Number(number, u32::from_le_bytes(value.try_into().unwrap()).into())
            }
            kind => panic!("a field of kind {kind}"),
        });
    }
    found
}

/// Every message in the field `wanted`.
fn all(bytes: &[u8], wanted: u64) -> Vec<&[u8]> {
    let of = |field| match field {
        Field::Bytes(number, value) if number == wanted => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(of).collect()
}

fn text(bytes: &[u8], wanted: u64) -> String {
    all(bytes, wanted).first().map_or_else(String::new, |value| String::from_utf8_lossy(value).into_owned())
}

fn id(bytes: &[u8], wanted: u64) -> String {
    all(bytes, wanted).first().map_or_else(String::new, |value| hexadecimal(value))
}

fn number(bytes: &[u8], wanted: u64) -> u64 {
    let of = |field| match field {
        Field::Number(number, value) if number == wanted => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().find_map(of).unwrap_or_default()
}

fn attributes(bytes: &[u8], wanted: u64) -> BTreeMap<String, String> {
    let pairs = all(bytes, wanted).into_iter().map(|pair| {
        let value = all(pair, 2)[0];
        let value = match fields(value).first() {
            Some(Field::Bytes(_, text)) => String::from_utf8_lossy(text).into_owned(),
            Some(Field::Number(_, number)) => number.to_string(),
            None => String::new(),
        };
        (text(pair, 1), value)
    });
    pairs.collect()
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Vec<Seen> {
    let mut found = Vec::new();
    for resource_spans in all(request, 1) {
        let service =
            all(resource_spans, 1).first().map(|resource| attributes(resource, 1)).unwrap_or_default();
        for scope_spans in all(resource_spans, 2) {
            found.extend(all(scope_spans, 2).into_iter().map(|span| Seen {
                service: service.get("service.name").cloned().unwrap_or_default(),
                trace: id(span, 1),
                id: id(span, 2),
                parent: id(span, 4),
                name: text(span, 5),
                kind: number(span, 6),
                start_ns: number(span, 7),
                end_ns: number(span, 8),
                attributes: attributes(span, 9),
                events:
                    all(span, 11).into_iter().map(|event| (text(event, 2), attributes(event, 3))).collect(),
                links: all(span, 13).into_iter().map(|link| (id(link, 1), id(link, 2))).collect(),
                status: all(span, 15).first().map(|status| number(status, 3)).unwrap_or_default(),
            }));
        }
    }
    found
}

/// A collector, as far as programs see one.
struct Collector {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { address, seen }
    }

    fn variables(&self) -> Vec<(String, String)> {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address)),
            ("PRS_TRACE_RATIO", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    /// The one span of this name and trace.
    #[track_caller]
    fn wait_for(&self, name: &str, trace: &str) -> Seen {
        let found = || self.named(name).into_iter().find(|span| span.trace == trace);
        wait_for(name, PATIENCE, found)
    }
}

/// Takes what comes over a connection, request after request.
fn serve(stream: TcpStream, seen: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let head = head.to_lowercase();
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        seen.lock().unwrap().extend(spans(&body));
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

#[test]
#[ignore = "needs programs with the feature otel: make test-traces"]
fn a_job_of_a_fleet_is_told_from_the_request_to_the_last_try() {
    let (fleet, collector) = (Fleet::apart(), Collector::start());
    let mut job = Job::new(SCRIPT).with_files(5).with("mini_batch_size", 1).with("run_max_try", 2);
    job = fleet.job(job.with("error_threshold", -1));
    let runtime = job.path("runtime");
    fs::create_dir(&runtime).unwrap();
    job = job
        .with_own_variable("XDG_RUNTIME_DIR", &runtime.display().to_string())
        .with_own_variable("PRS_LOG_FORMAT", "json")
        .with_own_variable("PRS_LOG", "info");
    for (name, value) in collector.variables() {
        job = job.with_own_variable(&name, &value);
    }
    let mut web = Web::start(&job, &["--allow-path", "/"]);
    let told = fs::read(runtime.join(format!("prs/serve-{}.json", web.port()))).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    web.set_token(told["token"].as_str().unwrap());
    let worker = fleet.worker_with(&job, &["--exit-when-idle", "5"], &collector.variables());

    // A server reads no folder but by its whole path.
    let [code, data] = ["code", "data"].map(|folder| job.path(folder).display().to_string());
    job.set("source_directory", code);
    job.set("inputs", serde_json::json!([{ "type": "file", "path": data }]));
    let text = fs::read_to_string(job.write_job_file()).unwrap();
    let body = serde_json::json!({ "yaml": text }).to_string();
    let asker = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("traceparent", asker), ("content-type", "application/json")];
    let made = web.ask_with("POST", "/api/v1/jobs", &headers, &body).json(201);
    let job_id = made["job_id"].as_str().unwrap();
    let ended = web.get(&format!("/api/v1/jobs/{job_id}?wait_for=ended&timeout=60")).json(200);
    assert_eq!(ended["state"], "completed", "{ended}");
    let said = worker.wait();
    assert_eq!(said.code, Some(0), "{}", said.stderr);

    // The request: part of the asker's trace, with its steps.
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = collector.wait_for("POST /api/v1/jobs", trace);
    assert_eq!(
        (request.parent.as_str(), request.kind, request.service.as_str()),
        ("00f067aa0ba902b7", 2, "prs-server")
    );
    assert_eq!(request.attributes["http.response.status_code"], "201");
    for step in ["store code", "store record", "ledger create"] {
        let step = collector.wait_for(step, trace);
        assert_eq!(step.parent, request.id);
        assert!(request.start_ns <= step.start_ns && step.end_ns <= request.end_ns, "{step:?}");
    }
    let line = web.program.stderr();
    assert!(line.contains(&format!(r#""trace_id":"{trace}","span_id":"{}""#, request.id)), "{line}");

    // The job: ids that follow from it, linked to the request.
    let of_job = TraceParent::of_job(job_id, 1);
    let root = collector.wait_for("job", &of_job.trace.to_string());
    assert_eq!((&root.id, root.parent.as_str(), root.status), (&of_job.span.to_string(), "", 0));
    assert_eq!(root.links, [(trace.to_owned(), request.id)]);
    assert_eq!((&*root.attributes["prs.state"], &*root.service), ("completed", "prs-worker"));
    for step in ["plan", "schedule", "assemble", "finalize", "tidy"] {
        let seen = collector.wait_for(step, &root.trace);
        assert_eq!((&seen.parent, &seen.id), (&root.id, &SpanId::named(of_job.trace, step).to_string()));
        assert!(seen.start_ns <= seen.end_ns);
    }

    // Its mini-batches: a trace each, with all their tries.
    let traces: BTreeSet<String> = collector.named("mini_batch").into_iter().map(|span| span.trace).collect();
    let expected = (0..5).map(|index| TraceId::of_mini_batch(job_id, index).to_string()).collect();
    assert_eq!(traces, expected);
    let tries = collector.named("mini_batch");
    assert_eq!(tries.len(), 6, "{tries:?}");
    for one in &tries {
        assert_eq!(one.links, [(root.trace.clone(), root.id.clone())]);
        assert_eq!((&*one.attributes["prs.job_id"], &*one.attributes["prs.items"]), (job_id, "1"));
        let parts = collector.seen.lock().unwrap().clone();
        let parts: BTreeSet<_> =
            parts.iter().filter(|span| span.parent == one.id).map(|span| &*span.name).collect();
        assert!(parts.contains("run") && parts.contains("commit"), "{parts:?}");
    }
    let failed: Vec<_> = tries.iter().filter(|one| one.status == 2).collect();
    assert_eq!(failed.len(), 2);
    for one in failed {
        assert_eq!(one.attributes["prs.status"], "RUN_EXCEPTION");
        assert_eq!(one.events["exception"]["exception.type"], "ValueError");
        assert!(one.events["exception"]["exception.message"].contains("no good"));
    }

    // The script: in the trace of its job.
    let rows = web.get(&format!("/api/v1/jobs/{job_id}/result")).text();
    assert_eq!(rows.lines().collect::<BTreeSet<_>>(), BTreeSet::from([&*of_job.to_string()]));
}

#[test]
#[ignore = "needs programs with the feature otel: make test-traces"]
fn a_collector_that_is_away_or_wrong_harms_no_job() {
    let job = Job::new(SCRIPT)
        .with_files(1)
        .with_own_variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .with_own_variable("PRS_TRACE_RATIO", "1");
    let file = job.write_job_file().display().to_string();
    let ended = job.command(&["submit", &file, "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("spans cannot be sent"), "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    for (name, value, said) in [
        ("PRS_TRACE_RATIO", "10%", "PRS_TRACE_RATIO=10% cannot be understood: give a share from 0 to 1"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://x", "give http://HOST:4318"),
    ] {
        let job = Job::new(SCRIPT)
            .with_own_variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
            .with_own_variable(name, value);
        let ended = job.command(&["list"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
