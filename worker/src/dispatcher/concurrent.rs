//! Processes that have several mini-batches under way at once: an `async def run`, or a streaming script (spec E17).
//!
//! What is given to them, when one of them is killed for taking too long, and what becomes of all that it had under way
//! when it dies. Who is to blame then is decided in `blame`. Processes of a plain `run` have nothing to do with this file.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use prs_common::mini_batch::MiniBatchIndex;
use prs_common::process_page::{InFlight, Phase, monotonic_ns};
use prs_common::stops::stopped_since;

use super::Dispatcher;
use super::blame::{Blame, Look, TooLong, of_death};
use super::ended_tries::Death;
use super::processes::KILLED;
use crate::commit::outcome::Ready;
use crate::dispatcher::batch_size;
use crate::dispatcher::placing::Place;
use crate::dispatcher::slot::{Kill, Running, running, running_mut};
use crate::process::stack::Stack;

/// Mini-batches that run apart from others.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Groups that wait for a process of their own.
    groups: VecDeque<Vec<Ready>>,
    /// Those that killed their process, or had to be killed with it: their next tries here run alone.
    alone: std::collections::HashSet<MiniBatchIndex>,
}

impl Apart {
    /// How many mini-batches wait.
    pub(super) fn count(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Takes out all that wait.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Ready> {
        std::mem::take(&mut self.groups).into_iter().flatten()
    }
}

impl Running {
    /// Whether it may have several mini-batches under way at once.
    pub(super) fn is_concurrent(&self) -> bool {
        self.lanes.is_some()
    }

    /// How many it may have under way at once.
    fn concurrency(&self) -> usize {
        self.lanes.unwrap_or(1)
    }

    /// Whether others may join those that it has in hand.
    fn takes_company(&self) -> bool {
        self.takes_work() && (self.in_hand.is_empty() || !self.is_apart)
    }

    /// How many more it may have under way now, in company.
    fn open_lanes(&self) -> usize {
        if self.takes_company() {
            self.concurrency().saturating_sub(self.in_hand.len()).min(self.spare())
        } else {
            0
        }
    }

    /// Whether it may have one more under way now, in company.
    pub(super) fn has_open_lane(&self) -> bool {
        self.open_lanes() > 0
    }

    /// Whether all its lanes are taken, so that the rest of what it has in hand waits.
    pub(super) fn is_full(&self) -> bool {
        self.in_hand.len() - self.unstarted() >= self.concurrency()
    }

    /// Gives it a group that no other joins.
    fn give_apart(&mut self, group: Vec<Ready>) {
        self.give(group.into_iter());
        self.is_apart = true;
    }

    /// What of that which it has in hand is under way, in the order of `seq`. What has ended, and whose outcome did not get
    /// through, is none of it.
    pub(super) fn under_way(&self) -> Vec<InFlight> {
        let mut in_flight = self.process.page.in_flight();
        in_flight.retain(|one| self.in_hand.binary_search_by_key(&one.seq, |(seq, _)| *seq).is_ok());
        in_flight.sort_unstable_by_key(|one| one.seq);
        in_flight
    }

    /// What of that which it has in hand has ended without its outcome, in the order of `seq`. An outcome that was sent is about to
    /// come.
    fn without_outcome(&self) -> Vec<u32> {
        let (started, under_way) = (self.process.page.claim().started, self.under_way());
        let seqs = self.in_hand.iter().map(|(seq, _)| *seq).take_while(|seq| *seq <= started);
        seqs.filter(|seq| under_way.iter().all(|one| one.seq != *seq)).collect()
    }

    /// Notes what has ended without its outcome, where it may have several under way.
    pub(super) fn look_for_owed(&mut self) {
        if !self.is_concurrent() {
            return;
        }
        let first = self.without_outcome().first().copied();
        let known = self.owed.filter(|(seq, _)| first == Some(*seq));
        self.owed = known.or_else(|| first.map(|seq| (seq, Instant::now())));
    }

