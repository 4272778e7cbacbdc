//! Who asks, and what they may.
//!
//! | file | duty |
//! |---|---|
//! | `role` | who asks |
//! | `signed` | texts that only this server can have written |
//! | `link` | links that log a browser in once; the file that tells programs of this user where the server is |
//! | `session` | the cookie of a browser that has logged in |
//! | `role_map` | roles by groups |
//! | `proxy` | proxies before the server, and whom they know |
//! | `oidc/` | signing in with an identity provider |
//! | `access` | who asks, found before a handler runs |

pub(crate) mod access;
pub(crate) mod link;
#[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "nobody signs in"))]
pub(crate) mod oidc;
pub(crate) mod proxy;
pub(crate) mod role;
pub(crate) mod role_map;
pub(crate) mod session;
pub(crate) mod signed;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub(crate) use access::{Access, Known, May, MayAdmin, MayRead, MaySubmit, check, not_known};
pub(crate) use prs_jobs::tokens::Role;
pub(crate) use role::{How, OwnOnly, Principal};

/// A text of `N` random bytes that may stand in an address.
pub(crate) fn random_text<const N: usize>() -> String {
    URL_SAFE_NO_PAD.encode(random::<N>())
}

/// `N` random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}
