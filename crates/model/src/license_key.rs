//! License keys: parses and checks what a person typed, and generates new keys.
//!
//! Crockford base32, 20 random symbols (100 bits) and 5 Reed-Solomon check symbols. The key is the customer's secret:
//! it is parsed here, turned into a [`LicenseId`] and dropped. All other code has only the id.

mod symbols;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::digest::{Digest, NotADigest};
use symbols::{
    ALPHABET, ASCII, BITS, CHECK_MASK, NO_SYMBOL, PARTS, RANDOM_SYMBOLS, SEPARATOR, SYMBOLS, find, has_right_check,
    read,
};

const GROUP: usize = 5;
const CANONICAL_LENGTH: usize = SYMBOLS + SYMBOLS / GROUP - 1;

/// A key is found in a text that was encoded so often.
const MOST_ENCODINGS: usize = 3;

/// Whether a text may be encoded: the first characters of what [`DECODERS`] decode.
const ENCODED: [char; 5] = ['%', '&', '\\', '<', '='];

/// What a text says without one encoding: character references of HTML and escapes of JSON, percent-encoding (RFC 3986), tags,
/// quoted-printable (RFC 2045).
///
/// A later kind may take a part of a key away that is not encoded so, such as the `%AB` of `100%AB…` or the `=AB` of `key=AB…`, so
/// the kinds before it are tried alone first.
const DECODERS: [fn(&str) -> String; 5] = [
    |text| replaced(text, reference),
    |text| percent_decode_str(text).decode_utf8_lossy().into_owned(),
    |text| replaced(text, |text| Some((enclosed(text, '<', '>')?.len() + 2, ' '))),
    // As in `key=AB123=2DFG`, where the first one is none.
    |text| {
        let words = text.split_inclusive(|letter: char| letter.is_whitespace() || matches!(letter, '?' | '&'));
        let decoded = words.map(|word| match word.split_once('=') {
            Some((name, value)) => format!("{name}={}", quoted_printable(value)),
            None => word.to_owned(),
        });
        decoded.collect()
    },
    quoted_printable,
];

/// The longest text that is parsed as a key, in bytes.
const MAX_INPUT: usize = 128;

/// A license key with correct check symbols, in canonical form: `XXXXX-XXXXX-XXXXX-XXXXX-XXXXX`.
///
/// It has no `Display`, its `Debug` is redacted, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct LicenseKey([u8; CANONICAL_LENGTH]);

/// Why a text is not a license key. Neither says what was typed.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum LicenseKeyError {
    /// Not 25 symbols of the alphabet.
    #[error("a license key has five groups of five letters or digits")]
    Malformed,
    /// 25 symbols, but the check symbols are wrong: at least one symbol is mistyped.
    #[error("the license key is mistyped: its check symbols do not match")]
    Checksum,
}

impl LicenseKey {
    /// Makes a key from 20 random bytes; uses the low five bits of each (100 bits).
    ///
    /// The bytes must come from the operating system's generator: who can guess them can guess the key.
    pub fn from_random(random: [u8; RANDOM_SYMBOLS]) -> Self {
        let mut key = Self([b'-'; CANONICAL_LENGTH]);
        let mut check = CHECK_MASK;
        for (at, byte) in random.into_iter().enumerate() {
            check ^= key.write(at, byte & 31);
        }
        for at in RANDOM_SYMBOLS..SYMBOLS {
            key.write(at, (check >> (BITS * (SYMBOLS - 1 - at))) as u8 & 31);
        }
        key
    }

    /// The id of the license.
    pub fn id(&self) -> LicenseId {
        LicenseId(Digest::of(&self.0))
    }

