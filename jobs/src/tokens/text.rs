//! A token as its owner has it: `prs_<id>_<secret>_<checksum>`.
//!
//! All in lower-case hexadecimal digits: 12 of the id, by which it is listed and revoked; 64 of the secret, 256 random bits;
//! 8 of the CRC-32 of what stands before the last `_`. With prefix and checksum a program that looks through repositories and
//! logs knows a token that leaked, and a token that was copied in part is refused without a question to storage.

use std::fmt;

use crc_fast::{CrcAlgorithm, checksum};
use prs_common::hexadecimal::hexadecimal;
use sha2::{Digest, Sha256};

use super::Refusal;

/// What every token begins with.
const PREFIX: &str = "prs";
/// Digits of an id.
const ID: usize = 12;
/// Digits of a secret.
const SECRET: usize = 64;

/// A token, as nobody but its owner has it. It is shown when it is [exposed](Self::expose), and never by accident.
pub struct Secret(String);

impl Secret {
    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A new one that no registry knows, for the variable `PRS_TOKEN` of a server.
    pub fn generate() -> Self {
        Self::make().1
    }

    /// A new one: its id, and the secret.
    pub(super) fn make() -> (String, Self) {
        let random = |digits: usize| {
            let mut bytes = vec![0; digits / 2];
            getrandom::fill(&mut bytes).expect("the system gives random bytes");
            hexadecimal(&bytes)
        };
        let id = random(ID);
        let text = with_checksum(&format!("{PREFIX}_{id}_{}", random(SECRET)));
        (id, Self(text))
    }

    /// What is kept of it.
    pub(super) fn digest(&self) -> String {
        hexadecimal(&digest_of(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

/// What is looked at of a token that a request presents.
pub(super) struct Presented<'a> {
    pub(super) id: &'a str,
    pub(super) digest: [u8; 32],
}

impl<'a> Presented<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// It has not the form of one, or its checksum is another.
    pub(super) fn read(text: &'a str) -> Result<Self, Refusal> {
        let parts: Vec<&str> = text.split('_').collect();
        let [PREFIX, id, secret, given] = parts[..] else { return Err(Refusal::Malformed) };
        if !is_id(id) || !are_digits(secret, SECRET) || !are_digits(given, 8) {
            return Err(Refusal::Malformed);
        }
        if checksum_of(&text[..text.len() - given.len() - 1]) != given {
            return Err(Refusal::Mistyped);
        }
        Ok(Self { id, digest: digest_of(text) })
    }
}

/// The id that `text` is, or has in it where it is a token, whole or cut off behind its id.
pub(super) fn id_in(text: &str) -> Option<&str> {
    let id = match text.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_')) {
        Some(rest) => rest.split('_').next()?,
        None => text,
    };
    is_id(id).then_some(id)
}

/// Whether it may be the id of a token.
pub(super) fn is_id(text: &str) -> bool {
    are_digits(text, ID)
}

fn are_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A token of what stands before its checksum.
pub(super) fn with_checksum(text: &str) -> String {
    format!("{text}_{}", checksum_of(text))
}

fn checksum_of(text: &str) -> String {
    format!("{:08x}", checksum(CrcAlgorithm::Crc32IsoHdlc, text.as_bytes()))
}

fn digest_of(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_made_is_read() {
        let (id, secret) = Secret::make();
        let text = secret.expose();
        assert_eq!(text.len(), 3 + 1 + 12 + 1 + 64 + 1 + 8);
        let read = Presented::read(text).unwrap();
        assert_eq!((read.id, hexadecimal(&read.digest)), (&*id, secret.digest()));
        assert_eq!((id_in(text), id_in(&id), id_in(&text[17..81])), (Some(&*id), Some(&*id), None));
        assert!(!format!("{secret:?}").contains(&text[17..30]), "{secret:?}");
        assert_ne!(Secret::make().1.expose(), text);
    }

    #[test]
    fn what_is_no_whole_token_is_refused() {
        let (_, secret) = Secret::make();
        let text = secret.expose();
        let flipped = |at: usize| {
            let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            format!("{}{digit}{}", &text[..at], &text[at + 1..])
        };
        for at in [4, 17, 80, 82, 89] {
            assert!(matches!(Presented::read(&flipped(at)), Err(Refusal::Mistyped)), "{at}");
        }
        let upper = text.to_uppercase();
        for malformed in
            ["", "prs", "x", &text[..60], &text[1..], &format!("{text}_"), &format!("{text} "), &upper]
        {
            assert!(matches!(Presented::read(malformed), Err(Refusal::Malformed)), "{malformed}");
        }
        // The check value of this CRC-32, which other programs compute, too.
        assert_eq!(checksum_of("123456789"), "cbf43926");
    }
}
