//! A job that brings packages, and hosts that can install them without a network: a folder with a wheel, a Python, and
//! where a test has to stop an installer, a script that stands in for uv.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Job, python};

/// Makes a wheel of a package `tiny`, whose `VALUE` is 7.
const WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/tiny-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('tiny.py', 'VALUE = 7\\n')
    folder = 'tiny-1.0.dist-info/'
    wheel.writestr(folder + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    wheel.writestr(folder + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    names = ['tiny.py', folder + 'METADATA', folder + 'WHEEL', folder + 'RECORD']
    wheel.writestr(folder + 'RECORD', ''.join(name + ',,\\n' for name in names))
";

/// Puts `packages/requirements.txt` with this text into the folder of `job`, a wheel of `tiny` and a Python; the job
/// still has to name the file.
pub fn bring_packages(job: &Job, packages: &str) {
    for folder in ["packages", "wheels", "tools"] {
        fs::create_dir(job.path(folder)).unwrap();
    }
    fs::write(job.path("packages/requirements.txt"), packages).unwrap();
    let made = Command::new(python()).args(["-c", WHEEL]).arg(job.path("wheels")).status().unwrap();
    assert!(made.success());
    executable(&job.path("tools/python3"), &format!("#!/bin/sh\nexec {} \"$@\"\n", python().display()));
}

/// The variables of a program on a host of the job whose user keeps things in `cache`. There is no uv.
pub fn host_of(job: &Job, cache: &Path) -> Vec<(String, String)> {
    let at = |name: &str| job.path(name).display().to_string();
    let variables = [
        ("PATH", format!("{}:/usr/bin:/bin", at("tools"))),
        ("XDG_CACHE_HOME", cache.display().to_string()),
        ("PIP_NO_INDEX", "1".to_owned()),
        ("PIP_FIND_LINKS", at("wheels")),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Has a script stand in for uv, which notes that it installs and goes on when it is told to by the mark `go`.
pub fn stop_in_installer(job: &Job) {
    let marks = job.path("marks").display().to_string();
    let script = format!(
        "#!/bin/sh\nif [ $1 = venv ]; then exec \"$4\" -m venv \"$5\"; fi\necho $$ >> {marks}/installs\n\
         while [ ! -e {marks}/go ]; do echo still waiting; sleep 0.1; done\nexec \"$4\" -m pip install -q -r \"$6\"\n"
    );
    executable(&job.path("tools/uv"), &script);
}

/// The ids of the programs that started the installers of [`stop_in_installer`] that live.
pub fn installing(job: &Job) -> Vec<u32> {
    let parent = |installer: String| {
        let stat = fs::read_to_string(format!("/proc/{installer}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
    };
    job.marks("installs").into_iter().filter_map(parent).collect()
}

/// Another program writes it: a file that is open for writing here would stay open in whatever a thread starts at this
/// moment, until its `exec`, and could not be run as long.
fn executable(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().expect("it is piped").write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success());
}
