//! A trial: one mini-batch of a job file or of a former job, run here by itself.
//!
//! Everything it makes lies in a temporary folder: no run folder, no queue, no result. A former job is only read.
//!
//! | file | duty |
//! |---|---|
//! | `cache` | what a test imports: prs's own Python, the code of a former job |
//! | `chosen` | which mini-batch, and its descriptor |
//! | `item` | the file, or the row of a table, that the command line names |
//! | `pytest` | the mini-batch as a test |
//! | `shown` | what came of it, for people and for programs |

mod cache;
mod chosen;
mod item;
mod pytest;
mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive::{is_intact, unpack};
use prs_common::code::files::CodeFiles;
use prs_common::job::{InputSource, JobSpec, RunsOn, adjust, load, script_below};
use prs_common::layout;
use prs_common::ledger::EmbeddedLedger;
use prs_common::queue::EmbeddedQueue;
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageExt};
use prs_common::temporary_folder::TemporaryFolder;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::{JobContext, JobRecord, Policy, run_name};
use prs_worker::{Host, NodeSettings, Prefetch, opener};

pub(crate) use chosen::{Chosen, Wanted};
pub(crate) use pytest::test_file;
pub(crate) use shown::{Shown, describe};

use crate::cli::{CodeChoice, Job, Try};
use crate::code_notes;
use crate::failure::Failure;
use crate::place::Place;

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
    former: Option<Former>,
    /// Where a plan that is made here finds its inputs, and puts what it makes.
    pub(crate) stores: InputStores,
    scratch: TemporaryFolder,
}

/// A former job.
#[derive(Debug)]
struct Former {
    storage: Arc<dyn Storage>,
    /// Where the data is that its own descriptors name.
    stores: InputStores,
}

impl Trial {
    /// The job that the command names: a job file, or a former job.
    pub(crate) async fn find(arguments: &Try) -> Result<Self, Failure> {
        let scratch = TemporaryFolder::make("prs-try-").context("cannot make a temporary folder")?;
        if is_job_file(&arguments.name) {
            return Self::of_file(arguments, scratch).await;
        }
        Self::of_former(arguments, scratch).await
    }

    async fn of_file(arguments: &Try, scratch: TemporaryFolder) -> Result<Self, Failure> {
        for (given, option) in [(arguments.failed, "--failed"), (arguments.code.is_some(), "--code")] {
            if given {
                return Err(Failure::wrong(format!(
                    "{option} is for former jobs, and {} is a job file: name the id of a job, or its run folder",
                    arguments.name
                )));
            }
        }
        let spec = load(Path::new(&arguments.name), &arguments.set).map_err(Failure::usage)?;
        check_code(&spec)?;
        Self::of_spec_in(spec, scratch).await
    }

    /// The job of a job file that was read.
    pub(crate) async fn of_spec(spec: JobSpec) -> Result<Self, Failure> {
        let scratch = TemporaryFolder::make("prs-try-").context("cannot make a temporary folder")?;
        Self::of_spec_in(spec, scratch).await
    }

    async fn of_spec_in(spec: JobSpec, scratch: TemporaryFolder) -> Result<Self, Failure> {
        let stores = stores_in(scratch.path());
        let job_id = format!("{}-try", spec.name);
        let code = spec.source_directory.clone();
        let resolved = resolve(spec, &stores, Where::Embedded, Audience::NONE).await;
        let spec = Arc::new(resolved.map_err(Failure::usage)?);
        Ok(Self { spec, job_id, code, former: None, stores, scratch })
    }

