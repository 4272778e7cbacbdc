//! Running a job: what it is made of, where it runs, and what becomes of its output. The calls are [`submit`], [`submit_text`],
//! [`resubmit`] and [`resume`]; what they are made of is below.
//!
//! | file | duty |
//! |---|---|
//! | `run` | a job that runs anew |
//! | `resume` | a former job that goes on |
//! | `ended` | what becomes of either |
//! | `code_choice` | which code another start of a job runs |
//! | `code_notes` | what its author should know of the code that is packed |
//! | `script_check` | whether an interpreter can compile the script |
//! | `output_folder` | the folder that a job fills on this machine |
//! | `output_place` | the folder in a bucket that a job has its output delivered to |
//! | `output_copy` | a copy of its output |
//! | `resume_hint` | how to go on, or to clean up, where the preparing of a job ends early |
//! | `reuse` | the output of a former job in place of a run |
//! | `local` | the interpreter and the node of this machine |
//! | `embedded` | a run in this process |
//! | `pipeline/` | a run of several steps |
//! | `fleet/` | a run on a fleet |

pub mod code_choice;
pub mod code_notes;
pub(crate) mod corrected;
pub(crate) mod embedded;
mod ended;
pub(crate) mod fleet;
pub mod local;
pub(crate) mod output_copy;
pub(crate) mod output_folder;
pub(crate) mod output_place;
pub mod pipeline;
mod resume;
pub mod resume_hint;
pub(crate) mod reuse;
pub(crate) mod run;
pub(crate) mod script_check;

pub use ended::Ended;
pub use output_place::check_unrun;
pub use resume::resume;
pub use run::{Sent, Start, note_settings, resubmit, submit, submit_text};
