//! Pipelines on a fleet, while who drives them dies or sleeps between any two steps, while all workers die, while servers
//! are away, and while they are canceled and resumed at each step.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use prs_tests::deadline::{comes_within, wait_for};
use prs_tests::harness::servers::proxy::{Fault, HttpFaults, HttpProxy};
use prs_tests::harness::{Ended, Fleet, Job, Live, Random};
use rustix::process::Signal;
use serde_json::Value;

use crate::chaos_run::{END, panics};
use crate::oracle::{left_on_servers, odd_ones};
use crate::partition::shifted_clock;

/// How long what is left of a pipeline may take to be cleaned up.
const CLEAN_UP: Duration = Duration::from_mins(1);
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);
/// How long workers come and go.
const CHURN: Duration = Duration::from_secs(12);
/// Longer than a lease.
const LEASE: Duration = Duration::from_secs(4);
/// Files that the first step makes.
const FILES: usize = 120;
/// Files in a mini-batch of the steps in the middle.
const IN_ONE: usize = 2;
/// Steps, in an order in which they may run.
const STEPS: [&str; 4] = ["parts", "upper", "reverse", "join"];

/// A command, two parallel jobs over what it brings, and a command that puts together what these bring. Each notes that it
/// runs, and waits while there is a mark that holds it.
const PIPELINE: &str = r#"
type: pipeline
name: NAME
outputs: {all: {type: uri_file}}
jobs:
  parts:
    type: command
    command: >-
      touch HERE/parts; while test -e HERE/hold-parts; do sleep 0.05; done;
      for i in $(seq 1000 LAST); do echo "item $i" > ${{outputs.o}}/$i.txt; done
    outputs: {o: {}}
  upper:
    PARALLEL upper, append_row_to: "${{outputs.rows}}"}
  reverse:
    PARALLEL reverse, append_row_to: "${{outputs.rows}}"}
  join:
    type: command
    command: >-
      touch HERE/join; while test -e HERE/hold-join; do sleep 0.05; done;
      cat ${{inputs.upper}} ${{inputs.reverse}} > ${{outputs.all}}
    inputs:
      upper: ${{parent.jobs.upper.outputs.rows}}
      reverse: ${{parent.jobs.reverse.outputs.rows}}
    outputs: {all: "${{parent.outputs.all}}"}
"#;
const PARALLEL: &str = r#"type: parallel
    inputs: {parts: "${{parent.jobs.parts.outputs.o}}"}
    outputs: {rows: {type: uri_file}}
    input_data: ${{inputs.parts}}
    mini_batch_size: 2
    max_concurrency_per_instance: 2
    resources: {instance_count: 2}
    retry_settings: {max_retries: 19, timeout: 60}
    environment_variables: {PRS_TEST_MARKS: HERE}
    task: {code: ./code, entry_script: main.py, program_arguments: --how"#;
const SCRIPT: &str = r#"
import argparse, select
from marks import mark, is_marked

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--how")
how = parser.parse_known_args()[0].how

def run(mini_batch):
    mark(how)
    # time.sleep() fails where libfaketime shifts one clock and not the other: it counts to a point in time.
    while is_marked("hold-" + how):
        select.select([], [], [], 0.02)
    select.select([], [], [], 0.1)
    texts = [open(path).read().strip() for path in mini_batch]
    return [text.upper() if how == "upper" else text[::-1] for text in texts]
"#;

/// A pipeline, and the workers of the fleet.
struct Flow<'a> {
    fleet: &'a mut Fleet,
    job: Job,
    crew: Vec<Live>,
    id: String,
    panics_before: usize,
}

impl<'a> Flow<'a> {
    /// One that was not submitted yet, and nobody to serve it.
    fn new(fleet: &'a mut Fleet) -> Self {
        let job = fleet.job(Job::new(SCRIPT));
        let marks = job.path("marks").display().to_string();
        let name = name_of(&job);
        let text = PIPELINE.replace("PARALLEL", PARALLEL).replace("HERE", &marks).replace("NAME", &name);
        let text = text.replace("LAST", &(1000 + FILES - 1).to_string());
        fs::write(job.path("pipeline.yml"), text).unwrap();
        let panics_before = panics(fleet);
        Self { fleet, job, crew: Vec::new(), id: String::new(), panics_before }
    }

