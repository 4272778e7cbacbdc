//! The dispatcher: hands mini-batches to processes and answers for what becomes of them.
//!
//! One task owns all slots, so nothing here is locked. It keeps processes busy (how much each gets is decided in
//! `batch_size`), takes back what waits behind a long mini-batch while another process is idle, enforces the
//! timeouts, and blames a try on exactly the mini-batch that a process was running when it died.

mod batch_size;
mod ended_tries;
mod hanging;
mod init_failures;
mod processes;
mod slot;
mod sources;
pub(crate) mod suspects;
mod telling;
mod timeouts;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::end_reason::EndReason;
use prs_common::ledger::{NodeReport, Signal};
use prs_common::log_file::LogFile;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, ErrorInfo, FromProcess, PROTOCOL_VERSION, ToProcess, encode};
use prs_orchestrator::JobContext;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::batch_size::Cost;
use self::ended_tries::reported;
use self::slot::{Kill, Slot, Stage};
use self::sources::Sources;
use self::suspects::Ask;
use crate::commit::committer::Backlog;
use crate::commit::outcome::{Outcome, Ready};
use crate::inputs::Mount;
use crate::intake::Taken;
use crate::node_settings::{NodeEnd, NodeSettings, Prefetch};
use crate::process::launch::{CODE, Launch};
use crate::process::seen_errors::{self, CodeFolders, TryName};
use crate::process::{Event, EventKind, Tending};

/// Events of processes that wait for the dispatcher.
const EVENTS_AHEAD: usize = 256;
/// Between two looks at timeouts and idle processes.
const TICK: Duration = Duration::from_millis(20);
/// Mini-batches kept at hand for each slot.
const AT_HAND: usize = 1024;
/// Uncommitted rows beyond which nothing new is started, bytes.
const LARGEST_BACKLOG: usize = 48 << 20;
/// How long what runs has to end when the worker leaves before the job ends.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(30);
/// How long processes have for `shutdown()`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// What a dispatcher works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) job: &'a JobContext,
    pub(crate) settings: &'a NodeSettings,
    pub(crate) node_id: u32,
    /// Tells this service of the node from all others.
    pub(crate) service: String,
    /// The scratch folder of the node.
    pub(crate) folder: PathBuf,
    pub(crate) main_log: &'a LogFile,
    /// What processes enter, to see the inputs where they are said to be.
    pub(crate) mount: Option<Mount>,
    /// Where ended tries go.
    pub(crate) outcomes_tx: mpsc::UnboundedSender<Outcome>,
    /// Who knows about mini-batches that were delivered before.
    pub(crate) ask: mpsc::UnboundedSender<Ask>,
    /// How many mini-batches the intake may take.
    pub(crate) prefetch: Arc<AtomicUsize>,
    /// Says whether nothing runs and nothing waits.
    pub(crate) idle: watch::Sender<bool>,
    pub(crate) backlog: Backlog,
    /// What the heartbeat says.
    pub(crate) report: watch::Sender<NodeReport>,
    pub(crate) tasks: TaskTracker,
}

impl Surroundings<'_> {
    /// The code, as processes and as the user have it.
    fn with_code<T>(&self, of: impl FnOnce(CodeFolders<'_>) -> T) -> T {
        let code_dir = self.folder.join("code");
        of(CodeFolders { code_dir: &code_dir, source_directory: &self.job.spec.source_directory })
    }

    /// What the next try of a mini-batch is called.
    fn name_of(&self, ready: &Ready) -> TryName {
        TryName {
            index: ready.index,
            planned: ready.planned.clone(),
            number: ready.spoiled + 1,
            most: self.job.spec.run_max_try,
        }
    }

    /// A try failed by the user's code.
    fn saw_failed_try(&self, tried: &TryName, error: &ErrorInfo) {
        self.with_code(|code| {
            self.report.send_modify(|report| seen_errors::note_try(report, code, tried, error));
        });
    }
}

/// The dispatcher of one node.
pub(crate) struct Dispatcher<'a> {
    with: Surroundings<'a>,
    tending: Tending,
    heard: mpsc::Receiver<Event>,
    slots: Vec<Slot>,
    pending: VecDeque<Ready>,
    /// Delivered before, and not begun.
    suspects: VecDeque<Ready>,
    /// Suspects whose start is being noted.
    clearing: usize,
    /// Suspects that may run.
    cleared: VecDeque<Ready>,
    recent: Recent,
    processes_started: u32,
    sources: Arc<Sources>,
    failures_in_a_row: u32,
    /// When what processes print was looked at.
    printed_at: Option<Instant>,
    ending: Option<Ending>,
}

/// What mini-batches took lately, over all slots.
struct Recent {
    since: Instant,
    took: Duration,
    count: u32,
}

impl Recent {
    fn begin() -> Self {
        Self { since: Instant::now(), took: Duration::ZERO, count: 0 }
    }
}

