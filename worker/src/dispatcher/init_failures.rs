//! Processes that do not become ready: the script cannot be imported, `init()` fails, the process dies over it.
//!
//! What may pass is tried again, and gives the node up after as many failures as `prs_orchestrator::job::init_failures` says.
//! What cannot (a module that is not installed, a script that is no Python) gives it up at once: another host may have
//! what this one lacks.

use std::time::{Duration, Instant};

use prs_common::job::Environment;
use prs_common::ledger::{InitFailure, Signal};
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo};
use prs_orchestrator::job::init_failures;

use super::Dispatcher;
use crate::dispatcher::slot::{Running, Stage};
use crate::host::interpreter::how_found;
use crate::process::import_failure::ImportFailure;
use crate::process::seen_errors;

/// Pause before a process is started again, for each failure in a row.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// Longest such pause.
const LONGEST_RESTART_PAUSE: Duration = Duration::from_secs(2);
/// Longest message that the list of errors is told, bytes.
const LONGEST_MESSAGE: usize = 2_000;

/// A process that did not become ready.
pub(super) struct Started {
    name: String,
    /// How long it was up.
    long: Duration,
}

impl Started {
    pub(super) fn of(running: &Running) -> Self {
        Self { name: running.who.name.clone(), long: running.since.elapsed() }
    }
}

impl Dispatcher<'_> {
    /// A process said that it cannot use the script.
    pub(super) fn not_ready(&mut self, position: usize, error: &ErrorInfo, is_permanent: bool) {
        let Some(running) = &mut self.slots[position].running else { return };
        running.init_failed = true;
        running.stage = Stage::Ending;
        let what = if error.stage == wire::Stage::Import { "import" } else { "init" };
        running.log.error(what, now_us(), error);
        let (started, python) = (Started::of(running), running.python.clone());
        let (name, node_id) = (&started.name, self.launch.node_id);
        self.with.main_log.line(format_args!(
            "{name}: {}: {}: {}",
            failed(error),
            error.category,
            error.message
        ));
        self.note_init_failure(&started.name, error);
        // Where a process of this node could use it, whatever this one lacks comes and goes.
        if is_permanent && !self.with.report_tx.borrow().ever_ready {
            self.cannot_be_used(&python, error);
        } else {
            let file = format!("logs/user/error/{node_id}/{name}.txt");
            self.init_failed(position, &started, error, &file);
        }
    }

    /// Tells the list of errors of a process that did not become ready.
    pub(super) fn note_init_failure(&self, name: &str, error: &ErrorInfo) {
        let message = &error.message;
        let failure = InitFailure {
            category: error.category.clone(),
            message: message[..message.floor_char_boundary(LONGEST_MESSAGE)].to_owned(),
            frame: error.frame.as_deref().cloned(),
            process: name.to_owned(),
        };
        self.with.report_tx.send_modify(|report| report.init_failure = Some(failure));
    }

    /// No process of this host can use the script.
    pub(super) fn cannot_be_used(&mut self, version: &str, error: &ErrorInfo) {
        if self.ending.is_some() {
            return;
        }
        let (settings, job) = (self.launch.settings, self.launch.job);
        let host = format!("{} ({})", settings.host.name, settings.host.ip);
        let found = how_found(job.spec.environment.as_ref());
        let failure = ImportFailure {
            error,
            line: error.frame.as_deref(),
            python: &settings.python,
            version,
            found: &found,
            made_of: job
                .spec
                .environment
                .as_ref()
                .and_then(Environment::packages)
                .map(|packages| &*packages.from),
            host: job.policy.has_others.then_some(&host),
        };
        let reason = failure.explain();
        self.with.main_log.line(format_args!("{}: the node gives up", failure.cause()));
        self.with.report_tx.send_modify(|report| {
            report.init_failures += 1;
            report.fails_to_import = error.stage == wire::Stage::Import;
            report.fatal = Some(reason);
            report.is_unfit = true;
            // Without others the job ends with it at once, and says it all.
            if job.policy.has_others {
                seen_errors::note(report, error, || format!("{} on {host}", failed(error)));
            }
        });
        self.obey(Signal::Stop);
    }

    /// Counts a process that did not become ready, and gives the node up when there were too many (spec S6).
    pub(super) fn init_failed(&mut self, position: usize, process: &Started, error: &ErrorInfo, file: &str) {
        let most = init_failures::failures_of_a_node(self.launch.settings.slots);
        let place = error.frame.as_deref().map(|line| format!("{line}; ")).unwrap_or_default();
        let summary = format!("{}: {} ({place}{file})", error.category, error.message);
        let (node, who) = if self.launch.job.policy.has_others {
            (format!(" of node {}", self.launch.node_id), "the node gives up")
        } else {
            (String::new(), "the job fails")
        };
        let what = format!(
            "{} in {}{node} after {:.1} s ({who} after {most} failures in a row)",
            failed(error),
            process.name,
            process.long.as_secs_f64()
        );
        self.with.report_tx.send_modify(|report| seen_errors::note(report, error, || what));
        self.count_failure(position, error.stage, &summary);
    }

    /// Counts a failure of the process in a slot, and starts another one there after a pause.
    pub(super) fn count_failure(&mut self, position: usize, stage: wire::Stage, error: &str) {
        self.with.report_tx.send_modify(|report| {
            report.init_failures += 1;
            report.fails_to_import = stage == wire::Stage::Import;
            report.init_error = Some(error.to_owned());
        });
        self.fails_once_more(position, stage);
    }

    /// Gives the node up after as many failures in a row, or starts another process in the slot after a pause.
    pub(super) fn fails_once_more(&mut self, position: usize, stage: wire::Stage) {
        self.failures_in_a_row += 1;
        let row = self.failures_in_a_row;
        let gives_up = init_failures::node_gives_up(row, self.launch.settings.slots);
        let fails_to_import = stage == wire::Stage::Import;
        self.with.report_tx.send_modify(|report| report.gave_up |= gives_up);
        let pause = (RESTART_PAUSE * row).min(LONGEST_RESTART_PAUSE);
        self.slots[position].restart_at = Some(Instant::now() + pause);
        if gives_up && self.ending.is_none() {
            let what = init_failures::what_fails(fails_to_import);
            self.with.main_log.line(format_args!("{what} failed {row} times in a row: the node gives up"));
            self.obey(Signal::Stop);
        }
    }
}

/// What failed, as a sentence that its error ends.
fn failed(error: &ErrorInfo) -> &'static str {
    if error.stage == wire::Stage::Import { "importing the script failed" } else { "init() failed" }
}
