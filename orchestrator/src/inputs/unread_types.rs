//! Files that a model of `MLflow` cannot be given without a scoring script (dialects E.2): a job over them fails before it runs
//! anything, with the first of them and their number.

use prs_common::dataset::listing::{Listing, ListingError, ListingOptions};
use prs_common::job::{Input, MLFLOW_FILE_TYPES, unread_type};

use super::path_names::PathName;

/// Files that are looked at in one go.
const AT_ONCE: usize = 1024;

/// An input has files of such types.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnreadFiles(Box<Unread>);

/// What is said of them.
#[derive(Debug, thiserror::Error)]
#[error(
    "Error processing input file: '{first}'. File type '{kind}' is not supported. {count} of {files} files have a type that an MLflow \
     model is not given without a scoring script, which are .{}: take them out of the input, or give the deployment \
     code_configuration and environment", MLFLOW_FILE_TYPES.join(" .")
)]
struct Unread {
    first: String,
    kind: String,
    count: u64,
    files: u64,
}

/// Looks through the files of an input.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) name: PathName,
    first: Option<(String, String)>,
    count: u64,
    files: u64,
}

impl Look {
    /// Looks at the file that is called `name`.
    pub(crate) fn look(&mut self) {
        self.files += 1;
        let Some(kind) = unread_type(&self.name.text) else { return };
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((self.name.text.clone(), kind.to_owned()));
        }
    }

    /// Fails where one of them cannot be read.
    pub(crate) fn end(self) -> Result<(), UnreadFiles> {
        let Some((first, kind)) = self.first else { return Ok(()) };
        Err(UnreadFiles(Box::new(Unread { first, kind, count: self.count, files: self.files })))
    }
}

/// Looks through the local files of an input, until `stop`.
pub(crate) fn in_listing(
    input: &Input,
    stop: &dyn Fn() -> bool,
) -> Result<Result<(), UnreadFiles>, ListingError> {
    let mut listing = Listing::of_input(input, ListingOptions::default())?;
    let mut look = Look::default();
    loop {
        let visited = listing.visit(AT_ONCE, |entry| {
            look.name.of_local(entry.base, entry.relative);
            look.look();
        })?;
        if visited == 0 {
            return Ok(look.end());
        }
        if stop() {
            return Ok(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use prs_common::job::{InputKind, InputSource};

    use super::*;

    #[test]
    fn the_first_and_their_number_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        let input = Input::new(
            "input",
            InputKind::File,
            InputSource::Paths(vec![folder.path().display().to_string()]),
        );
        for name in ["a.csv", "b/c.PARQUET", "d.png"] {
            write(name);
        }
        assert!(in_listing(&input, &|| false).unwrap().is_ok());
        for name in ["b/x.avro", "notes", "z.jsonl"] {
            write(name);
        }
        let said = in_listing(&input, &|| false).unwrap().unwrap_err().to_string();
        let path = folder.path().join("b/x.avro").display().to_string();
        let begins = format!(
            "Error processing input file: '{path}'. File type 'avro' is not supported. 3 of 6 files have"
        );
        assert!(said.starts_with(&begins), "{said}");
    }
}
