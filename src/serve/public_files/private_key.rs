//! Finds private keys in bytes.

use memchr::memmem;

/// How much of a file is searched, in bytes. Key files are small, and a large file is read for this with every request.
pub(crate) const SEARCHED: u64 = 1 << 20;

/// What a PEM block begins with (RFC 7468 section 3).
const BEGIN: &[u8] = b"-----BEGIN ";

/// Longer than any label.
const MAX_LABEL: usize = 48;

/// The key begins this close after its label: old formats have headers between.
const NEAR: usize = 1_024;

/// This many base64 characters in a row are not a sentence about keys.
const RUN: usize = 40;

/// Whether the bytes contain a private key, encrypted or not: in PEM, also escaped in JSON, in DER, as PKCS #12, as a
/// JWK or in PuTTY's format. A text that only mentions one does not count.
pub(crate) fn is_in(bytes: &[u8]) -> bool {
    has_pem(bytes) || is_der(bytes) || has_jwk(bytes) || bytes.starts_with(b"PuTTY-User-Key-File-")
}

/// A private key in DER (X.690) is a sequence. PKCS #1, SEC 1 and PKCS #8 (RFC 8017 appendix A.1.2, RFC 5915 section
/// 3, RFC 5958 section 2) begin with the version 0 or 1, PKCS #12 (RFC 7292 section 4) with 3. An encrypted PKCS #8
/// key (RFC 5958 section 3) begins with a sequence whose first member is an algorithm of PKCS #5 or #12. A
/// certificate begins with a sequence of another kind, a CMS message with an object identifier.
fn is_der(bytes: &[u8]) -> bool {
    const VERSION: [u8; 2] = [2, 1];
    /// 1.2.840.113549.1, of which 5 is PKCS #5 and 12 is PKCS #12.
    const PKCS: [u8; 7] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01];
    let Some(members) = in_sequence(bytes) else {
        return false;
    };
    if let [tag, length, version, ..] = members
        && [*tag, *length] == VERSION
    {
        return matches!(version, 0 | 1 | 3);
    }
    match in_sequence(members) {
        Some([6, _, identifier @ ..]) => identifier
            .strip_prefix(&PKCS)
            .is_some_and(|rest| matches!(rest.first(), Some(5 | 12))),
        _ => false,
    }
}

/// The content of the sequence with which these bytes begin, as far as it is there.
fn in_sequence(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0x30, 0x00..=0x7f, rest @ ..] => Some(rest),
        // The length takes one to four bytes (X.690 section 8.1.3.5).
        [0x30, form @ 0x81..=0x84, rest @ ..] => rest.get(usize::from(form & 0x7f)..),
        _ => None,
    }
}

/// The private member of a key of any type is `d` (RFC 7518 sections 6.2.2 and 6.3.2, RFC 8037 section 2).
fn has_jwk(bytes: &[u8]) -> bool {
    let is_d = |at: usize| {
        let value = bytes[at + 3..]
            .trim_ascii_start()
            .strip_prefix(b":")
            .map(<[u8]>::trim_ascii_start);
        let value = value.and_then(|value| value.strip_prefix(b"\"")).unwrap_or_default();
        let sign = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        value.iter().take_while(sign).take(RUN).count() == RUN
    };
    memmem::find(bytes, b"\"kty\"").is_some() && memmem::find_iter(bytes, b"\"d\"").any(is_d)
}

fn has_pem(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, BEGIN).any(|at| {
        let rest = &bytes[at + BEGIN.len()..];
        let Some(end) = memmem::find(&rest[..rest.len().min(MAX_LABEL)], b"-----") else {
            return false;
        };
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
            for between in [
                "\n",
                "\r\n",
                "\\n",
                "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n",
            ] {
                let text = format!("before -----BEGIN {label}-----{between}{line}\nafter");
                assert!(is_in(text.as_bytes()), "{text}");
            }
        }
        let jwk = format!(
            "{{\"keys\": [{{\"kty\": \"RSA\", \"d\" : \"{}\"}}]}}",
            "Az-_".repeat(20)
        );
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
        for (made_by, begins, is_key) in [
            ("ecparam -genkey: SEC 1, P-256", "30 77 02 01 01 04 20", true),
            (
                "genpkey EC P-256: PKCS #8",
                "30 81 87 02 01 00 30 13 06 07 2a 86 48 ce 3d",
                true,
            ),
            ("genpkey ED25519: PKCS #8", "30 2e 02 01 00 30 05 06 03 2b 65 70", true),
            (
                "pkcs8 -topk8 of EC: encrypted",
                "30 81 ec 30 57 06 09 2a 86 48 86 f7 0d 01 05 0d",
                true,
            ),
            (
                "pkcs8 -topk8 of RSA: encrypted",
                "30 82 05 2d 30 57 06 09 2a 86 48 86 f7 0d 01 05 0d",
                true,
            ),
            (
                "pkcs8 -topk8 -v1 PBE-SHA1-3DES",
                "30 82 05 0e 30 28 06 0a 2a 86 48 86 f7 0d 01 0c 01 03",
                true,
            ),
            ("a length of three bytes", "30 83 01 00 00 02 01 00", true),
            ("ec -pubout", "30 59 30 13 06 07 2a 86 48 ce 3d 02 01", false),
            (
                "rsa -pubout",
                "30 82 01 22 30 0d 06 09 2a 86 48 86 f7 0d 01 01 01",
                false,
            ),
            (
                "req: a request for a certificate",
                "30 82 02 5c 30 82 01 44 02 01 00",
                false,
            ),
            (
                "x509 of Ed25519: a certificate",
                "30 82 01 3f 30 81 f2 a0 03 02 01 02",
                false,
            ),
            ("cms: a message", "30 82 05 8c 06 09 2a 86 48 86 f7 0d 01 07 02", false),
            ("crl2pkcs7", "30 2a 06 09 2a 86 48 86 f7 0d 01 07 02", false),
            ("a sequence that ends at once", "30 82", false),
        ] {
            let bytes: Vec<u8> = begins
                .split(' ')
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                .collect();
            assert_eq!(is_in(&bytes), is_key, "openssl {made_by}");
        }
        // The first bytes of `openssl pkcs12 -export`, and of a certificate.
        assert!(is_in(&[0x30, 0x82, 0x0a, 0x31, 0x02, 0x01, 0x03, 0x30, 0x82]));
        assert!(!is_in(&[0x30, 0x82, 0x0a, 0x31, 0x30, 0x82, 0x09, 0x19, 0xa0]));
    }
}
