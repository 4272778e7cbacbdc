//! `init()` that does not return: where every process has been in it longer than a job may (spec S6), they are asked where
//! they are. None is killed for it: the job fails only when it is so on all nodes, and a slow one may yet get through.

use std::time::{Duration, Instant};

use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};
use prs_orchestrator::job::init_failures::longest_init;

use super::Dispatcher;
use crate::dispatcher::slot::{Hang, Stage, running_mut};
use crate::process::seen_errors;

impl Dispatcher<'_> {
    /// Asks every process for its stack, once all have been in `init()` for too long.
    pub(super) fn ask_hanging(&mut self, now: Instant) {
        let limit = Duration::from_secs(longest_init(&self.launch.job.spec));
        let too_long = self.starting().filter(|one| now.saturating_duration_since(one.since) > limit).count();
        if self.ending.is_some() || too_long < self.slots.len() {
            return;
        }
        for running in running_mut(&mut self.slots).filter(|one| one.hang == Hang::No) {
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
}
