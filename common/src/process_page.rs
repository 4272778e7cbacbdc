//! The process page: a few words of memory that an agent and one of its processes share.
//!
//! It tells, without a message, which mini-batch a process is running and since when, and it survives the
//! process: after a crash the agent knows exactly which mini-batch to blame. It also lets the agent take back
//! mini-batches that were handed over and not started. One side is the agent, the other one thread of the
//! process; every word is an atomic, so neither ever waits for the other.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};

/// Bytes of the page.
const SIZE: usize = 64;
const CLAIM: usize = 0;
const PHASE: usize = 1;
const ITEMS: usize = 2;

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

impl ProcessPage {
    /// Makes a page; its descriptor is closed on exec unless it is passed on.
    ///
    /// Its size is sealed: a script that cuts off what it finds among its descriptors would otherwise end the agent, at
    /// its next look at the page.
    pub fn create() -> std::io::Result<Self> {
        let descriptor = memfd_create("prs-process-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fchmod(&descriptor, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&descriptor, SIZE as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::open(descriptor)
    }

    /// Opens the page behind an inherited descriptor.
    pub fn open(descriptor: OwnedFd) -> std::io::Result<Self> {
        let file = File::from(descriptor);
        if file.metadata()?.len() < SIZE as u64 {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "not a process page"));
        }
        let map = MmapRaw::map_raw(&file)?;
        Ok(Self { map, descriptor: file.into() })
    }

    /// The descriptor, to be inherited by the process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    #[expect(unsafe_code, reason = "the words live in memory shared with another process")]
    #[expect(clippy::cast_ptr_alignment, reason = "a map starts at a page boundary")]
    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!((index + 1) * size_of::<AtomicU64>() <= SIZE);
        // SAFETY: the map is page-aligned, at least SIZE long, mapped read-write for as long as `self`
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
        let page = ProcessPage::create().unwrap();
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
    fn a_page_cannot_be_cut_off_under_its_other_side() {
        let page = ProcessPage::create().unwrap();
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
        let page = ProcessPage::create().unwrap();
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
