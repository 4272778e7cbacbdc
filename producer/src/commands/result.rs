//! `result`: what a job brought, here or copied to a folder.

use std::process::ExitCode;

use prs_jobs::records::Job;
use prs_orchestrator::job::words;

use crate::cli::{Fetch, Format};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// Shows or fetches the result.
pub(super) async fn result(fetch: &Fetch, format: Format) -> Result<ExitCode, Failure> {
    let home = fetch.job.find().await?;
    let result = prs_jobs::result::result(&*home, fetch.output_path.as_deref()).await?;
    if format == Format::Json {
        output::json(&Job::ended(&result))?;
    } else {
        let (output, mut rows) = (&result.output, vec![("output", result.output.uri.clone())]);
        // What commands of a pipeline write has no rows that prs knows.
        if result.steps.is_empty() || output.bytes > 0 {
            rows.extend([("rows", output.rows.to_string()), ("bytes", output.bytes.to_string())]);
        }
        rows.extend(words::missing(&result).map(|missing| ("note", missing)));
        output::pairs(&rows)?;
    }
    Ok(Code::Completed.into())
}
