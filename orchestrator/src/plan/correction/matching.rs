//! A plan of corrected inputs: mini-batches that have rows stay as they are, the rest is planned anew.
//!
//! Content is compared. A slice of text is as it was where its bytes have the checksum, and its file the columns and types, that
//! it was read with; a whole file, and a file of Parquet, where the content that was noted of it is the same.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use prs_common::file_version::{FileVersion, PackedVersions, unpack};
use prs_common::job::{Input, JobSpec};
use prs_common::message_pack;
use prs_common::mini_batch::{MiniBatch, MiniBatchIndex, SliceRef, StoreRef, Work};
use prs_tabular::{Slice, TableReader};

use super::changes::{Change, Changes, types_differ};
use super::evidence::Evidence;

/// Mini-batches of former starts of a job.
pub(super) struct Former {
    /// The descriptors of mini-batches that have rows, in the order of these. Slices are where they were when they ran: of a file
    /// that was corrected more than once each is in the file of its own start.
    pub(super) done: Vec<Bytes>,
    /// The descriptors of all others.
    pub(super) open: Vec<Bytes>,
    /// An index that is larger than any of theirs.
    pub(super) end: MiniBatchIndex,
}

/// A slice of a file that is cut anew: what it is, how many records are before it, and the mini-batch that has its rows.
pub(super) type Recut = (Slice, u64, Option<MiniBatchIndex>);

