//! The steps of a pipeline as a picture, and as a table.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::chart::{Graph, GraphStep};
use crate::view::Facts;
use crate::view::header::Chip;
use crate::view::job::{Step, step};

/// The page.
#[derive(Debug, Template)]
#[template(path = "site/graph.html", blocks = ["graph"])]
pub struct GraphPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    picture: Option<Graph>,
    rows: Vec<(Step, String)>,
    has_ended: bool,
}

impl<'a> GraphPage<'a> {
    /// The page about what is known of a job.
    pub fn new(facts: &'a Facts, chrome: &'a Chrome) -> Self {
        let of = |one: &crate::view::StepFact| {
            let chip = one
                .state
                .map_or(Chip { family: "neutral", word: "not begun" }, |state| Chip::of(state, one.complete));
            GraphStep {
                name: one.name.clone(),
                link: if one.state.is_some() { format!("/jobs/{}", one.job_id) } else { String::new() },
                state: (chip.family, chip.shape(), chip.word),
                needs: one.needs.clone(),
            }
        };
        let steps: Vec<GraphStep> = facts.steps.iter().map(of).collect();
        Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Graph),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            picture: Graph::new(&steps),
            rows: facts.steps.iter().map(|one| (step(one), one.needs.join(", "))).collect(),
            has_ended: facts.state.is_final(),
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// Picture and table alone, for a page that is kept new.
    pub fn part(&self) -> String {
        rendered(&self.as_graph())
    }
}
