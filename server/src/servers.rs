//! The servers behind this one as they were seen some seconds ago: who collects figures and who looks at the page ask for the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prs_common::storage::Room;
use prs_common::timestamp::now_us;
use prs_jobs::Whereabouts;
use prs_jobs::servers::{Dependency, ServerView, Servers};
use tokio::sync::Mutex;
use tracing::debug;

/// How old a look may be.
const AGE: Duration = Duration::from_secs(10);
/// The same of what a storage has room for.
const ROOM_AGE: Duration = Duration::from_mins(1);

/// The servers at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) all: Vec<ServerView>,
    /// When they were seen, microseconds since the Unix epoch.
    pub(crate) at_us: u64,
}

/// The servers, kept between requests.
#[derive(Debug)]
pub(crate) struct ServersView {
    servers: Servers,
    kept: Mutex<Option<(Instant, Arc<Seen>)>>,
    /// What the storage has room for, and when it said so.
    room: Mutex<Option<(Instant, Room)>>,
}

impl ServersView {
    pub(crate) fn new(whereabouts: Whereabouts) -> Self {
        Self { servers: Servers::new(whereabouts), kept: Mutex::default(), room: Mutex::default() }
    }

    /// The servers as they are now, or were a moment ago; as they are now where something `has_failed` since.
    pub(crate) async fn look(&self, has_failed: bool) -> Arc<Seen> {
        // Who comes meanwhile waits for the one look.
        let asked = Instant::now();
        let mut kept = self.kept.lock().await;
        let is_new = |at: &Instant| if has_failed { *at >= asked } else { at.elapsed() < AGE };
        if let Some((_, seen)) = kept.as_ref().filter(|(at, _)| is_new(at)) {
            return Arc::clone(seen);
        }
        let at = Instant::now();
        let seen = Arc::new(Seen { all: self.servers.look().await, at_us: now_us() });
        *kept = Some((at, Arc::clone(&seen)));
        seen
    }

    /// The same, with what the storage has room for.
    pub(crate) async fn look_closely(&self) -> Seen {
        let (seen, room) = tokio::join!(self.look(false), self.storage_room());
        let mut seen = (*seen).clone();
        let storages =
            seen.all.iter_mut().filter(|one| one.dependency == Dependency::Storage && one.reachable);
        for storage in storages {
            storage.room.incomplete_uploads = room.incomplete_uploads;
            storage.room.free_bytes = storage.room.free_bytes.or(room.free_bytes);
        }
        seen
    }

    async fn storage_room(&self) -> Room {
        let mut kept = self.room.lock().await;
        if let Some((_, room)) = kept.as_ref().filter(|(at, _)| at.elapsed() < ROOM_AGE) {
            return *room;
        }
        match self.servers.storage_room().await {
            Ok(room) => {
                *kept = Some((Instant::now(), room));
                room
            }
            Err(failure) => {
                debug!(%failure, "the storage does not say what it has room for");
                Room::default()
            }
        }
    }
}
