//! The members that a kind of line has, as `serde` derives them: there is no second list of them.

use serde::de::{self, DeserializeOwned, Visitor};
use serde::forward_to_deserialize_any;

/// The names of the members of a line.
pub(super) type LineMembers = &'static [&'static str];

/// The members of `L`.
pub(super) fn of<L: DeserializeOwned>() -> LineMembers {
    let mut found: LineMembers = &[];
    // It reads nothing, so it fails.
    let _ = L::deserialize(MemberNames(&mut found));
    found
}

/// Notes the names that a struct asks for.
struct MemberNames<'n>(&'n mut LineMembers);

impl<'de> de::Deserializer<'de> for MemberNames<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: LineMembers,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = members;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
