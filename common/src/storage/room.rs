//! What a store has room for, as far as it tells.

/// What a store has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes that are free on the disk for users like this one; nothing of a store that does not tell.
    pub free_bytes: Option<u64>,
    /// Uploads in parts that were begun and not finished, those under way among them; nothing of a store that has no such.
    pub incomplete_uploads: Option<u64>,
}
