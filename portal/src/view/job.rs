//! What a page says of a job, part by part: the same in the report and on the page that a server sends.

use super::errors::{ErrorCards, Served, cards};
use super::header::{Chip, Header};
use super::pictures::{Detail, pictures, running as running_now, slowest};
use super::settings::Settings;
use super::signals::signals;
use super::{Facts, nodes};
use crate::attention::{Attention, Severity, attention};
use crate::chart::{Cell, Figure, Table};
use crate::text::times::{duration, utc};
use crate::text::{count, counted, cut, percent, plain};

/// Why a page has no pictures, where a job has no statistics.
const NO_STATISTICS: &str = "There are no statistics of this job: it ended before any were written, or an older prs ran it. What follows is what its record and its logs say.";

/// The same while that may change.
const NOT_YET: &str =
    "There are no statistics of this job yet: they begin some seconds after its first node came.";

/// What a page says of a job.
#[derive(Debug)]
pub(crate) struct JobView<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) header: Header,
    pub(crate) attention: Vec<Line>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) errors: ErrorCards,
    pub(crate) slowest: Option<Table>,
    pub(crate) running: Option<Table>,
    pub(crate) nodes: Option<Table>,
    pub(crate) settings: Settings,
    pub(crate) starts: Option<Table>,
    pub(crate) steps: Vec<Step>,
    pub(crate) missing_statistics: String,
    pub(crate) next: Vec<(String, String)>,
    pub(crate) made: (String, String),
    /// What stands in front of the name of a log in a link to it; nothing where links to logs lead nowhere.
    pub(crate) logs: Option<String>,
    /// Whether a server sends the page, which has the others about the job as well.
    pub(crate) is_served: bool,
    /// Whether who looks may go on with it, which has ended.
    pub(crate) may_resume: bool,
}

/// A line of attention.
#[derive(Debug)]
pub(crate) struct Line {
    /// The family that it looks like.
    pub(crate) family: &'static str,
    pub(crate) word: &'static str,
    pub(crate) said: Attention,
    /// The address that has more, and what is there, where there is one.
    pub(crate) link: Option<(String, String)>,
    /// Since when it is so, for people and for programs; empty where nobody knows.
    pub(crate) since: (String, String),
}

/// A step of a pipeline.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) job_id: String,
    pub(crate) chip: Chip,
    pub(crate) items: String,
    pub(crate) seconds: String,
    pub(crate) reason: String,
    pub(crate) report: Option<String>,
}

impl<'a> JobView<'a> {
    /// What is known of the job, in so much detail; see [`Self::logs`].
    pub(crate) fn new(facts: &'a Facts, detail: Detail, logs: Option<String>) -> Self {
        let published = &facts.statistics;
        // Where links to logs lead to pages, those to mini-batches do.
        let below = logs.as_ref().filter(|logs| !logs.is_empty());
        let below = below.map(|_| format!("/jobs/{}/mini-batches", facts.job_id));
        let mut figures = pictures(facts, detail, below.as_deref());
        if let Some(below) = &below {
            let tables = figures.iter_mut().filter(|figure| figure.id == "plan");
            tables.filter_map(|figure| figure.table.as_mut()).for_each(|table| link_ranges(table, below));
        }
        let is_pipeline = !facts.steps.is_empty();
        let has_nodes_figure = figures.iter().any(|figure| figure.id == "nodes");
        let nodes = published.nodes.as_ref().filter(|nodes| !has_nodes_figure && !nodes.rows.is_empty());
        let slowest = published.summary.as_ref().and_then(|summary| slowest(summary, detail.rows.1));
        let slowest = slowest.map(|table| linked(table, below.as_deref()));
        let running = published.live.as_ref().filter(|_| !facts.state.is_final());
        let running = running.and_then(|live| running_now(live, facts.now_us));
        let running = running.map(|table| linked(table, below.as_deref()));
        let mut present: Vec<&'static str> = figures.iter().map(|figure| figure.id).collect();
        present.extend((!facts.errors.is_empty()).then_some("errors"));
        present.extend(running.as_ref().map(|_| "running"));
        present.extend(nodes.map(|_| "nodes"));
        Self {
            header: Header::new(facts),
            attention: {
                let page = below.as_ref().map(|_| facts.job_id.as_str());
                attention(&signals(facts)).into_iter().map(|said| line(said, &present, page)).collect()
            },
            errors: {
                let code = format!("/jobs/{}/code", facts.job_id);
                let served =
                    below.is_some().then_some(Served { code: &code, called: &facts.called, opened: None });
                cards(&facts.errors, facts.other_tries, detail.errors, detail.tracebacks, served)
            },
            slowest,
            running,
            nodes: nodes.map(|of| {
                let page = (0, detail.rows.0);
                let served = below.is_some().then_some(facts.job_id.as_str());
                nodes::table(of, &nodes::slow(of), facts.state.is_final(), None, page, served)
            }),
            settings: Settings::of(&facts.spec),
            starts: starts(facts),
            steps: facts.steps.iter().map(step).collect(),
            missing_statistics: match published {
                _ if is_pipeline || facts.reused.is_some() => String::new(),
                published if !published.lacking.is_empty() => published.lacking.clone(),
                published if published.is_empty() && !facts.state.is_final() => NOT_YET.to_owned(),
                published if published.is_empty() => NO_STATISTICS.to_owned(),
                _ => String::new(),
            },
            next: next(facts),
            made: utc(facts.now_us),
            figures,
            facts,
            is_served: below.is_some(),
            logs,
            may_resume: false,
        }
    }
}

