//! Tests that measure time: how long a straggler holds a job up. They run one at a time.

mod speculation;
