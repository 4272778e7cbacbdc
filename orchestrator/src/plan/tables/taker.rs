//! Where slices go: each is a mini-batch, or, with `partition_keys`, all those of one group are.

use std::ops::ControlFlow;

use prs_common::dataset::partition_format::Mismatch;
use prs_common::message_pack;
use prs_common::mini_batch::{SliceRef, Work};

use crate::plan::counted::Counted;
use crate::plan::{PlanError, Sink};

/// Takes the slices of an input.
pub(super) struct Taker<'a, 'b> {
    /// Where mini-batches go.
    pub(super) sink: &'a mut Sink<'b>,
    position: u32,
    group: Option<Group>,
    /// Of a table that counts rows behind a filter, what was counted.
    counted: Option<Counted<'a>>,
    /// Why that does not fit.
    failed: Option<PlanError>,
}

/// A mini-batch that is put together.
struct Group {
    number: u32,
    /// What its files have in common, encoded.
    keys: Vec<u8>,
    /// Encoded slices.
    slices: Vec<Vec<u8>>,
    /// The first part of a file that cannot be read: file, place and reason.
    unreadable: Option<(String, u64, String)>,
}

impl<'a, 'b> Taker<'a, 'b> {
    pub(super) fn new(sink: &'a mut Sink<'b>, position: u32, counted: Option<Counted<'a>>) -> Self {
        Self { sink, position, group: None, counted, failed: None }
    }

    /// Whether rows are counted behind a filter.
    pub(super) fn counts(&self) -> bool {
        self.counted.is_some()
    }

    /// Ends the input.
    pub(super) fn finish(self) -> Result<(), PlanError> {
        match (self.failed, self.counted) {
            (Some(error), _) => Err(error),
            (None, Some(counted)) if !self.sink.is_stopped() => counted.finish(),
            (None, _) => Ok(()),
        }
    }

    /// Whether nobody wants more.
    pub(super) fn is_stopped(&mut self) -> bool {
        let is_over = self.failed.is_some() || self.counted.as_ref().is_some_and(Counted::is_over);
        is_over || self.sink.is_stopped()
    }

    /// What follows is of this group, which has these keys. One whose file has none is not read.
    pub(super) fn begin(&mut self, number: u32, keys: Result<Vec<u8>, Mismatch>) {
        if self.group.as_ref().is_none_or(|group| group.number != number) {
            self.end();
            let keys = keys.unwrap_or_default();
            self.group = Some(Group { number, keys, slices: Vec::new(), unreadable: None });
        }
    }

    /// Plans the mini-batch of the group, if there is one. One part that cannot be read fails it all.
    pub(super) fn end(&mut self) {
        let Some(Group { keys, slices, unreadable, .. }) = self.group.take() else { return };
        if self.sink.stopped {
            return;
        }
        let decoded = slices
            .iter()
            .map(|slice| message_pack::decode(slice).expect("this program has encoded it"))
            .collect::<Vec<SliceRef<'_>>>();
        let work = match (&unreadable, decoded.as_slice()) {
            (Some((origin, offset, reason)), _) => Work::Unreadable { origin, offset: *offset, reason },
            // Tables without a record.
            (None, []) => return,
            (None, [only]) => Work::Slice(*only),
            (None, _) => Work::Slices(decoded),
        };
        // The sink remembers that it was stopped.
        let _ = self.sink.push_with(self.position, &keys, work);
    }

    /// A slice; `Break` when nobody wants more.
    pub(super) fn slice(&mut self, slice: &SliceRef<'_>) -> ControlFlow<()> {
        if let Some(counted) = &mut self.counted {
            let (taken, position) = (counted.next(slice.checksum), self.position);
            let pushed = match taken {
                Ok(None) => self.sink.push(position, Work::Slice(*slice)),
                Ok(Some(taken)) if taken.is_empty() => ControlFlow::Continue(()),
                Ok(Some(taken)) => {
                    let taken = Some((taken.start, taken.end));
                    self.sink.push(position, Work::Slice(SliceRef { taken, ..*slice }))
                }
                Err(error) => {
                    self.failed = Some(error);
                    ControlFlow::Break(())
                }
            };
            return if counted.is_over() { ControlFlow::Break(()) } else { pushed };
        }
        let Some(group) = &mut self.group else { return self.sink.push(self.position, Work::Slice(*slice)) };
        group.slices.push(message_pack::encode(slice));
        ControlFlow::Continue(())
    }

    /// A part of a file that cannot be read, and why.
    pub(super) fn unreadable(&mut self, origin: &str, offset: u64, reason: &str) -> ControlFlow<()> {
        let Some(group) = &mut self.group else {
            return self.sink.push(self.position, Work::Unreadable { origin, offset, reason });
        };
        group.unreadable.get_or_insert_with(|| (origin.to_owned(), offset, reason.to_owned()));
        ControlFlow::Continue(())
    }
}
