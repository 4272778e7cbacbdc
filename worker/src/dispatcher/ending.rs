//! How a node ends: processes get their `shutdown()` or are killed, what was not started goes back.

use std::time::{Duration, Instant};

use prs_common::ledger::Signal;
use prs_common::wire::ToProcess;

use super::Dispatcher;
use crate::commit::outcome::Ready;
use crate::dispatcher::slot::{Kill, Stage, running_mut};
use crate::dispatcher::suspects::Ask;

/// How long processes have for `shutdown()`.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// How the node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// In order, since this moment: processes get their `shutdown()`, and so much time for it.
    InOrder(Instant, Duration),
    /// At once.
    AtOnce,
}

impl Dispatcher<'_> {
    /// Does what the job wants.
    pub(super) fn obey(&mut self, signal: Signal) {
        match signal {
            Signal::Finish if self.ending.is_none() => {
                self.ending = Some(Ending::InOrder(Instant::now(), SHUTDOWN_GRACE));
            }
            Signal::Stop => self.ending = Some(Ending::AtOnce),
            Signal::Run | Signal::Finish | Signal::Rejoin | Signal::Leave => return,
        }
        let waiting = [&mut self.pending, &mut self.suspects, &mut self.cleared];
        let waiting: Vec<Ready> = waiting.into_iter().flat_map(|waiting| waiting.drain(..)).collect();
        let apart: Vec<Ready> = self.apart.take_all().collect();
        for ready in waiting.into_iter().chain(apart) {
            self.give_back(ready);
        }
        if self.ending == Some(Ending::AtOnce) {
            self.tending.all_end.cancel();
        }
        for running in running_mut(&mut self.slots) {
            if self.ending == Some(Ending::AtOnce) {
                running.kill(Kill::Stop);
            } else if running.stage == Stage::Starting {
                let line =
                    format_args!("{} is still starting and not needed; it is killed", running.who.name);
                self.with.main_log.line(line);
                running.kill(Kill::Stop);
            } else if running.stage == Stage::Ready {
                running.stage = Stage::Ending;
                running.process.say(&ToProcess::Shutdown);
            }
        }
    }

    /// Leaves before the job ends: what runs may end, the rest goes back.
    pub(super) fn drain(&mut self) {
        self.with.main_log.line("the worker is asked to leave: what runs may end, the rest goes back");
        let mut back = Vec::new();
        for running in running_mut(&mut self.slots) {
            back.extend(running.take_back());
        }
        self.pending.extend(back);
        self.obey(Signal::Finish);
        self.ending = Some(Ending::InOrder(Instant::now(), self.launch.settings.drain));
    }

    /// Gives back a mini-batch that was not started.
    pub(super) fn give_back(&self, ready: Ready) {
        // The other end is there until this one is dropped.
        let _ = self.with.asks_tx.send(Ask::GiveBack(ready));
    }
}
