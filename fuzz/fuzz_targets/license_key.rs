//! Any text as a license key, and with license keys in it. An accepted key is the same however it is written, and no
//! key with one to five wrong symbols is accepted.
#![no_main]

use countersign_model::license_key::{LicenseKey, LicenseKeyError};
use libfuzzer_sys::fuzz_target;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

fuzz_target!(|text: &str| {
    let redacted = LicenseKey::redact(text);
    assert!(!LicenseKey::is_in(&redacted));
    // Any text is also where a key's randomness comes from, and what is typed wrong.
    let seed: [u8; 20] = std::array::from_fn(|index| text.bytes().skip(index).step_by(20).fold(0, u8::wrapping_add));
    let made = LicenseKey::from_random(seed);
    for key in [text.parse().ok(), Some(made)].into_iter().flatten() {
        let written = key.reveal();
        assert!(LicenseKey::is_in(written));
        for other in [
            written.to_owned(),
            written.to_lowercase(),
            written.replace('-', ""),
            written.replace('0', "o"),
        ] {
            assert_eq!(other.parse().as_ref(), Ok(&key));
        }
        let mut wrong = written.as_bytes().to_vec();
        for pair in text.as_bytes().chunks_exact(2).take(5) {
            let at = usize::from(pair[0]) % 25;
            wrong[at + at / 5] = ALPHABET[usize::from(pair[1]) % 32];
        }
        if wrong != written.as_bytes() {
            let wrong = std::str::from_utf8(&wrong).unwrap();
            assert_eq!(wrong.parse::<LicenseKey>(), Err(LicenseKeyError::Checksum));
        }
    }
});
