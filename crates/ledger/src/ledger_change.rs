//! Changes to licenses of the ledger: what is asked for, and the result.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, IssueOrigin, IssuedLicense};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::stored_text::OrderReference;

/// A license to issue or to change.
#[derive(Clone, Debug)]
pub struct LedgerChange {
    /// The license after the change, without its note and remarks. Of a step, and where it replaces another license, only its id
    /// is used.
    pub license: License,
    /// What the change notes beside the terms.
    pub remarks: NewRemarks,
    /// The shop's order, for a license that is issued. A later change does not alter it.
    pub reference: Option<OrderReference>,
    /// Who asks for it.
    pub scope: Arc<ChangeScope>,
    /// The person who asks for it, and why.
    pub author: Author,
    /// The scope that suspends or revokes the license. `None` if the license is active, or if its former state names the scope.
    pub status_by: Option<Arc<ChangeScope>>,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
    /// Whether it is new.
    pub basis: ChangeBasis,
}

impl From<IssueOrigin> for ChangeBasis {
    fn from(origin: IssueOrigin) -> Self {
        let retired = Vec::new();
        Self::Issue { origin, retired }
    }
}

/// What a change is based on.
#[derive(Clone, Debug)]
pub enum ChangeBasis {
    /// Nothing: the license is issued.
    Issue {
        /// Where it comes from.
        origin: IssueOrigin,
        /// What its origin was, if the same request issued it with a secret that is retired by now.
        retired: Vec<IssueOrigin>,
    },
    /// Another license, which is revoked: the new one grants the same, and has a key of its own.
    Rekey {
        /// Where the new license comes from.
        origin: IssueOrigin,
        /// As above.
        retired: Vec<IssueOrigin>,
        /// The license that is replaced.
        old: LicenseId,
        /// The revision that it must have; `None` for any.
        revision: Option<u32>,
    },
    /// This revision of the license.
    Revision(u32),
    /// The license and its bindings as they are when the ledger's thread decides. Seats change hands in this way only.
    Step {
        /// What happens to it.
        step: LicenseStep,
        /// The revision that it must have; `None` for any.
        revision: Option<u32>,
    },
    /// A line that the ledger lost: at the time of the change, the license with this origin had this revision.
    Lost(IssueOrigin, u32),
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It is in force, durably.
    Recorded(Arc<IssuedLicense>),
    /// The same request issued this license before, or the license is so already. It is as it is now.
    Repeated(Arc<IssuedLicense>),
    /// Nothing was changed.
    Refused(ChangeRefusal),
}

/// Why a license was not issued or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// Another request has the same idempotency key.
    OtherRequest,
    /// There is a license with this id.
    Exists,
    /// The ledger has no license with this id.
    Unknown,
    /// The license has another revision by now.
    Revised {
        /// Its revision.
        revision: u32,
    },
    /// The license does not allow the step.
    Step(StepRefusal),
    /// The license that shall be replaced is revoked.
    Revoked,
    /// It does not fit a line of the ledger: it has too many modules, features or hosts.
    TooLong,
}
