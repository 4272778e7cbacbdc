//! The ledger in Redis (6.2 and later, or Valkey), for the jobs of a fleet.
//!
//! Every verb is one Lua script (`lua/`), so it happens as a whole or not at all, and may be repeated when
//! its reply is lost. All keys of a job carry its name as their hash tag. They go with [`remove`](Ledger::remove), and
//! expire [`TIME_TO_LIVE`] after the last renewal of a lease, so that a job which was deleted by hand leaves nothing for
//! ever. Times are those of the server: the clocks of the hosts never matter.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `prs:{<job>}:job` | hash | `state`; `created_by`, the call that made the job; `run_max_try`, `max_node_losses`; `scheduled`, `scheduled_items`, `descriptors` (the sum of their fingerprints), `planned` (0, 1), the checkpoint; `succeeded`, `failed`, `items`, `items_succeeded`, the counts; `conclusion` and its `reason`. A job is there when this key is |
//! | `prs:{<job>}:ended` | string | one bit a mini-batch: its outcome is known |
//! | `prs:{<job>}:segments` | list | committed segments in their order, each packed: key, size, mini-batches lost |
//! | `prs:{<job>}:segment_keys` | hash | position of a segment in the list, by key |
//! | `prs:{<job>}:tries` | hash | by index, for mini-batches that did not go through at once, until their outcome: names of the spoiled tries, names of the lost starts, the start under way; packed |
//! | `prs:{<job>}:nodes` | hash | by node id: worker, info, report, when it was heard (µs), whether it left; packed |
//! | `prs:{<job>}:workers` | hash | node id of a worker, by its name |
//! | `prs:{<job>}:heard` | sorted set | ids of the nodes that have not left, by when they were heard (µs) |
//! | `prs:{<job>}:leases` | hash | for each duty `<duty>:owner`, `<duty>:until` (µs), `<duty>:fence` |
//! | `prs:storage` | string | identity of the storage that the ledger belongs to |
//! | `prs:targets` | sorted set | targets that idle workers looked for, by when (µs) |
//! | `prs:{@<target>}:offers` | hash | by run: the offer, packed |
//! | `prs:{@<target>}:idle` | sorted set | workers without a job, packed, by when they looked (µs) |
//! | `prs:{@<target>}:filled` | string | there while the offers are, or are about to be, compared with storage; expires |
//!
//! The channel `prs:{@<target>}:bell` rings for the idle workers of a target. *Packed* is MessagePack. A million mini-batches take 125 kB, and some hundred bytes a segment.
//!
//! A user needs the right to `eval`, `evalsha`, `ping`, `select`, `subscribe` and the commands in `lua/probe.lua`, on
//! the keys and the channels `prs:*`. The server must not evict keys (`maxmemory-policy noeviction`).
//!
//! It deliberately does not: follow the redirections of a cluster, use read replicas, or rebuild what a
//! server has lost; a lost job is [not found](LedgerErrorKind::NotFound).

mod address;
mod bell;
mod connection;
mod failure;
mod scripts;

use std::fmt;
use std::time::Duration;

use ::redis::FromRedisValue;
use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::address::Address;
use self::bell::RedisBell;
use self::connection::Connection;
use self::failure::Failure;
use self::scripts::Script;
use super::{
    Begin, Bell, Blame, Books, Checkpoint, CommittedSegment, Conclusion, Duty, Entry, FailedTry, IdleWorker,
    JobState, Ledger, LedgerError, LedgerErrorKind, Membership, NodeInfo, NodeReport, NodeView, Offer,
    Offered, Offers, Progress, Seats, Signal, TryLimits, Verdict, superseded,
};
use crate::message_pack;
use crate::mini_batch::MiniBatchIndex;

