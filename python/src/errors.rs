//! Exceptions of the script, as the agent and the reports see them.
//!
//! The wording is made in Python (`azureml_user.parallel_run.errors`), where tracebacks are at home; this is
//! the way there, and what is said when even that fails (no memory, no stack).

use prs_common::source_line::SourceLine;
use prs_common::wire::{ErrorInfo, Stage};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A frame as Python has it: file, line, function, text of the line.
pub(crate) type PyFrame = (String, u32, String, String);

/// Category, message, traceback and frame.
pub(crate) type Described = (String, String, String, Option<PyFrame>);

/// A frame that Python described.
pub(crate) fn frame((file, line, function, text): PyFrame) -> SourceLine {
    SourceLine { file, line, function, text }
}

/// Turns exceptions into [`ErrorInfo`].
pub(crate) struct Describer {
    /// `describe(exception, where) -> (category, message, traceback, frame)`.
    describe: Py<PyAny>,
}

impl Describer {
    pub(crate) fn new(describe: Py<PyAny>) -> Self {
        Self { describe }
    }

    /// What happened, for people; `place` is what was being done, such as `run()`.
    pub(crate) fn info(&self, py: Python<'_>, stage: Stage, place: &str, error: &PyErr) -> ErrorInfo {
        // As a value of its own the exception carries its traceback along.
        let exception = error.clone_ref(py).into_value(py);
        let described =
            self.describe.bind(py).call1((exception, place)).and_then(|parts| parts.extract::<Described>());
        if let Ok(described) = described {
            return info(stage, described);
        }
        let name = error.get_type(py).name().and_then(|name| name.extract::<String>());
        let category = name.unwrap_or_else(|_| "Exception".to_owned());
        let message = format!("{place} raised {category}; the exception could not be described");
        ErrorInfo::new(stage, &category, message)
    }
}

/// The same as Python hands it over, of what was being done at this `stage`.
pub(crate) fn info(stage: Stage, (category, message, traceback, frame_of): Described) -> ErrorInfo {
    ErrorInfo { stage, category, message, traceback, frame: frame_of.map(frame).map(Box::new) }
}

/// Reads `(category, message, traceback, frame)` as Python hands it over.
pub(crate) fn from_parts(stage: Stage, parts: &Bound<'_, PyTuple>) -> PyResult<ErrorInfo> {
    Ok(info(stage, parts.extract()?))
}
