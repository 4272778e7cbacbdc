//! Which mini-batch is tried, and its descriptor: the one that a former job ran where its segments have it, else the one
//! of a plan that is made as far as that.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use prs_common::mini_batch::{MiniBatch, Work, checksum};
use prs_orchestrator::failed::{FailedMiniBatch, failed_mini_batches};
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::plan::{PlanContext, plan};
use tokio::runtime::Handle;

use super::Trial;
use crate::cli::Try;
use crate::failure::Failure;

/// Which mini-batch is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The one at this place of the plan.
    Index(u64),
    /// The first one that has this file or object.
    Item(String),
    /// The first of all.
    First,
}

/// The mini-batch that is tried.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Its descriptor, as it was planned.
    pub(crate) planned: Bytes,
    /// Where its data is.
    pub(crate) stores: InputStores,
    /// How it failed in the job, where it did.
    pub(crate) failed: Option<FailedMiniBatch>,
    /// What is to be known of it.
    pub(crate) note: Option<String>,
}

impl Wanted {
    /// What the command line says.
    pub(crate) fn of(arguments: &Try) -> Self {
        match (arguments.mini_batch, &arguments.item) {
            (Some(index), _) => Self::Index(index),
            (None, Some(item)) => Self::Item(item.clone()),
            (None, None) => Self::First,
        }
    }

    fn is(&self, mini_batch: &MiniBatch<'_>) -> bool {
        match self {
            Self::Index(index) => mini_batch.index == *index,
            Self::Item(item) => has_item(mini_batch, item),
            Self::First => true,
        }
    }
}

impl Trial {
    /// The mini-batch that is wanted, of those that failed alone where the command says so.
    pub(crate) async fn choose(&self, wanted: &Wanted, of_failed: bool) -> Result<Chosen, Failure> {
        if !of_failed {
            let planned = self.plan_until(wanted.clone()).await?;
            return Ok(Chosen { planned, stores: self.stores.clone(), failed: None, note: None });
        }
        let former = self.former.as_ref().expect("a job file has no failed mini-batches");
        let listed = failed_mini_batches(&former.storage).await.context("cannot read what failed");
        let failed = self.choose_failed(listed?, wanted)?;
        let run = failed.body.as_ref().map(|body| Bytes::copy_from_slice(body));
        match run {
            Some(planned) if !is_of_copy(&planned) => {
                let stores = former.stores.clone();
                Ok(Chosen { planned, stores, failed: Some(failed), note: None })
            }
            run => {
                let planned = self.plan_until(Wanted::Index(failed.index)).await?;
                let is_other = run.is_some_and(|run| checksum(&run) != checksum(&planned));
                let note = is_other.then(|| {
                    "the inputs have changed since the job ran: this mini-batch has other content than the one that failed"
                        .to_owned()
                });
                Ok(Chosen { planned, stores: self.stores.clone(), failed: Some(failed), note })
            }
        }
    }

    fn choose_failed(
        &self,
        failed: Vec<FailedMiniBatch>,
        wanted: &Wanted,
    ) -> Result<FailedMiniBatch, Failure> {
        let numbers: Vec<String> = failed.iter().take(20).map(|one| one.index.to_string()).collect();
        let is_wanted = |one: &FailedMiniBatch| match (wanted, &one.body) {
            (Wanted::Index(index), _) => one.index == *index,
            (_, Some(body)) => MiniBatch::decode(body).is_ok_and(|mini_batch| wanted.is(&mini_batch)),
            (_, None) => *wanted == Wanted::First,
        };
        let more = failed.len() - numbers.len();
        if let Some(one) = failed.into_iter().find(is_wanted) {
            return Ok(one);
        }
        let id = &self.job_id;
        if numbers.is_empty() {
            return Err(Failure::wrong(format!(
                "job {id} has no failed mini-batch; without --failed, --mini-batch N names any other"
            )));
        }
        let what = match wanted {
            Wanted::Index(index) => format!("mini-batch {index} of job {id} has not failed"),
            _ => format!("no failed mini-batch of job {id} has the item"),
        };
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(Failure::wrong(format!("{what}; failed are {}{more}", numbers.join(", "))))
    }

    /// Plans the job as far as the mini-batch that is wanted.
    async fn plan_until(&self, wanted: Wanted) -> Result<Bytes, Failure> {
        let (spec, stores, work) = (self.spec.clone(), self.stores.clone(), self.work());
        std::fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
        let handle = Handle::current();
        let planning = tokio::task::spawn_blocking(move || {
            let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
            let (mut found, mut planned) = (None, 0);
            let outcome = plan(&spec, &context, &|| false, &mut |batch| {
                planned += batch.bodies.len();
                let is_wanted =
                    |body: &Bytes| MiniBatch::decode(body).is_ok_and(|mini_batch| wanted.is(&mini_batch));
                found = batch.bodies.into_iter().find(is_wanted);
                if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            outcome.map_err(Failure::usage)?;
            found.ok_or_else(|| absent(&wanted, planned))
        });
        planning.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

fn absent(wanted: &Wanted, planned: usize) -> Failure {
    if let Wanted::Item(item) = wanted {
        return Failure::wrong(format!(
            "no mini-batch has the item {item}: give the path of a file of the inputs, as the inputs name it"
        ));
    }
    let last = planned.saturating_sub(1);
    Failure::wrong(format!("the job has {planned} mini-batches: give a number from 0 to {last}"))
}

/// Whether it is of a copy that the job made in its own scratch folder, which is gone.
fn is_of_copy(planned: &[u8]) -> bool {
    let mini_batch = MiniBatch::decode(planned);
    mini_batch
        .is_ok_and(|one| matches!(one.work, Work::Delimited { path, .. } if !Path::new(path).is_absolute()))
}

/// Whether `item`, a path or URL as the user gives it, is one of the files of a mini-batch.
fn has_item(mini_batch: &MiniBatch<'_>, item: &str) -> bool {
    let absolute = std::path::absolute(item).ok();
    let end = format!("/{}", item.trim_start_matches("./"));
    let is_it =
        |name: &str| name == item || absolute.as_deref() == Some(Path::new(name)) || name.ends_with(&end);
    match &mini_batch.work {
        Work::Delimited { origin, .. }
        | Work::DelimitedObject { origin, .. }
        | Work::Unreadable { origin, .. } => is_it(origin),
        _ => mini_batch.file_names().iter().any(|name| is_it(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_by_any_of_its_names() {
        let here = std::env::current_dir().unwrap().display().to_string();
        let files = |base: &'static str, paths: Vec<&'static str>| MiniBatch {
            index: 3,
            input: 0,
            work: Work::Files { base, paths, versions: &[], names: Vec::new() },
        };
        let of_data = files("/data", vec!["a/0001.png", "b.png"]);
        for (item, is) in [
            ("/data/a/0001.png", true),
            ("a/0001.png", true),
            ("./a/0001.png", true),
            ("0001.png", true),
            ("b.png", true),
            ("1.png", false),
            ("/a/0001.png", false),
            ("c.png", false),
        ] {
            assert_eq!(has_item(&of_data, item), is, "{item}");
        }
        let path = format!("{here}/x.csv");
        let table = Work::Unreadable { origin: &path, offset: 0, reason: "" };
        let table = MiniBatch { index: 0, input: 0, work: table };
        assert!(has_item(&table, "x.csv") && has_item(&table, &path) && !has_item(&table, "y.csv"));
    }
}
