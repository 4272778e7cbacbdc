//! The calls on jobs, for the command line and for a server. They know no command line and no terminal: a call
//! takes plain values, gives an answer or a [`Failure`], and says what else there is to know to its [`Caller`].
//!
//! | to | call |
//! |---|---|
//! | run a job file, or the text of one; run a former job anew, go on with one | [`submit::submit`], [`submit::submit_text`], [`submit::resubmit`], [`submit::resume`] |
//! | find a job by what people call it | [`homes::naming::resolve`], [`homes::find`] |
//! | see how it stands | [`look`](homes::Seen) at its [`Home`](homes::Home), then [`records::Job::seen`] |
//! | end it, wait for its end | `cancel` and `until_ended` of [`homes::JobHome`] |
//! | see what needs a person about it, and what it does | [`attention::attention`], [`phase::phase`] |
//! | change what people say of it | [`update::update`] |
//! | list jobs | [`list::list`] |
//! | read the code that it ran | [`code::files`], [`code::file`], [`code::around`] |
//! | read its settings, logs, errors | [`show::show`], [`mod@logs`], [`errors::errors`], [`errors::failed_mini_batches`], [`error_groups::error_group`] |
//! | see what it did over time, its nodes and their hosts | [`statistics::published`], [`statistics::nodes`], [`statistics::perf`] |
//! | find mini-batches and tries, and what they printed | [`mini_batches::list`], [`mini_batches::known`] |
//! | see two of them beside each other | [`compare::compare`] |
//! | see the rows of a file of its output | [`preview::preview`] |
//! | look at it again and again, with few calls | [`looks::Looks`] |
//! | get its result, a page about it | [`result::result`], [`download::outputs`], [`report::page`] |
//! | register data, models, environments and components; see who uses them | [`mod@assets`] |
//! | take files that are sent before what needs them | [`blobs::Blobs`] |
//! | call endpoints, create and change them and their deployments | [`mod@endpoints`] |
//! | keep a list of all jobs in memory | [`index::IndexCopy`], and one program [`index::Keeper`] |
//! | see what the targets of a fleet want and have, and its workers | [`fleet::targets`], [`fleet::workers`] |
//! | see the servers behind the calls | [`servers::Servers`] |
//! | take jobs in for a server, which may be killed and asked again | [`intake::Desk`], [`idempotency::Requests`] |
//! | note who changed what at a server, and read it | [`audit::Audit`], [`audit::list`] |
//! | make tokens, and see who shows one | [`tokens::Tokens`] |
//! | remove jobs | [`remove::named`] or [`remove::described`], [`remove::weigh`], [`remove::remove`] |
//!
//! Its folders and files, from the bottom up: `failure`, `names`, `paths`, `standing`, `interrupts`, `caller`, `homes`,
//! `blobs`, `audit`, `tokens`, `records`, `submit`, `assets`, `endpoints`, `list`, `show`, `errors`, `logs`, `result`, `download`,
//! `statistics`, `attention`, `looks`, `report`, `remove`, `update`, `serving`; each uses those before it alone. `serving` has the
//! calls of the server alone, and is there with the feature `serve`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]
// Futures of a call hold those of the clients of S3, which are deep.
#![recursion_limit = "256"]
#![cfg_attr(not(feature = "serve"), allow(dead_code, unused_imports, reason = "a server calls more"))]

pub mod assets;
pub mod attention;
pub mod audit;
pub mod blobs;
mod caller;
pub mod download;
pub mod endpoints;
pub mod errors;
mod failure;
pub mod homes;
mod interrupts;
pub mod list;
pub mod logs;
pub mod looks;
pub mod names;
pub mod paths;
pub mod records;
pub mod remove;
pub mod report;
pub mod result;
#[cfg(feature = "serve")]
mod serving;
pub mod show;
pub mod standing;
pub mod statistics;
pub mod submit;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod update;

pub use caller::{Caller, JobView, Unattended, Uploads};
pub use failure::{Failure, FailureKind, OutputAway, OutputExists, ServerFault};
pub use homes::Whereabouts;
pub use interrupts::{Interrupt, Interrupts, Uninterrupted};
#[cfg(feature = "serve")]
pub use serving::{
    code, compare, error_groups, fleet, idempotency, index, intake, mini_batches, phase, pictures, preview,
    servers,
};
