//! `logs`: lists the logs of a job, prints one or those of processes that had errors, or follows them.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use prs_jobs::homes::{self, JobHome};
use prs_jobs::logs::{LogFile, LogTail, find, list, of_failed};
use prs_jobs::records;
use prs_jobs::standing::Shown;

use crate::cli::{Format, Logs};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::signals::Signals;
use crate::terminal::table::Table;
use crate::terminal::visible::written_last;

/// Bytes of a log that are read at a time.
const LOG_PIECE: u64 = 4 << 20;

/// Lists the logs of a job, or prints some.
pub(super) async fn logs(logs: &Logs, format: Format) -> Result<ExitCode, Failure> {
    let home = Box::pin(homes::find_at_work(&logs.job.name, &logs.job.whereabouts.settled()?)).await?;
    if logs.follow {
        return follow(&*home, logs.file.as_deref()).await;
    }
    if let Some(name) = &logs.file {
        print_from(&find(&*home, name).await?, 0).await?;
        return Ok(Code::Completed.into());
    }
    let mut found = list(&*home).await?;
    if logs.failed {
        found = of_failed(found);
    }
    if format == Format::Json {
        output::json(&records::Logs { logs: found })?;
    } else if logs.failed {
        if found.is_empty() {
            output::note(format_args!("no process of job {} had an error", home.called()));
        }
        for log in found.iter().filter(|log| log.bytes > 0) {
            output::line(&format!("==> logs/{} <==", log.file))?;
            print_from(&LogFile::of(&*home, log), 0).await?;
            output::line("")?;
        }
    } else {
        let rows: Vec<Vec<String>> =
            found.iter().map(|log| vec![log.file.clone(), log.bytes.to_string()]).collect();
        output::text(&Table::new(&["FILE", "BYTES"], rows).text())?;
    }
    Ok(Code::Completed.into())
}

/// Prints a log from `offset` on, a piece at a time, and says where it ends.
async fn print_from(log: &LogFile<'_>, mut offset: u64) -> Result<u64, Failure> {
    loop {
        let piece = log.read(offset, LOG_PIECE).await?;
        output::bytes(&piece)?;
        offset += piece.len() as u64;
        if (piece.len() as u64) < LOG_PIECE {
            return Ok(offset);
        }
    }
}

/// Prints one log, or all of what a job's processes say, until the job has ended or the user leaves.
async fn follow(home: &dyn JobHome, name: Option<&str>) -> Result<ExitCode, Failure> {
    let file = match name {
        Some(name) => Some(find(home, name).await?),
        None => None,
    };
    let seen = home.look().await?;
    let mut log =
        Follower { file, offset: 0, tail: LogTail::new(Arc::clone(home.storage())).from_the_beginning() };
    if !seen.result.state.is_final() {
        let mut signals = Signals::catch();
        let (view, _shown) = tokio::sync::watch::channel(Shown::default());
        let followed = async {
            loop {
                log.look().await?;
                tokio::time::sleep(home.log_interval()).await;
            }
        };
        tokio::select! {
            ended = home.until_ended(seen, view) => drop(ended?),
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
    /// One log, and how far it is printed.
    file: Option<LogFile<'a>>,
    offset: u64,
    /// All of them, where it is not one.
    tail: LogTail,
}

impl Follower<'_> {
    async fn look(&mut self) -> Result<(), Failure> {
        match &self.file {
            Some(file) => self.offset = print_new(file, self.offset).await?,
            None => while self.tail.look(&print_line).await {},
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.look().await?;
        if self.file.is_none() {
            self.tail.finish(&print_line).await;
        }
        Ok(())
    }
}

/// Prints a line of a log as data.
fn print_line(name: &str, line: &str) {
    // A reader that went away has read enough.
    let _ = output::line(&format!("[{name}] {}", written_last(line)));
}

/// Prints what a log has beyond `offset`.
async fn print_new(file: &LogFile<'_>, offset: u64) -> Result<u64, Failure> {
    match file.size().await {
        // One that another node goes on with may have lost its last lines.
        Ok(size) if size < offset => Ok(size),
        Ok(size) if size > offset => print_from(file, offset).await,
        Ok(_) => Ok(offset),
        Err(error) => {
            tracing::warn!(%error, "the log cannot be read for now");
            Ok(offset)
        }
    }
}
