//! What a page says, from what is known of a job: pure functions, and the templates that they fill.

mod errors;
mod facts;
mod frames;
mod header;
mod job;
mod nodes;
mod pictures;
mod report;
mod settings;
mod signals;
mod site;
#[cfg(test)]
mod tests;

pub use errors::{ErrorFact, ErrorPlace, ErrorTimes};
pub use facts::{Facts, FailedList, OutputFact, Published, StartFact, StepFact};
pub use header::Header;
pub use report::{MOST_BYTES, report};
pub use signals::signals;
pub use site::{
    AgainPage, ApiPage, ApiRoute, AuditPage, AuditRow, Choice, Chrome, CodePage, CodeRow, ComparePage,
    ComparedFile, ComparedJob, ConfirmPage, DeletePage, DeploymentRow, EndpointEditPage, EndpointPage,
    EndpointRow, EndpointsPage, FleetPage, GivenCall, GivenToken, GraphPage, JobPage, JobRow, JobsPage,
    LogEntry, LogHit, LogLines, LogPage, LogSearch, LoginPage, MiniBatchPage, MiniBatchesPage, NameRow,
    NodesPage, OutputFile, OutputPage, Planned, Preview, PrintedText, ProblemPage, ProblemsPage, Refused,
    RegistryPage, RemovePage, SelectedPage, SelectedRow, ServerRow, ServersPage, SettingsPage, StateCount,
    SubmitPage, Tab, TargetRow, TokenRow, TokensPage, TryFact, TryLine, VersionPage, VersionRow,
    VersionsPage, WorkerFilter, WorkerList, WorkerPage, WorkerRow,
};
