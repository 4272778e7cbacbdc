//! What is registered: the names of a kind, the versions of a name, and a version with who uses it.

use askama::Template;

use super::simple::rendered;
use super::{Chrome, Refused};

/// A name in the list.
#[derive(Debug, Clone, Default)]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// What people say of it.
    pub description: String,
    /// The version that `@latest` means; empty where all are archived.
    pub latest: String,
    /// What it is.
    pub kind: &'static str,
    /// How many versions there are.
    pub versions: u64,
    /// When the version was created: UTC, for people and for programs.
    pub created: (String, String),
}

/// The names of a kind as a page.
#[derive(Debug, Template)]
#[template(path = "site/registry_names.html")]
pub struct RegistryPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The kinds: the word in addresses, that for people, and whether it is this one.
    pub kinds: Vec<(&'a str, &'a str, bool)>,
    /// The word of the kind in addresses.
    pub word: &'a str,
    /// The word for people.
    pub title: &'a str,
    /// The command that registers one.
    pub command: &'a str,
    /// What is looked for.
    pub query: &'a str,
    /// Whether archived names are shown, too.
    pub archived: bool,
    /// The names.
    pub names: Vec<NameRow>,
    /// Address of the next page; empty at the end.
    pub next: String,
}

impl RegistryPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// A version in the list.
#[derive(Debug, Clone, Default)]
pub struct VersionRow {
    /// The version.
    pub version: String,
    /// What it is.
    pub kind: &'static str,
    /// What it is called beside its version, `@latest` too.
    pub labels: String,
    /// What people say of it.
    pub description: String,
    /// Who created it; empty where nobody said.
    pub by: String,
    /// When it was created: UTC, for people and for programs.
    pub created: (String, String),
    /// Whether `@latest` passes it over.
    pub archived: bool,
}

/// The versions of a name as a page.
#[derive(Debug, Template)]
#[template(path = "site/registry_versions.html")]
pub struct VersionsPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The word of the kind in addresses, and that for people.
    pub kind: (&'a str, &'a str),
    /// The name.
    pub name: &'a str,
    /// The versions, the newest first.
    pub versions: Vec<VersionRow>,
    /// Address of the next page; empty at the end.
    pub next: String,
}

impl VersionsPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

/// A version as a page.
#[derive(Debug, Template)]
#[template(path = "site/registry_version.html")]
pub struct VersionPage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// The word of the kind in addresses, and that for people.
    pub kind: (&'a str, &'a str),
    /// The name.
    pub name: &'a str,
    /// What there is to know of it.
    pub row: VersionRow,
    /// What names it in a job file.
    pub reference: String,
    /// Where it is.
    pub path: String,
    /// The path that it was created from; empty where its file was sent.
    pub given: String,
    /// The job that it was made by; empty for others.
    pub from_job: String,
    /// Tags, properties and what else people keep with it.
    pub facts: Vec<(String, String)>,
    /// Its first files: path, bytes in words, and address.
    pub files: Vec<(String, String, String)>,
    /// Whether there are more.
    pub has_more_files: bool,
    /// Why there are no files; empty where there are.
    pub why_no_files: String,
    /// Deployments that use it: endpoint and name.
    pub deployments: Vec<(String, String)>,
    /// Components that use it: name and version.
    pub components: Vec<(String, String)>,
    /// The last jobs that used it: the id and the state.
    pub jobs: Vec<(String, &'static str)>,
    /// How many jobs there are.
    pub jobs_total: u64,
    /// Whether the reader may archive it.
    pub may_change: bool,
    /// Whether the reader may delete it.
    pub may_delete: bool,
    /// The tag of what is shown.
    pub tag: String,
    /// Why the last change was refused.
    pub refused: Refused,
}

impl VersionPage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }

    /// Whether nothing uses it.
    fn is_unused(&self) -> bool {
        self.deployments.is_empty() && self.components.is_empty() && self.jobs.is_empty()
    }
}

/// A question before something goes that is named by typing its name.
#[derive(Debug, Template)]
#[template(path = "site/delete.html")]
pub struct DeletePage<'a> {
    /// What stands around it.
    pub chrome: &'a Chrome,
    /// What is about to be done, in a few words.
    pub title: &'a str,
    /// What will happen then.
    pub says: &'a str,
    /// The name to be typed.
    pub name: &'a str,
    /// The address that does it.
    pub action: &'a str,
    /// The address that leads back.
    pub back: &'a str,
    /// Why it was refused; nothing before the first try.
    pub refused: Refused,
}

impl DeletePage<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        rendered(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(chrome: &Chrome) -> VersionPage<'_> {
        VersionPage {
            chrome,
            kind: ("models", "Models"),
            name: "heart",
            row: VersionRow {
                version: "3".to_owned(),
                kind: "custom_model",
                labels: "@latest".to_owned(),
                description: "<b>of hearts</b>".to_owned(),
                ..VersionRow::default()
            },
            reference: "azureml:heart:3".to_owned(),
            path: "s3://b/x".to_owned(),
            given: "./model".to_owned(),
            from_job: String::new(),
            facts: vec![("team".to_owned(), "<i>vision".to_owned())],
            files: vec![("model/<x>".to_owned(), "3 B".to_owned(), "/api/v1/x".to_owned())],
            has_more_files: false,
            why_no_files: String::new(),
            deployments: vec![("hearts".to_owned(), "xgb".to_owned())],
            components: Vec::new(),
            jobs: Vec::new(),
            jobs_total: 0,
            may_change: true,
            may_delete: false,
            tag: "t".to_owned(),
            refused: Refused::default(),
        }
    }

    #[test]
    fn a_version_says_who_uses_it_and_nothing_of_it_is_markup() {
        let chrome = Chrome::default();
        let html = version(&chrome).html();
        assert!(html.contains("/endpoints/hearts") && html.contains("azureml:heart:3"), "{html}");
        for markup in ["<b>of", "<i>vision", "<x>"] {
            assert!(!html.contains(markup), "{markup} in {html}");
        }
        assert!(html.contains("Archive") && !html.contains("Delete"), "{html}");
        let reader = VersionPage { may_change: false, ..version(&chrome) }.html();
        assert!(!reader.contains("Archive"), "{reader}");
    }

    #[test]
    fn an_empty_kind_says_how_it_is_filled() {
        let chrome = Chrome::default();
        let page = RegistryPage {
            chrome: &chrome,
            kinds: vec![("data", "Data", true), ("models", "Models", false)],
            word: "data",
            title: "Data",
            command: "prs dataset",
            query: "",
            archived: false,
            names: Vec::new(),
            next: String::new(),
        };
        assert!(page.html().contains("prs dataset create"));
        let searched = RegistryPage { query: "x", ..page }.html();
        assert!(searched.contains("Clear the filter"), "{searched}");
    }
}
