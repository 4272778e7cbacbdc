//! What a step gets of other steps: where an output is, put in the place of its address when the step starts.

use std::sync::Arc;

use futures_util::StreamExt;
use prs_common::dataset::remote;
use prs_common::end_reason::EndReason;
use prs_common::job::counting::Counting;
use prs_common::job::pipeline::{Pipeline, Step, step_id};
use prs_common::job::shuffle::ShuffleStage;
use prs_common::job::{InputSource, JobSpec, StepOutput};
use prs_common::layout;
use prs_common::storage::{Storage, StorageError, StorageErrorKind};

use super::tables;

/// The settings of `step`, one of the pipeline `job_id`, with the places of what it needs; a reason to fail where a step
/// that completed brought nothing. `storage` gives the prefix of a job.
pub async fn bound(
    job_id: &str,
    pipeline: &Pipeline,
    step: &Step,
    storage: &(dyn Fn(&str) -> Arc<dyn Storage> + Sync),
) -> Result<Result<JobSpec, EndReason>, StorageError> {
    let mut spec = step.spec.clone();
    let is_of_shuffle = matches!(spec.shuffle, Some(ShuffleStage::Group | ShuffleStage::Run));
    let tables = tables::unread(&spec);
    let inputs: Vec<_> = spec.inputs.iter().map(|input| input.source.clone()).collect();
    for source in sources(&mut spec) {
        let InputSource::Output(output) = source else { continue };
        let StepOutput { step: from, output: name } = output.clone();
        let path = pipeline.step(&from).and_then(|step| step.outputs.get(&name));
        let place = match path {
            Some(path) => place(&*storage(&step_id(job_id, &from)), path).await?,
            None => None,
        };
        match place {
            Some(place) => *source = place,
            // No row was left of this one. Inputs keep their positions.
            None if is_of_shuffle && inputs.contains(&*source) => *source = InputSource::Paths(Vec::new()),
            None => return Ok(Err(EndReason::NoOutputOfStep { step: from, output: name })),
        }
    }
    for (at, StepOutput { step: from, output }) in tables {
        let path = pipeline.step(&from).and_then(|step| step.outputs.get(&output));
        let below = format!("{}{}", layout::OUTPUT, path.map_or("", String::as_str));
        let storage = storage(&step_id(job_id, &from));
        if let Err(error) = tables::read(&mut spec.inputs[at], &*storage, below.trim_end_matches('/')).await?
        {
            return Ok(Err(EndReason::TableOfStep { step: from, output, error }));
        }
    }
    Ok(Ok(spec))
}

/// Everything of `spec` that may be an output of another step.
pub(super) fn sources(spec: &mut JobSpec) -> impl Iterator<Item = &mut InputSource> {
    let inputs = spec.inputs.iter_mut().map(|input| &mut input.source);
    let counts = spec.counting.iter_mut().filter_map(|counting| match counting {
        Counting::Run(counts) => Some(counts),
        Counting::Count => None,
    });
    let inputs = inputs.chain(&mut spec.grouped_from);
    inputs.chain(spec.side_inputs.iter_mut().map(|side_input| &mut side_input.source)).chain(counts)
}

/// Where what a job has in its output at `path` is, all of it where that is empty; nothing where there is nothing.
async fn place(storage: &dyn Storage, path: &str) -> Result<Option<InputSource>, StorageError> {
    let key = format!("{}{path}", layout::OUTPUT);
    let key = key.trim_end_matches('/');
    let is_object = match storage.head(key).await {
        Ok(_) => true,
        Err(error) if error.kind == StorageErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let mut listed = storage.list(&format!("{key}/"), "");
    if !is_object && listed.next().await.transpose()?.is_none() {
        return Ok(None);
    }
    let uri = storage.uri(key);
    let paths = vec![uri];
    let is_remote = paths.iter().all(|uri| remote::is_remote(uri));
    Ok(Some(if is_remote { InputSource::Remote(paths) } else { InputSource::Paths(paths) }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prs_common::job::{Input, InputKind};
    use prs_common::storage::{LocalStorage, PutMode};

    use super::*;

    fn step(name: &str, needs: Option<(&str, &str)>, outputs: &[(&str, &str)]) -> Step {
        let input = |(step, output): (&str, &str)| {
            Input::new(
                "data",
                InputKind::File,
                InputSource::Output(StepOutput { step: step.to_owned(), output: output.to_owned() }),
            )
        };
        let outputs = outputs.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned()));
        Step {
            name: name.to_owned(),
            spec: JobSpec::new(name, "/", "x.py", needs.map(input).into_iter().collect()),
            needs: Vec::new(),
            outputs: outputs.collect::<BTreeMap<_, _>>(),
        }
    }

    #[tokio::test]
    async fn a_step_gets_what_another_one_brought() {
        let folder = tempfile::tempdir().unwrap();
        let root: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        for key in ["p-prep/output/rows/a.txt", "p-prep/output/sum.txt"] {
            root.put(key, "x".into(), PutMode::Create).await.unwrap();
        }
        let outputs = [("rows", "rows"), ("sum", "sum.txt"), ("all", ""), ("gone", "gone")];
        let storage = |id: &str| root.below(id);
        for (output, expected) in [
            ("rows", Some("/rows")),
            ("sum", Some("/sum.txt")),
            ("all", Some("")),
            ("gone", None),
            ("other", None),
        ] {
            let pipeline = Pipeline {
                steps: vec![step("prep", None, &outputs), step("next", Some(("prep", output)), &[])],
                continue_on_step_failure: true,
                outputs: Vec::new(),
                main: None,
                places: Vec::new(),
            };
            let bound = bound("p", &pipeline, &pipeline.steps[1], &storage).await.unwrap();
            if let Some(path) = expected {
                let path = format!("{}/p-prep/output{path}", folder.path().display());
                assert_eq!(bound.unwrap().inputs[0].source, InputSource::Paths(vec![path]), "{output}");
            } else {
                let reason = bound.unwrap_err().to_string();
                let said = format!("step prep completed and brought no output {output}");
                assert!(reason.contains(&said), "{reason}");
            }
        }
    }
}
