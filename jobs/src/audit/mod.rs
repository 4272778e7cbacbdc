//! Who changed what at a server, and who wanted to and might not: a line of JSON for each, in the storage of the jobs.
//!
//! A line is noted in memory when its request has an answer. Every [`FLUSH`] what was noted is written, as one object that grows for
//! `PERIOD`: `audit/yyyy/mm/dd/SERVER-START.jsonl` on a fleet, the same below `.registry/` beside the runs of this machine. No line has
//! a body or a secret. While lines cannot be written they are kept, and [`Audit::lag`] says for how long.
//!
//! | file | duty |
//! |---|---|
//! | `line` | what is kept of a request |
//! | `list` | the lines of some days, the newest first |

mod line;
mod list;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use prs_common::host_name;
use prs_common::storage::{LocalStorage, PutMode, Storage, StorageError};
use prs_common::timestamp::now_us;

use crate::failure::Failure;
use crate::homes::fleet::Reader;
use crate::homes::{Whereabouts, registry};

pub use line::{AuditLine, without_tokens};
pub use list::{Page, Position, Wanted, list};

/// Between two writes of what was noted.
pub const FLUSH: Duration = Duration::from_secs(5);
/// How long an object grows.
const PERIOD: Duration = Duration::from_mins(5);
/// How large it grows, bytes: it is written as a whole each time.
const LARGEST: usize = 4 << 20;
/// From such a lag on nothing is to be changed any more.
pub const STUCK: Duration = Duration::from_mins(1);
/// How long lines are kept.
const KEPT: Duration = Duration::from_hours(400 * 24);
/// The folder, in the storage of a fleet and in the registry of this machine.
const FOLDER: &str = "audit";

/// The lines of one server. Clones share them.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    storage: Arc<dyn Storage>,
    /// The folder of runs beside which the lines are, where they are on this machine.
    runs: Option<PathBuf>,
    /// What this server is called in the names of objects.
    server: String,
    waiting: Mutex<VecDeque<(Instant, String)>>,
    /// Held while something is written.
    current: tokio::sync::Mutex<Current>,
}

/// The object that grows.
#[derive(Debug, Default)]
struct Current {
    key: String,
    began: Option<Instant>,
    body: Vec<u8>,
}

