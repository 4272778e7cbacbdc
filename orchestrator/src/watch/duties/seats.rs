//! Seats that got free: idle workers need not wait for their next look.

use super::{Action, Situation};

pub(super) fn decide(situation: &Situation) -> Option<Action> {
    let (before, taken) = situation.memory.seats;
    (taken < before && taken < situation.spec.node_count as usize).then_some(Action::Ring)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;

    #[test]
    fn the_bell_rings_once_for_a_seat_that_got_free() {
        for (before, taken, count, rings) in
            [(2, 1, 2, true), (1, 1, 2, false), (0, 1, 2, false), (3, 2, 2, false), (1, 0, 1, true)]
        {
            let decided = Given::running().decides(decide, |given| {
                (given.memory.seats, given.spec.node_count) = ((before, taken), count);
            });
            assert_eq!(decided.is_some(), rings, "{before} {taken} of {count}");
        }
    }
}
