//! `filter` of an MLTable: its text as a tree (dialects B.4).
//!
//! Azure documents the language by examples; this is the subset that they show, and nothing is run as Python. `parser`
//! says where a text leaves it. Processes evaluate the tree, see `azureml_user.parallel_run.filters`: a comparison with
//! something missing does not hold, but for those with `None`.

mod parser;
mod words;

use serde::{Deserialize, Serialize};

pub use parser::{FilterError, parse};

/// What holds for a row or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expression {
    /// One of them holds.
    Or(Vec<Expression>),
    /// All of them hold.
    And(Vec<Expression>),
    /// It does not hold.
    Not(Box<Expression>),
    /// Two values compare.
    Compare(Operand, Operator, Operand),
    /// A value is true.
    IsTrue(Operand),
}

impl Expression {
    /// Whether it is about the column `name`.
    pub fn names(&self, name: &str) -> bool {
        let is_it = |operand: &Operand| matches!(operand, Operand::Column(column) if column == name);
        match self {
            Self::Or(parts) | Self::And(parts) => parts.iter().any(|part| part.names(name)),
            Self::Not(part) => part.names(name),
            Self::Compare(left, _, right) => is_it(left) || is_it(right),
            Self::IsTrue(operand) => is_it(operand),
        }
    }
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// The same.
    #[serde(rename = "==")]
    Equal,
    /// Not the same.
    #[serde(rename = "!=")]
    NotEqual,
    /// The left one is less.
    #[serde(rename = "<")]
    Less,
    /// The left one is not greater.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// The left one is greater.
    #[serde(rename = ">")]
    Greater,
    /// The left one is not less.
    #[serde(rename = ">=")]
    GreaterOrEqual,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// That of a column.
    Column(String),
    /// Text.
    Text(String),
    /// A number, as it is written.
    Number(String),
    /// A truth value.
    Boolean(bool),
    /// Nothing: a value is missing.
    Null,
    /// A point in time: year, month, day, hour, minute, second, microsecond.
    Datetime(Vec<u32>),
}
