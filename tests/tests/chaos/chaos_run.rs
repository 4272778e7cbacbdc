//! One job on the fleet under chaos, the workers that serve it, and what may be done to them.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prs_tests::deadline::wait_for;
use prs_tests::harness::{Fleet, Job, Live, Random};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::oracle;

/// How long a job may take whatever happens to it, where a scenario does not say.
pub(crate) const END: Duration = Duration::from_secs(90);
/// How long a first step may take.
const BEGIN: Duration = Duration::from_mins(1);
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);
/// Input files in a mini-batch.
pub(crate) const FILES: usize = 2;

/// What a job of a chaos is like.
#[derive(Debug, Clone)]
pub(crate) struct ChaosJob {
    /// Mini-batches.
    pub(crate) mini_batches: usize,
    /// What each of them takes, milliseconds.
    pub(crate) pause: u64,
    /// Nodes it asks for.
    pub(crate) nodes: u32,
    /// Processes a node.
    pub(crate) processes: u32,
    /// Python that each mini-batch runs first; `index` and `retry` are known there.
    pub(crate) first: &'static str,
    /// Bytes that each row is longer by.
    pub(crate) padding: usize,
}

impl Default for ChaosJob {
    /// About eight seconds of work for two nodes of two processes.
    fn default() -> Self {
        Self { mini_batches: 320, pause: 100, nodes: 2, processes: 2, first: "pass", padding: 0 }
    }
}

/// What a job is to come to.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Mini-batches that fail, in their order.
    pub(crate) failed: Vec<usize>,
    /// Messages among the dead letters.
    pub(crate) dead: u64,
    /// Whether workers panic.
    pub(crate) panics: bool,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) live: Live,
    /// When a stopped one may go on.
    stopped_until: Option<Instant>,
}

/// A job and all that works on it.
#[derive(Debug)]
pub(crate) struct ChaosRun<'a> {
    pub(crate) fleet: &'a mut Fleet,
    pub(crate) job: Job,
    pub(crate) shape: ChaosJob,
    pub(crate) crew: Vec<Member>,
    name: String,
    /// Once it is known.
    id: OnceCell<String>,
    submit: Option<Live>,
    /// Panics of workers before this chaos.
    pub(crate) panics_before: usize,
    /// What a scenario has measured, for the story.
    notes: String,
    /// How long the job may take.
    pub(crate) patience: Duration,
    /// Workers that were killed; what they had on their disks stays there.
    pub(crate) kills: u32,
}

impl<'a> ChaosRun<'a> {
    /// A job that was not submitted yet, and nobody to serve it.
    pub(crate) fn new(fleet: &'a mut Fleet, shape: ChaosJob) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("chaos-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let job = Job::new(&script(&shape)).with_files(shape.mini_batches * FILES);
        let job = fleet
            .job(job)
            .with("name", name.as_str())
            .with("inputs", json!([{ "type": "file", "path": "data", "mode": "direct" }]))
            .with("mini_batch_size", FILES)
            .with("node_count", shape.nodes)
            .with("process_count_per_node", shape.processes)
            // Killing processes makes tries fail.
            .with("run_max_try", 20);
        let panics_before = panics(fleet);
        Self {
            fleet,
            job,
            shape,
            crew: Vec::new(),
            name,
            id: OnceCell::new(),
            submit: None,
            panics_before,
            notes: String::new(),
            patience: END,
            kills: 0,
        }
    }

    /// The same with as many workers as the job asks for, submitted.
    pub(crate) fn begin(fleet: &'a mut Fleet, shape: ChaosJob) -> Self {
        let nodes = shape.nodes;
        let mut chaos = Self::new(fleet, shape);
        for _ in 0..nodes {
            chaos.hire(&[]);
        }
        chaos.submit(&[]);
        chaos
    }

    /// Starts a worker.
    pub(crate) fn hire(&mut self, variables: &[(&str, &str)]) {
        self.hire_on("work", variables);
    }

    /// The same on the host whose work folder is `host`, below that of the fleet.
    pub(crate) fn hire_on(&mut self, host: &str, variables: &[(&str, &str)]) {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        // A relative folder serves as well as any.
        let live = self.fleet.worker_anywhere(&self.job, &["--work-dir", host], &variables);
        self.crew.push(Member { live, stopped_until: None });
    }

    /// Where the worker with this process id is in the crew.
    pub(crate) fn place_of(&self, pid: u32) -> Option<usize> {
        self.crew.iter().position(|member| member.live.id() == pid)
    }

    /// Submits the job, with further arguments.
    pub(crate) fn submit(&mut self, more: &[&str]) {
        self.submit = Some(self.fleet.start_submit(&self.job, more));
    }

    /// Hands the job in, and lets nobody wait for it.
    pub(crate) fn submit_detached(&mut self) {
        self.fleet.hand_in(&self.job);
    }

