//! A line of the user's own code, where an exception came from: read from the traceback that Python printed.
//!
//! A process imports a copy of the code in a folder that goes with the job; what people are told names the file as they
//! have it, below `source_directory`.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Longest source line that is kept, bytes.
const LONGEST_TEXT: usize = 200;

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

impl SourceLine {
    /// The last line of `traceback` that is of the user's code, which a process had in `code_dir`.
    pub fn last_of(traceback: &str, code_dir: &str, source_directory: &Path) -> Option<Self> {
        let mut lines = traceback.lines().peekable();
        let mut last = None;
        while let Some(line) = lines.next() {
            let Some((file, line, function)) = frame(line) else { continue };
            let Some(file) = file.strip_prefix(code_dir).and_then(|file| file.strip_prefix('/')) else {
                continue;
            };
            let text = lines.peek().map(|text| text.trim_matches([' ', '|']));
            let text = text.filter(|text| frame_start(text).is_none());
            last = Some((file, line, function, text.unwrap_or_default()));
        }
        let (file, line, function, text) = last?;
        Some(Self {
            file: source_directory.join(file).to_string_lossy().into_owned(),
            line,
            function: if function == "<module>" { String::new() } else { function.to_owned() },
            text: text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned(),
        })
    }
}

/// What follows `File "` in a line of a traceback; the frames of a group of exceptions are indented with bars.
fn frame_start(line: &str) -> Option<&str> {
    line.trim_start_matches([' ', '|']).strip_prefix("File \"")
}

/// File, line and function of `File "/path/file.py", line 7, in run`; a `SyntaxError` names no function.
fn frame(line: &str) -> Option<(&str, u32, &str)> {
    let (file, rest) = frame_start(line)?.rsplit_once("\", line ")?;
    let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    Some((file, number.trim().parse().ok()?, function.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEEP: &str = r#"Traceback (most recent call last):
  File "/work/node-0/code/main.py", line 9, in run
    return [read(path) for path in mini_batch]
            ^^^^^^^^^^
  File "/work/node-0/code/pkg/io.py", line 3, in read
    return json.loads(text)
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
json.decoder.JSONDecodeError: Expecting value
"#;
    const MODULE: &str = "Traceback (most recent call last):\n  File \"/work/node-0/code/main.py\", line 1, in <module>\n    import x\nModuleNotFoundError: No module named 'x'\n";
    const SYNTAX: &str = "  File \"/work/node-0/code/main.py\", line 2\n    def run(:\n            ^\nSyntaxError: invalid syntax\n";
    const NO_SOURCE: &str = "  File \"/work/node-0/code/main.py\", line 2, in f\n  File \"/work/node-0/code/main.py\", line 5, in g\nE\n";
    const GROUP: &str = "  + Exception Group Traceback (most recent call last):\n  |   File \"/work/node-0/code/main.py\", line 4, in run\n  |     raise ExceptionGroup\n";

    #[test]
    fn the_last_line_of_the_users_code_is_found() {
        let line = |file: &str, line, function: &str, text: &str| {
            Some(SourceLine { file: file.into(), line, function: function.into(), text: text.into() })
        };
        let table = [
            (DEEP, line("/home/ana/code/pkg/io.py", 3, "read", "return json.loads(text)")),
            (MODULE, line("/home/ana/code/main.py", 1, "", "import x")),
            (SYNTAX, line("/home/ana/code/main.py", 2, "", "def run(:")),
            (NO_SOURCE, line("/home/ana/code/main.py", 5, "g", "E")),
            (GROUP, line("/home/ana/code/main.py", 4, "run", "raise ExceptionGroup")),
            ("  File \"/work/node-0/codes/main.py\", line 2, in f\n", None),
            ("  File \"/work/node-0/code/main.py\", line x, in f\n", None),
            ("ValueError: no frame\n", None),
            ("", None),
        ];
        for (traceback, expected) in table {
            let found = SourceLine::last_of(traceback, "/work/node-0/code", Path::new("/home/ana/code"));
            assert_eq!(found, expected, "{traceback}");
        }
    }

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
