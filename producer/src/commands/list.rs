//! `list`: the jobs of a folder or of a fleet.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::time::Duration;

use console::Term;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use prs_common::timestamp::now_us;
use prs_orchestrator::report::progress_overview::duration;

use crate::cli::{Format, List, Order};
use crate::failure::{Code, Failure};
use crate::jobs::naming::Id;
use crate::jobs::{self, Seen, look_at_all};
use crate::records::{Job, Jobs};
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
    loop {
        let found = find(arguments, format).await?;
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

/// Jobs, and how many more there are.
struct Found {
    jobs: Vec<Seen>,
    left_out: usize,
}

/// Looks at the jobs that are asked for. What their ids tell is not looked at.
async fn find(arguments: &List, format: Format) -> Result<Found, Failure> {
    let List { limit, all, state, name, since, sort, .. } = arguments;
    let wanted =
        (!all).then_some(limit.unwrap_or(LIMIT)).filter(|_| limit.is_some() || format == Format::Table);
    let homes = jobs::all(&arguments.whereabouts).await?;
    let mut known = Vec::with_capacity(homes.len());
    for home in homes {
        known.push((home.id().await, home));
    }
    let since = since.map_or(0, |since| now_us().saturating_sub(since.as_micros() as u64));
    let day_and_time = (since > 0).then(|| digits(since));
    known.retain(|(id, _)| fits(id.as_ref(), name.as_deref(), day_and_time.as_deref()));
    known.sort_by_cached_key(|(id, _)| Reverse(id.as_ref().map(|id| id.submitted.clone())));
    let mut left_out = 0;
    if let Some(wanted) = wanted.filter(|_| state.is_empty() && *sort == Order::Time) {
        left_out = known.len().saturating_sub(wanted);
        // Of the jobs of one second the records know the order.
        let last = known.get(wanted.saturating_sub(1)).and_then(|(id, _)| id.clone());
        let same_second = |id: &Option<Id>| {
            id.as_ref().zip(last.as_ref()).is_some_and(|(one, last)| one.submitted == last.submitted)
        };
        let beyond = known.iter().skip(wanted).take_while(|(id, _)| same_second(id)).count();
        known.truncate(wanted + beyond);
    }
    let mut jobs = look_at_all(known.into_iter().map(|(_, home)| home).collect()).await?;
    jobs.retain(|Seen { record, result, .. }| {
        record.submitted_us >= since && (state.is_empty() || state.contains(&result.state))
    });
    jobs.sort_by(|one, other| {
        let key = |seen: &Seen| match sort {
            Order::Time => String::new(),
            Order::Name => seen.result.name.clone(),
            Order::State => seen.result.state.as_str().to_owned(),
        };
        key(one).cmp(&key(other)).then(other.record.submitted_us.cmp(&one.record.submitted_us))
    });
    if let Some(wanted) = wanted {
        left_out = left_out.max(jobs.len().saturating_sub(wanted));
        jobs.truncate(wanted);
    }
    Ok(Found { jobs, left_out })
}

/// Whether a job with this id may be one that is asked for.
fn fits(id: Option<&Id>, name: Option<&str>, since: Option<&str>) -> bool {
    let Some(id) = id else { return name.is_none() && since.is_none() };
    name.is_none_or(|name| id.name == name) && since.is_none_or(|since| &*id.submitted >= since)
}

/// A moment as ids have it.
fn digits(us: u64) -> String {
    prs_common::timestamp::format_us(us)[..19].chars().filter(char::is_ascii_digit).collect()
}

fn print(Found { jobs, left_out }: Found, format: Format, terminal: &Term) -> Result<(), Failure> {
    if format == Format::Json {
        let jobs = jobs.iter().map(|seen| Job::seen(seen).into()).collect();
        return output::json(&Jobs { jobs, left_out: left_out as u64 });
    }
    let rows = jobs
        .into_iter()
        .map(|Seen { record, result, standing }| {
            let waits = standing.waits().filter(|_| !result.state.is_final());
            vec![
                result.job_id,
                colours::state(result.state.as_str(), result.state, !result.findings.complete).to_string(),
                local(record.submitted_us),
                format!("{}/{}", result.mini_batches.succeeded, result.mini_batches.scheduled),
                result.mini_batches.failed.to_string(),
                duration(result.seconds),
                result.reason.or(waits).unwrap_or_default().lines().next().unwrap_or_default().to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_name_and_time() {
        let id = Id::parse("rows-20261121-210310-fe8c");
        let table = [
            (None, None, true),
            (Some("rows"), None, true),
            (Some("row"), None, false),
            (None, Some("20261121210310"), true),
            (None, Some("20261121210311"), false),
        ];
        for (name, since, expected) in table {
            assert_eq!(fits(id.as_ref(), name, since), expected, "{name:?} {since:?}");
        }
        assert!(fits(None, None, None) && !fits(None, Some("rows"), None) && !fits(None, None, Some("2")));
        assert_eq!(digits(1_795_381_390_000_000), "20261122210310");
    }
}
