//! `report`: a page about a job, made from what is there of it now. The orchestrator writes the same at the end of a job.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use prs_common::layout;
use prs_jobs::paths::shown;
use prs_jobs::records::ReportMade;
use prs_jobs::report::{Page, page};
use prs_orchestrator::report::page::NAME;

use super::browser;
use crate::cli::{Format, Report};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Writes the page, prints where it is, and opens it where that is asked for.
pub(super) async fn report(arguments: &Report, format: Format) -> Result<ExitCode, Failure> {
    let home = arguments.job.find().await?;
    let is_among_logs = arguments.file.is_none() && home.run_folder().is_some();
    let whereabouts = arguments.job.whereabouts.settled()?;
    let Page { job_id, html, has_statistics } = page(&*home, &whereabouts, is_among_logs).await?;
    let file = match (&arguments.file, home.run_folder()) {
        (Some(file), _) => file.clone(),
        (None, Some(folder)) => folder.join(layout::LOGS).join(NAME),
        (None, None) => PathBuf::from(format!("{job_id}-{NAME}")),
    };
    write(&file, &html)?;
    let made = ReportMade { job_id, file: shown(&file), bytes: html.len() as u64, has_statistics };
    output::print(format, &made, |made| format!("{}\n", made.file))?;
    if arguments.open {
        browser::open(file.as_os_str())?;
    }
    Ok(Code::Completed.into())
}

/// Writes the page under its name at once: who reads it meanwhile has the former one, and a link there is replaced, not
/// followed.
fn write(file: &Path, html: &str) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || -> std::io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(html.as_bytes())?;
        // As any file that a command writes, and not for its owner alone.
        temporary.as_file().set_permissions(Permissions::from_mode(0o644))?;
        temporary.persist(file)?;
        Ok(())
    };
    written()
        .with_context(|| format!("cannot write {}; --file FILE writes the page elsewhere", file.display()))
        .map_err(Failure::usage)
}
