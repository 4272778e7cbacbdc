//! Which mini-batch is tried, and its descriptor: the one that a former job ran where its segments have it, else the one
//! of a plan that is made as far as that.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use prs_common::job::InputKind;
use prs_common::job::shuffle::ShuffleStage;
use prs_common::mini_batch::{MiniBatch, SliceRef, StoreRef, Work, checksum};
use prs_common::tree;
use prs_jobs::names;
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::plan::{PlanContext, plan};
use prs_orchestrator::segments::failures::{FailedMiniBatch, failed_mini_batches};
use tokio::runtime::Handle;

use super::Trial;
use super::item::{Found, ItemSearch, Part};
use crate::cli::Try;
use crate::failure::Failure;

/// Mini-batches that failed that a message names.
const NAMED: usize = 20;

/// Which mini-batch is wanted.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// The one at this place of the plan.
    Index(u64),
    /// The first one that has this file or object, or the one that has this row of a table.
    Item(ItemSearch),
    /// The first of all.
    First,
}

/// The mini-batch that is tried.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Its descriptor, as it was planned.
    pub(crate) planned: Bytes,
    /// Of a wanted row, its place in the mini-batch, from 0.
    pub(crate) row: Option<u64>,
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
            (None, Some(item)) => Self::Item(ItemSearch::new(item)),
            (None, None) => Self::First,
        }
    }

    /// Whether the next mini-batch of the plan is it.
    fn look_at(&mut self, mini_batch: &MiniBatch<'_>) -> ControlFlow<Found> {
        match self {
            Self::Item(search) => search.look_at(mini_batch),
            Self::Index(index) if mini_batch.index != *index => ControlFlow::Continue(()),
            Self::Index(_) | Self::First => ControlFlow::Break(Ok(None)),
        }
    }

    /// Why none of the mini-batches is it, of which there are so many.
    fn absent(self, planned: usize) -> Failure {
        if let Self::Item(search) = self {
            return search.absent();
        }
        let last = planned.saturating_sub(1);
        Failure::wrong(format!("the job has {planned} mini-batches: give a number from 0 to {last}"))
    }
}

/// A mini-batch of a plan that is made here.
struct Planned {
    body: Bytes,
    row: Option<u64>,
}

impl Trial {
    /// The mini-batch that is wanted, of those that failed alone where the command says so.
    pub(crate) async fn choose(&self, wanted: &Wanted, of_failed: bool) -> Result<Chosen, Failure> {
        if self.spec.shuffle == Some(ShuffleStage::Run) && matches!(wanted, Wanted::Item(_)) {
            return Err(Failure::wrong(
                "--item names a row of a file, and the rows of this job are put together by partition_keys: give \
                 --mini-batch N, the group with this number, from 0 in the order of their first rows",
            ));
        }
        if !of_failed {
            let Planned { body: planned, row } = self.plan_until(wanted.clone()).await?;
            return Ok(Chosen { planned, row, stores: self.stores.clone(), failed: None, note: None });
        }
        let former = self.former.as_ref().expect("a job file has no failed mini-batches");
        let listed = failed_mini_batches(&former.storage).await.context("cannot read what failed")?;
        if listed.is_empty() {
            return Err(Failure::wrong(format!(
                "job {} has no failed mini-batch; without --failed, --mini-batch N names any other",
                self.job_id
            )));
        }
        // Which mini-batch has a row, only the plan tells.
        let has_tables = self.spec.inputs.iter().any(|input| input.kind == InputKind::Tabular);
        let of_plan = match wanted {
            Wanted::Item(_) if has_tables => Some(self.plan_until(wanted.clone()).await?),
            _ => None,
        };
        let failed = match &of_plan {
            Some(planned) => self.failed_as(listed, &planned.body)?,
            None => self.choose_failed(listed, wanted.clone())?,
        };
        let row = of_plan.as_ref().and_then(|planned| planned.row);
        let run = failed.body.as_ref().map(|body| Bytes::copy_from_slice(body));
        match run {
            Some(planned) if !is_of_copy(&planned) => {
                let stores = former.stores.clone();
                Ok(Chosen { planned, row, stores, failed: Some(failed), note: None })
            }
            run => {
                let planned = match of_plan {
                    Some(planned) => planned.body,
                    None => self.plan_until(Wanted::Index(failed.index)).await?.body,
                };
                let is_other = run.is_some_and(|run| checksum(&run) != checksum(&planned));
                let note = is_other.then(|| {
                    "the inputs have changed since the job ran: this mini-batch has other content than the one that failed"
                        .to_owned()
                });
                Ok(Chosen { planned, row, stores: self.stores.clone(), failed: Some(failed), note })
            }
        }
    }

