//! Where the next page of a list begins. A cursor is opaque to its holder, and belongs to one list with its filters.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::problem::{Kind, Problem};

/// Bytes of a cursor, at most.
const LONGEST: usize = 2048;

/// The form that this server writes and reads.
const VERSION: u8 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Written<P> {
    v: u8,
    /// Beginning of the checksum of the list's address and filters.
    of: u64,
    at: P,
}

/// The cursor of a list, which `of` describes, for the page that begins behind `at`.
pub(crate) fn write<P: Serialize>(of: &str, at: &P) -> String {
    let written = Written { v: VERSION, of: short(of), at };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&written).unwrap_or_default())
}

/// Where the page begins that `cursor` stands for, in the list that `of` describes.
pub(crate) fn read<P: DeserializeOwned>(of: &str, cursor: &str) -> Result<P, Problem> {
    let wrong = || Problem::new(Kind::BAD_CURSOR, "The cursor is none that this server wrote.");
    if cursor.len() > LONGEST {
        return Err(wrong());
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| wrong())?;
    let written: Written<P> = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    if written.v != VERSION {
        return Err(wrong());
    }
    if written.of != short(of) {
        return Err(Problem::new(
            Kind::BAD_CURSOR,
            "The cursor belongs to a list with other filters or in another order.",
        ));
    }
    Ok(written.at)
}

fn short(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    u64::from_be_bytes(digest[..8].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_on_with_its_own_list_alone() {
        let cursor = write("jobs?state=failed", &(7_u64, "id".to_owned()));
        let read = |of, cursor: &str| read::<(u64, String)>(of, cursor);
        assert_eq!(read("jobs?state=failed", &cursor).unwrap(), (7, "id".to_owned()));
        assert!(read("jobs?", &cursor).unwrap_err().detail.contains("other filters"));
        for rubbish in ["", "x", "%%%", &"A".repeat(10_000), "eyJ2IjoyfQ"] {
            assert!(read("jobs?", rubbish).unwrap_err().detail.contains("none that"), "{rubbish}");
        }
    }
}
