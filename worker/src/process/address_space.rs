//! The limit on the address space of processes (`ulimit -v`, `RLIMIT_AS`), which they have from the agent: where it is set,
//! memory runs out while the host has plenty, and nothing that a process says then tells why.

use prs_common::wire::ErrorInfo;
use rustix::process::{Resource, getrlimit};

/// Words of errors that come where memory, or room for a library or a thread, cannot be had.
const WORDS: [&str; 4] =
    ["failed to map segment", "annot allocate memory", "can't start new thread", "nable to allocate"];

/// Names the limit in an error that it may be the cause of.
pub(crate) fn name_limit(error: &mut ErrorInfo) {
    if let Some(limit) = limit().filter(|_| may_lack_memory(&error.category, &error.message)) {
        error.message.push_str(&told(limit));
    }
}

/// Words to add to the error of a process that could not be started; none without a limit.
pub(crate) fn hint() -> String {
    limit().map(told).unwrap_or_default()
}

fn limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

fn told(limit: u64) -> String {
    let mib = limit >> 20;
    format!(
        " (ulimit -v gives each process {mib} MiB of addresses here, whatever memory is free: raise it where prs is started)"
    )
}

fn may_lack_memory(category: &str, message: &str) -> bool {
    let class = category.rsplit('.').next().unwrap_or(category);
    class.ends_with("MemoryError")
        || class == "ProcessDied"
        || WORDS.iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_lack_memory_are_known() {
        for (category, message, expected) in [
            ("MemoryError", "no message", true),
            ("numpy._core._exceptions._ArrayMemoryError", "Unable to allocate 8 GiB", true),
            ("ImportError", "libx.so: failed to map segment from shared object", true),
            ("OSError", "[Errno 12] Cannot allocate memory", true),
            ("RuntimeError", "can't start new thread", true),
            ("ProcessDied", "the process was killed by signal 6", true),
            ("ValueError", "bad row", false),
        ] {
            assert_eq!(may_lack_memory(category, message), expected, "{category}: {message}");
        }
        assert!(
            told(900_000 << 10).starts_with(" (ulimit -v gives each process 878 MiB"),
            "{}",
            told(1 << 30)
        );
    }
}
