//! What `-o json` prints: the records that programs read, in one form for all commands.
//!
//! Every object that is printed has the key `schema`. Within one number keys are only added; who reads them leaves aside
//! what it does not know. A key is always there: null says that something is not known, or that there is none.
//! `docs/schema` has the form of each as a JSON Schema, made from these types.
//!
//! | file | records |
//! |---|---|
//! | `assets` | what is registered |
//! | `job` | a job, as every command shows it |
//! | `errors` | the errors of a job and its failed items |
//! | `lists` | jobs, logs, workers, what was removed, what `gc` found |
//! | `endpoints` | endpoints, deployments, and jobs in Azure's shape |
//! | `shown` | the settings of a job |
//! | `tokens` | tokens |
//! | `versioned` | the number of their form |

mod assets;
mod endpoints;
mod errors;
mod job;
mod lists;
#[cfg(feature = "schema")]
pub mod schema;
mod shown;
mod tokens;
mod versioned;

pub use assets::{Asset, AssetList, Data, DataList, Registered, RegisteredName};
pub use endpoints::{
    AzureJob, AzureJobs, Deployment, Deployments, Downloaded, Endpoint, Endpoints, scoring_uri,
};
pub(crate) use errors::FailedTry;
pub use errors::{DistinctError, ErrorGroupRecord, Errors, FailedItems, FailedMiniBatch, Item};
pub use job::Job;
pub use lists::{
    Collected, ExpiredJob, Jobs, Leftover, Log, LogEntry, Logs, Removed, RemovedJob, ReportMade, Served,
    Submitted, Workers,
};
pub use shown::Shown;
pub(crate) use shown::Step;
pub use tokens::{CreatedToken, Token, Tokens};
pub use versioned::{SCHEMA, Versioned};
