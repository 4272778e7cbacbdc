//! Logs as they grow. One task a log that is followed looks at it once a second and keeps its end, once for all who read along; each
//! reader has a place of its own in it. Who comes too late for what is kept is told how much was left out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, select_all};
use prs_common::storage::{Storage, StorageError, StorageExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::problem::{Kind, Problem};

/// Between two looks at a log.
const LOOK: Duration = Duration::from_secs(1);
/// How long a reader waits for the look that tells the end of a log.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// Bytes of a log that are kept.
const KEPT: u64 = 256 << 10;
/// Bytes before its end where one who names no place begins to read.
const SHOWN_BEFORE: u64 = 64 << 10;
/// A longer line is told in pieces.
const LONGEST_LINE: usize = 16 << 10;
/// Logs that a server follows at once.
const MOST: usize = 512;

/// The end of a log as it was seen last.
#[derive(Debug, Clone, Default)]
struct Grown {
    /// How often it was looked at.
    number: u64,
    /// Where what is kept begins in it.
    from: u64,
    bytes: Bytes,
}

impl Grown {
    fn to(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// A log: its job, and its key in the storage of that.
type Name = (String, String);

/// The logs that are followed.
#[derive(Debug, Default)]
pub(crate) struct LogWatches(Arc<Mutex<HashMap<Name, watch::Receiver<Arc<Grown>>>>>);

impl LogWatches {
    /// Reads the log with this key in the `storage` of the job along with all who do, from a place on: the last lines that there are, where
    /// none is named. Refused where as many logs are followed as the server does.
    pub(crate) fn follow(
        &self,
        job_id: &str,
        (storage, key): (&Arc<dyn Storage>, &str),
        path: &str,
        at: Option<u64>,
    ) -> Result<Reader, Problem> {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (job_id.to_owned(), key.to_owned());
        let known = logs.get(&name).filter(|known| known.has_changed().is_ok()).cloned();
        if known.is_none() && logs.len() >= MOST {
            let why = "As many logs as the server follows are followed.";
            return Err(Problem::new(Kind::TOO_MANY_REQUESTS, why).retry_after(10));
        }
        let grown = known.unwrap_or_else(|| {
            let (sender, receiver) = watch::channel(Arc::default());
            logs.insert(name.clone(), receiver.clone());
            let (storage, logs) = (Arc::clone(storage), Arc::clone(&self.0));
            tokio::spawn(async move {
                look(&*storage, &name.1, &sender).await;
                let mut logs = logs.lock().unwrap_or_else(PoisonError::into_inner);
                // A reader who came meanwhile has a new task.
                if logs.get(&name).is_some_and(|known| known.same_channel(&sender.subscribe())) {
                    logs.remove(&name);
                }
            });
            receiver
        });
        Ok(Reader { path: path.to_owned(), grown, at, is_within_line: at.is_none() })
    }
}

/// Looks at a log until nobody but the list of followed logs has a receiver.
async fn look(storage: &dyn Storage, key: &str, sender: &watch::Sender<Arc<Grown>>) {
    loop {
        let began = Instant::now();
        let before = Arc::clone(&sender.borrow());
        match see(storage, key, &before).await {
            Ok(grown) => drop(sender.send_replace(Arc::new(grown))),
            // That storage is away the stream of the job says.
            Err(error) => tracing::debug!(%error, key, "a log that is followed cannot be read for now"),
        }
        if sender.receiver_count() <= 1 {
            return;
        }
        sleep_until(began + LOOK).await;
    }
}

/// The end of the log now.
async fn see(storage: &dyn Storage, key: &str, before: &Grown) -> Result<Grown, StorageError> {
    let size = storage.head(key).await?.size;
    // A log that another node goes on with may have lost its last lines: they come once more.
    let kept = if size < before.to() { Bytes::new() } else { before.bytes.clone() };
    let known = if kept.is_empty() { size.saturating_sub(KEPT) } else { before.to() };
    let from = known.max(size.saturating_sub(KEPT));
    let new = if from < size { storage.get_range(key, from..size).await? } else { Bytes::new() };
    let number = before.number + 1;
    if from > known || kept.is_empty() {
        return Ok(Grown { number, from, bytes: new });
    }
    if new.is_empty() {
        return Ok(Grown { number, ..before.clone() });
    }
    let surplus = (kept.len() + new.len()).saturating_sub(KEPT as usize);
    let bytes = [&kept[surplus..], &new].concat();
    Ok(Grown { number, from: before.from + surplus as u64, bytes: bytes.into() })
}

/// One who reads a log as it grows.
#[derive(Debug)]
pub(crate) struct Reader {
    path: String,
    grown: watch::Receiver<Arc<Grown>>,
    /// Up to where it was read; nothing before the first look.
    at: Option<u64>,
    /// Whether that may be within a line, whose rest is not told.
    is_within_line: bool,
}

/// What a log has said since the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct News {
    /// Which log.
    pub(crate) path: String,
    /// From where to where bytes were left out: the log grew faster than it is read.
    pub(crate) gap: Option<(u64, u64)>,
    /// Where the lines begin, and where they end.
    pub(crate) window: (u64, u64),
    /// The lines, each with where it begins.
    pub(crate) lines: Vec<(u64, String)>,
}

impl Reader {
    /// What is new in the log as it was seen last; nothing where nothing is. A line without its end is told once it is the last.
    fn read(&mut self, is_last: bool) -> Option<News> {
        let grown = Arc::clone(&self.grown.borrow_and_update());
        if grown.number == 0 {
            return None;
        }
        let wanted = self.at.unwrap_or_else(|| grown.to().saturating_sub(SHOWN_BEFORE)).min(grown.to());
        let from = wanted.max(grown.from);
        let gap = (self.at.is_some() && from > wanted).then_some((wanted, from));
        let mut begin = (from - grown.from) as usize;
        if (self.is_within_line && from > 0) || gap.is_some() {
            let is_whole = begin > 0 && grown.bytes[begin - 1] == b'\n';
            let next = grown.bytes[begin..].iter().position(|byte| *byte == b'\n');
            begin = if is_whole { begin } else { next.map_or(grown.bytes.len(), |at| begin + at + 1) };
        }
        self.is_within_line = false;
        let (lines, end) = whole_lines(&grown.bytes[begin..], grown.from + begin as u64, is_last);
        self.at = Some(end);
        let window = (grown.from + begin as u64, end);
        let gap = gap.map(|(from, _)| (from, window.0));
        (gap.is_some() || !lines.is_empty()).then(|| News { path: self.path.clone(), gap, window, lines })
    }
}

/// The lines in `bytes`, which begin at `from`, and where the last one ends. One without its end counts where it is the last, or too long.
fn whole_lines(bytes: &[u8], from: u64, is_last: bool) -> (Vec<(u64, String)>, u64) {
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..bytes.len().min(at + LONGEST_LINE)];
        let end = rest.iter().position(|byte| *byte == b'\n');
        if end.is_none() && rest.len() < LONGEST_LINE && !is_last {
            break;
        }
        let line = &rest[..end.unwrap_or(rest.len())];
        lines.push((from + at as u64, String::from_utf8_lossy(line).trim_end_matches('\r').to_owned()));
        at += end.map_or(rest.len(), |end| end + 1);
    }
    (lines, from + at as u64)
}

