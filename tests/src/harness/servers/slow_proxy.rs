//! A long way to a server, as between data centres.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::in_process;
use super::proxy::accept;

/// A long way to a server: each byte arrives later, however many there are. A new connection takes there and back once.
#[derive(Debug)]
pub struct SlowProxy {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl SlowProxy {
    /// Opens a way to `server` at a free port, on which everything takes `delay` in each direction.
    pub fn start(server: SocketAddr, delay: Duration) -> Self {
        let runtime = in_process::runtime();
        let listener = in_process::listen(&runtime, 0);
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept(listener, move |connection| carry(connection, server, delay)));
        Self { address, runtime: Some(runtime) }
    }

    /// Where programs connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// How many pieces are under way in one direction: at 64 KiB each, 2 GB/s at 15 ms.
const UNDER_WAY: usize = 512;

async fn carry(near: TcpStream, server: SocketAddr, delay: Duration) {
    sleep(2 * delay).await;
    let Ok(far) = TcpStream::connect(server).await else { return };
    let _ = far.set_nodelay(true);
    let ((near_reads, near_writes), (far_reads, far_writes)) = (near.into_split(), far.into_split());
    tokio::join!(carry_later(near_reads, far_writes, delay), carry_later(far_reads, near_writes, delay));
}

/// Carries what is read, and the end of it, to the other side.
async fn carry_later(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (pieces_tx, mut pieces_rx) = mpsc::channel::<(Instant, Bytes)>(UNDER_WAY);
    let read = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let piece = Bytes::copy_from_slice(&buffer[..count]);
            if pieces_tx.send((Instant::now() + delay, piece)).await.is_err() {
                return;
            }
        }
        // The end takes as long as everything else.
        let _ = pieces_tx.send((Instant::now() + delay, Bytes::new())).await;
    };
    let write = async move {
        while let Some((at, piece)) = pieces_rx.recv().await {
            sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
