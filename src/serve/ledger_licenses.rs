//! Changes one license of the ledger, or the bindings of one that a file declares, or adopts one: looks it up, and has the ledger's
//! thread decide.
//!
//! The management API does so for programs, and the admin socket for commands.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::Utc;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::serve::found_license::{self, ChangeError, FoundLicense};
use countersign_ledger::{
    AdoptedStep, AdoptionRequest, ChangeBasis, ChangeOutcome, ChangeRefusal, Ledger, LedgerChange, LedgerLicense,
    LedgerLook, ReleaseRefusal, ReleaseRequest, Releaser, SiteReleaseOutcome, StoreError,
};
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::remarks::{Author, NamedText, NewRemarks};
use countersign_model::site_host::SiteHost;
use countersign_model::staging_hosts::StagingRule;
use countersign_registry::Registry;
use countersign_settings::keys::license_secrets::NewOrigin;

/// The most sites to release at once. They share commits.
const AT_ONCE: usize = 256;

/// Which revision a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// Whichever it has.
    Any,
    /// This one.
    Only(u32),
}

impl ExpectedRevision {
    fn only(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::Only(revision) => Some(revision),
        }
    }
}

/// Who changes a license, and what is noted with the change.
#[derive(Clone, Debug)]
pub struct Changer {
    /// The token, the shop or the command.
    pub scope: Arc<ChangeScope>,
    /// The person, and why.
    pub author: Author,
    /// What is noted of the license.
    pub remarks: NewRemarks,
}

impl From<Arc<ChangeScope>> for Changer {
    fn from(scope: Arc<ChangeScope>) -> Self {
        Self {
            scope,
            author: Author::default(),
            remarks: NewRemarks::default(),
        }
    }
}

/// Why a license of the ledger was not found or not changed.
#[derive(Debug, thiserror::Error)]
pub enum LicenseChangeError {
    /// Nobody has this license.
    #[error("there is no license with this id")]
    NoSuchLicense,
    /// It shall be adopted, and no file that the server has in force declares it.
    #[error("no file declares the license")]
    NotDeclared,
    /// It shall be adopted, and the registry in force grants something else than the file that was read for the order.
    #[error("the registry in force grants something else: have the server reload its files first")]
    OtherGrant,
    /// It shall be adopted, and the ledger has it already, issued or adopted with another grant.
    #[error("the ledger has the license already")]
    InLedger,
    /// It was changed since.
    #[error("the license was changed since")]
    Revised,
    /// The license does not allow the step.
    #[error(transparent)]
    Step(#[from] StepRefusal),
    /// A file declares it, or the ledger could not be written.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A file binds the site.
    #[error("{} binds {host} (line {line}): remove it from `hosts` there", file.display())]
    Listed {
        /// The site.
        host: SiteHost,
        /// The file.
        file: PathBuf,
        /// The line of the license, from 1.
        line: usize,
    },
    /// The ledger refused the change.
    #[error("the license has too many modules, features or hosts")]
    Refused(ChangeRefusal),
}

impl From<StoreError> for LicenseChangeError {
    fn from(error: StoreError) -> Self {
        Self::Change(error.into())
    }
}

/// Reads what other nodes appended.
pub async fn refresh(bindings: &Ledger) -> Result<(), StoreError> {
    match bindings.refresh(LedgerLook::Read) {
        Some(refresh) => refresh.await,
        None => Ok(()),
    }
}

/// The license of the ledger with this id.
///
/// # Errors
/// There is none, or a file declares it.
pub async fn find(registry: &Registry, bindings: &Ledger, id: &LicenseId) -> Result<LedgerLicense, LicenseChangeError> {
    if bindings.issued(id).is_none() {
        // Another node may have issued or adopted it a moment ago.
        refresh(bindings).await?;
    }
    match found_license::find(registry, bindings, id) {
        None => Err(LicenseChangeError::NoSuchLicense),
        Some(FoundLicense::Ledger(issued)) => Ok(issued),
        Some(FoundLicense::Declared(_)) => Err(declared_error(registry, id)),
    }
}

/// The error of a change to a license that a file declares.
fn declared_error(registry: &Registry, id: &LicenseId) -> LicenseChangeError {
    match registry.place(id) {
        Some((file, line)) => {
            let file = file.to_owned();
            ChangeError::Declared { file, line }.into()
        }
        None => LicenseChangeError::NoSuchLicense,
    }
}

/// Who adopts declared licenses, and how.
#[derive(Clone, Debug)]
pub struct Adopting<'a> {
    /// The [digest](License::grant_digest) of the grant that the person who asks has seen.
    pub grant: Hex128,
    /// The note of the declaration.
    pub note: Option<NamedText>,
    /// The server's setting about staging copies.
    pub staging: StagingRule,
    /// Who asks for it.
    pub scope: &'a Arc<ChangeScope>,
    /// The person who asks for it, and why.
    pub author: Author,
}

