//! Changes to an input: of bits, bytes, numbers, words and whole parts.

use crate::harness::Random;

/// Numbers at which things change.
const BORDERS: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    u64::MAX,
];
/// The same in text.
const NUMBERS: [&[u8]; 10] = [
    b"0",
    b"-1",
    b"1",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e999",
    b"nan",
    b"0x7f",
    b"007",
];

/// `input` with a few changes; `other` lends parts.
pub(super) fn mutate(random: &mut Random, input: &[u8], other: &[u8], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = input.to_owned();
    for _ in 0..=random.below(4) {
        change(random, &mut bytes, other, words);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], words: &[&[u8]]) {
    let at = place(random, bytes.len());
    let part = at..at + length(random, bytes.len() - at);
    match random.below(10) {
        0 if !bytes.is_empty() => {
            let byte = at.min(bytes.len() - 1);
            bytes[byte] ^= 1 << random.below(8);
        }
        1 if !bytes.is_empty() => {
            let byte = at.min(bytes.len() - 1);
            bytes[byte] = random.below(256) as u8;
        }
        2 => drop(bytes.drain(part)),
        3 => {
            let copy = bytes[part].to_owned();
            let to = place(random, bytes.len());
            bytes.splice(to..to, copy);
        }
        4 => {
            let from = place(random, other.len());
            let lent = other[from..from + length(random, other.len() - from)].to_owned();
            bytes.splice(part, lent);
        }
        5 => {
            let border = BORDERS[random.below(BORDERS.len() as u64) as usize]
                .wrapping_add(random.below(3))
                .wrapping_sub(1);
            let width = 1 << random.below(4);
            let encoded = if random.below(2) == 0 {
                border.to_le_bytes()[..width].to_vec()
            } else {
                border.to_be_bytes()[8 - width..].to_vec()
            };
            let end = bytes.len().min(at + width);
            bytes.splice(at..end, encoded);
        }
        6 => {
            let number = NUMBERS[random.below(NUMBERS.len() as u64) as usize];
            bytes.splice(at..at, number.iter().copied());
        }
        // Deep, or many.
        7 => {
            let copy =
                bytes[part.start..part.end.min(part.start + 16)].repeat(1 + random.below(500) as usize);
            bytes.splice(at..at, copy);
        }
        8 if random.below(8) == 0 => bytes.truncate(at),
        _ if !words.is_empty() => {
            let word = words[random.below(words.len() as u64) as usize];
            let end = if random.below(2) == 0 { at } else { bytes.len().min(at + word.len()) };
            bytes.splice(at..end, word.iter().copied());
        }
        _ => bytes.insert(at, random.below(256) as u8),
    }
}

/// A place in `length` bytes, the end included; the first and the last bytes more often.
fn place(random: &mut Random, length: usize) -> usize {
    let near = random.below(17).min(length as u64) as usize;
    match random.below(6) {
        0 => near,
        1 => length - near,
        _ => random.below(length as u64 + 1) as usize,
    }
}

/// A length up to `most`; mostly a short one.
fn length(random: &mut Random, most: usize) -> usize {
    let long = if random.below(8) == 0 { most } else { most.min(24) };
    random.below(long as u64 + 1) as usize
}
