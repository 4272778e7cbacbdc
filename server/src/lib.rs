//! The HTTP server of prs: an API for programs (`/api/v1`) and pages for people, in front of the calls of `prs-jobs`. The handlers
//! translate and nothing else.
//!
//! It has no state of its own but what is cached: any number of servers may stand in front of the same jobs.
//!
//! Its folders and files, from the bottom up; each uses those before it alone:
//!
//! | file | duty |
//! |---|---|
//! | `problem/` | what can go wrong, as a document for programs and a page for people |
//! | `http/` | parameters, cursors, ranges, headers of every answer, which hosts and origins may ask |
//! | `auth/` | who asks, and what they may |
//! | `index` | all jobs, in memory: of a fleet, a copy of the index in its ledger |
//! | `fleet` | the targets of the fleet, as old as two seconds at most |
//! | `servers` | the servers behind this one, as old as ten seconds at most |
//! | `metrics/` | what is counted of the server, and figures of the fleet, for Prometheus |
//! | `code_lines` | the lines of code that errors came from, each read once |
//! | `live/` | what watchers of a job see, made once for all of them |
//! | `shared_looks` | looks at a job that all share who ask for it at once |
//! | `app` | what handlers share |
//! | `frame` | around every request: its number, who asks, the headers and the problem of its answer |
//! | `traced` | the span of a request, where spans are sent |
//! | `audit` | a line for each change, and for each that was refused |
//! | `api/` | the API |
//! | `pages/` | the pages |
//! | `roles` | which role each address needs |
//! | `heard` | what calls say beside their answers, for the log |
//! | `connection` | the places for connections, and clients that take nothing |
//! | `listen` | where the server listens: a port, or a socket |
//! | `door` | how connections come in: plain, or with TLS |
//! | `serve` | the listener, from its start to its end |

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it needs by path"))]

mod api;
mod app;
mod audit;
mod auth;
mod code_lines;
mod connection;
mod door;
mod fleet;
mod frame;
mod heard;
mod http;
mod index;
mod listen;
mod live;
mod metrics;
mod pages;
mod problem;
mod roles;
mod serve;
mod servers;
mod shared_looks;
mod traced;

pub use app::Direct;
pub use auth::link::{LinkError, ask_for_link};
pub use auth::oidc::OidcOptions;
pub use auth::proxy::Network;
pub use auth::role_map::RoleMap;
pub use door::TlsFiles;
pub use http::cors::Origin;
pub use http::rates::{Limits, Sizes, Times};
pub use listen::Listen;
pub use serve::{FirstToken, Options, ServeError, Server};
