//! A server under load: the program, and what it takes of the machine.

use std::error::Error;
use std::fs;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// Clock ticks of a second, as Linux counts CPU time everywhere.
const TICKS: f64 = 100.0;

/// A server on one core; it ends with this.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Program {
    /// Starts `prs serve` in a folder, with no limit that a load meets.
    pub(crate) fn start(
        bin_dir: &Path,
        folder: &Path,
        variables: &[(String, String)],
    ) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(bin_dir.join("prs"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--auth", "none", "-o", "json"]);
        for limit in [
            "--read-rate",
            "--max-requests",
            "--max-requests-of-one",
            "--max-streams",
            "--max-streams-of-one",
        ] {
            command.args([limit, "1000000"]);
        }
        command.current_dir(folder).envs(variables.iter().cloned()).env("XDG_RUNTIME_DIR", folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(fs::File::create(folder.join("serve.err"))?);
        let mut child = command.spawn()?;
        let stdout = BufReader::new(child.stdout.take().ok_or("it has an output")?);
        let mut records = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        let record = records.next().ok_or("it does not say where it listens")??;
        let url = record["url"].as_str().ok_or("it tells its address")?;
        Ok(Self { address: url.trim_start_matches("http://").parse()?, child })
    }

    /// Its resident memory, MB.
    pub(crate) fn megabytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() * 1024.0
            / 1e6
    }

    /// Its CPU time so far, seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks =
            |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
        (ticks(11) + ticks(12)) / TICKS
    }

    /// Begins to count the CPU time.
    pub(crate) fn meter(&self) -> Meter<'_> {
        Meter { program: self, since: Instant::now(), cpu: self.cpu_seconds() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time over some time.
pub(crate) struct Meter<'a> {
    program: &'a Program,
    since: Instant,
    cpu: f64,
}

impl Meter<'_> {
    /// How much of the core the server took, percent.
    pub(crate) fn percent(&self) -> f64 {
        (self.program.cpu_seconds() - self.cpu) / self.since.elapsed().as_secs_f64() * 100.0
    }
}
