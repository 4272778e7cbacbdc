//! A line of the user's own code, where an exception came from, as the process reports it.
//!
//! A process imports a copy of the code in a folder that goes with the job; what people are told names the file as they
//! have it, below `source_directory`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A line of the user's code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, below the `source_directory` of the job.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function; empty for the module itself, and where the file cannot be compiled.
    pub function: String,
    /// What stands there; empty where that is not known.
    pub text: String,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.function.is_empty() { Ok(()) } else { write!(f, " in {}", self.function) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_editors_take_it() {
        let line = |function: &str| SourceLine {
            file: "code/a.py".into(),
            line: 9,
            function: function.into(),
            text: String::new(),
        };
        assert_eq!(line("run").to_string(), "code/a.py:9 in run");
        assert_eq!(line("").to_string(), "code/a.py:9");
    }
}
