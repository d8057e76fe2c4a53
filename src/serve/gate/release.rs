//! Releases and moves of sites by their clients: whether the license allows it. The store decides about the binding.

use chrono::{DateTime, Utc};

use crate::serve::gate::{Decision, Gate, LicenseRequest, SentHashes};
use countersign_ledger::{ReleaseRefusal, ReleaseRequest, Releaser, SiteReleaseOutcome, StoreError, Successor};
use countersign_model::entitlement::{self, Refusal};
use countersign_model::license::{License, LicenseState};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_model::statement::Verdict;
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
        let by = Releaser::Site {
            proof,
            most_moves: license.most_moves(self.rules.site_moves),
            successor: None,
        };
        self.leave(license, host, by, now).await
    }

    /// Frees the seat of a site for the license's customer, who is signed in, or gives it to `successor` in the same event. It counts
    /// as a move. Returns whether anything changed.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(in crate::serve) async fn release_for_customer(
        &self,
        license: &License,
        host: &SiteHost,
        successor: Option<SiteHost>,
        now: DateTime<Utc>,
    ) -> Result<bool, NotReleased> {
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs.into());
        }
        let may = match license.state(now.date_naive()) {
            LicenseState::Active => Ok(()),
            LicenseState::Expired if successor.is_none() => Ok(()),
            LicenseState::Expired => Err(Refusal::LicenseExpired),
            LicenseState::Suspended => Err(Refusal::LicenseSuspended),
            LicenseState::Revoked => Err(Refusal::LicenseRevoked),
        };
        may.map_err(NotReleased::License)?;
        let by = Releaser::Customer {
            most_moves: license.most_moves(self.rules.site_moves),
            successor: successor.map(|host| Successor {
                host,
                release_hash: None,
                staging: self.rules.staging.clone(),
            }),
        };
        self.leave(license, host, by, now).await
    }

    /// Gives the seat of the site `from` to the host that asks, in one event. `proof` is the hash of the secret that `from` has, and
    /// the secret of `release_hash` then releases the new binding. Only an active license moves. The answer is that of a validation,
    /// and whether the site moved just now. A host that needs no seat takes none, and gives none.
    ///
    /// # Errors
    /// Nothing was changed.
    pub async fn move_site(
        &self,
        license_request: &LicenseRequest<'_>,
        from: &SiteHost,
        proof: Option<ReleaseHash>,
        release_hash: Option<ReleaseHash>,
    ) -> Result<(Decision, bool), NotReleased> {
        let LicenseRequest {
            id,
            license,
            host,
            check_in,
        } = license_request;
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs.into());
        }
        let license =
            entitlement::require_active(*license, check_in.time.date_naive()).map_err(NotReleased::License)?;
        if self.is_exempt(from) || self.is_exempt(host) {
            let decision = self
                .validate(
                    license_request,
                    SentHashes {
                        release_hash,
                        proof: None,
                    },
                )
                .await?;
            return Ok((decision, false));
        }
        let successor = Successor {
            host: (*host).clone(),
            release_hash,
            staging: self.rules.staging.clone(),
        };
        let by = Releaser::Site {
            proof,
            most_moves: license.most_moves(self.rules.site_moves),
            successor: Some(successor),
        };
        let has_moved = self.leave(license, from, by, check_in.time).await?;
        self.bindings.report(id, &self.bindings.of(id), host, check_in);
        let decision = Decision {
            verdict: Verdict::Ok,
            bound_domain: None,
            new_claim: None,
        };
        Ok((decision, has_moved))
    }

    async fn leave(
        &self,
        license: &License,
        host: &SiteHost,
        by: Releaser,
        now: DateTime<Utc>,
    ) -> Result<bool, NotReleased> {
        let request = ReleaseRequest {
            license: license.clone(),
            host: host.clone(),
            by,
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
