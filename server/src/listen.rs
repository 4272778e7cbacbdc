//! Where a server listens: at an address and port, or at a socket in a folder of its user.
//!
//! A socket is for its user alone (0600) from the moment that it is there, and the folder that it is in has to be one that nobody else
//! writes to, so nobody else can stand in its place. One that a killed server left is taken over; whatever else has the name is not.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use axum::extract::connect_info::Connected;
use axum_server::{AddrListener, Address};
use prs_common::private_folder::PrivateFolder;
use prs_common::tree;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// What stands before the path of a socket.
const SOCKET: &str = "unix:";
/// Where requests come from that come through a socket: this machine.
const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Connections that wait until they are taken.
const BACKLOG: i32 = 1024;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// At this address and port; port 0 is one that is free.
    Port(SocketAddr),
    /// At the socket of this path.
    Socket(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SOCKET) {
            Some("") => Err("unix: stands before the path of a socket".to_owned()),
            Some(path) => Ok(Self::Socket(path.into())),
            None => text.parse().map(Self::Port).map_err(|_| {
                "it is neither an address with a port, such as 127.0.0.1:8470, nor unix:PATH".to_owned()
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => address.fmt(f),
            Self::Socket(path) => write!(f, "{SOCKET}{}", path.display()),
        }
    }
}

impl Listen {
    /// The port; 0 of a socket.
    pub fn port(&self) -> u16 {
        match self {
            Self::Port(address) => address.port(),
            Self::Socket(_) => 0,
        }
    }

    /// Begins to listen there. The socket is there as long as its file is kept.
    pub(crate) fn open(&self) -> io::Result<(Listener, Option<SocketFile>)> {
        match self {
            Self::Port(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok((Listener::Port(TcpListener::from_std(listener)?), None))
            }
            Self::Socket(path) => {
                let (listener, file) = open(path)?;
                listener.set_nonblocking(true)?;
                Ok((Listener::Socket(UnixListener::from_std(listener)?), Some(file)))
            }
        }
    }

    /// The same with the port that was free.
    pub(crate) fn found(&self, listener: &Listener) -> io::Result<Self> {
        match listener {
            Listener::Port(listener) => listener.local_addr().map(Self::Port),
            Listener::Socket(_) => Ok(self.clone()),
        }
    }
}

/// A connection as it comes.
pub(crate) type Stream = Either<TcpStream, UnixStream>;

/// What takes connections.
#[derive(Debug)]
pub(crate) enum Listener {
    /// At a port.
    Port(TcpListener),
    /// At a socket.
    Socket(UnixListener),
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub(crate) struct Peer(SocketAddr);

impl Address for Peer {
    type Stream = Stream;
    type Listener = Listener;
}

impl Connected<Peer> for SocketAddr {
    fn connect_info(peer: Peer) -> Self {
        peer.0
    }
}

impl AddrListener<Stream, Peer> for Listener {
    async fn bind_to(_: Peer) -> io::Result<Self> {
        // Where connections come from is no place to listen at.
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept_stream(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Port(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Either::Left(stream), Peer(address)))
            }
            Self::Socket(listener) => Ok((Either::Right(listener.accept().await?.0), Peer(HERE))),
        }
    }

    fn get_local_addr(&self) -> io::Result<Peer> {
        match self {
            Self::Port(listener) => listener.local_addr().map(Peer),
            Self::Socket(_) => Ok(Peer(HERE)),
        }
    }
}

/// The file of a socket; goes with it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Tells it from one that another server put there later.
    mark: (u64, u64),
}

fn open(path: &Path) -> io::Result<(net::UnixListener, SocketFile)> {
    let path = std::path::absolute(path)?;
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    PrivateFolder::open(parent).map_err(io::Error::other)?;
    make_room(&path)?;
    let address = SocketAddrUnix::new(&path).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "the path of a socket has 107 bytes at most")
    })?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // What is bound has the mode of the descriptor.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    let file = SocketFile { mark: mark(&path)?, path };
    listen(&socket, BACKLOG)?;
    Ok((socket.into(), file))
}

/// Removes the socket of a server that was killed; what else has the name stays, and is why there is no room.
fn make_room(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, why.to_owned()));
    if !there.file_type().is_socket() {
        return refused("something that is no socket has this name");
    }
    if there.uid() != rustix::process::geteuid().as_raw() {
        return refused("a socket of another user has this name");
    }
    match net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => tree::remove_file(path),
        _ => refused("another program listens there"),
    }
}

fn mark(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|there| (there.dev(), there.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if mark(&self.path).is_ok_and(|mark| mark == self.mark) {
            let _ = tree::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_socket() {
        for (text, expected) in [
            ("127.0.0.1:8470", Ok(Listen::Port(([127, 0, 0, 1], 8470).into()))),
            ("unix:/run/prs.sock", Ok(Listen::Socket("/run/prs.sock".into()))),
            ("unix:", Err("before the path")),
            ("localhost", Err("neither an address")),
        ] {
            match (text.parse::<Listen>(), expected) {
                (Ok(listen), Ok(expected)) => {
                    assert_eq!((listen.to_string(), &listen), (text.to_owned(), &expected));
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_socket_is_of_its_user_and_goes_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prs.sock");
        let why = |path: &Path| open(path).unwrap_err().to_string();
        let first = open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(why(&path).contains("another program listens"), "{}", why(&path));
        drop(first);
        assert!(!path.exists());

        // A server that was killed left its socket.
        drop(net::UnixListener::bind(&path).unwrap());
        let second = open(&path).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let third = open(&path).unwrap();
        drop(second);
        assert!(path.exists(), "it is that of the third");
        drop(third);

        fs::write(&path, "").unwrap();
        assert!(why(&path).contains("no socket"), "{}", why(&path));
        let long = folder.path().join("x".repeat(120));
        assert!(why(&long).contains("107 bytes"), "{}", why(&long));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open(&folder.path().join("other")).is_err(), "everybody writes to the folder");
    }
}
