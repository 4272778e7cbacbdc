//! Mini-batches that failed here and run here again, and processes that make room for a fresh one.

use std::time::{Duration, Instant};

use prs_common::mini_batch::{MiniBatchIndex, id_of};
use prs_common::process_page::Phase;
use prs_common::stops::passed_since;
use prs_common::wire::ToProcess;

use super::Dispatcher;
use super::ending::SHUTDOWN_GRACE;
use crate::commit::outcome::Ready;
use crate::dispatcher::placing::{Availability, Candidate, Place, WaitingTry};
use crate::dispatcher::slot::{Hang, Kill, Running, Slot, Stage, running, running_mut};
use crate::dispatcher::suspects::Ask;
use crate::perf::family::memory_of;

/// Suspects that are looked at for one that a process has room for.
const LOOKED_AT: usize = 64;

impl Slot {
    /// Describes it to a try that looks for a process; `None` if its processes hang in `init()`.
    fn candidate(&self, position: usize, has_room: fn(&Running) -> bool) -> Option<Candidate> {
        let (number, availability) = match &self.running {
            _ if self.hung => return None,
            Some(one) if one.is_starting() && one.hang != Hang::No => return None,
            Some(one) if one.stage == Stage::Ready && has_room(one) => (Some(one.number), Availability::Free),
            Some(one) if one.stage == Stage::Ready => (Some(one.number), Availability::Busy(one.busy_for())),
            _ => (None, Availability::Coming),
        };
        let is_doubtful =
            number.is_some() && self.running.as_ref().is_some_and(|one| one.failed_in_a_row.is_any());
        Some(Candidate { position, number, availability, is_doubtful })
    }
}

impl Running {
    /// Time that its present mini-batch has taken so far; zero before it has begun one.
    fn busy_for(&self) -> Duration {
        match self.phase() {
            (Phase::Loading | Phase::Running, long) => long,
            _ => Duration::ZERO,
        }
    }
}

