//! One connection to the server, shared by all callers and made anew when it is lost.
//!
//! The client library's own manager of connections does not serve: after a log-in that was refused it never tries again,
//! and it keeps the server's words for the refusal to itself.
//!
//! A call that meets an outage is repeated until it goes through, for [`PATIENCE`] at most; each verb is safe
//! to repeat. After that, and the answer that is waited for just then, the caller hears that the server is
//! unavailable. Nothing waits without a limit.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::address::Address;
use super::failure::{RedisFailure, Refuses};
use super::scripts::{self, Script};
use crate::backoff::Backoff;
use crate::calls::{Called, Calls, OK, UnderWay};
use crate::ledger::LedgerErrorKind;
use crate::refusals::{self, Refusals};

/// How long a call is repeated while the server cannot be reached or is not ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one attempt to connect may take, name look-up and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take once a call was sent; the call is repeated over another connection then.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before the first repetition; they grow up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The connection; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    /// Hears of the calls over it.
    pub(super) calls: Option<Arc<dyn Calls>>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    refusals: Refusals,
    /// Locked while one caller connects and the others wait.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<MultiplexedConnection>,
    /// Connections made so far; the open one is the last of them.
    made: u64,
}

impl Connection {
    /// Connects, logs in, and makes sure that all rights are there. Tries once.
    pub(super) async fn open(address: Address) -> Result<Self, RedisFailure> {
        let patience = refusals::patience().map_err(RedisFailure::malformed)?;
        let refusals = Refusals::new(patience);
        let this =
            Self { shared: Arc::new(Shared { address, refusals, state: Mutex::default() }), calls: None };
        let deadline = Instant::now() + CONNECT_TIMEOUT + PATIENCE;
        let checked = timeout_at(deadline, async {
            let (mut open, _) = this.current(deadline).await?;
            // On keys that no job has: a name of a job is not empty.
            let keys = ["prs:{}:probe:hash", "prs:{}:probe:list"].map(str::to_owned);
            let probed = evaluate(&mut open, &scripts::PROBE, &keys, "prs:{}:probe").await;
            let probed: i64 = probed.map_err(|error| RedisFailure::of(&error))?;
            if probed != 1 {
                return Err(RedisFailure::strange(probed));
            }
            this.warn_of_eviction(&mut open).await;
            Ok(())
        });
        checked.await.unwrap_or_else(|_| Err(RedisFailure::no_connection()))?;
        Ok(this)
    }

