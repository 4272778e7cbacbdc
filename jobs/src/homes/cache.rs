//! What is kept in the user's cache folder: prs's own Python, and the code of former jobs, of graphs and of registered components.
//!
//! Code that nothing used for a week goes when the next one is unpacked. Who has a folder holds a shared lock on it as long as the
//! program lives; a test that `try --pytest` printed counts as a use, too (`testing.py`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use prs_common::code::archive::{pack, unpack};
use prs_common::private_folder::PrivateFolder;
use prs_common::tree::{self, remove_tree};
use prs_worker::{find_extension, prepare_python_home};

use crate::failure::Failure;

/// The lock of the command that unpacks code.
const LOCK: &str = "code.lock";
/// Where code is unpacked before it gets its name.
const UNPACKED: &str = "code.new";
/// What the name of a folder of code begins with; its checksum follows.
const CODE: &str = "code-";
/// How long code is kept that nothing uses.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// The locks of the folders that this program uses.
static IN_USE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A folder with prs's own Python that outlives this program, made where it is not there.
pub fn python_home() -> Result<PathBuf, Failure> {
    let extension = find_extension().map_err(Failure::usage)?;
    let cache = cache()?;
    let folder = cache.make_below(concat!("python-", env!("CARGO_PKG_VERSION")));
    let folder = folder.context("cannot use the folder for prs's own Python").map_err(Failure::usage)?;
    let made = prepare_python_home(folder.path(), &extension);
    made.with_context(|| format!("cannot write to {}", folder.path().display()))?;
    Ok(folder.path().to_owned())
}

/// A folder with the code in `archive`, which has this checksum. One that is there already serves where it holds what
/// was packed and nothing else.
pub fn code(archive: &[u8], checksum: &str) -> Result<PathBuf, Failure> {
    let cache = cache()?;
    code_in(&cache, archive, checksum)
}

fn code_in(cache: &PrivateFolder, archive: &[u8], checksum: &str) -> Result<PathBuf, Failure> {
    let at = |name: &str| cache.path().join(name);
    let failed = |error: io::Error| {
        let error = anyhow::Error::from(error);
        Failure::usage(error.context(format!("cannot unpack code in {}", cache.path().display())))
    };
    // The lock of a program that is killed ends with it.
    let lock = tree::append(at(LOCK)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let folder = at(&format!("{CODE}{checksum}"));
    if !is_code(&folder, checksum) {
        for old in [at(UNPACKED), folder.clone()] {
            remove_tree(&old).map_err(failed)?;
        }
        let unpacked = cache.make_below(UNPACKED).map_err(Failure::usage)?;
        unpack(archive, unpacked.path()).map_err(Failure::usage)?;
        tree::rename(unpacked.path(), &folder).map_err(failed)?;
    }
    let in_use = take(&folder).map_err(failed)?;
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner).push(in_use);
    remove_unused(cache.path());
    Ok(folder)
}

/// Notes that `folder` is used, and keeps it from being removed as long as what this gives is there.
fn take(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    folder.set_modified(SystemTime::now())?;
    folder.lock_shared()?;
    Ok(folder)
}

/// Removes code that was not used for long. The caller has the lock under which folders are taken.
fn remove_unused(cache: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(CODE)) {
        let path = entry.path();
        if let Err(error) = remove_if_unused(&path) {
            tracing::debug!(%error, path = %path.display(), "unused code stays");
        }
    }
}

