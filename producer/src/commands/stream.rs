//! `stream`: follows a job to its end, with its progress and its logs; the job does not need this program.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use prs_jobs::homes::{JobHome, Seen};
use prs_jobs::logs::LogTail;
use prs_jobs::standing::Shown;

use super::summary::report;
use crate::cli::{Format, Job};
use crate::failure::{Code, Failure};
use crate::progress;
use crate::terminal::output;
use crate::terminal::signals::Signals;
use crate::terminal::visible::written_last;

/// Follows a job. Only its result goes to standard output.
pub(super) async fn stream(job: &Job, format: Format) -> Result<ExitCode, Failure> {
    let home = job.find().await?;
    let seen = home.look().await?;
    if seen.result.state.is_final() {
        return report(format, &seen.result, &home.called());
    }
    let signals = Signals::catch();
    let (view, shown) = tokio::sync::watch::channel(Shown::default());
    let display = tokio::spawn(progress::show(shown.into()));
    let followed = follow(&*home, seen, view, signals).await;
    let _ = display.await;
    if let Some(result) = followed? {
        return report(format, &result, &home.called());
    }
    output::note("the job goes on without this program");
    Ok(Code::Interrupted.into())
}

/// Shows logs until the job has ended or the user leaves.
async fn follow(
    home: &dyn JobHome,
    seen: Seen,
    view: tokio::sync::watch::Sender<Shown>,
    mut signals: Signals,
) -> Result<Option<prs_orchestrator::JobResult>, Failure> {
    let mut tail = LogTail::new(Arc::clone(home.storage()));
    let interval = home.log_interval();
    let logs = async {
        loop {
            tail.look(&note_line).await;
            tokio::time::sleep(interval).await;
        }
    };
    let result = tokio::select! {
        result = home.until_ended(seen, view) => result?,
        never = logs => match never as Infallible {},
        _ = signals.next() => return Ok(None),
    };
    tail.finish(&note_line).await;
    Ok(Some(result))
}

/// Says a line of a log beside the progress.
fn note_line(name: &str, line: &str) {
    output::note(format_args!("[{name}] {}", written_last(line)));
}
