//! `prs serve`: its API, its pages, who may do what, and what it costs.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod alone;
mod oidc;
mod serve;
mod serve_audit;
mod serve_change;
mod serve_details;
mod serve_direct;
mod serve_endpoints;
mod serve_faults;
mod serve_logs;
mod serve_management;
mod serve_pages;
mod serve_proxy;
mod serve_races;
mod serve_reach;
mod serve_registry;
mod serve_restarts;
mod serve_security;
mod serve_servers;
mod serve_stale;
mod serve_storage_faults;
mod serve_submit;
mod serve_twice;
mod serve_uploads;
mod team;
mod tokens;