/// Takes a license that a file declares into the ledger, and what follows with it in one line. Where the ledger has the license
/// already, what follows happens to it as it is there. Returns the license as it is then, or the one that takes its place, and
/// whether anything changed.
///
/// # Errors
/// No file declares the license, the file grants something else, what follows is not possible, or nothing was written.
pub async fn adopt(
    registry: &Registry,
    bindings: &Ledger,
    Adopting {
        grant,
        note,
        staging,
        scope,
        author,
    }: Adopting<'_>,
    id: LicenseId,
    then: Option<AdoptedStep>,
) -> Result<(Arc<IssuedLicense>, bool), LicenseChangeError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
    }
    if then.is_none()
        && let Some(issued) = bindings.issued(&id)
        && issued.adopted_grant() == Some(grant)
    {
        return Ok((Arc::new(issued.clone()), false));
    }
    let declared = registry.license(&id).ok_or(LicenseChangeError::NotDeclared)?;
    if declared.grant_digest() != grant {
        return Err(LicenseChangeError::OtherGrant);
    }
    let request = AdoptionRequest {
        declared: declared.clone(),
        note,
        staging,
        then,
        scope: Arc::clone(scope),
        author,
        now: Utc::now(),
    };
    match bindings.adopt(request).await? {
        ChangeOutcome::Recorded(issued) => {
            let new = (issued.license.id != id).then(|| issued.license.id.log_tag());
            tracing::info!(license = id.log_tag(), by = %scope, new, "adopted");
            Ok((issued, true))
        }
        ChangeOutcome::Repeated(issued) => Ok((issued, false)),
        ChangeOutcome::Refused(ChangeRefusal::Step(refusal)) => Err(refusal.into()),
        ChangeOutcome::Refused(ChangeRefusal::Revoked) => Err(StepRefusal::Revoked.into()),
        ChangeOutcome::Refused(ChangeRefusal::Exists) => Err(LicenseChangeError::InLedger),
        ChangeOutcome::Refused(refusal) => Err(LicenseChangeError::Refused(refusal)),
    }
}

/// Gives a license a new key: the new license grants the same, and the old one is revoked in the same commit. A retry with the
/// same key of the request finds both.
///
/// # Errors
/// There is no such license, a file declares it, or nothing was written.
pub async fn rekey(
    registry: &Registry,
    bindings: &Ledger,
    new: &NewOrigin,
    id: LicenseId,
    expected: ExpectedRevision,
    author: Author,
) -> Result<ChangeOutcome, LicenseChangeError> {
    let old = find(registry, bindings, &id).await?;
    let change = LedgerChange {
        remarks: NewRemarks::default(),
        author,
        license: License {
            id: new.key.id(),
            ..old.license.clone()
        },
        reference: None,
        scope: Arc::clone(&new.origin.scope),
        status_by: None,
        now: Utc::now(),
        basis: ChangeBasis::Rekey {
            origin: new.origin.clone(),
            retired: new.retired.clone(),
            old: id,
            revision: expected.only(),
        },
    };
    let outcome = found_license::change(registry, bindings, change).await?;
    if matches!(outcome, ChangeOutcome::Recorded(_)) {
        tracing::info!(license = id.log_tag(), by = %new.origin.scope, new = new.key.id().log_tag(), "rekeyed");
    }
    Ok(outcome)
}

