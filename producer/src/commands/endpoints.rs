//! `endpoint`, `deployment` and `invoke`: batch endpoints (dialects C.1, C.2, C.6, C.7, F.1). What a command made or found is
//! printed, and nothing else (V1).

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use anyhow::Context;
use console::Term;
use prs_common::job::{CallFile, EndpointFile, call_words};
use prs_common::registry;
use prs_common::timestamp::format_us;
use prs_jobs::Whereabouts;
use prs_jobs::endpoints::{
    self, IfThere, Invoke as Calling, NewDeployment, change_deployment, create_deployment, delete_deployment,
};
use prs_jobs::homes::{self, Seen};
use prs_jobs::list::{Wanted, list as list_jobs};
use prs_jobs::records::{AzureJob, AzureJobs, Deployment, Deployments, Endpoint, Endpoints};
use prs_jobs::submit::{Ended, Start};

use super::summary;
use super::who::signed;
use crate::cli::{
    Call, CreateDeployment, CreateEndpoint, DeleteDeployment, DeleteEndpoint,
    Deployment as DeploymentArguments, DeploymentCommand, Endpoint as EndpointArguments, EndpointCommand,
    Format, Invoke, ListDeployments, ListEndpoints, NamedDeployment, NamedEndpoint, OfAzure,
    UpdateDeployment, UpdateEndpoint, WhereaboutsArguments,
};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::table::{Table, pairs};

/// The address of the server that callers use, where they use one.
const SERVER: &str = "PRS_SERVER_URL";

/// Does what is said of endpoints.
pub(super) async fn endpoint(arguments: EndpointArguments, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        EndpointCommand::Create(arguments) => create(&arguments, format).await?,
        EndpointCommand::Update(arguments) => update(arguments, format).await?,
        EndpointCommand::Show(arguments) => show(&arguments, format).await?,
        EndpointCommand::List(arguments) => list(&arguments, format).await?,
        EndpointCommand::Delete(arguments) => return delete(&arguments, format).await,
        EndpointCommand::ListJobs(NamedEndpoint { name, whereabouts }) => {
            jobs_of(&name, None, &whereabouts, format).await?;
        }
        EndpointCommand::Invoke(arguments) => {
            return call(&arguments.endpoint, &arguments.call, format).await;
        }
    }
    Ok(Code::Completed.into())
}

/// Does what is said of deployments.
pub(super) async fn deployment(arguments: DeploymentArguments, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        DeploymentCommand::Create(arguments) => deploy(&arguments, format).await?,
        DeploymentCommand::Update(arguments) => redeploy(&arguments, format).await?,
        DeploymentCommand::Show(NamedDeployment { name, endpoint_name, whereabouts }) => {
            let endpoint = endpoints::endpoint(&endpoint_name, &whereabouts.settled()?).await?;
            print_deployment(&endpoint, &name, format)?;
        }
        DeploymentCommand::List(arguments) => list_deployments(&arguments, format).await?,
        DeploymentCommand::Delete(arguments) => return delete_one(&arguments, format).await,
        DeploymentCommand::ListJobs(NamedDeployment { name, endpoint_name, whereabouts }) => {
            jobs_of(&endpoint_name, Some(&name), &whereabouts, format).await?;
        }
    }
    Ok(Code::Completed.into())
}

/// Calls an endpoint.
pub(super) async fn invoke(arguments: &Invoke, format: Format) -> Result<ExitCode, Failure> {
    call(&arguments.endpoint, &arguments.call, format).await
}

/// Says which options change nothing, and refuses the one that would mean something else.
pub(super) fn heed_azure(azure: &OfAzure) -> Result<(), Failure> {
    if let Some(name) = &azure.registry_name {
        return Err(Failure::wrong(format!(
            "--registry-name {name}: there is one registry, that of the servers, or of the runs of this machine; leave the option out, and register what is to be there"
        )));
    }
    for option in azure.given() {
        output::note(format_args!("note: {option} has no meaning here; ignored"));
    }
    Ok(())
}

/// The address of the server that callers use.
pub(super) fn server() -> Option<String> {
    std::env::var(SERVER).ok().filter(|url| !url.is_empty())
}

