//! Which releases a plugin's entry calls security releases, who gets them after the license has ended, and how far back a site may go.

use crate::period::Period;
use crate::version::{Version, has_version};

/// How much of a version two releases must share to be of one line: numbers that are absent are 0. A wider line is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum VersionLine {
    /// The first two numbers: 2.4.1 and 2.4.7.
    Minor,
    /// The first number: 2.4.1 and 2.9.0.
    Major,
    /// Nothing.
    All,
}

impl VersionLine {
    /// The narrowest line that has both versions.
    pub fn narrowest(one: &Version, other: &Version) -> Self {
        let narrow = [Self::Minor, Self::Major];
        let found = narrow.into_iter().find(|line| line.has_both(one, other));
        found.unwrap_or(Self::All)
    }

    /// Whether two versions are of one line.
    pub fn has_both(self, one: &Version, other: &Version) -> bool {
        let count = match self {
            Self::Minor => 2,
            Self::Major => 1,
            Self::All => 0,
        };
        let numbers = |version: &Version| -> Vec<u64> {
            let parts = version
                .numbers()
                .split('.')
                .map(|part| part.parse().unwrap_or(u64::MAX));
            parts.chain([0, 0]).take(count).collect()
        };
        numbers(one) == numbers(other)
    }
}

/// A published release, as these rules see it.
#[derive(Clone, Copy, Debug)]
pub struct RuledRelease<'r> {
    /// Its version.
    pub version: &'r Version,
    /// Whether it is a security release: by its upgrade notice, or because the entry names it.
    pub security: bool,
}

/// Why a site may not go back to a release, for a person at the site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackRefusal {
    /// It is not published.
    #[error("This server has no release of this version.")]
    NotPublished,
    /// Its package is elsewhere.
    #[error("This server has no package of this version.")]
    NoPackage,
    /// The entry withholds it.
    #[error("The vendor has taken this version back.")]
    Withheld,
    /// The site runs it, or an older one.
    #[error("This version is not older than the installed one.")]
    NotOlder,
    /// It is a pre-release.
    #[error("This version is a pre-release that this license does not include.")]
    OtherChannel,
    /// The entry says `allow = "off"`.
    #[error("The vendor lets no site go back.")]
    Off,
    /// Its first number is another one.
    #[error("The vendor lets sites go back within one major version only.")]
    OtherLine,
    /// The entry has an `oldest` that is newer.
    #[error("The vendor lets no site go back below {0}.")]
    BelowOldest(Version),
    /// It lacks what a security release closed.
    #[error("{0} closed a hole that this version has, so no site goes back below it.")]
    BelowSecurity(Version),
    /// There are newer ones to go back to.
    #[error("A site goes back to one of the newest releases that it may have, and this version is older.")]
    TooFar,
    /// The site would not take the newest release any more.
    #[error(
        "A site with this version would not take the newest release: that has signatures which this version does not know."
    )]
    LeftBehind,
}

/// `security` of an entry: a list of versions, or a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityRules {
    /// Security releases, beside those whose upgrade notice says so.
    pub releases: Vec<Version>,
    /// Whether sites with an expired license get security releases. Otherwise they only learn that there is one.
    pub delivers: bool,
    /// Which of them: those of the line that the site runs.
    pub lines: VersionLine,
    /// How long after the end of the license.
    pub lasts: Period,
}

impl Default for SecurityRules {
    fn default() -> Self {
        Self {
            releases: Vec::new(),
            delivers: false,
            lines: VersionLine::Minor,
            lasts: Period::Months(60),
        }
    }
}

impl SecurityRules {
    /// Whether the entry calls this version a security release, however either is written.
    pub fn names(&self, version: &Version) -> bool {
        has_version(&self.releases, version)
    }
}

/// Table `[back]` of an entry: which older releases a site may go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackRules {
    /// Within which line: `Minor` of the entry stays within the first number, `Major` crosses it. `None` for nowhere.
    pub within: Option<VersionLine>,
    /// The oldest release.
    pub oldest: Option<Version>,
}

impl Default for BackRules {
    fn default() -> Self {
        Self {
            within: Some(VersionLine::Major),
            oldest: None,
        }
    }
}

impl BackRules {
    /// Why a site with `current` may not go back to `version`, as far as the entry says; `None` if it may.
    pub fn refusal(&self, current: &Version, version: &Version) -> Option<BackRefusal> {
        if version.cmp_php(current).is_ge() {
            return Some(BackRefusal::NotOlder);
        }
        match self.within {
            None => return Some(BackRefusal::Off),
            Some(line) if !line.has_both(current, version) => return Some(BackRefusal::OtherLine),
            Some(_) => {}
        }
        let oldest = self.oldest.as_ref().filter(|oldest| version.cmp_php(oldest).is_lt());
        oldest.map(|oldest| BackRefusal::BelowOldest(oldest.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_is_named_by_the_first_numbers() {
        for (one, other, lines) in [
            ("2.4.1", "2.4.7", [true, true, true]),
            ("2.4", "2.4.0.1", [true, true, true]),
            ("2", "2.0.3", [true, true, true]),
            ("2.4.1", "2.9.0", [false, true, true]),
            ("2.4.1", "3.4.1", [false, false, true]),
        ] {
            let found = [VersionLine::Minor, VersionLine::Major, VersionLine::All];
            let found = found.map(|line| line.has_both(&version(one), &version(other)));
            assert_eq!(found, lines, "{one} {other}");
            let narrowest = VersionLine::narrowest(&version(one), &version(other));
            let is_within = [VersionLine::Minor, VersionLine::Major, VersionLine::All].map(|line| narrowest <= line);
            assert_eq!(is_within, lines, "{one} {other}");
        }
    }

    fn wide_again(rules: &BackRules) -> BackRules {
        BackRules {
            within: Some(VersionLine::All),
            ..rules.clone()
        }
    }

    #[test]
    fn a_site_goes_back_within_its_major_version_unless_the_entry_says_otherwise() {
        let rules = BackRules::default();
        let refusal = |rules: &BackRules, to: &str| rules.refusal(&version("2.4.0"), &version(to));
        let allows = |rules: &BackRules, to: &str| refusal(rules, to).is_none();
        assert!(allows(&rules, "2.3.9") && allows(&rules, "2.0") && allows(&rules, "2.4.0-rc.1"));
        assert!(!allows(&rules, "1.9") && !allows(&rules, "2.4.0") && !allows(&rules, "2.4.1"));
        let oldest = Some(version("1.8"));
        let wide = BackRules {
            within: Some(VersionLine::All),
            oldest,
        };
        assert!(allows(&wide, "1.8") && !allows(&wide, "1.7.9"));
        let off = BackRules { within: None, ..wide };
        assert_eq!(refusal(&off, "2.3.9"), Some(BackRefusal::Off));
        assert_eq!(refusal(&rules, "1.9"), Some(BackRefusal::OtherLine));
        assert_eq!(refusal(&rules, "2.4.0"), Some(BackRefusal::NotOlder));
        let message = refusal(&wide_again(&off), "1.7.9").map(|refusal| refusal.to_string());
        assert_eq!(message.as_deref(), Some("The vendor lets no site go back below 1.8."));
    }
}
