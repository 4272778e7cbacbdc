//! Which logs there are: all that are wanted, or a page of them, of one folder or of all below it. No more folders are listed than may
//! have what is wanted, and a page reads a bounded part of their listing.

use futures_util::{StreamExt, TryStreamExt};
use prs_common::layout;
use prs_common::statistics;
use prs_common::storage::{FolderEntry, FolderListing, ObjectMeta};
use prs_common::timestamp::{format_us, now_us};
use prs_common::try_table;
use serde::{Deserialize, Serialize};

use super::named::{LogChoice, LogKind, LogName, Place};
use crate::failure::Failure;
use crate::homes::JobHome;
use crate::records::{Log, LogEntry};

/// Names that a page looks at, at most.
pub const LOOKED_AT: usize = 5_000;
/// A log of a job that has not ended grows where it was written within so many seconds.
const GROWING: u64 = 60;

/// What a page of logs has.
#[derive(Debug, Default)]
pub struct LogPage {
    /// Logs and folders.
    pub entries: Vec<LogEntry>,
    /// Where the next page begins; nothing behind the last.
    pub next: Option<LogCursor>,
}

/// Where a list of logs goes on: in which of its folders, and behind which name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    place: usize,
    after: String,
}

/// Statistics and the table of tries stand among the logs, and are for programs.
fn is_for_programs(file: &str) -> bool {
    file.starts_with(statistics::FOLDER) || file.starts_with(try_table::FOLDER)
}

fn below(key: &str) -> &str {
    key.strip_prefix(layout::LOGS).unwrap_or(key)
}

/// What is in a folder of logs, behind the name `after`.
fn entries(home: &dyn JobHome, place: &Place, after: &str) -> FolderListing {
    let key = |name: &str| format!("{}{name}", layout::LOGS);
    let (folder, after) = (key(&place.folder), if after.is_empty() { String::new() } else { key(after) });
    if place.is_deep {
        home.storage().list(&folder, &after).map_ok(FolderEntry::Object).boxed()
    } else {
        home.storage().list_folder(&folder, &after)
    }
}

