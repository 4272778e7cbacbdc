//! A job that runs anew: of a job file, or of a former job; in this process or on a fleet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use prs_common::code::archive::{CodeArchive, pack};
use prs_common::dataset::input::{InputMode, InputSource};
use prs_common::job::{Called, Given, JobSpec, JobText, Loaded, Names, RunsOn, change, script_below};
use prs_common::layout;
use prs_common::storage::{LocalStorage, Storage};
use prs_common::timestamp::now_us;
use prs_orchestrator::inputs::{Audience, InputStores, Where, resolve};
use prs_orchestrator::job::reuse::recipe;
use prs_orchestrator::{Fleet, JobRecord};
use prs_worker::{connect_fleet, opener};

use super::code_choice::describe_resubmitted;
use super::ended::{Ended, Target, end, note_unfilled};
use super::fleet::{self, NewJob};
use super::local::Python;
use super::output_folder::{check_apart, check_side_inputs, claim_for_new};
use super::pipeline::code::pack_code;
use super::pipeline::run as pipeline;
use super::resume_hint::ResumeHint;
use super::script_check::ScriptCheck;
use super::{code_notes, embedded, output_place, reuse};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::{self, Whereabouts, graph, registry, run_folder};
use crate::interrupts::Interrupts;
use crate::paths::shown;

/// Where and how a new job is to run.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// This machine or a fleet, and the caller.
    pub whereabouts: &'a Whereabouts,
    /// Without a fleet: the folder of the run; else it is called as the job, among the runs of this machine.
    pub run_dir: Option<&'a Path>,
    /// The id that the job is to have, where its user chose one.
    pub id: Option<&'a str>,
    /// Whether a program picked the id, and made the folder of the run for it; who asks again gets the same.
    pub is_picked: bool,
    /// On a fleet: the job is handed in, and nobody waits for its end.
    pub detach: bool,
}

impl Start<'_> {
    fn caller(&self) -> &dyn Caller {
        &*self.whereabouts.caller
    }

    /// The id of a new job whose job file has the name `name`.
    pub(crate) fn id_of(&self, name: &str) -> String {
        self.id.map_or_else(|| new_id(name), str::to_owned)
    }

    /// Whether a person chose the id, which another job may have then.
    pub(crate) fn is_named(&self) -> bool {
        self.id.is_some() && !self.is_picked
    }

    /// The folder of a new job with this id.
    pub(crate) fn folder_of(&self, id: &str) -> PathBuf {
        self.run_dir.map_or_else(|| self.whereabouts.runs.join(id), Path::to_owned)
    }

    /// Refuses an id that a job of this machine has.
    pub(crate) fn check_id(&self) -> Result<(), Failure> {
        let runs = &self.whereabouts.runs;
        match self.id.filter(|id| !self.is_picked && runs.join(id).symlink_metadata().is_ok()) {
            Some(id) => Err(Failure::wrong(format!(
                "there is a job {id} already, in {}: give another id (--name, or --job-name of a deployment), or remove that job with prs rm {id}",
                shown(&runs.join(id))
            ))),
            None => Ok(()),
        }
    }
}

/// Runs a job whose file is a `text`, with what is `given` beside that, as [`submit`] does one of a file. No local path of it leads
/// out of what came with it.
pub async fn submit_text(text: JobText<'_>, given: Given<'_>, start: &Start<'_>) -> Result<Ended, Failure> {
    // Whatever is said here, the text is read.
    Box::pin(submit(Path::new(""), Given { text: Some(text), ..given }, start)).await
}

/// Runs a job file, with what is `given` beside it, to its end, or hands it in.
pub async fn submit(job_file: &Path, given: Given<'_>, start: &Start<'_>) -> Result<Ended, Failure> {
    let (caller, runs_on) = (start.caller(), start.whereabouts.runs_on());
    caller.prepare()?;
    let (is_text, names) = (given.text.is_some(), given.names.map(Names::anew));
    let given = Given { names: names.as_ref(), ..given };
    let mut loaded = registry::load(runs_on, job_file, given, start.whereabouts).await?;
    graph::keep(&mut loaded, job_file, given, start.whereabouts).await?;
    let spec = match loaded {
        Loaded::Job(spec) => *spec,
        Loaded::Pipeline(loaded) => return Box::pin(pipeline::submit(*loaded, is_text, start)).await,
    };
    let check = ScriptCheck::start(&spec, runs_on, is_text)?;
    let code = pack_code(&spec)?;
    if let Some(check) = check {
        check.finish(caller).await?;
    }
    if !spec.is_built_in() {
        code_notes::check(&spec, &code.files, caller)?;
    }
    let (id, archive) = (start.id_of(&spec.name), code.body.into());
    let new = NewJob {
        id,
        is_named: start.is_named(),
        spec,
        code: layout::code_archive(&code.checksum),
        archive,
        listings: Vec::new(),
    };
    Box::pin(run(new, start)).await
}

