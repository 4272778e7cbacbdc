//! A job that nobody ran: what an orchestrator would have written of its tries, made of the indexes of segments. A million mini-batches
//! on five hundred nodes are there within seconds.
//!
//! Whatever their number, the mini-batches take the same time on the same nodes, and as many of them fail with the same errors: what
//! two such jobs cost to show differs by nothing but the number of mini-batches.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use prs_common::job::JobSpec;
use prs_common::layout;
use prs_common::ledger::{
    Checkpoint, JobProgress, JobState, NodeInfo, NodeReport, NodeView, ProcessView, TryUnderWay,
};
use prs_common::seal;
use prs_common::segment::{ErrorDetail, ProcessRef, SegmentIndex, TryRecord, TryStatus};
use prs_common::source_line::SourceLine;
use prs_common::timestamp::now_us;
use prs_orchestrator::job::findings::{Findings, TryCounts};
use prs_orchestrator::job::record::{ItemCounts, MiniBatchCounts, Output, Status};
use prs_orchestrator::replay::Replay;
use prs_orchestrator::{JobRecord, JobResult};

/// Processes of a node.
const SLOTS: u64 = 8;
/// Items of a mini-batch.
const ITEMS: u64 = 10;
/// How long the whole job takes, microseconds.
const WHOLE_US: u64 = 3_000_000_000;
/// Between two looks at the nodes, microseconds.
const LOOK_US: u64 = 10_000_000;
/// Rounds of mini-batches whose tries share a segment.
const ROUNDS: u64 = 32;
/// Mini-batches that fail for good, and as many that succeed with their second try.
const FAILED: u64 = 100;
/// Lines of the script that raise.
const ERRORS: u64 = 60;

/// Which job.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    /// Mini-batches of the plan.
    pub mini_batches: u64,
    /// Nodes, of eight processes each.
    pub nodes: u32,
    /// Whether it runs still: half of the plan is done.
    pub is_running: bool,
}

/// The job.
#[derive(Debug)]
pub struct Simulated {
    /// Its record.
    pub record: JobRecord,
    /// Its nodes, as they said last.
    pub nodes: Vec<NodeView>,
    replay: Replay,
}

impl Simulation {
    /// Writes the job with this id into `folder`, which becomes its run folder.
    pub fn write(self, job_id: &str, folder: &Path) -> Simulated {
        let origin_us = self.origin_us();
        let mut replay = Replay::new(folder, 1, origin_us).expect("a folder for logs");
        let nodes: Vec<NodeView> = (0..self.nodes).map(node).collect();
        let done = self.each_segment(|step| match step {
            Step::Look { ended, at_us } => replay.observe(&nodes, self.mini_batches, ended, at_us),
            Step::Segment(index) => replay.add(&index),
        });
        let record = self.record(job_id, origin_us, done, replay.failed_tries());
        replay.write(&record, &nodes, now_us()).expect("a folder for logs");
        let body = serde_json::to_string_pretty(&record).expect("plain values");
        fs::write(folder.join(layout::JOB), seal::seal(body)).expect("a run folder");
        Simulated { record, nodes, replay }
    }

    /// How long the aggregates of the job take to take its tries in, without its nodes and without any file; and how many tries there
    /// are.
    pub fn time_of_tries(self) -> (Duration, u64) {
        let mut replay = Replay::in_memory(1, self.origin_us());
        let (mut taken, mut tries) = (Duration::ZERO, 0);
        self.each_segment(|step| {
            if let Step::Segment(index) = step {
                tries += index.tries.len() as u64;
                let begun = Instant::now();
                replay.add(&index);
                taken += begun.elapsed();
            }
        });
        (taken, tries)
    }

    fn origin_us(self) -> u64 {
        now_us() - if self.is_running { WHOLE_US / 2 } else { 2 * WHOLE_US }
    }

