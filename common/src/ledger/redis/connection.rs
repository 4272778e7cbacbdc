//! One connection to the server, shared by all callers and made anew when it is lost.
//!
//! A call that meets an outage is repeated until it goes through, for [`PATIENCE`] at most; each verb is safe
//! to repeat. After that, and the answer that is waited for just then, the caller hears that the server is
//! unavailable. Nothing waits without a limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind};
use tokio::time::{Instant, sleep, timeout_at};

use super::address::Address;
use super::failure::{Failure, Refuses};
use super::scripts::{self, Script};
use crate::ledger::LedgerErrorKind;
use crate::refusals::{self, Refusals, Refused};

/// How long a call is repeated while the server cannot be reached or is not ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one attempt to connect may take, name look-up and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take once a call was sent; the call is repeated over another connection then.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before the first repetition; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The connection; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    refusals: Refusals,
    open: Mutex<Option<Open>>,
    /// Held by the caller that connects, while the others wait; counts the connections made so far.
    connecting: tokio::sync::Mutex<u64>,
}

#[derive(Debug, Clone)]
struct Open {
    connection: MultiplexedConnection,
    /// Which of the connections made it is.
    number: u64,
}

impl Connection {
    /// Connects, logs in, and makes sure that all rights are there. Tries once.
    pub(super) async fn open(address: Address) -> Result<Self, Failure> {
        let patience = refusals::patience().map_err(Failure::malformed)?;
        let this = Self {
            shared: Arc::new(Shared {
                address,
                refusals: Refusals::new(patience),
                open: Mutex::default(),
                connecting: tokio::sync::Mutex::default(),
            }),
        };
        let deadline = Instant::now() + CONNECT_TIMEOUT + PATIENCE;
        let checked = timeout_at(deadline, async {
            let mut open = this.current(deadline).await?;
            // On keys that no job has: a name of a job is not empty.
            let keys = ["prs:{}:probe:hash", "prs:{}:probe:list"];
            let keys = keys.map(str::to_owned);
            let probed: i64 = evaluate(&mut open.connection, &scripts::PROBE, &keys, &[b"prs:{}:probe"])
                .await
                .map_err(|error| Failure::of(&error))?;
            if probed != 1 {
                return Err(Failure::strange(probed));
            }
            this.warn_of_eviction(&mut open.connection).await;
            Ok(())
        });
        checked.await.unwrap_or_else(|_| Err(Failure::no_connection()))?;
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
        arguments: &[&[u8]],
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.current(deadline).await {
                Ok(mut open) => match evaluate(&mut open.connection, script, keys, arguments).await {
                    Ok(answer) => {
                        self.has_accepted(script);
                        return Ok(answer);
                    }
                    Err(error) => {
                        let failure = Failure::of(&error);
                        if failure.connection_is_lost {
                            self.forget(open.number);
                        }
                        failure
                    }
                },
                Err(failure) => failure,
            };
            let failure = self.judged(script, failure);
            if !failure.is_retryable() || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            tracing::debug!(ledger = %self.address(), cause = failure.message, "the ledger is out, will call again");
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn has_accepted(&self, script: &Script) {
        if let Some(lasted) = self.shared.refusals.accepted(|| script.hash.clone(), Instant::now().into()) {
            let after_s = lasted.as_secs();
            tracing::info!(ledger = %self.address(), after_s, "the ledger accepts again what it refused");
        }
    }

    /// What a failure means: a refusal of what was accepted when the connection was opened, log-in and rights, may pass.
    fn judged(&self, script: &Script, failure: Failure) -> Failure {
        let Some(what) = failure.refuses else { return failure };
        let everything = what == Refuses::LogIn;
        let refused = self.shared.refusals.refused(script.hash.clone(), everything, Instant::now().into());
        let message = refused.explain(&failure.message);
        let Refused::MayPass { is_new, left } = refused else { return Failure { message, ..failure } };
        if is_new {
            tracing::warn!(
                ledger = %self.address(),
                refusal = failure.message,
                wait_s = left.as_secs(),
                "the ledger refuses what it accepted before; it is asked again for so long"
            );
        }
        Failure { kind: LedgerErrorKind::Unavailable, message, ..failure }
    }

    /// The open connection, or a new one.
    async fn current(&self, deadline: Instant) -> Result<Open, Failure> {
        if let Some(open) = self.open_now() {
            return Ok(open);
        }
        let connect = async {
            let mut made = self.shared.connecting.lock().await;
            if let Some(open) = self.open_now() {
                return Ok(open);
            }
            let failed =
                |error| if *made > 0 { Failure::of_another_log_in(&error) } else { Failure::of(&error) };
            let connection = log_in(self.address()).await.map_err(failed)?;
            if *made > 0 {
                tracing::info!(ledger = %self.address(), "connected to the ledger again");
            }
            *made += 1;
            let open = Open { connection, number: *made };
            *self.shared.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
            Ok(open)
        };
        timeout_at(deadline, connect).await.unwrap_or_else(|_| Err(Failure::no_connection()))
    }

    fn open_now(&self) -> Option<Open> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the next caller connect anew, unless that has happened already.
    fn forget(&self, number: u64) {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.take_if(|open| open.number == number);
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
    arguments: &[&[u8]],
) -> RedisResult<T> {
    let command = |verb: &str, script: &str| {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        command
    };
    let answer = command("EVALSHA", &script.hash).query_async(connection).await;
    match answer {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            command("EVAL", script.text).query_async(connection).await
        }
        answer => answer,
    }
}
