//! `errors`: the distinct errors of a job with their tracebacks, or the items that failed.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use prs_common::layout::{self, FAILED_MINI_BATCHES};
use prs_common::storage::{StorageErrorKind, StorageExt};
use prs_orchestrator::JobRecord;
use prs_orchestrator::job::errors::ErrorGroup;
use prs_orchestrator::job::words;
use prs_orchestrator::report::error_list::{self, ErrorList};
use prs_orchestrator::segments::failed_mini_batches::of_segments;

use crate::cli::{Errors, Format};
use crate::failure::{Code, Failure};
use crate::output;
use crate::place::{Place, Seen};
use crate::records::{self, DistinctError, FailedItems, FailedMiniBatch, Item, SCHEMA};
use crate::summary::line;

/// Nodes of an error that are named.
const NAMED_NODES: usize = 8;
/// The beginning of a log that a traceback is looked for in, bytes.
const HEAD: u64 = 64 << 10;

/// Shows the errors of a job, or its failed items.
pub(super) async fn errors(arguments: &Errors, format: Format) -> Result<ExitCode, Failure> {
    let place = Place::find(&arguments.job).await?;
    let seen = place.look().await?;
    if arguments.items {
        return items(&place, &seen, format).await;
    }
    let mut list = read(&place, &seen).await?;
    for group in list.errors.iter_mut().filter(|group| group.traceback.is_empty()) {
        group.traceback = logged(&place, group).await;
    }
    let job_id = seen.result.job_id;
    if format == Format::Json {
        let ErrorList { failed_tries, others, errors, .. } = list;
        let errors = errors.into_iter().map(DistinctError::from).collect();
        let state = seen.record.state;
        output::json(&records::Errors { schema: SCHEMA, job_id, state, failed_tries, others, errors })?;
        return Ok(Code::Completed.into());
    }
    if list.errors.is_empty() {
        let so_far = if seen.record.state.is_final() { "" } else { " so far" };
        output::say(format_args!("job {job_id} has no error{so_far}"));
    }
    let here = std::env::current_dir().ok();
    let groups: Vec<_> = list.errors.iter().map(|group| text(group, here.as_deref())).collect();
    output::text(&groups.join("\n"))?;
    if list.others > 0 {
        output::line(&format!("\nand {} tries with other errors", list.others))?;
    }
    Ok(Code::Completed.into())
}

/// The list of errors of a job.
async fn read(place: &Place, seen: &Seen) -> Result<ErrorList, Failure> {
    let key = format!("{}{}", layout::LOGS, error_list::NAME);
    let body = match place.storage.get(&key).await {
        Ok(body) => body,
        Err(error) if error.kind == StorageErrorKind::NotFound => {
            let ended = seen.record.result.is_some();
            return if ended && seen.record.prs_version != env!("CARGO_PKG_VERSION") {
                Err(Failure::wrong(format!(
                    "job {0} was run by prs {1}, which did not list its errors; prs logs {2} --file job_error.txt prints what it knew",
                    seen.result.job_id,
                    seen.record.prs_version,
                    place.called()
                )))
            } else {
                Ok(ErrorList { schema: error_list::SCHEMA, ..ErrorList::default() })
            };
        }
        Err(error) => {
            return Err(place.failure(anyhow::Error::from(error).context("cannot read the list of errors")));
        }
    };
    let list: ErrorList = serde_json::from_slice(&body)
        .with_context(|| format!("{} cannot be understood", place.storage.uri(&key)))?;
    if list.schema != error_list::SCHEMA {
        return Err(Failure::wrong(format!(
            "{} has the form {} of another version of prs, and this one knows {}",
            place.storage.uri(&key),
            list.schema,
            error_list::SCHEMA
        )));
    }
    Ok(list)
}