impl Dispatcher<'_> {
    /// Takes in a mini-batch that failed here and is to run here again, all of it or the next part. The start of one that
    /// is being split stays noted until all parts have ended.
    pub(super) fn retry(&mut self, ready: Ready) {
        if self.ending.is_some() {
            self.give_back(ready);
        } else if ready.start.is_some() {
            self.cleared.push_back(ready);
        } else {
            self.suspects.push_back(ready);
        }
    }

    /// Decides which process runs a suspect, of those that `has_room` finds to have some for it.
    pub(super) fn place(&self, ready: &Ready, has_room: fn(&Running) -> bool) -> Place {
        let slots = self.slots.iter().enumerate();
        let candidates: Vec<_> =
            slots.filter_map(|(position, slot)| slot.candidate(position, has_room)).collect();
        // One of several tries of a process says little of it, and the others would have to end first.
        let is_concurrent = running(&self.slots).any(Running::is_concurrent);
        let is_part = ready.splitting.is_some();
        // A part goes to any process where that is borne, or to be found out, and has as many replacements as parts can fail.
        let is_for_any = is_part && (self.is_borne(ready) || !ready.is_careful());
        let replaceable = !is_concurrent && !is_for_any;
        let (is_usable, is_allowed) = (self.is_usable(), is_part || self.has_replacements_left());
        let is_last = ready.failed_tries > 0 && ready.failed_tries + 1 >= self.launch.job.spec.run_max_try;
        let waiting = WaitingTry {
            failed_in: if is_for_any { &[] } else { &ready.failed_in },
            may_replace: replaceable && (is_usable || is_allowed),
            may_renew: replaceable && is_last && is_allowed,
        };
        waiting.place(&candidates)
    }

    /// Whether a process of the job has shown that it can run its mini-batches.
    fn is_usable(&self) -> bool {
        self.has_succeeded || self.with.heard_rx.borrow().has_succeeded
    }

    fn has_replacements_left(&self) -> bool {
        let live_nodes = self.with.heard_rx.borrow().live_nodes;
        self.replacements.allow(Instant::now(), live_nodes, self.is_usable())
    }

    /// Whether a process is known to go on after the mini-batch failed in it.
    fn is_borne(&self, ready: &Ready) -> bool {
        running(&self.slots).any(|one| one.failed_in_a_row.has_survived(ready.index))
    }

    /// Gives a suspect to the process in a slot.
    pub(super) fn give(&mut self, position: usize, mut ready: Ready) {
        let running = self.slots[position].running.as_ref();
        let is_doubtful = running.is_some_and(|one| one.failed_in_a_row.is_any());
        // Where nothing is split, nobody needs to know.
        let is_in_doubt = is_doubtful && ready.splitting.is_some() && !self.is_borne(&ready);
        if let Some(splitting) = &mut ready.splitting {
            splitting.begin_part(is_in_doubt);
        }
        match &mut self.slots[position].running {
            Some(running) => running.give(std::iter::once(ready)),
            None => self.hand_on(ready),
        }
    }

    /// Has the start of the next suspect noted that a process has room for.
    pub(super) fn begin_suspect(&mut self, has_room: fn(&Running) -> bool) {
        let waits = self.cleared.len() >= self.slots.len() * self.concurrency();
        let mut noted = running(&self.slots).flat_map(Running::suspects).chain(&self.cleared);
        let is_one_alone = noted.any(|suspect| suspect.node_losses > 0);
        drop(noted);
        if self.clearing > 0 || waits || is_one_alone || !running(&self.slots).any(has_room) {
            return;
        }
        let looked_at = 0..self.suspects.len().min(LOOKED_AT);
        let mut placed = looked_at.map(|at| (at, self.place(&self.suspects[at], has_room)));
        let found = placed.find(|(_, place)| *place != Place::Wait);
        match found {
            Some((at, Place::Replace(position))) => self.replace_for(position, self.suspects[at].index),
            Some((at, Place::Renew(position))) => self.renew_for(position, self.suspects[at].index),
            Some((at, Place::Give(position))) => {
                let Some(suspect) = self.suspects.remove(at) else { return };
                self.kept_for = self.slots[position].running.as_ref().map(|one| one.number);
                self.clearing += 1;
                let _ = self.with.asks_tx.send(Ask::Begin(suspect));
            }
            _ => {}
        }
    }

    /// Makes room for a fresh process that runs a mini-batch which failed in the only one.
    pub(super) fn replace_for(&mut self, position: usize, index: MiniBatchIndex) {
        if !self.is_usable() {
            self.replacements.count(Instant::now(), false);
        }
        let why = format!("{} failed in it, and runs again in a fresh one", id_of(index));
        self.replace(position, &why);
    }

    /// Makes room for a fresh process that runs the last try of a mini-batch, where it failed in all others, or they are in
    /// doubt.
    pub(super) fn renew_for(&mut self, position: usize, index: MiniBatchIndex) {
        self.replacements.count(Instant::now(), self.is_usable());
        let why = format!("the last try of {} is for a process that nothing failed in", id_of(index));
        self.replace(position, &why);
    }

    /// Replaces a process that fails one mini-batch after the other while others succeed.
    pub(super) fn replace_broken(&mut self, position: usize) {
        let Some(running) = &self.slots[position].running else { return };
        let failed = &running.failed_in_a_row;
        if running.stage == Stage::Ready
            && failed.ask_for_another(self.is_usable(), self.has_replacements_left())
        {
            self.replacements.count(Instant::now(), true);
            self.replace(position, "mini-batches failed in it one after the other, and others succeed");
        }
    }

    /// Gives a process nothing more that has as much memory as the job allows one.
    pub(super) fn look_at_memory_of(&mut self, position: usize) {
        let Some(most) = self.launch.job.spec.max_memory_per_process else { return };
        let Some(running) = &mut self.slots[position].running else { return };
        if running.stage != Stage::Ready || running.spare() == 0 {
            return;
        }
        let memory = memory_of(running.process.pid);
        if memory >= most {
            running.allotted = 0;
            let [memory, most] = [memory, most].map(|bytes| bytes >> 20);
            self.with.main_log.line(format_args!(
                "{} has {memory} MiB of memory; max_memory_per_process is {most} MiB",
                running.who.name
            ));
            let back = running.take_back();
            self.hand_on_all(back);
        }
    }

    /// Gives others what a process has not begun.
    fn hand_on_all(&mut self, back: impl IntoIterator<Item = Ready, IntoIter: DoubleEndedIterator>) {
        for ready in back.into_iter().rev() {
            self.hand_on(ready);
        }
    }

    /// Ends processes that have had what the job allows one, where there is work for fresh ones.
    pub(super) fn replace_used_up(&mut self) {
        if self.pending.is_empty()
            && self.suspects.is_empty()
            && self.cleared.is_empty()
            && self.apart.count() == 0
        {
            return;
        }
        for position in 0..self.slots.len() {
            let Some(running) = &mut self.slots[position].running else { continue };
            let has_ended = running.in_hand.is_empty() && running.unacknowledged == 0;
            if running.stage == Stage::Ready && has_ended && running.spare() == 0 {
                running.is_used_up = true;
                let why = match running.allotted {
                    0 => "it has the memory that max_memory_per_process allows one".to_owned(),
                    most => format!("it has run {most} mini-batches (max_mini_batches_per_process)"),
                };
                self.replace(position, &why);
            }
        }
    }

    /// Ends a process in order, after what it has begun, so that a fresh one takes its slot.
    fn replace(&mut self, position: usize, why: &str) {
        let Some(running) = &mut self.slots[position].running else { return };
        self.with.main_log.line(format_args!("{} is replaced: {why}", running.who.name));
        let back = running.take_back();
        running.stage = Stage::Ending;
        running.replaced_at = Some(Instant::now());
        running.process.say(&ToProcess::Shutdown);
        self.hand_on_all(back);
    }

    /// Kills processes that are to make room and do not end in time.
    pub(super) fn look_at_replaced(&mut self) {
        for running in running_mut(&mut self.slots) {
            let Some(since) = running.replaced_at else { continue };
            if !running.in_hand.is_empty() {
                running.replaced_at = Some(Instant::now());
            } else if passed_since(since) > SHUTDOWN_GRACE && running.killed.is_none() {
                let name = &running.who.name;
                self.with.main_log.line(format_args!("{name} has not ended in time; it is killed"));
                running.kill(Kill::Stop);
            }
        }
    }
}
