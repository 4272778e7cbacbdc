//! The outbox over a pair of sockets: what is written, and when. The rest of a process is tested from Python, over
//! the same wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it needs by path")]

#[path = "../src/outbox.rs"]
mod outbox;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use outbox::{MAX_ROWS, Outbox};
use prs_common::process_page::monotonic_ns;
use prs_common::segment::Printed;
use prs_common::source_line::SourceLine;
use prs_common::wire::{ErrorInfo, Frames, FromProcess, Outcome, Stage};

fn pair() -> (Arc<Outbox>, Agent) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    (Arc::new(Outbox::new(Arc::new(ours))), Agent { socket: theirs, frames: Frames::default() })
}

fn add(outbox: &Outbox, outcome: Outcome, rows: &[u8]) -> bool {
    outbox.add(outcome, &mut rows.to_vec(), false, monotonic_ns(), &std::thread::current())
}

fn numbered(seq: u32) -> Outcome {
    Outcome { seq, items: 10, returned: 1 << 40, ..Outcome::default() }
}

/// Reads frames, as an agent does.
struct Agent {
    socket: UnixStream,
    frames: Frames,
}

impl Agent {
    /// The next message, and the rows behind it.
    fn message(&mut self) -> (FromProcess, Bytes) {
        let mut piece = vec![0; 4096];
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return frame.decode().unwrap();
            }
            let read = self.socket.read(&mut piece).unwrap();
            assert!(read > 0, "the stream ends");
            self.frames.buffer().extend_from_slice(&piece[..read]);
        }
    }

    fn outcomes(&mut self) -> (Vec<Outcome>, Bytes) {
        match self.message() {
            (FromProcess::Outcomes(outcomes), rows) => (outcomes, rows),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_field_arrives_and_many_outcomes_share_a_frame() {
    let (outbox, mut agent) = pair();
    let error = ErrorInfo {
        stage: Stage::Run,
        category: "ValueError".into(),
        message: "bad".into(),
        traceback: "File ...".into(),
        frame: Some(Box::new(SourceLine {
            file: "/code/x.py".into(),
            line: 3,
            function: "run".into(),
            text: "raise".into(),
        })),
    };
    let full = Outcome {
        seq: 1,
        items: 2,
        returned: 3,
        rows: 4,
        header: Some("a b\n".into()),
        files: vec!["x".into(), "y/z".into()],
        started_us: u64::MAX,
        elapsed_us: 5,
        cpu_us: 6,
        run_us: 7,
        load_us: 8,
        error: Some(error),
        contents: None,
        printed: Some(Printed { stdout: (9, 10), stderr: (11, 12) }),
    };
    add(&outbox, Outcome { rows: 0, ..full.clone() }, b"row\n");
    add(&outbox, numbered(2), b"");
    outbox.flush().unwrap();
    let (outcomes, rows) = agent.outcomes();
    assert_eq!((outcomes, &rows[..]), (vec![full, numbered(2)], &b"row\n"[..]));
}

#[test]
fn rows_of_every_length_arrive_whole_and_in_order() {
    let (outbox, mut agent) = pair();
    let lengths = [0, 1, 255, 256, 65_535, 65_536, 3_000_000, 7];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (seq, &length) in (0..).zip(&lengths) {
                add(&outbox, numbered(seq), &vec![seq as u8; length]);
            }
            outbox.send(&FromProcess::Skipped(vec![9])).unwrap();
        });
        let (outcomes, mut rows) = agent.outcomes();
        assert_eq!(outcomes.len(), lengths.len());
        for (outcome, (seq, &length)) in outcomes.iter().zip((0..).zip(&lengths)) {
            assert_eq!((outcome.seq, outcome.rows as usize), (seq, length));
            assert!(rows.split_to(length).iter().all(|&byte| u32::from(byte) == seq));
        }
        assert_eq!(agent.message(), (FromProcess::Skipped(vec![9]), Bytes::new()));
    });
}

#[test]
fn the_caller_writes_what_is_much_or_last_and_nothing_else() {
    let (outbox, mut agent) = pair();
    assert!(!add(&outbox, numbered(1), b"x"));
    assert!(add(&outbox, numbered(2), &vec![b'x'; 130 * 1024]));
    std::thread::scope(|scope| {
        scope.spawn(|| outbox.flush().unwrap());
        assert_eq!(agent.outcomes().0.len(), 2);
    });
    let flusher = std::thread::current();
    assert!(outbox.add(numbered(3), &mut vec![], true, monotonic_ns(), &flusher));
    assert!(!outbox.is_too_full_for(1000));
    assert!(outbox.is_too_full_for(MAX_ROWS));
    outbox.flush().unwrap();
    assert!(!outbox.is_too_full_for(MAX_ROWS), "an empty frame takes any rows");
}

#[test]
fn the_flusher_writes_what_the_caller_leaves() {
    let (outbox, mut agent) = pair();
    let handle = std::thread::spawn({
        let outbox = Arc::clone(&outbox);
        move || outbox.keep_flushing()
    });
    // Also after it went to sleep for good.
    for seq in 0..3 {
        let since = Instant::now();
        outbox.add(numbered(seq), &mut b"x".to_vec(), false, monotonic_ns(), handle.thread());
        assert_eq!(agent.outcomes().0[0].seq, seq);
        assert!(since.elapsed() >= Duration::from_millis(9), "it waits for more to come");
        std::thread::sleep(Duration::from_millis(30));
    }
    outbox.close(handle.thread());
    handle.join().unwrap();
    drop(outbox);
    assert_eq!(agent.socket.read(&mut [0]).unwrap(), 0);
}