async fn create(arguments: &CreateEndpoint, format: Format) -> Result<(), Failure> {
    let CreateEndpoint { file, name, overwrite, set, whereabouts } = arguments;
    let read = EndpointFile::read(file.as_deref(), set, false).map_err(Failure::usage)?;
    let name = name.as_ref().or(read.name.as_ref()).ok_or_else(no_name)?;
    let if_there = if_there(*overwrite);
    let made = endpoints::create(name, &read, if_there, &whereabouts.settled()?).await?;
    print_endpoint(made, format)
}

async fn update(arguments: UpdateEndpoint, format: Format) -> Result<(), Failure> {
    let UpdateEndpoint { file, name, default_deployment, mut set, whereabouts } = arguments;
    set.extend(default_deployment.map(|name| ("defaults.deployment_name".to_owned(), name)));
    if file.is_none() && set.is_empty() {
        return Err(Failure::wrong("there is nothing to change: give --default, --set or --file"));
    }
    let read = EndpointFile::read(file.as_deref(), &set, true).map_err(Failure::usage)?;
    let name = name.as_ref().or(read.name.as_ref()).ok_or_else(no_name)?;
    print_endpoint(endpoints::update(name, &read, &whereabouts.settled()?).await?, format)
}

fn no_name() -> Failure {
    Failure::wrong("the name of the endpoint is missing: give --name, or name: in a file (--file)")
}

fn if_there(overwrite: bool) -> IfThere {
    if overwrite { IfThere::Overwrite } else { IfThere::Refuse }
}

async fn show(arguments: &NamedEndpoint, format: Format) -> Result<(), Failure> {
    let NamedEndpoint { name, whereabouts } = arguments;
    print_endpoint(endpoints::endpoint(name, &whereabouts.settled()?).await?, format)
}

fn print_endpoint(endpoint: registry::Endpoint, format: Format) -> Result<(), Failure> {
    let record = Endpoint::new(endpoint, server().as_deref());
    output::print(format, &record, |one| {
        let none = || "none".to_owned();
        pairs(&[
            ("name", one.name.clone()),
            ("description", one.description.clone().unwrap_or_default()),
            ("default deployment", one.defaults.deployment_name.clone().unwrap_or_else(none)),
            ("deployments", one.deployments.join(", ")),
            ("called at", one.scoring_uri.clone().unwrap_or_else(|| format!("prs invoke {}", one.name))),
            ("created", one.created_at.clone()),
        ])
    })
}

async fn list(arguments: &ListEndpoints, format: Format) -> Result<(), Failure> {
    let all = endpoints::all(&arguments.whereabouts.settled()?).await?;
    let server = server();
    if format == Format::Json {
        let endpoints = all.into_iter().map(|one| Endpoint::new(one, server.as_deref()).into()).collect();
        return output::json(&Endpoints { endpoints });
    }
    if all.is_empty() {
        output::note("there is no endpoint; prs endpoint create makes one");
        return Ok(());
    }
    let row = |one: registry::Endpoint| {
        let deployments = one.names().join(", ");
        vec![one.name, one.default_deployment.unwrap_or_default(), deployments, minute(one.created_us)]
    };
    let heads = ["NAME", "DEFAULT", "DEPLOYMENTS", "CREATED (UTC)"];
    let table = Table::new(&heads, all.into_iter().map(row).collect());
    output::text(&table.fit(&Term::stdout(), &["CREATED (UTC)", "DEPLOYMENTS"]).text())
}

async fn delete(arguments: &DeleteEndpoint, format: Format) -> Result<ExitCode, Failure> {
    let DeleteEndpoint { name, yes, whereabouts } = arguments;
    let whereabouts = whereabouts.settled()?;
    let there = endpoints::endpoint(name, &whereabouts).await?;
    let what = match &there.names()[..] {
        [] => format!("endpoint {}", there.name),
        names => format!("endpoint {} with its deployments {}", there.name, names.join(", ")),
    };
    if !yes && !is_agreed(&what)? {
        output::note("nothing is deleted");
        return Ok(Code::Interrupted.into());
    }
    let deleted = endpoints::delete(name, &whereabouts).await?;
    if format == Format::Json {
        print_endpoint(deleted, format)?;
    }
    output::note(format_args!("{what} is deleted; its jobs stay"));
    Ok(Code::Completed.into())
}

/// Asks the person at the terminal.
fn is_agreed(what: &str) -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::wrong(format!("no terminal to ask at: give --yes to delete {what}")));
    }
    output::ask(format_args!("Delete {what}? [y/N] "));
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

