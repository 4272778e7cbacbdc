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

use std::fmt::Display;
use std::time::{Duration, Instant};

use console::Term;
use futures_util::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};
use prs_jobs::{Caller, Failure, Interrupts, JobView, Uploads};

use self::facts::Facts;
use self::lines::Lines;
use self::news::{News, Told};
use self::uploading::Uploading;
use crate::terminal::signals::Signals;
use crate::terminal::visible::one_line;
use crate::terminal::{colours, output};

pub(crate) use self::facts::{describe_preparing, describe_printed};
pub(crate) use self::news::{describe as describe_error, describe_lost};

/// Between two lines that are drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// The clock goes on where nothing else does.
const TICK: Duration = Duration::from_secs(1);
/// Columns of the spinner and the blank behind it, and one that is kept free: some terminals break a full line.
const MARGIN: usize = 3;

/// Prints what a call has to say, and shows how far it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen;

impl Caller for Screen {
    fn note(&self, text: &dyn Display) {
        output::note(text);
    }

    fn error(&self, text: &dyn Display) {
        output::print_error(text);
    }

    fn interrupts(&self) -> Result<Box<dyn Interrupts>, Failure> {
        Ok(Box::new(Signals::catch()))
    }

    fn follow(&self, job: JobView) -> BoxFuture<'static, ()> {
        Box::pin(show(job))
    }

    fn uploads(&self) -> Box<dyn Uploads> {
        uploads()
    }
}

/// Shows inputs that are brought to storage.
pub(crate) fn uploads() -> Box<dyn Uploads> {
    Box::new(Uploading::begin())
}

/// Shows the progress until the other end is gone.
pub(crate) async fn show(mut view: JobView) {
    let bar = output::is_watched().then(live_line);
    output::set_bar(bar.clone());
    let (mut news, mut lines) = (News::default(), Lines::new(Instant::now()));
    while next(&mut view).await {
        let (shown, now) = (view.shown(), Instant::now());
        news.hear(&shown, now).into_iter().for_each(tell);
        let facts = Facts::of(&shown, lines.elapsed(&shown, now));
        match &bar {
            Some(bar) => {
                bar.set_message(one_line(&facts.fit(width())).into_owned());
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
async fn next(view: &mut JobView) -> bool {
    tokio::select! {
        changed = view.changed() => if !changed {
            return false;
        },
        () = tokio::time::sleep(TICK) => return true,
    }
    tokio::select! {
        () = tokio::time::sleep(DRAW_INTERVAL) => true,
        // The job may end meanwhile; `changed` finds out next time.
        () = view.closed() => true,
    }
}
