//! The release statement: what the people who sign a release say about it, as RFC 8785 canonical JSON.
//!
//! It is written once and kept as those bytes. A statement that is not byte for byte its own canonical form is refused, so
//! that no two readers can read different things in it. [`signatures`](super::signatures) are made over it.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::MAX_PACKED;
use countersign_model::digest::Digest;
use countersign_model::release_key::ReleaseKey;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The largest statement that is read, in bytes: 16 keys take 6 KiB.
pub const MAX_STATEMENT: u64 = 16 << 10;

/// Keys that may be pinned.
pub const MAX_KEYS: usize = 16;

/// Beyond this, JSON numbers are not exact (RFC 7493 section 2.2).
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The longest name of a tag, in bytes: what a file system takes for the name of a ref.
const MAX_TAG: usize = 255;

/// Numbers that a version of the CMS or of PHP may have, and digits that each of them may have.
const MAX_PLATFORM_NUMBERS: usize = 4;
const MAX_PLATFORM_DIGITS: usize = 4;

/// Bytes of a CRC-32 and of an id in a package.
const CRC_LENGTH: u64 = 4;
const UUID_LENGTH: u64 = 36;

/// The JSON that describes one release. Members are in the order of RFC 8785.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseStatement {
    /// The commit's id, 40 or 64 lower-case hex digits.
    pub commit: String,
    /// The digest over the `sha256sum` lines of all files but the mark.
    pub contents: Digest,
    /// The number of the package's normal form.
    pub form: u32,
    /// 1, 2, 3 … in the order of signing, one line of numbers for each plugin.
    pub number: u64,
    /// The archive.
    pub package: SignedPackage,
    /// What this release's client will believe.
    pub pins: Pins,
    /// SHA-256 of the statement one number before; `None` for the first.
    #[serde(deserialize_with = "present")]
    pub previous: Option<Digest>,
    /// The tag's time, `2026-11-23T15:04:19Z`.
    #[serde(serialize_with = "seconds", deserialize_with = "exact_seconds")]
    pub published: DateTime<Utc>,
    /// The CMS version the release needs; empty where it says none.
    pub requires: String,
    /// The PHP version the release needs; empty where it says none.
    pub requires_php: String,
    /// The plugin.
    pub slug: Slug,
    /// The tag's name.
    pub tag: String,
    /// Which kind of statement this is.
    #[serde(rename = "type")]
    pub kind: StatementType,
    /// The release.
    pub version: Version,
}

/// The one type that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatementType {
    /// Version 1.
    #[serde(rename = "countersign-release-1")]
    Release1,
}

/// The archive that the statement is about, with the nil UUID in its mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPackage {
    /// The place of the mark; `None` where copies carry none.
    #[serde(deserialize_with = "present")]
    pub mark: Option<SignedMark>,
    /// The digest of the archive.
    pub sha256: Digest,
    /// Its bytes.
    pub size: u64,
}

/// The place of the mark, in bytes from the start of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedMark {
    /// The CRC-32 in the local header, and that in the central directory.
    pub crc: [u64; 2],
    /// The id.
    pub uuid: u64,
}

/// Whom a client believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// The keys, without comments, sorted by their lines.
    pub keys: Vec<ReleaseKey>,
    /// How many different ones must have signed.
    pub threshold: usize,
}

/// Why bytes are no release statement.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// Two people signed at once, and git could not decide.
    #[error("git left its conflict markers in it")]
    Conflict,
    /// Larger than any statement.
    #[error("larger than {} KiB", MAX_STATEMENT >> 10)]
    TooLarge,
    /// Not JSON, a member is missing, unknown, twice there or of another type.
    #[error("not a release statement")]
    Json(#[from] serde_json::Error),
    /// The same could be written in other bytes.
    #[error(
        "not the canonical form (RFC 8785) of what it says: a statement is one line without spaces and without a newline"
    )]
    NotCanonical,
    /// A member has a value that it cannot have.
    #[error("\"{0}\" {1}")]
    Member(&'static str, &'static str),
}

impl Pins {
    /// Pins of these keys: sorted, and each once.
    pub fn new(keys: &[ReleaseKey], threshold: usize) -> Self {
        let mut keys = keys.to_vec();
        keys.sort_by_key(ToString::to_string);
        keys.dedup();
        Self { keys, threshold }
    }

    /// How many different keys there are, whatever their forms.
    pub fn distinct(&self) -> usize {
        let mut points: Vec<_> = self.keys.iter().map(ReleaseKey::point).collect();
        points.sort_unstable();
        points.dedup();
        points.len()
    }
}

