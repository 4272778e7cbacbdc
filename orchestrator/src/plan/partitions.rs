//! Mini-batches of `partition_keys` (spec D3): all files of an input whose paths have the same values, in listing order; the
//! mini-batches in the order of their first files.
//!
//! Paths alone say what goes together, so no data is read for it. Here are the files of a file dataset; those of a table
//! are put together in the same way and cut in `tables`.

use std::path::PathBuf;
use std::sync::Arc;

use prs_common::dataset::listing::{Listing, ListingOptions};
use prs_common::dataset::partition_format::Mismatch;
use prs_common::file_version::{FileVersion, PackedVersions};
use prs_common::job::{Input, InputSource};
use prs_common::message_pack;
use prs_common::mini_batch::{PathColumn, Work};
use serde::{Deserialize, Serialize};

use super::groups::{Grouped, Grouper};
use super::objects;
use super::path_columns::{self, PathName};
use super::{PlanContext, PlanError, Sink};
use crate::inputs::manifest::{File, ManifestError, ManifestReader, ObjectReader, Source};

/// Files that are looked at in one go.
const AT_ONCE: usize = 1024;

/// The keys of a job, for the paths of one of its inputs.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) input: &'a Input,
    pub(super) names: &'a [String],
}

impl Keys<'_> {
    /// The values of a file, encoded in the order of the keys.
    pub(super) fn of(&self, name: &PathName) -> Result<Vec<u8>, Mismatch> {
        let Some(format) = &self.input.partition_format else { return Ok(Vec::new()) };
        let columns = name.columns(format)?;
        let values = self.names.iter().filter_map(|key| columns.iter().find(|column| column.name == key));
        Ok(PathColumn::encode(&values.copied().collect::<Vec<_>>()))
    }

    /// Fails where a key is no column of the input.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let columns: Vec<&str> = self.input.path_columns().collect();
        match self.names.iter().find(|key| !columns.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(PlanError::NoSuchKey {
                input: self.input.name.clone(),
                key: key.clone(),
                columns: columns.join(", "),
            }),
        }
    }
}

/// A local file, as it waits for its group.
#[derive(Serialize, Deserialize)]
pub(super) struct LocalFile<'a> {
    /// Position of the folder it is below.
    pub(super) base: u32,
    pub(super) relative: &'a str,
    /// Size and time of change: bytes, seconds and nanoseconds.
    version: Option<(u64, i64, u32)>,
}

/// The folder for what does not fit into memory.
fn scratch(context: &PlanContext<'_>, position: u32) -> PathBuf {
    context.work.join(format!("groups/{position}"))
}

/// The folders that local files are below, and the files in their groups, as [`LocalFile`]s.
type LocalGroups = (Vec<Arc<str>>, Grouped);

