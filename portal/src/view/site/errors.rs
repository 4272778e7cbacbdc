//! The errors of a job: all of them as cards, and one with its tries, its nodes and the items that it cost.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Tab, Tabs};
use crate::chart::{Cell, Table};
use crate::text::times::{day_and_clock, duration, utc};
use crate::text::{count, counted, cut};
use crate::view::errors::{ErrorCard, Served, card, cards};
use crate::view::{ErrorFact, Facts};

/// Cards of a page.
pub const CARDS: usize = 20;
/// Tracebacks that stand in a page, bytes of HTML: that of the first error, those that are opened, and those that no other page has.
const TRACEBACKS: usize = 30_000;
/// Items of an error on its page.
pub const ITEMS: usize = 1_000;

/// What comes first: the word in an address, and what it says.
pub const ORDERS: [(&str, &str); 3] =
    [("-lost", "cost most"), ("-tries", "most tries"), ("-last_at", "newest")];

/// What the template of a card asks of the job that it is of.
#[derive(Debug)]
struct OfJob<'a> {
    facts: &'a Facts,
    logs: Option<String>,
    is_served: bool,
    may_resume: bool,
}

impl<'a> OfJob<'a> {
    fn new(facts: &'a Facts, may_submit: bool) -> Self {
        Self {
            facts,
            logs: Some(format!("/jobs/{}/logs/", facts.job_id)),
            is_served: true,
            may_resume: may_submit && facts.state.is_final() && facts.steps.is_empty(),
        }
    }
}

/// Puts errors into an order of [`ORDERS`], those of `init()` first: without it nothing runs.
pub fn sort(errors: &mut [ErrorFact], order: &str) {
    let last = |error: &ErrorFact| error.times.as_ref().map_or(0, |times| times.first_and_last_us.1);
    errors.sort_by_key(|error| {
        let most = match order {
            "-tries" => error.tries,
            "-last_at" => last(error),
            // As they come: by what they cost.
            _ => 0,
        };
        (!error.group.is_empty(), u64::MAX - most)
    });
}

/// The tab of the errors.
#[derive(Debug, Template)]
#[template(path = "site/errors.html", blocks = ["groups"])]
pub struct ErrorsPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    job: OfJob<'a>,
    cards: Vec<ErrorCard>,
    rest: String,
    /// The first card is this one of all, from 0.
    from: usize,
    order: &'a str,
}

