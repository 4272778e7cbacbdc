//! A fleet: the three servers, which tests share or have to themselves, and workers that come and go.

use std::fmt::Write;
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::processes::TOKEN;
use super::programs::{program, without_namespaces};
use super::servers::proxy::TcpProxy;
use super::servers::s3::{S3Server, S3Settings};
use super::servers::{Minio, RabbitMq, Redis, ServerOfFleet, Store};
use super::{Ended, Job, Live};

/// The bucket that holds everything.
const BUCKET: &str = "fleet";
/// The virtual host that every broker has, `/`, as it stands in a URL.
const ROOT: &str = "%2f";

/// What a byte takes to a store and back from it, each way.
const STORE_DELAY: Duration = Duration::from_millis(15);
/// The same, to and from RabbitMQ and Redis.
const SERVER_DELAY: Duration = Duration::from_millis(1);

/// How a fleet is started.
#[derive(Debug, Clone, Copy)]
pub struct FleetSettings {
    /// Nodes in the broker's cluster; of more than one, programs reach those that live, in turn.
    pub broker_nodes: usize,
    /// Whether the servers are as far away as they are in practice: 15 ms to the store and 1 ms to the others, each way.
    pub distant: bool,
    /// Whether MinIO keeps what lasts, and not the S3 server of the tests.
    pub on_minio: bool,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self { broker_nodes: 1, distant: false, on_minio: false }
    }
}

/// What stands between programs and servers, where anything does.
#[derive(Debug)]
struct Ways {
    broker: Option<TcpProxy>,
    redis: Option<TcpProxy>,
    s3: Option<TcpProxy>,
}

/// Servers and workers. Workers end with it, and so do servers that no other test uses.
#[derive(Debug)]
pub struct Fleet {
    /// Carries mini-batches.
    pub broker: ServerOfFleet<RabbitMq>,
    /// Has the ledger.
    pub redis: ServerOfFleet<Redis>,
    /// Holds everything that lasts.
    pub s3: ServerOfFleet<dyn Store>,
    /// Further nodes of the broker's cluster.
    pub peers: Vec<RabbitMq>,
    /// The virtual host of the broker, as it stands in a URL.
    vhost: String,
    /// The database of Redis.
    database: u32,
    /// The bucket of the store.
    bucket: String,
    ways: Ways,
    folder: TempDir,
    started: AtomicU32,
}