/// All logs that are wanted, by their names.
pub async fn all(home: &dyn JobHome, wanted: &LogChoice) -> Result<Vec<Log>, Failure> {
    let mut found: Vec<Log> = written(home, wanted).await?.into_iter().map(|(log, _)| log).collect();
    found.sort_unstable_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// All logs that are wanted, each with when it was written last, seconds since the Unix epoch; 0 where storage does not tell.
pub(super) async fn written(home: &dyn JobHome, wanted: &LogChoice) -> Result<Vec<(Log, u64)>, Failure> {
    let (mut found, mut has_logs) = (Vec::new(), false);
    for place in wanted.places() {
        let mut listing = entries(home, &place, "");
        while let Some(entry) = listing.try_next().await.map_err(home.cannot("list the logs"))? {
            has_logs = true;
            let FolderEntry::Object(ObjectMeta { key, size, modified, .. }) = entry else { continue };
            let file = below(&key);
            if !is_for_programs(file) && wanted.fits(file) {
                found.push((Log { file: file.to_owned(), bytes: size }, modified.unwrap_or_default()));
            }
        }
    }
    if !has_logs {
        // No job, or one whose logs are not there yet.
        home.record().await?;
    }
    Ok(found)
}

/// Up to `limit` of the logs that are wanted, from a cursor on; where `is_flat`, of their folder alone, with the folders in it.
pub async fn page(
    home: &dyn JobHome,
    wanted: &LogChoice,
    is_flat: bool,
    cursor: Option<LogCursor>,
    limit: usize,
) -> Result<LogPage, Failure> {
    let has_ended = home.record().await?.result.is_some();
    let grows = |modified: Option<u64>| {
        let now = now_us() / 1_000_000;
        !has_ended && modified.is_none_or(|modified| now.saturating_sub(modified) <= GROWING)
    };
    let places = if is_flat {
        vec![Place { folder: wanted.folder().to_owned(), is_deep: false }]
    } else {
        wanted.places()
    };
    let (mut page, mut looked_at) = (LogPage::default(), 0);
    let begin = cursor.as_ref().map_or(0, |cursor| cursor.place);
    for (number, place) in places.iter().enumerate().skip(begin) {
        let after = cursor.as_ref().filter(|cursor| cursor.place == number);
        let mut last = after.map(|cursor| cursor.after.clone()).unwrap_or_default();
        let mut listing = entries(home, place, &last);
        while let Some(entry) = listing.try_next().await.map_err(home.cannot("list the logs"))? {
            if page.entries.len() == limit || looked_at == LOOKED_AT {
                page.next = Some(LogCursor { place: number, after: last });
                return Ok(page);
            }
            looked_at += 1;
            below(entry.key()).clone_into(&mut last);
            if is_for_programs(&last) {
                continue;
            }
            match entry {
                FolderEntry::Folder(_) if is_flat && wanted.may_be_in(&last) => {
                    let node_id = LogName::of(&last).node_id;
                    page.entries.push(LogEntry { path: last.clone(), node_id, ..LogEntry::default() });
                }
                FolderEntry::Object(object) if wanted.fits(&last) => {
                    let LogName { kind, node_id, process } = LogName::of(&last);
                    page.entries.push(LogEntry {
                        kind: kind.map(LogKind::as_str),
                        node_id,
                        process: process.map(str::to_owned),
                        bytes: Some(object.size),
                        modified_at: object.modified.map(|seconds| format_us(seconds * 1_000_000)),
                        growing: grows(object.modified),
                        path: last.clone(),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prs_common::job::JobSpec;
    use prs_common::storage::{LocalStorage, PutMode, Storage};
    use prs_orchestrator::JobRecord;

    use super::*;
    use crate::homes;

    /// A folder with a job and these logs.
    async fn job(files: &[&str]) -> (tempfile::TempDir, homes::Home) {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(folder.path()));
        let spec = JobSpec::new("job", "/code", "main.py", vec![]);
        let mut record = JobRecord::new("job-1".to_owned(), String::new(), spec);
        record.write(&*storage).await.unwrap();
        for file in files {
            let key = format!("{}{file}", layout::LOGS);
            storage.put(&key, (*file).to_owned().into(), PutMode::Create).await.unwrap();
        }
        let home = homes::in_folder(folder.path().to_owned());
        (folder, home)
    }

    const FILES: [&str; 9] = [
        "job_error.txt",
        "perf/3/node.csv",
        "sys/job_report/tries/000001.csv",
        "sys/node/3/process000.txt",
        "sys/statistics/live",
        "user/error.txt",
        "user/error/3/process000.txt",
        "user/stdout/10/process000.stdout.txt",
        "user/stdout/3/process000.stdout.txt",
    ];

    fn paths(page: &LogPage) -> Vec<&str> {
        page.entries.iter().map(|entry| &*entry.path).collect()
    }

    #[tokio::test]
    async fn a_page_is_of_one_folder_or_of_all_below_it() {
        let (_folder, home) = job(&FILES).await;
        let page = async |wanted: &LogChoice, is_flat| page(&*home, wanted, is_flat, None, 50).await.unwrap();
        let below = |prefix: &str| LogChoice { prefix: prefix.to_owned(), ..LogChoice::default() };
        for (prefix, expected) in [
            ("", &["job_error.txt", "perf/", "sys/", "user/"][..]),
            ("user/", &["user/error.txt", "user/error/", "user/stdout/"]),
            ("user/std", &["user/stdout/"]),
            ("user/stdout/", &["user/stdout/10/", "user/stdout/3/"]),
            ("sys/job_report/", &[]),
        ] {
            assert_eq!(paths(&page(&below(prefix), true).await), expected, "{prefix}");
        }
        let nodes = page(&below("user/stdout/"), true).await;
        assert_eq!((nodes.entries[0].node_id, nodes.entries[0].bytes), (Some(10), None));
        let chosen = LogChoice {
            nodes: vec![3],
            kinds: vec![LogKind::Stdout, LogKind::Error],
            ..LogChoice::default()
        };
        let found = page(&chosen, false).await;
        assert_eq!(paths(&found), ["user/error/3/process000.txt", "user/stdout/3/process000.stdout.txt"]);
        let entry = &found.entries[1];
        assert_eq!(
            (entry.kind, entry.node_id, entry.process.as_deref(), entry.bytes, entry.growing),
            (Some("stdout"), Some(3), Some("process000"), Some(35), true)
        );
        assert_eq!(
            paths(&page(&chosen, true).await),
            ["user/"],
            "folders that have none of them are left out"
        );
        let all: Vec<String> =
            all(&*home, &LogChoice::default()).await.unwrap().into_iter().map(|log| log.file).collect();
        let for_people: Vec<_> = FILES.into_iter().filter(|file| !is_for_programs(file)).collect();
        assert_eq!(all, for_people);
    }

    #[tokio::test]
    async fn pages_go_on_where_the_one_before_ended() {
        let (_folder, home) = job(&FILES).await;
        for (wanted, is_flat) in [
            (LogChoice::default(), true),
            (LogChoice::default(), false),
            (LogChoice { kinds: vec![LogKind::Error], ..LogChoice::default() }, false),
        ] {
            let whole = page(&*home, &wanted, is_flat, None, 50).await.unwrap();
            assert!(whole.next.is_none());
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let one = page(&*home, &wanted, is_flat, cursor, 1).await.unwrap();
                found.extend(one.entries);
                cursor = one.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, whole.entries, "{wanted:?}");
        }
    }
}
