//! The graph of a pipeline job, as the job keeps it: documents, and which steps have the code that these name.
//!
//! A deployment may run the graph of a former job (`job_definition`). What a job file says is gone then, or is another, and the
//! settings of the steps have the values of the inputs in them; so the documents are kept, as a component that is registered
//! is. The code is kept once, by the jobs of the steps.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::assets::written;
use super::names::Names;
use super::{COMPONENT_FILE, Given, Loaded, form, yaml};
use crate::tree;

/// The graph of a pipeline job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// Documents by their names: the component that the pipeline is, [`COMPONENT_FILE`], and those that it names.
    pub documents: BTreeMap<String, String>,
    /// The folders of code that these name, and a step with that code; of a job that has no steps, its own name.
    pub code: BTreeMap<String, String>,
}

impl Graph {
    /// That of the job file at `path`, of which `loaded` came. Nothing where it is no pipeline; where names have then something
    /// [asked](Names::take_asked), it has to be looked up first.
    pub fn of(path: &Path, given: Given<'_>, loaded: &Loaded) -> Option<Self> {
        let document = yaml::parse(&given.text_of(path).ok()?).ok()?;
        let absolute = given.place_of(path).ok()?;
        let names: Names = given.names.cloned().unwrap_or_default();
        let made = form::graph(document, &absolute, given.overrides, &names)?;
        let code = made.folders.iter().map(|(name, folder)| Some((name.clone(), step_with(loaded, folder)?)));
        let documents = made.documents.iter().map(|(name, node)| (name.clone(), written(node))).collect();
        Some(Self { documents, code: code.collect::<Option<_>>()? })
    }

    /// Writes the documents into `folder`, and gives the file of the component.
    ///
    /// # Errors
    /// That of the file system, or a name that no document has.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        for (name, text) in &self.documents {
            tree::write(folder.join(plain(name)?), text)?;
        }
        Ok(folder.join(COMPONENT_FILE))
    }

    /// The folder of code `name` below `folder`.
    ///
    /// # Errors
    /// No folder of code is called so.
    pub fn code_folder(folder: &Path, name: &str) -> io::Result<PathBuf> {
        Ok(folder.join(plain(name)?))
    }
}

/// Refuses what is not a name alone.
fn plain(name: &str) -> io::Result<&str> {
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    is_plain
        .then_some(name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{name:?} is no name")))
}

/// A step of `loaded` whose code is in `folder`.
fn step_with(loaded: &Loaded, folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let is_it = |source: &Path| source.canonicalize().is_ok_and(|source| source == folder);
    match loaded {
        Loaded::Job(spec) => is_it(&spec.source_directory).then(|| spec.name.clone()),
        Loaded::Pipeline(loaded) => {
            let mut steps = loaded.pipeline.steps.iter();
            steps.find(|step| is_it(&step.spec.source_directory)).map(|step| step.name.clone())
        }
    }
}

impl Loaded {
    /// Has the job keep its graph.
    pub fn keep(&mut self, graph: Graph) {
        let graph = Some(Box::new(graph));
        match self {
            Self::Job(spec) => spec.graph = graph,
            Self::Pipeline(loaded) => {
                // Of one job to the user, its own settings are those of a step.
                let main = loaded.pipeline.main.clone();
                let steps = &mut loaded.pipeline.steps;
                if let Some(step) = steps.iter_mut().find(|step| main.as_ref() == Some(&step.name)) {
                    step.spec.graph.clone_from(&graph);
                }
                loaded.spec.graph = graph;
            }
        }
    }
}
