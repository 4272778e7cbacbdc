//! What an error of the server or of the way to it means: whether to try again, and what a person can do
//! about it.
//!
//! Pure: errors of the client library go in, a kind and words come out. No message holds a password; the
//! words of the server do not either.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use crate::ledger::LedgerErrorKind;

/// A call that failed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedisFailure {
    pub(super) kind: LedgerErrorKind,
    pub(super) message: String,
    /// Nothing may be sent over this connection any more.
    pub(super) connection_is_lost: bool,
    /// Whether the server refuses who asks, and not what is asked.
    pub(super) refuses: Option<Refuses>,
    /// Whether keys are gone, or hold what no script leaves behind: a script raised, or its answer has no meaning.
    pub(super) raised: bool,
}

/// What a server refuses to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refuses {
    /// The log-in, and so everything.
    LogIn,
    /// This call: a right is missing, or the server does not say more.
    Call,
}

const NO_ANSWER: &str = "no answer in time: is it up, does a firewall let us through, and is the URL rediss:// \
                         exactly when it speaks TLS?";

/// What the server's codes mean. They alone decide; every other code, as the plain `ERR`, is a refusal.
const CODES: &[(&str, LedgerErrorKind, &str)] = {
    use LedgerErrorKind::{Refused, Unavailable};
    &[
        ("WRONGPASS", Refused, "user or password is wrong: correct the URL"),
        ("NOAUTH", Refused, "it wants a password: write redis://user:password@host:port"),
        (
            "NOPERM",
            Refused,
            "the user lacks a right: it needs eval, evalsha and the commands of the ledger's scripts on prs:*",
        ),
        ("MOVED", Refused, "it is a node of a cluster and does not hold this job: give a server of its own"),
        ("LOADING", Unavailable, "it is loading its data"),
        ("BUSY", Unavailable, "it is busy with a script that takes long"),
        ("READONLY", Unavailable, "it is a replica that takes no writes: give the URL of the primary"),
        ("MASTERDOWN", Unavailable, "it is a replica that has lost its primary"),
        ("NOREPLICAS", Unavailable, "it takes no writes while too few replicas follow it"),
        ("CLUSTERDOWN", Unavailable, "its cluster is down"),
        ("TRYAGAIN", Unavailable, "its cluster is moving keys"),
        ("OOM", Unavailable, "its memory is full: raise maxmemory, or remove old jobs"),
        ("MISCONF", Unavailable, "it takes no writes because it cannot save its data: look at its disk"),
    ]
};

/// The code that says nothing but that it is an error.
const PLAIN: &str = "ERR";
/// Name of a script in the words of an error that it raised.
const IN_A_SCRIPT: &str = "user_script:";
/// How the remedies begin of what a user may not do.
const LACKS_A_RIGHT: &str = "the user lacks a right";
/// What can be done about plain errors, by a part of their words: before 7.2 servers give a right that a script lacks no code.
const REMEDIES: &[(&str, &str)] = &[
    (
        "without any password configured",
        "a password was given and the server has none: leave it out of the URL",
    ),
    (
        "can't run this command",
        "the user lacks a right: it needs the commands of the ledger's scripts on keys prs:*",
    ),
    ("can't access at least one of the keys", "the user lacks a right: it needs the keys prs:*"),
    ("ACL failure in script", "the user lacks a right that the scripts need on keys prs:*"),
    ("DB index is out of range", "it has no database of this number: correct the end of the URL"),
    ("invalid DB index", "it has no database of this number: correct the end of the URL"),
    ("SELECT is not allowed in cluster mode", "it is a cluster, which has database 0 only"),
    ("max number of clients", "it has as many clients as it allows: raise maxclients"),
];

