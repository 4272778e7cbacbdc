//! What KEDA does with the `ScaledJob` of `ops/kubernetes/overlays/keda`, in small: it asks the server how many nodes the jobs of the
//! target want, and starts as many workers as are missing, from none on; workers end by themselves.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use prs_tests::deadline::wait_for;
use prs_tests::harness::{Ended, Fleet, Job, Live, Web};
use serde_json::Value;

const SLOW: &str = "
import time

def run(mini_batch):
    time.sleep(0.3)
    return mini_batch
";
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks; KEDA's are `pollingInterval` apart.
const POLL: Duration = Duration::from_millis(300);
/// How long a worker waits for a job here, seconds.
const IDLE: &str = "2";

/// What the manifest says of scaling.
struct ScaledJob {
    /// Where the figure is asked for.
    path: String,
    /// Its name in the answer.
    figure: String,
    most: u64,
    /// How much of the figure one worker stands for.
    each: u64,
    /// Above which figure anything is started.
    above: u64,
    arguments: Vec<String>,
}

impl ScaledJob {
    fn read() -> Self {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/kubernetes/overlays/keda/scaled-job.yaml");
        let text = fs::read_to_string(file).unwrap();
        let value = |key: &str| {
            let lines = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
            lines.map(|value| value.trim_matches('"').to_owned()).next().unwrap_or_else(|| panic!("no {key}"))
        };
        let number = |key: &str| value(key).parse::<u64>().unwrap();
        assert_eq!((value("- type"), value("authMode")), ("metrics-api".to_owned(), "bearer".to_owned()));
        assert_eq!(
            (value("minReplicaCount"), value("scalingStrategy").as_str()),
            ("0".to_owned(), "{strategy: default}")
        );
        let list = value("args");
        let arguments =
            list.trim_matches(['[', ']']).split(',').map(|one| one.trim().trim_matches('"').to_owned());
        let url = value("url");
        let path = url.splitn(4, '/').nth(3).unwrap();
        Self {
            path: format!("/{path}"),
            figure: value("valueLocation"),
            most: number("maxReplicaCount"),
            each: number("targetValue"),
            above: number("activationTargetValue"),
            arguments: arguments.collect(),
        }
    }

    /// The arguments of a worker: those of the pod, but for what is of the pod alone, and with less patience.
    fn arguments(&self) -> Vec<&str> {
        let mut taken = Vec::new();
        let mut all = self.arguments.iter().map(String::as_str);
        while let Some(option) = all.next() {
            let value = all.next().unwrap();
            match option {
                "--work-dir" | "--metrics" => {}
                "--exit-when-idle" => taken.extend([option, IDLE]),
                _ => taken.extend([option, value]),
            }
        }
        taken
    }
}

/// The autoscaler, and the workers that it started.
struct Autoscaler<'a> {
    scaled: ScaledJob,
    fleet: &'a Fleet,
    job: &'a Job,
    web: &'a Web,
    running: Vec<Live>,
    ended: Vec<Ended>,
    started: usize,
}

impl Autoscaler<'_> {
    /// Asks once, and starts what is missing: KEDA's strategy `default`. Where there is no figure nothing changes.
    fn look(&mut self) -> Option<u64> {
        for mut worker in std::mem::take(&mut self.running) {
            if worker.has_ended() {
                self.ended.push(worker.wait());
            } else {
                self.running.push(worker);
            }
        }
        let answer = self.web.get(&self.scaled.path);
        if answer.status != 200 {
            return None;
        }
        let figure = answer.json(200)[&self.scaled.figure].as_u64().expect("an unquoted number");
        if figure > self.scaled.above {
            let most = figure.div_ceil(self.scaled.each).min(self.scaled.most) as usize;
            for _ in self.running.len()..most {
                self.running.push(self.fleet.worker(self.job, &self.scaled.arguments()));
                self.started += 1;
            }
        }
        Some(figure)
    }

    /// Looks until this is so.
    #[track_caller]
    fn look_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.look();
            if is_so(self) {
                return;
            }
            let said: Vec<String> = self.running.iter().map(Live::stderr).collect();
            assert!(Instant::now() < deadline, "not in time: {what}\n{said:#?}");
            std::thread::sleep(POLL);
        }
    }
}

#[test]
fn workers_come_when_jobs_want_them_and_go_by_themselves() {
    let fleet = Fleet::apart();
    let mut job = Job::new(SLOW).with_files(24).with("mini_batch_size", 1).with("process_count_per_node", 1);
    let runtime = job.path("runtime");
    fs::create_dir(&runtime).unwrap();
    job = fleet
        .job(job.with("node_count", 3).with_own_variable("XDG_RUNTIME_DIR", &runtime.display().to_string()));
    let made =
        job.command(&["token", "create", "keda", "--role", "metrics", "--days", "0", "-o", "json"]).json();
    let mut web = Web::start(&job, &[]);
    web.set_token(made["secret"].as_str().unwrap());
    let mut scaler = Autoscaler {
        scaled: ScaledJob::read(),
        fleet: &fleet,
        job: &job,
        web: &web,
        running: Vec::new(),
        ended: Vec::new(),
        started: 0,
    };

    // Nobody wants anything, of a target that nobody has named yet.
    assert_eq!(scaler.look(), Some(0));
    assert_eq!(scaler.started, 0);

    let ids = [fleet.hand_in(&job), fleet.hand_in(&job)];
    scaler.look_until("both jobs have their nodes", |scaler| scaler.running.len() == 6);
    let is_over = |id: &str| job.command(&["status", id, "-o", "json"]).json()["state"] == "completed";
    scaler.look_until("they complete", |_| ids.iter().all(|id| is_over(id)));
    scaler.look_until("all workers have gone", |scaler| scaler.running.is_empty());
    assert_eq!(scaler.look(), Some(0));
    // Those at work are in the figure, so no other was started in their place, and none was asked to end.
    assert_eq!(scaler.started, 6);
    for ended in &scaler.ended {
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("nothing to do"), "{}", ended.stderr);
    }

    // And again from none on.
    let id = fleet.hand_in(&job);
    scaler.look_until("the third job completes", |_| is_over(&id));
    scaler.look_until("all workers have gone again", |scaler| scaler.running.is_empty());
    assert_eq!(scaler.started, 9);
}

#[test]
fn without_a_figure_nothing_is_started() {
    let fleet = Fleet::start();
    let mut job = Job::new(SLOW).with_files(2);
    let runtime = job.path("runtime");
    fs::create_dir(&runtime).unwrap();
    job = fleet.job(job.with_own_variable("XDG_RUNTIME_DIR", &runtime.display().to_string()));
    let made = job.command(&["token", "create", "keda", "--role", "metrics", "-o", "json"]).json();
    let mut web = Web::start(&job, &[]);
    web.set_token(made["secret"].as_str().unwrap());
    fleet.hand_in(&job);
    let scaled = ScaledJob::read();
    wait_for("the figure has the job", PATIENCE, || {
        (web.get(&scaled.path).json(200)[&scaled.figure] == 1).then_some(())
    });
    fleet.redis.kill();
    let deadline = Instant::now() + PATIENCE;
    // What was asked for a moment ago is known for two seconds.
    let refused = loop {
        let answer = web.get(&scaled.path);
        if answer.status != 200 {
            break answer;
        }
        assert!(Instant::now() < deadline, "figures of a ledger that is away");
        std::thread::sleep(POLL);
    };
    let problem: Value = refused.json(503);
    assert_eq!(problem["status"], 503, "{problem}");
}
