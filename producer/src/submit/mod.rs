//! Running a job: what it is made of, where it runs, and what becomes of its output.
//!
//! | file | duty |
//! |---|---|
//! | `code_choice` | which code another start of a job runs |
//! | `code_notes` | what its author should know of the code that is packed |
//! | `script_check` | whether an interpreter can compile the script |
//! | `output_folder` | the folder that a job fills on this machine |
//! | `output_copy` | a copy of its output |
//! | `resume_hint` | how to go on, or to clean up, where the preparing of a job ends early |
//! | `local` | the interpreter and the node of this machine |
//! | `embedded` | a run in this process |
//! | `fleet/` | a run on a fleet |

pub(crate) mod code_choice;
pub(crate) mod code_notes;
pub(crate) mod embedded;
pub(crate) mod fleet;
pub(crate) mod local;
pub(crate) mod output_copy;
pub(crate) mod output_folder;
pub(crate) mod resume_hint;
pub(crate) mod script_check;
