//! Rows that no header fits, or no columns of a Parquet file, where the job asks for one (spec E8).

use super::{Action, Situation, fail};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    situation.memory.columns_differ.as_ref().map(fail)
}

#[cfg(test)]
mod tests {
    use prs_common::end_reason::EndReason;

    use super::super::tests::Given;
    use super::*;

    #[test]
    fn a_job_fails_when_columns_differ() {
        let reason = || EndReason::NoRow;
        let decided = Given::running().decides(decide, |given| given.memory.columns_differ = Some(reason()));
        assert_eq!(decided, Some(fail(&reason())));
    }
}
