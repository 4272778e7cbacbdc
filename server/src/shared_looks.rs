//! Looks at a job that callers share. Who comes while one is under way gets the next one, together with all who wait by then: no answer is
//! older than its question, and many who ask at once cost a look after the other instead of one each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The last look at a job: when it began, and what it saw.
type Last<T> = Arc<tokio::sync::Mutex<Option<(Instant, T)>>>;

/// Looks at jobs, by their ids, as long as a caller waits for them.
#[derive(Debug)]
pub(crate) struct SharedLooks<T>(Mutex<HashMap<String, Last<T>>>);

impl<T> Default for SharedLooks<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A caller's part in the looks at a job, which are forgotten with the last of them.
struct Caller<'a, T> {
    all: &'a SharedLooks<T>,
    id: &'a str,
    last: Last<T>,
}

impl<T> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::take(&mut self.last));
        if all.get(self.id).is_some_and(|last| Arc::strong_count(last) == 1) {
            all.remove(self.id);
        }
    }
}

impl<T: Clone> SharedLooks<T> {
    /// What a look at the job saw that began after this call: `look`'s, or that of another caller.
    pub(crate) async fn get(&self, id: &str, look: impl AsyncFnOnce() -> T) -> T {
        let asked = Instant::now();
        let caller = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let last = Arc::clone(all.entry(id.to_owned()).or_default());
            Caller { all: self, id, last }
        };
        let mut last = caller.last.lock().await;
        if let Some((began, seen)) = &*last
            && *began >= asked
        {
            return seen.clone();
        }
        let began = Instant::now();
        let seen = look().await;
        *last = Some((began, seen.clone()));
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// What takes a second, and the number of it.
    async fn slow(count: &AtomicU32) -> u32 {
        let number = count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        number
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_shares_the_next_look_and_never_the_one_under_way() {
        let (looks, count) = (SharedLooks::default(), AtomicU32::new(0));
        let ask = async |after: u64| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            looks.get("job", async || slow(&count).await).await
        };
        let (first, second, third, other) = tokio::join!(ask(0), ask(10), ask(500), async {
            looks.get("other", async || slow(&count).await).await
        });
        assert_ne!(first, second);
        assert_eq!(second, third);
        assert!(other != first && other != second);
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(looks.0.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_in_the_middle_of_a_look_leaves_it_to_the_next() {
        let (looks, count) = (SharedLooks::default(), AtomicU32::new(0));
        let ask = || looks.get("job", async || slow(&count).await);
        let left = tokio::time::timeout(Duration::from_millis(500), ask());
        let (left, stayed) = tokio::join!(left, async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ask().await
        });
        assert_eq!((left.ok(), stayed), (None, 1));
        assert!(looks.0.lock().unwrap().is_empty());
    }
}
