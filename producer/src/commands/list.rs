//! `list`: the jobs of a folder or of a fleet.

use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use prs_jobs::homes::Seen;
use prs_jobs::list::{Listed, Wanted};
use prs_orchestrator::job::words;
use prs_orchestrator::report::progress_overview::duration;

use crate::cli::{Format, List};
use crate::failure::{Code, Failure};
use crate::terminal::colours;
use crate::terminal::output;
use crate::terminal::table::Table;

/// Jobs that are shown to a person who does not say how many.
const LIMIT: usize = 20;
/// Between two looks of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Lists jobs, the newest first.
pub(super) async fn list(arguments: &List, format: Format) -> Result<ExitCode, Failure> {
    let terminal = Term::stdout();
    if arguments.watch && (format == Format::Json || !terminal.is_term()) {
        return Err(Failure::wrong(
            "--watch draws on a terminal; leave it out where the list goes elsewhere",
        ));
    }
    let (wanted, whereabouts) = (wanted(arguments, format), arguments.whereabouts.settled()?);
    loop {
        let found = Box::pin(prs_jobs::list::list(&wanted, &whereabouts)).await?;
        if arguments.watch {
            // Not before the answer is there: an empty screen tells nothing.
            let _ = terminal.clear_screen();
        }
        print(found, format, &terminal)?;
        if !arguments.watch {
            return Ok(Code::Completed.into());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The jobs that are asked for.
fn wanted(arguments: &List, format: Format) -> Wanted {
    let List { limit, all, state, name, since, parent, endpoint, deployment, sort, .. } = arguments;
    let limit =
        (!all).then_some(limit.unwrap_or(LIMIT)).filter(|_| limit.is_some() || format == Format::Table);
    let (states, order) = (state.clone(), (*sort).into());
    Wanted {
        limit,
        states,
        name: name.clone(),
        since: *since,
        parent: parent.clone(),
        endpoint: endpoint.clone(),
        deployment: deployment.clone(),
        order,
    }
}

fn print(found: Listed, format: Format, terminal: &Term) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(&found.record());
    }
    let Listed { jobs, left_out } = found;
    let rows = jobs
        .into_iter()
        .map(|Seen { record, result, standing }| {
            let waits = standing.waits().filter(|_| !result.state.is_final());
            let last_start = words::last_start(&result);
            vec![
                result.job_id,
                colours::state(result.state.as_str(), result.state, !result.findings.complete).to_string(),
                local(record.submitted_us),
                format!("{}/{}", result.mini_batches.succeeded, result.mini_batches.scheduled),
                result.mini_batches.failed.to_string(),
                duration(result.seconds),
                last_start
                    .or(result.reason)
                    .or(waits)
                    .or_else(|| result.reused.map(|job| format!("given the output of {job}")))
                    .unwrap_or_default()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ]
        })
        .collect();
    let table = Table::new(&["JOB", "STATE", "SUBMITTED", "DONE", "FAILED", "TIME", "REASON"], rows);
    output::text(&table.fit(terminal, &["REASON", "TIME", "SUBMITTED", "FAILED", "DONE"]).text())?;
    if left_out > 0 {
        output::note(format_args!("... {left_out} more; --all shows them"));
    }
    Ok(())
}

/// A moment in the time zone of this machine.
fn local(us: u64) -> String {
    let moment = Timestamp::from_microsecond(us as i64).unwrap_or_default();
    moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