    /// Waits until the job needs the command that submits it no longer.
    pub(crate) fn wait_until_handed_in(&mut self) {
        self.submit.as_mut().expect("it was submitted").wait_until_said("is handed in");
    }

    /// Gives up the command that waits for the job.
    pub(crate) fn forget_submit(&mut self) -> Live {
        self.submit.take().expect("it was submitted")
    }

    /// The id of the job.
    pub(crate) fn id(&self) -> String {
        wait_for("the job to be known", BEGIN, || self.known_id())
    }

    /// The id of the job, once it is known.
    fn known_id(&self) -> Option<String> {
        if self.id.get().is_none()
            && let Some(id) = self.fleet.id_of(&self.name)
        {
            let _ = self.id.set(id);
        }
        self.id.get().cloned()
    }

    /// Waits until a worker has the lease of the orchestrator; who it is.
    pub(crate) fn orchestrator(&self) -> String {
        let id = self.id();
        wait_for("an orchestrator", BEGIN, || self.fleet.orchestrator_of(&id))
    }

    /// How the job ended, when it has.
    pub(crate) fn result(&self) -> Option<Value> {
        let id = self.known_id()?;
        let record: Value = serde_json::from_slice(&self.fleet.stored(&id).bytes("job.json")).unwrap();
        Some(record["result"].clone()).filter(|result| !result.is_null())
    }

