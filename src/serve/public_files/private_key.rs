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

/// Whether a private key stands in these bytes, encrypted or not: in PEM, also escaped in JSON, in DER, as PKCS #12, as a JWK
/// or in PuTTY's format. A text that only names such a thing holds none.
pub fn is_in(bytes: &[u8]) -> bool {
    has_pem(bytes) || is_der(bytes) || has_jwk(bytes) || bytes.starts_with(b"PuTTY-User-Key-File-")
}

/// PKCS #1 and #8 (RFC 8017 appendix A.1.2, RFC 5958 section 2) are a sequence that begins with the version 0 or 1, PKCS #12
/// (RFC 7292 section 4) with 3. A certificate begins with a sequence, a CMS message with an object identifier.
fn is_der(bytes: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const TWO_BYTES_OF_LENGTH: u8 = 0x82;
    const INTEGER_OF_ONE_BYTE: [u8; 2] = [2, 1];
    match bytes {
        [SEQUENCE, TWO_BYTES_OF_LENGTH, _, _, tag, length, version, ..] => {
            [*tag, *length] == INTEGER_OF_ONE_BYTE && matches!(version, 0 | 1 | 3)
        }
        _ => false,
    }
}

/// The private member of a key of any type is `d` (RFC 7518 sections 6.2.2 and 6.3.2, RFC 8037 section 2).
fn has_jwk(bytes: &[u8]) -> bool {
    let is_d = |at: usize| {
        let value = bytes[at + 3..].trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        let value = value.and_then(|value| value.strip_prefix(b"\"")).unwrap_or_default();
        let sign = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        value.iter().take_while(sign).take(RUN).count() == RUN
    };
    memmem::find(bytes, b"\"kty\"").is_some() && memmem::find_iter(bytes, b"\"d\"").any(is_d)
}

fn has_pem(bytes: &[u8]) -> bool {
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
        let jwk = format!("{{\"keys\": [{{\"kty\": \"RSA\", \"d\" : \"{}\"}}]}}", "Az-_".repeat(20));
        assert!(is_in(jwk.as_bytes()));
        assert!(is_in(b"PuTTY-User-Key-File-3: ssh-ed25519"));
        for text in [
            jwk.replace("\"d\"", "\"n\""),
            jwk.replace("kty", "key"),
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

    #[test]
    fn a_private_key_in_der_is_found_and_a_public_one_and_a_certificate_are_not() {
        use rsa::pkcs1::{EncodeRsaPrivateKey as _, EncodeRsaPublicKey as _};
        use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _};
        let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
        assert!(is_in(key.to_pkcs8_der().unwrap().as_bytes()));
        assert!(is_in(key.to_pkcs1_der().unwrap().as_bytes()));
        assert!(!is_in(key.to_public_key().to_public_key_der().unwrap().as_bytes()));
        assert!(!is_in(key.to_public_key().to_pkcs1_der().unwrap().as_bytes()));
        // The first bytes of `openssl pkcs12 -export`, and of a certificate.
        assert!(is_in(&[0x30, 0x82, 0x0a, 0x31, 0x02, 0x01, 0x03, 0x30, 0x82]));
        assert!(!is_in(&[0x30, 0x82, 0x0a, 0x31, 0x30, 0x82, 0x09, 0x19, 0xa0]));
    }
}
