//! Large buffers that are filled again and again: fresh memory costs as much as the bytes that are read into it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Smallest buffer that is kept, bytes.
const SMALLEST: usize = 1 << 20;
/// Largest one.
const LARGEST: usize = 16 << 20;
/// How much is kept, bytes: what the assembly of a result reads at a time.
const MOST_KEPT: usize = 32 << 20;

/// Buffers that nobody uses at the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// An empty buffer for `size` bytes.
    pub(super) fn take(&self, size: usize) -> Vec<u8> {
        if size < SMALLEST {
            return Vec::with_capacity(size);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.iter().position(|buffer| buffer.capacity() >= size);
        // Sizes that differ a little fit into each other.
        let fresh = || Vec::with_capacity(size.next_multiple_of(SMALLEST));
        fits.map_or_else(fresh, |position| kept.swap_remove(position))
    }

    /// What was read into a buffer; the buffer comes back when nobody has any of it any more.
    pub(super) fn share(&self, filled: Vec<u8>) -> Bytes {
        if (SMALLEST..=LARGEST).contains(&filled.capacity()) {
            Bytes::from_owner(Filled { buffer: filled, home: self.clone() })
        } else {
            filled.into()
        }
    }
}

struct Filled {
    buffer: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().chain([&buffer]).map(Vec::capacity).sum::<usize>() <= MOST_KEPT {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_come_back_and_are_not_shared_before() {
        let buffers = Buffers::default();
        let fill = |size, byte| {
            let mut buffer = buffers.take(size);
            buffer.resize(size, byte);
            buffers.share(buffer)
        };
        let kept = || buffers.0.lock().unwrap().len();
        let first = fill(SMALLEST, 1);
        let part = first.slice(..7);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(kept(), 0);
        let second = fill(SMALLEST, 2);
        assert_eq!(part, [1; 7][..]);
        drop(part);
        assert_eq!(kept(), 1);
        assert_eq!(fill(SMALLEST, 3).as_ptr(), place);
        assert_eq!(second, vec![2; SMALLEST]);

        drop((fill(SMALLEST - 1, 4), fill(LARGEST + 1, 4)));
        assert_eq!(kept(), 1);
        let large = fill(SMALLEST + 1, 5);
        let place = large.as_ptr();
        drop(large);
        assert_eq!(fill(2 * SMALLEST, 6).as_ptr(), place);
        drop((0..40).map(|byte| fill(SMALLEST, byte)).collect::<Vec<_>>());
        assert_eq!(kept(), MOST_KEPT / SMALLEST - 1);
    }
}