    /// The key as text, to show it once to its owner.
    // SECURITY: the only access to the key's text. It may go to a person's terminal, but never to a log, a file or a
    // response.
    pub fn reveal(&self) -> &str {
        // The constructor writes ASCII only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Replaces every license key in `text`, in any spelling and between any other text. The result is decoded if a key was
    /// encoded: as in an address, HTML, JSON or a mail.
    ///
    /// Any 25 symbols with correct check symbols count as a key, with anything but letters and digits between them; one in 33
    /// million random texts has them.
    // SECURITY: use it on all input that may contain a misplaced key, before the input is printed, logged or stored.
    pub fn redact(text: &str) -> Cow<'_, str> {
        let mut clean = Cow::Borrowed(text);
        while let Some(redacted) = Self::redact_once(&clean) {
            clean = Cow::Owned(redacted);
        }
        clean
    }

    /// The text without the keys that it has as it is, or decoded so far that it has one.
    fn redact_once(text: &str) -> Option<String> {
        // Every request asks; most texts are short, and have nothing encoded.
        let is_encoded = text.len() >= SYMBOLS && text.contains(ENCODED);
        if !is_encoded && !has_enough_symbols(text) {
            return None;
        }
        if let Cow::Owned(redacted) = Self::redact_written(text) {
            return Some(redacted);
        }
        let mut decoded = text.to_owned();
        for kinds in 1..=DECODERS.len() {
            for round in 0..MOST_ENCODINGS {
                let before = decoded.clone();
                // The newest kind first: until it changes something, the others have nothing left to do.
                for (place, decode) in DECODERS[..kinds].iter().enumerate().rev() {
                    let next = decode(&decoded);
                    match next == decoded {
                        true if round == 0 && place + 1 == kinds => break,
                        true => continue,
                        false => decoded = next,
                    }
                    if let Cow::Owned(redacted) = Self::redact_written(&decoded) {
                        return Some(redacted);
                    }
                }
                if decoded == before {
                    break;
                }
            }
        }
        None
    }

    /// The same without decoding anything.
    fn redact_written(text: &str) -> Cow<'_, str> {
        let mut clean = String::new();
        let mut copied = 0;
        // The last symbols with only separators between them, and their positions.
        let mut symbols = [0; SYMBOLS];
        let mut places = [0; SYMBOLS];
        let mut count = 0;
        for (at, typed) in text.char_indices() {
            let symbol = match find(typed) {
                SEPARATOR => continue,
                NO_SYMBOL => {
                    count = 0;
                    continue;
                }
                symbol => symbol,
            };
            if count == SYMBOLS {
                symbols.copy_within(1.., 0);
                places.copy_within(1.., 0);
                count -= 1;
            }
            (symbols[count], places[count]) = (symbol, at);
            count += 1;
            if count == SYMBOLS && has_right_check(&symbols) {
                clean += &text[copied..places[0]];
                clean += "[license key]";
                copied = at + typed.len_utf8();
                count = 0;
            }
        }
        if copied == 0 {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(clean + &text[copied..])
        }
    }

    /// Whether `text` contains a license key.
    pub fn is_in(text: &str) -> bool {
        matches!(Self::redact(text), Cow::Owned(_))
    }

    /// Writes a symbol, and returns its part of the check.
    fn write(&mut self, at: usize, symbol: u8) -> u32 {
        self.0[at + at / GROUP] = ALPHABET[usize::from(symbol)];
        PARTS[at][usize::from(symbol)]
    }
}

impl FromStr for LicenseKey {
    type Err = LicenseKeyError;

    /// Parses what a person typed: spaces and dashes of any kind are dropped, case does not matter, `O` is `0`, `I`
    /// and `L` are `1`. Errors are never corrected: the corrected key might be another customer's.
    fn from_str(text: &str) -> Result<Self, LicenseKeyError> {
        if text.len() > MAX_INPUT {
            return Err(LicenseKeyError::Malformed);
        }
        let mut key = Self([b'-'; CANONICAL_LENGTH]);
        let mut count = 0;
        let mut check = CHECK_MASK;
        for typed in text.chars() {
            let symbol = match read(typed) {
                SEPARATOR => continue,
                NO_SYMBOL => return Err(LicenseKeyError::Malformed),
                _ if count == SYMBOLS => return Err(LicenseKeyError::Malformed),
                symbol => symbol,
            };
            check ^= key.write(count, symbol);
            count += 1;
        }
        match (count, check) {
            (SYMBOLS, 0) => Ok(key),
            (SYMBOLS, _) => Err(LicenseKeyError::Checksum),
            _ => Err(LicenseKeyError::Malformed),
        }
    }
}

