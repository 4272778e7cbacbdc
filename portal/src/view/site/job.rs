//! The page of a job, and what stands above each of its tabs.

use askama::Template;

use super::{Chrome, Tab, Tabs};
use crate::chart::Figure;
use crate::view::Facts;
use crate::view::job::JobView;
use crate::view::pictures::{Detail, IDS, LaneOrder, sorted_activity};

/// As much as a page shows: lists of any length have pages of their own.
const DETAIL: Detail =
    Detail { rows: (20, 10), errors: 10, tracebacks: 2_000, ranges: 20, tables: true, pictures: true };

/// The picture of activity.
const ACTIVITY: &str = "activity";

/// What of the page of a job that runs is made anew at a look: numbers are each time, pictures and what follows from them every other time,
/// the lists of errors and nodes every fourth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pictures: bool,
    /// Only together with pictures: what stands in one of them is in no list.
    lists: bool,
}

impl Due {
    /// Everything.
    pub const ALL: Self = Self { pictures: true, lists: true };

    /// At the look of this number, from 1 on, which has everything.
    pub fn at(look: u64) -> Self {
        Self { pictures: look % 2 == 1, lists: look % 4 == 1 }
    }

    /// Whether lists are.
    pub fn has_lists(self) -> bool {
        self.lists
    }
}

/// The overview of a job.
#[derive(Debug, Template)]
#[template(
    path = "site/job.html",
    blocks = ["head", "attention", "steps", "errors", "now", "slowest", "nodes", "result", "next"]
)]
pub struct JobPage<'a> {
    chrome: &'a Chrome,
    job: JobView<'a>,
    tabs: Tabs<'a>,
    job_id: &'a str,
    may_change: bool,
    may_submit: bool,
    /// Whether it was asked to end.
    is_canceling: bool,
    /// The order of the rows of activity, where that is not the usual one: the picture is that of the moment then.
    lanes: Option<LaneOrder>,
}

impl<'a> JobPage<'a> {
    /// The page about what is known of a job; `may_change` says whether who looks may cancel it, or remove it where it has ended,
    /// and `may_submit`, whether they may go on with it and run it again.
    pub fn new(facts: &'a Facts, chrome: &'a Chrome, may_change: bool, may_submit: bool) -> Self {
        Self::in_detail(facts, DETAIL, chrome, (may_change, may_submit))
    }

    /// The parts of the page that are due, by their names, and its title.
    pub fn parts_due(facts: &Facts, due: Due) -> (Vec<(&'static str, String)>, String) {
        let none = Detail { errors: 0, ..DETAIL };
        let detail = Detail { pictures: due.pictures, ..if due.lists { DETAIL } else { none } };
        let chrome = Chrome::default();
        let page = JobPage::in_detail(facts, detail, &chrome, (false, false));
        (page.parts(due), page.title())
    }

    fn in_detail(
        facts: &'a Facts,
        detail: Detail,
        chrome: &'a Chrome,
        (may_change, may_submit): (bool, bool),
    ) -> Self {
        let logs = Some(format!("/jobs/{}/logs/", facts.job_id));
        let mut job = JobView::new(facts, detail, logs);
        job.may_resume = may_submit && facts.state.is_final() && facts.steps.is_empty();
        for figure in &mut job.figures {
            figure.is_apart = !figure.is_open;
        }
        Self {
            chrome,
            job,
            tabs: Tabs::of(facts, Tab::Overview),
            job_id: &facts.job_id,
            may_change,
            may_submit,
            is_canceling: false,
            lanes: None,
        }
    }

    /// Whether a picture of a job is called so.
    pub fn is_picture(id: &str) -> bool {
        IDS.iter().any(|(known, _)| *known == id)
    }

    /// The page, which says so where the job was asked to end.
    #[must_use]
    pub fn canceling(self, is_canceling: bool) -> Self {
        Self { is_canceling: is_canceling && !self.has_ended(), ..self }
    }

    /// The page with the rows of activity in an order.
    #[must_use]
    pub fn with_lanes(mut self, facts: &Facts, order: Option<LaneOrder>) -> Self {
        let below = format!("/jobs/{}/mini-batches", self.job_id);
        let sorted = order.and_then(|order| sorted_activity(facts, order, &below));
        let shown = self.job.figures.iter_mut().find(|figure| figure.id == ACTIVITY);
        if let (Some(sorted), Some(shown)) = (sorted, shown) {
            *shown = Figure { is_apart: shown.is_apart, is_open: shown.is_open, ..sorted };
            self.lanes = order;
        }
        self
    }

    /// Whether a picture is made anew while the job runs.
    fn is_renewed(&self, id: &str) -> bool {
        id != ACTIVITY || self.lanes.is_none()
    }

    /// The orders of the rows of activity: the word of each in an address, what it says, and whether it is that of the page.
    fn lane_orders(&self) -> [(&'static str, &'static str, bool); 3] {
        let orders = [
            ("", "by node", None),
            ("slowest", "slowest first", Some(LaneOrder::Slowest)),
            ("failures", "most failures first", Some(LaneOrder::Failing)),
        ];
        orders.map(|(word, says, order)| (word, says, self.lanes == order))
    }

    /// The page with the tables of these pictures in it, open.
    #[must_use]
    pub fn with_tables(mut self, ids: &[&str]) -> Self {
        for figure in self.job.figures.iter_mut().filter(|figure| ids.contains(&figure.id)) {
            figure.is_open = true;
        }
        self
    }

    /// All of it.
    pub fn html(&self) -> String {
        super::simple::rendered(self)
    }

    /// A part by its name: as in `data-part` of the page, or `table-` and the name of a picture for its table. Nothing where the page has none
    /// of this name.
    pub fn part(&self, name: &str) -> Option<String> {
        if let Some(id) = name.strip_prefix("table-") {
            return self.figure(id)?.table.as_ref().map(super::simple::rendered);
        }
        self.parts(Due::ALL).into_iter().find(|(known, _)| *known == name).map(|(_, html)| html)
    }

    fn figure(&self, id: &str) -> Option<&Figure> {
        self.job.figures.iter().find(|figure| figure.id == id)
    }

    /// The parts that change while the job runs, by their names, as far as they are due.
    fn parts(&self, due: Due) -> Vec<(&'static str, String)> {
        use super::simple::rendered as html;
        let mut parts = vec![("head", html(&self.as_head())), ("now", html(&self.as_now()))];
        parts.extend(self.tabs.counts.parts());
        if due.pictures {
            parts.extend([
                ("attention", html(&self.as_attention())),
                ("steps", html(&self.as_steps())),
                ("slowest", html(&self.as_slowest())),
                ("result", html(&self.as_result())),
                ("next", html(&self.as_next())),
            ]);
            parts.extend(IDS.map(|(id, part)| (part, self.figure(id).map(html).unwrap_or_default())));
        }
        if due.lists {
            parts.extend([("errors", html(&self.as_errors())), ("nodes", html(&self.as_nodes()))]);
        }
        parts
    }

    /// What a browser calls the page: how far the job is, while it runs.
    pub fn title(&self) -> String {
        let (chip, title) = (&self.job.header.chip.word, &self.job.header.title);
        match self.job.header.figures.first().filter(|(name, _)| *name == "done") {
            Some((_, done)) => format!("{done} {title}: {chip}"),
            None => format!("{chip}: {title}"),
        }
    }

    /// The picture in the tab.
    pub fn icon(&self) -> &str {
        self.chrome.icon_of(self.job.facts.state, self.job.facts.complete)
    }

    fn has_ended(&self) -> bool {
        self.job.facts.state.is_final()
    }
}
