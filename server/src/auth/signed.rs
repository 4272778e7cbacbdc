//! Texts that only this server can have written: what they say stands in them, and a keyed hash of it (HMAC-SHA256).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A key.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The key for one `purpose`, made from `secret`: what is signed for one is no good for another.
    pub(crate) fn new(secret: &[u8], purpose: &str) -> Self {
        let mut mac = mac(secret);
        mac.update(purpose.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// `text`, which has no tilde, with its hash.
    pub(crate) fn sign(&self, text: &str) -> String {
        let mut mac = mac(&self.0);
        mac.update(text.as_bytes());
        format!("{text}~{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// What was signed; nothing where it was not, or is not what it was.
    pub(crate) fn open<'a>(&self, signed: &'a str) -> Option<&'a str> {
        let (text, hash) = signed.rsplit_once('~')?;
        let mut mac = mac(&self.0);
        mac.update(text.as_bytes());
        mac.verify_slice(&URL_SAFE_NO_PAD.decode(hash).ok()?).ok()?;
        Some(text)
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key has any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_signed_is_opened() {
        let key = Key::new(b"secret", "one");
        let signed = key.sign("alice.read");
        assert_eq!(key.open(&signed), Some("alice.read"));
        let changed = signed.replace("read", "admin");
        let cut = &signed[..signed.len() - 1];
        let longer = format!("{signed}A");
        for other in [changed.as_str(), cut, &longer, "", "~", "alice.read", "alice.read~"] {
            assert_eq!(key.open(other), None, "{other}");
        }
        assert_eq!(Key::new(b"secret", "two").open(&signed), None);
        assert_eq!(Key::new(b"other", "one").open(&signed), None);
    }
}
