//! `job`: the verbs of `az ml job` (dialects F.1). They print jobs in Azure's shape, with Azure's words for how they stand.

use std::path::PathBuf;
use std::process::ExitCode;

use prs_common::job::Given;
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::list::{Wanted, list as list_jobs};
use prs_jobs::records::{AzureJob, AzureJobs, Downloaded};
use prs_jobs::submit::{self, Ended, Start};
use prs_jobs::update::{Words, update};
use prs_jobs::{Whereabouts, download};

use super::endpoints::{heed_azure, page, print_call, print_jobs, server};
use super::run::check_name;
use super::who::{signed, who};
use super::{browser, stream};
use crate::cli::{
    AzureJobCommand, AzureJobs as Arguments, CreateJob, DownloadJob, Format, Job, ListAzureJobs, NamedJob,
    UpdateJob,
};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Does what is said of jobs.
pub(super) async fn job(arguments: Arguments, format: Format) -> Result<ExitCode, Failure> {
    heed_azure(&arguments.azure)?;
    match arguments.command {
        AzureJobCommand::Create(arguments) => return create(&arguments, format).await,
        AzureJobCommand::Show(arguments) => {
            let (home, _) = find(&arguments).await?;
            show(&*home, arguments.web).await?;
        }
        AzureJobCommand::Stream(meant) => {
            let (home, _) = find(&meant).await?;
            let seen = home.look().await?;
            tell_page(&seen, meant.web)?;
            let (name, whereabouts) = (seen.result.job_id, meant.whereabouts);
            return Box::pin(stream::stream(&Job { name, whereabouts }, format)).await;
        }
        AzureJobCommand::List(arguments) => list(&arguments, format).await?,
        AzureJobCommand::Download(arguments) => fetch(&arguments, format).await?,
        AzureJobCommand::Cancel(arguments) => {
            let (home, _) = find(&arguments).await?;
            home.cancel(&who()).await?;
            show(&*home, arguments.web).await?;
        }
        AzureJobCommand::Update(UpdateJob { meant, set }) => {
            let words = Words::parse(&set)?;
            let (home, _) = find(&meant).await?;
            update(&*home, &words).await?;
            show(&*home, meant.web).await?;
        }
    }
    Ok(Code::Completed.into())
}

async fn find(arguments: &NamedJob) -> Result<(Home, Whereabouts), Failure> {
    let whereabouts = arguments.whereabouts.settled()?;
    let name = homes::naming::resolve(&arguments.name, &whereabouts).await?;
    Ok((homes::find(&name, &whereabouts).await?, whereabouts))
}

async fn show(home: &dyn homes::JobHome, web: bool) -> Result<(), Failure> {
    let seen = home.look().await?;
    tell_page(&seen, web)?;
    output::json(&AzureJob::seen(&seen, page(&seen).as_deref()))
}

/// Opens the page of the job, where it is asked for.
fn tell_page(seen: &Seen, web: bool) -> Result<(), Failure> {
    match (web, page(seen)) {
        (false, _) => Ok(()),
        (true, Some(page)) => {
            output::note(&page);
            browser::open(page.as_ref())
        }
        (true, None) => Err(Failure::wrong(NO_SERVER)),
    }
}

const NO_SERVER: &str =
    "--web: no server is known; set PRS_SERVER_URL to its address, or write the page with prs report --open";

async fn create(arguments: &CreateJob, format: Format) -> Result<ExitCode, Failure> {
    let CreateJob { file, name, set, stream, web, whereabouts } = arguments;
    let whereabouts = whereabouts.settled()?;
    check_name(name.as_deref())?;
    let names = whereabouts.names.anew();
    let called = signed();
    let given = Given { overrides: set, names: Some(&names), called: Some(&called), ..Given::default() };
    let detach = whereabouts.urls.is_some() && !stream;
    let start =
        Start { whereabouts: &whereabouts, run_dir: None, id: name.as_deref(), is_picked: false, detach };
    if *web && server().is_none() {
        return Err(Failure::wrong(NO_SERVER));
    }
    let ended = Box::pin(submit::submit(file, given, &start)).await?;
    let id = match &ended {
        Ended::Job { result, .. } => Some(&result.job_id),
        Ended::HandedIn { job_id, .. } => Some(job_id),
        Ended::Left => None,
    };
    if let Some(id) = id.filter(|_| *web) {
        tell_page(&homes::of_id(id, &whereabouts).await?.look().await?, true)?;
    }
    print_call(ended, &whereabouts, format).await
}

async fn list(arguments: &ListAzureJobs, format: Format) -> Result<(), Failure> {
    let ListAzureJobs { parent_job_name, max_results, whereabouts } = arguments;
    let wanted = Wanted { limit: *max_results, parent: parent_job_name.clone(), ..Wanted::default() };
    let found = Box::pin(list_jobs(&wanted, &whereabouts.settled()?)).await?.jobs;
    if format == Format::Json {
        let jobs = found.iter().map(|seen| AzureJob::seen(seen, page(seen).as_deref()).into()).collect();
        return output::json(&AzureJobs { jobs });
    }
    print_jobs(&found)
}

/// Copies outputs, and logs where all is asked for.
async fn fetch(arguments: &DownloadJob, format: Format) -> Result<(), Failure> {
    let DownloadJob { meant, output_name, download_path, .. } = arguments;
    let (home, _) = find(meant).await?;
    if meant.web {
        tell_page(&home.look().await?, true)?;
    }
    let folder = download_path.clone().unwrap_or_else(|| PathBuf::from("."));
    let name = output_name.as_deref();
    let made = download::outputs(&*home, name, &folder).await?;
    let folders: Vec<String> = made.iter().map(|path| path.display().to_string()).collect();
    output::print(format, &Downloaded { folders }, |made| made.folders.join("\n") + "\n")
}
