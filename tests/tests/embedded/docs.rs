//! The documentation against itself and against the code: links that lead nowhere, messages that are not explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prs_common::end_reason::EndReason;
use prs_common::segment::TryStatus;
use prs_tests::harness::reasons_of;

/// The folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder above").to_owned()
}

/// Every page, also those of the examples.
fn pages() -> Vec<PathBuf> {
    let examples = root().join("examples");
    let mut folders = vec![root(), root().join("docs"), root().join("bench"), examples.clone()];
    let examples = fs::read_dir(examples).unwrap();
    folders.extend(examples.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|suffix| suffix == "md")).collect()
}

/// The lines of a page that are no code.
fn prose(page: &Path) -> Vec<String> {
    let mut in_code = false;
    let text = fs::read_to_string(page).unwrap();
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    lines.map(str::to_owned).collect()
}

/// The anchors of a page, as GitHub makes them of its headings.
fn anchors(page: &Path) -> BTreeSet<String> {
    let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: String| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    let mut broken = Vec::new();
    for page in pages() {
        for line in prose(&page) {
            for link in links(&line).filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
                seen += 1;
                let (file, anchor) = link.split_once('#').map_or((link, None), |(file, to)| (file, Some(to)));
                let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
                let is_there = target.exists()
                    && anchor.is_none_or(|anchor| target.is_file() && anchors(&target).contains(anchor));
                if !is_there {
                    broken.push(format!("{}: {link}", page.display()));
                }
            }
        }
    }
    assert!(seen > 100, "{seen} links were looked at");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A name such as `s3/trust.rs` is that of any file whose path ends so.
#[test]
fn every_file_that_the_architecture_names_is_there() {
    let folders = [
        "common",
        "jobs",
        "orchestrator",
        "portal",
        "producer",
        "python",
        "server",
        "tabular",
        "tests",
        "worker",
        "ops",
    ];
    let mut files = Vec::new();
    let mut open: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let named = text.split('`').skip(1).step_by(2);
    let is_source = |name: &&Path| name.extension().is_some_and(|suffix| suffix == "rs" || suffix == "py");
    let named: BTreeSet<_> = named.map(Path::new).filter(is_source).collect();
    let missing: Vec<_> =
        named.iter().filter(|name| !files.iter().any(|file| file.ends_with(name))).collect();
    assert!(named.len() > 50 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_index_names_every_page() {
    let index: Vec<String> = prose(&root().join("docs/README.md"));
    let named: BTreeSet<&str> = index.iter().flat_map(|line| links(line)).collect();
    for page in pages().into_iter().filter(|page| page.parent() == Some(&root().join("docs"))) {
        let name = page.file_name().expect("a file").to_str().expect("UTF-8").to_owned();
        assert!(name == "README.md" || named.contains(name.as_str()), "docs/README.md does not name {name}");
    }
}

#[test]
fn every_reason_is_explained_and_no_other() {
    let lines = prose(&root().join("docs/messages.md"));
    let examples: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let mut explained = BTreeSet::new();
    for example in &examples {
        let reasons = reasons_of(example);
        assert_eq!(reasons.len(), 1, "{example:?} is an example of {reasons:?}");
        explained.extend(reasons);
    }
    let cause = "; the most frequent error: ";
    assert!(examples.iter().any(|example| example.contains(cause)), "a cause is explained");
    for text in EndReason::TEXTS {
        assert!(
            text.contains(cause) || explained.contains(text),
            "docs/messages.md does not explain {text:?}"
        );
    }
}

#[test]
fn every_status_of_a_try_is_explained_and_no_other() {
    let lines = prose(&root().join("docs/messages.md"));
    let rows = lines.iter().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<&str> = rows.collect();
    assert_eq!(explained, TryStatus::ALL.iter().map(|status| status.as_str()).collect());
}
