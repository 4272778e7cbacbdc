//! The command line: what can be said. What it means is in `commands`.

mod assets;
mod azure;
mod azure_jobs;
mod endpoints;
mod examples;
mod fleet;
mod jobs;
mod run;
#[cfg_attr(not(feature = "serve"), path = "no_server.rs")]
pub(crate) mod server;
mod servers;
mod shell;
mod tokens;
mod values;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::exit;
use std::sync::LazyLock;

use clap::error::Error;
use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand};
use prs_common::config::ConfigError;
use prs_common::wire::PROTOCOL_VERSION;

use crate::failure::{Code, Failure};
use crate::terminal::{colours, output};

pub(crate) use crate::terminal::output::Format;
use crate::terminal::shape::{self, Form};

pub(crate) use assets::{
    AssetCommand, ChooseAssets, Component, CreateAsset, CreateData, CreateFromFile, CreateModel, Dataset,
    DatasetCommand, DownloadModel, Environment, FileCommand, ListAssets, Model, ModelCommand, OneVersion,
    ShowAsset, UpdateAsset,
};
pub(crate) use azure::OfAzure;
pub(crate) use azure_jobs::{
    AzureJobCommand, AzureJobs, CreateJob, DownloadJob, ListAzureJobs, NamedJob, UpdateJob,
};
pub(crate) use endpoints::{
    Call, CreateDeployment, CreateEndpoint, DeleteDeployment, DeleteEndpoint, Deployment, DeploymentCommand,
    Endpoint, EndpointCommand, Invoke, ListDeployments, ListEndpoints, NamedDeployment, NamedEndpoint,
    UpdateDeployment, UpdateEndpoint,
};
pub(crate) use fleet::{Doctor, DrainWorker, Profiles, Worker, Workers, WorkersCommand};
pub(crate) use jobs::{Collect, Errors, Fetch, Job, List, Logs, Remove, Report, WhereaboutsArguments};
pub(crate) use run::{CodeChoice, Explain, New, Resubmit, Resume, Submit, Try, Validate, is_job_file};
pub(crate) use server::{Serve, TakeUp};
pub(crate) use servers::FleetServers;
pub(crate) use servers::{Servers, not_on_a_fleet};
pub(crate) use shell::{Completions, Manual, Shell};
pub(crate) use tokens::{CreateToken, ListTokens, RevokeToken, Token, TokenCommand};

/// The other name of `prs worker`.
const WORKER: &str = "prs-worker";
/// Columns of a help at most: longer lines are hard to read.
const HELP_WIDTH: usize = 100;

/// What `--version` says behind the name: the version, the commit, and the protocol between agent and process.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!("{} ({}, protocol {PROTOCOL_VERSION})", env!("CARGO_PKG_VERSION"), env!("PRS_COMMIT"))
});

/// Runs a Python entry script over many files and rows, in parallel.
#[derive(Debug, Parser)]
#[command(
    name = "prs",
    version = VERSION.as_str(),
    propagate_version = true,
    max_term_width = HELP_WIDTH,
    after_help = examples::PRS
)]
pub(crate) struct Arguments {
    /// How data is printed on standard output.
    #[arg(short, long, global = true, value_enum, default_value_t = Form::Table, help_heading = OUTPUT)]
    pub(crate) output: Form,
    /// Print of the data what this `JMESPath` expression finds.
    #[arg(long, global = true, value_name = "EXPRESSION", help_heading = OUTPUT)]
    pub(crate) query: Option<String>,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Serves the jobs of a fleet on this host.
#[derive(Debug, Parser)]
#[command(name = WORKER, version = VERSION.as_str(), max_term_width = HELP_WIDTH, after_help = examples::WORKER)]
struct WorkerAlone {
    #[command(flatten)]
    worker: Worker,
    #[command(flatten)]
    telling: Telling,
}

impl Arguments {
    /// How data is printed, as commands are told: what is asked of data is for programs.
    pub(crate) fn format(&self) -> Format {
        if self.output == Form::Table && self.query.is_none() { Format::Table } else { Format::Json }
    }

