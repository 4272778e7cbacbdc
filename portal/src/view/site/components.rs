//! The components that pages are made of, each with an example: what one looks at when the stylesheet changes.

use std::sync::LazyLock;

use askama::Template;
use prs_common::job::JobSpec;
use prs_common::ledger::JobState;

use super::Chrome;
use super::simple::rendered;
use super::submit::Refused;
use crate::chart::{
    Activity, Durations, Figure, Lane, NodeDot, NodeShape, Nodes, PlanMap, PlanState, Quantiles, Rate,
    RateBucket, Shares, Span, Table, Tries, TryBar,
};
use crate::text::{Run, runs};
use crate::view::errors::{Served, cards};
use crate::view::header::Chip;
use crate::view::job::JobView;
use crate::view::pictures::Detail;
use crate::view::{ErrorFact, ErrorPlace, ErrorTimes, ErrorTry, Facts, OutputFact, Published};

/// 2026-11-21 12:00 UTC.
const NOON: u64 = 1_795_262_400_000_000;
const DETAIL: Detail =
    Detail { rows: (10, 10), errors: 2, tracebacks: 10_000, ranges: 50, tables: true, pictures: true };

/// A job that never was.
static SAMPLE: LazyLock<Facts> = LazyLock::new(|| {
    let mut spec = JobSpec::new("score", "/home/alice/score", "score.py", Vec::new());
    spec.display_name = Some("nightly scoring".to_owned());
    spec.description = Some("Scores each night what came in by day.".to_owned());
    Facts {
        job_id: "score-20261121-120000-1a2b".to_owned(),
        called: "score-20261121-120000-1a2b".to_owned(),
        types_differ: Vec::new(),
        spec,
        state: JobState::Completed,
        reason: None,
        complete: false,
        reused: None,
        submitted_us: NOON,
        started_us: NOON,
        ended_us: Some(NOON + 724_000_000),
        seconds: 724.0,
        mini_batches: (1_000, 996, 4),
        items: (10_000, 9_980, 20),
        mini_batches_missing: 4,
        failed_tries: 54,
        output: OutputFact {
            uri: "/home/alice/prs-runs/score/output/parallel_run_step.txt".to_owned(),
            is_file: true,
            rows: 9_980,
            bytes: 234_567,
            sha256: Some("5f".repeat(32)),
        },
        logs: "/home/alice/prs-runs/score/logs".to_owned(),
        is_among_logs: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        starts: Vec::new(),
        errors: vec![error()],
        other_tries: 0,
        failed_list: None,
        steps: Vec::new(),
        has_main_step: false,
        fleet: None,
        ends: String::new(),
        seen_error: String::new(),
        statistics: Published::default(),
        now_us: NOON + 725_000_000,
    }
});

fn error() -> ErrorFact {
    ErrorFact {
        group: String::new(),
        status: "RUN_EXCEPTION".to_owned(),
        category: "ConnectionError".to_owned(),
        message: "upstream API returned 503".to_owned(),
        place: "flaky.py:5 in run".to_owned(),
        around: vec![
            (4, "def run(batch):".to_owned()),
            (5, "    raise ConnectionError(\"upstream API returned 503\")".to_owned()),
            (6, "    return batch".to_owned()),
        ],
        cost: "54 tries failed, 4 mini-batches lost (20 items)".to_owned(),
        tries: 54,
        lost: 4,
        times: Some(ErrorTimes {
            first_and_last_us: (NOON + 60_000_000, NOON + 600_000_000),
            bins_from_us: (NOON, 32),
            bins: (0..24).map(|at| (at * 7 + 3) % 11).collect(),
            nodes: vec![(3, 40), (203, 14)],
            nodes_total: 2,
        }),
        tried: vec![ErrorTry { index: 2, ..ErrorTry::default() }],
        example: ErrorPlace {
            what: "mini-batch 2 (0006.txt and 4 more), try 3, process001 of node 3".to_owned(),
            log: "user/error/3/process001.txt".to_owned(),
        },
        traceback: "Traceback (most recent call last):\n  File \"flaky.py\", line 5, in run\n    raise ConnectionError(\"upstream API returned 503\")\nConnectionError: upstream API returned 503\n"
            .to_owned(),
        ..ErrorFact::default()
    }
}

