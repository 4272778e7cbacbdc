//! The code that a job ran last, file by file: what the frames of its tracebacks are lines of.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive;
use prs_orchestrator::JobRecord;
use serde::Serialize;

use crate::failure::Failure;
use crate::homes::JobHome;

/// What helps where the archive is damaged.
const REMEDY: &str = "submit the job file again";

/// A file of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodeFile {
    /// Its path below `source_directory`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// What a file of the code holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole(Vec<u8>),
    /// It is too long: so many bytes.
    TooLong(u64),
}

/// The archive of the code, tar.gz; nothing of a job without code.
///
/// # Errors
/// The storage fails, or gives another archive than was stored.
pub async fn archive_of(home: &dyn JobHome, record: &JobRecord) -> Result<Option<Bytes>, Failure> {
    if record.as_given().code.is_empty() {
        return Ok(None);
    }
    home.code(record, REMEDY).await.map(Some)
}

/// The files of the code, by their paths.
///
/// # Errors
/// As [`archive_of`].
pub async fn files(home: &dyn JobHome, record: &JobRecord) -> Result<Vec<CodeFile>, Failure> {
    let Some(body) = archive_of(home, record).await? else { return Ok(Vec::new()) };
    let listed = unpacking(move || archive::sizes(&body)).await?;
    let file =
        |(path, bytes): (std::path::PathBuf, u64)| CodeFile { path: path.display().to_string(), bytes };
    let mut files: Vec<CodeFile> = listed.into_iter().map(file).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// What the file at `path` holds, where that is no longer than `most` bytes; nothing where there is no such file.
///
/// # Errors
/// As [`archive_of`].
pub async fn file(
    home: &dyn JobHome,
    record: &JobRecord,
    path: &str,
    most: u64,
) -> Result<Option<Content>, Failure> {
    let Some(body) = archive_of(home, record).await? else { return Ok(None) };
    let path = path.to_owned();
    let found = unpacking(move || archive::file(&body, Path::new(&path), most)).await?;
    Ok(found.map(|(size, content)| content.map_or(Content::TooLong(size), Content::Whole)))
}

async fn unpacking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let unpacked = tokio::task::spawn_blocking(work).await.context("the code was not unpacked")?;
    Ok(unpacked.context("the code of the job cannot be unpacked")?)
}

/// The file that a frame of a traceback names: of those whose paths its own ends with, the one with the longest path.
pub fn of_frame<'a>(files: &'a [CodeFile], frame: &str) -> Option<&'a CodeFile> {
    let names = |file: &&CodeFile| {
        let before = frame.strip_suffix(file.path.as_str());
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    files.iter().filter(names).max_by_key(|file| file.path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_names_the_file_with_the_longest_path() {
        let files =
            ["main.py", "pkg/main.py", "pkg/a.py"].map(|path| CodeFile { path: path.to_owned(), bytes: 1 });
        for (frame, expected) in [
            ("main.py", Some("main.py")),
            ("/home/ana/code/main.py", Some("main.py")),
            ("/home/ana/code/pkg/main.py", Some("pkg/main.py")),
            ("/home/ana/xmain.py", None),
            ("/usr/lib/python3.11/json.py", None),
            ("", None),
        ] {
            assert_eq!(of_frame(&files, frame).map(|file| file.path.as_str()), expected, "{frame}");
        }
    }
}