impl ReleaseStatement {
    /// Reads a statement from its exact bytes.
    ///
    /// # Errors
    ///
    /// Where the bytes are not the canonical form of a statement, or a member is out of its bounds.
    pub fn read(bytes: &[u8]) -> Result<Self, StatementError> {
        if bytes.starts_with(b"<<<<<<<") || memchr::memmem::find(bytes, b"\n>>>>>>>").is_some() {
            return Err(StatementError::Conflict);
        }
        if bytes.len() as u64 > MAX_STATEMENT {
            return Err(StatementError::TooLarge);
        }
        let statement: Self = serde_json::from_slice(bytes)?;
        if statement.to_bytes()? != bytes {
            return Err(StatementError::NotCanonical);
        }
        statement.check()?;
        Ok(statement)
    }

    /// The bytes that are signed and kept: RFC 8785, without a newline.
    ///
    /// # Errors
    ///
    /// None that a statement can cause: strings, small numbers and lists of them.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json_canonicalizer::to_vec(self)
    }

    /// Whether every member is within its bounds.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self) -> Result<(), StatementError> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_commit = matches!(self.commit.len(), 40 | 64) && self.commit.bytes().all(hex);
        let is_tag = (1..=MAX_TAG).contains(&self.tag.len()) && !self.tag.chars().any(char::is_control);
        let keys = &self.pins.keys;
        let is_sorted = keys.is_sorted_by(|a, b| a.to_string() < b.to_string());
        let rules = [
            (is_commit, "commit", "must be 40 or 64 lower-case hex digits"),
            (self.form >= 1, "form", "must be a number from 1"),
            (
                (1..=MAX_NUMBER).contains(&self.number),
                "number",
                "must be a number from 1 to 2^53-1",
            ),
            (
                self.previous.is_none() == (self.number == 1),
                "previous",
                "must be null for number 1, and a digest for all others",
            ),
            (
                (1..=MAX_PACKED).contains(&self.package.size),
                "size",
                "must be from 1 byte to 512 MiB",
            ),
            (
                self.package.has_places(),
                "mark",
                "must have its places in the package, one behind the other",
            ),
            ((1..=MAX_KEYS).contains(&keys.len()), "keys", "must be 1 to 16 keys"),
            (is_sorted, "keys", "must be sorted, each key once"),
            (
                (1..=self.pins.distinct()).contains(&self.pins.threshold),
                "threshold",
                "must be from 1 to the number of different keys",
            ),
            (
                is_platform(&self.requires),
                "requires",
                "must be one to four numbers joined by dots, or empty",
            ),
            (
                is_platform(&self.requires_php),
                "requires_php",
                "must be one to four numbers joined by dots, or empty",
            ),
            (is_tag, "tag", "must be a name of 1 to 255 bytes"),
        ];
        match rules.iter().find(|(holds, ..)| !holds) {
            None => Ok(()),
            Some(&(_, member, rule)) => Err(StatementError::Member(member, rule)),
        }
    }
}

impl SignedPackage {
    /// Whether local CRC, id and central CRC follow each other, and are within the package.
    fn has_places(&self) -> bool {
        let Some(SignedMark {
            crc: [local, central],
            uuid,
        }) = self.mark
        else {
            return true;
        };
        let ends = [
            local.checked_add(CRC_LENGTH).is_some_and(|end| end <= uuid),
            uuid.checked_add(UUID_LENGTH).is_some_and(|end| end <= central),
            central.checked_add(CRC_LENGTH).is_some_and(|end| end <= self.size),
        ];
        ends.iter().all(|holds| *holds)
    }
}

