//! The S3 server of the tests as a program, for benchmarks and demonstrations that want one beside them:
//!
//! ```text
//! s3-server --folder FOLDER [--port N] [--access-key KEY] [--secret-key SECRET] [--bucket NAME]...
//! ```
//!
//! It says on standard output where it listens, and serves until it is ended.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use prs_tests::harness::servers::Store;
use prs_tests::harness::servers::s3::{S3Server, S3Settings};

const USAGE: &str = "usage: s3-server --folder FOLDER [--port N] [--access-key KEY] [--secret-key SECRET] \
                     [--bucket NAME]...";

#[derive(Default)]
struct Arguments {
    folder: PathBuf,
    settings: S3Settings,
    buckets: Vec<String>,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed = Arguments::default();
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--folder" => parsed.folder = value.into(),
            "--port" => parsed.settings.port = value.parse().ok()?,
            "--access-key" => parsed.settings.access_key = value,
            "--secret-key" => parsed.settings.secret_key = value,
            "--bucket" => parsed.buckets.push(value),
            _ => return None,
        }
    }
    Some(parsed).filter(|parsed| !parsed.folder.as_os_str().is_empty())
}

fn main() -> ExitCode {
    let Some(Arguments { folder, settings, buckets }) = parse(std::env::args().skip(1)) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let server = S3Server::start_in(&folder, settings);
    for bucket in buckets.iter().filter(|bucket| !server.has_bucket(bucket)) {
        server.make_bucket(bucket);
    }
    let _ = writeln!(std::io::stdout(), "listening on {}", server.endpoint());
    loop {
        std::thread::park();
    }
}
