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
//! | `index` | all jobs, in memory, as old as a second at most |
//! | `live/` | what watchers of a job see, made once for all of them |
//! | `app` | what handlers share |
//! | `frame` | around every request: its number, who asks, the headers and the problem of its answer |
//! | `api/` | the API |
//! | `pages/` | the pages |
//! | `heard` | what calls say beside their answers, for the log |
//! | `serve` | the listener, from its start to its end |

mod api;
mod app;
mod auth;
mod frame;
mod heard;
mod http;
mod index;
mod live;
mod pages;
mod problem;
mod serve;

pub use auth::link::{LinkError, ask_for_link};
pub use serve::{Options, ServeError, Server};
