//! What the ledger keeps of one job, each verb a script.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::{FromRedisValue, ToRedisArgs};

use super::failure::RedisFailure;
use super::keys::{Key, TargetKey};
use super::membership::micros;
use super::packed::Packed;
use super::scripts::{self, Script};
use super::{NONE, RedisLedger, TIME_TO_LIVE, call_name};
use crate::ledger::{
    Begin, Blame, Checkpoint, CommittedSegment, Conclusion, Duty, FailedTry, Heard, JobLedger, JobLook,
    JobProgress, JobState, LIVE, LedgerError, LedgerErrorKind, MiniBatchOutcome, NodeInfo, NodeReport,
    NodeView, NotedTries, Obstacle, ObstacleKind, OfferedCopy, OpenCopy, READS_FOR, Seats, Signal, TryLimits,
    Verdict,
};
use crate::mini_batch::MiniBatchIndex;

/// Mini-batches asked about in one call; the server does nothing else meanwhile.
const ASKED_AT_ONCE: usize = 4096;
/// How long a node may be quiet that enters whether or not a seat is free.
const QUIET: Duration = Duration::from_mins(1);
/// The longest lease, microseconds: more is exact nowhere in Lua.
const LONGEST_LEASE: u64 = 1 << 52;

/// The handle of one job, whether or not it is known.
#[derive(Debug)]
pub(super) struct RedisJob {
    pub(super) ledger: RedisLedger,
    pub(super) job: String,
}

impl RedisJob {
    /// Runs a script on keys of the job, the first of which must be [`Key::Job`].
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[Key],
        arguments: impl ToRedisArgs + Send,
    ) -> Result<T, LedgerError> {
        let keys: Vec<String> = keys.iter().map(|key| key.of(&self.job)).collect();
        self.run_on(script, &keys, arguments).await
    }

    /// Runs a script on these keys, the first of which tells whether the job is there.
    async fn run_on<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        arguments: impl ToRedisArgs + Send,
    ) -> Result<T, LedgerError> {
        let answer: Result<Option<T>, _> = self.ledger.connection.run(script, keys, arguments).await;
        match answer {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.not_found("no such job")),
            Err(failure) if failure.raised => Err(self.lose(failure).await),
            Err(failure) => Err(self.ledger.error(&self.job, failure)),
        }
    }

    fn not_found(&self, what: &str) -> LedgerError {
        let message = format!("{what} in the {}", self.ledger);
        LedgerError::new(LedgerErrorKind::NotFound, &self.job, message)
    }

    /// Forgets the job after a script raised an error over its keys: some were deleted or replaced, and what is left of them
    /// cannot be trusted. The answer is the error of a job that was lost, which is filled anew from storage.
    async fn lose(&self, failure: RedisFailure) -> LedgerError {
        let keys = Key::ALL.map(|key| key.of(&self.job));
        let lost: Result<i64, _> =
            self.ledger.connection.run(&scripts::LOSE, &keys, TIME_TO_LIVE.as_secs()).await;
        if let Err(failure) = lost {
            return self.ledger.error(&self.job, failure);
        }
        let (job, cause) = (&self.job, failure.message);
        tracing::warn!(job, ledger = %self.ledger, cause, "the ledger lost a part of the job and forgets the rest");
        self.not_found("the job was lost in part")
    }

    /// Runs a script that answers -1 to who does not have the present lease of a duty.
    async fn run_with(
        &self,
        duty: Duty,
        script: &Script,
        arguments: impl ToRedisArgs + Send,
    ) -> Result<bool, LedgerError> {
        let answer: i64 = self.run(script, &[Key::Job, Key::Leases], arguments).await?;
        if answer < 0 { Err(LedgerError::superseded(&self.job, duty)) } else { Ok(answer == 1) }
    }

    /// Enters a node; nothing where no seat is free.
    async fn enter(
        &self,
        info: &NodeInfo,
        wish: Option<u32>,
        seats: Option<Seats>,
    ) -> Result<Option<u32>, LedgerError> {
        let wish = wish.map(|id| id.to_string()).unwrap_or_default();
        let count = seats.map(|seats| seats.count.to_string()).unwrap_or_default();
        let quiet = micros(seats.map_or(QUIET, |seats| seats.quiet));
        let report = Packed(NodeReport::default());
        let arguments = (&info.worker, Packed(info), report, wish, count, quiet);
        let keys = [Key::Job, Key::Nodes, Key::Workers, Key::Heard];
        let node_id: i64 = self.run(&scripts::JOIN, &keys, arguments).await?;
        Ok(u32::try_from(node_id).ok())
    }
}

