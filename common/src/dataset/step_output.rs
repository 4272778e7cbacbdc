//! An output of a step of a pipeline, as an address that stands where a path would.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the address begins with.
const SCHEME: &str = "prs-step://";

/// An output of a step of the same pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StepOutput {
    /// Name of the step.
    pub step: String,
    /// Name that the output has there.
    pub output: String,
}

impl fmt::Display for StepOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.step, self.output)
    }
}

impl StepOutput {
    /// The output that `address` names; nothing where it is another path.
    pub fn parse(address: &str) -> Option<Self> {
        let (step, output) = address.strip_prefix(SCHEME)?.split_once('/')?;
        Some(Self { step: step.to_owned(), output: output.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let output = StepOutput { step: "outer.prep".to_owned(), output: "rows".to_owned() };
        assert_eq!(StepOutput::parse(&output.to_string()), Some(output));
        assert_eq!(StepOutput::parse("s3://bucket/key"), None);
    }
}
