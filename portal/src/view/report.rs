//! The report of a job: one file that needs nothing else, and no server. What one mails.
//!
//! It has no script and asks nobody for anything, which its own policy says. Of a large job it shows less detail, never
//! more bytes than [`MOST_BYTES`], and says what is left out.

use askama::Template;

use super::Facts;
use super::job::JobView;
use super::pictures::Detail;

/// Bytes of a report, at most.
pub const MOST_BYTES: usize = 300_000;

/// How much is shown, from all to what always fits.
const DETAILS: [Detail; 4] = [
    Detail { rows: (120, 10), errors: 50, tracebacks: 110_000, ranges: 50, tables: true, pictures: true },
    Detail { rows: (60, 10), errors: 30, tracebacks: 60_000, ranges: 50, tables: true, pictures: true },
    Detail { rows: (30, 10), errors: 20, tracebacks: 30_000, ranges: 50, tables: false, pictures: true },
    Detail { rows: (10, 10), errors: 10, tracebacks: 10_000, ranges: 50, tables: false, pictures: true },
];

#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Report<'a> {
    css: &'static str,
    job: JobView<'a>,
}

/// The report of a job, as HTML.
pub fn report(facts: &Facts) -> String {
    let mut html = String::new();
    for detail in DETAILS {
        // Its links are relative to the folder that it lies in.
        let job = JobView::new(facts, detail, facts.is_among_logs.then(String::new));
        let report = Report { css: crate::CSS, job };
        html = report.render().expect("writing to memory does not fail, and no filter of the page does");
        if html.len() <= MOST_BYTES {
            break;
        }
    }
    html
}
