//! Ports that nobody uses.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::TcpSocket;

/// Below what systems give to outgoing connections: a client that tries a port again and again until its server is
/// back could otherwise be given that very port and take it away from the server.
const FIRST: u16 = 12_000;
const LAST: u16 = 31_999;

/// A port on which nobody listens at this moment; never the same one twice in a process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = LAST - FIRST + 1;
    // Processes that run side by side begin at different places.
    let begin = (std::process::id().wrapping_mul(797) % u32::from(count)) as u16;
    for _ in 0..count {
        let at = (u32::from(begin) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(count);
        let port = FIRST + at as u16;
        if nobody_listens(port) {
            return port;
        }
    }
    panic!("no port between {FIRST} and {LAST} is free");
}

/// The socket that asks never listens: a program that another thread starts at this moment inherits it until its
/// `exec`, and a listening one would keep the port from the server that is about to take it.
fn nobody_listens(port: u16) -> bool {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, port).into()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::deadline::wait_for;

    #[test]
    fn a_port_is_taken_while_a_server_listens_and_free_while_somebody_asks() {
        let port = free_port();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!nobody_listens(port));
        drop(server);
        // A program that another test starts at this moment has it until its `exec`.
        wait_for("the port is free", Duration::from_mins(1), || nobody_listens(port).then_some(()));

        let asking = TcpSocket::new_v4().unwrap();
        asking.set_reuseaddr(true).unwrap();
        asking.bind((Ipv4Addr::LOCALHOST, port).into()).unwrap();
        assert!(nobody_listens(port));
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