/// The table with its first column, of mini-batches, as links to their pages.
fn linked(mut table: Table, below: Option<&str>) -> Table {
    for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
        if let (Cell::Text(text), Some(below)) = (&*cell, below) {
            *cell = Cell::Link(text.clone(), format!("{below}/{}", digits(text)));
        }
    }
    table
}

/// Makes links of ranges of mini-batches, `7` or `7 to 12`, to lists of those that failed in them.
fn link_ranges(table: &mut Table, below: &str) {
    for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
        if let Cell::Text(text) = &*cell {
            let (from, to) = text.split_once(" to ").unwrap_or((text, text));
            let address = format!("{below}?state=failed&index={}-{}", digits(from), digits(to));
            *cell = Cell::Link(text.clone(), address);
        }
    }
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// A sentence on the page of a job, which has these parts. Where a server sends the page of the job with this id, there are others to lead to.
fn line(said: Attention, present: &[&str], job_id: Option<&str>) -> Line {
    let (family, word) = match said.severity {
        Severity::Error => ("bad", "Error"),
        Severity::Warning => ("warn", "Warning"),
        Severity::Note => ("neutral", "Note"),
    };
    let names = [
        ("errors", "Errors"),
        ("nodes", "Nodes"),
        ("running", "Running"),
        ("shares", "Where the time goes"),
        ("durations", "Durations"),
    ];
    let part = names.into_iter().find(|(part, _)| *part == said.part);
    let of_part = |name: &str| (format!("#{}", said.part), name.to_owned());
    let link = match (job_id, &*said.path) {
        (Some(id), path) if !path.is_empty() => {
            let number = path.split_once('/').map(|(_, number)| number).unwrap_or_default();
            let name = match path {
                _ if path.starts_with("nodes/") => format!("Node {number}"),
                _ if path.starts_with("mini-batches/") => format!("Mini-batch {number}"),
                _ if path.starts_with("/fleet") => "Fleet".to_owned(),
                _ => part.map_or_else(|| "More".to_owned(), |(_, name)| name.to_owned()),
            };
            Some((said.link(id), name))
        }
        _ => part.filter(|(part, _)| present.contains(part)).map(|(_, name)| of_part(name)),
    };
    let since = said.since_us.map(utc);
    let said = Attention { text: plain(&said.text), ..said };
    Line { family, word, said, link, since: since.unwrap_or_default() }
}

pub(crate) fn step(step: &super::StepFact) -> Step {
    let (items, missing) = step.items;
    Step {
        name: step.name.clone(),
        job_id: step.job_id.clone(),
        chip: step
            .state
            .map_or(Chip { family: "neutral", word: "not run" }, |state| Chip::of(state, step.complete)),
        items: match (items, missing) {
            (0, _) => "\u{2013}".to_owned(),
            (items, 0) => count(items),
            (items, missing) => format!("{}, {} missing", count(items), count(missing)),
        },
        seconds: if step.state.is_some() { duration(step.seconds) } else { "\u{2013}".to_owned() },
        reason: cut(&step.reason, 300),
        report: step.report.clone().filter(|_| step.state.is_some()),
    }
}

/// What each start brought, where there were several.
fn starts(facts: &Facts) -> Option<Table> {
    if facts.starts.len() < 2 {
        return None;
    }
    let mut table = Table::new(
        "What each start of the job brought to the result",
        &["Start", "Code", "#Mini-batches", "#Part", "#Rows"],
    );
    let all: u64 = facts.starts.iter().map(|start| start.mini_batches).sum();
    for start in &facts.starts {
        table.rows.push(vec![
            start.start.to_string().into(),
            Cell::Code(start.code.clone()),
            count(start.mini_batches).into(),
            percent(start.mini_batches, all).into(),
            count(start.rows).into(),
        ]);
    }
    Some(table)
}

/// The commands that come next, and what each does.
fn next(facts: &Facts) -> Vec<(String, String)> {
    use prs_common::ledger::JobState;
    let job = &facts.called;
    let mut next = Vec::new();
    let mut add = |command: String, does: &str| next.push((command, does.to_owned()));
    if !facts.state.is_final() {
        add(format!("prs stream {job}"), "follows it to its end");
        add(format!("prs cancel {job}"), "ends it; what is done is kept");
        return next;
    }
    if !facts.errors.is_empty() {
        add(format!("prs errors {job}"), "prints tracebacks; with --items the items that failed");
    }
    let is_pipeline = !facts.steps.is_empty();
    if facts.mini_batches_missing > 0 && !is_pipeline {
        add(format!("prs try {job} --failed --pdb"), "runs the first that failed here, in a debugger");
        let again = counted(facts.mini_batches_missing, "mini-batch");
        add(
            format!("prs resume {job}"),
            &format!("runs {again} again, in this job, and gives the result of a clean run"),
        );
        add(format!("prs resume {job} --code new"), "the same with the code as it is now");
    } else if facts.state != JobState::Completed {
        let done = counted(facts.mini_batches.1, "mini-batch");
        add(format!("prs resume {job}"), &format!("runs what is missing, in this job; {done} done already"));
    }
    if facts.state == JobState::Completed {
        add(format!("prs result {job} --output-path FOLDER"), "copies the result");
    }
    if !is_pipeline {
        add(format!("prs resubmit {job}"), "runs everything again, as a new job");
    }
    add(format!("prs logs {job}"), "lists the logs");
    next
}
