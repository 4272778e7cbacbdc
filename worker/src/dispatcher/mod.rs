//! The dispatcher: hands mini-batches to processes and answers for what becomes of them.
//!
//! One task owns all slots, so nothing here is locked. It keeps processes busy (how much each gets is decided in
//! `batch_size`), takes back what waits behind a long mini-batch while another process is idle, enforces the
//! timeouts, and blames a try on exactly the mini-batch that a process was running when it died. Processes with several
//! mini-batches under way are in `concurrent` and `blame`.

mod batch_size;
mod blame;
mod concurrent;
pub(crate) mod copies;
mod ended_tries;
mod ending;
mod feeding;
mod hanging;
mod init_failures;
mod memory;
mod messages;
mod placing;
mod processes;
mod replacements;
mod retries;
mod slot;
mod sources;
pub(crate) mod suspects;
mod telling;
mod timeouts;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use prs_common::ledger::{Heard, NodeReport, ProcessView, Signal};
use prs_common::log_file::LogFile;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::concurrent::Apart;
use self::copies::{CopyNews, Standing};
use self::ended_tries::EndedTries;
use self::ending::Ending;
use self::feeding::Recent;
use self::replacements::Replacements;
use self::slot::{Slot, running};
use self::sources::Sources;
use self::suspects::Ask;
use crate::commit::committer::Backlog;
use crate::commit::outcome::{Outcome, Ready};
use crate::metrics::TargetMetrics;
use crate::node_settings::NodeEnd;
use crate::perf::memory::Shortage;
use crate::process::launch::{CODE, Launch};
use crate::process::{Event, Tending};

/// Events of processes that wait for the dispatcher.
const EVENTS_AHEAD: usize = 256;
/// Between two looks at timeouts and idle processes.
const TICK: Duration = Duration::from_millis(20);
/// Mini-batches kept at hand for each slot.
const AT_HAND: usize = 1024;

/// What a dispatcher works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) main_log: &'a LogFile,
    /// Ended tries: the dispatcher writes, the committer reads.
    pub(crate) outcomes_tx: mpsc::UnboundedSender<Outcome>,
    /// Mini-batches to ask about, or to give back: the dispatcher writes, [`suspects`] reads.
    pub(crate) asks_tx: mpsc::UnboundedSender<Ask>,
    /// How many mini-batches the intake may take.
    pub(crate) prefetch: Arc<AtomicUsize>,
    /// Whether nothing runs and nothing waits: the dispatcher writes, the committer reads.
    pub(crate) idle_tx: watch::Sender<bool>,
    pub(crate) backlog: Backlog,
    /// What the heartbeat says: the dispatcher writes, the heartbeat reads.
    pub(crate) report_tx: watch::Sender<NodeReport>,
    /// Where the node stands, as far as copies go: the dispatcher writes, [`Copies`](crate::intake::copies::Copies) reads.
    pub(crate) standing_tx: watch::Sender<Standing>,
    /// How the job stands: the heartbeat writes, the dispatcher reads.
    pub(crate) heard_rx: watch::Receiver<Heard>,
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: TargetMetrics,
}

/// The dispatcher of one node.
pub(crate) struct Dispatcher<'a> {
    launch: Launch<'a>,
    with: Surroundings<'a>,
    tending: Tending,
    /// What processes said and did: their supervisors write, the dispatcher reads.
    events_rx: mpsc::Receiver<Event>,
    slots: Vec<Slot>,
    pending: VecDeque<Ready>,
    /// Delivered before, or failed before here, and not begun.
    suspects: VecDeque<Ready>,
    /// Suspects whose start is being noted.
    clearing: usize,
    /// Number of the process that is kept free for one of them.
    kept_for: Option<u32>,
    /// Suspects that may run.
    cleared: VecDeque<Ready>,
    /// Those of which one may have killed a process that had several.
    apart: Apart,
    recent: Recent,
    processes_started: u32,
    /// Processes that ended, as the heartbeat tells of them.
    ended_processes: VecDeque<ProcessView>,
    sources: Arc<Sources>,
    failures_in_a_row: u32,
    /// Whether a try succeeded here.
    has_succeeded: bool,
    replacements: Replacements,
    /// When what processes print was looked at.
    printed_at: Option<Instant>,
    /// When what runs long was looked at.
    stood_at: Option<Instant>,
    /// When what is busy was looked at.
    busy_at: Option<Instant>,
    ending: Option<Ending>,
}

