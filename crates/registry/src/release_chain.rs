//! What people signed of one plugin: its release statements in the order of their numbers, each with its signatures.
//!
//! Every statement names the digest of the one before it, so that two people who signed at once notice, and so do two
//! customers who compare. `build` and `countersign sign` go on from here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Diagnostic, RegistryError};
use crate::files::RegistryFiles;
use crate::signature_files::{self, FileStem, SignatureFiles, StatementFile, column_of};
use countersign_model::digest::Digest;
use countersign_model::release_key::ReleaseKey;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::release::signatures::Signatures;
use countersign_package::release::statement::ReleaseStatement;

pub use crate::signature_files::{signatures_path, statement_path};

/// The statements of one plugin by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseChain {
    releases: Vec<SignedRelease>,
}

/// A statement and what was signed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRelease {
    /// The file of the statement.
    pub file: PathBuf,
    /// The bytes that are signed.
    pub bytes: Vec<u8>,
    /// The same, read.
    pub statement: ReleaseStatement,
    /// Its signatures, by whomever.
    pub signatures: Signatures,
    /// Whether a later statement of the same version took its place.
    pub is_replaced: bool,
}

/// Reads what is signed of a plugin's releases, and tells everything that is wrong with it. `keys` are those that may sign
/// now; each statement knows those that might at its time.
pub fn load(
    files: &RegistryFiles,
    slug: &Slug,
    keys: &[ReleaseKey],
) -> Result<(ReleaseChain, Vec<Diagnostic>), RegistryError> {
    let SignatureFiles {
        statements,
        mut signatures,
        mut diagnostics,
        unreadable,
    } = signature_files::read(files, slug)?;
    let mut releases = Vec::new();
    for (stem, file) in statements {
        diagnostics.extend(misplaced(&stem, &file, slug));
        let (_, signatures) = signatures.remove(&stem).unwrap_or_default();
        let StatementFile {
            file, bytes, statement, ..
        } = file;
        releases.push(SignedRelease {
            file,
            bytes,
            statement,
            signatures,
            is_replaced: stem.replaced.is_some(),
        });
    }
    for (stem, (file, _)) in signatures {
        if !unreadable.contains(&stem) {
            diagnostics.push(Diagnostic::of_file(file, "the statement that it signs is not there"));
        }
    }
    releases.sort_by(|a, b| (a.statement.number, &a.file).cmp(&(b.statement.number, &b.file)));
    // What cannot be read leaves a gap, which is reported already.
    if unreadable.is_empty() {
        diagnostics.extend(broken_links(&releases));
    }
    diagnostics.extend(
        releases
            .iter()
            .flat_map(|release| bad_signatures(release, &releases, keys)),
    );
    Ok((ReleaseChain { releases }, diagnostics))
}

impl ReleaseChain {
    /// The statement of a release that counts.
    pub fn release(&self, version: &Version) -> Option<&SignedRelease> {
        let mut counting = self.releases.iter().filter(|release| !release.is_replaced);
        counting.find(|release| release.statement.version == *version)
    }

    /// All of them, also those that were replaced, by their numbers.
    pub fn releases(&self) -> &[SignedRelease] {
        &self.releases
    }

    /// The number and the digest of the last statement.
    pub fn head(&self) -> Option<(u64, Digest)> {
        self.releases.last().map(SignedRelease::link)
    }

    /// The same as if this version had no statement: where a new one of it would continue.
    pub fn head_without(&self, version: &Version) -> Option<(u64, Digest)> {
        let mut others = self
            .releases
            .iter()
            .filter(|release| release.is_replaced || release.statement.version != *version);
        others.next_back().map(SignedRelease::link)
    }
}

impl SignedRelease {
    /// The statement's number and digest.
    pub fn link(&self) -> (u64, Digest) {
        (self.statement.number, Digest::of(&self.bytes))
    }

    /// Those of these keys that made a good signature, each once, whatever its form.
    pub fn signers(&self, keys: &[ReleaseKey]) -> Vec<ReleaseKey> {
        let signers = self.signatures.signers(&self.bytes, keys);
        signers.into_iter().cloned().collect()
    }

    fn complain(&self, member: &str, message: String) -> Diagnostic {
        Diagnostic {
            file: self.file.clone(),
            line: 1,
            column: column_of(&self.bytes, member),
            message,
        }
    }
}