/// Runs the former job `name` again as a new one, with these settings (key and value) in place of its own. The former one
/// is only read. The new one is `called` so, where that says anything.
pub async fn resubmit(
    name: &str,
    set: &[(String, String)],
    called: &Called,
    came: Sent<'_>,
    start: &Start<'_>,
) -> Result<Ended, Failure> {
    let home = Box::pin(homes::find_to_run(name, start.whereabouts)).await?;
    let record = home.record().await?;
    home.check_runs_alone(&record)?;
    let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
    let (archive, listings) =
        (home.code(&record, "submit the job file again").await?, home.listings(&record));
    let former = record.as_given();
    let (mut archive, mut code) = (archive, former.code.clone());
    let runs_on = start.whereabouts.runs_on();
    let read = |names: &Names| change(&former.spec, name, set, &here, runs_on, names);
    let mut spec = Box::pin(registry::settings(start.whereabouts, read)).await?;
    called.put_on(&mut spec).map_err(Failure::usage)?;
    if called.submitted_by.is_none() {
        spec.submitted_by = None;
    }
    spec.resubmitted_from = Some(former.job_id.clone());
    came.put_inputs(&mut spec)?;
    // A job that a server took in for a caller reads no more when another user runs it again.
    let reach = start.whereabouts.reach.as_deref().or(former.spec.reach.as_deref());
    if let Some(reach) = reach {
        spec.keep_within(reach).map_err(Failure::usage)?;
    }
    match came.code {
        Some(folder) => {
            let packed = sent_code(folder, &mut spec, start).await?;
            (archive, code) = (packed.body.into(), layout::code_archive(&packed.checksum));
        }
        None => start.caller().note(&describe_resubmitted(&former, &archive)),
    }
    match Loaded::of_job(spec) {
        Loaded::Job(spec) => {
            let id = start.id_of(&spec.name);
            let new = NewJob { id, is_named: start.is_named(), spec: *spec, code, archive, listings };
            Box::pin(run(new, start)).await
        }
        Loaded::Pipeline(loaded) => {
            Box::pin(pipeline::resubmit(*loaded, &(code, archive), listings, start)).await
        }
    }
}

/// What came with a former job that runs again, in place of what it had.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// A folder with its code.
    pub code: Option<&'a PathBuf>,
    /// The data of inputs and side inputs, by their names.
    pub inputs: &'a BTreeMap<String, PathBuf>,
}

/// Nothing, for [`Sent`].
static NOTHING: BTreeMap<String, PathBuf> = BTreeMap::new();

impl Sent<'static> {
    /// Nothing came along.
    pub const NOTHING: Self = Self { code: None, inputs: &NOTHING };
}

