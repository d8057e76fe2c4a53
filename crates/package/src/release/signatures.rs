//! A `.sig` file: the armored signatures of a release, one after the other, and how many of them count.
//!
//! Several people add to one file in git. So it has one form: sorted, one signature a key.

use std::collections::BTreeSet;

use crate::release::sshsig::{MAX_ARMORED, Sshsig, SshsigError};
use countersign_model::release_key::ReleaseKey;

/// Signatures a release may have.
pub const MAX_SIGNATURES: usize = 16;

/// The largest file that is read, in bytes.
pub const MAX_FILE: u64 = (MAX_SIGNATURES * MAX_ARMORED) as u64;

/// The lines around each of them.
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "-----END SSH SIGNATURE-----\n";

/// The signatures of a release, sorted by their text, one for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures(Vec<Sshsig>);

/// Why a text is no file of signatures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignaturesError {
    /// Two people signed at once, and git could not decide.
    #[error("git left its conflict markers in it")]
    Conflict,
    /// More than are ever verified.
    #[error("more than {MAX_SIGNATURES} signatures")]
    TooMany,
    /// One of them is refused.
    #[error("{reason}")]
    Signature {
        /// The line it begins in, from 1.
        line: usize,
        /// Why.
        reason: SshsigError,
    },
    /// The file has two signatures by one key.
    #[error("a second signature by the same key")]
    Twice {
        /// The line it begins in, from 1.
        line: usize,
    },
    /// Not in the order that `countersign sign` writes.
    #[error("the signatures are not sorted")]
    Order,
}

impl SignaturesError {
    /// The line that it is about, from 1; 0 for the file as a whole.
    pub fn line(&self) -> usize {
        match self {
            Self::Signature { line, .. } | Self::Twice { line } => *line,
            Self::Conflict | Self::TooMany | Self::Order => 0,
        }
    }
}

impl Signatures {
    /// Reads a file: armored signatures with nothing between them.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its line.
    pub fn read(text: &str) -> Result<Self, SignaturesError> {
        let signatures = Self::read_unsorted(text)?;
        let is_sorted = signatures.0.is_sorted_by(|a, b| a.armored() < b.armored());
        match is_sorted {
            true => Ok(signatures),
            false => Err(SignaturesError::Order),
        }
    }

