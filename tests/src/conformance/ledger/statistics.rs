//! Statistics: published by the orchestrator in parts, for its readers.

use bytes::Bytes;
use prs_common::ledger::{Conclusion, JobState, Ledger, LedgerErrorKind, NodeView};

use super::{fresh, watching, worker};

const ANY: [u8; 5] = [0, 255, b'\r', b'\n', 7];

pub(super) async fn statistics_are_read_as_they_were_published(ledger: &dyn Ledger) {
    let job = fresh(ledger, "statistics").await;
    let fence = watching(&*job).await;
    // What was published before the first read may be of any age.
    job.publish_statistics(&[("live", Bytes::from_static(b"old"))], fence).await.unwrap();
    assert_eq!(job.statistics(&["live", "nodes"]).await.unwrap(), [None, None]);
    let large = Bytes::from(vec![7; 700_000]);
    for _ in 0..2 {
        let parts =
            [("live", Bytes::copy_from_slice(&ANY)), ("nodes", large.clone()), ("none", Bytes::new())];
        job.publish_statistics(&parts, fence).await.unwrap();
        let read = job.statistics(&["nodes", "errors", "live", "none"]).await.unwrap();
        assert_eq!(read, [Some(large.clone()), None, Some(Bytes::copy_from_slice(&ANY)), Some(Bytes::new())]);
    }
    job.publish_statistics(&[("live", Bytes::from_static(b"new"))], fence).await.unwrap();
    let read = job.statistics(&["live", "nodes"]).await.unwrap();
    assert_eq!(read, [Some(Bytes::from_static(b"new")), Some(large)]);
    job.publish_statistics(&[], fence).await.unwrap();
    job.remove().await.unwrap();
    let error = job.statistics(&["live"]).await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
    let error = job.publish_statistics(&[], fence).await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
}

pub(super) async fn statistics_are_published_by_the_holder_of_the_watch_alone(ledger: &dyn Ledger) {
    let job = fresh(ledger, "published").await;
    let fence = watching(&*job).await;
    job.statistics(&["live"]).await.unwrap();
    let error = job.publish_statistics(&[("live", Bytes::new())], fence + 1).await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::Superseded, "{error}");
    assert_eq!(job.statistics(&["live"]).await.unwrap(), [None]);
}

pub(super) async fn reader_of_statistics_is_told(ledger: &dyn Ledger) {
    let (job, other) = (fresh(ledger, "read").await, fresh(ledger, "unread").await);
    let fence = watching(&*job).await;
    job.publish_statistics(&[("live", Bytes::new())], fence).await.unwrap();
    assert!(!job.progress().await.unwrap().is_read);
    job.statistics(&["live"]).await.unwrap();
    assert!(job.progress().await.unwrap().is_read);
    assert!(!other.progress().await.unwrap().is_read);
}

pub(super) async fn one_look_tells_what_the_verbs_tell_one_by_one(ledger: &dyn Ledger) {
    let job = fresh(ledger, "looked at").await;
    let fence = watching(&*job).await;
    let empty = job.look(&[]).await.unwrap();
    assert_eq!((empty.nodes.len(), empty.statistics.len(), empty.progress.is_read), (0, 0, false));
    job.set_state(JobState::Running, fence).await.unwrap();
    for name in ["one", "two"] {
        job.join(&worker(name), None).await.unwrap();
    }
    job.conclude(&Conclusion { state: JobState::Canceled, reason: "enough".to_owned() }).await.unwrap();
    // Who names no part does not count as a reader.
    assert!(!job.look(&[]).await.unwrap().progress.is_read);
    assert_eq!(job.look(&["live", "nodes"]).await.unwrap().statistics, [None, None]);
    job.publish_statistics(&[("live", Bytes::copy_from_slice(&ANY))], fence).await.unwrap();
    let look = job.look(&["nodes", "live"]).await.unwrap();
    assert_eq!(look.statistics, [None, Some(Bytes::copy_from_slice(&ANY))]);
    assert_eq!(look.state, job.state().await.unwrap());
    assert_eq!(look.progress, job.progress().await.unwrap());
    let told = |nodes: &[NodeView]| -> Vec<_> {
        nodes.iter().map(|node| (node.node_id, node.info.clone(), node.report.clone(), node.left)).collect()
    };
    assert_eq!(told(&look.nodes), told(&job.nodes().await.unwrap()));
    job.remove().await.unwrap();
    let error = job.look(&["live"]).await.unwrap_err();
    assert_eq!(error.kind, LedgerErrorKind::NotFound, "{error}");
}
