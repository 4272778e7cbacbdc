//! Failpoints: places where a program can be made to die, for tests of what happens then.
//!
//! `PRS_FAILPOINT=committed:3` kills the program, as `kill -9` would, when it comes to `committed` for the third time.
//! Without the variable a failpoint costs one load of a pointer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// Names the place, and how often it is passed first.
const VARIABLE: &str = "PRS_FAILPOINT";

/// A place that is armed.
#[derive(Debug, PartialEq, Eq)]
struct Armed {
    name: String,
    at: u64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Comes to the place `name`; where that is armed, the program ends here.
pub fn pass(name: &str) {
    let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok().as_deref().and_then(parse));
    let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == armed.at {
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal comes at once; nothing after this place may happen before.
        loop {
            std::thread::park();
        }
    }
}

/// `name` or `name:count`.
fn parse(text: &str) -> Option<Armed> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let at = count.parse().ok().filter(|at| *at > 0)?;
    (!name.is_empty()).then(|| Armed { name: name.to_owned(), at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_with_a_count() {
        let armed = |name: &str, at| Some(Armed { name: name.to_owned(), at });
        let table = [
            ("joined", armed("joined", 1)),
            ("joined:3", armed("joined", 3)),
            ("", None),
            (":2", None),
            ("joined:0", None),
            ("joined:x", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