/// Mini-batches asked about in one call; the server does nothing else meanwhile.
const ASKED_AT_ONCE: usize = 4096;
/// The key with the identity of the storage that the ledger belongs to.
const STORAGE: &str = "prs:storage";
/// The key with the names of all targets.
const TARGETS: &str = "prs:targets";
/// How long the keys of a job and of a target are kept when nobody cares for them, far beyond any pause.
const TIME_TO_LIVE: Duration = Duration::from_hours(14 * 24);
/// How long the ledger remembers that a worker had nothing to do.
const IDLE_IS_REMEMBERED: Duration = Duration::from_mins(1);
/// The longest lease, microseconds: more is exact nowhere in Lua.
const LONGEST_LEASE: u128 = 1 << 52;

/// The ledger on a Redis server. Clones share one connection.
#[derive(Debug, Clone)]
pub struct RedisLedger {
    connection: Connection,
}

/// The kinds of keys of a job.
#[derive(Clone, Copy)]
enum Key {
    Job,
    Ended,
    Segments,
    SegmentKeys,
    Tries,
    Nodes,
    Workers,
    Heard,
    Leases,
}

impl Key {
    const ALL: [Self; 9] = [
        // First: what tells whether the job is there.
        Self::Job,
        Self::Ended,
        Self::Segments,
        Self::SegmentKeys,
        Self::Tries,
        Self::Nodes,
        Self::Workers,
        Self::Heard,
        // Last: who holds which duty.
        Self::Leases,
    ];

    fn of(self, job: &str) -> String {
        let kind = match self {
            Self::Job => "job",
            Self::Ended => "ended",
            Self::Segments => "segments",
            Self::SegmentKeys => "segment_keys",
            Self::Tries => "tries",
            Self::Nodes => "nodes",
            Self::Workers => "workers",
            Self::Heard => "heard",
            Self::Leases => "leases",
        };
        format!("prs:{{{job}}}:{kind}")
    }
}

/// The kinds of keys of a target.
#[derive(Clone, Copy)]
enum TargetKey {
    Offers,
    Idle,
    Filled,
    /// Of all targets together.
    All,
    /// A channel, and no key.
    Bell,
}

impl TargetKey {
    /// The `@` keeps it apart from the keys of a job: no job has a name that begins so.
    fn of(self, target: &str) -> String {
        let kind = match self {
            Self::Offers => "offers",
            Self::Idle => "idle",
            Self::Filled => "filled",
            Self::All => return TARGETS.to_owned(),
            Self::Bell => "bell",
        };
        format!("prs:{{@{target}}}:{kind}")
    }
}