    /// Goes through the job in the order of its commits; returns how many mini-batches are done.
    fn each_segment(self, mut each: impl FnMut(Step)) -> u64 {
        let origin_us = self.origin_us();
        let slots = u64::from(self.nodes) * SLOTS;
        let rounds = self.mini_batches.div_ceil(slots);
        let rounds_done = if self.is_running { rounds.div_ceil(2) } else { rounds };
        let most = if self.is_running { self.mini_batches.div_ceil(2) } else { self.mini_batches };
        let done = most.min(rounds_done * slots);
        let mut looked_us = origin_us;
        for first in (0..rounds_done).step_by(ROUNDS as usize) {
            let last = (first + ROUNDS).min(rounds_done);
            while looked_us < origin_us + last * (WHOLE_US / rounds) {
                looked_us += LOOK_US;
                let share = (looked_us - origin_us) as f64 / WHOLE_US as f64;
                let ended = (self.mini_batches as f64 * share) as u64;
                each(Step::Look { ended: ended.min(done), at_us: looked_us });
            }
            for node_id in 0..self.nodes {
                let mut tries = Vec::new();
                for round in first..last {
                    let from = round * slots + u64::from(node_id) * SLOTS;
                    tries.extend((from..from + SLOTS).filter(|index| *index < done));
                }
                if !tries.is_empty() {
                    each(Step::Segment(self.segment(node_id, &tries, origin_us, rounds)));
                }
            }
        }
        done
    }

    /// Every so many mini-batches one fails, and the one behind it succeeds with its second try.
    fn is_nth(self) -> u64 {
        (self.mini_batches / FAILED).max(2)
    }

    fn segment(self, node_id: u32, indexes: &[u64], origin_us: u64, rounds: u64) -> SegmentIndex {
        let mut tries = Vec::new();
        for index in indexes {
            let slots = u64::from(self.nodes) * SLOTS;
            let (round, long_us) = (index / slots, WHOLE_US / rounds);
            // A little apart, as they are in practice.
            let elapsed_us = long_us * (700 + index * 7_919 % 250) / 1_000;
            let done = TryRecord {
                number: 1,
                last: true,
                process: (index % SLOTS) as u32,
                started_us: origin_us + round * long_us,
                elapsed_us,
                cpu_us: elapsed_us / 2,
                run_us: elapsed_us * 9 / 10,
                load_us: elapsed_us / 20,
                items: ITEMS,
                succeeded: ITEMS,
                returned: ITEMS,
                length: 400,
                detail: format!("10 files from data/{:04}/part-{index:09}.parquet", index % 1_000),
                ..TryRecord::new(*index, b"", TryStatus::RunDone)
            };
            let failed = |number: u32, last: bool| TryRecord {
                number,
                last,
                status: TryStatus::RunException,
                succeeded: 0,
                returned: 0,
                length: 0,
                category: "ValueError".to_owned(),
                message: format!("row {index} of part-{index:09}.parquet has no column \"price\""),
                error: Some((index / self.is_nth() % ERRORS) as u32),
                ..done.clone()
            };
            match index % self.is_nth() {
                0 => tries.extend((1..=3).map(|number| failed(number, number == 3))),
                1 => tries.extend([failed(1, false), TryRecord { number: 2, ..done.clone() }]),
                _ => tries.push(done),
            }
        }
        let processes =
            (0..SLOTS as u32).map(|at| ProcessRef { name: format!("process{at:03}"), pid: at + 1 });
        let error = |line: u64| {
            let frame = SourceLine {
                file: "/code/score/main.py".to_owned(),
                line: line as u32 + 10,
                function: "run".to_owned(),
                text: "return model.predict(frame[columns])".to_owned(),
            };
            let frames = "  File \"/code/score/main.py\", line 10, in run\n    return model.predict(frame)\n"
                .repeat(20);
            ErrorDetail::new(
                "ValueError",
                Some(frame),
                &format!("Traceback (most recent call last):\n{frames}"),
            )
        };
        let has_errors = tries.iter().any(|record| record.error.is_some());
        SegmentIndex {
            key: String::new(),
            incarnation: 1,
            node_id,
            ip: format!("10.0.{}.{}", node_id / 250, node_id % 250 + 1),
            processes: processes.collect(),
            tries,
            errors: if has_errors { (0..ERRORS).map(error).collect() } else { Vec::new() },
        }
    }