/// A statement about something else than its file's name says.
fn misplaced(stem: &FileStem, file: &StatementFile, slug: &Slug) -> Vec<Diagnostic> {
    let StatementFile {
        version,
        bytes,
        statement,
        ..
    } = file;
    let mut wrong = Vec::new();
    if statement.slug != *slug {
        wrong.push(("slug", format!("a statement about another plugin: {}", statement.slug)));
    }
    if statement.version != *version {
        let found = &statement.version;
        wrong.push((
            "version",
            format!("a statement about another version: {found}, not {version}"),
        ));
    }
    if let Some(number) = stem.replaced.filter(|number| *number != statement.number) {
        let found = statement.number;
        wrong.push((
            "number",
            format!("a statement with another number: {found}, not {number}"),
        ));
    }
    let place = |(member, message): (&str, String)| Diagnostic {
        file: file.file.clone(),
        line: 1,
        column: column_of(bytes, member),
        message,
    };
    wrong.into_iter().map(place).collect()
}

/// Missing and duplicate numbers, and statements that do not name their predecessor.
fn broken_links(releases: &[SignedRelease]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let mut by_number: BTreeMap<u64, &SignedRelease> = BTreeMap::new();
    for release in releases {
        let number = release.statement.number;
        let again = format!(
            "run `countersign sign {} {}` again",
            release.statement.slug, release.statement.version
        );
        if let Some(other) = by_number.get(&number) {
            let other = other.file.file_name().unwrap_or_default().display();
            let message = format!("number {number} is that of {other}, too: {again} for the one that is not published");
            diagnostics.push(release.complain("number", message));
            continue;
        }
        let before = by_number.get(&(number - 1)).map(|before| before.link().1);
        if number > 1 && before.is_none() {
            let message = format!("the statement with number {} is missing", number - 1);
            diagnostics.push(release.complain("number", message));
        } else if release.statement.previous != before {
            let message = format!("is not the digest of the statement with number {}: {again}", number - 1);
            diagnostics.push(release.complain("previous", message));
        }
        by_number.insert(number, release);
    }
    diagnostics
}

