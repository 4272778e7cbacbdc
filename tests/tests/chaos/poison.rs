//! A mini-batch that no node survives.

use prs_tests::harness::{Fleet, Random, parse_csv};

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// Losses of a node that a mini-batch is allowed.
const LOSSES: u32 = 10;

/// One mini-batch kills each worker that runs it. It fails alone, and its neighbours are not blamed.
pub(crate) fn kills_its_worker(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::begin(
        fleet,
        ChaosJob {
            mini_batches: 60,
            pause: 200,
            first: "if index == 17:\n    mark('poison')\n    os.kill(os.getppid(), signal.SIGKILL)\n    select.select([], [], [], 60)",
            ..ChaosJob::default()
        },
    );
    chaos.until_ended(ChaosRun::replace_the_dead);
    let tries = chaos.job.marks("poison").len() as u32;
    // The first start is not noted: nobody knew yet.
    assert!((LOSSES..=LOSSES + 1).contains(&tries), "{tries} nodes died of it\n{}", chaos.story());
    assert_eq!(chaos.kills, tries);
    chaos.ends_with(&Expected { failed: vec![17], ..Expected::default() }, |chaos| {
        let stored = chaos.fleet.stored(&chaos.id());
        let (_, rows) = parse_csv(&stored.text("logs/sys/job_report/processed_mini-batches.csv"));
        let lost: Vec<_> = rows.iter().filter(|row| row["Status"] == "NODE_LOST").collect();
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert_eq!(lost[0]["Mini-batch Id"], "mb-0000000017");
        let failed = stored.text("output/failed_mini_batches.jsonl");
        assert!(failed.contains("mb-0000000017") && failed.lines().count() == 1, "{failed}");
    });
}
