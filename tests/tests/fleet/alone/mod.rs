//! Tests that measure time: how long a straggler holds a job up, how long a shell waits for servers. They run one at a time.

mod shells;
mod speculation;
