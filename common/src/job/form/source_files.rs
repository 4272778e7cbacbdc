//! The files that one job is read from: the job file, and those of the components that it names.
//!
//! Trees of all of them are merged into one, and a problem is to name the file that it stands in. So the lines of each
//! further file are counted from a number of their own, above the last line of any file.

use std::path::{Path, PathBuf};

use super::super::error::Problem;
use super::super::names::Names;
use super::super::read_text;
use super::super::yaml::{self, Node, Value};

/// More lines than a file has whose size is allowed.
const STRIDE: usize = 1 << 24;
/// Bytes of all components of a job file; one that is named again counts again, for it is put in again.
const MOST_BYTES: usize = 64 << 20;

/// The files beside the job file.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    paths: Vec<PathBuf>,
    /// All their text, bytes.
    bytes: usize,
    names: Names,
}

impl SourceFiles {
    /// None yet. What names stand for in all of them, and in the job file, is in `names`.
    pub(crate) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// What names stand for.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Reads one more file. Its lines are told apart from those of the others.
    pub(super) fn read(&mut self, path: &Path) -> Result<Node, String> {
        let text = read_text(path)?;
        self.bytes += text.len();
        if self.bytes > MOST_BYTES {
            return Err(format!(
                "the components have more than {} MiB together, each counted for every step that names it: name fewer",
                MOST_BYTES >> 20
            ));
        }
        self.paths.push(path.to_owned());
        let first = self.paths.len() * STRIDE;
        let parsed = yaml::parse(&text).map_err(|error| match error.line {
            Some(line) => format!("line {line}: {}", error.message),
            None => error.message,
        });
        let mut node = parsed?;
        move_lines(&mut node, first);
        self.names.resolve(&mut node);
        Ok(node)
    }

    /// The file that a line is of, seen from `folder`, and which line of that; nothing where it is of the job file.
    pub(crate) fn place_of(&self, line: Option<usize>, folder: &Path) -> Option<(String, usize)> {
        let line = line.filter(|line| *line >= STRIDE)?;
        let path = self.paths.get(line / STRIDE - 1)?;
        Some((path.strip_prefix(folder).unwrap_or(path).display().to_string(), line % STRIDE))
    }

    /// Has `problem` name the file that it stands in, where that is not the job file, seen from `folder`.
    pub(crate) fn locate(&self, problem: &mut Problem, folder: &Path) {
        let Some((path, line)) = self.place_of(problem.line, folder) else { return };
        problem.line = None;
        problem.key = format!("{path}:{line}: {}", problem.key);
    }
}

fn move_lines(node: &mut Node, first: usize) {
    node.line = node.line.map(|line| line + first);
    match &mut node.value {
        Value::Mapping(entries) => {
            for (key, value) in entries {
                key.line += first;
                move_lines(value, first);
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(|item| move_lines(item, first)),
        Value::Null | Value::Scalar { .. } => {}
    }
}
