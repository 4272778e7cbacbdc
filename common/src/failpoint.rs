//! Failpoints: places where a program can be made to die or to stop, for tests of what happens then.
//!
//! `PRS_FAILPOINT=committed:3` kills the program, as `kill -9` would, when it comes to `committed` for the third time;
//! `committed:3:stop` stops it there, as `kill -STOP` would. Without the variable a failpoint costs one load of a
//! pointer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// Names the place, how often it is passed first, and what happens there.
const VARIABLE: &str = "PRS_FAILPOINT";

/// A place that is armed.
#[derive(Debug, PartialEq, Eq)]
struct Armed {
    name: String,
    at: u64,
    stops: bool,
}

/// How long a program that was stopped and goes on stays at the place: what it was told meanwhile comes first.
const COMES_TO: Duration = Duration::from_millis(300);

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Comes to the place `name`; where that is armed, the program ends here.
pub fn pass(name: &str) {
    let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok().as_deref().and_then(parse));
    let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 != armed.at {
        return;
    }
    if armed.stops {
        let _ = kill_process(getpid(), Signal::STOP);
        std::thread::sleep(COMES_TO);
    } else {
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal comes at once; nothing after this place may happen before.
        loop {
            std::thread::park();
        }
    }
}

/// `name`, `name:count` or `name:count:stop`.
fn parse(text: &str) -> Option<Armed> {
    let (text, stops) = text.strip_suffix(":stop").map_or((text, false), |text| (text, true));
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let at = count.parse().ok().filter(|at| *at > 0)?;
    (!name.is_empty()).then(|| Armed { name: name.to_owned(), at, stops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_with_a_count() {
        let armed = |name: &str, at, stops| Some(Armed { name: name.to_owned(), at, stops });
        let table = [
            ("joined", armed("joined", 1, false)),
            ("joined:3", armed("joined", 3, false)),
            ("joined:3:stop", armed("joined", 3, true)),
            ("joined:stop", armed("joined", 1, true)),
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
