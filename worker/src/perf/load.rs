//! What a node uses at the moment, for its heartbeat: looked at now and then by a thread of its own, so that no heartbeat waits for it.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use prs_common::ledger::NodeLoad;

use super::family::members;
use super::look::gpus;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(5);
/// Until the first one.
const FIRST: Duration = Duration::from_secs(1);

/// Looks at this program and what it started until it is dropped.
#[derive(Debug)]
pub(crate) struct Meter {
    seen: Arc<Mutex<Option<NodeLoad>>>,
    /// Nothing is sent: the thread sees that it is gone.
    _stop_tx: Sender<()>,
}

impl Meter {
    /// Begins to look, also at GPUs where the host has any.
    pub(crate) fn start(has_gpus: bool) -> Self {
        let (stop_tx, stop_rx) = channel();
        let seen = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&seen);
        let looking = move || {
            let nvml = has_gpus.then(|| Nvml::init().ok()).flatten();
            let mut before = Moment::now();
            let mut pause = FIRST;
            while stop_rx.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = INTERVAL;
                let now = Moment::now();
                let load = NodeLoad { gpu_percent: nvml.as_ref().and_then(of_gpus), ..now.since(&before) };
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(load);
                before = now;
            }
        };
        if let Err(error) = thread::Builder::new().name("load".to_owned()).spawn(looking) {
            tracing::warn!(%error, "nobody looks at what the node uses");
        }
        Self { seen, _stop_tx: stop_tx }
    }

    /// What was seen last; nothing at first.
    pub(crate) fn seen(&self) -> Option<NodeLoad> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mean of all GPUs, of the last moments, by the driver.
fn of_gpus(nvml: &Nvml) -> Option<u32> {
    let all = gpus(nvml, nvml.device_count().ok()?);
    let busy: Vec<u32> = all.into_iter().filter_map(|gpu| gpu.percent).collect();
    (!busy.is_empty()).then(|| busy.iter().sum::<u32>() / busy.len() as u32)
}

/// What was used until a moment.
#[derive(Debug)]
struct Moment {
    at: Instant,
    memory: u64,
    /// CPU time of each process, milliseconds.
    cpu_ms: HashMap<u32, u64>,
}

impl Moment {
    fn now() -> Self {
        let (at, members) = (Instant::now(), members());
        Self {
            at,
            memory: members.values().map(|member| member.memory).sum(),
            cpu_ms: members.into_iter().map(|(id, member)| (id, member.cpu_ms)).collect(),
        }
    }

    /// What is used now, and was used since `before`. A process that is new since then has used all of its time since.
    fn since(&self, before: &Self) -> NodeLoad {
        let used = |(id, now): (&u32, &u64)| now.saturating_sub(before.cpu_ms.get(id).copied().unwrap_or(0));
        let used_ms: u64 = self.cpu_ms.iter().map(used).sum();
        let elapsed_ms = (self.at - before.at).as_millis().max(1) as u64;
        NodeLoad { memory: self.memory, cpu_percent: (used_ms * 100 / elapsed_ms) as u32, gpu_percent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_look_before_and_of_the_new_as_a_whole() {
        let at = Instant::now();
        let moment = |seconds, memory, cpu_ms: &[(u32, u64)]| Moment {
            at: at + Duration::from_secs(seconds),
            memory,
            cpu_ms: cpu_ms.iter().copied().collect(),
        };
        let before = moment(0, 5, &[(1, 1_000), (2, 9_000), (4, 500)]);
        let table = [
            (moment(2, 7, &[(1, 3_000), (2, 9_500), (3, 500)]), 150),
            (moment(2, 7, &[]), 0),
            // The id was used again.
            (moment(1, 7, &[(2, 100)]), 0),
            (moment(0, 7, &[]), 0),
        ];
        for (now, cpu_percent) in table {
            let expected = NodeLoad { memory: 7, cpu_percent, gpu_percent: None };
            assert_eq!(now.since(&before), expected, "{now:?}");
        }
    }

    #[test]
    fn a_meter_sees_this_program() {
        let meter = Meter::start(false);
        let deadline = Instant::now() + Duration::from_mins(1);
        let load = loop {
            if let Some(load) = meter.seen() {
                break load;
            }
            assert!(Instant::now() < deadline, "nothing is seen");
            thread::sleep(Duration::from_millis(10));
        };
        assert!(load.memory > 1 << 20 && load.gpu_percent.is_none(), "{load:?}");
    }
}
