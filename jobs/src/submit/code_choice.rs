//! Which code another start of a job runs: that of the job, or what its `source_directory` holds now.
//!
//! Nobody is asked where they are the same. Where they differ, the caller says it, before or when asked; a start without
//! either is refused, because both are wrong in silence.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use prs_common::code::archive::{self, CodeArchive, is_intact, pack};
use prs_common::end_reason::EndReason;
use prs_common::failpoint;
use prs_common::job::{JobSpec, Names, OutputFormat, RunsOn, adjust, script_below};
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::storage::{PutMode, Storage, StorageExt};
use prs_orchestrator::job::corrected_plan::CorrectedPlan;
use prs_orchestrator::job::reuse;
use prs_orchestrator::plan::correction::Corrected;
use prs_orchestrator::report::starts::short;
use prs_orchestrator::{JobRecord, JobResult};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::homes::{Whereabouts, registry};
use crate::paths::shown;
use crate::submit::code_notes;
use crate::submit::script_check::ScriptCheck;

/// Files that are named where code differs.
const MOST_NAMED: usize = 5;

/// Which code of a job is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeChoice {
    /// What `source_directory` holds now.
    New,
    /// What the job ran last.
    Old,
}

/// Asks which code runs the rest of a job: in which way code differs, and the `source_directory`, for people; nothing
/// without an answer.
pub type AskCode<'a> = &'a (dyn Fn(&str, &str) -> Result<Option<CodeChoice>, Failure> + Sync);

/// What the caller wants another start of a job to be.
#[derive(Clone, Copy)]
pub struct Changes<'a> {
    /// What the caller calls the job.
    pub name: &'a str,
    /// Settings, in place of those of the job: key and value.
    pub set: &'a [(String, String)],
    /// Which code runs the rest, where that is said beforehand.
    pub code: Option<CodeChoice>,
    /// A folder with code that came along: it runs the rest, and nobody is asked.
    pub sent: Option<&'a Path>,
    /// The error group whose mini-batches run again, in place of all that failed.
    pub only_group: Option<&'a str>,
    /// Else who says it when code differs.
    pub ask: AskCode<'a>,
    /// Where the job is, and the caller.
    pub whereabouts: &'a Whereabouts,
}

/// What the next start of a job is made of.
#[derive(Debug)]
pub(crate) struct NextStart {
    /// The settings.
    pub(crate) spec: JobSpec,
    /// The code, where it is not that of the job.
    code: Option<NewCode>,
    /// The plan, where inputs were corrected.
    corrected: Option<Box<Corrected>>,
    /// Name of that plan, once it is stored.
    plan: Option<CorrectedPlan>,
}

/// Code in place of that of a job.
#[derive(Debug)]
pub(crate) struct NewCode {
    pub(crate) key: String,
    archive: Bytes,
}

impl NewCode {
    fn of(code: CodeArchive) -> Self {
        Self { key: layout::code_archive(&code.checksum), archive: code.body.into() }
    }

    /// Its checksum, cut short.
    pub(crate) fn name(&self) -> &str {
        short(layout::checksum_of_code(&self.key))
    }

    /// Stores it, before anything names it.
    pub(crate) async fn store(&self, storage: &dyn Storage) -> anyhow::Result<()> {
        let put = storage.put(&self.key, self.archive.clone().into(), PutMode::Overwrite).await;
        put.map(drop).context("cannot store the code")
    }
}

/// Code of a job as its `source_directory` has it now, where it differs from that of the job.
pub(crate) struct ChangedCode {
    /// In which way, for people.
    pub(crate) told: String,
    now: CodeArchive,
}

impl ChangedCode {
    /// Takes it for the job with these settings; code that cannot run is refused.
    pub(crate) async fn take(
        self,
        spec: &JobSpec,
        runs_on: RunsOn,
        caller: &dyn Caller,
    ) -> Result<NewCode, Failure> {
        if !spec.is_built_in() {
            check_script(spec)?;
            if let Some(check) = ScriptCheck::start(spec, runs_on, false)? {
                check.finish(caller).await?;
            }
            code_notes::check(spec, &self.now.files, caller)?;
        }
        Ok(NewCode::of(self.now))
    }
}

