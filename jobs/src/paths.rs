//! Paths as a person would type them.

use std::path::Path;

/// `path` as a person would type it from here.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    below(here.as_deref(), path).display().to_string()
}

/// `path` as a person would type it in the folder `here`.
pub fn below<'a>(here: Option<&Path>, path: &'a Path) -> &'a Path {
    let relative = here.and_then(|here| path.strip_prefix(here).ok());
    relative.filter(|relative| !relative.as_os_str().is_empty()).unwrap_or(path)
}
