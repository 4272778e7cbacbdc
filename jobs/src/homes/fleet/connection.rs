//! The ledger of a process that may live for weeks: connected to when it is first asked for, left alone while it is known to
//! be away, and asked again after pauses that grow.
//!
//! A call that comes while it is away fails at once, but for one call a pause: that one asks. So an outage costs the calls of
//! a process nothing, and its end is seen within [`LONGEST_PAUSE`], however long it was. A connection over a slow network is
//! made on while nobody waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prs_common::backoff::Backoff;
use prs_common::calls::Calls;
use prs_common::ledger::{Ledger, LedgerError, LedgerErrorKind};
use prs_common::servers::{ConnectError, open_ledger};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::caller::Caller;

/// The pause after the ledger was found to be away; they grow up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a call that asks whether it is back waits for the connection.
const ANSWER: Duration = Duration::from_secs(2);

/// The connection, or when to look for it again.
pub(super) struct LedgerConnection {
    url: String,
    /// Hears of the calls to it.
    calls: Option<Arc<dyn Calls>>,
    /// Held by the call that connects; has the connection that a former call did not wait for.
    connecting: tokio::sync::Mutex<Option<Connecting>>,
    known: Mutex<Known>,
}

type Connecting = JoinHandle<Result<Arc<dyn Ledger>, LedgerError>>;

enum Known {
    /// Nobody has asked for it.
    Nothing,
    Open(Arc<dyn Ledger>),
    Away(Away),
}

struct Away {
    since: Instant,
    pauses: Backoff,
    ask_at: Instant,
}

/// What a call does about it.
enum Next {
    Use(Arc<dyn Ledger>),
    GoWithout,
    /// Connect; `again` after an outage.
    Connect {
        again: bool,
    },
}

impl LedgerConnection {
    /// The ledger at `url`, which is not connected to yet; `calls` hears of the calls to it.
    pub(super) fn new(url: String, calls: Option<Arc<dyn Calls>>) -> Self {
        Self { url, calls, connecting: tokio::sync::Mutex::default(), known: Mutex::new(Known::Nothing) }
    }

    /// The ledger; nothing while it cannot be reached. `caller` hears when it goes, and that it is back.
    ///
    /// # Errors
    /// It refuses this program.
    pub(super) async fn open(&self, caller: &dyn Caller) -> Result<Option<Arc<dyn Ledger>>, LedgerError> {
        let mut connecting = match self.next() {
            Next::Use(ledger) => return Ok(Some(ledger)),
            Next::GoWithout => return Ok(None),
            // Who comes first of all waits; nobody waits for what was away a moment ago.
            Next::Connect { again: false } => self.connecting.lock().await,
            Next::Connect { again: true } => match self.connecting.try_lock() {
                Ok(connecting) => connecting,
                Err(_) => return Ok(None),
            },
        };
        // Another call may have connected meanwhile.
        let again = match self.next() {
            Next::Use(ledger) => return Ok(Some(ledger)),
            Next::GoWithout => return Ok(None),
            Next::Connect { again } => again,
        };
        let connected = if again {
            let begin = || {
                let (url, calls) = (self.url.clone(), self.calls.clone());
                tokio::spawn(async move { open_ledger(&url, calls).await })
            };
            match timeout(ANSWER, connecting.get_or_insert_with(begin)).await {
                Ok(ended) => {
                    *connecting = None;
                    ended.unwrap_or_else(|_| Err(no_answer()))
                }
                Err(_) => Err(no_answer()),
            }
        } else {
            open_ledger(&self.url, self.calls.clone()).await
        };
        match connected {
            Ok(ledger) => {
                self.is_back(Arc::clone(&ledger), caller);
                Ok(Some(ledger))
            }
            Err(error) if error.kind == LedgerErrorKind::Unavailable => {
                self.is_away(error, caller);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that a call to it failed with `error`: it is away. `caller` hears so where that is new.
    pub(super) fn is_away(&self, error: LedgerError, caller: &dyn Caller) {
        let now = Instant::now();
        let mut known = self.known();
        if let Known::Away(away) = &mut *known {
            // Of calls that were under way together one counts.
            if now >= away.ask_at {
                away.ask_at = now + away.pauses.pause();
            }
            return;
        }
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let ask_at = now + pauses.pause();
        *known = Known::Away(Away { since: now, pauses, ask_at });
        drop(known);
        caller.note(&format_args!("{}; shown is what storage knows", ConnectError::Redis(error)));
    }

    /// For how long it has been known to be away; nothing where it is not.
    pub(super) fn away_for(&self) -> Option<Duration> {
        match &*self.known() {
            Known::Away(away) => Some(away.since.elapsed()),
            Known::Nothing | Known::Open(_) => None,
        }
    }

    fn is_back(&self, ledger: Arc<dyn Ledger>, caller: &dyn Caller) {
        let former = std::mem::replace(&mut *self.known(), Known::Open(ledger));
        if let Known::Away(away) = former {
            caller.note(&format_args!("Redis answers again, after {} s", away.since.elapsed().as_secs()));
        }
    }

    fn next(&self) -> Next {
        match &*self.known() {
            Known::Nothing => Next::Connect { again: false },
            Known::Open(ledger) => Next::Use(Arc::clone(ledger)),
            Known::Away(away) if Instant::now() < away.ask_at => Next::GoWithout,
            Known::Away(_) => Next::Connect { again: true },
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_answer() -> LedgerError {
    let message = format!("no answer within {} s", ANSWER.as_secs());
    LedgerError { kind: LedgerErrorKind::Unavailable, job: String::new(), message }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::caller::Unattended;

    fn away(url: &str) -> LedgerConnection {
        let connection = LedgerConnection::new(url.to_owned(), None);
        connection.is_away(no_answer(), &Unattended);
        connection
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_outage_is_looked_at_as_often_as_a_short_one() {
        let connection = away("redis://127.0.0.1:1");
        for _ in 0..100 {
            advance(LONGEST_PAUSE).await;
            assert!(matches!(connection.next(), Next::Connect { again: true }));
            assert!(connection.open(&Unattended).await.unwrap().is_none());
        }
    }

    /// Answers 1 to each command, `delay` after it came.
    async fn answer(mut client: TcpStream, delay: Duration) {
        let mut read = [0; 4096];
        while let Ok(length @ 1..) = client.read(&mut read).await {
            sleep(delay).await;
            let commands = memchr::memchr_iter(b'*', &read[..length]).count();
            if client.write_all(":1\r\n".repeat(commands).as_bytes()).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test]
    async fn a_ledger_far_away_is_back_though_no_call_waits_so_long() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = away(&format!("redis://{}", listener.local_addr().unwrap()));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(answer(client, Duration::from_millis(900)));
            }
        });
        let began = Instant::now();
        while connection.open(&Unattended).await.unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(15), "it is not seen");
            sleep(Duration::from_millis(100)).await;
        }
        assert!(began.elapsed() > ANSWER, "{:?}", began.elapsed());
    }
}
