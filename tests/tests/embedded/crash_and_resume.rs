//! Faults from a seed: the program or its processes are killed at random moments. After `resume` the result is
//! byte for byte that of an undisturbed run, and every mini-batch has ended exactly once (spec S9, S10).

use std::time::Duration;

use prs_tests::harness::{Job, Live, Random};
use serde_json::{Value, json};

const FILES: usize = 400;
const MINI_BATCHES: usize = FILES / 2;

/// Rows of any length and a file for each mini-batch; takes a few milliseconds.
const WORKS: &str = r#"
import os, random, time
from azureml_user.parallel_run import EntryScript
from marks import mark

def run(mini_batch, context):
    index = context.minibatch_index
    time.sleep(random.random() / 100)
    with open(os.path.join(EntryScript().output_dir, f"part-{index:03}"), "w") as file:
        file.write(str(index) * 10)
    mark("ran", index)
    return [f"{index} {os.path.basename(path)} " + "x" * (index * 37 % 500) for path in mini_batch]
"#;

fn job() -> Job {
    Job::new(WORKS).with_files(FILES).with("process_count_per_node", 3)
}

fn expected_rows() -> Vec<String> {
    let row = |number: usize| {
        let index = number / 2;
        format!("{index} {number:04}.txt {}", "x".repeat(index * 37 % 500))
    };
    (0..FILES).map(row).collect()
}

/// What must hold after any history.
#[track_caller]
fn is_as_undisturbed(job: &Job, printed: &Value, story: &str) {
    assert_eq!(job.run().rows(), expected_rows(), "{story}");
    let all = json!({ "scheduled": MINI_BATCHES, "succeeded": MINI_BATCHES, "failed": 0 });
    assert_eq!(printed["mini_batches"], all, "{story}");
    assert_eq!(printed["items"], json!({ "total": FILES, "succeeded": FILES, "failed": 0 }), "{story}");
    assert_eq!(printed["output"]["rows"], FILES, "{story}");
    let output: Vec<_> = job.run().files("output");
    let mut parts: Vec<_> = (0..MINI_BATCHES).map(|index| format!("output/part-{index:03}")).collect();
    parts.insert(0, "output/parallel_run_step.txt".to_owned());
    assert_eq!(output, parts, "{story}");
    for index in [0, 7, MINI_BATCHES - 1] {
        assert_eq!(
            job.run().text(&format!("output/part-{index:03}")),
            index.to_string().repeat(10),
            "{story}"
        );
    }
    let statuses = job.run().statuses();
    assert_eq!(statuses.len(), MINI_BATCHES, "{story}");
    for (id, statuses) in statuses {
        let done = statuses.iter().filter(|status| *status == "RUN_DONE").count();
        assert_eq!(done, 1, "{story}: mini-batch {id} has {statuses:?}");
    }
    let temporary = job.run().files(".tmp");
    assert!(temporary.is_empty(), "{story}: {temporary:?}");
    job.has_left_nothing();
}

#[test]
fn an_undisturbed_run_is_what_the_others_are_compared_with() {
    let job = job();
    let printed = job.completes();
    is_as_undisturbed(&job, &printed, "undisturbed");
}

/// The moments a program can be killed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Start,
    Running,
    Finalizing,
}

