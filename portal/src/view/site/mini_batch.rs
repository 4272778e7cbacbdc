//! A mini-batch: its tries in order, with what each printed.

use askama::Template;

use super::mini_batches::TryLine;
use super::simple::rendered;
use super::{Chrome, Tabs};
use crate::text::times::{day_and_clock, machine};
use crate::text::{Run, bytes, runs};
use crate::view::frames::{Piece, pieces};

/// Width of the bar of a try.
const WIDTH: u64 = 1_000;

/// What a try printed to one of its streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrintedText {
    /// `Standard output` or `Standard error`.
    pub name: &'static str,
    /// The log, below `logs/`.
    pub path: String,
    /// Where it begins, bytes.
    pub from: u64,
    /// The text, as far as it is shown.
    pub text: String,
    /// Bytes that are not shown.
    pub left_out: u64,
}

/// Where a mini-batch runs now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFact {
    /// Which try it is, from 1; 0 where the node does not tell it.
    pub number: u32,
    /// The node.
    pub node_id: u32,
    /// The process; empty where several share it.
    pub process: String,
    /// Since when, microseconds since the Unix epoch.
    pub since_us: u64,
    /// What it printed so far: the end of it, where it is long.
    pub printed: Vec<PrintedText>,
}

impl RunFact {
    fn since(&self) -> (String, String) {
        (format!("{} UTC", day_and_clock(self.since_us)), machine(self.since_us))
    }

    fn place(&self) -> String {
        if self.process.is_empty() {
            format!("node {}", self.node_id)
        } else {
            format!("node {}, {}", self.node_id, self.process)
        }
    }
}

impl PrintedText {
    fn more(&self) -> String {
        bytes(self.left_out)
    }

    fn runs(&self) -> Vec<Run> {
        runs(&self.text)
    }
}

/// A try with all that is known of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TryFact {
    /// The try.
    pub line: TryLine,
    /// The traceback; empty where there is none.
    pub traceback: String,
    /// Where it came from; empty where that is not known.
    pub frame: String,
    /// What it printed.
    pub printed: Vec<PrintedText>,
    /// What is known of its printing where nothing of it is shown.
    pub why_not: &'static str,
}

impl TryFact {
    fn traceback_runs(&self, job_id: &str) -> Vec<Piece> {
        pieces(&self.traceback, Some(&format!("/jobs/{job_id}/code")))
    }
}

/// The page of a mini-batch.
#[derive(Debug, Template)]
#[template(path = "site/mini_batch.html", blocks = ["one"])]
pub struct MiniBatchPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The tabs.
    pub tabs: Tabs<'a>,
    /// The job.
    pub job_id: &'a str,
    /// What people call the job.
    pub title: &'a str,
    /// The mini-batch.
    pub index: u64,
    /// `succeeded`, `failed`; without an outcome `running`, or `open`.
    pub state: &'a str,
    /// What it consists of.
    pub detail: &'a str,
    /// Its items, one a line, where these are known.
    pub items: Vec<String>,
    /// Where it runs now.
    pub runs: Vec<RunFact>,
    /// Whether the job has not ended, so that it can get an outcome still.
    pub grows: bool,
    /// Its tries that have ended, the first one first.
    pub tries: Vec<TryFact>,
    /// The commands that come next, and what each does.
    pub commands: Vec<(String, &'static str)>,
    /// Whether all tries are there.
    pub complete: bool,
}

