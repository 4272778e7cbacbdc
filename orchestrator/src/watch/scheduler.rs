//! The scheduler that an orchestrator starts where nobody publishes the plan.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::JobContext;
use crate::plan::schedule::{Assignment, Scheduled, schedule};

/// What the scheduler does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Publishing {
    /// There is none.
    Idle,
    /// It publishes.
    UnderWay,
    /// It has ended since the last look.
    Ended {
        /// How.
        outcome: Scheduled,
        /// Whether it published again what was lost.
        refills: bool,
    },
}

/// At most one scheduler at a time.
pub(super) struct Scheduler {
    /// Who it is to the ledger.
    owner: String,
    running: Option<Running>,
    /// Stops every one of them.
    stop: CancellationToken,
}

struct Running {
    publishing: JoinHandle<Scheduled>,
    stop: CancellationToken,
    refills: bool,
}

impl Scheduler {
    pub(super) fn new(job: &JobContext, owner: &str) -> Self {
        Self { owner: format!("{owner}/{}", job.run), running: None, stop: CancellationToken::new() }
    }

    pub(super) fn start(&mut self, job: &JobContext, assignment: Assignment) {
        let (stop, refills) = (self.stop.child_token(), assignment.again);
        let (job, owner, stopped) = (job.clone(), self.owner.clone(), stop.clone());
        let publishing = tokio::spawn(async move { schedule(&job, &owner, assignment, &stopped).await });
        self.running = Some(Running { publishing, stop, refills });
    }

    /// What it does; that it has ended is told once.
    pub(super) async fn look(&mut self) -> Publishing {
        match self.running.take_if(|running| running.publishing.is_finished()) {
            Some(Running { publishing, refills, .. }) => {
                // The next one would meet the same.
                let outcome =
                    publishing.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                Publishing::Ended { outcome, refills }
            }
            None if self.running.is_some() => Publishing::UnderWay,
            None => Publishing::Idle,
        }
    }

    /// Lets the present one end soon: what it has published is lost.
    pub(super) fn discard(&self) {
        if let Some(running) = &self.running {
            running.stop.cancel();
        }
    }

    /// Ends it, and waits for that.
    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            let _ = running.publishing.await;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