/// Signatures by nobody who could sign, and those of something else.
fn bad_signatures(release: &SignedRelease, all: &[SignedRelease], keys: &[ReleaseKey]) -> Vec<Diagnostic> {
    let is_known = |key: &ReleaseKey| {
        let mut pinned = all.iter().flat_map(|release| &release.statement.pins.keys);
        keys.contains(key) || pinned.any(|pinned| pinned == key)
    };
    let mut line = 1;
    let mut diagnostics = Vec::new();
    for signature in release.signatures.iter() {
        let message = if !signature.verify(&release.bytes) {
            Some("not a signature of the statement beside it")
        } else if !is_known(signature.key()) {
            Some("a signature by a key that is not in [signing], and was not when a release was signed")
        } else {
            None
        };
        diagnostics.extend(message.map(|message| Diagnostic {
            file: release.file.with_extension("sig"),
            line,
            column: 1,
            message: message.to_owned(),
        }));
        line += signature.armored().matches('\n').count();
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_package::release::sshsig::testing::Recipe;
    use countersign_package::release::statement::Pins;
    use countersign_package::release::statement::testing::statement;

    /// A registry whose plugin has these statements, each signed by the first key, and the number of the next one.
    struct Vendor {
        folder: tempfile::TempDir,
        head: Option<(u64, Digest)>,
    }

    impl Vendor {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("signatures/acme-forms")).unwrap();
            Self { folder, head: None }
        }

        fn write(&self, name: &str, content: impl AsRef<[u8]>) {
            std::fs::write(self.folder.path().join("signatures/acme-forms").join(name), content).unwrap();
        }

        fn next(&self, version: &str) -> ReleaseStatement {
            ReleaseStatement {
                version: version.parse().unwrap(),
                number: self.head.map_or(1, |(number, _)| number + 1),
                previous: self.head.map(|(_, digest)| digest),
                pins: Pins::new(&[Recipe::of(1).key()], 1),
                ..statement()
            }
        }

        fn sign(&mut self, version: &str) {
            let statement = self.next(version);
            self.put(version, &statement);
            self.head = Some((statement.number, Digest::of(&statement.to_bytes().unwrap())));
        }

        fn put(&self, stem: &str, statement: &ReleaseStatement) {
            let bytes = statement.to_bytes().unwrap();
            self.write(&format!("{stem}.sig"), Recipe::of(1).armored(&bytes));
            self.write(&format!("{stem}.json"), bytes);
        }

        fn load(&self) -> (ReleaseChain, Vec<String>) {
            let files = RegistryFiles::folder(self.folder.path());
            let slug = "acme-forms".parse().unwrap();
            let (chain, diagnostics) = load(&files, &slug, &[Recipe::of(1).key(), Recipe::of(2).key()]).unwrap();
            let folder = format!("{}/signatures/acme-forms/", self.folder.path().display());
            let messages = diagnostics
                .iter()
                .map(|diagnostic| diagnostic.to_string().replace(&folder, ""));
            (chain, messages.collect())
        }

        fn diagnostics(&self) -> Vec<String> {
            self.load().1
        }
    }

    fn three() -> Vendor {
        let mut vendor = Vendor::new();
        ["1.0.0", "1.1.0", "1.0.1"]
            .iter()
            .for_each(|version| vendor.sign(version));
        vendor
    }

    #[test]
    fn statements_are_a_chain_in_the_order_of_signing() {
        let vendor = three();
        let (chain, diagnostics) = vendor.load();
        assert_eq!(diagnostics, [""; 0]);
        let versions: Vec<_> = chain
            .releases()
            .iter()
            .map(|release| release.statement.version.as_str())
            .collect();
        assert_eq!(versions, ["1.0.0", "1.1.0", "1.0.1"]);
        assert_eq!(chain.head(), vendor.head);
        let release = chain.release(&"1.1.0".parse().unwrap()).unwrap();
        assert_eq!(
            release.signatures.signers(&release.bytes, &[Recipe::of(1).key()]).len(),
            1
        );
        assert_eq!(chain.head_without(&"1.0.1".parse().unwrap()), Some(release.link()));
        assert_eq!(chain.release(&"2.0.0".parse().unwrap()), None);
    }

    #[test]
    fn a_plugin_of_which_nothing_is_signed_has_an_empty_chain() {
        let folder = tempfile::tempdir().unwrap();
        let slug = "acme-forms".parse().unwrap();
        let (chain, diagnostics) = load(&RegistryFiles::folder(folder.path()), &slug, &[]).unwrap();
        assert_eq!((chain.head(), diagnostics.len()), (None, 0));
    }

    #[test]
    fn a_statement_that_was_replaced_stays_in_the_chain() {
        let mut vendor = three();
        let old = vendor.folder.path().join("signatures/acme-forms/1.1.0");
        for end in ["json", "sig"] {
            let replaced = old.with_file_name(format!("1.1.0_2.{end}"));
            std::fs::rename(old.with_file_name(format!("1.1.0.{end}")), replaced).unwrap();
        }
        vendor.sign("1.1.0");
        let (chain, diagnostics) = vendor.load();
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!(chain.release(&"1.1.0".parse().unwrap()).unwrap().statement.number, 4);
        assert_eq!(chain.releases().len(), 4);
        let other_number = std::fs::read(old.with_file_name("1.1.0_2.json")).unwrap();
        vendor.write("1.1.0_9.json", other_number);
        assert!(
            vendor.diagnostics()[0].starts_with("1.1.0_9.json:1:"),
            "{:?}",
            vendor.diagnostics()
        );
    }

    #[test]
    fn two_who_signed_at_once_have_to_sign_again() {
        let vendor = three();
        let twin = ReleaseStatement {
            version: "1.2.0".parse().unwrap(),
            number: 3,
            previous: Some(vendor.load().0.releases()[1].link().1),
            ..vendor.next("1.2.0")
        };
        vendor.put("1.2.0", &twin);
        let again = "run `countersign sign acme-forms 1.2.0` again for the one that is not published";
        assert_eq!(
            vendor.diagnostics(),
            [format!(
                "1.2.0.json:1:141: number 3 is that of 1.0.1.json, too: {again}"
            )]
        );
        let ours = std::fs::read_to_string(vendor.folder.path().join("signatures/acme-forms/1.0.1.sig")).unwrap();
        let conflict = format!("<<<<<<< HEAD\n{ours}=======\n{ours}>>>>>>> theirs\n");
        let vendor = three();
        vendor.write("1.0.1.sig", &conflict);
        let again = "git left its conflict markers in it: run `countersign sign acme-forms 1.0.1` again";
        assert_eq!(vendor.diagnostics(), [format!("1.0.1.sig: {again}")]);
        vendor.write("1.0.1.sig", ours);
        vendor.write("1.0.1.json", conflict);
        assert_eq!(vendor.diagnostics(), [format!("1.0.1.json:1:1: {again}")]);
    }

    #[test]
    fn a_broken_chain_is_reported_with_its_place() {
        let vendor = three();
        let changed = ReleaseStatement {
            requires: "6.2".into(),
            number: 1,
            previous: None,
            ..vendor.next("1.0.0")
        };
        vendor.put("1.0.0", &changed);
        let diagnostics = vendor.diagnostics();
        let again = "run `countersign sign acme-forms 1.1.0` again";
        let message = format!("is not the digest of the statement with number 1: {again}");
        assert!(
            diagnostics.len() == 1 && diagnostics[0].starts_with("1.1.0.json:1:") && diagnostics[0].ends_with(&message),
            "{diagnostics:?}"
        );
        std::fs::remove_file(vendor.folder.path().join("signatures/acme-forms/1.0.0.json")).unwrap();
        let diagnostics = vendor.diagnostics();
        assert_eq!(diagnostics[0], "1.0.0.sig: the statement that it signs is not there");
        assert!(
            diagnostics[1].ends_with(": the statement with number 1 is missing"),
            "{diagnostics:?}"
        );
    }

    #[test]
    fn statements_and_signatures_of_something_else_are_reported() {
        let vendor = three();
        let next = vendor.next("1.2.0");
        let other = ReleaseStatement {
            slug: "acme-pdf".parse().unwrap(),
            ..next.clone()
        };
        vendor.put("1.3.0", &other);
        let diagnostics = vendor.diagnostics();
        assert!(
            diagnostics[0].ends_with(": a statement about another plugin: acme-pdf"),
            "{diagnostics:?}"
        );
        assert!(
            diagnostics[1].ends_with(": a statement about another version: 1.2.0, not 1.3.0"),
            "{diagnostics:?}"
        );

        let vendor = three();
        vendor.put("1.2.0", &next);
        let bytes = next.to_bytes().unwrap();
        let mut signatures = Signatures::default();
        for armored in [Recipe::of(1).armored(b"another"), Recipe::of(9).armored(&bytes)] {
            let read = countersign_package::release::sshsig::Sshsig::from_armored(&armored).unwrap();
            signatures.add(read).unwrap();
        }
        vendor.write("1.2.0.sig", signatures.to_text());
        let mut diagnostics = vendor.diagnostics();
        diagnostics.sort_by_key(|message| message.contains("not a signature"));
        assert!(
            diagnostics[0]
                .ends_with(": a signature by a key that is not in [signing], and was not when a release was signed")
        );
        assert!(
            diagnostics[1].ends_with(": not a signature of the statement beside it"),
            "{diagnostics:?}"
        );
        let mut places: Vec<_> = diagnostics
            .iter()
            .map(|message| message.split(": ").next().unwrap())
            .collect();
        places.sort_unstable();
        assert_eq!(places, ["1.2.0.sig:1:1", "1.2.0.sig:7:1"]);
    }

    #[test]
    fn damaged_and_unexpected_files_are_reported() {
        let vendor = three();
        vendor.write("1.0.1.json", "{\"commit\":1}");
        vendor.write("1.1.0.sig", "text\n");
        vendor.write("notes.txt", "text\n");
        vendor.write("1.2.0_x.json", "text\n");
        let unexpected = "unexpected: expected <version>.json and <version>.sig, as `countersign sign` writes them";
        let diagnostics = vendor.diagnostics();
        assert!(
            diagnostics[0].starts_with("1.0.1.json:1:11: invalid type: integer"),
            "{diagnostics:?}"
        );
        assert_eq!(
            diagnostics[1],
            "1.1.0.sig:1:1: not an SSH signature as `ssh-keygen` writes it"
        );
        assert_eq!(diagnostics[2], format!("1.2.0_x.json: {unexpected}"));
        assert_eq!(diagnostics[3..], [format!("notes.txt: {unexpected}")]);
    }
}
