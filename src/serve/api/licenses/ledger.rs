//! Changes of one license of the ledger: the state of the server goes in, and a problem comes out.

use std::sync::Arc;

use crate::serve::api::licenses::caller::Caller;
use crate::serve::found_license::ChangeError;
use crate::serve::ledger_licenses::{self, Changer, ExpectedRevision, LicenseChangeError};
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::{ChangeRefusal, LedgerLicense};
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license::Modules;
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, StepRefusal};

/// The license with this id; a problem if there is none, or if a file declares it.
pub(super) async fn find(service: &Service, id: &LicenseId) -> Result<LedgerLicense, Problem> {
    let snapshot = service.gate.snapshot();
    let found = ledger_licenses::find(&snapshot.registry, service.gate.bindings(), id).await;
    found.map_err(problem)
}

/// Takes a step; returns the license as it is then.
pub(super) async fn apply(
    service: &Service,
    by: &Changer,
    id: LicenseId,
    expected: ExpectedRevision,
    step: &LicenseStep,
) -> Result<Arc<IssuedLicense>, Problem> {
    let snapshot = service.gate.snapshot();
    let bindings = service.gate.bindings();
    let applied = ledger_licenses::apply(&snapshot.registry, bindings, by, id, expected, step).await;
    applied.map(|(issued, _)| issued).map_err(problem)
}

pub(super) fn problem(error: LicenseChangeError) -> Problem {
    match error {
        LicenseChangeError::NoSuchLicense => Problem::NoSuchLicense,
        LicenseChangeError::Revised => Problem::LicenseRevised,
        LicenseChangeError::Change(error) => changed_nothing(error),
        LicenseChangeError::Refused(refusal) => refused(refusal),
        LicenseChangeError::Step(refusal) => step_refused(refusal),
        LicenseChangeError::Listed { .. }
        | LicenseChangeError::NotDeclared
        | LicenseChangeError::OtherGrant
        | LicenseChangeError::InLedger => Problem::Conflict(error.to_string()),
    }
}

fn step_refused(refusal: StepRefusal) -> Problem {
    match refusal {
        StepRefusal::Revoked => Problem::Conflict("This license is revoked, which cannot be undone.".to_owned()),
        StepRefusal::Past(_) => {
            Problem::Malformed("'expires' is past. Suspend or revoke the license to withdraw it.".to_owned())
        }
        StepRefusal::NotBound => {
            Problem::Conflict("This license is not bound to the site in 'host', and never was.".to_owned())
        }
        StepRefusal::NoSeat | StepRefusal::ShopSuspended(_) => Problem::Conflict(refusal.to_string()),
        StepRefusal::WhichSite => Problem::Malformed(
            "This license is for more than one site. Send 'host', or 'all' to release all of them.".to_owned(),
        ),
    }
}

/// The problem of a change that was not made.
pub(super) fn changed_nothing(error: ChangeError) -> Problem {
    match error {
        ChangeError::Declared { file, line } => {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Problem::Conflict(format!(
                "A file of the registry declares this license, {name}:{line}. Change it there."
            ))
        }
        ChangeError::Store(error) => error.into(),
    }
}

/// The problem of a refused change.
pub(super) fn refused(refusal: ChangeRefusal) -> Problem {
    match refusal {
        ChangeRefusal::OtherRequest => {
            Problem::Conflict("Another request had this 'Idempotency-Key'. Use a new one for each request.".to_owned())
        }
        ChangeRefusal::Exists => Problem::Conflict("There is a license with this id.".to_owned()),
        ChangeRefusal::Unknown => Problem::NoSuchLicense,
        ChangeRefusal::Revised { .. } => Problem::LicenseRevised,
        ChangeRefusal::Step(refusal) => step_refused(refusal),
        ChangeRefusal::Revoked => Problem::Conflict("This license is revoked, which cannot be undone.".to_owned()),
        ChangeRefusal::TooLong => {
            Problem::Malformed("The license has too many modules, features or hosts: use shorter lists.".to_owned())
        }
    }
}

/// Warns in the log of a license with a module that no plugin of the registry has: probably a typing error of a program. The
/// request is not refused: a plugin may get its entry later, and a module may be meant to have no plugin.
pub(super) fn warn_of_unsold_modules(service: &Service, caller: &Caller, id: &LicenseId, modules: &Modules) {
    let snapshot = service.gate.snapshot();
    let sold = snapshot.registry.sold_modules();
    let unsold: Vec<_> = sold
        .unsold(modules)
        .into_iter()
        .map(|module| format!("{module}{}", sold.did_you_mean(module)))
        .collect();
    if !unsold.is_empty() {
        tracing::warn!(
            license = id.log_tag(),
            by = %caller.scope,
            modules = unsold.join(", "),
            "no plugin of the registry has these modules of the license"
        );
    }
}
