//! The protocol between a node agent and one of its Python processes.
//!
//! One Unix stream socket; frames are a `u32` little-endian length followed by a MessagePack value, one
//! [`ToProcess`] or [`FromProcess`]. The socket is inherited by the process under the number named in
//! [`SOCKET_VARIABLE`]; standard output is never used, since scripts print.
//!
//! Order: the process says [`FromProcess::Hello`]; the agent answers [`ToProcess::Start`]; the process imports
//! the script, calls `init()` and says `Ready` or `InitFailed`. Then any number of `Run` frames, each with one
//! or many mini-batches, answered by `Outcomes` frames; how the mini-batches are grouped into answers is free.
//! `Shutdown` ends it in order, the closing of the socket ends it at once. Which mini-batch is running at this
//! moment stands in the [process page](crate::process_page), not in a message.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::job::OutputFormat;
use crate::message_pack;
use crate::source_line::SourceLine;

/// Version of this protocol; both sides must have the same.
pub const PROTOCOL_VERSION: u32 = 4;
/// Environment variable with the number of the inherited socket.
pub const SOCKET_VARIABLE: &str = "PRS_PROCESS_SOCKET";
/// Environment variable with the number of the inherited descriptor of the process page.
pub const PAGE_VARIABLE: &str = "PRS_PROCESS_PAGE";
/// Environment variable of a process that has the terminal of who started it: the name of its debugger.
pub const FOREGROUND_VARIABLE: &str = "PRS_PROCESS_FOREGROUND";
/// Largest frame either side accepts, bytes; the rows of one mini-batch must fit.
pub const MAX_FRAME: usize = 1 << 31;
/// Bytes of a frame that memory is taken for before they are there.
const TRUSTED: usize = 1 << 20;

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToProcess {
    /// Everything a process must know before it imports the script.
    Start(Box<Start>),
    /// Mini-batches to run, in this order.
    Run(Vec<Assignment>),
    /// No more work comes: call `shutdown()`, say `Bye`, exit with 0.
    Shutdown,
}

/// What a process must know before it imports the script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Protocol version of the agent.
    pub protocol: u32,
    /// Id of the job.
    pub job_id: String,
    /// Position of the node in the job, from 0.
    pub node_id: u32,
    /// `processNNN`.
    pub process_name: String,
    /// Absolute folder of the user's code; first on `sys.path`.
    pub code_dir: String,
    /// File below `code_dir`, or a dotted module name.
    pub entry_script: String,
    /// `sys.argv[1:]`: prs's own arguments, then the user's.
    pub arguments: Vec<String>,
    /// `WARNING`, `INFO` or `DEBUG`.
    pub logging_level: String,
    /// True for `append_row`, false for `summary_only`.
    pub append_row: bool,
    /// How returned DataFrames are written; absent, the script's own settings say it.
    pub output_format: Option<OutputFormat>,
    /// `EntryScript().log_dir`, absolute.
    pub log_dir: String,
    /// `EntryScript().working_dir`, absolute; also the current directory.
    pub working_dir: String,
    /// `EntryScript().output_dir`, absolute, of this process alone.
    pub output_dir: String,
    /// Folder into which the files of a finished mini-batch are moved, as `<staging_dir>/<seq>/<path>`;
    /// on the same file system as `output_dir`.
    pub staging_dir: String,
    /// Longest path of a file below `output_dir` that all stores of the job take, bytes.
    pub longest_output_path: u32,
    /// Folder that relative paths in descriptors start from (plain copies of compressed inputs).
    pub scratch_dir: String,
    /// File the cProfile figures go to, when the job asks for them.
    pub profile_path: Option<String>,
    /// The inputs of the job, by position.
    pub inputs: Vec<InputInfo>,
    /// File that the stack goes to when the process crashes, or gets `stack_signal`.
    pub stack_path: String,
    /// Number of the signal that asks for the stack.
    pub stack_signal: i32,
}

/// What the script may know of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputInfo {
    /// Name in the job file.
    pub name: String,
    /// `file` or `tabular`.
    pub kind: String,
    /// Path, glob or list as the job file has it.
    pub path: String,
}

/// One mini-batch handed to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Position in the life of this process, from 1, without gaps; the process claims it in its page.
    pub seq: u32,
    /// Tries of this mini-batch that failed before.
    pub retry_count: u32,
    /// Encoded [`crate::mini_batch::MiniBatch`] with local paths.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

/// What a process says. Borrows the rows from the frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromProcess<'a> {
    /// First words.
    Hello {
        /// Protocol version of the process.
        protocol: u32,
        /// Python's version, for the log.
        python: String,
    },
    /// The script is imported and `init()` has returned.
    Ready {
        /// Seconds that import and `init()` took.
        seconds: f64,
        /// Where `run()` begins, where that is known.
        run: Option<SourceLine>,
    },
    /// The script cannot be imported, has no `run`, or `init()` raised.
    InitFailed {
        /// What happened.
        error: ErrorInfo,
        /// Whether every other process on this host would fail in the same way: a module or the function `run` is
        /// missing, the script is no Python.
        is_permanent: bool,
    },
    /// Finished mini-batches, in the order they ran.
    #[serde(borrow)]
    Outcomes(Vec<Outcome<'a>>),
    /// Mini-batches that the agent took back before they were started. The agent hands out no further
    /// work to this process before all of them are acknowledged, so a taken-back `seq` never runs later.
    Skipped(Vec<u32>),
    /// Something a person should read once (a column was widened, ...).
    Notice(String),
    /// `shutdown()` has returned (or raised: the error).
    Bye(Option<ErrorInfo>),
}

