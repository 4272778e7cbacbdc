//! Copies of folders.

use std::fs::{self, File};
use std::path::Path;

/// Copies a folder with all that is in it to `to`, which is made. Files keep the time of their last change.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            let changed = entry.metadata().unwrap().modified().unwrap();
            File::open(target).unwrap().set_modified(changed).unwrap();
        }
    }
}

/// Copies the folder `name` of `tests/compat`.
pub fn copy_compat(name: &str, to: &Path) {
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("compat").join(name), to);
}
