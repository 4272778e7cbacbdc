//! Reuse (spec P3): which jobs have one output, so that a job which completed gives its own to the next.
//!
//! Two jobs have one output when they have the same *recipe* and the same *listing*.
//!
//! * The recipe is what is known before anything runs: the code, the version of prs and of its rules of types, the
//!   interpreter, every setting whose key decides the output (`Key::decides_output`), and of inputs that are listed at submission (uploads, by their content,
//!   and buckets, by sizes and etags) the checksum of the listing. Side inputs and the model are compared as those are, and
//!   where they stay on this machine by the checksum of what was seen of them.
//! * Local files are listed while the job runs, and never before (spec S2): the planner sums up what it lists
//!   ([`Listed`]), and the job's record gets the sums with the result. A later submission lists its own files only where a
//!   job of the same recipe is there to compare with, and reads them where times and inodes leave it open whether they are the
//!   same.
//!
//! Whatever cannot be compared for certain is none: lines of a list, whose files nobody looks at, and side inputs whose
//! `mode` is `direct`. What the script reads beside them (a service, a file by its path, the packages of its interpreter) is not looked at.

pub mod index;

use std::cmp::Reverse;
use std::path::Path;

use prs_common::hexadecimal;
use prs_common::job::keys::JOB;
use prs_common::job::{InputSource, JobSpec, SideInput};
use prs_common::layout;
use prs_common::ledger::JobState;
use prs_common::timestamp::now_us;
use prs_tabular::RULES_OF_TYPES;
use sha2::{Digest, Sha256};

use super::findings::Findings;
use super::record::{JobRecord, JobResult, Output};
use crate::inputs::listed::Listed;

