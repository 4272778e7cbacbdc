//! Ports that nobody uses.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

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
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port between {FIRST} and {LAST} is free");
}
