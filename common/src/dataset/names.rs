//! Which names an object may have to become a file of a node.
//!
//! Names come from buckets and from other hosts; a node writes files below a folder of its own and must never
//! be led out of it. Where an input is listed, a bad name is refused; where files are written, it is checked again.

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

#[cfg(test)]
mod tests {
    use super::*;

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
