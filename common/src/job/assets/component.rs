//! A component that is to be registered, with its code and all else that it needs, as one archive.

use std::path::{Path, PathBuf};

use super::super::error::{JobFileError, Problem};
use super::super::form::{MAIN, Portable, portable};
use super::super::names::Names;
use super::AssetFile;
use super::written::written;
use crate::code::archive::pack;
use crate::code::files::CodeFiles;
use crate::registry::{AssetType, Kind, Use};
use crate::tree;

/// The file of the component in its archive.
pub const COMPONENT_FILE: &str = MAIN;

/// A component in an archive.
#[derive(Debug)]
pub struct StagedComponent {
    /// What it is.
    pub kind: AssetType,
    /// The archive; its name begins with the checksum that [`unpack`](crate::code::archive::unpack) needs.
    pub archive: PathBuf,
    /// What its author should know of.
    pub notes: Vec<String>,
    /// What is registered and it uses.
    pub uses: Vec<Use>,
}

/// Packs the component that `read` says, whose file is `file`, in the empty folder `into`. Nothing where names have to be
/// looked up first.
///
/// # Errors
/// All that is wrong with it.
pub fn stage_component(
    read: &AssetFile,
    file: &Path,
    names: &Names,
    into: &Path,
) -> Result<Option<StagedComponent>, JobFileError> {
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    names.begin();
    let made = portable(read.document.clone(), &absolute, names, &mut problems, &mut notes);
    if names.is_asked() {
        return Ok(None);
    }
    if problems.is_empty()
        && let Some(kind) = made.kind.and_then(|kind| AssetType::parse(Kind::Component, kind).ok())
    {
        match write(&made, into) {
            Ok(archive) => {
                let notes = notes.into_iter().map(|note| note.in_file(file)).collect();
                return Ok(Some(StagedComponent { kind, archive, notes, uses: names.uses() }));
            }
            Err(message) => problems.push(Problem { key: String::new(), line: None, message }),
        }
    }
    problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    problems.dedup();
    Err(JobFileError::new(file, problems))
}

/// Writes the archive of `made` below `into`.
pub(super) fn write(made: &Portable, into: &Path) -> Result<PathBuf, String> {
    let folder = into.join("files");
    let failed = |path: &Path| {
        let shown = path.display().to_string();
        move |error: std::io::Error| format!("cannot write {shown}: {error}")
    };
    tree::make_folders(&folder).map_err(failed(&folder))?;
    for (name, node) in &made.documents {
        let path = folder.join(name);
        tree::write(&path, written(node)).map_err(failed(&path))?;
    }
    for (name, code) in &made.folders {
        let found = CodeFiles::find(code).map_err(|error| error.to_string())?;
        for file in &found.files {
            let (from, to) = (code.join(&file.path), folder.join(name).join(&file.path));
            let parent = to.parent().unwrap_or(&folder);
            tree::make_folders(parent).map_err(failed(parent))?;
            tree::copy(&from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
        }
        // A folder of code without a file is one all the same.
        if found.files.is_empty() {
            return Err(format!("there is no file of code in {}: put it there", code.display()));
        }
    }
    let packed = pack(&folder).map_err(|error| error.to_string())?;
    let archive = into.join(format!("{}.tar.gz", packed.checksum));
    tree::write(&archive, &packed.body).map_err(failed(&archive))?;
    Ok(archive)
}