impl NextStart {
    /// The same job again.
    pub(crate) fn same(record: &JobRecord) -> Self {
        Self { spec: record.spec.clone(), code: None, corrected: None, plan: None }
    }

    /// Takes the plan of inputs that were corrected, where they were.
    pub(crate) fn with_plan(self, corrected: Option<Box<Corrected>>) -> Self {
        Self { corrected, ..self }
    }

    /// Stores code and plan of what follows `record`, before anything names them.
    pub(crate) async fn store(&mut self, record: &JobRecord, storage: &dyn Storage) -> anyhow::Result<()> {
        failpoint::pass("start_stores");
        if let Some(code) = &self.code {
            code.store(storage).await?;
        }
        if let Some(corrected) = &self.corrected {
            let stored = corrected.store(storage, record.incarnation + 1).await;
            self.plan = Some(stored.context("cannot store the plan of the corrected inputs")?);
        }
        failpoint::pass("start_stored");
        Ok(())
    }

    /// Starts the job of `record` again, as this, with the interpreter that was found for it. A job of which not all starts
    /// were alike gives its output to no other.
    pub(crate) fn begin(self, record: &mut JobRecord, interpreter: Option<&Path>) {
        record.start_again();
        record.spec = self.spec;
        if let Some(NewCode { key, .. }) = self.code {
            record.code = key;
        }
        record.corrected = self.plan.or(record.corrected);
        if record.recipe != reuse::recipe(&record.spec, &record.code, interpreter) {
            record.recipe = None;
        }
    }
}

/// Settings and code of the next start of a job that lies in `storage`. `own` are folders of the job itself, which may
/// be below its `source_directory` and are no code.
pub(crate) async fn next_start(
    changes: &Changes<'_>,
    record: &JobRecord,
    storage: &dyn Storage,
    own: &[&Path],
) -> Result<NextStart, Failure> {
    let here = std::env::current_dir().context("there is no current folder").map_err(Failure::usage)?;
    let Changes { name, set, code, sent, whereabouts, .. } = *changes;
    let (caller, runs_on) = (&*whereabouts.caller, whereabouts.runs_on());
    let read = |names: &Names| adjust(&record.spec, name, set, &here, runs_on, names);
    let spec = Box::pin(registry::settings(whereabouts, read)).await?;
    let same = NextStart { spec, ..NextStart::same(record) };
    if let Some(sent) = sent {
        return next_with(sent, same, runs_on, caller).await;
    }
    let Some(new) = changed(record, storage, own, (code, caller)).await? else { return Ok(same) };
    let told = new.told.clone();
    if choose(changes, &told, &shown(&record.spec.source_directory))? == CodeChoice::Old {
        return Ok(same);
    }
    let code = new.take(&same.spec, runs_on, caller).await?;
    caller.note(&format_args!("{told}; the rest runs with it as it is now ({})", code.name()));
    Ok(NextStart { code: Some(code), ..same })
}

/// The code of the job of `record` as it is now, where it differs and the job may run it; what the caller says of code
/// beforehand, and what hears of a folder that is gone. Else as [`next_start`].
pub(crate) async fn changed(
    record: &JobRecord,
    storage: &dyn Storage,
    own: &[&Path],
    (code, caller): (Option<CodeChoice>, &dyn Caller),
) -> Result<Option<ChangedCode>, Failure> {
    if code == Some(CodeChoice::Old) || runs_nothing(record) || record.spec.has_no_code() {
        return Ok(None);
    }
    let source = &record.spec.source_directory;
    if !source.is_dir() {
        let gone = format!("source_directory {} is not on this machine", source.display());
        if code == Some(CodeChoice::New) {
            return Err(Failure::wrong(format!("{gone}: --code old goes on with the code of the job")));
        }
        caller.note(&format_args!("note: {gone}; the code of the job runs"));
        return Ok(None);
    }
    let now = pack(source)
        .map_err(|error| Failure::usage(error).and("--code old goes on with the code of the job"))?;
    let Some(difference) = difference(record, storage, &now, own).await else { return Ok(None) };
    let told = match made_with_it(record) {
        Some(made) => format!("{difference}; {made}"),
        None => difference,
    };
    Ok(Some(ChangedCode { told, now }))
}