impl<'a> ErrorsPage<'a> {
    /// The errors of a job, which are in `order`, from the one of this number on. Of those behind the first the tracebacks stand in the page
    /// whose groups are `opened`; the others are fetched when they are wanted.
    pub fn new(
        facts: &'a Facts,
        chrome: &'a Chrome,
        (order, from): (&'a str, usize),
        opened: &[&str],
        may_submit: bool,
    ) -> Self {
        let errors = &facts.errors[from.min(facts.errors.len())..];
        let code = format!("/jobs/{}/code", facts.job_id);
        let served = Served { code: &code, called: &facts.called, opened: Some(opened) };
        let shown = &errors[..errors.len().min(CARDS)];
        let found = cards(shown, facts.other_tries, CARDS, TRACEBACKS, Some(served));
        let mut cards: Vec<ErrorCard> = found.cards.into_iter().chain(found.folded).collect();
        // What is opened stands in the address, in the place of another order: there the cards lead to the pages of their errors.
        let is_folded = from == 0 && order == ORDERS[0].0;
        for card in cards.iter_mut().skip(1) {
            let is_opened = opened.contains(&&*card.group);
            if is_folded && (is_opened || !card.traceback_link.is_empty()) {
                card.fold.clone_from(&card.group);
            }
            card.is_open = is_opened;
        }
        Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Errors),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            job: OfJob::new(facts, may_submit),
            cards,
            rest: found.rest,
            from,
            order,
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// The cards alone, for a page that is kept new.
    pub fn part(&self) -> String {
        rendered(&self.as_groups())
    }

    /// Whether it is kept new: the first page in the usual order, while the job runs.
    fn is_live(&self) -> bool {
        !self.job.facts.state.is_final() && self.from == 0 && self.order == ORDERS[0].0
    }

    fn says(&self) -> String {
        let facts = self.job.facts;
        let all = facts.errors.len();
        let mut says = vec![counted(all as u64, "distinct error")];
        if facts.failed_tries > 0 {
            says.push(format!("{} failed", counted(facts.failed_tries, "try")));
        }
        if facts.mini_batches_missing > 0 {
            says.push(format!("items of {} are missing", counted(facts.mini_batches_missing, "mini-batch")));
        }
        if self.cards.len() < all {
            says.push(format!("here are {} to {}", self.from + 1, self.from + self.cards.len()));
        }
        says.join("; ") + "."
    }

    fn made(&self) -> (String, String) {
        let now = self.job.facts.now_us;
        utc(now)
    }

    /// The number of the first card of the page before this one, and of the one behind it.
    fn pages(&self) -> (Option<usize>, Option<usize>) {
        let end = self.from + self.cards.len();
        (
            (self.from > 0).then(|| self.from.saturating_sub(CARDS)),
            (end < self.job.facts.errors.len()).then_some(end),
        )
    }
}

/// A traceback alone.
#[derive(Debug, Template)]
#[template(path = "job/traceback.html")]
struct Traceback {
    card: ErrorCard,
}

/// The traceback of the error with this group, for a page that fetches it; nothing where there is no such error, or none of it.
pub fn traceback_html(facts: &Facts, group: &str) -> Option<String> {
    let error = facts.errors.iter().find(|error| error.group == group && !error.traceback.is_empty())?;
    let code = format!("/jobs/{}/code", facts.job_id);
    let served = Served { code: &code, called: &facts.called, opened: None };
    Some(rendered(&Traceback { card: card(error, true, true, Some(served)) }))
}

/// One error.
#[derive(Debug, Template)]
#[template(path = "site/error.html")]
pub struct ErrorPage<'a> {
    chrome: &'a Chrome,
    tabs: Tabs<'a>,
    job_id: &'a str,
    title: &'a str,
    job: OfJob<'a>,
    card: ErrorCard,
    tried: Option<Table>,
    nodes: Option<Table>,
    curve: Option<Table>,
    items: Vec<String>,
    /// Items that are left out.
    more: u64,
}

