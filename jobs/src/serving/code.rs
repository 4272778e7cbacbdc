//! The code that a job ran last, file by file: what the frames of its tracebacks are lines of.

use std::collections::HashMap;
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
    unpacking(move || listed(&body)).await
}

/// The files of an archive, by their paths.
fn listed(archive: &[u8]) -> std::io::Result<Vec<CodeFile>> {
    let file =
        |(path, bytes): (std::path::PathBuf, u64)| CodeFile { path: path.display().to_string(), bytes };
    let mut files: Vec<CodeFile> = archive::sizes(archive)?.into_iter().map(file).collect();
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

/// Bytes of a file whose lines are shown beside errors, at most.
const MOST_BYTES: u64 = 1 << 20;

/// The lines of the code around each of `places`, such as `x.py:5 in run`, with their numbers, `beside` at each side of it; a place
/// that names no line of the code is left out.
///
/// # Errors
/// As [`archive_of`].
pub async fn around(
    home: &dyn JobHome,
    record: &JobRecord,
    places: Vec<String>,
    beside: u64,
) -> Result<HashMap<String, Vec<(u64, String)>>, Failure> {
    let Some(body) = archive_of(home, record).await? else { return Ok(HashMap::new()) };
    unpacking(move || {
        let files = listed(&body)?;
        let mut found = HashMap::new();
        for place in places {
            let Some((file, line)) = file_and_line(&files, &place) else { continue };
            let read = archive::file(&body, Path::new(&file.path), MOST_BYTES)?;
            if let Some((_, Some(content))) = read {
                found.insert(place, beside_line(&String::from_utf8_lossy(&content), line, beside));
            }
        }
        Ok(found)
    })
    .await
}

/// The file of the code and the line that a place names.
fn file_and_line<'a>(files: &'a [CodeFile], place: &str) -> Option<(&'a CodeFile, u64)> {
    let (path, line) = place.split(" in ").next()?.rsplit_once(':')?;
    Some((of_frame(files, path)?, line.parse().ok()?))
}

fn beside_line(text: &str, line: u64, beside: u64) -> Vec<(u64, String)> {
    let wanted = line.saturating_sub(beside).max(1)..=line.saturating_add(beside);
    let numbered = (1..).zip(text.lines());
    numbered
        .filter(|(number, _)| wanted.contains(number))
        .map(|(number, text)| (number, text.to_owned()))
        .collect()
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
    fn a_place_names_a_line_of_the_code() {
        let files = ["main.py", "pkg/a.py"].map(|path| CodeFile { path: path.to_owned(), bytes: 1 });
        let found = |place| file_and_line(&files, place).map(|(file, line)| (&*file.path, line));
        assert_eq!(found("pkg/a.py:7 in run"), Some(("pkg/a.py", 7)));
        for place in ["", "main.py", "main.py:x in run", "json.py:7 in loads"] {
            assert_eq!(found(place), None, "{place}");
        }
        let lines = |line, beside| {
            beside_line("a\nb\nc\nd\n", line, beside).into_iter().map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(
            (lines(1, 1), lines(3, 1), lines(4, 2), lines(9, 1)),
            (vec![1, 2], vec![2, 3, 4], vec![2, 3, 4], vec![])
        );
    }

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