impl RedisLedger {
    /// Connects to `redis://[user:password@]host[:port][/database]`, with TLS where it is `rediss://`, or to
    /// the socket of `unix:///path[?user=..&pass=..&db=..]`.
    ///
    /// With TLS the server's certificate must come from an authority that this host trusts, or that is in the
    /// file that the environment variable `SSL_CERT_FILE` names.
    ///
    /// Tries once, for about ten seconds at most. [`LedgerErrorKind::Unavailable`] when the server is not
    /// reached or not ready, [`LedgerErrorKind::Refused`] when it does not take this user, this URL, or a
    /// command that the ledger needs.
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        let error = |at: Option<&str>, failure: Failure| LedgerError {
            kind: failure.kind,
            job: String::new(),
            message: at.map_or(failure.message.clone(), |at| format!("{at}: {}", failure.message)),
        };
        let address = Address::parse(url).map_err(|failure| error(None, failure))?;
        let name = address.to_string();
        let opened = Connection::open(address).await;
        Ok(Self { connection: opened.map_err(|failure| error(Some(&name), failure))? })
    }

    /// A key of a job that a version before 0.2.0 left on the server, if one is seen. This version leaves such jobs alone.
    pub async fn job_of_a_former_version(&self) -> Result<Option<String>, LedgerError> {
        let key: String = self.run_for("", &scripts::FORMER_JOB, &[], &[]).await?;
        Ok(Some(key).filter(|key| !key.is_empty()))
    }

    /// The time of the server, microseconds since 1970, and its version, empty where it does not tell (before 7.0).
    pub async fn clock(&self) -> Result<(u64, String), LedgerError> {
        self.run_for("", &scripts::CLOCK, &[], &[]).await
    }

    /// Runs a script on keys of `job`, the first of which must be [`Key::Job`].
    async fn run<T: FromRedisValue>(
        &self,
        job: &str,
        script: &Script,
        keys: &[Key],
        arguments: &[&[u8]],
    ) -> Result<T, LedgerError> {
        let keys: Vec<String> = keys.iter().map(|key| key.of(job)).collect();
        let answer: Option<T> = self
            .connection
            .run(script, &keys, arguments)
            .await
            .map_err(|failure| self.error(job, failure))?;
        answer.ok_or_else(|| self.not_found(job))
    }

    /// Runs a script on keys of `target`.
    async fn run_for<T: FromRedisValue>(
        &self,
        target: &str,
        script: &Script,
        keys: &[TargetKey],
        arguments: &[&[u8]],
    ) -> Result<T, LedgerError> {
        let keys: Vec<String> = keys.iter().map(|key| key.of(target)).collect();
        let answer = self.connection.run(script, &keys, arguments).await;
        answer.map_err(|failure| self.error("", failure))
    }

    /// Enters a node; nothing where no seat is free.
    async fn enter(
        &self,
        job: &str,
        info: &NodeInfo,
        wish: Option<u32>,
        seats: Option<Seats>,
    ) -> Result<Option<u32>, LedgerError> {
        let wish = wish.map(|id| id.to_string()).unwrap_or_default();
        let count = seats.map(|seats| seats.count.to_string()).unwrap_or_default();
        let quiet = seats.map(|seats| seats.quiet.as_micros().to_string()).unwrap_or_default();
        let info = (info.worker.as_bytes(), pack(info));
        let arguments = [info.0, &info.1, wish.as_bytes(), count.as_bytes(), quiet.as_bytes()];
        let keys = [Key::Job, Key::Nodes, Key::Workers, Key::Heard];
        let node_id: i64 = self.run(job, &scripts::JOIN, &keys, &arguments).await?;
        Ok(u32::try_from(node_id).ok())
    }

    fn error(&self, job: &str, failure: Failure) -> LedgerError {
        let Failure { kind, message, .. } = failure;
        LedgerError { kind, job: job.to_owned(), message: format!("{self}: {message}") }
    }

    fn not_found(&self, job: &str) -> LedgerError {
        let message = format!("no such job in the {self}");
        LedgerError { kind: LedgerErrorKind::NotFound, job: job.to_owned(), message }
    }

    /// The answer to a call that was not understood.
    fn strange(&self, job: &str, what: impl fmt::Display) -> LedgerError {
        self.error(job, Failure::strange(what))
    }

    fn unpack<T: DeserializeOwned>(&self, job: &str, packed: &[u8]) -> Result<T, LedgerError> {
        message_pack::decode(packed).map_err(|error| self.strange(job, error))
    }

    fn state_of(&self, job: &str, word: &str) -> Result<JobState, LedgerError> {
        let named = JobState::ALL.into_iter().find(|state| state.as_str() == word);
        named.ok_or_else(|| self.strange(job, format_args!("no state is called {word:?}")))
    }
}

/// The answer of a script that refuses the number of a lease with -1.
fn unless_superseded(job: &str, duty: Duty, answer: i64) -> Result<i64, LedgerError> {
    if answer >= 0 { Ok(answer) } else { Err(superseded(job, duty)) }
}

fn seconds_to_live() -> String {
    TIME_TO_LIVE.as_secs().to_string()
}

