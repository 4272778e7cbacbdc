//! What handlers share.

use std::ops::Deref;
use std::sync::Arc;

use prs_common::statistics::{Live, Part};
use prs_jobs::Whereabouts;
use prs_jobs::audit::Audit;
use prs_jobs::homes::{self, Home, Seen};
use prs_jobs::intake::Desk;
use prs_jobs::looks::brief;
use prs_portal::view::Chrome;
use tokio_util::sync::CancellationToken;

use crate::auth::Access;
use crate::fleet::FleetView;
use crate::http::rates::{Counts, Limits};
use crate::index::Index;
use crate::live::Watches;
use crate::metrics::Metrics;
use crate::problem::{Kind, Places, Problem};
use crate::servers::ServersView;
use crate::shared_looks::SharedLooks;

/// A job as it was seen, with what its orchestrator said last; or why it cannot be seen.
pub(crate) type Looked = Result<Arc<(Seen, Option<Live>)>, Problem>;

/// What goes past a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direct {
    /// Files that are asked for.
    pub downloads: bool,
    /// Files that are sent.
    pub uploads: bool,
}

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

/// What there is once.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Where the jobs are.
    pub(crate) whereabouts: Whereabouts,
    /// Where jobs are handed in.
    pub(crate) desk: Desk,
    /// Who may ask.
    pub(crate) access: Access,
    /// All jobs.
    pub(crate) index: Index,
    /// The targets of the fleet.
    pub(crate) fleet: FleetView,
    /// The servers behind this one.
    pub(crate) servers: ServersView,
    /// What it takes.
    pub(crate) limits: Limits,
    /// How many requests come.
    pub(crate) counts: Counts,
    /// Who changed what.
    pub(crate) audit: Audit,
    /// What is counted of this server.
    pub(crate) metrics: Metrics,
    /// The jobs that are watched.
    pub(crate) watches: Watches,
    /// The jobs that are asked for now.
    pub(crate) looks: SharedLooks<Looked>,
    /// What stands around pages.
    pub(crate) chrome: Chrome,
    /// Places of its disk that no problem names.
    pub(crate) places: Places,
    /// The address of this server, as its users have it.
    pub(crate) url: String,
    /// What goes past this server, straight to the storage and from there.
    pub(crate) direct: Direct,
    /// Whether links log browsers in.
    pub(crate) has_links: bool,
    /// Whether browsers come by https.
    pub(crate) is_secure: bool,
    /// The commit that it was built of.
    pub(crate) commit: &'static str,
    /// The server is about to end.
    pub(crate) stop: CancellationToken,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The job with this id.
    pub(crate) async fn home(&self, id: &str) -> Result<Home, Problem> {
        let found = homes::of_id(id, &self.whereabouts).await;
        found.map_err(|failure| Problem::of(&failure, Kind::REFUSED))
    }

    /// The job with this id, and how it stands.
    pub(crate) async fn seen(&self, id: &str) -> Result<(Home, Seen), Problem> {
        let home = self.home(id).await?;
        let seen = home.look().await.map_err(|failure| Problem::of(&failure, Kind::REFUSED))?;
        Ok((home, seen))
    }

    /// How the job with this id stands, and what its orchestrator said last of this start of it; one look for all who ask at once.
    pub(crate) async fn told(&self, id: &str) -> Result<Arc<(Seen, Option<Live>)>, Problem> {
        self.looks.get(id, async || Ok(Arc::new(self.look(id).await?))).await
    }

    async fn look(&self, id: &str) -> Result<(Seen, Option<Live>), Problem> {
        let home = self.home(id).await?;
        let refused = |failure| Problem::of(&failure, Kind::REFUSED);
        let record = home.record().await.map_err(refused)?;
        let (seen, published) = brief(&*home, record, &[Live::NAME]).await.map_err(refused)?;
        let live = published.live.filter(|live| live.incarnation == seen.record.incarnation);
        Ok((seen, live))
    }
}
