//! Storage and ledger of a fleet without any worker, with [simulated jobs](super::Simulation) in them: all that a server reads.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use prs_common::ledger::{Duty, Ledger, LedgerError, NodeInfo, RedisLedger, TryLimits};
use tokio::runtime::Runtime;

use super::Simulated;
use super::servers::s3::S3Server;
use super::servers::{Redis, Store};

/// The bucket that holds everything.
const BUCKET: &str = "fleet";
/// How long an orchestrator keeps its duty.
const DUTY: Duration = Duration::from_hours(1);

/// The servers; they end with it.
#[derive(Debug)]
pub struct SimulatedFleet {
    /// Holds everything that lasts.
    pub s3: S3Server,
    /// Has the ledger.
    pub redis: Redis,
    ledger: RedisLedger,
    runtime: Runtime,
}

impl Default for SimulatedFleet {
    fn default() -> Self {
        Self::start()
    }
}

impl SimulatedFleet {
    /// Starts the servers, with no job yet.
    pub fn start() -> Self {
        let s3 = S3Server::start();
        s3.make_bucket(BUCKET);
        let redis = Redis::start();
        let runtime = Runtime::new().expect("threads");
        let ledger = runtime.block_on(RedisLedger::connect(&redis.url())).expect("Redis answers");
        Self { s3, redis, ledger, runtime }
    }

    /// What a program needs to know to reach the servers. Nobody asks the broker for what is shown: there is none.
    pub fn variables(&self) -> Vec<(String, String)> {
        let urls = [
            ("PRS_BROKER_URL", "amqp://127.0.0.1:1/%2f".to_owned()),
            ("PRS_REDIS_URL", self.redis.url()),
            ("PRS_STORAGE_URL", format!("s3://{BUCKET}/prs")),
        ];
        let urls = urls.into_iter().map(|(name, value)| (name.to_owned(), value));
        urls.chain(self.s3.env()).collect()
    }

    /// Brings all of a run folder to storage, as the job with this id.
    pub fn bring(&self, id: &str, folder: &Path) {
        let mut folders = vec![folder.to_owned()];
        while let Some(below) = folders.pop() {
            for entry in fs::read_dir(below).expect("a folder") {
                let path = entry.expect("a file").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let key = path.strip_prefix(folder).expect("a path below").display();
                    let bytes = fs::read(&path).expect("a file");
                    self.s3.put_object(BUCKET, &format!("prs/jobs/{id}/{key}"), &bytes);
                }
            }
        }
        self.s3.put_object(BUCKET, &format!("prs/index/{id}"), b"");
    }

    /// Enters a job that runs, with its nodes, into the ledger, and gives the number of its orchestrator.
    pub fn enter(&self, made: &Simulated) -> u64 {
        let (id, progress) = (&made.record.job_id, &made.record.status.progress);
        let job = self.ledger.job(id);
        let key = format!("prs:{{{id}}}:job");
        let entered = self.runtime.block_on(async {
            job.create(TryLimits { run_max_try: 3, max_node_losses: 3 }).await?;
            for node in &made.nodes {
                job.join(&node.info, Some(node.node_id)).await?;
            }
            job.lease(Duty::Watch, "simulated", DUTY).await
        });
        let counts = [
            ("scheduled", progress.checkpoint.scheduled),
            ("scheduled_items", progress.checkpoint.items),
            ("planned", 1),
            ("succeeded", progress.succeeded),
            ("failed", progress.failed),
            ("items", progress.items),
            ("items_succeeded", progress.items_succeeded),
        ];
        let counts: Vec<String> =
            counts.iter().flat_map(|(name, count)| [(*name).to_owned(), count.to_string()]).collect();
        let mut command = vec!["hset", &key, "state", "running"];
        command.extend(counts.iter().map(String::as_str));
        self.redis.cli(&command);
        entered.expect("Redis answers").expect("a new job has no orchestrator")
    }

    /// Has the nodes of a job say that they are there.
    pub fn hear_nodes(&self, made: &Simulated) -> Result<(), LedgerError> {
        let job = self.ledger.job(&made.record.job_id);
        let heard =
            made.nodes.iter().map(|node| job.heartbeat(node.node_id, &node.info.worker, &node.report));
        self.runtime.block_on(try_join_all(heard)).map(drop)
    }

    /// Publishes parts of the statistics of a job, as its orchestrator with this number.
    pub fn publish(&self, id: &str, parts: &[(&str, Bytes)], fence: u64) -> Result<(), LedgerError> {
        self.runtime.block_on(self.ledger.job(id).publish_statistics(parts, fence))
    }

    /// Has so many workers of a target look for something to do.
    pub fn idle(&self, target: &str, workers: u32) {
        let looked = self.runtime.block_on(async {
            for at in 0..workers {
                let worker = NodeInfo {
                    worker: format!("worker-{at:04}-7f3a"),
                    instance: format!("worker-{at:04}"),
                    host: format!("gpu-pool-{at:04}.cluster.example"),
                    ip: format!("10.0.{}.{}", at / 250, at % 250 + 1),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    slots: 8,
                    ..NodeInfo::default()
                };
                self.ledger.offers(target, Some(&worker), Duration::from_secs(10)).await?;
            }
            Ok::<_, LedgerError>(())
        });
        looked.expect("Redis answers");
    }
}
