//! The ledger in Redis (6.2 and later, or Valkey), for the jobs of a fleet.
//!
//! Every verb is one Lua script (`lua/`), so it happens as a whole or not at all, and may be repeated when
//! its reply is lost. All keys of a job carry its name as their hash tag. They go with [`remove`](super::JobLedger::remove), and
//! expire [`TIME_TO_LIVE`] after the last renewal of a lease, so that a job which was deleted by hand leaves nothing for
//! ever. Times are those of the server: the clocks of the hosts never matter.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `prs:{<job>}:job` | hash | `state`; `created_by`, the call that made the job; `run_max_try`, `max_node_losses`; `scheduled`, `scheduled_items`, `descriptors` (the sum of their fingerprints), `planned` (0, 1), `plan_end`, the checkpoint; `succeeded`, `failed`, `items`, `items_succeeded`, the counts; `moved_us`, when an outcome came last, or a node where there was none; `conclusion`, its `reason`, and when that was decided, `concluded_us`; `obstacle`, what keeps the job from going on, with `obstacle_reason`, and `obstacle_us`, since when. A job is there when this key is |
//! | `prs:{<job>}:ended` | string | one bit a mini-batch: its outcome is known |
//! | `prs:{<job>}:segments` | list | committed segments in their order, each packed: key, size, duplicates |
//! | `prs:{<job>}:segment_keys` | hash | position of a segment in the list, by key |
//! | `prs:{<job>}:tries` | hash | by index, for mini-batches that did not go through at once, until their outcome: names of the failed tries, names of the lost starts, the start under way, the services that gave its last try back; packed |
//! | `prs:{<job>}:nodes` | hash | by node id: worker, info, report, when it was heard (µs), whether it left; packed |
//! | `prs:{<job>}:workers` | hash | node id of a worker, by its name |
//! | `prs:{<job>}:heard` | sorted set | ids of the nodes that have not left, by when they were heard (µs) |
//! | `prs:{<job>}:copies` | hash | by index, for mini-batches of which a second run is wanted: nothing, or what a node needs to run it and the worker that took it; packed |
//! | `prs:{<job>}:open_copies` | hash | by index, for those of them that no worker has taken: the worker that offers it, or nothing |
//! | `prs:{<job>}:statistics` | hash | while they have a reader, the parts of the statistics by their names; `read_us`, the time of the last read (µs) |
//! | `prs:{<job>}:leases` | hash | for each duty `<duty>:owner`, `<duty>:until` (µs), `<duty>:fence` |
//! | `prs:storage` | string | identity of the storage that the ledger belongs to |
//! | `prs:targets` | sorted set | targets that idle workers looked for, by when (µs) |
//! | `prs:asked` | sorted set | targets that autoscalers asked for, by when (µs); expires |
//! | `prs:draining` | hash | why a worker was asked to leave, by its name; expires |
//! | `prs:jobs` | hash | the index of jobs: by job id, the order, a mark where the end of this start was counted, and the summary; nothing for one that was removed |
//! | `prs:jobs:changed` | sorted set | ids of the jobs in the index, by the number of the last change of each |
//! | `prs:jobs:removed` | sorted set | of those, ids of removed jobs, by when (µs); remembered for a day |
//! | `prs:jobs:index` | hash | `last`, the number of the last change; `filling`, a name, once all jobs in storage were found; `found` and `total`, how far that is; `filler`, the filling that began last; `owner` and `until` (µs), who keeps the index |
//! | `prs:jobs:ended` | hash | how many jobs ended, by state, whether with every item, and target |
//! | `prs:{@<target>}:offers` | hash | by run: the offer, packed |
//! | `prs:{@<target>}:idle` | sorted set | workers without a job, packed, by when they looked (µs) |
//! | `prs:{@<target>}:filled` | string | there while the offers are, or are about to be, compared with storage; expires |
//! | `prs:{@<target>}:history` | hash | 288 steps of five minutes, by number of the step modulo 288: the step, wanted, live, idle, waiting |
//!
//! The channel `prs:{@<target>}:bell` rings for the idle workers of a target. *Packed* is MessagePack. A million mini-batches take 125 kB, and some hundred bytes a segment.
//!
//! A user needs the right to `eval`, `evalsha`, `ping`, `select`, `subscribe` and the commands in `lua/probe.lua`, on
//! the keys and the channels `prs:*`. The server must not evict keys (`maxmemory-policy noeviction`).
//!
//! It deliberately does not: follow the redirections of a cluster, use read replicas, or rebuild what a
//! server has lost; a lost job is [not found](super::LedgerErrorKind::NotFound).

