//! The plan in cells: what became of the mini-batches, by their place in the input.
//!
//! A cell has as many mini-batches as a power of two says, which doubles when the plan outgrows the cells: a plan that is not
//! finished needs no total.

use serde::{Deserialize, Serialize};

use super::varints::Varints;
use crate::mini_batch::MiniBatchIndex;

/// Most cells.
pub const MOST_CELLS: usize = 1_024;

/// Mini-batches that follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cell {
    /// Of them, those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those whose first try failed.
    pub retried: u64,
}

impl Cell {
    /// Takes in another one.
    pub fn merge(&mut self, other: &Self) {
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
        self.retried = self.retried.saturating_add(other.retried);
    }
}

/// The cells of a plan, as far as something happened in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Packed", try_from = "Packed")]
pub struct PlanMap {
    width_log2: u32,
    cells: Vec<Cell>,
}

impl PlanMap {
    /// Mini-batches of a cell.
    pub fn width(&self) -> u64 {
        1 << self.width_log2
    }

    /// The cells from the first mini-batch on; behind the last one nothing happened yet.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cell of a mini-batch.
    pub fn at(&mut self, index: MiniBatchIndex) -> &mut Cell {
        while index >> self.width_log2 >= MOST_CELLS as u64 {
            self.double();
        }
        let at = (index >> self.width_log2) as usize;
        if at >= self.cells.len() {
            self.cells.resize(at + 1, Cell::default());
        }
        &mut self.cells[at]
    }

    /// Adds what is in another one.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.width_log2 < other.width_log2 {
            self.double();
        }
        while other.width_log2 < self.width_log2 {
            other.double();
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), Cell::default());
        }
        self.cells.iter_mut().zip(&other.cells).for_each(|(cell, more)| cell.merge(more));
    }

    fn double(&mut self) {
        self.width_log2 += 1;
        let merged = self.cells.chunks(2).map(|pair| {
            let mut cell = pair[0];
            pair.get(1).into_iter().for_each(|next| cell.merge(next));
            cell
        });
        self.cells = merged.collect();
    }
}

crate::record::record! {
    /// How a plan map is encoded.
    struct Packed {
        /// Binary logarithm of the mini-batches of a cell.
        width_log2: u32,
        /// Counts of successes.
        succeeded: Varints,
        /// Counts of failures.
        failed: Varints,
        /// Counts of first tries that failed.
        retried: Varints,
    }
}

impl From<PlanMap> for Packed {
    fn from(of: PlanMap) -> Self {
        let column = |of_cell: fn(&Cell) -> u64| of.cells.iter().map(of_cell).collect::<Vec<_>>();
        Self {
            width_log2: of.width_log2,
            // This one tells how many cells there are.
            succeeded: Varints(column(|cell| cell.succeeded)),
            failed: Varints::trimmed(&column(|cell| cell.failed)),
            retried: Varints::trimmed(&column(|cell| cell.retried)),
        }
    }
}

impl TryFrom<Packed> for PlanMap {
    type Error = &'static str;

    fn try_from(packed: Packed) -> Result<Self, Self::Error> {
        let count = packed.succeeded.0.len();
        super::ensure(packed.width_log2 < u64::BITS, "a plan whose cells are too wide")?;
        super::ensure(count <= MOST_CELLS, "a plan of too many cells")?;
        let are_within = packed.failed.0.len() <= count && packed.retried.0.len() <= count;
        super::ensure(are_within, "a plan whose counts have no cell")?;
        let of = |column: &Varints, at: usize| column.0.get(at).copied().unwrap_or_default();
        let cells = (0..count).map(|at| Cell {
            succeeded: of(&packed.succeeded, at),
            failed: of(&packed.failed, at),
            retried: of(&packed.retried, at),
        });
        Ok(Self { width_log2: packed.width_log2, cells: cells.collect() })
    }
}
