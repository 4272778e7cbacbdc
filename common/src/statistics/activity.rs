//! Activity: nodes by time, how busy they were and where tries failed.

use std::ops::BitOr;

use serde::{Deserialize, Serialize};

use super::{Part, ensure};

/// Columns, at most.
pub const COLUMNS: usize = 96;
/// Lanes that together have all nodes, at most.
pub const MOST_LANES: usize = 64;
/// Lanes of single nodes beside them, at most: the slowest, and those with most failed tries.
pub const MOST_NAMED_LANES: usize = 16;

/// What happened in a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks(pub u8);

impl Marks {
    /// Nothing of note.
    pub const NONE: Self = Self(0);
    /// A try failed.
    pub const FAILED: Self = Self(1);
    /// A try was lost with its node.
    pub const LOST: Self = Self(2);

    /// Whether it has all marks of another one.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Marks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaneKind {
    /// A process.
    Process,
    /// A node.
    #[default]
    Node,
    /// Nodes that follow each other.
    Group,
    /// One of the slowest nodes, beside its own lane or that of its group.
    Slow,
    /// One of the nodes with most failed tries, beside its own lane or that of its group.
    Failing,
}

crate::record::record! {
    /// A row of the picture.
    pub struct Lane {
        /// What it is.
        pub kind: LaneKind,
        /// Name of the process; empty for nodes.
        pub process: String,
        /// The node, or the first one.
        pub first_node: u32,
        /// The last node.
        pub last_node: u32,
        /// Slots that are 100 %.
        pub slots: u32,
        /// Tries that failed.
        pub failed_tries: u64,
        /// Median of `run()` of the node, microseconds; 0 where it is not known.
        pub median_us: u64,
        /// Two bytes for each column: how busy it was (0 to 250, which is all the time), and the [`Marks`].
        pub cells: Cells,
    }
}

/// The cells of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cells(#[serde(with = "serde_bytes")] pub Vec<u8>);

impl Cells {
    /// The value of a cell that was busy all the time.
    pub const FULL: u8 = 250;

    /// Appends the next column: busy for so much of the time that its slots have.
    pub fn push(&mut self, busy_us: u64, slots_us: u64, marks: Marks) {
        let busy = match slots_us {
            0 => 0,
            _ => (u128::from(busy_us) * u128::from(Self::FULL) / u128::from(slots_us)).min(Self::FULL.into()),
        };
        // What was busy at all is not shown as if it was not.
        let busy = if busy == 0 && busy_us > 0 { 1 } else { busy as u8 };
        self.0.extend([busy, marks.0]);
    }

    /// How busy each column was, 0 to 250, and what is marked.
    pub fn columns(&self) -> impl Iterator<Item = (u8, Marks)> {
        self.0.as_chunks::<2>().0.iter().map(|[busy, marks]| (*busy, Marks(*marks)))
    }
}

crate::record::record! {
    /// The picture: lanes from above, columns by time.
    pub struct Activity {
        /// When this was written.
        pub written_us: u64,
        /// When the first column begins.
        pub origin_us: u64,
        /// How long a column is, seconds: a power of two.
        pub step_s: u32,
        /// Columns that are in use.
        pub columns: u32,
        /// Lanes that together have all nodes, by id.
        pub lanes: Vec<Lane>,
        /// Single nodes beside them: the slowest first, then those with most failed tries.
        pub named: Vec<Lane>,
    }
}

impl Part for Activity {
    const NAME: &'static str = "activity";
    const MOST_BYTES: usize = 20 << 10;

    fn check(&self) -> Result<(), &'static str> {
        ensure(self.columns as usize <= COLUMNS, "an activity of too many columns")?;
        ensure(self.lanes.len() <= MOST_LANES, "an activity of too many lanes")?;
        ensure(self.named.len() <= MOST_NAMED_LANES, "an activity of too many named lanes")?;
        let is_whole = |lane: &Lane| lane.cells.0.len() == 2 * self.columns as usize;
        ensure(self.lanes.iter().chain(&self.named).all(is_whole), "a lane of other columns")
    }
}
