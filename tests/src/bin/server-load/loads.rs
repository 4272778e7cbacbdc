//! The loads, one after the other: jobs of this machine, then those of a fleet.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prs_common::layout;
use prs_common::seal;
use prs_tests::harness::{Simulated, SimulatedFleet, Simulation};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::client::{Connection, Failed, events};
use crate::program::Program;
use crate::{Figures, Size};

/// Connections that ask side by side.
const AT_ONCE: usize = 8;
/// Between two parts of a page that is watched.
const TICK: f64 = 1.0;
/// Mini-batches and nodes of a job of which there are many.
const MEDIUM: Simulation = Simulation { mini_batches: 10_000, nodes: 50, is_running: true };
/// Clients that open a stream and read nothing of it.
const SLOW: usize = 50;

/// Measures all of it.
pub(crate) fn measure(bin_dir: &Path, size: Size, figures: &mut Figures) -> Result<(), Failed> {
    let folder = tempfile::Builder::new().prefix("server-load-").tempdir()?;
    let runtime = Runtime::new()?;
    let cost = Simulation { mini_batches: size.mini_batches, nodes: size.nodes, is_running: false };
    let (taken, tries) = cost.time_of_tries();
    figures.add("a try in the statistics", taken.as_secs_f64() * 1e6 / tries as f64, "µs", "< 1");
    here(&runtime, bin_dir, &folder.path().join("here"), size, figures)?;
    for jobs in size.lists {
        lists(&runtime, bin_dir, &folder.path().join(format!("list-{jobs}")), (jobs, size.pages), figures)?;
    }
    on_a_fleet(&runtime, bin_dir, &folder.path().join("fleet"), size, figures)
}

/// Jobs of this machine.
fn here(
    runtime: &Runtime,
    bin_dir: &Path,
    folder: &Path,
    size: Size,
    figures: &mut Figures,
) -> Result<(), Failed> {
    let mut locks = Vec::new();
    for (id, is_running) in [("ended", false), ("running", true)] {
        let run = folder.join("prs-runs").join(id);
        fs::create_dir_all(&run)?;
        Simulation { mini_batches: size.mini_batches, nodes: size.nodes, is_running }.write(id, &run);
        let lock = File::create(run.join(".lock"))?;
        if is_running {
            lock.lock()?;
        }
        locks.push(lock);
    }
    let web = Program::start(bin_dir, folder, &[]).map_err(|error| error.to_string())?;
    for id in ["ended", "running"] {
        let what = format!("this machine, {id} job of {} mini-batches", size.mini_batches);
        statuses(runtime, &web, id, (&what, size.seconds), figures)?;
        page(runtime, web.address, &format!("/jobs/{id}"), (&format!("{what}: page"), size.pages), figures)?;
    }
    Ok(())
}

/// The status of a job, with and without the tag of what the client has.
fn statuses(
    runtime: &Runtime,
    web: &Program,
    id: &str,
    (what, seconds): (&str, u64),
    figures: &mut Figures,
) -> Result<(), Failed> {
    let path = format!("/api/v1/jobs/{id}");
    for has_tag in [false, true] {
        let until = Instant::now() + Duration::from_secs(seconds);
        let meter = web.meter();
        let mut times = runtime.block_on(async {
            let mut loops = JoinSet::new();
            for _ in 0..AT_ONCE {
                loops.spawn(ask_until(web.address, path.clone(), has_tag, until));
            }
            let mut all = Vec::new();
            while let Some(times) = loops.join_next().await {
                all.extend(times??);
            }
            Ok::<_, Failed>(all)
        })?;
        let (name, aim) = if has_tag { ("status by tag", "3000") } else { ("status", ">= 500") };
        figures.add(format!("{what}: {name}"), times.len() as f64 / seconds as f64, "/s", aim);
        figures.add(format!("{what}: {name}, p99"), percentile(&mut times, 0.99), "ms", "< 20");
        figures.add(format!("{what}: {name}, server"), meter.percent(), "% of a core", "");
    }
    Ok(())
}