/// Puts local files into groups; nothing when nobody wants more.
pub(super) fn group_listing(
    keys: Keys<'_>,
    position: u32,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<Option<LocalGroups>, PlanError> {
    keys.check()?;
    let input = keys.input;
    let failed = |source| PlanError::Listing { input: input.name.clone(), source };
    let options = ListingOptions { versions: matches!(input.source, InputSource::Paths(_)) };
    let mut listing = Listing::of_input(input, options).map_err(failed)?;
    let mut grouper = Grouper::new(scratch(context, position));
    let (mut bases, mut name) = (Vec::<Arc<str>>::new(), PathName::default());
    loop {
        let mut written = Ok(());
        let visited = listing
            .visit(AT_ONCE, |entry| {
                // Files of one folder come together.
                if bases.last().is_none_or(|last| last != entry.base) {
                    bases.push(Arc::clone(entry.base));
                }
                sink.listed.push_entry(&entry);
                name.of_local(entry.base, entry.relative);
                let group = match keys.of(&name) {
                    Ok(values) => grouper.group(&values),
                    Err(_) => grouper.own_group(),
                };
                let version = entry.version().map(|one| (one.size, one.seconds, one.nanoseconds));
                let base = bases.len() as u32 - 1;
                let record = message_pack::encode(&LocalFile { base, relative: entry.relative, version });
                if written.is_ok() {
                    written = grouper.push(group, &record);
                }
            })
            .map_err(failed)?;
        written.map_err(PlanError::Scratch)?;
        if sink.is_stopped() {
            return Ok(None);
        }
        if visited == 0 {
            sink.left_out.extend(&listing.left_out());
            return Ok(Some((bases, grouper.finish().map_err(PlanError::Scratch)?)));
        }
    }
}

/// The same of a manifest, as [`File`]s.
pub(super) fn group_manifest(
    manifest: &mut ManifestReader<ObjectReader>,
    keys: Keys<'_>,
    position: u32,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<Option<Grouped>, PlanError> {
    keys.check()?;
    let failed = |source: ManifestError| PlanError::Manifest { input: keys.input.name.clone(), source };
    let mut grouper = Grouper::new(scratch(context, position));
    let mut name = PathName::default();
    while let Some(files) = manifest.next_block().map_err(failed)? {
        for file in files {
            name.of_object(&manifest.sources()[file.source as usize], &file);
            let group = match keys.of(&name) {
                Ok(values) => grouper.group(&values),
                Err(_) => grouper.own_group(),
            };
            grouper.push(group, &message_pack::encode(&file)).map_err(PlanError::Scratch)?;
        }
        if sink.is_stopped() {
            return Ok(None);
        }
    }
    grouper.finish().map(Some).map_err(PlanError::Scratch)
}

/// A record of a grouper as it was written.
pub(super) fn decoded<'a, T: Deserialize<'a>>(record: &'a [u8]) -> Result<T, PlanError> {
    message_pack::decode(record).map_err(|error| PlanError::Groups(error.to_string()))
}

/// Plans a file dataset of local files.
pub(super) fn plan_files(
    keys: Keys<'_>,
    position: u32,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let Some((bases, mut files)) = group_listing(keys, position, context, sink)? else { return Ok(()) };
    let mut group = LocalGroup { bases: &bases, ..LocalGroup::default() };
    let mut last = None;
    while let Some((number, record)) = files.next().map_err(PlanError::Scratch)? {
        if last.replace(number) != Some(number) {
            group.hand_over(keys, position, sink);
            if sink.is_stopped() {
                return Ok(());
            }
        }
        group.push(&decoded(record)?);
    }
    group.hand_over(keys, position, sink);
    Ok(())
}

/// The files of a mini-batch, in buffers that are used again.
#[derive(Default)]
struct LocalGroup<'a> {
    bases: &'a [Arc<str>],
    /// The base of each.
    of: Vec<u32>,
    text: String,
    ends: Vec<usize>,
    versions: PackedVersions,
    has_versions: bool,
}

impl LocalGroup<'_> {
    fn push(&mut self, file: &LocalFile<'_>) {
        self.of.push(file.base);
        self.text.push_str(file.relative);
        self.ends.push(self.text.len());
        if let Some((size, seconds, nanoseconds)) = file.version {
            self.has_versions = true;
            self.versions.push(&FileVersion { size, seconds, nanoseconds });
        } else {
            self.versions.push(&FileVersion::UNSEEN);
        }
    }

    fn base(&self, position: usize) -> &str {
        self.of.get(position).and_then(|base| self.bases.get(*base as usize)).map_or("", |base| base)
    }

    fn hand_over(&mut self, keys: Keys<'_>, position: u32, sink: &mut Sink<'_>) {
        if !self.ends.is_empty() && !sink.stopped {
            let mut start = 0;
            let relative: Vec<&str> =
                self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]).collect();
            let mut name = PathName::default();
            name.of_local(self.base(0), relative[0]);
            let versions = if self.has_versions { self.versions.as_bytes() } else { &[] };
            match keys.of(&name) {
                Err(mismatch) => path_columns::hand_over_bad(&name, &mismatch, position, sink),
                Ok(values) if self.of.iter().all(|base| *base == self.of[0]) => {
                    let base = self.base(0);
                    let work = Work::Files { base, paths: relative, versions, names: Vec::new() };
                    // The sink remembers that it was stopped.
                    let _ = sink.push_with(position, &values, work);
                }
                Ok(values) => {
                    let absolute: Vec<String> = relative
                        .iter()
                        .enumerate()
                        .map(|(at, relative)| format!("{}/{relative}", self.base(at).trim_end_matches('/')))
                        .collect();
                    let paths = absolute.iter().map(String::as_str).collect();
                    let work = Work::Files { base: "", paths, versions, names: relative };
                    let _ = sink.push_with(position, &values, work);
                }
            }
        }
        self.of.clear();
        self.text.clear();
        self.ends.clear();
        self.versions.clear();
        self.has_versions = false;
    }
}

