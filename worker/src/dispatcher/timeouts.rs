//! What the dispatcher looks at every few milliseconds: timeouts, and work that waits in the wrong place.

use std::time::{Duration, Instant};

use prs_common::ledger::Signal;
use prs_common::process_page::Phase;
use prs_common::stops::passed_since;

use super::Dispatcher;
use super::ending::Ending;
use super::processes::no_outcome;
use crate::dispatcher::slot::{Kill, Running, running, running_mut};

/// A process is stuck with its mini-batch this long before others are taken from it.
const STUCK: Duration = Duration::from_millis(10);
/// How long an outcome may take to come, whatever the limit of `run()` is.
const LEAST_OUTCOME_LIMIT: Duration = Duration::from_secs(5);
/// How long a process may take to exit after `shutdown()` has returned.
const EXIT_GRACE: Duration = Duration::from_secs(3);

impl Dispatcher<'_> {
    /// Looks at timeouts, empty slots, and work that waits in the wrong place.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if let Some(Ending::InOrder(since, grace)) = self.ending
            && passed_since(since) > grace
        {
            self.with.main_log.line("processes have not ended in time and are killed");
            self.obey(Signal::Stop);
        }
        for running in running_mut(&mut self.slots) {
            if running.said_bye.is_some_and(|at| passed_since(at) > EXIT_GRACE) && running.killed.is_none() {
                let name = &running.who.name;
                self.with.main_log.line(format_args!("{name} has said good-bye and stays; it is killed"));
                running.kill(Kill::Stop);
            }
        }
        self.look_at_replaced();
        let spec = &self.launch.job.spec;
        let run_limit = Duration::from_secs(spec.run_invocation_timeout);
        let load_limit = Duration::from_secs(spec.task_overhead_timeout);
        self.look_at_concurrent(run_limit, load_limit);
        let outcome_limit = run_limit.max(LEAST_OUTCOME_LIMIT);
        for running in running_mut(&mut self.slots) {
            running.look_for_owed();
            if let Some(late) = running.owes_outcome(outcome_limit) {
                running.break_off(no_outcome(late));
            }
        }
        for running in running_mut(&mut self.slots).filter(|one| !one.is_concurrent()) {
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
        self.look_for_hanging();
        self.tell_printed(now);
        self.tell_standing(now);
        self.tell_busy(now);
        self.tell();
    }

    /// Takes mini-batches back that wait behind a long one while another process has nothing to do.
    fn rebalance(&mut self) {
        let is_one_idle = running(&self.slots).any(Running::is_free);
        if self.ending.is_some() || !self.pending.is_empty() || !is_one_idle {
            return;
        }
        for running in running_mut(&mut self.slots) {
            let (phase, long) = running.phase();
            let busy = if running.is_concurrent() {
                running.is_full()
            } else {
                matches!(phase, Phase::Loading | Phase::Running) && long > STUCK
            };
            if running.takes_work() && busy && running.unstarted() > 0 {
                self.pending.extend(running.take_back());
            }
        }
    }
}
