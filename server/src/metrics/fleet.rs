//! The figures of the fleet: what targets want and have, how their jobs ended, and the servers behind this one.

use std::collections::{BTreeMap, HashSet};

use prs_common::ledger::JobState;
use prs_jobs::fleet::{EndKind, TargetView};

use super::families::{Dependency, Ended, InState, Target};
use super::{Metrics, OTHER};
use crate::servers::Seen;

/// Targets with labels of their own; what more there are is summed up as [`OTHER`].
const MOST_TARGETS: usize = 100;
/// How jobs end.
const ENDS: [(JobState, bool); 4] = [
    (JobState::Completed, true),
    (JobState::Completed, false),
    (JobState::Failed, false),
    (JobState::Canceled, false),
];

/// A fleet at one moment. What cannot be had is nothing.
#[derive(Debug)]
pub(crate) struct Fleet<'a> {
    /// What each target wants and has.
    pub(crate) targets: Option<&'a [TargetView]>,
    /// How many jobs ended, by how.
    pub(crate) ended: Option<&'a BTreeMap<EndKind, u64>>,
    /// The servers.
    pub(crate) servers: &'a Seen,
}

impl Metrics {
    /// Sets the figures of a fleet.
    pub(super) fn tell_fleet(&self, fleet: &Fleet<'_>) {
        let targets = fleet.targets.unwrap_or_default();
        for (at, target) in targets.iter().enumerate() {
            self.tell_target(if at < MOST_TARGETS { &target.target } else { OTHER }, target);
        }
        if let Some(ended) = fleet.ended {
            self.tell_ended(targets, ended);
        }
        for server in &fleet.servers.all {
            let dependency = Dependency { dependency: server.dependency.as_str() };
            self.families.dependency.get_or_create(&dependency).set(i64::from(server.reachable));
            let room = &server.room;
            for (family, value) in [
                (&self.families.dead_messages, room.dead_messages),
                (&self.families.ledger_memory, room.memory_bytes),
                (&self.families.ledger_limit, room.memory_limit_bytes),
            ] {
                if let Some(value) = value {
                    family.get_or_create(&[]).set(value as i64);
                }
            }
        }
    }

    fn tell_target(&self, name: &str, of: &TargetView) {
        let target = || Target { target: name.to_owned() };
        let families = &self.families;
        for (family, value) in [
            (&families.wanted, of.wanted_nodes),
            (&families.asked, of.asked_nodes),
            (&families.live, of.live_nodes),
            (&families.waiting, of.waiting_mini_batches),
            (&families.in_hand, of.in_flight_mini_batches),
            (&families.unwatched, of.unwatched_jobs),
        ] {
            family.get_or_create(&target()).inc_by(value as i64);
        }
        let in_state = |state: &'static str| InState { target: name.to_owned(), state };
        for (state, workers) in [
            ("idle", of.idle_workers),
            ("serving", of.serving_workers),
            ("draining", of.draining_workers),
            ("silent", of.silent_workers),
        ] {
            families.workers.get_or_create(&in_state(state)).inc_by(workers as i64);
        }
        for (state, jobs) in &of.jobs_by_state {
            families.jobs.get_or_create(&in_state(state)).inc_by(*jobs as i64);
        }
        for (family, value) in [
            (&families.oldest_wait, of.oldest_wait_seconds),
            (&families.progress_age, of.progress_age_seconds),
        ] {
            let known = family.get_or_create_owned(&target());
            known.set(known.get().max(value));
        }
    }

    /// Each end of a known target is there from 0 on, so that an increase shows the first one.
    fn tell_ended(&self, targets: &[TargetView], ended: &BTreeMap<EndKind, u64>) {
        let mut named: HashSet<&str> = targets.iter().take(MOST_TARGETS).map(|of| &*of.target).collect();
        for EndKind { target, .. } in ended.keys() {
            if named.len() < MOST_TARGETS {
                named.insert(target);
            }
        }
        let labels = |target: &str, (state, is_complete): (JobState, bool)| Ended {
            target: target.to_owned(),
            state: state.as_str(),
            complete: if is_complete { "true" } else { "false" },
        };
        for target in &named {
            for end in ENDS {
                drop(self.families.ended.get_or_create(&labels(target, end)));
            }
        }
        for (EndKind { target, state, is_complete }, count) in ended {
            let target = if named.contains(&**target) { target } else { OTHER };
            self.families.ended.get_or_create(&labels(target, (*state, *is_complete))).inc_by(*count);
        }
    }
}
