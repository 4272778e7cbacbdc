//! One look at the host: what is used now, and what was used since the look before.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use nvml_wrapper::Nvml;
use sysinfo::{
    DiskRefreshKind, Disks, NetworkData, Networks, Pid, Process, ProcessRefreshKind, ProcessesToUpdate,
    System,
};

use crate::host::descendants::TOKEN_VARIABLE;

/// What this program is called among the processes of its node.
const OWN_NAME: &str = "prs";

/// What a look saw. Sizes are bytes; what is counted "since" is since the look before, or since the node began.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// When, microseconds since the Unix epoch.
    pub(super) at_us: u64,
    /// Nothing where the host does not say.
    pub(super) host: Option<HostUse>,
    /// In the order of their indices.
    pub(super) gpus: Vec<GpuUse>,
    /// One a device.
    pub(super) disks: Vec<DiskUse>,
    /// This program first, then its processes by name.
    pub(super) processes: Vec<ProcessUse>,
    /// All processes of the host, by their ids.
    pub(super) all: Vec<ListedProcess>,
}

/// What the whole host uses.
#[derive(Debug, Default, Clone)]
pub(super) struct HostUse {
    pub(super) cores: usize,
    /// Of all cores, since.
    pub(super) cpu_percent: f64,
    /// Processes that run or want to, over the last minute.
    pub(super) load: f64,
    /// What the host has, or what the container may use where that is less.
    pub(super) memory_total: u64,
    pub(super) memory_used: u64,
    pub(super) swap_used: u64,
    /// By all interfaces but the loopback, since.
    pub(super) received: u64,
    /// The same.
    pub(super) sent: u64,
}

/// What a GPU does. Nothing where the driver does not say.
#[derive(Debug, Default, Clone)]
pub(super) struct GpuUse {
    /// Of the last moments, by the driver.
    pub(super) percent: Option<u32>,
    pub(super) memory_used: Option<u64>,
    pub(super) memory_total: Option<u64>,
}

/// A device with a file system.
#[derive(Debug, Default, Clone)]
pub(super) struct DiskUse {
    pub(super) mount: String,
    pub(super) device: String,
    pub(super) file_system: String,
    pub(super) total: u64,
    pub(super) available: u64,
    /// Since; nothing where the kernel does not count it, as for overlays.
    pub(super) read: Option<u64>,
    /// The same.
    pub(super) written: Option<u64>,
}

/// A process of the node, with all that it started.
#[derive(Debug, Default, Clone)]
pub(super) struct ProcessUse {
    pub(super) name: String,
    pub(super) pid: u32,
    /// It and what it started.
    pub(super) count: usize,
    /// Of one core, since.
    pub(super) cpu_percent: f64,
    /// Used by those that live now, milliseconds.
    pub(super) cpu_ms: u64,
    /// Resident.
    pub(super) memory: u64,
    /// From and to disks, since.
    pub(super) read: u64,
    /// The same.
    pub(super) written: u64,
}

/// A process of the host.
#[derive(Debug, Default, Clone)]
pub(super) struct ListedProcess {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) state: String,
    /// Of one core, since.
    pub(super) cpu_percent: f64,
    pub(super) memory: u64,
    /// Its name without its arguments: these may hold secrets.
    pub(super) name: String,
}

/// Takes looks, and knows the counters of the last one. What the host does not tell is left out.
pub(super) struct Observer {
    token_prefix: String,
    system: Option<System>,
    disks: Option<Disks>,
    networks: Option<Networks>,
    nvml: Option<Nvml>,
    /// How many there are.
    gpus: u32,
    /// CPU time of each process at the last look, milliseconds.
    cpu_ms: HashMap<Pid, u64>,
    /// Names of processes of the node by id and start: one may write over the environment that it was started with.
    names: HashMap<(Pid, u64), String>,
    at: Instant,
}

impl Observer {
    /// Nothing is read yet. Tokens of the node's processes start with `token_prefix`.
    pub(super) fn new(token_prefix: String) -> Self {
        let (cpu_ms, names, at) = (HashMap::new(), HashMap::new(), Instant::now());
        Self {
            token_prefix,
            system: None,
            disks: None,
            networks: None,
            nvml: None,
            gpus: 0,
            cpu_ms,
            names,
            at,
        }
    }

    /// Reads the counters that the first look is compared with; gives the number of GPUs that looks will tell of.
    pub(super) fn begin(&mut self) -> u32 {
        self.system = System::new().ok();
        self.disks = Disks::new_with_refreshed_list_specifics(disk_figures()).ok();
        self.networks = Networks::new_with_refreshed_list().ok();
        self.nvml = Nvml::init().ok();
        self.gpus = self.nvml.as_ref().and_then(|nvml| nvml.device_count().ok()).unwrap_or(0);
        self.refresh();
        self.cpu_ms = self.cpu_times();
        self.gpus
    }

