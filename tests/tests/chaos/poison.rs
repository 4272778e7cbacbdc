//! A mini-batch that no node survives, and one that no process gets over.

use std::collections::BTreeMap;

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

/// One mini-batch breaks each process that runs it, which lives on and fails all that it gets. It fails alone, on three nodes.
pub(crate) fn breaks_its_processes(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::new(
        fleet,
        ChaosJob {
            mini_batches: 300,
            pause: 20,
            nodes: 3,
            first: "if index == 17:\n    globals()['broken'] = True\nif globals().get('broken'):\n    mark('broken', str(index))\n    raise RuntimeError('device-side assert triggered')",
            ..ChaosJob::default()
        },
    );
    chaos.job = chaos.job.with("run_max_try", 3);
    for _ in 0..chaos.shape.nodes {
        chaos.hire(&[]);
    }
    chaos.submit(&[]);
    chaos.ends_with(&Expected { failed: vec![17], ..Expected::default() }, |chaos| {
        let broken = chaos.job.marks("broken");
        assert!(broken.iter().any(|index| index != "17"), "no broken process got another mini-batch");
        let stored = chaos.fleet.stored(&chaos.id());
        let (_, rows) = parse_csv(&stored.text("logs/sys/job_report/processed_mini-batches.csv"));
        let mut bad: Vec<_> = rows.iter().filter(|row| row["Mini-batch Id"] == "mb-0000000017").collect();
        bad.sort_by_key(|row| &row["Picked Count"]);
        let place = |row: &BTreeMap<String, String>| (row["Node Id"].clone(), row["Process"].clone());
        let [first, second, third] = &bad[..] else { panic!("{bad:?}") };
        assert!(first["Node Id"] == second["Node Id"] && place(first) != place(second), "{bad:?}");
        assert_ne!(place(second), place(third), "{bad:?}");
    });
}

/// Some mini-batches fail as a whole and succeed in parts; a node dies in each part of one of them. No row is lost or doubled.
pub(crate) fn nodes_die_while_they_split(fleet: &mut Fleet, _: &mut Random) {
    let mut chaos = ChaosRun::new(
        fleet,
        ChaosJob {
            mini_batches: 60,
            pause: 50,
            first: "if index % 20 == 17:\n    assert len(mini_batch) == 1, 'too many at once'\n    part = os.path.basename(mini_batch[0])\n    if index == 17 and not is_marked(part):\n        mark(part)\n        os.kill(os.getppid(), signal.SIGKILL)\n        select.select([], [], [], 60)",
            ..ChaosJob::default()
        },
    );
    chaos.job = chaos.job.with("run_max_try", 2).with("split_failed", true);
    for _ in 0..chaos.shape.nodes {
        chaos.hire(&[]);
    }
    chaos.submit(&[]);
    chaos.until_ended(ChaosRun::replace_the_dead);
    assert_eq!(chaos.kills, 2);
    chaos.ends_with(&Expected::default(), |chaos| {
        let stored = chaos.fleet.stored(&chaos.id());
        let (_, rows) = parse_csv(&stored.text("logs/sys/job_report/processed_mini-batches.csv"));
        let parts = rows.iter().filter(|row| row["Mini-batch Detail"].contains(", item "));
        assert_eq!(parts.count(), 6, "two of each mini-batch");
    });
}