    /// Has records be printed as is asked for.
    pub(crate) fn choose_shape(&self) -> Result<(), Failure> {
        shape::choose(self.query.as_deref(), self.output)
    }
}

/// Heading of the options that every command has.
const OUTPUT: &str = "Output";

/// How much is told, and in which colours.
#[derive(Debug, Clone, Args)]
pub(crate) struct Telling {
    /// Colours: on terminals that have them, unless `NO_COLOR` or `CLICOLOR_FORCE` is set; always; or never.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true, help_heading = OUTPUT)]
    pub(crate) color: ColorChoice,
    /// Print data and errors only: no progress, no notes.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Log what is done; -vv in detail. `PRS_LOG` says it part by part, and wins.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = OUTPUT)]
    pub(crate) verbose: u8,
}

/// The arguments of the program, under the name that it was called by. Wrong ones end it, and so does the wish for help
/// or its version.
pub(crate) fn parse() -> Arguments {
    let called = std::env::args_os().next().unwrap_or_default();
    let arguments = if Path::new(&called).file_name() == Some(OsStr::new(WORKER)) {
        WorkerAlone::try_parse().map(|WorkerAlone { worker, telling }| Arguments {
            output: Form::Table,
            query: None,
            telling,
            command: Command::Worker(worker),
        })
    } else {
        Arguments::try_parse_from(azure::with_versions(std::env::args_os()))
    };
    arguments.unwrap_or_else(|error| end(&error))
}

/// Prints help, a version or what is wrong with the arguments, and ends the program.
fn end(error: &Error) -> ! {
    colours::choose(color_in(std::env::args_os()));
    let written = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() && asks_for_json(std::env::args_os()) {
        output::print_failure_record(&refusal(error));
    }
    let is_lost = written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
    exit(if is_lost && !error.use_stderr() { Code::Failed as i32 } else { error.exit_code() })
}

/// What `--color` says among arguments that are not understood.
fn color_in(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let words: Vec<OsString> = arguments.collect();
    let value =
        words.iter().enumerate().find_map(|(at, word)| match word.to_str()?.strip_prefix("--color")? {
            "" => words.get(at + 1)?.to_str(),
            value => value.strip_prefix('='),
        });
    value.and_then(|value| value.parse().ok()).unwrap_or(ColorChoice::Auto)
}

/// Whether a command line that may be wrong asks for data for programs.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<OsString> = arguments.collect();
    let is_one = |one: &OsString| ["-ojson", "-o=json", "--output=json"].iter().any(|json| one == json);
    let is_pair = |pair: &[OsString]| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json";
    arguments.iter().any(is_one) || arguments.windows(2).any(is_pair)
}