async fn deploy(arguments: &CreateDeployment, format: Format) -> Result<(), Failure> {
    let new = NewDeployment {
        file: &arguments.file,
        text: None,
        expected: None,
        set: &arguments.set,
        name: arguments.name.as_deref(),
        endpoint: arguments.endpoint_name.as_deref(),
        if_there: if_there(arguments.overwrite),
        set_default: arguments.set_default,
        skip_script_validation: arguments.skip_script_validation,
    };
    let (endpoint, name) = Box::pin(create_deployment(&new, &arguments.whereabouts.settled()?)).await?;
    print_deployment(&endpoint, &name, format)
}

async fn redeploy(arguments: &UpdateDeployment, format: Format) -> Result<(), Failure> {
    let UpdateDeployment { meant: NamedDeployment { name, endpoint_name, whereabouts }, file, set } =
        arguments;
    let whereabouts = whereabouts.settled()?;
    let changed = match file {
        Some(file) => {
            let there = endpoints::endpoint(endpoint_name, &whereabouts).await?;
            let name = there.deployment(name).map_err(Failure::not_found)?.name.clone();
            let new = NewDeployment {
                file,
                text: None,
                expected: None,
                set,
                name: Some(&name),
                endpoint: Some(&there.name),
                if_there: IfThere::Overwrite,
                set_default: false,
                skip_script_validation: false,
            };
            Box::pin(create_deployment(&new, &whereabouts)).await?
        }
        None if set.is_empty() => {
            return Err(Failure::wrong("there is nothing to change: give --set or --file"));
        }
        None => Box::pin(change_deployment(endpoint_name, name, set, &whereabouts)).await?,
    };
    print_deployment(&changed.0, &changed.1, format)
}

fn print_deployment(endpoint: &registry::Endpoint, name: &str, format: Format) -> Result<(), Failure> {
    let found = endpoint.deployment(name).map_err(Failure::not_found)?;
    output::print(format, &Deployment::new(endpoint, found), |one| {
        pairs(&[
            ("name", one.name.clone()),
            ("endpoint", one.endpoint_name.clone()),
            ("runs", format!("a {}", one.kind)),
            ("default", if one.is_default { "yes" } else { "no" }.to_owned()),
            ("revision", format!("{} of {}", one.revision, one.revised_at)),
            ("definition", serde_json::Value::Object(one.definition.clone()).to_string()),
        ])
    })
}

async fn list_deployments(arguments: &ListDeployments, format: Format) -> Result<(), Failure> {
    let ListDeployments { endpoint_name, whereabouts } = arguments;
    let endpoint = endpoints::endpoint(endpoint_name, &whereabouts.settled()?).await?;
    let all = endpoint.deployments.iter().map(|one| Deployment::new(&endpoint, one));
    if format == Format::Json {
        return output::json(&Deployments { deployments: all.map(Into::into).collect() });
    }
    if endpoint.deployments.is_empty() {
        output::note(format_args!(
            "endpoint {} has no deployment; prs deployment create makes one",
            endpoint.name
        ));
        return Ok(());
    }
    let row = |one: Deployment| {
        let default = if one.is_default { "*" } else { "" }.to_owned();
        vec![one.name, default, one.kind.to_owned(), one.revision.to_string(), one.revised_at]
    };
    let heads = ["NAME", "DEFAULT", "RUNS", "REVISION", "SINCE"];
    let table = Table::new(&heads, all.map(row).collect());
    output::text(&table.fit(&Term::stdout(), &["SINCE"]).text())
}

async fn delete_one(arguments: &DeleteDeployment, format: Format) -> Result<ExitCode, Failure> {
    let DeleteDeployment { meant: NamedDeployment { name, endpoint_name, whereabouts }, yes } = arguments;
    let whereabouts = whereabouts.settled()?;
    let what = format!("deployment {name} of endpoint {endpoint_name}");
    if !yes && !is_agreed(&what)? {
        output::note("nothing is deleted");
        return Ok(Code::Interrupted.into());
    }
    let there = endpoints::endpoint(endpoint_name, &whereabouts).await?;
    delete_deployment(endpoint_name, name, *yes, &whereabouts).await?;
    if format == Format::Json {
        print_deployment(&there, name, format)?;
    }
    output::note(format_args!("{what} is deleted; its jobs stay"));
    Ok(Code::Completed.into())
}

