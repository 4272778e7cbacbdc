//! A connection that is built again when it was lost, and the channels on it.
//!
//! The next call that needs the connection builds it: attempts are one at a time, with growing pauses between them, and
//! nobody waits for them longer than [`REBUILD`]. Nothing of what was on a lost connection is recovered: consumers
//! see their streams end, publishers an error that says so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::super::{QueueError, QueueErrorKind};
use super::address::Address;
use super::connect::{Socket, connect};
use super::failure;
use super::trust::Trust;
use crate::backoff::Backoff;

/// How long one answer of the broker may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a call waits for a lost connection to be built again.
const REBUILD: Duration = Duration::from_secs(5);
/// The pause after the first attempt that failed; they grow up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Well below [`REBUILD`]: the attempt of a call that waited for the pause needs the rest of that time, or it would be given
/// up each time just when the broker is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Channels that are kept open for the next calls.
const IDLE_CHANNELS: usize = 4;

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Everything but publishing.
    Consuming,
    /// A broker that is short of memory or disk stops reading from connections that publish. With one of its own,
    /// acknowledgements still get through, and the queues can drain.
    Publishing,
}

/// A connection to build again and again.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    purpose: Purpose,
    trust: Arc<Trust>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    live: Option<Arc<Live>>,
    /// The pauses between attempts, since the last one that went well.
    pauses: Option<Backoff>,
    not_before: Option<Instant>,
}

/// A connection as long as it lasts.
#[derive(Debug)]
pub(super) struct Live {
    connection: Connection,
    socket: Option<Socket>,
    idle: Mutex<Vec<Channel>>,
    /// Whether the queue of dead letters was declared on this connection.
    pub(super) dead_letters: OnceCell<()>,
}

/// A channel for the time of one call.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) live: Arc<Live>,
    pub(super) channel: Channel,
}

impl Link {
    pub(super) fn new(address: Arc<Address>, purpose: Purpose, trust: Arc<Trust>) -> Self {
        Self { address, purpose, trust, state: tokio::sync::Mutex::default() }
    }

    /// Connects, or says at once why not.
    pub(super) async fn connect(&self) -> Result<Arc<Live>, QueueError> {
        let mut state = self.state.lock().await;
        self.attempt(&mut state).await
    }

    /// The connection, built again if need be.
    async fn live(&self) -> Result<Arc<Live>, QueueError> {
        let deadline = Instant::now() + REBUILD;
        let busy = || {
            let message = "the connection to the broker is lost and being built again";
            QueueError::new(QueueErrorKind::Unavailable, &self.address.to_string(), message)
        };
        let mut state = timeout_at(deadline, self.state.lock()).await.map_err(|_| busy())?;
        let mut failed = None;
        loop {
            if let Some(live) = state.live.as_ref().filter(|live| live.connection.status().connected()) {
                return Ok(Arc::clone(live));
            }
            if let Some(not_before) = state.not_before {
                if not_before > deadline {
                    return Err(failed.unwrap_or_else(busy));
                }
                sleep_until(not_before).await;
            }
            match timeout_at(deadline, self.attempt(&mut state)).await {
                Ok(Ok(live)) => return Ok(live),
                Ok(Err(error)) if !error.is_retryable() => return Err(error),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => return Err(failed.unwrap_or_else(busy)),
            }
        }
    }

    async fn attempt(&self, state: &mut State) -> Result<Arc<Live>, QueueError> {
        let again = state.live.take().is_some() || state.pauses.is_some();
        // Also for an attempt that is given up before it ends.
        let pauses = state.pauses.get_or_insert_with(|| Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        state.not_before = Some(Instant::now() + pauses.pause());
        let purpose = match self.purpose {
            Purpose::Consuming => "",
            Purpose::Publishing => " publishing",
        };
        match connect(&self.address, purpose).await {
            Ok((connection, socket)) => {
                self.trust.is_connected();
                if again {
                    tracing::info!(broker = %self.address, "connected to the broker again");
                }
                let (idle, dead_letters) = (Mutex::default(), OnceCell::new());
                let live = Arc::new(Live { connection, socket, idle, dead_letters });
                *state = State { live: Some(Arc::clone(&live)), ..State::default() };
                Ok(live)
            }
            Err(error) => {
                let error = self.trust.of_log_in(error);
                if again {
                    tracing::warn!(broker = %self.address, cause = error.message, "no connection to the broker; trying again");
                }
                Err(error)
            }
        }
    }

    /// A channel for one call about the queue `name`.
    pub(super) async fn channel(&self, name: &str) -> Result<Lent, QueueError> {
        let live = self.live().await.map_err(|error| QueueError { name: name.to_owned(), ..error })?;
        let idle = live.idle().pop();
        if let Some(channel) = idle.filter(|channel| channel.status().connected()) {
            return Ok(Lent { live, channel });
        }
        let channel = live.answer(name, live.connection.create_channel()).await?;
        if self.purpose == Purpose::Publishing {
            live.answer(name, channel.confirm_select(ConfirmSelectOptions::default())).await?;
        }
        Ok(Lent { live, channel })
    }

    /// Closes the connection; the next call builds it again.
    pub(super) async fn close(&self) {
        let live = self.state.lock().await.live.take();
        if let Some(live) = live {
            // A broker that is gone has closed it already.
            let _ = timeout(ANSWER, live.connection.close(200, "closed".into())).await;
            live.socket.as_ref().inspect(|socket| socket.sever());
        }
    }
}

impl Live {
    /// Waits for an answer of the broker in a call about the queue `name`, for [`ANSWER`] at most.
    pub(super) async fn answer<T>(
        &self,
        name: &str,
        call: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, QueueError> {
        self.answer_or(QueueErrorKind::Unavailable, name, call).await
    }

    /// The same for a call that the queue itself has to answer. Where the broker has no answer, or fails over it, it
    /// may not serve the queue.
    pub(super) async fn answer_of_queue<T>(
        &self,
        name: &str,
        call: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, QueueError> {
        self.answer_or(QueueErrorKind::NotServed, name, call).await
    }

    async fn answer_or<T>(
        &self,
        if_it_failed: QueueErrorKind,
        name: &str,
        call: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, QueueError> {
        match timeout(ANSWER, call).await {
            Ok(answer) => answer.map_err(|refusal| failure::of(name, &refusal, if_it_failed)),
            Err(_) if self.connection.status().blocked() => Err(failure::blocked(name)),
            Err(_) => Err(failure::unanswered(if_it_failed, name, ANSWER)),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Runs one call on the channel and returns the channel for others. A refusal closes a channel, and of one that
    /// gave no answer nobody knows its state: both are not used again.
    pub(super) async fn call<T>(
        self,
        name: &str,
        call: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<T, QueueError> {
        let answer = self.live.answer(name, call(&self.channel)).await?;
        self.give_back();
        Ok(answer)
    }

    /// Returns a channel on which nothing is under way.
    pub(super) fn give_back(self) {
        let mut idle = self.live.idle();
        if idle.len() < IDLE_CHANNELS {
            idle.push(self.channel);
        }
    }
}