impl Fleet {
    /// The fleet of all tests of one program that need nothing but a compute target of their own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Fleet> = OnceLock::new();
        SHARED.get_or_init(|| Self::on_shared_servers(ROOT.to_owned(), 0))
    }

    /// A fleet of its own on servers that tests share: with its own virtual host, database and bucket, for tests that
    /// list, collect or count all jobs, or whose jobs have no compute target. Its servers can be neither killed nor
    /// emptied.
    pub fn apart() -> Self {
        /// Virtual hosts that are made at a time: each call of the broker's tool takes half a second.
        const BATCH: u32 = 16;
        static GIVEN: Mutex<u32> = Mutex::new(0);
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if given.is_multiple_of(BATCH) {
            RabbitMq::shared().add_vhosts("apart", *given + 1..=*given + BATCH);
        }
        *given += 1;
        Self::on_shared_servers(format!("apart-{}", *given), *given)
    }

    fn on_shared_servers(vhost: String, database: u32) -> Self {
        static S3: OnceLock<S3Server> = OnceLock::new();
        let broker = RabbitMq::shared();
        // The folder of the broker goes when the program ends, which drops nothing that is static.
        let s3 = S3.get_or_init(|| S3Server::start_in(&broker.folder().join("s3"), S3Settings::default()));
        let bucket = if database == 0 { BUCKET.to_owned() } else { format!("{BUCKET}-{database}") };
        s3.make_bucket(&bucket);
        let folder = tempfile::Builder::new().prefix("fleet-").tempdir_in(broker.folder()).unwrap();
        Self {
            broker: ServerOfFleet::Shared(broker),
            redis: ServerOfFleet::Shared(Redis::shared()),
            s3: ServerOfFleet::Shared(s3),
            peers: Vec::new(),
            vhost,
            database,
            bucket,
            ways: Ways { broker: None, redis: None, s3: None },
            folder,
            started: AtomicU32::new(0),
        }
    }

    /// Starts servers that no other test uses, for tests that stop, empty, fill or measure one; no worker yet. Few tests
    /// have such servers at a time, others wait for their turn.
    pub fn start() -> Self {
        Self::start_with(FleetSettings::default())
    }

    /// The same, as the settings say.
    pub fn start_with(settings: FleetSettings) -> Self {
        let broker = std::thread::spawn(RabbitMq::start);
        let redis = Redis::start();
        let s3: Box<dyn Store> =
            if settings.on_minio { Box::new(Minio::start()) } else { Box::new(S3Server::start()) };
        s3.make_bucket(BUCKET);
        let folder = tempfile::Builder::new().prefix("prs-fleet-").tempdir().unwrap();
        let broker = broker.join().unwrap();
        let peers: Vec<RabbitMq> = (1..settings.broker_nodes).map(|_| broker.start_peer()).collect();
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let nodes: Vec<SocketAddr> =
            iter::once(&broker).chain(&peers).map(|node| local(node.port())).collect();
        let way = |servers: &[SocketAddr], delay: Duration| {
            let delay = if settings.distant { delay } else { Duration::ZERO };
            let is_direct = delay.is_zero() && servers.len() == 1;
            (!is_direct).then(|| TcpProxy::start_with(servers, delay))
        };
        let ways = Ways {
            broker: way(&nodes, SERVER_DELAY),
            redis: way(&[local(redis.port())], SERVER_DELAY),
            s3: way(&[s3.address()], STORE_DELAY),
        };
        Self {
            broker: ServerOfFleet::Own(Box::new(broker)),
            redis: ServerOfFleet::Own(Box::new(redis)),
            s3: ServerOfFleet::Own(s3),
            peers,
            vhost: ROOT.to_owned(),
            database: 0,
            bucket: BUCKET.to_owned(),
            ways,
            folder,
            started: AtomicU32::new(0),
        }
    }

    /// The bucket that holds everything.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Where user `guest` logs in.
    pub fn broker_url(&self) -> String {
        self.broker.url_of("guest", "guest", &self.vhost)
    }

    /// The database of Redis that has the ledger.
    pub fn redis_url(&self) -> String {
        format!("{}/{}", self.redis.url(), self.database)
    }

    /// The answer of `redis-cli` for this command in the database of the fleet.
    pub fn redis_cli(&self, command: &[&str]) -> String {
        self.redis.cli(&[&["-n", &self.database.to_string()], command].concat())
    }

    /// Where programs reach RabbitMQ, Redis and S3.
    pub fn addresses(&self) -> [SocketAddr; 3] {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let direct = [local(self.broker.port()), local(self.redis.port()), self.s3.address()];
        let ways = [&self.ways.broker, &self.ways.redis, &self.ways.s3];
        std::array::from_fn(|at| ways[at].as_ref().map_or(direct[at], TcpProxy::address))
    }

    /// A node of the broker that lives.
    pub fn living_node(&self) -> &RabbitMq {
        iter::once(&*self.broker).chain(&self.peers).find(|node| node.is_up()).expect("a living node")
    }

    /// The node of the broker's cluster with this name.
    pub fn node_mut(&mut self, name: &str) -> &mut RabbitMq {
        let mut nodes = iter::once(&mut *self.broker).chain(&mut self.peers);
        nodes.find(|node| node.node_name() == name).expect("a node of this name")
    }

    /// What a program needs to know to reach the servers.
    pub fn variables(&self) -> Vec<(String, String)> {
        let [broker, redis, s3] = self.addresses();
        let urls = [
            ("PRS_BROKER_URL", format!("amqp://guest:guest@{broker}/{}", self.vhost)),
            ("PRS_REDIS_URL", format!("redis://{redis}/{}", self.database)),
            ("PRS_STORAGE_URL", format!("s3://{}/prs", self.bucket)),
        ];
        let urls = urls.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut s3_variables = self.s3.env();
        for (name, value) in &mut s3_variables {
            if name == "AWS_ENDPOINT_URL_S3" {
                *value = format!("http://{s3}");
            }
        }
        urls.chain(s3_variables).collect()
    }

    /// Makes the commands of `job` speak to this fleet.
    #[must_use]
    pub fn job(&self, job: Job) -> Job {
        self.variables().iter().fold(job, |job, (name, value)| job.with_own_variable(name, value))
    }

    /// Starts a worker; its processes carry the token of `job`, so that they are ended with it.
    pub fn worker(&self, job: &Job, arguments: &[&str]) -> Live {
        self.worker_with(job, arguments, &[])
    }

    /// Starts a worker with further variables, which may replace those that lead it to the servers.
    pub fn worker_with(&self, job: &Job, arguments: &[&str], variables: &[(String, String)]) -> Live {
        // A relative folder serves as well as any.
        self.worker_anywhere(job, &[&["--work-dir", "work"], arguments].concat(), variables)
    }

    /// The same, for a worker that works where its arguments and variables say.
    pub fn worker_anywhere(&self, job: &Job, arguments: &[&str], variables: &[(String, String)]) -> Live {
        self.start_worker(worker_program(), job, arguments, variables)
    }

    fn start_worker(
        &self,
        mut command: Command,
        job: &Job,
        arguments: &[&str],
        variables: &[(String, String)],
    ) -> Live {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        for variable in ["STATE_DIRECTORY", "XDG_RUNTIME_DIR"] {
            command.env_remove(variable);
        }
        command
            .current_dir(self.folder.path())
            .args(arguments)
            .stdin(Stdio::null())
            .env("PRS_WORKER_NAME", format!("worker-{number}"))
            .env(TOKEN, job.token())
            .envs(self.variables())
            .envs(variables.iter().cloned());
        Live::start(command, self.folder.path(), &format!("worker-{number}"))
    }

    /// The same on a host that lets no process have a mount namespace.
    pub fn worker_without_namespaces(&self, job: &Job, arguments: &[&str]) -> Live {
        self.start_worker(without_namespaces(&worker_program()), job, arguments, &[])
    }

    /// What the workers said so far.
    pub fn story(&self) -> String {
        let mut story = String::new();
        for number in 0..self.started.load(Ordering::Relaxed) {
            let path = self.folder.path().join(format!("worker-{number}.err"));
            let said = std::fs::read_to_string(path).unwrap_or_default();
            let _ = write!(story, "== worker {number}\n{said}");
        }
        story
    }

    /// The id of the job that was submitted under this name, once it is in the list of jobs.
    pub fn id_of(&self, name: &str) -> Option<String> {
        let start = format!("prs/index/{name}-");
        let (key, _) = self.s3.objects(&self.bucket).into_iter().find(|(key, _)| key.starts_with(&start))?;
        Some(key["prs/index/".len()..].to_owned())
    }

    /// The starts of jobs that storage has among those to be served: target, job and start.
    pub fn active(&self) -> Vec<String> {
        let objects = self.s3.objects(&self.bucket).into_iter();
        objects.filter_map(|(key, _)| Some(key.strip_prefix("prs/active/")?.to_owned())).collect()
    }

    /// Who holds the lease of the job's orchestrator: a name that begins with the worker's.
    pub fn orchestrator_of(&self, job_id: &str) -> Option<String> {
        let owner = self.redis_cli(&["hget", &format!("prs:{{{job_id}}}:leases"), "watch:owner"]);
        Some(owner).filter(|owner| !owner.is_empty())
    }

    /// Objects whose upload was begun and neither completed nor aborted.
    pub fn incomplete_uploads(&self) -> Vec<String> {
        self.s3.incomplete_uploads(&self.bucket)
    }

    /// Folder of the jobs in storage, as the S3 server has it on disk.
    pub fn stored(&self, job_id: &str) -> Stored<'_> {
        Stored { fleet: self, prefix: format!("prs/jobs/{job_id}/") }
    }

    /// Submits `job` and waits for its end.
    pub fn submit(&self, job: &Job) -> Ended {
        self.start_submit(job, &[]).wait()
    }

    /// Submits `job`.
    pub fn start_submit(&self, job: &Job, more: &[&str]) -> Live {
        let file = job.write_job_file().display().to_string();
        job.start(&[&["submit", &file, "-o", "json"], more].concat())
    }

    /// Hands `job` in, waits for nothing, and returns its id.
    #[track_caller]
    pub fn hand_in(&self, job: &Job) -> String {
        let ended = self.start_submit(job, &["--detach"]).wait();
        ended.expect_code(0);
        ended.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// Submits `job`, which must complete, with all items or without some. Returns the object that is printed.
    #[track_caller]
    pub fn completes(&self, job: &Job) -> Value {
        let ended = self.submit(job);
        assert!(matches!(ended.code, Some(0 | 10)), "{}\n{}", ended.stderr, self.story());
        ended.expect_completed()
    }

    /// Where the workers keep what they need for a job.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }
}

