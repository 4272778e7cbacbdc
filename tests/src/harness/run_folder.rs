//! What a run leaves in its folder, read as a user would.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::table::{Row, parse_csv};

/// The folder of a run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The run in `path`; it need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The result file.
    #[track_caller]
    pub fn result(&self) -> Vec<u8> {
        self.bytes("output/parallel_run_step.txt")
    }

    /// The result file as text, line by line.
    #[track_caller]
    pub fn rows(&self) -> Vec<String> {
        self.text("output/parallel_run_step.txt").lines().map(str::to_owned).collect()
    }

    /// A file of the folder.
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.path.join(name);
        fs::read(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; there are {:#?}", path.display(), self.files("")))
    }

    /// A file of the folder, as text.
    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// A file of the folder that may not be there yet; invalid UTF-8 is replaced.
    pub fn text_so_far(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path.join(name)).unwrap_or_default()).into_owned()
    }

    /// The first line of `logs/job_result.txt`.
    #[track_caller]
    pub fn first_line(&self) -> String {
        self.text("logs/job_result.txt").lines().next().unwrap_or_default().to_owned()
    }

    /// The rows of `processed_mini-batches.csv`.
    #[track_caller]
    pub fn tries(&self) -> Vec<Row> {
        parse_csv(&self.text("logs/sys/job_report/processed_mini-batches.csv")).1
    }

    /// `Status` of every try, by mini-batch, in the order of the tries.
    #[track_caller]
    pub fn statuses(&self) -> BTreeMap<String, Vec<String>> {
        let mut tries = self.tries();
        let number = |row: &Row| row["Picked Count"].parse::<u32>().unwrap();
        tries.sort_by_key(number);
        let mut statuses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in tries {
            statuses.entry(row["Mini-batch Id"].clone()).or_default().push(row["Status"].clone());
        }
        statuses
    }

    /// The lines of `failed_mini_batches.jsonl`; none when there is no such file.
    #[track_caller]
    pub fn failed_mini_batches(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path.join("output/failed_mini_batches.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The text of all log files below `folder` (of `logs/`) whose names end in `suffix`.
    #[track_caller]
    pub fn logs(&self, folder: &str, suffix: &str) -> String {
        let names = self.files(&format!("logs/{folder}"));
        let texts = names.iter().filter(|name| name.ends_with(suffix)).map(|name| self.text_so_far(name));
        texts.collect::<Vec<_>>().concat()
    }

    /// Every file below `folder`, by its path below the run folder, sorted.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        collect(&self.path, &self.path.join(folder), &mut found);
        found.sort_unstable();
        found
    }

    /// What explains an unexpected end.
    pub fn story(&self) -> String {
        let files = ["logs/job_result.txt", "logs/job_error.txt", "logs/sys/master_role.txt"];
        let files = files.map(|name| (name, self.text_so_far(name)));
        let logs = [("sys/node", "_main.txt"), ("sys/error", ".txt"), ("user/stderr", ".txt")];
        let logs = logs.map(|(folder, suffix)| (folder, self.logs(folder, suffix)));
        let parts = files.into_iter().chain(logs).map(|(name, text)| format!("--- {name}\n{text}\n"));
        parts.collect()
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(root, &path, found);
        } else {
            found.push(path.strip_prefix(root).expect("a path below").display().to_string());
        }
    }
}
