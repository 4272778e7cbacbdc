//! Memory of the container: what its limit leaves, and who has the rest.
//!
//! A container over its limit loses all of its processes at once where Kubernetes, with cgroup v2, says so, and then one large
//! mini-batch is a lost node in place of a failed try. So a guard looks at the limit and says when 95 % of it are used;
//! the dispatcher then ends the largest process and blames its mini-batch. Without a limit there is no guard: a host that is out of memory
//! kills one process, whose death tells the same.
//!
//! What the kernel can take back counts as free: files that are only cached, and its own caches. Where there is swap, it counts as memory.

use std::collections::HashMap;
use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::family::{members, number_of};

/// Hundredths of the limit that may be used.
const MOST_PERCENT: u64 = 95;
/// Between two looks while less than half of the limit is used.
const CALM: Duration = Duration::from_millis(100);
/// The same while more is: 5 % of the limit are written in a moment.
const NEAR: Duration = Duration::from_millis(20);

/// Memory of a container, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What nobody can take back.
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

impl Usage {
    /// Whether a process must go.
    pub(crate) fn is_too_much(self) -> bool {
        self.used > self.limit / 100 * MOST_PERCENT
    }
}

/// Too much memory is used.
#[derive(Debug)]
pub(crate) struct Shortage {
    pub(crate) usage: Usage,
    /// What each child of this program has, with all that it started, by its id; bytes.
    pub(crate) sizes: HashMap<u32, u64>,
}

/// Looks at the container until it is dropped.
pub(crate) struct Guard {
    /// Nothing is sent: the thread sees that it is gone.
    _stop_tx: Sender<()>,
}

impl Guard {
    /// Begins to look; `None` where nothing limits this program. What waits to be heard is told once.
    pub(crate) fn start(shortage_tx: mpsc::Sender<Shortage>) -> Option<Self> {
        let container = Container::of_this_program()?;
        let (stop_tx, stop_rx) = channel();
        let looking = move || {
            let mut pause = CALM;
            while stop_rx.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let Some(usage) = container.usage() else { continue };
                pause = if usage.used < usage.limit / 2 { CALM } else { NEAR };
                if !usage.is_too_much() {
                    continue;
                }
                let shortage = Shortage { usage, sizes: sizes() };
                if let Err(TrySendError::Closed(_)) = shortage_tx.try_send(shortage) {
                    return;
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("memory".to_owned()).spawn(looking) {
            tracing::warn!(%error, "nobody looks at the memory of the container: too much of it ends all processes");
            return None;
        }
        Some(Self { _stop_tx: stop_tx })
    }
}

/// The names of a container's files.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    used: &'static str,
    swap_limit: &'static str,
    swap_used: &'static str,
    /// Whether the files about swap count memory, too.
    swap_has_all: bool,
    /// Lines of `memory.stat` with what can be taken back.
    taken_back: [&'static str; 3],
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    swap_limit: "memory.memsw.limit_in_bytes",
    swap_used: "memory.memsw.usage_in_bytes",
    swap_has_all: true,
    taken_back: ["total_inactive_file", "total_active_file", "total_slab_reclaimable"],
};
const V2: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    swap_limit: "memory.swap.max",
    swap_used: "memory.swap.current",
    swap_has_all: false,
    taken_back: ["inactive_file", "active_file", "slab_reclaimable"],
};

/// A group of processes with a limit (a cgroup): that of this program, or the one around it that is the narrowest.
#[derive(Debug)]
struct Container {
    files: &'static Files,
    folder: PathBuf,
    /// Swap of the host, bytes.
    swap: u64,
}

impl Container {
    fn of_this_program() -> Option<Self> {
        let groups = read_to_string("/proc/self/cgroup").ok()?;
        let mounts = read_to_string("/proc/self/mountinfo").ok()?;
        let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = |name| number_of(&meminfo, name).map_or(0, |kb| kb * 1024);
        let (files, mount, folder) = place(&groups, &mounts)?;
        Self::narrowest(files, &mount, &folder, kilobytes("MemTotal:"), kilobytes("SwapTotal:"))
    }

    /// Among `folder` and those above it, up to `mount`. A limit that is no less than the memory of the host is none.
    fn narrowest(files: &'static Files, mount: &Path, folder: &Path, memory: u64, swap: u64) -> Option<Self> {
        let groups = folder.ancestors().take_while(|group| group.starts_with(mount));
        let limited = groups.filter_map(|group| Some((number(&group.join(files.limit))?, group)));
        let (limit, group) = limited.min_by_key(|(limit, _)| *limit)?;
        (limit < memory).then(|| Self { files, folder: group.to_owned(), swap })
    }

