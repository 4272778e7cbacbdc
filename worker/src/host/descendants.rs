//! Ends what a process left behind: children that outlived it, also those that left its process group or emptied their
//! environment.
//!
//! Every process carries a token in its environment, which its children inherit. Tokens are
//! `<job>-<incarnation>-<node>-<process>.`: a prefix stands for all processes of a job or node. A child that is started
//! with another environment loses it, so a [`Mark`] stands for the token, too.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Environment variable with the token of a process.
pub(crate) const TOKEN_VARIABLE: &str = "PRS_PROCESS_TOKEN";
/// How long to look for processes that are being born while others are killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(1);
/// What `/proc/<pid>/limits` calls the limit that carries the mark.
const LIMIT: &str = "Max file locks";
/// Marks of processes lie between this number and twice it, those of jobs above.
const LEAST_MARK: u64 = 1 << 61;

/// The limit on the number of file locks, as a mark. Linux keeps this limit for a process and passes it on to its
/// children, and has not heeded it since 2.4.25. Neither a new session nor a new program changes it, and no program has
/// a reason to. Its soft value stands for the process, its hard value for the job.
///
/// Where the limit cannot be set, because an administrator has set a lower one, only the tokens are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    process: u64,
    job: u64,
}

impl Mark {
    /// The mark of the process with this token.
    pub(crate) fn new(job_id: &str, token: &str) -> Self {
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish() % LEAST_MARK
        };
        Self { process: LEAST_MARK + hash(token), job: 2 * LEAST_MARK + hash(job_id) }
    }

    /// Marks the calling process. Safe to call between fork and exec.
    pub(crate) fn set(self) {
        let limit = Rlimit { current: Some(self.process), maximum: Some(self.job) };
        if setrlimit(Resource::Locks, limit).is_err() {
            // The script of another job started this program: the hard value stays that of the other job.
            let maximum = getrlimit(Resource::Locks).maximum;
            let _ = setrlimit(Resource::Locks, Rlimit { maximum, ..limit });
        }
    }

    /// The mark of a running process.
    fn of(process: &Path) -> Option<Self> {
        let limits = fs::read_to_string(process.join("limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix(LIMIT))?;
        let mut values = line.split_whitespace().map(str::parse);
        Some(Self { process: values.next()?.ok()?, job: values.next()?.ok()? })
    }
}

/// Processes that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    /// What their tokens begin with.
    tokens: String,
    /// What their marks have in common.
    marks: Marks,
}

#[derive(Debug, Clone)]
enum Marks {
    OfJob(u64),
    OfProcesses(HashSet<u64>),
}

impl Family {
    /// What the process with this token started, and itself.
    pub(crate) fn of_process(token: &str, mark: Mark) -> Self {
        Self { tokens: token.to_owned(), marks: Marks::OfProcesses(HashSet::from([mark.process])) }
    }

    /// The same for processes with these marks, whose tokens begin with `prefix`.
    pub(crate) fn of_processes(prefix: String, marks: impl Iterator<Item = Mark>) -> Self {
        Self { tokens: prefix, marks: Marks::OfProcesses(marks.map(|mark| mark.process).collect()) }
    }

    fn of_job(job_id: &str) -> Self {
        Self { tokens: format!("{job_id}-"), marks: Marks::OfJob(Mark::new(job_id, "").job) }
    }

    /// Kills all of them and returns how many there were. Blocks.
    pub(crate) fn kill(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        let mut killed = HashSet::new();
        loop {
            let found = self.members();
            if found.is_empty() || Instant::now() > deadline {
                return killed.len();
            }
            for process in found {
                // It may have ended meanwhile, or take a moment to.
                if killed.insert(process) {
                    let _ = kill_process(process, Signal::KILL);
                }
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn members(&self) -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let variable = format!("{TOKEN_VARIABLE}={}", self.tokens);
        entries
            .flatten()
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
                let process = entry.path();
                (has_variable(&process, variable.as_bytes()) || self.has_mark(&process)).then_some(pid)
            })
            .collect()
    }

    fn has_mark(&self, process: &Path) -> bool {
        let has_mark = Mark::of(process).is_some_and(|mark| match &self.marks {
            Marks::OfJob(job) => mark.job == *job,
            Marks::OfProcesses(processes) => processes.contains(&mark.process),
        });
        has_mark && !has_ended(process)
    }
}

/// Ends what former runs of a job left behind on this host: children that had left the group of a process whose
/// agent was killed. Blocks.
pub fn end_left_overs(job_id: &str) -> usize {
    Family::of_job(job_id).kill()
}

/// Whether a variable in the environment of a process begins so.
fn has_variable(process: &Path, start: &[u8]) -> bool {
    // Unreadable: of another user, or gone. A zombie has an empty environment.
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(start))
}

/// Whether a process only waits for its parent to hear of its end.
fn has_ended(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The state stands behind the name, which is in parentheses.
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// The family of a process of this test.
    fn family(name: &str) -> (String, Mark, Family) {
        let token = format!("test-{}-{name}.", std::process::id());
        let mark = Mark::new("test", &token);
        let family = Family::of_process(&token, mark);
        (token, mark, family)
    }

    #[test]
    fn a_child_of_a_child_in_its_own_session_is_found() {
        let (token, _, family) = family("session");
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sh -c 'echo started; exec sleep 100 >&-' &"])
            .env(TOKEN_VARIABLE, &token)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shell.wait().unwrap();
        let mut said = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "started\n");
        assert_eq!(family.kill(), 1);
        assert_eq!(family.kill(), 0);
    }

    #[test]
    fn a_child_of_a_child_without_an_environment_is_found_by_its_mark() {
        let (_, mark, family) = family("mark");
        let mut shell = Command::new("sh")
            .args(["-c", "read marked; env -i setsid sleep 100 & echo started"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(shell.id() as i32).unwrap();
        let limit = Rlimit { current: Some(mark.process), maximum: Some(mark.job) };
        rustix::process::prlimit(Some(pid), Resource::Locks, limit).unwrap();
        shell.stdin.take().unwrap().write_all(b"\n").unwrap();
        shell.wait().unwrap();
        let (_, other, others) = self::family("other");
        assert_eq!((others.kill(), other.job), (0, mark.job));
        assert_eq!(family.kill(), 1);
        assert_eq!(family.kill(), 0);
    }

    #[test]
    fn a_zombie_is_no_process_any_more() {
        let (_, mark, family) = family("zombie");
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        let limit = Rlimit { current: Some(mark.process), maximum: Some(mark.job) };
        rustix::process::prlimit(Some(pid), Resource::Locks, limit).unwrap();
        let before = Instant::now();
        assert_eq!(family.kill(), 1);
        assert!(before.elapsed() < PATIENCE, "nobody has waited for it yet");
        child.wait().unwrap();
    }

    #[test]
    fn marks_tell_processes_and_jobs_apart() {
        let of = |job: &str, token: &str| Mark::new(job, token);
        assert_eq!(of("a", "a-1."), of("a", "a-1."));
        assert_ne!(of("a", "a-1.").process, of("a", "a-2.").process);
        assert_eq!(of("a", "a-1.").job, of("a", "a-2.").job);
        assert_ne!(of("a", "x").job, of("b", "x").job);
        let Mark { process, job } = of("a", "a-1.");
        assert!(process < job, "a soft limit is at most as high as the hard one");
    }
}
