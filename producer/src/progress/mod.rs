//! What a person sees while a job runs: a line that is kept up to date on a terminal, plain lines elsewhere.
//!
//! | file | duty |
//! |---|---|
//! | `facts` | what of a job is shown: its phase, counts, rates |
//! | `news` | what is noted once: the first errors, that no worker is there |
//! | `lines` | when a plain line is due |
//! | `uploading` | inputs on their way to storage |

mod facts;
mod lines;
mod news;
mod uploading;

use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch::Receiver;

use self::facts::Facts;
use self::lines::Lines;
use self::news::{News, Told};
use crate::jobs::standing::Shown;
use crate::terminal::{colours, output};

pub(crate) use self::facts::describe_printed;
pub(crate) use self::news::describe as describe_error;
pub(crate) use self::uploading::Uploading;

/// Between two lines that are drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// The clock goes on where nothing else does.
const TICK: Duration = Duration::from_secs(1);
/// Columns of the spinner and the blank behind it, and one that is kept free: some terminals break a full line.
const MARGIN: usize = 3;

/// Shows the progress until the other end is gone.
pub(crate) async fn show<T: Clone + Send + Sync>(mut view: Receiver<T>)
where
    Shown: From<T>,
{
    let bar = output::is_watched().then(live_line);
    output::set_bar(bar.clone());
    let (mut news, mut lines) = (News::default(), Lines::new(Instant::now()));
    while next(&mut view).await {
        let (shown, now) = (Shown::from(view.borrow_and_update().clone()), Instant::now());
        news.hear(&shown, now).into_iter().for_each(tell);
        let facts = Facts::of(&shown, lines.elapsed(&shown, now));
        match &bar {
            Some(bar) => {
                bar.set_message(facts.fit(width()));
                bar.tick();
            }
            None => lines.due(&facts, now).into_iter().for_each(output::note),
        }
    }
    output::set_bar(None);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn tell(told: Told) {
    match told {
        Told::Error(text) => output::print_error(format_args!("{} {text}", colours::error("✗"))),
        Told::Note(text) => output::note(text),
    }
}

/// A line of a terminal that is written again and again.
fn live_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Columns that the terminal has for a live line.
fn width() -> usize {
    usize::from(Term::stderr().size().1).saturating_sub(MARGIN)
}

/// Waits a little, then for a change or a tick; false at the end.
async fn next<T>(view: &mut Receiver<T>) -> bool {
    tokio::select! {
        changed = view.changed() => if changed.is_err() {
            return false;
        },
        () = tokio::time::sleep(TICK) => return true,
    }
    tokio::select! {
        () = tokio::time::sleep(DRAW_INTERVAL) => true,
        // The job may end meanwhile; `changed` finds out next time.
        () = closed(view) => true,
    }
}

async fn closed<T>(view: &Receiver<T>) {
    let mut view = view.clone();
    while view.changed().await.is_ok() {}
}
