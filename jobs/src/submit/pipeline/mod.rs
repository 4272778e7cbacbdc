//! Running a pipeline: its steps are jobs, one after what it needs.
//!
//! | file | duty |
//! |---|---|
//! | `code` | the code of the steps, packed before anything is stored |
//! | `corrected` | inputs of steps that were corrected before the pipeline goes on |
//! | `embedded` | in this process, one step after the other |
//! | `fleet` | on a fleet: handing it in, waiting for it, ending it |
//! | `grouped` | a new job whose rows are put together in steps, in this process: its inputs, and former output |
//! | `new_code` | which code runs the steps of a pipeline that goes on |
//! | `next_start` | other settings and code for a job whose rows are put together in steps |
//! | `run` | a pipeline that runs anew, or goes on: what becomes of it |
//! | `places` | outputs of steps that have places of their own |

pub mod code;
mod corrected;
pub mod embedded;
pub(crate) mod fleet;
pub(crate) mod grouped;
mod new_code;
pub(crate) mod next_start;
pub(crate) mod places;
pub(crate) mod run;

use std::sync::Arc;

use prs_common::job::LoadedPipeline;
use prs_common::storage::Storage;

use self::code::StepCodes;

pub use self::run::note_all_settings;

/// What a new pipeline is made of.
pub(crate) struct NewPipeline {
    /// Its id.
    pub(crate) id: String,
    /// Whether its user chose the id, which another job may have then.
    pub(crate) is_named: bool,
    /// Its settings and steps.
    pub(crate) loaded: LoadedPipeline,
    /// The code of the steps.
    pub(crate) codes: StepCodes,
    /// Where the listings of the inputs lie of the former job whose settings it has; nowhere where it has its own.
    pub(crate) listings: Vec<Arc<dyn Storage>>,
}
