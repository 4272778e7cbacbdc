//! Thrift's compact protocol, as far as the footer of a Parquet file needs it: few fields are read, all others skipped.
//!
//! The bytes are foreign. Whatever they say, nothing is allocated for a count that they claim, each step consumes at least one
//! of them, and nesting has a bound. What the fields mean is not known here.

/// Structs within structs at most; a footer has less than ten.
const DEEPEST: u32 = 32;

/// The bytes are not what the protocol writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// The type of a field or an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value of a field is told by its type; an element of a list is a byte.
    Boolean,
    Byte,
    /// Of 16, 32 or 64 bits.
    Integer,
    Double,
    Binary,
    /// Or a set.
    List,
    Map,
    Struct,
    Uuid,
}

/// Reads values one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thrift<'a> {
    left: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// A number that is not negative by its encoding.
    fn count(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Broken)
    }

    /// A value of [`Kind::Integer`].
    pub(super) fn integer(&mut self) -> Result<i64, Broken> {
        let value = self.count()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A value of [`Kind::Binary`].
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.count()?;
        self.bytes(length)
    }

    /// A [`Kind::Struct`] of which one field is given: its number.
    pub(super) fn variant(&mut self) -> Result<Option<i64>, Broken> {
        let mut found = None;
        self.fields(|_, id, _| {
            found = found.or(Some(id));
            Ok::<_, Broken>(false)
        })?;
        Ok(found)
    }

    /// The beginning of a [`Kind::List`]: how many elements follow, as it claims, and of which type. The type of an empty
    /// list says nothing: fastparquet leaves it out.
    pub(super) fn list(&mut self) -> Result<(u64, Kind), Broken> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.count()? } else { u64::from(head >> 4) };
        Ok((count, if count == 0 { Kind::Byte } else { kind(head)? }))
    }

    /// The fields of a [`Kind::Struct`], which `take` gets by their numbers. It reads the value and says true, or leaves it
    /// and says false.
    pub(super) fn fields<E: From<Broken>>(
        &mut self,
        mut take: impl FnMut(&mut Self, i64, Kind) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut id = 0;
        while let Some((next, kind)) = self.field(id)? {
            id = next;
            if !take(self, id, kind)? {
                self.skip(kind, false, DEEPEST)?;
            }
        }
        Ok(())
    }

    /// The next field of a struct, after that with number `before`; none at its end.
    fn field(&mut self, before: i64) -> Result<Option<(i64, Kind)>, Broken> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let step = i64::from(head >> 4);
        let id = if step == 0 { self.integer()? } else { before.wrapping_add(step) };
        Ok(Some((id, kind(head)?)))
    }

    fn skip(&mut self, kind: Kind, is_element: bool, depth: u32) -> Result<(), Broken> {
        let depth = depth.checked_sub(1).ok_or(Broken)?;
        match kind {
            Kind::Boolean if !is_element => {}
            Kind::Boolean | Kind::Byte => drop(self.byte()?),
            Kind::Integer => drop(self.count()?),
            Kind::Double => drop(self.bytes(8)?),
            Kind::Uuid => drop(self.bytes(16)?),
            Kind::Binary => drop(self.binary()?),
            Kind::List => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    self.skip(kind, true, depth)?;
                }
            }
            Kind::Map => {
                let count = self.count()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.skip(self::kind(kinds >> 4)?, true, depth)?;
                        self.skip(self::kind(kinds)?, true, depth)?;
                    }
                }
            }
            Kind::Struct => {
                let mut id = 0;
                while let Some((next, kind)) = self.field(id)? {
                    id = next;
                    self.skip(kind, false, depth)?;
                }
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        let (first, left) = self.left.split_first().ok_or(Broken)?;
        self.left = left;
        Ok(*first)
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Broken> {
        let length = usize::try_from(length).map_err(|_| Broken)?;
        let (bytes, left) = self.left.split_at_checked(length).ok_or(Broken)?;
        self.left = left;
        Ok(bytes)
    }
}

/// The type that the low half of `head` stands for.
fn kind(head: u8) -> Result<Kind, Broken> {
    Ok(match head & 15 {
        1 | 2 => Kind::Boolean,
        3 => Kind::Byte,
        4..=6 => Kind::Integer,
        7 => Kind::Double,
        8 => Kind::Binary,
        9 | 10 => Kind::List,
        11 => Kind::Map,
        12 => Kind::Struct,
        13 => Kind::Uuid,
        _ => return Err(Broken),
    })
}