/// Plans a file dataset whose files are objects.
pub(super) fn plan_objects(
    mut manifest: ManifestReader<ObjectReader>,
    keys: Keys<'_>,
    position: u32,
    context: &PlanContext<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), PlanError> {
    let Some(mut files) = group_manifest(&mut manifest, keys, position, context, sink)? else {
        return Ok(());
    };
    let sources = manifest.sources();
    let mut group: Vec<File> = Vec::new();
    let mut last = None;
    while let Some((number, record)) = files.next().map_err(PlanError::Scratch)? {
        if last.replace(number) != Some(number) {
            hand_over(&mut group, sources, keys, position, sink);
            if sink.is_stopped() {
                return Ok(());
            }
        }
        group.push(decoded(record)?);
    }
    hand_over(&mut group, sources, keys, position, sink);
    Ok(())
}

fn hand_over(group: &mut Vec<File>, sources: &[Source], keys: Keys<'_>, position: u32, sink: &mut Sink<'_>) {
    let Some(first) = group.first() else { return };
    let mut name = PathName::default();
    name.of_object(&sources[first.source as usize], first);
    match keys.of(&name) {
        Ok(values) => objects::hand_over(group, sources, &values, position, sink),
        Err(mismatch) => {
            path_columns::hand_over_bad(&name, &mismatch, position, sink);
            group.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;
    use std::time::Instant;

    use prs_common::mini_batch::{MiniBatch, PathValue};
    use tokio::runtime::Handle;

    use super::*;
    use crate::fixtures::Fixture;
    use crate::plan::plan;

    /// What the mini-batches of a plan are: the values of the keys, and the names of the files.
    type Planned = Vec<(Vec<String>, Vec<String>)>;

    /// Plans the job with these keys and this format.
    async fn planned(fixture: &mut Fixture, format: &str, keys: &[&str]) -> Result<Planned, String> {
        let spec = fixture.spec();
        spec.partition_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        spec.inputs[0].partition_format = Some(format.parse().unwrap());
        let (spec, work, stores) = (spec.clone(), fixture.job.work.clone(), fixture.job.inputs.clone());
        let handle = Handle::current();
        let planning = tokio::task::spawn_blocking(move || {
            let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
            let mut planned = Vec::new();
            let made = plan(&spec, &context, &|| false, &mut |batch| {
                for body in batch.bodies {
                    let one = MiniBatch::decode(&body).unwrap();
                    let keys = PathColumn::decode(one.keys).unwrap();
                    let keys = keys.iter().map(|key| match key.value {
                        PathValue::Text(text) => text.to_owned(),
                        PathValue::Time(time) => format!("@{time}"),
                        PathValue::Data(encoded) => encoded.to_owned(),
                    });
                    let files = match one.work {
                        Work::Unreadable { origin, .. } => {
                            vec![format!("!{}", origin.rsplit('/').next().unwrap())]
                        }
                        _ => one.item_names().iter().map(|name| name.clone().into_owned()).collect(),
                    };
                    planned.push((keys.collect(), files));
                }
                ControlFlow::Continue(())
            });
            assert!(!work.join("groups/0").exists(), "the scratch folder is empty again");
            made.map(|_| planned).map_err(|error| error.to_string())
        });
        planning.await.unwrap()
    }

    fn write(fixture: &Fixture, names: &[&str]) {
        for name in names {
            let path = fixture.inputs().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn files_with_the_same_values_are_one_mini_batch_wherever_they_are() {
        let mut fixture = Fixture::new(0).await;
        write(&fixture, &["a/1-x.t", "a/2-y.t", "a/bad.t", "b/1-x.t", "b/3-x.t", "c/1-y.t", "c/2-y.t"]);
        let by_kind = planned(&mut fixture, "{n}-{kind}.t", &["kind"]).await.unwrap();
        assert_eq!(
            by_kind,
            [
                (texts(&["x"]), texts(&["a/1-x.t", "b/1-x.t", "b/3-x.t"])),
                (texts(&["y"]), texts(&["a/2-y.t", "c/1-y.t", "c/2-y.t"])),
                (texts(&[]), texts(&["!bad.t"])),
            ]
        );
        let by_both = planned(&mut fixture, "{n}-{kind}.t", &["kind", "n"]).await.unwrap();
        assert_eq!(by_both[0], (texts(&["x", "1"]), texts(&["a/1-x.t", "b/1-x.t"])));
        assert_eq!(by_both.len(), 5);
        // Folders of one input mix; the same plan comes again.
        let root = fixture.inputs().display().to_string();
        let paths = ["c", "a"].map(|folder| format!("{root}/{folder}"));
        fixture.spec().inputs[0].source = InputSource::Paths(paths.to_vec());
        let mixed = planned(&mut fixture, "{n}-{kind}.t", &["n"]).await.unwrap();
        assert_eq!(mixed[0], (texts(&["1"]), texts(&["1-y.t", "1-x.t"])));
        assert_eq!(mixed[1], (texts(&["2"]), texts(&["2-y.t", "2-y.t"])));
        assert_eq!(planned(&mut fixture, "{n}-{kind}.t", &["n"]).await.unwrap(), mixed);
        let unknown = planned(&mut fixture, "{n}-{kind}.t", &["x"]).await.unwrap_err();
        assert!(
            unknown.contains("no column x for partition_keys; the columns of its paths are: n, kind"),
            "{unknown}"
        );
    }

    /// Prints how long a plan of a million files takes: run it by name, with `--ignored --nocapture`, optimized.
    #[tokio::test]
    #[ignore = "it takes its time"]
    async fn a_million_files() {
        for (groups, keys) in [(1_000, "k"), (1, "one"), (1_000_000, "all")] {
            let mut fixture = Fixture::new(0).await;
            let list = fixture.inputs().join("list");
            let line = |number: u64| format!("/data/k{:03}/f{number:07}-abcdefgh.jpg", number * 7 % 1_000);
            let lines: Vec<String> = (0..1_000_000).map(line).collect();
            std::fs::write(&list, lines.join("\n")).unwrap();
            drop(lines);
            let spec = fixture.spec();
            spec.inputs[0].source = InputSource::List(list);
            let format = "{one}/k{k}/f{all}-abcdefgh.jpg";
            spec.inputs[0].partition_format = Some(format.parse().unwrap());
            spec.partition_keys = vec![keys.to_owned()];
            let (spec, work, stores) = (spec.clone(), fixture.job.work.clone(), fixture.job.inputs.clone());
            let handle = Handle::current();
            tokio::task::spawn_blocking(move || {
                let context = PlanContext { work: &work, stores: &stores, handle: &handle, is_shared: false };
                let (start, mut planned, mut largest) = (Instant::now(), 0, 0);
                plan(&spec, &context, &|| false, &mut |batch| {
                    planned += batch.bodies.len();
                    largest = largest.max(batch.bodies.iter().map(bytes::Bytes::len).sum::<usize>());
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert_eq!(planned, groups);
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
                let told = BTreeMap::from([
                    ("groups", groups),
                    ("ms", start.elapsed().as_millis() as usize),
                    ("largest", largest),
                ]);
                tracing::info!(?told, peak);
                std::fs::write(
                    std::env::temp_dir().join(format!("part-million-{keys}")),
                    format!("{told:?} {peak}\n"),
                )
                .unwrap();
            })
            .await
            .unwrap();
        }
    }
}