    async fn of_former(arguments: &Try, scratch: TemporaryFolder) -> Result<Self, Failure> {
        let job = Job { name: arguments.name.clone(), whereabouts: arguments.whereabouts.clone() };
        let place = Place::find_to_run(&job).await?;
        let record = place.record().await?;
        check_version(&record)?;
        let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
        let spec = adjust(&record.spec, &job.name, &arguments.set, &here, RunsOn::ThisMachine)
            .map_err(Failure::usage)?;
        let code = match arguments.code.unwrap_or(CodeChoice::New) {
            CodeChoice::New => code_of_now(&spec)?,
            CodeChoice::Old => {
                let archive = code_of_job(&place, &record).await?;
                if arguments.pytest {
                    cache::code(&archive, layout::checksum_of_code(&record.code))?
                } else {
                    let folder = scratch.path().join("code");
                    unpack(&archive, &folder).map_err(Failure::usage)?;
                    folder
                }
            }
        };
        let stores = stores_in(scratch.path());
        for input in &spec.inputs {
            if let InputSource::Manifest { key, .. } = &input.source {
                let manifest = place.storage.get(key).await.context("cannot read the inputs of the job");
                let manifest = manifest.map_err(|error| place.failure(error))?;
                let put = stores.job().put(key, manifest.into(), PutMode::Overwrite).await;
                put.context("cannot write to the temporary folder")?;
            }
        }
        let stores =
            InputStores::new(Arc::clone(place.inputs().shared()), Arc::clone(stores.job()), opener());
        let former = Some(Former { storage: Arc::clone(&place.storage), stores: place.inputs() });
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
        JobContext {
            id: self.job_id.clone(),
            run: run_name(&self.job_id, 1),
            code: String::new(),
            spec: Arc::clone(&self.spec),
            incarnation: 1,
            queue: Arc::new(EmbeddedQueue::default()),
            ledger: Arc::new(EmbeddedLedger::default()),
            storage: Arc::clone(storage),
            inputs: self.stores.clone(),
            output: Arc::new(LocalStorage::new(output)),
            output_prefix: None,
            logs: self.folder("logs"),
            logs_uri: self.folder("logs").display().to_string(),
            log_shipper: None,
            work: self.work(),
            policy: Policy::embedded(),
            active: None,
        }
    }

    /// What a process of the job is started with on this machine.
    pub(crate) fn node_settings(&self, python: PathBuf, extension: PathBuf) -> NodeSettings {
        let host = Host::detect();
        NodeSettings {
            python,
            extension,
            worker: host.name.clone(),
            instance: host.name.clone(),
            slots: self.spec.process_count_per_node.unwrap_or_else(|| host.default_slots()),
            host,
            prefetch: Prefetch::Fixed(1),
            cache_bytes: NodeSettings::CACHE_BYTES,
            memory_bytes: 0,
            unfit: None,
        }
    }

    /// Where plain copies of compressed inputs are.
    fn work(&self) -> PathBuf {
        self.folder("work")
    }
}

/// Whether a name is that of a job file, and not of a job.
pub(crate) fn is_job_file(name: &str) -> bool {
    let path = Path::new(name);
    let is_yaml = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
    path.is_file() || (is_yaml && !path.is_dir())
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

/// A trial runs where the code lies; on the nodes is only what is packed.
fn check_code(spec: &JobSpec) -> Result<(), Failure> {
    let code = CodeFiles::find(&spec.source_directory).map_err(Failure::usage)?;
    code_notes::check(spec, &code)
}

/// The archive of the code that the job ran last.
async fn code_of_job(place: &Place, record: &JobRecord) -> Result<Bytes, Failure> {
    let archive = place.storage.get(&record.code).await.context("cannot read the code of the job");
    let archive = archive.map_err(|error| place.failure(error))?;
    if !is_intact(&archive, layout::checksum_of_code(&record.code)) {
        let key = place.storage.uri(&record.code);
        return Err(Failure::wrong(format!(
            "the code of the job is damaged in storage: {key} is not what its name says; --code new takes that of now"
        )));
    }
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_is_told_from_a_job() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("job"), "").unwrap();
        std::fs::create_dir(path("run.yml")).unwrap();
        for (name, is) in [
            (path("job"), true),
            (path("absent.yml"), true),
            (path("absent.yaml"), true),
            (path("run.yml"), false),
            (path(""), false),
            ("job-20261121-120000-1a2b".to_owned(), false),
        ] {
            assert_eq!(is_job_file(&name), is, "{name}");
        }
    }
}
