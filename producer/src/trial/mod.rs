//! A trial: one mini-batch of a job file or of a former job, run here by itself.
//!
//! Everything it makes lies in a temporary folder: no run folder, no queue, no result. A former job is only read.
//!
//! | file | duty |
//! |---|---|
//! | `chosen` | which mini-batch, and its descriptor |
//! | `groups` | the rows of a job file put together by keys |
//! | `item` | the file, or the row of a table, that the command line names |
//! | `pytest` | the mini-batch as a test |
//! | `shown` | what came of it, for people and for programs |

mod chosen;
mod groups;
mod item;
mod pytest;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::code::archive::unpack;
use prs_common::code::files::CodeFiles;
use prs_common::job::{Given, InputSource, JobSpec, Loaded, Names, RunsOn, adjust, script_below};
use prs_common::layout;
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageExt};
use prs_common::temporary_folder::TemporaryFolder;
use prs_common::tree;
use prs_jobs::homes::{self, registry};
use prs_jobs::submit::code_notes;
use prs_jobs::submit::local::Python;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::{JobContext, JobRecord};
use prs_worker::{NodeSettings, opener};

pub(crate) use chosen::{Chosen, Wanted};
pub(crate) use groups::Ungrouped;
pub(crate) use pytest::{TestData, test_file};
pub(crate) use shown::{Shown, describe};

use crate::cli::{CodeChoice, Try, is_job_file};
use crate::failure::Failure;
use crate::progress::Screen;

/// What mini-batches are tried of.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The settings, with inputs that can be planned here.
    pub(crate) spec: Arc<JobSpec>,
    /// What scripts see as the id of the job.
    pub(crate) job_id: String,
    /// Folder of the code.
    pub(crate) code: PathBuf,
    /// The former job, where it is of one.
    former: Option<FormerJob>,
    /// Where a plan that is made here finds its inputs, and puts what it makes.
    pub(crate) stores: InputStores,
    scratch: TemporaryFolder,
}

/// What a command names.
pub(crate) enum Found {
    /// Its mini-batches can be planned.
    Ready(Box<Trial>),
    /// Its rows are to be put together first.
    Ungrouped(Box<Ungrouped>),
}

/// A former job.
#[derive(Debug)]
struct FormerJob {
    storage: Arc<dyn Storage>,
    /// Where the data is that its own descriptors name.
    stores: InputStores,
}

impl Trial {
    /// The job that the command names: a job file, or a former job.
    pub(crate) async fn find(arguments: &Try) -> Result<Found, Failure> {
        let scratch = TemporaryFolder::make("prs-try-").context("cannot make a temporary folder")?;
        if is_job_file(&arguments.name) {
            return Box::pin(Self::of_file(arguments, scratch)).await;
        }
        let trial = Box::pin(Self::of_former(arguments, scratch)).await?;
        Ok(Found::Ready(Box::new(trial)))
    }

    async fn of_file(arguments: &Try, scratch: TemporaryFolder) -> Result<Found, Failure> {
        for (given, option) in [(arguments.failed, "--failed"), (arguments.code.is_some(), "--code")] {
            if given {
                return Err(Failure::wrong(format!(
                    "{option} is for former jobs, and {} is a job file: name the id of a job, or its run folder",
                    arguments.name
                )));
            }
        }
        let whereabouts = &arguments.whereabouts;
        let (names, file) = (whereabouts.servers.names(), Path::new(&arguments.name));
        let invocation = arguments.of_deployment.invocation();
        let given = Given {
            overrides: &arguments.set,
            invocation: Some(&invocation),
            names: Some(&names),
            ..Given::default()
        };
        let loaded = registry::load(RunsOn::ThisMachine, file, given, &whereabouts.settled()?).await?;
        let loaded = match loaded {
            Loaded::Pipeline(loaded) if loaded.pipeline.is_shuffled_job() => {
                return Ok(Found::Ungrouped(Box::new(Ungrouped::of(*loaded, scratch))));
            }
            loaded => loaded,
        };
        let spec = loaded.into_job(file).map_err(Failure::usage)?;
        check_code(&spec)?;
        Ok(Found::Ready(Box::new(Self::of_spec_in(spec, scratch).await?)))
    }

    /// The job of a job file that was read.
    pub(crate) async fn of_spec(spec: JobSpec) -> Result<Self, Failure> {
        let scratch = TemporaryFolder::make("prs-try-").context("cannot make a temporary folder")?;
        Self::of_spec_in(spec, scratch).await
    }

    async fn of_spec_in(mut spec: JobSpec, scratch: TemporaryFolder) -> Result<Self, Failure> {
        let stores = stores_in(scratch.path());
        let job_id = format!("{}-try", spec.name);
        spec.put_job_id(&job_id);
        let code = own_code(&spec, &scratch)?;
        let resolved = resolve(spec, &stores, Where::Embedded, Audience::NONE).await;
        let spec = Arc::new(resolved.map_err(Failure::usage)?);
        Ok(Self { spec, job_id, code, former: None, stores, scratch })
    }

