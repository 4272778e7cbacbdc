//! What the allocator keeps of memory that was given back.

/// Has the C library give large buffers back to the system as soon as they are free, and keep few heaps. To be called
/// before the first thread.
///
/// Rows come from processes by the hundred kilobytes, leave by the eight megabytes, and are freed by another thread than
/// took them. As it is set up, the GNU C library gives threads heaps of their own, eight for each core, and what one of them
/// gave back the others do not use: it keeps several times of what is in use. Other C libraries have no such heaps.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// Smallest buffer that is a mapping of its own, bytes.
        const MAPPED: i32 = 1 << 20;
        const HEAPS: i32 = 2;
        #[expect(unsafe_code, reason = "only the C library's own interface sets this")]
        // SAFETY: both are documented parameters with values in their range; a refusal changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
            libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        }
    }
}

/// Gives back what was freed: to be called by a program that from then on may be idle for long.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "only the C library's own interface does this")]
        // SAFETY: it may be called at any time; pages that it cannot give back stay as they are.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