/// One who reads several logs together.
#[derive(Debug, Default)]
pub(crate) struct Readers(Vec<Reader>);

impl Readers {
    /// Of these logs.
    pub(crate) fn new(readers: Vec<Reader>) -> Self {
        Self(readers)
    }

    /// Waits until a log says something. May be dropped and called again; never ends where there is no log.
    pub(crate) async fn news(&mut self) -> News {
        loop {
            if self.0.is_empty() {
                return std::future::pending().await;
            }
            let changed = self.0.iter_mut().map(|reader| Box::pin(reader.grown.changed()));
            let (seen, at, _) = select_all(changed).await;
            if seen.is_err() {
                self.0.remove(at);
            } else if let Some(news) = self.0[at].read(false) {
                return news;
            }
        }
    }

    /// What is left of the logs of a job that has ended, with lines that have no end.
    pub(crate) async fn last(&mut self) -> Vec<News> {
        // What was seen before the end of the job may lack its last words. All are waited for together.
        let looks = self.0.iter_mut().map(|reader| timeout(LAST_LOOK, reader.grown.changed()));
        join_all(looks).await;
        self.0.iter_mut().filter_map(|reader| reader.read(true)).collect()
    }

    /// Up to where each was read, in their order; nothing for one that was not looked at yet.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<u64>> {
        self.0.iter().map(|reader| reader.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
        lines.iter().map(|(at, text)| (*at, (*text).to_owned())).collect()
    }