impl MiniBatchPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// What changes of it until it has an outcome.
    pub fn part(&self) -> String {
        rendered(&self.as_one())
    }

    /// Whether it has no outcome and can get one.
    pub fn is_live(&self) -> bool {
        self.grows && matches!(self.state, "running" | "open")
    }

    /// What its state is called.
    fn word(&self) -> &str {
        match (self.state, self.grows) {
            ("open", true) => "waits, or has just begun",
            ("open", false) => "without an outcome",
            (state, _) => state,
        }
    }

    fn family(&self) -> &'static str {
        match self.state {
            "succeeded" => "good",
            "failed" => "bad",
            "running" => "active",
            _ => "neutral",
        }
    }

    /// The bar of a try: where loading, `run()` and the rest begin, and how long they are, in thousandths of the longest.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates hand in references")]
    fn bar(&self, at: &usize) -> Vec<(u64, u64, &'static str)> {
        let longest = self.tries.iter().map(|one| one.line.times_us[1]).max().unwrap_or_default().max(1);
        let Some(one) = self.tries.get(*at) else { return Vec::new() };
        let [_, elapsed, load, run] = one.line.times_us;
        let wide = |us: u64| us.saturating_mul(WIDTH) / longest;
        let run_class = if one.line.has_failed { "f-bad" } else { "f-share-0" };
        let (loaded, ran) = (wide(load), wide(load.saturating_add(run).min(elapsed.max(load))));
        vec![
            (0, loaded, "f-share-2"),
            (loaded, ran.saturating_sub(loaded).max(2), run_class),
            (ran, wide(elapsed).saturating_sub(ran), "f-share-4"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Tab, TabCounts};

    #[test]
    fn bars_have_the_proportions_of_the_times() {
        let of =
            |times_us| TryFact { line: TryLine { times_us, ..TryLine::default() }, ..TryFact::default() };
        let chrome = Chrome::default();
        let page = MiniBatchPage {
            chrome: &chrome,
            tabs: Tabs { job_id: "j", tab: Tab::MiniBatches, counts: TabCounts::default() },
            job_id: "j",
            title: "t",
            index: 7,
            state: "failed",
            detail: "<b>",
            items: vec!["<i>".into()],
            runs: Vec::new(),
            grows: true,
            tries: vec![of([0, 100, 20, 60]), of([0, 50, 0, 50])],
            commands: Vec::new(),
            complete: true,
        };
        let spans = |at| page.bar(&at).into_iter().map(|(from, wide, _)| (from, wide)).collect::<Vec<_>>();
        assert_eq!(spans(0), [(0, 200), (200, 600), (800, 200)]);
        assert_eq!(spans(1), [(0, 0), (0, 500), (500, 0)]);
        let html = page.html();
        assert!(!html.contains("<b>") && !html.contains("<i>"), "what users write is text");
        assert!(!html.contains("data-live"), "it has its outcome");
    }

    #[test]
    fn one_that_runs_says_where_since_when_and_what_it_printed() {
        let chrome = Chrome::default();
        let text = PrintedText {
            name: "Standard output",
            path: "user/stdout/3/process001.stdout.txt".into(),
            from: 700,
            text: "row <7>".into(),
            left_out: 2_048,
        };
        let page = |state, runs, grows| {
            MiniBatchPage {
                chrome: &chrome,
                tabs: Tabs { job_id: "j", tab: Tab::MiniBatches, counts: TabCounts::default() },
                job_id: "j",
                title: "t",
                index: 7,
                state,
                detail: "a.txt",
                items: Vec::new(),
                runs,
                grows,
                tries: Vec::new(),
                commands: Vec::new(),
                complete: true,
            }
            .html()
        };
        let run = RunFact {
            number: 2,
            node_id: 3,
            process: "process001".into(),
            since_us: crate::view::tests::NOON,
            printed: vec![text],
        };
        let html = page("running", vec![run], true);
        for said in [
            "data-live=\"/jobs/j/live?mini-batch=7\"",
            "Try 2: running",
            "/jobs/j/nodes/3\"",
            "node 3, process001",
            "2025-11-21T12:00:00",
            "row &#60;7&#62;",
            "kB before it.",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        let html = page("open", Vec::new(), true);
        assert!(html.contains("waits, or has just begun") && html.contains("data-live"), "{html}");
        let html = page("open", Vec::new(), false);
        assert!(html.contains("without an outcome") && !html.contains("data-live"), "{html}");
    }
}
