//! Release keys: the SSH public keys of the people who sign releases.
//!
//! Only Ed25519 and its hardware form (RFC 8709; OpenSSH's PROTOCOL.u2f). One key may be written in both forms, so keys are
//! counted by their [point](ReleaseKey::point).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ed25519_dalek::VerifyingKey;

use crate::checked_text::serde_as_text;
use crate::digest::Digest;

/// The longest line that is taken as a key, in bytes.
const MAX_LINE: usize = 1_024;

/// The longest name of an application that is taken, in bytes. OpenSSH's own is `ssh:`.
const MAX_APPLICATION: usize = 255;

/// In which form a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `ssh-ed25519`: a key in a file or in an agent.
    Plain,
    /// `sk-ssh-ed25519@openssh.com`: a key in a FIDO token.
    Hardware,
}

impl KeyForm {
    /// OpenSSH's name for it, of the key and of its signatures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "ssh-ed25519",
            Self::Hardware => "sk-ssh-ed25519@openssh.com",
        }
    }
}

/// A public key that may sign releases: `ssh-ed25519 AAAA… comment`. Two keys are equal where their blobs are.
#[derive(Clone)]
pub struct ReleaseKey {
    form: KeyForm,
    point: VerifyingKey,
    application: String,
    blob: Vec<u8>,
    comment: String,
}

/// Why a text is no release key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAReleaseKey {
    /// Another kind of key, or none.
    #[error("not a release key: expected \"ssh-ed25519 AAAA…\" or \"sk-ssh-ed25519@openssh.com AAAA…\"")]
    Form,
    /// The part behind the name of the form is damaged.
    #[error("not a release key: the part behind the key's type is damaged or belongs to another type")]
    Blob,
    /// The 32 bytes are no key that anybody was given by a program.
    #[error("not a release key: its 32 bytes are no point that an Ed25519 key can have")]
    Point,
}

impl ReleaseKey {
    /// In which form it signs.
    pub fn form(&self) -> KeyForm {
        self.form
    }

    /// The key itself. Two keys with the same 32 bytes are one, whatever their forms and comments.
    pub fn point(&self) -> &[u8; 32] {
        self.point.as_bytes()
    }

    /// The same, ready to verify with.
    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.point
    }

    /// The application of a hardware key, mostly `ssh:`; empty for a plain one.
    pub fn application(&self) -> &str {
        &self.application
    }

    /// The key in SSH's wire format, as a signature has it.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The comment behind the key, by which people know it; may be empty.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// By what people know it: the comment, or the fingerprint that `ssh-keygen -l` shows.
    pub fn known_as(&self) -> String {
        match self.comment() {
            "" => format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&self.blob).as_bytes())),
            comment => comment.to_owned(),
        }
    }

    /// Reads a key in SSH's wire format.
    ///
    /// # Errors
    ///
    /// Where it is another kind of key, there is more behind it, or its point is none.
    pub fn from_blob(blob: &[u8]) -> Result<Self, NotAReleaseKey> {
        let mut rest = blob;
        let form = match ssh_string(&mut rest).ok_or(NotAReleaseKey::Blob)? {
            b"ssh-ed25519" => KeyForm::Plain,
            b"sk-ssh-ed25519@openssh.com" => KeyForm::Hardware,
            _ => return Err(NotAReleaseKey::Form),
        };
        let point: &[u8; 32] = ssh_string(&mut rest)
            .and_then(|point| point.try_into().ok())
            .ok_or(NotAReleaseKey::Blob)?;
        let application = match form {
            KeyForm::Plain => "",
            KeyForm::Hardware => ssh_string(&mut rest)
                .and_then(|name| std::str::from_utf8(name).ok())
                .filter(|name| name.len() <= MAX_APPLICATION && name.bytes().all(|byte| byte.is_ascii_graphic()))
                .ok_or(NotAReleaseKey::Blob)?,
        };
        if !rest.is_empty() {
            return Err(NotAReleaseKey::Blob);
        }
        Ok(Self {
            form,
            point: checked_point(point).ok_or(NotAReleaseKey::Point)?,
            application: application.to_owned(),
            blob: blob.to_owned(),
            comment: String::new(),
        })
    }
}

/// A point in its one encoding, and of the large order: what libsodium takes, too.
fn checked_point(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    let key = VerifyingKey::from_bytes(bytes).ok()?;
    // SECURITY: the library decodes 19 values that are beyond the field's order as well.
    let is_canonical = key.to_edwards().compress().as_bytes() == bytes;
    (is_canonical && !key.is_weak()).then_some(key)
}

/// Takes a string of SSH's wire format (RFC 4251 section 5) off the front: four bytes of length, and so many bytes.
pub fn ssh_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (string, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(string)
}

/// A line as in `id_ed25519.pub`: type, base64 and an optional comment, with one space between.
impl FromStr for ReleaseKey {
    type Err = NotAReleaseKey;