    /// The failed mini-batch that is wanted: the first one that has the item, where items are files.
    fn choose_failed(
        &self,
        failed: Vec<FailedMiniBatch>,
        mut wanted: Wanted,
    ) -> Result<FailedMiniBatch, Failure> {
        let named = named(&failed);
        let id = &self.job_id;
        let absent = match &wanted {
            Wanted::Index(index) => format!("mini-batch {index} of job {id} has not failed"),
            _ => format!("no failed mini-batch of job {id} has the item"),
        };
        let is_wanted = |one: &FailedMiniBatch| match (&mut wanted, &one.body) {
            (Wanted::Index(index), _) => one.index == *index,
            (Wanted::First, _) => true,
            (wanted, Some(body)) => MiniBatch::decode(body)
                .is_ok_and(|mini_batch| matches!(wanted.look_at(&mini_batch), ControlFlow::Break(Ok(_)))),
            (_, None) => false,
        };
        if let Some(one) = failed.into_iter().find(is_wanted) {
            return Ok(one);
        }
        let hint = if let Wanted::Item(search) = wanted { search.hint() } else { None };
        Err(Failure::wrong(hint.unwrap_or_else(|| format!("{absent}; failed are {named}"))))
    }

    /// The failed mini-batch that is the part of a table that was planned here. Its number may be another one, where
    /// tables before it have changed.
    fn failed_as(&self, failed: Vec<FailedMiniBatch>, planned: &[u8]) -> Result<FailedMiniBatch, Failure> {
        let planned = MiniBatch::decode(planned).context("the mini-batch cannot be understood")?;
        let (part, id) = (Part::of(&planned), &self.job_id);
        let (mut has_changed, named) = (false, named(&failed));
        let is_it = |one: &FailedMiniBatch| {
            let body = one.body.as_ref().and_then(|body| MiniBatch::decode(body).ok());
            match (&part, body.as_ref().and_then(Part::of)) {
                (Some(part), Some(run)) => {
                    has_changed |= part.is_of_another_version(&run);
                    *part == run
                }
                // The segments do not say what it was.
                _ => one.index == planned.index,
            }
        };
        if let Some(one) = failed.into_iter().find(is_it) {
            return Ok(one);
        }
        let table = part.map(|part| part.table.origin).unwrap_or_default();
        Err(Failure::wrong(if has_changed {
            format!(
                "{table} has changed since job {id} ran, and with it its rows: name a mini-batch with --mini-batch, of {named}"
            )
        } else {
            format!(
                "mini-batch {} of job {id}, which has the item, has not failed; failed are {named}",
                planned.index
            )
        }))
    }

    /// Plans the job as far as the mini-batch that is wanted.
    async fn plan_until(&self, mut wanted: Wanted) -> Result<Planned, Failure> {
        let (spec, stores, work) = (self.spec.clone(), self.stores.clone(), self.work());
        tree::make_folders(&work).with_context(|| format!("cannot make {}", work.display()))?;
        let handle = Handle::current();
        let planning = tokio::task::spawn_blocking(move || {
            let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
            let (mut found, mut planned) = (None, 0);
            let outcome = plan(&spec, &context, &|| false, &mut |batch| {
                planned += batch.bodies.len();
                for body in batch.bodies {
                    let Ok(mini_batch) = MiniBatch::decode(&body) else { continue };
                    if let ControlFlow::Break(row) = wanted.look_at(&mini_batch) {
                        found = Some(row.map(|row| Planned { body, row }));
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            outcome.map_err(Failure::usage)?;
            found.unwrap_or_else(|| Err(wanted.absent(planned)))
        });
        planning.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// The numbers of mini-batches that failed, of the first ones.
fn named(failed: &[FailedMiniBatch]) -> String {
    names::first(failed.iter().map(|one| one.index), NAMED)
}

/// Whether it is of a copy that the job made in its own scratch folder, which is gone.
fn is_of_copy(planned: &[u8]) -> bool {
    let is_copy =
        |slice: &SliceRef<'_>| slice.store == StoreRef::Local && !Path::new(slice.key).is_absolute();
    let mini_batch = MiniBatch::decode(planned);
    mini_batch.is_ok_and(|one| match one.work {
        Work::Slice(slice) => is_copy(&slice),
        Work::Slices(slices) => slices.iter().any(is_copy),
        _ => false,
    })
}