fn worker_program() -> Command {
    let mut command = program("prs");
    command.arg("worker");
    command
}

/// What lies in storage below the prefix of a job.
#[derive(Debug)]
pub struct Stored<'a> {
    fleet: &'a Fleet,
    prefix: String,
}

impl Stored<'_> {
    /// An object, which must be there.
    #[track_caller]
    pub fn bytes(&self, key: &str) -> Vec<u8> {
        let key = format!("{}{key}", self.prefix);
        self.fleet
            .s3
            .object(&self.fleet.bucket, &key)
            .unwrap_or_else(|| panic!("there is no object {key}: {:?}", self.keys()))
    }

    /// The same, as text.
    #[track_caller]
    pub fn text(&self, key: &str) -> String {
        String::from_utf8(self.bytes(key)).unwrap()
    }

    /// Writes an object over, behind everybody's back.
    pub fn replace(&self, key: &str, bytes: &[u8]) {
        self.fleet.s3.put_object(&self.fleet.bucket, &format!("{}{key}", self.prefix), bytes);
    }

    /// Deletes an object, behind everybody's back.
    pub fn delete(&self, key: &str) {
        self.fleet.s3.delete_object(&self.fleet.bucket, &format!("{}{key}", self.prefix));
    }

    /// Changes the bytes of an object where they lie, as a disk does.
    pub fn damage(&self, key: &str, mut change: impl FnMut(&mut Vec<u8>)) {
        self.fleet.s3.damage(&self.fleet.bucket, &format!("{}{key}", self.prefix), &mut change);
    }

    /// The rows of the result.
    #[track_caller]
    pub fn result(&self) -> Vec<u8> {
        self.bytes("output/parallel_run_step.txt")
    }

    /// All keys, without the prefix.
    pub fn keys(&self) -> Vec<String> {
        let objects = self.fleet.s3.objects(&self.fleet.bucket).into_iter();
        objects.filter_map(|(key, _)| Some(key.strip_prefix(&self.prefix)?.to_owned())).collect()
    }
}