    /// What is used at `at_us`, microseconds since the Unix epoch.
    pub(super) fn look(&mut self, at_us: u64) -> Look {
        let elapsed_ms = self.at.elapsed().as_secs_f64() * 1000.0;
        self.refresh();
        let now = self.cpu_times();
        // A process that is new since the last look has used all of its time since then.
        let used = |pid: &Pid, ms: u64| ms.saturating_sub(self.cpu_ms.get(pid).copied().unwrap_or(0));
        let percent =
            now.iter().map(|(pid, ms)| (*pid, 100.0 * used(pid, *ms) as f64 / elapsed_ms.max(1.0))).collect();
        let processes = self.processes(&percent);
        let look = Look {
            at_us,
            host: self.host(),
            gpus: self.nvml.as_ref().map(|nvml| gpus(nvml, self.gpus)).unwrap_or_default(),
            disks: self.disks.as_ref().map(disks).unwrap_or_default(),
            processes,
            all: self.all(&percent),
        };
        self.cpu_ms = now;
        look
    }

    fn refresh(&mut self) {
        self.at = Instant::now();
        if let Some(system) = &mut self.system {
            system.refresh_cpu_usage();
            system.refresh_memory();
            let figures = ProcessRefreshKind::nothing().with_cpu().with_memory().with_disk_usage();
            system.refresh_processes_specifics(ProcessesToUpdate::All, true, figures.without_tasks());
        }
        if let Some(disks) = &mut self.disks {
            disks.refresh_specifics(true, disk_figures());
        }
        if let Some(networks) = &mut self.networks {
            networks.refresh(true);
        }
    }

    fn running(&self) -> impl Iterator<Item = (&Pid, &Process)> {
        self.system.iter().flat_map(System::processes)
    }

    fn cpu_times(&self) -> HashMap<Pid, u64> {
        self.running().map(|(pid, process)| (*pid, process.accumulated_cpu_time())).collect()
    }

    fn host(&self) -> Option<HostUse> {
        let system = self.system.as_ref()?;
        let networks = || {
            let networks = self.networks.iter().flat_map(|networks| networks.iter());
            networks.filter(|(name, _)| *name != "lo").map(|(_, interface)| interface)
        };
        let own = system.process(Pid::from_u32(std::process::id()));
        let container = own.and_then(Process::cgroup_limits);
        let container = container.filter(|limits| limits.total_memory < system.total_memory());
        let (memory_total, memory_used) = container.map_or_else(
            || (system.total_memory(), system.used_memory()),
            |limits| (limits.total_memory, limits.total_memory.saturating_sub(limits.free_memory)),
        );
        Some(HostUse {
            cores: system.cpus().len(),
            cpu_percent: f64::from(system.global_cpu_usage()),
            load: System::load_average().map_or(0.0, |load| load.one),
            memory_total,
            memory_used,
            swap_used: system.used_swap(),
            received: networks().map(NetworkData::received).sum(),
            sent: networks().map(NetworkData::transmitted).sum(),
        })
    }

    /// The processes of the node, with all below them. A child of this program carries its name in its token.
    fn processes(&mut self, percent: &HashMap<Pid, f64>) -> Vec<ProcessUse> {
        let own = Pid::from_u32(std::process::id());
        let parents: HashMap<Pid, Pid> =
            self.running().filter_map(|(pid, process)| Some((*pid, process.parent()?))).collect();
        let mut found: BTreeMap<Pid, ProcessUse> = BTreeMap::new();
        for (pid, process) in self.running() {
            let Some(head) = head_of(*pid, own, &parents) else { continue };
            let head = found.entry(head).or_default();
            let disk = process.disk_usage();
            head.count += 1;
            head.cpu_percent += percent.get(pid).copied().unwrap_or(0.0);
            head.cpu_ms += process.accumulated_cpu_time();
            head.memory += process.memory();
            head.read += disk.read_bytes;
            head.written += disk.written_bytes;
        }
        let mut names = HashMap::new();
        let mut seen = Vec::new();
        for (pid, head) in found {
            let start =
                self.system.as_ref().and_then(|system| system.process(pid)).map_or(0, Process::start_time);
            let known = || self.names.get(&(pid, start)).cloned().or_else(|| self.name_of(pid));
            let name = if pid == own { Some(OWN_NAME.to_owned()) } else { known() };
            let Some(name) = name else { continue };
            names.insert((pid, start), name.clone());
            seen.push(ProcessUse { name, pid: pid.as_u32(), ..head });
        }
        self.names = names;
        seen.sort_by(|a, b| (a.name != OWN_NAME, &a.name).cmp(&(b.name != OWN_NAME, &b.name)));
        seen
    }