    /// Waits until at least `count` mini-batches were begun.
    pub(crate) fn wait_for_work(&mut self, count: usize) {
        let told = || self.fleet.story();
        let start = Instant::now();
        while self.job.marks("began").len() < count {
            assert!(start.elapsed() < END, "{count} mini-batches did not begin\n{}", told());
            assert!(self.result().is_none(), "the job is over before the fault\n{}", told());
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the job has so many nodes.
    pub(crate) fn wait_for_nodes(&self, count: u32) {
        let id = self.id();
        wait_for("the nodes of the job", BEGIN, || {
            let status = self.job.command(&["status", &id, "-o", "json"]).json();
            (status["nodes"] == count).then_some(())
        });
    }

    /// What the orchestrators wrote down, once the job has ended: time and words of each line.
    pub(crate) fn decisions(&self) -> Vec<(Timestamp, String)> {
        let text = self.fleet.stored(&self.id()).text("logs/sys/master_role.txt");
        let lines = text.lines().filter_map(|line| {
            let (time, words) = line.split_once(' ')?;
            Some((time.parse().ok()?, words.to_owned()))
        });
        lines.collect()
    }

    /// Begun so far, counting each time.
    pub(crate) fn begun(&self) -> usize {
        self.job.marks("began").len()
    }

    /// Lets a while pass, of which nothing is expected but that it passes.
    pub(crate) fn pass(&mut self, while_: Duration) {
        let end = Instant::now() + while_;
        while Instant::now() < end {
            self.let_go_on();
            std::thread::sleep(POLL);
        }
    }

    /// Lets workers go on that were stopped long enough.
    fn let_go_on(&mut self) {
        for member in &mut self.crew {
            if member.stopped_until.is_some_and(|until| Instant::now() >= until) {
                member.stopped_until = None;
                assert!(
                    member.live.signal(Signal::CONT),
                    "a stopped worker has ended: {}",
                    member.live.stderr()
                );
            }
        }
    }

    /// Kills a worker, as a power cut would.
    pub(crate) fn kill(&mut self, at: usize) {
        let member = self.crew.remove(at);
        let said = member.live.stderr();
        assert!(member.live.kill(), "the worker had ended before it was killed\n{said}");
        self.kills += 1;
    }

    /// Waits until a worker has died of SIGKILL by itself.
    pub(crate) fn dies(&mut self, at: usize) {
        let start = Instant::now();
        while !self.crew[at].live.has_ended() {
            assert!(start.elapsed() < END, "the worker does not die\n{}", self.story());
            std::thread::sleep(POLL);
        }
        let member = self.crew.remove(at);
        let said = member.live.stderr();
        assert!(member.live.kill(), "the worker ended, but not of SIGKILL\n{said}");
        self.kills += 1;
    }

    /// Hires a worker for each that was killed.
    pub(crate) fn replace_the_dead(&mut self) {
        for at in (0..self.crew.len()).rev() {
            if self.crew[at].live.has_ended() {
                self.dies(at);
                self.hire(&[]);
            }
        }
    }

    /// Stops a worker for a while.
    pub(crate) fn stop(&mut self, at: usize, long: Duration) {
        let member = &mut self.crew[at];
        assert!(member.live.signal(Signal::STOP), "the worker has ended\n{}", member.live.stderr());
        member.stopped_until = Some(Instant::now() + long);
    }

    /// Kills a process that hosts the script; false when there is none at the moment.
    pub(crate) fn kill_process(&self, random: &mut Random) -> bool {
        let processes = self.job.script_processes();
        !processes.is_empty() && processes[random.below(processes.len() as u64) as usize].kill()
    }

    /// Waits for the end of the job; looks after the chaos meanwhile.
    pub(crate) fn until_ended(&mut self, mut meanwhile: impl FnMut(&mut Self)) {
        let start = Instant::now();
        while self.result().is_none() {
            assert!(start.elapsed() < self.patience, "the job does not end\n{}", self.story());
            self.let_go_on();
            meanwhile(self);
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the end of the job, then asks the oracle.
    pub(crate) fn ends(self, expected: &Expected) {
        self.ends_with(expected, |_| {});
    }

    /// The same, with questions of one's own after the oracle's.
    pub(crate) fn ends_with(mut self, expected: &Expected, ask: impl FnOnce(&Self)) {
        self.until_ended(|_| {});
        for member in &mut self.crew {
            if member.stopped_until.take().is_some() {
                assert!(member.live.signal(Signal::CONT));
            }
        }
        self.keep_story();
        let printed = self.submit.take().map(|submit| {
            let ended = submit.wait();
            assert!(matches!(ended.code, Some(0 | 10)), "{}\n{}", ended.stderr, self.fleet.story());
            ended.expect_completed()
        });
        oracle::asked(&mut self, printed.as_ref(), expected);
        ask(&self);
    }

    /// Asks every worker to end, in order.
    pub(crate) fn dismiss(&mut self) {
        for member in &mut self.crew {
            assert!(
                member.live.signal(Signal::TERM),
                "a worker has ended by itself\n{}",
                member.live.stderr()
            );
        }
        for member in self.crew.drain(..) {
            let ended = member.live.wait();
            assert_eq!(ended.code, Some(0), "a worker did not end in order\n{}", ended.stderr);
        }
    }

    /// The rows that the job is to give, without those of the mini-batches that fail.
    pub(crate) fn rows(&self, failed: &[usize]) -> String {
        let mini_batches = (0..self.shape.mini_batches).filter(|index| !failed.contains(index));
        mini_batches.map(|index| rows_of(index, self.shape.padding)).collect()
    }

    /// Adds a line to the story.
    pub(crate) fn note(&mut self, line: &str) {
        self.notes.push_str(line);
        self.notes.push('\n');
    }

    /// Writes what is known to the folder that `PRS_CHAOS_STORIES` names, for people who look at what went well, too.
    fn keep_story(&self) {
        if let Some(folder) = std::env::var_os("PRS_CHAOS_STORIES") {
            std::fs::create_dir_all(&folder).unwrap();
            let story = format!("{}{}", self.notes, self.story());
            std::fs::write(Path::new(&folder).join(format!("{}.txt", self.name)), story).unwrap();
        }
    }

    /// Everything that is known, for a panic.
    pub(crate) fn story(&self) -> String {
        let Some(id) = self.known_id() else { return self.fleet.story() };
        let stored = self.fleet.stored(&id);
        let keys = stored.keys();
        let file =
            |name: &str| if keys.iter().any(|key| key == name) { stored.text(name) } else { String::new() };
        let (master, errors) = (file("logs/sys/master_role.txt"), file("logs/job_error.txt"));
        let columns = ["name", "messages_ready", "messages_unacknowledged", "consumers"];
        let queues = self.fleet.living_node().control(&[&["list_queues"][..], &columns].concat());
        format!("== queues\n{queues}\n== errors\n{errors}\n== orchestrator\n{master}\n{}", self.fleet.story())
    }
}

/// How often workers have panicked.
pub(crate) fn panics(fleet: &Fleet) -> usize {
    fleet.story().matches("panicked").count()
}

fn script(shape: &ChaosJob) -> String {
    let (first, pause, padding) = (shape.first.replace('\n', "\n    "), shape.pause, shape.padding);
    format!(
        r#"
import os, select, signal
from marks import mark, wait_for, is_marked

def run(mini_batch, context):
    index, retry = context.minibatch_index, context.retry_count
    mark("began", str(index))
    {first}
    # time.sleep() fails where libfaketime shifts one clock and not the other: it counts to a point in time.
    select.select([], [], [], {pause} / 1000)
    rows = []
    for path in mini_batch:
        text = open(path).read()
        rows.append(f"{{os.path.basename(path)}} {{text[::-1]}} {{'#' * (index % 50 + {padding})}}")
    return rows
"#
    )
}

/// What the script gives, said once more in another language.
fn rows_of(index: usize, padding: usize) -> String {
    let row = |file: usize| {
        let text: String = format!("item {file}").chars().rev().collect();
        format!("{file:04}.txt {text} {}\n", "#".repeat(index % 50 + padding))
    };
    (index * FILES..(index + 1) * FILES).map(row).collect()
}
