//! The logs of a running job: what the orchestrator decides and what the script says, line by line.

use std::collections::HashMap;
use std::sync::Arc;

use prs_common::layout;
use prs_common::storage::{ObjectMeta, Storage, StorageError, StorageExt};

/// How much is shown of a log that was there before, bytes.
const SHOWN_BEFORE: u64 = 4 << 10;
/// Bytes of a log that are read at a time.
const LOG_PIECE: u64 = 1 << 20;

/// Hears the short name of a log, and a line of it.
pub type Tell<'a> = &'a (dyn Fn(&str, &str) + Sync);

/// Follows the logs of one job, whether they are files that grow or objects that are written anew.
#[derive(Debug)]
pub struct LogTail {
    storage: Arc<dyn Storage>,
    files: HashMap<String, Followed>,
    /// Whether what is found was there before the first look.
    first: bool,
}

/// How far one log was read.
#[derive(Debug, Default)]
struct Followed {
    offset: u64,
    /// A line that is not whole yet.
    rest: Vec<u8>,
    /// Whether reading begins within a line, which is not shown.
    within_line: bool,
}

impl LogTail {
    /// Follows the logs of the job in `storage`.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, files: HashMap::new(), first: true }
    }

    /// From the beginning of each log, also of one that is there already.
    #[must_use]
    pub fn from_the_beginning(self) -> Self {
        Self { first: false, ..self }
    }

    /// Tells what is new, the name of a log and a line of it each time; true where there may be more.
    pub async fn look(&mut self, tell: Tell<'_>) -> bool {
        let listed = match self.storage.list_all(layout::LOGS).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "the logs are not known for now");
                return false;
            }
        };
        let mut more = false;
        for object in listed {
            let Some(name) = object.key.strip_prefix(layout::LOGS).and_then(shown_name) else { continue };
            match self.read(&object, &name, tell).await {
                Ok(left) => more |= left,
                Err(error) => tracing::warn!(%error, "a log cannot be read for now"),
            }
        }
        self.first = false;
        more
    }

    /// Tells all that is left, whole line or not.
    pub async fn finish(&mut self, tell: Tell<'_>) {
        while self.look(tell).await {}
        let mut rests = Vec::new();
        for (name, followed) in &mut self.files {
            let rest = std::mem::take(&mut followed.rest);
            if !rest.is_empty() {
                rests.push((name.clone(), rest));
            }
        }
        for (name, rest) in rests {
            tell(&name, &String::from_utf8_lossy(&rest));
        }
    }

    /// Tells the next piece of a log; true where there is more.
    async fn read(&mut self, object: &ObjectMeta, name: &str, tell: Tell<'_>) -> Result<bool, StorageError> {
        let first = self.first;
        let followed = self.files.entry(name.to_owned()).or_insert_with(|| {
            let offset = if first { object.size.saturating_sub(SHOWN_BEFORE) } else { 0 };
            Followed { offset, rest: Vec::new(), within_line: offset > 0 }
        });
        // A log that another node goes on with may have lost its last lines.
        followed.offset = followed.offset.min(object.size);
        if followed.offset == object.size {
            return Ok(false);
        }
        let end = object.size.min(followed.offset + LOG_PIECE);
        let piece = self.storage.get_range(&object.key, followed.offset..end).await?;
        followed.offset += piece.len() as u64;
        let (lines, offset) = (followed.lines(&piece), followed.offset);
        for line in lines {
            tell(name, &line);
        }
        Ok(!piece.is_empty() && offset < object.size)
    }
}

impl Followed {
    /// The lines that are whole with `piece`.
    fn lines(&mut self, piece: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        let skipped = usize::from(std::mem::take(&mut self.within_line));
        String::from_utf8_lossy(&whole).lines().skip(skipped).map(str::to_owned).collect()
    }
}

/// What a log is called before its lines; nothing for one that is not followed.
fn shown_name(file: &str) -> Option<String> {
    let stem = file.strip_suffix(".txt")?;
    if stem == "sys/master_role" {
        return Some("master_role".to_owned());
    }
    if let Some(process) = stem.strip_prefix("user/error/") {
        return Some(format!("{process}.error"));
    }
    stem.strip_prefix("user/stdout/").or_else(|| stem.strip_prefix("user/stderr/")).map(str::to_owned)
}

/// The log that is called so before its lines.
pub(super) fn file_of(shown: &str) -> Option<String> {
    if shown == "master_role" {
        return Some("sys/master_role.txt".to_owned());
    }
    let (process, kind) = shown.rsplit_once('.')?;
    match kind {
        "error" => Some(format!("user/error/{process}.txt")),
        "stdout" | "stderr" => Some(format!("user/{kind}/{shown}.txt")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    #[test]
    fn logs_have_short_names() {
        for (file, expected) in [
            ("sys/master_role.txt", Some("master_role")),
            ("user/stdout/0/process000.stdout.txt", Some("0/process000.stdout")),
            ("user/stderr/1/process002.stderr.txt", Some("1/process002.stderr")),
            ("user/error/0/process000.txt", Some("0/process000.error")),
            ("user/error.txt", None),
            ("sys/node/0/_main.txt", None),
            ("job_result.txt", None),
        ] {
            assert_eq!(shown_name(file).as_deref(), expected, "{file}");
            if let Some(name) = expected {
                assert_eq!(file_of(name).as_deref(), Some(file));
            }
        }
    }

    #[test]
    fn lines_are_shown_when_they_are_whole() {
        let mut followed = Followed { within_line: true, ..Followed::default() };
        assert!(followed.lines(b"rt of a line").is_empty());
        assert_eq!(followed.lines(b"\none\ntw"), ["one"]);
        assert_eq!(followed.lines(b"o\r\n\xff\n"), ["two", "\u{fffd}"]);
        assert!(followed.rest.is_empty());
    }

    #[tokio::test]
    async fn a_log_that_was_there_is_shown_from_near_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let put = async |text: String| {
            storage.put("logs/sys/master_role.txt", text.into(), PutMode::Overwrite).await.unwrap();
        };
        put("0123456789\n".repeat(1_000)).await;
        let mut tail = LogTail::new(Arc::clone(&storage));
        assert!(!tail.look(&|_, _| ()).await);
        assert_eq!(tail.files["master_role"].offset, 11_000);
        put("short\n".to_owned()).await;
        assert!(!tail.look(&|_, _| ()).await);
        assert_eq!(tail.files["master_role"].offset, 6, "it goes on from where it is now");
    }
}