/// Which code runs the rest: the caller has said it, or is asked. `sources` are the folders with other code, for people.
pub(crate) fn choose(changes: &Changes<'_>, told: &str, sources: &str) -> Result<CodeChoice, Failure> {
    match changes.code {
        Some(choice) => Ok(choice),
        None => (changes.ask)(told, sources)?.ok_or_else(|| undecided(changes, told, sources)),
    }
}

/// The next start with the code in the folder `sent`.
async fn next_with(
    sent: &Path,
    mut same: NextStart,
    runs_on: RunsOn,
    caller: &dyn Caller,
) -> Result<NextStart, Failure> {
    let former = std::mem::replace(&mut same.spec.source_directory, sent.to_owned());
    if same.spec.has_no_code() {
        return Err(Failure::wrong("the job has no code, so it takes none: leave it out"));
    }
    if script_below(sent, &same.spec.entry_script).is_none() {
        let script = &same.spec.entry_script;
        return Err(Failure::wrong(format!(
            "the entry script {script} is not in the code that came along: send it, too, or leave the code out"
        )));
    }
    if let Some(check) = ScriptCheck::start(&same.spec, runs_on, true)? {
        check.finish(caller).await?;
    }
    let now = pack(sent).map_err(Failure::usage)?;
    code_notes::check(&same.spec, &now.files, caller)?;
    if runs_on == RunsOn::Workers {
        // It is gone with the request.
        same.spec.source_directory = former;
    }
    let code = NewCode::of(now);
    caller.note(&format_args!("the rest runs with the code that came along ({})", code.name()));
    Ok(NextStart { code: Some(code), ..same })
}

/// Whether every row is there already, so that no code runs: what is missing is the result alone.
fn runs_nothing(record: &JobRecord) -> bool {
    let progress = &record.status.progress;
    let is_whole = progress.is_complete() && progress.failed == 0 && progress.items_failed() == 0;
    is_whole && !may_have_foreign_rows(record)
}

/// Whether the result was not made and rows may have other columns than those of former starts, so that they do not count.
fn may_have_foreign_rows(record: &JobRecord) -> bool {
    let has_header = record.spec.output_format.is_some_and(OutputFormat::has_header);
    let has_failed = |result: &JobResult| {
        result.state == JobState::Failed && !result.reason.as_deref().is_some_and(EndReason::is_not_delivered)
    };
    has_header && !record.former_starts.is_empty() && record.result.as_ref().is_some_and(has_failed)
}

/// Which code a new job of a former one's runs, in a line for people.
pub(crate) fn describe_resubmitted(record: &JobRecord, archive: &[u8]) -> String {
    let source = &record.spec.source_directory;
    let said = format!("the code is that of job {} ({})", record.job_id, of(record));
    let differs = pack(source).ok().and_then(|now| compare(archive, &now, source, &outputs(record, &[])));
    match differs {
        Some(difference) => {
            format!("{said}, and {difference} now: prs submit takes {} as it is now", shown(source))
        }
        None => said,
    }
}

/// The checksum of the code of a job, cut short.
fn of(record: &JobRecord) -> &str {
    short(layout::checksum_of_code(&record.code))
}

/// In words, which files differ from those of the code of the job; nothing where none does.
async fn difference(
    record: &JobRecord,
    storage: &dyn Storage,
    now: &CodeArchive,
    own: &[&Path],
) -> Option<String> {
    let checksum = layout::checksum_of_code(&record.code);
    if now.checksum == checksum {
        return None;
    }
    let source = &record.spec.source_directory;
    match storage.get(&record.code).await {
        Ok(archive) if is_intact(&archive, checksum) => compare(&archive, now, source, &outputs(record, own)),
        Ok(_) => {
            Some(format!("{} differs from the code of the job, which is damaged in storage", shown(source)))
        }
        Err(error) => Some(format!(
            "{} differs from the code of the job, which cannot be read ({error})",
            shown(source)
        )),
    }
}

