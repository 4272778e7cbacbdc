//! Bundles of what was followed: who takes a job over reads one object for 512 segments, and the tail one by one.
//!
//! An orchestrator collects the tables of contents that it reads and puts them into storage, [`GROUP`] at a time, while it
//! goes on. A bundle is named by the position of its first segment in the ledger's list. One that holds other segments
//! than the ledger names there, for the ledger was filled anew in another order, or that is damaged, is left aside: the
//! segments themselves are read then. Segments with tables so long that one read is nothing beside them are not bundled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{Stream, StreamExt, stream};
use prs_common::layout;
use prs_common::ledger::CommittedSegment;
use prs_common::segment::{Bundle, Bundled, ReadIndex, SegmentError, read_index};
use prs_common::storage::{ObjectMeta, PutMode, Storage, StorageError, StorageExt};
use tokio_util::task::AbortOnDropHandle;

use super::READ_AT_ONCE;
use crate::JobContext;

/// Segments in a bundle.
pub(crate) const GROUP: u64 = 512;
/// The longest bundle, bytes.
const LONGEST: usize = 16 << 20;

/// Bundles that are read side by side where all are.
const READ_AHEAD: usize = 3;

/// What a segment says, or why it cannot be read.
pub(crate) type Followed = (CommittedSegment, Result<ReadIndex, SegmentError>);

/// Every bundle of a job that is whole, of whatever start.
pub(crate) async fn all(
    storage: &Arc<dyn Storage>,
) -> Result<impl Stream<Item = Bundle> + Send + use<>, StorageError> {
    let listed = storage.list_all(layout::INDICES).await?;
    let storage = Arc::clone(storage);
    let read = move |object: ObjectMeta| {
        let storage = Arc::clone(&storage);
        async move { Bundle::decode(&storage.get(&object.key).await.ok()?) }
    };
    Ok(stream::iter(listed.into_iter().map(read)).buffered(READ_AHEAD).filter_map(std::future::ready))
}

/// The bundles of one start of a job.
#[derive(Debug)]
pub(crate) struct Bundles {
    /// Whether another orchestrator may take over, who would read them.
    are_read: bool,
    incarnation: u32,
    storage: Arc<dyn Storage>,
    /// Positions of the bundles that others wrote, once somebody looked.
    known: Option<BTreeSet<u64>>,
    /// The bundle that is being collected, and the position of its first segment.
    open: Option<(u64, Bundle)>,
    writing: Option<AbortOnDropHandle<()>>,
}

/// What is read as one.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    One(CommittedSegment),
    Bundle(u64, Vec<CommittedSegment>),
}

impl Bundles {
    pub(crate) fn new(job: &JobContext) -> Self {
        let (incarnation, storage) = (job.incarnation, Arc::clone(&job.storage));
        Self { are_read: job.policy.has_others, incarnation, storage, known: None, open: None, writing: None }
    }

    /// Reads `segments`, which the ledger names from position `first` on; after `until` it begins no more than a few.
    pub(crate) async fn read(
        &mut self,
        first: u64,
        segments: Vec<CommittedSegment>,
        until: Instant,
    ) -> Result<impl Stream<Item = Followed> + Send + use<>, StorageError> {
        let known = match &mut self.known {
            Some(known) => known,
            None if (segments.len() as u64) < GROUP => &mut BTreeSet::new(),
            known => {
                let listed = self.storage.list_all(layout::INDICES).await?;
                let parts = listed.iter().filter_map(|object| layout::bundle_parts(&object.key));
                let own = parts.filter(|(incarnation, _)| *incarnation == self.incarnation);
                known.insert(own.map(|(_, first)| first).collect())
            }
        };
        let begun = sources(known, first, segments).into_iter().enumerate();
        let begun = begun.take_while(move |(number, _)| *number < READ_AT_ONCE || Instant::now() < until);
        let (storage, incarnation) = (Arc::clone(&self.storage), self.incarnation);
        let read = move |(_, source)| read_source(Arc::clone(&storage), incarnation, source);
        Ok(stream::iter(begun.map(read)).buffered(READ_AT_ONCE).flat_map(stream::iter))
    }

