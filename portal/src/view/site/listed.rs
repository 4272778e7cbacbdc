//! Tables of the mini-batches that statistics list: those that run, the tries that took longest, those without an outcome.

use prs_common::statistics::{Live, Summary};

use crate::chart::{Cell, Table};
use crate::text::times::{clock, duration_us};
use crate::text::{count, counted};
use crate::view::pictures::slowest;

/// Rows of a table on a page; the API lists all.
const MOST: usize = 100;

fn link(text: String, job_id: &str, below: &str) -> Cell {
    Cell::Link(text, format!("/jobs/{job_id}/mini-batches{below}"))
}

/// The mini-batches of a job that run; nothing where none does.
pub fn running_table(live: &Live, job_id: &str) -> Option<Table> {
    let mut table = Table::new(
        "The mini-batches that run longest",
        &["Mini-batch", "Node", "Process", "Began", "#Runs for", "Consists of"],
    );
    for row in &live.running {
        table.rows.push(vec![
            link(count(row.index), job_id, &format!("/{}", row.index)),
            Cell::Link(format!("node {}", row.node_id), format!("/jobs/{job_id}/nodes/{}", row.node_id)),
            row.process.map_or_else(String::new, |number| format!("process{number:03}")).into(),
            Cell::time(row.since_us, clock),
            duration_us(live.written_us.saturating_sub(row.since_us)).into(),
            row.detail.clone().into(),
        ]);
    }
    (!table.rows.is_empty()).then(|| table.cut(MOST, "mini-batches"))
}

/// The tries of a job that took longest; nothing where none has ended.
pub fn slow_table(summary: &Summary, job_id: &str) -> Option<Table> {
    let mut table = slowest(summary, summary.slowest.len())?.cut(MOST, "tries");
    for (cells, row) in table.rows.iter_mut().zip(&summary.slowest) {
        if let Some(cell) = cells.first_mut() {
            *cell = link(count(row.index), job_id, &format!("/{}", row.index));
        }
    }
    Some(table)
}

/// Ranges of the mini-batches of a job, both ends included, with how many of each have no outcome; nothing where all have one.
pub fn waiting_table(ranges: &[(u64, u64, u64)], job_id: &str) -> Option<Table> {
    let mut table =
        Table::new("Where mini-batches have no outcome", &["Mini-batches", "#Without an outcome", "#All"]);
    for (from, to, open) in ranges {
        let name = if from == to { count(*from) } else { format!("{} to {}", count(*from), count(*to)) };
        table.rows.push(vec![
            link(name, job_id, &format!("?state=all&index={from}-{to}")),
            count(*open).into(),
            count(to - from + 1).into(),
        ]);
    }
    let open: u64 = ranges.iter().map(|(_, _, open)| open).sum();
    if table.rows.is_empty() {
        return None;
    }
    let mut table = table.cut(MOST, "ranges");
    let all = format!("{} together. {}", counted(open, "mini-batch"), table.rest);
    all.trim_end().clone_into(&mut table.rest);
    Some(table)
}

#[cfg(test)]
mod tests {
    use prs_common::statistics::{RunningOn, TryRow};

    use super::*;

    #[test]
    fn what_runs_and_took_long_leads_to_its_page() {
        let one = RunningOn { index: 1_234, node_id: 3, since_us: 1_000_000, ..RunningOn::default() };
        let live = Live { written_us: 4_000_000, running: vec![one], ..Live::default() };
        let html = running_table(&live, "j").unwrap().to_string();
        assert!(html.contains("/jobs/j/mini-batches/1234\"") && html.contains("/jobs/j/nodes/3\""), "{html}");
        assert!(html.contains(&duration_us(3_000_000)), "{html}");
        let slowest = vec![TryRow { index: 7, ..TryRow::default() }];
        let html = slow_table(&Summary { slowest, ..Summary::default() }, "j").unwrap().to_string();
        assert!(html.contains("/jobs/j/mini-batches/7\""), "{html}");
        assert!(running_table(&Live::default(), "j").is_none());
        assert!(slow_table(&Summary::default(), "j").is_none());
    }

    #[test]
    fn ranges_lead_to_lists_of_them() {
        let html = waiting_table(&[(0, 0, 1), (4, 7, 2)], "j").unwrap().to_string();
        assert!(html.contains("index=4-7\""), "{html}");
        assert!(html.contains(&format!("{} together.", counted(3, "mini-batch"))), "{html}");
        assert!(waiting_table(&[], "j").is_none());
    }
}
