//! What names in job files stand for, as configuration files say it: `references`, `datastores` and `compute`.
//!
//! They hold for every profile. A name that the first file has is not looked for in the next one.

use std::collections::BTreeMap;
use std::path::Path;

use super::file::{S3_KEYS, kind, path_from, s3_options};
use crate::dataset::remote::{RemotePath, is_in_bucket, without_file_scheme};
use crate::job::form::RawSetting;
use crate::job::reader::Reader;
use crate::job::{ConfiguredNames, check_target};
use crate::storage::S3Options;

/// Keys of a datastore that has more than its URL.
const DATASTORE: [&str; 7] = ["url", "anonymous", S3_KEYS[0], S3_KEYS[1], S3_KEYS[2], S3_KEYS[3], S3_KEYS[4]];
const PLACE: &str = "an s3:// URL or a folder";

/// What the names of a file stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamesOfFile {
    /// References and what they stand for, in the order of the file.
    pub references: Vec<(String, String)>,
    /// Datastores.
    pub datastores: BTreeMap<String, Datastore>,
    /// Computes, and the fleets that they are.
    pub computes: BTreeMap<String, String>,
}

/// A place that job files know by a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Datastore {
    /// An `s3://` URL or an absolute folder, without a `/` at its end.
    pub place: String,
    /// How its bucket is reached; nothing where that is as for all others.
    pub s3: Option<S3Options>,
}

impl NamesOfFile {
    /// What the names of all files stand for; those of the first one count first. How a bucket is reached is said by the
    /// first file that has a datastore in it.
    pub fn of_all<'a>(files: impl Iterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for file in files {
            for (from, to) in &file.references {
                if !all.references.iter().any(|(known, _)| known == from) {
                    all.references.push((from.clone(), to.clone()));
                }
            }
            let reached = |datastore: &Datastore| Some((bucket_of(datastore)?, datastore.s3.clone()));
            let before: BTreeMap<String, Option<S3Options>> =
                all.datastores.values().filter_map(reached).collect();
            for (name, datastore) in &file.datastores {
                let known = bucket_of(datastore).and_then(|bucket| before.get(&bucket));
                let s3 = known.unwrap_or(&datastore.s3);
                let named = || Datastore { place: datastore.place.clone(), s3: s3.clone() };
                all.datastores.entry(name.clone()).or_insert_with(named);
            }
            for (name, target) in &file.computes {
                all.computes.entry(name.clone()).or_insert_with(|| target.clone());
            }
        }
        all
    }

    /// What job files are read with.
    pub fn configured(&self) -> ConfiguredNames {
        let place = |(name, datastore): (&String, &Datastore)| (name.clone(), datastore.place.clone());
        ConfiguredNames {
            references: self.references.clone(),
            datastores: self.datastores.iter().map(place).collect(),
            computes: self.computes.clone(),
        }
    }

    /// The buckets that are reached in a way of their own.
    pub fn buckets(&self) -> BTreeMap<String, S3Options> {
        let bucket = |datastore: &Datastore| {
            let url = RemotePath::parse(&datastore.place).ok()?;
            Some((url.bucket.strip_prefix("s3://")?.to_owned(), datastore.s3.clone()?))
        };
        self.datastores.values().filter_map(bucket).collect()
    }
}

/// Reads the three sections.
pub(super) fn read(reader: &mut Reader<'_>, folder: &Path) -> NamesOfFile {
    let mut read = NamesOfFile::default();
    for (at, to) in texts(reader, "references", "what it stands for") {
        let to = if is_relative(&to) { path_from(folder, &to).display().to_string() } else { to };
        match at.key.find('*') {
            Some(star) if star + 1 < at.key.len() => {
                reader.refuse(&at, "`*` stands at the end: what follows it is any text");
            }
            _ => read.references.push((at.key, to)),
        }
    }
    for at in entries(reader, "datastores", "names to places") {
        if let Some(datastore) = datastore(reader, &at, folder) {
            let same =
                |other: &&Datastore| bucket_of(other).is_some_and(|b| Some(b) == bucket_of(&datastore));
            if let Some(other) = read.datastores.values().find(same)
                && other.s3 != datastore.s3
            {
                reader.refuse(
                    &at,
                    "another datastore has the same bucket and reaches it otherwise: give both the same keys",
                );
            }
            read.datastores.insert(at.key, datastore);
        }
    }
    for (at, target) in texts(reader, "compute", "the name of a fleet (--target)") {
        match check_target(&target) {
            Ok(()) => drop(read.computes.insert(at.key, target)),
            Err(message) => reader.refuse(&at, message),
        }
    }
    read
}

