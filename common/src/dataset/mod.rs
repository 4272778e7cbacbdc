//! From a job's input to the files it names.
//!
//! `listing` turns an input source into files in a fixed order. How files become mini-batches is
//! not decided here.

pub mod listing;
