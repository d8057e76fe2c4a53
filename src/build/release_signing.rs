//! Where an entry has `[signing]`: which releases enough people have signed, and whether what was built is what they signed.
//!
//! What is published stays published, no matter whose key is removed. [`release_builder`](crate::build::release_builder) asks
//! before it packs and again before it publishes.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::build::remark::Remark;
use crate::build::report::outcome::{Reason, ReleaseOutcome};
use countersign_model::digest::Digest;
use countersign_model::installed::{InstalledVersion, InstalledVersions};
use countersign_model::manifest::{Manifest, ReleaseProof};
use countersign_model::plugin::{Plugin, SigningSettings};
use countersign_model::release_key::ReleaseKey;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{HostedPackage, Release, SignedStatement};
use countersign_package::release::sshsig::Sshsig;
use countersign_package::release::statement::{ReleaseStatement, SignedMark};
use countersign_registry::left_behind::{self, LeftBehind};
use countersign_registry::release_chain::{ReleaseChain, SignedRelease};

/// What people signed of each plugin with `[signing]`.
pub type SignedChains = Arc<HashMap<Slug, ReleaseChain>>;

/// The signatures that one plugin's releases need and have.
pub(super) struct ReleaseSigning<'a> {
    settings: &'a SigningSettings,
    chain: Option<&'a ReleaseChain>,
    /// What sites run; `None` if nobody knows.
    installed: Option<&'a [InstalledVersion]>,
}

/// Whether a release may be published.
enum SigningState<'a> {
    /// Enough people signed this statement.
    Signed(&'a SignedRelease, Vec<LeftBehind>),
    /// The same, and sites would not take it.
    LeavesBehind(Vec<LeftBehind>),
    /// Too few have signed.
    Awaits {
        /// How many have.
        good: usize,
        /// How many must.
        needed: usize,
        /// Those who have not.
        missing: Vec<String>,
    },
}

impl<'a> ReleaseSigning<'a> {
    /// The signing of a plugin; `None` if its releases need no signatures.
    pub(super) fn new(
        plugin: &'a Plugin,
        chains: Option<&'a SignedChains>,
        installed: Option<&'a InstalledVersions>,
    ) -> Option<Self> {
        Some(Self {
            settings: plugin.signing.as_ref()?,
            chain: chains?.get(&plugin.slug),
            installed: installed.and_then(|installed| installed.of(&plugin.slug)),
        })
    }

    /// The state of a release. `published` is what is published of this version.
    fn state(&self, version: &Version, published: Option<&Release>) -> SigningState<'a> {
        let signed = self.chain.and_then(|chain| chain.release(version));
        let good = signed.map_or(0, |signed| {
            signed.signatures.signers(&signed.bytes, &self.settings.keys).len()
        });
        let needed = self.settings.threshold;
        // SECURITY: a statement that is published was signed by enough people then. Without this, removing a key would take
        // every release away that it signed.
        let is_published = |signed| published.is_some_and(|release| has_statement(release, Some(signed)));
        match signed {
            Some(signed) if is_published(signed) => SigningState::Signed(signed, Vec::new()),
            Some(signed) if good >= needed => {
                let left = self.left_behind(signed);
                match left.iter().all(|left| left.is_allowed) {
                    true => SigningState::Signed(signed, left),
                    false => SigningState::LeavesBehind(left),
                }
            }
            _ => SigningState::Awaits {
                good,
                needed,
                missing: self.missing(signed),
            },
        }
    }

    /// Those who may sign and have not.
    fn missing(&self, signed: Option<&SignedRelease>) -> Vec<String> {
        let keys = &self.settings.keys;
        let signers = signed.map_or_else(Vec::new, |signed| signed.signers(keys));
        let missing = keys.iter().filter(|key| !signers.contains(key));
        missing.map(ReleaseKey::known_as).collect()
    }

    /// The sites that would not take a new release.
    fn left_behind(&self, signed: &SignedRelease) -> Vec<LeftBehind> {
        let version = &signed.statement.version;
        let left = |chain: &ReleaseChain| {
            chain.left_behind(version, |keys| signed.signers(keys), self.settings, self.installed)
        };
        self.chain.map_or_else(Vec::new, left)
    }

    /// Whether the index says of a published release what the registry says now.
    pub(super) fn is_up_to_date(&self, published: &Release) -> bool {
        match self.state(&published.version, Some(published)) {
            SigningState::Signed(signed, _) => published.signed.as_ref() == Some(&index_line(signed)),
            // What is published stays.
            SigningState::Awaits { .. } | SigningState::LeavesBehind(_) => true,
        }
    }
}