fn remove_if_unused(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    let age = SystemTime::now().duration_since(meta.modified()?).unwrap_or_default();
    if !meta.is_dir() || age < KEPT {
        return Ok(());
    }
    let folder = File::open(path)?;
    match folder.try_lock() {
        Ok(()) => remove_tree(path),
        // Another program runs it.
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_code(folder: &Path, checksum: &str) -> bool {
    PrivateFolder::open(folder).is_ok() && pack(folder).is_ok_and(|code| code.checksum == checksum)
}

/// The folder of this program in the user's cache.
fn cache() -> Result<PrivateFolder, Failure> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        Failure::wrong(
            "there is no folder for code that outlives this program: neither XDG_CACHE_HOME nor HOME names one",
        )
    })?;
    let folder = PrivateFolder::make(&cache.join("prs"))
        .context("cannot use the folder for code that outlives this program");
    folder.map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn code_is_unpacked_once_and_again_where_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("package")).unwrap();
        fs::write(source.join("main.py"), "import package.x").unwrap();
        fs::write(source.join("package/x.py"), "").unwrap();
        let packed = pack(&source).unwrap();
        let cache = PrivateFolder::make(&folder.path().join("cache")).unwrap();
        let code = || code_in(&cache, &packed.body, &packed.checksum).unwrap();
        let made = code();
        let inode = || fs::metadata(&made).unwrap().ino();
        let first = inode();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
        // What an interpreter leaves there changes nothing, nor does a program that was killed meanwhile.
        fs::create_dir(made.join("__pycache__")).unwrap();
        fs::write(made.join("__pycache__/main.pyc"), "x").unwrap();
        fs::create_dir_all(cache.path().join(UNPACKED).join("package")).unwrap();
        assert_eq!((code(), inode()), (made.clone(), first));

        let (main, kept) = (made.join("main.py"), folder.path().join("kept"));
        let changes: [(&str, &dyn Fn()); 6] = [
            ("changed", &|| fs::write(&main, "import other").unwrap()),
            ("executable", &|| fs::set_permissions(&main, fs::Permissions::from_mode(0o755)).unwrap()),
            ("gone", &|| fs::remove_file(&main).unwrap()),
            ("more", &|| fs::write(made.join("package.py"), "").unwrap()),
            ("open", &|| fs::set_permissions(&made, fs::Permissions::from_mode(0o777)).unwrap()),
            ("elsewhere", &|| {
                fs::rename(&made, &kept).unwrap();
                symlink(&kept, &made).unwrap();
            }),
        ];
        for (what, change) in changes {
            change();
            assert!(!is_code(&made, &packed.checksum), "{what}");
            assert_eq!(code(), made);
            assert!(is_code(&made, &packed.checksum), "{what}");
        }
        assert!(kept.join("main.py").is_file(), "a link is not followed");
        assert!(!cache.path().join(UNPACKED).exists());
    }

    #[test]
    fn code_that_nothing_uses_goes_after_a_week() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        let cache = PrivateFolder::make(&folder.path().join("cache")).unwrap();
        let unpack = |text: &str| {
            fs::write(source.join("main.py"), text).unwrap();
            let packed = pack(&source).unwrap();
            code_in(&cache, &packed.body, &packed.checksum).unwrap()
        };
        let made = |name: &str| {
            let path = cache.path().join(format!("{CODE}{name}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("main.py"), name).unwrap();
            path
        };
        let age = |path: &Path, days: u64| {
            let then = SystemTime::now() - Duration::from_hours(days * 24);
            File::open(path).unwrap().set_modified(then).unwrap();
        };
        let first = unpack("first");
        let (unused, recent, running) = (made("unused"), made("recent"), made("running"));
        let other = cache.path().join("python-1");
        fs::create_dir(&other).unwrap();
        let lock = take(&running).unwrap();
        for (path, days) in [(&first, 8), (&unused, 8), (&recent, 6), (&running, 8), (&other, 8)] {
            age(path, days);
        }
        unpack("second");
        assert!(!unused.exists());
        assert!(recent.exists() && running.exists() && other.exists());
        assert!(first.exists(), "this program has it");
        drop(lock);
        // What is used again is as new.
        age(&recent, 8);
        drop(take(&recent).unwrap());
        unpack("third");
        assert!(!running.exists() && recent.exists());
    }

    #[test]
    fn of_many_at_once_each_gets_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        for number in 0..50 {
            fs::write(source.join(format!("{number}.py")), "x").unwrap();
        }
        let packed = pack(&source).unwrap();
        let cache = folder.path().join("cache");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = PrivateFolder::make(&cache).unwrap();
                    let made = code_in(&cache, &packed.body, &packed.checksum).unwrap();
                    assert!(is_code(&made, &packed.checksum));
                });
            }
        });
    }
}