fn reads_for() -> u64 {
    READS_FOR.as_micros() as u64
}

/// What is noted of a mini-batch, as `record_failure` and `begin` return it.
struct Noted {
    failed_tries: u32,
    node_losses: u32,
    limits: TryLimits,
}

impl Noted {
    /// Nothing when the outcome is known.
    fn of(answer: &[u32]) -> Option<Self> {
        match *answer {
            [failed_tries, node_losses, run_max_try, max_node_losses] => {
                let limits = TryLimits { run_max_try, max_node_losses };
                Some(Self { failed_tries, node_losses, limits })
            }
            _ => None,
        }
    }
}

/// What the script `progress` answers.
type ProgressAnswer = (
    (u64, u64, bool, u64, u64, u64, u64, u64, u64),
    u64,
    (Option<JobState>, Option<String>, Option<u64>),
    bool,
    (Option<String>, Option<String>, u64),
);
/// What the script `nodes` answers of each.
type NodeAnswer = (u32, Packed<NodeInfo>, Packed<NodeReport>, u64, bool);

fn progress_of(answer: ProgressAnswer) -> JobProgress {
    let (counts, segments, (conclusion, reason, concluded_us), is_read, obstacle) = answer;
    let (scheduled, scheduled_items, complete, succeeded, failed, items, items_succeeded, descriptors, end) =
        counts;
    let checkpoint = Checkpoint { scheduled, items: scheduled_items, descriptors, complete, end };
    let conclusion = conclusion.map(|state| Conclusion { state, reason: reason.unwrap_or_default() });
    JobProgress {
        checkpoint,
        succeeded,
        failed,
        items,
        items_succeeded,
        segments,
        conclusion,
        concluded_us,
        is_read,
        obstacle: obstacle_of(obstacle),
    }
}

/// Nothing of a kind that is not known.
fn obstacle_of((kind, reason, lasts): (Option<String>, Option<String>, u64)) -> Option<Obstacle> {
    let kind = kind?;
    let kind = ObstacleKind::ALL.into_iter().find(|one| one.as_str() == kind)?;
    let lasts = Duration::from_micros(lasts);
    Some(Obstacle { kind, reason: reason.unwrap_or_default(), lasts })
}

fn views_of(answers: Vec<NodeAnswer>) -> Vec<NodeView> {
    let view = |(node_id, Packed(info), Packed(report), silent, left): NodeAnswer| {
        let silent = Duration::from_micros(silent);
        NodeView { node_id, info, report, silent, left }
    };
    let mut views: Vec<_> = answers.into_iter().map(view).collect();
    views.sort_unstable_by_key(|view| view.node_id);
    views
}

#[async_trait]
impl JobLedger for RedisJob {
    async fn create(&self, limits: TryLimits) -> Result<(), LedgerError> {
        let arguments = (call_name(), limits.run_max_try, limits.max_node_losses, TIME_TO_LIVE.as_secs());
        if self.run(&scripts::CREATE, &Key::ALL, arguments).await? {
            return Ok(());
        }
        let message = format!("a job of this id exists in the {}", self.ledger);
        Err(LedgerError::new(LedgerErrorKind::AlreadyExists, &self.job, message))
    }

    async fn state(&self) -> Result<JobState, LedgerError> {
        self.run(&scripts::STATE, &[Key::Job], NONE).await
    }

    async fn set_state(&self, state: JobState, fence: u64) -> Result<bool, LedgerError> {
        self.run_with(Duty::Watch, &scripts::SET_STATE, (state.as_str(), fence)).await
    }

