//! Processes with many mini-batches under way: they, and their workers, die with fifty in hand.

use std::time::Duration;

use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;
use serde_json::json;

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// Under way at once in a process.
const IN_HAND: u32 = 50;
/// Each of them waits so long, milliseconds.
const WAIT: u64 = 400;

/// What both kinds of scripts do with a mini-batch, and give back as every script of these tests does.
const WORK: &str = r#"
import asyncio, copy, os, threading
from marks import mark

async def work(mini_batch, context):
    index = context.minibatch_index
    mark("began", str(index))
    await asyncio.sleep(WAIT / 1000)
    rows = []
    for path in mini_batch:
        text = open(path).read()
        rows.append(f"{os.path.basename(path)} {text[::-1]} {'#' * (index % 50)}")
    return rows
"#;
const ASYNC: &str = "
async def run(mini_batch, context):
    return await work(mini_batch, context)
";
const STREAMING: &str = r#"
def init():
    global loop, finished, enqueued, given
    loop, finished, enqueued, given = asyncio.new_event_loop(), {}, 0, 0
    threading.Thread(target=loop.run_forever, daemon=True).start()

async def keep(mini_batch, context):
    rows = await work(mini_batch, context)
    finished[context.mini_batch_id] = {"ret": rows, "mini_batch_context": context, "exception": None}

def enqueue(mini_batch, context):
    global enqueued
    enqueued += 1
    asyncio.run_coroutine_threadsafe(keep(mini_batch, context), loop)

def get_finished_batch_result():
    global given
    names = list(finished)
    given += len(names)
    return {name: copy.deepcopy(finished.pop(name)) for name in names}

def check_all_tasks_processed():
    return given == enqueued

def get_processing_batch_number():
    return enqueued - given
"#;

/// The script of a process with lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    Async,
    Streaming,
}

fn begin(fleet: &mut Fleet, script: Script) -> ChaosRun<'_> {
    let shape = ChaosJob { mini_batches: 1000, pause: WAIT, processes: 1, ..ChaosJob::default() };
    let nodes = shape.nodes;
    let mut chaos = ChaosRun::new(fleet, shape);
    let (more, arguments) = match script {
        Script::Async => (ASYNC, json!([])),
        Script::Streaming => (STREAMING, json!(["--amlbi_async_mode", "true"])),
    };
    chaos.job.script(&format!("{}{more}", WORK.replace("WAIT", &WAIT.to_string())));
    chaos.job = chaos.job.with("max_concurrency", IN_HAND).with("arguments", arguments);
    for _ in 0..nodes {
        chaos.hire(&[]);
    }
    chaos.submit(&[]);
    chaos
}

/// Waits until `more` were begun, and a while.
fn let_them_begin(chaos: &mut ChaosRun<'_>, random: &mut Random, more: usize) {
    let count = chaos.begun() + more;
    chaos.wait_for_work(count);
    chaos.pass(Duration::from_millis(random.below(WAIT)));
    assert!(chaos.result().is_none(), "the job is over before the fault");
}

/// A process is killed with all that it has in hand, twice; none of them is blamed for it for good.
pub(crate) fn a_process_dies(fleet: &mut Fleet, random: &mut Random, script: Script) {
    let mut chaos = begin(fleet, script);
    for _ in 0..2 {
        let_them_begin(&mut chaos, random, 150);
        assert!(chaos.kill_process(random), "no process runs");
    }
    chaos.ends(&Expected::default());
}

/// A worker is killed, one is stopped until it was given up, and one leaves in order.
pub(crate) fn workers_go(fleet: &mut Fleet, random: &mut Random, script: Script) {
    let mut chaos = begin(fleet, script);
    let_them_begin(&mut chaos, random, 150);
    let at = random.below(chaos.crew.len() as u64) as usize;
    chaos.kill(at);
    chaos.hire(&[]);
    let_them_begin(&mut chaos, random, 100);
    let mut leaving = chaos.crew.remove(0);
    chaos.hire(&[]);
    assert!(leaving.live.signal(Signal::TERM));
    let ended = leaving.live.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let_them_begin(&mut chaos, random, 50);
    chaos.stop(0, Duration::from_millis(3000 + random.below(3000)));
    chaos.ends(&Expected::default());
}
