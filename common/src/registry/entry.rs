//! What is noted of a registered name: its versions in the order of their creation, as an object holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::NewAsset;
use super::content::Content;
use super::kind::{AssetType, Kind};

/// What a name, or a version of it, may be called.
const NAME: &str = "1 to 240 letters, digits, `_`, `.` and `-` that begin with a letter or digit";
/// The label of the version that was created last.
pub(super) const LATEST: &str = "latest";
/// Versions that an error names.
const NAMED: usize = 20;

/// Which version of a name is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The one that is called so.
    Version(String),
    /// The one with this label.
    Label(String),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, ":{version}"),
            Self::Label(label) => write!(f, "@{label}"),
        }
    }
}

/// A version of a name, as commands show it and jobs use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetVersion {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// What it is.
    pub kind: AssetType,
    /// Where it is: a local path, or a URL.
    pub path: String,
    /// The path that it was created from.
    pub given: String,
    /// Checksum of the content, where that is the registry's own: SHA-256 of its listing.
    pub content: Option<String>,
    /// What people say of it.
    pub about: About,
    /// What it is called beside its version: `NAME@LABEL` means it.
    pub labels: BTreeSet<String>,
    /// Who created it at a server; nothing where nobody said.
    pub created_by: Option<String>,
    /// When it was created: UTC, RFC 3339.
    pub created: String,
    /// Whether `@latest` and lists pass it over.
    pub archived: bool,
    /// What else is registered that it needs.
    pub uses: Vec<Use>,
}

/// A version of what is registered, as something that uses it notes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Use {
    /// What it is.
    pub kind: Kind,
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

impl Use {
    /// That `version` is used.
    pub fn of(version: &AssetVersion) -> Self {
        let AssetVersion { name, version, kind, .. } = version;
        Self { kind: kind.kind(), name: name.clone(), version: version.clone() }
    }
}

/// What people say of a version. A job does not go by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// A text.
    pub description: Option<String>,
    /// What people tell versions apart by.
    pub tags: BTreeMap<String, String>,
    /// What else is kept with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// How far a model is on its way into use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The forms in which `MLflow` can load a model, with what is said of each.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub flavors: Map<String, Json>,
}

/// A name with its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asset {
    pub(super) name: String,
    /// Of the version that was created first; of data, that of all.
    #[serde(rename = "type")]
    pub(super) kind: AssetType,
    /// In the order of their creation.
    pub(super) versions: Vec<VersionEntry>,
    /// Those that were deleted. None is created again: who names one gets no other content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) deleted: Vec<VersionEntry>,
}

/// A version of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionEntry {
    pub(super) version: String,
    /// Where it is not that of the first version.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<AssetType>,
    pub(super) place: VersionSource,
    pub(super) given: String,
    #[serde(flatten)]
    pub(super) about: About,
    pub(super) created_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created_by: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) labels: BTreeSet<String>,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) uses: Vec<Use>,
}

/// Where a version is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum VersionSource {
    /// In the registry itself.
    Content(Content),
    /// Elsewhere.
    Url(String),
}

impl VersionSource {
    pub(super) fn checksum(&self) -> Option<&str> {
        match self {
            Self::Content(content) => Some(&content.checksum),
            Self::Url(_) => None,
        }
    }
}

impl Asset {
    pub(super) fn new(name: &str, kind: AssetType) -> Self {
        Self { name: name.to_owned(), kind, versions: Vec::new(), deleted: Vec::new() }
    }

    /// What the object of `name` among those of `kind` holds, or what is wrong with it.
    pub(super) fn read(kind: Kind, name: &str, body: &[u8]) -> Result<Self, String> {
        let asset: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let types = asset.versions.iter().filter_map(|one| one.kind).chain([asset.kind]);
        match types.into_iter().find(|one| one.kind() != kind) {
            _ if asset.name != name => Err(format!("it is that of {}", asset.name)),
            Some(other) => Err(format!("it is of type {other}")),
            None => Ok(asset),
        }
    }

    /// What messages call it.
    fn called(&self) -> String {
        format!("{} {}", self.kind.kind().noun(), self.name)
    }

    /// What the version `one` is.
    pub(super) fn type_of(&self, one: &VersionEntry) -> AssetType {
        one.kind.unwrap_or(self.kind)
    }

    /// Judges the type of `new`.
    pub(super) fn check_type(&self, new: &NewAsset) -> Result<(), String> {
        if self.kind.kind() == Kind::Data && self.kind != new.kind && !self.versions.is_empty() {
            let (called, kind) = (self.called(), self.kind);
            return Err(format!(
                "{called} is of type {kind}, and all its versions are: give type: {kind}, or another name"
            ));
        }
        Ok(())
    }