/// The traceback of the example in the log of its process; empty where it is not found.
async fn logged(place: &Place, group: &ErrorGroup) -> String {
    let log = &group.example.log;
    // What only lacks items raised nothing; of a process that did not start, the log has one error.
    if log.is_empty() || !group.example.mini_batch_id.is_empty() {
        return String::new();
    }
    let key = format!("{}{log}", layout::LOGS);
    match place.storage.get_range(&key, 0..HEAD).await {
        Ok(head) => first_traceback(&String::from_utf8_lossy(&head)),
        // It is not there yet, or went with its node.
        Err(_) => String::new(),
    }
}

/// The text below the first heading of a log of errors, up to the empty line behind it. The stacks of threads have an empty
/// line between them.
fn first_traceback(log: &str) -> String {
    let below = log.split_once('\n').map_or("", |(_, below)| below);
    let goes_on = |rest: &str| rest.starts_with("Thread ") || rest.starts_with("Current thread ");
    let mut ends = below.match_indices("\n\n").map(|(end, _)| end);
    let end = ends.find(|end| !goes_on(&below[end + 2..])).map_or(below.len(), |end| end + 1);
    let traceback = &below[..end];
    // Where there is none, the message stands again.
    if traceback.starts_with("Traceback") || traceback.contains("\n  File \"") {
        traceback.to_owned()
    } else {
        String::new()
    }
}

