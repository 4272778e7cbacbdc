//! Fuzzing that stays: properties of what reads foreign bytes, tried on inputs made from a seed.
//!
//! A [`Target`] makes well-formed inputs and says what must hold for any bytes. [`run`] tries them in a process of its
//! own, under a limit of memory: a panic, an abort, a stack that overflows, an input that takes too long or too much
//! memory are found alike. Inputs that lead to something new are kept and mutated further. What fails is made smaller,
//! saved, and printed with the command that tries it again.
//!
//! `PRS_FUZZ_SECONDS` says how long each target is tried (2), `PRS_FUZZ_SEED` from which seed (1), `PRS_FUZZ_REPLAY` names
//! a saved input to try alone.

mod child;
mod failure;
mod mutate;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::child::Note;
use self::failure::Failure;
use crate::harness::Random;

/// Seconds that each target is tried.
const SECONDS: &str = "PRS_FUZZ_SECONDS";
/// Where the inputs come from.
const SEED: &str = "PRS_FUZZ_SEED";
/// An input to try alone.
const REPLAY: &str = "PRS_FUZZ_REPLAY";
/// The file in which a child notes what it tries.
const NOTE: &str = "PRS_FUZZ_NOTE";
/// How long one input may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(20);

/// What is fuzzed.
pub trait Target {
    /// The longest input, bytes.
    const LONGEST: usize = 64 << 10;
    /// Words that mean something in an input; mutations use them.
    const WORDS: &'static [&'static [u8]] = &[];

    /// A well-formed input.
    fn seed(&mut self, random: &mut Random) -> Vec<u8>;

    /// Puts right what a mutation makes wrong each time, so that it gets further; not always.
    fn mend(&mut self, _input: &mut Vec<u8>, _random: &mut Random) {}

    /// Asserts what must hold, and says in words what became of the input: inputs with new words are kept.
    fn check(&mut self, input: &[u8]) -> String;
}

/// Tries `target`. The test that calls this is called `name`; what fails is saved below `failures`.
pub fn run(name: &str, mut target: impl Target, failures: &Path) {
    if let Some(input) = std::env::var_os(REPLAY) {
        let input =
            fs::read(&input).unwrap_or_else(|error| panic!("{}: {error}", Path::new(&input).display()));
        child::limit_memory();
        let became = target.check(&input);
        report(format_args!("{name}: {became}"));
    } else if let Some(note) = std::env::var_os(NOTE) {
        let tried =
            child::try_inputs(&mut target, &mut Random::new(seed_of(name)), seconds(), Path::new(&note));
        report(format_args!("{name}: {tried}"));
    } else {
        supervise(name, failures);
    }
}

/// Asserts that the target of the test `name` takes `input`, in a process of its own.
pub fn passes(name: &str, input: &[u8]) {
    let folder = tempfile::Builder::new().prefix("prs-fuzz-").tempdir().unwrap();
    if let Some(output) = failure::fails(name, input, &folder) {
        panic!("{name} fails:\n{output}");
    }
}

/// What became of an error, as the words of [`Target::check`]: its kind, without what differs from input to input.
pub fn kind_of(text: impl Display) -> String {
    let text = text.to_string();
    let quoted = text.split(['"', '\'', '`']).step_by(2).collect::<String>();
    quoted.chars().filter(|letter| letter.is_alphabetic() || *letter == ' ').take(60).collect()
}

fn number_of(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable)
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

fn seconds() -> Duration {
    Duration::from_secs(number_of(SECONDS, 2))
}

/// Each target has a seed of its own.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(number_of(SEED, 1), |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

#[expect(clippy::print_stdout, reason = "what was tried is of interest when a test succeeds, too")]
fn report(what: impl Display) {
    println!("{what}");
}

/// Runs a child to its end, or to that of its patience.
fn supervise(name: &str, failures: &Path) {
    let folder = tempfile::Builder::new().prefix("prs-fuzz-").tempdir().unwrap();
    let note = folder.path().join("note");
    let mut watched = Watched::start(name, &folder, &[(NOTE, &note)]);
    let end = Instant::now() + seconds() + 2 * PATIENCE;
    let (mut tried, mut since) = (0, Instant::now());
    let why = loop {
        if let Some(status) = watched.child.try_wait().unwrap() {
            if status.success() {
                let output = watched.output();
                let tried = output.split_once(&format!("{name}: ")).map_or("", |(_, rest)| rest);
                report(format_args!("{name}: {}", tried.lines().next().unwrap_or_default()));
                return;
            }
            break format!("ended with {status}");
        }
        match Note::read(&note) {
            Some(noted) if noted.tried != tried => (tried, since) = (noted.tried, Instant::now()),
            _ => {}
        }
        if since.elapsed() > PATIENCE || Instant::now() > end {
            break format!("took more than {} s for one input", PATIENCE.as_secs());
        }
        std::thread::sleep(POLL);
    };
    let output = watched.kill();
    let Some(noted) = Note::read(&note) else { panic!("{name} {why} before it tried an input\n{output}") };
    let failure =
        Failure { name, seed: number_of(SEED, 1), tried: noted.tried, why, input: noted.input, output };
    panic!("{}", failure.shrunk(&folder).saved(failures));
}

/// This test once more, in a process of its own.
struct Watched {
    child: Child,
    output: PathBuf,
}

impl Watched {
    fn start(name: &str, folder: &TempDir, variables: &[(&str, &Path)]) -> Self {
        let output = folder.path().join("output");
        let file = fs::File::create(&output).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads", "1"])
            .envs(variables.iter().copied())
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, output }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Ends it; what it said.
    fn kill(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.output()
    }
}