    fn record(self, job_id: &str, origin_us: u64, done: u64, failed_tries: u64) -> JobRecord {
        let mut spec = JobSpec::new("score", "/code", "main.py", Vec::new());
        spec.display_name = Some("nightly scoring".to_owned());
        spec.node_count = self.nodes;
        let failed = done.div_ceil(self.is_nth());
        let succeeded = done - failed;
        let progress = JobProgress {
            checkpoint: Checkpoint {
                scheduled: self.mini_batches,
                items: self.mini_batches * ITEMS,
                complete: true,
                ..Checkpoint::default()
            },
            succeeded,
            failed,
            items: done * ITEMS,
            items_succeeded: succeeded * ITEMS,
            segments: 1,
            ..JobProgress::default()
        };
        let seconds = WHOLE_US as f64 / 1e6 / if self.is_running { 2.0 } else { 1.0 };
        let status = Status {
            updated_us: now_us(),
            seconds,
            nodes: self.nodes,
            processes: self.nodes * SLOTS as u32,
            is_ready: true,
            per_second: done as f64 / seconds,
            failed_tries,
            progress,
            ..Status::default()
        };
        let state = if self.is_running { JobState::Running } else { JobState::Completed };
        let result = (!self.is_running).then(|| JobResult {
            job_id: job_id.to_owned(),
            name: spec.name.clone(),
            submitted_us: origin_us,
            ended_us: Some(origin_us + WHOLE_US),
            kept_until_us: None,
            state,
            reason: None,
            reused: None,
            output: Output { uri: format!("s3://results/{job_id}/output"), ..Output::default() },
            logs: "logs".to_owned(),
            mini_batches: MiniBatchCounts::from(&status.progress),
            items: ItemCounts::from(&status.progress),
            seconds,
            waited_seconds: 0.0,
            starts: Vec::new(),
            findings: Findings {
                mini_batches_missing: failed,
                tries: TryCounts { failed: failed_tries, made_good: failed_tries - 3 * failed },
                distinct_errors: ERRORS,
                ..Findings::default()
            },
            steps: Vec::new(),
        });
        JobRecord {
            submitted_us: origin_us,
            started_us: origin_us,
            state,
            status,
            result,
            statistics: (!self.is_running).then(|| format!("{}sys/statistics/", layout::LOGS)),
            ..JobRecord::new(job_id.to_owned(), "code/0.tar.zst".to_owned(), spec)
        }
    }
}

/// What an orchestrator sees next.
enum Step {
    /// What nodes say, when so many mini-batches have their outcome.
    Look { ended: u64, at_us: u64 },
    /// A segment that was committed.
    Segment(SegmentIndex),
}

impl Simulated {
    /// Lets time go by until now: the nodes were looked at once more, and another mini-batch has its outcome.
    pub fn goes_on(&mut self) {
        let progress = &mut self.record.status.progress;
        if progress.ended() < progress.checkpoint.scheduled {
            progress.succeeded += 1;
            progress.items += ITEMS;
            progress.items_succeeded += ITEMS;
        }
        let ended = progress.ended();
        self.replay.observe(&self.nodes, progress.checkpoint.scheduled, ended, now_us());
    }

    /// The parts of the statistics by their names, as the orchestrator would publish them now.
    pub fn parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.replay.parts(&self.record, &self.nodes, now_us())
    }
}

/// A process that is up.
fn process(number: u32) -> ProcessView {
    ProcessView {
        number,
        pid: 100_000 + number,
        tries: 100_000,
        failed_tries: 300,
        started_us: now_us(),
        ..ProcessView::default()
    }
}

/// A node at work.
fn node(node_id: u32) -> NodeView {
    let info = NodeInfo {
        worker: format!("worker-{node_id:04}-7f3a"),
        ip: format!("10.0.{}.{}", node_id / 250, node_id % 250 + 1),
        slots: SLOTS as u32,
        host: format!("gpu-pool-{node_id:04}.cluster.example"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: format!("worker-{node_id:04}"),
        ..NodeInfo::default()
    };
    let longest = (0..3).map(|at| TryUnderWay {
        index: u64::from(node_id) * 3 + at,
        age_ms: 900 + at * 100,
        number: 1,
        process: Some(at as u32),
        detail: format!("10 files from data/{node_id:04}/part-{at:09}.parquet"),
        printed_from: Some((4_711, 42)),
    });
    let report = NodeReport {
        processes: SLOTS as u32,
        ever_ready: true,
        in_hand: 2 * SLOTS,
        busy: SLOTS as u32,
        longest: longest.collect(),
        each_process: (0..SLOTS as u32).map(process).collect(),
        ..NodeReport::default()
    };
    NodeView { node_id, info, report, silent: Duration::ZERO, left: false }
}
