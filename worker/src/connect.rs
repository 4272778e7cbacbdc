//! Connecting to the servers of a fleet, and to the buckets that inputs are in.

use std::sync::Arc;

use prs_common::servers::{ConnectError, ServerUrls, Servers, connect};
use prs_common::storage;
use prs_orchestrator::Fleet;
use prs_orchestrator::inputs::Opener;

/// Connects to a fleet.
pub async fn connect_fleet(urls: &ServerUrls) -> Result<Fleet, ConnectError> {
    let Servers { queue, ledger, storage } = Box::pin(connect(urls)).await?;
    Ok(Fleet { queue, ledger, storage, open: opener() })
}

/// Opens buckets and HTTP servers by their URLs, the former with the credentials of this program's environment.
pub fn opener() -> Opener {
    Arc::new(|url, reach| Box::pin(async move { storage::open_within(&url, reach).await }))
}
