//! A panic as an error, so that it ends what was done and not the program.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Characters of a panic's text that are told.
const TOLD: usize = 500;

/// A panic, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Panicked {
    /// The words, one line.
    pub text: String,
}

/// Does `work`; a panic in it is an error. What `work` alone used is gone then; what it shared is locked by poison-proof
/// locks or lies in servers and files, which are left as a killed program leaves them.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| Panicked { text: words(&*panic) })
}

/// The words of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| "a panic without words".to_owned());
    text.chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_in_one_line() {
        let said = |panic: Box<dyn Any + Send>| words(&*panic);
        let long = "x".repeat(2 * TOLD);
        assert_eq!(said(Box::new("index out of bounds")), "index out of bounds");
        assert_eq!(said(Box::new("two\n  lines".to_owned())), "two lines");
        assert_eq!(said(Box::new(long)).len(), TOLD);
        for none in [Box::new(7) as Box<dyn Any + Send>, Box::new(" ")] {
            assert_eq!(said(none), "a panic without words");
        }
    }
}
