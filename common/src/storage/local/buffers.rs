//! Large buffers that are filled again and again: fresh memory costs as much as the bytes that are read into it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Smallest buffer that is kept, bytes.
const SMALLEST: usize = 1 << 20;
/// Largest one.
const LARGEST: usize = 16 << 20;
/// How many are kept.
const KEPT: usize = 3;

/// Buffers that nobody uses at the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// An empty buffer for `size` bytes.
    pub(super) fn take(&self, size: usize) -> Vec<u8> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.iter().position(|buffer| size >= SMALLEST && buffer.capacity() >= size);
        fits.map_or_else(|| Vec::with_capacity(size), |position| kept.swap_remove(position))
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
        if kept.len() < KEPT {
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
        drop((0..5).map(|byte| fill(SMALLEST, byte)).collect::<Vec<_>>());
        assert_eq!(kept(), KEPT);
    }
}
