//! The record of a job that runs in one process: commands read it to say where the job stands. On a fleet the ledger says
//! so.

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let Situation { now, memory, policy, .. } = *situation;
    (policy.record.is_some() && now.at >= memory.record_at).then_some(Action::WriteRecord)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, at};
    use super::*;
    use crate::job::policy::Policy;

    #[test]
    fn a_record_is_kept_up_to_date_where_there_is_no_server_to_ask() {
        let table =
            [(Policy::embedded(), 4, false), (Policy::embedded(), 5, true), (Policy::fleet(), 5, false)];
        for (policy, second, writes) in table {
            let decided = Given::running().decides(decide, |given| {
                (given.policy, given.now.at, given.memory.record_at) = (policy, at(second), at(5));
            });
            assert_eq!(decided.is_some(), writes, "{second}");
        }
    }
}
