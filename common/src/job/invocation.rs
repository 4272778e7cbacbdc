//! What one run of a batch deployment is given beside its file: the data, and what of its settings is another for this run
//! (dialects C.7).
//!
//! Whether the data are there is looked at where the file is read; here is only what was said.

use serde::{Deserialize, Serialize};

/// The data and the settings of one run. Values are texts, as the command line has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// The data: a path, seen from the current folder, or a URL.
    pub input: Option<String>,
    /// `uri_folder` or `uri_file`; nothing where the data say it.
    pub input_type: Option<String>,
    /// Files in a mini-batch.
    pub mini_batch_size: Option<String>,
    /// Nodes.
    pub instance_count: Option<String>,
    /// The folder for the output, seen from the current folder.
    pub output_path: Option<String>,
    /// The id of the job.
    pub job_name: Option<String>,
    /// What experiment it is kept under.
    pub experiment_name: Option<String>,
    /// Whether nothing is run, so that data may be missing.
    pub is_check: bool,
    /// Whether the file is that of a batch deployment, whatever else it looks like (Y4).
    pub is_deployment: bool,
}

impl Invocation {
    /// The options that are given, with their values.
    pub fn given(&self) -> Vec<(&'static str, &str)> {
        let options = [
            ("--input", &self.input),
            ("--input-type", &self.input_type),
            ("--mini-batch-size", &self.mini_batch_size),
            ("--instance-count", &self.instance_count),
            ("--output-path", &self.output_path),
            ("--job-name", &self.job_name),
            ("--experiment-name", &self.experiment_name),
        ];
        options.into_iter().filter_map(|(option, value)| Some((option, value.as_deref()?))).collect()
    }
}
