//! Frames on the socket between an agent and a process.

use std::fmt::Debug;

use prs_common::segment::Printed;
use prs_common::source_line::SourceLine;
use prs_common::wire::{
    Assignment, ErrorInfo, Frame, Frames as Stream, FromProcess, MAX_FRAME, Message, Outcome, Stage,
    ToProcess, encode,
};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;

/// A stream of frames, given in pieces.
pub(crate) struct Frames;

/// Most memory for a frame that is not there yet, beside what is there, bytes.
const AHEAD: usize = 4 << 20;

/// The frames of `stream`, which comes in pieces of `most` bytes, and how it ends.
fn read(stream: &[u8], most: usize) -> (Vec<Frame>, &'static str) {
    let (mut reader, mut frames) = (Stream::default(), Vec::new());
    for piece in stream.chunks(most) {
        reader.buffer().extend_from_slice(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, "refused"),
            }
        }
        assert!(reader.buffer().capacity() <= stream.len() * 2 + AHEAD);
    }
    (frames, if reader.buffer().is_empty() { "whole" } else { "torn" })
}

impl Target for Frames {
    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let mut stream = Vec::new();
        let count = 1 + random.below(4);
        for _ in 0..count {
            stream.extend(frame(random));
        }
        let (frames, end) = read(&stream, 1 + random.below(40) as usize);
        assert_eq!((frames.len() as u64, end), (count, "whole"));
        for frame in frames {
            let said = frame.clone().decode::<FromProcess>().is_ok();
            assert_ne!(said, frame.decode::<ToProcess>().is_ok(), "one of the two says it");
        }
        stream
    }

    /// The lengths of the first frame, to what there is.
    fn mend(&mut self, input: &mut Vec<u8>, random: &mut Random) {
        if random.below(3) > 0 && input.len() >= 8 {
            let all = (input.len() - 8) as u64;
            let told = u32::from_le_bytes(input[..4].try_into().unwrap()).into();
            let head = if told <= all { told } else { random.below(all + 1) };
            for (at, length) in [(0, head), (4, all - head)] {
                input[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
            }
        }
    }

    fn check(&mut self, input: &[u8]) -> String {
        assert!(input.len() < MAX_FRAME);
        let (frames, end) = read(input, 1 + input.len() % 61);
        let mut became = frames.iter().map(|frame| again::<FromProcess>(frame) + &again::<ToProcess>(frame));
        let first = became.next().unwrap_or_default();
        format!("{first} {} {end}", became.count().min(2))
    }
}

/// What is understood is said again in the same words.
fn again<M: Message + Debug + PartialEq>(frame: &Frame) -> String {
    match frame.clone().decode::<M>() {
        Ok((message, raw)) => {
            assert_eq!(message.raw_bytes(), raw.len() as u64);
            let said = encode(&message, [&raw[..]]);
            let (frames, end) = read(&said, said.len());
            assert_eq!((frames.len(), end), (1, "whole"));
            let kind = kind_of(format!("{message:?}").split(['(', '{']).next().unwrap_or_default());
            // A number that is none is not equal to itself.
            let again = frames.into_iter().next().unwrap().decode::<M>().unwrap();
            assert!(again == (message, raw) || kind.contains("Ready"));
            kind
        }
        Err(error) => kind_of(error),
    }
}

fn text(random: &mut Random) -> String {
    let parts = ["", "a", "é", "\n", "\0", "日本", "\u{fffd}", "{}", "process000"];
    (0..random.below(6)).map(|_| parts[random.below(parts.len() as u64) as usize]).collect()
}

fn user_frame(random: &mut Random) -> SourceLine {
    let line = random.below(1 << 32) as u32;
    SourceLine { file: text(random), line, function: text(random), text: text(random) }
}

fn error(random: &mut Random) -> ErrorInfo {
    let stages = [
        Stage::Import,
        Stage::Init,
        Stage::Load,
        Stage::Run,
        Stage::Cancelled,
        Stage::Items,
        Stage::Shutdown,
    ];
    let stage = stages[random.below(6) as usize];
    let frame = (random.below(2) == 0).then(|| Box::new(user_frame(random)));
    ErrorInfo { stage, category: text(random), message: text(random), traceback: text(random), frame }
}

fn frame(random: &mut Random) -> Vec<u8> {
    let seqs =
        |random: &mut Random| (0..random.below(5)).map(|_| random.below(1 << 32) as u32).collect::<Vec<_>>();
    match random.below(9) {
        0 => encode(&FromProcess::Hello { protocol: 1, python: text(random) }, []),
        1 => {
            let seconds = random.below(1000) as f64 / 7.0;
            let run = (random.below(2) == 0).then(|| user_frame(random));
            let concurrency = (random.below(2) == 0).then(|| random.below(1000) as u32);
            encode(&FromProcess::Ready { seconds, run, concurrency }, [])
        }
        2 => {
            let is_permanent = random.below(2) == 0;
            encode(&FromProcess::InitFailed { error: error(random), is_permanent }, [])
        }
        3 => encode(&FromProcess::Skipped(seqs(random)), []),
        4 => encode(&FromProcess::Notice(text(random)), []),
        5 => encode(&FromProcess::Bye((random.below(2) == 0).then(|| error(random))), []),
        6 => {
            let bodies: Vec<_> = seqs(random).into_iter().map(|seq| (seq, text(random))).collect();
            let assignment = |(seq, body): &(u32, String)| Assignment {
                seq: *seq,
                retry_count: 1,
                bytes: body.len() as u32,
                part: (seq % 2 == 0).then_some((1, u64::from(*seq))),
            };
            let run = ToProcess::Run(bodies.iter().map(assignment).collect());
            encode(&run, bodies.iter().map(|(_, body)| body.as_bytes()))
        }
        7 => encode(&ToProcess::Shutdown, []),
        _ => {
            let rows = text(random);
            let outcome = |random: &mut Random| Outcome {
                seq: random.below(1 << 32) as u32,
                items: random.below(100),
                returned: random.below(100),
                rows: rows.len() as u32,
                header: (random.below(2) == 0).then(|| rows.clone()),
                files: seqs(random).iter().map(u32::to_string).collect(),
                started_us: random.below(1 << 40),
                elapsed_us: 1,
                cpu_us: 2,
                run_us: 3,
                load_us: 4,
                error: (random.below(3) == 0).then(|| error(random)),
                contents: None,
                printed: (random.below(3) == 0).then(Printed::default),
            };
            let outcomes: Vec<_> = (0..random.below(4)).map(|_| outcome(random)).collect();
            let behind = outcomes.iter().map(|_| rows.as_bytes());
            encode(&FromProcess::Outcomes(outcomes.clone()), behind)
        }
    }
}
