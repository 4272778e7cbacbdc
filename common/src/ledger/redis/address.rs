//! Where the server is and who we are there, taken apart from the URL, so that the password goes nowhere but
//! to the server.

use std::fmt;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
};

use super::failure::RedisFailure;

/// After this time without an acknowledgement from the other host a connection is lost.
const SILENCE: Duration = Duration::from_secs(15);

/// A server, and the user and the database there.
pub(super) struct Address {
    /// Opens connections that are not logged in yet.
    pub(super) client: Client,
    /// Opens connections that are logged in, to listen.
    pub(super) listener: Client,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    /// The URL without its password.
    name: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, RedisFailure> {
        // The URL may hold a password, at a place nobody can tell when it cannot be read: it is not repeated.
        let malformed = |why: &dyn fmt::Display| {
            RedisFailure::malformed(format!(
                "the URL of the ledger cannot be read ({why}): write \
                 redis://[user:password@]host[:port][/database], rediss://... for TLS, or unix:///path"
            ))
        };
        let info = redis::parse_redis_url(url).ok_or_else(|| malformed(&"it is no Redis URL"))?;
        let info = info.into_connection_info().map_err(|error| malformed(&error))?;
        let settings = info.redis_settings();
        let (user, password) =
            (settings.username().map(str::to_owned), settings.password().map(str::to_owned));
        let database = settings.db();
        let name = name(info.addr(), user.as_deref(), database);
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            // Where another part of the program has chosen a provider, that one is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let tcp = TcpSettings::default().set_nodelay(true).set_user_timeout(SILENCE);
        let plain =
            || RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
        let mut logged_in = plain();
        if let Some(user) = &user {
            logged_in = logged_in.set_username(user);
        }
        if let Some(password) = &password {
            logged_in = logged_in.set_password(password);
        }
        let open = |settings| {
            let info: ConnectionInfo =
                info.clone().set_redis_settings(settings).set_tcp_settings(tcp.clone());
            Client::open(info).map_err(|error| malformed(&error))
        };
        Ok(Self { client: open(plain())?, listener: open(logged_in)?, user, password, database, name })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.name).finish()
    }
}

fn name(address: &ConnectionAddr, user: Option<&str>, database: i64) -> String {
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let host = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    match address {
        ConnectionAddr::Tcp(name, port) => format!("redis://{user}{}:{port}/{database}", host(name)),
        ConnectionAddr::TcpTls { host: name, port, .. } => {
            format!("rediss://{user}{}:{port}/{database}", host(name))
        }
        other => format!("unix://{user}{other}/{database}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::LedgerErrorKind;

    #[test]
    fn a_name_holds_no_password() {
        for (url, name) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("redis://:hush@localhost:7000", "redis://localhost:7000/0"),
            ("redis://ana:hush@[::1]:7000/3", "redis://ana@[::1]:7000/3"),
            ("rediss://ana:hush@host", "rediss://ana@host:6379/0"),
            ("unix:///run/redis.sock?user=ana&pass=hush&db=2", "unix://ana@/run/redis.sock/2"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), name);
            assert!(!format!("{address:?}").contains("hush"));
            assert_eq!(address.password.is_some(), url.contains("hush"));
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_repeated() {
        for url in
            ["", "ana:hush@host", "http://ana:hush@host", "redis://ana:hush@host/x", "redis://ana:hush@:1:2"]
        {
            let failure = Address::parse(url).unwrap_err();
            assert_eq!(failure.kind, LedgerErrorKind::Refused);
            assert!(!failure.message.contains("hush"), "{}", failure.message);
        }
    }
}
