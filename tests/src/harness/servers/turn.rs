//! Limits how many tests of a program have a RabbitMQ node to themselves at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// A node that starts takes two cores for seconds.
const MAX_AT_A_TIME: u32 = 2;

static TAKEN: Mutex<u32> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// The right to start a node; given back when it is dropped. A test takes one and no second.
#[derive(Debug)]
pub(super) struct Turn(());

impl Turn {
    /// Waits until fewer than two tests have one.
    pub(super) fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = GIVEN_BACK
            .wait_while(taken, |taken| *taken >= MAX_AT_A_TIME)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GIVEN_BACK.notify_one();
    }
}
