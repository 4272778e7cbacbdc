//! The metrics of a worker: what they count is what the job says, their names are those of the documentation, and
//! `/livez` tells of the worker alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use prs_common::segment::TryStatus;
use prs_common::statistics::{Part, Summary, decode};
use prs_tests::deadline::wait_for;
use prs_tests::harness::servers::proxy::TcpProxy;
use prs_tests::harness::{Fleet, Job, Live};

/// Of seven files the second fails always, the third once, the fourth kills its process once, the fifth returns too
/// little; the last waits.
const ALL_SORTS: &str = r#"
import os
import time
import marks
def init():
    time.sleep(0.02)
def run(mini_batch):
    name = os.path.basename(mini_batch[0])
    if name == "0001.txt":
        raise ValueError("no good")
    if name == "0002.txt" and not marks.is_marked("once"):
        marks.mark("once")
        raise KeyError("once")
    if name == "0003.txt" and not marks.is_marked("died"):
        marks.mark("died")
        os._exit(3)
    if name == "0006.txt":
        marks.mark("last")
        marks.wait_for("go")
    time.sleep(0.005)
    return [] if name == "0004.txt" else [open(path).read() for path in mini_batch]
"#;
const ECHO: &str = "
def run(mini_batch):
    return [open(path).read() for path in mini_batch]
";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A worker that serves its metrics.
struct Counted {
    worker: Live,
    address: SocketAddr,
}

impl Counted {
    fn start(fleet: &Fleet, job: &Job, target: &str, variables: &[(String, String)]) -> Self {
        let options = ["--target", target, "--slots", "2", "--metrics", "127.0.0.1:0"];
        let mut worker = fleet.worker_with(job, &options, variables);
        worker.wait_until_said("metrics are served");
        let said = worker.stderr();
        let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        Self { address: address.unwrap().parse().unwrap(), worker }
    }

    /// Status and body of the answer to `GET`.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: worker\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn scrape(&self) -> Scrape {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200);
        Scrape::of(&text)
    }
}

/// What a worker exports.
struct Scrape {
    /// By name and labels, as they are written.
    samples: BTreeMap<String, f64>,
    /// Of each metric its type, its help, and its labels.
    metrics: BTreeMap<String, (String, String, BTreeSet<String>)>,
}

impl Scrape {
    fn of(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let (mut samples, mut metrics) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", name, help] => {
                    let help = help.trim_end_matches('.').to_owned();
                    metrics.insert(name.to_owned(), (String::new(), help, BTreeSet::new()));
                }
                ["#", "TYPE", name, kind] => kind.clone_into(&mut metrics.get_mut(name).unwrap().0),
                ["#", ..] => {}
                _ => {
                    let (sample, value) = line.rsplit_once(' ').unwrap();
                    samples.insert(sample.to_owned(), value.parse().unwrap());
                    let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
                    let of = metrics.iter_mut().find(|(metric, _)| {
                        ["", "_total", "_sum", "_count", "_bucket"]
                            .iter()
                            .any(|end| format!("{metric}{end}") == name)
                    });
                    let labels =
                        labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
                    of.unwrap().1.2.extend(labels.filter(|label| label != "le"));
                }
            }
        }
        Self { samples, metrics }
    }

    #[track_caller]
    fn get(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {:#?}", self.samples))
    }

    /// A count, which is whole.
    #[track_caller]
    fn count(&self, sample: &str) -> u64 {
        self.get(sample) as u64
    }

    /// Processes of the target `counted` that were started for `reason`.
    #[track_caller]
    fn started(&self, reason: &str) -> u64 {
        self.count(&format!("prs_worker_processes_started_total{{target=\"counted\",reason=\"{reason}\"}}"))
    }
}

