//! Tests that measure time: what waits for no server answers at once. They run one at a time.

mod reader;
