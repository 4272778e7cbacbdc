//! What a pipeline has by its steps alone: where these have it.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::view::Facts;
use crate::view::job::{Step, step};

/// The steps of a pipeline, each with a link to that tab of its own.
#[derive(Debug, Template)]
#[template(path = "site/steps.html")]
pub struct StepsPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    title: &'a str,
    rows: Vec<Step>,
}

impl<'a> StepsPage<'a> {
    /// The page of a pipeline in the place of its `tab`.
    pub fn new(chrome: &'a Chrome, facts: &'a Facts, tab: Tab) -> Self {
        let below = |mut row: Step| {
            row.report = row.report.map(|_| format!("/jobs/{}{}", row.job_id, tab.address()));
            row
        };
        Self {
            chrome,
            tabs: Tabs::of(facts, tab),
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            rows: facts.steps.iter().map(step).map(below).collect(),
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn what(&self) -> String {
        self.tabs.tab.name().to_lowercase()
    }
}