/// What is wrong with a command line, without how it is to be used.
fn refusal(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let (wrong, _usage) = text.split_once("\n\nUsage:").unwrap_or((&text, ""));
    Failure::wrong(wrong.trim_start_matches("error: ").trim())
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a script, a job file and three inputs to begin with.
    #[command(after_help = examples::NEW)]
    New(New),
    /// Run a job and wait for its end.
    #[command(after_help = examples::SUBMIT)]
    Submit(Submit),
    /// Say what a key of a job file takes and means, or list all of them.
    #[command(after_help = examples::EXPLAIN)]
    Explain(Explain),
    /// Check a job file, import its script and plan the job; run nothing.
    #[command(after_help = examples::VALIDATE)]
    Validate(Validate),
    /// Run one mini-batch here, in this terminal, and show what would be written.
    #[command(after_help = examples::TRY)]
    Try(Try),
    /// Run what is missing or failed of a former job.
    #[command(after_help = examples::RESUME)]
    Resume(Resume),
    /// Show where the result of a job is, or fetch it.
    #[command(after_help = examples::RESULT)]
    Result(Fetch),
    /// Run a former job again as a new one, with changes.
    #[command(after_help = examples::RESUBMIT)]
    Resubmit(Resubmit),
    /// Show where a job stands.
    #[command(after_help = examples::STATUS)]
    Status(Job),
    /// List the jobs of a folder, or of a fleet.
    #[command(after_help = examples::LIST)]
    List(List),
    /// Print a former job as a job file, which can be submitted as it is.
    #[command(after_help = examples::SHOW)]
    Show(Job),
    /// Follow a job to its end: progress and logs.
    #[command(after_help = examples::STREAM)]
    Stream(Job),
    /// Show the distinct errors of a job with their tracebacks, or the items that failed.
    #[command(after_help = examples::ERRORS)]
    Errors(Errors),
    /// Write a page about a job: how it stands, pictures, errors, nodes, settings.
    #[command(after_help = examples::REPORT)]
    Report(Report),
    /// List the logs of a job, print or follow them.
    #[command(after_help = examples::LOGS)]
    Logs(Logs),
    /// End a job; what is done is kept.
    #[command(after_help = examples::CANCEL)]
    Cancel(Job),
    /// Remove jobs that have ended, with their logs and results.
    #[command(after_help = examples::RM)]
    Rm(Remove),
    /// Show, and remove, jobs that are kept no longer, and uploaded inputs that no job names.
    #[command(after_help = examples::GC)]
    Gc(Collect),
    /// Register data under names with versions, which job files name as azureml:NAME:VERSION.
    #[command(after_help = examples::DATASET, alias = "data")]
    Dataset(Dataset),
    /// Register models under names with versions, which job files name as azureml:NAME:VERSION.
    #[command(after_help = examples::MODEL)]
    Model(Model),
    /// Register environments under names with versions, which job files name as azureml:NAME:VERSION.
    #[command(after_help = examples::ENVIRONMENT)]
    Environment(Environment),
    /// Register components under names with versions, which pipelines name as azureml:NAME:VERSION.
    #[command(after_help = examples::COMPONENT)]
    Component(Component),
    /// Create, change and call batch endpoints: stable names, behind which deployments stand.
    #[command(after_help = examples::ENDPOINT, alias = "batch-endpoint")]
    Endpoint(Endpoint),
    /// Create, change and delete the deployments of batch endpoints.
    #[command(after_help = examples::DEPLOYMENT, alias = "batch-deployment")]
    Deployment(Deployment),
    /// Call an endpoint: run its deployment on data.
    #[command(after_help = examples::INVOKE)]
    Invoke(Invoke),
    /// Run and look at jobs by the verbs and options of az ml job.
    #[command(after_help = examples::JOB)]
    Job(AzureJobs),
    /// Nothing is created: workers are the compute.
    #[command(hide = true, disable_help_flag = true)]
    Compute(Compute),
    /// Create, list and revoke tokens, with which programs show a server who they are.
    #[command(after_help = examples::TOKEN)]
    Token(Token),
    /// Serve the jobs of a fleet on this host.
    #[command(after_help = examples::WORKER)]
    Worker(Worker),
    /// List the workers of a fleet, or ask one to leave.
    #[command(after_help = examples::WORKERS)]
    Workers(Workers),
    /// Serve jobs to browsers, and to programs over HTTP.
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Run a job of this machine that was handed in to a server.
    #[command(hide = true)]
    TakeUp(TakeUp),
    /// List the profiles of the configuration, and say which servers are used and why.
    #[command(after_help = examples::PROFILES)]
    Profiles(Profiles),
    /// Check whether this machine, and the fleet that is configured, have what prs needs.
    #[command(after_help = examples::DOCTOR)]
    Doctor(Doctor),
    /// Print what a shell needs to complete these commands, with jobs and logs.
    #[command(after_help = examples::COMPLETIONS)]
    Completions(Completions),
    /// Write this help as pages of the manual.
    #[command(after_help = examples::MAN)]
    Man(Manual),
}

