//! Side inputs of a job on a node (spec P4): each is here whole before the first process starts.
//!
//! One that is fetched lies in the [`SideInputStore`] of the host, and scripts see it below the same path as the files of
//! inputs. One that every node has is looked at. What cannot be had is an error that names it; a store that does not answer
//! is waited for.

mod fetch;
mod store;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use prs_common::end_reason::EndReason;
use prs_common::job::{InputSource, JobSpec, SideInput};
use prs_common::tree;
use prs_orchestrator::inputs::InputStores;
use prs_orchestrator::inputs::side::{self, FetchedSideInput, not_read};

use self::fetch::{Fetching, listing};
pub use self::store::SideInputStore;
use self::store::{Found, Kept};
use super::Localizer;
use crate::host::blocking::blocking;

/// Where scripts see each side input, by its name: a path, or a URL that they open themselves.
pub type SidePaths = BTreeMap<String, String>;

/// How far a side input is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideProgress {
    /// What people know it by.
    pub label: String,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes that it has.
    pub total: u64,
    /// Bytes of all side inputs of the job that are here.
    pub of_all: u64,
    /// What is done with it.
    pub work: SideWork,
}

/// What a node does with a side input; without bytes that come, nothing else tells that it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideWork {
    /// Its bytes come, or are here.
    Comes,
    /// Another worker of this host fetches it, or removes it.
    IsAwaited,
    /// All of it came, and is made ready.
    IsSettled,
}

/// The side inputs of a job on a node, kept there until this is dropped.
#[derive(Debug, Default)]
pub struct SideInputs {
    here: Vec<Here>,
    /// Whose folder goes with the last that has it; after what is kept in it.
    _store: Option<Arc<SideInputStore>>,
}

#[derive(Debug)]
struct Here {
    name: String,
    label: String,
    at: SideInputPlace,
}

#[derive(Debug)]
enum SideInputPlace {
    /// Where the job file says.
    Named(String),
    /// In the store of the host.
    Stored { kept: Kept, only_file: Option<String> },
}

impl SideInputs {
    /// Brings those of `spec` here, as often as it takes; `told` hears how far they are. `job_id` tells apart what no other
    /// job can share.
    ///
    /// # Errors
    /// One of them cannot be had on this host, and why.
    pub async fn bring(
        spec: &JobSpec,
        job_id: &str,
        stores: &InputStores,
        store: &Arc<SideInputStore>,
        told: &(dyn Fn(SideProgress) + Sync),
    ) -> Result<Self, EndReason> {
        let mut here = Vec::with_capacity(spec.side_inputs.len() + 1);
        let mut before = 0;
        for side_input in spec.with_model() {
            let (name, label) = (side_input.name.clone(), side_input.label());
            let at = if side_input.is_fetched() {
                let cannot = |error| not_read(side_input, error);
                let listing = listing(side_input, stores).await.map_err(cannot)?;
                let FetchedSideInput { bytes, only_file, content, .. } = &listing;
                let (total, only_file) = (*bytes, only_file.clone());
                let content = content.clone().unwrap_or_else(|| format!("{job_id}-{name}"));
                let tell_of = |done, work| {
                    told(SideProgress { label: label.clone(), done, total, of_all: before + done, work });
                };
                let tell = |done| tell_of(done, SideWork::Comes);
                tell(0);
                let is_awaited = || tell_of(0, SideWork::IsAwaited);
                let kept = match store.find(&content, total, &is_awaited).await {
                    Ok(Found::Here(kept)) => Ok(kept),
                    Ok(Found::Vacant(vacant)) => {
                        let fetching = Fetching { listing: &listing, stores, store, tell: &tell };
                        fetching.fill(vacant.part()).await.map_err(cannot)?;
                        tell_of(total, SideWork::IsSettled);
                        vacant.settle().await
                    }
                    Err(error) => Err(error),
                };
                let kept = kept.map_err(|error| cannot(error.to_string()))?;
                tell(total);
                before += total;
                SideInputPlace::Stored { kept, only_file }
            } else {
                let looked_at = side_input.clone();
                blocking(move || check(&looked_at)).await?;
                SideInputPlace::Named(side_input.given())
            };
            here.push(Here { name, label, at });
        }
        Ok(Self { here, _store: Some(Arc::clone(store)) })
    }

    /// Lets scripts see them, beside the files of `localizer`. Blocks.
    ///
    /// # Errors
    /// A link cannot be made.
    pub fn show(&self, localizer: &Localizer) -> io::Result<SidePaths> {
        let path_of = |one: &Here| -> io::Result<String> {
            match &one.at {
                SideInputPlace::Named(path) => Ok(path.clone()),
                SideInputPlace::Stored { kept, only_file } => {
                    // No input has such a name.
                    let seen = format!("{}.side", one.name);
                    tree::link(&kept.folder, localizer.tree().join(&seen))?;
                    let folder = localizer.place().inputs().join(seen);
                    let path = only_file.as_ref().map_or(folder.clone(), |file| folder.join(file));
                    Ok(path.to_string_lossy().into_owned())
                }
            }
        };
        self.here.iter().map(|one| Ok((one.name.clone(), path_of(one)?))).collect()
    }

    /// Those that are copies of what is elsewhere, as people know them.
    pub fn copies(&self) -> impl Iterator<Item = &str> {
        let copies = self.here.iter().filter(|one| matches!(one.at, SideInputPlace::Stored { .. }));
        copies.map(|one| &*one.label)
    }
}

/// Looks at one that stays where it is. Blocks.
fn check(side_input: &SideInput) -> Result<(), EndReason> {
    let InputSource::Paths(paths) = &side_input.source else { return Ok(()) };
    let cannot = |error| not_read(side_input, error);
    for path in paths {
        // A listing would take it for a glob.
        Path::new(path).metadata().map_err(|error| {
            // A message about the model has its path already.
            cannot(if side_input.is_model() { error.to_string() } else { format!("{path}: {error}") })
        })?;
    }
    side::check(side_input)
}

/// A store that a job has for itself, in `folder`.
pub(crate) fn store_of_job(folder: &Path, limit: u64) -> Arc<SideInputStore> {
    Arc::new(SideInputStore::of_job(folder.join("side"), limit))
}

#[cfg(test)]
mod tests;
