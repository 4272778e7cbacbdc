//! What servers inside the test's own process stand on: threads of their own, so that a test which blocks does
//! not stop them, and a port.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Threads for one server. End it with `shutdown_background`, which may be called anywhere.
pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// How long a former listener of a port may still be open: in a runtime that ends, or in a program that was started
/// beside it and has not reached its `exec`.
const FORMER_LISTENER: Duration = Duration::from_secs(5);

/// Listens at `port` of this host, or at a free one for 0.
pub(super) fn listen(runtime: &Runtime, port: u16) -> TcpListener {
    let begin = Instant::now();
    let socket = loop {
        match std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < FORMER_LISTENER => {
                thread::sleep(Duration::from_millis(10));
            }
            bound => break bound.unwrap_or_else(|error| panic!("cannot listen at port {port}: {error}")),
        }
    };
    socket.set_nonblocking(true).unwrap();
    let _inside = runtime.enter();
    TcpListener::from_std(socket).unwrap()
}
