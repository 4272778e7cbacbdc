//! The nodes of a job: a dot for each, and a table.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tab};
use crate::chart::{Figure, Table};
use crate::view::pictures::{Detail, pictures};
use crate::view::{Facts, nodes};

/// Rows of the table; the API lists all.
const MOST: usize = 500;
/// The picture of the nodes is wanted alone.
const DETAIL: Detail = Detail { rows: (0, 0), errors: 0, tracebacks: 0, tables: false };

/// The tab of the nodes.
#[derive(Debug, Template)]
#[template(path = "site/nodes.html")]
pub struct NodesPage<'a> {
    chrome: &'a Chrome,
    tab: Tab,
    job_id: &'a str,
    title: &'a str,
    figure: Option<Figure>,
    table: Option<Table>,
    grows: bool,
}

impl<'a> NodesPage<'a> {
    /// The nodes of a job.
    pub fn new(chrome: &'a Chrome, facts: &'a Facts) -> Self {
        let known = facts.statistics.nodes.as_ref().filter(|nodes| !nodes.rows.is_empty());
        let has_ended = facts.state.is_final();
        Self {
            chrome,
            tab: Tab::Nodes,
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            figure: pictures(facts, DETAIL)
                .into_iter()
                .find(|figure| figure.id == "nodes")
                .map(|figure| Figure { table: None, ..figure }),
            table: known.map(|of| nodes::table(of, &nodes::slow(of), has_ended, MOST)),
            grows: !has_ended,
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}
