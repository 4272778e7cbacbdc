//! `init()` that does not return, in one process or in all of them (spec S6).
//!
//! A process that has been in it longer than a job may, on a node where others got through, is killed and replaced, and
//! counts as an init failure. Where every process of the node has been in it so long, they are asked where they are, and
//! none is killed at once: the job fails when it is so on all nodes. Where it goes on, because others work, they are
//! replaced too. A node whose processes were all replaced for it counts as stuck until one becomes ready.

use std::time::Duration;

use prs_common::stops::passed_since;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};
use prs_orchestrator::job::init_failures::longest_init;

use super::Dispatcher;
use crate::dispatcher::init_failures::Started;
use crate::dispatcher::slot::{Hang, Kill, Running, Slot, Stage, running_mut};
use crate::process::seen_errors;

/// How long a job has to end once all processes of a node hang, before they are replaced: it goes on without them.
const JOB_ENDS: Duration = Duration::from_secs(10);

impl Dispatcher<'_> {
    /// Looks for processes that have been in `init()` for too long.
    pub(super) fn look_for_hanging(&mut self) {
        let limit = Duration::from_secs(longest_init(&self.launch.job.spec));
        let is_over = |one: &Running, limit: Duration| one.is_starting() && passed_since(one.since) > limit;
        if self.ending.is_some() || !self.starting().any(|one| is_over(one, limit)) {
            return;
        }
        let hang = |slot: &&Slot| slot.hung || slot.running.as_ref().is_some_and(|one| is_over(one, limit));
        let all_hang = self.slots.iter().filter(hang).count() == self.slots.len();
        let most = if all_hang {
            limit + JOB_ENDS
        } else if self.with.report_tx.borrow().ever_ready {
            limit
        } else {
            // No other process has shown yet that it can be done.
            return;
        };
        for running in running_mut(&mut self.slots).filter(|one| is_over(one, most)) {
            running.kill(Kill::InitTimeout);
        }
        if !all_hang {
            return;
        }
        for running in running_mut(&mut self.slots).filter(|one| one.hang == Hang::No && is_over(one, limit))
        {
            if running.python.is_empty() {
                // Python has not begun, and would die of the question.
                running.hang = Hang::Told;
            } else {
                running.hang = Hang::Asked;
                running.process.ask_stack();
            }
        }
    }

    /// Tells where a process hangs, which has been asked.
    pub(super) fn hangs(&mut self, position: usize) {
        let limit = longest_init(&self.launch.job.spec);
        let Some(running) = &self.slots[position].running else { return };
        if running.stage != Stage::Starting {
            return;
        }
        let stack = self.present_stack(running);
        let mut error = ErrorInfo {
            stage: wire::Stage::Init,
            category: "Timeout".to_owned(),
            message: format!(
                "init() took longer than 3 * run_invocation_timeout + 30 ({limit} s) in every process of the node (a larger run_invocation_timeout gives it more time)"
            ),
            traceback: stack.text,
            frame: stack.frame.map(Box::new),
        };
        running.sources.name(&mut error);
        running.log.error("init", now_us(), &error);
        let (name, node_id) = (running.who.name.clone(), self.launch.node_id);
        let place = error.frame.as_deref().map(|line| format!("{name} is at {line}"));
        let told = place.as_deref().unwrap_or(&name);
        self.with.main_log.line(format_args!("{told}: init() took longer than {limit} s"));
        self.note_init_failure(&name, &error);
        let has_others = self.launch.job.policy.has_others;
        self.with.report_tx.send_modify(|report| {
            report.init_failures += 1;
            report.fails_to_import = false;
            report.init_error = place.map(|place| format!("{place} (logs/user/error/{node_id}/{name}.txt)"));
            // Without others the job ends with it at once, and says it all.
            if has_others {
                seen_errors::note(report, &error, || format!("{name} of node {node_id}"));
            }
        });
        if let Some(running) = &mut self.slots[position].running {
            running.hang = Hang::Told;
        }
    }

    /// Counts a process that was killed because it hung in `init()`, and is gone.
    pub(super) fn hung(&mut self, position: usize, running: &Running) {
        self.slots[position].hung = true;
        if running.hang == Hang::Told {
            // It was counted when that was told.
            self.fails_once_more(position, wire::Stage::Init);
            return;
        }
        let limit = longest_init(&self.launch.job.spec);
        let stack = self.present_stack(running);
        let mut error = ErrorInfo {
            stage: wire::Stage::Init,
            category: "Timeout".to_owned(),
            message: format!(
                "init() took longer than 3 * run_invocation_timeout + 30 ({limit} s) in this process (a larger run_invocation_timeout gives it more time)"
            ),
            traceback: stack.text,
            frame: stack.frame.map(Box::new),
        };
        running.sources.name(&mut error);
        running.log.error("init", now_us(), &error);
        let (name, node_id) = (&running.who.name, self.launch.node_id);
        let place = error.frame.as_deref().map(|line| format!("{name} is at {line}"));
        let told = place.as_ref().unwrap_or(name);
        self.with.main_log.line(format_args!("{told}: init() took longer than {limit} s; it is replaced"));
        self.note_init_failure(name, &error);
        let file = format!("logs/user/error/{node_id}/{name}.txt");
        self.init_failed(position, &Started::of(running), &error, &file);
    }
}
