//! The process page: a few words of memory that an agent and one of its processes share.
//!
//! It tells, without a message, which mini-batch a process is running and since when, and it survives the
//! process: after a crash the agent knows exactly which mini-batch to blame. It also lets the agent take back
//! mini-batches that were handed over and not started. One side is the agent, the other the process; every word is an
//! atomic, so neither ever waits for the other.
//!
//! A process that has several mini-batches under way at once (an `async def run`, a streaming script) has a *lane* for
//! each: two words behind the others. It also says which mini-batch has its main thread at the moment, and that the thread
//! still goes round: that tells who hangs, and who only waits for it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};

/// Bytes of the page in front of its lanes.
const SIZE: usize = 64;
const CLAIM: usize = 0;
const PHASE: usize = 1;
const ITEMS: usize = 2;
const STEP: usize = 3;
const STEP_SINCE: usize = 4;
const SIGN_OF_LIFE: usize = 5;
const STDOUT: usize = 6;
const STDERR: usize = 7;
/// The first word of the first lane.
const FIRST_LANE: usize = SIZE / size_of::<u64>();
/// Words of a lane.
const LANE_WORDS: usize = 2;

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The interpreter starts.
    Starting,
    /// Importing the script and `init()`.
    Init,
    /// Waiting for work.
    Idle,
    /// Reading the data of the claimed mini-batch.
    Loading,
    /// Inside `run()`, or turning its result into rows.
    Running,
    /// `shutdown()`.
    Shutdown,
}

const PHASES: [Phase; 6] =
    [Phase::Starting, Phase::Init, Phase::Idle, Phase::Loading, Phase::Running, Phase::Shutdown];

/// The shared words.
pub struct ProcessPage {
    map: MmapRaw,
    descriptor: OwnedFd,
    lanes: usize,
}

impl std::fmt::Debug for ProcessPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessPage").field("claim", &self.claim()).field("phase", &self.phase()).finish()
    }
}

/// Which mini-batches of a process are whose: up to `started` the process has begun them, up to `limit` it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Highest `seq` the process may start.
    pub limit: u32,
    /// Highest `seq` the process has started.
    pub started: u32,
}

impl Claim {
    fn pack(self) -> u64 {
        u64::from(self.limit) << 32 | u64::from(self.started)
    }

    fn unpack(word: u64) -> Self {
        Self { limit: (word >> 32) as u32, started: word as u32 }
    }
}

/// A mini-batch that a process has under way in one of its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// Which assignment.
    pub seq: u32,
    /// `Loading` or `Running`.
    pub phase: Phase,
    /// Since when, nanoseconds of [`monotonic_ns`].
    pub since_ns: u64,
    /// Its input items, 0 where they are not known.
    pub items: u64,
}

