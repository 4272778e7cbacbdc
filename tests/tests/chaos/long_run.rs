//! A thousand kills: job after job on one fleet, while workers and processes are killed, and servers killed, started
//! again and emptied. After each job the oracle is asked as ever; what was done and seen is told on standard error.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use prs_tests::harness::{Fleet, Random};
use rustix::process::Signal;

use crate::chaos_run::{ChaosJob, ChaosRun, Expected};

/// What one job may take whatever happens to it.
const LONGEST_JOB: Duration = Duration::from_mins(10);
/// What a worker ends with that cannot reach a server when it starts; its supervisor starts it again.
const CANNOT_CONNECT: i32 = 3;

/// Between two starts of workers that ended so.
const START_PAUSE: Duration = Duration::from_millis(300);

/// A server of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    RabbitMq,
    Redis,
    S3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillWorker,
    KillProcess,
    Restart(Server),
    Wipe(Server),
}

/// Everything that is to happen, in the order in which it does: `kills` kills, of which each third is a process's, for
/// each 50 of them a restart of each server, and for each 200 one that finds nothing of what it had.
fn deck(kills: u64, random: &mut Random) -> VecDeque<Fault> {
    let mut deck: Vec<Fault> =
        (0..kills).map(|kill| if kill % 3 == 2 { Fault::KillProcess } else { Fault::KillWorker }).collect();
    for server in [Server::RabbitMq, Server::Redis, Server::S3] {
        deck.extend((0..kills / 50).map(|_| Fault::Restart(server)));
    }
    // What the store had is gone for good.
    for server in [Server::RabbitMq, Server::Redis] {
        deck.extend((0..kills / 200).map(|_| Fault::Wipe(server)));
    }
    for last in (1..deck.len()).rev() {
        deck.swap(last, random.below(last as u64 + 1) as usize);
    }
    deck.into()
}

/// A server that is down.
#[derive(Debug)]
struct Down {
    server: Server,
    until: Instant,
    wiped: bool,
}

impl Down {
    fn kill(fleet: &mut Fleet, server: Server, wiped: bool, random: &mut Random) -> Self {
        match server {
            Server::RabbitMq => {
                // RabbitMQ 3.10 forgets where a queue lies that was made some moments before it is killed: one that many
                // jobs share stays broken.
                fleet.broker.write_out_declarations();
                fleet.broker.kill();
            }
            Server::Redis => fleet.redis.kill(),
            Server::S3 => fleet.s3.kill(),
        }
        Self { server, until: Instant::now() + Duration::from_millis(random.below(4000)), wiped }
    }

    fn end(self, fleet: &mut Fleet) {
        match (self.server, self.wiped) {
            (Server::RabbitMq, true) => fleet.broker.wipe_and_restart(),
            (Server::RabbitMq, false) => fleet.broker.restart(),
            (Server::Redis, true) => fleet.redis.wipe_and_restart(),
            (Server::Redis, false) => fleet.redis.restart(),
            (Server::S3, _) => fleet.s3.restart(),
        }
    }
}

/// What was done and seen so far.
#[derive(Debug, Default)]
struct Tally {
    jobs: u32,
    done: Vec<Fault>,
    not_connected: u32,
    mini_batches: usize,
    tries: usize,
    longest_job: Duration,
    longest_end: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |fault: Fault| self.done.iter().filter(|done| **done == fault).count();
        let restarts =
            [Server::RabbitMq, Server::Redis, Server::S3].map(|server| count(Fault::Restart(server)));
        let wipes = [Server::RabbitMq, Server::Redis].map(|server| count(Fault::Wipe(server)));
        write!(
            f,
            "{} jobs right, {} mini-batches, begun {} times more; killed: {} workers, {} processes; restarted: RabbitMQ {}, \
             Redis {}, S3 {}; wiped: RabbitMQ {}, Redis {}; {} workers started while a server was away; longest job \
             {:.1} s, longest end {:.1} s",
            self.jobs,
            self.mini_batches,
            self.tries - self.mini_batches,
            count(Fault::KillWorker),
            count(Fault::KillProcess),
            restarts[0],
            restarts[1],
            restarts[2],
            wipes[0],
            wipes[1],
            self.not_connected,
            self.longest_job.as_secs_f64(),
            self.longest_end.as_secs_f64(),
        )
    }
}