/// How one try of a mini-batch ended, as the process saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome<'a> {
    /// Which assignment.
    pub seq: u32,
    /// Input items (files, or rows of the DataFrame).
    pub items: u64,
    /// Elements that `run` returned.
    pub returned: u64,
    /// The rows as they go into the result; empty for `summary_only` and on failure.
    #[serde(borrow, with = "serde_bytes")]
    pub rows: &'a [u8],
    /// Header of a returned DataFrame with its line end, to be written as it is, where the job asks for one.
    #[serde(borrow)]
    pub header: Option<&'a str>,
    /// Files the mini-batch wrote below `output_dir`, now below the staging folder; `/`-separated.
    pub files: Vec<String>,
    /// Start of the try, microseconds since the Unix epoch.
    pub started_us: u64,
    /// Whole try, microseconds.
    pub elapsed_us: u64,
    /// CPU time of the process during the try, microseconds.
    pub cpu_us: u64,
    /// Inside `run()`, microseconds.
    pub run_us: u64,
    /// Absent when the try succeeded.
    pub error: Option<ErrorInfo>,
}

/// An error inside a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// Where it happened.
    pub stage: Stage,
    /// Class of the exception, such as `ValueError`; groups errors in the reports.
    pub category: String,
    /// The message, one or more lines, never empty.
    pub message: String,
    /// Full traceback; empty where there is none.
    pub traceback: String,
    /// The last line of the user's code in it.
    pub frame: Option<Box<SourceLine>>,
}

/// What a process was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Importing the script.
    Import,
    /// `init()`.
    Init,
    /// Making the argument of `run()` from the data.
    Load,
    /// `run()` itself, and turning its result into rows.
    Run,
    /// `shutdown()`.
    Shutdown,
}

/// Appends a whole frame with `message` to `out`.
pub fn encode_frame<T: Serialize>(message: &T, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    rmp_serde::encode::write(out, message).expect("writing to memory cannot fail");
    let length = u32::try_from(out.len() - at - 4).expect("frames stay below MAX_FRAME");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a whole frame with [`ToProcess::Run`] to `out`; each assignment is `seq`, `retry_count` and the
/// body, which is not copied on the way.
pub fn encode_run<'a>(assignments: impl Iterator<Item = (u32, u32, &'a [u8])>, out: &mut Vec<u8>) {
    /// Mirrors of [`ToProcess`] and [`Assignment`] that borrow.
    #[derive(Serialize)]
    enum Borrowed<'a> {
        Run(Vec<BorrowedAssignment<'a>>),
    }
    #[derive(Serialize)]
    struct BorrowedAssignment<'a> {
        seq: u32,
        retry_count: u32,
        #[serde(with = "serde_bytes")]
        body: &'a [u8],
    }
    let assignments =
        assignments.map(|(seq, retry_count, body)| BorrowedAssignment { seq, retry_count, body });
    encode_frame(&Borrowed::Run(assignments.collect()), out);
}

/// Reads one frame's body; `None` at the end of the stream.
pub fn read_frame(reader: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    let mut filled = 0;
    while filled < 4 {
        match reader.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    // A length that was never meant costs no memory before the bytes are there.
    let mut body = Vec::with_capacity(length.min(TRUSTED));
    reader.by_ref().take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

/// Writes one message as a frame.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> io::Result<()> {
    let mut frame = Vec::new();
    encode_frame(message, &mut frame);
    writer.write_all(&frame)
}

/// Reads a message from the body of a frame.
pub fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, rmp_serde::decode::Error> {
    message_pack::decode(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_many_outcomes_and_borrow_their_rows() {
        let outcome = |seq, rows| Outcome {
            seq,
            items: 1,
            returned: 1,
            rows,
            header: None,
            files: vec![],
            started_us: 1,
            elapsed_us: 2,
            cpu_us: 3,
            run_us: 4,
            error: None,
        };
        let message = FromProcess::Outcomes(vec![outcome(1, b"a\n"), outcome(2, b"")]);
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &message).unwrap();
        let mut reader = pipe.as_slice();
        let body = read_frame(&mut reader).unwrap().unwrap();
        assert_eq!(decode::<FromProcess>(&body).unwrap(), message);
        assert!(read_frame(&mut reader).unwrap().is_none());
    }

    #[test]
    fn borrowed_assignments_look_like_owned_ones() {
        let body = vec![1, 2, 3];
        let (mut owned, mut borrowed) = (Vec::new(), Vec::new());
        encode_frame(
            &ToProcess::Run(vec![Assignment { seq: 7, retry_count: 1, body: body.clone() }]),
            &mut owned,
        );
        encode_run([(7, 1, body.as_slice())].into_iter(), &mut borrowed);
        assert_eq!(owned, borrowed);
    }

    #[test]
    fn a_torn_frame_is_an_error() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &ToProcess::Shutdown).unwrap();
        pipe.pop();
        assert!(read_frame(&mut pipe.as_slice()).is_err());
        assert!(read_frame(&mut &pipe[..2]).is_err());
    }
}