/// Prints the jobs of an endpoint, or of one of its deployments, the newest first.
async fn jobs_of(
    endpoint: &str,
    deployment: Option<&str>,
    whereabouts: &WhereaboutsArguments,
    format: Format,
) -> Result<(), Failure> {
    let whereabouts = whereabouts.settled()?;
    // One that is not there has no jobs either, and is more likely a slip of the pen.
    let there = endpoints::endpoint(endpoint, &whereabouts).await?;
    if let Some(name) = deployment {
        there.deployment(name).map_err(Failure::not_found)?;
    }
    let wanted = Wanted {
        endpoint: Some(endpoint.to_owned()),
        deployment: deployment.map(str::to_owned),
        ..Wanted::default()
    };
    let found = Box::pin(list_jobs(&wanted, &whereabouts)).await?.jobs;
    if format == Format::Json {
        let jobs = found.iter().map(|seen| AzureJob::seen(seen, page(seen).as_deref()).into()).collect();
        return output::json(&AzureJobs { jobs });
    }
    print_jobs(&found)
}

/// Prints jobs for people.
pub(super) fn print_jobs(found: &[Seen]) -> Result<(), Failure> {
    if found.is_empty() {
        output::note("there is no such job");
        return Ok(());
    }
    let row = |seen: &Seen| {
        let deployment = seen.record.spec.deployed.as_ref().map(|it| it.deployment.clone());
        let result = &seen.result;
        let (id, state) = (result.job_id.clone(), result.state.as_str().to_owned());
        vec![id, state, deployment.unwrap_or_default(), minute(result.submitted_us)]
    };
    let heads = ["JOB", "STATE", "DEPLOYMENT", "SUBMITTED (UTC)"];
    let table = Table::new(&heads, found.iter().map(row).collect());
    output::text(&table.fit(&Term::stdout(), &["SUBMITTED (UTC)", "DEPLOYMENT"]).text())
}

/// The page of a job at the server that callers use.
pub(super) fn page(seen: &Seen) -> Option<String> {
    server().map(|url| format!("{}/jobs/{}", url.trim_end_matches('/'), seen.result.job_id))
}

/// Calls an endpoint, and prints the job.
async fn call(endpoint: &str, call: &Call, format: Format) -> Result<ExitCode, Failure> {
    let whereabouts = call.whereabouts.settled()?;
    let mut invocation = call.invocation();
    let mut set = Vec::new();
    if let Some(file) = &call.file {
        let read = CallFile::read(file).map_err(Failure::usage)?;
        set.extend(read.set);
        invocation.job_name = invocation.job_name.or(read.name);
        invocation.experiment_name = invocation.experiment_name.or(read.experiment_name);
    }
    let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
    for (key, words) in [("inputs", &call.inputs), ("outputs", &call.outputs)] {
        set.extend(call_words(key, words, &here).map_err(Failure::wrong)?);
    }
    set.extend(call.set.iter().cloned());
    let start = Start {
        whereabouts: &whereabouts,
        run_dir: None,
        id: invocation.job_name.as_deref(),
        is_picked: false,
        detach: whereabouts.urls.is_some() && !call.wait,
    };
    let calling = Calling {
        endpoint,
        deployment: call.deployment_name.as_deref(),
        set: &set,
        invocation: &invocation,
        called: &signed(),
    };
    let ended = Box::pin(endpoints::invoke(&calling, &start)).await?;
    print_call(ended, &whereabouts, format).await
}

/// Prints what became of a call: for programs the job, in Azure's shape.
pub(super) async fn print_call(
    ended: Ended,
    whereabouts: &Whereabouts,
    format: Format,
) -> Result<ExitCode, Failure> {
    if format == Format::Table {
        return super::run::print(ended, format);
    }
    let (id, code, not_filled) = match ended {
        Ended::Job { result, not_filled, .. } => {
            (result.job_id.clone(), summary::code(format, &result), not_filled)
        }
        Ended::HandedIn { job_id, .. } => (job_id, Code::Completed, None),
        Ended::Left => return Ok(Code::Interrupted.into()),
    };
    let seen = homes::of_id(&id, whereabouts).await?.look().await?;
    output::json(&AzureJob::seen(&seen, page(&seen).as_deref()))?;
    not_filled.map_or(Ok(code.into()), Err)
}

/// `2026-11-21 10:20`.
fn minute(us: u64) -> String {
    format_us(us)[..16].replace('T', " ")
}
