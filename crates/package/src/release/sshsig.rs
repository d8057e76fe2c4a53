//! One SSH signature (OpenSSH's PROTOCOL.sshsig), read so that only one form of it is taken, and verified.
//!
//! Strict at every place: the armor is the one that `ssh-keygen` writes, nothing is left over, and a hardware key must have
//! been touched, for which OpenSSH itself does not ask. The client's PHP does the same; tests hold all three together.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signature;
use sha2::{Digest as _, Sha256, Sha512};

use countersign_model::release_key::{KeyForm, NotAReleaseKey, ReleaseKey, ssh_string};

/// What the signatures of releases are for, and those for anything else are not: `ssh-keygen -Y sign -n`.
pub const NAMESPACE: &str = "countersign-release";

/// The largest armored signature that is taken, in bytes. One by a hardware key has about 400.
pub const MAX_ARMORED: usize = 2_048;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "-----END SSH SIGNATURE-----\n";

/// Base64 characters a line.
const WIDTH: usize = 70;

/// What every blob, and every text that is signed, begins with.
const MAGIC: &[u8; 6] = b"SSHSIG";

/// The flag of a hardware signature that says: the user touched the token.
const TOUCHED: u8 = 1;

/// A signature in our namespace. Whether it is good, [`Sshsig::verify`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sshsig {
    key: ReleaseKey,
    hash: HashName,
    signature: Signature,
    /// Flags and counter, as the token signed them.
    hardware: Option<[u8; 5]>,
    armored: String,
}

/// How the message is hashed before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashName {
    Sha256,
    Sha512,
}

/// Why a text is no signature of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshsigError {
    /// The armor is another than the one `ssh-keygen` writes.
    #[error("not an SSH signature as `ssh-keygen` writes it")]
    Armor,
    /// A blob of another form.
    #[error("a damaged SSH signature")]
    Blob,
    /// Another version than 1.
    #[error("an SSH signature of a version that is not known")]
    Version,
    /// Made for something else.
    #[error("an SSH signature for another purpose: the namespace must be \"{NAMESPACE}\"")]
    Namespace,
    /// Neither sha256 nor sha512.
    #[error("an SSH signature with a hash that is not taken: expected sha256 or sha512")]
    Hash,
    /// By another type of key.
    #[error("an SSH signature by a key of a type that is not taken")]
    Key(#[source] NotAReleaseKey),
    /// The token signed without being touched.
    #[error("an SSH signature by a hardware key that was not touched")]
    NotTouched,
}

