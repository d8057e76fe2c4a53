//! Which sites a release would leave behind: their client believes only the keys that were pinned when it was published.
//!
//! A statement has in `pins` whom its release's client believes, so [`ReleaseChain`] knows that of every version.
//! `build` publishes no release that leaves sites behind, and `countersign sign` says so before somebody signs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::release_chain::{ReleaseChain, SignedRelease};
use countersign_model::installed::InstalledVersion;
use countersign_model::plugin::SigningSettings;
use countersign_model::release_key::ReleaseKey;
use countersign_model::version::Version;

/// An earlier version whose sites do not take a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// What they run.
    pub version: Version,
    /// How many they are; `None` if nobody knows.
    pub sites: Option<u64>,
    /// How many keys that they believe have signed.
    pub good: usize,
    /// How many must.
    pub needed: usize,
    /// The keys that they believe and that have not signed, with the comments of the plugin's entry.
    pub keys: Vec<ReleaseKey>,
    /// Whether the plugin's entry allows it.
    pub is_allowed: bool,
}

impl ReleaseChain {
    /// The earlier versions whose sites would not take a release of `version`. `signed` gives those of its keys that have
    /// signed it, each once. `installed` has what sites run; without it, sites may run every version that enough people
    /// signed.
    pub fn left_behind(
        &self,
        version: &Version,
        signed: impl Fn(&[ReleaseKey]) -> Vec<ReleaseKey>,
        settings: &SigningSettings,
        installed: Option<&[InstalledVersion]>,
    ) -> Vec<LeftBehind> {
        let earlier = self.releases().iter().filter(|old| {
            let old = &old.statement.version;
            old.cmp_php(version).is_lt()
        });
        let mut left: Vec<LeftBehind> = Vec::new();
        for old in earlier {
            let Some(sites) = sites_of(old, installed) else {
                continue;
            };
            let pins = &old.statement.pins;
            let signers = signed(&pins.keys);
            if signers.len() >= pins.threshold {
                continue;
            }
            let missing = pins
                .keys
                .iter()
                .filter(|key| signers.iter().all(|signer| signer.point() != key.point()));
            let found = LeftBehind {
                version: old.statement.version.clone(),
                sites,
                good: signers.len(),
                needed: pins.threshold,
                keys: missing.map(|key| with_comment(key, &settings.keys)).collect(),
                is_allowed: settings
                    .leave_behind
                    .as_ref()
                    .is_some_and(|allowed| old.statement.version.satisfies(allowed)),
            };
            // A version whose statement was replaced, by the same people.
            if !left.contains(&found) {
                left.push(found);
            }
        }
        left.sort_by(|a, b| b.version.cmp_php(&a.version));
        left
    }
}

/// The number of sites that run a release, if it is known; `None` if none does.
fn sites_of(old: &SignedRelease, installed: Option<&[InstalledVersion]>) -> Option<Option<u64>> {
    let Some(installed) = installed else {
        // Whatever enough people signed may have been published, and sites may have it for years.
        let pins = &old.statement.pins;
        let signers = old.signatures.signers(&old.bytes, &pins.keys);
        return (signers.len() >= pins.threshold).then_some(None);
    };
    let found = installed.iter().find(|found| found.version == old.statement.version)?;
    (found.sites > 0).then_some(Some(found.sites))
}

/// The key as the plugin's entry has it, for its comment.
fn with_comment(key: &ReleaseKey, entry: &[ReleaseKey]) -> ReleaseKey {
    let known = entry.iter().find(|known| *known == key);
    known.unwrap_or(key).clone()
}

impl LeftBehind {
    /// The same for `--json`.
    pub fn to_json(&self) -> Value {
        json!({
            "version": self.version,
            "sites": self.sites,
            "signatures": { "good": self.good, "needed": self.needed },
            "keys": self.keys.iter().map(ReleaseKey::known_as).collect::<Vec<_>>(),
            "allowed": self.is_allowed,
        })
    }
}