impl RedisFailure {
    fn new(kind: LedgerErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), connection_is_lost: false, refuses: None, raised: false }
    }

    /// An argument of a call is malformed.
    pub(super) fn malformed(message: String) -> Self {
        Self::new(LedgerErrorKind::Refused, message)
    }

    /// There was no connection in time.
    pub(super) fn no_connection() -> Self {
        Self::new(LedgerErrorKind::Unavailable, NO_ANSWER)
    }

    /// The server answers what no script of ours answers.
    pub(super) fn strange(what: impl std::fmt::Display) -> Self {
        let message =
            format!("its answer makes no sense: {what}; is it a Redis, and are all programs of one version?");
        Self::new(LedgerErrorKind::Refused, message)
    }

    pub(super) fn is_retryable(&self) -> bool {
        self.kind == LedgerErrorKind::Unavailable
    }

    /// What `error` means.
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io => Self::of_the_way(error),
            ErrorKind::Parse => {
                // What cannot be decoded has words, and came over a connection that is good.
                let detail = error.detail();
                let strange = Self::strange(detail.unwrap_or("not the protocol of Redis"));
                Self { connection_is_lost: detail.is_none(), raised: detail.is_some(), ..strange }
            }
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Self::of_answer(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
            }
            _ => Self::strange(error),
        }
    }

    /// What it means when it comes in answer to a log-in like one that the server has accepted before: a plain refusal
    /// is then of the server's condition, such as too many clients.
    pub(super) fn of_another_log_in(error: &RedisError) -> Self {
        let failure = Self::of(error);
        match error.code() {
            Some(PLAIN) => Self { kind: LedgerErrorKind::Unavailable, ..failure },
            _ => failure,
        }
    }

    fn of_answer(code: &str, words: &str) -> Self {
        // Redis 6 says of an error in a script no more than that, and puts its code in the middle.
        let inner = || words.split(' ').find_map(|word| known(word.strip_prefix('-')?));
        let known = known(code).or_else(|| inner().filter(|_| code == PLAIN));
        let words = format!("{code} {words}");
        let words = words.trim();
        let remedy = || REMEDIES.iter().find(|(part, _)| words.contains(part)).map(|(_, remedy)| *remedy);
        let (code, kind, meaning) = match known {
            Some((code, kind, meaning)) => (*code, *kind, Some(*meaning)),
            None => (code, LedgerErrorKind::Refused, remedy()),
        };
        let raised = meaning.is_none() && words.contains(IN_A_SCRIPT);
        let message = meaning.map_or_else(|| words.to_owned(), |meaning| format!("{meaning} ({words})"));
        let refuses = match code {
            "NOAUTH" | "WRONGPASS" => Some(Refuses::LogIn),
            // Before 7.2 servers say no more than that of a right that a script lacks.
            "NOPERM" => Some(Refuses::Call),
            PLAIN if meaning.is_some_and(|meaning| meaning.starts_with(LACKS_A_RIGHT)) => Some(Refuses::Call),
            _ => None,
        };
        // Who is refused has to log in again. The name may stand for another server by now.
        let connection_is_lost =
            refuses == Some(Refuses::LogIn) || ["READONLY", "MASTERDOWN"].contains(&code);
        Self { kind, message, connection_is_lost, refuses, raised }
    }

    fn of_the_way(error: &RedisError) -> Self {
        let (kind, message) = match io_error(error) {
            Some(error) => of_io(error),
            // Not of the network: the roots of trust cannot be read, the name cannot stand in a certificate.
            None => (LedgerErrorKind::Refused, format!("TLS cannot be set up: {error}")),
        };
        Self { connection_is_lost: true, ..Self::new(kind, message) }
    }
}

/// What `code` means.
fn known(code: &str) -> Option<&'static (&'static str, LedgerErrorKind, &'static str)> {
    CODES.iter().find(|(known, ..)| *known == code)
}

fn io_error(error: &RedisError) -> Option<&io::Error> {
    error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?.downcast_ref()
}

fn of_io(error: &io::Error) -> (LedgerErrorKind, String) {
    use LedgerErrorKind::{Refused, Unavailable};
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return (Refused, format!("TLS failed: {tls}; {}", tls_remedy(tls)));
    }
    let message = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there (connection refused): is the server running, and is the port right?"
                .to_owned()
        }
        io::ErrorKind::TimedOut => NO_ANSWER.to_owned(),
        io::ErrorKind::NotFound => format!("there is no such socket ({error})"),
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::UnexpectedEof => {
            format!("the connection was closed ({error}); a port for TLS needs rediss://")
        }
        _ if error.to_string().contains("lookup address") => {
            format!("the name of the host is not known ({error}): correct the URL or the DNS")
        }
        _ => error.to_string(),
    };
    (Unavailable, message)
}

