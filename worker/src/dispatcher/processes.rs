//! The births and deaths of the processes of a node.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::segment::ProcessRef;
use prs_common::timestamp::now_us;
use prs_common::tree::OpenFolder;
use prs_common::wire::{self, ErrorInfo, ToProcess};

use super::Dispatcher;
use super::ended_tries::Death;
use super::init_failures::Started;
use crate::commit::outcome::Ready;
use crate::dispatcher::replacements::FailedInARow;
use crate::dispatcher::slot::{Hang, Kill, Running, Stage, running};
use crate::metrics::StartReason;
use crate::process::launch::{CODE, OUTPUTS, STAGING, process_name};
use crate::process::log::ProcessLog;
use crate::process::printed::Printed;
use crate::process::stack::{self, Stack};
use crate::process::{Process, address_space, broken_socket, silent_death};

/// How a process ends that kills itself, because its socket has an end.
pub(super) const KILLED: i32 = -9;
/// After so long in which its outcome did not come, that is why.
const LATE: Duration = Duration::from_secs(1);

impl Dispatcher<'_> {
    /// Starts a process in every empty slot.
    pub(super) fn start_processes(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        for position in 0..self.slots.len() {
            let slot = &self.slots[position];
            if slot.running.is_none() && slot.restart_at.is_none_or(|at| now >= at) {
                self.start_process(position);
            }
        }
    }

    fn start_process(&mut self, position: usize) {
        let number = self.processes_started;
        self.processes_started += 1;
        let name = process_name(number);
        let used = running(&self.slots).filter_map(|running| running.gpu.as_ref().map(|gpu| gpu.index));
        let gpus = &self.launch.settings.host.gpus;
        let gpu = gpus.take_lowest_free(used);
        let with = match &gpu {
            Some(gpu) => format!(", GPU {}", gpu.shown(gpus)),
            None if gpus.is_empty() => String::new(),
            None => format!(", no GPU: all {} are taken", gpus.count()),
        };
        let folder = self.launch.folder.join(&name);
        let start = self.launch.start_message(&name);
        let settings = self.launch.process_settings(&name, &start, gpu.as_ref());
        let printed = Printed::from_now_on(&settings.streams);
        let started = Process::start(&settings, position, number, &self.tending);
        // The script has not begun: it may put anything in their place.
        let opened = || {
            let opened = OpenFolder::open(&folder)?;
            let staging = opened.make(Path::new(STAGING))?;
            std::io::Result::Ok((opened, Arc::new(staging)))
        };
        if let Err(error) = &started
            && error.is_permanent()
        {
            let error = ErrorInfo::new(wire::Stage::Import, "EnvironmentTooLong", error.to_string());
            self.with.main_log.line(format_args!("{name} could not be started: {}", error.message));
            self.note_init_failure(&name, &error);
            return self.cannot_be_used("", &error);
        }
        let started = started.map_err(|error| error.to_string());
        let started = started.and_then(|process| Ok((process, opened().map_err(|error| error.to_string())?)));
        let (process, (opened, staging)) = match started {
            Ok(started) => started,
            Err(error) => {
                let error = format!("{error}{}", address_space::hint());
                self.with.main_log.line(format_args!("{name} could not be started: {error}"));
                self.count_failure(position, wire::Stage::Import, &error);
                return;
            }
        };
        self.with.metrics.process_started(self.slots[position].next);
        process.say(&ToProcess::Start(Box::new(start)));
        let pid = process.pid;
        self.with.main_log.line(format_args!("{name} starts (pid {pid}{with})"));
        let log = ProcessLog::new(&self.launch.job.logs, self.launch.node_id, &name);
        log.line(format_args!("{name} at {}, pid {pid}{with}", self.launch.settings.host.ip));
        self.slots[position].running = Some(Running {
            number,
            who: Arc::new(ProcessRef { name, pid }),
            process,
            stage: Stage::Starting,
            since: Instant::now(),
            started_us: now_us(),
            tries: 0,
            failed_tries: 0,
            holds: None,
            failed_in_a_row: FailedInARow::default(),
            in_place_of: self.slots[position].replaced.take(),
            gpu,
            log,
            printed,
            staging,
            sources: Arc::clone(&self.sources),
            run: None,
            folder,
            opened,
            in_hand: VecDeque::new(),
            next_seq: 1,
            unacknowledged: 0,
            lanes: None,
            is_apart: false,
            late: Vec::new(),
            present_since: None,
            cost: None,
            killed: None,
            owed: None,
            broken: None,
            worked: false,
            failures_before: 0,
            init_failed: false,
            hang: Hang::No,
            python: String::new(),
            allotted: self.launch.job.spec.max_mini_batches_per_process.unwrap_or(u64::MAX),
            is_used_up: false,
            replaced_at: None,
            said_bye: None,
        });
    }

    /// A process has ended: blames what it was running, gives back what it was not, empties the slot.
    pub(super) fn exited(&mut self, position: usize, returncode: i32, left_behind: usize) {
        let Some(mut running) = self.slots[position].running.take() else { return };
        let name = running.who.name.clone();
        self.with.main_log.line(format_args!("{name} exits with returncode {returncode}."));
        if left_behind > 0 {
            let line = format_args!("{name} left {left_behind} processes behind; they are killed");
            self.with.main_log.line(line);
        }
        let started = running.process.page.claim().started;
        let (phase, long) = running.phase();
        let items = running.process.page.items();
        if running.killed.is_none()
            && returncode == KILLED
            && let Some(late) = running.owes_outcome(LATE)
        {
            // It ends itself where what is in the place of its socket has an end.
            running.killed = Some(Kill::ProtocolViolation);
            running.broken = Some(no_outcome(late));
        }
        if running.is_concurrent() {
            let stack = self.stack_of(&running, returncode);
            self.part(&mut running, returncode, &stack);
        }
        // Outcomes come in order: of those that a broken socket kept from coming, the first broke it.
        let blamed = match (running.killed, running.in_hand.front()) {
            (Some(Kill::ProtocolViolation), Some((first, _))) if !running.is_concurrent() => {
                started.min(*first)
            }
            _ => started,
        };
        for (seq, ready) in std::mem::take(&mut running.in_hand).into_iter().rev() {
            if seq == blamed && running.killed == Some(Kill::Superseded) {
                // What is not acknowledged is delivered again, and found done.
                let _ = ready.delivery.ack();
            } else if seq == blamed && running.killed != Some(Kill::Stop) {
                running.worked = true;
                let stack = self.stack_of(&running, returncode);
                let death = Death { returncode, phase, long, items, stack };
                let outcome = self.ended_tries().died(&mut running, seq, ready, death);
                let _ = self.with.outcomes_tx.send(outcome);
            } else if self.ending.is_some() {
                self.give_back(ready);
            } else {
                self.hand_on(ready);
            }
        }
        running.log.line(format_args!("exits with returncode {returncode}"));
        let too_large = match running.killed {
            Some(Kill::Memory(largest)) => Some(largest),
            _ => None,
        };
        let was_told_to = running.killed.is_some() && too_large.is_none() && running.broken.is_none();
        let during = match running.stage {
            _ if running.init_failed || was_told_to || self.ending.is_some() => None,
            Stage::Starting => Some("while it imported the script or ran init()"),
            Stage::Ready | Stage::Ending if !running.worked => {
                self.failures_in_a_row = running.failures_before;
                Some("after init(), before its first mini-batch")
            }
            Stage::Ready | Stage::Ending => None,
        };
        if let Some(during) = during {
            let mut error = match (too_large, &running.broken) {
                (Some(largest), _) => largest.explain(wire::Stage::Init, during),
                (None, Some(why)) => broken_socket(wire::Stage::Init, why, during),
                (None, None) => silent_death(wire::Stage::Init, returncode, during),
            };
            let stack = self.stack_of(&running, returncode);
            (error.traceback, error.frame) = (stack.text, stack.frame.map(Box::new));
            running.sources.name(&mut error);
            running.log.error("init", now_us(), &error);
            self.note_init_failure(&name, &error);
            let file = format!("logs/user/stderr/{}/{name}.stderr.txt", self.launch.node_id);
            self.init_failed(position, &Started::of(&running), &error, &file);
        }
        self.note_exit(&running, returncode);
        self.slots[position].next = why_next(&running, returncode);
        self.slots[position].replaced =
            running.replaced_at.filter(|_| !running.is_used_up).map(|_| running.number);
        self.slots[position].hung = false;
        if running.killed == Some(Kill::InitTimeout) && self.ending.is_none() {
            self.hung(position, &running);
        }
        // Staged files of committed mini-batches are moved by the committer; what is still open is removed with
        // the folder of the node.
        for name in ["working", "output", OUTPUTS] {
            // What cannot be removed is told when the folder of the node goes.
            let _ = running.opened.remove_all(name.as_ref(), &running.folder.join(name));
        }
        if !running.init_failed && self.slots[position].restart_at.is_none() {
            self.slots[position].restart_at = Some(Instant::now());
        }
        // The next process takes its GPU.
        running.gpu = None;
        self.start_processes(Instant::now());
        self.tell();
    }

    /// Keeps for another process what this one has finished without its outcome getting through, or not started: it is not
    /// to blame.
    pub(super) fn hand_on(&mut self, ready: Ready) {
        if ready.start.is_some() {
            self.cleared.push_front(ready);
        } else {
            self.pending.push_front(ready);
        }
    }

    /// Where a process was when it crashed, or was killed for taking too long.
    fn stack_of(&self, running: &Running, returncode: i32) -> Stack {
        let (path, code) = (stack::file(&running.folder), self.launch.folder.join(CODE));
        match running.killed {
            Some(Kill::RunTimeout | Kill::LoadTimeout | Kill::InitTimeout) => stack::when_asked(&path, &code),
            Some(Kill::Stop | Kill::Superseded | Kill::ProtocolViolation | Kill::Memory(_)) => {
                Stack::default()
            }
            None => stack::when_died(&path, returncode, &code),
        }
    }

    /// Where a process is that was asked.
    pub(super) fn present_stack(&self, running: &Running) -> Stack {
        stack::when_asked(&stack::file(&running.folder), &self.launch.folder.join(CODE))
    }
}

/// How it shows that outcomes do not come, the last of which is `late`.
pub(super) fn no_outcome(late: Duration) -> String {
    format!("{} s after the end of a mini-batch its outcome has not come", late.as_secs())
}

/// Why another process is started in the place of one that has ended.
fn why_next(ended: &Running, returncode: i32) -> StartReason {
    let timed_out = matches!(ended.killed, Some(Kill::RunTimeout | Kill::LoadTimeout | Kill::InitTimeout));
    if ended.replaced_at.is_some() && !timed_out {
        return if ended.is_used_up { StartReason::UsedUp } else { StartReason::Replaced };
    }
    StartReason::after(ended.init_failed, timed_out, ended.killed.is_some(), returncode)
}
