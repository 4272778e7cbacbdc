//! What is to be done next for a pipeline: a pure function of its steps and of how they stand.
//!
//! Nothing is remembered between two calls, and doing an action twice does no harm. So the program that drives a pipeline
//! may be gone between any two actions: the next one asks again.

use super::Pipeline;

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepState {
    /// There is no job of it.
    Waiting,
    /// Its job has not ended.
    Running,
    /// Its job completed.
    Completed,
    /// Its job failed.
    Failed,
    /// Its job was canceled.
    Canceled,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start the step at this position.
    Start(usize),
    /// The step at this position is not run: it needs a step that did not complete, or nothing new is to start.
    Skip(usize),
    /// Cancel the job of the step at this position.
    Cancel(usize),
    /// Nothing is left to do: this is how the pipeline ended. It comes alone, but for what is skipped.
    Conclude(End),
}

/// How a pipeline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every step completed.
    Completed,
    /// A step failed, or was canceled by itself.
    Failed,
    /// It was canceled.
    Canceled,
}

/// What to do, when the steps of `pipeline` stand as `states` say, in the same order. `is_canceled` says whether a
/// user asked for the end of the pipeline.
pub fn decide(pipeline: &Pipeline, states: &[StepState], is_canceled: bool) -> Vec<Action> {
    let has_failed = |state: &StepState| matches!(state, StepState::Failed | StepState::Canceled);
    let failed = states.iter().any(has_failed);
    let stops = is_canceled || (failed && !pipeline.continue_on_step_failure);
    let skipped = skipped(pipeline, states, stops);
    let is_done = |name: &String| {
        pipeline
            .steps
            .iter()
            .zip(states)
            .any(|(step, state)| step.name == *name && *state == StepState::Completed)
    };
    let mut actions = Vec::new();
    for (at, (step, state)) in pipeline.steps.iter().zip(states).enumerate() {
        match state {
            StepState::Waiting if skipped[at] => actions.push(Action::Skip(at)),
            StepState::Waiting if step.needs.iter().all(is_done) => actions.push(Action::Start(at)),
            StepState::Running if stops => actions.push(Action::Cancel(at)),
            _ => {}
        }
    }
    let is_open = |(at, state): (usize, &StepState)| match state {
        StepState::Waiting => !skipped[at],
        StepState::Running => true,
        _ => false,
    };
    if !states.iter().enumerate().any(is_open) {
        let completed = states.iter().all(|state| *state == StepState::Completed);
        actions.push(Action::Conclude(match (completed, is_canceled) {
            // A cancel of what is done comes too late.
            (true, _) => End::Completed,
            (false, true) => End::Canceled,
            (false, false) => End::Failed,
        }));
    }
    actions
}

