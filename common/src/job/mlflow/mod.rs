//! Models of `MLflow` that a deployment has no scoring script for (dialects E): prs's own script reads the files, as their types
//! and the signature of the model say, and calls `predict`. `MLflow` itself holds the data against the signature.
//!
//! | file | duty |
//! |---|---|
//! | `mlmodel` | what the file `MLmodel` says |

mod mlmodel;

use std::path::Path;

use super::reader::Reader;
use super::spec::JobSpec;
pub use mlmodel::{MLMODEL, files_of_environment};
pub(super) use mlmodel::{MlModel, REQUIREMENTS};

/// The entry script of a job that scores with such a model.
pub const MLFLOW_SCRIPT: &str = "azureml_user.parallel_run.score_mlflow";
/// Types of files that the script reads (`azureml_user.parallel_run.mlflow_inputs`).
pub const MLFLOW_FILE_TYPES: [&str; 9] =
    ["csv", "parquet", "pqt", "png", "jpg", "jpeg", "tiff", "bmp", "gif"];
/// Keys that are for the script of a user, and why they are not for this one.
const REFUSED: [(&str, &str); 2] = [
    ("output_format", "the rows are a CSV file of the number of the row, the prediction and the file"),
    (
        "max_concurrency",
        "the model has one mini-batch after the other; process_count_per_node says how many processes do",
    ),
];

impl JobSpec {
    /// Whether it scores with a model of `MLflow` that has no script.
    pub fn scores_mlflow(&self) -> bool {
        self.entry_script == MLFLOW_SCRIPT
    }
}

/// The type of a file that the script cannot read, by the name of the file: its suffix, or nothing.
pub fn unread_type(name: &str) -> Option<&str> {
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let is_known = MLFLOW_FILE_TYPES.iter().any(|known| known.eq_ignore_ascii_case(suffix));
    (!is_known).then_some(suffix)
}

/// Refuses settings of a job that have no meaning for such a model.
pub(super) fn refuse_settings(reader: &mut Reader<'_>, spec: &JobSpec) {
    if !spec.scores_mlflow() {
        return;
    }
    for (key, why) in REFUSED {
        if let Some(setting) = reader.get(key) {
            let message = format!(
                "it is for a scoring script, and an MLflow model without one is run by prs: {why}; remove it, or give \
                 code_configuration and environment"
            );
            reader.refuse(&setting, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_by_their_suffix_in_any_case() {
        for (name, unread) in [
            ("a.csv", None),
            ("b/A.CSV", None),
            ("a.b.PqT", None),
            ("x.jpeg", None),
            ("x.csv.gz", Some("gz")),
            ("x.avro", Some("avro")),
            ("x.JSONL", Some("JSONL")),
            ("x", Some("")),
            ("x.", Some("")),
            (".csv", Some("")),
            ("d.csv/x", Some("")),
        ] {
            assert_eq!(unread_type(name), unread, "{name}");
        }
    }
}
