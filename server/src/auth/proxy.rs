//! Proxies before the server: whose requests come through one, and as whom the proxy knows them.
//!
//! What a proxy says in headers is believed of addresses that were named alone. From everywhere else these headers are taken off
//! the request, so that no client says itself who it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;
use axum::http::header::HeaderName;
use ipnet::{IpNet, Ipv4Net};
use prs_jobs::tokens::Role;

use super::role::{How, Principal};
use super::role_map::RoleMap;
use crate::problem::{Kind, Problem};

/// The user whom a proxy knows.
const USER: HeaderName = HeaderName::from_static("x-forwarded-user");
/// The groups of that user, with commas between them.
const GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");
/// The addresses that a request came by, the nearest last.
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Characters of the name of a user.
const LONGEST: usize = 256;
/// What the ids of users of a proxy begin with: no token has one like it.
const OF_PROXY: &str = "proxy:";

/// A network of proxies: addresses that begin alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Network {
    type Err = String;

    /// `10.1.0.0/16`, `fd00::/8`, or one address.
    fn from_str(text: &str) -> Result<Self, String> {
        let one = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
        let network = text.parse::<IpNet>().ok().or_else(one);
        let network =
            network.ok_or_else(|| format!("{text:?} is no network such as 10.1.0.0/16, and no address"))?;
        let network = of_ipv4(network).unwrap_or(network).trunc();
        if network.prefix_len() == 0 {
            return Err(format!("{text} is every address there is: every client could say itself who it is"));
        }
        Ok(Self(network))
    }
}

/// A network of IPv4 addresses that is written as one of IPv6.
fn of_ipv4(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(network) = network else { return None };
    let prefix = network.prefix_len().checked_sub(96)?;
    let address: Ipv4Addr = network.addr().to_ipv4_mapped()?;
    Ipv4Net::new(address, prefix).ok().map(IpNet::V4)
}

/// The proxies that are believed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxies {
    trusted: Vec<Network>,
    /// The roles of their users; nothing where a proxy does not say who asks.
    roles: Option<RoleMap>,
}

/// A user whom a proxy knows, and who may do nothing here.
#[derive(Debug, Clone)]
pub(crate) struct WithoutRole(pub(crate) String);

/// Who asks, as a proxy says.
#[derive(Debug)]
pub(crate) enum Forwarded {
    /// It says nothing, or is not believed.
    Nobody,
    /// A user with a role.
    Known(Principal),
    /// A user without one.
    Other(WithoutRole),
}

impl Proxies {
    /// Proxies at these addresses, whose users have these roles where the proxy says who asks.
    pub(crate) fn new(trusted: Vec<Network>, roles: Option<RoleMap>) -> Self {
        Self { trusted, roles }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|Network(network)| network.contains(&address.to_canonical()))
    }

    /// The address that a request began at which came from `peer`: the nearest that is no proxy's.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut nearest = peer.to_canonical();
        if !self.trusts(nearest) {
            return nearest;
        }
        let values: Vec<&str> = headers.get_all(FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        for hop in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            // What is behind something that is no address may be invented.
            let Some(address) = address(hop.trim()) else { break };
            nearest = address;
            if !self.trusts(nearest) {
                break;
            }
        }
        nearest
    }

    /// Who asks in a request that came from `peer`; the headers that say so are gone afterwards.
    pub(crate) fn take(&self, peer: IpAddr, headers: &mut HeaderMap) -> Result<Forwarded, Problem> {
        let said = [USER, GROUPS].map(|name| {
            let values: Vec<String> = headers
                .get_all(&name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
                .collect();
            headers.remove(&name);
            values
        });
        let Some(roles) = self.roles.as_ref().filter(|_| self.trusts(peer)) else {
            return Ok(Forwarded::Nobody);
        };
        // A proxy that adds its own to what a client sent would let clients say who they are.
        if said.iter().any(|values| values.len() > 1) {
            return Err(Problem::new(
                Kind::BAD_REQUEST,
                "X-Forwarded-User or X-Forwarded-Groups comes several times: the proxy before the server has to replace what clients send.",
            ));
        }
        let [user, groups] = said.map(|mut values| values.pop().unwrap_or_default());
        if user.is_empty() {
            return Ok(Forwarded::Nobody);
        }
        if user.chars().count() > LONGEST
            || user.contains(|letter: char| letter.is_control() || letter == '\u{fffd}')
        {
            return Err(Problem::new(
                Kind::BAD_REQUEST,
                format_args!("X-Forwarded-User takes a name of {LONGEST} letters at most, as UTF-8."),
            ));
        }
        let groups: Vec<String> = groups
            .split(',')
            .map(|group| group.trim().to_owned())
            .filter(|group| !group.is_empty())
            .collect();
        Ok(match roles.role_of(&groups) {
            Some(role) => Forwarded::Known(principal(user, role)),
            None => Forwarded::Other(WithoutRole(user)),
        })
    }
}

