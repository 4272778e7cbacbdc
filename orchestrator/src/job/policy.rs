//! What depends on where a job runs, in one value: time-outs, intervals, and what the loss of a server means.

use std::time::Duration;

use prs_common::ledger::NodeView;

/// What differs between a job in one process and a job on a fleet, and how often things are looked at. Nothing else asks
/// where it runs.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Between two looks of the orchestrator.
    pub watch: Duration,
    /// Between two heartbeats of a node.
    pub heartbeat: Duration,
    /// A node that said nothing for so long is lost.
    pub lost: Duration,
    /// How long the lease of an orchestrator lasts.
    pub lease: Duration,
    /// Between two lines of the progress overview.
    pub overview: Duration,
    /// Between two writes of the record while the job runs; absent where it only says how a start of the job began and
    /// how it ended.
    pub record: Option<Duration>,
    /// Between two writes of where the job stands in its statistics, while nobody looks at them.
    pub statistics: Duration,
    /// The same of the rest of them.
    pub statistics_lists: Duration,
    /// Between two looks at what may get lost: the scheduler, the queue, the offer of the job. Absent where nothing can.
    pub upkeep: Option<Duration>,
    /// After this time without movement, with nothing waiting and nothing in hand, mini-batches were lost.
    pub stalled: Duration,
    /// How long a queue may not be served before it is left for another.
    pub not_served: Duration,
    /// How long a server may be out of reach of a worker alone, before the worker gives way to others.
    pub gives_way: Duration,
    /// How long every worker that tries may fail to watch over a job, before the job fails with that.
    pub gives_up: Duration,
    /// How long nodes have to leave before it is written down how the job ended.
    pub leave_before_end: Duration,
    /// How long they have after that, before the reports end without them.
    pub leave: Duration,
    /// Between two deliveries of the logs to storage (spec section 5: at most 10 s late).
    pub logs: Duration,
    /// Whether servers may be away for any time. What fails for now is tried again then; otherwise it fails the job.
    pub waits_for_servers: bool,
    /// Whether other workers may take over, and do what this host cannot.
    pub has_others: bool,
    /// Whether the record with the result is the end of the job, and without it there is none.
    pub ends_by_record: bool,
    /// Whether the orchestrator removes the segments itself; otherwise they go with the queue and the entry in the ledger.
    pub removes_segments: bool,
    /// Whether descriptors travel through a server: long ones are stored, and foreign ones are looked for.
    pub is_queue_remote: bool,
    /// Age at which the segment of an idle node is written. A node that is faster than a broker is idle for a moment again
    /// and again, and a segment for each of them would cost more than the mini-batches in it.
    pub old_when_idle: Duration,
    /// Mini-batches that are published together, where each time costs round trips.
    pub publish_together: usize,
    /// Between two looks at a queue that is full.
    pub full_queue: Duration,
}

impl Policy {
    /// Whether a node still serves its job: it has neither left nor been silent for too long.
    pub fn is_present(&self, node: &NodeView) -> bool {
        !node.left && node.silent <= self.lost
    }

    /// For a job in one process: everything is near, and what is lost is lost with the process.
    pub fn embedded() -> Self {
        Self {
            watch: Duration::from_millis(20),
            heartbeat: Duration::from_millis(20),
            lost: Duration::MAX,
            lease: Duration::from_secs(30),
            overview: Duration::from_secs(5),
            record: Some(Duration::from_secs(1)),
            statistics: Duration::from_secs(5),
            statistics_lists: Duration::from_secs(5),
            upkeep: None,
            stalled: Duration::MAX,
            not_served: Duration::from_secs(30),
            gives_way: Duration::MAX,
            gives_up: Duration::MAX,
            leave_before_end: Duration::from_secs(30),
            leave: Duration::ZERO,
            logs: Duration::from_millis(200),
            waits_for_servers: false,
            has_others: false,
            ends_by_record: false,
            removes_segments: true,
            is_queue_remote: false,
            old_when_idle: Duration::ZERO,
            publish_together: 1,
            full_queue: Duration::from_millis(3),
        }
    }

    /// For a job on a fleet. Cancelling and exceeded thresholds end a job within 2 s (spec S7, S13).
    pub fn fleet() -> Self {
        Self {
            watch: Duration::from_millis(200),
            heartbeat: Duration::from_millis(300),
            lost: Duration::from_secs(4),
            lease: Duration::from_secs(3),
            overview: Duration::from_secs(5),
            record: None,
            statistics: Duration::from_secs(10),
            statistics_lists: Duration::from_secs(30),
            upkeep: Some(Duration::from_secs(1)),
            stalled: Duration::from_secs(3),
            not_served: Duration::from_secs(30),
            gives_way: Duration::from_secs(10),
            gives_up: Duration::from_mins(10),
            leave_before_end: Duration::ZERO,
            leave: Duration::from_secs(10),
            logs: Duration::from_secs(4),
            waits_for_servers: true,
            has_others: true,
            ends_by_record: true,
            removes_segments: false,
            is_queue_remote: true,
            old_when_idle: Duration::from_millis(25),
            publish_together: 4_096,
            full_queue: Duration::from_millis(50),
        }
    }
}
