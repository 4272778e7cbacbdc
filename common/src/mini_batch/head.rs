//! The beginning of an encoded descriptor, read without the rest: what kind of work it is.

use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::MiniBatchIndex;
use crate::message_pack;

/// The beginning of an encoded descriptor, up to the name of the kind of work.
pub(super) struct Head {
    pub(super) kind: Kind,
}

/// What kinds of work have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A process can run it.
    Local,
    /// A node fetches what it names first.
    Fetched,
    /// The descriptor is elsewhere.
    Stored,
}

impl Head {
    /// Looks at the first bytes only, and allocates nothing.
    pub(super) fn read(body: &[u8]) -> Result<Self, rmp_serde::decode::Error> {
        message_pack::decode(body)
    }
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mini-batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Head, A::Error> {
        let index: Option<MiniBatchIndex> = fields.next_element()?;
        let input: Option<u32> = fields.next_element()?;
        let kind: Option<WorkKind<'de>> = fields.next_element()?;
        let (Some(_), Some(_), Some(WorkKind(kind))) = (index, input, kind) else {
            return Err(A::Error::custom("a mini-batch has three fields"));
        };
        let kind = match kind {
            "Files" | "Delimited" | "Unreadable" => Kind::Local,
            "Stored" => Kind::Stored,
            _ => Kind::Fetched,
        };
        Ok(Head { kind })
    }
}

/// The name of a kind of work. The work itself is left unread, so nothing can be read after it.
struct WorkKind<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for WorkKind<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WorkKindVisitor).map(WorkKind)
    }
}

struct WorkKindVisitor;

impl<'de> Visitor<'de> for WorkKindVisitor {
    type Value = &'de str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work of a mini-batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<&'de str, A::Error> {
        map.next_key()?.ok_or_else(|| A::Error::custom("a mini-batch has work"))
    }
}