    pub(super) fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Runs a script, again and again while the server is out for a moment.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        arguments: impl ToRedisArgs,
    ) -> Result<T, RedisFailure> {
        let mut call = self.calls.as_ref().map(|calls| UnderWay::begin(calls, Called::Ledger, script.name));
        let answer = self.run_until_answered(script, keys, arguments).await;
        if let Some(call) = &mut call {
            call.is(match &answer {
                Ok(_) => OK,
                Err(failure) if failure.is_retryable() => "unavailable",
                Err(_) => "refused",
            });
        }
        answer
    }

    async fn run_until_answered<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        arguments: impl ToRedisArgs,
    ) -> Result<T, RedisFailure> {
        let arguments = arguments.to_redis_args();
        let deadline = Instant::now() + PATIENCE;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let failure = match self.current(deadline).await {
                Ok((mut open, number)) => match evaluate(&mut open, script, keys, &arguments).await {
                    Ok(answer) => {
                        self.shared.refusals.has_accepted(self.address(), || script.hash.clone());
                        return Ok(answer);
                    }
                    Err(error) => {
                        let failure = RedisFailure::of(&error);
                        if failure.connection_is_lost {
                            self.forget(number, deadline).await;
                        }
                        failure
                    }
                },
                Err(failure) => failure,
            };
            let failure = self.judged(script, failure);
            let pause = backoff.pause();
            if !failure.is_retryable() || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            tracing::debug!(ledger = %self.address(), cause = failure.message, "the ledger is out, will call again");
            sleep(pause).await;
        }
    }

    /// What a failure means: a refusal of what was accepted when the connection was opened, log-in and rights, may pass.
    fn judged(&self, script: &Script, failure: RedisFailure) -> RedisFailure {
        let Some(what) = failure.refuses else { return failure };
        let (call, everything) = (script.hash.clone(), what == Refuses::LogIn);
        let (may_pass, message) =
            self.shared.refusals.judged(self.address(), call, everything, &failure.message);
        let kind = if may_pass { LedgerErrorKind::Unavailable } else { failure.kind };
        RedisFailure { kind, message, ..failure }
    }

    /// The open connection and its number, or a new one.
    async fn current(&self, deadline: Instant) -> Result<(MultiplexedConnection, u64), RedisFailure> {
        let connect = async {
            let mut state = self.shared.state.lock().await;
            if let Some(open) = &state.open {
                return Ok((open.clone(), state.made));
            }
            let again = state.made > 0;
            let failed = |error| {
                if again { RedisFailure::of_another_log_in(&error) } else { RedisFailure::of(&error) }
            };
            let open = log_in(self.address()).await.map_err(failed)?;
            if again {
                tracing::info!(ledger = %self.address(), "connected to the ledger again");
            }
            state.made += 1;
            state.open = Some(open.clone());
            Ok((open, state.made))
        };
        timeout_at(deadline, connect).await.unwrap_or_else(|_| Err(RedisFailure::no_connection()))
    }

    /// Makes the next caller connect anew, unless that has happened already.
    async fn forget(&self, number: u64, deadline: Instant) {
        // A call that holds it for so long is connecting anew.
        let Ok(mut state) = timeout_at(deadline, self.shared.state.lock()).await else { return };
        if state.made == number {
            state.open = None;
        }
    }

    /// Keys of running jobs must not be thrown away; a server that may do so still works until its memory is
    /// full.
    async fn warn_of_eviction(&self, connection: &mut MultiplexedConnection) {
        let asked: RedisResult<Vec<String>> =
            redis::cmd("CONFIG").arg("GET").arg("maxmemory*").query_async(connection).await;
        // Many servers do not let their users look at the configuration.
        let Ok(settings) = asked else { return };
        let setting = |name: &str| {
            settings
                .chunks_exact(2)
                .find(|pair| pair[0] == name)
                .map(|pair| pair[1].as_str())
                .unwrap_or_default()
        };
        let policy = setting("maxmemory-policy");
        if policy.starts_with("allkeys") && setting("maxmemory") != "0" {
            tracing::warn!(
                ledger = %self.address(),
                policy,
                "full memory would cost the ledger keys of running jobs: set maxmemory-policy noeviction"
            );
        }
    }
}

/// A connection as this user, to this database. Done here and not by the client library, which says of every
/// failed log-in that the password is wrong.
async fn log_in(address: &Address) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let mut connection = address.client.get_multiplexed_async_connection_with_config(&config).await?;
    if address.user.is_some() || address.password.is_some() {
        let mut command = redis::cmd("AUTH");
        command.arg(address.user.as_deref()).arg(address.password.as_deref().unwrap_or_default());
        command.exec_async(&mut connection).await?;
    }
    if address.database != 0 {
        redis::cmd("SELECT").arg(address.database).exec_async(&mut connection).await?;
    }
    redis::cmd("PING").exec_async(&mut connection).await?;
    Ok(connection)
}

/// Runs a script by its hash, and with its text where the server does not have it. Needs no right to
/// `SCRIPT`.
async fn evaluate<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    script: &Script,
    keys: &[String],
    arguments: impl ToRedisArgs + Copy,
) -> RedisResult<T> {
    let command = |verb: &str, script: &str| {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        command
    };
    let answer = command("EVALSHA", &script.hash).query_async(connection).await;
    match answer {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            command("EVAL", &script.text).query_async(connection).await
        }
        answer => answer,
    }
}