impl Sshsig {
    /// Reads an armored signature: one, with its last newline and nothing around it.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn from_armored(armored: &str) -> Result<Self, SshsigError> {
        let inside = armored
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(END))
            .filter(|_| armored.len() <= MAX_ARMORED)
            .ok_or(SshsigError::Armor)?;
        let base64: String = inside.split('\n').collect();
        let blob = STANDARD.decode(base64).map_err(|_| SshsigError::Armor)?;
        let signature = Self::from_blob(&blob)?;
        // SECURITY: one blob has one armor.
        match signature.armored == armored {
            true => Ok(signature),
            false => Err(SshsigError::Armor),
        }
    }

    /// Reads what the armor is around.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn from_blob(blob: &[u8]) -> Result<Self, SshsigError> {
        let rest = blob.strip_prefix(MAGIC).ok_or(SshsigError::Blob)?;
        let (version, mut rest) = rest.split_first_chunk::<4>().ok_or(SshsigError::Blob)?;
        if u32::from_be_bytes(*version) != 1 {
            return Err(SshsigError::Version);
        }
        let mut string = || ssh_string(&mut rest).ok_or(SshsigError::Blob);
        let key = string()?;
        let namespace = string()?;
        let reserved = string()?;
        let hash = string()?;
        let signature = string()?;
        if namespace != NAMESPACE.as_bytes() {
            return Err(SshsigError::Namespace);
        }
        if !reserved.is_empty() || !rest.is_empty() {
            return Err(SshsigError::Blob);
        }
        let hash = match hash {
            b"sha256" => HashName::Sha256,
            b"sha512" => HashName::Sha512,
            _ => return Err(SshsigError::Hash),
        };
        let key = ReleaseKey::from_blob(key).map_err(SshsigError::Key)?;
        let (signature, hardware) = inner(signature, key.form())?;
        Ok(Self {
            key,
            hash,
            signature,
            hardware,
            armored: armored(blob),
        })
    }

    /// The key that it says it is by.
    pub fn key(&self) -> &ReleaseKey {
        &self.key
    }

    /// The signature as it is in files and manifests.
    pub fn armored(&self) -> &str {
        &self.armored
    }

    /// Whether its key signed this message. That the key is one of ours, the caller asks.
    pub fn verify(&self, message: &[u8]) -> bool {
        let digest = match self.hash {
            HashName::Sha256 => Sha256::digest(message).to_vec(),
            HashName::Sha512 => Sha512::digest(message).to_vec(),
        };
        let name: &[u8] = match self.hash {
            HashName::Sha256 => b"sha256",
            HashName::Sha512 => b"sha512",
        };
        let strings = [NAMESPACE.as_bytes(), b"", name, &digest];
        let mut signed = MAGIC.to_vec();
        for string in strings {
            // None is longer than 64 bytes.
            signed.extend((string.len() as u32).to_be_bytes());
            signed.extend(string);
        }
        if let Some(flags_and_counter) = &self.hardware {
            let application = Sha256::digest(self.key.application().as_bytes());
            signed = [&application[..], flags_and_counter, &Sha256::digest(&signed)].concat();
        }
        // SECURITY: strict, so that what we publish is what the client's libsodium takes.
        self.key.verifying_key().verify_strict(&signed, &self.signature).is_ok()
    }
}

/// The innermost string: the signature's type, which must be the key's, its 64 bytes, and what a token adds.
fn inner(mut rest: &[u8], form: KeyForm) -> Result<(Signature, Option<[u8; 5]>), SshsigError> {
    if ssh_string(&mut rest) != Some(form.name().as_bytes()) {
        return Err(SshsigError::Blob);
    }
    let bytes: &[u8; 64] = ssh_string(&mut rest)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(SshsigError::Blob)?;
    let hardware = match form {
        KeyForm::Plain if rest.is_empty() => None,
        KeyForm::Plain => return Err(SshsigError::Blob),
        KeyForm::Hardware => Some(rest.try_into().map_err(|_| SshsigError::Blob)?),
    };
    if hardware.is_some_and(|[flags, ..]: [u8; 5]| flags & TOUCHED == 0) {
        return Err(SshsigError::NotTouched);
    }
    Ok((Signature::from_bytes(bytes), hardware))
}

