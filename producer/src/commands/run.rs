//! `submit`, `resubmit` and `resume`: run a job, in this process or on a fleet.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use prs_common::job::{Given, check_job_id};
use prs_jobs::Whereabouts;
use prs_jobs::records::Submitted;
use prs_jobs::submit::code_choice::Changes;
use prs_jobs::submit::{self, Ended, Sent, Start};

use super::ask_code::ask_code;
use super::id_file::IdFile;
use super::summary::report;
use super::who::signed;
use crate::cli::{Format, Resubmit, Resume, Submit, not_on_a_fleet};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Runs a job file.
pub(super) async fn submit(arguments: &Submit, format: Format) -> Result<ExitCode, Failure> {
    let Submit { servers, runs, run_dir, id_file, name, detach, of_deployment, .. } = arguments;
    check_name(name.as_deref())?;
    let whereabouts = servers.whereabouts(runs.as_deref())?;
    check(&whereabouts, run_dir.as_deref(), *detach)?;
    let whereabouts = whereabouts.heard_by(Arc::new(IdFile::at(id_file.clone())));
    let (names, invocation) = (servers.names(), of_deployment.invocation());
    let called = signed();
    let given = Given {
        overrides: &arguments.set,
        invocation: Some(&invocation),
        names: Some(&names),
        called: Some(&called),
        ..Given::default()
    };
    let start = Start {
        whereabouts: &whereabouts,
        run_dir: run_dir.as_deref(),
        id: name.as_deref().or(of_deployment.job_id()),
        is_picked: false,
        detach: *detach,
    };
    print(Box::pin(submit::submit(&arguments.job_file, given, &start)).await?, format)
}

/// Runs a former job again as a new one. The former one is only read.
pub(super) async fn resubmit(arguments: &Resubmit, format: Format) -> Result<ExitCode, Failure> {
    let Resubmit { job, set, run_dir, detach } = arguments;
    let whereabouts = job.whereabouts.settled()?;
    check(&whereabouts, run_dir.as_deref(), *detach)?;
    let (whereabouts, run_dir) = (&whereabouts, run_dir.as_deref());
    let start = Start { whereabouts, run_dir, id: None, is_picked: false, detach: *detach };
    print(submit::resubmit(&job.name, set, &signed(), Sent::NOTHING, &start).await?, format)
}

/// Goes on with a former job.
pub(super) async fn resume(arguments: &Resume, format: Format) -> Result<ExitCode, Failure> {
    let Resume { job, set, code, only_group, detach, id_file } = arguments;
    let whereabouts = job.whereabouts.settled()?;
    check(&whereabouts, None, *detach)?;
    let whereabouts = whereabouts.heard_by(Arc::new(IdFile::at(id_file.clone())));
    let changes = Changes {
        name: &job.name,
        set,
        code: code.map(Into::into),
        sent: None,
        only_group: only_group.as_deref(),
        ask: &ask_code,
        whereabouts: &whereabouts,
    };
    print(submit::resume(&changes, *detach).await?, format)
}

/// Refuses an id that no job can have.
pub(super) fn check_name(name: Option<&str>) -> Result<(), Failure> {
    match name.map(check_job_id) {
        Some(Err(message)) => Err(Failure::wrong(format!("--name: {message}"))),
        _ => Ok(()),
    }
}

/// Refuses options that mean nothing where the job is to run.
fn check(whereabouts: &Whereabouts, run_dir: Option<&Path>, detach: bool) -> Result<(), Failure> {
    match &whereabouts.urls {
        Some(_) if run_dir.is_some() => Err(not_on_a_fleet("--run-dir")),
        None if detach => {
            Err(Failure::wrong("--detach is for jobs on a fleet; this one runs in this program"))
        }
        _ => Ok(()),
    }
}

/// Prints what became of a job, and gives the exit code for it.
pub(super) fn print(ended: Ended, format: Format) -> Result<ExitCode, Failure> {
    match ended {
        Ended::Job { result, called, not_filled } => {
            let reported = report(format, &result, &called);
            not_filled.map_or(reported, Err)
        }
        Ended::HandedIn { job_id, noun } => {
            let printed = match format {
                Format::Json => output::json(&Submitted::new(&job_id)),
                Format::Table => output::line(&job_id),
            };
            printed.map_err(|failure| failure.and(format_args!("{noun} {job_id} is handed in")))?;
            Ok(Code::Completed.into())
        }
        Ended::Left => Ok(Code::Interrupted.into()),
    }
}
