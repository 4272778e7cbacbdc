//! Structures as arrays of their fields, which grow at the end.
//!
//! What `serde` derives for a structure in MessagePack either names every field in every row, or refuses an array that is
//! longer than it knows.

/// Declares a structure with the encoding of statistics: an array of its fields. Missing ones at the end are zero, more of
/// them are skipped.
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$of:meta])* $within:vis $field:ident: $kind:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $vis struct $name {
            $($(#[$of])* $within $field: $kind,)+
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeTuple;
                let mut fields = serializer.serialize_tuple([$(stringify!($field)),+].len())?;
                $(fields.serialize_element(&self.$field)?;)+
                fields.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("the fields of ", stringify!($name)))
                    }

                    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut fields: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        $(match fields.next_element()? {
                            Some(field) => read.$field = field,
                            None => return Ok(read),
                        })+
                        while fields.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                        Ok(read)
                    }
                }
                deserializer.deserialize_seq(Fields)
            }
        }
    };
}

pub(crate) use record;

#[cfg(test)]
mod tests {
    use crate::message_pack;

    record! {
        /// As an older version has it.
        struct Older {
            /// A number.
            number: u32,
        }
    }

    record! {
        /// As a newer version has it.
        struct Newer {
            /// A number.
            number: u32,
            /// More of it.
            more: Vec<Older>,
            /// Text.
            text: String,
        }
    }

    #[test]
    fn versions_read_each_other() {
        let newer = Newer { number: 7, more: vec![Older { number: 1 }], text: "a".into() };
        let encoded = message_pack::encode(&newer);
        assert_eq!(message_pack::decode::<Newer>(&encoded).unwrap(), newer);
        assert_eq!(message_pack::decode::<Older>(&encoded).unwrap(), Older { number: 7 });
        let older = message_pack::encode(&Older { number: 8 });
        assert_eq!(message_pack::decode::<Newer>(&older).unwrap(), Newer { number: 8, ..Newer::default() });
    }
}