/// Ends a worker, by `kill -9` or by what it did itself, and starts another one: whether it was killed. One that could not
/// reach a server when it started may have ended.
fn replace(chaos: &mut ChaosRun<'_>, at: usize) -> bool {
    let mut live = chaos.crew.remove(at).live;
    live.signal(Signal::KILL);
    let ended = live.wait();
    assert!(
        matches!(ended.code, None | Some(CANNOT_CONNECT)),
        "a worker ended by itself with {:?}\n{}",
        ended.code,
        ended.stderr
    );
    chaos.hire(&[]);
    let was_killed = ended.code.is_none();
    chaos.kills += u32::from(was_killed);
    was_killed
}

/// Starts again one that could not reach a server when it started; whether there was one.
fn start_again(chaos: &mut ChaosRun<'_>) -> bool {
    let ended = chaos.crew.iter_mut().position(|member| member.live.has_ended());
    ended.is_some_and(|at| !replace(chaos, at))
}

/// Jobs in a row until everything has happened.
pub(crate) fn kills(fleet: &mut Fleet, random: &mut Random, kills: u64) {
    let mut deck = deck(kills, random);
    let mut tally = Tally::default();
    let begin = Instant::now();
    while !deck.is_empty() {
        one_job(fleet, random, &mut deck, &mut tally);
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        let _ = writeln!(std::io::stderr(), "{minutes:.1} min, {} faults to come: {tally}", deck.len());
    }
}

/// A job under the faults of the deck, from its hand-in to its end.
fn one_job(fleet: &mut Fleet, random: &mut Random, deck: &mut VecDeque<Fault>, tally: &mut Tally) {
    // About forty seconds of work for three nodes of two processes when nothing happens.
    let shape = ChaosJob { mini_batches: 1500, pause: 150, nodes: 3, ..ChaosJob::default() };
    let mut chaos = ChaosRun::begin(fleet, shape);
    chaos.patience = LONGEST_JOB;
    chaos.wait_until_handed_in();
    let begin = Instant::now();
    let (mut next, mut next_start) = (begin, begin);
    let mut down: Option<Down> = None;
    chaos.until_ended(|chaos| {
        let now = Instant::now();
        if now >= next_start && start_again(chaos) {
            tally.not_connected += 1;
            next_start = now + START_PAUSE;
        }
        if let Some(down) = down.take_if(|down| now >= down.until) {
            down.end(chaos.fleet);
        }
        if now < next {
            return;
        }
        let Some(fault) = deck.front().copied() else { return };
        match fault {
            Fault::KillWorker => {
                let at = random.below(chaos.crew.len() as u64) as usize;
                if !replace(chaos, at) {
                    tally.not_connected += 1;
                    return;
                }
            }
            // None at the moment: at the next look.
            Fault::KillProcess if !chaos.kill_process(random) => return,
            Fault::KillProcess => {}
            // One at a time.
            Fault::Restart(_) | Fault::Wipe(_) if down.is_some() => return,
            Fault::Restart(server) => down = Some(Down::kill(chaos.fleet, server, false, random)),
            Fault::Wipe(server) => down = Some(Down::kill(chaos.fleet, server, true, random)),
        }
        deck.pop_front();
        tally.done.push(fault);
        next = now + Duration::from_millis(400 + random.below(800));
    });
    let last_begun = chaos.job.path("marks/began").metadata().unwrap().modified().unwrap();
    let end = SystemTime::now().duration_since(last_begun).unwrap_or_default();
    tally.longest_end = tally.longest_end.max(end);
    tally.longest_job = tally.longest_job.max(begin.elapsed());
    if let Some(down) = down {
        down.end(chaos.fleet);
    }
    while start_again(&mut chaos) {
        tally.not_connected += 1;
    }
    let tries = chaos.begun();
    let mini_batches = chaos.shape.mini_batches;
    chaos.ends(&Expected::default());
    tally.jobs += 1;
    tally.mini_batches += mini_batches;
    tally.tries += tries;
}
