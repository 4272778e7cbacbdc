//! The dispatcher: hands mini-batches to processes and answers for what becomes of them.
//!
//! One task owns all slots, so nothing here is locked. It keeps processes busy (how much each gets is decided in
//! `batch_size`), takes back what waits behind a long mini-batch while another process is idle, enforces the
//! timeouts, and blames a try on exactly the mini-batch that a process was running when it died.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::ledger::{NodeReport, Signal};
use prs_common::log_file::LogFile;
use prs_common::process_page::Phase;
use prs_common::segment::ProcessRef;
use prs_common::timestamp::now_us;
use prs_common::wire::{self, PROTOCOL_VERSION, ToProcess, encode_frame};
use prs_orchestrator::{JobContext, init_failures};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::committer::Backlog;
use crate::launch::Launch;
use crate::node_settings::NodeSettings;
use crate::process::{Event, EventKind, Message, OwnedOutcome, Process, Tending, silent_death};
use crate::process_log::ProcessLog;
use crate::settlement::{Death, Ready, Settlement, settle_death, settle_outcome};
use crate::slot::{Kill, Running, Slot, Stage};
use crate::{batch_size, descendants, gpu};

/// Events of processes that wait for the dispatcher.
const EVENTS_AHEAD: usize = 256;
/// Between two looks at timeouts and idle processes.
const TICK: Duration = Duration::from_millis(20);
/// Mini-batches kept at hand for each slot.
const AT_HAND: usize = 1024;
/// Uncommitted rows beyond which nothing new is started, bytes.
const LARGEST_BACKLOG: usize = 64 << 20;
/// A process is stuck with its mini-batch this long before others are taken from it.
const STUCK: Duration = Duration::from_millis(10);
/// How long processes have for `shutdown()`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);
/// How long a process may take to exit after `shutdown()` has returned.
const EXIT_GRACE: Duration = Duration::from_secs(3);
/// Pause before a process is started again, for each failure in a row.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// Longest such pause.
const LONGEST_RESTART_PAUSE: Duration = Duration::from_secs(2);

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
            Signal::Run | Signal::Finish => return,
        }
        // Dropped deliveries are available to others again.
        self.pending.clear();
        if self.ending == Some(Ending::AtOnce) {
            self.tending.all_end.cancel();
        }
        let mut farewell = Vec::new();
        encode_frame(&ToProcess::Shutdown, &mut farewell);
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            if self.ending == Some(Ending::AtOnce) || running.stage == Stage::Starting {
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

    /// Looks at timeouts, empty slots, and work that waits in the wrong place.
    fn look(&mut self) {
        let now = Instant::now();
        if let Some(Ending::InOrder(until)) = self.ending
            && now > until
        {
            self.with.main_log.line("processes have not ended in time and are killed");
            self.obey(Signal::Stop);
        }
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            if running.said_bye.is_some_and(|at| now > at + EXIT_GRACE) && running.killed.is_none() {
                let name = &running.who.name;
                self.with.main_log.line(format_args!("{name} has said good-bye and stays; it is killed"));
                running.kill(Kill::Stop);
            }
        }
        let spec = &self.with.job.spec;
        let run_limit = Duration::from_secs(spec.run_invocation_timeout);
        let load_limit = Duration::from_secs(spec.task_overhead_timeout);
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            let started = running.process.page.claim().started;
            let kill = match running.phase() {
                (Phase::Running, long) if long > run_limit => Kill::RunTimeout,
                (Phase::Loading, long) if long > load_limit => Kill::LoadTimeout,
                _ => continue,
            };
            // From here on it starts no other: the one that took too long is the one that is blamed.
            self.pending.extend(running.take_back());
            if running.process.page.claim().started == started {
                running.kill(kill);
            }
        }
        self.rebalance();
        self.start_processes(now);
        self.tell(now);
    }

    /// Takes mini-batches back that wait behind a long one while another process has nothing to do.
    fn rebalance(&mut self) {
        let running = || self.slots.iter().filter_map(|slot| slot.running.as_ref());
        let somebody_idle = running().any(|running| running.takes_work() && running.in_hand.is_empty());
        if self.ending.is_some() || !self.pending.is_empty() || !somebody_idle {
            return;
        }
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            let (phase, long) = running.phase();
            let busy = matches!(phase, Phase::Loading | Phase::Running) && long > STUCK;
            if running.takes_work() && busy && running.unstarted() > 0 {
                self.pending.extend(running.take_back());
            }
        }
    }

    /// Starts a process in every empty slot.
    fn start_processes(&mut self, now: Instant) {
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
        let name = format!("process{number:03}");
        let used =
            self.slots.iter().filter_map(|slot| slot.running.as_ref()).filter_map(|running| running.gpu);
        let gpu = gpu::lowest_free(self.with.settings.host.gpus, used);
        let folder = self.with.folder.join(&name);
        let launch = self.launch();
        let start = launch.start_message(&name);
        let settings = launch.process_settings(&name, &start, gpu);
        let process = match Process::start(&settings, position, number, &self.tending) {
            Ok(process) => process,
            Err(error) => {
                self.with.main_log.line(format_args!("{name} could not be started: {error}"));
                self.init_failed(position, &error.to_string());
                return;
            }
        };
        let mut frame = Vec::new();
        let staging = Arc::from(Path::new(&start.staging_dir));
        encode_frame(&ToProcess::Start(Box::new(start)), &mut frame);
        process.send(frame);
        let pid = process.pid;
        let with = gpu.map(|index| format!(", GPU {index}")).unwrap_or_default();
        self.with.main_log.line(format_args!("{name} starts (pid {pid}{with})"));
        let log = ProcessLog::new(&self.with.job.logs, self.with.node_id, &name);
        log.line(format_args!("{name} at {}, pid {pid}{with}", self.with.settings.host.ip));
        self.slots[position].running = Some(Running {
            number,
            who: Arc::new(ProcessRef { name, pid }),
            process,
            stage: Stage::Starting,
            since: Instant::now(),
            gpu,
            log,
            staging,
            folder,
            in_hand: VecDeque::new(),
            next_seq: 1,
            unacknowledged: 0,
            cost: None,
            killed: None,
            worked: false,
            failures_before: 0,
            init_failed: false,
            said_bye: None,
        });
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

    /// A process has ended: blames what it was running, gives back what it was not, empties the slot.
    fn exited(&mut self, position: usize, returncode: i32, left_behind: usize) {
        let Some(mut running) = self.slots[position].running.take() else { return };
        let name = running.who.name.clone();
        self.with.main_log.line(format_args!("{name} exits with returncode {returncode}."));
        if left_behind > 0 {
            self.with
                .main_log
                .line(format_args!("{name} left {left_behind} processes behind; they are killed"));
        }
        let started = running.process.page.claim().started;
        let (phase, long) = running.phase();
        let items = running.process.page.items();
        for (seq, ready) in std::mem::take(&mut running.in_hand).into_iter().rev() {
            if seq == started && running.killed != Some(Kill::Stop) {
                running.worked = true;
                let death = Death { returncode, phase, long, items };
                let settlement = settle_death(&self.with.job.spec, &mut running, seq, ready, &death);
                let _ = self.with.settle.send(settlement);
            } else if self.ending.is_none() {
                // Finished without its outcome getting through, or not started: not to blame.
                self.pending.push_front(ready);
            }
        }
        running.log.line(format_args!("exits with returncode {returncode}"));
        let expected = running.init_failed || running.killed.is_some() || self.ending.is_some();
        if running.stage == Stage::Starting && !expected {
            let error =
                silent_death(wire::Stage::Init, returncode, "while it imported the script or ran init()");
            running.log.error("init", now_us(), &error);
            self.init_failed(
                position,
                &format!("{}, see logs/user/stderr/{}/{name}.stderr.txt", error.message, self.with.node_id),
            );
        } else if running.stage == Stage::Ready && !running.worked && !expected {
            self.failures_in_a_row = running.failures_before;
            let error =
                silent_death(wire::Stage::Init, returncode, "after init(), before its first mini-batch");
            running.log.error("init", now_us(), &error);
            self.init_failed(position, &error.message);
        }
        let folder = running.folder.clone();
        // Staged files of committed mini-batches are moved by the committer; what is still open is removed with
        // the folder of the node.
        let output = folder.join("output");
        let _ = std::fs::remove_dir_all(folder.join("working"));
        let _ = std::fs::remove_dir_all(output);
        if !running.init_failed && self.slots[position].restart_at.is_none() {
            self.slots[position].restart_at = Some(Instant::now());
        }
        self.start_processes(Instant::now());
        self.tell(Instant::now());
    }

    /// Counts a failure of `init()`, and gives the node up when there were too many (spec S6).
    fn init_failed(&mut self, position: usize, error: &str) {
        self.failures_in_a_row += 1;
        let row = self.failures_in_a_row;
        let gives_up = init_failures::node_gives_up(row, self.with.settings.slots);
        self.with.report.send_modify(|report| {
            report.init_failures += 1;
            report.init_error = Some(error.to_owned());
            report.gave_up |= gives_up;
        });
        let pause = (RESTART_PAUSE * row).min(LONGEST_RESTART_PAUSE);
        self.slots[position].restart_at = Some(Instant::now() + pause);
        if gives_up && self.ending.is_none() {
            self.with.main_log.line(format_args!("init() failed {row} times in a row: the node gives up"));
            self.obey(Signal::Stop);
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
