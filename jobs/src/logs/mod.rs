//! The logs of a job: which there are, one of them piece by piece, text in them, and all of what its processes say, line by line.

pub mod archive;
mod listed;
mod named;
mod search;
mod tail;

use bytes::Bytes;
use prs_common::layout;
use prs_common::storage::{StorageErrorKind, StorageExt, is_valid_key};

use self::tail::file_of;
use crate::failure::Failure;
use crate::homes::JobHome;
use crate::records::Log;

pub use self::listed::{LOOKED_AT, LogCursor, LogPage, all, page};
pub use self::named::{LogChoice, LogKind, LogName, log_kinds};
pub use self::search::{LogMatch, LogMatches, LogQuery, SearchCursor, search};
pub use self::tail::{LogTail, Tell};

/// A log of a job.
#[derive(Debug)]
pub struct LogFile<'a> {
    home: &'a dyn JobHome,
    key: String,
}

impl<'a> LogFile<'a> {
    /// A log that [`list`] has.
    pub fn of(home: &'a dyn JobHome, log: &Log) -> Self {
        Self { home, key: format!("{}{}", layout::LOGS, log.file) }
    }

    /// Its key in the storage of the job.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its name, below the logs.
    pub fn name(&self) -> &str {
        self.key.strip_prefix(layout::LOGS).unwrap_or(&self.key)
    }

    /// Up to `most` bytes from `offset` on; fewer at its end.
    pub async fn read(&self, offset: u64, most: u64) -> Result<Bytes, Failure> {
        let piece = self.home.storage().get_range(&self.key, offset..offset + most).await;
        piece.map_err(self.home.cannot("read the log"))
    }

    /// Its size, bytes.
    pub async fn size(&self) -> Result<u64, Failure> {
        let there = self.home.storage().head(&self.key).await;
        Ok(there.map_err(self.home.cannot("read the log"))?.size)
    }
}

/// The logs that there are.
pub async fn list(home: &dyn JobHome) -> Result<Vec<Log>, Failure> {
    all(home, &LogChoice::default()).await
}

/// Of each process that had errors: these, then what it wrote.
pub fn of_failed(found: Vec<Log>) -> Vec<Log> {
    let process = |file: &str| {
        let rest = file.strip_prefix("user/error/")?.strip_suffix(".txt")?;
        rest.contains('/').then(|| rest.to_owned())
    };
    let failed: Vec<String> = found.iter().filter_map(|log| process(&log.file)).collect();
    let wanted = failed.iter().flat_map(|process| {
        [
            format!("user/error/{process}.txt"),
            format!("user/stdout/{process}.stdout.txt"),
            format!("user/stderr/{process}.stderr.txt"),
        ]
    });
    let mut by_name: std::collections::HashMap<String, Log> =
        found.into_iter().map(|log| (log.file.clone(), log)).collect();
    wanted.filter_map(|name| by_name.remove(&name)).collect()
}

/// The names below `logs/` that a user may mean: as the list has it, as messages print it, as `stream` does.
fn meant(name: &str) -> Vec<String> {
    let plain = name.trim_start_matches("./");
    let plain =
        plain.rsplit_once("/logs/").filter(|(before, _)| before.starts_with('/') || before.contains("://"));
    let plain = plain.map_or(name.trim_start_matches("./"), |(_, below)| below);
    let below = plain.strip_prefix(layout::LOGS).unwrap_or(plain);
    let mut names = vec![below.to_owned(), format!("{below}.txt")];
    names.extend(file_of(below.trim_start_matches('[').trim_end_matches(']')));
    names
}

/// The log that a user names.
pub async fn find<'a>(home: &'a dyn JobHome, name: &str) -> Result<LogFile<'a>, Failure> {
    for key in meant(name).iter().map(|name| format!("{}{name}", layout::LOGS)) {
        if !is_valid_key(&key) {
            continue;
        }
        match home.storage().head(&key).await {
            Ok(_) => return Ok(LogFile { home, key }),
            // No file can have a name that is too long.
            Err(error) if matches!(error.kind, StorageErrorKind::NotFound | StorageErrorKind::InvalidKey) => {
            }
            Err(error) => return Err(home.cannot("read the log")(error)),
        }
    }
    home.record().await?;
    let job = home.called();
    Err(Failure::not_found(format!("there is no log {name:?}; prs logs {job} lists the logs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_may_be_named_as_messages_do() {
        for (given, expected) in [
            ("user/error/0/process002.txt", "user/error/0/process002.txt"),
            ("logs/user/error/0/process002.txt", "user/error/0/process002.txt"),
            ("./logs/job_error.txt", "job_error.txt"),
            ("/runs/logs/x-1/logs/job_error.txt", "job_error.txt"),
            ("s3://bucket/x-1/logs/job_error.txt", "job_error.txt"),
            ("job_error", "job_error.txt"),
            ("0/process002.error", "user/error/0/process002.txt"),
            ("[0/process002.stderr]", "user/stderr/0/process002.stderr.txt"),
            ("0/process002.stdout", "user/stdout/0/process002.stdout.txt"),
            ("master_role", "sys/master_role.txt"),
        ] {
            let names = meant(given);
            assert!(names.iter().any(|name| name == expected), "{given}: {names:?}");
        }
    }

    #[test]
    fn the_logs_of_processes_with_errors_come_process_by_process() {
        let log = |file: &str| Log { file: file.to_owned(), bytes: 1 };
        let found = [
            "job_error.txt",
            "user/error.txt",
            "user/error/0/process001.txt",
            "user/stderr/0/process000.stderr.txt",
            "user/stderr/0/process001.stderr.txt",
            "user/stdout/0/process001.stdout.txt",
        ];
        let failed: Vec<_> = of_failed(found.map(log).into()).into_iter().map(|log| log.file).collect();
        assert_eq!(failed, [found[2], found[5], found[4]]);
    }
}
