//! What the host has: cores, GPUs, an address, a name.

pub(crate) mod allocator;
pub(crate) mod blocking;
pub(crate) mod descendants;
pub(crate) mod environment;
pub(crate) mod file_size_limit;
pub(crate) mod folder_lock;
pub(crate) mod gpu;
pub(crate) mod interpreter;
pub(crate) mod memory_folder;
pub(crate) mod python_home;
pub(crate) mod unique;
pub(crate) mod work_folder;

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use prs_common::host_name;
use prs_common::ledger::NodeInfo;
use prs_common::timestamp::now_us;

use self::gpu::Gpus;

/// The host this node runs on.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its address, as other hosts would see it.
    pub ip: String,
    /// Its name.
    pub name: String,
    /// GPUs that processes may use.
    pub(crate) gpus: Gpus,
    /// Cores this program may use.
    pub cores: u32,
}

impl Host {
    /// Looks at the host.
    pub fn detect() -> Self {
        Self {
            ip: address().to_string(),
            name: host_name(),
            gpus: Gpus::detect(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        }
    }

    /// What a program on this host, called `instance`, says of itself as the worker `worker` with so many slots.
    pub(crate) fn node_info(&self, worker: &str, instance: &str, slots: u32) -> NodeInfo {
        NodeInfo {
            worker: worker.to_owned(),
            ip: self.ip.clone(),
            slots,
            host: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: instance.to_owned(),
            gpus: self.gpus.count() as u32,
            python: String::new(),
            since_us: now_us(),
        }
    }

    /// Tells that some of so many processes of a node get no GPU; nothing where each has one, or there is none at all.
    pub fn gpu_shortage(&self, processes: u32) -> Option<String> {
        self.gpus.shortage(processes)
    }

    /// Processes a node runs when the job does not say: one on a host with GPUs, else one a core.
    pub fn default_slots(&self) -> u32 {
        if self.gpus.is_empty() { self.cores } else { 1 }
    }
}

/// Every process of a job takes some descriptors: allows as many as this user may have.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, a job of many processes says so itself.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// The address that packets to other hosts would come from; no packet is sent to find it.
fn address() -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        // A documentation address (RFC 5737): only the routing table is asked.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    probe.map_or(loopback, |found| if found.ip().is_unspecified() { loopback } else { found.ip() })
}