/// What a job writes, so that it is no code wherever it lies.
fn outputs<'a>(record: &'a JobRecord, own: &[&'a Path]) -> Vec<&'a Path> {
    record.spec.output.as_deref().into_iter().chain(own.iter().copied()).collect()
}

fn compare(before: &[u8], now: &CodeArchive, source: &Path, outputs: &[&Path]) -> Option<String> {
    let (before, now) = (archive::files(before).ok()?, archive::files(&now.body).ok()?);
    let is_code = |name: &&PathBuf| {
        let path = source.join(name);
        !outputs.iter().any(|output| path.starts_with(output))
    };
    let all: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).filter(is_code).collect();
    let differ: Vec<String> = all
        .into_iter()
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| {
            let path = shown(&source.join(name));
            match (before.contains_key(name), now.contains_key(name)) {
                (false, _) => format!("{path} (new)"),
                (_, false) => format!("{path} (gone)"),
                _ => path,
            }
        })
        .collect();
    let rest = differ.len().saturating_sub(MOST_NAMED);
    let named = differ.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let verb = if differ.len() == 1 { "differs" } else { "differ" };
    match rest {
        _ if differ.is_empty() => None,
        0 => Some(format!("{named} {verb} from the code of the job")),
        _ => Some(format!("{named} and {rest} more files differ from the code of the job")),
    }
}

/// How much of the job was made with its code so far, where that is known.
fn made_with_it(record: &JobRecord) -> Option<String> {
    let counts =
        record.result.as_ref().map_or_else(|| (&record.status.progress).into(), |result| result.mini_batches);
    (counts.succeeded > 0)
        .then(|| format!("{} of {} mini-batches were made with that", counts.succeeded, counts.scheduled))
}

fn undecided(changes: &Changes<'_>, told: &str, sources: &str) -> Failure {
    let mut command = format!("prs resume {}", changes.name);
    for (key, value) in changes.set {
        let _ = write!(command, " --set {key}={value}");
    }
    Failure::wrong(format!(
        "{told}; say which code runs the rest:\n  {command} --code new   with {sources} as it is now\n  {command} --code old   with the code of the job"
    ))
}

/// Refuses code without the entry script.
fn check_script(spec: &JobSpec) -> Result<(), Failure> {
    let JobSpec { source_directory, entry_script, .. } = spec;
    match script_below(source_directory, entry_script) {
        Some(_) => Ok(()),
        None => Err(Failure::wrong(format!(
            "the entry script {entry_script} is not in {} any more: put it back, or take --code old, which is the code \
             of the job",
            source_directory.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_differ_are_named_and_outputs_are_no_code() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path();
        let write = |name: &str, text: &str| fs::write(source.join(name), text).unwrap();
        write("a.py", "1");
        write("b.py", "1");
        let before = pack(source).unwrap();
        let compared = |outputs: &[&Path]| compare(&before.body, &pack(source).unwrap(), source, outputs);
        assert_eq!(compared(&[]), None);
        let at = |name: &str| source.join(name).display().to_string();
        write("a.py", "2");
        assert_eq!(compared(&[]).unwrap(), format!("{} differs from the code of the job", at("a.py")));
        fs::remove_file(source.join("b.py")).unwrap();
        write("c.py", "3");
        let expected = format!(
            "{}, {} (gone), {} (new) differ from the code of the job",
            at("a.py"),
            at("b.py"),
            at("c.py")
        );
        assert_eq!(compared(&[]).unwrap(), expected);
        write("a.py", "1");
        write("b.py", "1");
        fs::remove_file(source.join("c.py")).unwrap();
        fs::create_dir(source.join("out")).unwrap();
        for number in 0..9 {
            write(&format!("out/{number}"), "row");
        }
        assert_eq!(compared(&[&source.join("out")]), None);
        assert!(compared(&[]).unwrap().ends_with("and 4 more files differ from the code of the job"));
    }
}
