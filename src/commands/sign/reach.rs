//! Which sites take a release once somebody has signed it: said before the key is asked for.

use std::path::Path;

use crate::commands::Failure;
use crate::commands::installed;
use crate::commands::sign::statement::Decided;
use countersign_model::installed::InstalledVersions;
use countersign_model::plugin::SigningSettings;
use countersign_model::release_key::ReleaseKey;
use countersign_package::release::signatures::Signatures;
use countersign_registry::left_behind::{self, LeftBehind};
use countersign_registry::release_chain::ReleaseChain;
use countersign_settings::config::Config;

/// The signatures of a release as they will be.
pub(super) struct Reach<'a> {
    pub(super) chain: &'a ReleaseChain,
    pub(super) settings: &'a SigningSettings,
    pub(super) decided: &'a Decided,
    /// The good ones that are there.
    pub(super) good: Signatures,
}

impl Reach<'_> {
    /// Who may sign: the keys of the entry, and those that sites in the field believe.
    pub(super) fn may_sign(&self) -> Vec<ReleaseKey> {
        let everybody = self.left(|_| Vec::new(), None);
        let pinned = everybody.into_iter().flat_map(|left| left.keys);
        let mut keys = self.settings.keys.clone();
        for key in pinned {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The sites that do not take the release when `own` has signed it, too.
    pub(super) fn left_behind(
        &self,
        own: Option<&ReleaseKey>,
        installed: Option<&Path>,
        config: &Config,
    ) -> Result<Vec<LeftBehind>, Failure> {
        let signed = |keys: &[ReleaseKey]| {
            let signers = self.good.signers(&self.decided.bytes, keys);
            let mut signers: Vec<_> = signers.into_iter().cloned().collect();
            let is_new = |key: &&ReleaseKey| signers.iter().all(|signer| signer.point() != key.point());
            let own = own.filter(|own| keys.contains(own)).filter(is_new).cloned();
            signers.extend(own);
            signers
        };
        let known = match installed {
            Some(file) => Some(installed::from_file(file)?),
            // The store is not opened in vain: a server cannot start meanwhile.
            None if self.left(signed, None).is_empty() => None,
            None => installed::from_store(config).ok(),
        };
        Ok(self.left(signed, known.as_ref()))
    }

    fn left(
        &self,
        signed: impl Fn(&[ReleaseKey]) -> Vec<ReleaseKey>,
        installed: Option<&InstalledVersions>,
    ) -> Vec<LeftBehind> {
        let statement = &self.decided.statement;
        let installed = installed.and_then(|installed| installed.of(&statement.slug));
        self.chain
            .left_behind(&statement.version, signed, self.settings, installed)
    }
}

/// What the signer reads about sites, and about keys that the package lacks.
pub(super) fn text(left: &[LeftBehind], absent: &[String]) -> String {
    let allowed = if left.iter().all(|left| left.is_allowed) {
        " (leave_behind of the entry allows it)"
    } else {
        ""
    };
    let left = left_behind::lines(left);
    let left = left
        .iter()
        .map(|line| format!("WARNING    with this signature, the release would leave {line}{allowed}\n"));
    let absent = absent.iter().map(|key| {
        format!(
            "WARNING    {} of [signing] is nowhere in the package: its client would not accept it\n",
            countersign_model::text::printable::Printable(key)
        )
    });
    left.chain(absent).collect()
}
