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
#[cfg(feature = "site")]
mod site;
#[cfg(test)]
mod tests;

pub use errors::{ErrorFact, ErrorPlace, ErrorTimes, ErrorTry};
pub use facts::{Facts, FailedList, FleetFact, OutputFact, Published, StartFact, StepFact};
pub use header::Header;
pub use nodes::node_state;
pub use pictures::{LaneOrder, parts_of_picture};
pub use report::{MOST_BYTES, report};
pub use signals::{signals, signs};
#[cfg(feature = "site")]
pub use site::{
    AgainPage, ApiPage, ApiRoute, Asked, AskedInput, AuditPage, AuditRow, CARDS as ERROR_CARDS, CallsOf,
    Choice, Chrome, CodePage, CodeRow, ComparePage, ComparedFile, ComparedJob, ComponentsPage, ConfirmPage,
    DeletePage, DeploymentRow, DisplayPage, Due, EndpointEditPage, EndpointPage, EndpointRow, EndpointsPage,
    ErrorPage, ErrorsPage, FleetPage, FollowedLogs, GivenCall, GivenToken, GraphPage, HelpPage, HostNode,
    HostPictures, HostSeries, ITEMS as ERROR_ITEMS, InvokePage, JobKind, JobPage, JobRow, JobsPage, LogEntry,
    LogFolder, LogHit, LogLines, LogPage, LogRows, LogScope, LogSearch, LoginPage, MiniBatchPage,
    MiniBatchesPage, NameRow, NodePage, NodeProcess, NodesPage, ORDERS as ERROR_ORDERS, OfHosts, OutputFile,
    OutputPage, PictureFile, Planned, Preview, PreviewPart, PrintedText, ProblemPage, ProblemsPage, Refused,
    RegistryPage, RemovePage, RunFact, SelectedPage, SelectedRow, ServerRow, ServersPage, SettingsPage,
    StateCount, StepsPage, SubmitPage, Tab, TabCounts, Tabs, TargetRow, TokenRow, TokensPage, TryFact,
    TryLine, VersionPage, VersionRow, VersionsPage, WorkerFilter, WorkerList, WorkerPage, WorkerRow,
    hosts_html, running_table, slow_table, sort as sort_errors, traceback_html, waiting_table,
};
