//! A Redis server of the tests' own.
//!
//! A shell supervises it: the shell reads commands from a pipe that only the test process holds, so when the
//! tests end, however they end, it kills the server and removes the folder. The server of the distribution,
//! if one runs, is never touched.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::deadline::wait_for;

/// Longer than a server takes to load what the tests leave in it.
const PATIENCE: Duration = Duration::from_mins(1);
/// Ports that the system gives to nobody on its own: a client that calls a server which is down would
/// otherwise be given that very port some day, and talk to itself.
const PORTS: std::ops::Range<u16> = 18_000..30_000;

/// `$1` is the folder. Answers each command with a line.
const SUPERVISOR: &str = r#"
exec 2>/dev/null
while read -r word; do
    case $word in
    start) redis-server "$1/redis.conf" </dev/null >>"$1/redis.out" 2>&1 & server=$! ;;
    kill) kill -9 "$server"; wait "$server" ;;
    stop) kill "$server"; wait "$server" ;;
    esac
    echo "$word"
done
kill -9 "$server"; wait "$server"
rm -rf "$1"
"#;

/// A server on a port of its own; ended when dropped, and when the tests end.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    scheme: &'static str,
    folder: PathBuf,
    shell: Mutex<Shell>,
}

#[derive(Debug)]
struct Shell {
    child: Child,
    /// Closing it ends the server.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Redis {
    /// Starts one that writes what it holds to the disk every second.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more lines of configuration (`appendfsync always`, `user ...`).
    pub fn start_with(lines: &[&str]) -> Self {
        Self::begin(tempfile::tempdir().unwrap().keep(), false, lines)
    }

    /// Starts one that speaks TLS only, with a certificate for `localhost` of an [authority](Self::authority)
    /// that nobody knows.
    pub fn start_with_tls() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        make_certificates(&folder);
        let file = |name: &str| folder.join(name).display().to_string();
        let lines = [
            "tls-auth-clients no".to_owned(),
            format!("tls-cert-file {}", file("server.crt")),
            format!("tls-key-file {}", file("server.key")),
            format!("tls-ca-cert-file {}", file("authority.crt")),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Self::begin(folder, true, &lines)
    }

    /// The one that tests share which need no server of their own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn begin(folder: PathBuf, tls: bool, lines: &[&str]) -> Self {
        let installed = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        assert!(
            installed.is_ok_and(|status| status.success()),
            "redis-server is needed by this test: apt-get install redis-server"
        );
        let mut child = Command::new("sh")
            .args(["-c", SUPERVISOR, "redis-supervisor"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is piped"));
        let shell = Mutex::new(Shell { child, commands, answers });
        let mut server = Self { port: 0, scheme: if tls { "rediss" } else { "redis" }, folder, shell };
        // Somebody else may take a port between the look at it and the start.
        for _ in 0..20 {
            server.port = free_port();
            server.configure(tls, lines);
            if server.try_start() {
                return server;
            }
        }
        panic!("redis-server does not start:\n{}", server.log());
    }

    fn configure(&self, tls: bool, lines: &[&str]) {
        let (plain, secure) = if tls { (0, self.port) } else { (self.port, 0) };
        let mut text = format!(
            "bind 127.0.0.1\nport {plain}\ntls-port {secure}\ndir {}\nappendonly yes\nsave \"\"\n",
            self.folder.display()
        );
        text += &lines.join("\n");
        std::fs::write(self.folder.join("redis.conf"), text).unwrap();
    }

    /// The URL of its default user, without a password.
    pub fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the authority behind its own, when it speaks TLS.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.crt")
    }

    /// As `kill -9` would; returns when it is gone.
    pub fn kill(&self) {
        self.tell("kill");
    }

    /// Starts it again with what it had on its disk; returns when it answers.
    pub fn restart(&self) {
        self.tell("stop");
        assert!(self.try_start(), "redis-server does not start again:\n{}", self.log());
    }

    /// Starts it again with nothing.
    pub fn wipe_and_restart(&self) {
        self.tell("kill");
        std::fs::remove_dir_all(self.folder.join("appendonlydir")).unwrap();
        assert!(self.try_start(), "redis-server does not start again:\n{}", self.log());
    }

    /// What `redis-cli` says to this, without the line's end.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let said = Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(arguments).output();
        let said = said.expect("redis-cli comes with redis-server: apt-get install redis-server");
        assert!(said.status.success(), "redis-cli {arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    fn tell(&self, word: &str) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let Shell { commands, answers, .. } = &mut *shell;
        writeln!(commands.as_mut().expect("open until the drop"), "{word}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), word);
    }

    /// False when it ended instead of becoming ready.
    fn try_start(&self) -> bool {
        let said_before = self.log().len();
        self.tell("start");
        // Its own words: whoever answers on the port might be another server.
        wait_for("redis-server to become ready", PATIENCE, || {
            let log = self.log();
            let said = &log[said_before..];
            let failed = ["Failed listening", "FATAL CONFIG", "Fatal error", "Failed to configure"];
            if failed.iter().any(|words| said.contains(words)) {
                return Some(false);
            }
            said.contains("Ready to accept connections").then_some(true)
        })
    }

    fn log(&self) -> String {
        std::fs::read(self.folder.join("redis.out"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        shell.commands = None;
        let _ = shell.child.wait();
    }
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() % u32::from(PORTS.end - PORTS.start);
    let mut candidates = std::iter::repeat_with(|| {
        let at =
            (first + u32::from(NEXT.fetch_add(7, Ordering::Relaxed))) % u32::from(PORTS.end - PORTS.start);
        PORTS.start + at as u16
    });
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    candidates.find(free).expect("the candidates never end")
}

/// An authority, and a certificate of it for `localhost`.
fn make_certificates(folder: &Path) {
    let openssl = |arguments: &str| {
        let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
        let made = made.expect("openssl is needed by this test: apt-get install openssl");
        assert!(made.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&made.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout authority.key -out authority.crt -days 2 -subj /CN=test-authority"
    ));
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(folder.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    openssl(
        "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -out server.crt -days 2 \
         -extfile extensions",
    );
}
