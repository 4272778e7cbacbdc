//! The folder that a job fills on this machine: what must not be in it, and its claim for the time of the run.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prs_common::job::{InputMode, InputSource, JobSpec, OutputAction, check_file_name};
use prs_common::layout;
use prs_common::storage::{Claim, LocalStorage};
use prs_orchestrator::JobRecord;
use prs_orchestrator::publish::{Notes, checksum_of};

use crate::failure::Failure;

/// Claims `folder` for the job `job_id`, until the claim is dropped.
pub(crate) fn claim(folder: &Path, job_id: &str) -> Result<Claim, Failure> {
    Claim::take(folder, job_id).map_err(Failure::usage)
}

/// Claims `folder` for a new job, and refuses one that has a result already, whose it is nobody knows.
pub(crate) fn claim_for_new(folder: &Path, spec: &JobSpec, job_id: &str) -> Result<Claim, Failure> {
    // First, so that a folder that is refused stays as it is; then again, for another job may have ended meanwhile.
    check_new(folder, spec)?;
    let claim = claim(folder, job_id)?;
    check_new(folder, spec)?;
    Ok(claim)
}

/// Claims `folder` for another start of a job, and refuses one with a result that no former start brought, as its
/// `notes` tell.
pub(crate) async fn claim_for_former(
    folder: &Path,
    record: &JobRecord,
    notes: &Notes,
) -> Result<Claim, Failure> {
    let claim = claim(folder, &record.job_id)?;
    let storage = LocalStorage::new(folder);
    for name in own_files(&record.spec) {
        let there =
            checksum_of(&storage, name).await.context("cannot read the output").map_err(Failure::usage)?;
        let is_foreign = match there {
            Some(sha256) => notes.brought(name, &sha256).is_none(),
            // A folder, or a link to nothing.
            None => folder.join(name).symlink_metadata().is_ok(),
        };
        if is_foreign {
            return Err(Failure::wrong(format!(
                "{} is not what job {} brought, and it is not overwritten: move it away, and nothing that is done runs again",
                folder.join(name).display(),
                record.job_id
            )));
        }
    }
    Ok(claim)
}

/// Refuses an output within the run folder, where the job keeps what it needs itself; `output/` there is for it.
pub(crate) fn check_apart(output: &Path, run: &Path) -> Result<(), Failure> {
    let (output, run) = (resolved(output), resolved(run));
    if output.starts_with(&run) && !output.starts_with(run.join(layout::OUTPUT)) {
        return Err(Failure::wrong(format!(
            "the output {} is within the run folder {}, where the job keeps what it needs itself: give another output, or leave it out",
            output.display(),
            run.display()
        )));
    }
    Ok(())
}

/// Refuses a side input that holds the run folder or the output of a job of this machine: it would change while the job
/// runs, and a side input must not.
pub(crate) fn check_side_inputs(spec: &JobSpec, run: &Path) -> Result<(), Failure> {
    let made =
        [(Some(run), "run folder", "give --run-dir"), (spec.output.as_deref(), "output", "give output")];
    for side_input in spec.side_inputs.iter().filter(|side_input| side_input.mode == InputMode::Upload) {
        let InputSource::Paths(paths) = &side_input.source else { continue };
        for (place, what, remedy) in &made {
            let Some(place) = place.map(resolved) else { continue };
            if paths.iter().any(|path| place.starts_with(resolved(Path::new(path)))) {
                let name = &side_input.name;
                return Err(Failure::wrong(format!(
                    "side input {name} holds the {what} {}: {remedy} elsewhere, or name a folder below it",
                    place.display()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses to go on with a job of another version of prs, which keeps what it needs in another form and at other places,
/// and one whose result file has a name that must not be.
pub(crate) fn check_record(record: &JobRecord) -> Result<(), Failure> {
    let (id, of, own) = (&record.job_id, &record.prs_version, env!("CARGO_PKG_VERSION"));
    if of != own {
        return Err(Failure::wrong(format!(
            "job {id} is of prs {of}, and this is prs {own}, which cannot go on with it: resume it with prs {of}, or \
             start it anew with prs resubmit"
        )));
    }
    let named = check_file_name(&record.spec.append_row_file_name);
    named.map_err(|reason| {
        Failure::wrong(format!(
            "job {} cannot go on: append_row_file_name: {reason}; submit it again with another name",
            record.job_id
        ))
    })
}

/// Refuses an output that has what `spec` would write.
pub(crate) fn check_new(folder: &Path, spec: &JobSpec) -> Result<(), Failure> {
    for name in own_files(spec) {
        let path = folder.join(name);
        // Also a link to nothing.
        if path.symlink_metadata().is_ok() {
            return Err(Failure::output_exists(format_args!(
                "{} exists already; move it away, or give another output",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The files that prs itself writes into an output.
pub(super) fn own_files(spec: &JobSpec) -> impl Iterator<Item = &str> + Clone {
    let result = (spec.output_action == OutputAction::AppendRow).then_some(&*spec.append_row_file_name);
    [result, Some(layout::FAILED_MINI_BATCHES)].into_iter().flatten()
}

/// `path` without links, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let (Ok(resolved), Ok(rest)) = (there.canonicalize(), path.strip_prefix(there)) {
            return resolved.join(rest);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use prs_common::job::SideInput;

    use super::*;

    #[test]
    fn an_output_is_beside_what_a_run_needs_itself() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("runs/job");
        for right in ["runs/job/output", "runs/job/output/below", "runs", "runs/job-2", "elsewhere"] {
            check_apart(&folder.path().join(right), &run).unwrap();
        }
        let refuse = |output: &Path| {
            let refused = check_apart(output, &run).unwrap_err();
            assert!(
                refused.is_usage() && refused.to_string().contains("is within the run folder"),
                "{refused}"
            );
        };
        for wrong in ["runs/job", "runs/job/segments", "runs/job/logs/sys", "runs/job/output-2"] {
            refuse(&folder.path().join(wrong));
        }
        std::fs::create_dir_all(run.join("segments")).unwrap();
        symlink(run.join("segments"), folder.path().join("link")).unwrap();
        refuse(&folder.path().join("link"));
        refuse(&folder.path().join("link/below"));
    }

    #[test]
    fn a_side_input_must_not_hold_what_the_job_fills() {
        let folder = tempfile::tempdir().unwrap();
        let held = folder.path().join("data");
        std::fs::create_dir(&held).unwrap();
        let source = |path: &Path| InputSource::Paths(vec![path.to_string_lossy().into_owned()]);
        for (run, output, mode, expected) in [
            ("runs/job", None, InputMode::Upload, None),
            ("data-2/job", Some("out"), InputMode::Upload, None),
            ("data/runs/job", None, InputMode::Upload, Some("side input m holds the run folder")),
            ("runs/job", Some("data/out"), InputMode::Upload, Some("side input m holds the output")),
            ("data/runs/job", Some("data/out"), InputMode::Direct, None),
        ] {
            let mut spec = JobSpec::new("job", "/", "x.py", Vec::new());
            spec.output = output.map(|output| folder.path().join(output));
            spec.side_inputs = vec![SideInput::new("m", source(&held), mode)];
            let refused = check_side_inputs(&spec, &folder.path().join(run)).err();
            assert_eq!(refused.is_some(), expected.is_some(), "{run} {output:?}");
            let told = refused.map(|refused| refused.to_string()).unwrap_or_default();
            assert!(told.starts_with(expected.unwrap_or_default()), "{told}");
        }
    }
}