/// Asks again and again; how long each answer took, ms.
async fn ask_until(
    address: SocketAddr,
    path: String,
    has_tag: bool,
    until: Instant,
) -> Result<Vec<f64>, Failed> {
    let mut connection = Connection::open(address).await?;
    let (mut times, mut tag) = (Vec::new(), String::new());
    while Instant::now() < until {
        let headers = [("if-none-match", tag.as_str())];
        let begun = Instant::now();
        let (status, now, _) = connection.get(&path, if has_tag { &headers } else { &[] }).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        if !matches!(status, 200 | 304) {
            return Err(format!("{path}: {status}").into());
        }
        if has_tag {
            tag = now;
        }
    }
    Ok(times)
}

/// How long a page takes that one client asks for again and again.
fn page(
    runtime: &Runtime,
    address: SocketAddr,
    path: &str,
    (what, pages): (&str, usize),
    figures: &mut Figures,
) -> Result<(), Failed> {
    let mut times = runtime.block_on(async {
        let mut connection = Connection::open(address).await?;
        let mut times = Vec::new();
        for _ in 0..pages {
            let begun = Instant::now();
            let (status, ..) = connection.get(path, &[("accept", "text/html")]).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            if status != 200 {
                return Err(format!("{path}: {status}").into());
            }
        }
        Ok::<_, Failed>(times)
    })?;
    figures.add(format!("{what}, median"), percentile(&mut times, 0.5), "ms", "");
    figures.add(format!("{what}, p99"), percentile(&mut times, 0.99), "ms", "<= 50");
    Ok(())
}

/// Lists of so many jobs.
fn lists(
    runtime: &Runtime,
    bin_dir: &Path,
    folder: &Path,
    (jobs, pages): (u64, usize),
    figures: &mut Figures,
) -> Result<(), Failed> {
    let runs = folder.join("prs-runs");
    let first = runs.join("score-000000");
    fs::create_dir_all(&first)?;
    let few = Simulation { mini_batches: 1_000, nodes: 2, is_running: false };
    let made = few.write("score-000000", &first);
    for at in 1..jobs {
        let mut record = made.record.clone();
        record.job_id = format!("score-{at:06}");
        record.submitted_us -= at * 1_000_000;
        if let Some(result) = &mut record.result {
            result.job_id.clone_from(&record.job_id);
        }
        let run = runs.join(&record.job_id);
        fs::create_dir(&run)?;
        fs::write(run.join(layout::JOB), seal::seal(serde_json::to_string_pretty(&record)?))?;
    }
    let web = Program::start(bin_dir, folder, &[]).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let listed = runtime.block_on(async {
        let mut connection = Connection::open(web.address).await?;
        let (_, _, body) = connection.get("/api/v1/jobs?limit=1", &[]).await?;
        Ok::<Value, Failed>(serde_json::from_slice(&body)?)
    })?;
    if listed["total"] != jobs {
        return Err(format!("{} of {jobs} jobs are listed", listed["total"]).into());
    }
    figures.add(format!("{jobs} jobs: first list"), begun.elapsed().as_secs_f64() * 1e3, "ms", "");
    for (what, path) in [
        ("list", "/api/v1/jobs?limit=50"),
        ("filtered", "/api/v1/jobs?q=score-0001&state=completed&limit=50"),
        ("page", "/jobs"),
    ] {
        page(runtime, web.address, path, (&format!("{jobs} jobs: {what}"), pages), figures)?;
    }
    figures.add(format!("{jobs} jobs: memory"), web.megabytes(), "MB", "");
    Ok(())
}

/// A job of a fleet that goes on while it is looked at.
struct Running {
    id: String,
    fence: u64,
}