    /// The same with the version `new`, whose content is at `place`, and the name of that version. One that is there with the
    /// same content stays as it is.
    pub(super) fn with(
        mut self,
        new: &NewAsset,
        place: VersionSource,
        created_us: u64,
    ) -> Result<(Self, String), String> {
        self.check_type(new)?;
        if self.versions.is_empty() {
            // Of what was deleted no type is left.
            self.kind = new.kind;
        }
        let version = new.version.clone().unwrap_or_else(|| self.next_number().to_string());
        if let Some(there) = self.versions.iter().find(|one| one.version == version) {
            // Data in a bucket may have changed under its URL.
            let is_own = matches!(place, VersionSource::Content(_)) && self.kind.kind() != Kind::Data;
            if is_own && there.place == place && self.type_of(there) == new.kind {
                return Ok((self, version));
            }
            let content = if is_own { " with other content" } else { "" };
            return Err(format!(
                "version {version} of {} is there already{content}, and versions do not change: leave the version out \
                 for the next number, {}, or give another one",
                self.called(),
                self.next_number()
            ));
        }
        if self.deleted.iter().any(|one| one.version == version) {
            return Err(format!(
                "version {version} of {} was deleted, and no other content gets its name: leave the version out for the next \
                 number, {}, or give another one",
                self.called(),
                self.next_number()
            ));
        }
        self.versions.push(VersionEntry {
            version: version.clone(),
            kind: Some(new.kind).filter(|kind| *kind != self.kind),
            place,
            given: new.given.clone(),
            about: new.about.clone(),
            created_us,
            created_by: new.created_by.clone(),
            labels: BTreeSet::new(),
            archived: false,
            uses: new.uses.clone(),
        });
        Ok((self, version))
    }

    /// The version that `new` asks for, where it is there with the content at `place`; the one that was created last, and is not
    /// archived, where it asks for none.
    pub(super) fn version_at(&self, new: &NewAsset, place: &VersionSource) -> Option<String> {
        let there = match &new.version {
            Some(version) => self.versions.iter().find(|one| one.version == *version)?,
            None => self.versions.iter().rev().find(|one| !one.archived)?,
        };
        (there.place == *place && self.type_of(there) == new.kind).then(|| there.version.clone())
    }

    /// The content of the registry that came last.
    pub(super) fn last_content(&self) -> Option<&Content> {
        self.versions.iter().rev().find_map(|one| match &one.place {
            VersionSource::Content(content) => Some(content),
            VersionSource::Url(_) => None,
        })
    }

    /// One more than the greatest number among the versions.
    fn next_number(&self) -> u64 {
        let all = self.versions.iter().chain(&self.deleted);
        let numbers = all.filter_map(|one| one.version.parse::<u64>().ok());
        numbers.max().map_or(1, |last| last.saturating_add(1))
    }

    /// The version that `which` means, or what there is instead.
    pub(super) fn find(&self, which: &Which) -> Result<&VersionEntry, String> {
        let (name, called) = (&self.name, self.called());
        let command = self.kind.kind().command();
        match which {
            Which::Version(version) => {
                let found = self.versions.iter().find(|one| one.version == *version);
                found.ok_or_else(|| {
                    format!("there is no version {version} of {called}; there are: {}", self.shown())
                })
            }
            Which::Label(label) if label == LATEST => {
                self.versions.iter().rev().find(|one| !one.archived).ok_or_else(|| {
                    format!(
                        "all versions of {called} are archived, so none is the latest: restore one ({command} restore), \
                         or name its version; there are: {}",
                        self.shown()
                    )
                })
            }
            Which::Label(label) => {
                self.versions.iter().rev().find(|one| one.labels.contains(label)).ok_or_else(|| {
                    format!(
                        "{called} has no label {label:?}: give {name}@{LATEST}, or a version; there are: {}",
                        self.shown()
                    )
                })
            }
        }
    }

    /// The versions for people, the newest first.
    fn shown(&self) -> String {
        let one = |one: &VersionEntry| one.version.clone() + if one.archived { " (archived)" } else { "" };
        let mut shown: Vec<String> = self.versions.iter().rev().take(NAMED).map(one).collect();
        if self.versions.len() > NAMED {
            shown.push(format!("{} more", self.versions.len() - NAMED));
        }
        shown.join(", ")
    }
}

/// What is wrong with `name` as the name of one of `kind`.
pub fn check_name(kind: Kind, name: &str) -> Result<(), String> {
    if is_name(name) {
        Ok(())
    } else {
        let what = match kind {
            Kind::Data => "a name of data".to_owned(),
            other => format!("the name of {}", other.one()),
        };
        Err(format!("{name:?} is not {what}: give {NAME}"))
    }
}

/// What is wrong with `label` as a label that a person gives.
///
/// # Errors
/// No version has it by the word of a person.
pub fn check_label(label: &str) -> Result<(), String> {
    match label {
        LATEST => Err(format!("the label {LATEST} is that of the version created last, and nobody gives it")),
        label if is_name(label) => Ok(()),
        label => Err(format!("{label:?} is not a label: give {NAME}")),
    }
}

/// What is wrong with `version` as a version.
pub fn check_version(version: &str) -> Result<(), String> {
    if is_name(version) { Ok(()) } else { Err(format!("{version:?} is not a version: give {NAME}")) }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    // A file system takes 255 bytes, of which the end of the key needs some.
    begins && text.len() <= 240 && text.bytes().all(plain)
}