    /// Nothing where it does not tell.
    fn usage(&self) -> Option<Usage> {
        let Files { limit, used, swap_limit, swap_used, swap_has_all, taken_back } = self.files;
        let number = |name| number(&self.folder.join(name));
        let (limit, used) = (number(limit)?, number(used)?);
        let (swap_limit, swap_used) = match (number(swap_limit), number(swap_used)) {
            (Some(most), Some(now)) if *swap_has_all => {
                (most.saturating_sub(limit), now.saturating_sub(used))
            }
            (Some(most), Some(now)) => (most, now),
            _ => (u64::MAX, 0),
        };
        let limit = limit.saturating_add(swap_limit.min(self.swap));
        let used = used + swap_used;
        // What can be taken back is asked for where it matters: the kernel has to add it up.
        if !(Usage { used, limit }).is_too_much() {
            return Some(Usage { used, limit });
        }
        let stat = read_to_string(self.folder.join("memory.stat")).ok()?;
        let free: u64 = taken_back.iter().filter_map(|name| number_of(&stat, name)).sum();
        Some(Usage { used: used.saturating_sub(free), limit })
    }
}

/// Where the container of this program is: its mount, and its folder below it.
fn place(groups: &str, mounts: &str) -> Option<(&'static Files, PathBuf, PathBuf)> {
    let of_group = |is_it: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            is_it(controllers).then(|| fields.next()).flatten()
        })
    };
    // Where the old form has the memory, the new one has no say in it.
    let (files, path, kind, option) = match of_group(&|all| all.split(',').any(|one| one == "memory")) {
        Some(path) => (&V1, path, "cgroup", Some("memory")),
        None => (&V2, of_group(&str::is_empty)?, "cgroup2", None),
    };
    let mounted = mounts.lines().find_map(|line| {
        let (fields, of_file_system) = line.split_once(" - ")?;
        let mut of_file_system = of_file_system.split(' ');
        let is_it = of_file_system.next()? == kind
            && option.is_none_or(|option| {
                of_file_system.nth(1).is_some_and(|all| all.split(',').any(|one| one == option))
            });
        let mut fields = fields.split(' ').skip(3);
        is_it.then(|| Some((fields.next()?, fields.next()?))).flatten()
    });
    let (root, mount) = mounted?;
    let mount = PathBuf::from(mount);
    // A container sees its own group as the root; a path that is not below that is of the host.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let is_here = below.components().all(|part| matches!(part, Component::Normal(_)));
    let folder = if is_here { mount.join(below).components().collect() } else { mount.clone() };
    Some((files, mount, folder))
}

/// The number in a file; `max` is none.
fn number(file: &Path) -> Option<u64> {
    let text = read_to_string(file).ok()?;
    let text = text.trim();
    if text == "max" { Some(u64::MAX) } else { text.parse().ok() }
}

/// What each child of this program has, with all that it started.
fn sizes() -> HashMap<u32, u64> {
    let mut found = HashMap::new();
    for member in members().into_values().filter(|member| member.head != std::process::id()) {
        *found.entry(member.head).or_default() += member.memory;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_group_of_a_program_is_found_in_both_forms() {
        let v2 = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let v1 = "30 23 0:24 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            32 30 0:29 /docker/ab /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
            35 30 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            41 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let whole = v1.replace("/docker/ab", "/");
        let table = [
            // A container sees its own group as the root.
            ("0::/\n", v2, Some("/sys/fs/cgroup")),
            ("0::/system.slice/prs.service\n", v2, Some("/sys/fs/cgroup/system.slice/prs.service")),
            ("0::/../other\n", v2, Some("/sys/fs/cgroup")),
            ("5:cpu:/x\n4:memory:/docker/ab\n0::/\n", v1, Some("/sys/fs/cgroup/memory")),
            ("4:cpu,memory:/docker/ab/c\n0::/\n", v1, Some("/sys/fs/cgroup/memory/c")),
            ("4:memory:/elsewhere\n", v1, Some("/sys/fs/cgroup/memory")),
            ("4:memory:/a/b\n0::/\n", &whole, Some("/sys/fs/cgroup/memory/a/b")),
            ("0::/\n", "", None),
            ("4:memory:/\n", v2, None),
            ("", v2, None),
        ];
        for (groups, mounts, expected) in table {
            let found = place(groups, mounts).map(|(_, _, folder)| folder);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{groups}");
        }
    }

    /// Files of a group.
    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn the_narrowest_limit_counts_and_what_is_cached_does_not() {
        let mount = tempfile::tempdir().unwrap();
        let (mount, group) = (mount.path(), mount.path().join("a/b"));
        let found = |memory, swap| Container::narrowest(&V2, mount, &group, memory, swap);
        assert!(found(1 << 40, 0).is_none(), "nothing is limited");
        write(&group, &[("memory.max", "max\n"), ("memory.current", "1\n")]);
        assert!(found(1 << 40, 0).is_none());
        let stat = "anon 900\ninactive_file 60\nactive_file 30\nslab_reclaimable 5\nslab 99\n";
        write(
            &mount.join("a"),
            &[("memory.max", "1000\n"), ("memory.current", "990\n"), ("memory.stat", stat)],
        );
        write(mount, &[("memory.max", "2000\n"), ("memory.current", "1\n")]);
        assert!(found(1000, 0).is_none(), "the host has no more");
        let container = found(1 << 40, 0).unwrap();
        assert_eq!(container.folder, mount.join("a"));
        assert_eq!(container.usage().unwrap(), Usage { used: 895, limit: 1000 });
        // The kernel is not asked where it does not matter.
        write(&mount.join("a"), &[("memory.current", "949\n")]);
        assert_eq!(container.usage().unwrap().used, 949);
        // Swap of the host, as far as it may be used.
        write(&mount.join("a"), &[("memory.swap.max", "100\n"), ("memory.swap.current", "10\n")]);
        assert_eq!(found(1 << 40, 500).unwrap().usage().unwrap(), Usage { used: 959, limit: 1100 });
        assert_eq!(found(1 << 40, 0).unwrap().usage().unwrap().limit, 1000);
        fs::remove_file(mount.join("a/memory.current")).unwrap();
        assert_eq!(container.usage(), None);
    }

    #[test]
    fn the_old_form_counts_swap_with_memory() {
        let group = tempfile::tempdir().unwrap();
        let stat = "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 20\n";
        let files = [
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.memsw.limit_in_bytes", "1300\n"),
            ("memory.memsw.usage_in_bytes", "1290\n"),
            ("memory.stat", stat),
        ];
        write(group.path(), &files);
        let usage = |swap| Container { files: &V1, folder: group.path().to_owned(), swap }.usage().unwrap();
        assert_eq!(usage(0), Usage { used: 1170, limit: 1000 });
        assert_eq!(usage(5000), Usage { used: 1170, limit: 1300 });
    }
}
