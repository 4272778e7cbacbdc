//! A slot: a place for a process on the node, and what the process in it has in hand.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::ledger::HeldMiniBatch;
use prs_common::process_page::{Phase, monotonic_ns};
use prs_common::segment::ProcessRef;
use prs_common::source_line::SourceLine;
use prs_common::stops::{passed_since, stopped_since};
use prs_common::tree::OpenFolder;
use prs_common::wire::{Assignment, ToProcess, encode};

use crate::commit::outcome::Ready;
use crate::dispatcher::batch_size::Cost;
use crate::dispatcher::memory::Largest;
use crate::dispatcher::replacements::FailedInARow;
use crate::dispatcher::sources::Sources;
use crate::host::gpu::TakenGpu;
use crate::metrics::StartReason;
use crate::process::Process;
use crate::process::log::ProcessLog;
use crate::process::printed::Printed;

/// A place for a process.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The process in it.
    pub(crate) running: Option<Running>,
    /// When the next process may start in an empty slot.
    pub(crate) restart_at: Option<Instant>,
    /// Whether the last process in it that came to an end hung in `init()`, and none became ready since.
    pub(crate) hung: bool,
    /// Number of the last process in it, where that made room for the next one.
    pub(crate) replaced: Option<u32>,
    /// Why the next process in it will be started.
    pub(crate) next: StartReason,
}

/// The processes in `slots`.
pub(crate) fn running(slots: &[Slot]) -> impl Iterator<Item = &Running> {
    slots.iter().filter_map(|slot| slot.running.as_ref())
}

/// The same, to be changed.
pub(crate) fn running_mut(slots: &mut [Slot]) -> impl Iterator<Item = &mut Running> {
    slots.iter_mut().filter_map(|slot| slot.running.as_mut())
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Starting, importing, `init()`.
    Starting,
    /// Takes mini-batches.
    Ready,
    /// Was told to end, or was killed.
    Ending,
}

/// Why the agent killed a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// `run()` took too long.
    RunTimeout,
    /// Reading the data took too long.
    LoadTimeout,
    /// `init()` took too long, and it is replaced.
    InitTimeout,
    /// The node stops.
    Stop,
    /// Another run of its mini-batch brought the outcome.
    Superseded,
    /// It broke the protocol.
    ProtocolViolation,
    /// The memory of the container ran out, and it was the largest.
    Memory(Largest),
}

/// Whether a process hangs in `init()`, as far as the node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hang {
    /// It does not.
    No,
    /// It is asked for its stack.
    Asked,
    /// Where it hangs is told.
    Told,
}

/// A process and what it has in hand.
#[derive(Debug)]
pub(crate) struct Running {
    /// Which process of the node it is, from 0.
    pub(crate) number: u32,
    /// Name and process id.
    pub(crate) who: Arc<ProcessRef>,
    pub(crate) process: Process,
    pub(crate) stage: Stage,
    pub(crate) since: Instant,
    /// The same by the clock of the host, microseconds since the Unix epoch.
    pub(crate) started_us: u64,
    /// Tries that ended in it.
    pub(crate) tries: u64,
    /// Of these, those that failed.
    pub(crate) failed_tries: u64,
    /// The mini-batch that it has had longest, at the last look.
    pub(crate) holds: Option<HeldMiniBatch>,
    pub(crate) failed_in_a_row: FailedInARow,
    /// Number of the process that made room for it, until a try of its own has told.
    pub(crate) in_place_of: Option<u32>,
    pub(crate) gpu: Option<TakenGpu>,
    pub(crate) log: ProcessLog,
    /// What it prints.
    pub(crate) printed: Printed,
    /// Where it stages the files of finished mini-batches.
    pub(crate) staging: Arc<OpenFolder>,
    /// The user's names for its code.
    pub(crate) sources: Arc<Sources>,
    /// Where `run()` begins, once it is known.
    pub(crate) run: Option<SourceLine>,
    /// Its own folder.
    pub(crate) folder: PathBuf,
    /// The same as it was before the script ran, emptied when it has ended.
    pub(crate) opened: OpenFolder,
    /// Mini-batches it was given, by `seq`.
    pub(crate) in_hand: VecDeque<(u32, Ready)>,
    pub(crate) next_seq: u32,
    /// Taken-back mini-batches it has not acknowledged; nothing is given to it before.
    pub(crate) unacknowledged: usize,
    /// Mini-batches that it may have under way at once, each in a lane; absent where it runs one after the other.
    pub(crate) lanes: Option<usize>,
    /// Whether no other joins those that it has in hand.
    pub(crate) is_apart: bool,
    /// Those that it is killed for, where it has several under way.
    pub(crate) late: Vec<u32>,
    /// The `seq` that it ran at the last look, and since when.
    pub(crate) present_since: Option<(u32, Instant)>,
    /// What a mini-batch costs.
    pub(crate) cost: Option<Cost>,
    pub(crate) killed: Option<Kill>,
    /// The first mini-batch that had ended at the last look without its outcome, where it may have several under way, and since when.
    pub(crate) owed: Option<(u32, Instant)>,
    /// How it shows that its socket is broken.
    pub(crate) broken: Option<String>,
    /// Whether it has begun any mini-batch.
    pub(crate) worked: bool,
    /// Failures in a row when it became ready.
    pub(crate) failures_before: u32,
    pub(crate) init_failed: bool,
    pub(crate) hang: Hang,
    /// Version of Python, once it has said so.
    pub(crate) python: String,
    /// Mini-batches that it may run.
    pub(crate) allotted: u64,
    /// Whether it makes room because it has had what the job allows a process.
    pub(crate) is_used_up: bool,
    /// When it was told to end, or ran something last, where it makes room for another process.
    pub(crate) replaced_at: Option<Instant>,
    /// When it said that `shutdown()` has returned.
    pub(crate) said_bye: Option<Instant>,
}

