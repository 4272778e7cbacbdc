//! Which data the mini-batches of a job may be made of: what its own inputs name, and nothing else.
//!
//! Descriptors come from a broker, where others may write, too. A node reads with its own rights: without this check
//! a message could have it read any file of its host and any store that it can open.

use std::path::{Component, Path};

use prs_common::dataset::http_url::shown;
use prs_common::dataset::listing::PathPattern;
use prs_common::job::{InputMode, InputSource, JobSpec, ONE_ITEM};
use prs_common::layout;
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, SliceRef, StoreRef, Work};
use prs_tabular::TableReader;

use super::blob::promised_digest;

/// What `mini_batch`, which came from a queue of a fleet, names beside the inputs of the job; nothing where it is
/// made of them alone.
pub fn unnamed_store(spec: &JobSpec, mini_batch: &MiniBatch<'_>) -> Option<String> {
    let Some(input) = spec.inputs.get(mini_batch.input as usize) else {
        let (number, inputs) = (mini_batch.input, spec.inputs.len());
        return Some(format!("input {number}, and the job has {inputs}"));
    };
    let (has_files, urls) = match &input.source {
        InputSource::Paths(_) | InputSource::List(_) => (true, &[][..]),
        InputSource::Manifest { stores, .. } => (input.mode == InputMode::Direct, stores.as_slice()),
        InputSource::Remote(_) | InputSource::Output(_) => (false, &[][..]),
        InputSource::OneItem => {
            let is_it =
                matches!(&mini_batch.work, Work::Files { base: "", paths, .. } if **paths == [ONE_ITEM]);
            return (!is_it)
                .then(|| format!("other data than its one item, and input {} has none", input.name));
        }
    };
    let local = |path: &str| match &input.source {
        InputSource::Paths(paths) if !is_below(paths, path) => {
            Some(format!("{path}, and input {} is not there", input.name))
        }
        _ => (!has_files).then(|| format!("{path}, and input {} has no local files", input.name)),
    };
    let object = |store: StoreRef<'_>, key: &str| match store {
        StoreRef::Shared if promised_digest(key).is_some() => None,
        StoreRef::Job if key.starts_with(layout::PLAIN) => None,
        StoreRef::Url(url) if urls.iter().any(|named| named == url) => None,
        StoreRef::Local => local(key),
        StoreRef::Shared | StoreRef::Job => Some(format!("the object {key}, which is no input of the job")),
        StoreRef::Url(url) => Some(format!("{}, and input {} is not there", shown(url), input.name)),
    };
    let slice = |slice: &SliceRef<'_>| object(slice.store, slice.key).or_else(|| file_beside(slice));
    match &mini_batch.work {
        Work::Files { base: "", paths, .. } => paths.iter().find_map(|path| local(path)),
        Work::Files { base, paths, .. } => paths.iter().find_map(|path| local(&format!("{base}/{path}"))),
        Work::Unreadable { .. } => None,
        Work::Objects { sources, files } => files.iter().find_map(|file| {
            let source = sources.get(file.source as usize)?;
            let is_local = source.store == StoreRef::Local;
            object(source.store, &if is_local { source.name(file) } else { source.key(file) })
        }),
        Work::Slice(one) => slice(one),
        Work::Slices(slices) => slices.iter().find_map(slice),
        Work::Stored { key, .. } => {
            let is_own = *key == layout::stored_descriptor(mini_batch.index);
            (!is_own).then(|| format!("the object {key}, which is not its descriptor"))
        }
    }
}

/// A file beside the data of a slice of Parquet, which a node names itself once it has fetched one.
fn file_beside(slice: &SliceRef<'_>) -> Option<String> {
    // Of a slice in a store the node writes the name over.
    if slice.store != StoreRef::Local {
        return None;
    }
    match message_pack::decode(slice.reader) {
        Ok(TableReader::Parquet(groups)) => {
            let files = [(&groups.footer_file, "a footer"), (&groups.types_file, "types")];
            let named = files.into_iter().find(|(file, _)| !file.is_empty());
            named.map(|(file, of_what)| format!("the file {file} for {of_what}"))
        }
        _ => None,
    }
}

/// Whether the absolute path `path` is, or is below, what one of `paths` names.
fn is_below(paths: &[String], path: &str) -> bool {
    let leads_back = |rest: &Path| rest.components().any(|part| part == Component::ParentDir);
    paths.iter().any(|named| {
        let rest = Path::new(path).strip_prefix(PathPattern::fixed_part(named));
        rest.is_ok_and(|rest| !leads_back(rest))
    })
}

#[cfg(test)]
mod tests {
    use prs_common::dataset::left_out::LeftOut;
    use prs_common::job::{Input, InputKind};
    use prs_common::layout::{BLOBS, blob};
    use prs_common::mini_batch::{ObjectRef, ObjectSource};
    use prs_tabular::parquet::RowGroups;

    use super::*;

    fn input(source: InputSource, mode: InputMode) -> Input {
        Input { mode, ..Input::new("data", InputKind::File, source) }
    }

    fn manifest(stores: &[&str]) -> InputSource {
        InputSource::Manifest {
            key: "inputs/data.manifest".to_owned(),
            label: String::new(),
            files: 1,
            bytes: 1,
            checksum: String::new(),
            left_out: LeftOut::default(),
            stores: stores.iter().map(ToString::to_string).collect(),
            named: None,
        }
    }

