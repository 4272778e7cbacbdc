//! What a process says, read from its socket.

use bytes::Bytes;
use prs_common::wire::{Frame, Frames, FromProcess, ProtocolViolation};
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;

/// Reads frames from the socket of a process.
pub(crate) struct FrameReader {
    socket: OwnedReadHalf,
    frames: Frames,
}

impl FrameReader {
    pub(crate) fn new(socket: OwnedReadHalf) -> Self {
        Self { socket, frames: Frames::default() }
    }

    /// The next message, and the rows that it tells of; `None` at the end of the stream. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(FromProcess, Bytes)>, ProtocolViolation> {
        loop {
            if let Some(said) = self.read()? {
                return Ok(Some(said));
            }
            match self.socket.read_buf(self.frames.buffer()).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "the socket of a process failed");
                    return Ok(None);
                }
            }
        }
    }

    /// What is there already.
    fn read(&mut self) -> Result<Option<(FromProcess, Bytes)>, ProtocolViolation> {
        self.frames.next_frame()?.map(Frame::decode).transpose()
    }
}

#[cfg(test)]
mod tests {
    use prs_common::wire::encode;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn frames_arrive_whole_however_they_are_cut() {
        let (agent, mut process) = UnixStream::pair().unwrap();
        let mut reader = FrameReader::new(agent.into_split().0);
        let mut bytes = encode(&FromProcess::Ready { seconds: 1.5, run: None, concurrency: Some(16) }, []);
        bytes.extend(encode(&FromProcess::Notice("x".repeat(100_000)), []));
        let writing = tokio::spawn(async move {
            for piece in bytes.chunks(777) {
                process.write_all(piece).await.unwrap();
            }
            process.write_all(&[9, 0, 0, 0, 0, 0, 0, 0, 1]).await.unwrap();
        });
        let (ready, _) = reader.next().await.unwrap().unwrap();
        assert_eq!(ready, FromProcess::Ready { seconds: 1.5, run: None, concurrency: Some(16) });
        assert_eq!(reader.next().await.unwrap().unwrap().0, FromProcess::Notice("x".repeat(100_000)));
        assert!(reader.next().await.unwrap().is_none(), "the last frame is torn");
        writing.await.unwrap();
    }
}
