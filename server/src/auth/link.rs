//! Links that log a browser in, once; and the file that tells programs of the same user where the server is.
//!
//! Every user of a machine reaches its loopback address, and who may submit runs code as the user of the server. So there is a secret
//! also there, made at each start, in a file that its owner alone can read. Who can read it can make links.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prs_common::private_folder::{PrivateFolder, PrivateFolderError};
use prs_common::timestamp::now_us;
use prs_common::tree;
use serde::{Deserialize, Serialize};

use super::signed::Key;
use super::{random, random_text};
use crate::http::conditional::short_checksum;
use crate::listen::Listen;

/// How long a link works.
pub(crate) const LINK_LASTS: Duration = Duration::from_mins(5);

/// The secret of one start of a server.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A new one.
    pub(crate) fn new() -> Self {
        Self(random())
    }

    /// As it stands in the file, and as a program sends it.
    pub(crate) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    /// A key for one purpose.
    pub(crate) fn key(&self, purpose: &str) -> Key {
        Key::new(&self.0, purpose)
    }

    /// A code that logs in once, until [`LINK_LASTS`] is over.
    pub(crate) fn code(&self, now_us: u64) -> String {
        let until = now_us + LINK_LASTS.as_micros() as u64;
        self.key(CODES).sign(&format!("{until:x}.{}", random_text::<9>()))
    }
}

const CODES: &str = "login codes";

/// The codes that were used, as long as they would work.
#[derive(Debug)]
pub(crate) struct Codes {
    key: Key,
    used: Mutex<HashMap<String, u64>>,
}

impl Codes {
    /// For the codes of `secret`.
    pub(crate) fn new(secret: &Secret) -> Self {
        Self { key: secret.key(CODES), used: Mutex::default() }
    }

    /// Takes a code; false where it is none of ours, is too old, or was taken before.
    pub(crate) fn take(&self, code: &str, now_us: u64) -> bool {
        let Some(text) = self.key.open(code) else { return false };
        let until = text.split_once('.').and_then(|(until, _)| u64::from_str_radix(until, 16).ok());
        let Some(until) = until.filter(|until| *until > now_us) else { return false };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, until| *until > now_us);
        used.insert(text.to_owned(), until).is_none()
    }
}

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    /// Where the server is.
    url: String,
    /// Its secret.
    token: String,
    /// Its process.
    pid: u32,
}

/// Why a server cannot be asked, or cannot tell where it is.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no folder for the file.
    #[error(
        "there is no folder to say in where the server is: XDG_RUNTIME_DIR, XDG_CACHE_HOME and HOME name none"
    )]
    NoFolder,
    /// The folder for the file may be changed by others.
    #[error("cannot say where the server is: {0}")]
    Folder(#[from] PrivateFolderError),
    /// The file cannot be written.
    #[error("cannot say where the server is: {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// No server of this user runs there.
    #[error("no server of yours runs at {0}: start one with prs serve")]
    NoServer(String),
}

/// The file of a server that runs; goes with it.
#[derive(Debug)]
pub(crate) struct ServerFile {
    path: PathBuf,
    token: String,
}

impl ServerFile {
    /// Tells programs of this user of the server at `url`.
    pub(crate) fn write(url: &str, listen: &Listen, secret: &Secret) -> Result<Self, LinkError> {
        let path = folder()?.path().join(name(listen));
        let told = Told { url: url.to_owned(), token: secret.text(), pid: std::process::id() };
        let failed = |error| LinkError::Write { path: path.clone(), error };
        let text = serde_json::to_vec(&told).map_err(|error| failed(error.into()))?;
        let written = path.with_extension("new");
        let write = || {
            tree::create_private(&written)?.write_all(&text)?;
            tree::rename(&written, &path)
        };
        write().map_err(failed)?;
        Ok(Self { path, token: told.token })
    }
}

impl Drop for ServerFile {
    fn drop(&mut self) {
        // Another server may have taken the port, and the file.
        if read(&self.path).is_some_and(|told| told.token == self.token) {
            let _ = tree::remove_file(&self.path);
        }
    }
}

/// The address of the server of this user that listens there, and a link that logs a browser in.
pub fn ask_for_link(listen: &Listen) -> Result<(String, String), LinkError> {
    let told = read(&folder()?.path().join(name(listen)));
    // One that was killed left its file.
    let runs = |told: &Told| {
        i32::try_from(told.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    };
    let found = told.filter(runs).and_then(|told| Some((Secret::parse(&told.token)?, told.url)));
    let (secret, url) = found.ok_or_else(|| {
        LinkError::NoServer(match listen {
            Listen::Port(address) => format!("port {}", address.port()),
            Listen::Socket(_) => listen.to_string(),
        })
    })?;
    let link = link(&url, &secret);
    Ok((url, link))
}

/// A link that logs a browser in at the server `url`.
pub(crate) fn link(url: &str, secret: &Secret) -> String {
    format!("{}/login?code={}", url.trim_end_matches('/'), secret.code(now_us()))
}

/// What the file of a server is called. Programs look for those of ports alone: they cannot ask at a socket.
fn name(listen: &Listen) -> String {
    match listen {
        Listen::Port(address) => format!("serve-{}.json", address.port()),
        Listen::Socket(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("socket-{}.json", short_checksum(path.as_os_str().as_bytes()))
        }
    }
}

fn read(path: &Path) -> Option<Told> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The folder for what programs of this user tell each other.
fn folder() -> Result<PrivateFolder, LinkError> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = variable("XDG_RUNTIME_DIR")
        .filter(|folder| folder.is_dir())
        .or_else(|| variable("XDG_CACHE_HOME"))
        .or_else(|| Some(variable("HOME")?.join(".cache")))
        .ok_or(LinkError::NoFolder)?;
    Ok(PrivateFolder::make(&folder.join("prs"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_for_five_minutes() {
        let (secret, now) = (Secret::new(), 1_000_000_000_000);
        let codes = Codes::new(&secret);
        let code = secret.code(now);
        assert!(codes.take(&code, now + 299_000_000) && !codes.take(&code, now + 299_000_000));
        assert!(!codes.take(&secret.code(now), now + 300_000_000), "too late");
        assert!(!codes.take(&Secret::new().code(now), now), "of another server");
        assert!(!codes.take("", now) && !codes.take("ff.x~x", now));
        assert_eq!(Secret::parse(&secret.text()).unwrap().0, secret.0);
    }
}
