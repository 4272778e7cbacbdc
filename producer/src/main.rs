//! The front door of prs.
fn main() {}