    async fn reset(&self, owner: &str) -> Result<bool, LedgerError> {
        self.run(&scripts::RESET, &Key::ALL, owner).await
    }

    async fn remove(&self) -> Result<(), LedgerError> {
        self.run(&scripts::REMOVE, &Key::ALL, NONE).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint, fence: u64) -> Result<(), LedgerError> {
        let Checkpoint { scheduled, items, descriptors, complete, end } = checkpoint;
        let arguments = (scheduled, items, complete, descriptors, fence, end);
        self.run_with(Duty::Schedule, &scripts::CHECKPOINT, arguments).await.map(drop)
    }

    async fn progress(&self) -> Result<JobProgress, LedgerError> {
        let keys = [Key::Job, Key::Segments, Key::Statistics];
        let answer: ProgressAnswer = self.run(&scripts::PROGRESS, &keys, reads_for()).await?;
        Ok(progress_of(answer))
    }

    async fn ended(&self, indexes: &[MiniBatchIndex]) -> Result<Vec<bool>, LedgerError> {
        let mut answers = Vec::with_capacity(indexes.len());
        let mut rest = indexes;
        // At least one call, which tells whether the job is there.
        loop {
            let (asked, later) = rest.split_at(rest.len().min(ASKED_AT_ONCE));
            let flags: Vec<u8> = self.run(&scripts::ENDED, &[Key::Job, Key::Ended], Packed(asked)).await?;
            if flags.len() != asked.len() {
                let strange = format!("{} of {} flags", flags.len(), asked.len());
                return Err(self.ledger.error(&self.job, RedisFailure::strange(strange)));
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
        key: &str,
        size: u64,
        outcomes: &[MiniBatchOutcome],
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        // Sums for the usual case that all are new; the details are looked at where some are not.
        let succeeded = outcomes.iter().filter(|outcome| outcome.succeeded).count();
        let failed = outcomes.len() - succeeded;
        let items: u64 = outcomes.iter().map(|outcome| outcome.items).sum();
        let items_succeeded: u64 = outcomes.iter().map(|outcome| outcome.items_succeeded).sum();
        let indexes: Vec<_> = outcomes.iter().map(|outcome| outcome.index).collect();
        let details: Vec<_> = outcomes
            .iter()
            .flat_map(|outcome| [u64::from(outcome.succeeded), outcome.items, outcome.items_succeeded])
            .collect();
        let (indexes, details) = (Packed(indexes), Packed(details));
        let arguments = (key, size, succeeded, failed, items, items_succeeded, indexes, details);
        let keys = [Key::Job, Key::Ended, Key::Segments, Key::SegmentKeys, Key::Tries];
        let duplicates: Packed<_> = self.run(&scripts::COMMIT, &keys, arguments).await?;
        Ok(duplicates.0)
    }

    async fn segments(&self, after: u64, limit: usize) -> Result<Vec<CommittedSegment>, LedgerError> {
        let last = after.saturating_add(limit as u64).saturating_sub(1);
        let [after, last] = [after, last].map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        let packed: Vec<Packed<_>> =
            self.run(&scripts::SEGMENTS, &[Key::Job, Key::Segments], (after, last)).await?;
        Ok(packed.into_iter().map(|segment| segment.0).collect())
    }

    async fn record_failure(&self, failed: &FailedTry) -> Result<Verdict, LedgerError> {
        let blame = match failed.blame {
            Blame::Code => "code",
            Blame::Node => "node",
        };
        let keys = [Key::Job, Key::Ended, Key::Tries];
        let answer: Vec<u32> =
            self.run(&scripts::RECORD_FAILURE, &keys, (failed.index, &failed.id, blame)).await?;
        Ok(match Noted::of(&answer) {
            None => Verdict::Done,
            Some(Noted { failed_tries, node_losses, limits })
                if limits.are_reached(failed_tries, node_losses) =>
            {
                Verdict::GiveUp { failed_tries }
            }
            Some(Noted { failed_tries, .. }) => Verdict::Retry { failed_tries },
        })
    }

    async fn begin(&self, index: MiniBatchIndex, start: &str) -> Result<Begin, LedgerError> {
        let keys = [Key::Job, Key::Ended, Key::Tries];
        let answer: Vec<u32> = self.run(&scripts::BEGIN, &keys, (index, start)).await?;
        Ok(match Noted::of(&answer) {
            None => Begin::Done,
            Some(Noted { node_losses, limits, .. }) if node_losses >= limits.max_node_losses => Begin::GiveUp,
            Some(Noted { failed_tries, node_losses, .. }) => Begin::Run { failed_tries, node_losses },
        })
    }

    async fn abandon(&self, index: MiniBatchIndex, start: &str) -> Result<(), LedgerError> {
        self.run(&scripts::ABANDON, &[Key::Job, Key::Tries], (index, start)).await
    }

    async fn noted_tries(&self, index: MiniBatchIndex) -> Result<NotedTries, LedgerError> {
        let keys = [Key::Job, Key::Ended, Key::Tries];
        let (failed, passed_on_by) = self.run(&scripts::NOTED_TRIES, &keys, index).await?;
        Ok(NotedTries { failed, passed_on_by })
    }

    async fn pass_on(&self, index: MiniBatchIndex, start: &str, service: &str) -> Result<(), LedgerError> {
        let keys = [Key::Job, Key::Ended, Key::Tries];
        self.run(&scripts::PASS_ON, &keys, (index, start, service)).await
    }

    async fn want_copies(
        &self,
        indexes: &[MiniBatchIndex],
        fence: u64,
    ) -> Result<Vec<MiniBatchIndex>, LedgerError> {
        let keys = [Key::Job, Key::Ended, Key::Copies, Key::OpenCopies, Key::Leases];
        let arguments = (Packed(indexes), fence);
        let (is_holder, new): (bool, Packed<_>) = self.run(&scripts::WANT_COPIES, &keys, arguments).await?;
        if is_holder { Ok(new.0) } else { Err(LedgerError::superseded(&self.job, Duty::Watch)) }
    }

    async fn open_copies(&self) -> Result<Vec<OpenCopy>, LedgerError> {
        let open: Vec<(MiniBatchIndex, String)> =
            self.run(&scripts::OPEN_COPIES, &[Key::Job, Key::Ended, Key::OpenCopies], NONE).await?;
        let open_copy = |(index, worker): (_, String)| OpenCopy {
            index,
            offered_by: Some(worker).filter(|worker| !worker.is_empty()),
        };
        Ok(open.into_iter().map(open_copy).collect())
    }

    async fn offer_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
        copy: &OfferedCopy,
    ) -> Result<(), LedgerError> {
        let keys = [Key::Job, Key::Copies, Key::OpenCopies];
        self.run(&scripts::OFFER_COPY, &keys, (index, worker, Packed(copy))).await
    }

    async fn take_copy(
        &self,
        index: MiniBatchIndex,
        worker: &str,
    ) -> Result<Option<OfferedCopy>, LedgerError> {
        let keys = [Key::Job, Key::Ended, Key::Copies, Key::OpenCopies];
        let taken: Vec<Packed<OfferedCopy>> = self.run(&scripts::TAKE_COPY, &keys, (index, worker)).await?;
        Ok(taken.into_iter().next().map(|copy| copy.0))
    }

    async fn publish_statistics(&self, parts: &[(&str, Bytes)], fence: u64) -> Result<(), LedgerError> {
        let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, part)| (*name, &part[..])).collect();
        let keys = [Key::Job, Key::Statistics, Key::Leases];
        let answer: i64 = self.run(&scripts::PUBLISH_STATISTICS, &keys, (fence, parts)).await?;
        if answer < 0 { Err(LedgerError::superseded(&self.job, Duty::Watch)) } else { Ok(()) }
    }

    async fn statistics(&self, names: &[&str]) -> Result<Vec<Option<Bytes>>, LedgerError> {
        let arguments = (reads_for(), TIME_TO_LIVE.as_secs(), names);
        let keys = [Key::Job, Key::Statistics];
        let parts: Vec<Option<Vec<u8>>> = self.run(&scripts::STATISTICS, &keys, arguments).await?;
        Ok(parts.into_iter().map(|part| part.map(Bytes::from)).collect())
    }

    async fn join(&self, info: &NodeInfo, wish: Option<u32>) -> Result<u32, LedgerError> {
        let not_entered = || self.ledger.error(&self.job, RedisFailure::strange("a node was not entered"));
        self.enter(info, wish, None).await?.ok_or_else(not_entered)
    }

    async fn take_seat(&self, info: &NodeInfo, seats: Seats) -> Result<Option<u32>, LedgerError> {
        self.enter(info, None, Some(seats)).await
    }

    async fn heartbeat(&self, node_id: u32, worker: &str, report: &NodeReport) -> Result<Heard, LedgerError> {
        let keys = [Key::Job, Key::Nodes, Key::Heard].map(|key| key.of(&self.job));
        let keys = [&keys[..], &[TargetKey::Draining.of("")]].concat();
        let arguments = (node_id, worker, Packed(report), micros(LIVE));
        let (state, conclusion, leaves, live_nodes, has_succeeded): (
            Option<JobState>,
            Option<JobState>,
            bool,
            u32,
            bool,
        ) = self.run_on(&scripts::HEARTBEAT, &keys, arguments).await?;
        let signal =
            state.map_or(Signal::Rejoin, |state| Signal::of(state, conclusion).unless_asked_to_leave(leaves));
        Ok(Heard { signal, live_nodes, has_succeeded })
    }

    async fn leave(&self, node_id: u32) -> Result<(), LedgerError> {
        self.run(&scripts::LEAVE, &[Key::Job, Key::Nodes, Key::Heard], node_id).await
    }

    async fn nodes(&self) -> Result<Vec<NodeView>, LedgerError> {
        Ok(views_of(self.run(&scripts::NODES, &[Key::Job, Key::Nodes], NONE).await?))
    }

    async fn look(&self, names: &[&str]) -> Result<JobLook, LedgerError> {
        type Answer = (JobState, ProgressAnswer, Vec<NodeAnswer>, Vec<Option<Vec<u8>>>);
        let keys = [Key::Job, Key::Segments, Key::Statistics, Key::Nodes];
        let arguments = (reads_for(), TIME_TO_LIVE.as_secs(), names);
        let (state, progress, nodes, statistics): Answer = self.run(&scripts::LOOK, &keys, arguments).await?;
        Ok(JobLook {
            state,
            progress: progress_of(progress),
            nodes: views_of(nodes),
            statistics: statistics.into_iter().map(|part| part.map(Bytes::from)).collect(),
        })
    }

    async fn conclude(&self, conclusion: &Conclusion) -> Result<Conclusion, LedgerError> {
        let arguments = (conclusion.state.as_str(), &conclusion.reason);
        let (state, reason) = self.run(&scripts::CONCLUDE, &[Key::Job], arguments).await?;
        Ok(Conclusion { state, reason })
    }

    async fn note_obstacle(&self, obstacle: Option<(ObstacleKind, &str)>) -> Result<(), LedgerError> {
        let (kind, reason) = obstacle.map_or(("", ""), |(kind, reason)| (kind.as_str(), reason));
        self.run(&scripts::NOTE_OBSTACLE, &[Key::Job], (kind, reason)).await
    }

    async fn lease(&self, duty: Duty, owner: &str, time: Duration) -> Result<Option<u64>, LedgerError> {
        let time = u64::try_from(time.as_micros()).unwrap_or(LONGEST_LEASE).min(LONGEST_LEASE);
        let arguments = (duty.as_str(), owner, time, TIME_TO_LIVE.as_secs());
        let fence: u64 = self.run(&scripts::LEASE, &Key::ALL, arguments).await?;
        Ok((fence > 0).then_some(fence))
    }

    async fn release(&self, duty: Duty, owner: &str) -> Result<(), LedgerError> {
        self.run(&scripts::RELEASE, &[Key::Job, Key::Leases], (duty.as_str(), owner)).await
    }
}
