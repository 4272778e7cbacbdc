//! This program and all that it started, as the kernel counts them.

use std::collections::HashMap;
use std::fs::{self, read_to_string};

use super::look::head_of;

/// Ticks of a second in the counts of the kernel, wherever prs runs.
const TICKS: u64 = 100;

/// A process of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// The child of this program that it comes from, or this program.
    pub(super) head: u32,
    /// CPU time that it used, milliseconds.
    pub(super) cpu_ms: u64,
    /// What is its own, and what it shares in memory; pages of programs and files are not: bytes.
    pub(super) memory: u64,
}

/// The family, by process ids.
pub(super) fn members() -> HashMap<u32, Member> {
    let own = std::process::id();
    let (mut parents, mut cpu) = (HashMap::new(), HashMap::new());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = read_to_string(entry.path().join("stat")) else { continue };
        if let Some((parent, cpu_ms)) = parent_and_cpu(&stat) {
            parents.insert(id, parent);
            cpu.insert(id, cpu_ms);
        }
    }
    let member = |(id, cpu_ms): (u32, u64)| {
        let head = head_of(id, own, &parents)?;
        Some((id, Member { head, cpu_ms, memory: memory_of(id) }))
    };
    cpu.into_iter().filter_map(member).collect()
}

/// The parent in a line of `/proc/<pid>/stat`, and the CPU time, milliseconds.
fn parent_and_cpu(stat: &str) -> Option<(u32, u64)> {
    // The name is in parentheses, and may have any character.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((number(1)? as u32, (number(11)? + number(12)?) * 1000 / TICKS))
}

/// The memory of a process that is no file's, bytes; 0 of one that is gone.
pub(crate) fn memory_of(id: u32) -> u64 {
    let status = read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let kilobytes = |name| number_of(&status, name).unwrap_or(0);
    (kilobytes("RssAnon:") + kilobytes("RssShmem:")) * 1024
}

/// The number in the line of `text` that begins with `name`.
pub(super) fn number_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_any_character() {
        let rest = "S 7 1 1 0 -1 4194560 1 0 0 0 123 45 0 0 20 0 1 0 5 6 7";
        for name in ["sh", "a) S 1 (b", ""] {
            assert_eq!(parent_and_cpu(&format!("9 ({name}) {rest}")), Some((7, 1680)), "{name}");
        }
        assert_eq!(parent_and_cpu("9 (sh) S"), None);
    }

    #[test]
    fn what_a_child_started_is_of_it() {
        let script = "import subprocess, sys\nheld = b'x' * (50 << 20)\nchild = subprocess.Popen([sys.executable, '-c', \
            \"held = b'x' * (80 << 20); print(flush=True); input()\"])\nchild.wait()";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        let members = members();
        drop(child.stdin.take());
        child.wait().unwrap();
        let of_child: Vec<&Member> = members.values().filter(|member| member.head == child.id()).collect();
        assert_eq!(of_child.len(), 2, "{members:?}");
        let memory: u64 = of_child.iter().map(|member| member.memory).sum();
        assert!((130 << 20..200 << 20).contains(&memory), "{memory}");
        assert!(of_child.iter().all(|member| member.cpu_ms < 60_000), "{members:?}");
        assert_eq!(members[&std::process::id()].head, std::process::id());
    }
}
