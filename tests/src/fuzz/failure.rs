//! An input that fails: made smaller, saved, and told with the way to try it again.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use prs_common::hexadecimal;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{PATIENCE, POLL, REPLAY, Watched};

/// How long an input may be made smaller.
const SHRINKING: Duration = Duration::from_mins(1);
/// Bytes of an input, and of what was said, that are printed.
const SHOWN: usize = 2_000;

/// What failed.
pub(super) struct Failure<'a> {
    pub(super) name: &'a str,
    pub(super) seed: u64,
    pub(super) tried: u64,
    pub(super) why: String,
    pub(super) input: Vec<u8>,
    pub(super) output: String,
}

impl Failure<'_> {
    /// The same with as little input as can be found in some time.
    pub(super) fn shrunk(mut self, folder: &TempDir) -> Self {
        let end = Instant::now() + SHRINKING;
        let mut step = self.input.len().div_ceil(2);
        while step > 0 && Instant::now() < end {
            let mut at = 0;
            while at < self.input.len() && Instant::now() < end {
                let mut smaller = self.input.clone();
                smaller.drain(at..smaller.len().min(at + step));
                match fails(self.name, &smaller, folder) {
                    Some(output) => (self.input, self.output) = (smaller, output),
                    None => at += step,
                }
            }
            step /= 2;
        }
        self
    }

    /// Saves the input and says what there is to know.
    pub(super) fn saved(self, failures: &Path) -> String {
        let Self { name, seed, tried, why, input, output } = self;
        let sum = hexadecimal(&Sha256::digest(&input));
        let path = failures.join(format!("fuzz-{name}-{}", &sum[..12]));
        fs::write(&path, &input).unwrap();
        let path = path.display();
        let mut told =
            format!("{name} {why} over input {tried} from seed {seed}; with as little of it as was found:\n");
        let _ = writeln!(told, "{}", input[..input.len().min(SHOWN)].escape_ascii());
        let _ = writeln!(told, "({} bytes, saved as {path})", input.len());
        let _ = writeln!(
            told,
            "again: {REPLAY}={path} cargo test -p prs-tests --test fuzz -- --exact {name} --nocapture"
        );
        let from = output.len().saturating_sub(SHOWN);
        told + output.get(output.ceil_char_boundary(from)..).unwrap_or_default()
    }
}

/// What is said over `input` where it fails as well.
pub(super) fn fails(name: &str, input: &[u8], folder: &TempDir) -> Option<String> {
    let path = folder.path().join("replayed");
    fs::write(&path, input).unwrap();
    let mut watched = Watched::start(name, folder, &[(REPLAY, &path)]);
    let end = Instant::now() + PATIENCE;
    loop {
        match watched.child.try_wait().unwrap() {
            Some(status) if status.success() => return None,
            None if Instant::now() < end => std::thread::sleep(POLL),
            _ => return Some(watched.kill()),
        }
    }
}
