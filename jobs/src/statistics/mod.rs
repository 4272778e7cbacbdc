//! What the orchestrator publishes of a job over time, by node and by process, for programs.
//!
//! | file | what |
//! |---|---|
//! | `parts` | the parts of the statistics |
//! | `nodes` | the nodes of a job, in an order |
//! | `perf` | what its nodes used of their hosts |
//! | `news` | what came between two looks |

mod news;
mod nodes;
mod parts;
mod perf;

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::future::try_join_all;
use prs_common::layout;
use prs_common::statistics::{FOLDER, NAMES};
use prs_orchestrator::JobRecord;
use prs_orchestrator::report::{page, read_published};
use prs_portal::view::Published;

use crate::failure::Failure;
use crate::homes::JobHome;

pub use self::news::{ErrorNews, News};
pub use self::nodes::{NodeOrder, NodeRecord, RunsOnNode, nodes};
pub use self::parts::{
    ListedTry, LogPlace, OpenRange, PARTS, Parts, PrintedSoFar, RunningMiniBatch, running, slowest, waiting,
};
pub use self::perf::{METRICS, NodeSeries, Point, Series, Window, perf};

/// What is published of a job, as it was seen: while it runs on a fleet that of its ledger.
pub async fn published(home: &dyn JobHome, record: &JobRecord) -> Result<Published, Failure> {
    published_parts(home, record, &NAMES).await
}

/// The same of the parts with these names, [`Live`](prs_common::statistics::Live) among them.
pub async fn published_parts(
    home: &dyn JobHome,
    record: &JobRecord,
    names: &[&'static str],
) -> Result<Published, Failure> {
    let parts = match home.ledger(record).await? {
        Some(ledger) => read_published(&*ledger, names).await,
        None => None,
    };
    let parts = match parts {
        Some(parts) => parts,
        None => stored_parts(home, record, names).await?,
    };
    Ok(page::published(|name| parts.get(name)))
}

/// The parts with these names that storage has; they are some seconds old while the job runs.
pub(crate) async fn stored_parts(
    home: &dyn JobHome,
    record: &JobRecord,
    names: &[&'static str],
) -> Result<HashMap<&'static str, Bytes>, Failure> {
    let reads = names.iter().map(async |name| {
        let found = home.object(record, &format!("{}{FOLDER}{name}", layout::LOGS)).await;
        Ok::<_, Failure>((*name, found.map_err(home.cannot("read the statistics of the job"))?))
    });
    let found: Vec<(&str, Option<Bytes>)> = try_join_all(reads).await?;
    Ok(found.into_iter().filter_map(|(name, part)| Some((name, part?))).collect())
}
