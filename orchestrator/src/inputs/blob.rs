//! Blobs: uploaded files, which are named by their content: a node that fetches one can tell whether it is whole.

use std::io::{self, Read};

use prs_common::hexadecimal;
use prs_common::layout::{BLOBS, blob};
use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const READ_BUFFER: usize = 1 << 20;

/// What the content of the object `key` must have as its [`digest`]; nothing where it is no blob.
pub fn promised_digest(key: &str) -> Option<&str> {
    let rest = key.strip_prefix(BLOBS)?;
    let (_, digest) = rest.split_once('/')?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_digest && rest == blob(digest)).then_some(digest)
}

/// What names the content of `reader`: its SHA-256, in hexadecimal.
pub fn digest(mut reader: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; READ_BUFFER];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(hexadecimal(&hasher.finalize())),
            Ok(count) => hasher.update(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_says_what_it_holds() {
        let digest = digest(&b"abc"[..]).unwrap();
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(promised_digest(&format!("{BLOBS}{}", blob(&digest))), Some(&*digest));
        for key in [
            "inputs/data.manifest".to_owned(),
            "inputs/ab".to_owned(),
            format!("inputs/bb/{digest}"),
            format!("inputs/ba/{}", &digest[1..]),
            format!("jobs/job-1/inputs/ba/{digest}"),
            format!("inputs/ba/{}", digest.replace('a', "x")),
        ] {
            assert_eq!(promised_digest(&key), None, "{key}");
        }
    }
}