/// Waits for the moment; false when the program ended before.
fn await_moment(program: &mut Live, job: &Job, moment: Moment, random: &mut Random) -> bool {
    let ran = job.marks("ran").len() as u64;
    let more = 1 + random.below(60);
    let before = master(job).matches("the job is finalizing").count();
    let reached = || match moment {
        Moment::Start => true,
        Moment::Running => job.marks("ran").len() as u64 >= ran + more,
        Moment::Finalizing => master(job).matches("the job is finalizing").count() > before,
    };
    while !reached() {
        if program.has_ended() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The fault itself: some time into what has begun.
    let jitter = if moment == Moment::Start { 400 } else { 40 };
    std::thread::sleep(Duration::from_micros(random.below(jitter * 1_000)));
    !program.has_ended()
}

fn master(job: &Job) -> String {
    job.run().text_so_far("logs/sys/master_role.txt")
}

fn start_or_resume(job: &Job) -> Live {
    // Killed before the job was stored, there is nothing to resume yet.
    if job.run().path().join("job.json").exists() { job.start_resume() } else { job.start_submit(&[]) }
}

fn survives_kills_of_the_program(seed: u64) {
    let mut random = Random::new(seed);
    let job = job();
    let mut hits = Vec::new();
    let moments =
        [Moment::Start, Moment::Running, Moment::Start, Moment::Running, Moment::Running, Moment::Finalizing];
    let mut ended = None;
    for moment in moments {
        let mut program = start_or_resume(&job);
        if await_moment(&mut program, &job, moment, &mut random) && program.kill() {
            hits.push(moment);
            job.soon_leaves_nothing();
        } else if moment == Moment::Finalizing {
            ended = Some(program_result(&job));
            break;
        }
    }
    let story = format!("seed {seed}, killed at {hits:?}");
    assert!(hits.contains(&Moment::Start) && hits.contains(&Moment::Running), "{story}: too few faults");
    let printed = match ended {
        Some(printed) => printed,
        None => job.has_completed(&start_or_resume(&job).wait()),
    };
    is_as_undisturbed(&job, &printed, &story);
}

/// What a program that ended meanwhile would have printed.
fn program_result(job: &Job) -> Value {
    let ended = job.resume();
    ended.expect_code(0);
    ended.json()
}

#[test]
fn kills_of_the_program_from_seed_1() {
    survives_kills_of_the_program(1);
}

#[test]
fn kills_of_the_program_from_seed_2() {
    survives_kills_of_the_program(2);
}

#[test]
fn kills_of_the_program_from_seed_3() {
    survives_kills_of_the_program(3);
}

#[test]
fn a_kill_while_the_result_is_written_changes_nothing() {
    let mut job = job();
    let mut random = Random::new(4);
    for _ in 0..3 {
        let failpoint = format!("file_published:{}", 1 + random.below(MINI_BATCHES as u64));
        job = job.with_own_variable("PRS_FAILPOINT", &failpoint);
        assert_eq!(start_or_resume(&job).wait().code, None, "it is killed at {failpoint}");
        job.soon_leaves_nothing();
        assert!(!job.run().files("output").is_empty(), "{failpoint}");
        // The next round must see the finalizer at work itself.
        for name in job.run().files("output") {
            std::fs::remove_file(job.run().path().join(name)).unwrap();
        }
    }
    let job = job.with_own_variable("PRS_FAILPOINT", "");
    let printed = job.has_completed(&start_or_resume(&job).wait());
    is_as_undisturbed(&job, &printed, "killed while finalizing");
}

fn survives_kills_of_processes(seed: u64) {
    const KILLS: usize = 12;
    let mut random = Random::new(seed);
    // Whatever a kill costs, no mini-batch may run out of tries.
    let job = job().with("run_max_try", 100);
    let mut program = job.start_submit(&[]);
    let mut killed = 0;
    while killed < KILLS && !program.has_ended() {
        let next = job.marks("ran").len() as u64 + random.below(20);
        while (job.marks("ran").len() as u64) < next && !program.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let processes = job.script_processes();
        if !processes.is_empty() {
            let chosen = random.below(processes.len() as u64) as usize;
            killed += usize::from(processes[chosen].kill());
        }
    }
    let story = format!("seed {seed}: {killed} processes killed");
    let printed = job.has_completed(&program.wait());
    assert!(killed >= KILLS / 2, "{story}: too few faults");
    let main = job.run().text("logs/sys/node/0/_main.txt");
    // At the end the node itself kills those that are not ready yet.
    let starting = main.matches("is still starting and not needed; it is killed").count();
    let told = main.matches("exits with returncode -9.").count() - starting;
    assert!(told <= killed && told + 3 >= killed, "{story}, {told} of them told:\n{main}");
    is_as_undisturbed(&job, &printed, &story);
}

#[test]
fn kills_of_processes_from_seed_11() {
    survives_kills_of_processes(11);
}

#[test]
fn kills_of_processes_from_seed_12() {
    survives_kills_of_processes(12);
}

#[test]
fn kills_of_program_and_processes_of_a_tabular_job() {
    let script = r#"
import random, time
from marks import mark

def run(mini_batch, context):
    time.sleep(random.random() / 50)
    mark("ran", context.minibatch_index)
    return mini_batch
"#;
    let make = || {
        Job::new(script).with_tables(&[900, 5, 900]).with("mini_batch_size", "1kb").with("run_max_try", 100)
    };
    let (quiet, job) = (make(), make());
    let before = quiet.completes();
    let mut random = Random::new(21);
    for round in 0..3 {
        let mut program = start_or_resume(&job);
        let next = job.marks("ran").len() + 5;
        program.wait_until("some mini-batches", || job.marks("ran").len() >= next);
        let processes = job.script_processes();
        let chosen = random.below(processes.len() as u64) as usize;
        assert!(processes[chosen].kill(), "round {round}");
        let next = job.marks("ran").len() + 1 + random.below(5) as usize;
        program.wait_until("some more", || job.marks("ran").len() >= next);
        assert!(program.kill(), "round {round}");
        job.soon_leaves_nothing();
    }
    let printed = job.has_completed(&job.resume());
    assert!(job.run().result() == quiet.run().result(), "the bytes are those of a quiet run");
    for key in ["mini_batches", "items"] {
        assert_eq!(printed[key], before[key]);
    }
    assert_eq!(printed["output"]["sha256"], before["output"]["sha256"]);
}

#[test]
fn a_panic_of_the_program_fails_the_job_with_its_words_and_resume_goes_on() {
    for place in ["finalizing", "published"] {
        let job = job().with_own_variable("PRS_FAILPOINT", &format!("{place}:1:panic"));
        let ended = job.submit();
        ended.expect_code(42);
        let reason = format!("a fault of prs ended the job: PRS_FAILPOINT says so at {place}");
        assert_eq!((&ended.json()["state"], &ended.json()["reason"]), (&json!("failed"), &json!(reason)));
        assert!(ended.stderr.contains(&format!("the job failed: {reason}")), "{}", ended.stderr);
        assert_eq!(job.run().first_line(), format!("failed: {reason}"));
        let record: Value = serde_json::from_str(&job.run().text("job.json")).unwrap();
        assert_eq!(record["result"]["reason"], reason);

        let job = job.with_own_variable("PRS_FAILPOINT", "");
        let resumed = job.resume();
        resumed.expect_code(0);
        is_as_undisturbed(&job, &resumed.json(), &resumed.stderr);
    }
}