//! | file | duty |
//! |---|---|
//! | `address`, `connection`, `failure` | the server, the way to it, and what its errors mean |
//! | `keys`, `scripts`, `packed` | names of keys, the Lua, and what goes to it and back |
//! | `job` | what it keeps of one job |
//! | `membership` | what brings jobs and workers together; `bell` rings |
//! | `index` | the index of jobs |

mod address;
mod bell;
mod connection;
mod failure;
mod index;
mod job;
mod keys;
mod membership;
mod packed;
mod scripts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{FromRedisValue, ToRedisArgs};

use self::address::Address;
use self::connection::Connection;
use self::failure::RedisFailure;
use self::keys::TargetKey;
use self::scripts::Script;
use super::{LedgerError, Memory};
use crate::calls::Calls;

/// How long the keys of a job and of a target are kept when nobody cares for them, far beyond any pause.
const TIME_TO_LIVE: Duration = Duration::from_hours(14 * 24);
/// For a script that takes no arguments.
const NONE: &[&str] = &[];

/// The ledger on a Redis server. Clones share one connection.
#[derive(Debug, Clone)]
pub struct RedisLedger {
    connection: Connection,
}

impl RedisLedger {
    /// Connects to `redis://[user:password@]host[:port][/database]`, with TLS where it is `rediss://`, or to
    /// the socket of `unix:///path[?user=..&pass=..&db=..]`.
    ///
    /// With TLS the server's certificate must come from an authority that this host trusts, or that is in the
    /// file that the environment variable `SSL_CERT_FILE` names.
    ///
    /// Tries once, for about ten seconds at most. [`LedgerErrorKind::Unavailable`](super::LedgerErrorKind::Unavailable) when the server is not
    /// reached or not ready, [`LedgerErrorKind::Refused`](super::LedgerErrorKind::Refused) when it does not take this user, this URL, or a
    /// command that the ledger needs.
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        let malformed = |failure: RedisFailure| LedgerError::new(failure.kind, "", failure.message);
        let address = Address::parse(url).map_err(malformed)?;
        let name = address.to_string();
        let failed =
            |RedisFailure { kind, message, .. }| LedgerError::new(kind, "", format!("{name}: {message}"));
        Ok(Self { connection: Connection::open(address).await.map_err(failed)? })
    }

    /// A key of a job that a version before 0.2.0 left on the server, if one is seen. This version leaves such jobs alone.
    pub async fn job_of_a_former_version(&self) -> Result<Option<String>, LedgerError> {
        let key: String = self.run_for("", &scripts::FORMER_JOB, &[], NONE).await?;
        Ok(Some(key).filter(|key| !key.is_empty()))
    }

    /// Where the ledger at `url` is, without its password; nothing of a URL that cannot be read.
    pub fn place(url: &str) -> Option<String> {
        Address::parse(url).ok().map(|address| address.to_string())
    }

    /// The same ledger over the same connection, of whose calls `calls` hears.
    #[must_use]
    pub fn counted_by(mut self, calls: Arc<dyn Calls>) -> Self {
        self.connection.calls = Some(calls);
        self
    }

    /// Runs a script on keys of `target`.
    async fn run_for<T: FromRedisValue>(
        &self,
        target: &str,
        script: &Script,
        keys: &[TargetKey],
        arguments: impl ToRedisArgs + Send,
    ) -> Result<T, LedgerError> {
        let keys: Vec<String> = keys.iter().map(|key| key.of(target)).collect();
        let answer = self.connection.run(script, &keys, arguments).await;
        answer.map_err(|failure| self.error("", failure))
    }

    fn error(&self, job: &str, failure: RedisFailure) -> LedgerError {
        let RedisFailure { kind, message, .. } = failure;
        LedgerError::new(kind, job, format!("{self}: {message}"))
    }
}

/// The memory of a server, by what the section `memory` of `INFO` says.
fn memory_in(said: &str) -> Option<Memory> {
    let value = |name: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found?.trim().parse::<u64>().ok()
    };
    Some(Memory { used: value("used_memory")?, limit: value("maxmemory").filter(|limit| *limit > 0) })
}

/// A name of one call, for the verb that is not the same when it is called again.
fn call_name() -> String {
    let random = || getrandom::u64().expect("the system gives random bytes");
    format!("{:016x}{:016x}", random(), random())
}

impl fmt::Display for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.address().fmt(f)
    }
}
