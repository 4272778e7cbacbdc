//! A Redis server of the tests' own. The server of the distribution, if one runs, is never touched.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::certificates::Certificates;
use super::{Supervised, free_port};
use crate::deadline::wait_for;

/// Longer than a server takes to load what the tests leave in it.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server on a port of its own; ended when dropped, and when the tests end.
#[derive(Debug)]
pub struct Redis {
    /// Nothing while it is killed. Before the folder: it is ended first.
    server: Mutex<Option<Supervised>>,
    port: u16,
    certificates: Option<Certificates>,
    folder: TempDir,
}

impl Redis {
    /// Starts one that writes what it holds to the disk every second.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more lines of configuration (`appendfsync always`, `user ...`).
    pub fn start_with(lines: &[&str]) -> Self {
        Self::begin(folder(), None, lines)
    }

    /// Starts one that speaks TLS only, with a certificate for `localhost` of an [authority](Self::authority)
    /// that nobody knows.
    pub fn start_with_tls() -> Self {
        let folder = folder();
        let certificates = Certificates::make(folder.path());
        Self::begin(folder, Some(certificates), &[])
    }

    /// The one that tests share which need no server of their own; with a database for each fleet of a program.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(|| Self::start_with(&["databases 512"]))
    }

    fn begin(folder: TempDir, certificates: Option<Certificates>, lines: &[&str]) -> Self {
        let mut this = Self { server: Mutex::default(), port: 0, certificates, folder };
        // Another program may take a port between the look at it and the start.
        for _ in 0..20 {
            this.port = free_port();
            this.configure(lines);
            if this.try_start() {
                return this;
            }
        }
        panic!("redis-server does not start:\n{}", this.log());
    }

    fn configure(&self, lines: &[&str]) {
        let folder = self.folder.path().display();
        let listening = match &self.certificates {
            None => format!("port {}\n", self.port),
            Some(Certificates { authority, certificate, key }) => format!(
                "port 0\ntls-port {}\ntls-auth-clients no\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n",
                self.port,
                certificate.display(),
                key.display(),
                authority.display()
            ),
        };
        let more = lines.join("\n");
        let text = format!("bind 127.0.0.1\n{listening}dir {folder}\nappendonly yes\nsave \"\"\n{more}\n");
        fs::write(self.folder.path().join("redis.conf"), text).unwrap();
    }

    /// The URL of its default user, without a password.
    pub fn url(&self) -> String {
        let scheme = if self.certificates.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the authority behind its own. It must speak TLS.
    pub fn authority(&self) -> PathBuf {
        self.certificates.as_ref().expect("a server with TLS").authority.clone()
    }

    /// As `kill -9` would; returns when it is gone.
    pub fn kill(&self) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts it again with what it had on its disk; returns when it answers.
    pub fn restart(&self) {
        self.kill();
        assert!(self.try_start(), "redis-server does not start again:\n{}", self.log());
    }

    /// Starts it again with nothing.
    pub fn wipe_and_restart(&self) {
        self.kill();
        fs::remove_dir_all(self.folder.path().join("appendonlydir")).unwrap();
        self.restart();
    }

    /// What `redis-cli` says to this, without the line's end.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let said = Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(arguments).output();
        let said = said.expect("redis-cli comes with redis-server: apt-get install redis-server");
        assert!(said.status.success(), "redis-cli {arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    /// False when it ended instead of becoming ready.
    fn try_start(&self) -> bool {
        let folder = self.folder.path();
        let said_before = self.log().len();
        let output = File::options().create(true).append(true).open(folder.join("output")).unwrap();
        let mut command = Command::new("redis-server");
        command.arg("redis.conf").current_dir(folder).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let mut server = Supervised::start(command, Some(folder)).unwrap_or_else(|error| {
            panic!("redis-server cannot be started: {error}; install it (`apt-get install redis-server`)")
        });
        // Its own words: what answers on the port might be another server.
        let is_ready = wait_for("redis-server to become ready", PATIENCE, || {
            let has_ended = server.ended().is_some();
            let is_ready = self.log()[said_before..].contains("Ready to accept connections");
            (has_ended || is_ready).then_some(!has_ended)
        });
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = is_ready.then_some(server);
        is_ready
    }

    fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("prs-redis-").tempdir().unwrap()
}