/// Takes a step; returns the license as it is then, and whether it changed. What is so already is not written again. The
/// ledger's thread decides, so that nobody gets or loses a seat meanwhile.
///
/// # Errors
/// The step is not possible, or nothing was written.
pub async fn apply(
    registry: &Registry,
    bindings: &Ledger,
    by: &Changer,
    id: LicenseId,
    expected: ExpectedRevision,
    step: &LicenseStep,
) -> Result<(Arc<IssuedLicense>, bool), LicenseChangeError> {
    let current = find(registry, bindings, &id).await?;
    let change = LedgerChange {
        remarks: by.remarks.clone(),
        author: by.author.clone(),
        license: current.license.clone(),
        reference: None,
        scope: Arc::clone(&by.scope),
        status_by: None,
        now: Utc::now(),
        basis: ChangeBasis::Step {
            step: step.clone(),
            revision: expected.only(),
        },
    };
    match found_license::change(registry, bindings, change).await? {
        ChangeOutcome::Recorded(issued) => {
            tracing::info!(license = id.log_tag(), by = %by.scope, revision = issued.revision, "changed");
            Ok((issued, true))
        }
        ChangeOutcome::Repeated(issued) => Ok((issued, false)),
        ChangeOutcome::Refused(ChangeRefusal::Step(refusal)) => Err(refusal.into()),
        ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => Err(LicenseChangeError::Revised),
        ChangeOutcome::Refused(refusal) => Err(LicenseChangeError::Refused(refusal)),
    }
}

/// Releases or moves sites of a license that a file declares, in the ledger. Returns whether anything changed.
///
/// # Errors
/// The step is not possible, or nothing was written. Of several sites, some may be released.
pub async fn change_bindings(
    registry: &Registry,
    bindings: &Ledger,
    license: &License,
    step: &LicenseStep,
) -> Result<bool, LicenseChangeError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
    }
    if license.status == LicenseStatus::Revoked {
        return Err(StepRefusal::Revoked.into());
    }
    let listed = |host: &SiteHost| match registry.place(&license.id) {
        Some((file, line)) => LicenseChangeError::Listed {
            host: host.clone(),
            file: file.to_owned(),
            line,
        },
        None => LicenseChangeError::NoSuchLicense,
    };
    let mut by = Releaser::Vendor {
        successor: None,
        staging: StagingRule::NONE,
    };
    let hosts = match step {
        LicenseStep::ReleaseHost(host) => vec![host.clone()],
        LicenseStep::ReleaseOne if license.sites != SiteLimit::DEFAULT => return Err(StepRefusal::WhichSite.into()),
        LicenseStep::ReleaseOne | LicenseStep::ReleaseAll => {
            refresh(bindings).await?;
            if let Some(host) = license.details.hosts.first() {
                return Err(listed(host));
            }
            let bound = bindings.of(&license.id);
            let held = bound.iter().filter(|binding| !license.is_void(binding));
            held.map(|binding| binding.host.clone()).collect()
        }
        LicenseStep::Move { from, to, staging } => {
            by = Releaser::Vendor {
                successor: Some(to.clone()),
                staging: staging.clone(),
            };
            vec![from.clone()]
        }
        LicenseStep::Renew(_)
        | LicenseStep::Suspend
        | LicenseStep::Resume
        | LicenseStep::Revoke
        | LicenseStep::Edit(_) => {
            return Err(declared_error(registry, &license.id));
        }
    };
    let release = async |host: SiteHost| {
        let request = ReleaseRequest {
            license: license.clone(),
            host: host.clone(),
            by: by.clone(),
            now: Utc::now(),
        };
        match bindings.release(request).await? {
            SiteReleaseOutcome::Released => {
                tracing::info!(license = license.id.log_tag(), by = "operator:cli", site = %host, "released");
                Ok(true)
            }
            SiteReleaseOutcome::AlreadyReleased => Ok(false),
            SiteReleaseOutcome::Refused(ReleaseRefusal::BoundByVendor) => Err(listed(&host)),
            SiteReleaseOutcome::Refused(ReleaseRefusal::NoSeat) => Err(StepRefusal::NoSeat.into()),
            SiteReleaseOutcome::Refused(_) => Err(StepRefusal::NotBound.into()),
        }
    };
    stream::iter(hosts)
        .map(release)
        .buffer_unordered(AT_ONCE)
        .try_fold(false, async |changed, released| Ok(changed || released))
        .await
}
