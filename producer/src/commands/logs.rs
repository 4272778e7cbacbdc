//! `logs`: lists the logs of a job, prints one or those of processes that had errors, or follows them.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use prs_common::layout;
use prs_common::storage::{ObjectMeta, StorageErrorKind, StorageExt, is_valid_key};

use crate::cli::{Format, Logs};
use crate::embedded::Signals;
use crate::failure::{Code, Failure};
use crate::log_tail::{LogTail, file_of};
use crate::output;
use crate::place::Place;
use crate::records::{self, Log, SCHEMA};
use crate::standing::Shown;
use crate::table::Table;

/// Bytes of a log that are read at a time.
const PIECE: u64 = 4 << 20;

/// Lists the logs of a job, or prints some.
pub(super) async fn logs(logs: &Logs, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(&logs.job).await?;
    if logs.follow {
        return follow(&place, logs.file.as_deref()).await;
    }
    if let Some(name) = &logs.file {
        let key = find(&place, name).await?;
        print_from(&place, &key, 0).await?;
        return Ok(Code::Completed.into());
    }
    let mut found = list(&place).await?;
    if logs.failed {
        found = of_failed(found);
    }
    if format == Format::Json {
        output::json(&records::Logs { schema: SCHEMA, logs: found })?;
    } else if logs.failed {
        if found.is_empty() {
            output::say(format_args!("no process of job {} had an error", place.called()));
        }
        for log in found.iter().filter(|log| log.bytes > 0) {
            output::line(&format!("==> logs/{} <==", log.file))?;
            print_from(&place, &format!("{}{}", layout::LOGS, log.file), 0).await?;
            output::line("")?;
        }
    } else {
        let rows: Vec<Vec<String>> =
            found.iter().map(|log| vec![log.file.clone(), log.bytes.to_string()]).collect();
        output::text(&Table::new(&["FILE", "BYTES"], rows).text())?;
    }
    Ok(Code::Completed.into())
}

/// The names of the logs that there are.
pub(crate) async fn names(place: &Place) -> Result<Vec<String>, Failure> {
    Ok(list(place).await?.into_iter().map(|log| log.file).collect())
}

/// The logs that there are.
async fn list(place: &Place) -> Result<Vec<Log>, Failure> {
    let listed = place.storage.list_all(layout::LOGS).await;
    let listed = listed.context("cannot list the logs").map_err(|error| place.failure(error))?;
    if listed.is_empty() {
        // No job, or one whose logs are not there yet.
        place.record().await?;
    }
    let view = |object: ObjectMeta| {
        let file = object.key.strip_prefix(layout::LOGS).unwrap_or(&object.key).to_owned();
        Log { file, bytes: object.size }
    };
    Ok(listed.into_iter().map(view).collect())
}

/// Of each process that had errors: these, then what it wrote.
fn of_failed(found: Vec<Log>) -> Vec<Log> {
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

/// The key of the log that a user names.
async fn find(place: &Place, name: &str) -> Result<String, Failure> {
    for key in meant(name).iter().map(|name| format!("{}{name}", layout::LOGS)) {
        if !is_valid_key(&key) {
            continue;
        }
        match place.storage.head(&key).await {
            Ok(_) => return Ok(key),
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => {
                return Err(place.failure(anyhow::Error::from(error).context("cannot read the log")));
            }
        }
    }
    place.record().await?;
    let job = place.called();
    Err(Failure::wrong(format!("there is no log {name:?}; prs logs {job} lists the logs")))
}

/// Prints a log from `offset` on, a piece at a time, and says where it ends.
async fn print_from(place: &Place, key: &str, mut offset: u64) -> Result<u64, Failure> {
    loop {
        match place.storage.get_range(key, offset..offset + PIECE).await {
            Ok(piece) => {
                output::bytes(&piece)?;
                offset += piece.len() as u64;
                if (piece.len() as u64) < PIECE {
                    return Ok(offset);
                }
            }
            Err(error) => {
                return Err(place.failure(anyhow::Error::from(error).context("cannot read the log")));
            }
        }
    }
}

/// Prints one log, or all of what a job's processes say, until the job has ended or the user leaves.
async fn follow(place: &Place, name: Option<&str>) -> Result<ExitCode, Failure> {
    let key = match name {
        Some(name) => Some(find(place, name).await?),
        None => None,
    };
    let seen = place.look().await?;
    let mut log = Follower {
        place,
        key,
        offset: 0,
        tail: LogTail::new(Arc::clone(&place.storage)).on_standard_output(),
    };
    if !seen.result.state.is_final() {
        let mut signals = Signals::catch()?;
        let (view, _shown) = tokio::sync::watch::channel(Shown::default());
        let followed = async {
            loop {
                log.look().await?;
                tokio::time::sleep(place.log_interval()).await;
            }
        };
        tokio::select! {
            ended = place.until_ended(seen, view) => drop(ended?),
            failed = followed => {
                let failed: Result<Infallible, Failure> = failed;
                match failed { Ok(never) => match never {}, Err(failure) => return Err(failure) }
            }
            _ = signals.next() => return Ok(Code::Interrupted.into()),
        }
    }
    log.finish().await?;
    Ok(Code::Completed.into())
}

/// What is followed.
struct Follower<'a> {
    place: &'a Place,
    /// One log, and how far it is printed.
    key: Option<String>,
    offset: u64,
    /// All of them, where it is not one.
    tail: LogTail,
}

impl Follower<'_> {
    async fn look(&mut self) -> Result<(), Failure> {
        match &self.key {
            Some(key) => self.offset = print_new(self.place, key, self.offset).await?,
            None => while self.tail.look().await {},
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.look().await?;
        if self.key.is_none() {
            self.tail.finish().await;
        }
        Ok(())
    }
}

/// Prints what a log has beyond `offset`.
async fn print_new(place: &Place, key: &str, offset: u64) -> Result<u64, Failure> {
    match place.storage.head(key).await {
        // One that another node goes on with may have lost its last lines.
        Ok(object) if object.size < offset => Ok(object.size),
        Ok(object) if object.size > offset => print_from(place, key, offset).await,
        Ok(_) => Ok(offset),
        Err(error) => {
            tracing::warn!(%error, "the log cannot be read for now");
            Ok(offset)
        }
    }
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
