//! Tests that count all that a server asks or takes. They run one at a time.

mod serve_cost;
mod serve_limits;
