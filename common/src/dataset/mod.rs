//! From a job's input to the files it names.
//!
//! `input` is the dataset as the job describes it; `listing` turns an input source on this machine into files in a fixed order; `left_out` says what of a folder is no data; `remote` reads the URLs of
//! others, `http_url` those of HTTP servers; `mltable` is what a file `MLTable` says of its data; `names` tells which names a file may have on a node;
//! `partition_format` reads columns from paths, and `path_columns` is how they travel; `step_output` is what a step of a
//! pipeline brings to another. How files become mini-batches is not decided
//! here.

pub mod http_url;
pub mod input;
pub mod left_out;
pub mod listing;
pub mod mltable;
pub mod names;
pub mod partition_format;
pub mod path_columns;
pub mod remote;
pub mod step_output;
