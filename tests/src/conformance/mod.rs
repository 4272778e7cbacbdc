//! One list of cases for each interface, the same for every implementation.
//!
//! A case is an async function over the interface; it uses names of its own, so that all cases can run against
//! one server at a time. Each list expands to one test a case:
//!
//! ```text
//! prs_tests::queue_conformance!((EmbeddedQueue::default(), ()));
//! ```
//!
//! The argument makes the implementation and something to keep until the case ends (a folder, a server); it may
//! use `.await`. A case that stands in a file but not in its list does not compile.

pub mod ledger;
pub mod queue;
pub mod storage;

use std::sync::atomic::{AtomicU64, Ordering};

/// A name that no other case uses, on this server or ever.
fn unique(case: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let since = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros());
    format!("{case}-{since:x}-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Expands a list of cases, grouped by the modules they stand in: into the function that runs one by its name, or into
/// one test a case.
#[doc(hidden)]
#[macro_export]
macro_rules! __expand_cases {
    (run $interface:ty; $($module:ident { $($case:ident)+ })+) => {
        /// The names of all cases.
        pub const CASES: &[&str] = &[$($(stringify!($case)),+),+];

        /// Runs the case of this name.
        pub async fn run(case: &str, subject: &$interface) {
            match case {
                $($(stringify!($case) => $module::$case(subject).await,)+)+
                _ => panic!("no case is named {case}"),
            }
        }
    };
    (tests $interface:ident, $factory:expr; $($module:ident { $($case:ident)+ })+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (subject, _kept) = $factory;
                $crate::conformance::$interface::run(stringify!($case), &subject).await;
            }
        )+)+
    };
}
