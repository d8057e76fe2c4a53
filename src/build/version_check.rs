//! Compares the versions in a release's header and tag, and chooses the one to publish.

use std::cmp::Ordering;

use crate::build::report::outcome::Reason;
use crate::model::version::{Version, php_version_compare};

pub(super) use crate::model::version::same_version;

/// The version to publish a release under, and a note about it.
///
/// An installed plugin reports its header's version. So if the header has `1.2` and the tag `1.2.0`, the release is
/// 1.2: to PHP, 1.2 is older than 1.2.0, and the update would be offered for ever. For the same reason, a stable tag
/// with another version in the header is refused, unless `allow_mismatch`.
pub(super) fn published_version(
    tag: &Version,
    file: &str,
    header: &str,
    allow_mismatch: bool,
) -> Result<(Version, Option<Reason>), Reason> {
    let mismatch = || Reason::VersionMismatch {
        file: file.to_owned(),
        header: header.to_owned(),
    };
    if php_version_compare(header, tag.as_str()) == Ordering::Equal {
        return Ok((tag.clone(), None));
    }
    match header.parse::<Version>() {
        Ok(header) if same_version(header.as_str(), tag.as_str()) => {
            Ok((header.clone(), Some(Reason::WrittenAs(header))))
        }
        _ if allow_mismatch || tag.is_prerelease() => Ok((tag.clone(), Some(mismatch()))),
        _ => Err(mismatch()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(tag: &str, header: &str, allow: bool) -> Result<String, Reason> {
        let (version, _) = published_version(&tag.parse().unwrap(), "acme.php", header, allow)?;
        Ok(version.to_string())
    }

    #[test]
    fn zero_parts_at_the_end_and_case_make_no_mismatch() {
        for (a, b) in [
            ("1.2", "1.2.0"),
            ("1.2", "1.2.0.0"),
            ("1.2.0-RC1", "1.2-rc1"),
            ("0.3.01", "0.3.1"),
            ("0", "0.0"),
        ] {
            assert!(same_version(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("1.2", "1.20"),
            ("1.2", "1.2.0.1"),
            ("1.2", "1.2-rc1"),
            ("1.2-rc1", "1.2-rc10"),
            ("", "0"),
        ] {
            assert!(!same_version(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_release_carries_the_version_its_installed_plugin_will_report() {
        assert_eq!(published("1.2.0", "1.2", false).unwrap(), "1.2");
        assert_eq!(published("1.2", "1.2.0", false).unwrap(), "1.2.0");
        assert_eq!(
            published("1.2-RC1", "1.2-rc1", false).unwrap(),
            "1.2-RC1",
            "the same to PHP: as the tag has it"
        );
    }

    #[test]
    fn a_stable_tag_with_another_header_version_is_refused_unless_the_entry_allows_it() {
        let refusal = Reason::VersionMismatch {
            file: "acme.php".into(),
            header: "1.1".into(),
        };
        assert_eq!(published("1.2", "1.1", false), Err(refusal));
        assert_eq!(published("1.2", "1.1", true).unwrap(), "1.2");
        assert_eq!(published("1.2-beta1", "1.1", false).unwrap(), "1.2-beta1");
    }
}
