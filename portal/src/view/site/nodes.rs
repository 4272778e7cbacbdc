//! The nodes of a job: a dot for each, and a table; and one of them, with what it did and what it used of its host.

use std::collections::BTreeMap;

use askama::Template;
use prs_common::ledger::{ProcessExit, ProcessView};
use prs_common::statistics::NodeRow;

use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::chart::{Cell, Figure, Line, LinePoint, Lines, SortLink, Table};
use crate::text::numbers::short;
use crate::text::times::{day_and_clock, duration_us, utc};
use crate::text::{bytes, count, percent};
use crate::view::header::Chip;
use crate::view::pictures::{Detail, activity_of, pictures};
use crate::view::{Facts, nodes};

/// Rows of the table, those that stand out first; the API lists all.
const MOST: usize = 50;
/// The picture of the nodes is wanted alone.
const DETAIL: Detail =
    Detail { rows: (0, 0), errors: 0, tracebacks: 0, ranges: 50, tables: false, pictures: true };

/// A figure of hosts over time.
#[derive(Debug, Clone, Default)]
pub struct HostSeries {
    /// What was measured.
    pub metric: &'static str,
    /// Of all hosts that were looked at.
    pub points: Vec<LinePoint>,
    /// How many these are, and how many there are.
    pub nodes: (usize, usize),
    /// Those with the most of it, the highest first.
    pub highest: Vec<HostNode>,
}

/// A host with much of what was measured.
#[derive(Debug, Clone, Default)]
pub struct HostNode {
    /// Its node.
    pub node_id: u32,
    /// When, and how much.
    pub points: Vec<LinePoint>,
}

/// Which pictures of hosts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPictures {
    /// Four: what was moved by disks and networks is one.
    Four,
    /// One of each figure.
    All,
}

impl HostPictures {
    /// What is measured for them.
    pub fn metrics(self) -> &'static [&'static str] {
        const ALL: [&str; 8] =
            ["cpu", "memory", "disk_read", "disk_write", "net_in", "net_out", "gpu", "gpu_memory"];
        match self {
            Self::Four => &ALL[..7],
            Self::All => &ALL,
        }
    }
}

/// The sum of these figures at each time.
fn sum(of: &[&HostSeries]) -> Vec<LinePoint> {
    let mut sums = BTreeMap::<u64, f64>::new();
    for point in of.iter().flat_map(|one| &one.points) {
        *sums.entry(point.at_us).or_default() += point.values[1];
    }
    sums.into_iter().map(|(at_us, sum)| LinePoint { at_us, values: [sum; 3] }).collect()
}

/// What disks and networks moved, in one picture.
fn of_disks_and_networks(series: &[HostSeries], whose: &str, to: &OfHosts<'_>) -> Option<Figure> {
    let named = |begins: &str| -> Vec<&HostSeries> {
        series.iter().filter(|one| one.metric.starts_with(begins)).collect()
    };
    let (disks, networks) = (named("disk_"), named("net_"));
    let all = sum(&[&disks[..], &networks].concat());
    let (disks, networks) = (sum(&disks), sum(&networks));
    let whose = format!("together, {whose}");
    let query = to.query(None);
    let line = |name, points| Line { name, query: &query, points };
    let beside = [line("disks", &disks[..]), line("networks", &networks)];
    let says = |value: f64| bytes(value.max(0.0) as u64);
    Lines::figure("disk-net", "Disks and networks", line(&whose, &all), ("", &beside), &to.open(), says)
}

/// Where the places of these pictures lead.
#[derive(Debug, Clone, Copy)]
pub struct OfHosts<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The node, where they are of one.
    pub node_id: Option<u32>,
}

impl OfHosts<'_> {
    fn open(&self) -> String {
        format!("/jobs/{}/mini-batches", self.job_id)
    }

    /// What an address of mini-batches filters by that ran on this node, or that of the page, or any.
    fn query(&self, node_id: Option<u32>) -> String {
        let node = node_id.or(self.node_id).map(|node| format!("&node={node}")).unwrap_or_default();
        format!("state=tries{node}")
    }
}