/// One picture of each kind.
fn figures() -> Vec<Figure> {
    let wave = |at: u64| (at * 37 + at * at % 11) % 23;
    let buckets: Vec<RateBucket> = (0..60)
        .map(|at| RateBucket {
            items: 300 + wave(at) * 9,
            mini_batches: 30,
            failed_tries: u64::from(at % 17 == 9),
        })
        .collect();
    let shares: Vec<[u64; 6]> =
        (0..60).map(|at| [600 + wave(at) * 8, 120, 80 + wave(at), 30, 10, 60]).collect();
    let tries: Vec<TryBar> = (0..24)
        .map(|index| TryBar {
            process: format!("process{:03}", index % 3),
            index,
            number: 1,
            started_us: NOON + index / 3 * 1_000_000,
            elapsed_us: 700_000 + wave(index) * 12_000,
            failed: index % 9 == 4,
        })
        .collect();
    let lanes: Vec<Lane> = (0..6)
        .map(|node: u64| Lane {
            name: format!("node {node}"),
            busy: (0..48).map(|at| Some((250 - wave(at + node) * 6) as u8)).collect(),
            failed: (0..48).map(|at| (at + node) % 19 == 7).collect(),
            failed_tries: 2,
            query: format!("node={node}"),
        })
        .collect();
    let states =
        [PlanState::Done, PlanState::Done, PlanState::Retried, PlanState::Failed, PlanState::Running];
    let cells: Vec<_> = (0..40)
        .map(|at| match at {
            30.. => (PlanState::Waiting, 0),
            at => (states[at * 7 % 5], u64::from(at * 7 % 5 == 3)),
        })
        .collect();
    let edges: Vec<f64> = (0..25).map(|at| 0.01 * 1.3_f64.powi(at)).collect();
    let counts: Vec<u64> = (0..24).map(|at| 12_u64.saturating_sub(u64::abs_diff(at, 11)).pow(2)).collect();
    let quantiles = [("run()", Quantiles { values: [0.02, 0.19, 0.21, 0.24, 0.31, 0.9, 4.1] })];
    let dots: Vec<NodeDot> = (0..20)
        .map(|node| NodeDot {
            name: format!("node {node}"),
            median: 0.2 + wave(node) as f64 / 200.0 + if node == 17 { 0.5 } else { 0.0 },
            shape: match node {
                3 => NodeShape::Lost,
                4 => NodeShape::Left,
                _ => NodeShape::Serving,
            },
            is_slow: node == 17,
        })
        .collect();
    let span = Span { from_us: NOON, to_us: NOON + 480_000_000 };
    [
        Rate::figure(NOON, 8, &buckets, None),
        Shares::figure(NOON, 8, &shares),
        Tries::figure(&tries),
        Activity::figure(span, &lanes),
        PlanMap::figure(&cells, 25, 1_000, 50),
        Durations::figure(&edges, &counts, &quantiles),
        Nodes::figure(&dots, Table::new("Nodes", &["Node"])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The page.
#[derive(Debug, Template)]
#[template(path = "site/components.html")]
pub struct ComponentsPage<'a> {
    chrome: &'a Chrome,
    job: JobView<'static>,
    chips: Vec<Chip>,
    refused: Refused,
    log: Vec<Run>,
}

impl<'a> ComponentsPage<'a> {
    /// One of each.
    pub fn new(chrome: &'a Chrome) -> Self {
        let mut job = JobView::new(&SAMPLE, DETAIL, None);
        job.figures = figures();
        let served = Served { code: "/help/components", called: &SAMPLE.called, opened: None };
        job.errors = cards(&SAMPLE.errors, 0, 1, DETAIL.tracebacks, Some(served));
        // There is no such code.
        job.errors.cards.iter_mut().for_each(|card| {
            card.place_link.clear();
            card.traceback.iter_mut().for_each(|piece| piece.link.clear());
        });
        let chips = [
            (JobState::Queued, true),
            (JobState::Running, true),
            (JobState::Completed, true),
            (JobState::Completed, false),
            (JobState::Failed, true),
            (JobState::Canceled, true),
        ];
        Self {
            chrome,
            job,
            chips: chips.map(|(state, complete)| Chip::of(state, complete)).into(),
            refused: Refused {
                says: "The job file has 1 problem.".to_owned(),
                problems: vec![(
                    "line 3, mini_batchsize".to_owned(),
                    "there is no such key: did you mean 'mini_batch_size'?".to_owned(),
                )],
            },
            log: runs(
                "2026-11-21 12:58:01 INFO  batch 48211 of 20\n\u{1b}[33mWARN\u{1b}[0m  slow\n\u{1b}[1;31mERROR\u{1b}[0m upstream API returned 503\n",
            ),
        }
    }

    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_of_each_picture() {
        let ids: Vec<&str> = figures().iter().map(|figure| figure.id).collect();
        assert_eq!(ids, ["rate", "shares", "tries", "activity", "plan", "durations", "nodes"]);
        let chrome = Chrome::default();
        let html = ComponentsPage::new(&chrome).html();
        assert!(html.matches("<figure").count() == ids.len() && html.len() < 100_000, "{}", html.len());
    }
}
