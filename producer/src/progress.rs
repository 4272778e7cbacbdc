//! What a person sees while a job runs: a bar on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use prs_orchestrator::inputs::Progress;
use prs_orchestrator::report::progress_overview::describe;
use prs_orchestrator::watch::View;
use tokio::sync::watch::Receiver;

use crate::output;

/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the progress until the other end is gone.
pub(crate) async fn show(mut view: Receiver<View>) {
    if output::is_watched() {
        bar(&mut view).await;
    } else {
        lines(&mut view).await;
    }
}

async fn bar(view: &mut Receiver<View>) {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{spinner} {prefix} {wide_bar} {pos}/{len} mini-batches  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    output::set_bar(Some(bar.clone()));
    while next(view).await {
        let View { state, status } = view.borrow_and_update().clone();
        let progress = &status.progress;
        bar.set_prefix(state.map_or("starting", prs_common::ledger::JobState::as_str));
        bar.set_length(progress.checkpoint.scheduled);
        bar.set_position(progress.ended());
        let failed =
            if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
        let left = status.eta_seconds.map(prs_orchestrator::report::progress_overview::duration);
        let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
        bar.set_message(format!("{:.0}/s{failed}{left}", status.per_second));
        bar.tick();
    }
    output::set_bar(None);
    bar.finish_and_clear();
}

async fn lines(view: &mut Receiver<View>) {
    let mut next_line = Instant::now() + LINE_INTERVAL;
    while next(view).await {
        let View { state, status } = view.borrow_and_update().clone();
        let Some(state) = state else { continue };
        if Instant::now() >= next_line {
            next_line = Instant::now() + LINE_INTERVAL;
            output::say(describe(state, &status));
        }
    }
}

/// Waits a little, then for a change; false at the end.
async fn next(view: &mut Receiver<View>) -> bool {
    if view.changed().await.is_err() {
        return false;
    }
    tokio::select! {
        () = tokio::time::sleep(LOOK_INTERVAL) => true,
        // The job may end meanwhile; `changed` finds out next time.
        () = closed(view) => true,
    }
}

async fn closed(view: &Receiver<View>) {
    let mut view = view.clone();
    while view.changed().await.is_ok() {}
}

/// What a person sees while inputs are brought to storage.
pub(crate) struct Uploading {
    /// Absent where nobody watches.
    bar: Option<ProgressBar>,
}

impl Uploading {
    /// Begins; nothing is shown before something is known.
    pub(crate) fn begin() -> Self {
        let bar = output::is_watched().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template(
                "{spinner} {prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}  {msg}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar }
    }

    /// How far an input is.
    pub(crate) fn show(&self, input: &str, seen: Progress) {
        let Some(bar) = &self.bar else { return };
        bar.set_prefix(format!("input {input}"));
        bar.set_length(seen.bytes_total.unwrap_or(seen.bytes));
        bar.set_position(seen.bytes);
        bar.set_message(format!("{} files", seen.files));
    }

    /// Everything is there.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
