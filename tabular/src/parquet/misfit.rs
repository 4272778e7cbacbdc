//! Why frames do not go together in one file.

/// Why no file can have the rows of all frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// No type holds the values of both.
    Types {
        /// The column.
        column: String,
        /// The first frame that has it, and its type there.
        first: (u64, String),
        /// The one that does not fit, and its type there.
        later: (u64, String),
    },
    /// A column has a structure without fields.
    Empty {
        /// The column.
        column: String,
        /// The first frame that has it.
        first: u64,
    },
    /// A column has a type that Parquet has not.
    Refused {
        /// The column.
        column: String,
        /// The first frame that has it in such a type.
        first: u64,
        /// What is wrong with it.
        error: String,
    },
}
