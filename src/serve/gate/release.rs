//! Releases of sites by their clients: whether the license allows it. The store decides about the binding.

use chrono::{DateTime, Utc};

use crate::serve::gate::Gate;
use countersign_ledger::{ReleaseRefusal, ReleaseRequest, Releaser, SiteReleaseOutcome, StoreError};
use countersign_model::entitlement::Refusal;
use countersign_model::license::{License, LicenseState};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_settings::config::LocalHosts;

/// Why a site was not released.
#[derive(Debug, thiserror::Error)]
pub enum NotReleased {
    /// The license forbids it.
    #[error("the license forbids it: {0:?}")]
    License(Refusal),
    /// The site's binding forbids it.
    #[error("the binding forbids it: {0:?}")]
    Site(ReleaseRefusal),
    /// The release could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gate {
    /// Releases a site for its client. `proof` is the hash of the secret that it sent. Returns whether the site had a seat
    /// until then.
    ///
    /// # Errors
    /// The site was not released.
    pub async fn release(
        &self,
        license: &License,
        host: &SiteHost,
        proof: Option<ReleaseHash>,
        now: DateTime<Utc>,
    ) -> Result<bool, NotReleased> {
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs.into());
        }
        match license.state(now.date_naive()) {
            // Who renews later may want to do so for another site.
            LicenseState::Active | LicenseState::Expired => {}
            LicenseState::Suspended => return Err(NotReleased::License(Refusal::LicenseSuspended)),
            LicenseState::Revoked => return Err(NotReleased::License(Refusal::LicenseRevoked)),
        }
        if self.is_exempt(host) {
            return Ok(false);
        }
        let request = ReleaseRequest {
            license: license.clone(),
            host: host.clone(),
            by: Releaser::Site {
                proof,
                most_moves: license.most_moves(self.rules.site_moves),
            },
            now,
        };
        match self.bindings.release(request).await? {
            SiteReleaseOutcome::Released => Ok(true),
            SiteReleaseOutcome::AlreadyReleased => Ok(false),
            SiteReleaseOutcome::Refused(refusal) => Err(NotReleased::Site(refusal)),
        }
    }

    /// Whether a host needs no seat, because only its own network can reach it.
    pub(super) fn is_exempt(&self, host: &SiteHost) -> bool {
        self.rules.local_hosts == LocalHosts::Allow && host.is_local()
    }
}
