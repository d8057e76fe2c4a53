//! Decodes files of unknown encoding: the first step for every file of a plugin's author.
//!
//! The result is UTF-8 with `\n` line ends and no control characters, which every parser expects. `encoding_rs`
//! decodes as browsers do (WHATWG); this file detects the encoding.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Decodes UTF-8 (drops a BOM), UTF-16 with a BOM, and other bytes as Windows-1252.
///
/// So a Latin-1 byte in a UTF-8 file costs one character, not the whole file. Every line end of Unicode (CR LF, CR,
/// VT, FF, NEL, LS, PS) becomes `\n`. Other control characters are dropped, except TAB.
pub fn decode(bytes: &[u8]) -> String {
    match Encoding::for_bom(bytes) {
        Some((encoding, bom)) if encoding == UTF_8 => decode_utf8(&bytes[bom..]),
        Some((encoding, bom)) => clean(encoding.decode_without_bom_handling(&bytes[bom..]).0.into_owned()),
        None => decode_utf8(bytes),
    }
}

/// Drops control characters other than `\n` and TAB.
pub(crate) fn without_controls(mut text: String) -> String {
    if suspect(text.as_bytes()).is_none() {
        return text;
    }
    text.retain(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    text
}

fn decode_utf8(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return clean(text.to_owned());
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&WINDOWS_1252.decode_without_bom_handling(chunk.invalid()).0);
    }
    clean(text)
}

fn clean(text: String) -> String {
    let Some(mut at) = suspect(text.as_bytes()) else {
        return text;
    };
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    loop {
        clean.push_str(&rest[..at]);
        let mut behind = rest[at..].chars();
        let Some(character) = behind.next() else { break };
        match character {
            '\r' if behind.as_str().starts_with('\n') => {}
            '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
            _ if character.is_control() => {}
            _ => clean.push(character),
        }
        rest = behind.as_str();
        at = suspect(rest.as_bytes()).unwrap_or(rest.len());
    }
    clean
}

/// Where the first character begins that may have to be replaced or dropped.
fn suspect(bytes: &[u8]) -> Option<usize> {
    // The non-ASCII characters among them begin with one of these two bytes.
    let is_suspect = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\t') || matches!(byte, 0x7F | 0xC2 | 0xE2);
    // Without an early exit inside a chunk, the compiler checks many bytes at once.
    let any_suspect = |chunk: &[u8]| chunk.iter().fold(false, |any, byte| any | is_suspect(byte));
    let chunks = bytes.chunks(256).take_while(|chunk| !any_suspect(chunk));
    let clean: usize = chunks.map(<[u8]>::len).sum();
    bytes[clean..].iter().position(is_suspect).map(|at| clean + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodings_are_distinguished() {
        for (bytes, expected) in [
            (&b"plain"[..], "plain"),
            (b"\xEF\xBB\xBFbom", "bom"),
            (b"\xFF\xFEa\0\xE4\0", "aä"),
            (b"\xFE\xFF\0a\0\xE4", "aä"),
            (b"\xFF\xFE\x3D\xD8\x00", "\u{FFFD}"),
            (b"\xFF\xFEa\0\xE4", "a\u{FFFD}"),
            (b"caf\xE9 \x96 \x80", "café – €"),
            ("ä".as_bytes(), "ä"),
            (b"\xC3\xA4 and \xE4", "ä and ä"),
            (b"cut \xE2\x82", "cut â‚"),
        ] {
            assert_eq!(decode(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn every_line_end_is_a_line_feed_and_other_controls_go() {
        let text = "a\r\nb\rc\n\nd\u{85}e\u{2028}f\0g\u{7}h\ti\u{9B}j\u{FEFF}";
        assert_eq!(decode(text.as_bytes()), "a\nb\nc\n\nd\ne\nfgh\tij\u{FEFF}");
    }

    proptest! {
        #[test]
        fn any_bytes_become_text_without_controls(bytes: Vec<u8>) {
            prop_assert!(decode(&bytes).chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }
    }
}
