//! What the dispatcher has to do with copies, second runs of mini-batches that take much longer than others: it tells what
//! runs long and how many processes are idle, and stops what lost against the other run of its mini-batch.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::job::JobSpec;
use prs_common::ledger::{MOST_RUNNING, RunningTry};
use prs_common::mini_batch::MiniBatchIndex;
use prs_common::process_page::Phase;

use super::Dispatcher;
use crate::commit::outcome::Ready;
use crate::dispatcher::slot::{Kill, Running, Stage, running, running_mut};
use crate::node_settings::Prefetch;

/// Between two looks at what runs long.
const INTERVAL: Duration = Duration::from_millis(250);
/// Nothing shorter is told of.
const LONG: Duration = Duration::from_secs(1);

/// Where a node stands, as far as copies go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Processes that could run a mini-batch, while none waits for one.
    pub(crate) free: usize,
    /// Mini-batches that have been running for long and may get a copy, the longest first.
    pub(crate) long: Vec<LongTry>,
    /// Mini-batches that are here as copies.
    pub(crate) copies: Vec<MiniBatchIndex>,
}

/// A try that has been under way for long.
#[derive(Debug, Clone)]
pub(crate) struct LongTry {
    pub(crate) index: MiniBatchIndex,
    pub(crate) since: Instant,
    pub(crate) failed_tries: u32,
    /// As the queue brought it.
    pub(crate) descriptor: Bytes,
}

/// What a node hears of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyNews {
    /// This mini-batch has its outcome from another run.
    Superseded(MiniBatchIndex),
    /// Copies of what runs here for long are offered: processes are idle elsewhere.
    Offered,
}

/// Whether a mini-batch of the job may get a copy at all.
fn speculates(spec: &JobSpec) -> bool {
    spec.speculation && spec.run_max_try > 1
}

/// Whether this try may get a copy.
fn may_have_copy(ready: &Ready, run_max_try: u32) -> bool {
    !ready.is_copy && allows_copy(ready.failed_tries, ready.node_losses, run_max_try)
}

/// Of two that run at once one may fail and leaves the other its try; what a node was lost with runs on one alone.
fn allows_copy(failed_tries: u32, node_losses: u32, run_max_try: u32) -> bool {
    node_losses == 0 && run_max_try.saturating_sub(failed_tries) >= 2
}

impl Running {
    /// The mini-batch that it runs, and since when; nothing where it has several under way, which one cannot be stopped for.
    pub(super) fn present_try(&mut self, now: Instant) -> Option<(&Ready, Instant)> {
        let started = self.process.page.claim().started;
        let (phase, long) = self.phase();
        if self.lanes.is_some()
            || self.stage != Stage::Ready
            || !matches!(phase, Phase::Loading | Phase::Running)
        {
            return None;
        }
        // The phase begins anew after the data was read; the try does not.
        let begun = now.checked_sub(long).unwrap_or(now);
        let since =
            self.present_since.filter(|(seq, _)| *seq == started).map_or(begun, |(_, at)| at.min(begun));
        self.present_since = Some((started, since));
        let (_, ready) = self.in_hand.iter().find(|(seq, _)| *seq == started)?;
        Some((ready, since))
    }
}