/// The armor as `ssh-keygen` writes it.
fn armored(blob: &[u8]) -> String {
    let base64 = STANDARD.encode(blob);
    let mut text = BEGIN.to_owned();
    for (number, letter) in base64.chars().enumerate() {
        if number > 0 && number % WIDTH == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push('\n');
    text.push_str(END);
    text
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    #![allow(
        missing_docs,
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "tests alone use it, of this crate and of others"
    )]

    use ed25519_dalek::{Signer as _, SigningKey};

    use super::*;

    pub fn string(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
    }

    fn strings(parts: &[&[u8]]) -> Vec<u8> {
        parts.iter().flat_map(|part| string(part)).collect()
    }

    /// How a signature is made, where something is to be wrong in it.
    #[derive(Clone)]
    pub struct Recipe {
        pub seed: [u8; 32],
        pub hardware: Option<u8>,
        pub namespace: &'static str,
        pub reserved: &'static [u8],
        pub hash: &'static str,
        pub version: u32,
        pub tail: &'static [u8],
        pub inner_tail: &'static [u8],
        pub inner_type: Option<&'static str>,
    }

    impl Recipe {
        pub fn of(seed: u8) -> Self {
            Self {
                seed: [seed; 32],
                hardware: None,
                namespace: NAMESPACE,
                reserved: b"",
                hash: "sha512",
                version: 1,
                tail: b"",
                inner_tail: b"",
                inner_type: None,
            }
        }

        fn form(&self) -> KeyForm {
            match self.hardware {
                None => KeyForm::Plain,
                Some(_) => KeyForm::Hardware,
            }
        }

        fn key_blob(&self) -> Vec<u8> {
            let point = SigningKey::from_bytes(&self.seed).verifying_key();
            let name = self.form().name().as_bytes();
            match self.hardware {
                None => strings(&[name, point.as_bytes()]),
                Some(_) => strings(&[name, point.as_bytes(), b"ssh:"]),
            }
        }

        pub fn key(&self) -> ReleaseKey {
            ReleaseKey::from_blob(&self.key_blob()).unwrap()
        }

        pub fn blob(&self, message: &[u8]) -> Vec<u8> {
            let digest = match self.hash {
                "sha512" => Sha512::digest(message).to_vec(),
                _ => Sha256::digest(message).to_vec(),
            };
            let head = strings(&[self.namespace.as_bytes(), self.reserved, self.hash.as_bytes(), &digest]);
            let mut signed = [&MAGIC[..], &head].concat();
            let mut behind = Vec::new();
            if let Some(flags) = self.hardware {
                behind = [&[flags][..], &7_u32.to_be_bytes()].concat();
                signed = [&Sha256::digest(b"ssh:")[..], &behind, &Sha256::digest(&signed)].concat();
            }
            let signature = SigningKey::from_bytes(&self.seed).sign(&signed).to_bytes();
            let name = self.inner_type.unwrap_or(self.form().name());
            let inner = [&strings(&[name.as_bytes(), &signature])[..], &behind, self.inner_tail].concat();
            [
                &MAGIC[..],
                &self.version.to_be_bytes(),
                &strings(&[
                    &self.key_blob(),
                    self.namespace.as_bytes(),
                    self.reserved,
                    self.hash.as_bytes(),
                    &inner,
                ]),
                self.tail,
            ]
            .concat()
        }

        pub fn armored(&self, message: &[u8]) -> String {
            armored(&self.blob(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Recipe;
    use super::*;

    const MESSAGE: &[u8] = b"statement";

    fn hardware(flags: u8) -> Recipe {
        Recipe {
            hardware: Some(flags),
            ..Recipe::of(1)
        }
    }

    #[test]
    fn a_good_signature_is_good_for_its_message_alone() {
        let sha256 = Recipe {
            hash: "sha256",
            ..Recipe::of(1)
        };
        for recipe in [Recipe::of(1), sha256, hardware(1), hardware(5)] {
            let armored = recipe.armored(MESSAGE);
            let read = Sshsig::from_armored(&armored).unwrap();
            assert!(read.verify(MESSAGE));
            assert!(!read.verify(b"statemenu") && !read.verify(b""));
            assert_eq!((read.key(), read.armored()), (&recipe.key(), &*armored));
        }
    }

    #[test]
    fn each_condition_refuses() {
        let plain = Recipe::of(1);
        let refused = |recipe: Recipe| Sshsig::from_armored(&recipe.armored(MESSAGE)).unwrap_err();
        let with = |change: &dyn Fn(&mut Recipe)| {
            let mut recipe = plain.clone();
            change(&mut recipe);
            refused(recipe)
        };
        assert_eq!(with(&|r| r.version = 2), SshsigError::Version);
        assert_eq!(with(&|r| r.namespace = "file"), SshsigError::Namespace);
        assert_eq!(with(&|r| r.namespace = "countersign-release-1"), SshsigError::Namespace);
        assert_eq!(with(&|r| r.reserved = b"x"), SshsigError::Blob);
        assert_eq!(with(&|r| r.hash = "md5"), SshsigError::Hash);
        assert_eq!(with(&|r| r.tail = b"\0"), SshsigError::Blob);
        assert_eq!(with(&|r| r.inner_tail = b"\0"), SshsigError::Blob);
        assert_eq!(with(&|r| r.inner_tail = b"\x01\0\0\0\x07"), SshsigError::Blob);
        assert_eq!(
            with(&|r| r.inner_type = Some(KeyForm::Hardware.name())),
            SshsigError::Blob
        );
        assert_eq!(refused(hardware(0)), SshsigError::NotTouched);
        assert_eq!(refused(hardware(4)), SshsigError::NotTouched);
        let longer = Recipe {
            inner_tail: b"\0",
            ..hardware(1)
        };
        assert_eq!(refused(longer), SshsigError::Blob);
        let other_type = Recipe {
            inner_type: Some(KeyForm::Plain.name()),
            ..hardware(1)
        };
        assert_eq!(refused(other_type), SshsigError::Blob);
    }

    #[test]
    fn only_the_armor_of_ssh_keygen_is_taken() {
        let right = Recipe::of(1).armored(MESSAGE);
        assert!(Sshsig::from_armored(&right).is_ok());
        let base64_at = BEGIN.len();
        let mut two_lines_in_one = right.clone();
        two_lines_in_one.remove(base64_at + WIDTH);
        let mut early_break = right.clone();
        early_break.insert(base64_at + 4, '\n');
        for wrong in [
            right.replace('\n', "\r\n"),
            right.trim_end().to_owned(),
            format!(" {right}"),
            format!("{right}\n"),
            format!("{right}{right}"),
            right.replace("\n-----END", "\n\n-----END"),
            right.replace("\n-----END", "=\n-----END"),
            right.replace("SSH SIGNATURE", "SSH SIGNATURES"),
            right.replacen("U1NI", "U1N\tI", 1),
            two_lines_in_one,
            early_break,
            format!("{BEGIN}{END}"),
            format!("{BEGIN}{}{END}", "A".repeat(MAX_ARMORED)),
            String::new(),
        ] {
            assert!(Sshsig::from_armored(&wrong).is_err(), "{wrong:?}");
        }
        // The last character of an armor may have bits that belong to no byte.
        let blob = STANDARD.encode([Recipe::of(1).blob(MESSAGE), vec![0]].concat());
        assert!(STANDARD.decode(blob.replace("A==", "B==")).is_err() || !blob.ends_with("A=="));
    }

    #[test]
    fn no_bit_of_a_signature_can_be_changed() {
        for recipe in [Recipe::of(2), hardware(1)] {
            let blob = recipe.blob(MESSAGE);
            for bit in 0..blob.len() * 8 {
                let mut flipped = blob.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let is_good =
                    Sshsig::from_blob(&flipped).is_ok_and(|read| *read.key() == recipe.key() && read.verify(MESSAGE));
                assert!(!is_good, "bit {bit}");
            }
            for length in 0..blob.len() {
                assert!(Sshsig::from_blob(&blob[..length]).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn a_scalar_beyond_the_order_is_refused() {
        // S + L verifies in lax libraries: the order of the group, little-endian (RFC 8032 section 5.1).
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let mut blob = Recipe::of(1).blob(MESSAGE);
        let scalar_at = blob.len() - 32;
        let mut carry = 0;
        for (byte, order) in blob[scalar_at..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(order) + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
        assert!(!Sshsig::from_blob(&blob).unwrap().verify(MESSAGE));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_read_and_written_differently(text in "(?s).{0,200}", bytes: Vec<u8>) {
            let _ = Sshsig::from_armored(&text);
            if let Ok(read) = Sshsig::from_blob(&[&MAGIC[..], &bytes].concat()) {
                proptest::prop_assert_eq!(Sshsig::from_armored(read.armored()), Ok(read.clone()));
            }
        }
    }
}
