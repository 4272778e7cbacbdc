//! A frame: the line of the user's own code that an error comes from.
//!
//! Errors are told apart by their frame and not by their message, which often names the item. The file is named as the
//! user has it, below `source_directory`, so that it can be opened.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A line of the user's code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The file: its absolute path.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function; `<module>` outside of any.
    pub function: String,
    /// The text of the line without its indent; empty where it is not known.
    pub source: String,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}
