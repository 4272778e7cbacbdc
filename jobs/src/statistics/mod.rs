//! What the orchestrator publishes of a job over time, by node and by process, for programs.
//!
//! | file | what |
//! |---|---|
//! | `parts` | the parts of the statistics as JSON |
//! | `nodes` | the nodes of a job, in an order |
//! | `perf` | what its nodes used of their hosts |

mod nodes;
mod parts;
mod perf;

use prs_orchestrator::JobRecord;
use prs_orchestrator::report::{page, read_statistics};
use prs_portal::view::Published;

use crate::failure::Failure;
use crate::homes::JobHome;

pub use self::nodes::{NodeOrder, NodeRecord, nodes};
pub use self::parts::{PARTS, part, waiting};
pub use self::perf::{METRICS, Point, Series, Window, perf};

/// What is published of a job, as it was seen: while it runs on a fleet that of its ledger.
pub async fn published(home: &dyn JobHome, record: &JobRecord) -> Result<Published, Failure> {
    let ledger = home.ledger(record).await?;
    let found = read_statistics(&**home.storage(), ledger.as_deref()).await;
    let found = found.map_err(home.cannot("read the statistics of the job"))?;
    Ok(page::published(|name| found.get(name).cloned()))
}