fn bucket_of(datastore: &Datastore) -> Option<String> {
    RemotePath::parse(&datastore.place).ok().map(|url| url.bucket)
}

/// The entries of the mapping under `key`, each under its own name.
fn entries(reader: &mut Reader<'_>, key: &str, of: &str) -> Vec<RawSetting> {
    let Some(setting) = reader.get(key) else { return Vec::new() };
    let crate::job::yaml::Value::Mapping(entries) = &setting.value.value else {
        let given = kind(&setting.value);
        reader.refuse(&setting, format!("{given} where a mapping of {of} is expected"));
        return Vec::new();
    };
    let entry = |(name, value): &(crate::job::yaml::Key, crate::job::yaml::Node)| RawSetting {
        key: name.name.clone(),
        shown: format!("{key}.{}", name.name),
        line: Some(name.line),
        value: value.clone(),
    };
    entries.iter().map(entry).collect()
}

/// The same, of texts.
fn texts(reader: &mut Reader<'_>, key: &str, expected: &str) -> Vec<(RawSetting, String)> {
    let mut texts = Vec::new();
    for at in entries(reader, key, "names to texts") {
        match at.value.as_text().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned) {
            Some(text) => texts.push((at, text)),
            None => reader.refuse(&at, format!("give {expected}")),
        }
    }
    texts
}

/// Whether `text` is a path that starts from the folder of the file.
fn is_relative(text: &str) -> bool {
    let is_elsewhere = text.contains("://") || text.starts_with("azureml:") || text.starts_with('/');
    !is_elsewhere && (text.starts_with('.') || text.starts_with("~/") || text.contains('/'))
}

fn datastore(reader: &mut Reader<'_>, at: &RawSetting, folder: &Path) -> Option<Datastore> {
    if let Some(text) = at.value.as_text() {
        let place = place(reader, at, text.trim(), folder)?;
        return Some(Datastore { place, s3: None });
    }
    if !matches!(at.value.value, crate::job::yaml::Value::Mapping(_)) {
        reader.refuse(at, format!("give {PLACE}, or a mapping with url"));
        return None;
    }
    let mut fields = Reader::of_mapping(&at.shown, &at.value, reader.problems());
    fields.refuse_unknown(&DATASTORE, "a datastore");
    let Some(url) = fields.filled_text("url", PLACE) else {
        if !fields.has("url") {
            fields.refuse_at(
                &format!("{}.url", at.shown),
                at.line,
                format!("the key is missing: give {PLACE}"),
            );
        }
        return None;
    };
    let setting = fields.get("url")?;
    let place = place(&mut fields, &setting, &url, folder)?;
    let given: Vec<RawSetting> = DATASTORE[1..].iter().filter_map(|key| fields.get(key)).collect();
    let anonymous = fields.boolean("anonymous").unwrap_or_default();
    let options = S3Options { anonymous, ..s3_options(&mut fields, folder) };
    if let Some(first) = given.first().filter(|_| !is_in_bucket(&place)) {
        fields.refuse(first, "only a bucket has it: remove it");
    }
    if let Some(profile) = fields.get("aws_profile").filter(|_| anonymous) {
        fields.refuse(&profile, "anonymous: true asks without credentials: keep one of them");
    }
    Some(Datastore { place, s3: (!given.is_empty()).then_some(options) })
}

/// The place that `text` names.
fn place(reader: &mut Reader<'_>, at: &RawSetting, text: &str, folder: &Path) -> Option<String> {
    let trimmed = text.trim_end_matches('/');
    if is_in_bucket(text) {
        return match RemotePath::parse(text) {
            Ok(_) => Some(trimmed.to_owned()),
            Err(message) => {
                reader.refuse(at, message);
                None
            }
        };
    }
    let text = without_file_scheme(text);
    if text.is_empty() || text.contains("://") || text.starts_with("azureml:") {
        reader.refuse(at, format!("it is no place that prs reads: give {PLACE}"));
        return None;
    }
    let path = std::path::absolute(path_from(folder, text)).ok()?;
    Some(path.display().to_string().trim_end_matches('/').to_owned())
}