/// Publishes what the orchestrators of jobs say, once a second.
struct Orchestrators {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Orchestrators {
    /// Of jobs that all stand where `made` stands, which says in the ledger what its nodes are.
    fn start(fleet: &Arc<SimulatedFleet>, mut made: Simulated, jobs: Vec<Running>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (fleet, is_over) = (Arc::clone(fleet), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                made.goes_on();
                let parts: Vec<(&str, Bytes)> =
                    made.parts().into_iter().map(|(name, part)| (name, part.into())).collect();
                for job in &jobs {
                    fleet.publish(&job.id, &parts, job.fence).expect("Redis answers");
                }
                fleet.hear_nodes(&made).expect("Redis answers");
                std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Orchestrators {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn on_a_fleet(
    runtime: &Runtime,
    bin_dir: &Path,
    folder: &Path,
    size: Size,
    figures: &mut Figures,
) -> Result<(), Failed> {
    let fleet = Arc::new(SimulatedFleet::start());
    let long = Simulation { mini_batches: size.mini_batches, nodes: size.nodes, is_running: true };
    let run = folder.join("long");
    fs::create_dir_all(&run)?;
    let mut made = long.write("long", &run);
    let printed = run.join("logs/user/stdout/0");
    fs::create_dir_all(&printed)?;
    fs::write(printed.join("process000.txt"), "a line of a log\n".repeat(100_000))?;
    fleet.bring("long", &run);
    let jobs = vec![Running { id: "long".to_owned(), fence: fleet.enter(&made) }];
    made.goes_on();
    let web = Program::start(bin_dir, folder, &fleet.variables()).map_err(|error| error.to_string())?;
    {
        let _said = Orchestrators::start(&fleet, made, jobs);
        let what =
            format!("fleet, running job of {} mini-batches on {} nodes", size.mini_batches, size.nodes);
        statuses(runtime, &web, "long", (&what, size.seconds), figures)?;
        page(runtime, web.address, "/jobs/long", (&format!("{what}: page"), size.pages), figures)?;
        let one = vec!["long".to_owned(); size.watchers];
        watchers(runtime, &web, &one, (&format!("{} watchers of 1 job", size.watchers), size), figures)?;
        slow_readers(&web, size, figures)?;
        followers(runtime, &web, size, figures)?;
        idle(runtime, &web, size, figures)?;
    }
    let run = folder.join("many-0");
    fs::create_dir_all(&run)?;
    let mut made = MEDIUM.write("many-0", &run);
    let mut jobs = Vec::new();
    for at in 0..size.watchers {
        made.record.job_id = format!("many-{at}");
        let body = seal::seal(serde_json::to_string_pretty(&made.record)?);
        fs::write(run.join(layout::JOB), body)?;
        fleet.bring(&made.record.job_id, &run);
        jobs.push(Running { id: made.record.job_id.clone(), fence: fleet.enter(&made) });
    }
    let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
    let _said = Orchestrators::start(&fleet, made, jobs);
    let what = format!("{} watchers of {} jobs", size.watchers, size.watchers);
    watchers(runtime, &web, &ids, (&what, size), figures)
}

/// One watcher for each of these jobs, of which one may stand there several times.
fn watchers(
    runtime: &Runtime,
    web: &Program,
    jobs: &[String],
    (what, size): (&str, Size),
    figures: &mut Figures,
) -> Result<(), Failed> {
    std::thread::sleep(size.rest);
    let before = web.megabytes();
    // The first seconds are those in which all come.
    let counted = Instant::now() + size.rest;
    let until = counted + Duration::from_secs(2 * size.seconds);
    let came = runtime.block_on(async {
        let mut streams = JoinSet::new();
        for id in jobs {
            streams.spawn(events(web.address, format!("/jobs/{id}/live"), "parts", until));
        }
        tokio::time::sleep_until(counted.into()).await;
        let meter = web.meter();
        let mut came = Vec::new();
        let last_look = counted + Duration::from_millis(2_000 * size.seconds - 200);
        tokio::time::sleep_until(last_look.into()).await;
        let (percent, megabytes) = (meter.percent(), web.megabytes());
        while let Some(times) = streams.join_next().await {
            came.push(times??);
        }
        figures.add(format!("{what}: server"), percent, "% of a core", "< 30");
        figures.add(format!("{what}: memory beside"), megabytes - before, "MB", "< 200");
        Ok::<_, Failed>(came)
    })?;
    let mut late = Vec::new();
    for times in &came {
        let times: Vec<&Instant> = times.iter().filter(|at| **at >= counted).collect();
        late.extend(times.windows(2).map(|two| {
            let gap = two[1].duration_since(*two[0]).as_secs_f64();
            (gap - TICK).abs() * 1e3
        }));
    }
    let wanted = came.len() as f64 * 2.0 * size.seconds as f64;
    figures.add(format!("{what}: parts that came"), late.len() as f64 / wanted * 100.0, "% of seconds", "");
    figures.add(format!("{what}: off the second, p99"), percentile(&mut late, 0.99), "ms", "<= 200");
    figures.add(format!("{what}: off the second, most"), percentile(&mut late, 1.0), "ms", "");
    Ok(())
}

/// Clients that open a stream of a job and take nothing of it.
fn slow_readers(web: &Program, size: Size, figures: &mut Figures) -> Result<(), Failed> {
    std::thread::sleep(size.rest);
    let before = web.megabytes();
    let mut streams = Vec::new();
    for _ in 0..SLOW {
        let mut stream = TcpStream::connect(web.address)?;
        let request = format!("GET /jobs/long/live HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
        stream.write_all(request.as_bytes())?;
        // It has begun.
        stream.read_exact(&mut [0; 15])?;
        streams.push(stream);
    }
    std::thread::sleep(4 * size.rest);
    let each = (web.megabytes() - before) / SLOW as f64;
    figures.add(format!("{SLOW} slow readers: memory of each"), each, "MB", "< 1");
    Ok(())
}

/// Clients that ask for what is new of a log, once a second each.
fn followers(runtime: &Runtime, web: &Program, size: Size, figures: &mut Figures) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(size.seconds);
    let meter = web.meter();
    let mut times = runtime.block_on(async {
        let mut loops = JoinSet::new();
        for at in 0..size.followers {
            let address = web.address;
            loops.spawn(async move {
                tokio::time::sleep(Duration::from_millis(at as u64 * 20)).await;
                let mut connection = Connection::open(address).await?;
                let mut times = Vec::new();
                while Instant::now() < until {
                    let begun = Instant::now();
                    let path = "/api/v1/jobs/long/logs/user/stdout/0/process000.txt";
                    let (status, ..) = connection.get(path, &[("range", "bytes=1500000-")]).await?;
                    if status != 206 {
                        return Err(format!("{path}: {status}").into());
                    }
                    times.push(begun.elapsed().as_secs_f64() * 1e3);
                    tokio::time::sleep_until((begun + Duration::from_secs(1)).into()).await;
                }
                Ok::<_, Failed>(times)
            });
        }
        let mut all = Vec::new();
        while let Some(times) = loops.join_next().await {
            all.extend(times??);
        }
        Ok::<_, Failed>(all)
    })?;
    let what = format!("{} followers of a log", size.followers);
    figures.add(format!("{what}: server"), meter.percent(), "% of a core", "");
    figures.add(format!("{what}: p99"), percentile(&mut times, 0.99), "ms", "");
    Ok(())
}

/// Clients that asked once and stay connected.
fn idle(runtime: &Runtime, web: &Program, size: Size, figures: &mut Figures) -> Result<(), Failed> {
    std::thread::sleep(size.rest);
    let before = web.megabytes();
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..size.idle {
            let mut connection = Connection::open(web.address).await?;
            connection.get("/livez", &[]).await?;
            connections.push(connection);
        }
        let meter = web.meter();
        tokio::time::sleep(2 * size.rest).await;
        let what = format!("{} idle connections", size.idle);
        figures.add(
            format!("{what}: memory of each"),
            (web.megabytes() - before) * 1e3 / size.idle as f64,
            "KB",
            "",
        );
        figures.add(format!("{what}: server, with what it does anyhow"), meter.percent(), "% of a core", "");
        Ok::<_, Failed>(())
    })
}

/// The value below which this share of the values lies.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}
