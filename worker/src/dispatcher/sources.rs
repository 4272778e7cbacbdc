//! The user's own names for the files of the code: errors name them below `source_directory` of the job, where they can
//! be opened, and not below the folder of a node, which goes with it.

use std::path::Path;

use prs_common::source_line::SourceLine;
use prs_common::wire::ErrorInfo;

/// Where the code of a job is, on this node and for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sources {
    /// The folder on this node, with a `/` at its end.
    here: String,
    /// The folder of the user, likewise.
    users: String,
}

impl Sources {
    /// Code that is unpacked in `here`, of which the user has `source_directory`.
    pub(crate) fn new(here: &Path, source_directory: &Path) -> Self {
        let folder = |path: &Path| format!("{}/", path.to_string_lossy().trim_end_matches('/'));
        Self { here: folder(here), users: folder(source_directory) }
    }

    /// Gives an error the user's names.
    pub(crate) fn name(&self, error: &mut ErrorInfo) {
        for text in [&mut error.message, &mut error.traceback] {
            if text.contains(&self.here) {
                *text = text.replace(&self.here, &self.users);
            }
        }
        if let Some(frame) = &mut error.frame {
            self.name_frame(frame);
        }
    }

    /// Gives a frame the user's name of its file.
    pub(crate) fn name_frame(&self, frame: &mut SourceLine) {
        if let Some(below) = frame.file.strip_prefix(&self.here) {
            frame.file = format!("{}{below}", self.users);
        }
    }
}

#[cfg(test)]
mod tests {
    use prs_common::wire::Stage;

    use super::*;

    #[test]
    fn errors_get_the_users_names() {
        let sources = Sources::new(Path::new("/w/node-0/code"), Path::new("/home/me/scripts/"));
        let frame = |file: &str| {
            Some(Box::new(SourceLine { file: file.to_owned(), line: 5, ..SourceLine::default() }))
        };
        let mut error = ErrorInfo {
            stage: Stage::Run,
            category: "ValueError".to_owned(),
            message: "bad /w/node-0/inputs/a".to_owned(),
            traceback: "File \"/w/node-0/code/a/b.py\"\nFile \"/w/node-0/code/c.py\"".to_owned(),
            frame: frame("/w/node-0/code/a/b.py"),
        };
        sources.name(&mut error);
        assert_eq!(error.message, "bad /w/node-0/inputs/a", "no code of the job");
        assert_eq!(error.traceback, "File \"/home/me/scripts/a/b.py\"\nFile \"/home/me/scripts/c.py\"");
        assert_eq!(error.frame, frame("/home/me/scripts/a/b.py"));
    }
}
