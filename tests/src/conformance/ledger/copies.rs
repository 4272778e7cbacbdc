//! Second runs of mini-batches: wanted once, offered by one node, taken by one.

use futures_util::future::join_all;
use prs_common::ledger::{JobLedger, Ledger, LedgerErrorKind, OfferedCopy, OpenCopy};

use super::{fresh, succeeded, watching};

fn copy(text: &str) -> OfferedCopy {
    OfferedCopy { failed_tries: 1, descriptor: text.as_bytes().to_vec() }
}

async fn open(job: &dyn JobLedger) -> Vec<OpenCopy> {
    let mut open = job.open_copies().await.unwrap();
    open.sort();
    open
}

fn offered(index: u64, worker: &str) -> OpenCopy {
    OpenCopy { index, offered_by: (!worker.is_empty()).then(|| worker.to_owned()) }
}

pub(super) async fn copy_is_wanted_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "wanted").await;
    let fence = watching(&*job).await;
    assert_eq!(job.want_copies(&[], fence).await.unwrap(), [0; 0]);
    assert_eq!(job.want_copies(&[7, 300_000], fence).await.unwrap(), [7, 300_000]);
    assert_eq!(job.want_copies(&[7, 8], fence).await.unwrap(), [8]);
    assert_eq!(open(&*job).await, [offered(7, ""), offered(8, ""), offered(300_000, "")]);
    let error = job.want_copies(&[9], fence + 1).await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::Superseded, "{error}");
    assert_eq!(open(&*job).await.len(), 3);
    // One that was taken is not wanted again.
    job.offer_copy(7, "a", &copy("7")).await.unwrap();
    job.take_copy(7, "b").await.unwrap();
    assert_eq!(job.want_copies(&[7], fence).await.unwrap(), [0; 0]);
}

pub(super) async fn copy_is_offered_by_one_and_taken_by_one(ledger: &dyn Ledger) {
    let job = fresh(ledger, "offered").await;
    let fence = watching(&*job).await;
    job.offer_copy(7, "a", &copy("nobody wants it")).await.unwrap();
    assert_eq!(job.take_copy(7, "b").await.unwrap(), None);
    job.want_copies(&[7], fence).await.unwrap();
    assert_eq!(job.take_copy(7, "b").await.unwrap(), None, "nobody offers it");
    for (worker, text) in [("a", "é\0\u{ff}"), ("a", "again"), ("c", "another")] {
        job.offer_copy(7, worker, &copy(text)).await.unwrap();
        assert_eq!(open(&*job).await, [offered(7, "a")]);
    }
    for _ in 0..2 {
        assert_eq!(job.take_copy(7, "b").await.unwrap(), Some(copy("é\0\u{ff}")));
        assert_eq!(open(&*job).await, []);
        assert_eq!(job.take_copy(7, "c").await.unwrap(), None);
    }
    job.offer_copy(7, "a", &copy("late")).await.unwrap();
    assert_eq!(open(&*job).await, []);
    assert_eq!(job.take_copy(7, "b").await.unwrap(), Some(copy("é\0\u{ff}")));
}

pub(super) async fn racing_workers_take_a_copy_once(ledger: &dyn Ledger) {
    let job = fresh(ledger, "racing").await;
    job.want_copies(&[7], watching(&*job).await).await.unwrap();
    job.offer_copy(7, "a", &copy("7")).await.unwrap();
    let workers: Vec<String> = (0..8).map(|number| format!("worker {number}")).collect();
    let taken = join_all(workers.iter().map(|worker| job.take_copy(7, worker))).await;
    assert_eq!(taken.into_iter().filter(|taken| taken.as_ref().unwrap().is_some()).count(), 1);
}

pub(super) async fn copy_of_what_has_its_outcome_is_none(ledger: &dyn Ledger) {
    let job = fresh(ledger, "outcome").await;
    let fence = watching(&*job).await;
    job.want_copies(&[7, 8, 9], fence).await.unwrap();
    job.offer_copy(8, "a", &copy("8")).await.unwrap();
    job.commit("s", 1, &[succeeded(7), succeeded(8), succeeded(10)]).await.unwrap();
    assert_eq!(open(&*job).await, [offered(9, "")]);
    assert_eq!(job.take_copy(8, "b").await.unwrap(), None);
    assert_eq!(job.want_copies(&[10], fence).await.unwrap(), [0; 0]);
}
