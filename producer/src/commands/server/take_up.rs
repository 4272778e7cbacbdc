//! `take-up`: runs a job of this machine that was handed in to a server. The server starts it; people do not.
//!
//! It lives in a session of its own, so that it outlives the server and hears no signal of its terminal. On standard output it says
//! one line, once the job has begun or is refused; what else there is to say goes to standard error, which is a log of the job.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use prs_jobs::intake::{self, Refusal, Word};
use prs_jobs::{Caller, Interrupts, JobView, Uploads};

use crate::cli::TakeUp;
use crate::failure::{Code, Failure};
use crate::progress::Screen;

/// The log of the job, and the server, which hears one word.
#[derive(Debug, Default)]
struct Reporting {
    has_said: AtomicBool,
}

impl Reporting {
    /// Says a word, unless one was said before. The server may be gone; the job goes on without it.
    fn say(&self, word: &Word) {
        if self.has_said.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut line = serde_json::to_vec(word).unwrap_or_default();
        line.push(b'\n');
        let mut out = io::stdout();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl Caller for Reporting {
    fn begins(&self, _: &str) {
        self.say(&Word::Begun);
    }

    fn note(&self, text: &dyn Display) {
        Screen.note(text);
    }

    fn error(&self, text: &dyn Display) {
        Screen.error(text);
    }

    fn interrupts(&self) -> Result<Box<dyn Interrupts>, Failure> {
        Screen.interrupts()
    }

    fn follow(&self, job: JobView) -> BoxFuture<'static, ()> {
        Screen.follow(job)
    }

    fn uploads(&self) -> Box<dyn Uploads> {
        Screen.uploads()
    }
}

/// Does what the order says.
pub(crate) async fn take_up(arguments: &TakeUp) -> Result<ExitCode, Failure> {
    // One that leads its session already was started by hand.
    let _ = rustix::process::setsid();
    let reporting = Arc::new(Reporting::default());
    let whereabouts = arguments.whereabouts.settled()?.heard_by(Arc::clone(&reporting) as Arc<dyn Caller>);
    let done = intake::take_up(&arguments.order, &whereabouts).await;
    // Where another program has brought the job to its end meanwhile, nothing began here.
    reporting.say(&match &done {
        Ok(()) => Word::Begun,
        Err(failure) => Word::Refused(Refusal::from(failure)),
    });
    done.map(|()| Code::Completed.into())
}