impl Sent<'_> {
    /// Puts the data in the place of what the job had.
    fn put_inputs(&self, spec: &mut JobSpec) -> Result<(), Failure> {
        for (name, path) in self.inputs {
            let source = InputSource::Paths(vec![path.display().to_string()]);
            if let Some(input) = spec.inputs.iter_mut().find(|input| input.name == *name) {
                if input.mltable.is_some() {
                    return Err(Failure::wrong(format!(
                        "input {name} is an MLTable, whose files its own file names: submit the job with its file and input.{name}"
                    )));
                }
                (input.source, input.mode) = (source, InputMode::Upload);
            } else if let Some(side) = spec.side_inputs.iter_mut().find(|side| side.name == *name) {
                (side.source, side.mode, side.seen, side.changed_lately) =
                    (source, InputMode::Upload, None, false);
            } else {
                let known: Vec<&str> = spec
                    .inputs
                    .iter()
                    .map(|input| &*input.name)
                    .chain(spec.side_inputs.iter().map(|side| &*side.name))
                    .collect();
                return Err(Failure::wrong(format!(
                    "the job has no input {name:?}; its inputs and side inputs are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// The code that came with a job that runs again.
async fn sent_code(folder: &Path, spec: &mut JobSpec, start: &Start<'_>) -> Result<CodeArchive, Failure> {
    let (caller, runs_on) = (start.caller(), start.whereabouts.runs_on());
    if spec.has_no_code() {
        return Err(Failure::wrong("the job has no code, so it takes none: leave it out"));
    }
    let former = std::mem::replace(&mut spec.source_directory, folder.to_owned());
    if script_below(folder, &spec.entry_script).is_none() {
        let script = &spec.entry_script;
        return Err(Failure::wrong(format!(
            "the entry script {script} is not in the code that came along: send it, too, or leave the code out"
        )));
    }
    if let Some(check) = ScriptCheck::start(spec, runs_on, true)? {
        check.finish(caller).await?;
    }
    let packed = pack(folder).map_err(Failure::usage)?;
    code_notes::check(spec, &packed.files, caller)?;
    if runs_on == RunsOn::Workers {
        // It is gone with the request.
        spec.source_directory = former;
    }
    Ok(packed)
}

/// Runs a new job.
async fn run(mut new: NewJob, start: &Start<'_>) -> Result<Ended, Failure> {
    new.spec.put_job_id(&new.id);
    match &start.whereabouts.urls {
        Some(urls) => {
            let fleet = connect_fleet(urls).await?;
            Box::pin(run_on(&fleet, new, start)).await
        }
        None => Box::pin(run_here(new, start)).await,
    }
}

/// Runs a new job on a fleet.
async fn run_on(fleet: &Fleet, mut new: NewJob, start: &Start<'_>) -> Result<Ended, Failure> {
    let (caller, detach) = (start.caller(), start.detach);
    note_settings(&new.spec, caller);
    if detach {
        output_place::note_unfilled(&mut new.spec, &new.id);
    }
    output_place::check(&new.spec, &*fleet.job_storage(&new.id)).await?;
    let output = new.spec.output.as_deref().filter(|_| !detach);
    let claim = output.map(|output| claim_for_new(output, &new.spec, &new.id)).transpose()?;
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    let started = fleet::start(fleet, new, &hint, caller);
    let started = Box::pin(hint.unless_interrupted(&mut *interrupts, started)).await?;
    let target = claim.map(|claim| Target { _claim: claim, notes: None });
    match started {
        fleet::Started::Submitted(submitted) => {
            caller.note(&format_args!("job {} is handed in", submitted.job.id));
            caller.begins(&submitted.job.id);
            Box::pin(hand_over(*submitted, target, detach, &mut *interrupts, caller)).await
        }
        fleet::Started::Given(given) => {
            caller.begins(&given.record.job_id);
            Ok(hand_on(*given, target, detach, &mut *interrupts, caller).await)
        }
    }
}

/// Runs a new job in this process.
async fn run_here(new: NewJob, start: &Start<'_>) -> Result<Ended, Failure> {
    start.check_id()?;
    let caller = start.caller();
    let (spec, may_be_given) = (&new.spec, new.may_be_given());
    let python = Python::find(spec)?;
    note_settings(spec, caller);
    if spec.node_count > 1 || spec.compute_target != "default" {
        caller.note(&format_args!(
            "note: no fleet is given, so the job runs on this machine alone (compute_target {}, node_count {})",
            spec.compute_target, spec.node_count
        ));
    }
    let mut record = JobRecord::new(new.id.clone(), new.code.clone(), spec.clone());
    let folder = start.folder_of(&record.job_id);
    if folder.join(layout::JOB).exists() {
        return Err(holds_a_job(&folder));
    }
    let claim = |output: &Path| claim_for_new(output, spec, &new.id);
    // Before anything is made.
    check_side_inputs(spec, &folder)?;
    output_place::check(spec, &LocalStorage::new(&folder)).await?;
    let elsewhere = match &spec.output {
        Some(output) => check_apart(output, &folder).and_then(|()| claim(output)).map(Some)?,
        None => None,
    };
    let folder = make_folder(&folder)?;
    let _lock = run_folder::lock(&folder)?
        .ok_or_else(|| Failure::at_work(format!("{} is in use by another run", folder.display())))?;
    let _claim = match elsewhere {
        Some(claim) => claim,
        None => claim(&run_folder::output(&folder, &record))?,
    };
    let storage = LocalStorage::new(&folder);
    let mut interrupts = caller.interrupts()?;
    let hint = ResumeHint::default();
    if !start.is_picked {
        hint.set(format_args!("{} holds a job that has not run; it may be removed", folder.display()));
    }
    let stored = async {
        let stores: Arc<dyn Storage> = Arc::new(storage.clone());
        let stores = InputStores::new(Arc::clone(&stores), stores, opener()).within(new.spec.reach());
        let resolved = resolve(new.spec.clone(), &stores, Where::Embedded, Audience::NONE).await;
        record.spec = resolved.map_err(Failure::usage)?;
        record.recipe = recipe(&record.spec, &record.code, Some(&python.interpreter));
        new.store(&storage).await?;
        if !record.create(&storage).await.context("cannot store the job")? {
            return Err(holds_a_job(&folder));
        }
        Ok(record)
    };
    let mut record = match hint.unless_interrupted(&mut *interrupts, stored).await {
        Ok(record) => record,
        Err(failure) => {
            embedded::note_interrupted(&storage, &*interrupts, caller).await;
            return Err(failure);
        }
    };
    caller.begins(&record.job_id);
    let name = run_folder::called(&folder);
    if may_be_given {
        hint.set(format_args!(
            "{} holds a job that has not run; prs resume {name} runs it",
            folder.display()
        ));
        let given = reuse::from_folder(&mut record, &folder, &start.whereabouts.runs, caller);
        let given = match Box::pin(hint.unless_interrupted(&mut *interrupts, given)).await {
            Ok(given) => given,
            Err(failure) => {
                embedded::note_interrupted(&storage, &*interrupts, caller).await;
                return Err(failure);
            }
        };
        if let Some(result) = given {
            reuse::note_given(&result, caller);
            return Ok(Ended::job(result, name));
        }
    }
    caller.note(&format_args!("job {} runs in {}", record.job_id, shown(&folder)));
    let run = embedded::Run { folder, record, python, interrupts: &mut *interrupts, caller, outer: None };
    let result = embedded::run(run).await?;
    Ok(Ended::job(result, name))
}

pub(crate) fn holds_a_job(folder: &Path) -> Failure {
    Failure::wrong(format!(
        "{} holds a job already; give another --run-dir, or continue it with prs resume",
        folder.display()
    ))
}

/// Says what the author of a job should know of its settings.
pub fn note_settings(spec: &JobSpec, caller: &dyn Caller) {
    for note in &spec.notes {
        caller.note(&format_args!("note: {note}"));
    }
}

/// Waits for a job that was handed in, where that is wanted.
pub(crate) async fn hand_over(
    submitted: fleet::Submitted,
    target: Option<Target>,
    detach: bool,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Result<Ended, Failure> {
    let id = submitted.job.id.clone();
    let folder = submitted.record.spec.output.clone();
    if detach {
        fleet::leave(submitted, caller).await;
        return Ok(detached(&id, folder.as_deref(), caller));
    }
    let storage = Arc::clone(&submitted.job.output);
    let Some(result) = fleet::wait(submitted, interrupts, caller).await? else {
        caller.note(&format_args!("the job goes on; prs stream {id} follows it"));
        note_unfilled(&id, folder.as_deref(), caller);
        return Ok(Ended::Left);
    };
    Ok(end((result, &*storage), folder.as_deref().zip(target), interrupts).await)
}

/// Ends with a job that was given the output of a former one.
pub(crate) async fn hand_on(
    given: fleet::Given,
    target: Option<Target>,
    detach: bool,
    interrupts: &mut dyn Interrupts,
    caller: &dyn Caller,
) -> Ended {
    let fleet::Given { record, result, output } = given;
    reuse::note_given(&result, caller);
    let folder = record.spec.output.as_deref();
    if detach {
        return detached(&record.job_id, folder, caller);
    }
    end((result, &*output), folder.zip(target), interrupts).await
}

/// A job that nobody waits for.
fn detached(id: &str, folder: Option<&Path>, caller: &dyn Caller) -> Ended {
    note_unfilled(id, folder, caller);
    Ended::HandedIn { job_id: id.to_owned(), noun: "job" }
}

/// `<name>-<day>-<time>-<four digits>`: readable, sorted by age, unique enough for one folder.
pub(crate) fn new_id(name: &str) -> String {
    let now = now_us();
    let time = prs_common::timestamp::format_us(now);
    let digits: String = time[..19].chars().filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(8);
    format!("{name}-{day}-{time}-{:04x}", (now ^ (u64::from(std::process::id()) << 5)) & 0xffff)
}

/// Makes the folder of a run, which goes on the path of Python.
pub(crate) fn make_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let absolute =
        std::path::absolute(folder).context("there is no current folder").map_err(Failure::usage)?;
    if absolute.to_str().is_none_or(|path| path.contains(':')) {
        return Err(Failure::wrong(format!(
            "the run folder {} cannot be on Python's path: it must be UTF-8 without a colon; give another --run-dir",
            absolute.display()
        )));
    }
    run_folder::make(folder)
}