impl<'a> ErrorPage<'a> {
    /// The error with what it cost: `items`, at most [`ITEMS`], of so many.
    pub fn new(
        facts: &'a Facts,
        chrome: &'a Chrome,
        error: &ErrorFact,
        (items, all): (Vec<String>, u64),
        may_submit: bool,
    ) -> Self {
        let code = format!("/jobs/{}/code", facts.job_id);
        let served = Served { code: &code, called: &facts.called, opened: None };
        Self {
            chrome,
            tabs: Tabs::of(facts, Tab::Errors),
            job_id: &facts.job_id,
            title: facts.spec.display_name.as_deref().unwrap_or(&facts.spec.name),
            job: OfJob::new(facts, may_submit),
            card: card(error, !error.traceback.is_empty(), true, Some(served)),
            tried: tried(error, &facts.job_id),
            nodes: nodes(error, &facts.job_id),
            curve: curve(error),
            more: all.saturating_sub(items.len() as u64),
            items,
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    fn says(&self) -> String {
        let shown = counted(self.items.len() as u64, "item");
        if self.more == 0 {
            format!("{shown}.")
        } else {
            format!("The first {shown}; {} more.", count(self.more))
        }
    }
}

/// Some of the tries, with links to their mini-batches.
fn tried(error: &ErrorFact, job_id: &str) -> Option<Table> {
    let mut table = Table::new(
        "Some of its tries, those whose items are missing first",
        &["Mini-batch", "#Try", "Node", "Process", "Began", "Became of it", "Consists of"],
    );
    for one in &error.tried {
        table.rows.push(vec![
            Cell::Link(count(one.index), format!("/jobs/{job_id}/mini-batches/{}", one.index)),
            one.number.to_string().into(),
            one.node_id.to_string().into(),
            one.process.clone().into(),
            Cell::time(one.started_us, day_and_clock),
            if one.is_lost { Cell::Bad("lost".to_owned()) } else { "another try".to_owned().into() },
            cut(&one.detail, 120).into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The nodes that had it, with links to their tries.
fn nodes(error: &ErrorFact, job_id: &str) -> Option<Table> {
    let times = error.times.as_ref()?;
    let mut table = Table::new("The nodes with most of its tries", &["Node", "#Tries"]);
    for (node_id, tries) in &times.nodes {
        let address = format!("/jobs/{job_id}/mini-batches?state=tries&group={}&node={node_id}", error.group);
        table.rows.push(vec![Cell::Link(format!("node {node_id}"), address), count(*tries).into()]);
    }
    let left_out = times.nodes_total.saturating_sub(times.nodes.len() as u64);
    if left_out > 0 {
        table.rest = format!("{} more had it.", counted(left_out, "node"));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// When the tries began.
fn curve(error: &ErrorFact) -> Option<Table> {
    let times = error.times.as_ref()?;
    let (from_us, step_s) = times.bins_from_us;
    let mut table = Table::new(
        format!("When its tries began, in steps of {}", duration(f64::from(step_s))),
        &["From", "#Tries"],
    );
    for (at, tries) in times.bins.iter().enumerate().filter(|(_, tries)| **tries > 0) {
        let begins = from_us + at as u64 * u64::from(step_s) * 1_000_000;
        table.rows.push(vec![Cell::time(begins, day_and_clock), count(*tries).into()]);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::ErrorTimes;
    use crate::view::tests::facts;

    fn error(group: &str, tries: u64, last: u64) -> ErrorFact {
        ErrorFact {
            group: group.to_owned(),
            tries,
            times: Some(ErrorTimes { first_and_last_us: (0, last), ..ErrorTimes::default() }),
            ..ErrorFact::default()
        }
    }

    #[test]
    fn tracebacks_behind_the_first_are_fetched_or_lead_to_pages_of_their_own() {
        let traced =
            |group: &str| ErrorFact { traceback: format!("trace of {group}."), ..error(group, 1, 1) };
        let facts = Facts {
            job_id: "j".to_owned(),
            errors: vec![traced("a"), traced(""), traced("b"), traced("c")],
            ..facts("j")
        };
        let chrome = Chrome::default();
        let page = |order, opened: &[&str]| ErrorsPage::new(&facts, &chrome, order, opened, false).html();
        let html = page(("-lost", 0), &["c"]);
        for group in ["a", "", "c"] {
            assert!(html.contains(&format!("trace of {group}.")), "{html}");
        }
        assert!(
            !html.contains("trace of b.") && html.contains("href=\"/jobs/j/errors/b\">The page with"),
            "{html}"
        );
        assert!(
            html.contains("data-table=\"b\"><summary>") && html.contains("data-table=\"c\" open>"),
            "{html}"
        );
        assert_eq!(html.matches("data-table").count(), 2, "{html}");
        let newest = page(("-last_at", 0), &[]);
        assert!(
            !newest.contains("data-table") && newest.contains("href=\"/jobs/j/errors/c\">Traceback"),
            "{newest}"
        );
        assert!(traceback_html(&facts, "b").unwrap().contains("trace of b."));
        assert_eq!(traceback_html(&facts, "odd"), None);
    }

    #[test]
    fn errors_stand_in_the_order_that_is_asked_for_and_those_of_init_first() {
        let given = [error("a", 1, 9), error("b", 7, 1), error("", 2, 0), error("c", 3, 5)];
        for (order, expected) in [
            ("-lost", ["", "a", "b", "c"]),
            ("-tries", ["", "b", "c", "a"]),
            ("-last_at", ["", "a", "c", "b"]),
        ] {
            let mut errors = given.clone();
            sort(&mut errors, order);
            assert_eq!(errors.iter().map(|error| &*error.group).collect::<Vec<_>>(), expected, "{order}");
        }
    }
}
