//! The code of the steps of a pipeline, packed and looked at before anything is stored.

use std::collections::BTreeMap;

use bytes::Bytes;
use prs_common::code::archive::{CodeArchive, pack};
use prs_common::job::pipeline::Pipeline;
use prs_common::job::{JobSpec, RunsOn};
use prs_common::layout;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::submit::code_notes;
use crate::submit::script_check::ScriptCheck;

/// The code of a job; an empty archive where it has none.
pub fn pack_code(spec: &JobSpec) -> Result<CodeArchive, Failure> {
    if !spec.has_no_code() {
        return pack(&spec.source_directory).map_err(Failure::usage);
    }
    let nothing = tempfile::tempdir().map_err(|error| Failure::usage(anyhow::Error::from(error)))?;
    pack(nothing.path()).map_err(Failure::usage)
}

/// The archives of a pipeline's steps, each with its key, by the name of the step.
pub struct StepCodes(BTreeMap<String, (String, Bytes)>);

impl StepCodes {
    /// Packs the code of all steps, and has the interpreter look at their scripts, as far as it may where the job `is_text`.
    pub async fn pack(
        pipeline: &Pipeline,
        runs_on: RunsOn,
        is_text: bool,
        caller: &dyn Caller,
    ) -> Result<Self, Failure> {
        let mut codes = BTreeMap::new();
        for step in &pipeline.steps {
            let of_step = |failure: Failure| failure.and(format_args!("step {}", step.name));
            let check = ScriptCheck::start(&step.spec, runs_on, is_text)?;
            let code = pack_code(&step.spec).map_err(of_step)?;
            if let Some(check) = check {
                check.finish(caller).await.map_err(of_step)?;
            }
            if !step.spec.is_built_in() {
                code_notes::check(&step.spec, &code.files, caller)?;
            }
            let key = layout::code_archive(&code.checksum);
            codes.insert(step.name.clone(), (key, code.body.into()));
        }
        Ok(Self(codes))
    }

    /// The archives of a job whose rows are put together in steps, where that of its own code is known with its key.
    pub fn around(pipeline: &Pipeline, known: &(String, Bytes)) -> Result<Self, Failure> {
        let mut codes = BTreeMap::new();
        for step in &pipeline.steps {
            let code = if pipeline.main.as_ref() == Some(&step.name) {
                known.clone()
            } else {
                let code = pack_code(&step.spec)?;
                (layout::code_archive(&code.checksum), code.body.into())
            };
            codes.insert(step.name.clone(), code);
        }
        Ok(Self(codes))
    }

    /// The keys of the archives.
    pub fn keys(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(step, (key, _))| (step.clone(), key.clone())).collect()
    }

    /// Key and archive of the code of a step.
    pub fn of(&self, step: &str) -> Option<&(String, Bytes)> {
        self.0.get(step)
    }
}
