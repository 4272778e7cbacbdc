//! One attempt to connect to a broker, and the words for each way in which it can fail.
//!
//! The steps are taken one by one (name, TCP, TLS, log-in), because what a user has to change differs between
//! them. Trying again is the business of `link`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_rs::traits::Reactor;
use async_rs::{Runtime, Tokio};
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::OwnedTLSConfig;
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, ErrorKind};
use rustix::net::{Shutdown, shutdown};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::{QueueError, QueueErrorKind};
use super::address::Address;
use super::failure;
use crate::host_name;

/// How long an attempt may take in all. A broker lets a wrong password wait for about a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// What tokio connects, encrypted or not.
type Stream = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// The socket of a connection, which can be ended from outside. The thread that the client library reads with would
/// wait for a silent peer for ever.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Ends the stream: reading and writing it fail from then on.
    pub(super) fn sever(&self) {
        // A socket that the other end has closed is severed already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

/// Severs the socket of an attempt that does not come to its end.
struct Attempt(Option<Socket>);

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(socket) = self.0.take() {
            socket.sever();
        }
    }
}

/// Connects under a name that the broker's management shows: `prs HOST-PID`, then `purpose`.
pub(super) async fn connect(
    address: &Address,
    purpose: &str,
) -> Result<(Connection, Option<Socket>), QueueError> {
    let deadline = Instant::now() + PATIENCE;
    let (stream, socket) = reach(address, deadline).await?;
    let mut attempt = Attempt(Some(socket));
    let stream = Mutex::new(Some(encrypted(address, stream, deadline).await?));
    let hand_over = async move |_, _| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(stream.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))?)
    };
    let name = format!("prs {}-{}{purpose}", host_name(), std::process::id());
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let log_in = Connection::connector(address.uri.clone(), Runtime::tokio_current(), hand_over, properties);
    match timeout_at(deadline, log_in).await {
        Ok(Ok(connection)) => Ok((connection, attempt.0.take())),
        Ok(Err(refusal)) => Err(log_in_refused(address, &refusal)),
        Err(_) => Err(unavailable(
            address,
            "it accepted the connection and then said nothing; is it a RabbitMQ broker?",
        )),
    }
}

/// Resolves the name and connects.
async fn reach(address: &Address, deadline: Instant) -> Result<(Stream, Socket), QueueError> {
    let authority = &address.uri.authority;
    let (host, port) = (authority.host.as_str(), authority.port);
    let candidates: Vec<_> = match timeout_at(deadline, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(candidates)) => candidates.collect(),
        Ok(Err(cause)) => {
            let why = format!("no address is known for the host {host} ({cause}); check its name");
            return Err(unavailable(address, why));
        }
        Err(_) => {
            return Err(unavailable(address, format!("the name server gave no address for {host} in time")));
        }
    };
    let mut failed = format!("no address is known for the host {host}; check its name");
    for (tried, candidate) in candidates.iter().enumerate() {
        // A silent address leaves time for the others.
        let share = (deadline - Instant::now()) / (candidates.len() - tried) as u32;
        let connecting = Runtime::tokio_current().tcp_connect_addr(*candidate);
        let reached = timeout(share, connecting).await.map(|connected| {
            connected.and_then(|stream| Ok((stream.get_ref().as_fd().try_clone_to_owned()?, stream)))
        });
        failed = match reached {
            Ok(Ok((socket, stream))) => return Ok((AsyncTcpStream::Plain(stream), Socket(socket))),
            Ok(Err(cause)) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                format!("nothing listens on port {port} there (connection refused); is the broker running?")
            }
            Ok(Err(cause)) => format!("it cannot be reached ({cause}); check host, port and network"),
            Err(_) => {
                "it cannot be reached (no answer); check host and port, and that no firewall is between"
                    .to_owned()
            }
        };
    }
    Err(unavailable(address, failed))
}

async fn encrypted(address: &Address, stream: Stream, deadline: Instant) -> Result<Stream, QueueError> {
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
            _ => failure::of(&address.to_string(), refusal, QueueErrorKind::Unavailable),
        },
        ErrorKind::IOError(cause) if cause.kind() == io::ErrorKind::WouldBlock => unavailable(
            address,
            format!(
                "{cause}: this host starts no thread more; raise the limit of processes (ulimit -u, or pids.max of the cgroup)"
            ),
        ),
        ErrorKind::IOError(_) | ErrorKind::ParsingError(_) if !address.is_tls() => unavailable(
            address,
            "it does not speak AMQP to us; is it a RabbitMQ broker, and not its TLS port (amqps://)?",
        ),
        _ => unavailable(address, format!("the log-in failed: {}", failure::text(refusal))),
    }
}

fn unavailable(address: &Address, message: impl Into<String>) -> QueueError {
    QueueError::new(QueueErrorKind::Unavailable, &address.to_string(), message)
}

fn refused(address: &Address, message: impl Into<String>) -> QueueError {
    QueueError::new(QueueErrorKind::Refused, &address.to_string(), message)
}