    fn from_str(line: &str) -> Result<Self, NotAReleaseKey> {
        let mut parts = line.splitn(3, ' ');
        let name = parts.next().unwrap_or_default();
        let base64 = parts.next().unwrap_or_default();
        let comment = parts.next().unwrap_or_default().trim();
        let is_known = [KeyForm::Plain, KeyForm::Hardware]
            .iter()
            .any(|form| form.name() == name);
        if !is_known || line.len() > MAX_LINE || comment.chars().any(char::is_control) {
            return Err(NotAReleaseKey::Form);
        }
        // This decoder refuses bits behind the last byte and a missing padding.
        let blob = STANDARD.decode(base64).map_err(|_| NotAReleaseKey::Blob)?;
        let key = Self::from_blob(&blob)?;
        match key.form.name() == name {
            true => Ok(Self {
                comment: comment.to_owned(),
                ..key
            }),
            false => Err(NotAReleaseKey::Blob),
        }
    }
}

/// The line without its comment.
impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.form.name(), STANDARD.encode(&self.blob))
    }
}

impl fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.comment)
    }
}

impl PartialEq for ReleaseKey {
    fn eq(&self, other: &Self) -> bool {
        self.blob == other.blob
    }
}

impl Eq for ReleaseKey {}

serde_as_text!(ReleaseKey);

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8032 section 7.1, test 1, as OpenSSH writes it.
    const LINE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";

    fn string(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
    }

    fn blob(parts: &[&[u8]]) -> Vec<u8> {
        parts.iter().flat_map(|part| string(part)).collect()
    }

    fn point() -> [u8; 32] {
        *LINE.parse::<ReleaseKey>().unwrap().point()
    }

    #[test]
    fn a_line_is_read_with_its_comment_and_written_without() {
        let key: ReleaseKey = format!("{LINE} anna@acme, laptop").parse().unwrap();
        assert_eq!((key.form(), key.comment()), (KeyForm::Plain, "anna@acme, laptop"));
        assert_eq!(key.to_string(), LINE);
        assert_eq!(key, LINE.parse().unwrap());
    }

    #[test]
    fn one_key_in_two_forms_has_one_point() {
        let name = b"sk-ssh-ed25519@openssh.com";
        let hardware = ReleaseKey::from_blob(&blob(&[name, &point(), b"ssh:"])).unwrap();
        assert_eq!((hardware.form(), hardware.application()), (KeyForm::Hardware, "ssh:"));
        assert_eq!(*hardware.point(), point());
        assert_ne!(hardware, LINE.parse().unwrap());
        assert_eq!(hardware.to_string().parse::<ReleaseKey>().unwrap(), hardware);
    }

    #[test]
    fn other_types_and_damaged_lines_are_refused() {
        let rsa = format!("ssh-rsa {}", STANDARD.encode(blob(&[b"ssh-rsa", b"\x01\0\x01", b"n"])));
        let hidden = format!("ssh-ed25519 {}", STANDARD.encode(blob(&[b"ssh-rsa", &point()])));
        let other_form = LINE.replace("ssh-ed25519 ", "sk-ssh-ed25519@openssh.com ");
        let options = format!("restrict {LINE}");
        for (line, reason) in [
            ("", NotAReleaseKey::Form),
            ("ssh-ed25519", NotAReleaseKey::Blob),
            (&rsa, NotAReleaseKey::Form),
            (&hidden, NotAReleaseKey::Form),
            (&options, NotAReleaseKey::Form),
            (&format!("{LINE} a\nb"), NotAReleaseKey::Form),
            (&format!("{LINE} {}", "a".repeat(MAX_LINE)), NotAReleaseKey::Form),
            (&other_form, NotAReleaseKey::Blob),
            (&LINE[..LINE.len() - 1], NotAReleaseKey::Blob),
            (&format!("{LINE}A"), NotAReleaseKey::Blob),
            (&LINE.replace(' ', "  "), NotAReleaseKey::Blob),
            (
                &format!(
                    "ssh-ed25519 {}",
                    STANDARD.encode(blob(&[b"ssh-ed25519", &point(), b""]))
                ),
                NotAReleaseKey::Blob,
            ),
            (
                &format!(
                    "ssh-ed25519 {}",
                    STANDARD.encode(blob(&[b"ssh-ed25519", &point()[1..]]))
                ),
                NotAReleaseKey::Blob,
            ),
        ] {
            assert_eq!(line.parse::<ReleaseKey>().unwrap_err(), reason, "{line}");
        }
    }

    #[test]
    fn points_that_no_key_has_are_refused() {
        let mut beyond_the_field = [0xff; 32];
        beyond_the_field[31] = 0x7f;
        // y = p + 3 is decoded by the library and is on the curve.
        let mut second_encoding = [0xff; 32];
        second_encoding[0] = 0xf0;
        second_encoding[31] = 0x7f;
        let mut neutral = [0; 32];
        neutral[0] = 1;
        for point in [beyond_the_field, second_encoding, neutral, [0; 32]] {
            let refused = ReleaseKey::from_blob(&blob(&[b"ssh-ed25519", &point])).unwrap_err();
            assert_eq!(refused, NotAReleaseKey::Point, "{point:?}");
        }
    }
}
