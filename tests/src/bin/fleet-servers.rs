//! The three servers of a fleet, for as long as standard input is open: to try things out, and for benchmarks.
//!
//! ```text
//! fleet-servers [--bucket NAME=FOLDER]... [--far S3,OTHERS]
//! ```
//!
//! A bucket of that name is made with the files of the folder as `objects/FILE`. Prints the variables that programs need as
//! `export NAME='VALUE'`, then `ready`. With `--far` there is a second way to the servers, on which a question and its answer
//! take so many milliseconds longer, those of S3 and those of the others: its variables are called `FAR_NAME`.
//!
//! From then on each line of standard input is a call of `rabbitmqctl`: what it prints, then `ready` again. Everything is in
//! temporary folders and gone afterwards.

#![expect(clippy::unwrap_used, reason = "servers that cannot be started are the end of it")]
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use prs_tests::harness::Fleet;
use prs_tests::harness::servers::Store;
use prs_tests::harness::servers::proxy::TcpProxy;

const USAGE: &str = "usage: fleet-servers [--bucket NAME=FOLDER]... [--far S3_MS,OTHERS_MS]";

#[derive(Default)]
struct Arguments {
    /// Name and folder of each.
    buckets: Vec<(String, String)>,
    /// How much longer a question to S3 and its answer take, and one to the others.
    far: Option<(Duration, Duration)>,
}

/// Nothing when the arguments are not understood.
fn parse(arguments: impl IntoIterator<Item = String>) -> Option<Arguments> {
    let mut arguments = arguments.into_iter();
    let mut parsed = Arguments::default();
    while let Some(option) = arguments.next() {
        let value = arguments.next()?;
        match option.as_str() {
            "--bucket" => {
                let (name, folder) = value.split_once('=')?;
                parsed.buckets.push((name.to_owned(), folder.to_owned()));
            }
            "--far" => {
                let (s3, others) = value.split_once(',')?;
                let time = |text: &str| text.parse().ok().map(Duration::from_millis);
                parsed.far = Some((time(s3)?, time(others)?));
            }
            _ => return None,
        }
    }
    Some(parsed)
}

/// Opens the second way to the servers. It is there as long as the proxies.
fn far(fleet: &Fleet, (s3, others): (Duration, Duration)) -> Vec<(TcpProxy, (String, String))> {
    let ways = [
        ("PRS_BROKER_URL", fleet.broker.port(), others),
        ("PRS_REDIS_URL", fleet.redis.port(), others),
        ("AWS_ENDPOINT_URL_S3", fleet.s3.address().port(), s3),
    ];
    let variables = fleet.variables();
    let way = |(name, port, longer): (&str, u16, Duration)| {
        let proxy = TcpProxy::start_with(&[SocketAddr::from((Ipv4Addr::LOCALHOST, port))], longer / 2);
        let (_, near) = variables.iter().find(|(known, _)| known == name).expect("a variable of a fleet");
        let url = near.replace(&format!(":{port}"), &format!(":{}", proxy.address().port()));
        (proxy, (format!("FAR_{name}"), url))
    };
    ways.into_iter().map(way).collect()
}

fn fill(s3: &dyn Store, bucket: &str, folder: &Path) {
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
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let fleet = Fleet::start();
    for (name, folder) in &arguments.buckets {
        fill(&*fleet.s3, name, Path::new(folder));
    }
    let far = arguments.far.map(|longer| far(&fleet, longer)).unwrap_or_default();
    for (name, value) in fleet.variables().iter().chain(far.iter().map(|(_, variable)| variable)) {
        println!("export {name}='{value}'");
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let printed = fleet.broker.control(&line.split_whitespace().collect::<Vec<_>>());
        println!("{}\nready", printed.trim_end());
    }
    ExitCode::SUCCESS
}
