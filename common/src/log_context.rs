//! Which job this program serves, and as which node: for lines of its log that do not say so themselves. A worker serves one job at
//! a time, on many tasks and threads, so it is kept once for the process. What writes the lines asks for it; nothing else does.

use std::sync::{PoisonError, RwLock};

static PRESENT: RwLock<Option<Present>> = RwLock::new(None);

/// The job that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// Its id.
    pub job_id: String,
    /// This node's number in it, from the time on when it has joined.
    pub node_id: Option<u32>,
}

/// Ends what [`serving`] began when it is dropped: what was before holds again.
#[derive(Debug)]
#[must_use = "what is served is forgotten when this is dropped"]
pub struct Serving(Option<Present>);

impl Drop for Serving {
    fn drop(&mut self) {
        *PRESENT.write().unwrap_or_else(PoisonError::into_inner) = self.0.take();
    }
}

/// From now on this program serves a job, as this node where it has joined.
pub fn serving(job_id: &str, node_id: Option<u32>) -> Serving {
    let present = Present { job_id: job_id.to_owned(), node_id };
    Serving(PRESENT.write().unwrap_or_else(PoisonError::into_inner).replace(present))
}

/// The job that is served now.
pub fn present() -> Option<Present> {
    PRESENT.read().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_within_its_job() {
        let job = serving("a", None);
        {
            let _node = serving("a", Some(3));
            assert_eq!(present(), Some(Present { job_id: "a".to_owned(), node_id: Some(3) }));
        }
        assert_eq!(present().unwrap().node_id, None);
        drop(job);
        assert_eq!(present(), None);
    }
}