/// What is said to a dispatcher from outside.
pub(crate) struct Commands {
    /// What the job wants.
    pub(crate) wanted: watch::Receiver<Signal>,
    /// Why nothing can be committed any more.
    pub(crate) fatal: watch::Receiver<Option<String>>,
    /// What the worker wants.
    pub(crate) end: NodeEnd,
    /// How the intake is told.
    pub(crate) stop_intake: CancellationToken,
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
        let sources = Sources::new(&with.folder.join(CODE), &with.job.spec.source_directory);
        Self {
            slots: (0..with.settings.slots).map(|_| Slot::default()).collect(),
            tending: Tending { events, tasks: with.tasks.clone(), all_end: CancellationToken::new() },
            with,
            heard,
            pending: VecDeque::new(),
            suspects: VecDeque::new(),
            clearing: 0,
            cleared: VecDeque::new(),
            recent: Recent::begin(),
            processes_started: 0,
            sources: Arc::new(sources),
            failures_in_a_row: 0,
            printed_at: None,
            ending: None,
        }
    }

    /// Works until the job wants no more, then ends the processes. Mini-batches that were not started go back.
    pub(crate) async fn run(
        mut self,
        mut intake: mpsc::Receiver<Taken>,
        mut clear: mpsc::UnboundedReceiver<Option<Ready>>,
        commands: Commands,
    ) {
        let Commands { mut wanted, mut fatal, end, stop_intake } = commands;
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
                () = end.stop.cancelled(), if self.ending != Some(Ending::AtOnce) => self.obey(Signal::Stop),
                () = end.drain.cancelled(), if self.ending.is_none() => self.drain(),
                Some(cleared) = clear.recv() => self.clear(cleared),
                Some(taken) = intake.recv(), if self.pending.len() < enough && self.ending.is_none() => {
                    self.pending.extend(taken.fresh);
                    self.suspects.extend(taken.suspects);
                }
                _ = ticks.tick() => {
                    self.look();
                    self.size_prefetch();
                }
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
            let family = self.launch().family(self.processes_started);
            let swept = tokio::task::spawn_blocking(move || family.kill()).await;
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
            service: &self.with.service,
            folder: &self.with.folder,
            mount: self.with.mount.as_ref(),
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
        self.give_back_all();
        if self.ending == Some(Ending::AtOnce) {
            self.tending.all_end.cancel();
        }
        let farewell = encode(&ToProcess::Shutdown, []);
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

    /// Leaves before the job ends: what runs may end, the rest goes back.
    fn drain(&mut self) {
        self.with.main_log.line("the worker is asked to leave: what runs may end, the rest goes back");
        let mut back = Vec::new();
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            back.extend(running.take_back());
        }
        self.pending.extend(back);
        self.obey(Signal::Finish);
        self.ending = Some(Ending::InOrder(Instant::now() + DRAIN_GRACE));
    }

    /// Gives back what was not started.
    fn give_back_all(&mut self) {
        let waiting = [&mut self.pending, &mut self.suspects, &mut self.cleared];
        for ready in waiting.into_iter().flat_map(|waiting| waiting.drain(..)) {
            let _ = self.with.ask.send(Ask::GiveBack(ready));
        }
    }

    /// A suspect may run, or need not any more.
    fn clear(&mut self, cleared: Option<Ready>) {
        self.clearing -= 1;
        match cleared {
            Some(ready) if self.ending.is_some() => {
                let _ = self.with.ask.send(Ask::GiveBack(ready));
            }
            Some(ready) => self.cleared.push_back(ready),
            None => {}
        }
    }

    /// Suspects run alone in their process, each noted before it starts, one after the other, while there are processes
    /// for them. One that a node was lost with before runs while no other suspect is noted: if it kills this node, too,
    /// nobody else is blamed.
    fn feed_suspects(&mut self) {
        while let Some(next) = self.cleared.front() {
            let others = self.slots.iter().filter_map(Slot::suspect).count();
            if next.lost > 0 && others > 0 {
                return;
            }
            let free = self.slots.iter_mut().filter_map(|slot| slot.running.as_mut());
            let Some(running) = free.into_iter().find(|running| running.is_free()) else { break };
            running.give(self.cleared.pop_front().into_iter());
        }
        let noted = self.slots.iter().filter_map(Slot::suspect).chain(&self.cleared);
        if self.clearing > 0 || noted.into_iter().any(|suspect| suspect.lost > 0) {
            return;
        }
        let free =
            self.slots.iter().filter_map(|slot| slot.running.as_ref()).filter(|one| one.is_free()).count();
        if self.cleared.len() < free
            && let Some(suspect) = self.suspects.pop_front()
        {
            self.clearing += 1;
            let _ = self.with.ask.send(Ask::Begin(suspect));
        }
    }

    /// Adapts how many mini-batches the intake takes to what they cost, and gives back what others could run first.
    fn size_prefetch(&mut self) {
        let Prefetch::UpTo(most) = self.with.settings.prefetch else { return };
        let Recent { since, took, count } = self.recent;
        if count == 0 {
            return;
        }
        let looked_at = since.elapsed();
        if looked_at >= batch_size::LOOKED_AT {
            self.recent = Recent::begin();
        }
        let present = self.with.prefetch.load(Ordering::Relaxed);
        let wanted = batch_size::prefetch(took / count, self.slots.len(), most);
        if batch_size::should_change(present, wanted, looked_at) {
            self.with.prefetch.store(wanted, Ordering::Relaxed);
            while self.pending.len() > wanted {
                if let Some(ready) = self.pending.pop_back() {
                    let _ = self.with.ask.send(Ask::GiveBack(ready));
                }
            }
        }
    }

    /// Gives mini-batches to processes that have too few.
    fn feed(&mut self) {
        if self.ending.is_some() || self.with.backlog.bytes() > LARGEST_BACKLOG {
            return;
        }
        self.feed_suspects();
        let sharing = self.slots.iter().filter(|slot| slot.running.is_some()).count();
        let mut room = self.room();
        // Suspects need a process that has nothing: while some wait, none gets more than it has, and one is kept free
        // for each whose start is being noted. Otherwise a busy node would never come to them.
        let suspects_wait = !self.suspects.is_empty() || !self.cleared.is_empty() || self.clearing > 0;
        let mut kept_free = self.clearing;
        // Those with nothing come first.
        for only_empty in [true, false] {
            if suspects_wait && !only_empty {
                break;
            }
            for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
                if self.pending.is_empty() {
                    break;
                }
                let has_enough = running.suspect().is_some() || (only_empty && !running.in_hand.is_empty());
                if !running.takes_work() || has_enough {
                    continue;
                }
                if kept_free > 0 {
                    kept_free -= 1;
                    continue;
                }
                let (at_hand, waiting) = (running.in_hand.len(), self.pending.len());
                let count = batch_size::more(running.cost, at_hand, waiting, sharing, room);
                if count > 0 {
                    room = room.saturating_sub(running.cost.map_or(0, |cost| cost.rows * count));
                    running.give(self.pending.drain(..count));
                }
            }
        }
        let waiting = self.pending.len() + self.suspects.len() + self.cleared.len() + self.clearing;
        let idle = waiting == 0
            && self
                .slots
                .iter()
                .filter_map(|slot| slot.running.as_ref())
                .all(|running| running.in_hand.is_empty());
        self.with.idle.send_if_modified(|before| std::mem::replace(before, idle) != idle);
    }

    /// Bytes of rows that there is room for beside those that are not committed yet and those that are expected of what
    /// the processes have in hand.
    fn room(&self) -> usize {
        let running = self.slots.iter().filter_map(|slot| slot.running.as_ref());
        let expected: usize =
            running.map(|one| one.cost.map_or(0, |cost| cost.rows) * one.in_hand.len()).sum();
        LARGEST_BACKLOG.saturating_sub(self.with.backlog.bytes() + expected)
    }

    fn handle(&mut self, event: Event) {
        let position = event.slot;
        let current =
            self.slots[position].running.as_ref().is_some_and(|running| running.number == event.number);
        if !current {
            return;
        }
        match event.kind {
            EventKind::Said(message, rows) => self.hear(position, message, rows),
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
                    running.kill(Kill::ProtocolViolation);
                }
            }
            FromProcess::Ready { seconds, run } => {
                self.with.main_log.line(format_args!("{name} is ready after {seconds:.3} s"));
                if running.stage == Stage::Starting {
                    running.stage = Stage::Ready;
                }
                running.run = run.map(|mut run| {
                    running.sources.name_frame(&mut run);
                    run
                });
                running.failures_before = std::mem::take(&mut self.failures_in_a_row);
                self.with.report.send_modify(|report| report.ever_ready = true);
            }
            FromProcess::InitFailed { mut error, is_permanent } => {
                running.sources.name(&mut error);
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
        for mut outcome in outcomes {
            let Some((_, ready)) = running.in_hand.pop_front_if(|(seq, _)| *seq == outcome.seq) else {
                self.with.main_log.line(format_args!(
                    "{} answered for a mini-batch it does not have; it is killed",
                    running.who.name
                ));
                running.kill(Kill::ProtocolViolation);
                return;
            };
            self.with.backlog.add(outcome.rows as usize);
            if let Some(error) = &mut outcome.error {
                running.sources.name(error);
                self.with.saw_failed_try(&self.with.name_of(&ready), error);
            }
            let rows = rows.split_to(outcome.rows as usize);
            let outcome = reported(running, ready, outcome, rows);
            if self.with.outcomes_tx.send(outcome).is_err() {
                let reason = EndReason::CommitterEnded.to_string();
                self.with.report.send_modify(|report| report.fatal = Some(reason));
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
    }
}
