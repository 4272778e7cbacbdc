//! The byte stream under a connection: what lapin runs on, with two things it cannot do.
//!
//! It can be *severed* from outside, so that a connection attempt that was given up leaves no thread waiting for a
//! silent peer. And it reads along in the server's first frame for the broker's version, which lapin keeps to
//! itself.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::Stream;
use futures_util::io::{AsyncRead, AsyncWrite};
use futures_util::task::AtomicWaker;
use lapin::AsyncTcpStream;

/// The most that is read along; the first frame of a broker is shorter.
const GREETING: usize = 8 << 10;

/// What tokio connects.
pub(super) type Plain = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// A stream, encrypted or not, that can be severed.
pub(super) struct Socket {
    stream: Plain,
    watch: Arc<Watch>,
    greeting: Vec<u8>,
}

/// What is known of a socket outside of lapin.
#[derive(Debug, Default)]
pub(super) struct Watch {
    severed: AtomicBool,
    reader: AtomicWaker,
    version: OnceLock<Option<(u32, u32)>>,
}

impl Watch {
    /// Ends the stream: whoever reads or writes it gets an error.
    pub(super) fn sever(&self) {
        self.severed.store(true, Ordering::Release);
        self.reader.wake();
    }

    /// Major and minor version of the broker, if it told.
    pub(super) fn version(&self) -> Option<(u32, u32)> {
        self.version.get().copied().flatten()
    }

    fn check(&self) -> io::Result<()> {
        if self.severed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Socket {
    pub(super) fn new(stream: Plain, watch: Arc<Watch>) -> Self {
        Self { stream, watch, greeting: Vec::new() }
    }

    fn read_along(&mut self, read: &[u8]) {
        if self.watch.version.get().is_none() {
            self.greeting.extend_from_slice(read);
            let version = version_in(&self.greeting);
            if version.is_some() || self.greeting.len() > GREETING {
                self.greeting = Vec::new();
                // Another value cannot be there: only this socket sets it.
                let _ = self.watch.version.set(version);
            }
        }
    }
}

/// The entry `version` in the table of server properties, as AMQP writes it: short string, `S`, length, text.
fn version_in(greeting: &[u8]) -> Option<(u32, u32)> {
    const KEY: &[u8] = b"\x07versionS";
    let at = greeting.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let (length, text) = greeting.get(at..)?.split_first_chunk::<4>()?;
    let text = str::from_utf8(text.get(..u32::from_be_bytes(*length) as usize)?).ok()?;
    let mut parts = text.split(['.', '-', '+']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.watch.reader.register(cx.waker());
        this.watch.check()?;
        let read = std::task::ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.read_along(&buffer[..read]);
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.watch.check()?;
        Pin::new(&mut this.stream).poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.watch.check()?;
        Pin::new(&mut this.stream).poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_close(cx)
    }
}

/// Tokio with [`Socket`]s for its streams.
#[derive(Debug, Clone)]
pub(super) struct Sockets(Tokio);

impl Sockets {
    pub(super) fn runtime() -> Runtime<RuntimeParts<Tokio, Self>> {
        Runtime::new(RuntimeParts::new(Tokio::current(), Self(Tokio::current())))
    }
}

impl Reactor for Sockets {
    type TcpStream = Socket;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H>(&self, socket: H) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>
    where
        H: io::Read + io::Write + AsFd + AsRawFd + Send + 'static,
    {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(Socket::new(AsyncTcpStream::Plain(connecting.await?), Arc::default())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_in_the_greeting() {
        for (greeting, version) in [
            (&b"\x07productS\0\0\0\x08RabbitMQ\x07versionS\0\0\0\x063.10.8\x01x"[..], Some((3, 10))),
            (b"\x07versionS\0\0\0\x0a4.0.0-rc.1", Some((4, 0))),
            (b"\x07versionS\0\0\0\x044.10", Some((4, 10))),
            (b"\x07versionS\0\0\0\x063.1", None),
            (b"\x07versionS\0\0", None),
            (b"\x07versionS\xff\xff\xff\xff3.10", None),
            (b"\x07versionS\0\0\0\x04next", None),
            (b"\x07productS\0\0\0\x08RabbitMQ", None),
            (b"", None),
        ] {
            assert_eq!(version_in(greeting), version, "{greeting:?}");
        }
    }
}
