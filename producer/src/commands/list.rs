//! `list`: the jobs of a folder or of a fleet.

use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use prs_jobs::homes::Seen;
use prs_jobs::list::{Listed, Wanted};
use prs_orchestrator::job::{count, words};
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
    let has_waited = jobs.iter().any(|seen| seen.result.waited_seconds >= 1.0);
    let mut headings = vec!["JOB", "STATE", "SUBMITTED", "DONE", "FAILED", "WAITED", "TIME", "REASON"];
    headings.retain(|heading| has_waited || *heading != "WAITED");
    let rows = jobs.iter().map(|seen| row(seen, has_waited)).collect();
    let table = Table::new(&headings, rows).with_text();
    output::text(&table.fit(terminal, &["SUBMITTED", "WAITED", "TIME", "DONE", "FAILED"]).text())?;
    if left_out > 0 {
        output::note(format_args!("... {left_out} more; --all shows them"));
    }
    Ok(())
}

/// The cells of a job.
fn row(seen: &Seen, has_waited: bool) -> Vec<String> {
    let Seen { record, result, .. } = seen;
    let (counts, submitted) = (&result.mini_batches, local(record.submitted_us));
    if !seen.is_known() {
        let mut cells = vec![result.job_id.clone(), "not known".to_owned(), submitted];
        cells.resize(if has_waited { 7 } else { 6 }, String::new());
        cells.push(reason(seen));
        return cells;
    }
    let mut cells = vec![
        result.job_id.clone(),
        colours::state(result.state.as_str(), result.state, !result.findings.complete).to_string(),
        submitted,
        format!("{}/{}", counts.succeeded, counts.scheduled),
        counts.failed.to_string(),
    ];
    cells.extend(has_waited.then(|| duration(result.waited_seconds)));
    cells.extend([duration(result.seconds), reason(seen)]);
    cells
}

/// Why a job ended as it did, what is missing of it, or what it waits for: the first line of it.
fn reason(Seen { result, standing, .. }: &Seen) -> String {
    let runs = !result.state.is_final();
    let reason =
        words::last_start(result).or_else(|| result.reason.clone()).or_else(|| words::missing(result));
    let reason = reason.or_else(|| standing.waits_for().map(|waits| format!("waiting for {}", waits.server)));
    let reason = reason.or_else(|| standing.waits().filter(|_| runs));
    let reason = reason.or_else(|| result.reused.as_ref().map(|job| format!("given the output of {job}")));
    let failed = (runs && result.items.failed > 0)
        .then(|| format!("{} failed so far", count(result.items.failed, "item")));
    let reason = reason.or(failed).unwrap_or_default();
    reason.lines().next().unwrap_or_default().to_owned()
}

/// A moment in the time zone of this machine.
fn local(us: u64) -> String {
    let moment = Timestamp::from_microsecond(us as i64).unwrap_or_default();
    moment.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use prs_common::job::JobSpec;
    use prs_common::ledger::JobState;
    use prs_jobs::standing::{Standing, WaitsFor};
    use prs_orchestrator::{JobRecord, JobResult};

    use super::*;

    fn seen(change: impl FnOnce(&mut JobResult, &mut Standing)) -> Seen {
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        let (mut result, mut standing) = (record.result_so_far(), Standing::default());
        (result.state, result.items.total) = (JobState::Completed, 50_000);
        change(&mut result, &mut standing);
        Seen { record, result, standing }
    }

    #[test]
    fn a_list_says_what_is_missing_of_a_job_and_why() {
        let waits = || Some(WaitsFor { server: "Redis", seconds: None, reason: "refused".to_owned() });
        let table: Vec<(&str, Seen)> = vec![
            ("", seen(|_, _| ())),
            (
                "49997 of 50000 items are missing from the result",
                seen(|result, _| result.items.failed = 49_997),
            ),
            (
                "49997 items failed so far",
                seen(|result, _| (result.state, result.items.failed) = (JobState::Running, 49_997)),
            ),
            (
                "no row",
                seen(|result, _| {
                    (result.state, result.reason) = (JobState::Failed, Some("no row\nmore".to_owned()));
                }),
            ),
            ("given the output of job-0", seen(|result, _| result.reused = Some("job-0".to_owned()))),
            (
                "waiting for Redis",
                seen(|result, standing| (result.state, standing.waits_for) = (JobState::Queued, waits())),
            ),
        ];
        for (expected, seen) in &table {
            assert_eq!(reason(seen), *expected);
        }
        let row = row(&table[5].1, true);
        assert_eq!((&*row[1], &*row[3], row.len()), ("not known", "", 8), "no count that nobody knows");
    }
}