    /// Takes note of a segment that was read, at `position` in the ledger's list.
    pub(crate) fn add(&mut self, position: u64, segment: &CommittedSegment, read: &ReadIndex) {
        if self.are_read && position.is_multiple_of(GROUP) {
            let is_there = self.known.as_ref().is_some_and(|known| known.contains(&position));
            self.open = (!is_there).then(|| (position, Bundle::default()));
        }
        let Some((first, bundle)) = &mut self.open else { return };
        let collected = &mut bundle.segments;
        if *first + collected.len() as u64 != position {
            self.open = None;
            return;
        }
        let (key, size, encoded) = (segment.key.clone(), segment.size, read.encoded.clone());
        collected.push(Bundled { key, size, encoded });
        if collected.iter().map(|one| one.encoded.len()).sum::<usize>() > LONGEST {
            self.open = None;
        } else if collected.len() as u64 == GROUP {
            self.write();
        }
    }

    /// A damaged segment is in no bundle.
    pub(crate) fn discard(&mut self) {
        self.open = None;
    }

    /// Puts the bundle into storage. One that the store does not take costs who comes next some reads.
    fn write(&mut self) {
        let Some((first, bundle)) = self.open.take() else { return };
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        let (storage, key) = (Arc::clone(&self.storage), layout::bundle(self.incarnation, first));
        self.writing = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = storage.put(&key, bundle.encode().into(), PutMode::Overwrite).await {
                tracing::warn!(%error, "the tables of contents of segments are not bundled");
            }
        })));
    }
}

/// What is read as one of segments from position `first` on, where these bundles are known.
fn sources(known: &BTreeSet<u64>, first: u64, mut segments: Vec<CommittedSegment>) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut position = first;
    while !segments.is_empty() {
        let of_bundle = known.contains(&position) && segments.len() as u64 >= GROUP;
        let count = if of_bundle {
            GROUP
        } else {
            // Up to where the next bundle may begin.
            (GROUP - position % GROUP).min(segments.len() as u64)
        };
        let rest = segments.split_off(count as usize);
        if of_bundle {
            sources.push(Source::Bundle(position, segments));
        } else {
            sources.extend(segments.into_iter().map(Source::One));
        }
        segments = rest;
        position += count;
    }
    sources
}

async fn read_source(storage: Arc<dyn Storage>, incarnation: u32, source: Source) -> Vec<Followed> {
    match source {
        Source::One(segment) => vec![read_one(storage, segment).await],
        Source::Bundle(first, segments) => {
            let object = storage.get(&layout::bundle(incarnation, first)).await.ok();
            if let Some(read) = object.and_then(|object| unbundle(&object, &segments)) {
                return segments.into_iter().zip(read.into_iter().map(Ok)).collect();
            }
            let one_by_one = segments.into_iter().map(|segment| read_one(Arc::clone(&storage), segment));
            stream::iter(one_by_one).buffered(READ_AT_ONCE).collect().await
        }
    }
}

async fn read_one(storage: Arc<dyn Storage>, segment: CommittedSegment) -> Followed {
    let (key, size) = (segment.key.clone(), segment.size);
    let read = read_index(&*storage, &ObjectMeta { key, size, ..ObjectMeta::default() }).await;
    (segment, read)
}

