//! The dispatcher: hands mini-batches to processes and answers for what becomes of them.
//!
//! One task owns all slots, so nothing here is locked. It keeps processes busy (how much each gets is decided in
//! `batch_size`), takes back what waits behind a long mini-batch while another process is idle, enforces the
//! timeouts, and blames a try on exactly the mini-batch that a process was running when it died.

mod processes;
mod timeouts;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use prs_common::ledger::{NodeReport, Signal};
use prs_common::log_file::LogFile;
use prs_common::timestamp::now_us;
use prs_common::wire::{PROTOCOL_VERSION, ToProcess, encode_frame};
use prs_orchestrator::JobContext;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::committer::Backlog;
use crate::launch::Launch;
use crate::node_settings::NodeSettings;
use crate::process::{Event, EventKind, Message, OwnedOutcome, Tending};
use crate::settlement::{Ready, Settlement, settle_outcome};
use crate::slot::{Kill, Slot, Stage};
use crate::{batch_size, descendants};

/// Events of processes that wait for the dispatcher.
const EVENTS_AHEAD: usize = 256;
/// Between two looks at timeouts and idle processes.
const TICK: Duration = Duration::from_millis(20);
/// Mini-batches kept at hand for each slot.
const AT_HAND: usize = 1024;
/// Uncommitted rows beyond which nothing new is started, bytes.
const LARGEST_BACKLOG: usize = 64 << 20;
/// How long processes have for `shutdown()`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// What a dispatcher works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) job: &'a JobContext,
    pub(crate) settings: &'a NodeSettings,
    pub(crate) node_id: u32,
    /// The scratch folder of the node.
    pub(crate) folder: PathBuf,
    pub(crate) main_log: &'a LogFile,
    /// Where ended tries go.
    pub(crate) settle: mpsc::UnboundedSender<Settlement>,
    /// Says whether nothing runs and nothing waits.
    pub(crate) idle: watch::Sender<bool>,
    pub(crate) backlog: Backlog,
    /// What the heartbeat says.
    pub(crate) report: watch::Sender<NodeReport>,
    pub(crate) tasks: TaskTracker,
}

/// The dispatcher of one node.
pub(crate) struct Dispatcher<'a> {
    with: Surroundings<'a>,
    tending: Tending,
    heard: mpsc::Receiver<Event>,
    slots: Vec<Slot>,
    pending: VecDeque<Ready>,
    processes_started: u32,
    failures_in_a_row: u32,
    ending: Option<Ending>,
}

/// How the node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// In order: processes get their `shutdown()`, until this moment.
    InOrder(Instant),
    /// At once.
    AtOnce,
}

impl<'a> Dispatcher<'a> {
    /// A dispatcher with empty slots.
    pub(crate) fn new(with: Surroundings<'a>) -> Self {
        let (events, heard) = mpsc::channel(EVENTS_AHEAD);
        Self {
            slots: (0..with.settings.slots).map(|_| Slot::default()).collect(),
            tending: Tending { events, tasks: with.tasks.clone(), all_end: CancellationToken::new() },
            with,
            heard,
            pending: VecDeque::new(),
            processes_started: 0,
            failures_in_a_row: 0,
            ending: None,
        }
    }

    /// Works until the job wants no more, then ends the processes. Mini-batches that were not started go back.
    pub(crate) async fn run(
        mut self,
        mut intake: mpsc::Receiver<Vec<Ready>>,
        mut wanted: watch::Receiver<Signal>,
        mut fatal: watch::Receiver<Option<String>>,
        stop_intake: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let enough = self.slots.len() * AT_HAND;
        loop {
            tokio::select! {
                biased;
                Some(event) = self.heard.recv() => self.handle(event),
                changed = wanted.changed(), if self.ending != Some(Ending::AtOnce) => {
                    let signal = if changed.is_ok() { *wanted.borrow_and_update() } else { Signal::Stop };
                    self.obey(signal);
                }
                changed = fatal.changed(), if self.ending != Some(Ending::AtOnce) => {
                    if changed.is_ok() {
                        let reason = fatal.borrow_and_update().clone();
                        self.with.report.send_modify(|report| report.fatal = reason);
                    }
                    self.obey(Signal::Stop);
                }
                Some(batch) = intake.recv(), if self.pending.len() < enough && self.ending.is_none() => {
                    self.pending.extend(batch);
                }
                _ = ticks.tick() => self.look(),
            }
            self.feed();
            if self.ending.is_some() {
                stop_intake.cancel();
                if self.slots.iter().all(|slot| slot.running.is_none()) {
                    break;
                }
            }
        }
        if self.tending.all_end.is_cancelled() {
            let prefix = self.launch().token_prefix();
            let swept = tokio::task::spawn_blocking(move || descendants::kill_all(&prefix)).await;
            if let Ok(count @ 1..) = swept {
                self.with.main_log.line(format_args!("{count} processes were left behind; they are killed"));
            }
        }
    }