impl Dispatcher<'_> {
    /// Tells now and then what runs long, and how many processes are idle.
    pub(super) fn tell_standing(&mut self, now: Instant) {
        let spec = &self.launch.job.spec;
        let is_due = self.stood_at.is_none_or(|at| now.saturating_duration_since(at) >= INTERVAL);
        if !is_due || !speculates(spec) {
            return;
        }
        self.stood_at = Some(now);
        let waits = [&self.pending, &self.suspects, &self.cleared].iter().any(|waiting| !waiting.is_empty());
        let takes_more = self.ending.is_none() && !waits && self.clearing == 0;
        let free = if takes_more { running(&self.slots).filter(|one| one.is_free()).count() } else { 0 };
        let in_hand = running(&self.slots).flat_map(|one| &one.in_hand).map(|(_, ready)| ready);
        let here = in_hand.chain(&self.pending);
        let copies = here.filter(|ready| ready.is_copy).map(|ready| ready.index).collect();
        let mut long: Vec<LongTry> = running_mut(&mut self.slots)
            .filter_map(|running| running.present_try(now))
            .filter(|(ready, since)| now - *since >= LONG && may_have_copy(ready, spec.run_max_try))
            .map(|(ready, since)| LongTry {
                index: ready.index,
                since,
                failed_tries: ready.failed_tries,
                descriptor: ready.delivery.body.clone(),
            })
            .collect();
        long.sort_by_key(|one| (one.since, one.index));
        long.truncate(MOST_RUNNING);
        let told =
            |one: &LongTry| RunningTry { index: one.index, age_ms: (now - one.since).as_millis() as u64 };
        let running = long.iter().map(told).collect();
        self.with.report_tx.send_modify(|report| {
            report.free_processes = free as u32;
            report.running = running;
        });
        self.with.standing_tx.send_replace(Standing { free, long, copies });
    }

    /// Does what news of copies ask for.
    pub(super) fn hear_of_copies(&mut self, news: CopyNews) {
        match news {
            CopyNews::Superseded(index) => self.superseded(index),
            CopyNews::Offered => self.release_waiting(),
        }
    }

    /// Gives back what waits here behind mini-batches that run for long, while processes are idle elsewhere; and takes no
    /// more than it can run.
    fn release_waiting(&mut self) {
        let is_one_idle = running(&self.slots).any(Running::is_free);
        let can_others = self.launch.job.policy.has_others;
        if !can_others || is_one_idle || self.ending.is_some() {
            return;
        }
        let Prefetch::UpTo(most) = self.launch.settings.prefetch else { return };
        let now = Instant::now();
        for running in running_mut(&mut self.slots) {
            let is_long = running.present_try(now).is_some_and(|(_, since)| now - since >= LONG);
            if is_long && running.takes_work() && running.unstarted() > 0 {
                self.pending.extend(running.take_back());
            }
        }
        let waiting = [&mut self.pending, &mut self.suspects, &mut self.cleared];
        let waiting = waiting.into_iter().flat_map(std::mem::take);
        let stays = |ready: &Ready| ready.is_copy || ready.splitting.is_some();
        let (staying, waiting): (Vec<_>, Vec<_>) = waiting.partition(stays);
        for ready in staying {
            if ready.splitting.is_some() {
                self.retry(ready);
            } else {
                self.pending.push_back(ready);
            }
        }
        if waiting.is_empty() {
            return;
        }
        self.with.main_log.line(format_args!(
            "{} mini-batches wait behind what runs for long, and go back: others have nothing to do",
            waiting.len()
        ));
        self.with.prefetch.store(self.slots.len().min(most), Ordering::Relaxed);
        for ready in waiting {
            self.give_back(ready);
        }
    }

    /// A mini-batch has its outcome from another run: what is here of it is not needed, and blames nobody.
    fn superseded(&mut self, index: MiniBatchIndex) {
        for running in running_mut(&mut self.slots) {
            let given = running.in_hand.iter().find(|(_, ready)| ready.index == index);
            let Some(seq) = given.map(|(seq, _)| *seq) else { continue };
            // From here on it starts no other.
            self.pending.extend(running.take_back());
            if running.process.page.claim().started == seq && running.killed.is_none() {
                self.with.main_log.line(format_args!(
                    "{} runs mini-batch {index}, whose outcome another run of it brought; it is stopped",
                    running.who.name
                ));
                running.kill(Kill::Superseded);
            }
        }
        for waiting in [&mut self.pending, &mut self.suspects, &mut self.cleared] {
            let (done, open) =
                std::mem::take(waiting).into_iter().partition::<Vec<_>, _>(|ready| ready.index == index);
            *waiting = open.into();
            for ready in done {
                // What is not acknowledged is delivered again, and found done.
                let _ = ready.delivery.ack();
            }
        }
    }

    /// Every mini-batch of the job has its outcome: what still runs is not needed, and nobody waits for it.
    pub(super) fn all_superseded(&mut self) {
        for running in running_mut(&mut self.slots).filter(|one| !one.in_hand.is_empty()) {
            self.pending.extend(running.take_back());
            if !running.in_hand.is_empty() && running.killed.is_none() {
                let line = format_args!("{} runs what has its outcome; it is stopped", running.who.name);
                self.with.main_log.line(line);
                running.kill(Kill::Superseded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_needs_a_try_of_its_own() {
        for (failed_tries, node_losses, run_max_try, allowed) in [
            (0, 0, 1, false),
            (0, 0, 2, true),
            (1, 0, 2, false),
            (1, 0, 3, true),
            (2, 0, 3, false),
            (0, 1, 9, false),
        ] {
            let allows = allows_copy(failed_tries, node_losses, run_max_try);
            assert_eq!(allows, allowed, "{failed_tries} {node_losses} {run_max_try}");
        }
    }
}
