//! Ctrl-C, SIGTERM and SIGHUP, heard from the start of the program to its end.
//!
//! A command that ends in its own way catches them ([`Signals`]). Any other ends at once, also one that is busy and looks at
//! nothing. A signal that was ignored when the program was started, as `nohup` and shells have it, stays ignored.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use prs_jobs::{Interrupt, Interrupts};
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::output::{self, Format};
use crate::failure::{Code, Failure};

/// A command has this long to end by itself once it is told to for sure.
const LIMIT: Duration = Duration::from_secs(5);
/// A SIGTERM or SIGHUP that follows another so soon is the same wish: the system may tell the death of a parent once for each
/// thread of it, and service managers send both.
const ECHO: Duration = Duration::from_secs(1);
/// Wishes that a command has not looked at yet; a person who wants the end once more does not wait for it.
const UNHEARD: usize = 2;

/// Who catches the signals: the last one does.
static CATCHERS: Mutex<Vec<Catcher>> = Mutex::new(Vec::new());

struct Catcher {
    wishes: Sender<Interrupt>,
    /// Whether the program ends after [`LIMIT`] in any case.
    ends_soon: bool,
}

fn catchers() -> MutexGuard<'static, Vec<Catcher>> {
    CATCHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears the signals from here on. Needs a runtime; fails where the system lets nobody catch signals.
pub(crate) fn hear(format: Format) -> io::Result<()> {
    let ignored = ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let caught = |number: Number| {
        let is_heard = ignored & (1 << (number.as_raw() - 1)) == 0;
        is_heard.then(|| signal(SignalKind::from_raw(number.as_raw()))).transpose()
    };
    let mut heard = (caught(Number::INT)?, caught(Number::TERM)?, caught(Number::HUP)?);
    tokio::spawn(async move {
        let mut sure: Option<Instant> = None;
        loop {
            let wish = tokio::select! {
                () = next(&mut heard.0) => Interrupt { name: "Ctrl-C", may_be_a_slip: is_on_terminal() },
                () = next(&mut heard.1) => Interrupt { name: "SIGTERM", may_be_a_slip: false },
                () = next(&mut heard.2) => Interrupt { name: "SIGHUP", may_be_a_slip: false },
            };
            if wish.name != "Ctrl-C" && sure.replace(Instant::now()).is_some_and(|at| at.elapsed() < ECHO) {
                continue;
            }
            tell(wish, format);
        }
    });
    Ok(())
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Signals that a process ignores, a bit for each, by the text of its `status` in `/proc`.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether a person may have pressed Ctrl-C, and reads what is said then.
fn is_on_terminal() -> bool {
    io::stderr().is_terminal() || io::stdin().is_terminal()
}

/// Tells who catches the signals, and ends the program where nobody does.
fn tell(wish: Interrupt, format: Format) {
    let mut catchers = catchers();
    catchers.retain(|catcher| !catcher.wishes.is_closed());
    let Some(catcher) = catchers.last() else {
        end(
            &Failure::interrupted(format_args!("interrupted ({wish}); the same command does the rest")),
            format,
        )
    };
    let is_heard = catcher.wishes.try_send(wish).is_ok();
    if !is_heard && wish.name == "Ctrl-C" {
        end(&Failure::interrupted(format_args!("interrupted ({wish})")), format);
    }
    if catcher.ends_soon && !wish.may_be_a_slip {
        // No task: all threads of the runtime may be busy.
        std::thread::spawn(move || {
            std::thread::sleep(LIMIT);
            let took = LIMIT.as_secs();
            let words =
                format_args!("interrupted ({wish}): it was not done with what it had to end within {took} s");
            end(&Failure::interrupted(words), format);
        });
    }
}

/// Ends the program, and with it what runs for it on this machine.
fn end(failure: &Failure, format: Format) -> ! {
    output::print_failure(failure, format);
    std::process::exit(Code::Interrupted as i32);
}

/// The signals for a command that ends in its own way, remembered from the moment they are caught.
pub(crate) struct Signals {
    wishes: Receiver<Interrupt>,
    seen: Option<&'static str>,
}

impl Signals {
    /// Catches them for a command that ends soon after; to be called before anything exists that an interrupt would have to
    /// end.
    pub(crate) fn catch() -> Self {
        Self::caught(true)
    }

    /// Catches them for a service, which takes its time to end.
    #[cfg_attr(
        not(any(feature = "fleet", feature = "serve")),
        expect(dead_code, reason = "there is no service")
    )]
    pub(crate) fn catch_for_service() -> Self {
        Self::caught(false)
    }

    fn caught(ends_soon: bool) -> Self {
        let (sender, wishes) = channel(UNHEARD);
        catchers().push(Catcher { wishes: sender, ends_soon });
        Self { wishes, seen: None }
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Interrupt {
        match self.wishes.recv().await {
            Some(wish) => {
                self.seen = Some(wish.name);
                wish
            }
            // The other end lives as long as this one.
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Interrupts for Signals {
    async fn next(&mut self) -> Interrupt {
        Signals::next(self).await
    }

    fn seen(&self) -> Option<&'static str> {
        self.seen
    }

    /// Ends the program.
    fn again(&mut self) {
        std::process::exit(Code::Interrupted as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_as_the_kernel_writes_them() {
        let bit = |number: Number| 1 << (number.as_raw() - 1);
        let table = [
            ("", 0),
            ("SigIgn:\tnothing\n", 0),
            ("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n", bit(Number::PIPE)),
            ("SigIgn:\t0000000000000001\nSigCgt:\t0000000000000002\n", bit(Number::HUP)),
            ("SigIgn:\t0000000000004006\n", bit(Number::TERM) | bit(Number::INT) | bit(Number::QUIT)),
        ];
        for (status, ignored) in table {
            assert_eq!(ignored_signals(status), ignored, "{status:?}");
        }
    }
}
