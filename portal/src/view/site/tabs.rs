//! The tabs of a job, with how many errors and nodes there are to look at.

use crate::text::count;
use crate::view::{Facts, Published};

/// The parts of a job that have a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// How it stands.
    Overview,
    /// How its steps hang together; of pipelines alone.
    Graph,
    /// What failed, and why.
    Errors,
    /// Its mini-batches; of pipelines the steps have them.
    MiniBatches,
    /// The nodes that served it; of pipelines the steps have them.
    Nodes,
    /// What it and its processes wrote.
    Logs,
    /// What it brought.
    Output,
    /// Its settings, and where each comes from.
    Settings,
}

impl Tab {
    const ALL: [Self; 8] = [
        Self::Overview,
        Self::Graph,
        Self::Errors,
        Self::MiniBatches,
        Self::Nodes,
        Self::Logs,
        Self::Output,
        Self::Settings,
    ];

    /// Whether a job of this kind has it.
    fn is_of(self, kind: JobKind) -> bool {
        match self {
            Self::Graph => kind != JobKind::Single,
            Self::MiniBatches | Self::Nodes => kind != JobKind::Pipeline,
            _ => true,
        }
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Graph => "Graph",
            Self::Errors => "Errors",
            Self::MiniBatches => "Mini-batches",
            Self::Nodes => "Nodes",
            Self::Logs => "Logs",
            Self::Output => "Output",
            Self::Settings => "Settings",
        }
    }

    /// Its address, below that of the job.
    pub fn address(self) -> &'static str {
        match self {
            Self::Overview => "",
            Self::Graph => "/graph",
            Self::Errors => "/errors",
            Self::MiniBatches => "/mini-batches",
            Self::Nodes => "/nodes",
            Self::Logs => "/logs",
            Self::Output => "/output",
            Self::Settings => "/settings",
        }
    }
}

/// What a job consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JobKind {
    /// Mini-batches.
    #[default]
    Single,
    /// Mini-batches, and steps that prepare them.
    Prepared,
    /// Steps, which have the mini-batches.
    Pipeline,
}

impl JobKind {
    /// The kind of a job that has steps, one of which may be the job itself.
    pub fn new(has_steps: bool, has_main_step: bool) -> Self {
        match (has_steps, has_main_step) {
            (false, _) => Self::Single,
            (true, true) => Self::Prepared,
            (true, false) => Self::Pipeline,
        }
    }
}

/// What there is to count of a job that its tabs lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TabCounts {
    /// What it consists of.
    pub kind: JobKind,
    /// Distinct errors.
    pub errors: u64,
    /// Nodes that serve it, and that did.
    pub nodes: u64,
}

impl TabCounts {
    /// The counts of a job with so many distinct errors.
    pub fn new(kind: JobKind, errors: u64, published: &Published) -> Self {
        let rows = published.nodes.iter().flat_map(|nodes| &nodes.rows);
        Self { kind, errors, nodes: rows.map(|row| row.of.max(1)).sum() }
    }

    /// The counts of a job of which everything is known.
    pub(crate) fn of(facts: &Facts) -> Self {
        let kind = JobKind::new(!facts.steps.is_empty(), facts.has_main_step);
        Self::new(kind, facts.errors.len() as u64, &facts.statistics)
    }

    /// The texts of the counts, by the names of the parts of the page that have them; empty where there is nothing to count.
    pub(crate) fn parts(self) -> [(&'static str, String); 2] {
        let told = |number: u64| if number == 0 { String::new() } else { count(number) };
        [("tab-errors", told(self.errors)), ("tab-nodes", told(self.nodes))]
    }

    fn part(self, tab: Tab) -> Option<(&'static str, String)> {
        let [errors, nodes] = self.parts();
        match tab {
            Tab::Errors => Some(errors),
            Tab::Nodes => Some(nodes),
            _ => None,
        }
    }
}

/// The tabs as a page has them.
#[derive(Debug, Clone, Copy)]
pub struct Tabs<'a> {
    /// Id of the job.
    pub job_id: &'a str,
    /// The page.
    pub tab: Tab,
    /// What there is to count.
    pub counts: TabCounts,
}

/// A tab as the template has it.
#[derive(Debug)]
pub(crate) struct TabLink {
    pub(crate) address: &'static str,
    pub(crate) name: &'static str,
    pub(crate) is_current: bool,
    /// The part of the page that has its count, and the count.
    pub(crate) part: Option<(&'static str, String)>,
}

impl<'a> Tabs<'a> {
    /// The tabs of a job of which everything is known.
    pub(crate) fn of(facts: &'a Facts, tab: Tab) -> Self {
        Self { job_id: &facts.job_id, tab, counts: TabCounts::of(facts) }
    }

    pub(crate) fn links(&self) -> Vec<TabLink> {
        // The address of a page that other kinds of jobs have leads somewhere all the same.
        let is_shown = |tab: &Tab| tab.is_of(self.counts.kind) || *tab == self.tab;
        let link = |tab: Tab| TabLink {
            address: tab.address(),
            name: tab.name(),
            is_current: tab == self.tab,
            part: self.counts.part(tab),
        };
        Tab::ALL.into_iter().filter(is_shown).map(link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tab: Tab, counts: TabCounts) -> Vec<String> {
        let link = |link: TabLink| {
            let count = link.part.map(|(_, count)| count).unwrap_or_default();
            format!("{}{}{count}", if link.is_current { "*" } else { "" }, link.name)
        };
        Tabs { job_id: "j", tab, counts }.links().into_iter().map(link).collect()
    }

    #[test]
    fn tabs_say_how_much_there_is() {
        let counts = TabCounts { errors: 3, nodes: 498, ..TabCounts::default() };
        let all = ["*Overview", "Errors3", "Mini-batches", "Nodes498", "Logs", "Output", "Settings"];
        assert_eq!(shown(Tab::Overview, counts), all);
        let none = ["Overview", "Errors", "*Mini-batches", "Nodes", "Logs", "Output", "Settings"];
        assert_eq!(shown(Tab::MiniBatches, TabCounts::default()), none);
    }

    #[test]
    fn a_pipeline_offers_what_it_has() {
        let counts = |kind| TabCounts { kind, ..TabCounts::default() };
        let pipeline = counts(JobKind::new(true, false));
        let all = ["Overview", "*Graph", "Errors", "Logs", "Output", "Settings"];
        assert_eq!(shown(Tab::Graph, pipeline), all);
        assert_eq!(shown(Tab::Nodes, pipeline)[3], "*Nodes");
        assert_eq!(shown(Tab::Output, counts(JobKind::new(true, true))).len(), Tab::ALL.len());
    }

    #[test]
    fn merged_rows_count_as_the_nodes_that_they_stand_for() {
        use prs_common::statistics::{NodeRow, Nodes};
        let row = |of| NodeRow { of, ..NodeRow::default() };
        let nodes = Some(Nodes { rows: vec![row(1), row(0), row(7)], written_us: 0 });
        let counts = TabCounts::new(JobKind::Single, 0, &Published { nodes, ..Published::default() });
        assert_eq!(counts.nodes, 9);
    }
}
