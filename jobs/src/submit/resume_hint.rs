//! What is left behind when the preparing of a job ends early: every such end says how to go on, or to clean up.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::failure::Failure;
use crate::interrupts::Interrupts;

/// What is there so far of a job that is being prepared, and what to do with it.
#[derive(Debug, Default)]
pub struct ResumeHint(Mutex<Option<String>>);

impl ResumeHint {
    /// From here on this is there, and this is what to do with it.
    pub fn set(&self, what: impl Display) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_string());
    }

    /// Prepares a job, unless the user interrupts that: then the command ends at once.
    pub async fn unless_interrupted<T>(
        &self,
        interrupts: &mut dyn Interrupts,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let interrupted = tokio::select! {
            done = work => return done.map_err(|failure| self.append_to(failure)),
            name = interrupts.next() => name,
        };
        let behind = self.behind();
        let behind = behind.as_deref().unwrap_or("nothing was stored");
        Err(Failure::interrupted(format_args!("interrupted ({interrupted}): {behind}")))
    }

    fn behind(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn append_to(&self, failure: Failure) -> Failure {
        match self.behind() {
            Some(behind) => failure.and(behind),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupts::Uninterrupted;

    #[tokio::test]
    async fn an_error_says_what_is_left_behind() {
        let mut interrupts = Uninterrupted;
        let hint = ResumeHint::default();
        let refused = async || Err::<(), _>(Failure::wrong("no"));
        let early = hint.unless_interrupted(&mut interrupts, refused()).await.unwrap_err();
        assert_eq!(early.to_string(), "no");
        let late = async {
            hint.set("job j is stored");
            refused().await
        };
        let late = hint.unless_interrupted(&mut interrupts, late).await.unwrap_err();
        assert_eq!(late.to_string(), "no; job j is stored");
        assert!(late.is_usage());
    }
}
