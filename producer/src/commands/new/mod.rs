//! `new`: a folder with a script, a job file and three inputs, to begin with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use prs_common::job::check_name;
use prs_common::tree::{self, remove_tree};
use serde::Serialize;

use crate::cli::{Format, New};
use crate::failure::{Code, Failure};
use crate::terminal::output;

/// What stands for the name of the job in a job file.
const NAME: &str = "NAME";
const SCRIPT: &str = "code/main.py";
const JOB_FILE: &str = "job.yml";

/// A kind of job to begin with.
struct Kind {
    script: &'static str,
    job_file: &'static str,
    inputs: [(&'static str, &'static str); 3],
    note: Option<&'static str>,
}

const FILES: Kind = Kind {
    script: include_str!("files/main.py"),
    job_file: include_str!("files/job.yml"),
    inputs: [
        ("data/apple.txt", "the apple falls from the tree\n"),
        ("data/moon.txt", "the moon falls around the earth and never lands\n"),
        ("data/tide.txt", "a tide of two oceans\n"),
    ],
    note: None,
};
const TABLES: Kind = Kind {
    script: include_str!("tables/main.py"),
    job_file: include_str!("tables/job.yml"),
    inputs: [
        ("data/january.csv", "item,price,currency\nlamp,40.00,EUR\nchair,55.50,USD\n"),
        ("data/february.csv", "item,price,currency\ntable,120.00,GBP\n"),
        ("data/march.csv", "item,price,currency\nlamp,38.00,EUR\nshelf,75.25,USD\nchair,49.99,EUR\n"),
    ],
    note: Some("tables need pandas and pyarrow in the interpreter of the job: pip install pandas pyarrow"),
};

/// A job to begin with.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Made {
    /// The new folder.
    folder: PathBuf,
    /// The job file in it.
    job_file: PathBuf,
    /// Everything that was written.
    files: Vec<PathBuf>,
}

/// Writes the folder. Nothing that is there is touched.
pub(super) fn new(arguments: &New, format: Format) -> Result<ExitCode, Failure> {
    let New { folder, tabular } = arguments;
    let kind = if *tabular { TABLES } else { FILES };
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name).map_err(|reason| Failure::wrong(format!("the folder names the job, and {reason}")))?;
    if let Some(parent) = folder.parent() {
        tree::make_folders(parent)
            .with_context(|| format!("cannot make {}", parent.display()))
            .map_err(Failure::usage)?;
    }
    match tree::make_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::wrong(format!("{} exists already: give another name", folder.display())));
        }
        made => made.with_context(|| format!("cannot make {}", folder.display())).map_err(Failure::usage)?,
    }
    let files = write_all(folder, &name, &kind).inspect_err(|_| {
        // Half of it is of no use, and would be in the way of another attempt.
        let _ = remove_tree(folder);
    })?;
    let job_file = folder.join(JOB_FILE);
    if format == Format::Json {
        output::json(&Made { folder: folder.clone(), job_file, files })?;
        return Ok(Code::Completed.into());
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let inputs = format!("{}/", at("data"));
    output::pairs(&[
        ("script", at(SCRIPT)),
        ("job file", at(JOB_FILE)),
        ("inputs", inputs),
        ("next", format!("prs submit {}", at(JOB_FILE))),
    ])?;
    if let Some(note) = kind.note {
        output::note(format_args!("note: {note}"));
    }
    Ok(Code::Completed.into())
}

fn write_all(folder: &Path, name: &str, kind: &Kind) -> Result<Vec<PathBuf>, Failure> {
    let job_file = kind.job_file.replace(NAME, name);
    let own = [(SCRIPT, kind.script), (JOB_FILE, &*job_file)];
    let mut written = Vec::new();
    for (path, text) in own.into_iter().chain(kind.inputs) {
        let path = folder.join(path);
        let folder = path.parent().expect("a file in a folder");
        let write = || tree::make_folders(folder).and_then(|()| fs::write(&path, text));
        write().with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}
