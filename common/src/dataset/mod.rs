//! From a job's input to the files it names.
//!
//! `input` is the dataset as the job describes it; `listing` turns an input source on this machine into files in a fixed order; `remote` reads the URLs of
//! others; `names` tells which names a file may have on a node. How files become mini-batches is not decided
//! here.

pub mod input;
pub mod listing;
pub mod names;
pub mod remote;
