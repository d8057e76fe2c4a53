//! Numbers of 128 bits in lines of the ledger.

use std::fmt;

use crate::checked_text::hex_text;
use crate::digest::Digest;

/// 16 bytes, written as 32 lower-case hex digits: a salt, or the first half of a SHA-256 or an HMAC-SHA256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex128(pub [u8; 16]);

/// The text is not 32 lower-case hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 32 lower-case hex digits")]
pub struct NotHex128;

hex_text!(Hex128, 16, NotHex128);

impl Hex128 {
    /// The first half of the SHA-256 of these words. `label` tells one use from another.
    pub fn of_words(label: &str, words: fmt::Arguments<'_>) -> Self {
        Self::first_half(Digest::of(format!("{label}{words}").as_bytes()))
    }

    /// The first half of a SHA-256.
    pub fn first_half(digest: Digest) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_bytes()[..16]);
        Self(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_have_one_spelling() {
        let text = "00112233445566778899aabbccddeeff";
        assert_eq!(text.parse::<Hex128>().unwrap().to_string(), text);
        let prefixed = format!("0x{}", &text[2..]);
        for bad in [&text[1..], &text.to_uppercase(), &prefixed, ""] {
            assert_eq!(bad.parse::<Hex128>(), Err(NotHex128), "{bad}");
        }
    }
}
