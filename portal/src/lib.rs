//! What pages about jobs say, and how they look: view models, sentences, pictures, templates, the stylesheet.
//!
//! Pure: no file, no socket, no clock. The caller hands in what is known of a job ([`view::Facts`]) and gets
//! HTML. The orchestrator and `prs report` make the static report with it; its parts are made for pages that a server
//! sends, too. Its folders, from the bottom up: `text`, `chart`, `attention`, `view`.

pub mod attention;
pub mod chart;
#[cfg(test)]
mod design;
pub mod text;
pub mod view;

/// The stylesheet: colours, sizes, components; for light and dark pages, forced colours and print.
pub const CSS: &str = include_str!("../assets/app.css");

/// The script of the pages that a server sends: it keeps them new and answers keys, and they work without it.
pub const JS: &str = include_str!("../assets/app.js");

/// What the script fetches when a picture is walked.
pub const PICTURES_JS: &str = include_str!("../assets/pictures.js");

/// What the script fetches where a log grows.
pub const LOGS_JS: &str = include_str!("../assets/logs.js");

/// A script as it is sent: without comments that have a line of their own, and without what stands in front of lines.
pub fn sent(script: &str) -> String {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The picture of the pages in a browser's tabs.
pub const ICON: &str = include_str!("../assets/icon.svg");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_page_fetches_is_small() {
        for (name, bytes, most) in [
            ("stylesheet", CSS.len(), 14 << 10),
            ("script", sent(JS).len(), 9 << 10),
            ("pictures", sent(PICTURES_JS).len(), 4 << 10),
            ("logs", sent(LOGS_JS).len(), 2 << 10),
            ("icon", ICON.len(), 4 << 10),
        ] {
            assert!(bytes <= most, "{name}: {bytes} bytes");
        }
    }

    #[test]
    fn a_script_is_sent_without_its_comments() {
        assert_eq!(sent("// Why.\n\n  a(\"// b\"); // c\n"), "a(\"// b\"); // c\n");
        assert!(!JS.contains('`') || !sent(JS).contains("${\n"), "no text has several lines");
    }
}
