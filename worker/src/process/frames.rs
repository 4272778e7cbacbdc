//! What a process says, read from its socket.

use bytes::{Bytes, BytesMut};
use prs_common::source_line::SourceLine;
use prs_common::wire::{self, ErrorInfo, FromProcess, MAX_FRAME};
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;

/// Bytes of a frame that memory is taken for before they are there.
const TRUSTED: usize = 1 << 20;

/// [`FromProcess`], owned: rows share the memory of their frame.
#[derive(Debug)]
pub(crate) enum Message {
    /// First words.
    Hello { protocol: u32, python: String },
    /// Ready to work.
    Ready { seconds: f64, run: Option<SourceLine> },
    /// The script cannot be imported, or `init()` failed; maybe in every other process on this host too.
    InitFailed { error: ErrorInfo, is_permanent: bool },
    /// Finished mini-batches.
    Outcomes(Vec<OwnedOutcome>),
    /// Mini-batches that had been taken back.
    Skipped(Vec<u32>),
    /// For the log.
    Notice(String),
    /// Last words.
    Bye(Option<ErrorInfo>),
}

/// [`wire::Outcome`], owned.
#[derive(Debug)]
pub(crate) struct OwnedOutcome {
    pub(crate) seq: u32,
    pub(crate) items: u64,
    pub(crate) returned: u64,
    pub(crate) rows: Bytes,
    pub(crate) header: Option<String>,
    pub(crate) files: Vec<String>,
    pub(crate) started_us: u64,
    pub(crate) elapsed_us: u64,
    pub(crate) cpu_us: u64,
    pub(crate) run_us: u64,
    pub(crate) error: Option<ErrorInfo>,
}

/// Reads frames from the socket of a process.
pub(crate) struct FrameReader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl FrameReader {
    pub(crate) fn new(socket: OwnedReadHalf) -> Self {
        Self { socket, buffer: BytesMut::with_capacity(256 << 10) }
    }

    /// The next message; `None` at the end of the stream, or when it makes no sense. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > MAX_FRAME {
                    tracing::error!(length, "a process sent a frame that is too long; it is killed");
                    return None;
                }
                if self.buffer.len() >= 4 + length {
                    let frame = self.buffer.split_to(4 + length).freeze().slice(4..);
                    return match wire::decode(&frame) {
                        Ok(message) => Some(own(message, &frame)),
                        Err(error) => {
                            tracing::error!(%error, "a process sent what cannot be understood; it is killed");
                            None
                        }
                    };
                }
                // A length that was never meant costs no more memory than what is there already.
                let missing = 4 + length - self.buffer.len();
                self.buffer.reserve(missing.min(self.buffer.len().max(TRUSTED)));
            } else {
                self.buffer.reserve(64 << 10);
            }
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "the socket of a process failed");
                    return None;
                }
            }
        }
    }
}

fn own(message: FromProcess<'_>, frame: &Bytes) -> Message {
    match message {
        FromProcess::Hello { protocol, python } => Message::Hello { protocol, python },
        FromProcess::Ready { seconds, run } => Message::Ready { seconds, run },
        FromProcess::InitFailed { error, is_permanent } => Message::InitFailed { error, is_permanent },
        FromProcess::Skipped(seqs) => Message::Skipped(seqs),
        FromProcess::Notice(text) => Message::Notice(text),
        FromProcess::Bye(error) => Message::Bye(error),
        FromProcess::Outcomes(outcomes) => {
            let own = |outcome: wire::Outcome<'_>| OwnedOutcome {
                seq: outcome.seq,
                items: outcome.items,
                returned: outcome.returned,
                rows: if outcome.rows.is_empty() { Bytes::new() } else { frame.slice_ref(outcome.rows) },
                header: outcome.header.map(str::to_owned),
                files: outcome.files,
                started_us: outcome.started_us,
                elapsed_us: outcome.elapsed_us,
                cpu_us: outcome.cpu_us,
                run_us: outcome.run_us,
                error: outcome.error,
            };
            Message::Outcomes(outcomes.into_iter().map(own).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use prs_common::wire::encode_frame;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn frames_arrive_whole_however_they_are_cut() {
        let (agent, mut process) = UnixStream::pair().unwrap();
        let mut reader = FrameReader::new(agent.into_split().0);
        let mut bytes = Vec::new();
        encode_frame(&FromProcess::Ready { seconds: 1.5, run: None }, &mut bytes);
        encode_frame(&FromProcess::Notice("x".repeat(100_000)), &mut bytes);
        let writing = tokio::spawn(async move {
            for piece in bytes.chunks(777) {
                process.write_all(piece).await.unwrap();
            }
            process.write_all(&[9, 0, 0, 0, 1]).await.unwrap();
        });
        assert!(matches!(reader.next().await, Some(Message::Ready { seconds: 1.5, run: None })));
        assert!(matches!(reader.next().await, Some(Message::Notice(text)) if text.len() == 100_000));
        assert!(reader.next().await.is_none(), "the last frame is torn");
        writing.await.unwrap();
    }
}