/// The tables of contents of these segments in a bundle, where it holds them and no others.
fn unbundle(object: &[u8], segments: &[CommittedSegment]) -> Option<Vec<ReadIndex>> {
    let bundle = Bundle::decode(object)?;
    let named = segments.iter().map(|segment| (&segment.key, segment.size));
    if !bundle.segments.iter().map(|one| (&one.key, one.size)).eq(named) {
        return None;
    }
    bundle.segments.into_iter().map(Bundled::read).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prs_common::ledger::Ledger;

    use super::*;
    use crate::fixtures::Fixture;

    /// So many segments of one mini-batch each, committed.
    async fn committed(count: u64) -> (Fixture, Vec<CommittedSegment>) {
        let mut fixture = Fixture::new(1).await;
        for index in 0..count {
            fixture.succeed([index]).await;
        }
        let segments = fixture.ledger.segments(&fixture.job.run, 0, usize::MAX).await.unwrap();
        (fixture, segments)
    }

    async fn read(bundles: &mut Bundles, first: u64, segments: &[CommittedSegment]) -> Vec<Followed> {
        let until = Instant::now() + Duration::from_mins(1);
        let rest = segments[first as usize..].to_vec();
        bundles.read(first, rest, until).await.unwrap().collect().await
    }

    /// Follows as an orchestrator does, and returns how many objects were read for it.
    async fn follow(fixture: &Fixture, segments: &[CommittedSegment]) -> usize {
        let before = fixture.storage.calls("get");
        let mut bundles = Bundles::new(&fixture.job);
        let followed = read(&mut bundles, 0, segments).await;
        assert_eq!(followed.len(), segments.len());
        for (position, (segment, read)) in (0..).zip(followed) {
            let read = read.unwrap();
            assert_eq!((&read.index.key, &segment.key), (&segments[position as usize].key, &read.index.key));
            bundles.add(position, &segment, &read);
        }
        if let Some(writing) = bundles.writing.take() {
            writing.await.unwrap();
        }
        fixture.storage.calls("get") - before
    }

    #[tokio::test]
    async fn who_comes_later_reads_bundles_and_the_tail() {
        let (fixture, segments) = committed(GROUP + 3).await;
        assert_eq!(follow(&fixture, &segments).await, GROUP as usize + 3);
        assert_eq!(fixture.storage.list_all(layout::INDICES).await.unwrap().len(), 1);
        assert_eq!(follow(&fixture, &segments).await, 1 + 3);
        // In the middle of a bundle it is of no use.
        let mut bundles = Bundles::new(&fixture.job);
        assert_eq!(read(&mut bundles, 1, &segments).await.len() as u64, GROUP + 2);
    }

    #[tokio::test]
    async fn a_bundle_that_is_damaged_or_of_others_is_left_aside() {
        let (fixture, mut segments) = committed(GROUP).await;
        follow(&fixture, &segments).await;
        segments.swap(3, 7);
        assert_eq!(follow(&fixture, &segments).await, 1 + GROUP as usize);
        segments.swap(3, 7);
        assert_eq!(follow(&fixture, &segments).await, 1);
        let key = layout::bundle(1, 0);
        let mut object = fixture.storage.get(&key).await.unwrap().to_vec();
        object[100] ^= 1;
        fixture.storage.put(&key, object.into(), PutMode::Overwrite).await.unwrap();
        assert_eq!(follow(&fixture, &segments).await, 1 + GROUP as usize);
        // Another start of the job has none of it.
        let mut later = fixture.job.clone();
        later.incarnation = 2;
        let mut bundles = Bundles::new(&later);
        let before = fixture.storage.calls("get");
        read(&mut bundles, 0, &segments).await;
        assert_eq!(fixture.storage.calls("get") - before, GROUP as usize);
    }

    #[test]
    fn only_whole_bundles_are_read_as_one() {
        let segment = |key: u64| CommittedSegment { key: key.to_string(), size: 1, lost: Vec::new() };
        let shape = |known: &[u64], first: u64, count: u64| -> Vec<(u64, usize)> {
            let segments = (first..first + count).map(segment).collect();
            let sources = sources(&known.iter().copied().collect(), first, segments);
            let mut shape: Vec<(u64, usize)> = Vec::new();
            for source in sources {
                match (source, shape.last_mut()) {
                    (Source::Bundle(first, segments), _) => shape.push((first, segments.len())),
                    (Source::One(_), Some((u64::MAX, count))) => *count += 1,
                    (Source::One(_), _) => shape.push((u64::MAX, 1)),
                }
            }
            shape
        };
        let one = u64::MAX;
        let group = GROUP as usize;
        assert_eq!(shape(&[], 0, 3), [(one, 3)]);
        assert_eq!(shape(&[0], 0, GROUP - 1), [(one, group - 1)]);
        assert_eq!(shape(&[0, GROUP], 0, 2 * GROUP + 5), [(0, group), (GROUP, group), (one, 5)]);
        assert_eq!(shape(&[0, GROUP], 5, 2 * GROUP), [(one, group - 5), (GROUP, group), (one, 5)]);
        assert_eq!(shape(&[2 * GROUP], 0, 3 * GROUP), [(one, 2 * group), (2 * GROUP, group)]);
    }
}
