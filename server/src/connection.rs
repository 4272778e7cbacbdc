//! A connection that takes one of the places which a server has for them, and is given up when its client takes no byte for a while.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

/// A connection. Its place is free once it is dropped.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    /// Runs while the client takes nothing.
    late: Option<Pin<Box<Sleep>>>,
    /// How long a client may take no byte of what is sent to it.
    patience: Duration,
    _place: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, (place, patience): (OwnedSemaphorePermit, Duration)) -> Self {
        Self { stream, late: None, patience, _place: place }
    }

    /// What becomes of a write that came to `written`: an error where the client has taken nothing for too long.
    fn judge<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.late = None;
            return written;
        }
        let patience = self.patience;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(late.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_left_and_its_place_is_free() {
        let places = Arc::new(Semaphore::new(1));
        let (mut client, server) = tokio::io::duplex(16);
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let mut server = Connection::new(server, (place, Duration::from_millis(50)));
        server.write_all(b"as much as fits.").await.unwrap();
        let error = server.write_all(b"and more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(places.available_permits(), 0);
        let mut taken = [0; 16];
        client.read_exact(&mut taken).await.unwrap();
        server.write_all(b"goes on").await.unwrap();
        drop(server);
        assert_eq!(places.available_permits(), 1);
    }
}
