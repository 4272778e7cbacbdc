//! What the allocator keeps of memory that was given back.

/// Lets the C library return large buffers to the system as soon as they are free, and keep few heaps. To be called before
/// the first thread.
///
/// Rows come from processes by the hundred kilobytes, are read by the eight megabytes, and are freed by another thread
/// than took them. As it is set up, the C library keeps several times of what is in use. Other C libraries than
/// the GNU one have no such settings, and no such heaps.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// Smallest buffer that is a mapping of its own, bytes.
        const MAPPED: i32 = 1 << 20;
        const HEAPS: i32 = 4;
        #[expect(unsafe_code, reason = "only the C library's own interface sets this")]
        // SAFETY: both are documented parameters with values in their range; a refusal changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
            libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        }
    }
}
