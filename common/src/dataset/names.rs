//! Which names an object may have to become a file of a node.
//!
//! Names come from buckets and from other hosts; a node writes files below a folder of its own and must never
//! be led out of it. Where an input is listed, a bad name is refused; where files are written, it is checked again.

use std::borrow::Cow;

/// Longest name of a file or folder on the file systems of nodes, bytes.
const LONGEST_PART: usize = 255;
/// Longest path below the folder of an input, bytes; with the folder itself it stays below what systems take.
const LONGEST_PATH: usize = 3_072;

/// Why `relative`, a `/`-separated path, cannot be a file below a folder; `None` if it can.
pub fn unusable(relative: &str) -> Option<&'static str> {
    if relative.is_empty() {
        return Some("the name is empty");
    }
    if relative.len() > LONGEST_PATH {
        return Some("the name is longer than 3,072 bytes");
    }
    if relative.contains(char::is_control) {
        return Some("the name has a control character");
    }
    relative.split('/').find_map(|part| match part {
        "" => Some("the name has an empty part (two slashes, or one at its beginning or end)"),
        "." | ".." => Some("the name has a part `.` or `..`"),
        _ if part.len() > LONGEST_PART => Some("a part of the name is longer than 255 bytes"),
        _ => None,
    })
}

/// The absolute `path` without empty parts, `.` and `..`, by its text alone: the name of what it leads to, not a way there.
pub fn without_detours(path: &str) -> Cow<'_, str> {
    let below_root = path.strip_prefix('/').unwrap_or(path);
    if below_root.split('/').all(|part| !matches!(part, "" | "." | "..")) {
        return path.into();
    }
    let mut parts = Vec::new();
    for part in below_root.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for (path, expected) in [
            ("/data/a.png", "/data/a.png"),
            ("//data/./x/../a.png", "/data/a.png"),
            ("/../a", "/a"),
            ("/data/..a", "/data/..a"),
        ] {
            assert_eq!(without_detours(path), expected);
        }
    }

    #[test]
    fn only_names_below_a_folder_can_be_used() {
        let long = "x".repeat(255);
        let deep = [&*long; 12].join("/");
        for name in ["a", "a b/ü/.hidden", "...", "a/..b/c..", "back\\slash", &long, &deep] {
            assert_eq!(unusable(name), None, "{name}");
        }
        let (longer, deeper) = (format!("{long}x"), format!("{deep}/x"));
        for (name, says) in [
            ("", "empty"),
            ("/etc/passwd", "empty part"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("..", "`..`"),
            ("a/../../b", "`..`"),
            ("./a", "`.`"),
            ("a\0b", "control"),
            ("a\nb", "control"),
            (&longer, "255"),
            (&deeper, "3,072"),
        ] {
            assert!(unusable(name).unwrap_or_default().contains(says), "{name:?}: {:?}", unusable(name));
        }
    }
}
