//! What servers inside the test's own process stand on: threads of their own, so that a test which blocks does
//! not stop them, and a port.

use std::net::Ipv4Addr;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Threads for one server. End it with `shutdown_background`, which may be called anywhere.
pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Listens at `port` of this host, or at a free one for 0.
pub(super) fn listen(runtime: &Runtime, port: u16) -> TcpListener {
    let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let _inside = runtime.enter();
    TcpListener::from_std(socket).unwrap()
}