impl Audit {
    /// For a server in front of the jobs there.
    ///
    /// # Errors
    /// The storage cannot be used.
    pub async fn open(whereabouts: &Whereabouts) -> Result<Self, Failure> {
        let host: String = host_name()
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '_' })
            .take(64)
            .collect();
        Ok(Self(Arc::new(Inner {
            storage: storage_of(whereabouts).await?,
            runs: whereabouts.urls.is_none().then(|| whereabouts.runs.clone()),
            server: format!("{host}.{}", std::process::id()),
            waiting: Mutex::default(),
            current: tokio::sync::Mutex::default(),
        })))
    }

    /// Where the lines are.
    pub fn storage(&self) -> &dyn Storage {
        &*self.0.storage
    }

    /// Notes a line. It is written soon.
    pub fn note(&self, line: &AuditLine) {
        self.waiting().push_back((Instant::now(), line.text()));
    }

    /// For how long the oldest line has been waiting that is not written.
    pub fn lag(&self) -> Duration {
        self.waiting().front().map_or(Duration::ZERO, |(noted, _)| noted.elapsed())
    }

    /// Whether lines have not been written for so long that nothing is to be changed any more.
    pub fn is_stuck(&self) -> bool {
        self.lag() > STUCK
    }

    /// Writes what was noted.
    ///
    /// # Errors
    /// The store fails; what was noted is kept for the next time.
    pub async fn flush(&self) -> Result<(), Failure> {
        let inner = &*self.0;
        let mut current = inner.current.lock().await;
        let lines: Vec<String> = self.waiting().iter().map(|(_, line)| line.clone()).collect();
        if lines.is_empty() {
            return Ok(());
        }
        if let Some(runs) = &inner.runs {
            registry::make(runs)?;
        }
        let grows =
            current.began.is_some_and(|began| began.elapsed() < PERIOD) && current.body.len() < LARGEST;
        if !grows {
            let now = now_us();
            let key = format!("{}{}-{now:016}.jsonl", list::day(now), inner.server);
            *current = Current { key, began: Some(Instant::now()), body: Vec::new() };
        }
        let mut body = current.body.clone();
        for line in &lines {
            body.extend_from_slice(line.as_bytes());
            body.push(b'\n');
        }
        let put = inner.storage.put(&current.key, body.clone().into(), PutMode::Overwrite).await;
        put.map_err(Failure::server)?;
        current.body = body;
        self.waiting().drain(..lines.len());
        Ok(())
    }

    /// Writes what is noted, again and again. Never returns.
    pub async fn keep(&self) {
        let mut is_told = false;
        loop {
            tokio::time::sleep(FLUSH).await;
            match self.flush().await {
                Ok(()) => is_told = false,
                Err(error) if !is_told => {
                    is_told = true;
                    tracing::error!(
                        %error,
                        "lines of the audit cannot be written; from a minute on nothing can be changed at this server until they can"
                    );
                }
                Err(_) => {}
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Instant, String)>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn storage_of(whereabouts: &Whereabouts) -> Result<Arc<dyn Storage>, Failure> {
    Ok(match Reader::connect(whereabouts).await? {
        Some(reader) => reader.storage().below(FOLDER),
        None => Arc::new(LocalStorage::new(registry::folder_of_runs(&whereabouts.runs)?.join(FOLDER))),
    })
}

/// How many objects there are with lines older than 400 days; they go where `remove` says so.
///
/// # Errors
/// The store fails.
pub async fn expired(whereabouts: &Whereabouts, remove: bool) -> Result<u64, Failure> {
    let storage = storage_of(whereabouts).await?;
    let until = list::day(now_us().saturating_sub(KEPT.as_micros() as u64));
    let keys = async {
        let mut keys = Vec::new();
        let mut listed = storage.list("", "");
        while let Some(object) = listed.try_next().await? {
            // By day, the oldest first.
            if object.key >= until {
                break;
            }
            keys.push(object.key);
        }
        if remove {
            storage.delete_all(&keys).await?;
        }
        Ok::<_, StorageError>(keys.len() as u64)
    };
    keys.await.map_err(Failure::server)
}

#[cfg(test)]
mod tests {
    use prs_common::job::Names;
    use prs_common::storage::{GetOptions, StorageExt};
    use prs_common::timestamp::format_us;

    use super::*;
    use crate::caller::Unattended;

    fn line(action: &str, principal: &str, at_us: u64) -> AuditLine {
        AuditLine {
            at: format_us(at_us),
            request_id: "r".to_owned(),
            principal: Some(principal.to_owned()),
            action: action.to_owned(),
            result: 201,
            ..AuditLine::default()
        }
    }

    #[tokio::test]
    async fn lines_are_written_together_and_read_again_the_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let whereabouts = Whereabouts::new(None, runs.clone(), Names::default(), Arc::new(Unattended));
        let audit = Audit::open(&whereabouts).await.unwrap();
        let now = now_us();
        assert_eq!(audit.lag(), Duration::ZERO);
        audit.note(&line("job.submit", "ana", now));
        assert!(audit.lag() > Duration::ZERO && !audit.is_stuck());
        audit.flush().await.unwrap();
        audit.note(&line("token.create", "bo", now + 1));
        audit.note(&line("job.cancel", "ana", now + 2));
        audit.flush().await.unwrap();
        assert_eq!(audit.lag(), Duration::ZERO);
        let objects = audit.storage().list_all("").await.unwrap();
        assert_eq!(objects.len(), 1, "it grows: {objects:?}");
        let body = audit.storage().get_opts(&objects[0].key, GetOptions::default()).await.unwrap().bytes;
        assert_eq!(memchr::memchr_iter(b'\n', &body).count(), 3);
        let wanted = Wanted { limit: 2, until_us: now + 10, ..Wanted::default() };
        let first = list(audit.storage(), &wanted, None).await.unwrap();
        let actions: Vec<&str> = first.lines.iter().map(|line| &*line.action).collect();
        assert_eq!(actions, ["job.cancel", "token.create"]);
        let rest = list(audit.storage(), &wanted, first.next).await.unwrap();
        assert_eq!(rest.lines.len(), 1);
        let of_ana = Wanted { principal: Some("ana".to_owned()), limit: 9, ..wanted.clone() };
        assert_eq!(list(audit.storage(), &of_ana, None).await.unwrap().lines.len(), 2);
        let later = Wanted { since_us: now + 2, ..Wanted { limit: 9, ..wanted } };
        assert_eq!(list(audit.storage(), &later, None).await.unwrap().lines.len(), 1);
        assert_eq!(expired(&whereabouts, true).await.unwrap(), 0);
        let old = "1999/01/02/host.1-0000000000000001.jsonl";
        audit.storage().put(old, "{}\n".into(), PutMode::Create).await.unwrap();
        assert_eq!(expired(&whereabouts, false).await.unwrap(), 1);
        assert_eq!(expired(&whereabouts, true).await.unwrap(), 1);
        assert_eq!(audit.storage().list_all("").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let whereabouts = Whereabouts::new(None, runs.clone(), Names::default(), Arc::new(Unattended));
        let audit = Audit::open(&whereabouts).await.unwrap();
        std::fs::create_dir_all(&runs).unwrap();
        std::fs::write(runs.join(".registry"), "in the way").unwrap();
        audit.note(&line("job.submit", "ana", now_us()));
        audit.flush().await.unwrap_err();
        std::fs::remove_file(runs.join(".registry")).unwrap();
        audit.flush().await.unwrap();
        assert_eq!(audit.storage().list_all("").await.unwrap().len(), 1);
    }
}
