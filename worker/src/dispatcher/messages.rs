//! What processes say: that they are ready, or cannot be, and what became of their mini-batches.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::end_reason::EndReason;
use prs_common::ledger::Signal;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, FromProcess, PROTOCOL_VERSION};

use super::Dispatcher;
use crate::dispatcher::batch_size::Cost;
use crate::dispatcher::ended_tries::EndedTries;
use crate::dispatcher::slot::Stage;
use crate::process::address_space::name_limit;
use crate::process::{Event, EventKind};

impl Dispatcher<'_> {
    /// Takes in what a process said or did; nothing of one that is not in its slot any more.
    pub(super) fn handle(&mut self, event: Event) {
        let position = event.slot;
        if self.slots[position].running.as_ref().is_none_or(|running| running.number != event.number) {
            return;
        }
        match event.kind {
            EventKind::Said(message, rows) => self.hear(position, message, rows),
            EventKind::Violated(violation) => {
                if let Some(running) = &mut self.slots[position].running {
                    running.break_off(format!("it sent what prs does not understand ({violation})"));
                }
            }
            EventKind::StackWritten => self.hangs(position),
            EventKind::Exited { returncode, left_behind } => self.exited(position, returncode, left_behind),
        }
    }

    fn hear(&mut self, position: usize, message: FromProcess, rows: Bytes) {
        let Some(running) = &mut self.slots[position].running else { return };
        let name = &running.who.name;
        match message {
            FromProcess::Hello { protocol, python } => {
                running.log.line(format_args!("Python {python}"));
                running.python = python;
                if protocol != PROTOCOL_VERSION {
                    self.with.main_log.line(format_args!(
                        "{name} speaks protocol {protocol}, this program {PROTOCOL_VERSION}: the extension is of another version"
                    ));
                    running.break_off(format!("it speaks protocol {protocol}"));
                }
            }
            FromProcess::Ready { seconds, run, concurrency } => {
                running.lanes = concurrency.map(|lanes| lanes.max(1) as usize);
                self.with.main_log.line(format_args!("{name} is ready after {seconds:.3} s"));
                self.with.metrics.initialized(seconds);
                if running.stage == Stage::Starting {
                    running.stage = Stage::Ready;
                }
                self.slots[position].hung = false;
                let Some(running) = &mut self.slots[position].running else { return };
                running.run = run;
                if let Some(run) = &mut running.run {
                    running.sources.name_frame(run);
                }
                running.failures_before = std::mem::take(&mut self.failures_in_a_row);
                self.with.report_tx.send_modify(|report| report.ever_ready = true);
            }
            FromProcess::InitFailed { mut error, is_permanent } => {
                running.sources.name(&mut error);
                name_limit(&mut error);
                self.not_ready(position, &error, is_permanent);
            }
            FromProcess::Outcomes(outcomes) => self.finished(position, outcomes, rows),
            FromProcess::Skipped(seqs) => {
                running.unacknowledged = running.unacknowledged.saturating_sub(seqs.len());
            }
            FromProcess::Notice(text) => self.with.main_log.line(format_args!("{name}: {text}")),
            FromProcess::Bye(error) => {
                running.said_bye = Some(Instant::now());
                if let Some(mut error) = error {
                    running.sources.name(&mut error);
                    running.log.error("shutdown", now_us(), &error);
                    self.with.main_log.line(format_args!("{name}: shutdown() failed: {}", error.message));
                }
            }
        }
    }

    /// Settles mini-batches that a process has finished; `rows` are those of all of them.
    fn finished(&mut self, position: usize, outcomes: Vec<wire::Outcome>, mut rows: Bytes) {
        let Some(running) = &mut self.slots[position].running else { return };
        running.worked = true;
        let count = outcomes.len() as u32;
        let took: u64 = outcomes.iter().map(|outcome| outcome.elapsed_us).sum();
        let bytes = rows.len();
        let ended = EndedTries { spec: &self.launch.job.spec, report_tx: &self.with.report_tx };
        for mut outcome in outcomes {
            let Some(ready) = running.take_ended(outcome.seq) else {
                self.with.main_log.line(format_args!(
                    "{} answered for a mini-batch it does not have; it is killed",
                    running.who.name
                ));
                running.break_off("it answered for a mini-batch that it does not have");
                return;
            };
            self.with.backlog.add(outcome.rows as usize);
            if let Some(error) = &mut outcome.error {
                running.sources.name(error);
                name_limit(error);
            }
            let rows = rows.split_to(outcome.rows as usize);
            let outcome = ended.reported(running, ready, outcome, rows);
            self.has_succeeded |= outcome.has_succeeded();
            if self.with.outcomes_tx.send(outcome).is_err() {
                let reason = EndReason::CommitterEnded.to_string();
                self.with.report_tx.send_modify(|report| report.fatal = Some(reason));
                self.obey(Signal::Stop);
                return;
            }
        }
        running.log.flush();
        if count > 0 {
            let took = Duration::from_micros(took);
            running.cost = Some(Cost::learn(running.cost, took, bytes, count));
            self.recent.took += took;
            self.recent.count += count;
        }
        self.replace_broken(position);
        self.look_at_memory_of(position);
    }
}