/// The pictures of what hosts were used for.
fn of_hosts(series: &[HostSeries], pictures: HostPictures, to: &OfHosts<'_>) -> Vec<Figure> {
    let whose = |of: &HostSeries| {
        let (looked_at, all) = of.nodes;
        if looked_at < all {
            format!("mean of {} of {} nodes", count(looked_at as u64), count(all as u64))
        } else {
            format!("mean of {}", crate::text::counted(all as u64, "node"))
        }
    };
    let figure = |of: &HostSeries| {
        let (id, title): (&'static str, _) = match of.metric {
            "cpu" => ("cpu", "CPU of the host"),
            "memory" => ("memory", "Memory of the host"),
            "disk_read" => ("disk-read", "Read from disks"),
            "disk_write" => ("disk-written", "Written to disks"),
            "net_in" => ("net-received", "Received from the network"),
            "net_out" => ("net-sent", "Sent to the network"),
            "gpu" => ("gpu", "GPU"),
            _ => ("gpu-memory", "Memory of GPUs"),
        };
        let is_share = of.metric.ends_with("cpu") || of.metric == "gpu";
        let says = |value: f64| {
            if is_share { format!("{}\u{202f}%", short(value)) } else { bytes(value.max(0.0) as u64) }
        };
        let names = of
            .highest
            .iter()
            .map(|one| (format!("node {}", one.node_id), to.query(Some(one.node_id)), &*one.points));
        let names: Vec<_> = names.collect();
        let highest: Vec<Line<'_>> =
            names.iter().map(|(name, query, points)| Line { name, query, points }).collect();
        let (whose, query) = (whose(of), to.query(None));
        let line = Line { name: &whose, query: &query, points: &of.points };
        Lines::figure(id, title, line, ("highest, ", &highest), &to.open(), says)
    };
    if pictures == HostPictures::All {
        return series.iter().filter_map(figure).collect();
    }
    let one = |metric: &str| series.iter().find(|one| one.metric == metric);
    let together = series.first().and_then(|first| of_disks_and_networks(series, &whose(first), to));
    let each =
        [one("cpu").and_then(figure), one("memory").and_then(figure), together, one("gpu").and_then(figure)];
    each.into_iter().flatten().collect()
}

/// The pictures of hosts, which a page fetches when they are wanted; `json` is the address of the same for programs.
pub fn hosts_html(json: &str, series: &[HostSeries], pictures: HostPictures, to: &OfHosts<'_>) -> String {
    rendered(&Hosts { json, figures: of_hosts(series, pictures, to), has_all: pictures == HostPictures::All })
}

/// The pictures of hosts.
#[derive(Debug, Template)]
#[template(path = "site/hosts.html")]
struct Hosts<'a> {
    json: &'a str,
    figures: Vec<Figure>,
    has_all: bool,
}

/// The tab of the nodes.
#[derive(Debug, Template)]
#[template(path = "site/nodes.html", blocks = ["list"])]
pub struct NodesPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    figure: Option<Figure>,
    table: Option<Table>,
    hosts: Option<String>,
    grows: bool,
    /// What the table is sorted by; nothing in the usual order.
    order: Option<&'a str>,
    /// The first row, and all that there are.
    from: (usize, usize),
}

