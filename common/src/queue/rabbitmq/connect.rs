//! One attempt to connect to a broker, and the words for each way in which it can fail.
//!
//! The steps are taken one by one (name, TCP, TLS, log-in), because what a user has to change differs between
//! them. Trying again is the business of `link`.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_rs::traits::Reactor;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::OwnedTLSConfig;
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, ErrorKind};
use tokio::time::{Instant, timeout_at};

use super::super::{QueueError, QueueErrorKind};
use super::address::Address;
use super::failure;
use super::socket::{Plain, Socket, Sockets, Watch};
use crate::host_name;

/// How long an attempt may take in all. A broker lets a wrong password wait for about a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection and what is known of its socket.
pub(super) struct Connected {
    pub(super) connection: Connection,
    pub(super) watch: Arc<Watch>,
}

/// Severs the socket of an attempt that did not come to its end.
struct Abandoned(Option<Arc<Watch>>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(watch) = self.0.take() {
            watch.sever();
        }
    }
}

/// Connects under a name that the broker's management shows: `prs HOST-PID`, then `purpose`.
pub(super) async fn connect(address: &Address, purpose: &str) -> Result<Connected, QueueError> {
    let deadline = Instant::now() + PATIENCE;
    let stream = transport(address, deadline).await?;

    let watch = Arc::new(Watch::default());
    let mut abandoned = Abandoned(Some(Arc::clone(&watch)));
    let socket = Mutex::new(Some(Socket::new(stream, Arc::clone(&watch))));
    let hand_over = async move |_, _| {
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let socket = socket.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))?;
        Ok(AsyncTcpStream::Plain(socket))
    };
    let name = format!("prs {}-{}{purpose}", host_name(), std::process::id());
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let log_in = Connection::connector(address.uri.clone(), Sockets::runtime(), hand_over, properties);
    match timeout_at(deadline, log_in).await {
        Ok(Ok(connection)) => {
            abandoned.0 = None;
            Ok(Connected { connection, watch })
        }
        Ok(Err(refusal)) => Err(log_in_refused(address, &refusal)),
        Err(_) => Err(unavailable(
            address,
            "it accepted the connection and then said nothing; is it a RabbitMQ broker?",
        )),
    }
}

/// Resolves the name, connects, encrypts.
async fn transport(address: &Address, deadline: Instant) -> Result<Plain, QueueError> {
    let authority = &address.uri.authority;
    let (host, port) = (authority.host.as_str(), authority.port);
    let candidates: Vec<_> = match timeout_at(deadline, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(candidates)) => candidates.collect(),
        Ok(Err(cause)) => {
            return Err(unavailable(
                address,
                format!("no address is known for the host {host} ({cause}); check its name"),
            ));
        }
        Err(_) => {
            return Err(unavailable(address, format!("the name server gave no address for {host} in time")));
        }
    };
    let mut failed = unavailable(address, format!("no address is known for the host {host}; check its name"));
    for (tried, candidate) in candidates.iter().enumerate() {
        // A silent address leaves time for the others.
        let share = (deadline - Instant::now()) / (candidates.len() - tried) as u32;
        let connecting = async_rs::Runtime::tokio_current().tcp_connect_addr(*candidate);
        match tokio::time::timeout(share, connecting).await {
            Ok(Ok(stream)) => return encrypted(address, AsyncTcpStream::Plain(stream), deadline).await,
            Ok(Err(cause)) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                let why = format!(
                    "nothing listens on port {port} there (connection refused); is the broker running?"
                );
                failed = unavailable(address, why);
            }
            Ok(Err(cause)) => {
                failed = unavailable(
                    address,
                    format!("it cannot be reached ({cause}); check host, port and network"),
                );
            }
            Err(_) => {
                let why =
                    "it cannot be reached (no answer); check host and port, and that no firewall is between";
                failed = unavailable(address, why);
            }
        }
    }
    Err(failed)
}

async fn encrypted(address: &Address, stream: Plain, deadline: Instant) -> Result<Plain, QueueError> {
    if !address.is_tls() {
        return Ok(stream);
    }
    // Another part of the process may have installed a provider; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = OwnedTLSConfig::default();
    match timeout_at(deadline, stream.into_tls(&address.uri.authority.host, config.as_ref())).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(cause)) => Err(tls_refused(address, &cause)),
        Err(_) => Err(unavailable(address, "it did not answer the TLS greeting; is it the TLS port (5671)?")),
    }
}

fn tls_refused(address: &Address, cause: &io::Error) -> QueueError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    if matches!(cause.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
        return unavailable(
            address,
            format!("it ended the TLS handshake ({cause}); is it the TLS port (5671)?"),
        );
    }
    refused(
        address,
        format!(
            "TLS failed ({cause}); if its certificate is signed by an authority of your own, name that authority's \
             file in SSL_CERT_FILE, and check that the port speaks TLS (usually 5671)"
        ),
    )
}

fn log_in_refused(address: &Address, refusal: &lapin::Error) -> QueueError {
    let user = &address.uri.authority.userinfo.username;
    let vhost = &address.uri.vhost;
    match refusal.kind() {
        ErrorKind::ProtocolError(said) => match said.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => refused(
                address,
                format!(
                    "the broker does not accept user {user} with this password; check both, and note that the user \
                     guest may only log in from the broker's own host"
                ),
            ),
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED | AMQPHardError::INVALIDPATH) => refused(
                address,
                format!(
                    "the broker does not let user {user} into the vhost {vhost} ({}); create it with `rabbitmqctl \
                     add_vhost` or permit it with `rabbitmqctl set_permissions`",
                    said.get_message()
                ),
            ),
            _ => QueueError { name: address.to_string(), ..failure::of("", refusal) },
        },
        ErrorKind::IOError(_) | ErrorKind::ParsingError(_) if !address.is_tls() => unavailable(
            address,
            "it does not speak AMQP to us; is it a RabbitMQ broker, and not its TLS port (amqps://)?",
        ),
        _ => unavailable(address, format!("the log-in failed: {}", failure::text(refusal))),
    }
}

fn unavailable(address: &Address, message: impl Into<String>) -> QueueError {
    failure::error(QueueErrorKind::Unavailable, &address.to_string(), message)
}

fn refused(address: &Address, message: impl Into<String>) -> QueueError {
    failure::error(QueueErrorKind::Refused, &address.to_string(), message)
}