fn pack(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("numbers, strings and flags can always be packed")
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

/// What is noted of a mini-batch, as `record_failure` and `begin` return it.
struct Noted {
    spoiled: u32,
    lost: u32,
    limits: TryLimits,
}

impl Noted {
    /// Nothing when the outcome is known.
    fn of(answer: &[u32]) -> Option<Self> {
        match *answer {
            [spoiled, lost, run_max_try, max_node_losses] => {
                Some(Self { spoiled, lost, limits: TryLimits { run_max_try, max_node_losses } })
            }
            _ => None,
        }
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn create(&self, job: &str, limits: TryLimits) -> Result<(), LedgerError> {
        let (run_max_try, max_node_losses) =
            (limits.run_max_try.to_string(), limits.max_node_losses.to_string());
        let call = call_name();
        let alive = seconds_to_live();
        let arguments =
            [call.as_bytes(), run_max_try.as_bytes(), max_node_losses.as_bytes(), alive.as_bytes()];
        if self.run(job, &scripts::CREATE, &Key::ALL, &arguments).await? {
            return Ok(());
        }
        Err(LedgerError {
            kind: LedgerErrorKind::AlreadyExists,
            job: job.to_owned(),
            message: format!("a job of this id exists in the {self}"),
        })
    }

    async fn state(&self, job: &str) -> Result<JobState, LedgerError> {
        let word: String = self.run(job, &scripts::STATE, &[Key::Job], &[]).await?;
        self.state_of(job, &word)
    }

    async fn set_state(&self, job: &str, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        let number = fence.to_string();
        let arguments = [state.as_str().as_bytes(), number.as_bytes()];
        let answer: i64 = self.run(job, &scripts::SET_STATE, &[Key::Job, Key::Leases], &arguments).await?;
        unless_superseded(job, Duty::Watch, answer).map(|answer| answer == 1)
    }

    async fn reset(&self, job: &str, owner: &str) -> Result<bool, LedgerError> {
        let reset: u64 = self.run(job, &scripts::RESET, &Key::ALL, &[owner.as_bytes()]).await?;
        Ok(reset == 1)
    }

    async fn remove(&self, job: &str) -> Result<(), LedgerError> {
        self.run(job, &scripts::REMOVE, &Key::ALL, &[]).await
    }

    async fn checkpoint(&self, job: &str, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        let Checkpoint { scheduled, items, descriptors, complete } = checkpoint;
        let numbers = [scheduled, items, u64::from(complete), descriptors, fence];
        let numbers = numbers.map(|number| number.to_string());
        let arguments = numbers.each_ref().map(String::as_bytes);
        let answer: i64 = self.run(job, &scripts::CHECKPOINT, &[Key::Job, Key::Leases], &arguments).await?;
        unless_superseded(job, Duty::Schedule, answer).map(drop)
    }

    async fn progress(&self, job: &str) -> Result<Progress, LedgerError> {
        type Answer = (Vec<u64>, u64, (Option<String>, Option<String>));
        let (counts, segments, (conclusion, reason)): Answer =
            self.run(job, &scripts::PROGRESS, &[Key::Job, Key::Segments], &[]).await?;
        let [scheduled, scheduled_items, planned, succeeded, failed, items, items_succeeded, descriptors] =
            counts[..]
        else {
            return Err(self.strange(job, format_args!("{} counts", counts.len())));
        };
        let conclusion = match conclusion {
            Some(word) => {
                Some(Conclusion { state: self.state_of(job, &word)?, reason: reason.unwrap_or_default() })
            }
            None => None,
        };
        let checkpoint =
            Checkpoint { scheduled, items: scheduled_items, descriptors, complete: planned == 1 };
        Ok(Progress { checkpoint, succeeded, failed, items, items_succeeded, segments, conclusion })
    }

    async fn ended(&self, job: &str, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        let mut answers = Vec::with_capacity(indexes.len());
        let mut rest = indexes;
        // At least one call, which tells whether the job is there.
        loop {
            let (asked, later) = rest.split_at(rest.len().min(ASKED_AT_ONCE));
            let flags: Vec<u8> =
                self.run(job, &scripts::ENDED, &[Key::Job, Key::Ended], &[&pack(&asked)]).await?;
            if flags.len() != asked.len() {
                return Err(self.strange(job, format_args!("{} of {} flags", flags.len(), asked.len())));
            }
            answers.extend(flags.into_iter().map(|flag| flag == b'1'));
            if later.is_empty() {
                return Ok(answers);
            }
            rest = later;
        }
    }

    async fn commit(
        &self,
        job: &str,
        key: &str,
        size: u64,
        entries: &[Entry],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        // Sums for the usual case that all are new; the details are looked at where some are not.
        let succeeded = entries.iter().filter(|entry| entry.succeeded).count() as u64;
        let sums = [
            size,
            succeeded,
            entries.len() as u64 - succeeded,
            entries.iter().map(|entry| entry.items).sum(),
            entries.iter().map(|entry| entry.items_succeeded).sum(),
        ]
        .map(|sum| sum.to_string());
        let indexes: Vec<_> = entries.iter().map(|entry| entry.index).collect();
        let details: Vec<_> = entries
            .iter()
            .flat_map(|entry| [u64::from(entry.succeeded), entry.items, entry.items_succeeded])
            .collect();
        let (indexes, details) = (pack(&indexes), pack(&details));
        let mut arguments = vec![key.as_bytes()];
        arguments.extend(sums.iter().map(String::as_bytes));
        arguments.extend([&indexes[..], &details]);
        let keys = [Key::Job, Key::Ended, Key::Segments, Key::SegmentKeys, Key::Tries];
        let lost: Vec<u8> = self.run(job, &scripts::COMMIT, &keys, &arguments).await?;
        self.unpack(job, &lost)
    }

    async fn segments(
        &self,
        job: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<CommittedSegment>, LedgerError> {
        let last = after.saturating_add(limit as u64).saturating_sub(1);
        let [after, last] = [after, last].map(|at| i64::try_from(at).unwrap_or(i64::MAX).to_string());
        let arguments = [after.as_bytes(), last.as_bytes()];
        let packed: Vec<Vec<u8>> =
            self.run(job, &scripts::SEGMENTS, &[Key::Job, Key::Segments], &arguments).await?;
        packed.iter().map(|packed| self.unpack(job, packed)).collect()
    }

    async fn record_failure(&self, job: &str, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        let blame: &[u8] = match failed.blame {
            Blame::Code => b"code",
            Blame::Node => b"node",
        };
        let index = failed.index.to_string();
        let arguments = [index.as_bytes(), failed.id.as_bytes(), blame];
        let keys = [Key::Job, Key::Ended, Key::Tries];
        let answer: Vec<u32> = self.run(job, &scripts::RECORD_FAILURE, &keys, &arguments).await?;
        Ok(match Noted::of(&answer) {
            None => Verdict::Done,
            Some(Noted { spoiled, lost, limits }) if limits.are_reached(spoiled, lost) => {
                Verdict::GiveUp { spoiled }
            }
            Some(Noted { spoiled, .. }) => Verdict::Retry { spoiled },
        })
    }

    async fn begin(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        let index = index.to_string();
        let keys = [Key::Job, Key::Ended, Key::Tries];
        let answer: Vec<u32> =
            self.run(job, &scripts::BEGIN, &keys, &[index.as_bytes(), start.as_bytes()]).await?;
        Ok(match Noted::of(&answer) {
            None => Begin::Done,
            Some(Noted { lost, limits, .. }) if lost >= limits.max_node_losses => Begin::GiveUp,
            Some(Noted { spoiled, lost, .. }) => Begin::Run { spoiled, lost },
        })
    }

    async fn abandon(&self, job: &str, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        let index = index.to_string();
        self.run(job, &scripts::ABANDON, &[Key::Job, Key::Tries], &[index.as_bytes(), start.as_bytes()]).await
    }

    async fn join(&self, job: &str, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        let joined = self.enter(job, info, wish, None).await?;
        joined.ok_or_else(|| self.strange(job, "a node was not entered"))
    }

    async fn heartbeat(
        &self,
        job: &str,
        node_id: u32,
        worker: &str,
        report: &NodeReport,
    ) -> Result<Signal, LedgerError> {
        let node_id = node_id.to_string();
        let arguments = [node_id.as_bytes(), worker.as_bytes(), &pack(report)];
        let answer: Vec<String> =
            self.run(job, &scripts::HEARTBEAT, &[Key::Job, Key::Nodes, Key::Heard], &arguments).await?;
        let [state, conclusion] = &answer[..] else {
            return Ok(Signal::Rejoin);
        };
        let state = self.state_of(job, state)?;
        let conclusion = if conclusion.is_empty() { None } else { Some(self.state_of(job, conclusion)?) };
        Ok(Signal::of(state, conclusion))
    }

    async fn leave(&self, job: &str, node_id: u32) -> Result<(), LedgerError> {
        let keys = [Key::Job, Key::Nodes, Key::Heard];
        self.run(job, &scripts::LEAVE, &keys, &[node_id.to_string().as_bytes()]).await
    }

    async fn nodes(&self, job: &str) -> Result<Vec<NodeView>, LedgerError> {
        type Answer = (u32, Vec<u8>, Vec<u8>, u64, bool);
        let answers: Vec<Answer> = self.run(job, &scripts::NODES, &[Key::Job, Key::Nodes], &[]).await?;
        let view = |(node_id, info, report, silent, left): Answer| {
            Ok(NodeView {
                node_id,
                info: self.unpack(job, &info)?,
                // A node that has joined and said nothing since.
                report: if report.is_empty() { NodeReport::default() } else { self.unpack(job, &report)? },
                silent: Duration::from_micros(silent),
                left,
            })
        };
        let mut views = answers.into_iter().map(view).collect::<Result<Vec<_>, LedgerError>>()?;
        views.sort_unstable_by_key(|view| view.node_id);
        Ok(views)
    }

    async fn conclude(&self, job: &str, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        let arguments = [conclusion.state.as_str().as_bytes(), conclusion.reason.as_bytes()];
        let (state, reason): (String, String) =
            self.run(job, &scripts::CONCLUDE, &[Key::Job], &arguments).await?;
        Ok(Conclusion { state: self.state_of(job, &state)?, reason })
    }

    async fn lease(
        &self,
        job: &str,
        duty: Duty,
        owner: &str,
        time: Duration,
    ) -> Result<Option<u64>, LedgerError> {
        let (time, alive) = (time.as_micros().min(LONGEST_LEASE).to_string(), seconds_to_live());
        let arguments = [duty.as_str().as_bytes(), owner.as_bytes(), time.as_bytes(), alive.as_bytes()];
        let fence: u64 = self.run(job, &scripts::LEASE, &Key::ALL, &arguments).await?;
        Ok((fence > 0).then_some(fence))
    }

    async fn release(&self, job: &str, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        let arguments = [duty.as_str().as_bytes(), owner.as_bytes()];
        self.run(job, &scripts::RELEASE, &[Key::Job, Key::Leases], &arguments).await
    }
}

#[async_trait]
impl Membership for RedisLedger {
    async fn offer(&self, target: &str, offer: &Offer) -> Result<(), LedgerError> {
        let (bell, alive) = (TargetKey::Bell.of(target), seconds_to_live());
        let arguments = [offer.run.as_bytes(), &pack(offer), bell.as_bytes(), alive.as_bytes()];
        self.run_for(target, &scripts::OFFER, &[TargetKey::Offers], &arguments).await
    }

    async fn withdraw(&self, target: &str, run: &str) -> Result<(), LedgerError> {
        self.run_for(target, &scripts::WITHDRAW, &[TargetKey::Offers], &[run.as_bytes()]).await
    }

    async fn offers(
        &self,
        target: &str,
        worker: Option<&NodeInfo>,
        quiet: Duration,
    ) -> Result<Offers, LedgerError> {
        type Answer = (bool, Vec<(Vec<u8>, u32, String, bool, bool)>);
        let times = [quiet, IDLE_IS_REMEMBERED].map(|time| time.as_micros().to_string());
        let alive = seconds_to_live();
        let worker = worker.map(pack).unwrap_or_default();
        let arguments: [&[u8]; 5] =
            [&worker, times[0].as_bytes(), times[1].as_bytes(), alive.as_bytes(), target.as_bytes()];
        let keys = [TargetKey::Offers, TargetKey::Idle, TargetKey::Filled, TargetKey::All];
        let (are_filled, found): Answer = self.run_for(target, &scripts::OFFERS, &keys, &arguments).await?;
        let mut offered = Vec::with_capacity(found.len());
        for (offer, nodes, state, is_concluded, is_watched) in found {
            let books = match &*state {
                "" => None,
                word => Some(Books { state: self.state_of("", word)?, is_concluded, is_watched }),
            };
            match self.unpack(target, &offer) {
                Ok(offer) => offered.push(Offered { offer, nodes, books }),
                // The others do not wait for one that another program has put there.
                Err(error) => tracing::warn!(%error, target, "an offer in the ledger is left alone"),
            }
        }
        Ok(Offers { offered, are_filled })
    }

    async fn idle(&self, target: &str, within: Duration) -> Result<u64, LedgerError> {
        let within = within.as_micros().to_string();
        self.run_for(target, &scripts::IDLE, &[TargetKey::Idle], &[within.as_bytes()]).await
    }

    async fn idle_workers(&self, target: &str, within: Duration) -> Result<Vec<IdleWorker>, LedgerError> {
        let within = within.as_micros().to_string();
        let keys = [TargetKey::Idle];
        let packed: Vec<(Vec<u8>, u64)> =
            self.run_for(target, &scripts::IDLE_WORKERS, &keys, &[within.as_bytes()]).await?;
        let idle = |(info, silent): (Vec<u8>, u64)| {
            let silent = Duration::from_micros(silent);
            self.unpack(target, &info).map(|info| IdleWorker { info, silent })
        };
        packed.into_iter().map(idle).collect()
    }

    async fn targets(&self) -> Result<Vec<String>, LedgerError> {
        let within = TIME_TO_LIVE.as_micros().to_string();
        self.run_for("", &scripts::TARGETS, &[TargetKey::All], &[within.as_bytes()]).await
    }

    async fn begin_to_fill(&self, target: &str, time: Duration) -> Result<bool, LedgerError> {
        let (call, time) = (call_name(), time.as_millis().to_string());
        let arguments = [call.as_bytes(), time.as_bytes()];
        self.run_for(target, &scripts::BEGIN_TO_FILL, &[TargetKey::Filled], &arguments).await
    }

    async fn filled(&self, target: &str, time: Duration) -> Result<(), LedgerError> {
        let time = time.as_millis().to_string();
        self.run_for(target, &scripts::FILLED, &[TargetKey::Filled], &[time.as_bytes()]).await
    }

    async fn belongs_to(&self, storage: &str) -> Result<String, LedgerError> {
        let keys = [STORAGE.to_owned()];
        let noted = self.connection.run(&scripts::BELONGS_TO, &keys, &[storage.as_bytes()]).await;
        noted.map_err(|failure| self.error("", failure))
    }

    async fn ring(&self, target: &str) -> Result<(), LedgerError> {
        let bell = TargetKey::Bell.of(target);
        self.run_for(target, &scripts::RING, &[], &[bell.as_bytes()]).await
    }

    fn bell(&self, targets: &[String]) -> Box<dyn Bell> {
        let channels = targets.iter().map(|target| TargetKey::Bell.of(target)).collect();
        Box::new(RedisBell { connection: self.connection.clone(), channels, listening: None })
    }

    async fn take_seat(&self, job: &str, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.enter(job, info, None, Some(seats)).await
    }
}
