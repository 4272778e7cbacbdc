//! A RabbitMQ node of one's own.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::TempDir;

use super::certificates::Certificates;
use super::turn::Turn;
use super::{Supervised, free_port};
use crate::deadline::wait_for;

/// How long a node may take to start; it takes about 6 s on two idle cores.
const START: Duration = Duration::from_secs(90);
/// Where packages put the scripts. Those in PATH want to be root or `rabbitmq` and know only the system's node.
const PACKAGED: &str = "/usr/lib/rabbitmq/bin";

/// A running node with a user `guest`. It is killed and its folder removed when this is dropped, or when the test
/// process ends.
#[derive(Debug)]
pub struct RabbitMq {
    certificates: Certificates,
    port: u16,
    tls_port: u16,
    epmd_port: u16,
    distribution_port: u16,
    server: Supervised,
    /// The name server of Erlang nodes; a node of a cluster knows that of the first one. A node would start one that
    /// outlives it.
    epmd: Option<Supervised>,
    /// Behind the processes: nothing writes there any more when it is removed.
    folder: TempDir,
    /// Held by a node that one test has to itself.
    _turn: Option<Turn>,
}

impl RabbitMq {
    /// The node that the tests of one binary share: what they make there needs names of its own.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<RabbitMq> = LazyLock::new(|| RabbitMq::start_with(None));
        &SHARED
    }

    /// Starts a node and waits until it serves. Few tests have a node to themselves at a time; others wait for their turn.
    pub fn start() -> Self {
        Self::start_with(Some(Turn::take()))
    }

    fn start_with(turn: Option<Turn>) -> Self {
        let epmd_port = free_port();
        let mut epmd = Command::new("epmd");
        epmd.args(["-address", "127.0.0.1", "-port", &epmd_port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let epmd = Supervised::start(epmd, None)
            .unwrap_or_else(|error| panic!("epmd cannot be started: {error}; {INSTALL}"));
        Self { _turn: turn, ..Self::start_beside(epmd_port, Some(epmd)) }
    }

    /// Starts a node and makes it one of the cluster of this one. Quorum queues that are declared from now on have a
    /// member there.
    #[must_use]
    pub fn start_peer(&self) -> Self {
        let peer = Self::start_beside(self.epmd_port, None);
        peer.control(&["stop_app"]);
        peer.control(&["join_cluster", &self.node_name()]);
        peer.control(&["start_app"]);
        peer
    }

    fn start_beside(epmd_port: u16, epmd: Option<Supervised>) -> Self {
        let folder = tempfile::Builder::new().prefix("prs-rabbitmq-").tempdir().unwrap();
        let (port, tls_port, distribution_port) = (free_port(), free_port(), free_port());
        fs::write(folder.path().join("plugins"), "[].").unwrap();
        fs::write(folder.path().join("environment"), "").unwrap();
        // Who knows it may join the cluster; nodes of other tests have another name server.
        let cookie = folder.path().join(".erlang.cookie");
        fs::write(&cookie, "prs-test").unwrap();
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
        let certificates = Certificates::make(folder.path());
        let configuration = configuration(&certificates, port, tls_port);
        fs::write(folder.path().join("rabbitmq.conf"), configuration).unwrap();
        let server = launch(folder.path(), epmd_port, distribution_port);
        let mut this = Self {
            certificates,
            port,
            tls_port,
            epmd_port,
            distribution_port,
            server,
            epmd,
            folder,
            _turn: None,
        };
        this.wait_until_it_serves();
        this
    }

    /// What Erlang calls it.
    pub fn node_name(&self) -> String {
        node_name(self.distribution_port)
    }

    /// Whether it was started and not killed since.
    pub fn is_up(&self) -> bool {
        !self.server.was_killed()
    }

    /// Which node of the cluster leads a quorum queue.
    pub fn leader_of(&self, queue: &str) -> Option<String> {
        let listed = self.control(&["list_queues", "--no-table-headers", "name", "leader"]);
        let of_queue = |line: &str| Some(line.strip_prefix(queue)?.strip_prefix('\t')?.to_owned());
        listed.lines().find_map(of_queue).filter(|leader| !leader.is_empty())
    }

    /// Where user `guest` logs in.
    pub fn url(&self) -> String {
        self.url_of("guest", "guest", "%2f")
    }

    /// Where a user logs in; `vhost` is percent-encoded.
    pub fn url_of(&self, user: &str, password: &str, vhost: &str) -> String {
        format!("amqp://{user}:{password}@127.0.0.1:{}/{vhost}", self.port)
    }

    /// Where user `guest` logs in with TLS.
    pub fn tls_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.tls_port)
    }

    /// The certificate of the authority that has signed the node's.
    pub fn authority(&self) -> PathBuf {
        self.certificates.authority.clone()
    }

    /// The port for AMQP without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the node. It is removed when the node ends.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds virtual hosts `NAME-NUMBER` that user `guest` may use.
    pub fn add_vhosts(&self, name: &str, numbers: RangeInclusive<u32>) {
        let (first, last) = numbers.into_inner();
        self.control(&[
            "eval",
            &format!(
                "[begin Name = iolist_to_binary([\"{name}-\", integer_to_list(Number)]), \
                 ok = rabbit_vhost:add(Name, <<\"tests\">>), \
                 ok = rabbit_auth_backend_internal:set_permissions(\
                 <<\"guest\">>, Name, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"tests\">>) end \
                 || Number <- lists:seq({first}, {last})]."
            ),
        ]);
    }

    /// Runs `rabbitmqctl`, about half a second.
    pub fn control(&self, arguments: &[&str]) -> String {
        let mut command = script(self.folder.path(), "rabbitmqctl", self.epmd_port, self.distribution_port);
        let output = command.arg("--quiet").args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "rabbitmqctl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Adds a user with rights to configure, write and read what these patterns match.
    pub fn add_user(&self, name: &str, password: &str, [configure, write, read]: [&str; 3]) {
        self.control(&["add_user", name, password]);
        self.control(&["set_permissions", name, configure, write, read]);
    }

    /// Writes out which log belongs to which queue. A node does so half a second after a queue was declared; one that
    /// is killed before that comes back with a queue that has lost its messages and never serves again.
    pub fn write_out_declarations(&self) {
        self.control(&["eval", "[dets:sync(Table) || Table <- dets:all()]."]);
    }

    /// Makes the node give no answers for a queue that it still lists, as when the queue's leader is missing.
    pub fn stop_serving(&self, queue: &str) {
        self.control(&["eval", &format!("ok = ra:stop_server(quorum_queues, {{'%2F_{queue}', node()}}).")]);
    }

    /// Lets it serve the queue again.
    pub fn serve_again(&self, queue: &str) {
        self.control(&[
            "eval",
            &format!("ok = ra:restart_server(quorum_queues, {{'%2F_{queue}', node()}})."),
        ]);
    }

    /// Names of all queues that the node lists.
    pub fn queues(&self) -> Vec<String> {
        self.control(&["list_queues", "--no-table-headers", "name"]).lines().map(str::to_owned).collect()
    }

    /// Names of all queues that the cluster knows. [`Self::queues`] leaves out those that only dead nodes could tell about.
    pub fn known_queues(&self) -> Vec<String> {
        let names =
            self.control(&["eval", "[Name || {resource, _, queue, Name} <- rabbit_amqqueue:list_names()]."]);
        names.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// Kills the node without a warning; see [`Self::write_out_declarations`].
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts a killed node again, with what it had on disk and on the same ports.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server = launch(self.folder.path(), self.epmd_port, self.distribution_port);
        self.wait_until_it_serves();
    }

    /// Starts the node again without anything it had.
    pub fn wipe_and_restart(&mut self) {
        self.server.kill();
        fs::remove_dir_all(self.folder.path().join("mnesia")).unwrap();
        self.restart();
    }

    fn wait_until_it_serves(&mut self) {
        let port = self.port;
        wait_for("RabbitMQ to serve", START, || {
            if let Some(status) = self.server.ended() {
                let output = fs::read_to_string(self.folder.path().join("output")).unwrap_or_default();
                panic!("RabbitMQ has ended ({status}):\n{output}");
            }
            greets(port).then_some(())
        });
        assert!(self.epmd.as_mut().is_none_or(|epmd| epmd.ended().is_none()), "epmd has ended");
    }
}