impl Running {
    /// Whether it imports the script or is in `init()`.
    pub(crate) fn is_starting(&self) -> bool {
        self.stage == Stage::Starting
    }

    /// Whether it may be given mini-batches.
    pub(crate) fn takes_work(&self) -> bool {
        self.stage == Stage::Ready && self.unacknowledged == 0 && self.spare() > 0
    }

    /// Mini-batches that it may still be given.
    pub(crate) fn spare(&self) -> usize {
        let given = self.tries + self.in_hand.len() as u64;
        self.allotted.saturating_sub(given).try_into().unwrap_or(usize::MAX)
    }

    /// Whether it may be given mini-batches and has none.
    pub(crate) fn is_free(&self) -> bool {
        self.takes_work() && self.in_hand.is_empty()
    }

    /// The mini-batch that runs alone, because it may be what killed a node.
    pub(crate) fn suspect(&self) -> Option<&Ready> {
        self.in_hand.front().map(|(_, ready)| ready).filter(|ready| ready.start.is_some())
    }

    /// All it has in hand that were delivered before.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = &Ready> {
        self.in_hand.iter().map(|(_, ready)| ready).filter(|ready| ready.start.is_some())
    }

    /// Whether it has any of those.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects().next().is_some()
    }

    /// Gives it mini-batches.
    pub(crate) fn give(&mut self, batch: impl Iterator<Item = Ready>) {
        let first = self.in_hand.len();
        for ready in batch {
            self.in_hand.push_back((self.next_seq, ready));
            self.next_seq += 1;
        }
        let assigned = |(seq, ready): &(u32, Ready)| Assignment {
            seq: *seq,
            retry_count: ready.failed_tries,
            bytes: ready.local.len() as u32,
            part: ready.part().map(|part| (part.start, part.end)),
        };
        let run = ToProcess::Run(self.in_hand.range(first..).map(assigned).collect());
        let frame = encode(&run, self.in_hand.range(first..).map(|(_, ready)| &*ready.local));
        self.process.page.grant(self.next_seq - 1);
        self.process.send(frame);
    }

    /// Takes the mini-batch `seq` off it, which has ended: the first, where it runs one after the other.
    pub(crate) fn take_ended(&mut self, seq: u32) -> Option<Ready> {
        if let Some((_, ready)) = self.in_hand.pop_front_if(|(first, _)| *first == seq) {
            return Some(ready);
        }
        let place = self.in_hand.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        self.lanes.is_some().then(|| self.in_hand.remove(place)).flatten().map(|(_, ready)| ready)
    }

    /// Takes back what it has not started.
    pub(crate) fn take_back(&mut self) -> Vec<Ready> {
        let started = self.process.page.recall();
        let keep = self.in_hand.iter().take_while(|(seq, _)| *seq <= started).count();
        let back: Vec<Ready> = self.in_hand.drain(keep..).map(|(_, ready)| ready).collect();
        self.unacknowledged += back.len();
        back
    }

    /// Mini-batches given and not started.
    pub(crate) fn unstarted(&self) -> usize {
        let started = self.process.page.claim().started;
        self.in_hand.iter().rev().take_while(|(seq, _)| *seq > started).count()
    }

    /// Its phase, and since how long it lasts, but for the time in which this program was stopped.
    pub(crate) fn phase(&self) -> (Phase, Duration) {
        let (phase, since) = self.process.page.phase();
        let long = Duration::from_nanos(monotonic_ns().saturating_sub(since));
        (phase, long.saturating_sub(stopped_since(since)))
    }

    /// How long ago it ended a mini-batch, where the outcome has not come for longer than `limit`. An outcome is sent before a
    /// process waits, and where it has several under way, at once.
    pub(crate) fn owes_outcome(&self, limit: Duration) -> Option<Duration> {
        let long = if self.is_concurrent() {
            passed_since(self.owed?.1)
        } else {
            let started = self.process.page.claim().started;
            let (phase, long) = self.phase();
            let has_ended = self.in_hand.front().is_some_and(|(seq, _)| *seq <= started);
            (phase == Phase::Idle && has_ended).then_some(long)?
        };
        (long > limit).then_some(long)
    }

    /// Kills it for a socket that is of no use any more.
    pub(crate) fn break_off(&mut self, why: impl Into<String>) {
        if self.killed.is_none() {
            self.broken = Some(why.into());
        }
        self.kill(Kill::ProtocolViolation);
    }

    /// Kills it, once.
    pub(crate) fn kill(&mut self, why: Kill) {
        if self.killed.is_none() {
            self.killed = Some(why);
            // One that is too large already while it starts, or breaks its socket, has failed to.
            if !(self.is_starting() && matches!(why, Kill::Memory(_) | Kill::ProtocolViolation)) {
                self.stage = Stage::Ending;
            }
            match why {
                Kill::RunTimeout | Kill::LoadTimeout => self.process.kill_with_stack(),
                // Where Python has not begun, it would die of the question, which is no answer.
                Kill::InitTimeout if !self.python.is_empty() => self.process.kill_with_stack(),
                Kill::InitTimeout
                | Kill::Stop
                | Kill::Superseded
                | Kill::ProtocolViolation
                | Kill::Memory(_) => {
                    self.process.kill();
                }
            }
        }
    }
}