    /// Why it must be killed, if it must.
    fn too_long(&self, run_limit: Duration, load_limit: Duration) -> Option<TooLong> {
        let page = &self.process.page;
        // As if what was under way had begun later: this program was stopped meanwhile, and perhaps the process with it.
        let later = |since_ns: u64| since_ns + stopped_since(since_ns).as_nanos() as u64;
        let mut in_flight = self.under_way();
        for one in &mut in_flight {
            one.since_ns = later(one.since_ns);
        }
        let look = Look {
            in_flight: &in_flight,
            step: page.step().map(|(seq, since_ns)| (seq, later(since_ns))),
            sign_of_life_ns: page.last_sign_of_life(),
            now_ns: monotonic_ns(),
        };
        look.too_long(run_limit, load_limit)
    }
}

impl Dispatcher<'_> {
    /// Mini-batches that a process of the node may have under way at once.
    pub(super) fn concurrency(&self) -> usize {
        running(&self.slots).map(Running::concurrency).max().unwrap_or(1)
    }

    /// Gives mini-batches to processes that have too few.
    pub(super) fn feed_concurrent(&mut self, mut room: usize) {
        self.feed_apart();
        self.feed_cleared();
        self.begin_suspect(Running::has_open_lane);
        // What has to be apart needs a process that has nothing.
        let mut kept_free = self.apart.groups.len() + usize::from(self.waits_for_a_process_of_its_own());
        let suspects_wait = !self.suspects.is_empty() || !self.cleared.is_empty() || self.clearing > 0;
        let sharing = running(&self.slots).count();
        let mut places: Vec<&mut Running> =
            running_mut(&mut self.slots).filter(|one| one.takes_company()).collect();
        places.sort_by_key(|one| one.in_hand.len());
        for running in places {
            if self.pending.is_empty() {
                break;
            }
            if kept_free > 0 {
                kept_free -= 1;
                continue;
            }
            let (at_hand, waiting) = (running.in_hand.len(), self.pending.len());
            let lanes = running.concurrency();
            let mut count = batch_size::more_at_once(running.cost, at_hand, waiting, sharing, room, lanes);
            count = count.min(running.spare());
            if suspects_wait {
                // A lane stays open for them, and nothing waits for it.
                count = count.min(running.open_lanes().saturating_sub(1));
            }
            if count > 0 {
                room = room.saturating_sub(running.cost.map_or(0, |cost| cost.rows * count));
                running.is_apart = false;
                running.give(self.pending.drain(..count));
            }
        }
    }

    /// Groups get a process of their own.
    fn feed_apart(&mut self) {
        while let Some(group) = self.apart.groups.pop_front() {
            let Some(running) = running_mut(&mut self.slots).find(|running| running.is_free()) else {
                self.apart.groups.push_front(group);
                return;
            };
            running.give_apart(group);
        }
    }

    /// Suspects whose start is noted run in company, as there may be many of them (a node was lost with all it had under
    /// way), but for those that a node was lost with before.
    fn feed_cleared(&mut self) {
        let mut waiting = VecDeque::new();
        while let Some(next) = self.cleared.pop_front() {
            let is_alone = next.node_losses > 0;
            if is_alone && running(&self.slots).any(Running::has_suspects) {
                self.cleared.push_front(next);
                break;
            }
            if !is_alone && self.apart.alone.contains(&next.index) {
                self.apart.groups.push_back(vec![next]);
                self.feed_apart();
                continue;
            }
            let has_room = if is_alone { Running::is_free } else { Running::has_open_lane };
            let Place::Give(position) = self.place(&next, has_room) else {
                waiting.push_back(next);
                continue;
            };
            self.give(position, next);
            if let Some(running) = &mut self.slots[position].running {
                running.is_apart = is_alone;
            }
        }
        waiting.append(&mut self.cleared);
        self.cleared = waiting;
    }

    fn waits_for_a_process_of_its_own(&self) -> bool {
        self.cleared.front().is_some_and(|next| next.node_losses > 0)
    }