    /// The same for a file that others wrote: the order does not count.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_unsorted(text: &str) -> Result<Self, SignaturesError> {
        if text.starts_with("<<<<<<<") || text.contains("\n>>>>>>>") {
            return Err(SignaturesError::Conflict);
        }
        let mut signatures = Self::default();
        let mut line = 1;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(END).map_or(rest.len(), |at| at + END.len());
            let (armored, behind) = rest.split_at(end);
            let signature =
                Sshsig::from_armored(armored).map_err(|reason| SignaturesError::Signature { line, reason })?;
            if signatures.by(signature.key()).is_some() {
                return Err(SignaturesError::Twice { line });
            }
            signatures.0.push(signature);
            if signatures.0.len() > MAX_SIGNATURES {
                return Err(SignaturesError::TooMany);
            }
            line += armored.matches('\n').count();
            rest = behind;
        }
        Ok(signatures)
    }

    /// Takes the valid signatures from a file that git could not merge: every signature of the message, anywhere in the file.
    pub fn salvage(text: &str, message: &[u8]) -> Self {
        let mut signatures = Self::default();
        let mut rest = text;
        while let Some(start) = rest.find(BEGIN) {
            let end = rest[start..].find(END).map_or(rest.len(), |at| start + at + END.len());
            let read = Sshsig::from_armored(&rest[start..end]).ok();
            for signature in read.into_iter().filter(|signature| signature.verify(message)) {
                // Where there are too many, the first ones stay.
                let _ = signatures.add(signature);
            }
            rest = &rest[start + BEGIN.len()..];
        }
        signatures
    }

    /// The file: sorted by the texts of the signatures.
    pub fn to_text(&self) -> String {
        self.0.iter().map(Sshsig::armored).collect()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Sshsig> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The signature that says it is by this key, compared by the 32 bytes.
    pub fn by(&self, key: &ReleaseKey) -> Option<&Sshsig> {
        self.0.iter().find(|signature| signature.key().point() == key.point())
    }

    /// Adds a signature in its place; it takes the place of another one by the same key.
    ///
    /// # Errors
    ///
    /// [`SignaturesError::TooMany`].
    pub fn add(&mut self, signature: Sshsig) -> Result<(), SignaturesError> {
        self.0.retain(|other| other.key().point() != signature.key().point());
        if self.0.len() >= MAX_SIGNATURES {
            return Err(SignaturesError::TooMany);
        }
        self.0.push(signature);
        self.0.sort_by(|a, b| a.armored().cmp(b.armored()));
        Ok(())
    }

    /// The keys among `keys` that made a good signature of the message: each key once, whatever its form.
    pub fn signers<'a>(&self, message: &[u8], keys: &'a [ReleaseKey]) -> Vec<&'a ReleaseKey> {
        let mut counted = BTreeSet::new();
        let mut signers = Vec::new();
        for signature in &self.0 {
            // SECURITY: the whole blob must be one that is known, not only its 32 bytes.
            let Some(key) = keys.iter().find(|key| *key == signature.key()) else {
                continue;
            };
            if signature.verify(message) && counted.insert(key.point()) {
                signers.push(key);
            }
        }
        signers
    }

    /// Those that are no good signature of the message.
    pub fn bad(&self, message: &[u8]) -> impl Iterator<Item = &Sshsig> {
        self.0.iter().filter(move |signature| !signature.verify(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::sshsig::testing::Recipe;

    const MESSAGE: &[u8] = b"statement";

    fn hardware(seed: u8) -> Recipe {
        Recipe {
            hardware: Some(1),
            ..Recipe::of(seed)
        }
    }

    fn file(recipes: &[Recipe]) -> Signatures {
        let mut signatures = Signatures::default();
        for recipe in recipes {
            let added = signatures.add(Sshsig::from_armored(&recipe.armored(MESSAGE)).unwrap());
            added.unwrap();
        }
        signatures
    }

    #[test]
    fn signatures_are_added_in_one_order_and_one_a_key() {
        let [one, two, three] = [1, 2, 3].map(Recipe::of);
        let text = file(&[one.clone(), two.clone(), three.clone()]).to_text();
        assert_eq!(file(&[three, one.clone(), two]).to_text(), text);
        let read = Signatures::read(&text).unwrap();
        assert_eq!((read.iter().count(), read.to_text()), (3, text));
        let sha256 = Recipe {
            hash: "sha256",
            ..one.clone()
        };
        assert_eq!(file(&[one, sha256.clone()]).to_text(), sha256.armored(MESSAGE));
        assert!(Signatures::read("").unwrap().is_empty());
    }

    #[test]
    fn different_keys_count_and_nothing_else() {
        let keys = [Recipe::of(1).key(), Recipe::of(2).key(), hardware(2).key()];
        let count = |recipes: &[Recipe]| file(recipes).signers(MESSAGE, &keys).len();
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[Recipe::of(1)]), 1);
        assert_eq!(count(&[Recipe::of(1), Recipe::of(2)]), 2);
        assert_eq!(count(&[Recipe::of(3)]), 0, "an unknown key");
        assert_eq!(count(&[hardware(1)]), 0, "a known point in a form that is not known");
        let plain = Recipe::of(2).armored(MESSAGE);
        let both_forms = format!("{plain}{}", hardware(2).armored(MESSAGE));
        let line = plain.lines().count() + 1;
        assert_eq!(
            Signatures::read_unsorted(&both_forms),
            Err(SignaturesError::Twice { line })
        );
        assert_eq!(file(&[Recipe::of(1)]).signers(b"another", &keys).len(), 0);
        assert_eq!(file(&[Recipe::of(1)]).bad(b"another").count(), 1);
    }

    #[test]
    fn mistakes_are_reported_with_their_lines() {
        let [one, two] = [1, 2].map(|seed| Recipe::of(seed).armored(MESSAGE));
        let sorted = file(&[Recipe::of(1), Recipe::of(2)]).to_text();
        let reversed = if sorted.starts_with(&one) {
            format!("{two}{one}")
        } else {
            format!("{one}{two}")
        };
        assert_eq!(Signatures::read(&reversed), Err(SignaturesError::Order));
        assert!(Signatures::read_unsorted(&reversed).is_ok());
        let lines = one.lines().count() + 1;
        let refused = |text: &str| Signatures::read(text).unwrap_err();
        let armor = |line| SignaturesError::Signature {
            line,
            reason: SshsigError::Armor,
        };
        assert_eq!(refused(&format!("{one}\n{two}")), armor(lines));
        assert_eq!(refused(&format!("{one}{}", two.trim_end())), armor(lines));
        assert_eq!(refused("comment\n"), armor(1));
        assert_eq!(refused(&format!("{one}{one}")), SignaturesError::Twice { line: lines });
        let conflict = format!("<<<<<<< HEAD\n{one}=======\n{two}>>>>>>> b\n");
        assert_eq!(refused(&conflict), SignaturesError::Conflict);
        assert_eq!(Signatures::salvage(&conflict, MESSAGE).to_text(), sorted);
        assert!(Signatures::salvage(&conflict, b"another").is_empty());
        assert_eq!(
            Signatures::salvage(&format!("-----BEGIN SSH SIGNATURE-----\n{one}"), MESSAGE).to_text(),
            one
        );
        let many: Vec<_> = (0..=16).map(Recipe::of).collect();
        let text: String = many.iter().map(|recipe| recipe.armored(MESSAGE)).collect();
        assert_eq!(Signatures::read_unsorted(&text), Err(SignaturesError::TooMany));
        assert_eq!(
            file(&many[..16]).add(Sshsig::from_armored(&two).unwrap()),
            Ok(()),
            "it takes a place"
        );
        assert!(
            file(&many[..16])
                .add(Sshsig::from_armored(&many[16].armored(MESSAGE)).unwrap())
                .is_err()
        );
    }

    /// The vectors that the client is tested with, and that OpenSSH was asked about.
    #[test]
    fn the_vectors_of_the_client_have_the_same_signers_here() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/release");
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let keys: Vec<ReleaseKey> = text("keys.pub").lines().map(|line| line.parse().unwrap()).collect();
        let statement = text("statement.json");
        crate::release::statement::ReleaseStatement::read(statement.as_bytes()).unwrap();
        let table = text("signatures.tsv");
        for row in table.lines().skip(1) {
            let [file, signer, _] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            // The client takes one signature at a time, a file here may have several.
            let read = Sshsig::from_armored(&text(file)).ok();
            let good = read.filter(|read| keys.contains(read.key()) && read.verify(statement.as_bytes()));
            let known = good.and_then(|good| keys.iter().find(|key| *key == good.key()));
            let expected = Some(signer).filter(|signer| *signer != "-");
            assert_eq!(known.map(ReleaseKey::comment), expected, "{file}");
        }
    }
}
