//! Where a broker is: `amqp://` and `amqps://` URLs, and how they are printed without their password.

use std::fmt;

use lapin::uri::{AMQPScheme, AMQPUri};

use super::super::{QueueError, QueueErrorKind};

/// Seconds between heartbeats unless the URL says otherwise (`?heartbeat=30`). A dead connection is noticed after
/// twice as long.
const HEARTBEAT: u16 = 10;

/// A parsed URL. Its `Display` leaves the password out.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) uri: AMQPUri,
    shown: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, QueueError> {
        let shown = without_password(url);
        let malformed = |why: &str| QueueError {
            kind: QueueErrorKind::Refused,
            name: shown.clone(),
            message: format!(
                "the URL is malformed, {why}; write amqp://USER:PASSWORD@HOST:5672/VHOST (amqps:// for TLS), with \
                 special characters percent-encoded: / is %2f, @ is %40"
            ),
        };
        let Some((scheme @ ("amqp" | "amqps"), rest)) = url.split_once("://") else {
            return Err(malformed("it must start with amqp:// or amqps://"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let host = host(authority);
        if host.is_empty() {
            return Err(malformed("it names no host"));
        }
        // The cause that the parser names could quote the password.
        let mut uri: AMQPUri =
            url.parse().map_err(|_| malformed("or its port or a parameter is no number"))?;
        // The parser takes only names: an IPv6 address would become localhost.
        if let Some(address) = host.strip_prefix('[') {
            address.trim_end_matches(']').clone_into(&mut uri.authority.host);
        }
        // A URL that ends in a slash would name the vhost "", which nobody has.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let shown = format!(
            "{scheme}://{}@{host}:{}/{}",
            uri.authority.userinfo.username,
            uri.authority.port,
            uri.vhost.replace('/', "%2f")
        );
        Ok(Self { uri, shown })
    }

    /// Whether the connection is encrypted.
    pub(super) fn is_tls(&self) -> bool {
        self.uri.scheme == AMQPScheme::AMQPS
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The host in `user:password@host:port`, with its brackets when it is an IPv6 address.
fn host(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.find(']') {
        Some(end) if host.starts_with('[') => &host[..=end],
        _ => host.split(':').next().unwrap_or(host),
    }
}

/// A URL nobody could parse, as far as it is surely no secret: up to the first colon of its user and password, and
/// what follows the last `@`.
fn without_password(url: &str) -> String {
    let Some((before, after)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme_end = before.find("://").map_or(0, |at| at + 3);
    let user = before[scheme_end..].split(':').next().unwrap_or_default();
    format!("{}{user}@{after}", &before[..scheme_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_all_that_is_needed() {
        for (url, user, host, port, vhost, shown) in [
            ("amqp://h", "guest", "h", 5672, "/", "amqp://guest@h:5672/%2f"),
            ("amqp://h/", "guest", "h", 5672, "/", "amqp://guest@h:5672/%2f"),
            ("amqps://u:p@h", "u", "h", 5671, "/", "amqps://u@h:5671/%2f"),
            ("amqp://u:p%40%2f@h:1/a%2fb?heartbeat=3", "u", "h", 1, "a/b", "amqp://u@h:1/a%2fb"),
            ("amqp://[::1]:7/v", "guest", "::1", 7, "v", "amqp://guest@[::1]:7/v"),
            ("amqp://127.0.0.1", "guest", "127.0.0.1", 5672, "/", "amqp://guest@127.0.0.1:5672/%2f"),
        ] {
            let address = Address::parse(url).unwrap();
            let authority = &address.uri.authority;
            assert_eq!((authority.host.as_str(), authority.port), (host, port), "{url}");
            assert_eq!(
                (authority.userinfo.username.as_str(), address.uri.vhost.as_str()),
                (user, vhost),
                "{url}"
            );
            assert_eq!(address.to_string(), shown);
        }
        assert_eq!(Address::parse("amqp://h?heartbeat=3").unwrap().uri.query.heartbeat, Some(3));
        assert_eq!(Address::parse("amqp://h").unwrap().uri.query.heartbeat, Some(HEARTBEAT));
    }

    #[test]
    fn malformed_urls_are_refused_without_their_password() {
        for url in [
            "",
            "rabbit",
            "amqp:u:secret@h",
            "http://u:secret@h",
            "amqp://",
            "amqp://u:secret@",
            "amqp://u:secret@:5672",
            "amqp://u:secret/with/slash@h",
            "amqp://u:secret@h:port",
            "amqp://u:secret@h:99999",
            "amqp://u:secret@h?heartbeat=soon",
            "u:secret@h",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind, QueueErrorKind::Refused, "{url}");
            assert!(error.to_string().contains("malformed"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
