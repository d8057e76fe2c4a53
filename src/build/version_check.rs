//! Compares the versions in a release's header and tag, and chooses the one to publish.

use std::cmp::Ordering;

use crate::build::report::outcome::Reason;
use countersign_model::plugin::{PackageOrigin, Plugin};
use countersign_model::stage::Stage;
use countersign_model::version::{Version, misread_header, php_version_compare};

pub(super) use countersign_model::version::same_version;

/// The version to publish a release under, and a note about it.
///
/// An installed plugin reports its header's version. So if the header has `1.2` and the tag `1.2.0`, the release is
/// 1.2: to PHP, 1.2 is older than 1.2.0, and the update would be offered for ever. For the same reason, a stable tag
/// with another version in the header is refused, unless the entry allows it. A pre-release whose package is made of the
/// tag is refused for a different header, too, because its package has the header's version. A header that sites misread is
/// refused in any case: they would take what they have installed for newer than the next release, or for older than each.
pub(super) fn published_version(
    plugin: &Plugin,
    tag: &Version,
    file: &str,
    header: &str,
) -> Result<(Version, Option<Reason>), Reason> {
    let mismatch = || Reason::VersionMismatch {
        file: file.to_owned(),
        header: header.to_owned(),
    };
    let may_differ = plugin.allow_version_mismatch;
    let is_packed = !may_differ
        && plugin
            .package
            .as_ref()
            .is_some_and(|package| package.from == PackageOrigin::Tag);
    let is_equal = php_version_compare(header, tag.as_str()) == Ordering::Equal;
    if is_equal && (!is_packed || header == tag.as_str()) {
        return Ok((tag.clone(), None));
    }
    if let Some(misread) = misread_header(header) {
        return Err(Reason::MisreadHeader {
            header: format!("{header} in {file}"),
            misread,
        });
    }
    match header.parse::<Version>().ok() {
        Some(installed) if is_equal || same_version(header, tag.as_str()) => {
            Ok((installed.clone(), Some(Reason::WrittenAs(installed))))
        }
        _ if may_differ || tag.is_prerelease() && !is_packed => Ok((tag.clone(), Some(mismatch()))),
        _ => Err(mismatch()),
    }
}

/// Why a version is not published, whatever the entry says: sites would order it in another way than it is meant.
pub(super) fn misread(version: &Version) -> Option<Reason> {
    match version.stage() {
        Stage::Misread(misread) => Some(Reason::Misread(misread)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::fixture::Fixture;
    use countersign_model::plugin::PackageSettings;

    /// How releases of a plugin are handed out.
    #[derive(Clone, Copy, PartialEq)]
    enum Handed {
        /// By an address of the entry.
        Elsewhere,
        /// The same, and the entry allows a mismatch.
        Allowed,
        /// As a package of the tag.
        Packed,
    }
    use Handed::{Allowed, Elsewhere, Packed};

    fn published(tag: &str, header: &str, handed: Handed) -> Result<String, Reason> {
        let plugin = Plugin {
            allow_version_mismatch: handed == Allowed,
            package: (handed == Packed).then(|| PackageSettings::defaults(&"acme".parse().unwrap())),
            ..Fixture::new().plugin()
        };
        let (version, _) = published_version(&plugin, &tag.parse().unwrap(), "acme.php", header)?;
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
        assert_eq!(published("1.2.0", "1.2", Elsewhere).unwrap(), "1.2");
        assert_eq!(published("1.2", "1.2.0", Elsewhere).unwrap(), "1.2.0");
        assert_eq!(
            published("1.2-RC1", "1.2-rc1", Elsewhere).unwrap(),
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
        assert_eq!(published("1.2", "1.1", Elsewhere), Err(refusal));
        assert_eq!(published("1.2", "1.1", Allowed).unwrap(), "1.2");
        assert_eq!(published("1.2-beta1", "1.1", Elsewhere).unwrap(), "1.2-beta1");
    }
    #[test]
    fn a_package_of_a_tag_has_the_version_of_its_header() {
        let mismatch = Reason::VersionMismatch {
            file: "acme.php".into(),
            header: "1.3.0".into(),
        };
        assert_eq!(published("1.3.0-beta.1", "1.3.0", Elsewhere).unwrap(), "1.3.0-beta.1");
        assert_eq!(published("1.3.0-beta.1", "1.3.0", Packed), Err(mismatch));
        assert_eq!(published("1.3.0-beta.1", "1.3.0beta1", Packed).unwrap(), "1.3.0beta1");
        assert_eq!(published("1.3.0-rc.1", "1.3.0-rc.1", Packed).unwrap(), "1.3.0-rc.1");
    }

    #[test]
    fn a_header_that_sites_misread_is_refused_as_a_tag_is() {
        for (tag, header) in [
            ("1.3.0-beta1", "1.3.0-Beta1"),
            ("1.3.0-beta1", "1.3.0-preview.1"),
            ("1.3.0-rc1", "1.3-Rc1"),
            // Sites compare what the header says with the next release, whatever the tag is called.
            ("1.3.0", "1.3.0-preview.1"),
            ("1.3.0", "1.3.0-BETA"),
            ("1.3.0", "1.3.0_pre1"),
            ("1.3.0", "1.3.0+pro"),
            ("1.3.0", "1.3.0-preview.1+7"),
            // Sites would be offered every release for ever, this one too.
            ("1.3.0", "v1.3.0"),
            ("1.3.0", "V1.3"),
            ("1.3.0", "Version 1.3.0"),
            ("1.3.0", "v.1.3.0"),
            ("1.3.0-beta.1", "v1.3.0-beta.1"),
        ] {
            for handed in [Elsewhere, Allowed, Packed] {
                assert!(
                    matches!(published(tag, header, handed), Err(Reason::MisreadHeader { .. })),
                    "{tag} {header}"
                );
            }
        }
        let message = published("1.3.0", "v1.3.0", Allowed).unwrap_err().to_string();
        assert!(
            message.ends_with("v1.3.0 in acme.php: PHP does not take it for 1.3.0; write 1.3.0"),
            "{message}"
        );
        // What a release script fills in.
        for header in ["{{VERSION}}", "@version@", "trunk"] {
            assert_eq!(published("1.3.0", header, Allowed).unwrap(), "1.3.0", "{header}");
        }
    }
}