impl ProcessPage {
    /// Makes a page with so many lanes; its descriptor is closed on exec unless it is passed on.
    ///
    /// Its size is sealed: a script that cuts off what it finds among its descriptors would otherwise end the agent, at
    /// its next look at the page.
    pub fn create(lanes: usize) -> std::io::Result<Self> {
        let descriptor = memfd_create("prs-process-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fchmod(&descriptor, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&descriptor, (SIZE + lanes * LANE_WORDS * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::open(descriptor)
    }

    /// Opens the page behind an inherited descriptor.
    pub fn open(descriptor: OwnedFd) -> std::io::Result<Self> {
        let file = File::from(descriptor);
        let bytes = file.metadata()?.len() as usize;
        let Some(behind) = bytes.checked_sub(SIZE) else {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "not a process page"));
        };
        let map = MmapRaw::map_raw(&file)?;
        let lanes = behind / (LANE_WORDS * size_of::<u64>());
        Ok(Self { map, descriptor: file.into(), lanes })
    }

    /// The descriptor, to be inherited by the process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    #[expect(unsafe_code, reason = "the words live in memory shared with another process")]
    #[expect(clippy::cast_ptr_alignment, reason = "a map starts at a page boundary")]
    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < FIRST_LANE + self.lanes * LANE_WORDS);
        // SAFETY: the map is page-aligned, long enough for SIZE and the lanes, mapped read-write for as long as `self`
        // lives, and both processes reach these words through atomics only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }

    /// Agent: the process may start everything up to `limit`.
    pub fn grant(&self, limit: u32) {
        let _ = self.word(CLAIM).fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let claim = Claim::unpack(word);
            Some(Claim { limit: limit.max(claim.started), ..claim }.pack())
        });
    }

    /// Agent: takes back whatever the process has not started; returns the highest `seq` it did start.
    pub fn recall(&self) -> u32 {
        let update = |word| {
            let started = Claim::unpack(word).started;
            Some(Claim { limit: started, started }.pack())
        };
        match self.word(CLAIM).fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            Ok(word) | Err(word) => Claim::unpack(word).started,
        }
    }

    /// Process: starts `seq`, the one after the last started; false when it was taken back.
    pub fn start(&self, seq: u32) -> bool {
        self.word(CLAIM)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let claim = Claim::unpack(word);
                (seq <= claim.limit && seq > claim.started).then(|| Claim { started: seq, ..claim }.pack())
            })
            .is_ok()
    }

    /// The state of the claims.
    pub fn claim(&self) -> Claim {
        Claim::unpack(self.word(CLAIM).load(Ordering::Acquire))
    }

    /// Process: enters `phase` at `now_ns` (see [`monotonic_ns`]).
    pub fn enter(&self, phase: Phase, now_ns: u64) {
        self.word(PHASE).store(now_ns << 3 | phase as u64, Ordering::Release);
    }

    /// What the process is doing, and since when (nanoseconds of [`monotonic_ns`]; 0 before its first word).
    pub fn phase(&self) -> (Phase, u64) {
        let word = self.word(PHASE).load(Ordering::Acquire);
        (PHASES.get((word & 7) as usize).copied().unwrap_or(Phase::Starting), word >> 3)
    }

    /// Process: the current mini-batch has this many input items.
    pub fn set_items(&self, items: u64) {
        self.word(ITEMS).store(items, Ordering::Release);
    }

    /// Input items of the mini-batch that was started last.
    pub fn items(&self) -> u64 {
        self.word(ITEMS).load(Ordering::Acquire)
    }

    /// Process: the files that it prints to, standard output and standard error, were so long when its last try ended.
    pub fn set_printed(&self, (stdout, stderr): (u64, u64)) {
        self.word(STDOUT).store(stdout, Ordering::Release);
        self.word(STDERR).store(stderr, Ordering::Release);
    }

    /// How long these were, bytes; 0 before it has said so.
    pub fn printed(&self) -> (u64, u64) {
        (self.word(STDOUT).load(Ordering::Acquire), self.word(STDERR).load(Ordering::Acquire))
    }

    /// How many lanes it has.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The words of a lane; nothing beyond the last one.
    fn lane(&self, lane: usize) -> Option<(&AtomicU64, &AtomicU64)> {
        let first = FIRST_LANE + lane * LANE_WORDS;
        (lane < self.lanes).then(|| (self.word(first), self.word(first + 1)))
    }

    /// Process: `seq` takes a lane.
    pub fn begin_lane(&self, lane: usize, seq: u32, now_ns: u64) {
        if let Some((which, phase)) = self.lane(lane) {
            which.store(u64::from(seq) << 32, Ordering::Release);
            phase.store(now_ns << 3 | Phase::Loading as u64, Ordering::Release);
        }
    }

    /// Process: what has the lane enters `Running`, and has this many input items.
    pub fn run_lane(&self, lane: usize, seq: u32, items: u64, now_ns: u64) {
        if let Some((which, phase)) = self.lane(lane) {
            which.store(u64::from(seq) << 32 | items.min(u64::from(u32::MAX)), Ordering::Release);
            phase.store(now_ns << 3 | Phase::Running as u64, Ordering::Release);
        }
    }

    /// Process: nothing has the lane.
    pub fn end_lane(&self, lane: usize) {
        if let Some((_, phase)) = self.lane(lane) {
            phase.store(Phase::Idle as u64, Ordering::Release);
        }
    }

    /// What is under way in the lanes.
    pub fn in_flight(&self) -> Vec<InFlight> {
        let lanes = (0..self.lanes).filter_map(|lane| self.lane(lane));
        let used = lanes.filter_map(|(which, phase)| {
            let before = phase.load(Ordering::Acquire);
            let named = which.load(Ordering::Acquire);
            // One that changes hands is looked at next time.
            if before != phase.load(Ordering::Acquire) {
                return None;
            }
            let phase = *PHASES.get((before & 7) as usize)?;
            let (seq, items) = ((named >> 32) as u32, named & u64::from(u32::MAX));
            matches!(phase, Phase::Loading | Phase::Running).then_some(InFlight {
                seq,
                phase,
                since_ns: before >> 3,
                items,
            })
        });
        used.collect()
    }

    /// Process: `seq` has its main thread from now on.
    pub fn begin_step(&self, seq: u32, now_ns: u64) {
        self.word(STEP_SINCE).store(now_ns, Ordering::Release);
        self.word(STEP).store(u64::from(seq), Ordering::Release);
    }

    /// Process: nobody has its main thread.
    pub fn end_step(&self) {
        self.word(STEP).store(0, Ordering::Release);
    }

    /// Which mini-batch has the main thread of the process, and since when.
    pub fn step(&self) -> Option<(u32, u64)> {
        let seq = self.word(STEP).load(Ordering::Acquire);
        let since_ns = self.word(STEP_SINCE).load(Ordering::Acquire);
        (seq != 0 && seq == self.word(STEP).load(Ordering::Acquire)).then_some((seq as u32, since_ns))
    }

    /// Process: its main thread goes round.
    pub fn show_life(&self, now_ns: u64) {
        self.word(SIGN_OF_LIFE).store(now_ns, Ordering::Release);
    }

    /// When the main thread last went round, nanoseconds of [`monotonic_ns`]; 0 where it never did.
    pub fn last_sign_of_life(&self) -> u64 {
        self.word(SIGN_OF_LIFE).load(Ordering::Acquire)
    }
}