fn tls_remedy(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => {
            "install the certificate of its authority, or name its file in SSL_CERT_FILE"
        }
        rustls::Error::InvalidCertificate(_) => {
            "the server needs a valid certificate for the name in the URL"
        }
        rustls::Error::InvalidMessage(_) => "does this port speak TLS? otherwise write redis://",
        _ => "look at the TLS settings of the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_meaning() {
        use LedgerErrorKind::{Refused, Unavailable};
        for (code, words, kind, part) in [
            (
                "WRONGPASS",
                "invalid username-password pair or user is disabled.",
                Refused,
                "password is wrong",
            ),
            ("NOAUTH", "Authentication required.", Refused, "wants a password"),
            ("NOPERM", "User a has no permissions to run the 'evalsha' command", Refused, "lacks a right"),
            (
                "ERR",
                "The user executing the script can't run this command or subcommand script: 1, on @user_script:2.",
                Refused,
                "lacks a right",
            ),
            ("ERR", "DB index is out of range", Refused, "no database"),
            ("ERR", "something else", Refused, "something else"),
            ("ERR", "the key is called OOM or LOADING", Refused, "is called"),
            ("SOMETHING", "new -OOM", Refused, "SOMETHING new"),
            ("LOADING", "Redis is loading the dataset in memory", Unavailable, "loading"),
            ("BUSY", "Redis is busy running a script.", Unavailable, "busy"),
            ("READONLY", "You can't write against a read only replica.", Unavailable, "primary"),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", Unavailable, "maxmemory"),
            (
                "ERR",
                "Error running script (call to f_5f): @user_script:9: @user_script: 9: -OOM command not allowed when \
                 used memory > 'maxmemory'.",
                Unavailable,
                "raise maxmemory",
            ),
        ] {
            let failure = RedisFailure::of_answer(code, words);
            assert_eq!(failure.kind, kind, "{words}");
            assert!(failure.message.contains(part), "{}", failure.message);
            assert_eq!(failure.connection_is_lost, ["READONLY", "NOAUTH", "WRONGPASS"].contains(&code));
            let refuses = match code {
                "NOAUTH" | "WRONGPASS" => Some(Refuses::LogIn),
                "NOPERM" => Some(Refuses::Call),
                "ERR" if kind == Refused && part == "lacks a right" => Some(Refuses::Call),
                _ => None,
            };
            assert_eq!(failure.refuses, refuses, "{code} {words}");
        }
    }

    #[test]
    fn an_error_that_a_script_raised_is_told_from_one_of_the_server() {
        let table = [
            // Redis 7, and 6.
            ("ERR", "user_script:10: bad argument #1 to 'unpack' script: 5f, on @user_script:10.", true),
            (
                "WRONGTYPE",
                "Operation against a key holding the wrong kind of value script: 5f, on @user_script:9.",
                true,
            ),
            (
                "ERR",
                "Error running script (call to f_5f): @user_script:10: user_script:10: bad argument #1",
                true,
            ),
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:9.",
                false,
            ),
            ("ERR", "ACL failure in script: User a has no permissions script: 5f, on @user_script:9.", false),
            ("ERR", "max number of clients reached", false),
        ];
        for (code, words, raised) in table {
            assert_eq!(RedisFailure::of_answer(code, words).raised, raised, "{words}");
        }
    }

    #[test]
    fn a_plain_refusal_of_a_log_in_that_was_good_before_may_pass() {
        let answer = |line: &str| match redis::parse_redis_value(line.as_bytes()) {
            Ok(value) => value.extract_error().unwrap_err(),
            Err(error) => error,
        };
        let clients = answer("-ERR max number of clients reached\r\n");
        assert!(!RedisFailure::of(&clients).is_retryable());
        let again = RedisFailure::of_another_log_in(&clients);
        assert!(again.is_retryable() && again.message.contains("raise maxclients"), "{again:?}");
        assert!(!RedisFailure::of_another_log_in(&answer("-WRONGPASS no\r\n")).is_retryable());
    }

    #[test]
    fn a_lost_connection_is_worth_another_try() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::BrokenPipe, io::ErrorKind::TimedOut] {
            let failure = RedisFailure::of(&RedisError::from(io::Error::from(kind)));
            assert!(failure.is_retryable() && failure.connection_is_lost, "{failure:?}");
        }
    }

    #[test]
    fn a_certificate_nobody_trusts_is_not() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let failure = RedisFailure::of(&RedisError::from(io::Error::new(io::ErrorKind::InvalidData, tls)));
        assert_eq!(failure.kind, LedgerErrorKind::Refused);
        assert!(failure.message.contains("SSL_CERT_FILE"), "{}", failure.message);
    }
}
