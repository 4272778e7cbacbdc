//! Inputs on their way to storage, before a job is handed in.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar};
use prs_jobs::Uploads;
use prs_orchestrator::inputs::InputProgress;

use super::facts::clock;
use super::{live_line, width};
use crate::terminal::fit::{Part, fit};
use crate::terminal::output;

/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// What a person sees while inputs are brought to storage: on a terminal a bar, elsewhere lines.
pub(super) struct Uploading {
    bar: Option<ProgressBar>,
    lines: Mutex<Lines>,
    began: Instant,
}

impl Uploading {
    /// Begins; nothing is shown before something is known.
    pub(super) fn begin() -> Self {
        let began = Instant::now();
        Self { bar: output::is_watched().then(live_line), lines: Mutex::new(Lines::begin(began)), began }
    }
}

impl Uploads for Uploading {
    fn wants_totals(&self) -> bool {
        self.bar.is_some()
    }

    fn show(&self, input: &str, seen: InputProgress) {
        if let Some(bar) = &self.bar {
            bar.set_message(on_the_way(input, seen, self.began.elapsed(), width()));
            return bar.tick();
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.hear(input, seen, Instant::now()).into_iter().for_each(output::note);
    }

    fn end(self: Box<Self>) {
        if let Some(bar) = self.bar {
            return bar.finish_and_clear();
        }
        let lines = self.lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        lines.last(Instant::now()).into_iter().for_each(output::note);
    }
}

/// Plain lines about inputs on their way: one every [`LINE_INTERVAL`], and a last one where it took longer.
struct Lines {
    began: Instant,
    next: Instant,
    seen: Option<(String, InputProgress)>,
}

impl Lines {
    fn begin(now: Instant) -> Self {
        Self { began: now, next: now + LINE_INTERVAL, seen: None }
    }

    /// The line that is due, if one is.
    fn hear(&mut self, input: &str, progress: InputProgress, now: Instant) -> Option<String> {
        match &mut self.seen {
            Some((name, seen)) if name == input => *seen = progress,
            seen => *seen = Some((input.to_owned(), progress)),
        }
        if now < self.next {
            return None;
        }
        self.next = now + LINE_INTERVAL;
        self.line()
    }

    fn last(&self, now: Instant) -> Option<String> {
        if now < self.began + LINE_INTERVAL { None } else { self.line() }
    }

    fn line(&self) -> Option<String> {
        let (input, InputProgress { files, bytes, .. }) = self.seen.as_ref()?;
        Some(format!("uploading {input}: {files} files, {} so far", HumanBytes(*bytes)))
    }
}

/// One line about an input that has been on its way for so long, in so many columns.
fn on_the_way(input: &str, seen: InputProgress, elapsed: Duration, width: usize) -> String {
    let InputProgress { files, bytes, bytes_total, .. } = seen;
    let seconds = elapsed.as_secs_f64();
    let speed = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    let of = bytes_total.map(|total| format!("/{}", HumanBytes(total))).unwrap_or_default();
    let parts = vec![
        Part::kept(format!("{}{of}", HumanBytes(bytes))),
        Part::ranked(2, format!("{files} files")),
        Part::ranked(1, format!("{}/s", HumanBytes(speed as u64))),
    ];
    let fraction = bytes_total.map(|total| bytes as f64 / total.max(1) as f64);
    fit(&format!("uploading {} {input}", clock(elapsed)), fraction, parts, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_that_take_long_are_told_in_lines() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let seen = |files| InputProgress { files, bytes: files << 20, ..InputProgress::default() };
        let mut lines = Lines::begin(began);
        assert_eq!(lines.last(at(9)), None, "nothing is known");
        assert_eq!(lines.hear("a", seen(1), at(9)), None);
        assert_eq!(lines.last(at(9)), None, "it did not take long");
        assert_eq!(lines.hear("a", seen(2), at(11)).unwrap(), "uploading a: 2 files, 2.00 MiB so far");
        assert_eq!(lines.hear("b", seen(3), at(20)), None);
        assert_eq!(lines.hear("b", seen(4), at(21)).unwrap(), "uploading b: 4 files, 4.00 MiB so far");
        lines.hear("b", seen(5), at(22));
        assert_eq!(lines.last(at(23)).unwrap(), "uploading b: 5 files, 5.00 MiB so far");
    }

    #[test]
    fn an_input_on_its_way_is_shown_in_any_width() {
        let seen = InputProgress {
            files: 120,
            bytes: 3 << 20,
            bytes_total: Some(12 << 20),
            ..InputProgress::default()
        };
        let line = |width| on_the_way("pictures", seen, Duration::from_secs(6), width);
        assert_eq!(line(40), "uploading 0:06 pictures  3.00 MiB/12.00…");
        assert_eq!(line(60), "uploading 0:06 pictures  3.00 MiB/12.00 MiB  120 files");
        assert!(line(100).ends_with("  3.00 MiB/12.00 MiB  120 files  512.00 KiB/s"), "{}", line(100));
    }
}
