//! What spans are called. Ids of a job's spans follow from the job, so that a worker that takes it over writes the same ones.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::hexadecimal::{bytes_of, hexadecimal};

/// A trace: 16 bytes that are not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span within a trace: 8 bytes that are not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A span and its trace, as they travel in the header `traceparent` of W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether the program that made the span sends it.
    pub is_sampled: bool,
}

/// The first bytes of the checksum of `parts`, each with its length before it.
fn checksum(parts: &[&[u8]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    sum.finalize().into()
}

fn first<const N: usize>(sum: [u8; 32]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&sum[..N]);
    bytes
}

impl TraceId {
    /// The trace of one start of a job.
    pub fn of_job(job_id: &str, incarnation: u32) -> Self {
        Self(first(checksum(&[b"job", job_id.as_bytes(), &incarnation.to_be_bytes()])))
    }

    /// The trace of a mini-batch: all its tries, in all starts of the job.
    pub fn of_mini_batch(job_id: &str, index: u64) -> Self {
        Self(first(checksum(&[b"mini-batch", job_id.as_bytes(), &index.to_be_bytes()])))
    }

    /// Where it lies among all traces, from 0 to 1: those below a share are that share of them.
    pub fn place(self) -> f64 {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0[8..]);
        (u64::from_be_bytes(half) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl SpanId {
    /// The span of this name in a trace.
    pub fn named(trace: TraceId, name: &str) -> Self {
        Self(first(checksum(&[b"span", &trace.0, name.as_bytes()])))
    }
}

impl TraceParent {
    /// The root of the trace of a job.
    pub fn of_job(job_id: &str, incarnation: u32) -> Self {
        let trace = TraceId::of_job(job_id, incarnation);
        Self { trace, span: SpanId::named(trace, "job"), is_sampled: true }
    }

    /// What a header says; nothing where it is none.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have more behind these; the first has not, and `ff` is none.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        bytes::<1>(version)?;
        let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let [flags] = bytes::<1>(flags)?;
        let is_one = trace != [0; 16] && span != [0; 8];
        is_one.then_some(Self { trace: TraceId(trace), span: SpanId(span), is_sampled: flags & 1 == 1 })
    }
}

/// Bytes of lower-case hexadecimal digits, as many as are wanted.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower_case = !text.bytes().any(|digit| digit.is_ascii_uppercase());
    bytes_of(text).filter(|_| is_lower_case)?.try_into().ok()
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_what_they_are_of() {
        let job = TraceParent::of_job("words-1", 1);
        assert_eq!(job, TraceParent::of_job("words-1", 1));
        assert_ne!(job.trace, TraceId::of_job("words-1", 2));
        assert_ne!(TraceId::of_mini_batch("words-1", 1), TraceId::of_mini_batch("words-11", 1));
        assert_ne!(SpanId::named(job.trace, "plan"), SpanId::named(job.trace, "schedule"));
    }

    #[test]
    fn a_header_is_what_it_was() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceParent::parse(text).unwrap().to_string(), text);
        let job = TraceParent::of_job("words-1", 1);
        assert_eq!(TraceParent::parse(&job.to_string()), Some(job));
        assert!(!TraceParent::parse(&text.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceParent::parse(&text.replacen("00", "01", 1).replace("-01", "-01-more")).is_some());
        for refused in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-ä92f3577b34da6a3ce929d0e0e4736aa-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_share_of_the_traces_is_below_it() {
        let below = (0..10_000).filter(|index| TraceId::of_mini_batch("j", *index).place() < 0.1).count();
        assert!((900..1100).contains(&below), "{below}");
    }
}
