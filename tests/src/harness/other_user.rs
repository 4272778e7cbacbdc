//! Another user of the host, who tries what a neighbour may try.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `nobody`, everywhere.
const ID: u32 = 65534;

/// Runs a line of shell as another user; what it printed, if it ended with 0. Needs the right to become another user.
#[track_caller]
pub fn as_another_user(line: &str) -> Option<String> {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can be another user as well: run these tests as root"
    );
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir("/").uid(ID).gid(ID).stdin(Stdio::null());
    let output = command.output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether another user can read this file.
#[track_caller]
pub fn another_user_reads(file: &Path) -> bool {
    as_another_user(&format!("cat '{}'", file.display())).is_some()
}
