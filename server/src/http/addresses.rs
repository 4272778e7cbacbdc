//! Where requests come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::Extensions;

/// The address that a request began at, where proxies that are believed say so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

/// The address that a request came from: that of who asked, also where it came through a proxy.
pub(crate) fn of(extensions: &Extensions) -> IpAddr {
    extensions.get::<Client>().map_or_else(|| peer(extensions), |Client(address)| *address)
}

/// The address at the other end of its connection.
pub(crate) fn peer(extensions: &Extensions) -> IpAddr {
    extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip().to_canonical())
}

/// What one client has at least: of IPv6 a network of 64 bits, whose addresses it picks itself.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}