    async fn of_former(arguments: &Try, scratch: TemporaryFolder) -> Result<Self, Failure> {
        if let Some((option, _)) = arguments.of_deployment.invocation().given().first() {
            return Err(Failure::wrong(format!(
                "{option} is for batch deployments, and {} is a former job, which has its data",
                arguments.name
            )));
        }
        let whereabouts = arguments.whereabouts.settled()?;
        let home = Box::pin(homes::find_to_try(&arguments.name, &whereabouts)).await?;
        let record = home.record().await?;
        check_version(&record)?;
        home.check_has_mini_batches(&record)?;
        home.check_runs_alone(&record)?;
        if record.spec.needs_shuffle()
            && let Some(former) = record.result.as_ref().and_then(|result| result.reused.as_ref())
        {
            return Err(Failure::wrong(format!(
                "job {} ran nothing: it was given the output of job {former} (allow_reuse), whose rows are put together by \
                 partition_keys: name that one, or a job file",
                record.job_id
            )));
        }
        let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
        let (name, set) = (&arguments.name, &arguments.set);
        let read = |names: &Names| adjust(&record.spec, name, set, &here, RunsOn::ThisMachine, names);
        let spec = Box::pin(registry::settings(&whereabouts, read)).await?;
        let code = match arguments.code.unwrap_or(CodeChoice::New) {
            CodeChoice::New if spec.has_no_code() => own_code(&spec, &scratch)?,
            CodeChoice::New => code_of_now(&spec)?,
            CodeChoice::Old => {
                let archive = home.code(&record, "--code new takes that of now").await?;
                if arguments.pytest {
                    homes::cache::code(&archive, layout::checksum_of_code(&record.code))?
                } else {
                    let folder = scratch.path().join("code");
                    unpack(&archive, &folder).map_err(Failure::usage)?;
                    folder
                }
            }
        };
        let stores = stores_in(scratch.path());
        for source in spec.sources() {
            if let InputSource::Manifest { key, .. } = source {
                let manifest = home.storage().get(key).await;
                let manifest = manifest.map_err(home.cannot("read the inputs of the job"))?;
                let put = stores.job().put(key, manifest.into(), PutMode::Overwrite).await;
                put.context("cannot write to the temporary folder")?;
            }
        }
        let stores = InputStores::new(Arc::clone(home.inputs().shared()), Arc::clone(stores.job()), opener());
        let former = Some(FormerJob { storage: Arc::clone(home.storage()), stores: home.inputs() });
        Ok(Self { spec: Arc::new(spec), job_id: record.job_id, code, former, stores, scratch })
    }

    /// A folder below the temporary one.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The job as a process is told of it.
    pub(crate) fn context(&self) -> JobContext {
        let storage = self.former.as_ref().map_or_else(|| self.stores.job(), |former| &former.storage);
        let output = self.spec.output.clone().unwrap_or_else(|| self.folder("output"));
        let start = (&*self.job_id, 1);
        let (spec, storage) = (Arc::clone(&self.spec), Arc::clone(storage));
        JobContext::embedded(start, spec, storage, self.stores.clone(), &output, self.scratch.path())
    }

    /// What a process of the job is started with on this machine.
    pub(crate) fn node_settings(&self, python: Python) -> NodeSettings {
        NodeSettings { memory_bytes: 0, ..python.node(&self.spec, 1) }
    }

    /// Where plain copies of compressed inputs are.
    fn work(&self) -> PathBuf {
        self.folder("work")
    }
}

/// Refuses a job of another version of prs, which has stored what it did in another form.
fn check_version(record: &JobRecord) -> Result<(), Failure> {
    let (id, of, own) = (&record.job_id, &record.prs_version, env!("CARGO_PKG_VERSION"));
    if of == own {
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "job {id} is of prs {of}, and this is prs {own}, which cannot read what it stored: use prs {of} for it"
    )))
}

fn stores_in(scratch: &Path) -> InputStores {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(scratch.join("storage")));
    InputStores::new(Arc::clone(&storage), storage, opener())
}

fn code_of_now(spec: &JobSpec) -> Result<PathBuf, Failure> {
    let JobSpec { source_directory: source, entry_script, .. } = spec;
    if !source.is_dir() {
        return Err(Failure::wrong(format!(
            "source_directory {} is not on this machine: --code old takes the code of the job",
            source.display()
        )));
    }
    if script_below(source, entry_script).is_none() {
        return Err(Failure::wrong(format!(
            "the entry script {entry_script} is not in {} any more: --code old takes the code of the job",
            source.display()
        )));
    }
    check_code(spec)?;
    Ok(source.clone())
}

/// The folder of the code; an empty one for a job that has none.
fn own_code(spec: &JobSpec, scratch: &TemporaryFolder) -> Result<PathBuf, Failure> {
    if !spec.has_no_code() {
        return Ok(spec.source_directory.clone());
    }
    let folder = scratch.path().join("no-code");
    tree::make_folders(&folder).context("cannot make a temporary folder")?;
    Ok(folder)
}

/// A trial runs where the code lies; on the nodes is only what is packed.
fn check_code(spec: &JobSpec) -> Result<(), Failure> {
    if spec.is_built_in() {
        return Ok(());
    }
    let code = CodeFiles::find(&spec.source_directory).map_err(Failure::usage)?;
    code_notes::check(spec, &code, &Screen)
}
