//! The three servers of a fleet, for as long as standard input is open: to try things out, and for benchmarks.
//!
//! ```text
//! fleet-servers [--bucket NAME=FOLDER]...
//! ```
//!
//! A bucket of that name is made with the files of the folder as `objects/FILE`. Prints the variables that programs need as
//! `export NAME='VALUE'`, then `ready`. Everything is in temporary folders and gone afterwards.

#![expect(clippy::unwrap_used, reason = "servers that cannot be started are the end of it")]
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use prs_tests::harness::Fleet;
use prs_tests::harness::servers::s3::S3Server;

/// Name and folder of each bucket; nothing when the arguments are not understood.
fn buckets(arguments: impl IntoIterator<Item = String>) -> Option<Vec<(String, String)>> {
    let mut arguments = arguments.into_iter();
    let mut buckets = Vec::new();
    while let Some(option) = arguments.next() {
        let bucket = arguments.next().filter(|_| option == "--bucket")?;
        let (name, folder) = bucket.split_once('=')?;
        buckets.push((name.to_owned(), folder.to_owned()));
    }
    Some(buckets)
}

fn fill(s3: &S3Server, bucket: &str, folder: &Path) {
    s3.make_bucket(bucket);
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            s3.put_object(bucket, &format!("objects/{name}"), &std::fs::read(&path).unwrap());
        }
    }
}

fn main() -> ExitCode {
    let Some(buckets) = buckets(std::env::args().skip(1)) else {
        let _ = writeln!(std::io::stderr(), "usage: fleet-servers [--bucket NAME=FOLDER]...");
        return ExitCode::from(2);
    };
    let fleet = Fleet::start();
    for (name, folder) in &buckets {
        fill(&fleet.s3, name, Path::new(folder));
    }
    for (name, value) in fleet.variables() {
        println!("export {name}='{value}'");
    }
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