/// Which of the steps that wait are not run.
fn skipped(pipeline: &Pipeline, states: &[StepState], stops: bool) -> Vec<bool> {
    let mut skipped: Vec<bool> = states.iter().map(|state| stops && *state == StepState::Waiting).collect();
    loop {
        let lacks = |name: &String| {
            let at = pipeline.steps.iter().position(|step| step.name == *name);
            at.is_some_and(|at| skipped[at] || matches!(states[at], StepState::Failed | StepState::Canceled))
        };
        let more: Vec<usize> = (0..states.len())
            .filter(|&at| states[at] == StepState::Waiting && !skipped[at])
            .filter(|&at| pipeline.steps[at].needs.iter().any(lacks))
            .collect();
        if more.is_empty() {
            return skipped;
        }
        for at in more {
            skipped[at] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Step;
    use super::*;
    use crate::job::JobSpec;

    /// A pipeline of steps with the names `0`, `1`, ... and the positions of what each needs.
    fn pipeline(needs: &[&[usize]], continue_on_step_failure: bool) -> Pipeline {
        let step = |(at, needs): (usize, &&[usize])| Step {
            name: at.to_string(),
            spec: JobSpec::new("job", "/", "x.py", vec![]),
            needs: needs.iter().map(ToString::to_string).collect(),
            outputs: BTreeMap::new(),
        };
        let steps = needs.iter().enumerate().map(step).collect();
        Pipeline { steps, continue_on_step_failure, outputs: Vec::new(), main: None, places: Vec::new() }
    }

    /// Steps by a letter each: w(aiting), r(unning), c(ompleted), f(ailed), x (canceled).
    fn states(letters: &str) -> Vec<StepState> {
        let state = |letter| match letter {
            'w' => StepState::Waiting,
            'r' => StepState::Running,
            'c' => StepState::Completed,
            'f' => StepState::Failed,
            'x' => StepState::Canceled,
            other => panic!("{other} is no state"),
        };
        letters.chars().map(state).collect()
    }

    const DIAMOND: &[&[usize]] = &[&[], &[0], &[0], &[1, 2]];
    /// 0 and 1 stand alone, 2 needs 0, 3 needs 2.
    const BRANCHES: &[&[usize]] = &[&[], &[], &[0], &[2]];

    #[test]
    fn what_to_do_follows_from_how_the_steps_stand() {
        use Action::{Cancel, Conclude, Skip, Start};
        type Row<'a> = (&'a [&'a [usize]], &'a str, bool, bool, &'a [Action]);
        let table: &[Row<'_>] = &[
            // What is needed comes first.
            (DIAMOND, "wwww", true, false, &[Start(0)]),
            (DIAMOND, "rwww", true, false, &[]),
            (DIAMOND, "cwww", true, false, &[Start(1), Start(2)]),
            (DIAMOND, "ccrw", true, false, &[]),
            (DIAMOND, "cccw", true, false, &[Start(3)]),
            (DIAMOND, "cccr", true, false, &[]),
            (DIAMOND, "cccc", true, false, &[Conclude(End::Completed)]),
            // A step may come before what it needs in the file.
            (&[&[1], &[]], "ww", true, false, &[Start(1)]),
            (&[&[1], &[]], "wc", true, false, &[Start(0)]),
            // A failed step: the steps that need it are skipped, the others go on.
            (DIAMOND, "cfrw", true, false, &[Skip(3)]),
            (DIAMOND, "cfcw", true, false, &[Skip(3), Conclude(End::Failed)]),
            (DIAMOND, "fwww", true, false, &[Skip(1), Skip(2), Skip(3), Conclude(End::Failed)]),
            (BRANCHES, "fwww", true, false, &[Start(1), Skip(2), Skip(3)]),
            (BRANCHES, "xrww", true, false, &[Skip(2), Skip(3)]),
            (BRANCHES, "fcww", true, false, &[Skip(2), Skip(3), Conclude(End::Failed)]),
            (&[&[1], &[2], &[]], "wwf", true, false, &[Skip(0), Skip(1), Conclude(End::Failed)]),
            // Without `continue_on_step_failure` nothing new starts, and what runs is canceled.
            (BRANCHES, "frww", false, false, &[Cancel(1), Skip(2), Skip(3)]),
            (BRANCHES, "wfww", false, false, &[Skip(0), Skip(2), Skip(3), Conclude(End::Failed)]),
            (BRANCHES, "fxww", false, false, &[Skip(2), Skip(3), Conclude(End::Failed)]),
            (DIAMOND, "cwww", false, false, &[Start(1), Start(2)]),
            // Canceled.
            (DIAMOND, "crrw", true, true, &[Cancel(1), Cancel(2), Skip(3)]),
            (DIAMOND, "cxxw", true, true, &[Skip(3), Conclude(End::Canceled)]),
            (DIAMOND, "wwww", true, true, &[Skip(0), Skip(1), Skip(2), Skip(3), Conclude(End::Canceled)]),
            (DIAMOND, "cccc", true, true, &[Conclude(End::Completed)]),
            (&[], "", true, false, &[Conclude(End::Completed)]),
        ];
        for (needs, letters, goes_on, is_canceled, expected) in table {
            let pipeline = pipeline(needs, *goes_on);
            assert_eq!(
                decide(&pipeline, &states(letters), *is_canceled),
                *expected,
                "{letters}, continue_on_step_failure {goes_on}, canceled {is_canceled}"
            );
        }
    }

    #[test]
    fn a_pipeline_comes_to_an_end_however_its_steps_end() {
        // Every way in which the steps of a diamond end, one step after the other.
        let mut open = vec![(vec![StepState::Waiting; 4], false)];
        let mut ends = 0;
        while let Some((states, is_canceled)) = open.pop() {
            for goes_on in [false, true] {
                let pipeline = pipeline(DIAMOND, goes_on);
                let actions = decide(&pipeline, &states, is_canceled);
                let running = states.iter().position(|state| *state == StepState::Running);
                let started = actions.iter().find_map(|action| match action {
                    Action::Start(at) => Some(*at),
                    _ => None,
                });
                let ended = actions.iter().any(|action| matches!(action, Action::Conclude(_)));
                assert!(
                    ended || running.is_some() || started.is_some(),
                    "{states:?} stands still: {actions:?}"
                );
                assert!(!(ended && (running.is_some() || started.is_some())), "{states:?}: {actions:?}");
                ends += u32::from(ended);
                let mut next = |at: usize, state, canceled| {
                    let mut states = states.clone();
                    states[at] = state;
                    open.push((states, canceled));
                };
                if let Some(at) = started {
                    next(at, StepState::Running, is_canceled);
                } else if let Some(at) = running {
                    for state in [StepState::Completed, StepState::Failed, StepState::Canceled] {
                        next(at, state, is_canceled || state == StepState::Canceled);
                    }
                }
            }
        }
        assert!(ends > 10, "{ends}");
    }
}
