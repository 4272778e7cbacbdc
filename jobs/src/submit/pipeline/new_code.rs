//! Which code runs the steps of a pipeline that goes on: decided once for all steps that have not completed, by the rules of a
//! job ([`code_choice`](crate::submit::code_choice)).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use prs_common::job::pipeline::StepState;
use prs_common::storage::Storage;
use prs_orchestrator::JobRecord;
use prs_orchestrator::pipeline::look;

use crate::failure::Failure;
use crate::paths::shown;
use crate::submit::code_choice::{Changes, CodeChoice, changed, choose};

/// Gives the steps of `record` the code that the caller wants them to run; nothing of it is written but new code, to the
/// storage of each step. `own` are folders of the pipeline itself, which are no code.
pub(super) async fn change(
    changes: &Changes<'_>,
    record: &mut JobRecord,
    storage: &(dyn Fn(&str) -> Arc<dyn Storage> + Sync),
    own: &[&Path],
) -> Result<(), Failure> {
    let (caller, runs_on) = (&*changes.whereabouts.caller, changes.whereabouts.runs_on());
    let views = look(record, storage).await.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    let Some(plan) = &mut record.pipeline else { return Ok(()) };
    let (mut differing, mut gone) = (Vec::new(), BTreeSet::new());
    for (step, view) in plan.pipeline.steps.iter().zip(&views) {
        let source = &step.spec.source_directory;
        // A folder that is gone is told once.
        if view.state == StepState::Completed || !(source.is_dir() || gone.insert(source.clone())) {
            continue;
        }
        let code = plan.codes.get(&step.name).cloned().unwrap_or_default();
        let spec = step.spec.clone();
        let of_step = match view.record.clone() {
            Some(former) => JobRecord { code, spec, ..former },
            None => JobRecord::new(view.id.clone(), code, spec),
        };
        let found = changed(&of_step, &*storage(&view.id), own, (changes.code, caller)).await;
        let found = found.map_err(|failure| failure.and(format_args!("step {}", step.name)))?;
        differing.extend(found.map(|code| (step, view, code)));
    }
    if differing.is_empty() {
        return Ok(());
    }
    let told = told(differing.iter().map(|(step, _, code)| (&*step.name, &*code.told)));
    let sources: BTreeSet<String> =
        differing.iter().map(|(step, ..)| shown(&step.spec.source_directory)).collect();
    let sources = sources.into_iter().collect::<Vec<_>>().join(", ");
    if choose(changes, &told, &sources)? == CodeChoice::Old {
        return Ok(());
    }
    let mut taken = Vec::new();
    for (step, view, code) in differing {
        let code = code.take(&step.spec, runs_on, caller).await;
        let code = code.map_err(|failure| failure.and(format_args!("step {}", step.name)))?;
        taken.push((step.name.clone(), storage(&view.id), code));
    }
    for (step, storage, code) in taken {
        code.store(&*storage).await?;
        plan.codes.insert(step, code.key);
    }
    caller.note(&format_args!("{told}; the rest runs with it as it is now"));
    Ok(())
}

/// Says which steps differ in which way; those that differ alike together.
fn told<'a>(differing: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut alike: Vec<(Vec<&str>, &str)> = Vec::new();
    for (step, way) in differing {
        match alike.iter_mut().find(|(_, known)| *known == way) {
            Some((steps, _)) => steps.push(step),
            None => alike.push((vec![step], way)),
        }
    }
    let line = |(steps, way): (Vec<&str>, &str)| {
        let noun = if steps.len() == 1 { "step" } else { "steps" };
        format!("{noun} {}: {way}", steps.join(", "))
    };
    alike.into_iter().map(line).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn steps_that_differ_alike_are_told_together() {
        let differing = [("prep", "a.py differs"), ("score", "b.py differs"), ("report", "a.py differs")];
        assert_eq!(told(differing.into_iter()), "steps prep, report: a.py differs; step score: b.py differs");
    }
}
