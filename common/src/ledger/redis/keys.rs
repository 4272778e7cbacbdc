//! The names of keys; the table in `mod.rs` says what they hold.

/// The kinds of keys of a job.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Job,
    Ended,
    Segments,
    SegmentKeys,
    Tries,
    Nodes,
    Workers,
    Heard,
    Copies,
    OpenCopies,
    Statistics,
    Leases,
}

impl Key {
    pub(super) const ALL: [Self; 12] = [
        // First: what tells whether the job is there.
        Self::Job,
        Self::Ended,
        Self::Segments,
        Self::SegmentKeys,
        Self::Tries,
        Self::Nodes,
        Self::Workers,
        Self::Heard,
        Self::Copies,
        Self::OpenCopies,
        Self::Statistics,
        // Last: who holds which duty.
        Self::Leases,
    ];

    pub(super) fn of(self, job: &str) -> String {
        let kind = match self {
            Self::Job => "job",
            Self::Ended => "ended",
            Self::Segments => "segments",
            Self::SegmentKeys => "segment_keys",
            Self::Tries => "tries",
            Self::Nodes => "nodes",
            Self::Workers => "workers",
            Self::Heard => "heard",
            Self::Copies => "copies",
            Self::OpenCopies => "open_copies",
            Self::Statistics => "statistics",
            Self::Leases => "leases",
        };
        format!("prs:{{{job}}}:{kind}")
    }
}

/// The kinds of keys of a target.
#[derive(Clone, Copy)]
pub(super) enum TargetKey {
    Offers,
    Idle,
    Filled,
    History,
    /// The names of all targets.
    All,
    /// Identity of the storage that the ledger belongs to.
    Storage,
    /// The targets that autoscalers asked for.
    Asked,
    /// The workers that were asked to leave.
    Draining,
    /// The summaries of jobs; their changes; those that were removed; the state of this index.
    Jobs,
    JobChanges,
    RemovedJobs,
    JobIndex,
    /// How many jobs ended, by how.
    EndedJobs,
    /// A channel, and no key.
    Bell,
}

impl TargetKey {
    /// The `@` keeps it apart from the keys of a job: no job has a name that begins so.
    pub(super) fn of(self, target: &str) -> String {
        let kind = match self {
            Self::Offers => "offers",
            Self::Idle => "idle",
            Self::Filled => "filled",
            Self::History => "history",
            Self::All => return "prs:targets".to_owned(),
            Self::Storage => return "prs:storage".to_owned(),
            Self::Asked => return "prs:asked".to_owned(),
            Self::Draining => return "prs:draining".to_owned(),
            Self::Jobs => return "prs:jobs".to_owned(),
            Self::JobChanges => return "prs:jobs:changed".to_owned(),
            Self::RemovedJobs => return "prs:jobs:removed".to_owned(),
            Self::JobIndex => return "prs:jobs:index".to_owned(),
            Self::EndedJobs => return "prs:jobs:ended".to_owned(),
            Self::Bell => "bell",
        };
        format!("prs:{{@{target}}}:{kind}")
    }
}