    /// Kills processes with mini-batches that take too long and do not end when their task is cancelled.
    pub(super) fn look_at_concurrent(&mut self, run_limit: Duration, load_limit: Duration) {
        let mut lines = Vec::new();
        for running in running_mut(&mut self.slots).filter(|one| one.is_concurrent() && one.killed.is_none())
        {
            let Some(too_long) = running.too_long(run_limit, load_limit) else { continue };
            self.pending.extend(running.take_back());
            let (why, late) = match too_long {
                TooLong::Run(late) => (Kill::RunTimeout, late),
                TooLong::Load(seq) => (Kill::LoadTimeout, vec![seq]),
                TooLong::Held => {
                    lines.push(format!(
                        "{} does not go on: what holds it is not known; it is killed",
                        running.who.name
                    ));
                    (Kill::RunTimeout, Vec::new())
                }
            };
            running.late = late;
            running.kill(why);
        }
        for line in lines {
            self.with.main_log.line(line);
        }
    }

    /// What becomes of the mini-batches of a process that has ended: the tries of those to blame have failed, those of which
    /// one may be to blame run again apart, and the rest anywhere.
    pub(super) fn part(&mut self, running: &mut Running, returncode: i32, stack: &Stack) {
        let under_way = running.under_way();
        let mut seqs: Vec<u32> = under_way.iter().map(|one| one.seq).collect();
        let is_broken = running.broken.is_some();
        if is_broken || (running.killed.is_none() && returncode == KILLED) {
            // What broke its socket may have ended since.
            seqs.extend(running.without_outcome());
            seqs.sort_unstable();
        }
        let started = running.process.page.claim().started;
        let blame = if matches!(running.killed, Some(Kill::Stop | Kill::Superseded)) {
            Blame::default()
        } else if running.late.is_empty() {
            let step = running.process.page.step().map(|(seq, _)| seq);
            let blame = of_death(&seqs, step, running.is_apart);
            let is_known = |seq: &u32| is_broken || under_way.iter().any(|one| one.seq == *seq);
            let (blamed, ended) = blame.blamed.into_iter().partition(is_known);
            // One that had ended is not to blame for a death by itself; apart from others it shows whether it broke the socket.
            let groups = Some(ended).filter(|ended: &Vec<u32>| !ended.is_empty());
            Blame { blamed, groups: blame.groups.into_iter().chain(groups).collect() }
        } else {
            Blame { blamed: std::mem::take(&mut running.late), groups: Vec::new() }
        };
        running.worked |= !seqs.is_empty();
        if !blame.groups.is_empty() && self.ending.is_none() {
            let (count, parts) = (seqs.len(), blame.groups.len());
            let name = &running.who.name;
            self.with.main_log.line(format_args!(
                "{name} had {count} mini-batches under way, and any of them may have ended it: none is blamed, they run again in {parts} parts"
            ));
        }
        let now_ns = monotonic_ns();
        let place_of = |seq| blame.groups.iter().position(|group| group.contains(&seq));
        let mut groups: Vec<Vec<Ready>> = blame.groups.iter().map(|_| Vec::new()).collect();
        let known: HashMap<u32, InFlight> = under_way.into_iter().map(|one| (one.seq, one)).collect();
        for (seq, ready) in std::mem::take(&mut running.in_hand).into_iter().rev() {
            if seq == started && running.killed == Some(Kill::Superseded) {
                // What is not acknowledged is delivered again, and found done.
                let _ = ready.delivery.ack();
            } else if blame.blamed.contains(&seq) {
                self.apart.alone.insert(ready.index);
                let one = known.get(&seq);
                let death = Death {
                    returncode,
                    phase: one.map_or(Phase::Running, |one| one.phase),
                    long: one.map_or(Duration::ZERO, |one| {
                        Duration::from_nanos(now_ns.saturating_sub(one.since_ns))
                    }),
                    items: one.map_or(0, |one| one.items),
                    stack: stack.clone(),
                };
                let outcome = self.ended_tries().died(running, seq, ready, death);
                let _ = self.with.outcomes_tx.send(outcome);
            } else if self.ending.is_some() {
                self.give_back(ready);
            } else if let Some(place) = place_of(seq) {
                groups[place].insert(0, ready);
            } else {
                self.hand_on(ready);
            }
        }
        for group in groups.into_iter().rev() {
            self.apart.groups.push_front(group);
        }
    }
}
