//! What pages about jobs say, and how they look: view models, sentences, pictures, templates, the stylesheet.
//!
//! Pure: no file, no socket, no clock. The caller hands in what is known of a job ([`view::Facts`]) and gets
//! HTML. The orchestrator and `prs report` make the static report with it; its parts are made for pages that a server
//! sends, too. Its folders, from the bottom up: `text`, `chart`, `attention`, `view`.

pub mod attention;
pub mod chart;
#[cfg(test)]
mod design;
mod icon;
mod script;
pub mod text;
#[cfg_attr(not(feature = "site"), allow(dead_code, reason = "the pages of a server use more"))]
pub mod view;

/// The stylesheet: colours, sizes, components; for light and dark pages, forced colours and print.
pub const CSS: &str = include_str!("../assets/app.css");

/// The script of the pages that a server sends, as people read it.
const SOURCE: &str = include_str!("../assets/app.js");

/// The script of the pages that a server sends: it keeps them new and answers keys, and they work without it.
pub fn js() -> String {
    script::sent(SOURCE)
}

pub use icon::{ICON, icons};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_page_fetches_is_small() {
        for (name, bytes, most) in [
            ("stylesheet", CSS.len(), 14 << 10),
            ("script", js().len(), 9 << 10),
            ("icon", ICON.len(), 4 << 10),
            (
                "icon of a state",
                icons().iter().map(|(_, icon)| icon.len()).max().unwrap_or_default(),
                4 << 10,
            ),
        ] {
            assert!(bytes <= most, "{name}: {bytes} bytes");
        }
    }
}