impl<'a> NodesPage<'a> {
    /// The nodes of a job, from a row of the table on, in one of the orders that [`is_order`](Self::is_order) knows or the usual one; the
    /// pictures of their hosts where they were asked for.
    pub fn new(
        chrome: &'a Chrome,
        facts: &'a Facts,
        (order, from): (Option<&'a str>, usize),
        hosts: Option<String>,
    ) -> Self {
        let known = facts.statistics.nodes.as_ref().filter(|nodes| !nodes.rows.is_empty());
        let has_ended = facts.state.is_final();
        let page = (from, MOST);
        let job_id = &*facts.job_id;
        let heads = nodes::ORDERS.map(|(word, column)| {
            let sorted = match (order == Some(word), word.starts_with('-')) {
                (false, _) => "",
                (true, true) => "descending",
                (true, false) => "ascending",
            };
            (column, SortLink { sorted, link: format!("/jobs/{job_id}/nodes?sort={word}") })
        });
        let table = known.map(|of| {
            let table = nodes::table(of, &nodes::slow(of), has_ended, order, page, Some(job_id));
            table.sorted_by(heads.into())
        });
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
            hosts,
            grows: !has_ended,
            order,
            from: (from, known.map_or(0, |nodes| nodes.rows.len())),
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// What changes of its first page while the job runs.
    pub fn part(&self) -> String {
        rendered(&self.as_list())
    }

    /// Whether a word of an address says what the table is sorted by.
    pub fn is_order(word: &str) -> bool {
        nodes::ORDERS.iter().any(|(known, _)| *known == word)
    }

    /// Whether it is kept new: its first page in the usual order, while the job runs.
    fn is_live(&self) -> bool {
        self.grows && self.from.0 == 0 && self.order.is_none()
    }

    /// What the addresses of other pages of the table have before where they begin.
    fn sort(&self) -> String {
        self.order.map(|order| format!("sort={order}&")).unwrap_or_default()
    }

    /// Where the pages before and after this one begin.
    fn pages(&self) -> (Option<usize>, Option<usize>) {
        let (from, all) = self.from;
        let next = from.saturating_add(MOST);
        ((from > 0).then(|| from.saturating_sub(MOST)), (next < all).then_some(next))
    }
}

/// A process of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeProcess {
    /// Its name.
    pub name: String,
    /// Its logs, below `logs/`: what each is, and its path where there is one.
    pub logs: [(&'static str, Option<String>); 4],
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
    hosts: Option<String>,
    errors: Option<Table>,
    processes: Option<Table>,
    /// Whether it serves the job still, as far as is known.
    is_there: bool,
    may_drain: bool,
}

impl<'a> NodePage<'a> {
    /// The node with this id and these processes; nothing where the job has none. `may_drain` says whether who looks may ask its worker to
    /// leave.
    pub fn new(
        chrome: &'a Chrome,
        facts: &'a Facts,
        node_id: u32,
        processes: &[NodeProcess],
        hosts: Option<String>,
        may_drain: bool,
    ) -> Option<Self> {
        let nodes = facts.statistics.nodes.as_ref()?;
        let row = nodes.rows.iter().find(|row| row.of <= 1 && row.node_id == node_id)?;
        let state = nodes::node_state(row, nodes.written_us, facts.state.is_final());
        let is_there = matches!(state, "live" | "silent");
        let below = format!("/jobs/{}/mini-batches", facts.job_id);
        Some(Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Nodes),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            figures: activity_of(facts, node_id, &below).into_iter().collect(),
            hosts,
            errors: errors(facts, node_id),
            processes: of_processes(facts, row, processes),
            is_there,
            may_drain: may_drain && is_there && !row.instance.is_empty(),
            row,
            chip: nodes::chip(state),
        })
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// Its slots, and while it is there what they do.
    fn slots(&self) -> String {
        let row = self.row;
        if !self.is_there {
            return count(u64::from(row.slots));
        }
        let [busy, slots, processes, starting] =
            [row.busy, row.slots, row.processes, row.starting].map(|number| count(u64::from(number)));
        format!("{busy} of {slots} busy, {processes} processes up, {starting} of them in init()")
    }

    /// What is known of it, in pairs.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let row = self.row;
        let time = |us: u64| if us == 0 { "\u{2013}".to_owned() } else { duration_us(us) };
        let mut pairs = vec![
            ("Worker", row.worker.clone()),
            ("Host", if row.ip.is_empty() { row.host.clone() } else { format!("{} ({})", row.host, row.ip) }),
            ("Version", row.version.clone()),
            ("Slots", self.slots()),
            ("In hand", count(row.in_hand)),
            ("Tries", format!("{}, {} failed", count(row.tries), count(row.failed_tries))),
            ("Failures of init()", count(u64::from(row.init_failures))),
            ("It cannot go on", row.fatal.clone()),
            ("Items", count(row.items)),
            ("run()", format!("{} half of them, {} 95 of 100", time(row.median_us), time(row.p95_us))),
            ("CPU of run()", percent(row.cpu_us.min(row.run_us), row.run_us)),
            ("Clock", format!("{} ms ahead", row.clock_us / 1_000)),
        ];
        pairs.retain(|(_, text)| !text.is_empty());
        pairs
    }

    /// When it was heard of last.
    fn heard(&self) -> Option<(String, String)> {
        (self.row.heard_us > 0).then(|| utc(self.row.heard_us))
    }
}

/// How a process ended, in words.
fn ended(exit: &ProcessExit) -> Cell {
    let text = match (&*exit.killed_for, exit.returncode) {
        ("run_timeout", _) => "killed: run() took too long".to_owned(),
        ("load_timeout", _) => "killed: its data took too long".to_owned(),
        ("init_timeout", _) => "killed: init() took too long".to_owned(),
        ("memory", _) => "killed: memory ran out".to_owned(),
        ("protocol", _) => "killed: it broke the protocol".to_owned(),
        ("init_failed", _) => "init() or the import failed".to_owned(),
        ("replaced", _) => return Cell::Text("replaced after a failure".to_owned()),
        ("used_up", _) => return Cell::Text("had what the job allows one".to_owned()),
        ("superseded", _) => return Cell::Text("another try was faster".to_owned()),
        ("not_needed", _) => return Cell::Text("not needed any more".to_owned()),
        ("", 0) => return Cell::Text("in order".to_owned()),
        ("", code @ ..0) => format!("killed by signal {}", code.unsigned_abs()),
        ("", code) => format!("by itself, returncode {code}"),
        (other, code) => format!("{other}, returncode {code}"),
    };
    Cell::Bad(text)
}

/// The processes of a node, with what each runs as far as that runs long, and its logs.
fn of_processes(facts: &Facts, row: &NodeRow, processes: &[NodeProcess]) -> Option<Table> {
    let may_run = !facts.state.is_final();
    let runs: &[_] = if may_run { &["Runs longest"] } else { &[] };
    let of_each = ["Process", "#PID", "#Tries", "#Failed", "Started", "Ended", "How"];
    let logs = ["Standard output", "Standard error", "Mini-batches", "Errors"];
    let mut table = Table::new("Processes of this node", &[&of_each[..], runs, &logs].concat());
    let none = || Cell::Text("\u{2013}".to_owned());
    let now_us = facts.statistics.nodes.as_ref().map_or(0, |nodes| nodes.written_us);
    for one in processes {
        let of_it =
            |number: Option<u32>| number.is_some_and(|number| format!("process{number:03}") == one.name);
        let told = row.each_process.iter().find(|told| of_it(Some(told.number)));
        let number = |of: fn(&ProcessView) -> u64| told.map_or_else(none, |told| count(of(told)).into());
        let exit = told.and_then(|told| told.exit.as_ref());
        let mut cells = vec![
            one.name.clone().into(),
            told.map_or_else(none, |told| told.pid.to_string().into()),
            number(|told| told.tries),
            number(|told| told.failed_tries),
            told.map_or_else(none, |told| Cell::time(told.started_us, day_and_clock)),
            exit.map_or_else(none, |exit| Cell::time(exit.at_us, day_and_clock)),
            exit.map_or_else(none, ended),
        ];
        if may_run {
            let runs = row.longest.iter().find(|runs| of_it(runs.process));
            cells.push(runs.map_or_else(none, |runs| {
                let long = duration_us(now_us.saturating_sub(runs.since_us));
                let text = format!("mini-batch {} for {long}", count(runs.index));
                Cell::Link(text, format!("/jobs/{}/mini-batches/{}", facts.job_id, runs.index))
            }));
        }
        cells.extend(one.logs.iter().map(|(name, path)| match path {
            Some(path) => Cell::Link((*name).to_owned(), format!("/jobs/{}/logs/{path}", facts.job_id)),
            None => none(),
        }));
        table.rows.push(cells);
    }
    (!table.rows.is_empty()).then(|| table.cut(100, "processes"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_hosts_are_four_or_one_of_each_figure() {
        let noon = 1_763_726_400_000_000;
        let point = |second: u64| LinePoint { at_us: noon + second * 1_000_000, values: [1.0, 2.0, 3.0] };
        let points = vec![point(0), point(10)];
        let highest = vec![HostNode { node_id: 17, points: points.clone() }];
        let series: Vec<HostSeries> = HostPictures::All
            .metrics()
            .iter()
            .map(|metric| HostSeries {
                metric,
                points: points.clone(),
                nodes: (2, 2),
                highest: highest.clone(),
            })
            .collect();
        let to = OfHosts { job_id: "j", node_id: None };
        let all = of_hosts(&series, HostPictures::All, &to);
        assert_eq!(all.len(), 8);
        let walk = all[0].walk.as_ref().unwrap();
        assert_eq!(walk.open, "/jobs/j/mini-batches");
        let queries: Vec<&str> = walk.rows.iter().map(|(_, query, _)| &**query).collect();
        assert_eq!(queries, ["state=tries", "state=tries&node=17"], "Enter leads to what ran there");
        let four = of_hosts(&series, HostPictures::Four, &OfHosts { node_id: Some(3), ..to });
        let ids: Vec<&str> = four.iter().map(|figure| figure.id).collect();
        assert_eq!(ids, ["cpu", "memory", "disk-net", "gpu"]);
        assert!(four[2].sentence.starts_with("8\u{202f}B on average"), "{}", four[2].sentence);
        let rows = &four[2].walk.as_ref().unwrap().rows;
        let names: Vec<&str> = rows.iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["together, mean of 2 nodes", "disks", "networks"]);
        assert!(rows.iter().all(|(_, query, _)| query == "state=tries&node=3"), "{rows:?}");
        assert!(of_hosts(&[], HostPictures::Four, &to).is_empty());
    }
}