impl fmt::Debug for LicenseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LicenseKey(redacted, id {})", self.id().log_tag())
    }
}

fn quoted_printable(text: &str) -> String {
    percent_decode_str(&text.replace('=', "%"))
        .decode_utf8_lossy()
        .into_owned()
}

/// Decodes each place of a text that `read` knows. `read` returns the length of the place in bytes, and the character it encodes.
fn replaced(text: &str, read: impl Fn(&str) -> Option<(usize, char)>) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(ENCODED) {
        plain += &rest[..at];
        rest = &rest[at..];
        let (length, meant) = read(rest).unwrap_or((1, char::from(rest.as_bytes()[0])));
        plain.push(meant);
        rest = &rest[length..];
    }
    plain + rest
}

/// What is between the first character and the next `end`, if that is near: a text of nothing but `first` costs no more for each.
fn enclosed(text: &str, first: char, end: char) -> Option<&str> {
    const MAX_ENCLOSED: usize = 128;
    let rest = text.strip_prefix(first)?;
    let end = rest
        .bytes()
        .take(MAX_ENCLOSED)
        .position(|byte| char::from(byte) == end)?;
    rest.get(..end)
}

/// The character reference or the escape that a text begins with. A name counts as a blank, unless it is one of those that
/// escape others.
fn reference(text: &str) -> Option<(usize, char)> {
    let code = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    if let Some(escape) = text.strip_prefix("\\u") {
        return Some((6, code(escape.get(..4)?, 16)?));
    }
    let name = enclosed(text, '&', ';')?;
    let meant = match name
        .strip_prefix('#')
        .map(|number| (number, number.strip_prefix(['x', 'X'])))
    {
        Some((_, Some(hex))) => code(hex, 16)?,
        Some((decimal, None)) => code(decimal, 10)?,
        None if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) => return None,
        None => match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "bsol" => '\\',
            "percnt" => '%',
            "equals" => '=',
            _ => ' ',
        },
    };
    Some((name.len() + 2, meant))
}

/// Whether there may be a key: between two letters that are in no key are as many symbols as one has. Any byte of a non-ASCII
/// character counts as one. Most hosts, versions and file names are too short, and every request asks about them.
fn has_enough_symbols(text: &str) -> bool {
    if text.len() < SYMBOLS {
        return false;
    }
    let mut count = 0;
    text.bytes().any(|byte| {
        match ASCII.get(usize::from(byte)) {
            Some(&NO_SYMBOL) if byte.is_ascii_alphanumeric() => count = 0,
            Some(&(NO_SYMBOL | SEPARATOR)) => {}
            _ => count += 1,
        }
        count == SYMBOLS
    })
}

/// The SHA-256 of a license key's canonical form: the name of the license everywhere.
///
/// It is not secret, and cannot be turned back into the key, which has 100 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct LicenseId(Digest);

impl LicenseId {
    /// An id from the store.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The smallest id that begins so, with at most 32 bytes.
    pub fn first_with(beginning: &[u8]) -> Self {
        Self::from_bytes(std::array::from_fn(|at| beginning.get(at).copied().unwrap_or_default()))
    }

    /// The 32 bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The first 12 hex digits: how a log line names a license.
    pub fn log_tag(&self) -> String {
        const_hex::encode(&self.as_bytes()[..6])
    }
}

impl FromStr for LicenseId {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        text.parse().map(Self)
    }
}

