//! Which addresses belong to the Internet, and which to a private network.
//!
//! A server reads URLs for others. It stands in a network with much that asks nobody who they are: its own host, other hosts, and
//! the metadata services of clouds, which give out credentials. So what is not public is refused, and not what is known to be bad.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of IPv4 that are not of the Internet, with the bits of each (IANA's registry of special purposes). The last one is no
/// network: Azure's hosts answer there to what runs on them.
const NOT_PUBLIC: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    ([168, 63, 129, 16], 32),
];

/// Whether `address` is one of the Internet: not of this host, of a private network, of a group of hosts, or of a
/// metadata service. An address of IPv6 that stands for one of IPv4 is what that is.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !NOT_PUBLIC.iter().any(|(network, length)| {
        let shift = 32 - u32::from(*length);
        bits >> shift == Ipv4Addr::from(*network).to_bits() >> shift
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match parts {
        // Mapped (RFC 4291), and translated by the network (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(embedded(high, low))
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Teredo, benchmarks and other protocols (2001::/23), examples.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Of all others these alone are given out.
        [first, ..] => first >> 13 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_internet_is_told() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("172.15.255.255", true),
            ("172.32.0.1", true),
            ("100.63.0.1", true),
            ("168.63.129.17", true),
            ("2606:4700::1111", true),
            ("2a00:1450::1", true),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::808:808", true),
            ("2002:808:808::1", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.100.100.200", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("169.254.169.254", false),
            ("168.63.129.16", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.192", false),
            ("192.168.1.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:10.0.0.1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b:1::1", false),
            ("2002:7f00:1::1", false),
            ("2001:0:1::1", false),
            ("2001:db8::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
