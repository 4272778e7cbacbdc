//! A group of processes that may have so much memory: what a container is to the programs in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::deadline::wait_for;

/// A cgroup below that of the tests; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
    /// Whether it is of the second version.
    is_unified: bool,
}

impl Cgroup {
    /// One with so many MiB. Needs the right to make one.
    pub fn with_memory(mib: u64) -> Self {
        let name = format!("prs-test-{}-{mib}", std::process::id());
        let old = Path::new("/sys/fs/cgroup/memory");
        let is_unified = !old.join("memory.limit_in_bytes").exists();
        let parent = if is_unified { Path::new("/sys/fs/cgroup") } else { old };
        let folder = parent.join(name);
        let limit = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        let made =
            fs::create_dir(&folder).and_then(|()| fs::write(folder.join(limit), (mib << 20).to_string()));
        made.unwrap_or_else(|error| {
            panic!("this is tested in a cgroup, which root can make: {}: {error}", folder.display())
        });
        Self { folder, is_unified }
    }

    /// What starts a program in it.
    pub(super) fn starter(&self) -> Command {
        let mut shell = Command::new("sh");
        let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", self.folder.display());
        shell.args(["-c", &enter]);
        shell
    }

    /// How many of its processes the kernel killed because it had no memory left.
    pub fn killed_by_the_kernel(&self) -> u64 {
        let file = if self.is_unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.unwrap().parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = fs::remove_dir(&self.folder);
        } else {
            // What was killed takes a moment to be gone.
            wait_for("the cgroup is empty", Duration::from_secs(10), || fs::remove_dir(&self.folder).ok());
        }
    }
}