/// `6.5.1`, or nothing.
fn is_platform(text: &str) -> bool {
    let is_number =
        |part: &str| (1..=MAX_PLATFORM_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    text.is_empty() || text.split('.').count() <= MAX_PLATFORM_NUMBERS && text.split('.').all(is_number)
}

/// A member that may be null, and must be there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

fn seconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// That the text is written in this one way, the comparison of the bytes shows.
fn exact_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    let time = DateTime::parse_from_rfc3339(&text).map_err(serde::de::Error::custom)?;
    Ok(time.to_utc())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    #![allow(
        missing_docs,
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "tests alone use it, of this crate and of others"
    )]

    use super::{Digest, Pins, ReleaseStatement, SignedMark, SignedPackage, StatementType};

    /// The key of RFC 8032 section 7.1, test 1.
    pub const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea";

    /// A statement that is right.
    pub fn statement() -> ReleaseStatement {
        ReleaseStatement {
            commit: "0123456789abcdef0123456789abcdef01234567".into(),
            contents: Digest::of(b"contents"),
            form: 1,
            number: 2,
            package: SignedPackage {
                mark: Some(SignedMark {
                    crc: [1_014, 1_216],
                    uuid: 1_111,
                }),
                sha256: Digest::of(b"package"),
                size: 2_000,
            },
            pins: Pins::new(&[KEY.parse().unwrap()], 1),
            previous: Some(Digest::of(b"previous")),
            published: "2026-11-23T15:04:19Z".parse().unwrap(),
            requires: "6.1".into(),
            requires_php: String::new(),
            slug: "acme-forms".parse().unwrap(),
            tag: "v1.2.0".into(),
            kind: StatementType::Release1,
            version: "1.2.0".parse().unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{KEY, statement};
    use super::*;

    fn text() -> String {
        String::from_utf8(statement().to_bytes().unwrap()).unwrap()
    }

    #[test]
    fn a_statement_is_these_bytes_and_is_read_from_them() {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let expected = format!(
            concat!(
                r#"{{"commit":"0123456789abcdef0123456789abcdef01234567","contents":"{}","form":1,"number":2,"#,
                r#""package":{{"mark":{{"crc":[1014,1216],"uuid":1111}},"sha256":"{}","size":2000}},"#,
                r#""pins":{{"keys":["{}"],"threshold":1}},"previous":"{}","published":"2026-11-23T15:04:19Z","#,
                r#""requires":"6.1","requires_php":"","slug":"acme-forms","tag":"v1.2.0","#,
                r#""type":"countersign-release-1","version":"1.2.0"}}"#
            ),
            digest("contents"),
            digest("package"),
            KEY,
            digest("previous"),
        );
        assert_eq!(text(), expected);
        assert_eq!(ReleaseStatement::read(expected.as_bytes()).unwrap(), statement());
    }

    #[test]
    fn what_could_be_written_in_other_bytes_is_refused() {
        let same = |from: &str, to: &str| {
            let changed = text().replacen(from, to, 1);
            assert_ne!(changed, text(), "{from}");
            ReleaseStatement::read(changed.as_bytes()).unwrap_err()
        };
        for (from, to) in [
            ("\"form\":1", "\"form\": 1"),
            ("}", "}\n"),
            ("\"tag\":\"v1", "\"tag\":\"\\u00761"),
            ("04:19Z", "04:19+00:00"),
            ("04:19Z", "04:19.0Z"),
            (r#""form":1,"number":2"#, r#""number":2,"form":1"#),
            ("ssh-ed25519 AAAA", "ssh-ed25519  AAAA"),
            ("B1Ea\"", "B1Ea comment\""),
        ] {
            let error = same(from, to);
            assert!(
                matches!(error, StatementError::NotCanonical | StatementError::Json(_)),
                "{from}: {error}"
            );
        }
        for (from, to) in [
            ("\"form\":1,", "\"form\":1,\"form\":1,"),
            ("\"form\":1,", ""),
            ("\"form\":1,", "\"form\":1,\"more\":1,"),
            ("\"form\":1,", "\"form\":1.0,"),
            ("\"form\":1,", "\"form\":-1,"),
            ("\"form\":1,", "\"form\":\"1\","),
            ("release-1", "release-2"),
            ("\"slug\":\"acme", "\"slug\":\"../acme"),
            ("\"uuid\":1111", "\"uuid\":1111,\"uuid\":1111"),
        ] {
            let error = same(from, to);
            assert!(matches!(error, StatementError::Json(_)), "{from}: {error}");
        }
        let previous = format!("\"previous\":\"{}\",", Digest::of(b"previous"));
        assert!(
            matches!(same(&previous, ""), StatementError::Json(_)),
            "absent is not null"
        );
        assert!(matches!(
            same("\"mark\":{\"crc\":[1014,1216],\"uuid\":1111},", ""),
            StatementError::Json(_)
        ));
    }

    /// The statements that the client is asked about, too.
    #[test]
    fn the_vectors_of_the_client_are_read_alike_here() {
        let file =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/release/statements.jsonl");
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let read = ReleaseStatement::read(row["statement"].as_str().unwrap().as_bytes());
            assert_eq!(
                read.is_ok(),
                row["good"].as_bool().unwrap(),
                "{}: {read:?}",
                row["what"]
            );
        }
    }

    #[test]
    fn members_out_of_their_bounds_are_reported_by_name() {
        let refusal = |change: &dyn Fn(&mut ReleaseStatement)| {
            let mut changed = statement();
            change(&mut changed);
            let bytes = changed.to_bytes().unwrap();
            ReleaseStatement::read(&bytes).unwrap_err().to_string()
        };
        let mark = |crc, uuid| Some(SignedMark { crc, uuid });
        let hex = "must be 40 or 64 lower-case hex digits";
        assert_eq!(
            refusal(&|s| s.commit = "ABCDEF0123456789abcdef0123456789abcdef01".into()),
            format!("\"commit\" {hex}")
        );
        assert_eq!(refusal(&|s| s.form = 0), "\"form\" must be a number from 1");
        for number in [0, MAX_NUMBER + 1] {
            assert_eq!(
                refusal(&|s| s.number = number),
                "\"number\" must be a number from 1 to 2^53-1"
            );
        }
        let chain = "\"previous\" must be null for number 1, and a digest for all others";
        assert_eq!(refusal(&|s| s.number = 1), chain);
        assert_eq!(refusal(&|s| s.previous = None), chain);
        for size in [0, MAX_PACKED + 1] {
            assert_eq!(
                refusal(&|s| s.package.size = size),
                "\"size\" must be from 1 byte to 512 MiB"
            );
        }
        for places in [
            mark([1_108, 1_216], 1_111),
            mark([1_014, 1_140], 1_111),
            mark([1_014, 1_997], 1_111),
            mark([1_014, u64::MAX >> 12], 1_111),
        ] {
            assert!(
                refusal(&|s| s.package.mark = places).starts_with("\"mark\" must"),
                "{places:?}"
            );
        }
        assert_eq!(refusal(&|s| s.pins.keys.clear()), "\"keys\" must be 1 to 16 keys");
        assert_eq!(
            refusal(&|s| s.pins.keys.push(KEY.parse().unwrap())),
            "\"keys\" must be sorted, each key once"
        );
        for threshold in [0, 2] {
            assert!(refusal(&|s| s.pins.threshold = threshold).starts_with("\"threshold\" must"));
        }
        assert_eq!(
            refusal(&|s| s.requires = "6.1 or so".into()),
            "\"requires\" must be one to four numbers joined by dots, or empty"
        );
        assert_eq!(
            refusal(&|s| s.requires_php = "7.4\n".into()),
            "\"requires_php\" must be one to four numbers joined by dots, or empty"
        );
        assert_eq!(
            refusal(&|s| s.tag = "v1\u{1b}".into()),
            "\"tag\" must be a name of 1 to 255 bytes"
        );
        let mut unmarked = statement();
        unmarked.package.mark = None;
        unmarked.number = 1;
        unmarked.previous = None;
        assert_eq!(ReleaseStatement::read(&unmarked.to_bytes().unwrap()).unwrap(), unmarked);
    }

    #[test]
    fn one_key_in_two_forms_does_not_meet_a_threshold_of_two() {
        let plain: ReleaseKey = KEY.parse().unwrap();
        let string = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        let parts: [&[u8]; 3] = [b"sk-ssh-ed25519@openssh.com", plain.point(), b"ssh:"];
        let hardware = ReleaseKey::from_blob(&parts.map(string).concat()).unwrap();
        let mut changed = statement();
        changed.pins = Pins::new(&[hardware, plain], 2);
        assert!(matches!(changed.check(), Err(StatementError::Member("threshold", _))));
    }

    #[test]
    fn what_git_could_not_merge_is_reported_as_a_conflict() {
        let conflict = format!("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> branch\n", text(), text());
        assert!(matches!(
            ReleaseStatement::read(conflict.as_bytes()),
            Err(StatementError::Conflict)
        ));
        let large = vec![b' '; MAX_STATEMENT as usize + 1];
        assert!(matches!(ReleaseStatement::read(&large), Err(StatementError::TooLarge)));
    }

    proptest::proptest! {
        #[test]
        fn other_bytes_never_make_the_same_statement(at in 0..600_usize, byte: u8) {
            let mut bytes = text().into_bytes();
            let at = at % bytes.len();
            let old = std::mem::replace(&mut bytes[at], byte);
            if let Ok(read) = ReleaseStatement::read(&bytes) {
                proptest::prop_assert!((read == statement()) == (old == byte));
                proptest::prop_assert_eq!(read.to_bytes().unwrap(), bytes);
            }
        }
    }
}