const INSTALL: &str = "install RabbitMQ (`apt-get install rabbitmq-server`), or run `make test-rust` as root";

fn launch(folder: &Path, epmd_port: u16, distribution_port: u16) -> Supervised {
    let output = fs::File::create(folder.join("output")).unwrap();
    let mut command = script(folder, "rabbitmq-server", epmd_port, distribution_port);
    command.stdout(output.try_clone().unwrap()).stderr(output).stdin(Stdio::null());
    Supervised::start(command, Some(folder))
        .unwrap_or_else(|error| panic!("rabbitmq-server cannot be started: {error}; {INSTALL}"))
}

fn node_name(distribution_port: u16) -> String {
    format!("prs-{distribution_port}@localhost")
}

/// One of RabbitMQ's scripts, in the surroundings of the node in `folder`.
fn script(folder: &Path, name: &str, epmd_port: u16, distribution_port: u16) -> Command {
    let packaged = Path::new(PACKAGED).join(name);
    let mut command = Command::new(if packaged.exists() { packaged.as_path() } else { Path::new(name) });
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env("RABBITMQ_NODENAME", node_name(distribution_port))
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("environment"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
        .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", folder.join("log"))
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        .env("RABBITMQ_DIST_PORT", distribution_port.to_string())
        .env("ERL_EPMD_PORT", epmd_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_CRASH_DUMP_SECONDS", "0")
        .env_remove("RABBITMQ_NODE_PORT");
    command
}

fn configuration(certificates: &Certificates, port: u16, tls_port: u16) -> String {
    let Certificates { authority, certificate, key } = certificates;
    format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         listeners.ssl.1 = 127.0.0.1:{tls_port}\n\
         ssl_options.cacertfile = {}\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.verify = verify_none\n\
         log.console = false\n\
         disk_free_limit.absolute = 50MB\n",
        authority.display(),
        certificate.display(),
        key.display()
    )
}

/// Whether a broker answers the protocol header with its first frame.
fn greets(port: u16) -> bool {
    let greet = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        std::io::Result::Ok(first == [1])
    };
    greet().unwrap_or(false)
}