    fn launch(&self) -> Launch<'_> {
        Launch {
            job: self.with.job,
            settings: self.with.settings,
            node_id: self.with.node_id,
            folder: &self.with.folder,
        }
    }

    /// Does what the job wants.
    fn obey(&mut self, signal: Signal) {
        match signal {
            Signal::Finish if self.ending.is_none() => {
                self.ending = Some(Ending::InOrder(Instant::now() + SHUTDOWN_GRACE));
            }
            Signal::Stop => self.ending = Some(Ending::AtOnce),
            Signal::Run | Signal::Finish | Signal::Rejoin => return,
        }
        // Dropped deliveries are available to others again.
        self.pending.clear();
        if self.ending == Some(Ending::AtOnce) {
            self.tending.all_end.cancel();
        }
        let mut farewell = Vec::new();
        encode_frame(&ToProcess::Shutdown, &mut farewell);
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            if self.ending == Some(Ending::AtOnce) {
                running.kill(Kill::Stop);
            } else if running.stage == Stage::Starting {
                let name = &running.who.name;
                self.with
                    .main_log
                    .line(format_args!("{name} is still starting and not needed; it is killed"));
                running.kill(Kill::Stop);
            } else if running.stage == Stage::Ready {
                running.stage = Stage::Ending;
                running.process.send(farewell.clone());
            }
        }
    }

    /// Gives mini-batches to processes that have too few.
    fn feed(&mut self) {
        if self.ending.is_some() || self.with.backlog.bytes() > LARGEST_BACKLOG {
            return;
        }
        let sharing = self.slots.iter().filter(|slot| slot.running.is_some()).count();
        // Those with nothing come first.
        for only_empty in [true, false] {
            for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
                if self.pending.is_empty() {
                    break;
                }
                if !running.takes_work() || (only_empty && !running.in_hand.is_empty()) {
                    continue;
                }
                let count =
                    batch_size::more(running.cost, running.in_hand.len(), self.pending.len(), sharing);
                if count > 0 {
                    running.give(self.pending.drain(..count));
                }
            }
        }
        let idle = self.pending.is_empty()
            && self
                .slots
                .iter()
                .filter_map(|slot| slot.running.as_ref())
                .all(|running| running.in_hand.is_empty());
        self.with.idle.send_if_modified(|before| std::mem::replace(before, idle) != idle);
    }

    fn handle(&mut self, event: Event) {
        let position = event.slot;
        let current =
            self.slots[position].running.as_ref().is_some_and(|running| running.number == event.number);
        if !current {
            return;
        }
        match event.kind {
            EventKind::Said(message) => self.hear(position, message),
            EventKind::Exited { returncode, left_behind } => self.exited(position, returncode, left_behind),
        }
    }

    fn hear(&mut self, position: usize, message: Message) {
        let Some(running) = &mut self.slots[position].running else { return };
        let name = &running.who.name;
        match message {
            Message::Hello { protocol, python } => {
                running.log.line(format_args!("Python {python}"));
                if protocol != PROTOCOL_VERSION {
                    self.with.main_log.line(format_args!(
                        "{name} speaks protocol {protocol}, this program {PROTOCOL_VERSION}: the extension is of another version"
                    ));
                    running.kill(Kill::Nonsense);
                }
            }
            Message::Ready { seconds } => {
                self.with.main_log.line(format_args!("{name} is ready after {seconds:.3} s"));
                if running.stage == Stage::Starting {
                    running.stage = Stage::Ready;
                }
                running.failures_before = std::mem::take(&mut self.failures_in_a_row);
                self.with.report.send_modify(|report| report.ever_ready = true);
            }
            Message::InitFailed(error) => {
                running.log.error("init", now_us(), &error);
                running.init_failed = true;
                running.stage = Stage::Ending;
                let summary = format!("{}: {}", error.category, error.message);
                self.with.main_log.line(format_args!("{name}: init() failed: {summary}"));
                let summary = format!("{summary} (logs/user/error/{}/{name}.txt)", self.with.node_id);
                self.init_failed(position, &summary);
            }
            Message::Outcomes(outcomes) => self.finished(position, outcomes),
            Message::Skipped(seqs) => {
                running.unacknowledged = running.unacknowledged.saturating_sub(seqs.len());
            }
            Message::Notice(text) => self.with.main_log.line(format_args!("{name}: {text}")),
            Message::Bye(error) => {
                running.said_bye = Some(Instant::now());
                if let Some(error) = error {
                    running.log.error("shutdown", now_us(), &error);
                    self.with.main_log.line(format_args!("{name}: shutdown() failed: {}", error.message));
                }
            }
        }
    }

    /// Settles mini-batches that a process has finished.
    fn finished(&mut self, position: usize, outcomes: Vec<OwnedOutcome>) {
        let Some(running) = &mut self.slots[position].running else { return };
        running.worked = true;
        let count = outcomes.len() as u32;
        let took: u64 = outcomes.iter().map(|outcome| outcome.elapsed_us).sum();
        for outcome in outcomes {
            let Some((_, ready)) = running.in_hand.pop_front_if(|(seq, _)| *seq == outcome.seq) else {
                self.with.main_log.line(format_args!(
                    "{} answered for a mini-batch it does not have; it is killed",
                    running.who.name
                ));
                running.kill(Kill::Nonsense);
                return;
            };
            self.with.backlog.add(outcome.rows.len());
            let settlement = settle_outcome(running, ready, outcome);
            if self.with.settle.send(settlement).is_err() {
                let reason = "the committer of the node has ended unexpectedly".to_owned();
                self.with.report.send_modify(|report| report.fatal = Some(reason));
                self.obey(Signal::Stop);
                return;
            }
        }
        running.log.flush();
        if count > 0 {
            running.cost = Some(batch_size::learn(running.cost, Duration::from_micros(took), count));
        }
    }

    /// Tells the heartbeat how the node is.
    fn tell(&self, now: Instant) {
        let running = || self.slots.iter().filter_map(|slot| slot.running.as_ref());
        let processes = running().count() as u32;
        let all_starting =
            processes as usize == self.slots.len() && running().all(|one| one.stage == Stage::Starting);
        let youngest = running().map(|one| now.saturating_duration_since(one.since)).min();
        let all_in_init = youngest.filter(|_| all_starting).map(|long| long.as_secs_f64());
        self.with.report.send_modify(|report| {
            report.processes = processes;
            report.all_in_init = all_in_init;
        });
    }
}