impl fmt::Display for LicenseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for LicenseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::symbols::CHECK_SYMBOLS;
    use super::*;

    #[derive(serde::Deserialize)]
    struct Vector {
        input: String,
        result: String,
        canonical: Option<String>,
        note: String,
    }

    #[test]
    fn every_vector_reads_as_it_says() {
        let vectors: Vec<Vector> =
            serde_json::from_str(include_str!("../../../tests/vectors/license_keys.json")).unwrap();
        assert!(vectors.len() > 20);
        for vector in vectors {
            let read = vector.input.parse::<LicenseKey>();
            let expected = match vector.result.as_str() {
                "malformed" => Err(LicenseKeyError::Malformed),
                "checksum" => Err(LicenseKeyError::Checksum),
                _ => Ok(vector.canonical.as_deref().unwrap()),
            };
            assert_eq!(
                read.as_ref().map(LicenseKey::reveal).map_err(|error| *error),
                expected,
                "{}",
                vector.note
            );
        }
    }

    #[test]
    fn every_error_in_up_to_five_adjacent_symbols_of_a_key_is_detected() {
        let key = LicenseKey::from_random(std::array::from_fn(|index| index as u8 * 7));
        let canonical: Vec<char> = key.reveal().chars().filter(|&symbol| symbol != '-').collect();
        for start in 0..SYMBOLS {
            for length in 1..=CHECK_SYMBOLS.min(SYMBOLS - start) {
                for shift in 1..32 {
                    let mut typed = canonical.clone();
                    for symbol in &mut typed[start..start + length] {
                        let value = usize::from(read(*symbol));
                        *symbol = char::from(ALPHABET[(value + shift) % 32]);
                    }
                    let typed: String = typed.into_iter().collect();
                    assert_eq!(typed.parse::<LicenseKey>(), Err(LicenseKeyError::Checksum));
                }
            }
        }
    }

    #[test]
    fn a_key_is_found_and_replaced_wherever_it_stands() {
        let key = LicenseKey::from_random(std::array::from_fn(|index| index as u8));
        let text = key.reveal();
        let bare = key.reveal().replace('-', "").to_lowercase();
        for (written, expected) in [
            (text.to_owned(), "[license key]"),
            (format!("--expires={text}"), "--expires=[license key]"),
            (
                format!("key: '{bare}', and {text}."),
                "key: '[license key]', and [license key].",
            ),
            (format!("https://{bare}.example/"), "https://[license key].example/"),
            (format!("1.0-{text}é"), "1.0-[license key]é"),
        ] {
            assert_eq!(LicenseKey::redact(&written), expected);
            assert!(LicenseKey::is_in(&written));
        }
        for harmless in [
            "",
            "1.2.3",
            "A note on order 4711, renewed twice",
            &text[..28],
            &Digest::of(b"x").to_string(),
        ] {
            assert_eq!(LicenseKey::redact(harmless), harmless);
            assert!(!LicenseKey::is_in(harmless), "{harmless}");
        }
    }

    #[test]
    fn a_key_is_found_whatever_separates_its_symbols() {
        let key = LicenseKey::from_random(std::array::from_fn(|index| index as u8 * 3));
        let wide: String = key
            .reveal()
            .chars()
            .filter_map(|symbol| char::from_u32(u32::from(symbol) + 0xFEE0))
            .collect();
        let separated = |separator: &str| key.reveal().replace('-', separator);
        let each = |separator: &str| {
            let symbols = key.reveal().replace('-', "");
            symbols
                .chars()
                .map(|symbol| format!("{symbol}{separator}"))
                .collect::<String>()
        };
        let separators = [
            "\u{200E}",
            "\u{200B}",
            "\u{200C}",
            "\u{200D}",
            "\u{2060}",
            "\u{AD}",
            "\u{2007}",
            "\u{202F}",
            "\u{3000}",
            "\u{2009}",
            "\u{85}",
            "\u{2028}",
            "\u{FE0F}",
            "\u{301}",
            "\u{FF0D}",
            "\u{2E3A}",
            "\u{30FB}",
            "\u{B7}",
            "\u{E0020}",
            ".",
            ",",
            ":",
            ";",
            "/",
            "\\",
            "|",
            "+",
            "~",
            "*",
            "'",
            "\"",
            "()",
            "%2D",
            "%2d",
            "%20",
            "%E2%80%93",
            "%252D",
            "%25252D",
            "+-+",
            "&#45;",
            "&#x2D;",
            "&#X2013;",
            "&#8203;",
            "&ndash;",
            "&nbsp;",
            "&amp;#45;",
            "&amp;amp;ndash;",
            "%26%2345%3B",
            "&#37;2D",
            "=2D",
            "=E2=80=93",
            "=3D2D",
            "=\r\n",
            "<wbr>",
            "<wbr class=\"u\"/>",
            "&lt;wbr&gt;",
            "&amp;lt;wbr&amp;gt;",
            "\\u2013",
            "\\u002d",
            "\\\\u2013",
        ];
        for separator in separators {
            let written = [separated(separator), each(separator)];
            // What looks like an encoded byte hides no key that is written with characters or references.
            let is_exact = !separator.contains(['%', '=', '<']) && !separator.contains("lt;") && separator != "&#37;2D";
            let encoded = is_exact.then(|| format!("100%{}", separated(separator)));
            for written in written.into_iter().chain(encoded) {
                let text = format!("https://a.example/?key={written}&x=1");
                assert!(LicenseKey::is_in(&text), "{separator:?}: {text}");
                let clean = LicenseKey::redact(&text);
                assert!(clean.contains("[license key]") && !LicenseKey::is_in(&clean), "{clean}");
            }
        }
        assert!(LicenseKey::is_in(&wide) && LicenseKey::is_in(&wide.to_lowercase()));
        for harmless in [
            "https://shop.example.co.uk/wp-admin/plugins.php?page=1",
            "100%",
            "%zz%2",
            "%E2%28%A1",
            "a < b && c > d; \\u00",
            "<p>Fish &amp; Chips, 2 &#8364; =E2=82=AC \\ud800 &#xD800; &#x110000;</p>",
        ] {
            assert_eq!(LicenseKey::redact(harmless), harmless);
        }
    }

    #[test]
    fn a_text_of_nothing_but_beginnings_takes_no_time() {
        let began = std::time::Instant::now();
        for beginning in ["<", "&", "%", "=", "\\", "\\u", "&#", "&amp;", "<=%&", "=4", "&#45;"] {
            let text = beginning.repeat((1 << 17) / beginning.len());
            assert!(!LicenseKey::is_in(&text), "{beginning}");
        }
        // Unoptimised, on a busy machine; quadratic time would be minutes.
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }

    #[test]
    fn debug_shows_the_id_and_never_the_key() {
        let key = LicenseKey::from_random([9; 20]);
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.id().log_tag()));
        assert!(!shown.contains("99999"));
    }

    #[test]
    fn over_128_bytes_are_malformed_even_when_all_of_it_is_blank() {
        let key = LicenseKey::from_random([3; 20]);
        let padded = |blanks: usize| format!("{}{}", key.reveal(), " ".repeat(blanks));
        assert_eq!(padded(MAX_INPUT - CANONICAL_LENGTH).parse(), Ok(key.clone()));
        assert_eq!(
            padded(MAX_INPUT - CANONICAL_LENGTH + 1).parse::<LicenseKey>(),
            Err(LicenseKeyError::Malformed)
        );
    }

    proptest::proptest! {
        #[test]
        fn a_new_key_reads_back_as_itself(random: [u8; 20]) {
            let key = LicenseKey::from_random(random);
            proptest::prop_assert_eq!(key.reveal().to_lowercase().replace('-', " ").parse(), Ok(key));
        }

        #[test]
        fn a_key_is_found_in_any_text_however_it_is_written(
            random: [u8; 20],
            before in ".{0,9}",
            between in "[-_ \t\u{A0}\u{2011}]{0,3}",
            after in "[^-_ ]{0,9}",
        ) {
            let key = LicenseKey::from_random(random);
            let written = key.reveal().replace('-', &between);
            let text = format!("{before}/{written}/{after}");
            proptest::prop_assert!(LicenseKey::is_in(&text));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<LicenseKey>();
        }
    }
}
