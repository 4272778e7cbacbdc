//! What the orchestrator writes down while it watches over a job (spec section 5): its decisions, the coming and
//! going of nodes, the progress, the summaries.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use prs_common::ledger::{NodeReport, NodeView};
use prs_common::log_file::LogFile;
use prs_common::tree;

use super::error_list::{self, ErrorList};
use super::init_errors::InitErrors;
use super::lost_nodes::LostNodes;
use super::progress_overview::ProgressOverview;
use super::summaries::Summaries;
use super::write_whole;
use crate::job::errors::{ErrorGroup, ErrorSummary};
use crate::job::words;

/// `readme.txt`: what is where below `logs/`.
pub const README: &str = include_str!("readme.txt");

/// The orchestrator's logs of one job.
pub(crate) struct Journal {
    logs: PathBuf,
    master: LogFile,
    errors: LogFile,
    overview: ProgressOverview,
    /// For each node, whether its leaving is written down.
    left: BTreeMap<u32, bool>,
    init: InitErrors,
    lost: LostNodes,
    /// Of the first node that has fewer GPUs than processes.
    gpu_shortage: Option<String>,
}

impl Journal {
    /// Begins to write below `logs`.
    pub(crate) fn begin(logs: &Path) -> io::Result<Self> {
        tree::make_folders(logs.join("sys/error"))?;
        tree::write(logs.join("readme.txt"), README)?;
        Ok(Self {
            master: LogFile::new(logs.join("sys/master_role.txt")),
            errors: LogFile::new(logs.join("sys/error/orchestrator.txt")),
            overview: ProgressOverview::new(logs.to_owned()),
            left: BTreeMap::new(),
            init: InitErrors::default(),
            lost: LostNodes::default(),
            gpu_shortage: None,
            logs: logs.to_owned(),
        })
    }

    /// Something the orchestrator saw or decided.
    pub(crate) fn decision(&self, text: impl Display) {
        self.master.line(text);
    }

    /// An error of prs itself.
    pub(crate) fn error(&self, text: impl Display) {
        self.errors.line(text);
    }

    /// A line of the progress overview.
    pub(crate) fn progress(&mut self, text: &str) {
        self.overview.line(text);
    }

    /// Which nodes came and went since the last call.
    pub(crate) fn nodes(&mut self, nodes: &[NodeView]) {
        for node in nodes {
            self.init.add(node);
            self.lost.add(node);
            let info = &node.info;
            if self.gpu_shortage.is_none() {
                self.gpu_shortage = words::gpu_shortage(info);
            }
            let left = self.left.entry(node.node_id).or_insert_with(|| {
                self.master.line(format_args!(
                    "node {} joined: {} at {}, {} processes",
                    node.node_id, info.worker, info.ip, info.slots
                ));
                false
            });
            if node.left && !*left {
                let why = match &node.report {
                    report if report.gave_up => ": init() failed too often".to_owned(),
                    NodeReport { fatal: Some(reason), .. } => {
                        format!(": it cannot go on: {}", reason.lines().next().unwrap_or_default())
                    }
                    _ => String::new(),
                };
                self.master.line(format_args!("node {} left{why}", node.node_id));
            } else if !node.left && *left {
                self.master.line(format_args!("node {} is back", node.node_id));
            }
            *left = node.left;
        }
    }

    /// How many processes of a node saw no GPU, where it has some.
    pub(crate) fn gpu_shortage(&self) -> Option<String> {
        self.gpu_shortage.clone()
    }

    /// The distinct failures of `init()`.
    pub(crate) fn init_errors(&self) -> Vec<ErrorGroup> {
        self.init.groups()
    }

    /// The errors of nodes and their processes that are of no try.
    pub(crate) fn errors_of_nodes(&self) -> Vec<ErrorGroup> {
        self.init.groups().into_iter().chain(self.lost.group()).collect()
    }

    /// Writes the summaries of errors, processes and nodes anew.
    pub(crate) fn summaries(&self, work: &Path, errors: &ErrorSummary, summaries: &Summaries) {
        let errors = ErrorList::new(errors, self.errors_of_nodes());
        let json = serde_json::to_string_pretty(&errors).expect("a list holds only plain values");
        let files = [
            ("job_error.txt", errors.text()),
            ("user/error.txt", errors.text()),
            (error_list::NAME, json),
            ("sys/job_report/process_summary.csv", summaries.by_process()),
            ("sys/job_report/node_summary.csv", summaries.by_node()),
        ];
        for (name, text) in files {
            let path = self.logs.join(name);
            if let Err(error) = write_whole(work, &path, text) {
                tracing::warn!(path = %path.display(), %error, "a report is not up to date");
            }
        }
    }
}