/// Cuts the file of a slice around the bytes of others, which have rows, or says why that cannot be.
pub(super) type Cut<'a> =
    &'a dyn Fn(&SliceRef<'_>, &[(MiniBatchIndex, SliceRef<'_>)]) -> Result<Vec<Recut>, Uncut>;

/// Why a file is not cut anew, and the mini-batches that this is because of.
pub(super) type Uncut = (Change, Vec<MiniBatchIndex>);

/// The plan of corrected inputs.
#[derive(Debug)]
pub(super) struct Matched {
    /// Descriptors, in input order.
    pub(super) bodies: Vec<Bytes>,
    /// Mini-batches that did not exist before.
    pub(super) fresh: u64,
    /// An index that is larger than any.
    pub(super) end: MiniBatchIndex,
}

/// Puts together the plan of a job from that of its inputs as they are now (`natural`), and what former starts left.
pub(super) fn matched(
    spec: &JobSpec,
    natural: &[Bytes],
    former: &Former,
    (cut, evidence): (Cut<'_>, &Evidence),
) -> Result<Matched, Changes> {
    let mut plan = Plan {
        spec,
        done: Done::of(&former.done),
        numbers: Numbers::of(former),
        begins: begins(&former.open),
        cut,
        evidence,
        bodies: Vec::with_capacity(natural.len()),
        changes: Changes::default(),
    };
    let decoded: Vec<MiniBatch<'_>> =
        natural.iter().filter_map(|body| MiniBatch::decode(body).ok()).collect();
    let mut rest = &decoded[..];
    while let Some(first) = rest.first() {
        let kind = Kind::of(first);
        let like = rest.iter().position(|one| one.input != first.input || Kind::of(one) != kind);
        let (these, later) = rest.split_at(like.unwrap_or(rest.len()));
        rest = later;
        match kind {
            Kind::Group => these.iter().for_each(|one| plan.group(one)),
            Kind::Files => plan.files(these),
            Kind::OfFile(_) => plan.slices(these),
            Kind::Other => these.iter().for_each(|one| plan.other(one)),
        }
    }
    plan.finish()
}

/// How a mini-batch is compared.
#[derive(PartialEq, Eq)]
enum Kind<'a> {
    /// By its keys.
    Group,
    /// File by file.
    Files,
    /// As a part of this file.
    OfFile(&'a str),
    /// As a whole.
    Other,
}

impl<'a> Kind<'a> {
    fn of(mini_batch: &MiniBatch<'a>) -> Self {
        match &mini_batch.work {
            _ if !mini_batch.keys.is_empty() => Self::Group,
            Work::Files { .. } => Self::Files,
            Work::Slice(SliceRef { origin, .. }) | Work::Unreadable { origin, .. } => Self::OfFile(origin),
            Work::Slices(_) | Work::Objects { .. } | Work::Stored { .. } => Self::Other,
        }
    }
}

/// A mini-batch, and the position of a file in it.
type Place = (MiniBatchIndex, usize);

/// A file of an input: input, folder, path below it.
type FileKey<'a> = (u32, &'a str, &'a str);

/// Mini-batches that have rows.
#[derive(Default)]
struct Done<'a> {
    bodies: HashMap<MiniBatchIndex, &'a Bytes>,
    /// By their keys.
    groups: HashMap<(u32, &'a [u8]), MiniBatch<'a>>,
    /// By whole file, each with the version of that file then.
    files: HashMap<FileKey<'a>, VecDeque<(Place, Option<FileVersion>)>>,
    /// The slices of each file.
    slices: HashMap<(u32, &'a str), Vec<(MiniBatchIndex, SliceRef<'a>)>>,
    /// All others, as they are but for their index.
    others: HashMap<Vec<u8>, MiniBatchIndex>,
}

impl<'a> Done<'a> {
    fn of(bodies: &'a [Bytes]) -> Self {
        let mut done = Self::default();
        for body in bodies {
            let Ok(mini_batch) = MiniBatch::decode(body) else { continue };
            let (index, input) = (mini_batch.index, mini_batch.input);
            done.bodies.insert(index, body);
            match &mini_batch.work {
                _ if !mini_batch.keys.is_empty() => {
                    done.groups.insert((input, mini_batch.keys), mini_batch);
                }
                Work::Files { base, paths, versions, .. } => {
                    let mut versions = unpack(versions);
                    for (at, path) in paths.iter().enumerate() {
                        let entry = ((index, at), versions.next());
                        done.files.entry((input, base, path)).or_default().push_back(entry);
                    }
                }
                Work::Slice(slice) => {
                    done.slices.entry((input, slice.origin)).or_default().push((index, *slice));
                }
                _ => {
                    done.others.insert(without_index(&mini_batch), index);
                }
            }
        }
        done
    }
}

/// Which index a mini-batch gets.
struct Numbers {
    /// Indexes of mini-batches without rows, which keep them where they are as before.
    open: HashMap<Vec<u8>, MiniBatchIndex>,
    next: MiniBatchIndex,
    first_fresh: MiniBatchIndex,
}

impl Numbers {
    fn of(former: &Former) -> Self {
        let open = former.open.iter().filter_map(|body| MiniBatch::decode(body).ok());
        let open = open.map(|one| (without_index(&one), one.index)).collect();
        Self { open, next: former.end, first_fresh: former.end }
    }

    fn numbered(&mut self, mini_batch: &MiniBatch<'_>) -> Bytes {
        let index = self.open.remove(&without_index(mini_batch)).unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        MiniBatch { index, work: mini_batch.work.clone(), ..*mini_batch }.encode().into()
    }
}

/// A descriptor that says nothing of the index.
fn without_index(mini_batch: &MiniBatch<'_>) -> Vec<u8> {
    MiniBatch { index: 0, work: mini_batch.work.clone(), ..*mini_batch }.encode()
}

/// The first file of each mini-batch of whole files: a new one begins there, too, so that what did not change stays one.
fn begins(open: &[Bytes]) -> HashSet<FileKey<'_>> {
    let decoded = open.iter().filter_map(|body| MiniBatch::decode(body).ok());
    let first = decoded.filter_map(|one| match one.work {
        Work::Files { base, paths, .. } => Some((one.input, base, *paths.first()?)),
        _ => None,
    });
    first.collect()
}

/// A plan that is put together.
struct Plan<'a> {
    spec: &'a JobSpec,
    done: Done<'a>,
    numbers: Numbers,
    begins: HashSet<FileKey<'a>>,
    cut: Cut<'a>,
    evidence: &'a Evidence,
    bodies: Vec<Bytes>,
    changes: Changes,
}

impl<'a> Plan<'a> {
    fn keep(&mut self, index: MiniBatchIndex) {
        if let Some(body) = self.done.bodies.remove(&index) {
            self.bodies.push(body.clone());
        }
    }

    fn number(&mut self, mini_batch: &MiniBatch<'_>) {
        let body = self.numbers.numbered(mini_batch);
        self.bodies.push(body);
    }

    fn input(&self, position: u32) -> Option<&Input> {
        self.spec.inputs.get(position as usize)
    }

    /// One that is as it was or not.
    fn other(&mut self, mini_batch: &MiniBatch<'_>) {
        match self.done.others.remove(&without_index(mini_batch)) {
            Some(index) => self.keep(index),
            None => self.number(mini_batch),
        }
    }

    /// One that has all there is of a group.
    fn group(&mut self, mini_batch: &MiniBatch<'a>) {
        let Some(done) = self.done.groups.remove(&(mini_batch.input, mini_batch.keys)) else {
            return self.number(mini_batch);
        };
        let draws = self.input(mini_batch.input).is_some_and(|input| input.mltable.is_some());
        let difference = match (&done.work, &mini_batch.work) {
            (Work::Files { .. }, Work::Files { .. }) => files_differ(&done, mini_batch, self.evidence),
            (was, is) => slices_differ((done.index, was.slices()), is.slices(), draws, self.evidence),
        };
        match difference {
            None => self.keep(done.index),
            Some((file, change)) => self.changes.add(&file, done.index, change),
        }
    }

    /// Mini-batches of whole files.
    fn files(&mut self, these: &[MiniBatch<'a>]) {
        let size = self.spec.mini_batch_size.amount().max(1) as usize;
        let mut group = FileGroup::default();
        for mini_batch in these {
            let Work::Files { base, paths, versions, names } = &mini_batch.work else { continue };
            let mut versions = unpack(versions);
            for (at, path) in paths.iter().enumerate() {
                let (version, key) = (versions.next(), (mini_batch.input, *base, *path));
                let done = self.done.files.get_mut(&key).and_then(VecDeque::pop_front);
                if let Some((place @ (index, _), then)) = done {
                    let path = named(base, path);
                    if let Some(change) = self.evidence.change(place, &path, (then, version)) {
                        self.changes.add(&path, index, change);
                    }
                    if self.done.bodies.contains_key(&index) {
                        group.hand_over(self);
                        self.keep(index);
                    }
                    continue;
                }
                if group.paths.len() >= size || group.base != *base || self.begins.contains(&key) {
                    group.hand_over(self);
                }
                (group.input, group.base) = (mini_batch.input, base);
                group.paths.push(path);
                group.versions.extend(version);
                group.names.extend(names.get(at).copied());
            }
        }
        group.hand_over(self);
    }

    /// The mini-batches of one file that is cut into slices.
    fn slices(&mut self, these: &[MiniBatch<'a>]) {
        let Some(first) = these.first() else { return };
        let Kind::OfFile(origin) = Kind::of(first) else { return };
        let Some(done) = self.done.slices.remove(&(first.input, origin)) else {
            return these.iter().for_each(|one| self.other(one));
        };
        let draws = self.input(first.input).is_some_and(|input| input.mltable.is_some());
        let slices: Vec<SliceRef<'_>> = these.iter().flat_map(|one| one.work.slices()).copied().collect();
        let places: HashMap<u64, usize> = (0..).zip(&done).map(|(at, (_, was))| (was.start, at)).collect();
        let same = |is: &SliceRef<'_>| {
            let (index, was) = &done[*places.get(&is.start)?];
            let differs = slice_differs((*index, 0), was, is, draws, self.evidence);
            differs.is_none().then_some(*index)
        };
        if !slices.is_sorted_by(|one, next| one.start < next.start) {
            return done.iter().for_each(|(index, _)| self.changes.add(origin, *index, Change::Twice));
        }
        if slices.iter().filter_map(same).count() == done.len() {
            for one in these {
                match one.work.slices().first().and_then(same) {
                    Some(index) => self.keep(index),
                    None => self.number(one),
                }
            }
            return;
        }
        let recut = match why_not_cut(&done, &slices, these.len(), draws) {
            Some(change) => {
                let here: HashSet<_> = slices.iter().filter_map(same).collect();
                let is_lost = |(index, _): &&(MiniBatchIndex, SliceRef<'_>)| !here.contains(index);
                let in_place = |(index, was): &(MiniBatchIndex, SliceRef<'_>)| {
                    let is = slices.iter().find(|is| is.start == was.start)?;
                    slice_differs((*index, 0), was, is, draws, self.evidence)
                };
                // All of the file changed in one way.
                let change = done.iter().find(is_lost).and_then(in_place).unwrap_or(change);
                Err((change, done.iter().filter(is_lost).map(|(index, _)| *index).collect()))
            }
            None => (self.cut)(&slices[0], &done),
        };
        let recut = match recut {
            Ok(recut) => recut,
            Err((change, lost)) => {
                return lost.into_iter().for_each(|index| self.changes.add(origin, index, change.clone()));
            }
        };
        for (Slice { start, end, records, checksum }, first_record, kept) in recut {
            if let Some(index) = kept {
                self.keep(index);
            } else {
                let slice = SliceRef { start, end, records, checksum, first_record, ..slices[0] };
                self.number(&MiniBatch::new(0, first.input, Work::Slice(slice)));
            }
        }
    }

    fn finish(mut self) -> Result<Matched, Changes> {
        for ((_, base, path), left) in &self.done.files {
            for ((index, _), _) in left {
                self.changes.add(&named(base, path), *index, Change::Gone);
            }
        }
        for ((_, origin), slices) in &self.done.slices {
            for (index, _) in slices {
                self.changes.add(origin, *index, Change::Gone);
            }
        }
        for group in self.done.groups.values() {
            let files = group.item_names();
            let file = files.first().map_or_else(|| group.detail(), ToString::to_string);
            self.changes.add(&file, group.index, Change::Gone);
        }
        for index in self.done.others.values() {
            let detail = self.done.bodies.get(index).and_then(|body| MiniBatch::decode(body).ok());
            self.changes.add(&detail.map(|one| one.detail()).unwrap_or_default(), *index, Change::Gone);
        }
        if !self.changes.is_empty() {
            return Err(self.changes);
        }
        let Numbers { next, first_fresh, .. } = self.numbers;
        Ok(Matched { bodies: self.bodies, fresh: next - first_fresh, end: next })
    }
}

/// Whole files that no mini-batch has yet.
#[derive(Default)]
struct FileGroup<'a> {
    input: u32,
    base: &'a str,
    paths: Vec<&'a str>,
    versions: Vec<FileVersion>,
    names: Vec<&'a str>,
}

impl FileGroup<'_> {
    fn hand_over(&mut self, plan: &mut Plan<'_>) {
        if self.paths.is_empty() {
            return;
        }
        let versions: PackedVersions = std::mem::take(&mut self.versions).into_iter().collect();
        let (paths, names) = (std::mem::take(&mut self.paths), std::mem::take(&mut self.names));
        let work = Work::Files { base: self.base, paths, versions: versions.as_bytes(), names };
        plan.number(&MiniBatch::new(0, self.input, work));
    }
}

/// A file as a person knows it.
pub(super) fn named(base: &str, path: &str) -> String {
    if base.is_empty() { path.to_owned() } else { format!("{base}/{path}") }
}

/// The first file that two mini-batches of whole files differ in, and how.
fn files_differ(was: &MiniBatch<'_>, is: &MiniBatch<'_>, evidence: &Evidence) -> Option<(String, Change)> {
    let (Work::Files { paths: before, versions: then, .. }, Work::Files { paths, versions, .. }) =
        (&was.work, &is.work)
    else {
        return None;
    };
    let (names, mut then, mut versions) = (was.file_names(), unpack(then), unpack(versions));
    for (at, name) in names.iter().enumerate() {
        let versions = (then.next(), versions.next());
        let change = match paths.get(at) {
            Some(path) if *path == before[at] => evidence.change((was.index, at), name, versions),
            _ => Some(Change::Group),
        };
        if let Some(change) = change {
            return Some((name.clone(), change));
        }
    }
    let added = is.file_names().get(names.len())?.clone();
    Some((added, Change::Group))
}

fn slices_differ(
    (index, was): (MiniBatchIndex, &[SliceRef<'_>]),
    is: &[SliceRef<'_>],
    draws: bool,
    evidence: &Evidence,
) -> Option<(String, Change)> {
    for (at, was) in was.iter().enumerate() {
        let change = match is.get(at) {
            Some(is) if is.origin == was.origin => slice_differs((index, at), was, is, draws, evidence),
            _ => Some(Change::Group),
        };
        if let Some(change) = change {
            return Some((was.origin.to_owned(), change));
        }
    }
    is.get(was.len()).map(|added| (added.origin.to_owned(), Change::Group))
}

/// Compares a slice with what it was.
fn slice_differs(
    place: Place,
    was: &SliceRef<'_>,
    is: &SliceRef<'_>,
    draws: bool,
    evidence: &Evidence,
) -> Option<Change> {
    let cut = |slice: &SliceRef<'_>| (slice.start, slice.end, slice.records, slice.checksum, slice.taken);
    if was.reader != is.reader {
        return Some(types_differ(was.reader, is.reader));
    }
    let is_placed = cut(was) == cut(is) && (!draws || was.first_record == is.first_record);
    if !is_placed || was.columns != is.columns {
        return Some(Change::Content(None));
    }
    // The checksum of Parquet is that of its footer alone.
    is_parquet(is).then(|| evidence.change_of_slice(place, was, is)).flatten()
}

pub(super) fn is_parquet(slice: &SliceRef<'_>) -> bool {
    matches!(message_pack::decode(slice.reader), Ok(TableReader::Parquet(_) | TableReader::Arrow))
}

/// Finds why a file cannot be cut around its slices with rows.
fn why_not_cut(
    done: &[(MiniBatchIndex, SliceRef<'_>)],
    slices: &[SliceRef<'_>],
    mini_batches: usize,
    draws: bool,
) -> Option<Change> {
    let Some(first) = slices.first() else { return Some(Change::Content(None)) };
    if let Some((_, was)) = done.iter().find(|(_, was)| was.reader != first.reader) {
        return Some(types_differ(was.reader, first.reader));
    }
    // Where part of it cannot be read, nobody knows where the records are.
    let is_plain = slices.len() == mini_batches
        && first.store == StoreRef::Local
        && first.key == first.origin
        && done.iter().all(|(_, was)| was.columns == first.columns && was.taken.is_none());
    (draws || !is_plain || is_parquet(first)).then_some(Change::Content(None))
}
