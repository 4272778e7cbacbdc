//! Jobs that nobody ran, in `prs-runs` of the working folder: of 10, 10,000 and 1,000,000 mini-batches, each ended and running. It says
//! when they are there, and holds the locks of those that run until its input ends.
//!
//! With a clock that stands still they are the same each time, and so are the pages about them.

#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{Write, stdin, stdout};
use std::path::Path;

use prs_tests::harness::Simulation;

/// How a job is called, its mini-batches, and its nodes.
const JOBS: [(&str, u64, u32); 3] = [("small", 10, 1), ("middle", 10_000, 4), ("large", 1_000_000, 500)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut locks = Vec::new();
    for (name, mini_batches, nodes) in JOBS {
        for (state, is_running) in [("ended", false), ("running", true)] {
            let id = format!("{name}-{state}");
            let folder = Path::new("prs-runs").join(&id);
            fs::create_dir_all(&folder)?;
            Simulation { mini_batches, nodes, is_running }.write(&id, &folder);
            // A program that works there holds the lock.
            let lock = File::create(folder.join(".lock"))?;
            if is_running {
                lock.lock()?;
            }
            locks.push(lock);
        }
    }
    writeln!(stdout(), "ready")?;
    stdin().read_line(&mut String::new())?;
    Ok(())
}
