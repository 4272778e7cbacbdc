//! The lines of some days, the newest first: by day, then by object, then by line. Lines of several servers at one time stand object
//! by object. A call reads a bounded number of objects and days, and says where the next one goes on.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use prs_common::storage::{GetOptions, Storage, StorageError, StorageErrorKind};
use prs_common::timestamp::format_us;
use serde::{Deserialize, Serialize};

use super::AuditLine;
use crate::failure::Failure;

/// Objects that a call reads.
const OBJECTS: usize = 64;
/// Days that it lists.
const DAYS: usize = 40;
/// Microseconds of a day.
const DAY_US: u64 = 86_400_000_000;

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of whom: a name, or the id of a token.
    pub principal: Option<String>,
    /// What was asked for: `job.submit`, or `job.` for all of jobs.
    pub action: Option<String>,
    /// What the address asked begins with.
    pub resource: Option<String>,
    /// The status of the answer, or its first digit: `403`, `4`.
    pub result: Option<String>,
    /// The number of the request.
    pub request_id: Option<String>,
    /// From this moment on, microseconds since the Unix epoch.
    pub since_us: u64,
    /// Until this one.
    pub until_us: u64,
    /// So many at most.
    pub limit: usize,
}

/// Where the next page begins: in this day, behind so many lines of this object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// A moment of the day.
    day_us: u64,
    /// Start and key of the last object.
    object: Option<(String, String)>,
    /// Lines of it that were looked at, from its end.
    lines: usize,
}

/// Some lines.
#[derive(Debug, Default)]
pub struct Page {
    /// The newest first.
    pub lines: Vec<AuditLine>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<Position>,
}

/// The folder of the day with this moment, `yyyy/mm/dd/`.
pub(super) fn day(us: u64) -> String {
    let text = format_us(us);
    format!("{}/{}/{}/", &text[..4], &text[5..7], &text[8..10])
}

/// The wanted lines in `storage`, from `position` on.
///
/// # Errors
/// The store fails.
pub async fn list(
    storage: &dyn Storage,
    wanted: &Wanted,
    position: Option<Position>,
) -> Result<Page, Failure> {
    read(storage, wanted, position).await.map_err(Failure::server)
}

async fn read(
    storage: &dyn Storage,
    wanted: &Wanted,
    position: Option<Position>,
) -> Result<Page, StorageError> {
    let first = wanted.since_us - wanted.since_us % DAY_US;
    let mut at = position.unwrap_or(Position { day_us: wanted.until_us, object: None, lines: 0 });
    let mut page = Page::default();
    let (mut days, mut objects) = (0, 0);
    while at.day_us >= first {
        if days == DAYS {
            page.next = Some(at);
            return Ok(page);
        }
        days += 1;
        let all: Vec<_> = storage.list(&day(at.day_us), "").try_collect().await?;
        let starts: BTreeSet<(String, String)> =
            all.into_iter().map(|object| (start_of(&object.key).to_owned(), object.key)).collect();
        for object in starts.into_iter().rev() {
            let behind = match &at.object {
                Some(last) if object > *last => continue,
                Some(last) if object == *last => at.lines,
                _ => 0,
            };
            if objects == OBJECTS {
                page.next = Some(Position { object: Some(object), lines: behind, ..at });
                return Ok(page);
            }
            objects += 1;
            let body = match storage.get_opts(&object.1, GetOptions::default()).await {
                Ok(read) => read.bytes,
                // It was removed meanwhile.
                Err(error) if error.kind == StorageErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let lines: Vec<&[u8]> =
                body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).rev().collect();
            for (number, line) in lines.into_iter().enumerate().skip(behind) {
                // What is no line of ours tells nothing.
                let Ok(line) = serde_json::from_slice::<AuditLine>(line) else { continue };
                if !wanted.has(&line) {
                    continue;
                }
                if page.lines.len() == wanted.limit {
                    page.next = Some(Position { object: Some(object), lines: number, ..at });
                    return Ok(page);
                }
                page.lines.push(line);
            }
        }
        let Some(before) = (at.day_us - at.day_us % DAY_US).checked_sub(1) else { break };
        at = Position { day_us: before, object: None, lines: 0 };
    }
    Ok(page)
}

/// When an object was begun, as its key has it.
fn start_of(key: &str) -> &str {
    key.rsplit_once('-').map_or("", |(_, start)| start)
}

impl Wanted {
    fn has(&self, line: &AuditLine) -> bool {
        let is = |wanted: &Option<String>, own: &Option<String>| wanted.is_none() || wanted == own;
        let is_theirs = is(&self.principal, &line.principal) || is(&self.principal, &line.token_id);
        let begins = |wanted: &Option<String>, own: &str| {
            wanted.as_ref().is_none_or(|wanted| own.starts_with(wanted.as_str()))
        };
        let is_action = self.action.as_ref().is_none_or(|wanted| {
            *wanted == line.action || (wanted.ends_with('.') && line.action.starts_with(wanted.as_str()))
        });
        let is_of_request = self.request_id.as_ref().is_none_or(|wanted| *wanted == line.request_id);
        // Moments of one form sort as texts.
        let is_in_time = line.at >= format_us(self.since_us) && line.at <= format_us(self.until_us);
        is_theirs
            && is_action
            && is_of_request
            && is_in_time
            && begins(&self.resource, &line.resource)
            && begins(&self.result, &line.result.to_string())
    }
}
