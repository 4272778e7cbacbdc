//! The pages that a server sends: what stands around them, and each of them. They work without a script; the script keeps them new.

mod admin;
mod code;
mod compare;
mod components;
mod endpoints;
mod errors;
mod fleet;
mod graph;
mod invoke;
mod job;
mod jobs;
mod listed;
mod logs;
mod mini_batch;
mod mini_batches;
mod nodes;
mod output;
mod registry;
mod selected;
mod servers;
mod settings;
mod simple;
mod steps;
mod submit;
mod tabs;

pub use admin::{AuditPage, AuditRow, GivenToken, TokenRow, TokensPage};
pub use code::{CodePage, CodeRow};
pub use compare::{ComparePage, ComparedFile, ComparedJob};
pub use components::ComponentsPage;
pub use endpoints::{CallsOf, DeploymentRow, EndpointEditPage, EndpointPage, EndpointRow, EndpointsPage};
pub use errors::{CARDS, ErrorPage, ErrorsPage, ITEMS, ORDERS, sort, traceback_html};
pub use fleet::{FleetPage, TargetRow, WorkerFilter, WorkerList, WorkerPage, WorkerRow};
pub use graph::GraphPage;
pub use invoke::{Asked, AskedInput, GivenCall, InvokePage};
pub use job::{Due, JobPage};
pub use jobs::{JobRow, JobsPage, StateCount};
pub use listed::{running_table, slow_table, waiting_table};
pub use logs::{FollowedLogs, LogEntry, LogFolder, LogHit, LogLines, LogPage, LogRows, LogScope, LogSearch};
pub use mini_batch::{MiniBatchPage, PrintedText, RunFact, TryFact};
pub use mini_batches::{Choice, MiniBatchesPage, TryLine};
pub use nodes::{HostNode, HostPictures, HostSeries, NodePage, NodeProcess, NodesPage, OfHosts, hosts_html};
pub use output::{OutputFile, OutputPage, PictureFile, Preview, PreviewPart};
pub use registry::{DeletePage, NameRow, RegistryPage, VersionPage, VersionRow, VersionsPage};
pub use selected::{SelectedPage, SelectedRow};
pub use servers::{ServerRow, ServersPage};
pub use settings::SettingsPage;
pub(crate) use simple::KEYS;
pub use simple::{
    ApiPage, ApiRoute, ConfirmPage, DisplayPage, HelpPage, LoginPage, ProblemPage, ProblemsPage, RemovePage,
};
pub use steps::StepsPage;
pub use submit::{AgainPage, Planned, Refused, SubmitPage};
pub use tabs::{JobKind, Tab, TabCounts, Tabs};

use prs_common::ledger::JobState;

use super::header::Chip;

/// What stands around every page.
#[derive(Debug, Clone, Default)]
pub struct Chrome {
    /// Where the jobs are, in words.
    pub place: String,
    /// Address of the stylesheet.
    pub css: String,
    /// Address of the script.
    pub js: String,
    /// Address of the picture in the tab.
    pub icon: String,
    /// The same with a mark for each family of states.
    pub icons: Vec<(&'static str, String)>,
    /// Who is logged in, where that can only be one; empty otherwise.
    pub user: String,
    /// Whether there is a fleet, with a page about it.
    pub has_fleet: bool,
    /// Whether everybody who reaches the server may do everything.
    pub is_open: bool,
}

impl Chrome {
    /// Address of the picture in the tab of a page about a job in this state.
    pub fn icon_of(&self, state: JobState, complete: bool) -> &str {
        let family = Chip::of(state, complete).family;
        self.icons.iter().find(|(known, _)| *known == family).map_or(&self.icon, |(_, icon)| icon)
    }
}