/// What a dispatcher is told from outside.
pub(crate) struct Commands {
    /// Mini-batches that may run: the intake writes, the dispatcher reads.
    pub(crate) ready_rx: mpsc::Receiver<Vec<Ready>>,
    /// Suspects that may run, and nothing for one that need not: [`suspects`] writes, the dispatcher reads.
    pub(crate) cleared_rx: mpsc::UnboundedReceiver<Option<Ready>>,
    /// Mini-batches whose next try runs here: the committer writes, the dispatcher reads.
    pub(crate) retries_rx: mpsc::UnboundedReceiver<Ready>,
    /// What is to be done because of copies: [`Copies`](crate::intake::copies::Copies) writes, the dispatcher reads.
    pub(crate) copy_news_rx: mpsc::UnboundedReceiver<CopyNews>,
    /// What the job wants: the heartbeat writes, the dispatcher reads.
    pub(crate) signal_rx: watch::Receiver<Signal>,
    /// The memory of the container runs out: a thread that looks at it writes, the dispatcher reads.
    pub(crate) shortage_rx: mpsc::Receiver<Shortage>,
    /// Why nothing can be committed or fetched any more: committer and intake write, the dispatcher reads.
    pub(crate) fatal_rx: watch::Receiver<Option<String>>,
    /// What the worker wants.
    pub(crate) end: NodeEnd,
    /// Ends the intake.
    pub(crate) stop_intake: CancellationToken,
}

impl<'a> Dispatcher<'a> {
    /// A dispatcher with empty slots.
    pub(crate) fn new(launch: Launch<'a>, with: Surroundings<'a>) -> Self {
        let (events_tx, events_rx) = mpsc::channel(EVENTS_AHEAD);
        let sources = Sources::new(&launch.folder.join(CODE), &launch.job.spec.source_directory);
        Self {
            slots: (0..launch.settings.slots).map(|_| Slot::default()).collect(),
            tending: Tending { events_tx, tasks: with.tasks.clone(), all_end: CancellationToken::new() },
            launch,
            with,
            events_rx,
            pending: VecDeque::new(),
            suspects: VecDeque::new(),
            clearing: 0,
            kept_for: None,
            cleared: VecDeque::new(),
            apart: Apart::default(),
            recent: Recent::begin(),
            processes_started: 0,
            ended_processes: VecDeque::new(),
            sources: Arc::new(sources),
            failures_in_a_row: 0,
            has_succeeded: false,
            replacements: Replacements::default(),
            printed_at: None,
            stood_at: None,
            busy_at: None,
            ending: None,
        }
    }

    /// Works until the job wants no more, then ends the processes. Mini-batches that were not started go back.
    pub(crate) async fn run(mut self, commands: Commands) {
        let Commands {
            mut ready_rx,
            mut cleared_rx,
            mut retries_rx,
            mut copy_news_rx,
            mut signal_rx,
            mut shortage_rx,
            mut fatal_rx,
            end,
            stop_intake,
        } = commands;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let enough = self.slots.len() * AT_HAND;
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events_rx.recv() => self.handle(event),
                changed = signal_rx.changed(), if self.ending != Some(Ending::AtOnce) => {
                    let signal = if changed.is_ok() { *signal_rx.borrow_and_update() } else { Signal::Stop };
                    if signal == Signal::Finish {
                        self.all_superseded();
                    }
                    self.obey(signal);
                }
                changed = fatal_rx.changed(), if self.ending != Some(Ending::AtOnce) => {
                    if changed.is_ok() {
                        let reason = fatal_rx.borrow_and_update().clone();
                        self.with.report_tx.send_modify(|report| report.fatal = reason);
                    }
                    self.obey(Signal::Stop);
                }
                Some(shortage) = shortage_rx.recv() => self.relieve(&shortage),
                () = end.stop.cancelled(), if self.ending != Some(Ending::AtOnce) => self.obey(Signal::Stop),
                () = end.drain.cancelled(), if self.ending.is_none() => self.drain(),
                Some(cleared) = cleared_rx.recv() => self.clear(cleared),
                Some(ready) = retries_rx.recv() => self.retry(ready),
                Some(news) = copy_news_rx.recv() => self.hear_of_copies(news),
                Some(ready) = ready_rx.recv(), if self.pending.len() < enough && self.ending.is_none() => {
                    let (suspects, fresh): (Vec<_>, Vec<_>) = ready.into_iter().partition(Ready::is_suspect);
                    self.pending.extend(fresh);
                    self.suspects.extend(suspects);
                }
                _ = ticks.tick() => {
                    self.look();
                    self.size_prefetch();
                }
            }
            self.feed();
            if self.ending.is_some() {
                stop_intake.cancel();
                if running(&self.slots).next().is_none() {
                    break;
                }
            }
        }
        if self.tending.all_end.is_cancelled() {
            let family = self.launch.family(self.processes_started);
            let count = tokio::task::spawn_blocking(move || family.kill()).await.unwrap_or(0);
            if count > 0 {
                self.with.main_log.line(format_args!("{count} processes were left behind; they are killed"));
            }
        }
    }

    fn ended_tries(&self) -> EndedTries<'_> {
        EndedTries { spec: &self.launch.job.spec, report_tx: &self.with.report_tx }
    }
}