/// Nanoseconds of the clock both sides share (`CLOCK_MONOTONIC`).
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mini_batch_is_either_started_or_taken_back() {
        let page = ProcessPage::create(0).unwrap();
        let other = ProcessPage::open(page.descriptor().try_clone_to_owned().unwrap()).unwrap();
        assert!(!other.start(1), "nothing was granted");
        page.grant(3);
        assert!(other.start(1));
        assert_eq!(page.claim(), Claim { limit: 3, started: 1 });
        assert_eq!(page.recall(), 1);
        assert!(!other.start(2), "it was taken back");
        page.grant(4);
        assert!(other.start(4));
        other.enter(Phase::Running, 77);
        other.set_items(5);
        assert_eq!((page.phase(), page.items()), ((Phase::Running, 77), 5));
    }

    #[test]
    fn lanes_tell_what_is_under_way() {
        let page = ProcessPage::create(2).unwrap();
        let process = ProcessPage::open(page.descriptor().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((process.lanes(), page.in_flight()), (2, Vec::new()));
        process.begin_lane(1, 7, 100);
        process.begin_lane(0, 8, 110);
        process.run_lane(1, 7, 5, 120);
        process.begin_lane(2, 9, 130);
        let expected = [
            InFlight { seq: 8, phase: Phase::Loading, since_ns: 110, items: 0 },
            InFlight { seq: 7, phase: Phase::Running, since_ns: 120, items: 5 },
        ];
        assert_eq!(page.in_flight(), expected, "there is no third lane");
        process.end_lane(0);
        process.end_lane(1);
        assert_eq!(page.in_flight(), []);
        assert_eq!(page.step(), None);
        process.begin_step(7, 200);
        process.show_life(210);
        assert_eq!((page.step(), page.last_sign_of_life()), (Some((7, 200)), 210));
        process.end_step();
        assert_eq!(page.step(), None);
    }

    #[test]
    fn a_page_cannot_be_cut_off_under_its_other_side() {
        let page = ProcessPage::create(0).unwrap();
        let inherited = File::from(page.descriptor().try_clone_to_owned().unwrap());
        for size in [0, 1 << 20] {
            let refused = inherited.set_len(size).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{size}");
        }
        assert!(fcntl_add_seals(&inherited, SealFlags::WRITE).is_err());
        let mode = rustix::fs::fstat(&inherited).unwrap().st_mode;
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(page.claim(), Claim { limit: 0, started: 0 });
    }

    #[test]
    fn recall_races_with_start_and_one_of_them_wins() {
        let page = ProcessPage::create(0).unwrap();
        let limit = 100_000;
        page.grant(limit);
        let started = std::thread::scope(|scope| {
            let process = scope.spawn(|| (1..=limit).take_while(|&seq| page.start(seq)).count() as u32);
            std::thread::yield_now();
            let recalled = page.recall();
            assert_eq!(process.join().unwrap(), recalled);
            recalled
        });
        assert_eq!(page.claim(), Claim { limit: started, started });
    }
}
