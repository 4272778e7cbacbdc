//! `errors`: the distinct errors of a job with their tracebacks, or the items that failed.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use prs_common::ledger::JobState;
use prs_jobs::errors::{JobErrors, failed_mini_batches};
use prs_jobs::homes::{self, JobHome, Seen};
use prs_jobs::names;
use prs_jobs::records::{FailedItems, Item};
use prs_orchestrator::job::errors::ErrorGroup;
use prs_orchestrator::job::words;

use super::summary::line;
use crate::cli::{Errors, Format};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::visible::one_line;

/// Nodes of an error that are named.
const NAMED_NODES: usize = 8;

/// Shows the errors of a job, or its failed items; of a pipeline, those of its steps.
pub(super) async fn errors(arguments: &Errors, format: Format) -> Result<ExitCode, Failure> {
    let whereabouts = arguments.job.whereabouts.settled()?;
    let home = Box::pin(homes::find_at_work(&arguments.job.name, &whereabouts)).await?;
    let seen = home.look().await?;
    if arguments.items {
        home.check_has_mini_batches(&seen.record)?;
        return items(&*home, &seen, format).await;
    }
    let found = prs_jobs::errors::errors(&*home, seen, &whereabouts).await?;
    match (format, &found.steps) {
        (Format::Json, _) => output::json(&found.record())?,
        (Format::Table, None) => print(&found)?,
        (Format::Table, Some(steps)) => {
            let with_errors: Vec<_> = steps.iter().filter(|step| !step.list.errors.is_empty()).collect();
            if with_errors.is_empty() {
                print(&found)?;
            }
            for (position, step) in with_errors.into_iter().enumerate() {
                let blank = if position > 0 { "\n" } else { "" };
                output::line(&format!("{blank}==> {} <==", step.seen.result.job_id))?;
                print(step)?;
            }
        }
    }
    Ok(Code::Completed.into())
}

/// Prints the errors of a job.
fn print(JobErrors { seen, list, .. }: &JobErrors) -> Result<(), Failure> {
    if list.errors.is_empty() {
        let job_id = &seen.result.job_id;
        match (seen.record.state, &seen.result.reason) {
            (JobState::Failed, Some(reason)) => {
                output::note(format_args!(
                    "no error of the script of job {job_id} is known; the job failed: {reason}"
                ));
            }
            (state, _) => {
                let so_far = if state.is_final() { "" } else { " so far" };
                output::note(format_args!("job {job_id} has no error{so_far}"));
            }
        }
    }
    let here = std::env::current_dir().ok();
    let groups: Vec<_> = list.errors.iter().map(|group| text(group, here.as_deref())).collect();
    output::text(&groups.join("\n"))?;
    if list.others > 0 {
        output::line(&format!("\nand {} tries with other errors", list.others))?;
    }
    Ok(())
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
        let _ = write!(text, "  for example {}", group.place());
    } else {
        let detail = if example.detail.is_empty() {
            String::new()
        } else {
            format!(" ({})", one_line(&example.detail))
        };
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
    format!("{} {}", if count == 1 { "node" } else { "nodes" }, names::first(nodes, NAMED_NODES))
}

/// Prints the items of the mini-batches that failed or lack items.
async fn items(home: &dyn JobHome, seen: &Seen, format: Format) -> Result<ExitCode, Failure> {
    let mini_batches = failed_mini_batches(home, &seen.record).await?;
    if format == Format::Json {
        let job_id = seen.result.job_id.clone();
        output::json(&FailedItems { job_id, mini_batches })?;
    } else {
        let items = mini_batches.iter().flat_map(|mini_batch| &mini_batch.items);
        output::text(&items.map(|item| item_line(item) + "\n").collect::<String>())?;
    }
    Ok(Code::Completed.into())
}

/// A file; of a table, with the bytes of its part, separated by tabs.
fn item_line(item: &Item) -> String {
    match item {
        Item::File(name) | Item::Stored { descriptor: name } => one_line(name).into_owned(),
        Item::Part { file, start, end: Some(end), .. } => format!("{}\t{start}\t{end}", one_line(file)),
        Item::Part { file, start, end: None, .. } => format!("{}\t{start}", one_line(file)),
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
            text(&group, None).contains("2 more; other messages differ\n  for example node 0\n    Trace")
        );
    }

    #[test]
    fn items_are_one_a_line() {
        for (item, line) in [
            (r#""/d/a b.txt""#, "/d/a b.txt"),
            (r#"{"file": "/d/a.csv", "start": 3, "end": 9, "records": 1}"#, "/d/a.csv\t3\t9"),
            (r#"{"file": "/d/a.csv", "start": 3}"#, "/d/a.csv\t3"),
            (r#"{"descriptor": "long/7"}"#, "long/7"),
            (r#""/d/a\nb\u001b[2J""#, "/d/a\\nb\\u{1b}[2J"),
        ] {
            assert_eq!(item_line(&serde_json::from_str(item).unwrap()), line);
        }
    }
}
