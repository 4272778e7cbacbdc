//! `completions`: what a shell needs to complete the commands; and the answers to a shell that asks: jobs by their ids, and
//! the names of their logs.
//!
//! The shell starts the program for each answer, and waits: what a server does not answer at once is not offered, and
//! nothing is said of it.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, ColorChoice, Command, CommandFactory, FromArgMatches};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompleteEnv};
use prs_common::job::keys;
use prs_common::ledger::JobState;
use prs_jobs::homes;
use prs_jobs::homes::naming::{self, FAILED, Id, LATEST};
use prs_jobs::logs;

use crate::cli::{Arguments, Completions, Job, Shell, WhereaboutsArguments};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Names the shell that asks.
const VARIABLE: &str = "PRS_COMPLETE";
/// What there is to offer has to be known after so long.
const PATIENCE: Duration = Duration::from_millis(80);

/// Prints the lines with which a shell asks from then on.
pub(super) fn completions(arguments: &Completions) -> Result<ExitCode, Failure> {
    let completer: &dyn EnvCompleter = match arguments.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut lines = Vec::new();
    completer.write_registration(VARIABLE, "prs", "prs", "prs", &mut lines).expect("memory takes every line");
    output::bytes(&lines)?;
    Ok(Code::Completed.into())
}

/// Answers a shell that asks, and ends the program then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(commands).var(VARIABLE).shells(Shells(&[&Bash, &Zsh, &Fish])).complete();
}

/// The commands, with what there is to offer for their arguments.
fn commands() -> Command {
    Arguments::command().mut_subcommands(|command| {
        let is_try = command.get_name() == "try";
        command.mut_args(|argument| match argument.get_id().as_str() {
            "name" if is_try => argument.add(ArgValueCompleter::new(|typed: &OsStr| {
                let files = PathCompleter::file().complete(typed);
                files.into_iter().chain(offer(typed, known_jobs())).collect::<Vec<_>>()
            })),
            _ if names_jobs(&argument) => {
                argument.add(ArgValueCompleter::new(|typed: &OsStr| offer(typed, known_jobs())))
            }
            "state" => argument.add(ArgValueCompleter::new(|typed: &OsStr| {
                offer(typed, JobState::ALL.map(|state| state.as_str().to_owned()).into())
            })),
            "key" => argument.add(ArgValueCompleter::new(|typed: &OsStr| {
                offer(typed, keys::all().map(|(name, _)| name).collect())
            })),
            "file" => argument
                .add(ArgValueCompleter::new(|typed: &OsStr| offer(typed, known_logs().unwrap_or_default()))),
            _ => argument,
        })
    })
}

/// Whether the values of an argument are jobs.
fn names_jobs(argument: &Arg) -> bool {
    argument.get_value_names().is_some_and(|names| names == ["JOB"]) && argument.is_positional()
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
    // Those that users chose come last: they do not say when.
    let (ids, chosen): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| Id::parse(id).is_some());
    let mut ids: Vec<Id> = ids.iter().filter_map(|id| Id::parse(id)).collect();
    ids.sort_by(|one, other| other.submitted.cmp(&one.submitted));
    let ids = ids.into_iter().map(|id| id.whole).chain(chosen);
    [LATEST, FAILED].map(str::to_owned).into_iter().chain(ids).collect()
}

fn known_ids() -> Option<Vec<String>> {
    let mut whereabouts = WhereaboutsArguments::from_arg_matches(&named()?).ok()?;
    whereabouts.servers.settle().ok()?;
    let whereabouts = whereabouts.settled().ok()?;
    at_once(homes::ids(&whereabouts))
}

fn known_logs() -> Option<Vec<String>> {
    let mut job = Job::from_arg_matches(&named()?).ok()?;
    job.whereabouts.servers.settle().ok()?;
    let whereabouts = job.whereabouts.settled().ok()?;
    at_once(async {
        let name = naming::resolve(&job.name, &whereabouts).await?;
        let logs = logs::list(&*Box::pin(homes::find_at_work(&name, &whereabouts)).await?).await?;
        Ok::<_, Failure>(logs.into_iter().map(|log| log.file).collect())
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
    output::begin(ColorChoice::Never, true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    runtime.shutdown_background();
    answer.ok()?.ok()
}
