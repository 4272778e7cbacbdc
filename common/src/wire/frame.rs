//! Frames on the socket between an agent and a process: how a message becomes bytes, and bytes become messages.
//!
//! A frame is the length of its head and the length of what is behind it, both `u32`, little-endian; the head, a
//! [`Message`] in MessagePack; and raw bytes, which the head tells apart by their lengths: rows of outcomes, descriptors
//! of assignments. These are not looked at here, nor copied when a frame is read. Nothing here does input or output.

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message_pack;

/// Largest frame either side accepts, bytes; the rows of one mini-batch must fit.
pub const MAX_FRAME: usize = 1 << 31;
/// Bytes of a frame that memory is taken for before they are there.
const TRUSTED: usize = 1 << 20;
/// Room for what comes next, bytes.
const ROOM: usize = 64 << 10;
/// The two lengths before a head, bytes.
const LENGTHS: usize = 8;

/// What one side says to the other.
pub trait Message: Serialize + DeserializeOwned {
    /// Bytes behind its head, as the head has it.
    fn raw_bytes(&self) -> u64;
}

/// Bytes that no version of the other side with this protocol sends.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolViolation {
    /// A frame longer than [`MAX_FRAME`].
    #[error("a frame of {0} bytes")]
    TooLong(usize),
    /// A head that is no message.
    #[error(transparent)]
    Head(#[from] rmp_serde::decode::Error),
    /// A head that does not fit what is behind it.
    #[error("a frame with {behind} bytes behind a head that names {named}")]
    Behind {
        /// Bytes that came.
        behind: usize,
        /// Bytes that the head tells of.
        named: u64,
    },
}

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    head: Bytes,
    raw: Bytes,
}

impl Frame {
    /// The message, and the raw bytes behind its head: as many as the message names.
    pub fn decode<M: Message>(self) -> Result<(M, Bytes), ProtocolViolation> {
        let message: M = message_pack::decode(&self.head)?;
        match (self.raw.len(), message.raw_bytes()) {
            (behind, named) if behind as u64 == named => Ok((message, self.raw)),
            (behind, named) => Err(ProtocolViolation::Behind { behind, named }),
        }
    }
}

/// A whole frame with `message`. Of what is behind its head, only what `raw` gives is in it: a sender may write the
/// rest by itself.
pub fn encode<'a, M: Message>(message: &M, raw: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut frame = vec![0; LENGTHS];
    rmp_serde::encode::write(&mut frame, message).expect("writing to memory cannot fail");
    let lengths = [(frame.len() - LENGTHS) as u64, message.raw_bytes()];
    for (at, length) in lengths.into_iter().enumerate() {
        let length = u32::try_from(length).expect("frames stay below MAX_FRAME");
        frame[4 * at..4 * at + 4].copy_from_slice(&length.to_le_bytes());
    }
    for bytes in raw {
        frame.extend_from_slice(bytes);
    }
    frame
}

/// The bytes of a stream, as they come, cut into frames.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
}

impl Default for Frames {
    fn default() -> Self {
        Self { buffer: BytesMut::with_capacity(4 * ROOM) }
    }
}

impl Frames {
    /// The next frame, once it is there; before that, there is room for more of it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolViolation> {
        let mut lengths = &self.buffer[..];
        if lengths.len() < LENGTHS {
            self.buffer.reserve(ROOM);
            return Ok(None);
        }
        let (head, raw) = (lengths.get_u32_le() as usize, lengths.get_u32_le() as usize);
        let length = LENGTHS + head + raw;
        if length > MAX_FRAME {
            return Err(ProtocolViolation::TooLong(length));
        }
        let missing = length.saturating_sub(self.buffer.len());
        if missing > 0 {
            // A length that was never meant costs no more memory than what is there already.
            self.buffer.reserve(missing.min(self.buffer.len().max(TRUSTED)));
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(length).freeze();
        frame.advance(LENGTHS);
        Ok(Some(Frame { head: frame.split_to(head), raw: frame }))
    }

    /// Where the next bytes of the stream go.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Assignment, FromProcess, Outcome, ToProcess};
    use super::*;

    fn run() -> Vec<u8> {
        let assignment = |seq, bytes| Assignment { seq, retry_count: 1, bytes, part: None };
        encode(&ToProcess::Run(vec![assignment(1, 2), assignment(2, 0)]), [&b"ab"[..], b""])
    }

    fn frame(bytes: &[u8]) -> Result<Option<Frame>, ProtocolViolation> {
        let mut frames = Frames::default();
        frames.buffer().extend_from_slice(bytes);
        frames.next_frame()
    }

    #[test]
    fn frames_carry_many_outcomes_and_their_rows() {
        let outcome = |seq, rows| Outcome { seq, items: 1, rows, ..Outcome::default() };
        let message = FromProcess::Outcomes(vec![outcome(1, 2), outcome(2, 0), outcome(3, 1)]);
        let stream = [encode(&message, [&b"a\n"[..], b"b"]), run()].concat();
        let mut frames = Frames::default();
        let mut read = Vec::new();
        for byte in stream {
            frames.buffer().extend_from_slice(&[byte]);
            read.extend(frames.next_frame().unwrap());
        }
        let [outcomes, run] = <[Frame; 2]>::try_from(read).unwrap();
        assert_eq!(outcomes.decode::<FromProcess>().unwrap(), (message, Bytes::from("a\nb")));
        let (ToProcess::Run(assignments), raw) = run.decode().unwrap() else { panic!() };
        assert_eq!((assignments.len(), raw), (2, Bytes::from("ab")));
    }

    #[test]
    fn a_torn_frame_is_none() {
        let whole = run();
        assert!(frame(&whole).unwrap().is_some());
        for length in 0..whole.len() {
            assert_eq!(frame(&whole[..length]).unwrap(), None, "{length}");
        }
    }

    #[test]
    fn a_head_and_what_is_behind_it_fit() {
        let (message, raw) = frame(&run()).unwrap().unwrap().decode::<ToProcess>().unwrap();
        assert_eq!(message.raw_bytes(), raw.len() as u64);
        let mut more = [&run()[..], b"c"].concat();
        more[4] += 1;
        let refused = frame(&more).unwrap().unwrap().decode::<ToProcess>().unwrap_err();
        assert_eq!(refused.to_string(), "a frame with 3 bytes behind a head that names 2");
    }

    #[test]
    fn a_length_that_was_never_meant_is_refused_or_costs_little() {
        let lengths = |head: u32, raw: u32| [head.to_le_bytes(), raw.to_le_bytes()].concat();
        for (head, raw) in [(u32::MAX, 0), (0, u32::MAX), (1 << 31, 0), (u32::MAX, u32::MAX)] {
            let refused = frame(&lengths(head, raw)).unwrap_err();
            assert!(matches!(refused, ProtocolViolation::TooLong(_)), "{refused}");
        }
        let mut frames = Frames::default();
        frames.buffer().extend_from_slice(&lengths(1 << 30, 1 << 29));
        assert_eq!(frames.next_frame().unwrap(), None);
        assert!(frames.buffer().capacity() <= 2 * TRUSTED, "{}", frames.buffer().capacity());
    }
}