#[test]
fn a_worker_counts_what_its_job_says() {
    let fleet = Fleet::shared();
    let job = fleet
        .job(Job::new(ALL_SORTS))
        .with_files(7)
        .with("mini_batch_size", 1)
        .with("process_count_per_node", 2);
    let job = job.with("compute_target", "counted").with("run_max_try", 2).with("error_threshold", -1);
    let counted = Counted::start(fleet, &job, "counted", &[]);
    assert_eq!(counted.get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(counted.get("/elsewhere").0, 404);
    let before = counted.scrape();
    assert_eq!(before.count("prs_worker_serving{target=\"counted\"}"), 0);
    assert_eq!(before.count("prs_worker_slots{target=\"counted\"}"), 0);

    let id = fleet.hand_in(&job);
    wait_for("the last mini-batch at work", PATIENCE, || {
        let now = counted.scrape();
        let tries =
            |status| now.count(&format!("prs_worker_tries_total{{target=\"counted\",status=\"{status}\"}}"));
        let at_work = now.count("prs_worker_busy_slots{target=\"counted\"}") == 1;
        // The successor of the process that ended is ready, too, and one that a last try was in need of.
        let inits = now.count("prs_worker_init_duration_seconds_count{target=\"counted\"}");
        let ready = now.started("exited") == 1 && inits == 3 + now.started("replaced");
        (at_work && ready && tries("RUN_DONE") == 5 && tries("RUN_EXCEPTION") == 3).then_some(())
    });
    let meanwhile = counted.scrape();
    for (sample, expected) in [
        ("prs_worker_serving{target=\"counted\"}", 1),
        ("prs_worker_slots{target=\"counted\"}", 2),
        ("prs_orchestrator_jobs", 1),
        ("prs_orchestrator_takeovers_total", 0),
    ] {
        assert_eq!(meanwhile.count(sample), expected, "{sample}");
    }
    assert_eq!(counted.get("/livez").0, 200);
    job.mark("go");
    job.command(&["stream", &id]).expect_code(0);
    wait_for("the worker to be idle", PATIENCE, || {
        (counted.scrape().count("prs_worker_serving{target=\"counted\"}") == 0).then_some(())
    });

    let after = counted.scrape();
    let printed = job.command(&["status", &id, "-o", "json"]).json();
    let summary: Summary =
        decode(&fleet.stored(&id).bytes(&format!("logs/sys/statistics/{}", Summary::NAME))).unwrap();
    for status in TryStatus::ALL {
        let sample = format!("prs_worker_tries_total{{target=\"counted\",status=\"{}\"}}", status.as_str());
        assert_eq!(after.count(&sample), summary.tries(status), "{sample}");
    }
    for result in ["succeeded", "failed"] {
        let sample = format!("prs_worker_items_total{{target=\"counted\",result=\"{result}\"}}");
        assert_eq!(after.count(&sample), printed["items"][result], "{sample}");
    }
    assert_eq!(["start", "exited", "killed"].map(|reason| after.started(reason)), [2, 1, 0]);
    let of = |what: &str| {
        let [sum, count] = ["sum", "count"]
            .map(|end| after.get(&format!("prs_worker_{what}_duration_seconds_{end}{{target=\"counted\"}}")));
        (sum, count as u64)
    };
    let tries: u64 = TryStatus::ALL.iter().map(|status| summary.tries(*status)).sum();
    assert_eq!((tries, of("load").1), (10, 10));
    assert!(of("run").0 >= 0.025 && (9..=10).contains(&of("run").1), "{:?}", of("run"));
    assert!(of("init").0 >= 0.06 && of("init").1 == 3 + after.started("replaced"), "{:?}", of("init"));
    assert!(after.count("prs_worker_commit_duration_seconds_count") >= 1);
    assert_eq!(after.count("prs_worker_input_bytes_total"), 7 * "item 0".len() as u64);
    assert!(after.count("prs_orchestrator_actions_total{duty=\"segments\"}") >= 1);
    assert!(after.count("prs_orchestrator_statistics_bytes{part=\"summary\"}") > 0);
    for idle in [
        "prs_worker_slots{target=\"counted\"}",
        "prs_worker_busy_slots{target=\"counted\"}",
        "prs_worker_uncommitted_bytes",
        "prs_worker_cache_bytes",
        "prs_orchestrator_jobs",
        "prs_orchestrator_follow_lag_segments",
    ] {
        assert_eq!(after.count(idle), 0, "{idle}");
    }
    is_documented(&after);
}

/// The table of docs/metrics.md has what is exported, and nothing else.
fn is_documented(scrape: &Scrape) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    // That of servers is another test's.
    let page = page.split("\n## A server\n").next().unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `prs_"));
    let documented: BTreeSet<_> = rows.map(|row| format!("| `prs_{row}")).collect();
    let exported = scrape.metrics.iter().map(|(name, (kind, help, labels))| {
        let end = if kind == "counter" { "_total" } else { "" };
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}{end}` | {kind} | {} | {help} |", labels.join(", "))
    });
    let exported: BTreeSet<_> = exported.collect();
    assert_eq!(documented, exported, "docs/metrics.md and /metrics differ; it should have\n{}", {
        let rows: Vec<_> = exported.iter().cloned().collect();
        rows.join("\n")
    });
}

#[test]
fn a_worker_without_its_ledger_is_alive_and_says_how_long() {
    const AWAY: &str = "prs_worker_dependency_unavailable_seconds_total{dependency=\"ledger\"}";
    let fleet = Fleet::shared();
    let job = fleet.job(Job::new(ECHO)).with_files(2).with("compute_target", "cut-off");
    let way = TcpProxy::start(fleet.addresses()[1]);
    let variable = ("PRS_REDIS_URL".to_owned(), format!("redis://{}", way.address()));
    let mut counted = Counted::start(fleet, &job, "cut-off", &[variable]);
    counted.worker.wait_until_said("the worker is ready");
    assert!(counted.scrape().get(AWAY) <= 0.0);
    way.cut_off();
    wait_for("the outage to be counted", PATIENCE, || (counted.scrape().get(AWAY) > 0.5).then_some(()));
    assert_eq!(counted.get("/livez").0, 200);
    way.restore();
    let id = fleet.hand_in(&job);
    job.command(&["stream", &id]).expect_code(0);
    let away = counted.scrape();
    assert_eq!(away.count("prs_worker_items_total{target=\"cut-off\",result=\"succeeded\"}"), 2);
    assert!(away.get(&AWAY.replace("ledger", "storage")) <= 0.0);
}

#[test]
fn an_address_that_cannot_be_served_is_told_at_once() {
    let fleet = Fleet::shared();
    let job = fleet.job(Job::new(ECHO));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = fleet.worker(&job, &["--metrics", &address]).wait();
    ended.expect_code(2);
    for part in [&*address, "in use", "--metrics (PRS_METRICS)"] {
        assert!(ended.stderr.contains(part), "{part:?} is not said: {}", ended.stderr);
    }
    let variable = ("PRS_METRICS".to_owned(), "9465".to_owned());
    let ended = fleet.worker_with(&job, &[], &[variable]).wait();
    ended.expect_code(2);
    assert!(ended.stderr.contains("as in 127.0.0.1:9465"), "{}", ended.stderr);
}
