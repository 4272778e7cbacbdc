//! Colours of what is printed: of states and errors, on terminals and where they are asked for.
//!
//! `--color` decides; where it says `auto`, the variables `NO_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR`, then whether the
//! output is a terminal that has colours.

use std::fmt::Display;
use std::io;
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use console::{StyledObject, style};
use prs_common::ledger::JobState;

/// Where colours go.
#[derive(Debug, Clone, Copy, Default)]
struct Coloured {
    stdout: bool,
    stderr: bool,
}

/// What was chosen; until then nothing has colours.
static COLOURED: OnceLock<Coloured> = OnceLock::new();

/// Has everything that is printed from here on heed the option `--color`. The first choice stands.
pub(crate) fn choose(option: clap::ColorChoice) {
    match option {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    }
    .write_global();
    COLOURED.get_or_init(|| Coloured {
        stdout: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        stderr: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
    });
}

/// A state of a job, or words that begin with it, for standard output. `lacks` says that items are missing.
pub(crate) fn state<D: Display>(words: D, state: JobState, lacks: bool) -> StyledObject<D> {
    painted(words, state, lacks).force_styling(coloured().stdout)
}

/// What begins an error on standard error.
pub(crate) fn error<D: Display>(mark: D) -> StyledObject<D> {
    style(mark).red().bold().force_styling(coloured().stderr)
}

fn painted<D: Display>(words: D, state: JobState, lacks: bool) -> StyledObject<D> {
    match state {
        JobState::Completed if !lacks => style(words).green(),
        JobState::Failed => style(words).red(),
        _ => style(words).yellow(),
    }
}

fn coloured() -> Coloured {
    COLOURED.get().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_their_colours() {
        let table = [
            (JobState::Completed, false, 32),
            (JobState::Completed, true, 33),
            (JobState::Canceled, false, 33),
            (JobState::Running, false, 33),
            (JobState::Failed, false, 31),
        ];
        for (state, lacks, colour) in table {
            let shown = painted(state.as_str(), state, lacks).force_styling(true).to_string();
            assert_eq!(shown, format!("\u{1b}[{colour}m{state}\u{1b}[0m", state = state.as_str()));
        }
        assert_eq!(state("failed", JobState::Failed, false).to_string(), "failed", "nothing was chosen");
    }
}
