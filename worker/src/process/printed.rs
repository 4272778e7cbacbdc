//! What processes print, as far as people see it while they wait: the last line.
//!
//! Only the end of a file is read, and only when it is asked for.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use console::strip_ansi_codes;
use prs_common::tree;

use crate::process::Streams;
use crate::process::seen_errors::cut;

/// The end of a file that a line is looked for in, bytes.
const TAIL: u64 = 4 << 10;

/// The files that a process prints to, and where what it prints begins in them.
#[derive(Debug)]
pub(crate) struct Printed(Vec<(PathBuf, u64)>);

impl Printed {
    /// What goes to `streams` from now on: what stands there is that of a former start of the job.
    pub(crate) fn from_now_on(streams: &Streams) -> Self {
        let Streams::Files { stdout, stderr } = streams else { return Self(Vec::new()) };
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        Self([stdout, stderr].map(|path| (path.clone(), size(path))).into())
    }

    /// How long the files are, standard output first, bytes; nothing where the process prints to none.
    pub(crate) fn lengths(&self) -> Option<(u64, u64)> {
        let [stdout, stderr] = &self.0[..] else { return None };
        let length = |(path, begin): &(PathBuf, u64)| fs::metadata(path).map_or(*begin, |file| file.len());
        Some((length(stdout), length(stderr)))
    }

    /// The files with something in them, each with the time of its last write, microseconds since the Unix epoch, and the
    /// part to read.
    fn written(&self) -> impl Iterator<Item = (u64, Tail<'_>)> {
        self.0.iter().filter_map(|(path, begin)| {
            let file = fs::metadata(path).ok().filter(|file| file.is_file() && file.len() > *begin)?;
            let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            let begin = file.len().saturating_sub(TAIL).max(*begin);
            Some((since.as_micros() as u64, Tail { path, begin, end: file.len() }))
        })
    }
}

/// The end of a file.
struct Tail<'a> {
    path: &'a PathBuf,
    begin: u64,
    end: u64,
}

impl Tail<'_> {
    fn last_line(&self) -> Option<String> {
        let mut bytes = vec![0; (self.end - self.begin) as usize];
        let read = tree::open_file(self.path).and_then(|file| file.read_at(&mut bytes, self.begin)).ok()?;
        last_line(&String::from_utf8_lossy(&bytes[..read]))
    }
}

/// The process that printed a line last, when, microseconds since the Unix epoch, and the line.
pub(crate) fn last<'a, P>(processes: impl Iterator<Item = (P, &'a Printed)>) -> Option<(P, u64, String)>
where
    P: Copy,
{
    let mut written: Vec<_> = processes
        .flat_map(|(process, printed)| printed.written().map(move |(at_us, tail)| (process, at_us, tail)))
        .collect();
    written.sort_by_key(|(_, at_us, _)| std::cmp::Reverse(*at_us));
    written.into_iter().find_map(|(process, at_us, tail)| Some((process, at_us, tail.last_line()?)))
}

/// The last line that is not blank, as a terminal would show it: a progress bar begins its line again and again.
fn last_line(text: &str) -> Option<String> {
    let plain = strip_ansi_codes(text);
    let lines = plain.split(['\n', '\r']);
    let shown = lines.map(|line| line.replace(char::is_control, " "));
    shown.rev().find_map(|line| Some(cut(line.trim())).filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_last_line_is_what_a_terminal_shows() {
        let table = [
            ("", None),
            ("\n \r\n\t", None),
            ("one\ntwo", Some("two")),
            ("one\ntwo\n\n", Some("two")),
            ("shards:   0%\rshards:  40%", Some("shards:  40%")),
            ("shards: 100%\r\n", Some("shards: 100%")),
            ("\u{1b}[1;31mred\u{1b}[0m\tand\u{1b}[K \u{7}bold\u{1b}[A", Some("red and  bold")),
            ("a title: \u{1b}]0;my shell\u{7}ready", Some("a title: ready")),
        ];
        for (text, expected) in table {
            assert_eq!(last_line(text).as_deref(), expected, "{text:?}");
        }
        let long = last_line(&"é".repeat(1_000)).unwrap();
        assert!(long.len() < 170 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn what_was_written_last_is_told_and_nothing_of_a_former_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let streams = |name: &str| Streams::Files {
            stdout: file(&format!("{name}.out")),
            stderr: file(&format!("{name}.err")),
        };
        let write = |name: &str, second: u64, text: &str| {
            let mut file = File::options().append(true).create(true).open(file(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        };
        write("a.out", 50, "of a former start\n");
        let printed = ["a", "b"].map(|name| Printed::from_now_on(&streams(name)));
        let told = || last(["a", "b"].into_iter().zip(&printed));
        assert_eq!(told(), None);
        write("b.err", 60, "warning\n");
        assert_eq!(told(), Some(("b", 60_000_000, "warning".to_owned())));
        write("a.out", 70, "\n");
        assert_eq!(told(), Some(("b", 60_000_000, "warning".to_owned())), "a blank line says nothing");
        write("a.out", 80, &("x".repeat(10_000) + "\nloaded\n"));
        assert_eq!(told(), Some(("a", 80_000_000, "loaded".to_owned())));
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        let streams = Streams::Files { stdout: path, stderr: folder.path().into() };
        assert_eq!(last([((), &Printed::from_now_on(&streams))].into_iter()), None);
    }
}
