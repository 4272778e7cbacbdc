//! Functions that take a path. It leads down from the folder that this program [holds](super::Held) nearest above it, through no
//! link. Where no folder is held, links in the path are a person's and are followed, but never the last part.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use super::{OpenFolder, PASSED, held, leads_out};

/// Mode of a file that the user's umask decides about.
const ANYBODYS: u32 = 0o666;

/// Opens the folder above `path`. Returns the name in it, too.
pub fn above(path: &Path) -> io::Result<(Arc<OpenFolder>, &OsStr)> {
    let name = path.file_name().ok_or_else(leads_out)?;
    let folder = match held::nearest(path, 1) {
        Some((held, rest)) => match rest.parent() {
            None => held,
            Some(parent) if parent.as_os_str().is_empty() => held,
            Some(parent) => Arc::new(held.opened(parent, PASSED)?),
        },
        None => Arc::new(OpenFolder::follow(path.parent().unwrap_or(Path::new("")))?),
    };
    Ok((folder, name))
}

/// Removes the file or the link at `path`.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.remove_file(name)
}

/// Removes the empty folder at `path`.
pub fn remove_folder(path: impl AsRef<Path>) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.remove_folder(name)
}

/// Removes `path` and everything below it, links and never what they lead to. What is not there is removed already. Blocks.
///
/// The error is that of the first thing that could not be removed, with its path.
pub fn remove_tree(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match above(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok((folder, name)) => folder.remove_all(name, path),
    }
}

/// Moves what is at `from` to `to`, on the same file system, in the place of a file there. A file that others may hold is
/// copied, and loses its name at `from`.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let ((folder, name), (target, to)) = (above(from.as_ref())?, above(to.as_ref())?);
    folder.rename(name, &target, to)
}

/// Gives what is at `from`, which this program made, a name that nothing has.
pub fn rename_new(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let ((folder, name), (target, to)) = (above(from.as_ref())?, above(to.as_ref())?);
    folder.put_new(name, &target, to)
}

/// Makes the folder at `path`, which must be new.
pub fn make_folder(path: impl AsRef<Path>) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.make_folder(name)
}

/// Makes the folder at `path`, and those above it that are missing.
pub fn make_folders(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() { Ok(()) } else { held::make_root(path).map(drop) }
}

/// Makes `path` a link that holds `target`.
pub fn link(target: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.link(target.as_ref(), name)
}

/// Makes the file at `path`, to be read and written: a new one, also where another has the name, or a link.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    create_with(path, ANYBODYS)
}

/// Makes the file at `path` as [`create`] does; other users cannot read it.
pub fn create_private(path: impl AsRef<Path>) -> io::Result<File> {
    create_with(path, 0o600)
}

fn create_with(path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
    let (folder, name) = above(path.as_ref())?;
    folder.create(name, mode)
}

/// Opens the file at `path` to read it and to append to it, or makes it. A link, or a file with other names elsewhere, makes room for it.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    let (folder, name) = above(path.as_ref())?;
    folder.append(name)
}

/// Opens the file at `path` to read and write it, unless others may hold it, too.
pub fn open_to_write(path: impl AsRef<Path>) -> io::Result<File> {
    let (folder, name) = above(path.as_ref())?;
    folder.open_to_write(name)
}

/// Writes a new file.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(content.as_ref())
}

/// Opens the regular file at `path`, which is no link; a pipe there is not waited for.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    let (folder, name) = above(path.as_ref())?;
    folder.open_file(name)
}

/// Reads such a file.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_file(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Copies the file at `from` with its rights to a new one.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (mut source, mut copy) = (File::open(from)?, create(to)?);
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(source.metadata()?.permissions())
}

/// Gives the file at `path` this content: all of it at once, for those who read it.
pub fn write_whole(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.write_whole(name, content.as_ref())
}

/// Changes the rights of the folder or the regular file at `path`. Another one's file is replaced by a copy first, another
/// one's folder refused.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    let (folder, name) = above(path.as_ref())?;
    folder.set_mode(name, mode)
}
