//! What a server of prs takes: requests a second, how long pages of a job of a million mini-batches take, what hundreds of watchers cost,
//! for benchmarks.
//!
//! ```text
//! server-load [--tiny] BIN_DIR          all of it, on one core for the server
//! server-load watch URL WATCHERS        watches the first job that runs, until standard input is closed
//! ```
//!
//! The jobs are simulated: nobody runs them, and what an orchestrator would write and publish of them is made from the indexes of
//! segments. Prints a JSON list of figures, each with `name`, `value`, `unit` and `target`.

#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

mod client;
mod loads;
mod program;
mod watch;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

const USAGE: &str = "usage: server-load [--tiny] BIN_DIR | server-load watch URL WATCHERS";

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Seconds of each load.
    seconds: u64,
    /// How long everything may take to come to rest.
    rest: Duration,
    /// A page is asked for so often.
    pages: usize,
    /// Mini-batches of the longest job, and its nodes.
    mini_batches: u64,
    nodes: u32,
    /// Watchers, and jobs that are watched.
    watchers: usize,
    /// Followers of a log, and clients that only stay connected.
    followers: usize,
    idle: usize,
    /// Jobs in lists.
    lists: [u64; 2],
}

impl Size {
    const FULL: Self = Self {
        seconds: 10,
        rest: Duration::from_secs(3),
        pages: 300,
        mini_batches: 1_000_000,
        nodes: 500,
        watchers: 200,
        followers: 50,
        idle: 1_000,
        lists: [1_000, 10_000],
    };
    const TINY: Self = Self {
        seconds: 2,
        rest: Duration::from_millis(300),
        pages: 30,
        mini_batches: 1_000,
        nodes: 4,
        watchers: 4,
        followers: 3,
        idle: 10,
        lists: [10, 40],
    };
}

/// What was found.
#[derive(Debug, Default)]
struct Figures(Vec<Value>);

impl Figures {
    fn add(&mut self, name: impl Into<String>, value: f64, unit: &str, target: &str) {
        let name = name.into();
        let _ = writeln!(std::io::stderr(), "{name}: {value:.2} {unit}");
        self.0.push(json!({ "name": name, "value": value, "unit": unit, "target": target }));
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["watch", url, watchers] => watch::watch(url, watchers),
        ["--tiny", bin_dir] => measure(bin_dir, Size::TINY),
        [bin_dir] => measure(bin_dir, Size::FULL),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(bin_dir: &str, size: Size) -> Result<(), client::Failed> {
    let mut figures = Figures::default();
    // Programs start in folders of their own.
    loads::measure(&Path::new(bin_dir).canonicalize()?, size, &mut figures)?;
    println!("{}", Value::from(figures.0));
    Ok(())
}
