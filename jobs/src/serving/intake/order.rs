//! What a program of its own is to do for a server, in a file, and what it says of that: one line, once the job has begun or is
//! refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::job::{Called, Given, Invocation, JobFileError, JobText, Problem};
use prs_common::layout;
use prs_common::storage::Reach;
use prs_common::tree;
use serde::{Deserialize, Serialize};

use super::staging::{SENT, code_in};
use crate::failure::{AtWork, Failure, FailureKind, OutputAway, OutputExists};
use crate::homes::{Whereabouts, run_folder};
use crate::submit::code_choice::{Changes, CodeChoice};
use crate::submit::{self, Sent, Start};

/// Name of the file, among what came along.
const FILE: &str = "order.json";

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The folder of the run.
    pub(super) folder: PathBuf,
    /// The job.
    pub(super) job_id: String,
    /// The places elsewhere that the job may use; all without it.
    #[serde(default)]
    pub(super) reach: Option<Reach>,
    pub(super) what: What,
}

/// What becomes of the job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum What {
    /// It is new.
    Submit {
        text: String,
        /// Where the job file stands in what came along; empty for the top.
        #[serde(default)]
        below: String,
        set: Vec<(String, String)>,
        called: Called,
        /// What one run of a batch deployment is given.
        #[serde(default)]
        invocation: Option<Box<Invocation>>,
        /// What takes the place of which input.
        inputs: BTreeMap<String, PathBuf>,
        /// Further folders that its paths may lead into.
        allowed: Vec<PathBuf>,
    },
    /// It is a former one again.
    Resubmit {
        former: String,
        set: Vec<(String, String)>,
        called: Called,
        /// Whether code came along, in place of its own.
        #[serde(default)]
        has_code: bool,
        /// What takes the place of which input.
        #[serde(default)]
        inputs: BTreeMap<String, PathBuf>,
    },
    /// It goes on, with this code in place of its own.
    Resume {
        set: Vec<(String, String)>,
        code: Option<PathBuf>,
        /// The error group whose mini-batches alone run again.
        #[serde(default)]
        only_group: Option<String>,
    },
}

/// What the program says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The job has begun.
    Begun,
    /// It is refused.
    Refused(Refusal),
}

/// The kind of a refusal of a job whose output would overwrite something.
const OUTPUT_EXISTS: &str = "output_exists";
/// The kind of a refusal of a job whose output cannot be delivered, for the place is away.
const OUTPUT_AWAY: &str = "output_away";
/// The kind of a refusal to go on with a job that another program works on.
const AT_WORK: &str = "at_work";

/// Why a job is refused.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refusal {
    kind: String,
    message: String,
    /// Key, line and message of each problem of the job file.
    problems: Vec<(String, Option<usize>, String)>,
    leads_outside: bool,
}

impl From<&Failure> for Refusal {
    fn from(failure: &Failure) -> Self {
        let file = failure.job_file();
        let problem = |one: &Problem| (one.key.clone(), one.line, one.message.clone());
        let kind = match failure.kind {
            FailureKind::Usage if failure.cause::<OutputExists>().is_some() => OUTPUT_EXISTS,
            FailureKind::Usage if failure.cause::<AtWork>().is_some() => AT_WORK,
            FailureKind::Usage => "usage",
            FailureKind::NotFound => "not_found",
            FailureKind::CannotConnect if failure.cause::<OutputAway>().is_some() => OUTPUT_AWAY,
            FailureKind::CannotConnect => "cannot_connect",
            FailureKind::Failed => "failed",
            FailureKind::Interrupted => "interrupted",
        };
        Self {
            kind: kind.to_owned(),
            message: failure.to_string(),
            problems: file.iter().flat_map(|file| file.problems.iter().map(problem)).collect(),
            leads_outside: file.is_some_and(|file| file.leads_outside),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let Refusal { kind, message, problems, leads_outside } = refusal;
        if !problems.is_empty() {
            let problem = |(key, line, message)| Problem { key, line, message };
            let problems = problems.into_iter().map(problem).collect();
            return Self::usage(JobFileError { leads_outside, ..JobFileError::new("job file", problems) });
        }
        match &*kind {
            OUTPUT_EXISTS => Self::output_exists(message),
            OUTPUT_AWAY => Self::output_away(message),
            AT_WORK => Self::at_work(message),
            "usage" => Self::wrong(message),
            "not_found" => Self::not_found(message),
            "cannot_connect" => Self::server(anyhow::anyhow!(message)),
            "interrupted" => Self::interrupted(message),
            _ => Self::from(anyhow::anyhow!(message)),
        }
    }
}

impl Order {
    /// Where the order for the run in `folder` is.
    pub(super) fn file_in(folder: &Path) -> PathBuf {
        folder.join(SENT).join(FILE)
    }

    /// Stores it in `file`.
    pub(super) fn write(&self, file: &Path) -> Result<(), Failure> {
        let write = || {
            let body = serde_json::to_vec(self)?;
            tree::make_folders(file.parent().unwrap_or(file))?;
            tree::write_whole(file, body)?;
            anyhow::Ok(())
        };
        write().with_context(|| format!("cannot write {}", file.display()))?;
        Ok(())
    }
}

/// Does what the order in `file` says, with the runs of this machine; the caller's
/// [`begins`](crate::caller::Caller::begins) hears when the job has begun.
///
/// # Errors
/// The job is refused, or did not get to its end.
pub async fn take_up(file: &Path, whereabouts: &Whereabouts) -> Result<(), Failure> {
    let body = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let Order { folder, job_id, reach, what } = serde_json::from_slice(&body)
        .with_context(|| format!("{} is no order of this version of prs", file.display()))?;
    let whereabouts = &whereabouts.clone().within(reach.map(Arc::new));
    let is_there = folder.join(layout::JOB).is_file();
    let start =
        Start { whereabouts, run_dir: Some(&folder), id: Some(&job_id), is_picked: true, detach: false };
    match what {
        // Another program has done it.
        What::Submit { .. } | What::Resubmit { .. } if is_there => {
            whereabouts.caller.begins(&job_id);
            return Ok(());
        }
        What::Submit { text, below, set, called, invocation, inputs, allowed } => {
            let root = code_in(&folder);
            let code = root.join(below);
            let reach = whereabouts.reach.as_deref();
            let text = JobText {
                text: &text,
                folder: &code,
                root: &root,
                allowed: &allowed,
                sent: Some(&inputs),
                reach,
            };
            let names = &whereabouts.names;
            let given = Given {
                overrides: &set,
                invocation: invocation.as_deref(),
                names: Some(names),
                called: Some(&called),
                ..Given::default()
            };
            Box::pin(submit::submit_text(text, given, &start)).await?;
        }
        What::Resubmit { former, set, called, has_code, inputs } => {
            let code = code_in(&folder);
            let came = Sent { code: has_code.then_some(&code), inputs: &inputs };
            Box::pin(submit::resubmit(&former, &set, &called, came, &start)).await?;
        }
        What::Resume { set, code, only_group } => {
            let called = run_folder::called(&folder);
            let changes = Changes {
                name: &called,
                set: &set,
                code: Some(CodeChoice::Old),
                sent: code.as_deref(),
                only_group: only_group.as_deref(),
                ask: &|_, _| Ok(None),
                whereabouts,
            };
            Box::pin(submit::resume(&changes, false)).await?;
        }
    }
    Ok(())
}
