//! What reads foreign bytes, tried on inputs made from a seed (`prs_tests::fuzz`): it never panics, hangs or takes
//! memory without a bound, and what it takes it gives back as it was.
//!
//! `make fuzz` tries each target longer, from a seed of its own choice. Inputs that failed once are in `regressions`.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod archives;
mod delta_logs;
mod descriptors;
mod footers;
mod frames;
mod job_files;
mod regressions;
mod segments;
mod text;
mod yaml;

use std::path::Path;

/// Where inputs that fail are saved.
const FAILURES: &str = env!("CARGO_TARGET_TMPDIR");

macro_rules! targets {
    ($($(#[doc = $doc:literal])* $name:ident = $target:expr;)*) => {$(
        $(#[doc = $doc])*
        #[test]
        fn $name() {
            prs_tests::fuzz::run(stringify!($name), $target, Path::new(FAILURES));
        }
    )*};
}

targets! {
    /// What an agent and a process say to each other.
    wire_frames = frames::Frames;
    /// What storage gives back for a segment.
    segment_indices = segments::Segments::default();
    /// What a queue brings.
    mini_batch_descriptors = descriptors::Descriptors;
    /// What a user hands in.
    job_file_settings = job_files::JobFiles::default();
    /// YAML of any kind in place of that.
    job_file_yaml = yaml::Yaml::default();
    /// What storage gives back for the user's code.
    code_archives = archives::Archives::default();
    /// What is in the files of a tabular dataset.
    delimited_text = text::Text;
    /// What the end of a Parquet file says.
    parquet_footers = footers::Footers;
    /// What the log of a Delta table says.
    delta_logs = delta_logs::DeltaLogs;
}