    fn hire(&mut self, variables: &[(&str, &str)]) {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.crew.push(self.fleet.worker_with(&self.job, &[], &variables));
    }

    /// Hands it in, and lets nobody wait for it: workers alone drive it.
    fn hand_in(&mut self) {
        let ended = self.job.command(&["submit", "pipeline.yml", "--detach", "-o", "json"]);
        ended.expect_code(0);
        ended.json()["job_id"].as_str().unwrap().clone_into(&mut self.id);
    }

    /// The result in the record of a job.
    fn result_of(&self, id: &str) -> Option<Value> {
        let stored = self.fleet.stored(id);
        let is_there = stored.keys().iter().any(|key| key == "job.json");
        let record: Value = is_there.then(|| serde_json::from_slice(&stored.bytes("job.json")).unwrap())?;
        Some(record["result"].clone()).filter(|result| !result.is_null())
    }

    fn result(&self) -> Option<Value> {
        self.result_of(&self.id)
    }

    /// The id of the job of a step.
    fn step(&self, name: &str) -> String {
        format!("{}-{name}", self.id)
    }

    /// Waits until a worker drives it.
    fn wait_for_a_driver(&self) {
        let driver = || self.fleet.orchestrator_of(&self.id);
        let came = comes_within(END, driver);
        assert!(came.is_some(), "nobody drives the pipeline\n{}", self.fleet.story());
    }

    /// Waits until a step has begun its work, in whichever start of the pipeline.
    fn wait_for_step(&self, name: &str) {
        let mark = self.job.path("marks").join(name);
        let came = comes_within(END, || mark.exists().then_some(()));
        assert!(came.is_some(), "the step {name} does not begin\n{}", self.fleet.story());
    }

    /// Waits until a step has ended.
    fn wait_for_end_of(&self, name: &str) {
        let came = comes_within(END, || self.result_of(&self.step(name)));
        assert!(came.is_some(), "the step {name} does not end\n{}", self.fleet.story());
    }

    /// Kills a worker, as a power cut would.
    fn kill(&mut self, at: usize) {
        let worker = self.crew.remove(at);
        let said = worker.stderr();
        assert!(worker.kill(), "the worker had ended before it was killed\n{said}");
    }

    /// Waits until a worker has died of SIGKILL by itself.
    fn dies(&mut self, at: usize) {
        let died = comes_within(END, || self.crew[at].has_ended().then_some(()));
        assert!(died.is_some(), "the worker does not die\n{}", self.fleet.story());
        let worker = self.crew.remove(at);
        assert!(worker.kill(), "the worker ended, but not of SIGKILL\n{}", self.fleet.story());
    }

    /// Waits until a worker was stopped at its failpoint.
    fn stops(&self, at: usize) {
        let stopped = comes_within(END, || self.crew[at].is_stopped().then_some(()));
        assert!(stopped.is_some(), "the worker does not come to the place\n{}", self.fleet.story());
    }

