//! Who makes a call: a person at a terminal, a server. What a call wants of its caller is here, all of it.

use std::fmt::{Debug, Display};
use std::future::ready;

use futures_util::future::BoxFuture;
use prs_orchestrator::inputs::InputProgress;
use prs_orchestrator::watch::View;
use tokio::sync::watch::Receiver;

use crate::failure::Failure;
use crate::interrupts::{Interrupts, Uninterrupted};
use crate::standing::Shown;

/// Hears what a call has to say beside its answer, and may interrupt it. A call never prints.
pub trait Caller: Debug + Send + Sync {
    /// Something worth knowing; the call goes on.
    fn note(&self, text: &dyn Display);

    /// Something that went wrong and does not end the call.
    fn error(&self, text: &dyn Display);

    /// A job is about to be started; refuses that where [`begins`](Self::begins) could not do what it has to.
    fn prepare(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The job that the call starts begins now, and has this id.
    fn begins(&self, _job_id: &str) {}

    /// From here on the call makes what it has to end, or to leave in order: what may interrupt it.
    fn interrupts(&self) -> Result<Box<dyn Interrupts>, Failure> {
        Ok(Box::new(Uninterrupted))
    }

    /// Looks at a job that the call works on, until [`JobView::changed`] says that it does no longer.
    fn follow(&self, _job: JobView) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }

    /// Looks at inputs that the call brings to storage.
    fn uploads(&self) -> Box<dyn Uploads> {
        Box::new(Unattended)
    }
}

/// Hears how far inputs are that are brought to storage.
pub trait Uploads: Send + Sync {
    /// Whether it shows how much there is, which takes a look at all of it first.
    fn wants_totals(&self) -> bool;
    /// How far an input is.
    fn show(&self, input: &str, seen: InputProgress);
    /// No more is brought.
    fn end(self: Box<Self>);
}

/// How a job stands from moment to moment, while a call works on it.
#[derive(Debug)]
pub struct JobView(Source);

#[derive(Debug)]
enum Source {
    /// A job of this process.
    Here(Receiver<View>),
    /// A job that is looked at.
    Elsewhere(Receiver<Shown>),
}

impl JobView {
    /// Waits until it stands otherwise; false once the call works on it no longer. It may be dropped while it waits.
    pub async fn changed(&mut self) -> bool {
        match &mut self.0 {
            Source::Here(view) => view.changed().await.is_ok(),
            Source::Elsewhere(view) => view.changed().await.is_ok(),
        }
    }

    /// Waits until the call works on it no longer.
    pub async fn closed(&self) {
        let mut view = match &self.0 {
            Source::Here(view) => Self(Source::Here(view.clone())),
            Source::Elsewhere(view) => Self(Source::Elsewhere(view.clone())),
        };
        while view.changed().await {}
    }

    /// How it stands now.
    pub fn shown(&mut self) -> Shown {
        match &mut self.0 {
            Source::Here(view) => view.borrow_and_update().clone().into(),
            Source::Elsewhere(view) => view.borrow_and_update().clone(),
        }
    }
}

impl From<Receiver<View>> for JobView {
    fn from(view: Receiver<View>) -> Self {
        Self(Source::Here(view))
    }
}

impl From<Receiver<Shown>> for JobView {
    fn from(view: Receiver<Shown>) -> Self {
        Self(Source::Elsewhere(view))
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unattended;

impl Caller for Unattended {
    fn note(&self, _: &dyn Display) {}
    fn error(&self, _: &dyn Display) {}
}

impl Uploads for Unattended {
    fn wants_totals(&self) -> bool {
        false
    }
    fn show(&self, _: &str, _: InputProgress) {}
    fn end(self: Box<Self>) {}
}