/// An error, for people.
fn text(group: &ErrorGroup, here: Option<&Path>) -> String {
    let ErrorGroup { category, message, example, nodes, traceback, .. } = group;
    let mut text = format!("{category}: {}\n", message.trim_end().replace('\n', "\n  "));
    let _ = write!(text, "  {}; {}", words::cost(group), on_nodes(nodes.iter().copied()));
    text.push_str(if group.messages_differ { "; other messages differ\n" } else { "\n" });
    if let Some(frame) = &group.frame {
        let _ = writeln!(text, "  {}", line(frame, here));
    }
    if example.mini_batch_id.is_empty() {
        let _ = write!(text, "  for example {} of node {}", example.process, example.node_id);
    } else {
        let detail = if example.detail.is_empty() { String::new() } else { format!(" ({})", example.detail) };
        let _ = write!(
            text,
            "  for example mini-batch {}{detail}, try {}",
            example.mini_batch_id, example.number
        );
    }
    if example.log.is_empty() {
        text.push('\n');
    } else {
        let _ = writeln!(text, ": logs/{}", example.log);
    }
    for line in traceback.trim_end().lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn on_nodes(nodes: impl ExactSizeIterator<Item = u32>) -> String {
    let count = nodes.len();
    let named: Vec<_> = nodes.take(NAMED_NODES).map(|node| node.to_string()).collect();
    let more = if count > NAMED_NODES { format!(" and {} more", count - NAMED_NODES) } else { String::new() };
    format!("{} {}{more}", if count == 1 { "node" } else { "nodes" }, named.join(", "))
}

/// Prints the items of the mini-batches that failed or lack items.
async fn items(place: &Place, seen: &Seen, format: Format) -> Result<ExitCode, Failure> {
    let mini_batches = failed_mini_batches(place, &seen.record).await?;
    if format == Format::Json {
        let job_id = seen.result.job_id.clone();
        output::json(&FailedItems { schema: SCHEMA, job_id, mini_batches })?;
    } else {
        let items = mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
        output::text(&items.map(|item| item_line(item) + "\n").collect::<String>())?;
    }
    Ok(Code::Completed.into())
}

/// The list of failed mini-batches; of a job that has not ended, what it would be now.
async fn failed_mini_batches(place: &Place, record: &JobRecord) -> Result<Vec<FailedMiniBatch>, Failure> {
    if record.result.is_some() {
        let output = place.output(record);
        match output.get(FAILED_MINI_BATCHES).await {
            Ok(body) => {
                let text = String::from_utf8_lossy(&body);
                let lines: Result<Vec<FailedMiniBatch>, _> = text.lines().map(serde_json::from_str).collect();
                let uri = output.uri(FAILED_MINI_BATCHES);
                return Ok(lines.with_context(|| format!("{uri} is not as prs wrote it"))?);
            }
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => {
                return Err(place.failure(anyhow::Error::from(error).context("cannot read the failed items")));
            }
        }
    }
    let found = of_segments(&place.storage, record).await.context("cannot read the failed items");
    let found = found.map_err(|error| place.failure(error))?.into_values();
    let lines: Result<_, _> = found.map(serde_json::from_value).collect();
    Ok(lines.context("the failed items are not as prs writes them")?)
}

/// A file; of a table, with the bytes of its part, separated by tabs.
fn item_line(item: &Item) -> String {
    match item {
        Item::File(name) | Item::Stored { descriptor: name } => name.clone(),
        Item::Part { file, start, end: Some(end), .. } => format!("{file}\t{start}\t{end}"),
        Item::Part { file, start, end: None, .. } => format!("{file}\t{start}"),
    }
}

#[cfg(test)]
mod tests {
    use prs_common::source_line::SourceLine;
    use prs_orchestrator::job::errors::Example;

    use super::*;

    #[test]
    fn an_error_shows_line_cost_example_and_traceback() {
        let mut group = ErrorGroup {
            status: "RUN_EXCEPTION".into(),
            category: "ValueError".into(),
            message: "bad\nworse".into(),
            frame: Some(SourceLine {
                file: "/h/c/x.py".into(),
                line: 5,
                function: "run".into(),
                text: "f()".into(),
            }),
            tries: 6,
            mini_batches_lost: 2,
            items_lost: 9,
            nodes: (0..10).collect(),
            example: Example {
                mini_batch_id: "mb-0000000002".into(),
                detail: "a, b".into(),
                number: 3,
                process: "process001".into(),
                log: "user/error/0/process001.txt".into(),
                ..Example::default()
            },
            traceback: "Traceback (most recent call last):\n  File \"/h/c/x.py\"\n".into(),
            ..ErrorGroup::default()
        };
        let expected = "\
ValueError: bad
  worse
  6 tries failed, 2 mini-batches lost (9 items); nodes 0, 1, 2, 3, 4, 5, 6, 7 and 2 more
  c/x.py:5 in run: f()
  for example mini-batch mb-0000000002 (a, b), try 3: logs/user/error/0/process001.txt
    Traceback (most recent call last):
      File \"/h/c/x.py\"
";
        assert_eq!(text(&group, Some(Path::new("/h"))), expected);
        group = ErrorGroup { messages_differ: true, frame: None, example: Example::default(), ..group };
        assert!(
            text(&group, None).contains("2 more; other messages differ\n  for example  of node 0\n    Trace")
        );
    }

    #[test]
    fn the_traceback_of_a_log_is_below_its_heading() {
        let traceback = "Traceback (most recent call last):\n  File \"x\"\nValueError: a\n";
        let log = format!("2026 init: ValueError: a\n{traceback}\n2026 init: B: b\nb\n\n");
        assert_eq!(first_traceback(&log), traceback);
        assert_eq!(first_traceback("2026 init: B: b\nb\n\n"), "");
        let threads = "Thread 0x1 (most recent call first):\n  File \"x\", line 1 in a\n\nCurrent thread 0x2 (most recent \
                       call first):\n  File \"y\", line 2 in b\n";
        assert_eq!(first_traceback(&format!("2026 init: B: b\n{threads}\n2026 init: C: c\nc\n\n")), threads);
        assert_eq!(first_traceback(""), "");
    }

    #[test]
    fn items_are_one_a_line() {
        for (item, line) in [
            (r#""/d/a b.txt""#, "/d/a b.txt"),
            (r#"{"file": "/d/a.csv", "start": 3, "end": 9, "records": 1}"#, "/d/a.csv\t3\t9"),
            (r#"{"file": "/d/a.csv", "start": 3}"#, "/d/a.csv\t3"),
            (r#"{"descriptor": "long/7"}"#, "long/7"),
        ] {
            assert_eq!(item_line(&serde_json::from_str(item).unwrap()), line);
        }
    }
}