/// Checksum (SHA-256, in hexadecimal) of what decides the output of a job, but for the listing of local files; nothing
/// where its inputs cannot be compared with those of another. `code` is the key of its code archive, `interpreter` the
/// one that was found, where it is known.
pub fn recipe(spec: &JobSpec, code: &str, interpreter: Option<&Path>) -> Option<String> {
    if !spec.inputs.iter().all(|input| is_comparable(&input.source)) || !spec.with_model().all(is_known) {
        return None;
    }
    let mut hasher = Sha256::new();
    let mut add = |part: &[u8]| {
        // No two lists of parts give the same bytes.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(&RULES_OF_TYPES.to_le_bytes());
    add(layout::checksum_of_code(code).as_bytes());
    add(interpreter.map(Path::as_os_str).unwrap_or_default().as_encoded_bytes());
    let stored = spec.stored();
    for key in JOB.keys.iter().filter(|key| key.decides_output) {
        if let Some(value) = stored.get(key.name).filter(|value| !value.is_null()) {
            add(key.name.as_bytes());
            add(value.to_string().as_bytes());
        }
    }
    Some(hexadecimal(&hasher.finalize()))
}

/// Whether a listing of the input tells one content from another.
fn is_comparable(source: &InputSource) -> bool {
    match source {
        InputSource::Paths(_) => true,
        // What a list names is not looked at: in a bucket neither, and local files only where they are uploaded.
        InputSource::Manifest { stores, named, .. } => {
            stores.is_empty() || !matches!(named.as_deref(), Some(InputSource::List(_)))
        }
        // A command may do more than bring its outputs; a step runs as a part of its pipeline.
        InputSource::List(_) | InputSource::Remote(_) | InputSource::Output(_) | InputSource::OneItem => {
            false
        }
    }
}

/// Whether what the job has of a side input tells one content from another.
fn is_known(side_input: &SideInput) -> bool {
    match &side_input.source {
        InputSource::Manifest { .. } => true,
        InputSource::Paths(_) => side_input.seen.is_some() && !side_input.changed_lately,
        InputSource::List(_) | InputSource::Remote(_) | InputSource::Output(_) | InputSource::OneItem => {
            false
        }
    }
}

/// Whether inputs of the job are listed while it runs.
pub fn has_local_files(spec: &JobSpec) -> bool {
    spec.inputs.iter().any(|input| matches!(input.source, InputSource::Paths(_)))
}

/// Whether `former` can give its output to a job with this recipe, as far as local files do not decide.
pub fn fits(former: &JobRecord, recipe: &str) -> bool {
    former.is_done_with()
        && former.recipe.as_deref() == Some(recipe)
        && (former.listed.is_some() || !has_local_files(&former.as_given().spec))
}

/// What former jobs are sorted by that are asked for their output: those that ran come before those that were given it,
/// then the newest.
pub fn rank(former: &JobRecord) -> (bool, Reverse<Option<u64>>) {
    let result = former.result.as_ref();
    let is_given = result.is_some_and(|result| result.reused.is_some());
    (is_given, Reverse(result.and_then(|result| result.ended_us)))
}

/// Ends the job of `record`, which never ran: its output is a copy of `former`'s, at `uri`. `logs` is where its logs are, and
/// `listed` what was listed of its local files.
pub fn end_with(
    record: &mut JobRecord,
    former: &JobRecord,
    listed: Option<&Listed>,
    uri: String,
    logs: String,
) -> Option<JobResult> {
    let of_former = former.result.as_ref()?;
    let ended_us = now_us();
    let keep_us = record.spec.keep.map(|seconds| seconds.saturating_mul(1_000_000));
    let seconds = ended_us.saturating_sub(record.submitted_us) as f64 / 1e6;
    let result = JobResult {
        job_id: record.job_id.clone(),
        name: record.spec.name.clone(),
        submitted_us: record.submitted_us,
        ended_us: Some(ended_us),
        kept_until_us: keep_us.map(|keep| ended_us.saturating_add(keep)),
        state: JobState::Completed,
        reason: None,
        reused: Some(former.job_id.clone()),
        output: Output { uri, ..of_former.output.clone() },
        logs,
        mini_batches: of_former.mini_batches,
        items: of_former.items,
        seconds: (seconds * 1e3).round() / 1e3,
        waited_seconds: 0.0,
        starts: of_former.starts.clone(),
        findings: Findings { failures_allowed: record.spec.failures_allowed, ..of_former.findings.clone() },
        steps: Vec::new(),
    };
    record.state = JobState::Completed;
    record.status.progress = former.status.progress.clone();
    record.listed = listed
        .zip(former.listed.as_deref())
        .map(|(now, former)| Box::new(now.clone().with_contents_of(former)));
    record.result = Some(result.clone());
    Some(result)
}

#[cfg(test)]
mod tests {
    use prs_common::dataset::left_out::LeftOut;
    use prs_common::job::{Environment, Input, InputKind, InputMode, MiniBatchSize};

    use super::*;
    use crate::job::record::tests::{end, record};

    fn input(source: InputSource) -> Input {
        Input::new("input_1", InputKind::File, source)
    }

    fn manifest(checksum: &str, stores: &[&str], named: InputSource) -> InputSource {
        InputSource::Manifest {
            key: "inputs/input_1.manifest".into(),
            label: "data".into(),
            files: 1,
            bytes: 1,
            checksum: checksum.into(),
            stores: stores.iter().map(ToString::to_string).collect(),
            left_out: LeftOut::default(),
            named: Some(Box::new(named)),
        }
    }

    fn of(source: InputSource) -> JobSpec {
        JobSpec::new("job", "/code", "main.py", vec![input(source)])
    }

    #[test]
    fn what_decides_the_output_decides_the_recipe_and_nothing_else_does() {
        let spec = of(InputSource::Paths(vec!["/data".into()]));
        let with = |change: fn(&mut JobSpec)| {
            let mut spec = spec.clone();
            change(&mut spec);
            recipe(&spec, "code/5f.tar.gz", None).unwrap()
        };
        let same = with(|_| {});
        let kept: [fn(&mut JobSpec); 8] = [
            |spec| spec.name = "other".into(),
            |spec| spec.description = Some("for people".into()),
            |spec| spec.node_count = 7,
            |spec| spec.process_count_per_node = Some(3),
            |spec| spec.run_invocation_timeout = 1,
            |spec| spec.output = Some("/out".into()),
            |spec| spec.allow_reuse = !spec.allow_reuse,
            |spec| spec.source_directory = "/moved".into(),
        ];
        for (number, change) in kept.into_iter().enumerate() {
            assert_eq!(with(change), same, "{number}");
        }
        let decides: [fn(&mut JobSpec); 7] = [
            |spec| spec.mini_batch_size = MiniBatchSize::Files(3),
            |spec| spec.arguments = vec!["--x".into()],
            |spec| spec.entry_script = "other.py".into(),
            |spec| drop(spec.environment_variables.insert("A".into(), "1".into())),
            |spec| spec.environment = Some(Environment::Interpreter("python3.9".into())),
            |spec| spec.append_row_file_name = "rows.txt".into(),
            |spec| spec.inputs[0].source = InputSource::Paths(vec!["/other".into()]),
        ];
        for (number, change) in decides.into_iter().enumerate() {
            assert_ne!(with(change), same, "{number}");
        }
        assert_ne!(recipe(&spec, "code/60.tar.gz", None).unwrap(), same);
        assert_ne!(recipe(&spec, "code/5f.tar.gz", Some(Path::new("/usr/bin/python3"))).unwrap(), same);
    }

    #[test]
    fn inputs_that_no_listing_tells_apart_are_never_compared() {
        let (list, paths) = (|| InputSource::List("/list".into()), || InputSource::Paths(vec!["/d".into()]));
        let table = [
            (paths(), true),
            (list(), false),
            (InputSource::Remote(vec!["s3://b".into()]), false),
            (manifest("1", &["s3://b"], InputSource::Remote(vec!["s3://b".into()])), true),
            (manifest("1", &[], paths()), true),
            (manifest("1", &[], list()), true),
            (manifest("1", &["s3://b"], list()), false),
        ];
        for (source, is_compared) in table {
            let told = format!("{source:?}");
            assert_eq!(recipe(&of(source), "code/5f", None).is_some(), is_compared, "{told}");
        }
        let listed = |checksum| recipe(&of(manifest(checksum, &[], paths())), "code/5f", None);
        assert_ne!(listed("1"), listed("2"));
    }

    #[test]
    fn side_inputs_and_the_model_are_compared_by_what_was_seen_of_them() {
        let of_model = |seen: Option<&str>, changed_lately, source: InputSource| {
            let mut model = SideInput::new(SideInput::MODEL, source, InputMode::Upload);
            (model.seen, model.changed_lately) = (seen.map(str::to_owned), changed_lately);
            let mut spec = of(InputSource::Paths(vec!["/data".into()]));
            let mut side = spec.clone();
            side.side_inputs = vec![SideInput { name: "m".into(), ..model.clone() }];
            spec.model = Some(model);
            [spec, side].map(|spec| recipe(&spec, "code/5f", None))
        };
        let here = || InputSource::Paths(vec!["/model".into()]);
        let first = of_model(Some("1"), false, here());
        assert!(first.iter().all(Option::is_some) && first[0] != first[1]);
        assert_eq!(of_model(Some("1"), false, here()), first);
        let changed = of_model(Some("2"), false, here());
        assert!(changed[0] != first[0] && changed[1] != first[1]);
        // What changed just before, and what every node has (`direct`), is not known for certain.
        for (seen, changed_lately) in [(Some("1"), true), (None, false)] {
            assert_eq!(of_model(seen, changed_lately, here()), [None, None]);
        }
        let listed = |checksum| of_model(None, false, manifest(checksum, &[], here()));
        assert!(listed("1")[0].is_some() && listed("1")[0] != listed("2")[0]);
    }

    #[test]
    fn a_job_gives_its_output_when_it_has_all_of_it() {
        let mut former = record();
        end(&mut former);
        (former.recipe, former.listed) =
            (Some("r".into()), crate::inputs::listed::tests::any().map(Box::new));
        assert!(fits(&former, "r") && !fits(&former, "x"));
        let mut given = record();
        given.job_id = "given".into();
        let result = end_with(
            &mut given,
            &former,
            former.listed.as_deref(),
            "/new/rows.txt".into(),
            "/new/logs".into(),
        );
        let result = result.unwrap();
        assert_eq!((result.reused.as_deref(), &*result.output.uri), (Some(&*former.job_id), "/new/rows.txt"));
        given.recipe.clone_from(&former.recipe);
        assert!(fits(&given, "r"), "it can be given on");
        assert!(rank(&former) < rank(&given), "who ran comes first");
        let mut incomplete = former;
        incomplete.result.as_mut().unwrap().items.failed = 1;
        assert!(!fits(&incomplete, "r"));
    }
}
