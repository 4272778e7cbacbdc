//! Tests that measure time, or fill memory or a disk. They run one at a time.

mod full_disk;
mod interrupt;
mod preparing;
