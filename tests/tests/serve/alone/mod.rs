//! Tests that count all that a server asks or takes, and that wait for what it says after seconds. They run one at a time.

mod serve_cost;
mod serve_limits;
mod serve_stale;
