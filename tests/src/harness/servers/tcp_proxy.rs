//! A way to a server, or to whichever of several lives, as long as is said: it can be cut off, and it can be long.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::in_process;

/// What is read at a time, bytes.
const CHUNK: usize = 64 << 10;
/// Chunks that may be on their way in one direction: far more than any of these ways is long.
const ON_THE_WAY: usize = 1024;

/// A way to a server that can be cut off.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    cut: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

/// Where a way leads.
#[derive(Debug, Clone)]
struct Way {
    servers: Arc<[SocketAddr]>,
    /// Which one is tried first, so that connections are spread.
    turn: Arc<AtomicUsize>,
    /// What a byte takes, each way.
    delay: Duration,
    cut: watch::Receiver<bool>,
}

impl TcpProxy {
    /// Opens a way to `server` at a free port.
    pub fn start(server: SocketAddr) -> Self {
        Self::start_with(&[server], Duration::ZERO)
    }

    /// Opens a way to those of `servers` that take connections, in turn, as a load balancer does. Each byte takes `delay`
    /// in each direction, however many there are; a connection takes two, as its handshake would.
    pub fn start_with(servers: &[SocketAddr], delay: Duration) -> Self {
        let runtime = in_process::runtime();
        let listener = in_process::listen(&runtime, 0);
        let address = listener.local_addr().unwrap();
        let (cut, watched) = watch::channel(false);
        let way = Way { servers: servers.into(), turn: Arc::default(), delay, cut: watched };
        runtime.spawn(accept(listener, move |connection| relay(connection, way.clone())));
        Self { address, cut, runtime: Some(runtime) }
    }

    /// Where programs connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Swallows everything from now on, of connections that are there and of new ones, without closing any.
    pub fn cut_off(&self) {
        self.cut.send_replace(true);
    }

    /// Lets new connections through again. Those that lost bytes stay silent for good.
    pub fn restore(&self) {
        self.cut.send_replace(false);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves each connection in a task of its own.
pub(super) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        let _ = connection.set_nodelay(true);
        tokio::spawn(serve(connection));
    }
}

/// Carries what goes to a server and comes from it, until the way is cut off.
async fn relay(mut near: TcpStream, mut way: Way) {
    if *way.cut.borrow_and_update() {
        return swallow(&mut near).await;
    }
    sleep(way.delay * 2).await;
    let Some(mut far) = way.connect().await else { return };
    let _ = far.set_nodelay(true);
    {
        let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
        let both = async {
            tokio::try_join!(carry(near_read, far_write, way.delay), carry(far_read, near_write, way.delay))
        };
        tokio::select! {
            // First: not a byte passes after the cut.
            biased;
            _ = way.cut.wait_for(|cut| *cut) => {}
            _ = both => return,
        }
    }
    tokio::join!(swallow(&mut near), swallow(&mut far));
}

impl Way {
    async fn connect(&self) -> Option<TcpStream> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for next in 0..self.servers.len() {
            let server = self.servers[(first + next) % self.servers.len()];
            if let Ok(connection) = TcpStream::connect(server).await {
                return Some(connection);
            }
        }
        None
    }
}

/// Carries one direction to its end: what is read is written `delay` later, while more is read.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> std::io::Result<()> {
    let (chunks_tx, mut chunks_rx) = mpsc::channel::<(Instant, Bytes)>(ON_THE_WAY);
    let read = async move {
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK);
            // The end arrives as late as everything before it.
            let read = from.read_buf(&mut chunk).await?;
            if chunks_tx.send((Instant::now() + delay, chunk.freeze())).await.is_err() || read == 0 {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = chunks_rx.recv().await {
            sleep_until(due).await;
            if chunk.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&chunk).await?;
        }
        Ok(())
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// Reads until the other side closes.
async fn swallow(connection: &mut TcpStream) {
    let mut bytes = vec![0; 16 << 10];
    while connection.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::TcpProxy;
    use crate::harness::servers::free_port;

    /// Sends back what comes, to the end.
    fn echo() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let serving = listener.try_clone().unwrap();
        thread::spawn(move || {
            let (mut connection, _) = serving.accept().unwrap();
            let mut answer = connection.try_clone().unwrap();
            std::io::copy(&mut connection, &mut answer).unwrap();
            answer.shutdown(Shutdown::Write).unwrap();
        });
        listener
    }

    #[test]
    fn a_long_way_takes_its_time_and_carries_as_much_as_a_short_one() {
        let server = echo();
        let delay = Duration::from_millis(40);
        let proxy = TcpProxy::start_with(&[server.local_addr().unwrap()], delay);
        let mut near = TcpStream::connect(proxy.address()).unwrap();
        let begin = Instant::now();
        near.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        assert!(begin.elapsed() >= delay * 4, "{:?}", begin.elapsed());

        let sent: Vec<u8> = (0..8u32 << 20).map(|at| (at % 251) as u8).collect();
        let mut writing = near.try_clone().unwrap();
        let copy = sent.clone();
        let begin = Instant::now();
        let writer = thread::spawn(move || {
            writing.write_all(&copy).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        near.read_to_end(&mut came).unwrap();
        writer.join().unwrap();
        assert!(came == sent, "{} bytes of {}", came.len(), sent.len());
        // A pause for each of its 128 chunks would be ten seconds.
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn the_next_server_is_taken_for_one_that_is_away() {
        let away = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let server = echo();
        let proxy = TcpProxy::start_with(&[away, server.local_addr().unwrap()], Duration::ZERO);
        let mut near = TcpStream::connect(proxy.address()).unwrap();
        near.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
    }
}