    #[test]
    fn a_line_is_told_when_it_is_whole() {
        for (text, is_last, expected, end) in [
            ("one\ntwo\r\nthr", false, &[(10, "one"), (14, "two")][..], 19),
            ("one\ntwo\r\nthr", true, &[(10, "one"), (14, "two"), (19, "thr")], 22),
            ("thr", false, &[], 10),
            ("", true, &[], 10),
            ("\n\n", false, &[(10, ""), (11, "")], 12),
        ] {
            assert_eq!(whole_lines(text.as_bytes(), 10, is_last), (own(expected), end), "{text:?}");
        }
        let long = vec![b'x'; LONGEST_LINE + 3];
        let (lines, end) = whole_lines(&long, 0, false);
        assert_eq!((lines.len(), lines[0].1.len(), end), (1, LONGEST_LINE, LONGEST_LINE as u64));
    }

    fn reader(at: Option<u64>) -> (watch::Sender<Arc<Grown>>, Reader) {
        let (sender, grown) = watch::channel(Arc::default());
        (sender, Reader { path: "a.txt".to_owned(), grown, at, is_within_line: at.is_none() })
    }

    fn grown(from: u64, text: &str) -> Arc<Grown> {
        Arc::new(Grown { number: 1, from, bytes: text.to_owned().into() })
    }

    #[test]
    fn a_reader_goes_on_where_it_was_and_is_told_what_is_left_out() {
        let (sender, mut reader) = reader(Some(4));
        assert_eq!(reader.read(false), None, "nothing was seen yet");
        sender.send_replace(grown(0, "one\ntwo\nth"));
        let news = reader.read(false).unwrap();
        assert_eq!((news.lines, news.window, news.gap), (own(&[(4, "two")]), (4, 8), None));
        assert_eq!(reader.read(false), None, "nothing is new");
        sender.send_replace(grown(0, "one\ntwo\nthree\n"));
        assert_eq!(reader.read(false).unwrap().lines, own(&[(8, "three")]));
        // The log grew faster: what is kept begins within a line.
        sender.send_replace(grown(100, "x\nnew\n"));
        let news = reader.read(false).unwrap();
        assert_eq!((news.lines, news.gap), (own(&[(102, "new")]), Some((14, 102))));
        // It is shorter now: another node goes on with it.
        sender.send_replace(grown(0, "one\n"));
        assert_eq!(reader.read(false), None);
        sender.send_replace(grown(0, "one\nmore\n"));
        assert_eq!(reader.read(false).unwrap().lines, own(&[(4, "more")]));
    }

    #[test]
    fn who_names_no_place_has_the_last_lines() {
        let (sender, mut reader) = reader(None);
        let text = "x".repeat(SHOWN_BEFORE as usize) + "\nlast\n";
        sender.send_replace(grown(0, &text));
        assert_eq!(reader.read(false).unwrap().lines, own(&[(SHOWN_BEFORE + 1, "last")]));
        let (sender, mut reader) = self::reader(None);
        sender.send_replace(grown(0, "first\nsec"));
        assert_eq!(reader.read(true).unwrap().lines, own(&[(0, "first"), (6, "sec")]));
    }

    #[tokio::test]
    async fn all_who_read_a_log_share_one_look_at_it() {
        let folder = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(prs_common::storage::LocalStorage::new(folder.path()));
        let write = |text: &str| {
            std::fs::create_dir_all(folder.path().join("logs")).unwrap();
            std::fs::write(folder.path().join("logs/a.txt"), text).unwrap();
        };
        write("one\n");
        let watches = LogWatches::default();
        let follow = |at| watches.follow("job", (&storage, "logs/a.txt"), "a.txt", at).unwrap();
        let (mut first, mut second) = (Readers::new(vec![follow(None)]), Readers::new(vec![follow(Some(4))]));
        assert_eq!(watches.0.lock().unwrap().len(), 1);
        assert_eq!(first.news().await.lines, own(&[(0, "one")]));
        write("one\ntwo\nend");
        assert_eq!(first.news().await.lines, own(&[(4, "two")]));
        assert_eq!(second.news().await.lines, own(&[(4, "two")]));
        assert_eq!(second.last().await[0].lines, own(&[(8, "end")]));
        assert_eq!(first.places().collect::<Vec<_>>(), [Some(8)]);
        drop((first, second));
        let until = Instant::now() + Duration::from_mins(1);
        while !watches.0.lock().unwrap().is_empty() {
            assert!(Instant::now() < until, "nobody reads it any more");
            tokio::time::sleep(LOOK / 10).await;
        }
    }
}
