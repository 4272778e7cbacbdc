//! The inputs of a job where the nodes do not have the files (spec P5, D1, D6).
//!
//! At submission `resolve` turns what the user named into a `manifest`: the listing itself, in the job's storage,
//! which names objects in one of the `stores`. From then on every host plans the same mini-batches, whatever
//! becomes of the folders that were listed. Nodes fetch what they need; that is the worker's part.

pub mod blob;
pub(crate) mod delta;
pub mod listed;
pub mod manifest;
mod named;
pub(crate) mod path_names;
mod remote;
pub mod resolve;
pub mod side;
pub mod stores;
pub(crate) mod unread_types;
mod upload;

pub use named::unnamed_store;
pub use path_names::NoneMatches;
pub use resolve::{Audience, InputProgress, ResolveCause, ResolveError, Where, input_bytes, resolve};
pub use stores::{InputStores, Opener};
pub use unread_types::UnreadFiles;