    /// Waits for the end; `meanwhile` is done again and again.
    fn until_ended(&mut self, mut meanwhile: impl FnMut(&mut Self)) -> Value {
        let start = Instant::now();
        loop {
            if let Some(result) = self.result() {
                return result;
            }
            assert!(start.elapsed() < END, "the pipeline does not end\n{}", self.fleet.story());
            meanwhile(self);
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the end, and asserts that everything is as in a quiet run and nothing is left. Ends the workers.
    fn ends(mut self) {
        let result = self.until_ended(|_| {});
        let story = |flow: &Self| format!("{result:#}\n{}", flow.fleet.story());
        assert_eq!(result["state"], "completed", "{}", story(&self));
        let numbers = 1000..1000 + FILES;
        let upper = numbers.clone().map(|number| format!("ITEM {number}\n"));
        let reverse = numbers.map(|number| format!("item {number}").chars().rev().chain(['\n']).collect());
        let expected: String = upper.chain(reverse).collect();
        let brought = self.fleet.stored(&self.id).text("output/all");
        assert_eq!(brought, expected, "{}", story(&self));
        assert_eq!(result["items"]["succeeded"], 2 * FILES, "{}", story(&self));
        for step in STEPS {
            let ended = self.result_of(&self.step(step)).expect("it has ended");
            assert_eq!(ended["state"], "completed", "{step}: {ended}\n{}", story(&self));
            let steps = result["steps"].as_array().expect("the steps");
            let told = steps.iter().find(|told| told["name"] == step).expect("the step");
            assert_eq!(told["result"]["state"], "completed", "{step}: {}", story(&self));
        }
        self.nothing_is_left();
        for step in ["upper", "reverse"] {
            let stored = self.fleet.stored(&self.step(step));
            let report = stored.text("logs/sys/job_report/processed_mini-batches.csv");
            let (odd, tries) = odd_ones(&report, 0..FILES / IN_ONE, IN_ONE);
            assert!(odd.is_empty(), "{step}: {odd:?}\n{tries:#?}\n{}", story(&self));
        }
        for worker in &mut self.crew {
            assert!(worker.signal(Signal::TERM), "a worker has ended by itself\n{}", worker.stderr());
        }
        for worker in self.crew.drain(..) {
            let ended = worker.wait();
            assert_eq!(ended.code, Some(0), "a worker did not end in order\n{}", ended.stderr);
        }
        self.job.soon_leaves_nothing();
        let _ = fs::remove_dir_all(self.fleet.work_folder());
        assert_eq!(panics(self.fleet), self.panics_before, "a worker panicked\n{}", self.fleet.story());
    }

    /// Nothing of it is left on the servers, and no scrap of it in storage.
    fn nothing_is_left(&self) {
        let scraps = || {
            let mut left = left_on_servers(self.fleet, 0);
            for id in STEPS.map(|step| self.step(step)).iter().chain([&self.id]) {
                let mut keys = self.fleet.stored(id).keys();
                let scraps = ["segments/", "files/", "damaged/", "notes/", "plan/", "plain/"];
                keys.retain(|key| scraps.iter().any(|start| key.starts_with(start)));
                if !keys.is_empty() {
                    let _ = write!(left, "{id}: {keys:?} ");
                }
            }
            left
        };
        let mut left = String::new();
        let clean = comes_within(CLEAN_UP, || {
            left = scraps();
            left.is_empty().then_some(())
        });
        assert!(clean.is_some(), "left behind: {left}\n{}", self.fleet.story());
        let uploads = self.fleet.incomplete_uploads();
        assert!(uploads.is_empty(), "uploads that never ended: {uploads:?}");
    }
}

/// The name of the pipeline in the folder of `job`, which no other has.
fn name_of(job: &Job) -> String {
    job.token().to_ascii_lowercase()
}

/// How often a place is passed in a pipeline.
fn times(place: &str) -> u64 {
    if place == "pipeline_ends" { 1 } else { STEPS.len() as u64 }
}

/// Who drives dies at a failpoint, for one step or another.
pub(crate) fn driver_dies_at(fleet: &mut Fleet, random: &mut Random, place: &str) {
    let mut flow = Flow::new(fleet);
    flow.hire(&[("PRS_FAILPOINT", &format!("{place}:{}", 1 + random.below(times(place))))]);
    flow.hand_in();
    // Alone, so that nobody else passes the place.
    flow.dies(0);
    flow.hire(&[]);
    flow.hire(&[]);
    flow.ends();
}

/// Who drives is stopped at a failpoint until another has brought the pipeline to its end, and goes on then: it changes
/// nothing.
pub(crate) fn driver_sleeps_at(fleet: &mut Fleet, random: &mut Random, place: &str) {
    sleeps_at(Flow::new(fleet), random, place, &[], &[]);
}

/// The same where the clock of the first is a minute ahead, and that of the second a minute behind.
pub(crate) fn drivers_clocks_differ(fleet: &mut Fleet, random: &mut Random) {
    sleeps_at(Flow::new(fleet), random, "step_recorded", &shifted_clock("+60s"), &shifted_clock("-60s"));
}

fn sleeps_at(
    mut flow: Flow<'_>,
    random: &mut Random,
    place: &str,
    first: &[(&str, &str)],
    second: &[(&str, &str)],
) {
    let at = format!("{place}:{}:stop", 1 + random.below(times(place)));
    flow.hire(&[first, &[("PRS_FAILPOINT", &*at)]].concat());
    flow.hand_in();
    flow.stops(0);
    flow.hire(second);
    flow.hire(second);
    let result = flow.until_ended(|_| {});
    assert_eq!(result["state"], "completed", "{result}\n{}", flow.fleet.story());
    flow.nothing_is_left();
    let seen = |flow: &Flow<'_>| {
        let steps = STEPS.map(|step| flow.fleet.stored(&flow.step(step)).text("job.json"));
        let stored = flow.fleet.stored(&flow.id);
        (steps, stored.text("job.json"), stored.text("output/all"), stored.text("logs/job_result.txt"))
    };
    let before = seen(&flow);
    assert!(flow.crew[0].signal(Signal::CONT));
    // What it does first is what it was about to do.
    std::thread::sleep(LEASE);
    assert_eq!(seen(&flow), before, "{}", flow.fleet.story());
    flow.ends();
}

/// Who drives, and serves, is stopped at any moment for longer than its lease, again and again.
pub(crate) fn workers_are_stopped(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    flow.hire(&[]);
    flow.hire(&[]);
    flow.hand_in();
    flow.wait_for_a_driver();
    let mut stops = 0;
    let mut until = Instant::now();
    let mut stopped = None;
    flow.until_ended(|flow| {
        if Instant::now() < until {
            return;
        }
        if let Some(at) = stopped.take() {
            let worker: &mut Live = &mut flow.crew[at];
            assert!(worker.signal(Signal::CONT));
            until = Instant::now() + Duration::from_millis(300 + random.below(1500));
        } else {
            let at = random.below(2) as usize;
            assert!(flow.crew[at].signal(Signal::STOP));
            stopped = Some(at);
            stops += 1;
            until = Instant::now() + Duration::from_millis(3500 + random.below(3000));
        }
    });
    for worker in &mut flow.crew {
        assert!(worker.signal(Signal::CONT));
    }
    assert!(stops >= 2, "{stops}");
    flow.ends();
}

/// Everybody dies, once in each of the steps; the last time broker and ledger forget everything.
pub(crate) fn everybody_dies(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    flow.hire(&[]);
    flow.hire(&[]);
    for step in ["parts", "upper", "join"] {
        flow.job.mark(&format!("hold-{step}"));
    }
    flow.hand_in();
    for step in ["parts", "upper", "join"] {
        flow.wait_for_step(step);
        std::thread::sleep(Duration::from_millis(random.below(1000)));
        assert!(flow.result().is_none(), "the pipeline is over before the fault");
        while !flow.crew.is_empty() {
            flow.kill(0);
        }
        if step == "join" {
            flow.fleet.redis.wipe_and_restart();
            flow.fleet.broker.wipe_and_restart();
        }
        flow.job.unmark(&format!("hold-{step}"));
        flow.hire(&[]);
        flow.hire(&[]);
    }
    flow.ends();
}

/// A worker is killed every 0.5 to 1.5 s, whatever it is doing, for [`CHURN`].
pub(crate) fn workers_come_and_go(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    for _ in 0..3 {
        flow.hire(&[]);
    }
    flow.hand_in();
    flow.wait_for_a_driver();
    let (mut kills, mut next, end) = (0, Instant::now(), Instant::now() + CHURN);
    flow.until_ended(|flow| {
        if Instant::now() < next || Instant::now() > end {
            return;
        }
        next = Instant::now() + Duration::from_millis(500 + random.below(1000));
        let at = random.below(flow.crew.len() as u64) as usize;
        flow.kill(at);
        flow.hire(&[]);
        kills += 1;
    });
    assert!(kills >= 3, "{kills} kills");
    flow.ends();
}

/// It is canceled in each of its steps in turn, and resumed: what has completed is kept.
pub(crate) fn canceled_and_resumed(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    flow.hire(&[]);
    flow.hire(&[]);
    let held = ["parts", "upper", "join"];
    for step in held {
        flow.job.mark(&format!("hold-{step}"));
    }
    flow.hand_in();
    let id = flow.id.clone();
    let mut resuming: Option<Live> = None;
    for step in held {
        flow.wait_for_step(step);
        std::thread::sleep(Duration::from_millis(random.below(1000)));
        let canceled = flow.job.command(&["cancel", &id, "-o", "json"]);
        let said =
            |ended: &Ended| format!("{step}: {}\n{}\n{}", ended.stdout, ended.stderr, flow.fleet.story());
        assert_eq!(canceled.code, Some(0), "{}", said(&canceled));
        let states = canceled.json()["steps"].clone();
        assert_eq!(states[step]["state"], "canceled", "{}", said(&canceled));
        if let Some(resuming) = resuming.take() {
            assert_eq!(resuming.wait().code, Some(130), "{step}");
        }
        flow.job.unmark(&format!("hold-{step}"));
        fs::remove_file(flow.job.path("marks").join(step)).unwrap();
        resuming = Some(flow.job.start(&["resume", &id, "-o", "json"]));
        if step != "join" {
            continue;
        }
        let ended = resuming.take().expect("it was just started").wait();
        assert_eq!(ended.code, Some(0), "{}", said(&ended));
    }
    flow.ends();
}

/// Redis is away between two steps, for ten seconds; or comes back with nothing.
pub(crate) fn redis_is_away_between_steps(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    flow.hire(&[]);
    flow.hire(&[]);
    flow.hand_in();
    for step in ["parts", "upper"] {
        flow.wait_for_end_of(step);
        flow.fleet.redis.kill();
        std::thread::sleep(Duration::from_secs(10));
        if random.below(2) == 0 {
            flow.fleet.redis.restart();
        } else {
            flow.fleet.redis.wipe_and_restart();
        }
    }
    flow.ends();
}

/// A program that waits for the pipeline and drives it dies, with nobody else there; a worker comes later.
pub(crate) fn submit_dies(fleet: &mut Fleet, random: &mut Random) {
    let mut flow = Flow::new(fleet);
    let mut submit = flow.job.start(&["submit", "pipeline.yml", "-o", "json"]);
    submit.wait_until_said("is handed in");
    std::thread::sleep(Duration::from_millis(random.below(3000)));
    assert!(submit.kill());
    let name = name_of(&flow.job);
    flow.id = wait_for("the pipeline to be known", END, || flow.fleet.id_of(&name));
    flow.hire(&[]);
    flow.hire(&[]);
    flow.ends();
}

/// One bit of a tenth of what the workers read is another, outputs of steps among it.
pub(crate) fn the_store_flips_bits(fleet: &mut Fleet, random: &mut Random) {
    let faults = HttpFaults {
        seed: random.below(1 << 30),
        percent: 10,
        kinds: vec![Fault::Flip],
        ..HttpFaults::default()
    };
    let [_, _, store] = fleet.addresses();
    let proxy = HttpProxy::start(store, faults);
    let mut flow = Flow::new(fleet);
    for _ in 0..2 {
        flow.hire(&[("AWS_ENDPOINT_URL_S3", &proxy.endpoint())]);
    }
    flow.hand_in();
    flow.until_ended(|_| {});
    assert!(proxy.count(Fault::Flip) > 3, "{} flips\n{}", proxy.count(Fault::Flip), flow.fleet.story());
    flow.ends();
}
