//! Failpoints: places where a program can be made to die, to stop or to panic, for tests of what happens then.
//!
//! `PRS_FAILPOINT=committed:3` kills the program, as `kill -9` would, when it passes `committed` for the third time;
//! `committed:3:stop` stops it there, as `kill -STOP` would; `committed:3:panic` panics there, and `committed:3:panics`
//! each of the first three times. Without the variable a failpoint costs one load of a pointer.

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
    fault: Fault,
}

/// What happens at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    Panic,
    /// Each time until then.
    Panics,
}

/// How long a program that was stopped and goes on stays at the place: what it was told meanwhile comes first. Another
/// thread may be the one to take the signal, and a sleep that has begun by then goes on while the program is stopped:
/// only one of these many does.
const COMES_TO: (u32, Duration) = (30, Duration::from_millis(10));

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Passes the place `name`; where that is armed, the program ends, stops or panics here.
pub fn pass(name: &str) {
    let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok().as_deref().and_then(parse));
    let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return };
    let times = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if times != armed.at && !(times < armed.at && armed.fault == Fault::Panics) {
        return;
    }
    match armed.fault {
        Fault::Kill => {
            let _ = kill_process(getpid(), Signal::KILL);
            // The signal comes at once; nothing after this place may happen before.
            loop {
                std::thread::park();
            }
        }
        Fault::Stop => {
            let _ = kill_process(getpid(), Signal::STOP);
            for _ in 0..COMES_TO.0 {
                std::thread::sleep(COMES_TO.1);
            }
        }
        Fault::Panic | Fault::Panics => panic!("{VARIABLE} says so at {name}"),
    }
}

/// `name`, `name:count`, and either with `:stop`, `:panic` or `:panics`.
fn parse(text: &str) -> Option<Armed> {
    let faults = [(":stop", Fault::Stop), (":panic", Fault::Panic), (":panics", Fault::Panics)];
    let said = faults.into_iter().find_map(|(end, fault)| Some((text.strip_suffix(end)?, fault)));
    let (text, fault) = said.unwrap_or((text, Fault::Kill));
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let at = count.parse().ok().filter(|at| *at > 0)?;
    (!name.is_empty()).then(|| Armed { name: name.to_owned(), at, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_with_a_count() {
        let armed = |name: &str, at, fault| Some(Armed { name: name.to_owned(), at, fault });
        let table = [
            ("joined", armed("joined", 1, Fault::Kill)),
            ("joined:3", armed("joined", 3, Fault::Kill)),
            ("joined:3:stop", armed("joined", 3, Fault::Stop)),
            ("joined:stop", armed("joined", 1, Fault::Stop)),
            ("joined:2:panic", armed("joined", 2, Fault::Panic)),
            ("joined:panics", armed("joined", 1, Fault::Panics)),
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