    /// The name in the token of a process of the node.
    fn name_of(&self, pid: Pid) -> Option<String> {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let token = format!("{TOKEN_VARIABLE}={}", self.token_prefix);
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let name = variable.strip_prefix(token.as_bytes())?.strip_suffix(b".")?;
            Some(String::from_utf8_lossy(name).into_owned())
        })
    }

    fn all(&self, percent: &HashMap<Pid, f64>) -> Vec<ListedProcess> {
        let listed = self.running().map(|(pid, process)| ListedProcess {
            pid: pid.as_u32(),
            parent: process.parent().map_or(0, Pid::as_u32),
            state: process.status().to_string(),
            cpu_percent: percent.get(pid).copied().unwrap_or(0.0),
            memory: process.memory(),
            name: String::from_utf8_lossy(process.name().as_bytes()).into_owned(),
        });
        let mut all: Vec<ListedProcess> = listed.collect();
        all.sort_by_key(|process| process.pid);
        all
    }
}

/// The child of `own` that `pid` comes from, or `own` itself.
pub(super) fn head_of<Id: Copy + Eq + Hash>(pid: Id, own: Id, parents: &HashMap<Id, Id>) -> Option<Id> {
    if pid == own {
        return Some(own);
    }
    let mut at = pid;
    // Ids that were used again may make a circle.
    for _ in 0..parents.len() {
        let parent = *parents.get(&at)?;
        if parent == own {
            return Some(at);
        }
        at = parent;
    }
    None
}

fn disk_figures() -> DiskRefreshKind {
    DiskRefreshKind::nothing().with_storage().with_io_usage()
}

/// Each device once, by its shortest mount: containers see one under many names. What is no device has a name that others
/// may have, too.
fn disks(disks: &Disks) -> Vec<DiskUse> {
    let mut found: BTreeMap<String, DiskUse> = BTreeMap::new();
    for disk in disks {
        let device = disk.name().to_string_lossy().into_owned();
        let mount = disk.mount_point().to_string_lossy().into_owned();
        let key = if device.starts_with('/') { device.clone() } else { format!("{device} {mount}") };
        if found.get(&key).is_some_and(|known| known.mount.len() <= mount.len()) {
            continue;
        }
        let used = disk.usage();
        let is_counted = used.total_read_bytes > 0 || used.total_written_bytes > 0;
        let figures = DiskUse {
            mount,
            device,
            file_system: disk.file_system().to_string_lossy().into_owned(),
            total: disk.total_space(),
            available: disk.available_space(),
            read: is_counted.then_some(used.read_bytes),
            written: is_counted.then_some(used.written_bytes),
        };
        found.insert(key, figures);
    }
    found.into_values().collect()
}

pub(super) fn gpus(nvml: &Nvml, count: u32) -> Vec<GpuUse> {
    let devices = (0..count).map(|index| nvml.device_by_index(index).ok());
    let figures = devices.map(|device| {
        let memory = device.as_ref().and_then(|device| device.memory_info().ok());
        GpuUse {
            percent: device.and_then(|device| device.utilization_rates().ok()).map(|rates| rates.gpu),
            memory_used: memory.as_ref().map(|memory| memory.used),
            memory_total: memory.map(|memory| memory.total),
        }
    });
    figures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_started_counts_with_it() {
        let pid = Pid::from_u32;
        let parents: HashMap<Pid, Pid> = [(2, 1), (10, 2), (11, 10), (12, 11), (20, 1), (30, 31), (31, 30)]
            .map(|(a, b)| (pid(a), pid(b)))
            .into();
        let table = [
            (2, Some(2)),
            (10, Some(10)),
            (11, Some(10)),
            (12, Some(10)),
            (20, None),
            (30, None),
            (99, None),
        ];
        for (asked, expected) in table {
            assert_eq!(head_of(pid(asked), pid(2), &parents), expected.map(pid), "{asked}");
        }
    }

    #[test]
    fn a_busy_child_is_seen_under_its_name_with_its_own_children() {
        let mut observer = Observer::new("job-1-0-a-".into());
        observer.begin();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done' & wait"])
            .env(TOKEN_VARIABLE, "job-1-0-a-process007.")
            .spawn()
            .unwrap();
        // It takes a moment until both run, and until the kernel has counted some of their time.
        let deadline = Instant::now() + std::time::Duration::from_mins(1);
        let (look, looked) = loop {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let look = observer.look(1);
            let looked = look.processes.iter().find(|process| process.name == "process007").cloned();
            let is_busy = looked.as_ref().is_some_and(|seen| seen.count == 2 && seen.cpu_percent > 0.0);
            if is_busy || Instant::now() > deadline {
                break (look, looked);
            }
        };
        for process in look.all.iter().filter(|process| process.parent == child.id()) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(process.pid as i32).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = looked.unwrap_or_else(|| panic!("{:?}", look.processes));
        assert_eq!((seen.pid, seen.count), (child.id(), 2));
        assert!(seen.cpu_percent > 0.0 && seen.memory > 0, "{seen:?}");
        assert_eq!(look.processes[0].name, OWN_NAME);
        let host = look.host.unwrap();
        assert!(host.cores > 0 && host.memory_used > 0 && host.memory_used <= host.memory_total, "{host:?}");
        assert!(look.disks.iter().all(|disk| disk.available <= disk.total), "{:?}", look.disks);
    }
}
