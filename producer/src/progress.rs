//! What a person sees while a job runs: a bar on a terminal, plain lines elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use prs_orchestrator::inputs::Progress;
use tokio::sync::watch::Receiver;

use crate::output;
use crate::standing::Shown;

/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the progress until the other end is gone.
pub(crate) async fn show<T: Clone + Send + Sync>(mut view: Receiver<T>)
where
    Shown: From<T>,
{
    if output::is_watched() {
        bar(&mut view).await;
    } else {
        lines(&mut view).await;
    }
}

async fn bar<T: Clone>(view: &mut Receiver<T>)
where
    Shown: From<T>,
{
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{spinner} {prefix} {wide_bar} {pos}/{len} mini-batches  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    output::set_bar(Some(bar.clone()));
    while next(view).await {
        let shown = Shown::from(view.borrow_and_update().clone());
        let remark = shown.remark();
        let Shown { state, status, .. } = shown.honest();
        let progress = &status.progress;
        bar.set_prefix(state.map_or("starting", prs_common::ledger::JobState::as_str));
        bar.set_length(progress.checkpoint.scheduled);
        bar.set_position(progress.ended());
        let failed =
            if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
        let left = status.eta_seconds.map(prs_orchestrator::report::progress_overview::duration);
        let left = left.map(|left| format!(", {left} left"));
        let left = remark.map(|remark| format!("; {remark}")).or(left).unwrap_or_default();
        bar.set_message(format!("{:.0}/s{failed}{left}", status.per_second));
        bar.tick();
    }
    output::set_bar(None);
    bar.finish_and_clear();
}

async fn lines<T: Clone>(view: &mut Receiver<T>)
where
    Shown: From<T>,
{
    let mut next_line = Instant::now() + LINE_INTERVAL;
    while next(view).await {
        let Some(line) = Shown::from(view.borrow_and_update().clone()).line() else { continue };
        if Instant::now() >= next_line {
            next_line = Instant::now() + LINE_INTERVAL;
            output::say(line);
        }
    }
}

/// Waits a little, then for a change; false at the end.
async fn next<T>(view: &mut Receiver<T>) -> bool {
    if view.changed().await.is_err() {
        return false;
    }
    tokio::select! {
        () = tokio::time::sleep(LOOK_INTERVAL) => true,
        // The job may end meanwhile; `changed` finds out next time.
        () = closed(view) => true,
    }
}

async fn closed<T>(view: &Receiver<T>) {
    let mut view = view.clone();
    while view.changed().await.is_ok() {}
}

/// What a person sees while inputs are brought to storage.
pub(crate) enum Uploading {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere.
    Lines(Mutex<Lines>),
}

impl Uploading {
    /// Begins; nothing is shown before something is known.
    pub(crate) fn begin() -> Self {
        if !output::is_watched() {
            return Self::Lines(Mutex::new(Lines::begin(Instant::now())));
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "{spinner} {prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}  {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self::Bar(bar)
    }

    /// Whether it shows how much there is.
    pub(crate) fn wants_totals(&self) -> bool {
        matches!(self, Self::Bar(_))
    }

    /// How far an input is.
    pub(crate) fn show(&self, input: &str, seen: Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_prefix(format!("input {input}"));
                bar.set_length(seen.bytes_total.unwrap_or(seen.bytes));
                bar.set_position(seen.bytes);
                bar.set_message(format!("{} files", seen.files));
            }
            Self::Lines(lines) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.hear(input, seen, Instant::now()).into_iter().for_each(output::say);
            }
        }
    }

    /// No more is brought.
    pub(crate) fn end(self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines(lines) => {
                let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
                lines.last(Instant::now()).into_iter().for_each(output::say);
            }
        }
    }
}

/// Plain lines about inputs on their way: one every [`LINE_INTERVAL`], and a last one where it took longer.
pub(crate) struct Lines {
    began: Instant,
    next: Instant,
    seen: Option<(String, Progress)>,
}

impl Lines {
    fn begin(now: Instant) -> Self {
        Self { began: now, next: now + LINE_INTERVAL, seen: None }
    }

    /// The line that is due, if one is.
    fn hear(&mut self, input: &str, progress: Progress, now: Instant) -> Option<String> {
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
        let (input, Progress { files, bytes, .. }) = self.seen.as_ref()?;
        Some(format!("input {input}: {files} files, {} so far", HumanBytes(*bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_that_take_long_are_told_in_lines() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let seen = |files| Progress { files, bytes: files << 20, ..Progress::default() };
        let mut lines = Lines::begin(began);
        assert_eq!(lines.last(at(9)), None, "nothing is known");
        assert_eq!(lines.hear("a", seen(1), at(9)), None);
        assert_eq!(lines.last(at(9)), None, "it did not take long");
        assert_eq!(lines.hear("a", seen(2), at(11)).unwrap(), "input a: 2 files, 2.00 MiB so far");
        assert_eq!(lines.hear("b", seen(3), at(20)), None);
        assert_eq!(lines.hear("b", seen(4), at(21)).unwrap(), "input b: 4 files, 4.00 MiB so far");
        lines.hear("b", seen(5), at(22));
        assert_eq!(lines.last(at(23)).unwrap(), "input b: 5 files, 5.00 MiB so far");
    }
}
