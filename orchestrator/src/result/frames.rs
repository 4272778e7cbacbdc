//! A result that is a Parquet file: the frames of the mini-batches become its row groups, off the threads that others
//! wait for.

use bytes::{Bytes, BytesMut};
use prs_common::end_reason::EndReason;
use prs_tabular::parquet::write::{FileSchema, FileWriter, FrameError};

use super::FinalizeError;
use super::rows::Part;

/// The file, and the frame that came in part.
pub(super) struct Frames {
    /// Absent while it is written to elsewhere, and after a failure.
    writer: Option<FileWriter>,
    partial: BytesMut,
    /// The last mini-batch.
    last: u64,
}

impl Frames {
    /// Begins a file. Without columns there can be none.
    pub(super) fn new(schema: Option<&FileSchema>) -> Result<Self, FinalizeError> {
        let schema = schema.ok_or(FinalizeError::Unfit(EndReason::NoRow))?;
        // What no file can have was refused before, by its column.
        let writer = FileWriter::new(schema.clone()).map_err(|error| unfit(0, &error))?;
        Ok(Self { writer: Some(writer), partial: BytesMut::new(), last: 0 })
    }

    /// Adds what comes next of the mini-batches; gives the bytes of the file that are known by then.
    pub(super) async fn add(&mut self, parts: Vec<Part>) -> Result<Bytes, FinalizeError> {
        let mut frames = Vec::new();
        for Part { index, rows, is_last } in parts {
            match (is_last, self.partial.is_empty()) {
                (true, true) => frames.push((index as u64, rows)),
                (true, false) => {
                    self.partial.extend_from_slice(&rows);
                    frames.push((index as u64, std::mem::take(&mut self.partial).freeze()));
                }
                (false, _) => self.partial.extend_from_slice(&rows),
            }
        }
        self.last = frames.last().map_or(self.last, |(index, _)| *index);
        let last = self.last;
        self.write(move |writer| {
            for (index, frame) in frames {
                writer.add(frame).map_err(|error| unfit(index, &error))?;
            }
            writer.take_written().map_err(|error| unfit(last, &error))
        })
        .await
    }

    /// Ends the file; gives the rest of its bytes.
    pub(super) async fn end(mut self) -> Result<Bytes, FinalizeError> {
        let (writer, last) = (self.writer.take(), self.last);
        let finished = tokio::task::spawn_blocking(move || match writer {
            Some(writer) => writer.finish().map_err(|error| unfit(last, &error)),
            None => Ok(Bytes::new()),
        });
        finished.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn write(
        &mut self,
        work: impl FnOnce(&mut FileWriter) -> Result<Bytes, FinalizeError> + Send + 'static,
    ) -> Result<Bytes, FinalizeError> {
        let Some(mut writer) = self.writer.take() else { return Ok(Bytes::new()) };
        let written = tokio::task::spawn_blocking(move || {
            let written = work(&mut writer);
            (writer, written)
        });
        let (writer, written) =
            written.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        self.writer = written.is_ok().then_some(writer);
        written
    }
}

fn unfit(index: u64, error: &FrameError) -> FinalizeError {
    FinalizeError::Unfit(EndReason::NotInParquet { index, error: error.to_string() })
}
