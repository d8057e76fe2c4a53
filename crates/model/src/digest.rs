//! SHA-256 digests as 64 lower-case hex digits, and numbers of 128 bits as 32.

use std::cmp::Ordering;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::checked_text::hex_text;

/// A SHA-256 digest (FIPS 180-4): 32 bytes, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of these parts, one behind the other.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        parts.into_iter().for_each(|part| hash.update(part));
        Self(hash.finalize().into())
    }

    /// A digest that was computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn as_numbers(&self) -> [u64; 4] {
        std::array::from_fn(|at| u64::from_be_bytes(std::array::from_fn(|byte| self.0[8 * at + byte])))
    }
}

/// Orders by bytes. Each reload sorts a million licenses with it; the first eight bytes nearly always decide.
impl Ord for Digest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_numbers().cmp(&other.as_numbers())
    }
}

impl PartialOrd for Digest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a SHA-256 digest: expected 64 lower-case hex digits")]
pub struct NotADigest;

hex_text!(Digest, 32, NotADigest);

/// 16 bytes, written as 32 lower-case hex digits: a salt, or the first half of a SHA-256 or an HMAC-SHA256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex128(pub [u8; 16]);

/// The text is not 32 lower-case hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 32 lower-case hex digits")]
pub struct NotHex128;

hex_text!(Hex128, 16, NotHex128);

impl Hex128 {
    /// The first half of the SHA-256 of `label` and `words`. Each use has a label of its own, so equal words of two uses differ.
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
    fn digest_of_abc_is_the_one_in_fips_180() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), expected);
        assert_eq!(expected.parse(), Ok(Digest::of(b"abc")));
    }

    #[test]
    fn upper_case_short_and_foreign_digits_are_refused() {
        let good = Digest::of(b"").to_string();
        for bad in [good.to_uppercase(), good[1..].to_owned(), format!("{}g", &good[1..])] {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad}");
        }
        for foreign in (0..=u8::MAX)
            .map(char::from)
            .filter(|letter| !matches!(letter, '0'..='9' | 'a'..='f'))
        {
            for at in [0, 62] {
                let mut bad = good.clone();
                bad.replace_range(at..at + foreign.len_utf8(), &foreign.to_string());
                assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn digests_are_in_the_order_of_their_bytes(a: [u8; 32], b: [u8; 32], same in 0..=32_usize) {
            let mut b = b;
            b[..same].copy_from_slice(&a[..same]);
            proptest::prop_assert_eq!(Digest::from_bytes(a).cmp(&Digest::from_bytes(b)), a.cmp(&b));
        }
    }

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
