//! Macros for types that are written as text. They serialize as they are shown and deserialize through `FromStr`, so that no
//! unchecked text gets in.

/// Serializes as `Display`, deserializes through `FromStr`.
macro_rules! serde_as_text {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A tuple struct of bytes is written as lower-case hex digits, in one spelling.
macro_rules! hex_text {
    ($type:ident, $bytes:literal, $error:ident) => {
        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let mut bytes = [0; $bytes];
                // The library also accepts upper case and a leading 0x.
                let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
                let is_decoded =
                    text.len() == 2 * $bytes && is_lower && const_hex::decode_to_slice(text, &mut bytes).is_ok();
                is_decoded.then_some(Self(bytes)).ok_or($error)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(const_hex::Buffer::<$bytes>::new().format(&self.0))
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        $crate::checked_text::serde_as_text!($type);
    };
}

/// A tuple struct of text: maps can be searched by it.
macro_rules! checked_text {
    ($type:ident) => {
        impl $type {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        // So that maps with such keys can be searched by a request's text without an allocation.
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        $crate::checked_text::serde_as_text!($type);
    };
}

pub(crate) use {checked_text, hex_text, serde_as_text};
