//! The nodes of a job: a dot for each, and a table; and one of them, with what it did and what it used of its host.

use askama::Template;
use prs_common::statistics::{NodeRow, NodeState};

use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::chart::{Cell, Figure, LinePoint, Lines, Table};
use crate::text::numbers::short;
use crate::text::times::{day_and_clock, duration_us};
use crate::text::{bytes, count, percent};
use crate::view::header::Chip;
use crate::view::pictures::{Detail, activity_of, pictures};
use crate::view::{Facts, nodes};

/// Rows of the table, those that stand out first; the API lists all.
const MOST: usize = 50;
/// The picture of the nodes is wanted alone.
const DETAIL: Detail =
    Detail { rows: (0, 0), errors: 0, tracebacks: 0, ranges: 50, tables: false, pictures: true };

/// A figure of hosts over time: its name, and what was measured.
pub type HostSeries = (&'static str, Vec<LinePoint>);

/// The pictures of what hosts were used for.
fn of_hosts(series: &[HostSeries]) -> Vec<Figure> {
    let figure = |(metric, points): &HostSeries| {
        let (id, title): (&'static str, _) = match *metric {
            "cpu" => ("cpu", "CPU of the host"),
            "memory" => ("memory", "Memory of the host"),
            "disk_read" => ("disk-read", "Read from disks"),
            "disk_written" => ("disk-written", "Written to disks"),
            "net_received" => ("net-received", "Received from the network"),
            "net_sent" => ("net-sent", "Sent to the network"),
            "gpu" => ("gpu", "GPU"),
            _ => ("gpu-memory", "Memory of GPUs"),
        };
        let is_share = metric.ends_with("cpu") || *metric == "gpu";
        let says = |value: f64| {
            if is_share { format!("{}\u{202f}%", short(value)) } else { bytes(value.max(0.0) as u64) }
        };
        Lines::figure(id, title, points, says)
    };
    series.iter().filter_map(figure).collect()
}

/// Makes links to the pages of nodes of the first column.
pub(crate) fn link_nodes(table: &mut Table, job_id: &str) {
    for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
        if let Cell::Text(text) = &*cell
            && let Some(number) = text.strip_prefix("node ")
        {
            *cell = Cell::Link(text.clone(), format!("/jobs/{job_id}/nodes/{number}"));
        }
    }
}

/// The tab of the nodes.
#[derive(Debug, Template)]
#[template(path = "site/nodes.html")]
pub struct NodesPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    figure: Option<Figure>,
    table: Option<Table>,
    hosts: Vec<Figure>,
    grows: bool,
}

impl<'a> NodesPage<'a> {
    /// The nodes of a job, and what they used of their hosts.
    pub fn new(chrome: &'a Chrome, facts: &'a Facts, series: &[HostSeries]) -> Self {
        let known = facts.statistics.nodes.as_ref().filter(|nodes| !nodes.rows.is_empty());
        let has_ended = facts.state.is_final();
        let mut table = known.map(|of| nodes::table(of, &nodes::slow(of), has_ended, MOST));
        if let Some(table) = &mut table {
            link_nodes(table, &facts.job_id);
        }
        Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Nodes),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            figure: pictures(facts, DETAIL, Some(""))
                .into_iter()
                .find(|figure| figure.id == "nodes")
                .map(|figure| Figure { table: None, ..figure }),
            table,
            hosts: of_hosts(series),
            grows: !has_ended,
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// A node.
#[derive(Debug, Template)]
#[template(path = "site/node.html")]
pub struct NodePage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    row: &'a NodeRow,
    chip: Chip,
    figures: Vec<Figure>,
    hosts: Vec<Figure>,
    errors: Option<Table>,
}

impl<'a> NodePage<'a> {
    /// The node with this id; nothing where the job has none.
    pub fn new(chrome: &'a Chrome, facts: &'a Facts, node_id: u32, series: &[HostSeries]) -> Option<Self> {
        let rows = &facts.statistics.nodes.as_ref()?.rows;
        let row = rows.iter().find(|row| row.of <= 1 && row.node_id == node_id)?;
        let chip = match row.state {
            NodeState::Lost => Chip { family: "bad", word: "lost" },
            NodeState::Present if !facts.state.is_final() => Chip { family: "active", word: "serving" },
            NodeState::Present | NodeState::Left => Chip { family: "neutral", word: "left" },
        };
        let below = format!("/jobs/{}/mini-batches", facts.job_id);
        Some(Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Nodes),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            figures: activity_of(facts, node_id, &below).into_iter().collect(),
            hosts: of_hosts(series),
            errors: errors(facts, node_id),
            row,
            chip,
        })
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// What is known of it, in pairs.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let row = self.row;
        let time = |us: u64| if us == 0 { "\u{2013}".to_owned() } else { duration_us(us) };
        let mut pairs = vec![
            ("Worker", row.worker.clone()),
            ("Host", if row.ip.is_empty() { row.host.clone() } else { format!("{} ({})", row.host, row.ip) }),
            ("Version", row.version.clone()),
            (
                "Slots",
                format!(
                    "{}, {} processes up, {} of them in init()",
                    count(u64::from(row.slots)),
                    count(u64::from(row.processes)),
                    count(u64::from(row.starting))
                ),
            ),
            ("In hand", count(row.in_hand)),
            ("Tries", format!("{}, {} failed", count(row.tries), count(row.failed_tries))),
            ("Failures of init()", count(u64::from(row.init_failures))),
            ("Items", count(row.items)),
            ("run()", format!("{} half of them, {} 95 of 100", time(row.median_us), time(row.p95_us))),
            ("CPU of run()", percent(row.cpu_us.min(row.run_us), row.run_us)),
            ("Clock", format!("{} ms ahead", row.clock_us / 1_000)),
        ];
        if row.heard_us > 0 {
            pairs.push(("Heard of", format!("{} UTC", day_and_clock(row.heard_us))));
        }
        pairs.retain(|(_, text)| !text.is_empty());
        pairs
    }
}

/// The errors that tries of a node had.
fn errors(facts: &Facts, node_id: u32) -> Option<Table> {
    let mut table = Table::new("Errors of this node", &["Error", "#Tries here"]);
    for error in &facts.errors {
        let tries = error.times.iter().flat_map(|times| &times.nodes).find(|(node, _)| *node == node_id);
        if tries.is_none() && !error.nodes.contains(&node_id) {
            continue;
        }
        let text = crate::text::cut(&format!("{}: {}", error.category, error.message), 160);
        let text = text.lines().next().unwrap_or_default().to_owned();
        let cell = if error.group.is_empty() {
            Cell::Text(text)
        } else {
            Cell::Link(text, format!("/jobs/{}/errors/{}", facts.job_id, error.group))
        };
        let tries = tries.map_or_else(|| "\u{2013}".to_owned(), |(_, tries)| count(*tries));
        table.rows.push(vec![cell, tries.into()]);
    }
    (!table.rows.is_empty()).then(|| table.cut(50, "errors"))
}
