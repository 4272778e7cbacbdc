//! Frames on the socket between an agent and a process.

use std::fmt::Debug;
use std::io::Read;

use prs_common::source_line::SourceLine;
use prs_common::wire::{
    Assignment, ErrorInfo, FromProcess, MAX_FRAME, Outcome, Stage, ToProcess, decode, encode_frame,
    encode_run, read_frame,
};
use prs_tests::fuzz::{Target, kind_of};
use prs_tests::harness::Random;
use serde::{Deserialize, Serialize};

/// A stream of frames, given in pieces.
pub(crate) struct Frames;

/// Gives no more than some bytes at a time, as a socket may.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.most);
        self.rest.read(&mut buffer[..most])
    }
}

impl Target for Frames {
    fn seed(&mut self, random: &mut Random) -> Vec<u8> {
        let mut stream = Vec::new();
        for _ in 0..=random.below(4) {
            frame(random, &mut stream);
        }
        let mut pieces = Pieces { rest: &stream, most: 1 + random.below(40) as usize };
        while let Some(body) = read_frame(&mut pieces).unwrap() {
            let said = decode::<FromProcess<'_>>(&body).is_ok();
            assert_ne!(said, decode::<ToProcess>(&body).is_ok(), "one of the two says it");
        }
        stream
    }

    /// The length of the first frame, to what there is.
    fn mend(&mut self, input: &mut Vec<u8>, random: &mut Random) {
        if random.below(3) > 0 && input.len() >= 4 {
            let length = (input.len() - 4) as u32;
            input[..4].copy_from_slice(&length.to_le_bytes());
        }
    }

    fn check(&mut self, input: &[u8]) -> String {
        let mut pieces = Pieces { rest: input, most: 1 + input.len() % 61 };
        let (mut first, mut frames) = (String::new(), 0);
        loop {
            match read_frame(&mut pieces) {
                Ok(Some(body)) => {
                    assert!(body.len() <= MAX_FRAME && body.len() <= input.len());
                    let became = again::<FromProcess<'_>>(&body) + &again::<ToProcess>(&body);
                    if frames == 0 {
                        first = became;
                    }
                    frames += 1;
                }
                ended => return format!("{first} {} {}", frames.min(2), kind_of(format!("{ended:?}"))),
            }
        }
    }
}

/// What is understood is said again in the same words.
fn again<'a, T: Deserialize<'a> + Serialize + Debug>(body: &'a [u8]) -> String {
    match decode::<T>(body) {
        Ok(message) => {
            let mut frame = Vec::new();
            encode_frame(&message, &mut frame);
            assert_eq!(u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
            kind_of(format!("{message:?}").split(['(', '{']).next().unwrap_or_default())
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
    let stages = [Stage::Import, Stage::Init, Stage::Load, Stage::Run, Stage::Shutdown];
    let stage = stages[random.below(5) as usize];
    let frame = (random.below(2) == 0).then(|| Box::new(user_frame(random)));
    ErrorInfo { stage, category: text(random), message: text(random), traceback: text(random), frame }
}

fn frame(random: &mut Random, stream: &mut Vec<u8>) {
    let seqs =
        |random: &mut Random| (0..random.below(5)).map(|_| random.below(1 << 32) as u32).collect::<Vec<_>>();
    match random.below(9) {
        0 => encode_frame(&FromProcess::Hello { protocol: 1, python: text(random) }, stream),
        1 => {
            let seconds = random.below(1000) as f64 / 7.0;
            let run = (random.below(2) == 0).then(|| user_frame(random));
            encode_frame(&FromProcess::Ready { seconds, run }, stream);
        }
        2 => {
            let is_permanent = random.below(2) == 0;
            encode_frame(&FromProcess::InitFailed { error: error(random), is_permanent }, stream);
        }
        3 => encode_frame(&FromProcess::Skipped(seqs(random)), stream),
        4 => encode_frame(&FromProcess::Notice(text(random)), stream),
        5 => encode_frame(&FromProcess::Bye((random.below(2) == 0).then(|| error(random))), stream),
        6 => {
            let bodies: Vec<_> =
                seqs(random).into_iter().map(|seq| (seq, text(random).into_bytes())).collect();
            let (mut plain, mut borrowed) = (Vec::new(), Vec::new());
            let assignment =
                |(seq, body): &(u32, Vec<u8>)| Assignment { seq: *seq, retry_count: 1, body: body.clone() };
            encode_frame(&ToProcess::Run(bodies.iter().map(assignment).collect()), &mut plain);
            encode_run(bodies.iter().map(|(seq, body)| (*seq, 1, &body[..])), &mut borrowed);
            assert_eq!(plain, borrowed);
            stream.extend_from_slice(&plain);
        }
        7 => encode_frame(&ToProcess::Shutdown, stream),
        _ => {
            let rows = text(random);
            let outcome = |random: &mut Random| Outcome {
                seq: random.below(1 << 32) as u32,
                items: random.below(100),
                returned: random.below(100),
                rows: rows.as_bytes(),
                header: (random.below(2) == 0).then_some(&*rows),
                files: seqs(random).iter().map(u32::to_string).collect(),
                started_us: random.below(1 << 40),
                elapsed_us: 1,
                cpu_us: 2,
                run_us: 3,
                error: (random.below(3) == 0).then(|| error(random)),
            };
            let outcomes = (0..random.below(4)).map(|_| outcome(random)).collect();
            encode_frame(&FromProcess::Outcomes(outcomes), stream);
        }
    }
}
