//! A sample of a file: blocks spread evenly over it.

use std::io::{self, Read, Seek, SeekFrom};

use super::{Evidence, Look, SAMPLE, line_ends, scan_part, scan_tolerantly};

/// How many blocks a sample has.
pub(super) const SAMPLES: u64 = 16;
/// How many line ends are tried as the start of a block's first record.
const TRIES: usize = 64;

/// Evidence of a sample of the records from `start` on, or of all where they are few.
pub(super) fn scan<R: Read + Seek>(
    source: &mut R,
    start: u64,
    look: Look<'_>,
    columns: usize,
) -> io::Result<Vec<Evidence>> {
    let length = source.seek(SeekFrom::End(0))?;
    let mut evidence = vec![Evidence::default(); columns];
    let left = length.saturating_sub(start);
    if left <= SAMPLES * SAMPLE as u64 {
        scan_tolerantly(&read_at(source, start, left as usize)?, look, &mut evidence);
        return Ok(evidence);
    }
    let spread = (left - SAMPLE as u64) / (SAMPLES - 1);
    for sample in 0..SAMPLES {
        let bytes = read_at(source, start + sample * spread, SAMPLE)?;
        scan_sample(&bytes, sample == 0, look, &mut evidence);
    }
    Ok(evidence)
}

fn read_at<R: Read + Seek>(source: &mut R, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    source.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(length);
    source.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Looks at the whole records of a sample; `aligned` says that it starts with one.
fn scan_sample(bytes: &[u8], aligned: bool, look: Look<'_>, evidence: &mut [Evidence]) {
    let starts = memchr::memchr2_iter(b'\n', b'\r', bytes).map(|line_end| line_end + 1);
    let starts = aligned.then_some(0).into_iter().chain(starts).take(TRIES);
    for start in starts {
        let part = &bytes[start..];
        // What follows the last line end may be cut off.
        let Some(last) = line_ends(part, look.dialect).last() else { continue };
        if aligned && start == 0 {
            // It starts where it should: what is odd in it is the file's own.
            scan_tolerantly(&part[..=last], look, evidence);
            return;
        }
        let mut found = evidence.to_vec();
        if scan_part(&part[..=last], look, &mut found) == Ok(false) {
            evidence.copy_from_slice(&found);
            return;
        }
    }
}