/// What scripts for `az ml compute` say.
#[derive(Debug, Args)]
pub(crate) struct Compute {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

/// What a command asks of a fleet, or of this machine.
enum Asks<'a> {
    /// Nothing, or it looks for itself.
    Nothing,
    /// A fleet.
    Fleet(&'a mut FleetServers),
    /// A fleet, or this machine.
    Servers(&'a mut Servers),
    /// Jobs.
    Jobs(&'a mut WhereaboutsArguments),
    /// One job.
    Job(&'a mut String, &'a mut WhereaboutsArguments),
}

impl Command {
    fn asks(&mut self) -> Asks<'_> {
        let job = match self {
            Self::New(_)
            | Self::Explain(_)
            | Self::Profiles(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::Compute(_)
            | Self::Man(_) => {
                return Asks::Nothing;
            }
            Self::Worker(Worker { servers, .. })
            | Self::Workers(
                Workers { command: Some(WorkersCommand::Drain(DrainWorker { servers, .. })), .. }
                | Workers { command: None, servers, .. },
            ) => {
                return Asks::Fleet(servers);
            }
            Self::Submit(Submit { servers, .. }) | Self::Validate(Validate { servers, .. }) => {
                return Asks::Servers(servers);
            }
            Self::List(List { whereabouts, .. })
            | Self::Rm(Remove { whereabouts, .. })
            | Self::Gc(Collect { whereabouts, .. })
            | Self::Serve(Serve { whereabouts, .. })
            | Self::TakeUp(TakeUp { whereabouts, .. }) => return Asks::Jobs(whereabouts),
            Self::Dataset(Dataset { command, .. }) => return Asks::Jobs(command.whereabouts_mut()),
            Self::Model(Model { command, .. }) => return Asks::Jobs(command.whereabouts_mut()),
            Self::Environment(Environment { command, .. }) | Self::Component(Component { command, .. }) => {
                return Asks::Jobs(command.whereabouts_mut());
            }
            Self::Endpoint(Endpoint { command, .. }) => return Asks::Jobs(command.whereabouts_mut()),
            Self::Deployment(Deployment { command, .. }) => return Asks::Jobs(command.whereabouts_mut()),
            Self::Job(AzureJobs { command, .. }) => return Asks::Jobs(command.whereabouts_mut()),
            Self::Invoke(Invoke { call, .. }) => return Asks::Jobs(&mut call.whereabouts),
            Self::Token(Token { command }) => {
                return command.whereabouts_mut().map_or(Asks::Nothing, Asks::Jobs);
            }
            Self::Try(Try { name, whereabouts, .. }) => {
                return if is_job_file(name) {
                    Asks::Jobs(whereabouts)
                } else {
                    Asks::Job(name, whereabouts)
                };
            }
            Self::Resume(Resume { job, .. })
            | Self::Result(Fetch { job, .. })
            | Self::Resubmit(Resubmit { job, .. })
            | Self::Logs(Logs { job, .. })
            | Self::Errors(Errors { job, .. })
            | Self::Report(Report { job, .. })
            | Self::Status(job)
            | Self::Show(job)
            | Self::Stream(job)
            | Self::Cancel(job) => job,
        };
        Asks::Job(&mut job.name, &mut job.whereabouts)
    }

    /// The job that it names, and where to look for it.
    pub(crate) fn job_mut(&mut self) -> Option<(&mut String, &WhereaboutsArguments)> {
        if let Asks::Job(name, whereabouts) = self.asks() { Some((name, whereabouts)) } else { None }
    }

    /// Refuses a command about jobs that `server` is said to have, the server of prs that a variable names, where nothing else
    /// says where they are: another job, of this machine, would be meant.
    pub(crate) fn refuse_server(&mut self, server: Option<&str>) -> Result<(), Failure> {
        let has_no_jobs_there =
            matches!(self, Self::Validate(_) | Self::Try(_) | Self::Serve(_) | Self::TakeUp(_));
        let servers = match self.asks() {
            Asks::Servers(servers) => servers,
            Asks::Jobs(whereabouts) | Asks::Job(_, whereabouts) => &mut whereabouts.servers,
            Asks::Nothing | Asks::Fleet(_) => return Ok(()),
        };
        let is_named = server.is_some_and(|server| !server.is_empty());
        if !is_named || has_no_jobs_there || servers.local || servers.urls_if_any()?.is_some() {
            return Ok(());
        }
        Err(Failure::wrong(
            "PRS_SERVER names a server, and this program does not know servers yet: use the Python package there \
             (prs.submit, prs.job), or the pages of the server; unset PRS_SERVER, or add --local, for jobs of this machine",
        ))
    }

    /// Finds out which servers it uses, and gives back what the user should know of that.
    pub(crate) fn settle_servers(&mut self) -> Result<Vec<String>, ConfigError> {
        match self.asks() {
            Asks::Nothing => Ok(Vec::new()),
            Asks::Fleet(servers) => servers.settle(),
            Asks::Servers(servers) => servers.settle(),
            Asks::Jobs(whereabouts) | Asks::Job(_, whereabouts) => whereabouts.servers.settle(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        WorkerAlone::command().debug_assert();
        let about = Arguments::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs a Python entry script"), "{about}");
    }

    #[test]
    fn jobs_of_a_server_are_not_looked_for_on_this_machine() {
        let refused = |line: &str, server| {
            let mut arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
            arguments.command.refuse_server(server).is_err()
        };
        let server = Some("https://prs.example.org");
        for line in
            ["prs submit job.yml", "prs status a-job", "prs list", "prs gc", "prs model list", "prs invoke e"]
        {
            assert!(refused(line, server), "{line}");
            assert!(!refused(line, None) && !refused(line, Some("")), "{line}");
            assert!(!refused(&format!("{line} --local"), server), "{line}");
            let fleet = "--broker amqp://b --redis redis://r --storage s3://s";
            assert!(!refused(&format!("{line} {fleet}"), server), "{line}");
        }
        for line in [
            "prs worker",
            "prs workers",
            "prs serve",
            "prs doctor",
            "prs try job.yml",
            "prs try a-job",
            "prs validate job.yml",
            "prs new folder",
            "prs explain",
        ] {
            assert!(!refused(line, server), "{line}");
        }
    }

    #[test]
    fn every_command_has_examples_that_are_understood() {
        let program = Arguments::command();
        let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
        for command in commands.chain([&program]) {
            let name = command.get_name();
            let help =
                command.get_after_help().unwrap_or_else(|| panic!("{name} has no example")).to_string();
            let mut lines = help.lines();
            assert_eq!(lines.next(), Some("Examples:"), "{name}");
            for line in lines {
                let example = line.split(['#', '>']).next().unwrap();
                let parsed = Arguments::try_parse_from(example.split_whitespace());
                let is_help = |error: &Error| !error.use_stderr();
                assert!(parsed.as_ref().err().is_none_or(is_help), "{example}: {}", parsed.unwrap_err());
                assert!(line.len() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn no_help_shows_what_variables_hold() {
        let program = Arguments::command();
        for command in program.get_subcommands() {
            for argument in command.get_arguments().filter(|argument| argument.get_env().is_some()) {
                assert!(argument.is_hide_env_values_set(), "{} of {}", argument.get_id(), command.get_name());
            }
        }
    }

    #[test]
    fn colours_are_heeded_in_arguments_that_are_not_understood() {
        for (arguments, expected) in [
            (&["prs", "--colour"][..], ColorChoice::Auto),
            (&["prs", "--color", "never", "x"], ColorChoice::Never),
            (&["prs", "x", "--color=always"], ColorChoice::Always),
            (&["prs", "--color"], ColorChoice::Auto),
            (&["prs", "--color=blue"], ColorChoice::Auto),
        ] {
            assert_eq!(color_in(arguments.iter().map(OsString::from)), expected, "{arguments:?}");
        }
    }
}
