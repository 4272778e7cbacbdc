//! The offer of the job to workers: a ledger that was lost does not know it, and the same offer again changes nothing.

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    situation.now.upkeep.as_ref().map(|_| Action::Offer)
}