    fn object<'a>(store: StoreRef<'a>, key: &'a str) -> Work<'a> {
        let source = ObjectSource { number: 0, store, prefix: "", origin: "/", is_listed: true };
        let file = ObjectRef { source: 0, relative: "a", key, size: None, version: "" };
        Work::Objects { sources: vec![source], files: vec![file] }
    }

    fn slice<'a>(store: StoreRef<'a>, key: &'a str) -> Work<'a> {
        Work::Slice(SliceRef { store, key, origin: "/a", end: 1, records: 1, ..SliceRef::EMPTY })
    }

    #[test]
    fn a_path_is_below_what_is_named() {
        for (named, path, is) in [
            ("/in", "/in/a", true),
            ("/in/", "/in/deep/a", true),
            ("/in/a.csv", "/in/a.csv", true),
            ("/jobs/../in", "/jobs/../in/a", true),
            ("/in/*/x[12].csv", "/in/b/x1.csv", true),
            ("/in/{a,b}", "/in/a", true),
            ("/*.csv", "/a.csv", true),
            ("/", "/a", true),
            ("/a.csv", "//a.csv", true),
            ("/in//a.csv", "/in/a.csv", true),
            ("/in", "/input/a", false),
            ("/in", "/in/../etc/shadow", false),
            ("/in/*", "/etc/shadow", false),
            ("/in", "etc/shadow", false),
            ("/", "plain/0", false),
        ] {
            assert_eq!(is_below(&["/other".to_owned(), named.to_owned()], path), is, "{named} {path}");
        }
    }

    #[test]
    fn a_mini_batch_is_made_of_what_the_inputs_name() {
        let inputs = vec![
            input(InputSource::Paths(vec!["/in".to_owned()]), InputMode::Direct),
            input(manifest(&[]), InputMode::Upload),
            input(manifest(&["s3://pictures"]), InputMode::Upload),
            input(manifest(&["s3://pictures"]), InputMode::Direct),
            input(InputSource::List("/in/list".into()), InputMode::Direct),
        ];
        let spec = JobSpec::new("job-1", "/code", "main.py", inputs);
        let uploaded = format!("{BLOBS}{}", blob(&"ab".repeat(32)));
        // Of what a node fetched it names the file with the footer itself.
        let row_groups = |footer_file: &str, types_file: &str| {
            let [footer_file, types_file] = [footer_file, types_file].map(str::to_owned);
            let reader =
                RowGroups { groups: 0..1, footer: 0..1, footer_file, types_file, ..RowGroups::default() };
            message_pack::encode(&TableReader::Parquet(reader))
        };
        let (plain, forged) = (row_groups("", ""), row_groups("/etc/shadow", ""));
        let forged_types = row_groups("", "/etc/shadow");
        let parquet = |store, key, reader| match slice(store, key) {
            Work::Slice(slice) => Work::Slice(SliceRef { reader, ..slice }),
            work => work,
        };
        let files = || Work::Files { base: "/in", paths: vec!["a"], versions: &[], names: Vec::new() };
        // The work, and the inputs that may have it.
        let table: [(Work<'_>, &[u32]); 21] = [
            (files(), &[0, 3, 4]),
            (
                Work::Files {
                    base: "/in/deep",
                    paths: vec!["a", "b/../c"],
                    versions: &[],
                    names: Vec::new(),
                },
                &[3, 4],
            ),
            (Work::Files { base: "/input", paths: vec!["a"], versions: &[], names: Vec::new() }, &[3, 4]),
            (Work::Files { base: "", paths: vec!["/etc/shadow"], versions: &[], names: Vec::new() }, &[3, 4]),
            (slice(StoreRef::Local, "/etc/shadow"), &[3, 4]),
            (Work::Unreadable { origin: "/a", offset: 0, reason: "gone" }, &[0, 1, 2, 3, 4]),
            (object(StoreRef::Local, "a"), &[3, 4]),
            (object(StoreRef::Shared, &uploaded), &[0, 1, 2, 3, 4]),
            (object(StoreRef::Shared, "jobs/another/job.json"), &[]),
            (object(StoreRef::Job, "job.json"), &[]),
            (object(StoreRef::Url("s3://pictures"), "a"), &[2, 3]),
            (object(StoreRef::Url("s3://pictures2"), "a"), &[]),
            (object(StoreRef::Url("file:///etc"), "shadow"), &[]),
            (slice(StoreRef::Job, "plain/0-000000"), &[0, 1, 2, 3, 4]),
            (slice(StoreRef::Url("file:///etc"), "shadow"), &[]),
            (parquet(StoreRef::Local, "/in/a", &plain), &[0, 3, 4]),
            (parquet(StoreRef::Local, "/in/a", &forged), &[]),
            (parquet(StoreRef::Local, "/in/a", &forged_types), &[]),
            (parquet(StoreRef::Shared, &uploaded, &forged), &[0, 1, 2, 3, 4]),
            (Work::Stored { key: "plan/0000000007", items: 1, checksum: 0 }, &[0, 1, 2, 3, 4]),
            (Work::Stored { key: "plan/0000000008", items: 1, checksum: 0 }, &[]),
        ];
        for (work, may) in table {
            for position in 0..6 {
                let mini_batch = MiniBatch::new(7, position, work.clone());
                let unnamed = unnamed_store(&spec, &mini_batch);
                assert_eq!(unnamed.is_none(), may.contains(&position), "{mini_batch:?}: {unnamed:?}");
            }
        }
    }
}