/// The signed statement of a release; `None` if its plugin needs none. Fails with the outcome if too few have signed. Sites
/// that may be left behind are `noted`.
pub(super) fn signed<'a>(
    signing: Option<&ReleaseSigning<'a>>,
    version: &Version,
    published: Option<&Release>,
    noted: &mut Vec<Reason>,
) -> Result<Option<&'a SignedRelease>, ReleaseOutcome> {
    match signing.map(|signing| signing.state(version, published)) {
        None => Ok(None),
        Some(SigningState::Signed(signed, left)) => {
            noted.extend(left_behind::lines(&left).into_iter().map(Reason::LeavesBehind));
            Ok(Some(signed))
        }
        Some(SigningState::LeavesBehind(left)) => Err(ReleaseOutcome::LeavesBehind(left)),
        Some(SigningState::Awaits { good, needed, missing }) => {
            Err(ReleaseOutcome::AwaitsSignatures { good, needed, missing })
        }
    }
}

/// Warnings about pinned keys that are nowhere in the package.
pub(super) fn remarks(absent: &[ReleaseKey], plugin: &Plugin) -> Vec<Remark> {
    let entry = plugin.signing.iter().flat_map(|settings| &settings.keys);
    let remark = |key: &ReleaseKey| {
        let with_comment = entry.clone().find(|known| *known == key);
        let key = with_comment.unwrap_or(key).known_as();
        let message = format!("the release key {key} is nowhere in the package, so its client would not accept it");
        Remark::about("", message)
    };
    absent.iter().map(remark).collect()
}

/// Whether a release is published with this statement.
pub(super) fn has_statement(published: &Release, signed: Option<&SignedRelease>) -> bool {
    let statement = published.signed.as_ref().map(|line| line.statement);
    signed.is_some_and(|signed| statement == Some(signed.link().1))
}

/// The index's line of a signed release.
pub(super) fn index_line(signed: &SignedRelease) -> SignedStatement {
    let (number, statement) = signed.link();
    SignedStatement {
        number,
        statement,
        signatures: Digest::of(signed.signatures.to_text().as_bytes()),
    }
}

/// The member `release` of a signed release's manifest.
pub(super) fn proof(signed: &SignedRelease) -> ReleaseProof {
    ReleaseProof {
        statement: STANDARD.encode(&signed.bytes),
        signatures: signed
            .signatures
            .iter()
            .map(Sshsig::armored)
            .map(str::to_owned)
            .collect(),
    }
}

/// The one difference whose two sides are shown: they are short.
const FORM_DIFFERS: &str = "the form of its package";

/// The first thing in which a release is not the one that was signed.
pub(super) fn mismatch(signed: &ReleaseStatement, release: &Release, manifest: &Manifest) -> Option<String> {
    let package = release.package.as_ref();
    let has = |same: &dyn Fn(&HostedPackage) -> bool| package.is_some_and(same);
    let published = signed.published.format("%Y-%m-%d %H:%M:%S").to_string();
    let same = [
        (signed.version == release.version, "its version"),
        (signed.slug == manifest.slug, "its plugin"),
        (signed.tag == release.tag, "its tag"),
        (signed.commit == release.commit, "its commit"),
        (has(&|package| package.form == signed.form), FORM_DIFFERS),
        (
            has(&|package| package.sha256 == signed.package.sha256 && package.size == signed.package.size),
            "its package",
        ),
        (
            has(&|package| package.mark.map(SignedMark::from) == signed.package.mark),
            "the places of its mark",
        ),
        (published == manifest.last_updated, "the time of its tag"),
        (
            signed.requires == manifest.requires,
            "the version of the CMS that it requires",
        ),
        (
            signed.requires_php == manifest.requires_php,
            "the version of PHP that it requires",
        ),
    ];
    let (_, what) = same.iter().find(|(is_same, _)| !is_same)?;
    Some(match package {
        Some(package) if *what == FORM_DIFFERS => {
            format!(
                "{what}: form {} was signed, and form {} is packed",
                signed.form, package.form
            )
        }
        _ => (*what).to_owned(),
    })
}
