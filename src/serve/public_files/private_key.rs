//! Finds private keys in bytes: what must never leave this machine.

use memchr::memmem;

/// So much of a file is searched, in bytes: keys stand in small files, and a large one is read for it with every request.
pub const SEARCHED: u64 = 1 << 20;

/// What a PEM block begins with (RFC 7468 section 3).
const BEGIN: &[u8] = b"-----BEGIN ";

/// Longer than any label.
const MAX_LABEL: usize = 48;

/// A key begins this close behind its label: old ones have headers between.
const NEAR: usize = 1_024;

/// So much base64 in a row is no sentence about keys.
const RUN: usize = 40;

/// Whether a private key in PEM stands in these bytes: of any kind, encrypted or not, with line ends or escaped in JSON. A text
/// that only names the label holds none.
pub fn is_in(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, BEGIN).any(|at| {
        let rest = &bytes[at + BEGIN.len()..];
        let Some(end) = memmem::find(&rest[..rest.len().min(MAX_LABEL)], b"-----") else { return false };
        memmem::find(&rest[..end], b"PRIVATE KEY").is_some() && has_base64(&rest[end..])
    })
}

fn has_base64(bytes: &[u8]) -> bool {
    let near = &bytes[..bytes.len().min(NEAR)];
    let sign = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    near.split(|byte| !sign(byte)).any(|run| run.len() >= RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_of_any_kind_is_found_and_what_is_public_or_speaks_of_keys_is_not() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        for label in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
        ] {
            for between in ["\n", "\r\n", "\\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n"] {
                let text = format!("before -----BEGIN {label}-----{between}{line}\nafter");
                assert!(is_in(text.as_bytes()), "{text}");
            }
        }
        for text in [
            format!("-----BEGIN PUBLIC KEY-----\n{line}"),
            format!("-----BEGIN CERTIFICATE-----\n{line}"),
            "A file that begins with -----BEGIN PRIVATE KEY----- belongs to nobody but you.".to_owned(),
            format!("-----BEGIN {}PRIVATE KEY-----\n{line}", "x".repeat(100)),
            "-----BEGIN ".repeat(1_000),
            String::new(),
        ] {
            assert!(!is_in(text.as_bytes()), "{text}");
        }
    }
}