/// Describes the sites left behind and whose signatures would help: a line for each set of keys.
pub fn lines(left: &[LeftBehind]) -> Vec<String> {
    // By the keys, for sites with the same ones are helped by the same signatures.
    let mut groups: BTreeMap<(usize, Vec<String>), Vec<&LeftBehind>> = BTreeMap::new();
    for one in left {
        let mut names: Vec<_> = one.keys.iter().map(ReleaseKey::known_as).collect();
        names.sort();
        let missing = one.needed.saturating_sub(one.good);
        groups.entry((missing, names)).or_default().push(one);
    }
    let line = |(missing, names): &(usize, Vec<String>), group: &[&LeftBehind]| {
        let sites: Option<u64> = group.iter().map(|one| one.sites).sum();
        let (who, they) = match sites {
            Some(1) => ("1 site".to_owned(), "it runs"),
            Some(sites) => (format!("{sites} sites"), "they run"),
            None => ("sites (their number is unknown)".to_owned(), "they may run"),
        };
        let versions: Vec<_> = group.iter().map(|one| one.version.to_string()).collect();
        let more = if *missing == 1 { "signature" } else { "signatures" };
        format!(
            "{who} behind: {they} {}; {missing} more {more} needed, by {}",
            versions.join(", "),
            names.join(" or ")
        )
    };
    groups.iter().map(|(keys, group)| line(keys, group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegistryFiles;
    use crate::release_chain;
    use countersign_model::digest::Digest;
    use countersign_package::release::signatures::Signatures;
    use countersign_package::release::sshsig::Sshsig;
    use countersign_package::release::sshsig::testing::Recipe;
    use countersign_package::release::statement::testing::statement;
    use countersign_package::release::statement::{Pins, ReleaseStatement};

    /// A chain of releases: each version, the seeds of its pins and of its signers.
    fn chain(releases: &[(&str, &[u8], &[u8])]) -> ReleaseChain {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("signatures/acme-forms");
        std::fs::create_dir_all(&place).unwrap();
        let mut previous = None;
        for (number, (version, pins, signers)) in (1..).zip(releases) {
            let keys: Vec<_> = pins.iter().map(|seed| Recipe::of(*seed).key()).collect();
            let written = ReleaseStatement {
                version: version.parse().unwrap(),
                number,
                previous,
                pins: Pins::new(&keys, 1),
                ..statement()
            };
            let bytes = written.to_bytes().unwrap();
            previous = Some(Digest::of(&bytes));
            let mut signatures = Signatures::default();
            for seed in *signers {
                let armored = Recipe::of(*seed).armored(&bytes);
                signatures.add(Sshsig::from_armored(&armored).unwrap()).unwrap();
            }
            std::fs::write(place.join(format!("{version}.json")), bytes).unwrap();
            std::fs::write(place.join(format!("{version}.sig")), signatures.to_text()).unwrap();
        }
        let files = RegistryFiles::folder(folder.path());
        let (chain, diagnostics) = release_chain::load(&files, &"acme-forms".parse().unwrap(), &[]).unwrap();
        assert_eq!(diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
        chain
    }

    fn settings(leave_behind: Option<&str>) -> SigningSettings {
        let line = format!("{} bert@acme", Recipe::of(2).key());
        SigningSettings {
            keys: vec![line.parse().unwrap()],
            threshold: 1,
            leave_behind: leave_behind.map(|text| text.parse().unwrap()),
        }
    }

    fn left(
        chain: &ReleaseChain,
        version: &str,
        settings: &SigningSettings,
        sites: Option<&[(&str, u64)]>,
    ) -> Vec<LeftBehind> {
        let version: Version = version.parse().unwrap();
        let release = chain.release(&version).unwrap();
        let installed: Option<Vec<_>> = sites.map(|sites| {
            let one = |(version, sites): &(&str, u64)| InstalledVersion {
                version: version.parse().unwrap(),
                sites: *sites,
            };
            sites.iter().map(one).collect()
        });
        chain.left_behind(&version, |keys| release.signers(keys), settings, installed.as_deref())
    }

    #[test]
    fn sites_that_believe_none_of_the_signers_are_left_behind_with_their_number() {
        let chain = chain(&[
            ("1.3.0", &[1], &[1]),
            ("1.4.0", &[1], &[1]),
            ("1.5.0", &[1, 2], &[1]),
            ("2.0.0", &[2], &[2]),
        ]);
        let settings = settings(None);
        let found = left(
            &chain,
            "2.0.0",
            &settings,
            Some(&[("1.3.0", 7), ("1.4.0", 30), ("1.5.0", 400), ("0.9.0", 3)]),
        );
        let versions: Vec<_> = found.iter().map(|one| (one.version.as_str(), one.sites)).collect();
        assert_eq!(versions, [("1.4.0", Some(30)), ("1.3.0", Some(7))]);
        let anna = Recipe::of(1).key();
        assert_eq!(
            (found[0].good, found[0].needed, &found[0].keys[..]),
            (0, 1, &[anna.clone()][..])
        );
        let expected = format!(
            "37 sites behind: they run 1.4.0, 1.3.0; 1 more signature needed, by {}",
            anna.known_as()
        );
        assert_eq!(lines(&found), [expected]);
        assert_eq!(left(&chain, "2.0.0", &settings, Some(&[("1.5.0", 400)])), []);
        assert_eq!(left(&chain, "2.0.0", &settings, Some(&[("1.4.0", 0)])), []);
        assert_eq!(
            lines(&left(&chain, "2.0.0", &settings, Some(&[("1.3.0", 1)])))[0]
                .split(';')
                .next(),
            Some("1 site behind: it runs 1.3.0")
        );
        // Newer sites are offered nothing older.
        assert_eq!(left(&chain, "1.3.0", &settings, None), []);
    }

    #[test]
    fn where_nobody_knows_the_sites_each_version_that_enough_people_signed_counts() {
        let chain = chain(&[
            ("1.3.0", &[1], &[1]),
            ("1.4.0", &[3], &[1]),
            ("1.5.0", &[1], &[1, 2]),
            ("2.0.0", &[2], &[2]),
        ]);
        let settings = settings(Some("<1.4"));
        let found = left(&chain, "2.0.0", &settings, None);
        let versions: Vec<_> = found
            .iter()
            .map(|one| (one.version.as_str(), one.sites, one.is_allowed))
            .collect();
        assert_eq!(
            versions,
            [("1.5.0", None, false), ("1.3.0", None, true)],
            "too few signed 1.4.0"
        );
        assert!(
            lines(&found)[0].starts_with("sites (their number is unknown) behind: they may run 1.5.0, 1.3.0; 1 more ")
        );
        assert_eq!(left(&chain, "1.5.0", &settings, None), []);
    }

    #[test]
    fn a_key_is_named_by_the_comment_of_the_entry() {
        let chain = chain(&[("1.3.0", &[2, 3], &[2]), ("2.0.0", &[1], &[1])]);
        let found = left(&chain, "2.0.0", &settings(None), None);
        assert!(lines(&found)[0].contains("bert@acme"), "{:?}", lines(&found));
    }
}
