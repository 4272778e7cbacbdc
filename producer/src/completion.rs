//! What a shell offers for the word that is being typed: jobs by their ids, and the names of their logs.
//!
//! The shell starts the program for it, and waits: what a server does not answer at once is not offered, and nothing is
//! said of it.

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompleteEnv};
use prs_common::job::keys;
use prs_common::ledger::JobState;

use crate::cli::{Arguments, Job, Shell, Telling, Whereabouts};
use crate::naming::{self, FAILED, Id, LATEST};
use crate::place::Place;
use crate::{commands, output};

/// Names the shell that asks.
const VARIABLE: &str = "PRS_COMPLETE";
/// What there is to offer has to be known after so long.
const PATIENCE: Duration = Duration::from_millis(80);

/// Answers a shell that asks, and ends the program then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Arguments::command)
        .var(VARIABLE)
        .shells(Shells(&[&Bash, &Zsh, &Fish]))
        .complete();
}

/// The lines with which a shell asks from then on.
pub(crate) fn registration(shell: Shell) -> Vec<u8> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut lines = Vec::new();
    completer.write_registration(VARIABLE, "prs", "prs", "prs", &mut lines).expect("memory takes every line");
    lines
}

/// Offers jobs.
pub(crate) fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| offer(typed, known_jobs()))
}

/// Offers job files, and jobs.
pub(crate) fn job_files_and_jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let files = PathCompleter::file().complete(typed);
        files.into_iter().chain(offer(typed, known_jobs())).collect::<Vec<_>>()
    })
}

/// Offers the logs of the job that is named.
pub(crate) fn logs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| offer(typed, known_logs().unwrap_or_default()))
}

/// Offers the keys of job files.
pub(crate) fn keys() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| offer(typed, keys::all().map(|(name, _)| name).collect()))
}

/// Offers the states of jobs.
pub(crate) fn states() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        offer(typed, JobState::ALL.map(|state| state.as_str().to_owned()).into())
    })
}

/// Those of `known` that begin as what is typed, in their order.
fn offer(typed: &OsStr, known: Vec<String>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let fitting = known.into_iter().filter(|one| one.starts_with(typed)).enumerate();
    fitting.map(|(at, one)| CompletionCandidate::new(one).display_order(Some(at))).collect()
}

/// What jobs may be called, the newest first.
fn known_jobs() -> Vec<String> {
    let ids = known_ids().unwrap_or_default();
    let mut ids: Vec<Id> = ids.iter().filter_map(|id| Id::parse(id)).collect();
    ids.sort_by(|one, other| other.submitted.cmp(&one.submitted));
    let ids = ids.into_iter().map(|id| id.whole);
    [LATEST, FAILED].map(str::to_owned).into_iter().chain(ids).collect()
}

fn known_ids() -> Option<Vec<String>> {
    let mut whereabouts = Whereabouts::from_arg_matches(&named()?).ok()?;
    whereabouts.servers.settle().ok()?;
    at_once(Place::ids(&whereabouts))
}

fn known_logs() -> Option<Vec<String>> {
    let mut job = Job::from_arg_matches(&named()?).ok()?;
    job.whereabouts.servers.settle().ok()?;
    at_once(async {
        job.name = naming::resolve(&job.name, &job.whereabouts).await?;
        commands::log_names(&Place::find(&job).await?).await
    })
}

/// The arguments of the command that is being typed, as far as they are there.
fn named() -> Option<ArgMatches> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let mut parsed = Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    Some(parsed.remove_subcommand()?.1)
}

/// What comes at once; nothing where it fails, or takes longer than the shell should wait.
fn at_once<T, E>(answer: impl Future<Output = Result<T, E>>) -> Option<T> {
    output::begin(&Telling::SILENT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    runtime.shutdown_background();
    answer.ok()?.ok()
}