fn principal(name: String, role: Role) -> Principal {
    let endpoints = if role == Role::Invoke { vec!["*".to_owned()] } else { Vec::new() };
    let subject = Some(format!("{OF_PROXY}{name}"));
    Principal { name, role, endpoints, expires_us: None, how: How::Proxy, token_id: None, subject }
}

/// `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::7` or `[2001:db8::7]:4711`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let found = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    found
        .map(|address: IpAddr| address.to_canonical())
        .filter(|address| *address != IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_network_is_some_addresses_and_never_all() {
        let proxies =
            Proxies::new(networks(&["10.1.0.0/16", "192.0.2.7", "fd00::/8", "::ffff:172.16.0.0/108"]), None);
        for (address, expected) in [
            ("10.1.2.3", true),
            ("10.2.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("fd12::1", true),
            ("fe80::1", false),
            // The same addresses on a socket for both kinds.
            ("::ffff:10.1.2.3", true),
            ("::ffff:10.2.0.1", false),
            ("172.17.0.1", true),
            ("172.32.0.1", false),
        ] {
            assert_eq!(proxies.trusts(at(address)), expected, "{address}");
        }
        for wrong in ["", "10.0.0.0/33", "0.0.0.0/0", "::/0", "10.0.0", "::ffff:0.0.0.0/96", "example.org"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_address_is_the_nearest_that_is_no_proxys() {
        let proxies = Proxies::new(networks(&["10.0.0.0/8", "fd00::/8"]), None);
        for (peer, chain, expected) in [
            ("192.0.2.1", &["203.0.113.9"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            // What a client sends itself stands before what the proxy adds.
            ("10.0.0.1", &["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["10.0.0.3,10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("fd00::1", &["[2001:db8::7]:80"], "2001:db8::7"),
            ("fd00::1", &["2001:db8::7"], "2001:db8::7"),
            ("::ffff:10.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
        ] {
            let given: Vec<(&'static str, &str)> =
                chain.iter().map(|text| ("x-forwarded-for", *text)).collect();
            assert_eq!(proxies.client(at(peer), &headers(&given)), at(expected), "{peer} {chain:?}");
        }
    }

    #[test]
    fn a_proxy_is_believed_and_nobody_else() {
        let roles: RoleMap = "admin=prs-admins,submit=ml-*".parse().unwrap();
        let proxies = Proxies::new(networks(&["10.0.0.0/8"]), Some(roles));
        let ask = |peer: &str, given: &[(&'static str, &str)]| {
            let mut headers = headers(given);
            let taken = proxies.take(at(peer), &mut headers);
            assert!(!headers.contains_key(USER) && !headers.contains_key(GROUPS), "they are gone");
            taken
        };
        let ana = ("x-forwarded-user", "ana");
        let Forwarded::Known(who) =
            ask("10.0.0.1", &[ana, ("x-forwarded-groups", "all, ml-vision")]).unwrap()
        else {
            panic!("she is known")
        };
        assert_eq!((&*who.name, who.role, who.how, who.id()), ("ana", Role::Submit, How::Proxy, "proxy:ana"));
        let Forwarded::Known(who) =
            ask("::ffff:10.0.0.1", &[ana, ("x-forwarded-groups", "ml-a,prs-admins")]).unwrap()
        else {
            panic!("she is known")
        };
        assert_eq!(who.role, Role::Admin);
        for groups in ["", "all", "ml", "prs-admins-not"] {
            let taken = ask("10.0.0.1", &[ana, ("x-forwarded-groups", groups)]).unwrap();
            assert!(matches!(taken, Forwarded::Other(WithoutRole(name)) if name == "ana"), "{groups}");
        }
        let admin = ("x-forwarded-groups", "prs-admins");
        for (peer, given) in [
            ("192.0.2.1", &[ana, admin][..]),
            ("::ffff:192.0.2.1", &[ana, admin]),
            ("10.0.0.1", &[admin]),
            ("10.0.0.1", &[("x-forwarded-user", " "), admin]),
        ] {
            assert!(matches!(ask(peer, given), Ok(Forwarded::Nobody)), "{peer} {given:?}");
        }
        for twice in
            [&[ana, ("x-forwarded-user", "root"), admin][..], &[ana, admin, ("x-forwarded-groups", "all")]]
        {
            assert_eq!(ask("10.0.0.1", twice).unwrap_err().kind, Kind::BAD_REQUEST);
        }
        assert!(ask("10.0.0.1", &[("x-forwarded-user", &"a".repeat(257)), admin]).is_err());
        // A proxy that has TLS and nothing else says nothing of users.
        let plain = Proxies::new(networks(&["10.0.0.0/8"]), None);
        let mut both = headers(&[ana, admin]);
        assert!(matches!(plain.take(at("10.0.0.1"), &mut both), Ok(Forwarded::Nobody)));
        assert!(both.is_empty());
    }
}
